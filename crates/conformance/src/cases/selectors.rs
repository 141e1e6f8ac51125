use super::fixtures::{bound_pod, labelled, lease, node, pod, secret};
use crate::{Ctx, Look, Outcome};
use serde_json::json;

area!("label selector":
    equality,
    inequality_holds_for_absent_labels,
    sets,
    presence_and_absence,
    numbers_are_compared,
    several_must_all_hold,
    invalid_is_refused,
    invalid_value_is_refused;
"field selector":
    name_and_namespace,
    several_and_negated,
    pods_by_node_and_phase,
    nodes_by_unschedulable,
    secrets_by_type,
    events_by_involved_object,
    unsupported_field_is_refused,
    invalid_is_refused_for_fields,
    labels_and_fields_must_both_fit,
);

async fn sample(c: &Ctx) -> Outcome {
    let secrets = c.core("secrets");
    c.create(&secrets, &labelled(secret("a"), &json!({"tier": "front", "weight": "5"}))).await?;
    c.create(&secrets, &labelled(secret("b"), &json!({"tier": "back", "weight": "20"}))).await?;
    c.create(&secrets, &labelled(secret("c"), &json!({"tier": "db"}))).await?;
    c.create(&secrets, &secret("d")).await?;
    Ok(())
}

async fn chosen(c: &Ctx, selector: &str, expected: &[&str]) -> Outcome {
    let path = c.core(&format!("secrets?labelSelector={selector}"));
    c.get(&path).await?.ok(200)?.names_are(expected)
}

async fn equality(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "tier%3Dfront", &["a"]).await?;
    chosen(&c, "tier%3D%3Dback", &["b"]).await?;
    chosen(&c, "tier%3Dnothing", &[]).await
}

async fn inequality_holds_for_absent_labels(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "tier!%3Dfront", &["b", "c", "d"]).await
}

async fn sets(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "tier%20in%20(front,db)", &["a", "c"]).await?;
    chosen(&c, "tier%20notin%20(front,db)", &["b", "d"]).await
}

async fn presence_and_absence(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "weight", &["a", "b"]).await?;
    chosen(&c, "!weight", &["c", "d"]).await?;
    chosen(&c, "", &["a", "b", "c", "d"]).await
}

async fn numbers_are_compared(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "weight%3E10", &["b"]).await?;
    chosen(&c, "weight%3C10", &["a"]).await
}

async fn several_must_all_hold(c: Ctx) -> Outcome {
    sample(&c).await?;
    chosen(&c, "weight,tier!%3Dfront", &["b"]).await
}

async fn invalid_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?labelSelector=a%20b%20c")).await?;
    reply.refused_about(
        400,
        "BadRequest",
        "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
    )?;
    Ok(())
}

async fn invalid_value_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?labelSelector=a%3D-bad-")).await?;
    reply.refused_about(400, "BadRequest", "Invalid value: \"-bad-\"")?;
    Ok(())
}

async fn name_and_namespace(c: Ctx) -> Outcome {
    sample(&c).await?;
    c.get(&c.core("secrets?fieldSelector=metadata.name%3Db")).await?.ok(200)?.names_are(&["b"])?;
    let path = format!("/api/v1/secrets?fieldSelector=metadata.namespace%3D{},metadata.name%3Dc", c.ns);
    c.get(&path).await?.ok(200)?.names_are(&["c"])?;
    c.create(&c.group("coordination.k8s.io/v1", "leases"), &lease("x")).await?;
    let path = c.group("coordination.k8s.io/v1", "leases?fieldSelector=metadata.name%3Dx");
    c.get(&path).await?.ok(200)?.names_are(&["x"])
}

async fn several_and_negated(c: Ctx) -> Outcome {
    sample(&c).await?;
    let path = c.core("secrets?fieldSelector=metadata.name!%3Db,metadata.name!%3D%64");
    c.get(&path).await?.ok(200)?.names_are(&["a", "c"])
}

async fn pods_by_node_and_phase(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("loose")).await?;
    c.create(&c.core("pods"), &bound_pod("bound")).await?;
    c.merge_patch(&c.core("pods/bound/status"), &json!({"status": {"phase": "Running"}})).await?.ok(200)?;
    for (selector, expected) in [
        ("spec.nodeName%3Dno-such-node", vec!["bound"]),
        ("spec.nodeName%3D", vec!["loose"]),
        ("status.phase%3DPending", vec!["loose"]),
        ("status.phase!%3DPending", vec!["bound"]),
        ("spec.restartPolicy%3DAlways", vec!["bound", "loose"]),
        ("spec.schedulerName%3Ddefault-scheduler", vec!["bound", "loose"]),
    ] {
        c.get(&c.core(&format!("pods?fieldSelector={selector}"))).await?.ok(200)?.names_are(&expected)?;
    }
    c.delete_with(&c.core("pods/bound"), &json!({"gracePeriodSeconds": 0})).await?.ok(200)?;
    Ok(())
}

async fn nodes_by_unschedulable(c: Ctx) -> Outcome {
    let labels = json!({"case": c.ns});
    let (one, two) = (format!("{}-1", c.ns), format!("{}-2", c.ns));
    c.create_shared("/api/v1/nodes", &labelled(node(&one), &labels)).await?;
    let mut cordoned = labelled(node(&two), &labels);
    cordoned["spec"] = json!({"unschedulable": true});
    c.create_shared("/api/v1/nodes", &cordoned).await?;
    let path = format!("/api/v1/nodes?labelSelector=case%3D{}&fieldSelector=spec.unschedulable", c.ns);
    c.get(&format!("{path}%3Dtrue")).await?.ok(200)?.names_are(&[&two])?;
    c.get(&format!("{path}%3Dfalse")).await?.ok(200)?.names_are(&[&one])
}

async fn secrets_by_type(c: Ctx) -> Outcome {
    sample(&c).await?;
    let mut typed = secret("typed");
    typed["type"] = json!("example.com/special");
    c.create(&c.core("secrets"), &typed).await?;
    c.get(&c.core("secrets?fieldSelector=type%3Dexample.com/special")).await?.ok(200)?.names_are(&["typed"])
}

async fn events_by_involved_object(c: Ctx) -> Outcome {
    for (name, about) in [("e1", "one"), ("e2", "two")] {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "reason": "Tested", "type": "Normal",
            "involvedObject": {"kind": "Pod", "namespace": c.ns, "name": about, "uid": format!("uid-{about}")}});
        c.create(&c.core("events"), &event).await?;
    }
    let query = "fieldSelector=involvedObject.name%3Dtwo,involvedObject.uid%3Duid-two,involvedObject.kind%3DPod,reason%3DTested,type%3DNormal";
    c.get(&c.core(&format!("events?{query}"))).await?.ok(200)?.names_are(&["e2"])
}

async fn unsupported_field_is_refused(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?fieldSelector=data.key%3Dx")).await?;
    reply.refused(400, "BadRequest", "field label not supported: data.key")?;
    let reply = c.get(&c.core("pods?fieldSelector=spec.hostname%3Dx&labelSelector=a%3Db")).await?;
    reply.refused_about(400, "BadRequest", "field label not supported: spec.hostname")?;
    Ok(())
}

async fn invalid_is_refused_for_fields(c: Ctx) -> Outcome {
    let reply = c.get(&c.core("secrets?fieldSelector=nonsense")).await?;
    reply.refused_about(400, "BadRequest", "invalid selector: 'nonsense'; can't understand 'nonsense'")?;
    Ok(())
}

async fn labels_and_fields_must_both_fit(c: Ctx) -> Outcome {
    sample(&c).await?;
    let reply =
        c.get(&c.core("secrets?fieldSelector=metadata.name%3Da&labelSelector=tier%3Dback")).await?.ok(200)?;
    reply.names_are(&[])
}

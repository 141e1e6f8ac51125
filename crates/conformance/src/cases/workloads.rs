use super::fixtures::deployment;
use crate::{Ctx, Look, Outcome};
use serde_json::{Value, json};

area!("deployment":
    is_filled_with_defaults,
    selector_must_match_the_template,
    mistakes_are_all_told,
    recreate_takes_no_rolling_update,
    scale_subresource,
    scale_is_validated,
    status_by_its_subresource;
"replica set":
    defaults_of_a_replica_set,
    scale_of_a_replica_set,
    selector_of_a_replica_set_is_immutable;
"stateful set":
    defaults_of_a_stateful_set,
    most_of_a_stateful_set_is_immutable,
    claim_templates_are_defaulted;
"daemon set":
    defaults_of_a_daemon_set,
    template_generation_is_counted;
"job":
    defaults_of_a_job,
    restart_policy_must_be_chosen,
    a_success_policy_needs_indexes,
    template_of_a_job_is_immutable;
"disruption budget":
    either_minimum_or_maximum,
    status_starts_empty,
    numbers_are_validated,
    spec_can_change;
"storage":
    claim_defaults,
    claim_spec_is_immutable,
    volume_defaults,
    volume_source_is_immutable,
    volume_needs_a_source,
    storage_class_defaults,
    storage_class_is_immutable,
    empty_class_name_stays,
    default_class_fills_claims,
    attachment_status_by_its_subresource,
    attachment_spec_is_immutable,
    csi_node_drivers,
);

fn pods(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]}})
}

fn workload(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods(name)}})
}

async fn is_filled_with_defaults(c: Ctx) -> Outcome {
    let mut body = workload("Deployment", "a");
    body["spec"]["paused"] = json!(true);
    let made = c.create(&c.group("apps/v1", "deployments?dryRun=All"), &body).await?;
    made.is("/spec/replicas", 1)?;
    made.is(
        "/spec/strategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}),
    )?;
    made.is("/spec/revisionHistoryLimit", 10)?;
    made.is("/spec/progressDeadlineSeconds", 600)?;
    made.is("/spec/template/spec/restartPolicy", "Always")?;
    made.is("/spec/template/spec/containers/0/imagePullPolicy", "IfNotPresent")?;
    made.lacks("/spec/template/spec/tolerations")?;
    made.is("/status", json!({}))
}

async fn selector_must_match_the_template(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    let reply = c.post(&c.group("apps/v1", "deployments"), &body).await?;
    reply.refused(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not match template `labels`",
    )?;
    Ok(())
}

async fn mistakes_are_all_told(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["replicas"] = json!(-1);
    body["spec"]["selector"] = json!({});
    body["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let reply = c.post(&c.group("apps/v1", "deployments"), &body).await?;
    reply.refused_about(422, "Invalid", "Deployment.apps \"a\" is invalid: [")?;
    reply.causes(&[
        ("FieldValueInvalid", "spec.replicas", "Invalid value: -1: must be greater than or equal to 0"),
        ("FieldValueInvalid", "spec.selector", "Invalid value: {}: empty selector is invalid for deployment"),
        (
            "FieldValueNotSupported",
            "spec.template.spec.restartPolicy",
            "Unsupported value: \"Never\": supported values: \"Always\"",
        ),
    ])?;
    Ok(())
}

async fn recreate_takes_no_rolling_update(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["strategy"] = json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}});
    let reply = c.post(&c.group("apps/v1", "deployments"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    )?;
    Ok(())
}

async fn scale_subresource(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["paused"] = json!(true);
    let made = c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let path = c.group("apps/v1", "deployments/a");
    let mut scale = c.get(&format!("{path}/scale")).await?.ok(200)?.json;
    scale.is("/kind", "Scale")?;
    scale.is("/apiVersion", "autoscaling/v1")?;
    scale.is("/metadata/uid", made["metadata"]["uid"].clone())?;
    scale.is("/spec", json!({}))?;
    scale.is("/status", json!({"replicas": 0, "selector": "app=a"}))?;
    scale["spec"]["replicas"] = json!(3);
    c.put(&format!("{path}/scale"), &scale).await?.ok(200)?.is("/spec/replicas", 3)?;
    let read = c.get(&path).await?.ok(200)?;
    read.is("/spec/replicas", 3)?;
    read.is("/metadata/generation", 2)?;
    let reply = c.put(&format!("{path}/scale"), &scale).await?;
    reply.refused_about(409, "Conflict", "the object has been modified")?;
    c.merge_patch(&format!("{path}/scale"), &json!({"spec": {"replicas": 0}})).await?.ok(200)?;
    c.get(&path).await?.is("/spec/replicas", 0)
}

async fn scale_is_validated(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "deployments"), &deployment("a")).await?;
    let reply =
        c.merge_patch(&c.group("apps/v1", "deployments/a/scale"), &json!({"spec": {"replicas": -2}})).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.replicas: Invalid value: -2: must be greater than or equal to 0",
    )?;
    let reply = c.get(&c.group("apps/v1", "deployments/none/scale")).await?;
    reply.refused_about(404, "NotFound", "\"none\" not found")?;
    Ok(())
}

async fn status_by_its_subresource(c: Ctx) -> Outcome {
    let mut body = deployment("a");
    body["spec"]["paused"] = json!(true);
    c.create(&c.group("apps/v1", "deployments"), &body).await?;
    let patch = json!({"status": {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1, "unavailableReplicas": 1, "observedGeneration": 1}});
    let reply = c.merge_patch(&c.group("apps/v1", "deployments/a/status"), &patch).await?.ok(200)?;
    reply.is("/status/readyReplicas", 1)?;
    let patch = json!({"status": {"readyReplicas": 5}});
    let reply = c.merge_patch(&c.group("apps/v1", "deployments/a/status"), &patch).await?;
    reply.refused_about(
        422,
        "Invalid",
        "status.readyReplicas: Invalid value: 5: cannot be greater than status.replicas",
    )?;
    Ok(())
}

async fn defaults_of_a_replica_set(c: Ctx) -> Outcome {
    let made = c.create(&c.group("apps/v1", "replicasets?dryRun=All"), &workload("ReplicaSet", "a")).await?;
    made.is("/spec/replicas", 1)?;
    made.is("/status", json!({"replicas": 0}))?;
    made.is("/metadata/generation", 1)
}

async fn scale_of_a_replica_set(c: Ctx) -> Outcome {
    let mut body = workload("ReplicaSet", "a");
    body["spec"]["replicas"] = json!(0);
    c.create(&c.group("apps/v1", "replicasets"), &body).await?;
    let scale = c.get(&c.group("apps/v1", "replicasets/a/scale")).await?.ok(200)?;
    scale.is("/kind", "Scale")?;
    scale.is("/status/selector", "app=a")
}

async fn selector_of_a_replica_set_is_immutable(c: Ctx) -> Outcome {
    let mut body = workload("ReplicaSet", "a");
    body["spec"]["replicas"] = json!(0);
    let mut made = c.create(&c.group("apps/v1", "replicasets"), &body).await?;
    made["spec"]["selector"]["matchLabels"]["more"] = json!("x");
    made["spec"]["template"]["metadata"]["labels"]["more"] = json!("x");
    let reply = c.put(&c.group("apps/v1", "replicasets/a"), &made).await?;
    reply.refused_about(422, "Invalid", "spec.selector: Invalid value: ")?;
    reply.contains("/message", "field is immutable")
}

fn stateful_set(name: &str) -> Value {
    let mut body = workload("StatefulSet", name);
    body["spec"]["serviceName"] = json!(name);
    body["spec"]["replicas"] = json!(0);
    body
}

async fn defaults_of_a_stateful_set(c: Ctx) -> Outcome {
    let made = c.create(&c.group("apps/v1", "statefulsets"), &stateful_set("a")).await?;
    made.is("/spec/podManagementPolicy", "OrderedReady")?;
    made.is("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}))?;
    made.is("/spec/revisionHistoryLimit", 10)?;
    made.is(
        "/spec/persistentVolumeClaimRetentionPolicy",
        json!({"whenDeleted": "Retain", "whenScaled": "Retain"}),
    )?;
    made.is("/status/replicas", 0)?;
    made.is("/status/availableReplicas", 0)
}

async fn most_of_a_stateful_set_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.group("apps/v1", "statefulsets"), &stateful_set("a")).await?;
    let path = c.group("apps/v1", "statefulsets/a");
    let reply = c.merge_patch(&path, &json!({"spec": {"serviceName": "other"}})).await?;
    reply.refused_about(422, "Invalid", "StatefulSet.apps \"a\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")?;
    c.merge_patch(&path, &json!({"spec": {"minReadySeconds": 3}}))
        .await?
        .ok(200)?
        .is("/metadata/generation", 2)
}

async fn claim_templates_are_defaulted(c: Ctx) -> Outcome {
    let mut body = stateful_set("a");
    body["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let made = c.create(&c.group("apps/v1", "statefulsets"), &body).await?;
    made.is("/spec/volumeClaimTemplates/0/kind", "PersistentVolumeClaim")?;
    made.is("/spec/volumeClaimTemplates/0/apiVersion", "v1")?;
    made.is("/spec/volumeClaimTemplates/0/spec/volumeMode", "Filesystem")?;
    made.is("/spec/volumeClaimTemplates/0/status", json!({"phase": "Pending"}))
}

async fn defaults_of_a_daemon_set(c: Ctx) -> Outcome {
    let made = c.create(&c.group("apps/v1", "daemonsets?dryRun=All"), &workload("DaemonSet", "a")).await?;
    made.is(
        "/spec/updateStrategy",
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
    )?;
    made.is("/spec/revisionHistoryLimit", 10)?;
    made.is("/metadata/annotations", json!({"deprecated.daemonset.template.generation": "1"}))?;
    made.is("/status", json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}))
}

async fn template_generation_is_counted(c: Ctx) -> Outcome {
    let mut body = workload("DaemonSet", "a");
    body["spec"]["template"]["spec"]["nodeSelector"] = json!({"no-such-label": "x"});
    c.create(&c.group("apps/v1", "daemonsets"), &body).await?;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"again": "1"}}}}});
    let reply = c.strategic_patch(&c.group("apps/v1", "daemonsets/a"), &patch).await?.ok(200)?;
    reply.is("/metadata/generation", 2)?;
    reply.is("/metadata/annotations/deprecated.daemonset.template.generation", "2")
}

fn job(name: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"suspend": true, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/app:1"}]}}}})
}

async fn defaults_of_a_job(c: Ctx) -> Outcome {
    let made = c.create(&c.group("batch/v1", "jobs"), &job("a")).await?;
    for (field, expected) in [
        ("/spec/parallelism", json!(1)),
        ("/spec/completions", json!(1)),
        ("/spec/backoffLimit", json!(6)),
        ("/spec/completionMode", json!("NonIndexed")),
        ("/spec/manualSelector", json!(false)),
        ("/spec/podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        made.is(field, expected)?;
    }
    let uid = made.text("/metadata/uid");
    made.is("/spec/selector", json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}))?;
    let labels = json!({"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid, "job-name": "a"});
    made.is("/spec/template/metadata/labels", labels.clone())?;
    made.is("/metadata/labels", labels)
}

async fn restart_policy_must_be_chosen(c: Ctx) -> Outcome {
    let mut body = job("a");
    body["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    let reply = c.post(&c.group("batch/v1", "jobs"), &body).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
    )?;
    Ok(())
}

async fn a_success_policy_needs_indexes(c: Ctx) -> Outcome {
    let mut body = job("a");
    body["spec"]["successPolicy"] = json!({"rules": [{"succeededCount": 1}]});
    let reply = c.post(&c.group("batch/v1", "jobs?dryRun=All"), &body).await?;
    reply.refused_about(422, "Invalid", "spec.successPolicy")?.causes(&[(
        "FieldValueInvalid",
        "spec.successPolicy",
        "requires indexed completion mode",
    )])?;
    body["spec"]["completionMode"] = json!("Indexed");
    body["spec"]["completions"] = json!(1);
    c.create(&c.group("batch/v1", "jobs?dryRun=All"), &body).await?;
    Ok(())
}

async fn template_of_a_job_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.group("batch/v1", "jobs"), &job("a")).await?;
    let patch = json!({"spec": {"completions": 4}});
    let reply = c.merge_patch(&c.group("batch/v1", "jobs/a"), &patch).await?;
    reply.refused_about(422, "Invalid", "spec.completions: Invalid value: 4: field is immutable")?;
    c.merge_patch(&c.group("batch/v1", "jobs/a"), &json!({"spec": {"parallelism": 2}})).await?.ok(200)?;
    Ok(())
}

fn budget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
}

async fn either_minimum_or_maximum(c: Ctx) -> Outcome {
    let body = budget("a", &json!({"minAvailable": 1, "maxUnavailable": 1}));
    let reply = c.post(&c.group("policy/v1", "poddisruptionbudgets"), &body).await?;
    reply.refused_about(422, "Invalid", "minAvailable and maxUnavailable cannot be both set")?;
    Ok(())
}

async fn status_starts_empty(c: Ctx) -> Outcome {
    let mut body = budget("a", &json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "x"}}}));
    body["status"] = json!({"disruptionsAllowed": 5});
    let made = c.create(&c.group("policy/v1", "poddisruptionbudgets"), &body).await?;
    made.is(
        "/status",
        json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
    )?;
    made.is("/spec/maxUnavailable", "50%")?;
    made.is("/metadata/generation", 1)
}

async fn numbers_are_validated(c: Ctx) -> Outcome {
    let path = c.group("policy/v1", "poddisruptionbudgets");
    let reply = c.post(&path, &budget("a", &json!({"minAvailable": -1}))).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0",
    )?;
    let reply = c.post(&path, &budget("a", &json!({"minAvailable": "many"}))).await?;
    reply.refused_about(422, "Invalid", "spec.minAvailable: Invalid value: \"many\": a valid percent string must be a numeric string followed by an ending '%'")?;
    Ok(())
}

async fn spec_can_change(c: Ctx) -> Outcome {
    let path = c.group("policy/v1", "poddisruptionbudgets");
    c.create(&path, &budget("a", &json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}})))
        .await?;
    let reply = c.merge_patch(&format!("{path}/a"), &json!({"spec": {"minAvailable": 2}})).await?.ok(200)?;
    reply.is("/metadata/generation", 2)
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}})
}

async fn drop_protection(c: &Ctx, path: &str) -> Outcome {
    c.merge_patch(path, &json!({"metadata": {"finalizers": null}})).await?.ok(200)?;
    Ok(())
}

async fn claim_defaults(c: Ctx) -> Outcome {
    let made = c.create(&c.core("persistentvolumeclaims"), &claim("a")).await?;
    made.is("/metadata/finalizers", json!(["kubernetes.io/pvc-protection"]))?;
    made.is("/spec/volumeMode", "Filesystem")?;
    made.is("/status", json!({"phase": "Pending"}))?;
    let path = c.core("persistentvolumeclaims/a");
    c.delete(&path).await?.ok(200)?.has("/metadata/deletionTimestamp")?;
    drop_protection(&c, &path).await?;
    c.get(&path).await?.ok(404)?;
    Ok(())
}

async fn claim_spec_is_immutable(c: Ctx) -> Outcome {
    c.create(&c.core("persistentvolumeclaims"), &claim("a")).await?;
    let path = c.core("persistentvolumeclaims/a");
    let reply = c.merge_patch(&path, &json!({"spec": {"accessModes": ["ReadWriteMany"]}})).await?;
    reply.refused_about(422, "Invalid", "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")?;
    c.merge_patch(&path, &json!({"spec": {"volumeName": "some-volume"}}))
        .await?
        .ok(200)?
        .is("/spec/volumeName", "some-volume")?;
    drop_protection(&c, &path).await
}

fn volume(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "csi": {"driver": "csi.example.com", "volumeHandle": "v-1"}}})
}

async fn volume_defaults(c: Ctx) -> Outcome {
    let made = c.create_shared("/api/v1/persistentvolumes", &volume(&c.ns)).await?;
    made.is("/metadata/finalizers", json!(["kubernetes.io/pv-protection"]))?;
    made.is("/spec/persistentVolumeReclaimPolicy", "Retain")?;
    made.is("/spec/volumeMode", "Filesystem")?;
    made.is("/status/phase", "Pending")?;
    drop_protection(&c, &format!("/api/v1/persistentvolumes/{}", c.ns)).await
}

async fn volume_source_is_immutable(c: Ctx) -> Outcome {
    c.create_shared("/api/v1/persistentvolumes", &volume(&c.ns)).await?;
    let path = format!("/api/v1/persistentvolumes/{}", c.ns);
    let reply = c.merge_patch(&path, &json!({"spec": {"csi": {"volumeHandle": "v-2"}}})).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
    )?;
    drop_protection(&c, &path).await
}

async fn volume_needs_a_source(c: Ctx) -> Outcome {
    let mut body = volume(&c.ns);
    body["spec"]["csi"] = json!(null);
    let reply = c.post("/api/v1/persistentvolumes", &body).await?;
    reply.refused_about(422, "Invalid", "spec: Required value: must specify a volume type")?;
    Ok(())
}

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "csi.example.com"})
}

async fn storage_class_defaults(c: Ctx) -> Outcome {
    let made = c.create_shared(CLASSES, &class(&c.ns)).await?;
    made.is("/reclaimPolicy", "Delete")?;
    made.is("/volumeBindingMode", "Immediate")
}

async fn storage_class_is_immutable(c: Ctx) -> Outcome {
    c.create_shared(CLASSES, &class(&c.ns)).await?;
    let path = format!("{CLASSES}/{}", c.ns);
    let reply = c.merge_patch(&path, &json!({"reclaimPolicy": "Retain"})).await?;
    reply.refused_about(422, "Invalid", "reclaimPolicy: Invalid value: \"Retain\": field is immutable")?;
    let reply = c.merge_patch(&path, &json!({"provisioner": "other.example.com"})).await?;
    reply.refused_about(
        422,
        "Invalid",
        "provisioner: Invalid value: \"other.example.com\": field is immutable",
    )?;
    c.merge_patch(&path, &json!({"allowVolumeExpansion": true}))
        .await?
        .ok(200)?
        .is("/allowVolumeExpansion", true)
}

async fn default_class_fills_claims(c: Ctx) -> Outcome {
    let mut default = class(&c.ns);
    default["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    c.create_shared(CLASSES, &default).await?;
    let mut body = claim("a");
    body["spec"].as_object_mut().map(|spec| spec.remove("storageClassName"));
    // A server may take a moment to notice the new class.
    let path = c.core("persistentvolumeclaims?dryRun=All");
    for _ in 0..50 {
        if c.create(&path, &body).await?.text("/spec/storageClassName") == c.ns {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    c.create(&path, &body).await?.is("/spec/storageClassName", c.ns.clone())?;
    c.create(&path, &claim("b")).await?.is("/spec/storageClassName", "none")
}

async fn empty_class_name_stays(c: Ctx) -> Outcome {
    let mut body = claim("named");
    body["spec"]["storageClassName"] = json!("");
    let made = c.create(&c.core("persistentvolumeclaims"), &body).await?;
    made.is("/spec/storageClassName", "")?;
    drop_protection(&c, &c.core("persistentvolumeclaims/named")).await
}

const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

fn attachment(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "csi.example.com", "nodeName": "no-such-node", "source": {"persistentVolumeName": "no-such-volume"}}})
}

async fn attachment_status_by_its_subresource(c: Ctx) -> Outcome {
    let made = c.create_shared(ATTACHMENTS, &attachment(&c.ns)).await?;
    made.is("/status", json!({"attached": false}))?;
    let path = format!("{ATTACHMENTS}/{}", c.ns);
    let patch = json!({"status": {"attached": true, "attachmentMetadata": {"device": "/dev/x"}}});
    let reply = c.merge_patch(&format!("{path}/status"), &patch).await?.ok(200)?;
    reply.is("/status/attached", true)?;
    c.merge_patch(&path, &json!({"status": {"attached": false}})).await?.ok(200)?.is("/status/attached", true)
}

async fn attachment_spec_is_immutable(c: Ctx) -> Outcome {
    c.create_shared(ATTACHMENTS, &attachment(&c.ns)).await?;
    let reply =
        c.merge_patch(&format!("{ATTACHMENTS}/{}", c.ns), &json!({"spec": {"nodeName": "other"}})).await?;
    reply.refused_about(422, "Invalid", "spec: Invalid value: ")?;
    reply.contains("/message", "field is immutable")
}

async fn csi_node_drivers(c: Ctx) -> Outcome {
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let body = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": c.ns},
        "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n-1", "topologyKeys": ["zone"], "allocatable": {"count": 16}}]}});
    let made = c.create_shared(nodes, &body).await?;
    made.is("/spec/drivers/0/allocatable/count", 16)?;
    let patch = json!([{"op": "add", "path": "/spec/drivers/-", "value": {"name": "csi.example.com", "nodeID": "n-2", "topologyKeys": null}}]);
    let reply = c.json_patch(&format!("{nodes}/{}", c.ns), &patch).await?;
    reply.refused_about(422, "Invalid", "spec.drivers[1].name: Duplicate value: \"csi.example.com\"")?;
    Ok(())
}

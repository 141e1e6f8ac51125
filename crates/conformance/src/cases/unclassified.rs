//! Mistakes for which a real server has no class: it answers 500 and gives no reason, but says what is wrong.

use super::fixtures::{config_map, pod};
use crate::{Ctx, Outcome};
use serde_json::{Value, json};

area!("unclassified":
    version_that_is_no_number_for_a_get,
    version_that_is_no_number_for_a_watch,
    version_that_is_no_number_for_an_update,
    version_of_an_object_to_be_created,
    unknown_directive_of_a_patch,
    element_without_its_merge_key,
    elements_of_another_type,
    order_that_does_not_fit,
    binding_without_a_target,
    binding_to_something_else;
);

fn no_number(text: &str) -> String {
    format!("strconv.ParseUint: parsing {text:?}: invalid syntax")
}

async fn version_that_is_no_number_for_a_get(c: Ctx) -> Outcome {
    c.create(&c.core("configmaps"), &config_map("a")).await?;
    let message = format!("resourceVersion: Invalid value: \"abc\": {}", no_number("abc"));
    for name in ["a", "nothing"] {
        let reply = c.get(&c.core(&format!("configmaps/{name}?resourceVersion=abc"))).await?;
        reply.refused(500, "", &message)?;
    }
    Ok(())
}

async fn version_that_is_no_number_for_a_watch(c: Ctx) -> Outcome {
    for text in ["abc", "-1"] {
        let reply = c.get(&c.core(&format!("configmaps?watch=1&resourceVersion={text}"))).await?;
        let message = format!("resourceVersion: Invalid value: {text:?}: {}", no_number(text));
        reply.refused(500, "", &message)?;
    }
    Ok(())
}

async fn version_that_is_no_number_for_an_update(c: Ctx) -> Outcome {
    let mut object = c.create(&c.core("configmaps"), &config_map("a")).await?;
    object["metadata"]["resourceVersion"] = json!("abc");
    let path = c.core("configmaps/a");
    c.put(&path, &object).await?.refused(500, "", &no_number("abc"))?;
    let patch = json!({"metadata": {"resourceVersion": "abc"}});
    c.merge_patch(&path, &patch).await?.refused(500, "", &no_number("abc"))?;
    Ok(())
}

async fn version_of_an_object_to_be_created(c: Ctx) -> Outcome {
    let mut object = config_map("a");
    object["metadata"]["resourceVersion"] = json!("5");
    let reply = c.post(&c.core("configmaps"), &object).await?;
    reply.refused(500, "", "resourceVersion should not be set on objects to be created")?;
    Ok(())
}

/// Sends strategic merge patches to a pod, each with the message that it is refused with.
async fn refused_patches(c: &Ctx, patches: &[(Value, &str)]) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    for (patch, message) in patches {
        c.strategic_patch(&c.core("pods/a"), patch).await?.refused(500, "", message)?;
    }
    Ok(())
}

async fn unknown_directive_of_a_patch(c: Ctx) -> Outcome {
    let patches = [
        (json!({"$patch": "wrong"}), "unknown patch type: wrong in map: map[$patch:wrong]"),
        (json!({"spec": {"$patch": "wrong"}}), "unknown patch type: wrong in map: map[$patch:wrong]"),
        (
            json!({"spec": {"containers": [{"$patch": "wrong", "name": "main"}]}}),
            "unknown patch type: wrong in map: map[$patch:wrong name:main]",
        ),
    ];
    refused_patches(&c, &patches).await
}

async fn element_without_its_merge_key(c: Ctx) -> Outcome {
    let patches = [
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
    ];
    refused_patches(&c, &patches).await
}

async fn elements_of_another_type(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let patch = json!({"spec": {"containers": ["a"]}});
    let reply = c.strategic_patch(&c.core("pods/a"), &patch).await?;
    reply.refused_about(500, "", "list element types are not identical: [[map[")?;
    Ok(())
}

async fn order_that_does_not_fit(c: Ctx) -> Outcome {
    let patches = [
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "q"}], "containers": [{"name": "main"}]}}),
            "The order in patch list:\n[map[name:main]]\n doesn't match $setElementOrder list:\n[map[name:q]]\n",
        ),
        (
            json!({"metadata": {"$setElementOrder/finalizers": ["a"], "finalizers": ["b"]}}),
            "The order in patch list:\n[b]\n doesn't match $setElementOrder list:\n[a]\n",
        ),
        (json!({"spec": {"$setElementOrder/containers": ["q"]}}), "value for key 0 is not a map"),
    ];
    refused_patches(&c, &patches).await
}

fn binding(target: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": target})
}

async fn binding_without_a_target(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    for path in ["pods/a/binding", "bindings"] {
        let reply = c.post(&c.core(path), &binding(&json!({}))).await?;
        reply.refused(500, "", "target.name: Required value")?;
    }
    c.get(&c.core("pods/a")).await?.ok(200)?;
    Ok(())
}

async fn binding_to_something_else(c: Ctx) -> Outcome {
    c.create(&c.core("pods"), &pod("a")).await?;
    let reply = c.post(&c.core("pods/a/binding"), &binding(&json!({"kind": "Pod", "name": "n"}))).await?;
    reply.refused(
        500,
        "",
        "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
    )?;
    Ok(())
}

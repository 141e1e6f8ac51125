//! What field selectors can select by.

use super::json::{at, flag, items, number, text};
use serde_json::Value;

const CLUSTERED: &[&str] = &["metadata.name"];
const NAMESPACED: &[&str] = &["metadata.name", "metadata.namespace"];

/// The fields a field selector of this resource may name; custom resources have their own list besides.
pub fn selectable_fields(group: &str, resource: &str) -> &'static [&'static str] {
    match (group, resource) {
        ("", "pods") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "nodes") => &["metadata.name", "spec.unschedulable"],
        ("", "namespaces") => &["metadata.name", "status.phase"],
        ("", "secrets") => &["metadata.name", "metadata.namespace", "type"],
        ("", "services") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        ("", "events") => &[
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "events") => &[
            "metadata.name",
            "metadata.namespace",
            "reason",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reportingController",
            "type",
        ],
        ("batch", "jobs") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("certificates.k8s.io", "certificatesigningrequests") => &["metadata.name", "spec.signerName"],
        ("", "persistentvolumes")
        | ("storage.k8s.io", "storageclasses" | "volumeattachments" | "csinodes" | "csidrivers")
        | ("scheduling.k8s.io", "priorityclasses")
        | ("rbac.authorization.k8s.io", "clusterroles" | "clusterrolebindings") => CLUSTERED,
        _ => NAMESPACED,
    }
}

/// The value a field selector compares with. `None` only for a path that leads nowhere in objects of any
/// kind; a field that is merely not set has the value it stands for.
pub fn field(object: &Value, path: &str) -> Option<String> {
    let found = match path {
        "spec.unschedulable" | "spec.hostNetwork" => {
            let key = path.trim_start_matches("spec.");
            return Some(flag(object, &["spec", key]).to_string());
        }
        "status.replicas" => return Some(count(object, "replicas")),
        "status.successful" => return Some(count(object, "succeeded")),
        "status.podIP" => {
            let first = items(object, &["status", "podIPs"]).first().map(|entry| text(entry, &["ip"]));
            return Some(first.unwrap_or_default().to_owned());
        }
        // Stored events have the core form, whichever form they were sent in.
        "source" => {
            let component = text(object, &["source", "component"]);
            let controller = text(object, &["reportingComponent"]);
            return Some(if component.is_empty() { controller } else { component }.to_owned());
        }
        "reportingController" => at(object, &["reportingComponent"]),
        _ => match path.strip_prefix("regarding.") {
            Some(part) => at(object, &["involvedObject", part]),
            None => path.split('.').try_fold(object, |value, key| value.get(key)).unwrap_or(&Value::Null),
        },
    };
    match found {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn count(object: &Value, key: &str) -> String {
    number(object, &["status", key]).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_field_that_is_not_set_has_the_value_it_stands_for() {
        let nothing = json!({"metadata": {"name": "a"}});
        let set = json!({
            "metadata": {"name": "a"}, "spec": {"unschedulable": true, "hostNetwork": true, "nodeName": "n"},
            "status": {"podIPs": [{"ip": "10.0.0.1"}], "replicas": 2, "succeeded": 3, "phase": "Running"},
            "involvedObject": {"kind": "Pod"}, "reportingComponent": "kubelet", "type": "Normal",
        });
        let cases = [
            ("metadata.name", "a", "a"),
            ("metadata.namespace", "", ""),
            ("spec.unschedulable", "false", "true"),
            ("spec.hostNetwork", "false", "true"),
            ("spec.nodeName", "", "n"),
            ("status.podIP", "", "10.0.0.1"),
            ("status.phase", "", "Running"),
            ("status.replicas", "0", "2"),
            ("status.successful", "0", "3"),
            ("involvedObject.kind", "", "Pod"),
            ("regarding.kind", "", "Pod"),
            ("reportingController", "", "kubelet"),
            ("source", "", "kubelet"),
            ("type", "", "Normal"),
        ];
        for (path, missing, found) in cases {
            assert_eq!(field(&nothing, path).as_deref(), Some(missing), "{path}");
            assert_eq!(field(&set, path).as_deref(), Some(found), "{path}");
        }
        assert_eq!(field(&set, "status.podIPs"), None);
    }

    #[test]
    fn every_selectable_field_has_a_value_in_any_object() {
        for (group, resource) in
            [("", "pods"), ("", "events"), ("events.k8s.io", "events"), ("batch", "jobs"), ("x", "y")]
        {
            for path in selectable_fields(group, resource) {
                assert!(field(&json!(null), path).is_some(), "{path}");
            }
        }
    }
}

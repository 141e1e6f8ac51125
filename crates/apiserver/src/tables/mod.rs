//! What `kubectl get` shows of the built-in kinds: columns, and the cells of one object.

mod pods;
mod words;

use crate::{access::items, access::text, age, contract::Column};
use jiff::Timestamp;
use serde_json::{Value, json};
use words::{access_modes, containers, int_or_string, labels, listed, or_none, ports, selector, subjects};

/// `name:type`, with `+` before what only `-o wide` shows; every column after the name is a string
/// unless it says otherwise.
fn layout(group: &str, resource: &str) -> &'static str {
    match (group, resource) {
        ("", "pods") => "Name,Ready,Status,Restarts,Age,+IP,+Node,+Nominated Node,+Readiness Gates",
        ("", "nodes") => {
            "Name,Status,Roles,Age,Version,+Internal-IP,+External-IP,+OS-Image,+Kernel-Version,+Container-Runtime"
        }
        ("", "namespaces") => "Name,Status,Age",
        ("", "configmaps") => "Name,Data,Age",
        ("", "secrets") => "Name,Type,Data,Age",
        ("", "services") => "Name,Type,Cluster-IP,External-IP,Port(s),Age,+Selector",
        ("", "endpoints") => "Name,Endpoints,Age",
        ("", "persistentvolumes") => {
            "Name,Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,+VolumeMode"
        }
        ("", "persistentvolumeclaims") => {
            "Name,Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,+VolumeMode"
        }
        ("apps", "replicasets") => {
            "Name,Desired:integer,Current:integer,Ready:integer,Age,+Containers,+Images,+Selector"
        }
        ("" | "events.k8s.io", "events") => {
            "Last Seen,Type,Reason,Object,+Subobject,+Source,Message,+First Seen,+Count,+Name"
        }
        ("apps", "deployments") => "Name,Ready,Up-to-date,Available,Age,+Containers,+Images,+Selector",
        ("apps", "statefulsets") => "Name,Ready,Age,+Containers,+Images",
        ("apps", "daemonsets") => {
            "Name,Desired:integer,Current:integer,Ready:integer,Up-to-date:integer,Available:integer,Node Selector,Age,+Containers,+Images,+Selector"
        }
        ("apps", "controllerrevisions") => "Name,Controller,Revision,Age",
        ("batch", "jobs") => "Name,Status,Completions,Duration,Age,+Containers,+Images,+Selector",
        ("batch", "cronjobs") => {
            "Name,Schedule,Timezone,Suspend:boolean,Active:integer,Last Schedule,Age,+Containers,+Images,+Selector"
        }
        ("policy", "poddisruptionbudgets") => {
            "Name,Min Available,Max Unavailable,Allowed Disruptions:integer,Age"
        }
        ("coordination.k8s.io", "leases") => "Name,Holder,Age",
        ("scheduling.k8s.io", "priorityclasses") => {
            "Name,Value:integer,Global-Default:boolean,Age,PreemptionPolicy"
        }
        ("storage.k8s.io", "storageclasses") => {
            "Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age"
        }
        ("storage.k8s.io", "volumeattachments") => "Name,Attacher,PV,Node,Attached:boolean,Age",
        ("storage.k8s.io", "csinodes") => "Name,Drivers:integer,Age",
        ("storage.k8s.io", "csidrivers") => {
            "Name,AttachRequired:boolean,PodInfoOnMount:boolean,StorageCapacity:boolean,TokenRequests,RequiresRepublish:boolean,Modes,Age"
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            "Name,Role,Age,+Users,+Groups,+ServiceAccounts"
        }
        ("rbac.authorization.k8s.io" | "apiextensions.k8s.io", _) => "Name,Created At:date",
        ("certificates.k8s.io", "certificatesigningrequests") => {
            "Name,Age,SignerName,Requestor,RequestedDuration,Condition"
        }
        ("discovery.k8s.io", "endpointslices") => "Name,AddressType,Ports,Endpoints,Age",
        _ => "Name,Age",
    }
}

/// The columns of a kind's table.
pub fn columns(group: &str, resource: &str) -> Vec<Column> {
    layout(group, resource)
        .split(',')
        .map(|entry| {
            let (priority, entry) = entry.strip_prefix('+').map_or((0, entry), |rest| (1, rest));
            let (name, kind) = entry.split_once(':').unwrap_or((entry, "string"));
            let format = if name == "Name" { "name" } else { "" };
            Column {
                name: name.to_owned(),
                kind: kind.to_owned(),
                format: format.to_owned(),
                description: String::new(),
                priority,
            }
        })
        .collect()
}

/// The cells of one object, as many as [`columns`] gives.
pub fn cells(group: &str, resource: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let name = json!(text(metadata, "name"));
    let age = json!(age::since(&metadata["creationTimestamp"], now));
    let count = |value: &Value| json!(value.as_i64().unwrap_or(0));
    let size = |value: &Value| {
        json!(value.as_object().map_or_else(|| value.as_array().map_or(0, Vec::len), serde_json::Map::len))
    };
    let of = |part: &Value, whole: &Value| {
        json!(format!("{}/{}", part.as_i64().unwrap_or(0), whole.as_i64().unwrap_or(0)))
    };
    let template = || containers(&spec["template"]["spec"]);
    match (group, resource) {
        ("", "pods") => pods::cells(object, now),
        ("", "nodes") => node(object, name, age),
        ("", "namespaces") => vec![name, json!(text(status, "phase")), age],
        ("", "configmaps") => {
            let both = object["data"].as_object().map_or(0, serde_json::Map::len)
                + object["binaryData"].as_object().map_or(0, serde_json::Map::len);
            vec![name, json!(both), age]
        }
        ("", "secrets") => vec![name, json!(text(object, "type")), size(&object["data"]), age],
        ("", "services") => {
            let address = text(spec, "clusterIP");
            vec![
                name,
                json!(text(spec, "type")),
                or_none(address),
                json!(words::external_address(object)),
                json!(ports(spec)),
                age,
                json!(labels(&spec["selector"])),
            ]
        }
        ("", "endpoints") => {
            let addresses = items(object, "subsets").flat_map(|subset| {
                items(subset, "addresses").flat_map(move |address| {
                    items(subset, "ports")
                        .map(move |port| format!("{}:{}", text(address, "ip"), port["port"]))
                })
            });
            vec![name, or_none(&listed(addresses)), age]
        }
        ("", "persistentvolumes") => {
            let claim = spec["claimRef"].as_object().map_or_else(String::new, |_| {
                format!("{}/{}", text(&spec["claimRef"], "namespace"), text(&spec["claimRef"], "name"))
            });
            vec![
                name,
                json!(spec["capacity"]["storage"].as_str().unwrap_or("0")),
                json!(access_modes(&spec["accessModes"])),
                json!(text(spec, "persistentVolumeReclaimPolicy")),
                phase_or_terminating(object),
                json!(claim),
                json!(text(spec, "storageClassName")),
                json!(spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>")),
                json!(text(status, "reason")),
                age,
                json!(spec["volumeMode"].as_str().unwrap_or("<unset>")),
            ]
        }
        ("", "persistentvolumeclaims") => {
            let volume = text(spec, "volumeName");
            let bound = !volume.is_empty();
            let capacity = if bound { status["capacity"]["storage"].as_str().unwrap_or("0") } else { "" };
            vec![
                name,
                phase_or_terminating(object),
                json!(volume),
                json!(capacity),
                json!(if bound { access_modes(&status["accessModes"]) } else { String::new() }),
                json!(text(spec, "storageClassName")),
                json!(spec["volumeAttributesClassName"].as_str().unwrap_or("<unset>")),
                age,
                json!(spec["volumeMode"].as_str().unwrap_or("<unset>")),
            ]
        }
        ("apps", "replicasets") => {
            let (names, images) = template();
            let chosen = selector(&spec["selector"]);
            vec![
                name,
                count(&spec["replicas"]),
                count(&status["replicas"]),
                count(&status["readyReplicas"]),
                age,
                names,
                images,
                json!(chosen),
            ]
        }
        ("" | "events.k8s.io", "events") => words::event(object, now),
        ("apps", "deployments") => {
            let (names, images) = template();
            vec![
                name,
                of(&status["readyReplicas"], &spec["replicas"]),
                count(&status["updatedReplicas"]),
                count(&status["availableReplicas"]),
                age,
                names,
                images,
                json!(selector(&spec["selector"])),
            ]
        }
        ("apps", "statefulsets") => {
            let (names, images) = template();
            vec![name, of(&status["readyReplicas"], &spec["replicas"]), age, names, images]
        }
        ("apps", "daemonsets") => {
            let (names, images) = template();
            let numbers = [
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            ];
            let mut row = vec![name];
            row.extend(numbers.map(|field| count(&status[field])));
            let nodes = labels(&spec["template"]["spec"]["nodeSelector"]);
            row.extend([json!(nodes), age, names, images, json!(selector(&spec["selector"]))]);
            row
        }
        ("apps", "controllerrevisions") => {
            let controller = items(metadata, "ownerReferences")
                .find(|owner| owner["controller"] == true)
                .map_or_else(|| "<none>".to_owned(), words::owner);
            vec![name, json!(controller), json!(object["revision"].as_i64().unwrap_or(0).to_string()), age]
        }
        ("batch", "jobs") => job(object, name, age, now),
        ("batch", "cronjobs") => {
            let inner = &spec["jobTemplate"]["spec"];
            let (names, images) = containers(&inner["template"]["spec"]);
            let last = match status["lastScheduleTime"].as_str() {
                Some(_) => age::since(&status["lastScheduleTime"], now),
                None => "<none>".to_owned(),
            };
            vec![
                name,
                json!(text(spec, "schedule")),
                json!(spec["timeZone"].as_str().unwrap_or("<none>")),
                json!(if spec["suspend"] == true { "True" } else { "False" }),
                size(&status["active"]),
                json!(last),
                age,
                names,
                images,
                json!(selector(&inner["selector"])),
            ]
        }
        ("policy", "poddisruptionbudgets") => vec![
            name,
            json!(int_or_string(&spec["minAvailable"])),
            json!(int_or_string(&spec["maxUnavailable"])),
            count(&status["disruptionsAllowed"]),
            age,
        ],
        ("coordination.k8s.io", "leases") => vec![name, json!(text(spec, "holderIdentity")), age],
        ("scheduling.k8s.io", "priorityclasses") => vec![
            name,
            count(&object["value"]),
            json!(object["globalDefault"] == true),
            age,
            json!(text(object, "preemptionPolicy")),
        ],
        ("storage.k8s.io", "storageclasses") => {
            let default = metadata["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true";
            vec![
                json!(format!("{}{}", text(metadata, "name"), if default { " (default)" } else { "" })),
                json!(text(object, "provisioner")),
                json!(object["reclaimPolicy"].as_str().unwrap_or("Delete")),
                json!(object["volumeBindingMode"].as_str().unwrap_or("Immediate")),
                json!(object["allowVolumeExpansion"] == true),
                age,
            ]
        }
        ("storage.k8s.io", "volumeattachments") => vec![
            name,
            json!(text(spec, "attacher")),
            json!(text(&spec["source"], "persistentVolumeName")),
            json!(text(spec, "nodeName")),
            json!(status["attached"] == true),
            age,
        ],
        ("storage.k8s.io", "csinodes") => vec![name, size(&spec["drivers"]), age],
        ("storage.k8s.io", "csidrivers") => vec![
            name,
            json!(spec["attachRequired"] != false),
            json!(spec["podInfoOnMount"] == true),
            json!(spec["storageCapacity"] == true),
            or_unset(&listed(
                items(spec, "tokenRequests").map(|request| text(request, "audience").to_owned()),
            )),
            json!(spec["requiresRepublish"] == true),
            json!(listed(items(spec, "volumeLifecycleModes").filter_map(Value::as_str).map(str::to_owned))),
            age,
        ],
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            let role = format!("{}/{}", text(&object["roleRef"], "kind"), text(&object["roleRef"], "name"));
            let mut row = vec![name, json!(role), age];
            row.extend(["User", "Group", "ServiceAccount"].map(|kind| json!(subjects(object, kind))));
            row
        }
        ("rbac.authorization.k8s.io" | "apiextensions.k8s.io", _) => {
            vec![name, metadata["creationTimestamp"].clone()]
        }
        ("certificates.k8s.io", "certificatesigningrequests") => {
            let duration = spec["expirationSeconds"].as_i64().map_or_else(|| "<none>".to_owned(), age::human);
            vec![
                name,
                age,
                or_none(text(spec, "signerName")),
                json!(text(spec, "username")),
                json!(duration),
                json!(words::certificate_state(status)),
            ]
        }
        ("discovery.k8s.io", "endpointslices") => {
            let numbers = listed(items(object, "ports").map(|port| port["port"].to_string()));
            let addresses = items(object, "endpoints").flat_map(|endpoint| items(endpoint, "addresses"));
            let addresses = listed(addresses.filter_map(Value::as_str).map(str::to_owned));
            vec![name, json!(text(object, "addressType")), or_unset(&numbers), or_unset(&addresses), age]
        }
        _ => vec![name, age],
    }
}

fn or_unset(text: &str) -> Value {
    json!(if text.is_empty() { "<unset>" } else { text })
}

fn phase_or_terminating(object: &Value) -> Value {
    if object["metadata"]["deletionTimestamp"].is_string() {
        return json!("Terminating");
    }
    json!(text(&object["status"], "phase"))
}

fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let ready = items(status, "conditions").find(|condition| text(condition, "type") == "Ready");
    let mut state = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if spec["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = metadata["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let info = &status["nodeInfo"];
    let address = |kind: &str| {
        let found = items(status, "addresses").find(|address| text(address, "type") == kind);
        or_none(found.map_or("", |address| text(address, "address")))
    };
    let known = |field: &str| match text(info, field) {
        "" => "<unknown>",
        given => given,
    };
    let mut kernel = known("kernelVersion").to_owned();
    let architecture = text(info, "architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name,
        json!(state),
        or_none(&roles.join(",")),
        age,
        json!(text(info, "kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        json!(known("osImage")),
        json!(kernel),
        json!(known("containerRuntimeVersion")),
    ]
}

fn job(object: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| {
        items(status, "conditions")
            .any(|condition| text(condition, "type") == kind && condition["status"] == "True")
    };
    let state = if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else {
        ["Suspended", "FailureTarget", "SuccessCriteriaMet"]
            .into_iter()
            .find(|kind| has(kind))
            .unwrap_or("Running")
    };
    let succeeded = status["succeeded"].as_i64().unwrap_or(0);
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64()) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    };
    let time = |field: &str| status[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let duration = time("startTime").map_or_else(String::new, |start| {
        age::human(time("completionTime").unwrap_or(now).as_second() - start.as_second())
    });
    let (names, images) = containers(&spec["template"]["spec"]);
    vec![
        name,
        json!(state),
        json!(completions),
        json!(duration),
        age,
        names,
        images,
        json!(selector(&spec["selector"])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:05:00Z".parse().unwrap()
    }

    #[test]
    fn every_table_has_as_many_cells_as_columns_whatever_the_object() {
        let kinds = [
            (
                "",
                "pods nodes namespaces configmaps secrets services endpoints persistentvolumes persistentvolumeclaims events serviceaccounts",
            ),
            ("apps", "deployments replicasets statefulsets daemonsets controllerrevisions"),
            ("batch", "jobs cronjobs"),
            ("policy", "poddisruptionbudgets"),
            ("coordination.k8s.io", "leases"),
            ("events.k8s.io", "events"),
            ("scheduling.k8s.io", "priorityclasses"),
            ("storage.k8s.io", "storageclasses volumeattachments csinodes csidrivers"),
            ("rbac.authorization.k8s.io", "roles clusterroles rolebindings clusterrolebindings"),
            ("certificates.k8s.io", "certificatesigningrequests"),
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("discovery.k8s.io", "endpointslices"),
            ("example.com", "widgets"),
        ];
        for (group, resources) in kinds {
            for resource in resources.split(' ') {
                for object in [json!({}), json!({"metadata": 1, "spec": [], "status": "x"}), Value::Null] {
                    let row = cells(group, resource, &object, now());
                    assert_eq!(row.len(), columns(group, resource).len(), "{group}/{resource} {object}");
                }
            }
        }
    }

    #[test]
    fn a_cordoned_node_with_roles() {
        let node = json!({"metadata": {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/edge": ""}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6.1", "architecture": "amd64"}}});
        assert_eq!(
            json!(cells("", "nodes", &node, now())),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "edge,worker",
                "5m",
                "v1",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "6.1 (amd64)",
                "<unknown>"
            ])
        );
    }

    #[test]
    fn a_deployment() {
        let deployment = json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2}});
        assert_eq!(
            json!(cells("apps", "deployments", &deployment, now())),
            json!(["web", "2/3", 3, 2, "5m", "a,b", "x,y", "app=web"])
        );
    }

    #[test]
    fn wide_columns_come_with_priority_one() {
        let pods = columns("", "pods");
        assert_eq!((pods[0].format.as_str(), pods[4].priority, pods[5].priority), ("name", 0, 1));
    }
}

//! A pod's row: its state is told in one word, drawn from phase, conditions and containers.

use crate::{access::items, access::text, age};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let row = summary(pod);
    let restarts = match row.last_restart {
        Some(last) if row.restarts > 0 => {
            format!("{} ({} ago)", row.restarts, age::human(now.as_second() - last.as_second()))
        }
        _ => row.restarts.to_string(),
    };
    let none = |text: &str| json!(if text.is_empty() { "<none>" } else { text });
    let gates: Vec<&str> = items(spec, "readinessGates").map(|gate| text(gate, "conditionType")).collect();
    let open = gates.iter().filter(|gate| condition(status, gate) == Some("True")).count();
    let gates = if gates.is_empty() { "<none>".to_owned() } else { format!("{open}/{}", gates.len()) };
    vec![
        json!(text(metadata, "name")),
        json!(format!("{}/{}", row.ready, row.total)),
        json!(row.state),
        json!(restarts),
        json!(age::since(&metadata["creationTimestamp"], now)),
        none(items(status, "podIPs").next().map_or("", |entry| text(entry, "ip"))),
        none(text(spec, "nodeName")),
        none(text(status, "nominatedNodeName")),
        json!(gates),
    ]
}

struct Summary {
    state: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    items(status, "conditions").find(|entry| text(entry, "type") == kind).map(|entry| text(entry, "status"))
}

/// Restarts of some containers and when the last one was.
fn restarts<'a>(statuses: impl Iterator<Item = &'a Value>) -> (i64, Option<Timestamp>) {
    statuses.fold((0, None), |(count, last), container| {
        let ended = text(&container["lastState"]["terminated"], "finishedAt").parse().ok();
        (count + container["restartCount"].as_i64().unwrap_or(0), last.max(ended))
    })
}

/// How a terminated container is told: its reason, else its signal, else its exit code.
fn ending(terminated: &Value) -> String {
    match (text(terminated, "reason"), terminated["signal"].as_i64().unwrap_or(0)) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn summary(pod: &Value) -> Summary {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(status, "phase");
    let is_sidecar = |name: &str| {
        items(spec, "initContainers")
            .any(|container| text(container, "name") == name && text(container, "restartPolicy") == "Always")
    };
    let sidecars =
        items(spec, "initContainers").filter(|container| text(container, "restartPolicy") == "Always");
    let total = items(spec, "containers").count() + sidecars.count();
    let mut state = match text(status, "reason") {
        "" => phase.to_owned(),
        reason => reason.to_owned(),
    };
    let gated = items(status, "conditions")
        .any(|entry| text(entry, "type") == "PodScheduled" && text(entry, "reason") == "SchedulingGated");
    if gated {
        state = "SchedulingGated".to_owned();
    }
    let mut ready = 0;

    let mut looked_at = 0;
    let mut initializing = false;
    for (index, container) in items(status, "initContainerStatuses").enumerate() {
        looked_at = index + 1;
        let terminated = container["state"].get("terminated").filter(|value| value.is_object());
        if terminated.is_some_and(|end| end["exitCode"] == 0) {
            continue;
        }
        if is_sidecar(text(container, "name")) && container["started"] == true {
            ready += usize::from(container["ready"] == true);
            continue;
        }
        let waiting = text(&container["state"]["waiting"], "reason");
        state = match terminated {
            Some(end) => format!("Init:{}", ending(end)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{index}/{}", items(spec, "initContainers").count()),
        };
        initializing = true;
        break;
    }
    let (mut count, mut last) = restarts(items(status, "initContainerStatuses").take(looked_at));

    if !initializing || condition(status, "Initialized") == Some("True") {
        let sidecar_statuses = items(status, "initContainerStatuses")
            .take(looked_at)
            .filter(|container| is_sidecar(text(container, "name")));
        (count, last) = restarts(sidecar_statuses.chain(items(status, "containerStatuses")));
        let mut running = false;
        let mut failure = None;
        let statuses: Vec<&Value> = items(status, "containerStatuses").collect();
        for container in statuses.into_iter().rev() {
            let current = &container["state"];
            let waiting = text(&current["waiting"], "reason");
            if !waiting.is_empty() {
                state = waiting.to_owned();
            } else if current["terminated"].is_object() {
                state = ending(&current["terminated"]);
                if current["terminated"]["exitCode"] != 0 {
                    failure = Some(state.clone());
                }
            } else if container["ready"] == true && current["running"].is_object() {
                running = true;
                ready += 1;
            }
        }
        if state == "Completed" {
            state = match failure {
                _ if running && condition(status, "Ready") == Some("True") => "Running".to_owned(),
                Some(failure) => failure,
                None if running => "NotReady".to_owned(),
                None => state,
            };
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if text(status, "reason") == "NodeLost" {
            state = "Unknown".to_owned();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            state = "Terminating".to_owned();
        }
    }
    Summary { state, ready, total, restarts: count, last_restart: last }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pod: Value) -> (String, String, String) {
        let now = "2026-01-01T00:05:00Z".parse().unwrap();
        let cells = cells(&pod, now);
        let text = |index: usize| cells[index].as_str().unwrap().to_owned();
        (text(1), text(2), text(3))
    }

    fn told(ready: &str, state: &str, restarts: &str) -> (String, String, String) {
        (ready.to_owned(), state.to_owned(), restarts.to_owned())
    }

    #[test]
    fn states_in_one_word() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let running = json!({"ready": true, "state": {"running": {}}});
        let done =
            |code: i64, reason: &str| json!({"state": {"terminated": {"exitCode": code, "reason": reason}}});
        let cases = [
            (json!({"spec": spec, "status": {"phase": "Pending"}}), told("0/2", "Pending", "0")),
            (
                json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [running, running]}}),
                told("2/2", "Running", "0"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Pending",
                "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}}),
                told("0/2", "ImagePullBackOff", "0"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Succeeded", "containerStatuses": [done(0, "Completed")]}}),
                told("0/2", "Completed", "0"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Failed", "containerStatuses": [done(3, "")]}}),
                told("0/2", "ExitCode:3", "0"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [done(0, "Completed"), running]}}),
                told("1/2", "NotReady", "0"),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec,
                "status": {"phase": "Running", "containerStatuses": [running]}}),
                told("1/2", "Terminating", "0"),
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
                "status": {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}),
                told("0/1", "Init:0/1", "0"),
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}],
                "initContainers": [{"name": "i", "restartPolicy": "Always"}]},
                "status": {"phase": "Running", "containerStatuses": [running],
                "initContainerStatuses": [{"name": "i", "started": true, "ready": true}]}}),
                told("2/2", "Running", "0"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2,
                "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:03:00Z"}}}]}}),
                told("1/2", "Running", "2 (2m ago)"),
            ),
            (
                json!({"spec": spec, "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled",
                "reason": "SchedulingGated"}]}}),
                told("0/2", "SchedulingGated", "0"),
            ),
        ];
        for (pod, expected) in cases {
            assert_eq!(row(pod.clone()), expected, "{pod}");
        }
    }
}

//! Cells that several tables share, in the words of a real server.

use crate::{access::items, access::text, age};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

/// At most three entries, then how many more there are.
pub(super) fn listed(entries: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = entries.collect();
    let shown = all.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    if all.len() > 3 { format!("{shown} + {} more...", all.len() - 3) } else { shown }
}

pub(super) fn containers(pod_spec: &Value) -> (Value, Value) {
    let joined = |field: &str| {
        json!(
            items(pod_spec, "containers")
                .map(|container| text(container, field))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    (joined("name"), joined("image"))
}

pub(super) fn labels(map: &Value) -> String {
    let pairs: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector in its one-line form: `app=web,tier in (a,b)`.
pub(super) fn selector(selector: &Value) -> String {
    let mut parts: Vec<(String, String)> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in items(selector, "matchExpressions") {
        let key = text(expression, "key");
        let mut values: Vec<&str> = items(expression, "values").filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match text(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key.to_owned(), shown));
    }
    if parts.is_empty() {
        return "<none>".to_owned();
    }
    parts.sort();
    parts.into_iter().map(|(_, shown)| shown).collect::<Vec<_>>().join(",")
}

pub(super) fn int_or_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "N/A".to_owned(),
    }
}

pub(super) fn access_modes(modes: &Value) -> String {
    let given: Vec<&str> = modes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .filter(|(long, _)| given.contains(long))
    .map(|(_, short)| short)
    .collect::<Vec<_>>()
    .join(",")
}

pub(super) fn ports(service_spec: &Value) -> String {
    let shown: Vec<String> = items(service_spec, "ports")
        .map(|port| match port["nodePort"].as_i64() {
            Some(node) if node > 0 => format!("{}:{node}/{}", port["port"], text(port, "protocol")),
            _ => format!("{}/{}", port["port"], text(port, "protocol")),
        })
        .collect();
    if shown.is_empty() { "<none>".to_owned() } else { shown.join(",") }
}

pub(super) fn load_balancer(status: &Value) -> String {
    let addresses: Vec<&str> = items(&status["loadBalancer"], "ingress")
        .map(|entry| match text(entry, "ip") {
            "" => text(entry, "hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.join(",")
}

pub(super) fn external_address(service: &Value) -> String {
    let spec = &service["spec"];
    let external: Vec<&str> = items(spec, "externalIPs").filter_map(Value::as_str).collect();
    match text(spec, "type") {
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" => {
            let balanced = load_balancer(&service["status"]);
            let all: Vec<&str> =
                balanced.split(',').filter(|part| !part.is_empty()).chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        _ => "<unknown>".to_owned(),
    }
}

pub(super) fn subjects(binding: &Value, kind: &str) -> String {
    items(binding, "subjects")
        .filter(|subject| text(subject, "kind") == kind)
        .map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name").to_owned(),
        })
        .collect::<Vec<_>>()
        .join(", ")
}

/// `deployment.apps/web`, as an owner is shown.
pub(super) fn owner(reference: &Value) -> String {
    let kind = text(reference, "kind").to_lowercase();
    match text(reference, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text(reference, "name")),
        None => format!("{kind}/{}", text(reference, "name")),
    }
}

pub(super) fn certificate_state(status: &Value) -> String {
    let has = |kind: &str| items(status, "conditions").any(|condition| text(condition, "type") == kind);
    let mut state = if has("Denied") {
        "Denied".to_owned()
    } else if has("Approved") {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(status, "certificate").is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// An event of either group: the fields of `events.k8s.io` stand in where the core ones are missing.
pub(super) fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, newer: &str| {
        if event[core].is_null() { event[newer].clone() } else { event[core].clone() }
    };
    let given = |time: &Value| time.as_str().map(|_| age::since(time, now));
    let first = given(&either("firstTimestamp", "deprecatedFirstTimestamp"))
        .or_else(|| given(&event["eventTime"]))
        .unwrap_or_else(|| "<unknown>".to_owned());
    let last = given(&event["series"]["lastObservedTime"])
        .or_else(|| given(&either("lastTimestamp", "deprecatedLastTimestamp")))
        .unwrap_or_else(|| first.clone());
    let count = event["series"]["count"]
        .as_i64()
        .or_else(|| either("count", "deprecatedCount").as_i64())
        .filter(|count| *count > 0)
        .unwrap_or(1);
    let about = either("involvedObject", "regarding");
    let kind = text(&about, "kind").to_lowercase();
    let target = match text(&about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let message = either("message", "note");
    vec![
        json!(last),
        json!(text(event, "type")),
        json!(text(event, "reason")),
        json!(target),
        json!(text(&about, "fieldPath")),
        json!(event_source(event)),
        json!(message.as_str().unwrap_or_default().trim()),
        json!(first),
        json!(count),
        json!(text(&event["metadata"], "name")),
    ]
}

fn event_source(event: &Value) -> String {
    let source = if event["source"].is_object() { &event["source"] } else { &event["deprecatedSource"] };
    let (mut component, mut host) = (text(source, "component"), text(source, "host"));
    if component.is_empty() {
        component =
            event["reportingComponent"].as_str().unwrap_or_else(|| text(event, "reportingController"));
    }
    if host.is_empty() {
        host = text(event, "reportingInstance");
    }
    if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_in_one_line() {
        let cases = [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (
                json!({"matchExpressions": [{"key": "t", "operator": "In", "values": ["y", "x"]}]}),
                "t in (x,y)",
            ),
            (json!({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}), "!t"),
            (json!({}), "<none>"),
        ];
        for (given, shown) in cases {
            assert_eq!(selector(&given), shown);
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let entries = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(listed(entries.into_iter()), "a,b,c + 2 more...");
    }

    #[test]
    fn events_of_both_groups_give_the_same_row() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let core = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Scheduled", "message": "ok\n",
            "involvedObject": {"kind": "Pod", "name": "p"}, "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:30Z", "count": 3, "source": {"component": "scheduler"}});
        let newer = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Scheduled", "note": "ok\n",
            "regarding": {"kind": "Pod", "name": "p"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:00:30Z", "deprecatedCount": 3,
            "deprecatedSource": {"component": "scheduler"}});
        assert_eq!(event(&core, now), event(&newer, now));
        assert_eq!(
            json!(event(&core, now)),
            json!(["30s", "Normal", "Scheduled", "pod/p", "", "scheduler", "ok", "60s", 3, "e"])
        );
    }

    #[test]
    fn services_show_where_they_are_reached() {
        let cases = [
            (json!({"spec": {"type": "ClusterIP"}}), "<none>"),
            (json!({"spec": {"type": "LoadBalancer"}}), "<pending>"),
            (
                json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
                "1.2.3.4",
            ),
            (json!({"spec": {"type": "ExternalName", "externalName": "x.y"}}), "x.y"),
            (json!({"spec": {"type": "NodePort", "externalIPs": ["5.6.7.8"]}}), "5.6.7.8"),
        ];
        for (service, shown) in cases {
            assert_eq!(external_address(&service), shown);
        }
        assert_eq!(
            ports(&json!({"ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]})),
            "80:30080/TCP"
        );
    }
}

use super::*;
use crate::types::kind;
use serde_json::json;

/// Objects after each of a row of requests to a real server, and the entries that it kept.
const FLOWS: &str = include_str!("../../tests/data/managed_fields.json");

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("in range")
}

fn writer<'a>(manager: &'a str, api_version: &'a str, time: Timestamp) -> Writer<'a> {
    Writer { manager, api_version, subresource: "", time, left_out: &["status"] }
}

/// On update and on create; the text of the latter is put into the object as encoding does.
fn write(old: Option<&Value>, new: &mut Value, who: &Writer<'_>, shape: Shape<'_>) {
    match old {
        Some(old) => record(old, new, who, shape),
        None => {
            let mut text = Vec::new();
            if of_new(&mut text, new, who, shape) {
                new["metadata"]["managedFields"] = serde_json::from_slice(&text).expect("JSON");
            }
        }
    }
}

#[test]
fn entries_are_those_of_a_real_server() {
    let flows: Vec<Value> = serde_json::from_str(FLOWS).expect("JSON");
    assert_eq!(flows.len(), 8);
    for flow in &flows {
        let mut old: Option<Value> = None;
        for (step, state) in flow["states"].as_array().expect("states").iter().enumerate() {
            let text = |name: &str| state[name].as_str().expect("a string");
            let mut new = state["object"].clone();
            let api_version = new["apiVersion"].as_str().expect("a string").to_owned();
            let shape = kind(&api_version, new["kind"].as_str().expect("a string"))
                .map_or_else(|| Shape::Schema(&flow["schema"]), Shape::Builtin);
            if let Some(sent) = state.get("sent") {
                new["metadata"]["managedFields"] = sent.clone();
            }
            let subresource = text("subresource");
            let who = Writer {
                manager: text("manager"),
                api_version: &api_version,
                subresource,
                time: "2026-01-02T03:04:05Z".parse().expect("a time"),
                left_out: if subresource.is_empty() { &["status"] } else { &[] },
            };
            write(old.as_ref(), &mut new, &who, shape);
            let got = new["metadata"].get("managedFields").cloned().unwrap_or_else(|| json!([]));
            assert_eq!(got, state["managedFields"], "{} step {step}", flow["name"]);
            old = Some(new);
        }
    }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

fn recorded(old: Option<&Value>, data: Value, manager: &str, seconds: i64) -> Value {
    let mut new = config_map(data);
    let ty = kind("v1", "ConfigMap").expect("built in");
    write(old, &mut new, &writer(manager, "v1", at(seconds)), Shape::Builtin(ty));
    new
}

fn summary(object: &Value) -> Vec<(String, String)> {
    let entries = entries_of(object).cloned().unwrap_or_default();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (text(entry, "manager"), text(entry, "time"))).collect()
}

#[test]
fn an_entrys_time_moves_only_with_its_fields() {
    let pair = |name: &str, second: i64| (name.to_owned(), format!("1970-01-01T00:00:{second:02}Z"));
    let first = recorded(None, json!({"a": "1"}), "x", 1);
    assert_eq!(summary(&first), [pair("x", 1)]);
    let second = recorded(Some(&first), json!({"a": "1", "b": "1"}), "y", 2);
    assert_eq!(summary(&second), [pair("x", 1), pair("y", 2)]);
    // Nothing changes.
    let third = recorded(Some(&second), json!({"a": "1", "b": "1"}), "x", 3);
    assert_eq!(summary(&third), summary(&second));
    // The older one becomes the newer one.
    let fourth = recorded(Some(&third), json!({"a": "2", "b": "1"}), "x", 4);
    assert_eq!(summary(&fourth), [pair("y", 2), pair("x", 4)]);
    // Taking something away moves no time, and an entry without fields vanishes.
    let fifth = recorded(Some(&fourth), json!({"a": "2"}), "x", 5);
    assert_eq!(summary(&fifth), [pair("x", 4)]);
}

#[test]
fn entries_of_apply_are_kept_and_lose_what_others_change() {
    let mut old = recorded(None, json!({"a": "1", "b": "1"}), "x", 1);
    old["metadata"]["managedFields"] = json!([{"manager": "ssa", "operation": "Apply", "apiVersion": "v1",
        "time": "1970-01-01T00:00:01Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}}}}]);
    let new = recorded(Some(&old), json!({"a": "2", "b": "1"}), "x", 2);
    let entries = entries_of(&new).expect("entries");
    assert_eq!(entries[0]["operation"], "Apply");
    assert_eq!(entries[0]["fieldsV1"], json!({"f:data": {"f:b": {}}}));
    assert_eq!(entries[1]["fieldsV1"], json!({"f:data": {"f:a": {}}}));
}

#[test]
fn an_empty_list_wipes_the_entries_out() {
    let old = recorded(None, json!({"a": "1"}), "x", 1);
    for sent in [json!([]), json!([{}])] {
        let mut new = config_map(json!({"a": "1"}));
        new["metadata"]["managedFields"] = sent;
        let ty = kind("v1", "ConfigMap").expect("built in");
        record(&old, &mut new, &writer("y", "v1", at(2)), Shape::Builtin(ty));
        assert_eq!(new["metadata"], json!({"name": "a"}));
    }
}

#[test]
fn many_managers_are_put_together() {
    let mut object = recorded(None, json!({"k0": "0"}), "m00", 0);
    for number in 1..15 {
        let mut data = object["data"].clone();
        data[format!("k{number}")] = json!("x");
        object = recorded(Some(&object), data, &format!("m{number:02}"), number);
    }
    let summary = summary(&object);
    assert_eq!(summary.len(), MAX_UPDATERS);
    assert_eq!(summary[0], ("ancient-changes".to_owned(), "1970-01-01T00:00:05Z".to_owned()));
    assert_eq!(summary[9].0, "m14");
}

#[test]
fn text_of_a_new_entry_is_escaped_and_in_order() {
    let ty = kind("v1", "Pod").expect("built in");
    let pod = json!({"metadata": {"name": "a", "labels": {"x\"y": "1"}}, "spec": {"containers": [
        {"name": "b", "ports": [{"containerPort": 80, "protocol": "TCP"}]}, {"name": "a\\"}]}});
    let who = Writer { subresource: "ephemeralcontainers", ..writer("m\"", "v1", at(1)) };
    let mut text = Vec::new();
    assert!(of_new(&mut text, &pod, &who, Shape::Builtin(ty)));
    assert_eq!(
        String::from_utf8(text).expect("text"),
        concat!(
            r#"[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:x\"y":{}}},"#,
            r#""f:spec":{"f:containers":{"k:{\"name\":\"a\\\\\"}":{".":{},"f:name":{}},"k:{\"name\":\"b\"}":{".":{},"f:name":{},"#,
            r#""f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}}},"#,
            r#""manager":"m\"","operation":"Update","subresource":"ephemeralcontainers","time":"1970-01-01T00:00:01Z"}]"#,
        )
    );
}

#[test]
fn managers_are_named_by_query_or_user_agent() {
    assert_eq!(manager_name(Some("me"), "kubectl/v1.36"), "me");
    assert_eq!(manager_name(Some(""), "kubectl/v1.36"), "kubectl");
    assert_eq!(manager_name(None, "a\tb"), "ab");
    assert_eq!(manager_name(None, ""), "unknown");
    assert_eq!(manager_name(None, &"ä".repeat(100)).len(), 128);
}

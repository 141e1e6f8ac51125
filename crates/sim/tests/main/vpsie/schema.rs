//! Every answer has the shape that clients are known to read.

use super::{
    Answer, Api, patient,
    shapes::{self as shape, misshapen},
    vm,
};
use crate::shape::Shape;
use hostler_sim::vpsie::{NodeShape, Settings, TokenAnswer, Vpsie, identifier_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The data of an answer in its envelope.
#[track_caller]
fn data(answer: Answer) -> Value {
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.headers.contains_key("x-request-id"));
    let mut body = answer.good();
    let data = body.as_object_mut().unwrap().remove("data").unwrap_or_default();
    assert_eq!(misshapen(&body, &[&shape::ENVELOPE]), None, "{body}");
    data
}

#[track_caller]
fn object(answer: Answer, shapes: &[&Shape]) -> Value {
    let data = data(answer);
    assert_eq!(misshapen(&data, shapes), None, "{data}");
    data
}

/// A list, which must not be empty: nothing has every shape.
#[track_caller]
fn list(answer: Answer, shape: &Shape) -> Vec<Value> {
    assert!(answer.body["total"].is_u64(), "{}", answer.body);
    let data = data(answer);
    let items = data.as_array().unwrap().clone();
    assert!(!items.is_empty());
    for item in &items {
        assert_eq!(misshapen(item, &[shape]), None, "{item}");
    }
    items
}

#[track_caller]
fn truth(answer: Answer) {
    assert_eq!(data(answer), json!(true));
}

#[track_caller]
fn nothing(answer: Answer) {
    assert_eq!(data(answer), Value::Null);
}

async fn account(api: &Api) {
    let tokens = json!({"clientId": "me", "clientSecret": "secret"});
    let body = api.post("auth/from/api", tokens.clone()).await.with(200);
    assert_eq!(misshapen(&body, &[&shape::TOKENS]), None, "{body}");
    api.cloud.set(|settings| settings.token_answer = TokenAnswer::Token);
    let body = api.post("auth/from/api", tokens).await.with(200);
    assert_eq!(misshapen(&body, &[&shape::NESTED_TOKENS]), None, "{body}");
    let categories = api.call("GET", "/api/v2/plans/category", None).await;
    let category = list(categories, &shape::CATEGORY).remove(1)["identifier"].take();
    let place = list(api.get("datacenter?offset=0&limit=100").await, &shape::DATACENTER).remove(0);
    let image = list(api.get("images").await, &shape::IMAGE).remove(0);
    let texts = [&place["identifier"], &image["identifier"], &category].map(|one| one.as_str().unwrap());
    let fields = [("dcIdentifier", texts[0]), ("osIdentifier", texts[1]), ("planCatIdentifier", texts[2])];
    list(api.form("resources", &fields).await, &shape::PLAN);
    list(api.get("custom/images").await, &shape::CUSTOM_IMAGE);
    let rows = object(api.get("projects").await, &[&shape::ROWS]);
    let project = rows["rows"][0]["identifier"].as_str().unwrap();
    object(api.get(&format!("projects/{project}")).await, &[&shape::PROJECT]);
    nothing(api.post("sshkey/add", json!({"name": "k", "privateKey": "ssh-ed25519 AAAA"})).await);
    let keys = list(api.get("sshkeys").await, &shape::KEY);
    let key = keys.iter().find(|key| key["name"] == "k").unwrap()["identifier"].as_str().unwrap();
    object(api.get(&format!("sshkey/{key}")).await, &[&shape::KEY]);
    nothing(api.delete("sshkey", json!({"identifier": key})).await);
    let script = json!({"name": "s", "scriptContent": "#!/bin/sh", "scriptType": "bash", "tags": []});
    nothing(api.post("script/add", script).await);
    let script = list(api.get("scripts").await, &shape::SCRIPT).remove(0)["identifier"].take();
    object(api.get(&format!("script/{}", script.as_str().unwrap())).await, &[&shape::SCRIPT]);
    nothing(api.delete("script", json!({"scriptIdentifier": script})).await);
}

async fn vms(api: &Api) {
    let mut wish = vm("n-1");
    wish["addPrivateIp"] = json!("1");
    truth(api.post("vm", wish).await);
    let mut custom = vm("n-2");
    custom["osIdentifier"] = json!(identifier_of("node-image"));
    truth(api.post("custom/vm", custom).await);
    api.wait(1).await;
    list(api.get("vm/pending").await, &shape::PENDING);
    api.wait(3).await;
    for _ in 0..2 {
        list(api.get("vm").await, &shape::VM);
        api.wait(2).await;
    }
    list(api.get("vms/all/user").await, &shape::VM);
    list(api.get("storages/vms").await, &shape::STORAGE_VM);
    let id = api.identifier("n-1").await;
    let body = json!({"vmIdentifier": id});
    let with = |more: Value| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    object(api.get(&format!("vm/status/{id}")).await, &[&shape::LIVE]);
    truth(api.get(&format!("vm/live/agent/status/{id}")).await);
    let key = identifier_of("ssh-key-456");
    nothing(api.post("vm/sshkey", with(json!({"sshKeyIdentifier": key}))).await);
    nothing(api.post("vm/addtags", with(json!({"tags": ["a", "b"]}))).await);
    nothing(api.post("vm/changehostname", with(json!({"hostname": "m-1"}))).await);
    nothing(api.post("vm/lock", body.clone()).await);
    api.post("vm/restart", body.clone()).await.refused(409);
    nothing(api.post("vm/unlock", body.clone()).await);
    let place = identifier_of("dc-us-east-1");
    let vpc = json!({"name": "v", "dcIdentifier": place, "networkRange": "10.1.0.0", "networkSize": 24});
    nothing(api.post("vpc/add", vpc).await);
    let vpc = list(api.get("vpc").await, &shape::VPC).remove(0)["id"].take();
    object(api.get(&format!("vpc/{vpc}")).await, &[&shape::VPC]);
    let enter = with(json!({"vpcId": vpc, "dcIdentifier": place}));
    nothing(api.post("vm/add/vpc", enter.clone()).await);
    api.post("vm/add/vpc", enter).await.refused(409);
    let detail = object(api.get(&format!("vm/{id}")).await, &[&shape::DETAIL]);
    assert_eq!((&detail["vmTags"], &detail["vmData"]["hostname"]), (&json!(["a", "b"]), &json!("m-1")));
    assert_eq!(detail["privateIpData"].as_array().map(Vec::len), Some(2));
    assert_eq!(api.delete(&format!("vpc/{vpc}"), Value::Null).await.refused(409), "VPC is in use");
    let leave = with(json!({"privateIpId": detail["privateIpData"][1]["id"]}));
    nothing(api.delete("vm/vpc", leave).await);
    nothing(api.delete(&format!("vpc/{vpc}"), Value::Null).await);
    for order in ["stop", "start", "restart"] {
        truth(api.post(&format!("vm/{order}"), body.clone()).await);
        object(api.get(&format!("vm/{id}")).await, &[&shape::DETAIL]);
        object(api.get(&format!("vm/status/{id}")).await, &[&shape::LIVE]);
        api.wait(2).await;
    }
    truth(api.remove(&id).await);
    api.wait(1).await;
    list(api.get("vm").await, &shape::VM);
}

async fn clusters(api: &Api) {
    let place = identifier_of("dc-us-east-1");
    let body = json!({"clusterName": "c", "dcIdentifier": place, "nodesCountMaster": 1, "nodesCountSlave": 2,
        "vpcId": null, "kuberVer": "1.31.0", "resourceIdentifier": identifier_of("small-2cpu-4gb"),
        "projectIdentifier": identifier_of("Default")});
    nothing(api.post("k8s/create/cluster", body).await);
    api.wait(1).await;
    let cluster = list(api.get("k8s/cluster/all").await, &shape::CLUSTER).remove(0)["identifier"].take();
    let path = format!("k8s/cluster/byId/{}", cluster.as_str().unwrap());
    object(api.get(&path).await, &[&shape::CLUSTER_DETAIL, &shape::BY_ROLE]);
    api.cloud.set(|settings| settings.node_shape = NodeShape::Numbers);
    object(api.get(&path).await, &[&shape::CLUSTER_DETAIL, &shape::BY_NUMBER]);
    list(api.post("k8s/offers", json!({"dcIdentifier": place})).await, &shape::KUBE_SIZE);
    let group = json!({"clusterIdentifier": cluster, "groupName": "g", "KubeSizeID": 13});
    let group = object(api.post("k8s/cluster/add/group", group).await, &[&shape::GROUP_ID])["groupId"].take();
    let of_cluster = format!("k8s/node/groups/byClusterId/{}", cluster.as_str().unwrap());
    let groups = list(api.get(&of_cluster).await, &shape::GROUP);
    truth(api.post(&format!("{path}/add/slave/group/{group}"), Value::Null).await);
    truth(api.post(&format!("{path}/add/slave"), Value::Null).await);
    let worker = api.cloud.workers().remove(0).identifier;
    let body = api.delete(&format!("{path}/delete/slave"), json!({"identifier": worker})).await.good();
    assert_eq!(misshapen(&body, &[&shape::REMOVED]), None, "{body}");
    nothing(api.delete(&format!("{path}/reduce"), Value::Null).await);
    let ours = groups.iter().find(|one| one["id"] == group).unwrap()["identifier"].as_str().unwrap();
    nothing(api.delete(&format!("k8s/cluster/delete/group/{ours}"), Value::Null).await);
}

async fn refusals(api: &Api) {
    for (method, path, body) in [
        ("GET", "vm/none", Value::Null),
        ("GET", "vm/status/none", Value::Null),
        ("GET", "projects/none", Value::Null),
        ("GET", "sshkey/none", Value::Null),
        ("GET", "script/none", Value::Null),
        ("GET", "vpc/7", Value::Null),
        ("GET", "k8s/cluster/byId/none", Value::Null),
        ("POST", "vm", json!({})),
        ("POST", "vm/start", json!({"vmIdentifier": "none"})),
        ("DELETE", "vm", json!({"vmIdentifier": "none"})),
        ("DELETE", "k8s/cluster/delete/group/none", Value::Null),
        ("GET", "elsewhere", Value::Null),
    ] {
        let body = Some(body).filter(|body| !body.is_null());
        let answer = api.call(method, &format!("/apps/v2/{path}"), body).await;
        assert_eq!(misshapen(&answer.body, &[&shape::ERROR]), None, "{method} {path}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_have_the_known_shapes() {
    let clients = [("me".to_owned(), "secret".to_owned())].into();
    let api = Api::new(Settings { clients, tokens: ["key".to_owned()].into(), ..patient() });
    *api.credential.borrow_mut() = Some(("vpsie-auth", "key".to_owned()));
    account(&api).await;
    vms(&api).await;
    clusters(&api).await;
    refusals(&api).await;
    let called = api.cloud.calls();
    let operations: BTreeSet<&str> = Vpsie::operations().into_iter().map(|(name, _, _)| name).collect();
    let untried: Vec<&&str> = operations.iter().filter(|name| !called.contains_key(**name)).collect();
    assert_eq!(untried, [&""; 0], "nobody has looked at their answers");
}

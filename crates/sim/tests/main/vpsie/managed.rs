//! Managed clusters: groups, workers, and what nobody can choose.

use super::{Api, patient};
use hostler_sim::vpsie::{NodeShape, Settings, WorkerAnswer, identifier_of};
use serde_json::{Value, json};

async fn cluster(api: &Api, workers: u64) -> String {
    let body = json!({"clusterName": "c", "dcIdentifier": identifier_of("dc-us-east-1"), "nodesCountMaster": 1,
        "nodesCountSlave": workers, "vpcId": null, "kuberVer": "v1.31.0",
        "resourceIdentifier": identifier_of("small-2cpu-4gb"), "projectIdentifier": identifier_of("Default")});
    api.post("k8s/create/cluster", body).await.good();
    let list = api.get("k8s/cluster/all").await.data();
    let cluster = list.as_array().unwrap().last().unwrap();
    assert_eq!(cluster["kube_version"], "1.31.0", "no leading v");
    cluster["identifier"].as_str().unwrap().to_owned()
}

async fn slaves(api: &Api, cluster: &str) -> Vec<Value> {
    let shown = api.get(&format!("k8s/cluster/byId/{cluster}")).await.data();
    shown["slaves"].as_array().unwrap().clone()
}

async fn groups(api: &Api, cluster: &str) -> Vec<Value> {
    api.get(&format!("k8s/node/groups/byClusterId/{cluster}")).await.data().as_array().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_worker_comes_with_a_name_of_the_clouds_and_is_no_vps() {
    let api = Api::new(patient());
    let cluster = cluster(&api, 0).await;
    let group = groups(&api, &cluster).await[0]["id"].as_u64().unwrap();
    let path = format!("k8s/cluster/byId/{cluster}/add/slave/group/{group}");
    assert_eq!(api.call("POST", &format!("/apps/v2/{path}"), None).await.data(), true);
    assert!(slaves(&api, &cluster).await.is_empty());
    api.wait(1).await;
    let worker = slaves(&api, &cluster).await.remove(0);
    assert_eq!((&worker["status"], &worker["role"]), (&json!("provisioning"), &json!("slave")));
    let name = worker["hostname"].as_str().unwrap().to_owned();
    let parts: Vec<&str> = name.strip_prefix("dc-us-east-1-kubernetes-").unwrap().split('-').collect();
    assert!(parts.len() == 3 && parts[0].len() == 4 && parts[1] == "slave" && parts[2].len() == 4, "{name}");
    api.wait(4).await;
    assert_eq!(slaves(&api, &cluster).await[0]["status"], "running");
    assert!(api.hostnames().await.is_empty() && api.pending().await.is_empty());
    assert_eq!(groups(&api, &cluster).await[0]["nodes_count"], 1);
    assert!((api.cloud.monthly() - 22.0).abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn a_given_worker_is_removed_or_just_the_youngest() {
    let api = Api::new(patient());
    let cluster = cluster(&api, 3).await;
    api.wait(5).await;
    let path = |what: &str| format!("k8s/cluster/byId/{cluster}/{what}");
    let all = api.cloud.workers();
    let given = all[0].identifier.clone();
    let body = api.delete(&path("delete/slave"), json!({"identifier": given})).await.good();
    assert!(body["message"].is_string(), "{body}");
    api.delete(&path("delete/slave"), json!({"identifier": "none"})).await.refused(200);
    assert!(api.cloud.workers().iter().any(|one| one.identifier == given && one.status == "deleting"));
    api.wait(1).await;
    assert!(api.cloud.workers().iter().all(|one| one.identifier != given));
    let group = groups(&api, &cluster).await[0]["id"].clone();
    api.delete(&path("reduce"), json!({"groupId": group})).await.good();
    api.delete(&path("reduce"), json!({"groupId": 1})).await.refused(200);
    api.wait(1).await;
    assert_eq!(api.cloud.workers().len(), 1);
    assert!(api.cloud.spent() > 0.0);
    api.call("POST", &format!("/apps/v2/{}", path("add/slave")), None).await.good();
    assert_eq!(api.cloud.workers().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_has_one_group_of_a_size_and_so_many_workers() {
    let api = Api::new(Settings { max_workers: Some(1), ..patient() });
    let cluster = cluster(&api, 0).await;
    let sizes = api.post("k8s/offers", json!({"dcIdentifier": identifier_of("dc-us-east-1")})).await.data();
    assert_eq!((&sizes[1]["id"], &sizes[1]["cpu"], &sizes[1]["price"]), (&json!(12), &json!(4), &json!(41)));
    let new = |size| json!({"clusterIdentifier": cluster, "groupName": "g", "KubeSizeID": size});
    let made = api.post("k8s/cluster/add/group", new(12)).await.data();
    let said = api.post("k8s/cluster/add/group", new(12)).await.refused(400);
    assert!(said.contains("already has the same selected size"), "{said}");
    api.post("k8s/cluster/add/group", new(99)).await.refused(200);
    let add = format!("/apps/v2/k8s/cluster/byId/{cluster}/add/slave/group/{}", made["groupId"]);
    api.call("POST", &add, None).await.good();
    let said = api.call("POST", &add, None).await.refused(400);
    assert!(said.contains("exceeds the allowed limit"), "{said}");
    let group =
        groups(&api, &cluster).await.into_iter().find(|group| group["id"] == made["groupId"]).unwrap();
    let path = format!("k8s/cluster/delete/group/{}", group["identifier"].as_str().unwrap());
    api.delete(&path, json!({"deleteStatistic": {"reason": "", "note": ""}})).await.good();
    assert_eq!(groups(&api, &cluster).await.len(), 1);
    api.wait(1).await;
    assert!(api.cloud.workers().is_empty(), "its workers went with it");
    api.call("POST", &add, None).await.refused(200);
}

#[tokio::test(start_paused = true)]
async fn two_clients_have_seen_two_shapes() {
    for (shape, masters, by_number) in
        [(NodeShape::Roles, true, false), (NodeShape::Numbers, false, true), (NodeShape::Union, false, true)]
    {
        let api = Api::new(Settings { node_shape: shape, ..patient() });
        let cluster = cluster(&api, 1).await;
        api.wait(5).await;
        let shown = api.get(&format!("k8s/cluster/byId/{cluster}")).await.data();
        assert_eq!(shown["masters"].is_array() && shown["slaves"].is_array(), masters, "{shown}");
        let worker = if masters { &shown["slaves"][0] } else { &shown["nodes"][1] };
        assert_eq!(worker["id"].is_u64() && worker["node_type"] == 2, by_number, "{shown}");
        assert_eq!(worker["identifier"].is_string(), shape != NodeShape::Numbers, "{shown}");
    }
    let api = Api::new(Settings { worker_answer: WorkerAnswer::Object, ..patient() });
    let cluster = cluster(&api, 0).await;
    let added =
        api.call("POST", &format!("/apps/v2/k8s/cluster/byId/{cluster}/add/slave"), None).await.data();
    assert_eq!(added["identifier"], api.cloud.workers()[0].identifier.as_str());
}

#[tokio::test(start_paused = true)]
async fn a_worker_may_never_come_never_run_and_never_go() {
    let api = Api::new(Settings { never_boots: ["*".to_owned()].into(), ..patient() });
    let cluster = cluster(&api, 1).await;
    api.wait(3600).await;
    let worker = slaves(&api, &cluster).await.remove(0);
    assert_eq!(worker["status"], "provisioning");
    api.cloud.set(|settings| {
        settings.stuck_deleting = ["*".to_owned()].into();
        settings.never_appears = ["*".to_owned()].into();
    });
    let path = format!("k8s/cluster/byId/{cluster}");
    api.delete(&format!("{path}/delete/slave"), json!({"identifier": worker["identifier"]})).await.good();
    api.call("POST", &format!("/apps/v2/{path}/add/slave"), None).await.good();
    api.wait(3600).await;
    let left = slaves(&api, &cluster).await;
    assert_eq!((left.len(), &left[0]["status"]), (1, &json!("deleting")));
}

//! What each operation sends, and where.

use crate::stage::{Answer, Stage, fine};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn every_operation_goes_where_the_api_has_it() {
    let stage = Stage::new();
    let client = stage.with_key();
    let mut told: Vec<(String, Value, &str)> = Vec::new();
    let mut note = || {
        for seen in stage.take() {
            told.push((seen.line.clone(), seen.json(), seen.operation.unwrap()));
        }
    };
    client.list_vms().await.unwrap();
    client.list_pending_vms().await.unwrap();
    stage.will([fine(json!({"status": "running", "uptime": 5}))]);
    let status = client.vm_status("u").await.unwrap();
    assert_eq!((status.status.as_deref(), status.uptime), (Some("running"), Some(5)));
    client.delete_vm("u", "why").await.unwrap();
    client.start_vm("u").await.unwrap();
    client.stop_vm("u").await.unwrap();
    client.add_vm_tags("u", &["a".into()]).await.unwrap();
    client.add_vm_ssh_key("u", "k").await.unwrap();
    client.attach_vm_to_vpc("u", 9, "dc").await.unwrap();
    client.list_datacenters().await.unwrap();
    client.list_plan_categories().await.unwrap();
    client.list_custom_images().await.unwrap();
    client.list_projects().await.unwrap();
    client.list_ssh_keys().await.unwrap();
    client.list_scripts().await.unwrap();
    client.list_vpcs().await.unwrap();
    client.list_clusters().await.unwrap();
    stage.will([fine(json!({"identifier": "c"}))]);
    client.get_cluster("c").await.unwrap();
    client.list_node_groups("c").await.unwrap();
    client.list_kubernetes_offers("dc").await.unwrap();
    client.remove_worker("c", "n").await.unwrap();
    note();
    let vm = json!({"vmIdentifier": "u"});
    let with = |more: Value| {
        let mut body = vm.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let expected = [
        ("GET /apps/v2/vm", Value::Null, "ListVMs"),
        ("GET /apps/v2/vm/pending", Value::Null, "ListPendingVMs"),
        ("GET /apps/v2/vm/status/u", Value::Null, "GetVMStatus"),
        (
            "DELETE /apps/v2/vm",
            with(json!({"password": "", "deleteStatistic": {"reason": "why", "note": ""}})),
            "DeleteVM",
        ),
        ("POST /apps/v2/vm/start", vm.clone(), "StartVM"),
        ("POST /apps/v2/vm/stop", vm.clone(), "StopVM"),
        ("POST /apps/v2/vm/addtags", with(json!({"tags": ["a"]})), "AddVMTags"),
        ("POST /apps/v2/vm/sshkey", with(json!({"sshKeyIdentifier": "k"})), "AddVMSSHKey"),
        ("POST /apps/v2/vm/add/vpc", with(json!({"vpcId": 9, "dcIdentifier": "dc"})), "AttachVMToVPC"),
        ("GET /apps/v2/datacenter?offset=0&limit=500", Value::Null, "ListDatacenters"),
        ("GET /api/v2/plans/category", Value::Null, "ListPlanCategories"),
        ("GET /apps/v2/custom/images", Value::Null, "ListCustomImages"),
        ("GET /apps/v2/projects", Value::Null, "ListProjects"),
        ("GET /apps/v2/sshkeys", Value::Null, "ListSSHKeys"),
        ("GET /apps/v2/scripts", Value::Null, "ListScripts"),
        ("GET /apps/v2/vpc", Value::Null, "ListVPCs"),
        ("GET /apps/v2/k8s/cluster/all", Value::Null, "ListClusters"),
        ("GET /apps/v2/k8s/cluster/byId/c", Value::Null, "GetCluster"),
        ("GET /apps/v2/k8s/node/groups/byClusterId/c", Value::Null, "ListNodeGroups"),
        ("POST /apps/v2/k8s/offers", json!({"dcIdentifier": "dc"}), "ListKubernetesOffers"),
        ("DELETE /apps/v2/k8s/cluster/byId/c/delete/slave", json!({"identifier": "n"}), "RemoveWorker"),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(line, body, name)| (line.to_owned(), body, name)).collect();
    assert_eq!(told, expected);
}

#[tokio::test(start_paused = true)]
async fn plans_are_asked_for_by_category_and_merged() {
    let stage = Stage::new();
    let plan = |id: &str, price: Value| json!({"identifier": id, "nickname": id, "cpu": 2, "ram": 4096, "ssd": 80, "price": price});
    stage.will([
        fine(json!([{"identifier": "ca", "name": "A"}, {"identifier": "cc", "name": "C"}])),
        fine(json!([plan("small", json!(7.3)), plan("both", json!("14.60"))])),
        fine(json!([plan("both", json!("14.60")), plan("large", json!(73)), {"nickname": "without an id"}])),
    ]);
    let plans = stage.with_key().list_plans("dc 1", "os").await.unwrap();
    let told: Vec<_> = plans
        .iter()
        .map(|plan| {
            (plan.identifier.as_deref().unwrap(), plan.category.as_str(), plan.hourly_micros().unwrap())
        })
        .collect();
    assert_eq!(told, [("small", "A", 10_000), ("both", "A", 20_000), ("large", "C", 100_000)]);
    let seen = stage.take();
    assert_eq!(seen[1].line, "POST /apps/v2/resources");
    assert_eq!(seen[1].content_type.as_deref(), Some("application/x-www-form-urlencoded"));
    assert_eq!(
        seen[1].text(),
        "dcIdentifier=dc%201&osIdentifier=os&planCatIdentifier=ca&name=hostler&description=hostler&isCustom=0"
    );
}

#[tokio::test(start_paused = true)]
async fn the_list_of_stock_images_may_not_be_there() {
    let stage = Stage::new();
    let client = stage.with_key();
    for answer in [
        Answer::Raw(404, vec![], "<html>".into()),
        Answer::Json(404, json!({"error": true, "message": "no route"})),
        fine(json!({"rows": 7})),
        fine(json!([{"name": "without an id"}])),
        Answer::Json(200, json!({"error": true, "message": "no"})),
    ] {
        stage.will([answer.clone()]);
        assert_eq!(client.list_stock_images().await.unwrap(), None, "{answer:?}");
    }
    stage.will([fine(json!([{"identifier": "i", "name": "ubuntu-22.04-lts"}]))]);
    let images = client.list_stock_images().await.unwrap().unwrap();
    assert_eq!(images[0].name(), Some("ubuntu-22.04-lts"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_added_whatever_is_told_of_it() {
    let stage = Stage::new();
    let client = stage.with_key();
    stage.will([
        fine(json!(true)),
        fine(json!({"id": 1, "identifier": "n", "hostname": "w-1"})),
        Answer::Raw(204, vec![], String::new()),
    ]);
    let mut told = Vec::new();
    for group in [Some(7), Some(7), None] {
        told.push(client.add_worker("c", group).await.unwrap().identifier);
    }
    assert_eq!(told, [None, Some("n".to_owned()), None]);
    let base = "POST /apps/v2/k8s/cluster/byId/c/add/slave";
    let in_group = format!("{base}/group/7");
    assert_eq!(stage.lines(), [in_group.as_str(), in_group.as_str(), base]);
}

//! What nobody outside VPSie knows.

use super::{Api, patient, vm};
use hostler_sim::vpsie::{Settings, Total};
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn how_errors_come_is_a_switch() {
    for (missing_with_200, errors_with_200, missing, bad) in
        [(true, false, 200, 400), (false, false, 404, 400), (false, true, 200, 200)]
    {
        let api = Api::new(Settings { missing_with_200, errors_with_200, ..patient() });
        assert_eq!(api.get("vm/none").await.refused(missing), "VM not found");
        api.post("vm", json!({})).await.refused(bad);
        api.get("nowhere").await.refused(missing);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_say_how_much_there_is_in_one_of_three_ways() {
    for (total, key) in
        [(Total::Plain, Some("total")), (Total::WithSpace, Some("total ")), (Total::Missing, None)]
    {
        let body = Api::new(Settings { total, ..patient() }).get("sshkeys").await.good();
        let keys: Vec<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        let others = keys.into_iter().filter(|key| !["data", "error"].contains(key));
        assert_eq!(others.collect::<Vec<_>>(), key.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_vps_may_be_found_by_its_number() {
    for numeric_ids in [false, true] {
        let api = Api::new(Settings { numeric_ids, ..patient() });
        api.running("n-1").await;
        let found = api.get("vm/1001").await.body["data"]["vmData"]["hostname"] == "n-1";
        assert_eq!(found, numeric_ids);
    }
}

#[tokio::test(start_paused = true)]
async fn hostnames_may_have_capitals() {
    let api = Api::new(Settings { capital_hostnames: true, ..patient() });
    api.post("vm", vm("n-1")).await.good();
    api.wait(4).await;
    assert_eq!(api.hostnames().await, ["N-1"]);
    api.cloud.set(|settings| settings.capital_hostnames = false);
    assert_eq!(api.hostnames().await, ["n-1"]);
    assert_eq!(api.get("storages/vms").await.data()[0]["hostname"], "N-1", "there it is always so");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_may_need_more() {
    let api = Api::new(Settings { delete_needs_stop: true, ..patient() });
    let id = api.running("n-1").await;
    assert_eq!(api.remove(&id).await.refused(409), "VM is running");
    api.post("vm/stop", json!({"vmIdentifier": id})).await.good();
    api.wait(2).await;
    api.remove(&id).await.good();

    let api = Api::new(Settings { delete_password: Some("yes".to_owned()), ..patient() });
    let id = api.running("n-1").await;
    api.remove(&id).await.refused(403);
    api.delete("vm", json!({"vmIdentifier": id, "password": "yes"})).await.good();
}

#[tokio::test(start_paused = true)]
async fn there_may_be_no_list_of_images() {
    let api = Api::new(Settings { lists_images: false, ..patient() });
    assert!(api.get("images").await.refused(200).contains("not found"));
    assert_eq!(api.get("custom/images").await.data().as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn plans_are_asked_for_with_a_form_only() {
    let api = Api::new(patient());
    let fields = json!({"dcIdentifier": "x", "osIdentifier": "y", "planCatIdentifier": "z"});
    assert_eq!(api.post("resources", fields).await.refused(400), "dcIdentifier is required");
    assert_eq!(api.plans("A").await, ["shared-1cpu-2gb", "shared-2cpu-4gb"]);
}

#[tokio::test(start_paused = true)]
async fn a_catalogue_can_be_given() {
    let mut settings = patient();
    settings
        .merge(
            &json!({"catalogue": {"datacenters": [{"name": "dc-1", "identifier": "d"}], "customImages": [],
            "plans": [{"name": "p", "identifier": "i", "category": "C", "cpu": 1, "ram": 1024, "ssd": 10,
                "price": 5.5, "datacenters": ["dc-1"], "images": ["debian-12"]}]}}),
        )
        .unwrap();
    let api = Api::new(settings);
    let image = |name: &str| hostler_sim::vpsie::identifier_of(name);
    let ask = async |os: String| {
        let category = hostler_sim::vpsie::identifier_of("C");
        let fields = [("dcIdentifier", "d"), ("osIdentifier", &os), ("planCatIdentifier", &category)];
        api.form("resources", &fields).await.data()
    };
    assert_eq!(ask(image("ubuntu-22.04-lts")).await, json!([]));
    assert_eq!(ask(image("debian-12")).await[0]["price"], 5.5);
    assert_eq!(api.get("datacenter").await.data().as_array().map(Vec::len), Some(1));
    assert_eq!(api.get("datacenter?offset=1&limit=5").await.data(), json!([]));
    let wrong: Value = json!({"catalogue": {"plans": [{"name": "p", "category": "Z", "cpu": 1, "ram": 1, "ssd": 1,
        "price": 1}]}});
    assert!(patient().merge(&wrong).unwrap_err().contains("category"));
}

#[tokio::test(start_paused = true)]
async fn the_queue_may_know_nothing_of_notes() {
    for queue_has_notes in [true, false] {
        let api = Api::new(Settings { queue_has_notes, ..patient() });
        api.post("vm", vm("n-1")).await.good();
        api.wait(1).await;
        let queue = api.get("vm/pending").await.data();
        assert_eq!(queue[0]["data"]["notes"] == "a note", queue_has_notes, "{queue}");
    }
}

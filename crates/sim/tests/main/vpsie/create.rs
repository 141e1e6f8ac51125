//! The create call, and what is said to one that cannot be.

use super::{Api, patient, vm};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_sim::vpsie::{CreateAnswer, Settings, SoldOut, identifier_of};
use serde_json::{Value, json};

fn with(field: &str, value: Value) -> Value {
    let mut body = vm("n-1");
    body[field] = value;
    body
}

#[tokio::test(start_paused = true)]
async fn what_was_wished_is_what_comes() {
    let api = Api::new(patient());
    let mut body = vm("n-1");
    body["sshKeyIdentifier"] = json!(identifier_of("ssh-key-123"));
    body["userData"] = json!(STANDARD.encode("#!/bin/sh\n\u{e4} \n"));
    body["processId"] = json!("p-1");
    body["addPrivateIp"] = json!("1");
    body["vmPassword"] = json!("secret");
    api.post("vm", body).await.good();
    api.wait(1).await;
    let queue = api.get("vm/pending").await.data();
    let data = &queue[0]["data"];
    assert_eq!((&data["processId"], &data["addPublicIpV4"]), (&json!("p-1"), &json!(true)));
    assert_eq!((&data["projectId"], &data["vmPassword"]), (&json!(501), &json!("secret")));
    api.wait(5).await;
    let id = api.identifier("n-1").await;
    let detail = api.get(&format!("vm/{id}")).await.data();
    assert_eq!((&detail["vmTags"], &detail["vmData"]["notes"]), (&json!(["a"]), &json!("a note")));
    let vm = &detail["vmData"];
    assert_eq!(
        [&vm["cpu"], &vm["ram"], &vm["ssd"], &vm["traffic"]],
        [&json!(2), &json!(4096), &json!(50), &json!(2000)]
    );
    assert!(vm["default_ip"].is_string() && vm["private_ip"].is_string() && vm["default_ipv6"].is_null());
    assert_eq!((&vm["projectId"], &vm["id"]), (&json!(501), &json!(1001)));
    assert_eq!(api.cloud.user_data(&id).unwrap(), "#!/bin/sh\n\u{e4} \n".as_bytes());
    assert_eq!(api.cloud.vms()[0].ssh_keys, [identifier_of("ssh-key-123")]);
}

#[tokio::test(start_paused = true)]
async fn flags_that_are_no_texts_are_passed_over_in_silence() {
    for (value, expected) in [
        (json!("1"), true),
        (json!("0"), false),
        (json!(1), false),
        (json!(true), false),
        (Value::Null, false),
    ] {
        for (by_default, said) in [(false, expected), (true, value != json!("0"))] {
            let api = Api::new(Settings { public_by_default: by_default, ..patient() });
            api.post("vm", with("addPublicIpV4", value.clone())).await.good();
            api.wait(4).await;
            let id = api.identifier("n-1").await;
            assert_eq!(api.vm(&id).await["default_ip"].is_string(), said, "{value} {by_default}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn both_prefixes_take_it_and_numbers_of_projects_may_be_numbers() {
    let api = Api::new(patient());
    api.call("POST", "/api/v2/vm", Some(with("projectId", json!(502)))).await.good();
    api.wait(6).await;
    assert_eq!(api.call("GET", "/api/v2/vm?projectId=502", None).await.good()["total"], 1);
    assert_eq!(api.get("vm?projectId=501").await.data(), json!([]));
    let id = api.identifier("n-1").await;
    api.call("DELETE", "/api/v2/vm", Some(json!({"vmIdentifier": id}))).await.good();
}

#[tokio::test(start_paused = true)]
async fn what_there_is_not_is_not_found_and_what_is_missing_is_required() {
    let api = Api::new(patient());
    for (field, value, status, said) in [
        ("dcIdentifier", json!("dc-us-east-1"), 200, "Datacenter not found"),
        ("osIdentifier", json!("none"), 200, "OS image not found"),
        ("resourceIdentifier", json!("none"), 200, "Resource not found"),
        ("projectId", json!("7"), 200, "Project not found"),
        ("sshKeyIdentifier", json!("none"), 200, "SSH key not found"),
        ("scriptIdentifier", json!("none"), 200, "Script not found"),
        ("hostname", json!("-x"), 400, "hostname is not valid"),
        ("hostname", json!(7), 400, "hostname is required"),
        ("projectId", json!("x"), 400, "projectId is required"),
        ("dcIdentifier", Value::Null, 400, "dcIdentifier is required"),
    ] {
        assert_eq!(
            api.post("vm", with(field, value.clone())).await.refused(status),
            said,
            "{field}: {value}"
        );
    }
    assert!(api.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_account_has_room_for_so_many() {
    let quota = Settings {
        max_vms: Some(1),
        quota_message: "You reached the maximum number of VMs".to_owned(),
        quota_status: 403,
        ..patient()
    };
    let api = Api::new(quota);
    let id = api.running("n-1").await;
    assert_eq!(api.post("vm", vm("n-2")).await.refused(403), "You reached the maximum number of VMs");
    api.cloud.set(|settings| settings.errors_with_200 = true);
    api.post("vm", vm("n-2")).await.refused(200);
    api.remove(&id).await.good();
    api.wait(1).await;
    api.post("vm", vm("n-2")).await.good();
}

#[tokio::test(start_paused = true)]
async fn plans_can_be_sold_out_in_a_datacenter() {
    let sold_out = |answer| Settings {
        sold_out: ["small-*@dc-us-east-1".to_owned()].into(),
        sold_out_answer: answer,
        ..patient()
    };
    let api = Api::new(sold_out(SoldOut::Refused));
    assert!(api.plans("C").await.contains(&"small-2cpu-4gb".to_owned()));
    let said = api.post("vm", vm("n-1")).await.refused(400);
    assert!(said.contains("not available"), "{said}");
    api.post("vm", with("dcIdentifier", json!(identifier_of("dc-eu-central-1")))).await.good();

    let api = Api::new(sold_out(SoldOut::Unlisted));
    assert_eq!(api.plans("C").await, ["medium-4cpu-8gb", "large-8cpu-16gb"]);
    api.post("vm", vm("n-1")).await.refused(400);

    let api = Api::new(sold_out(SoldOut::Lost));
    api.post("vm", vm("n-1")).await.good();
    api.wait(1).await;
    assert_eq!(api.pending().await, ["n-1"]);
    api.wait(3600).await;
    assert!(api.pending().await.is_empty() && api.hostnames().await.is_empty());
    assert!(api.cloud.vms().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_create_call_is_answered_with_is_a_switch() {
    for (answer, status, body) in [
        (CreateAnswer::Truth, 200, json!({"error": false, "data": true})),
        (CreateAnswer::Done, 200, json!({"error": false})),
        (CreateAnswer::Nothing, 204, Value::Null),
    ] {
        let api = Api::new(Settings { create_answer: answer, ..patient() });
        let said = api.post("vm", vm("n-1")).await;
        assert_eq!((said.status, said.body), (status, body));
        assert_eq!(api.cloud.vms().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_custom_image_has_a_call_of_its_own_and_a_disk_of_any_size() {
    let api = Api::new(patient());
    let images = api.get("custom/images").await.data();
    let mut body = vm("n-1");
    body["osIdentifier"] = images[0]["identifier"].clone();
    body["ssd"] = json!(80);
    api.post("custom/vm", vm("n-1")).await.refused(200);
    api.post("custom/vm", body.clone()).await.good();
    body["dcIdentifier"] = json!(identifier_of("dc-eu-central-1"));
    assert_eq!(api.post("custom/vm", body).await.refused(200), "OS image not found", "it is elsewhere");
    api.wait(4).await;
    let id = api.identifier("n-1").await;
    assert_eq!(api.vm(&id).await["ssd"], 80);
}

#[tokio::test(start_paused = true)]
async fn the_references_names_are_names_or_identifiers() {
    let api = Api::new(patient());
    assert_eq!(api.plans("C").await, ["small-2cpu-4gb", "medium-4cpu-8gb", "large-8cpu-16gb"]);
    api.cloud.set(|settings| settings.plain_identifiers = true);
    let body = json!({"hostname": "n-1", "resourceIdentifier": "medium-4cpu-8gb", "projectId": "501",
        "osIdentifier": "ubuntu-22.04-lts", "dcIdentifier": "dc-us-east-1", "sshKeyIdentifier": "ssh-key-123"});
    api.post("vm", body).await.good();
    let names = api.get("datacenter").await.data();
    assert_eq!(
        (&names[0]["identifier"], &names[0]["dc_name"]),
        (&json!("dc-us-east-1"), &json!("dc-us-east-1"))
    );
}

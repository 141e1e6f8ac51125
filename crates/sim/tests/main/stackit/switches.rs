//! What nobody outside STACKIT knows, in every setting; and limits.

use super::{Api, IMAGE, NETWORK, OTHER, PROJECT, id, server};
use hostler_sim::stackit::{Catalogue, EmptyNetworking, MachineType, SelectorGrammar, Settings};
use serde_json::{Value, json};

async fn with_two_pools(settings: Settings) -> Api {
    let api = Api::new(settings);
    for (name, pool) in [("m-1", "a"), ("m-2", "b")] {
        let mut body = server(name);
        body["labels"]["pool"] = json!(pool);
        api.create(body).await;
    }
    api
}

#[tokio::test(start_paused = true)]
async fn selectors_follow_the_grammar_that_is_set() {
    for (grammar, sets_are_understood) in
        [(SelectorGrammar::Equality, false), (SelectorGrammar::Kubernetes, true)]
    {
        let api = with_two_pools(Settings { selector_grammar: grammar, ..Settings::default() }).await;
        let both = "servers?label_selector=kubernetes.io%2Fmachine%3Dm-1%2Cpool%3Da";
        assert_eq!(api.names(both).await, ["m-1"], "{grammar:?}");
        assert!(api.names("servers?label_selector=pool%3Dc").await.is_empty());
        let set = "servers?label_selector=pool%20in%20(b%2Cc)";
        if sets_are_understood {
            assert_eq!(api.names(set).await, ["m-2"]);
        } else {
            api.get(set).await.refused(400);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_may_be_ignored() {
    let api = with_two_pools(Settings::default()).await;
    let path = "servers?details=false&label_selector=pool%3Da";
    assert_eq!(api.names(path).await, ["m-1"]);
    api.cloud.set(|settings| settings.ignores_selector = true);
    assert_eq!(api.names(path).await.len(), 2);
    assert_eq!(api.names("servers?label_selector=!").await.len(), 2, "whatever it is");
}

#[tokio::test(start_paused = true)]
async fn empty_networking_leads_where_the_switch_says() {
    for (empty, nics) in [
        (EmptyNetworking::Refused, None),
        (EmptyNetworking::WithoutNic, Some(0)),
        (EmptyNetworking::DefaultNetwork, Some(1)),
    ] {
        let api = Api::new(Settings { empty_networking: empty, ..Settings::default() });
        let mut body = server("m-1");
        body["networking"] = json!({});
        let answer = api.post("servers", body).await;
        match nics {
            None => assert!(answer.refused(400).contains("networking")),
            Some(expected) => {
                let details = api.server(&id(&answer.with(201))).await;
                assert_eq!(details["nics"].as_array().map(Vec::len), Some(expected), "{empty:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_hold_and_are_shown() {
    for status in [403, 413] {
        let quotas = [("vcpu".to_owned(), 3), ("volumes".to_owned(), 2)].into();
        let api = Api::new(Settings { quotas, quota_status: status, ..Settings::default() });
        let first = id(&api.create(server("m-1")).await);
        let quota = |body: &Value, name: &str| {
            (body["quotas"][name]["limit"].clone(), body["quotas"][name]["usage"].clone())
        };
        let shown = api.get("quotas").await.with(200);
        assert_eq!(quota(&shown, "vcpu"), (json!(3), json!(2)));
        assert_eq!(quota(&shown, "nics").1, 1);
        let message = api.post("servers", server("m-2")).await.refused(status);
        assert!(message.contains("Quota exceeded for vcpu"), "{message}");
        assert_eq!((api.cloud.servers().len(), api.cloud.nics().len()), (1, 1), "nothing is left of it");
        let volume = json!({"availabilityZone": "eu01-1", "size": 1});
        api.post("volumes", volume.clone()).await.with(201);
        assert!(api.post("volumes", volume).await.refused(413).contains("Quota exceeded for volumes"));
        api.delete(&format!("servers/{first}")).await.with(204);
        api.wait(1).await;
        assert_eq!(quota(&api.get("quotas").await.with(200), "vcpu").1, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_catalogue_every_well_formed_id_exists() {
    let api = Api::new(Settings::default());
    let mut body = server("m-1");
    body["machineType"] = json!("x9.4");
    body["keypairName"] = json!("anybody");
    body["networking"] = json!({"nicIds": [OTHER, NETWORK]});
    body["volumes"] = json!([OTHER]);
    body["affinityGroup"] = json!(OTHER);
    let server = id(&api.create(body).await);
    assert_eq!(api.server(&server).await["nics"].as_array().map(Vec::len), Some(2));
    for path in [format!("images/{OTHER}"), "machine-types/x9.4".to_owned(), format!("networks/{OTHER}")] {
        api.get(&path).await.with(200);
    }
    for path in ["images/none", "networks/none", "servers/none", "volumes/none", "nics/none"] {
        api.get(path).await.refused(400);
    }
    api.get(&format!("servers/{OTHER}")).await.refused(404);
}

#[tokio::test(start_paused = true)]
async fn with_a_catalogue_only_what_is_in_it_exists() {
    let catalogue = Catalogue {
        machine_types: vec![MachineType { name: "c2i.2".to_owned(), vcpus: 2, ram: 4096, disk: 0 }],
        images: [(IMAGE.to_owned(), "Linux".to_owned())].into(),
        networks: [(NETWORK.to_owned(), "nodes".to_owned())].into(),
        keypairs: ["me".to_owned()].into(),
        availability_zones: vec!["eu01-1".to_owned()],
    };
    let api = Api::new(Settings { catalogue: Some(catalogue), ..Settings::default() });
    let created = api.create(server("m-1")).await;
    assert_eq!(created["availabilityZone"], "eu01-1");
    for (field, value, status) in [
        ("machineType", json!("c2i.4"), 400),
        ("imageId", json!(OTHER), 404),
        ("networking", json!({"networkId": OTHER}), 404),
        ("networking", json!({"nicIds": [OTHER]}), 404),
        ("keypairName", json!("you"), 404),
        ("availabilityZone", json!("eu01-9"), 400),
        ("affinityGroup", json!(OTHER), 404),
        ("volumes", json!([OTHER]), 404),
        ("securityGroups", json!(["none"]), 404),
    ] {
        let mut body = server("m-2");
        body[field] = value;
        api.post("servers", body).await.refused(status);
    }
    assert_eq!(api.cloud.servers().len(), 1);
    assert_eq!(api.names("machine-types").await, ["c2i.2"]);
    assert!(api.names("machine-types?filter=vcpus%20%3E%202").await.is_empty());
    assert_eq!(api.names("images").await, ["Linux"]);
    assert_eq!(api.names("networks").await, ["nodes"]);
    api.get("machine-types/c2i.4").await.refused(404);
    api.call("GET", "/v2/keypairs/you", None).await.refused(404);
    api.call("GET", "/v2/projects/p/regions/eu01/servers", None).await.refused(400);
}

#[tokio::test(start_paused = true)]
async fn projects_and_regions_are_apart() {
    let api = Api::new(Settings::default());
    let created = id(&api.create(server("m-1")).await);
    for place in [format!("{OTHER}/regions/eu01"), format!("{PROJECT}/regions/eu02")] {
        let listed = api.call("GET", &format!("/v2/projects/{place}/servers"), None).await.with(200);
        assert_eq!(listed["items"], json!([]), "{place}");
        api.call("GET", &format!("/v2/projects/{place}/servers/{created}"), None).await.refused(404);
        api.call("DELETE", &format!("/v2/projects/{place}/servers/{created}"), None).await.refused(404);
    }
    api.call("GET", "/v2/nowhere", None).await.refused(404);
    api.call("GET", "/v2/projects/a/regions/b/servers?details=maybe", None).await.refused(400);
    let path = super::at("servers");
    let broken = http::Request::post(path).body(axum::body::Body::from("{")).unwrap();
    let answer = tower::ServiceExt::oneshot(api.router.clone(), broken).await.unwrap();
    assert_eq!(answer.status(), 400);
}

#[tokio::test(start_paused = true)]
async fn attachments_may_be_fixed_while_a_server_is_in_a_status() {
    let api = Api::new(Settings { fixed_attachments: ["CREATING".to_owned()].into(), ..Settings::default() });
    let made = api.create(server("m-1")).await;
    let path = format!("servers/{}/volume-attachments/{}", id(&made), id(&made["bootVolume"]));
    let goes = json!({"deleteOnTermination": true});
    assert!(api.patch(&path, goes.clone()).await.refused(409).contains("CREATING"));
    assert_eq!(api.get(&path).await.with(200)["deleteOnTermination"], false);
    api.wait(2).await;
    assert_eq!(api.patch(&path, goes).await.with(200)["deleteOnTermination"], true);
}

#[tokio::test(start_paused = true)]
async fn a_server_may_be_silent_about_its_boot_volume() {
    let api = Api::new(Settings { silent_boot_volumes: true, ..Settings::default() });
    let made = api.create(server("m-1")).await;
    let (server, volume) = (id(&made), id(&made["bootVolume"]));
    for shown in [made, api.server(&server).await, api.get("servers").await.with(200)["items"][0].clone()] {
        assert_eq!(shown["bootVolume"], json!({"id": volume}));
    }
    let attachment = api.get(&format!("servers/{server}/volume-attachments/{volume}")).await.with(200);
    assert_eq!(attachment["deleteOnTermination"], false);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_may_be_shown_for_a_while() {
    for (ghosts_are_deleted, ghosts_answer) in [(false, false), (true, false), (true, true)] {
        let gone_lag = std::time::Duration::from_secs(60);
        let settings = Settings { gone_lag, ghosts_are_deleted, ghosts_answer, ..Settings::default() };
        let api = Api::new(settings);
        let server = id(&api.create(server("m-1")).await);
        let path = format!("servers/{server}");
        api.wait(2).await;
        api.delete(&path).await.with(204);
        api.wait(2).await;
        let listed = api.get("servers").await.with(200)["items"][0]["status"].clone();
        assert_eq!(listed, if ghosts_are_deleted { "DELETED" } else { "DELETING" });
        if ghosts_answer {
            assert_eq!(api.get(&path).await.with(200)["status"], "DELETED");
        } else {
            api.get(&path).await.refused(404);
        }
        api.wait(60).await;
        api.get(&path).await.refused(404);
        assert_eq!(api.get("servers").await.with(200)["items"], json!([]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_order_may_tell_of_another_server() {
    let api = Api::new(Settings::default());
    let first = id(&api.create(server("m-1")).await);
    api.cloud.set(|settings| settings.answers_about = [("m-2".to_owned(), first.clone())].into());
    assert_eq!(id(&api.create(server("m-2")).await), first);
    assert_eq!(api.names("servers").await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn volumes_may_outlive_a_server() {
    let api = Api::new(Settings::default());
    let server = api.cloud.add_foreign(PROJECT, "eu01", "m-1", &[]);
    assert!(api.cloud.let_volumes_stay(&server));
    assert!(!api.cloud.let_volumes_stay(OTHER));
    api.delete(&format!("servers/{server}")).await.with(204);
    api.wait(2).await;
    assert_eq!(api.cloud.volumes().len(), 1);
}

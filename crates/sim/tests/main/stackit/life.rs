//! A server's life in time.

use super::{Api, IMAGE, id, server};
use hostler_sim::stackit::Settings;
use serde_json::json;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_server_starts_runs_and_goes() {
    let api = Api::new(Settings::default());
    let made = api.create(server("m-1")).await;
    let id = id(&made);
    assert_eq!((&made["status"], &made["powerStatus"]), (&json!("CREATING"), &json!("STOPPED")));
    assert!(made["nics"].is_null() && made["userData"].is_null(), "only details show these");
    api.wait(2).await;
    let shown = api.server(&id).await;
    assert_eq!((&shown["status"], &shown["powerStatus"]), (&json!("ACTIVE"), &json!("RUNNING")));
    assert_eq!(shown["nics"][0]["networkId"], super::NETWORK);
    assert_eq!(shown["launchedAt"], "2026-01-01T00:00:02Z");
    api.delete(&format!("servers/{id}")).await.with(204);
    assert_eq!(api.status(&id).await, "DELETING");
    api.delete(&format!("servers/{id}")).await.with(204);
    api.order(&format!("servers/{id}/stop")).await.refused(409);
    api.wait(1).await;
    let message = api.get(&format!("servers/{id}")).await.refused(404);
    assert!(message.contains(&id));
    api.delete(&format!("servers/{id}")).await.refused(404);
    assert!(api.cloud.servers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn orders_take_their_time() {
    let api = Api::new(Settings::default());
    let id = id(&api.create(server("m-1")).await);
    let order = |what: &str| format!("servers/{id}/{what}");
    api.order(&order("start")).await.refused(409);
    api.wait(2).await;
    for (what, body, at_once, then) in [
        ("stop", None, "STOPPING", "INACTIVE"),
        ("start", None, "STARTING", "ACTIVE"),
        ("reboot?action=hard", None, "REBOOTING", "ACTIVE"),
        ("resize", Some(json!({"machineType": "c2i.8"})), "RESIZING", "ACTIVE"),
        ("rescue", Some(json!({"image": IMAGE})), "RESCUING", "RESCUE"),
        ("unrescue", None, "UNRESCUING", "ACTIVE"),
        ("deallocate", None, "DEALLOCATING", "DEALLOCATED"),
        ("start", None, "STARTING", "ACTIVE"),
    ] {
        api.call("POST", &super::at(&order(what)), body).await.with(202);
        assert_eq!(api.status(&id).await, at_once, "{what}");
        api.wait(2).await;
        assert_eq!(api.status(&id).await, then, "{what}");
    }
    assert_eq!(api.server(&id).await["machineType"], "c2i.8");
    api.order(&order("start")).await.refused(409);
    api.order(&order("reboot?action=gently")).await.refused(400);
    api.post(&order("resize"), json!({})).await.refused(400);
    api.post(&order("rescue"), json!({"image": "none"})).await.refused(400);
}

#[tokio::test(start_paused = true)]
async fn a_server_can_fail_with_a_message() {
    let errors = [("bad-*".to_owned(), "the disk is full".to_owned())].into();
    let api = Api::new(Settings { errors, ..Settings::default() });
    let (bad, good) = (id(&api.create(server("bad-1")).await), id(&api.create(server("good")).await));
    assert_eq!(api.status(&bad).await, "CREATING");
    api.wait(2).await;
    let shown = api.server(&bad).await;
    assert_eq!((&shown["status"], &shown["errorMessage"]), (&json!("ERROR"), &json!("the disk is full")));
    assert_eq!(api.status(&good).await, "ACTIVE");
    assert!(api.cloud.fail_server(&good, "the host is gone"));
    assert_eq!(api.server(&good).await["errorMessage"], "the host is gone");
    api.delete(&format!("servers/{bad}")).await.with(204);
    api.wait(1).await;
    assert_eq!(api.cloud.servers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn hosts_have_room_for_so_many() {
    let capacity = [("c2i.2".to_owned(), 1)].into();
    let api = Api::new(Settings { capacity, ..Settings::default() });
    let first = id(&api.create(server("m-1")).await);
    let second = id(&api.create(server("m-2")).await);
    let mut large = server("m-3");
    large["machineType"] = json!("c2i.4");
    let third = id(&api.create(large).await);
    api.wait(2).await;
    assert_eq!(api.status(&first).await, "ACTIVE");
    assert_eq!(api.status(&third).await, "ACTIVE");
    let message = api.server(&second).await["errorMessage"].as_str().unwrap().to_owned();
    assert!(message.starts_with("No valid host was found"), "{message}");
    api.delete(&format!("servers/{first}")).await.with(204);
    api.wait(1).await;
    let fourth = id(&api.create(server("m-4")).await);
    api.wait(2).await;
    assert_eq!(api.status(&fourth).await, "ACTIVE", "there is room again");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_can_get_stuck_and_go_on() {
    let api = Api::new(Settings { stuck_deleting: ["m-*".to_owned()].into(), ..Settings::default() });
    let id = id(&api.create(server("m-1")).await);
    api.delete(&format!("servers/{id}")).await.with(204);
    api.wait(3600).await;
    assert_eq!(api.status(&id).await, "DELETING");
    api.cloud.set(|settings| settings.stuck_deleting.clear());
    api.wait(1).await;
    api.get(&format!("servers/{id}")).await.refused(404);
}

#[tokio::test(start_paused = true)]
async fn lists_lag_behind_both_ways() {
    let lag = Duration::from_secs(10);
    let api = Api::new(Settings { list_lag: lag, gone_lag: lag, ..Settings::default() });
    let id = id(&api.create(server("m-1")).await);
    api.wait(9).await;
    assert!(api.names("servers").await.is_empty());
    assert_eq!(api.status(&id).await, "ACTIVE", "who knows the id sees it");
    api.wait(1).await;
    assert_eq!(api.names("servers").await, ["m-1"]);
    api.delete(&format!("servers/{id}")).await.with(204);
    api.wait(1).await;
    api.get(&format!("servers/{id}")).await.refused(404);
    assert_eq!(api.names("servers").await, ["m-1"], "it is gone and still in lists");
    api.wait(10).await;
    assert!(api.names("servers").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_console_shows_its_end() {
    let consoles = [("m-1".to_owned(), "a\nb\nc".to_owned())].into();
    let api = Api::new(Settings { consoles, ..Settings::default() });
    let (first, second) = (id(&api.create(server("m-1")).await), id(&api.create(server("m-2")).await));
    for (query, expected) in [("", "a\nb\nc"), ("?length=2", "b\nc"), ("?length=0", "a\nb\nc")] {
        let log = api.get(&format!("servers/{first}/log{query}")).await.with(200);
        assert_eq!(log["output"], expected, "{query}");
    }
    api.get(&format!("servers/{first}/log?length=-1")).await.refused(400);
    api.wait(2).await;
    let log = api.get(&format!("servers/{second}/log")).await.with(200);
    assert!(log["output"].as_str().unwrap().contains("m-2 login:"));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cloud() {
    let run = async || {
        let api = Api::new(Settings { jitter: Duration::from_secs(5), ..Settings::default() });
        for number in 0..10 {
            api.create(server(&format!("m-{number}"))).await;
        }
        api.wait(4).await;
        api.get("servers?details=true").await.with(200)
    };
    let (first, second) = (run().await, run().await);
    assert_eq!(first, second);
    let active = first["items"].as_array().unwrap().iter().filter(|server| server["status"] == "ACTIVE");
    assert!((1..10).contains(&active.count()), "boot times differ");
}

#[tokio::test(start_paused = true)]
async fn requests_tell_what_became_of_a_call() {
    let api = Api::new(Settings::default());
    let answer = api.post("servers", server("m-1")).await;
    let request = answer.headers["x-request-id"].to_str().unwrap().to_owned();
    assert!(request.starts_with("req-") && request.len() == 36, "{request}");
    let id = id(&answer.body);
    let state = async |request: &str| {
        let shown = api.get(&format!("requests/{request}")).await.with(200);
        assert_eq!(shown["resources"][0]["id"], id.as_str());
        (shown["requestAction"].as_str().unwrap().to_owned(), shown["status"].as_str().unwrap().to_owned())
    };
    let pair = |action: &str, status: &str| (action.to_owned(), status.to_owned());
    assert_eq!(state(&request).await, pair("CREATE", "CREATING"));
    api.wait(2).await;
    assert_eq!(state(&request).await, pair("CREATE", "CREATED"));
    let deletion = api.delete(&format!("servers/{id}")).await;
    let deletion = deletion.headers["x-request-id"].to_str().unwrap().to_owned();
    assert_eq!(state(&deletion).await, pair("DELETE", "DELETING"));
    api.wait(1).await;
    assert_eq!(state(&deletion).await, pair("DELETE", "DELETED"));
    api.get("requests/req-00000000000000000000000000000000").await.refused(404);
}

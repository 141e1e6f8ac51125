//! A VPS's life in time.

use super::{Api, patient, vm};
use hostler_sim::vpsie::{Settings, VmStage};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_vps_is_nowhere_then_in_the_queue_then_nowhere_then_in_the_list() {
    let api = Api::new(patient());
    assert_eq!(api.post("vm", vm("n-1")).await.data(), true, "there is no id");
    let mut seen = Vec::new();
    for _ in 0..7 {
        seen.push((api.pending().await.len(), api.hostnames().await.len()));
        api.wait(1).await;
    }
    assert_eq!(seen, [(0, 0), (1, 0), (1, 0), (0, 0), (0, 1), (0, 1), (0, 1)]);
    let view = api.cloud.vms().remove(0);
    assert_eq!((view.id, view.stage, view.power), (1001, VmStage::Listed, true));
    assert_eq!((view.plan.as_str(), view.price), ("small-2cpu-4gb", 20.0));
}

#[tokio::test(start_paused = true)]
async fn its_status_is_in_flags_only() {
    let api = Api::new(patient());
    api.post("vm", vm("n-1")).await.good();
    api.wait(4).await;
    let id = api.identifier("n-1").await;
    let flags = |vm: &Value| {
        ["is_active", "power", "is_deleted", "is_suspended", "is_locked"]
            .map(|flag| vm[flag].as_u64().unwrap())
    };
    let booting = api.vm(&id).await;
    assert_eq!(flags(&booting), [0, 0, 0, 0, 0]);
    assert!(booting.get("status").is_none() && booting.get("tags").is_none(), "{booting}");
    assert_eq!(api.get(&format!("vm/live/agent/status/{id}")).await.data(), false);
    api.wait(2).await;
    assert_eq!(flags(&api.vm(&id).await), [1, 1, 0, 0, 0]);
    assert_eq!(api.get(&format!("vm/live/agent/status/{id}")).await.data(), true);
    assert_eq!(api.get(&format!("vm/status/{id}")).await.data()["status"], "running");
    assert!(api.cloud.suspend(&id, true));
    assert_eq!(flags(&api.vm(&id).await), [1, 0, 0, 1, 0]);
    assert!(api.cloud.suspend(&id, false) && !api.cloud.suspend("none", true));
    api.post("vm/stop", json!({"vmIdentifier": id})).await.good();
    api.post("vm/start", json!({"vmIdentifier": id})).await.refused(409);
    api.wait(2).await;
    assert_eq!(flags(&api.vm(&id).await), [1, 0, 0, 0, 0]);
    assert_eq!(api.get(&format!("vm/status/{id}")).await.data()["status"], "stopped");
    api.post("vm/start", json!({"vmIdentifier": id})).await.good();
    api.wait(2).await;
    api.post("vm/restart", json!({"vmIdentifier": id})).await.good();
    assert_eq!(api.get(&format!("vm/live/agent/status/{id}")).await.data(), false);
    api.wait(2).await;
    assert_eq!(api.get(&format!("vm/live/agent/status/{id}")).await.data(), true);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_takes_its_time_and_shows_what_it_deleted() {
    let api = Api::new(Settings { gone_lag: Duration::from_secs(3), ..patient() });
    let id = api.running("n-1").await;
    assert_eq!(api.remove(&id).await.data(), true);
    assert_eq!(api.vm(&id).await["power"], 1, "it still runs");
    api.remove(&id).await.good();
    api.wait(1).await;
    let deleted = api.vm(&id).await;
    assert_eq!((&deleted["is_deleted"], &deleted["power"]), (&json!(1), &json!(0)));
    assert!(deleted["dropped_on"].is_string());
    api.remove(&id).await.refused(200);
    api.post("vm/start", json!({"vmIdentifier": id})).await.refused(200);
    api.wait(2).await;
    let message = api.get(&format!("vm/{id}")).await.refused(200);
    assert!(message.contains("not found"), "{message}");
    assert_eq!(api.hostnames().await, ["n-1"], "it is gone and still in the list");
    assert!(api.cloud.vms().is_empty());
    api.wait(3).await;
    assert!(api.hostnames().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn some_never_get_on_and_go_on_when_they_may() {
    let held = |which: fn(&mut Settings) -> &mut std::collections::BTreeSet<String>| {
        let mut settings = patient();
        which(&mut settings).insert("bad-*".to_owned());
        Api::new(settings)
    };
    let api = held(|settings| &mut settings.never_appears);
    api.post("vm", vm("bad-1")).await.good();
    api.post("vm", vm("good")).await.good();
    api.wait(3600).await;
    assert_eq!((api.pending().await.len(), api.hostnames().await), (0, vec!["good".to_owned()]));
    api.cloud.set(|settings| settings.never_appears.clear());
    api.wait(4).await;
    assert_eq!(api.hostnames().await.len(), 2);

    let api = held(|settings| &mut settings.stuck_in_queue);
    api.post("vm", vm("bad-1")).await.good();
    api.wait(3600).await;
    assert_eq!((api.pending().await.len(), api.hostnames().await.len()), (1, 0));

    let api = held(|settings| &mut settings.never_boots);
    let id = api.running("bad-1").await;
    api.wait(3600).await;
    assert_eq!(api.vm(&id).await["power"], 0);

    let api = held(|settings| &mut settings.stuck_deleting);
    let id = api.running("bad-1").await;
    api.remove(&id).await.good();
    api.wait(3600).await;
    let vm = api.vm(&id).await;
    assert_eq!((&vm["is_deleted"], &vm["power"]), (&json!(0), &json!(1)));
    api.cloud.set(|settings| settings.stuck_deleting.clear());
    assert_eq!(api.vm(&id).await["power"], 1, "it runs until its time has come");
    api.wait(3).await;
    assert!(api.hostnames().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cloud() {
    let run = async || {
        let api = Api::new(Settings { jitter: Duration::from_secs(5), ..patient() });
        for number in 0..10 {
            api.post("vm", vm(&format!("n-{number}"))).await.good();
        }
        api.wait(12).await;
        api.get("vm").await.data()
    };
    let (first, second) = (run().await, run().await);
    assert_eq!(first, second);
    assert!((1..10).contains(&first.as_array().unwrap().len()), "the times differ: {first}");
}

#[tokio::test(start_paused = true)]
async fn the_bill_runs_from_the_list_to_the_deletion() {
    let api = Api::new(patient());
    api.post("vm", vm("n-1")).await.good();
    api.wait(4).await;
    assert!(api.cloud.spent().abs() < 1e-9 && (api.cloud.monthly() - 20.0).abs() < 1e-9);
    api.wait(3600 * 73).await;
    assert!((api.cloud.spent() - 2.0).abs() < 1e-6, "{}", api.cloud.spent());
    let id = api.identifier("n-1").await;
    api.remove(&id).await.good();
    api.wait(3600).await;
    let after = api.cloud.spent();
    assert!((after - 2.0).abs() < 1e-4, "{after}");
    api.wait(3600 * 73).await;
    assert!((api.cloud.spent() - after).abs() < 1e-9 && api.cloud.monthly().abs() < 1e-9);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_vps_is_there_at_once() {
    let api = Api::new(patient());
    let id = api.cloud.add_foreign("theirs").unwrap();
    assert_eq!(api.identifier("theirs").await, id);
    assert_eq!(api.vm(&id).await["power"], 1);
}

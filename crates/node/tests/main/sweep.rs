//! A drain with everything in it, broken at every call it makes.

use crate::stage::{Stage, budget, deployment, is_of, is_ready, stateful_set};
use hostler_sim::{Class, Fault, Finished, Plan, Sweep, csi::CsiSettings};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// Everything leaves the node. A process that is not restarted also waits until a volume has come to another node before
/// it asks for the next pod with one.
async fn drain(plan: Plan, is_patient: bool) -> Finished {
    let mut stage = Stage::without_controller(plan, CsiSettings::default(), &["one", "two"]).await;
    let nodes = Api::<Node>::all(stage.admin.clone());
    let cordon = |cordoned: bool| Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
    nodes.patch("two", &PatchParams::default(), &cordon(true)).await.unwrap();
    stage.create(deployment("web", 2, json!({}))).await;
    stage.create(budget("web", 1)).await;
    stage.create(stateful_set("db", 2)).await;
    stage
        .until("all run", async |stage| {
            let pods = stage.list::<Pod>().await;
            pods.iter().filter(|pod| is_ready(pod)).count() == 4 && stage.csi.history().len() == 2
        })
        .await;
    nodes.patch("two", &PatchParams::default(), &cordon(false)).await.unwrap();
    let pods = Api::<Pod>::all(stage.admin.clone());
    stage.world.observe(Arc::new(move || {
        let pods = pods.clone();
        Box::pin(async move {
            let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let well = all.items.iter().filter(|pod| is_of(pod, "web") && is_ready(pod)).count();
            if well < 1 { Err("budget broken".to_owned()) } else { Ok(()) }
        })
    }));
    stage.start_controller();
    stage.order("one").await;
    let goal = stage
        .try_until("it is drained", Duration::from_mins(30), async |stage| {
            stage.done("one").await.as_deref() == Some("drained")
        })
        .await;
    let left = stage.pods_on("one").await;
    let goal = goal.and_then(|()| if left.is_empty() { Ok(()) } else { Err(format!("left: {left:?}")) });
    let history = stage.csi.history();
    let moved: Vec<(&str, bool)> =
        history.iter().skip(2).map(|moved| (moved.node.as_str(), moved.attached)).collect();
    let in_turn = [("one", false), ("two", true)].repeat(2);
    let goal = goal.and_then(|()| {
        if !is_patient || moved == in_turn {
            Ok(())
        } else {
            Err(format!("not one after another: {moved:?}"))
        }
    });
    stage.world.finish(goal)
}

fn hard(class: Class, fault: &Fault) -> bool {
    class == Class::Effect && matches!(fault, Fault::CrashAfter | Fault::TimeoutAfter | Fault::Refused)
}

#[test]
fn a_drain_survives_crashes_and_lost_answers_at_every_call() {
    let sweep = Sweep::new("drain", 1).only(|class, _, fault| hard(class, fault));
    let report = sweep.run(async |plan| drain(plan, false).await).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.runs > 20, "the sweep became trivial: {} runs", report.runs);
}

/// What keeps a process from looking for a while. An eviction that arrives after it was given up is for nobody to foresee.
fn slow(class: Class, fault: &Fault) -> bool {
    let slow = match fault {
        Fault::Delay(by) => *by < Duration::from_secs(5),
        fault => matches!(fault, Fault::TimeoutAfter | Fault::TimeoutBefore | Fault::Answer { .. }),
    };
    class == Class::Effect && slow
}

#[test]
fn volumes_move_one_after_another_however_slow_a_call_is() {
    let sweep = Sweep::new("drain in order", 1).only(|class, _, fault| slow(class, fault));
    let report = sweep.run(async |plan| drain(plan, true).await).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
}

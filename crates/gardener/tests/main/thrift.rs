//! What is not done: calls that nobody needs, and time that passes for nothing.

use crate::flow::{NAMESPACE, SOON, Seat, Stage, controller_on, machine, ours};
use hostler_controller::Metrics;
use hostler_gardener::{Options, api::Machine};
use hostler_sim::{Plan, stackit::Settings};
use kube::{Api, api::ListParams};
use std::time::Duration;

/// A stage with so many machines that run, and what its controller measures.
async fn running(seed: u64, count: usize) -> (Stage, Metrics) {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    let seat = Seat::default();
    let metrics = seat.metrics.clone();
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, Options::default()))
    });
    stage.create_class_and_secret().await;
    for number in 1..=count {
        // Not the name of somebody else's server.
        stage.create(stage.machines(), machine(&format!("w-{number}"))).await;
    }
    for number in 1..=count {
        let phase = hostler_gardener::api::Phase::Running;
        stage.run_until_phase(&format!("w-{number}"), phase, SOON).await.unwrap();
    }
    // Whatever follows from that is over.
    stage.world.run_for(Duration::from_mins(1)).await;
    (stage, metrics)
}

/// How often drivers have listed servers for somebody who looks for orphans.
fn lists(metrics: &Metrics) -> u64 {
    let text = metrics.text();
    let line = text.lines().find(|line| {
        line.starts_with("mcm_cloud_api_driver_request_duration_seconds_count{")
            && line.contains("operation=\"list_machine\"")
    });
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn many_deletions_are_one_reason_to_look_for_orphans() {
    let (mut stage, metrics) = running(50, 12).await;
    let before = lists(&metrics);
    for number in 1..=12 {
        stage.delete_machine(&format!("w-{number}")).await;
    }
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), NAMESPACE);
    let all_gone =
        async || machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.is_empty());
    stage.world.run_until("all are gone", SOON, all_gone).await.unwrap();
    stage.world.run_for(Duration::from_mins(1)).await;
    let looked = lists(&metrics) - before;
    // The class itself asks once more before it is let go.
    assert!((1..=3).contains(&looked), "{looked} lists for twelve deletions");
}

#[tokio::test(start_paused = true)]
async fn a_cloud_in_which_nothing_changes_is_listed_now_and_then_and_not_called_otherwise() {
    const LIST: &str = "ListServers";
    let (stage, _) = running(51, 3).await;
    // As long as something might still change it is listed more often.
    stage.world.run_for(Duration::from_mins(2)).await;
    let mut before = stage.cloud.calls();
    stage.world.run_for(Duration::from_mins(10)).await;
    let mut after = stage.cloud.calls();
    let lists = after.remove(LIST).unwrap() - before.remove(LIST).unwrap();
    assert!(lists <= 10, "{lists} lists in ten minutes");
    assert_eq!(after, before, "machines that run need nothing else");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_takes_hardly_longer_than_the_cloud_needs_for_it() {
    let (mut stage, _) = running(52, 1).await;
    let needed = Settings::default().delete_time;
    let begun = stage.world.clock().now();
    stage.delete_machine("w-1").await;
    stage.run_until_gone("w-1", SOON).await.unwrap();
    let took = stage.world.clock().now().duration_since(begun);
    // A wait of five seconds between each two steps, as elsewhere, would be 25 alone.
    assert!(took.unsigned_abs() < needed + Duration::from_secs(10), "it took {took:#}");
    assert_eq!(ours(&stage.cloud.servers()).count(), 0);
}

/// Whoever is given back while its server is still being made waits neither for that nor for the lists that would have to
/// show what became of its order: that is known.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_given_back_while_its_server_is_made_goes_at_once() {
    let needed = Duration::from_secs(20);
    for with_target in [true, false] {
        let settings = Settings { boot_time: SOON * 24, delete_time: needed, ..Settings::default() };
        let mut stage = Stage::new(Plan::seeded(53), settings).await;
        if with_target {
            stage.start_controller();
        } else {
            stage.start_controller_without_target();
        }
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("w-1")).await;
        let (cloud, machines) = (stage.cloud.clone(), stage.machines());
        let ordered = async || {
            let is_named = |machine: Machine| !machine.spec.provider_id.is_empty();
            ours(&cloud.servers()).count() == 1 && machines.get("w-1").await.is_ok_and(is_named)
        };
        stage.world.run_until("its order is answered", SOON, ordered).await.unwrap();
        let begun = stage.world.clock().now();
        stage.delete_machine("w-1").await;
        stage.run_until_gone("w-1", SOON).await.unwrap();
        let took = stage.world.clock().now().duration_since(begun).unsigned_abs();
        assert!(took < needed + Duration::from_secs(10), "it took {took:?}, with nodes: {with_target}");
        assert_eq!(stage.leftovers().await, [""; 0]);
    }
}

use crate::support::{Bench, deployment};
use hostler_cluster::Options;
use kube::api::DeleteParams;
use std::time::Duration;

/// Each life has a runtime of its own, as in another process.
fn calls_of(seed: u64) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(life(seed))
}

async fn life(seed: u64) -> Vec<String> {
    let bench = Bench::seeded(Options::all(), seed);
    for node in ["n1", "n2", "n3"] {
        bench.node(node, "4").await;
    }
    bench.create(deployment("web", 6, "one")).await;
    bench.create(deployment("db", 3, "one")).await;
    bench.clock.sleep(Duration::from_secs(5)).await;
    bench
        .api("apps/v1", "Deployment", Some("default"))
        .delete("web", &DeleteParams::foreground())
        .await
        .unwrap();
    bench.clock.sleep(Duration::from_secs(5)).await;
    bench.calls.lock().unwrap().clone()
}

#[test]
fn the_same_seed_makes_the_same_calls_in_the_same_order() {
    let first = calls_of(7);
    let second = calls_of(7);
    assert!(first.len() > 100, "only {} calls", first.len());
    for (at, (one, other)) in first.iter().zip(&second).enumerate() {
        assert_eq!(one, other, "call {at}");
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, calls_of(8), "another seed gives other names");
}

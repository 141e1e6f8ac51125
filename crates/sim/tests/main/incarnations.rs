//! Processes as a world starts them: crashed by hand, stalled, doubled.

use futures::future::BoxFuture;
use hostler_sim::{Context, Plan, Process, World};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::ListParams};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Counts, once a second, how many lists succeeded; one task of its own that outlives nothing.
fn counting(count: &Arc<AtomicUsize>) -> impl Fn(Context) -> BoxFuture<'static, ()> + Send + Sync + 'static {
    let count = count.clone();
    move |context| {
        let count = count.clone();
        Box::pin(async move {
            let configs: Api<ConfigMap> = Api::default_namespaced(context.kubernetes());
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if configs.list(&ListParams::default()).await.is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    }
}

fn world() -> (World, Process, Arc<AtomicUsize>) {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let count = Arc::default();
    let process = world.start("one", counting(&count));
    (world, process, count)
}

async fn counted(world: &World, count: &AtomicUsize, seconds: u64) -> usize {
    let before = count.load(Ordering::Relaxed);
    world.run_for(Duration::from_secs(seconds)).await;
    count.load(Ordering::Relaxed) - before
}

#[tokio::test(start_paused = true)]
async fn a_crashed_process_comes_back_and_the_old_one_does_not() {
    let (world, process, count) = world();
    world.run_for(Duration::from_millis(500)).await;
    assert_eq!(counted(&world, &count, 10).await, 10);
    assert_eq!(process.live(), [1]);
    process.crash();
    world.run_for(Duration::from_secs(2)).await;
    assert_eq!(process.live(), [2]);
    assert_eq!(counted(&world, &count, 100).await, 100, "one of them is running, not two");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_does_nothing_until_it_wakes_up() {
    let (world, process, count) = world();
    world.run_for(Duration::from_millis(500)).await;
    process.stall();
    assert_eq!(counted(&world, &count, 100).await, 0);
    process.start_another();
    let alone = counted(&world, &count, 100).await;
    process.resume();
    let both = counted(&world, &count, 100).await;
    assert_eq!(process.live(), [1, 2]);
    assert!(alone >= 98 && both >= 197, "{alone} {both}");
}

#[tokio::test(start_paused = true)]
async fn a_world_ends_when_it_is_asked_to() {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    world.start("polite", |context| Box::pin(async move { context.shutdown.cancelled().await }));
    world.run_for(Duration::from_secs(1)).await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_world_ends_although_a_process_stands_still() {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let process =
        world.start("polite", |context| Box::pin(async move { context.shutdown.cancelled().await }));
    world.run_for(Duration::from_secs(1)).await;
    process.stall();
    let stopped = tokio::time::timeout(Duration::from_hours(1), world.stop()).await;
    assert!(stopped.is_ok(), "the stalled one is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_program_that_panics_is_started_again() {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let process = world.start("clumsy", |context| {
        Box::pin(async move {
            context.clock.sleep(Duration::from_secs(1)).await;
            assert!(context.incarnation > 1, "on purpose");
            context.shutdown.cancelled().await;
        })
    });
    world.run_for(Duration::from_secs(5)).await;
    assert_eq!(process.live(), [2]);
    assert!(world.wire().is_some_and(|wire| wire.trace().contains("clumsy/1 panicked")));
}

#[tokio::test(start_paused = true)]
async fn a_broken_part_of_the_world_is_noticed() {
    let mut world = World::in_virtual_time(Plan::seeded(1));
    let never = async || false;
    let waited = world.run_until("never", Duration::from_secs(5), never).await;
    assert_eq!(waited, Err("not reached within 5s: never".to_owned()));
    world.add_background(async { panic!("on purpose") });
    let broken = world.run_until("never", Duration::from_secs(5), never).await;
    assert!(broken.is_err_and(|error| error.contains("a part of the world broke before never")));
}

/// Set for the process in which a test fails on purpose.
const FAILING: &str = "HOSTLER_TEST_FAILS_ON_PURPOSE";

#[tokio::test(start_paused = true)]
async fn a_test_that_fails_in_a_world_prints_its_seed_and_trace() {
    if std::env::var_os(FAILING).is_some() {
        let mut world = World::in_virtual_time(Plan::seeded(4711));
        world.start("one", counting(&Arc::default()));
        world.run_until("never", Duration::from_secs(3), async || false).await.expect("on purpose");
    }
    let name = "incarnations::a_test_that_fails_in_a_world_prints_its_seed_and_trace";
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let output = again.args([name, "--exact", "--nocapture"]).env(FAILING, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for text in
        ["seed 4711", "one/1 started", "one/1 LIST /api/v1/namespaces/{namespace}/configmaps default #1"]
    {
        assert!(said.contains(text), "{text:?} is not in\n{said}");
    }
}

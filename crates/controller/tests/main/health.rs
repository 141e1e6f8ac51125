use crate::support::{Faults, SECOND, World, pass};
use async_trait::async_trait;
use axum::{Router, body::Body};
use hostler_apiserver::ApiServer;
use hostler_controller::{
    Election, Fence, Health, Key, Lane, LeaseOptions, Outcome, Queue, QueueOptions, Reconciler, Run, Trouble,
    Watch, WatchOptions,
};
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use std::sync::{Arc, atomic::Ordering};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

struct Stuck;

#[async_trait]
impl Reconciler for Stuck {
    fn lane(&self, _: &Key) -> Lane {
        Lane::new("work", 1)
    }

    async fn reconcile(&self, _: Run) -> Result<Outcome, Trouble> {
        pass(SECOND * 100).await;
        Ok(Outcome::Done)
    }
}

async fn ask(health: &Health, path: &str) -> (u16, String) {
    let request = Request::builder().uri(path).body(Body::empty()).unwrap();
    answer(health.router(), request).await
}

async fn answer(router: Router, request: Request<Body>) -> (u16, String) {
    let response = router.oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn unhealthy_while_a_run_is_stuck() {
    let world = World::new(1);
    let options = QueueOptions { stuck_after: SECOND * 30, ..QueueOptions::new("machines") };
    let queue = Queue::new(options, world.clock.clone(), &world.chance, world.metrics.clone());
    let health = Health::new(world.metrics.clone());
    health.add_queue(&queue);
    let working = queue.clone();
    tokio::spawn(async move { working.run(Arc::new(Stuck), CancellationToken::new()).await });
    queue.wake(Key::new("Machine", "shoot", "m1"));
    pass(SECOND * 29).await;
    assert_eq!(ask(&health, "/healthz").await, (200, "ok\n".into()));
    pass(SECOND * 2).await;
    let expected = "queue machines: Machine shoot/m1 has been running for 31 s\n";
    assert_eq!(ask(&health, "/healthz").await, (500, expected.into()));
    pass(SECOND * 70).await;
    assert_eq!(ask(&health, "/healthz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_and_what_waits_is_told() {
    let world = World::new(1);
    let options = QueueOptions::new("machines");
    let queue = Queue::new(options, world.clock.clone(), &world.chance, world.metrics.clone());
    let health = Health::new(world.metrics.clone());
    health.add_queue(&queue);
    let ask = async |contention: bool, path: &str| {
        let request = Request::builder().uri(format!("/debug/pprof/{path}")).body(Body::empty()).unwrap();
        answer(health.profiles(contention), request).await
    };
    assert_eq!(ask(false, "goroutine").await, (200, "runs under way: 0\n".into()));
    let working = queue.clone();
    tokio::spawn(async move { working.run(Arc::new(Stuck), CancellationToken::new()).await });
    queue.wake(Key::new("Machine", "shoot", "m1"));
    queue.wake(Key::new("Machine", "shoot", "m2"));
    pass(SECOND * 30).await;
    let first = "runs under way: 1\nmachines work Machine shoot/m1 for 30.000 s\n";
    assert_eq!(ask(false, "goroutine").await, (200, first.into()));
    pass(SECOND * 75).await;
    let second = "runs under way: 1\nmachines work Machine shoot/m2 for 5.000 s\n";
    assert_eq!(ask(false, "goroutine").await, (200, second.into()));
    let (code, waited) = ask(true, "block").await;
    assert_eq!(code, 200);
    for line in [r#"sum{queue="machines",lane="work"} 100.0"#, r#"count{queue="machines",lane="work"} 2"#] {
        assert!(waited.lines().any(|told| told == line), "{waited}");
    }
    assert_eq!(ask(false, "block").await.0, 404);
    assert_eq!(ask(true, "").await, (200, "cmdline\ngoroutine\nblock\n".into()));
    assert_eq!(ask(false, "").await, (200, "cmdline\ngoroutine\n".into()));
    let arguments: Vec<String> = std::env::args().collect();
    assert_eq!(ask(false, "cmdline").await, (200, arguments.join("\0")));
}

#[tokio::test(start_paused = true)]
async fn ready_when_all_are_synced_and_none_is_silent() {
    let world = World::new(1);
    let health = Health::new(world.metrics.clone());
    let unknown = "not all watches are registered yet\n";
    assert_eq!(
        ask(&health, "/readyz").await,
        (503, unknown.into()),
        "nobody has said what there is to wait for"
    );
    let maps = Watch::<ConfigMap>::all(
        world.client(),
        WatchOptions::default(),
        world.clock.clone(),
        &world.chance,
        world.metrics.clone(),
    );
    let nodes = Watch::<Node>::all(
        world.client(),
        WatchOptions::default(),
        world.clock.clone(),
        &world.chance,
        world.metrics.clone(),
    );
    health.add_watch(maps.vitals());
    assert_eq!(ask(&health, "/readyz").await, (503, unknown.into()));
    health.add_watch(nodes.vitals());
    health.registered();
    tokio::spawn(maps.run());
    pass(SECOND).await;
    let waiting = "Node: the first list has not arrived\n";
    assert_eq!(ask(&health, "/readyz").await, (503, waiting.into()));
    tokio::spawn(nodes.run());
    pass(SECOND).await;
    assert_eq!(ask(&health, "/readyz").await, (200, "ok\n".into()));
    world.faults.mute.store(true, Ordering::SeqCst);
    world.server.restart();
    pass(SECOND * 58).await;
    assert_eq!(ask(&health, "/readyz").await.0, 200);
    pass(SECOND * 4).await;
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("ConfigMap: neither event nor bookmark for 6"), "{text}");
    assert!(text.contains("Node: neither event nor bookmark for 6"), "{text}");
    world.faults.mute.store(false, Ordering::SeqCst);
    pass(SECOND * 65).await;
    assert_eq!(ask(&health, "/readyz").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_ready_while_another_leads_and_not_while_nobody_is_known_to() {
    let world = World::new(1);
    let metrics = || world.metrics.clone();
    let candidate = |name: &'static str, faults: Faults| {
        let health = Health::new(metrics());
        let client = world.client_of(ApiServer::admin(), Fence::open(world.clock.clone()), faults);
        let options = LeaseOptions::new("default", "leader", name);
        let election =
            Election::new(client, options, world.clock.clone(), &world.chance.split(name), metrics());
        let (election, stop) = (election.tells(health.clone()), CancellationToken::new());
        let (end, working) = (stop.clone(), health.clone());
        tokio::spawn(async move {
            let work = || async {
                pass(SECOND * 3).await;
                working.registered();
                end.cancelled().await;
            };
            election.lead(&end, work).await
        });
        (health, stop)
    };
    let (leader, stop) = candidate("leader", Faults::default());
    pass(SECOND).await;
    let starting = (503, "not all watches are registered yet\n".to_owned());
    assert_eq!(ask(&leader, "/readyz").await, starting, "it leads and has not begun to watch");
    pass(SECOND * 5).await;
    assert_eq!(ask(&leader, "/readyz").await, (200, "ok\n".into()));
    let faults = Faults::default();
    let (other, _stop) = candidate("other", faults.clone());
    assert_eq!(ask(&other, "/readyz").await, starting);
    pass(SECOND * 5).await;
    let waiting = (200, "standing by: another process leads\n".to_owned());
    assert_eq!(ask(&other, "/readyz").await, waiting);
    faults.dead.store(true, Ordering::SeqCst);
    pass(SECOND * 30).await;
    assert_eq!(ask(&other, "/readyz").await, starting, "it cannot see who leads");
    faults.dead.store(false, Ordering::SeqCst);
    pass(SECOND * 30).await;
    assert_eq!(ask(&other, "/readyz").await, waiting);
    stop.cancel();
    pass(SECOND * 4).await;
    assert_eq!(ask(&other, "/readyz").await, starting, "now it leads");
    pass(SECOND * 4).await;
    assert_eq!(ask(&other, "/readyz").await, (200, "ok\n".into()));
}

#[tokio::test(start_paused = true)]
async fn metrics_are_there_to_be_read() {
    let world = World::new(1);
    world.client().apiserver_version().await.unwrap();
    let (code, text) = ask(&Health::new(world.metrics.clone()), "/metrics").await;
    assert_eq!(code, 200);
    assert!(text.contains(
        "hostler_client_calls_total{client=\"kubernetes\",verb=\"get\",resource=\"other\",code=\"200\"} 1"
    ));
    assert!(text.ends_with("# EOF\n"));
}

use crate::support::{Faults, SECOND, World, config_map, pass};
use hostler_apiserver::ApiServer;
use hostler_base::{Body, Transport, transport};
use hostler_controller::{Cache, Fence, Key, Vitals, Watch, WatchOptions, kube_client};
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

struct Followed {
    cache: Cache<ConfigMap>,
    vitals: Vitals,
    told: Arc<Mutex<Vec<String>>>,
}

impl Followed {
    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.cache.list().iter().map(|object| object.metadata.name.clone().unwrap()).collect()
    }
}

fn follow(world: &World, client: kube::Client) -> Followed {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let watch = Watch::<ConfigMap>::namespaced(
        client,
        "default",
        WatchOptions { page_size: 2, ..WatchOptions::default() },
        world.clock.clone(),
        &world.chance,
        world.metrics.clone(),
    );
    let log = told.clone();
    let watch = watch.on_change(move |change| {
        let word = match change {
            hostler_controller::Change::Applied { old: None, .. } => "new",
            hostler_controller::Change::Applied { .. } => "changed",
            hostler_controller::Change::Deleted { .. } => "deleted",
            hostler_controller::Change::Malformed { .. } => "malformed",
        };
        log.lock().unwrap().push(format!("{word} {}", change.key().name));
    });
    let (cache, vitals) = (watch.cache(), watch.vitals());
    tokio::spawn(watch.run());
    Followed { cache, vitals, told }
}

fn maps(world: &World) -> Api<ConfigMap> {
    Api::namespaced(world.quiet_client(), "default")
}

async fn create(world: &World, name: &str) {
    maps(world).create(&PostParams::default(), &config_map(name)).await.unwrap();
}

async fn delete(world: &World, name: &str) {
    maps(world).delete(name, &DeleteParams::default()).await.unwrap();
}

async fn touch(world: &World, name: &str, value: &str) {
    let patch = json!({"data": {"key": value}});
    maps(world).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asks_for_is_not_kept() {
    let world = World::new(1);
    create(&world, "listed").await;
    touch(&world, "listed", "long").await;
    let watch = Watch::<ConfigMap>::namespaced(
        world.quiet_client(),
        "default",
        WatchOptions::default(),
        world.clock.clone(),
        &world.chance,
        world.metrics.clone(),
    )
    .trimmed(|map| map.data = None);
    let cache = watch.cache();
    tokio::spawn(watch.run());
    pass(5 * SECOND).await;
    create(&world, "told").await;
    touch(&world, "told", "long").await;
    pass(5 * SECOND).await;
    let kept =
        cache.list().iter().map(|map| (map.metadata.name.clone(), map.data.clone())).collect::<Vec<_>>();
    assert_eq!(kept, [(Some("listed".to_owned()), None), (Some("told".to_owned()), None)]);
}

#[tokio::test(start_paused = true)]
async fn the_cache_follows_and_tells() {
    let world = World::new(1);
    for name in ["c", "a", "b"] {
        create(&world, name).await;
    }
    let followed = follow(&world, world.client());
    assert!(!followed.cache.is_synced());
    assert!(followed.vitals.problem().unwrap().contains("ConfigMap: the first list has not arrived"));
    followed.cache.synced().await;
    assert_eq!(followed.names(), ["a", "b", "c"]);
    assert_eq!(followed.told(), ["new a", "new b", "new c"]);
    assert_eq!(world.log.count("limit=2"), 2, "in pages: {:#?}", world.log.lines());
    assert_eq!(followed.vitals.problem(), None);
    pass(SECOND).await;
    touch(&world, "b", "1").await;
    delete(&world, "a").await;
    create(&world, "d").await;
    pass(SECOND).await;
    assert_eq!(followed.told(), ["changed b", "deleted a", "new d"]);
    assert_eq!(followed.names(), ["b", "c", "d"]);
    let b = followed.cache.get(&Key::new("ConfigMap", "default", "b")).unwrap();
    assert_eq!(b.data.as_ref().unwrap()["key"], "1");
    assert_eq!(b.metadata.managed_fields, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_up_again_from_a_backup_is_believed() {
    let (world, restored) = (World::new(1), World::new(2));
    for name in ["a", "b", "c", "d"] {
        create(&world, name).await;
        touch(&world, name, "1").await;
    }
    // The backup is older than three of them, and whoever asks is led to it from now on.
    create(&restored, "a").await;
    let moved = Arc::new(AtomicBool::new(false));
    let [before, after] = [&world, &restored].map(|world| world.server.transport(ApiServer::admin()));
    let switch = moved.clone();
    let wire = transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let now = if switch.load(Ordering::SeqCst) { &after } else { &before };
        transport::send(now, request)
    }));
    let wire = world.recorded(wire, Faults::default());
    let client = kube_client(wire, &world.options(Fence::open(world.clock.clone())), "default");
    let followed = follow(&world, client);
    followed.cache.synced().await;
    assert_eq!(followed.names(), ["a", "b", "c", "d"]);
    moved.store(true, Ordering::SeqCst);
    // One watch ends with the old server, and one tells nothing.
    pass(SECOND * 65).await;
    assert_eq!(followed.names(), ["a"], "{:#?}", world.log.lines());
    create(&restored, "e").await;
    pass(SECOND).await;
    assert_eq!(followed.names(), ["a", "e"]);
    assert_eq!(world.log.count("limit=1"), 1, "asked once: {:#?}", world.log.lines());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_alive_by_its_bookmarks() {
    let world = World::new(1);
    let followed = follow(&world, world.client());
    for _ in 0..100 {
        pass(SECOND * 10).await;
        assert_eq!(followed.vitals.problem(), None);
    }
    assert_eq!(world.log.count("limit=2"), 1, "no relist: {:#?}", world.log.lines());
}

#[tokio::test(start_paused = true)]
async fn what_vanished_while_nobody_looked_is_told() {
    let world = World::new(1);
    create(&world, "stays").await;
    create(&world, "goes").await;
    let followed = follow(&world, world.client());
    followed.cache.synced().await;
    pass(SECOND).await;
    followed.told();
    world.faults.dead.store(true, Ordering::SeqCst);
    world.server.restart();
    pass(SECOND * 20).await;
    delete(&world, "goes").await;
    create(&world, "comes").await;
    world.server.compact();
    world.faults.dead.store(false, Ordering::SeqCst);
    pass(SECOND * 40).await;
    assert_eq!(followed.told(), ["new comes", "deleted goes"]);
    assert_eq!(followed.names(), ["comes", "stays"]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_is_noticed_and_left() {
    let world = World::new(1);
    let followed = follow(&world, world.client());
    followed.cache.synced().await;
    world.faults.mute.store(true, Ordering::SeqCst);
    world.server.restart();
    pass(SECOND * 2).await;
    create(&world, "unheard").await;
    pass(SECOND * 59).await;
    assert_eq!(followed.names(), Vec::<String>::new());
    let problem = followed.vitals.problem().unwrap();
    assert!(problem.contains("neither event nor bookmark for"), "{problem}");
    world.faults.mute.store(false, Ordering::SeqCst);
    pass(SECOND * 36).await;
    assert_eq!(followed.told(), ["new unheard"]);
    assert_eq!(followed.vitals.problem(), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_is_not_stormed() {
    let world = World::new(1);
    world.faults.curt.store(true, Ordering::SeqCst);
    let followed = follow(&world, world.client());
    followed.cache.synced().await;
    pass(SECOND * 300).await;
    let watches = world.log.count("watch=true");
    assert!((10..40).contains(&watches), "{watches} watches in five minutes");
}

#[tokio::test(start_paused = true)]
async fn errors_are_waited_out_and_the_watch_recovers() {
    let world = World::new(1);
    let faults = Faults::default();
    faults.dead.store(true, Ordering::SeqCst);
    let nobody = hostler_apiserver::User { name: "nobody".into(), uid: String::new(), groups: vec![] };
    let client = world.client_of(nobody, Fence::open(world.clock.clone()), faults.clone());
    let followed = follow(&world, client);
    pass(SECOND * 60).await;
    let unanswered = world.log.count("never");
    assert!((3..=10).contains(&unanswered), "{unanswered} calls in a minute, each waiting five seconds");
    faults.dead.store(false, Ordering::SeqCst);
    pass(SECOND * 300).await;
    let refused = world.log.count("403");
    assert!((8..=40).contains(&refused), "{refused} refused calls in five minutes");
    assert!(!followed.cache.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_gets_it() {
    let world = World::new(1);
    let busy = transport::from_service(tower::service_fn(|_: Request<Body>| async {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests",
            "message": "later", "code": 429, "details": {"retryAfterSeconds": 40}});
        let answer = Response::builder().status(429).body(transport::full(status.to_string()));
        Ok::<_, Infallible>(answer.unwrap())
    }));
    let client = kube_client(
        world.recorded(busy, Faults::default()),
        &world.options(Fence::open(world.clock.clone())),
        "default",
    );
    let _followed = follow(&world, client);
    pass(SECOND * 100).await;
    assert_eq!(world.log.count("-> 429"), 3, "at 0, 40 and 80: {:#?}", world.log.lines());
}

/// Answers lists with one good and one broken object, and watches with nothing.
fn half_broken() -> Transport {
    transport::from_service(tower::service_fn(|request: Request<Body>| async move {
        if request.uri().query().unwrap_or_default().contains("watch=true") {
            let line = json!({"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "good", "namespace": "default", "resourceVersion": "11"}, "data": 7}});
            let tail = futures::stream::iter([Ok::<_, Infallible>(http_body::Frame::data(
                bytes::Bytes::from(format!("{line}\n")),
            ))]);
            let tail = futures::StreamExt::chain(tail, futures::stream::pending());
            return Ok::<_, Infallible>(Response::new(transport::boxed(http_body_util::StreamBody::new(
                tail,
            ))));
        }
        let meta = |name| json!({"name": name, "namespace": "default", "resourceVersion": "1"});
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "10"},
            "items": [{"metadata": meta("bad"), "data": "no map"}, {"metadata": meta("good"), "data": {"a": "b"}}]});
        Ok(Response::new(transport::full(list.to_string())))
    }))
}

#[tokio::test(start_paused = true)]
async fn one_malformed_object_does_not_stall_the_rest() {
    let world = World::new(1);
    let client = kube_client(half_broken(), &world.options(Fence::open(world.clock.clone())), "default");
    let followed = follow(&world, client);
    followed.cache.synced().await;
    pass(SECOND).await;
    assert_eq!(followed.told(), ["malformed bad", "new good", "malformed good"]);
    assert_eq!(followed.names(), ["good"], "what was understood before stays");
    let malformed: Vec<_> = followed.cache.malformed().into_iter().map(|(key, _)| key.name.clone()).collect();
    assert_eq!(malformed, ["bad", "good"]);
    assert!(
        world
            .metrics
            .text()
            .contains("hostler_malformed_objects{kind=\"ConfigMap\",reason=\"undecodable\"} 2")
    );
}

use crate::support::{Faults, SECOND, World, config_map, pass};
use hostler_apiserver::{ApiServer, User};
use hostler_controller::{Election, Fence, Fenced, LeaseOptions, Led};
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::ConfigMap,
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use std::sync::{Arc, Mutex, atomic::Ordering};
use tokio_util::sync::CancellationToken;

/// A replica: the network to its lease, its fenced client, which has another one, and what it says.
struct Replica {
    faults: Faults,
    fenced: Client,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Led<()>>,
}

type Diary = Arc<Mutex<Vec<String>>>;

fn replica(world: &World, name: &'static str, user: User, diary: &Diary) -> Replica {
    let faults = Faults::default();
    let plain = world.client_of(user, Fence::open(world.clock.clone()), faults.clone());
    let options = LeaseOptions::new("default", "leader", name);
    let chance = world.chance.split(name);
    let election = Election::new(plain, options, world.clock.clone(), &chance, world.metrics.clone());
    let fenced = world.client_of(ApiServer::admin(), election.fence(), Faults::default());
    let stop = CancellationToken::new();
    let (told, clock, end) = (diary.clone(), world.clock.clone(), stop.clone());
    let task = tokio::spawn(async move {
        let work = || async {
            told.lock().unwrap().push(format!("{} {name} leads", clock.now().strftime("%M:%S")));
            end.cancelled().await;
            // Something is still under way when the signal comes.
            pass(SECOND * 20).await;
        };
        let led = election.lead(&end, work).await;
        told.lock().unwrap().push(format!("{} {name} {led:?}", clock.now().strftime("%M:%S")));
        led
    });
    Replica { faults, fenced, stop, task }
}

async fn write(client: &Client, name: &str) -> Result<ConfigMap, kube::Error> {
    Api::<ConfigMap>::default_namespaced(client.clone())
        .create(&PostParams::default(), &config_map(name))
        .await
}

fn fenced(result: Result<ConfigMap, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Service(error)) if error.is::<Fenced>())
}

async fn spec(world: &World) -> LeaseSpec {
    Api::<Lease>::default_namespaced(world.quiet_client()).get("leader").await.unwrap().spec.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stalled_leader_is_replaced_and_cannot_write_any_more() {
    let world = World::new(3);
    let diary = Diary::default();
    let first = replica(&world, "first", ApiServer::admin(), &diary);
    pass(SECOND).await;
    let second = replica(&world, "second", ApiServer::admin(), &diary);
    pass(SECOND * 60).await;
    assert!(write(&first.fenced, "by-first").await.is_ok());
    assert!(fenced(write(&second.fenced, "by-second").await));
    let held = spec(&world).await;
    assert_eq!((held.holder_identity.as_deref(), held.lease_transitions), (Some("first"), Some(0)));
    assert_eq!(held.lease_duration_seconds, Some(15));
    assert!(held.renew_time > held.acquire_time);

    first.faults.dead.store(true, Ordering::SeqCst);
    let stalled_at = world.clock.now();
    let mut refused_at = None;
    let mut taken_at = None;
    for _ in 0..300 {
        pass(SECOND / 10).await;
        let refused = fenced(write(&first.fenced, "by-first").await);
        if refused && refused_at.is_none() {
            refused_at = Some(world.clock.now());
        }
        assert!(refused || refused_at.is_none(), "once refused, always refused");
        if spec(&world).await.holder_identity.as_deref() == Some("second") {
            taken_at = Some(world.clock.now());
            break;
        }
    }
    let (refused_at, taken_at) = (refused_at.unwrap(), taken_at.unwrap());
    let margin = taken_at.duration_since(refused_at);
    assert!(margin.as_secs() >= 5, "the last call could take {margin:#} and does take five seconds at most");
    assert!(taken_at.duration_since(stalled_at).as_secs() <= 18, "{}", taken_at.duration_since(stalled_at));

    pass(SECOND).await;
    assert!(write(&second.fenced, "by-second").await.is_ok());
    assert_eq!(first.task.await.unwrap(), Led::Lost);
    assert!(fenced(write(&first.fenced, "too-late").await));
    let diary = diary.lock().unwrap().clone();
    assert_eq!(diary.len(), 3, "{diary:?}");
    assert!(diary[0].ends_with("first leads") && diary[1].ends_with("first Lost"), "{diary:?}");
    assert!(diary[2].ends_with("second leads"), "the old one stopped before the new one began: {diary:?}");
    assert_eq!(spec(&world).await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_works_to_the_end_and_gives_the_lease_back() {
    let world = World::new(3);
    let diary = Diary::default();
    let first = replica(&world, "first", ApiServer::admin(), &diary);
    pass(SECOND).await;
    let second = replica(&world, "second", ApiServer::admin(), &diary);
    pass(SECOND * 29).await;
    first.stop.cancel();
    pass(SECOND * 19).await;
    assert!(write(&first.fenced, "while-draining").await.is_ok(), "still the leader while it drains");
    assert_eq!(first.task.await.unwrap(), Led::Finished(()));
    assert!(fenced(write(&first.fenced, "after").await));
    let free = spec(&world).await;
    assert_eq!((free.holder_identity.as_deref(), free.lease_duration_seconds), (Some(""), Some(1)));
    pass(SECOND * 3).await;
    assert!(write(&second.fenced, "by-second").await.is_ok(), "no need to wait until it runs out");
    let never = replica(&world, "third", ApiServer::admin(), &diary);
    pass(SECOND * 5).await;
    never.stop.cancel();
    assert_eq!(never.task.await.unwrap(), Led::Never);
}

#[tokio::test(start_paused = true)]
async fn anothers_clock_does_not_matter() {
    let world = World::new(3);
    let long_ago = MicroTime("2001-01-01T00:00:00Z".parse().unwrap());
    let mut lease = Lease::default();
    lease.metadata.name = Some("leader".into());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some("go".into()),
        lease_duration_seconds: Some(15),
        renew_time: Some(long_ago),
        ..LeaseSpec::default()
    });
    let leases = Api::<Lease>::default_namespaced(world.quiet_client());
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let diary = Diary::default();
    let _ours = replica(&world, "ours", ApiServer::admin(), &diary);
    pass(SECOND * 14).await;
    assert_eq!(
        spec(&world).await.holder_identity.as_deref(),
        Some("go"),
        "it may be alive: its clock is wrong"
    );
    pass(SECOND * 4).await;
    assert_eq!(spec(&world).await.holder_identity.as_deref(), Some("ours"));
}

#[tokio::test(start_paused = true)]
async fn few_rights_are_enough() {
    let world = World::new(3);
    let admin = world.quiet_client();
    let role: Role = serde_json::from_value(json!({"metadata": {"name": "lease"}, "rules": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["leader"],
         "verbs": ["get", "watch", "update"]}]}))
    .unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({"metadata": {"name": "lease"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lease"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]}))
    .unwrap();
    Api::<Role>::default_namespaced(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::<RoleBinding>::default_namespaced(admin).create(&PostParams::default(), &binding).await.unwrap();
    let limited =
        User { name: "limited".into(), uid: String::new(), groups: vec!["system:authenticated".into()] };
    let diary = Diary::default();
    let replica = replica(&world, "limited", limited, &diary);
    pass(SECOND * 30).await;
    replica.stop.cancel();
    assert_eq!(replica.task.await.unwrap(), Led::Finished(()));
    assert_eq!(world.log.count("-> 403"), 0, "{:#?}", world.log.lines());
    assert_eq!(spec(&world).await.holder_identity.as_deref(), Some(""));
}

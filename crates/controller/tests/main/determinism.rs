//! The same seed gives the same calls, byte for byte.

use crate::support::{Faults, SECOND, World, config_map, pass};
use async_trait::async_trait;
use hostler_apiserver::ApiServer;
use hostler_controller::{
    Cache, Election, EventKind, EventOptions, Fence, Key, Lane, LeaseOptions, Outcome, Queue, QueueOptions,
    Reconciler, Recorder, Run, Trouble, Watch, WatchOptions,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::sync::{Arc, atomic::Ordering};
use tokio_util::sync::CancellationToken;

/// Counts in each object how often it was seen, and sometimes fails.
struct Counting {
    client: Client,
    cache: Cache<ConfigMap>,
    recorder: Recorder,
    chance: hostler_base::Chance,
}

#[async_trait]
impl Reconciler for Counting {
    fn lane(&self, key: &Key) -> Lane {
        if key.name.ends_with('0') { Lane::new("slow", 1) } else { Lane::new("fast", 3) }
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let Some(object) = self.cache.get(&run.key) else { return Ok(Outcome::Done) };
        let seen = object.data.as_ref().and_then(|data| data.get("seen")).and_then(|seen| seen.parse().ok());
        let seen: u32 = seen.unwrap_or_default();
        if seen >= 5 {
            return Ok(Outcome::After(SECOND * 60));
        }
        pass(SECOND / 20 * u32::from(run.key.name.as_bytes()[0] % 7)).await;
        if self.chance.hit(0.3) {
            self.recorder.record(&object.object_ref(&()), EventKind::Warning, "BadLuck", "try again");
            return Err(Trouble::new("bad luck"));
        }
        let patch = json!({"metadata": {"resourceVersion": object.metadata.resource_version},
            "data": {"seen": (seen + 1).to_string()}});
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &run.key.namespace);
        api.patch(&run.key.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(Outcome::Done)
    }
}

/// A replica with everything a controller has.
async fn controller(world: &World, name: &'static str, faults: Faults, stop: CancellationToken) {
    let chance = world.chance.split(name);
    let plain = world.client_of(ApiServer::admin(), Fence::open(world.clock.clone()), faults.clone());
    let options = LeaseOptions::new("default", "leader", name);
    let election = Election::new(plain, options, world.clock.clone(), &chance, world.metrics.clone());
    let client = world.client_of(ApiServer::admin(), election.fence(), faults);
    let (recorder, writer) = Recorder::new(
        client.clone(),
        EventOptions::new("counting", name),
        world.clock.clone(),
        &chance,
        world.metrics.clone(),
    );
    let queue = Queue::new(QueueOptions::new("maps"), world.clock.clone(), &chance, world.metrics.clone());
    let watch = Watch::<ConfigMap>::namespaced(
        client.clone(),
        "default",
        WatchOptions::default(),
        world.clock.clone(),
        &chance,
        world.metrics.clone(),
    )
    .wakes(&queue);
    let cache = watch.cache();
    let reconciler =
        Arc::new(Counting { client, cache: cache.clone(), recorder, chance: chance.split("luck") });
    let work = || async {
        let working = async {
            cache.synced().await;
            queue.run(reconciler, stop.clone()).await
        };
        tokio::select! {
            biased;
            _ = working => {}
            () = watch.run() => {}
            () = writer.run(CancellationToken::new()) => {}
        }
    };
    election.lead(&stop, work).await;
}

/// Two replicas, two dozen objects, a leader that hangs, a server that restarts.
fn calls(seed: u64) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let world = World::new(seed);
        let maps: Api<ConfigMap> = Api::namespaced(world.quiet_client(), "default");
        for number in 0..24 {
            let name = format!("{}-{number}", char::from(b'a' + u8::try_from(number * 7 % 24).unwrap()));
            maps.create(&PostParams::default(), &config_map(&name)).await.unwrap();
        }
        let (first, stop) = (Faults::default(), CancellationToken::new());
        let story = async {
            pass(SECOND * 20).await;
            first.dead.store(true, Ordering::SeqCst);
            pass(SECOND * 5).await;
            maps.delete("a-0", &DeleteParams::default()).await.unwrap();
            world.server.restart();
            pass(SECOND * 60).await;
            stop.cancel();
        };
        tokio::join!(
            biased;
            controller(&world, "first", first.clone(), stop.clone()),
            controller(&world, "second", Faults::default(), stop.clone()),
            story,
        );
        world.log.lines()
    })
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    let one = calls(7);
    assert!(one.len() > 200, "{} calls", one.len());
    assert!(one.iter().any(|line| line.contains("BadLuck")) && one.iter().any(|line| line.contains("never")));
    let done = one.iter().filter(|line| line.contains(r#""seen":"5""#) && line.ends_with("200")).count();
    assert!(done >= 23, "every object was counted to the end: {done}");
    let other = calls(7);
    let first_difference = one.iter().zip(&other).position(|(a, b)| a != b);
    assert_eq!(first_difference.map(|at| (&one[at], &other[at])), None);
    assert_eq!(one.len(), other.len());
    assert_ne!(one, calls(8), "chance plays a part at all");
}

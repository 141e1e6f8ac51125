//! Whether machines are made as fast while others drain slowly.

use crate::stage::{Stage, create, name};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use std::{
    fmt,
    time::{Duration, Instant},
};

const AT_ONCE: usize = 16;
/// One is not enough: whether the second slowest of a hundred waits for one look at the cloud more is chance.
const ROUNDS: usize = 3;
/// Before each round: by then the rate limits have saved up all that they can, whatever went before.
const REST: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(120);

/// The 99th percentiles of the time from a Machine's creation until it runs.
pub struct Waits {
    alone: Duration,
    beside: Duration,
    draining: usize,
}

impl fmt::Display for Waits {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (alone, beside) = (self.alone.as_secs_f64(), self.beside.as_secs_f64());
        let ratio = beside / alone;
        write!(
            out,
            "p99 {alone:.2} s alone, {beside:.2} s beside {} slow drains ({ratio:.2} ×)",
            self.draining
        )
    }
}

/// Makes so many Machines, alone and while as many others wait for a pod that does not end, several times each.
///
/// `at_once` is how many drains the contender can do at once: then the Machines beside them are made.
pub async fn measure(stage: &mut Stage, count: usize, at_once: usize) -> anyhow::Result<Waits> {
    let slow = names("slow", count);
    let (undisturbed, alone) = rounds(stage, "alone", count).await?;
    stage.delete(&alone).await?;
    stage.make(&slow).await?;
    let pods: Api<Pod> = Api::namespaced(stage.admin.clone(), "default");
    let calls = slow.iter().map(|name| {
        // No kubelet looks after it, so it ends when somebody forces it to.
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": name, "automountServiceAccountToken": false,
            "containers": [{"name": "slow", "image": "slow"}]}});
        let pods = pods.clone();
        async move { create(&pods, pod).await }
    });
    stream::iter(calls).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    stage.ask_to_go(&slow).await?;
    let draining = wait_for_drains(&pods, count.min(at_once)).await?;
    let (disturbed, beside) = rounds(stage, "beside", count).await?;
    let calls = slow.iter().map(|name| async {
        pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        anyhow::Ok(())
    });
    stream::iter(calls).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    // Whose workers all drain deletes none of these before.
    stage.delete(&[slow, beside].concat()).await?;
    stage.nothing_is_left().await?;
    Ok(Waits { alone: undisturbed, beside: disturbed, draining })
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| name(prefix, number)).collect()
}

/// The 99th percentile of all that are made in some rounds, and their names.
async fn rounds(stage: &mut Stage, prefix: &str, count: usize) -> anyhow::Result<(Duration, Vec<String>)> {
    let (mut each, mut all) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        tokio::time::sleep(REST).await;
        let names = names(&format!("{prefix}{round}"), count);
        each.extend(stage.make(&names).await?.each);
        all.extend(names);
    }
    Ok((percentile(each), all))
}

/// How many pods have been asked to leave.
async fn wait_for_drains(pods: &Api<Pod>, count: usize) -> anyhow::Result<usize> {
    let start = Instant::now();
    loop {
        let listed = pods.list(&ListParams::default()).await?;
        let leaving = listed.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some()).count();
        if leaving >= count {
            return Ok(leaving);
        }
        anyhow::ensure!(start.elapsed() < PATIENCE, "only {leaving} of {count} drains have begun");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn percentile(mut each: Vec<Duration>) -> Duration {
    each.sort();
    each.get((each.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
}

//! One machine's life: boot, register, heartbeat, run pods.

use super::{
    MachineSpec, Pods, RETRY, node,
    pod::{self, Here, Step},
};
use hostler_base::{Clock, stable_hash};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Pod, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

const RENEW_EVERY: Duration = Duration::from_secs(10);
const REPORT_EVERY: Duration = Duration::from_mins(5);

pub(super) struct Machine {
    nodes: Api<Node>,
    leases: Api<Lease>,
    client: Client,
    clock: Clock,
    pods: Pods,
    spec: MachineSpec,
    number: usize,
    ip: String,
    known: BTreeMap<String, Here>,
    /// Counts the pods that were here, for their addresses.
    seen_pods: usize,
    node_uid: String,
    ready_since: Option<Timestamp>,
    lease: Option<Lease>,
}

/// When the machine has to do what next.
struct Due {
    ready: Option<Instant>,
    renew: Instant,
    report: Instant,
    pods: Option<Instant>,
}

impl Machine {
    pub(super) fn new(client: Client, clock: Clock, pods: Pods, spec: MachineSpec, number: usize) -> Self {
        let ip = spec.internal_ip.clone();
        Self {
            nodes: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), "kube-node-lease"),
            ip: ip.unwrap_or_else(|| format!("10.0.{}.{}", number / 250 % 250, number % 250 + 1)),
            client,
            clock,
            pods,
            spec,
            number,
            known: BTreeMap::new(),
            seen_pods: 0,
            node_uid: String::new(),
            ready_since: None,
            lease: None,
        }
    }

    pub(super) async fn run(mut self, mut silences: mpsc::UnboundedReceiver<bool>) {
        self.clock.sleep(self.spec.boot_time).await;
        if self.spec.never_joins {
            return pending().await;
        }
        loop {
            match self.may_join().await {
                Ok(true) => match self.register().await {
                    Ok(()) => break,
                    Err(error) => self.complain("register", &error),
                },
                Ok(false) => tracing::debug!(node = %self.spec.name, "the bootstrap token is not valid"),
                Err(error) => self.complain("look for its bootstrap token", &error),
            }
            self.clock.sleep(RETRY).await;
        }
        let changed = self.pods.changed(&self.spec.name);
        let now = self.clock.instant();
        let mut silent = false;
        let mut due = Due {
            ready: Some(now + self.spec.ready_time),
            renew: now,
            report: now + REPORT_EVERY,
            pods: Some(now),
        };
        loop {
            let next = [Some(due.renew), Some(due.report), due.ready, due.pods].into_iter().flatten().min();
            let next = next.unwrap_or(due.renew);
            tokio::select! {
                biased;
                Some(change) = silences.recv() => silent = change,
                () = changed.notified(), if !silent => due.pods = Some(self.clock.instant()),
                () = tokio::time::sleep_until(next), if !silent => {}
            }
            if !silent {
                self.work(&mut due).await;
            }
        }
    }

    async fn work(&mut self, due: &mut Due) {
        let now = self.clock.instant();
        if due.ready.is_some_and(|ready| now >= ready) {
            due.ready = self.tried("become ready", Self::become_ready).await.err();
        }
        if now >= due.renew {
            due.renew = match self.tried("renew its lease", Self::renew).await {
                // Not all of a thousand nodes renew in the same instant.
                Ok(first) if first => now + stagger(&self.spec.name),
                Ok(_) => now + RENEW_EVERY,
                Err(retry) => retry,
            };
        }
        if now >= due.report {
            let reported = self.tried("report its status", Self::report).await;
            due.report = reported.err().unwrap_or(now + REPORT_EVERY);
        }
        if due.pods.is_some_and(|pods| now >= pods) {
            due.pods = self.tend().await;
        }
    }

    /// Does something; if it fails, says when to try again.
    async fn tried<T>(
        &mut self,
        what: &str,
        act: impl AsyncFnOnce(&mut Self) -> Result<T, kube::Error>,
    ) -> Result<T, Instant> {
        act(self).await.map_err(|error| {
            self.complain(what, &error);
            self.clock.instant() + RETRY
        })
    }

    /// Whether the machine's bootstrap token, if it needs one, is valid at this moment.
    async fn may_join(&self) -> Result<bool, kube::Error> {
        let Some((id, secret)) = self.spec.bootstrap_token.as_ref().and_then(|token| token.split_once('.'))
        else {
            return Ok(true);
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "kube-system");
        let known = secrets.get_opt(&format!("bootstrap-token-{id}")).await?;
        Ok(known.is_some_and(|known| is_valid_token(&known, id, secret, self.clock.now())))
    }

    async fn register(&mut self) -> Result<(), kube::Error> {
        let created = self.nodes.create(&PostParams::default(), &node::registration(&self.spec)).await;
        let registered = match created {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let existing = self.nodes.get(&self.spec.name).await?;
                match node::taken_over(&existing, &self.spec) {
                    Some(node) => self.nodes.replace(&self.spec.name, &PostParams::default(), &node).await?,
                    None => existing,
                }
            }
            other => other?,
        };
        self.node_uid = registered.uid().unwrap_or_default();
        self.report().await
    }

    async fn become_ready(&mut self) -> Result<(), kube::Error> {
        self.ready_since = self.ready_since.or_else(|| Some(self.clock.now()));
        self.report().await?;
        let node = self.nodes.get(&self.spec.name).await?;
        if let Some(node) = node::untainted(&node) {
            self.nodes.replace(&self.spec.name, &PostParams::default(), &node).await?;
        }
        Ok(())
    }

    async fn report(&mut self) -> Result<(), kube::Error> {
        let now = self.clock.now();
        let since = self.ready_since.unwrap_or(now);
        let status = node::status(&self.spec, &self.ip, self.ready_since.is_some(), since, now);
        // Merged by type and name, as a kubelet does: what others wrote into the status stays.
        let patch = Patch::Strategic(json!({ "metadata": { "uid": self.node_uid }, "status": status }));
        self.nodes.patch_status(&self.spec.name, &PatchParams::default(), &patch).await.map(drop)
    }

    /// Renews the lease; true if it was new.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let mut wanted = node::lease(&self.spec.name, &self.node_uid, self.clock.now());
        let Some(current) = self.lease.take() else {
            let created = self.leases.create(&PostParams::default(), &wanted).await;
            self.lease = Some(match created {
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    wanted.metadata.resource_version =
                        self.leases.get(&self.spec.name).await?.resource_version();
                    self.leases.replace(&self.spec.name, &PostParams::default(), &wanted).await?
                }
                other => other?,
            });
            return Ok(true);
        };
        // Kept only when the write succeeds: after a failure the next try reads the lease again.
        wanted.metadata = current.metadata;
        self.lease = Some(self.leases.replace(&self.spec.name, &PostParams::default(), &wanted).await?);
        Ok(false)
    }

    /// Takes every pod one step on; says when to look again.
    async fn tend(&mut self) -> Option<Instant> {
        let pods = self.pods.of(&self.spec.name);
        let uids: BTreeSet<String> = pods.iter().filter_map(|pod| pod.uid()).collect();
        self.known.retain(|uid, _| uids.contains(uid));
        let mut next: Option<Instant> = None;
        for pod in pods {
            let again = match self.step(&pod).await {
                Ok(wait) => wait.map(|wait| self.clock.instant() + wait),
                Err(error) => {
                    self.complain("tend a pod", &error);
                    Some(self.clock.instant() + RETRY)
                }
            };
            next = [next, again].into_iter().flatten().min();
        }
        next
    }

    async fn step(&mut self, pod: &Pod) -> Result<Option<Duration>, kube::Error> {
        let now = self.clock.now();
        let here = self.here(pod, now);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let uid = pod.uid().unwrap_or_default();
        let written = match pod::decide(pod, &here, now) {
            Step::Rest => return Ok(None),
            Step::Wait(until) => {
                return Ok(Some(Duration::try_from(until.duration_since(now)).unwrap_or_default()));
            }
            Step::Report(status) => {
                let patch = Patch::Merge(json!({ "metadata": { "uid": uid }, "status": status }));
                pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.map(drop)
            }
            Step::Remove => {
                let own = Preconditions { uid: Some(uid), resource_version: None };
                let now = DeleteParams::default().grace_period(0).preconditions(own);
                pods.delete(&pod.name_any(), &now).await.map(drop)
            }
        };
        match written {
            // Deleted meanwhile, or another pod of the same name: the watch will say so.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
            // What was written comes back by the watch and is decided on then.
            other => other.map(|()| None),
        }
    }

    fn here(&mut self, pod: &Pod, now: Timestamp) -> Here {
        let uid = pod.uid().unwrap_or_default();
        if let Some(here) = self.known.get(&uid) {
            return here.clone();
        }
        let address = self.seen_pods % 253 + 2;
        self.seen_pods += 1;
        let here = Here {
            seen: now,
            host_ip: self.ip.clone(),
            pod_ip: format!("10.{}.{}.{address}", 64 + self.number / 256 % 128, self.number % 256),
        };
        self.known.insert(uid, here.clone());
        here
    }

    fn complain(&self, what: &str, error: &kube::Error) {
        tracing::debug!(node = self.spec.name, %error, "a hollow node failed to {what}");
    }
}

/// As the API server's token authenticator sees it.
fn is_valid_token(known: &Secret, id: &str, secret: &str, now: Timestamp) -> bool {
    let data = known.data.as_ref();
    let field =
        |name: &str| data.and_then(|data| data.get(name)).and_then(|value| str::from_utf8(&value.0).ok());
    let expired = field("expiration").is_some_and(|text| text.parse().is_ok_and(|at: Timestamp| at <= now));
    known.type_.as_deref() == Some("bootstrap.kubernetes.io/token")
        && field("token-id") == Some(id)
        && field("token-secret") == Some(secret)
        && field("usage-bootstrap-authentication") == Some("true")
        && !expired
}

/// A delay within one period that depends on nothing but the name.
fn stagger(name: &str) -> Duration {
    let period = u64::try_from(RENEW_EVERY.as_millis()).unwrap_or(10_000);
    // The upper bits: the lower ones of similar names are alike.
    Duration::from_millis((stable_hash(name) >> 17) % period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_of_many_nodes_are_spread_over_the_period() {
        let mut per_second = [0_u32; 10];
        for number in 0..1000 {
            let second = usize::try_from(stagger(&format!("node-{number}")).as_secs()).unwrap();
            per_second[second] += 1;
        }
        assert!(per_second.iter().all(|count| (50..=150).contains(count)), "{per_second:?}");
    }
}

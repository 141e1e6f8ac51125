//! Leader election on a Lease, in the way client-go does it, so that ours and Go's candidates exclude each
//! other. Whether a lease has run out is judged by how long *we* have seen it unchanged, never by comparing
//! its times with our clock.

use crate::{Fence, Health, metrics::Metrics};
use hostler_base::{Chance, Clock};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{future::Future, time::Duration};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Which lease, who we are, and how patient we are.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    pub namespace: String,
    pub name: String,
    /// Unique among all candidates, also over restarts.
    pub identity: String,
    /// How long others wait after our last sign of life.
    pub duration: Duration,
    /// We give up when we could not renew for this long; less than `duration`.
    pub renew_deadline: Duration,
    /// The time between attempts.
    pub retry_period: Duration,
}

impl LeaseOptions {
    /// With the times that are usual for controllers.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// How leading ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Led<T> {
    /// The work ended by itself and the lease was given back.
    Finished(T),
    /// The lease was lost and the work was dropped where it was. The process should end.
    Lost,
    /// Asked to stop before it led.
    Never,
}

/// One candidate. Needs the rights to create leases, and to get and update this one.
pub struct Election {
    api: Api<Lease>,
    options: LeaseOptions,
    clock: Clock,
    chance: Chance,
    fence: Fence,
    metrics: Metrics,
    health: Option<Health>,
    observed: Option<Observed>,
    /// Our own lease as last written, to renew it without reading it first.
    ours: Option<Lease>,
    last_error: Option<String>,
}

/// A lease as we last saw it change.
#[derive(Clone, Debug, PartialEq)]
struct Observed {
    spec: LeaseSpec,
    at: Instant,
}

/// What to do about a lease.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Create(LeaseSpec),
    Replace(LeaseSpec),
    /// It is somebody else's.
    Leave,
}

impl Election {
    /// `client` must not be fenced: renewing the lease is what opens the fence.
    pub fn new(
        client: Client,
        options: LeaseOptions,
        clock: Clock,
        chance: &Chance,
        metrics: Metrics,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &options.namespace),
            chance: chance.split(&options.name),
            fence: Fence::closed(clock.clone()),
            options,
            clock,
            metrics,
            health: None,
            observed: None,
            ours: None,
            last_error: None,
        }
    }

    /// Lets `/readyz` know while another candidate leads.
    pub fn tells(mut self, health: Health) -> Self {
        self.health = Some(health);
        self
    }

    /// The fence that is open while this candidate leads; for the client stacks of the work.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until it leads, works until the work ends, and gives the lease back. The work must end by itself
    /// some time after `stop`; it is dropped at once when the lease is lost.
    pub async fn lead<T, W>(mut self, stop: &CancellationToken, work: impl FnOnce() -> W) -> Led<T>
    where
        W: Future<Output = T> + Send,
    {
        tokio::select! {
            biased;
            () = stop.cancelled() => return Led::Never,
            () = self.acquire() => {}
        }
        let mut work = Box::pin(work());
        let finished = tokio::select! {
            biased;
            result = &mut work => Some(result),
            () = self.hold() => None,
        };
        drop(work);
        self.fence.close();
        self.metrics.leader(&self.options.name, false);
        match finished {
            Some(result) => {
                self.release().await;
                Led::Finished(result)
            }
            None => Led::Lost,
        }
    }

    async fn acquire(&mut self) {
        tracing::info!(lease = %self.options.name, identity = %self.options.identity, "waiting to lead");
        while !self.attempt().await {
            if let Some(health) = &self.health {
                if self.last_error.is_none() && self.taken() {
                    health.stand_by();
                } else {
                    health.stand_by_no_more();
                }
            }
            // Candidates that start together must not ask together for ever.
            let jitter = self.options.retry_period.mul_f64(0.2 * self.chance.unit());
            self.clock.sleep(self.options.retry_period + jitter).await;
        }
        if let Some(health) = &self.health {
            health.stand_by_no_more();
        }
        tracing::info!(lease = %self.options.name, identity = %self.options.identity, "leading");
        self.metrics.leader(&self.options.name, true);
    }

    /// Renews until that fails for too long.
    async fn hold(&mut self) {
        let mut renewed = self.clock.instant();
        loop {
            self.clock.sleep(self.options.retry_period).await;
            let deadline = renewed + self.options.renew_deadline;
            let start = self.clock.instant();
            match tokio::time::timeout_at(deadline, self.attempt()).await {
                Ok(true) => renewed = start,
                Ok(false) if self.clock.instant() < deadline && !self.taken() => {}
                Ok(false) | Err(_) => break,
            }
        }
        tracing::error!(lease = %self.options.name, error = ?self.last_error, "lost the lease");
    }

    /// Whether somebody else was seen to hold the lease.
    fn taken(&self) -> bool {
        let holder = self.observed.as_ref().and_then(|seen| seen.spec.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty() && holder != self.options.identity)
    }

    /// Tries once to get or renew the lease.
    async fn attempt(&mut self) -> bool {
        match self.try_once().await {
            Ok(leads) => {
                self.last_error = None;
                leads
            }
            Err(error) => {
                let text = error.to_string();
                if self.last_error.as_ref() != Some(&text) {
                    tracing::warn!(lease = %self.options.name, error = %text, "could not reach the lease");
                }
                self.last_error = Some(text);
                self.ours = None;
                false
            }
        }
    }

    async fn try_once(&mut self) -> Result<bool, kube::Error> {
        let found = match self.ours.take() {
            Some(lease) => Some(lease),
            None => self.api.get_opt(&self.options.name).await?,
        };
        let seen = found.as_ref().map(|lease| lease.spec.clone().unwrap_or_default());
        self.observe(seen.as_ref());
        let (start, now) = (self.clock.instant(), self.clock.now());
        let step = step(self.observed.as_ref(), &self.options, start, now);
        let params = PostParams::default();
        let written = match step {
            Step::Leave => return Ok(false),
            Step::Create(spec) => {
                let metadata = ObjectMeta {
                    name: Some(self.options.name.clone()),
                    namespace: Some(self.options.namespace.clone()),
                    ..ObjectMeta::default()
                };
                self.api.create(&params, &Lease { metadata, spec: Some(spec) }).await
            }
            Step::Replace(spec) => {
                let metadata = found.map(|lease| lease.metadata).unwrap_or_default();
                self.api.replace(&self.options.name, &params, &Lease { metadata, spec: Some(spec) }).await
            }
        };
        let lease = match written {
            Ok(lease) => lease,
            // Somebody was faster; look again next time.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.observe(lease.spec.as_ref());
        self.fence.extend(start, now, self.options.duration);
        self.ours = Some(lease);
        Ok(true)
    }

    fn observe(&mut self, seen: Option<&LeaseSpec>) {
        match seen {
            None => self.observed = None,
            Some(spec) if self.observed.as_ref().is_some_and(|known| known.spec == *spec) => {}
            Some(spec) => self.observed = Some(Observed { spec: spec.clone(), at: self.clock.instant() }),
        }
    }

    /// Gives the lease back, so that nobody has to wait until it runs out.
    async fn release(&mut self) {
        let found = match self.ours.take() {
            Some(lease) => Ok(Some(lease)),
            None => self.api.get_opt(&self.options.name).await,
        };
        let Ok(Some(mut lease)) = found else { return };
        let spec = lease.spec.take().unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(&*self.options.identity) {
            return;
        }
        lease.spec = Some(released(spec, self.clock.now()));
        match self.api.replace(&self.options.name, &PostParams::default(), &lease).await {
            Ok(_) => tracing::info!(lease = %self.options.name, "gave the lease back"),
            Err(error) => tracing::warn!(lease = %self.options.name, %error, "could not give the lease back"),
        }
    }
}

fn step(observed: Option<&Observed>, options: &LeaseOptions, at: Instant, now: Timestamp) -> Step {
    let fresh = |transitions: i32| LeaseSpec {
        holder_identity: Some(options.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(options.duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    };
    let Some(Observed { spec, at: since }) = observed else { return Step::Create(fresh(0)) };
    let transitions = spec.lease_transitions.unwrap_or_default();
    match spec.holder_identity.as_deref() {
        Some(holder) if holder == options.identity => {
            let acquire_time = spec.acquire_time.clone().or(Some(MicroTime(now)));
            let renewed = LeaseSpec { acquire_time, ..fresh(transitions) };
            Step::Replace(LeaseSpec {
                strategy: spec.strategy.clone(),
                preferred_holder: spec.preferred_holder.clone(),
                ..renewed
            })
        }
        Some(holder) if !holder.is_empty() && at < *since + valid_for(spec, options) => Step::Leave,
        _ => Step::Replace(fresh(transitions.saturating_add(1))),
    }
}

/// How long its holder asked others to wait.
fn valid_for(spec: &LeaseSpec, options: &LeaseOptions) -> Duration {
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(options.duration, Duration::from_secs)
}

fn released(spec: LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        ..spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LeaseOptions {
        LeaseOptions::new("shoot", "machine-controller", "me")
    }

    fn lease(holder: &str, seconds: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: seconds,
            lease_transitions: Some(4),
            acquire_time: Some(MicroTime(Timestamp::from_second(7).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_only_when_it_may_be() {
        let seen = Instant::now();
        let now = Timestamp::from_second(1_000).unwrap();
        let at = |seconds: u64| seen + Duration::from_secs(seconds);
        let table = [
            (Some(lease("other", Some(15))), 0, "leave"),
            (Some(lease("other", Some(15))), 14, "leave"),
            (Some(lease("other", Some(15))), 15, "take"),
            (Some(lease("other", Some(60))), 59, "leave"),
            (Some(lease("other", None)), 14, "leave"),
            (Some(lease("other", None)), 15, "take"),
            (Some(lease("other", Some(-1))), 14, "leave"),
            (Some(lease("", Some(15))), 0, "take"),
            (Some(LeaseSpec::default()), 0, "take"),
            (Some(lease("me", Some(15))), 100, "renew"),
            (None, 0, "create"),
        ];
        for (spec, seconds, expected) in table {
            let observed = spec.clone().map(|spec| Observed { spec, at: seen });
            let did = match step(observed.as_ref(), &options(), at(seconds), now) {
                Step::Leave => "leave",
                Step::Create(new) => {
                    assert_eq!(new.lease_transitions, Some(0));
                    "create"
                }
                Step::Replace(new) => {
                    assert_eq!(new.holder_identity.as_deref(), Some("me"));
                    assert_eq!(new.renew_time, Some(MicroTime(now)));
                    assert_eq!(new.lease_duration_seconds, Some(15));
                    if new.acquire_time == Some(MicroTime(now)) {
                        let before =
                            spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
                        assert_eq!(new.lease_transitions, Some(before + 1));
                        "take"
                    } else {
                        assert_eq!(new.lease_transitions, Some(4));
                        "renew"
                    }
                }
            };
            assert_eq!(did, expected, "{spec:?} after {seconds} s");
        }
    }

    #[test]
    fn a_released_lease_is_nobodys() {
        let now = Timestamp::from_second(1_000).unwrap();
        let spec = released(lease("me", Some(15)), now);
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
        assert_eq!(spec.lease_transitions, Some(4));
        let observed = Observed { spec, at: Instant::now() };
        assert!(matches!(step(Some(&observed), &options(), observed.at, now), Step::Replace(_)));
    }
}

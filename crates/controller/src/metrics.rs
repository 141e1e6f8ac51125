//! What is counted and measured, in Prometheus' words. Labels never hold an object's name.

mod client_go;
mod process;

use client_go::ClientGo;
pub use client_go::QueueName;
pub(crate) use client_go::Reflected;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How a run ends that went wrong.
pub(crate) const FAILED: &str = "failed";

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of one process. Clones share everything; front doors add their own with
/// [`Metrics::register_with`].
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    queue_depth: Family<LaneLabels, Gauge>,
    queue_latency: Durations<LaneLabels>,
    reconciles: Family<OutcomeLabels, Counter>,
    reconcile_duration: Durations<KindLabels>,
    client_calls: Family<CallLabels, Counter>,
    client_duration: Durations<VerbLabels>,
    leader: Family<LeaseLabels, Gauge>,
    lease_changes: Family<LeaseLabels, Counter>,
    watch_starts: Family<WatchLabels, Counter>,
    malformed: Family<WatchLabels, Gauge>,
    events: Family<ResultLabels, Counter>,
    client_go: Option<Arc<ClientGo>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    queue: &'static str,
    lane: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    queue: &'static str,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    queue: &'static str,
    kind: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    client: &'static str,
    verb: String,
    resource: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    client: &'static str,
    verb: String,
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LeaseLabels {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WatchLabels {
    kind: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    pub fn new() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            queue_depth: Family::default(),
            queue_latency: Family::new_with_constructor(durations),
            reconciles: Family::default(),
            reconcile_duration: Family::new_with_constructor(durations),
            client_calls: Family::default(),
            client_duration: Family::new_with_constructor(durations),
            leader: Family::default(),
            lease_changes: Family::default(),
            watch_starts: Family::default(),
            malformed: Family::default(),
            events: Family::default(),
            client_go: None,
        };
        metrics.register_with(|registry| {
            let m = &metrics;
            registry.register("hostler_queue_depth", "Keys that wait in a lane", m.queue_depth.clone());
            registry.register(
                "hostler_queue_latency_seconds",
                "Time between a key being due and its run",
                m.queue_latency.clone(),
            );
            registry.register("hostler_reconciles", "Runs by how they ended", m.reconciles.clone());
            registry.register(
                "hostler_reconcile_duration_seconds",
                "Time a run takes",
                m.reconcile_duration.clone(),
            );
            registry.register(
                "hostler_client_calls",
                "Calls by verb, resource and HTTP status, or error",
                m.client_calls.clone(),
            );
            registry.register(
                "hostler_client_call_duration_seconds",
                "Time until the answer to a call begins",
                m.client_duration.clone(),
            );
            registry.register("hostler_leader", "1 while this process holds the lease", m.leader.clone());
            registry.register(
                "hostler_lease_changes",
                "How often this process won or lost the lease",
                m.lease_changes.clone(),
            );
            registry.register(
                "hostler_watch_starts",
                "How often a list or watch was begun, by what made it necessary",
                m.watch_starts.clone(),
            );
            registry.register(
                "hostler_malformed_objects",
                "Objects that could not be understood",
                m.malformed.clone(),
            );
            registry.register("hostler_events", "Kubernetes events by what became of them", m.events.clone());
        });
        metrics
    }

    /// The same things are told by the names of client-go as well: `<prefix>_workqueue_…`, `<prefix>_reflector_…` and
    /// `rest_client_…`.
    pub fn as_in_client_go(prefix: &'static str, queue_name: QueueName) -> Self {
        let metrics = Self::new();
        let client_go = metrics.register_with(|registry| ClientGo::new(prefix, queue_name, registry));
        Self { client_go: Some(Arc::new(client_go)), ..metrics }
    }

    /// Files, memory and processor time of the process are told, too. Worlds in which time does not pass by itself do
    /// without them.
    pub fn tell_of_the_process(&self) {
        self.register_with(|registry| registry.register_collector(Box::new(process::Process)));
    }

    /// Adds metrics of one's own.
    pub fn register_with<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry())
    }

    /// The text a Prometheus server reads, in the OpenMetrics form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry());
        text
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue_depths(
        &self,
        queue: &'static str,
        depths: impl Iterator<Item = (&'static str, usize)>,
    ) {
        for (lane, depth) in depths {
            let depth = i64::try_from(depth).unwrap_or(i64::MAX);
            self.queue_depth.get_or_create(&LaneLabels { queue, lane }).set(depth);
        }
    }

    /// Keys that could run if a worker were free.
    pub(crate) fn queue_ready(
        &self,
        queue: &'static str,
        counts: impl Iterator<Item = (&'static str, usize)>,
    ) {
        if let Some(client_go) = &self.client_go {
            client_go.ready(queue, counts);
        }
    }

    /// Whoever asks for the text gets to know how long runs have been under way.
    pub(crate) fn add_queue(
        &self,
        queue: &'static str,
        runs: impl Fn() -> Option<Vec<(&'static str, Duration)>> + Send + Sync + 'static,
    ) {
        if let Some(client_go) = &self.client_go {
            client_go.add_queue(queue, Box::new(runs));
        }
    }

    pub(crate) fn queue_latency(&self, queue: &'static str, lane: &'static str, waited: Duration) {
        self.queue_latency.get_or_create(&LaneLabels { queue, lane }).observe(waited.as_secs_f64());
        if let Some(client_go) = &self.client_go {
            client_go.started(queue, lane, waited);
        }
    }

    pub(crate) fn reconciled(
        &self,
        (queue, lane): (&'static str, &'static str),
        kind: &str,
        outcome: &'static str,
        took: Duration,
    ) {
        if let Some(client_go) = &self.client_go {
            client_go.ended(queue, lane, outcome == FAILED, took);
        }
        let kind = kind.to_owned();
        self.reconcile_duration
            .get_or_create(&KindLabels { queue, kind: kind.clone() })
            .observe(took.as_secs_f64());
        self.reconciles.get_or_create(&OutcomeLabels { queue, kind, outcome }).inc();
    }

    pub(crate) fn called(
        &self,
        client: &'static str,
        verb: &str,
        resource: &str,
        code: &str,
        took: Duration,
    ) {
        let (verb, resource) = (verb.to_owned(), resource.to_owned());
        let labels = VerbLabels { client, verb: verb.clone(), resource: resource.clone() };
        self.client_duration.get_or_create(&labels).observe(took.as_secs_f64());
        self.client_calls.get_or_create(&CallLabels { client, verb, resource, code: code.to_owned() }).inc();
    }

    /// A call to a Kubernetes API server, which has this host.
    pub(crate) fn requested(&self, method: &str, url: String, host: &str, code: &str, took: Duration) {
        if let Some(client_go) = &self.client_go {
            client_go.requested(method, url, host, code, took);
        }
    }

    /// What a watch of the kind counts, if anybody wants it.
    pub(crate) fn reflected(&self, kind: &str) -> Option<Reflected> {
        self.client_go.as_ref().map(|client_go| client_go.reflected(kind))
    }

    pub(crate) fn leader(&self, lease: &str, leads: bool) {
        let labels = LeaseLabels { name: lease.to_owned() };
        if self.leader.get_or_create(&labels).set(i64::from(leads)) != i64::from(leads) {
            self.lease_changes.get_or_create(&labels).inc();
        }
    }

    pub(crate) fn watch_started(&self, kind: &str, reason: &'static str) {
        self.watch_starts.get_or_create(&WatchLabels { kind: kind.to_owned(), reason }).inc();
    }

    pub(crate) fn malformed(&self, kind: &str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.malformed
            .get_or_create(&WatchLabels { kind: kind.to_owned(), reason: "undecodable" })
            .set(count);
    }

    pub(crate) fn event(&self, result: &'static str) {
        self.events.get_or_create(&ResultLabels { result }).inc();
    }
}

/// How long calls and runs take: from five milliseconds to about three minutes.
pub fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_holds_what_was_counted() {
        let metrics = Metrics::new();
        metrics.reconciled(("machines", "create"), "Machine", "done", Duration::from_millis(7));
        metrics.called("kubernetes", "get", "nodes", "200", Duration::from_millis(3));
        metrics.leader("machine-controller", true);
        metrics.leader("machine-controller", true);
        metrics.queue_depths("machines", [("create", 3)].into_iter());
        let text = metrics.text();
        for line in [
            "hostler_reconciles_total{queue=\"machines\",kind=\"Machine\",outcome=\"done\"} 1",
            "hostler_reconcile_duration_seconds_bucket{le=\"0.01\",queue=\"machines\",kind=\"Machine\"} 1",
            "hostler_client_calls_total{client=\"kubernetes\",verb=\"get\",resource=\"nodes\",code=\"200\"} 1",
            "hostler_leader{name=\"machine-controller\"} 1",
            "hostler_lease_changes_total{name=\"machine-controller\"} 1",
            "hostler_queue_depth{queue=\"machines\",lane=\"create\"} 3",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn the_names_of_client_go_are_told_too_if_they_are_asked_for() {
        let count = |metrics: &Metrics| {
            let runs = vec![("delete", Duration::from_secs(3)), ("drain", Duration::from_secs(4))];
            metrics.add_queue("machine", move || Some(runs.clone()));
            metrics.queue_ready("machine", [("create", 1), ("delete", 2), ("drain", 3)].into_iter());
            metrics.queue_latency("machine", "create", Duration::from_millis(7));
            metrics.reconciled(("machine", "drain"), "Machine", FAILED, Duration::from_secs(2));
            metrics.reconciled(("machine", "delete"), "Machine", "done", Duration::from_secs(2));
            metrics.requested("GET", "https://a:1/api".into(), "a:1", "200", Duration::from_millis(3));
            if let Some(reflected) = metrics.reflected("Machine") {
                reflected.lists.inc();
                reflected.saw_version("17");
                reflected.saw_version("not a number");
            }
            metrics.text()
        };
        assert!(!count(&Metrics::new()).contains("workqueue"));
        let text = count(&Metrics::as_in_client_go("mcm", |queue, lane| match lane {
            "delete" | "drain" => "termination",
            _ => queue,
        }));
        for line in [
            "mcm_workqueue_depth{name=\"machine\"} 1",
            "mcm_workqueue_depth{name=\"termination\"} 5",
            "mcm_workqueue_adds_total{name=\"machine\"} 1",
            "mcm_workqueue_queue_duration_seconds_count{name=\"machine\"} 1",
            "mcm_workqueue_work_duration_seconds_sum{name=\"termination\"} 4.0",
            "mcm_workqueue_retries_total{name=\"termination\"} 1",
            "mcm_workqueue_unfinished_work_seconds{name=\"machine\"} 0.0",
            "mcm_workqueue_unfinished_work_seconds{name=\"termination\"} 7.0",
            "mcm_workqueue_longest_running_processor_seconds{name=\"termination\"} 4.0",
            "mcm_reflector_lists_total{name=\"Machine\"} 1",
            "mcm_reflector_last_resource_version{name=\"Machine\"} 17.0",
            "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"a:1\"} 1",
            "rest_client_request_latency_seconds_count{verb=\"GET\",url=\"https://a:1/api\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}

//! The same things by the names that programs written with client-go have for them, since dashboards know those.

use super::durations;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::Duration,
};

/// The name of a queue there, by the names of queue and lane here.
pub type QueueName = fn(queue: &'static str, lane: &'static str) -> &'static str;

type Distribution<L> = Family<L, Histogram, fn() -> Histogram>;
/// The runs of a queue that are under way, by lane; nothing once the queue is gone.
type Runs = Box<dyn Fn() -> Option<Vec<(&'static str, Duration)>> + Send + Sync>;

pub(super) struct ClientGo {
    queue_name: QueueName,
    depth: Family<Name, Gauge>,
    adds: Family<Name, Counter>,
    queue_duration: Distribution<Name>,
    work_duration: Distribution<Name>,
    retries: Family<Name, Counter>,
    under_way: Arc<Mutex<UnderWay>>,
    lists: Family<Name, Counter>,
    list_duration: Distribution<Name>,
    items_per_list: Distribution<Name>,
    watches: Family<Name, Counter>,
    short_watches: Family<Name, Counter>,
    watch_duration: Distribution<Name>,
    items_per_watch: Distribution<Name>,
    last_version: Family<Name, Gauge<f64, AtomicU64>>,
    request_latency: Distribution<Latency>,
    requests: Family<Request, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Latency {
    verb: String,
    url: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    code: String,
    method: String,
    host: String,
}

/// What a watch counts.
#[derive(Clone)]
pub(crate) struct Reflected {
    pub(crate) lists: Counter,
    pub(crate) list_duration: Histogram,
    pub(crate) items_per_list: Histogram,
    pub(crate) watches: Counter,
    pub(crate) short_watches: Counter,
    pub(crate) watch_duration: Histogram,
    pub(crate) items_per_watch: Histogram,
    last_version: Gauge<f64, AtomicU64>,
}

impl Reflected {
    pub(crate) fn saw_version(&self, version: &str) {
        if let Ok(number) = version.parse() {
            self.last_version.set(number);
        }
    }
}

impl ClientGo {
    pub(super) fn new(prefix: &'static str, queue_name: QueueName, registry: &mut Registry) -> Self {
        let own = Self {
            queue_name,
            depth: Family::default(),
            adds: Family::default(),
            queue_duration: Family::new_with_constructor(decades),
            work_duration: Family::new_with_constructor(decades),
            retries: Family::default(),
            under_way: Arc::new(Mutex::new(UnderWay { prefix, queue_name, ..UnderWay::default() })),
            lists: Family::default(),
            list_duration: Family::new_with_constructor(durations),
            items_per_list: Family::new_with_constructor(items),
            watches: Family::default(),
            short_watches: Family::default(),
            watch_duration: Family::new_with_constructor(durations),
            items_per_watch: Family::new_with_constructor(items),
            last_version: Family::default(),
            request_latency: Family::new_with_constructor(latencies),
            requests: Family::default(),
        };
        own.register(prefix, registry);
        own
    }

    fn register(&self, prefix: &str, all: &mut Registry) {
        let queues = all.sub_registry_with_prefix(format!("{prefix}_workqueue"));
        queues.register("depth", "Keys that could run and wait for a worker", self.depth.clone());
        queues.register("adds", "Keys whose turn came", self.adds.clone());
        queues.register(
            "queue_duration_seconds",
            "Time between a key being due and its run",
            self.queue_duration.clone(),
        );
        queues.register("work_duration_seconds", "Time a run takes", self.work_duration.clone());
        queues.register("retries", "Runs that failed and are repeated", self.retries.clone());
        all.register_collector(Box::new(Collected(self.under_way.clone())));
        let watches = all.sub_registry_with_prefix(format!("{prefix}_reflector"));
        watches.register("lists", "Lists that were read to their end", self.lists.clone());
        watches.register("list_duration_seconds", "Time a list takes", self.list_duration.clone());
        watches.register("items_per_list", "Objects in a list", self.items_per_list.clone());
        watches.register("watches", "Watches that were begun", self.watches.clone());
        watches.register(
            "short_watches",
            "Watches that ended at once and told nothing",
            self.short_watches.clone(),
        );
        watches.register("watch_duration_seconds", "Time a watch lasts", self.watch_duration.clone());
        watches.register("items_per_watch", "Changes that a watch told", self.items_per_watch.clone());
        watches.register(
            "last_resource_version",
            "The last version that was seen",
            self.last_version.clone(),
        );
        all.register(
            "rest_client_request_latency_seconds",
            "Time until the answer begins, by method and URL without the names of objects",
            self.request_latency.clone(),
        );
        all.register(
            "rest_client_requests",
            "Calls by HTTP status or <error>, method and host",
            self.requests.clone(),
        );
    }

    pub(super) fn add_queue(&self, queue: &'static str, runs: Runs) {
        under_way(&self.under_way).queues.push((queue, runs));
    }

    pub(super) fn ready(&self, queue: &'static str, counts: impl Iterator<Item = (&'static str, usize)>) {
        let mut sums: BTreeMap<&str, usize> = BTreeMap::new();
        for (lane, count) in counts {
            *sums.entry((self.queue_name)(queue, lane)).or_default() += count;
        }
        for (name, sum) in sums {
            self.depth.get_or_create(&named(name)).set(i64::try_from(sum).unwrap_or(i64::MAX));
        }
    }

    pub(super) fn started(&self, queue: &'static str, lane: &'static str, waited: Duration) {
        let name = (self.queue_name)(queue, lane);
        under_way(&self.under_way).names.insert(name);
        self.adds.get_or_create(&named(name)).inc();
        self.queue_duration.get_or_create(&named(name)).observe(waited.as_secs_f64());
    }

    pub(super) fn ended(&self, queue: &'static str, lane: &'static str, failed: bool, took: Duration) {
        let name = named((self.queue_name)(queue, lane));
        self.work_duration.get_or_create(&name).observe(took.as_secs_f64());
        // It is there from the beginning, so that its increase can be seen.
        self.retries.get_or_create(&name).inc_by(u64::from(failed));
    }

    pub(super) fn reflected(&self, kind: &str) -> Reflected {
        let name = named(kind);
        Reflected {
            lists: self.lists.get_or_create_owned(&name),
            list_duration: self.list_duration.get_or_create_owned(&name),
            items_per_list: self.items_per_list.get_or_create_owned(&name),
            watches: self.watches.get_or_create_owned(&name),
            short_watches: self.short_watches.get_or_create_owned(&name),
            watch_duration: self.watch_duration.get_or_create_owned(&name),
            items_per_watch: self.items_per_watch.get_or_create_owned(&name),
            last_version: self.last_version.get_or_create_owned(&name),
        }
    }

    pub(super) fn requested(&self, method: &str, url: String, host: &str, code: &str, took: Duration) {
        let method = method.to_owned();
        let latency = Latency { verb: method.clone(), url };
        self.request_latency.get_or_create(&latency).observe(took.as_secs_f64());
        let request = Request { code: code.to_owned(), method, host: host.to_owned() };
        self.requests.get_or_create(&request).inc();
    }
}

fn named(name: &str) -> Name {
    Name { name: name.to_owned() }
}

/// What is asked of the queues when somebody wants to know.
struct UnderWay {
    prefix: &'static str,
    queue_name: QueueName,
    names: BTreeSet<&'static str>,
    queues: Vec<(&'static str, Runs)>,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { prefix: "", queue_name: |queue, _| queue, names: BTreeSet::new(), queues: Vec::new() }
    }
}

fn under_way(shared: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Collected(Arc<Mutex<UnderWay>>);

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collected")
    }
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let shared = under_way(&self.0);
        let mut times: BTreeMap<&str, (f64, f64)> =
            shared.names.iter().map(|name| (*name, (0.0, 0.0))).collect();
        for (queue, runs) in &shared.queues {
            for (lane, took) in runs().into_iter().flatten() {
                let (sum, longest) = times.entry((shared.queue_name)(queue, lane)).or_default();
                *sum += took.as_secs_f64();
                *longest = longest.max(took.as_secs_f64());
            }
        }
        if times.is_empty() {
            return Ok(());
        }
        let sums: Vec<_> = times.iter().map(|(name, (sum, _))| (*name, *sum)).collect();
        let longest: Vec<_> = times.iter().map(|(name, (_, longest))| (*name, *longest)).collect();
        for (name, help, values) in [
            ("unfinished_work_seconds", "How long all runs that are under way have taken", sums),
            ("longest_running_processor_seconds", "How long the longest of them has", longest),
        ] {
            let name = format!("{}_workqueue_{name}", shared.prefix);
            let mut family = encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?;
            for (queue, value) in values {
                ConstGauge::new(value).encode(family.encode_family(&[("name", queue)])?)?;
            }
        }
        Ok(())
    }
}

/// From ten nanoseconds to ten seconds, as upstream has them.
fn decades() -> Histogram {
    Histogram::new(exponential_buckets(1e-8, 10.0, 10))
}

/// From a millisecond to half a second, as upstream has them.
fn latencies() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 10))
}

fn items() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 10.0, 6))
}

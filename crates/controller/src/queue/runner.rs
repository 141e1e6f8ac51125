use super::{Ending, Lane, Outcome, Schedule, Start, Trouble};
use crate::{
    Key,
    metrics::{FAILED, Metrics},
};
use async_trait::async_trait;
use futures::FutureExt;
use hostler_base::{Backoff, Chance, Clock};
use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// How long runs may go on after the stop signal, if nobody says otherwise. What is cut off is found out about by the
/// next process; a lease that is not given back in time would keep it waiting.
pub const LAST_RUNS: Duration = Duration::from_secs(2);

/// What is done for a key. It never sleeps and never polls: it looks, takes one step, and says when to look
/// again.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// The lane the key's next run belongs to, judged by what is known of the object now.
    fn lane(&self, key: &Key) -> Lane;

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble>;
}

/// One run of a reconciler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub key: Key,
    /// How often in a row it failed before.
    pub attempts: u32,
}

/// How a [`Queue`] behaves.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// The queue's name in metrics and logs.
    pub name: &'static str,
    /// The delay after failures in a row.
    pub backoff: Backoff,
    /// A key that failed and is woken runs again after this at the earliest, or after its back-off if that
    /// is shorter.
    pub woken_after_failure: Duration,
    /// A run that takes longer than this makes the process unhealthy.
    pub stuck_after: Duration,
    /// How long runs may go on after the stop signal.
    pub drain_limit: Duration,
}

impl QueueOptions {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_mins(5)),
            woken_after_failure: Duration::from_secs(5),
            stuck_after: Duration::from_mins(10),
            drain_limit: LAST_RUNS,
        }
    }
}

/// The handle of a work queue: clones wake the same keys.
#[derive(Clone)]
pub struct Queue(Arc<Inner>);

struct Inner {
    options: QueueOptions,
    clock: Clock,
    chance: Chance,
    metrics: Metrics,
    state: Mutex<Shared>,
    news: Notify,
}

#[derive(Default)]
struct Shared {
    /// Woken since the loop last looked.
    inbox: BTreeMap<Key, Instant>,
    /// Since when each key runs, and in which lane.
    running: BTreeMap<Key, (Instant, &'static str)>,
}

/// What became of the runs that were under way at the stop signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Those that did not end in time and were dropped.
    pub abandoned: Vec<Key>,
}

impl Queue {
    pub fn new(options: QueueOptions, clock: Clock, chance: &Chance, metrics: Metrics) -> Self {
        let chance = chance.split(options.name);
        let (state, news) = (Mutex::default(), Notify::new());
        let queue = Self(Arc::new(Inner { options, clock, chance, metrics, state, news }));
        let inner = Arc::downgrade(&queue.0);
        queue.0.metrics.add_queue(queue.name(), move || inner.upgrade().map(|inner| Self(inner).runs()));
        queue
    }

    pub fn name(&self) -> &'static str {
        self.0.options.name
    }

    /// Makes a key due now. A key that is running runs again afterwards.
    pub fn wake(&self, key: Key) {
        self.wake_after(key, Duration::ZERO);
    }

    /// Makes a key due after `delay` at the latest.
    pub fn wake_after(&self, key: Key, delay: Duration) {
        let due = self.0.clock.instant() + delay;
        let mut state = self.state();
        state.inbox.entry(key).and_modify(|planned| *planned = due.min(*planned)).or_insert(due);
        drop(state);
        self.0.news.notify_one();
    }

    /// Runs that take longer than they may, with the time they have taken.
    pub fn stuck(&self) -> Vec<(Key, Duration)> {
        let limit = self.0.options.stuck_after;
        let runs = self.under_way().into_iter();
        runs.filter(|(_, _, taken)| *taken > limit).map(|(key, _, taken)| (key, taken)).collect()
    }

    /// The runs that are under way, with their lanes and the time they have taken.
    pub fn under_way(&self) -> Vec<(Key, &'static str, Duration)> {
        let now = self.0.clock.instant();
        let state = self.state();
        let taken = |(key, (since, lane)): (&Key, &(Instant, &'static str))| {
            (key.clone(), *lane, now.saturating_duration_since(*since))
        };
        state.running.iter().map(taken).collect()
    }

    fn runs(&self) -> Vec<(&'static str, Duration)> {
        self.under_way().into_iter().map(|(_, lane, taken)| (lane, taken)).collect()
    }

    fn state(&self) -> MutexGuard<'_, Shared> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until `stop` is cancelled, then lets the runs that are under way end within the drain limit.
    ///
    /// The runs are tasks of this future: dropping it ends them at once.
    pub async fn run(&self, reconciler: Arc<dyn Reconciler>, stop: CancellationToken) -> Drained {
        // What a dropped loop left behind does not run any more.
        self.state().running.clear();
        let mut schedule = Schedule::default();
        let mut tasks = JoinSet::new();
        loop {
            self.read_inbox(&mut schedule, &*reconciler);
            while let Some(start) = schedule.take(self.0.clock.instant()) {
                self.start(start, &reconciler, &mut tasks);
            }
            self.0.metrics.queue_depths(self.name(), schedule.depths());
            self.0.metrics.queue_ready(self.name(), schedule.ready(self.0.clock.instant()));
            let next = schedule.next_due();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next() => self.end(ended, &mut schedule, &*reconciler),
                () = self.0.news.notified() => {}
                () = sleep_until(next) => {}
            }
        }
        let limit = self.0.options.drain_limit;
        let drained = tokio::time::timeout(limit, async {
            while let Some(ended) = tasks.join_next().await {
                self.end(ended, &mut schedule, &*reconciler);
            }
        });
        let in_time = drained.await.is_ok();
        let abandoned = std::mem::take(&mut self.state().running).into_keys().collect();
        if !in_time {
            tracing::warn!(queue = self.name(), ?abandoned, "runs did not end in time and were dropped");
        }
        Drained { abandoned }
    }

    fn read_inbox(&self, schedule: &mut Schedule<Key>, reconciler: &dyn Reconciler) {
        let inbox = std::mem::take(&mut self.state().inbox);
        for (key, due) in inbox {
            let lane = reconciler.lane(&key);
            schedule.wake(key, lane, due);
        }
    }

    fn start(&self, start: Start<Key>, reconciler: &Arc<dyn Reconciler>, tasks: &mut JoinSet<Ended>) {
        let now = self.0.clock.instant();
        self.0.metrics.queue_latency(self.name(), start.lane, now.saturating_duration_since(start.due));
        self.state().running.insert(start.key.clone(), (now, start.lane));
        let span = start.key.span(start.attempts);
        let (reconciler, key, attempts) = (reconciler.clone(), start.key, start.attempts);
        tasks.spawn(
            async move {
                let run = Run { key: key.clone(), attempts };
                let result = AssertUnwindSafe(reconciler.reconcile(run)).catch_unwind().await;
                let result = result.unwrap_or_else(|panic| Err(Trouble::new(panic_text(&*panic))));
                match &result {
                    Ok(outcome) => tracing::debug!(outcome = outcome.label(), "reconciled"),
                    Err(trouble) => tracing::warn!(error = %trouble, "could not reconcile"),
                }
                Ended { key, attempts, result }
            }
            .instrument(span),
        );
    }

    fn end(
        &self,
        ended: Result<Ended, tokio::task::JoinError>,
        schedule: &mut Schedule<Key>,
        by: &dyn Reconciler,
    ) {
        // A task that catches its panics and is not aborted always ends with a value.
        let Ok(Ended { key, attempts, result }) = ended else { return };
        let now = self.0.clock.instant();
        let Some((since, ran_in)) = self.state().running.remove(&key) else { return };
        let took = now.saturating_duration_since(since);
        let (label, ending) = match result {
            Ok(outcome) => {
                let again = match outcome {
                    Outcome::Done => None,
                    Outcome::After(delay) => Some(delay),
                    Outcome::Wait { check, .. } => check,
                };
                (outcome.label(), Ending::Well { again })
            }
            Err(trouble) => {
                let backoff = self.0.options.backoff.delay(attempts, &self.0.chance);
                let delay = trouble.delay().unwrap_or(backoff);
                let at_least = backoff.min(self.0.options.woken_after_failure);
                (FAILED, Ending::Failed { delay, at_least })
            }
        };
        self.0.metrics.reconciled((self.name(), ran_in), &key.kind, label, took);
        let lane = by.lane(&key);
        schedule.finish(key, lane, ending, now);
    }
}

struct Ended {
    key: Key,
    attempts: u32,
    result: Result<Outcome, Trouble>,
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the reconciler panicked: {}", text.unwrap_or("without a message"))
}

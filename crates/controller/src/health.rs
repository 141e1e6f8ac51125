use crate::{Queue, metrics::Metrics, watch::Vitals};
use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a kubelet and a Prometheus server ask: `/healthz`, `/readyz`, `/metrics`.
///
/// `/healthz` is 500 while a run is stuck: the process should be restarted.
///
/// `/readyz` is 503 from the start until all watches are registered ([`Health::registered`]) and synced, and later
/// while one of them is silent. A candidate that another process keeps waiting ([`Health::stand_by`]) is ready as
/// far as it can be, and says so with 200: otherwise a rolling update, which waits for the new process before it
/// ends the old one, would wait for ever.
#[derive(Clone)]
pub struct Health {
    watched: Arc<Mutex<Watched>>,
    metrics: Metrics,
}

#[derive(Default)]
struct Watched {
    queues: Vec<Queue>,
    watches: Vec<Vitals>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Not all watches are known yet.
    #[default]
    Starting,
    /// Another process leads.
    StandingBy,
    Working,
}

impl Health {
    pub fn new(metrics: Metrics) -> Self {
        Self { watched: Arc::default(), metrics }
    }

    /// A run of this queue that is stuck makes the process unhealthy.
    pub fn add_queue(&self, queue: &Queue) {
        self.watched().queues.push(queue.clone());
    }

    /// The process is ready only once this watch is synced, and while it shows signs of life.
    pub fn add_watch(&self, vitals: Vitals) {
        self.watched().watches.push(vitals);
    }

    /// All watches are added: from now on they decide whether the process is ready.
    pub fn registered(&self) {
        self.watched().stage = Stage::Working;
    }

    /// Another process leads, and this one could take over.
    pub fn stand_by(&self) {
        self.leave(Stage::Starting, Stage::StandingBy);
    }

    /// It is not known any more that another process leads, or it is this one's turn.
    pub fn stand_by_no_more(&self) {
        self.leave(Stage::StandingBy, Stage::Starting);
    }

    fn leave(&self, from: Stage, to: Stage) {
        let mut watched = self.watched();
        if watched.stage == from {
            watched.stage = to;
        }
    }

    /// Why the process should be restarted; empty if it should not.
    pub fn stuck(&self) -> Vec<String> {
        let queues = self.queues();
        let lines = queues.iter().flat_map(|queue| {
            let line = |(key, taken): (crate::Key, std::time::Duration)| {
                format!("queue {}: {key} has been running for {} s", queue.name(), taken.as_secs())
            };
            queue.stuck().into_iter().map(line)
        });
        lines.collect()
    }

    /// Why the process is not ready; empty if it is.
    pub fn not_ready(&self) -> Vec<String> {
        let watched = self.watched();
        match watched.stage {
            Stage::Starting => vec!["not all watches are registered yet".to_owned()],
            Stage::StandingBy => Vec::new(),
            Stage::Working => watched.watches.iter().filter_map(Vitals::problem).collect(),
        }
    }

    pub fn router(&self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self.clone())
    }

    pub(crate) fn queues(&self) -> Vec<Queue> {
        self.watched().queues.clone()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn healthz(State(health): State<Health>) -> impl IntoResponse {
    answer(&health.stuck(), StatusCode::INTERNAL_SERVER_ERROR)
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    if health.watched().stage == Stage::StandingBy {
        return (StatusCode::OK, "standing by: another process leads\n".to_owned());
    }
    answer(&health.not_ready(), StatusCode::SERVICE_UNAVAILABLE)
}

fn answer(problems: &[String], bad: StatusCode) -> (StatusCode, String) {
    if problems.is_empty() { (StatusCode::OK, "ok\n".to_owned()) } else { (bad, problems.join("\n") + "\n") }
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], health.metrics.text())
}

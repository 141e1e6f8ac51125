//! What is counted of the calls that leave for VPSie, by the names that its users know.

use hostler_base::{Body, Clock, Transport, transport};
use hostler_driver::client::OperationName;
use http::Request;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

/// In place of a status: there was no answer.
const NETWORK_ERROR: &str = "network_error";

/// Counts calls. Clones share everything.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<CountedRequest, Counter>,
    duration: Family<Operation, Histogram, fn() -> Histogram>,
}

/// The operation is called its method, such as `CreateVM`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CountedRequest {
    method: &'static str,
    status: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    method: &'static str,
}

impl ApiMetrics {
    pub fn new(registry: &mut Registry) -> Self {
        let own = Self { requests: Family::default(), duration: Family::new_with_constructor(durations) };
        let api = registry.sub_registry_with_prefix("vpsie_api");
        api.register("requests", "Calls to VPSie", own.requests.clone());
        api.register(
            "request_duration_seconds",
            "Time until the answer to a call begins",
            own.duration.clone(),
        );
        own
    }

    /// Counts what goes through the transport, also calls that nobody waits for any longer. It belongs under whatever
    /// holds calls back.
    pub fn counted(&self, inner: Transport, clock: Clock) -> Transport {
        let own = self.clone();
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let method = request.extensions().get::<OperationName>().map_or("other", |name| name.0);
            let mut counting = Counting {
                own: own.clone(),
                method,
                status: NETWORK_ERROR.to_owned(),
                begun_at: None,
                clock: clock.clone(),
            };
            let answer = transport::send(&inner, request);
            async move {
                counting.begun_at = Some(counting.clock.instant());
                let answer = answer.await;
                if let Ok(answer) = &answer {
                    answer.status().as_str().clone_into(&mut counting.status);
                }
                answer
            }
        }))
    }
}

/// A call on its way. It counts when it ends, however it does.
struct Counting {
    own: ApiMetrics,
    method: &'static str,
    status: String,
    /// Nothing if it never left.
    begun_at: Option<Instant>,
    clock: Clock,
}

impl Drop for Counting {
    fn drop(&mut self) {
        let Some(begun_at) = self.begun_at else { return };
        let took = self.clock.instant().saturating_duration_since(begun_at);
        let (method, status) = (self.method, std::mem::take(&mut self.status));
        self.own.requests.get_or_create(&CountedRequest { method, status }).inc();
        self.own.duration.get_or_create(&Operation { method }).observe(took.as_secs_f64());
    }
}

/// From five milliseconds to about three minutes.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 16))
}

//! What is counted of the calls that leave for STACKIT: by the names of the vendor's own provider, and by those that
//! Gardener's dashboards know for every cloud.

use crate::client::TOKEN;
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
use std::time::Duration;
use tokio::time::Instant;

/// The program that calls, as dashboards know it.
const COMPONENT: &str = "machine-controller-manager-provider-stackit";
const PROVIDER: &str = "stackit";
/// In place of a status: there was no answer.
const NETWORK_ERROR: &str = "network_error";

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// Counts calls. Clones share everything.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: Family<Call, Counter>,
    errors: Family<Call, Counter>,
    duration: Durations<Call>,
    service_requests: Family<Service, Counter>,
    service_failures: Family<Service, Counter>,
    service_duration: Durations<Service>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    component: &'static str,
    host: String,
    method: String,
    operation: &'static str,
    status_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Service {
    provider: &'static str,
    service: &'static str,
}

impl ApiMetrics {
    pub fn new(registry: &mut Registry) -> Self {
        let own = Self {
            requests: Family::default(),
            errors: Family::default(),
            duration: Family::new_with_constructor(durations),
            service_requests: Family::default(),
            service_failures: Family::default(),
            service_duration: Family::new_with_constructor(durations),
        };
        let api = registry.sub_registry_with_prefix("stackit_api_http");
        api.register("requests", "Calls to STACKIT", own.requests.clone());
        api.register("errors", "Calls to STACKIT that failed or had no answer", own.errors.clone());
        api.register(
            "request_duration_seconds",
            "Time until the answer to a call begins",
            own.duration.clone(),
        );
        let cloud = registry.sub_registry_with_prefix("mcm_cloud_api");
        cloud.register("requests", "Calls to the cloud", own.service_requests.clone());
        cloud.register(
            "requests_failed",
            "Calls to the cloud that failed or had no answer",
            own.service_failures.clone(),
        );
        cloud.register(
            "api_request_duration_seconds",
            "Time until the answer to a call to the cloud begins",
            own.service_duration.clone(),
        );
        own
    }

    /// Counts what goes through the transport, also calls that nobody waits for any longer. It belongs under whatever
    /// holds calls back.
    pub fn counted(&self, inner: Transport, clock: Clock) -> Transport {
        let own = self.clone();
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let counting = own.begin(&request, clock.clone());
            let answer = transport::send(&inner, request);
            async move {
                let mut counting = counting;
                counting.begun_at = Some(counting.clock.instant());
                let answer = answer.await;
                if let Ok(answer) = &answer {
                    answer.status().as_str().clone_into(&mut counting.call.status_code);
                    counting.failed = answer.status().is_client_error() || answer.status().is_server_error();
                }
                answer
            }
        }))
    }

    fn begin(&self, request: &Request<Body>, clock: Clock) -> Counting {
        let operation = request.extensions().get::<OperationName>().map_or("other", |name| name.0);
        let call = Call {
            component: COMPONENT,
            host: request.uri().host().unwrap_or_default().to_owned(),
            method: request.method().as_str().to_owned(),
            operation,
            status_code: NETWORK_ERROR.to_owned(),
        };
        let service = if operation == TOKEN.0 { "service-account" } else { "iaas" };
        let service = Service { provider: PROVIDER, service };
        Counting { own: self.clone(), call, service, begun_at: None, failed: true, clock }
    }

    fn count(&self, call: &Call, service: &Service, failed: bool, took: Duration) {
        self.requests.get_or_create(call).inc();
        self.duration.get_or_create(call).observe(took.as_secs_f64());
        self.service_requests.get_or_create(service).inc();
        // It is there from the beginning, so that its increase can be seen.
        self.service_failures.get_or_create(service).inc_by(u64::from(failed));
        if failed {
            self.errors.get_or_create(call).inc();
        } else {
            self.service_duration.get_or_create(service).observe(took.as_secs_f64());
        }
    }
}

/// A call on its way. It counts when it ends, however it does.
struct Counting {
    own: ApiMetrics,
    call: Call,
    service: Service,
    /// Nothing if it never left.
    begun_at: Option<Instant>,
    failed: bool,
    clock: Clock,
}

impl Drop for Counting {
    fn drop(&mut self) {
        let Some(begun_at) = self.begun_at else { return };
        let took = self.clock.instant().saturating_duration_since(begun_at);
        self.own.count(&self.call, &self.service, self.failed, took);
    }
}

/// From five milliseconds to about three minutes.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.005, 2.0, 16))
}

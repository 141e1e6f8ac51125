//! The client stack: what every call to Kubernetes or a cloud goes through, in production and in tests.
//!
//! From the outside in: counted and timed, given a user agent, held back by the rate limit, bounded in time, and
//! stopped by the leader fence. The fence comes after the rate limit, because a call that waited may no longer be
//! ours to make; and the call's time begins before the fence is looked at, so that it is over before the lease is.

mod call;
mod limit;
mod reach;
mod timeout;

pub(crate) use call::is_watch;
pub use call::{CallName, ReadOnly};
pub use limit::{Rate, behind_others};
pub use reach::{transport_apart, transport_to};
pub use timeout::TimedOut;

use crate::{Fence, lean::without_owners_in_answers, metrics::Metrics};
use hostler_base::{Body, Clock, Transport, transport};
use http::{HeaderValue, Request, header::USER_AGENT};
use std::time::Duration;
use tower::ServiceExt;

/// How a client behaves.
#[derive(Clone)]
pub struct StackOptions {
    /// The client's name in metrics: `kubernetes`, or the cloud's.
    pub client: &'static str,
    /// The address of the Kubernetes API server, for metrics that tell servers apart; none for a cloud.
    pub server: Option<String>,
    /// How the client introduces itself.
    pub user_agent: String,
    /// How long a call may take, its answer's body included. Of a watch it bounds only the time until the
    /// answer begins.
    pub timeout: Duration,
    /// How many calls may be made; without limit if none is given.
    pub rate: Option<Rate>,
    /// Refuses calls that change something while another process may lead.
    pub fence: Fence,
    pub metrics: Metrics,
    pub clock: Clock,
}

impl StackOptions {
    /// For a process that is the only one of its kind, so that nobody else can lead and nothing is held back.
    pub fn alone(client: &'static str, metrics: Metrics, clock: Clock) -> Self {
        Self {
            client,
            server: None,
            user_agent: concat!("hostler/", env!("CARGO_PKG_VERSION")).to_owned(),
            timeout: Duration::from_secs(10),
            rate: None,
            fence: Fence::open(clock.clone()),
            metrics,
            clock,
        }
    }
}

/// Stacks the layers over a transport.
pub fn stack(inner: Transport, options: &StackOptions) -> Transport {
    let agent = HeaderValue::from_str(&options.user_agent).unwrap_or(HeaderValue::from_static("hostler"));
    let introduce = move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, agent.clone());
        request
    };
    let fenced = call::fenced(inner, options.fence.clone(), options.timeout);
    let bounded = timeout::bounded(fenced, options.timeout, options.clock.clone());
    let limited = match options.rate {
        Some(rate) => limit::limited(bounded, rate, options.clock.clone()),
        None => bounded,
    };
    let introduced = transport::from_service(limited.map_request(introduce));
    let server = options.server.as_deref();
    call::counted(introduced, options.client, server, options.clock.clone(), options.metrics.clone())
}

/// A Kubernetes client on a stack. It retries nothing by itself.
pub fn kube_client(
    inner: Transport,
    options: &StackOptions,
    default_namespace: impl Into<String>,
) -> kube::Client {
    let service = without_owners_in_answers(stack(inner, options))
        .map_request(|request: Request<kube::client::Body>| request.map(transport::boxed));
    kube::Client::new(service, default_namespace)
}

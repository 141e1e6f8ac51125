//! HTTP to the clouds: the library as a thin adapter under everything that counts, limits and fences calls.

use anyhow::Context;
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_stackit::OperationName;
use http::{Request, Response};
use http_body_util::BodyExt;
use reqwest::redirect::Policy;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many connections to one host are kept for later: enough for a steady stream of calls. More are opened when there
/// is more to do.
const MOST_IDLE: usize = 16;

/// A transport to anywhere, through the proxies that the environment names.
pub fn transport() -> anyhow::Result<Transport> {
    let client = self::client(MOST_IDLE)?;
    // A connection that once brought a long list keeps room for another one. With connections of their own for lists
    // few have such room, instead of all that ever happened to bring one.
    let for_lists = self::client(1)?;
    Ok(transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let client = if is_list(&request) { for_lists.clone() } else { client.clone() };
        let (parts, body) = request.into_parts();
        let body = body.collect();
        async move {
            let request = Request::from_parts(parts, body.await?.to_bytes());
            let request = reqwest::Request::try_from(request)?;
            let answer = client
                .execute(request)
                .await
                .map_err(|error| transport::with_causes(&error.without_url()))?;
            let answer: Response<reqwest::Body> = answer.into();
            Ok::<_, BoxError>(answer)
        }
    })))
}

fn client(most_idle: usize) -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .pool_max_idle_per_host(most_idle)
        .connect_timeout(CONNECT_TIMEOUT)
        // Whoever follows a redirect carries credentials to where they do not belong.
        .redirect(Policy::none())
        .build()
        .context("an HTTP client cannot be made")
}

fn is_list(request: &Request<Body>) -> bool {
    let operation = request.extensions().get::<OperationName>();
    operation.is_some_and(|OperationName(name)| name.starts_with("List"))
}

//! HTTP to the clouds: the library as a thin adapter under everything that counts, limits and fences calls.

use anyhow::Context;
use hostler_base::{Body, BoxError, Transport, transport};
use http::{Request, Response};
use http_body_util::BodyExt;
use reqwest::redirect::Policy;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A transport to anywhere, through the proxies that the environment names.
pub fn transport() -> anyhow::Result<Transport> {
    let client = reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // Whoever follows a redirect carries credentials to where they do not belong.
        .redirect(Policy::none())
        .build()
        .context("an HTTP client cannot be made")?;
    Ok(transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
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

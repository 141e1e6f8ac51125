//! HTTP to the clouds: the library as a thin adapter under everything that counts, limits and fences calls.

use anyhow::Context;
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_driver::client::OperationName;
use http::{Request, Response};
use http_body_util::BodyExt;
use reqwest::{Certificate, redirect::Policy};
use std::{env, path::Path, time::Duration};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many connections to one host are kept for later: enough for a steady stream of calls. More are opened when there
/// is more to do.
const MOST_IDLE: usize = 16;

/// A transport to anywhere, through the proxies that the environment names.
pub fn transport() -> anyhow::Result<Transport> {
    let client = self::client(MOST_IDLE)?;
    // A connection that once brought a long list keeps room for another one, for as long as it is kept. Lists are asked
    // for now and then, so they have connections of their own which end with them.
    let for_lists = self::client(0)?;
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
        .tls_certs_merge(beside_a_file_of_its_own())
        .pool_max_idle_per_host(most_idle)
        .connect_timeout(CONNECT_TIMEOUT)
        // Whoever follows a redirect carries credentials to where they do not belong.
        .redirect(Policy::none())
        .build()
        .context("an HTTP client cannot be made")
}

/// Where Go programs look for authorities besides the one file.
const DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];

/// What is in the usual directories, if only the file is named by the environment: who names a file does not mean them
/// to be left out, but the library reads nothing else then.
fn beside_a_file_of_its_own() -> Vec<Certificate> {
    if env::var_os("SSL_CERT_FILE").is_none() || env::var_os("SSL_CERT_DIR").is_some() {
        return Vec::new();
    }
    let read = DIRECTORIES
        .into_iter()
        .map(|directory| rustls_native_certs::load_certs_from_paths(None, Some(Path::new(directory))));
    // One that cannot be read or understood is no reason to do without the others.
    read.flat_map(|read| read.certs).filter_map(|found| Certificate::from_der(&found).ok()).collect()
}

fn is_list(request: &Request<Body>) -> bool {
    let operation = request.extensions().get::<OperationName>();
    operation.is_some_and(|OperationName(name)| name.starts_with("List"))
}

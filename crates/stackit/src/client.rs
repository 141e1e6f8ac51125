use crate::{
    failure_of,
    wire::{CreateServer, Server, ServerList},
};
use bytes::Bytes;
use hostler_base::{Transport, transport};
use hostler_driver::{Code, Failure};
use http::{Method, Request, header};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long one call may take, answer included.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// No list of a project is larger than this.
const ANSWER_LIMIT: usize = 64 << 20;

/// A project in a region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub project: String,
    pub region: String,
}

/// The IaaS API, version 2, for one place and one token.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    endpoint: String,
    place: Place,
    token: Option<SecretString>,
}

impl Client {
    /// Trailing slashes of the endpoint do not matter.
    pub fn new(transport: Transport, endpoint: &str, place: Place, token: Option<SecretString>) -> Self {
        Self { transport, endpoint: endpoint.trim_end_matches('/').to_owned(), place, token }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The servers that the API selects by `selector`; whoever calls filters again. Without details: those
    /// would bring everybody's user data along.
    pub async fn list_servers(&self, selector: Option<&str>) -> Result<Vec<Server>, Failure> {
        let query = selector.map_or_else(String::new, |text| format!("&label_selector={}", escape(text)));
        let path = format!("{}?details=false{query}", self.servers());
        let list: ServerList = self.call(Method::GET, &path, Bytes::new()).await?;
        Ok(list.items)
    }

    /// One server; [`Code::NotFound`] only when the API itself says so.
    pub async fn get_server(&self, id: &str) -> Result<Server, Failure> {
        let path = format!("{}/{}?details=true", self.servers(), escape(id));
        self.call(Method::GET, &path, Bytes::new()).await
    }

    pub async fn create_server(&self, server: &CreateServer) -> Result<Server, Failure> {
        let body = serde_json::to_vec(server).map_err(|error| {
            Failure::new(Code::Internal, format!("cannot write the create call: {error}"))
        })?;
        self.call(Method::POST, &self.servers(), body.into()).await
    }

    /// Orders the deletion; the server is gone when the API does not know it any more.
    pub async fn delete_server(&self, id: &str) -> Result<(), Failure> {
        let path = format!("{}/{}", self.servers(), escape(id));
        self.send(Method::DELETE, &path, Bytes::new()).await.map(drop)
    }

    fn servers(&self) -> String {
        let Place { project, region } = &self.place;
        format!("/v2/projects/{}/regions/{}/servers", escape(project), escape(region))
    }

    async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> Result<T, Failure> {
        let answer = self.send(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            Failure::new(
                Code::Unavailable,
                format!("STACKIT's answer to {path} is not what it should be: {error}"),
            )
        })
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let call = async {
            let request = self.request(&method, path, body)?;
            let exchange = transport::exchange(&self.transport, request, ANSWER_LIMIT);
            let (head, answer) = exchange
                .await
                .map_err(|error| {
                    Failure::new(
                        Code::Unavailable,
                        format!("cannot reach STACKIT for {method} {path}: {error}"),
                    )
                })?
                .into_parts();
            let status = head.status;
            if status.is_success() {
                return Ok(answer);
            }
            let failure = failure_of(status, &answer);
            // What the cloud's support asks for. It is another one each time, so it is in no message.
            let request = head.headers.get("x-request-id").and_then(|id| id.to_str().ok());
            tracing::info!(%method, path, request, %failure, "STACKIT refused a call");
            Err(failure)
        };
        tokio::time::timeout(CALL_TIMEOUT, call).await.unwrap_or_else(|_| {
            let seconds = CALL_TIMEOUT.as_secs();
            Err(Failure::new(
                Code::DeadlineExceeded,
                format!("STACKIT did not answer {method} {path} within {seconds} s"),
            ))
        })
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<hostler_base::Body>, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.endpoint))
            .header(header::ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose_secret()));
        }
        request.body(transport::full(body)).map_err(|error| {
            Failure::new(Code::InvalidArgument, format!("cannot call {method} {path}: {error}"))
        })
    }
}

/// Percent-encodes everything that is not unreserved.
fn escape(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_into_a_path_cannot_leave_it() {
        assert_eq!(escape("a/../b?c=d e"), "a%2F..%2Fb%3Fc%3Dd%20e");
        assert_eq!(escape("kubernetes.io/machine=m-1"), "kubernetes.io%2Fmachine%3Dm-1");
    }
}

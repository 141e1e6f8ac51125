use hostler_apiserver::{ApiServer, Options};
use hostler_base::{Chance, Clock, Entropy, Transport, transport};
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub(crate) fn server() -> ApiServer {
    ApiServer::new(options())
}

pub(crate) fn options() -> Options {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    Options::new(clock, Chance::from_seed(1), Entropy::guessable(Chance::from_seed(2)))
}

pub(crate) fn client(server: &ApiServer) -> kube::Client {
    let service = server.transport(ApiServer::admin());
    let service = service.map_request(|request: Request<kube::client::Body>| request.map(transport::boxed));
    kube::Client::new(service, "default")
}

/// Raw requests as the administrator.
#[derive(Clone)]
pub(crate) struct Raw(pub(crate) Transport);

impl Raw {
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self(server.transport(ApiServer::admin()))
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (u16, Value) {
        let mut request = Request::builder().method(method.parse::<Method>().unwrap()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.clone().oneshot(request.body(transport::full(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, &[], Vec::new()).await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.send(method, path, &[("content-type", "application/json")], body.to_string().into_bytes()).await
    }

    pub(crate) async fn merge(&self, path: &str, body: &Value) -> (u16, Value) {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send("PATCH", path, &headers, body.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, &[], Vec::new()).await
    }

    /// Opens a watch and gives its lines as they come.
    pub(crate) async fn watch(&self, path: &str) -> Lines {
        let request = Request::builder().uri(path).body(transport::empty()).unwrap();
        let response = self.0.clone().oneshot(request).await.unwrap();
        Lines { body: response.into_body(), rest: Vec::new() }
    }
}

pub(crate) struct Lines {
    body: transport::Body,
    rest: Vec<u8>,
}

impl Lines {
    /// The next event; `None` when the watch has ended.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.rest.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// The type and name of the next event.
    pub(crate) async fn brief(&mut self) -> Option<(String, String)> {
        let event = self.next().await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some((text(&event["type"]), text(&event["object"]["metadata"]["name"])))
    }
}

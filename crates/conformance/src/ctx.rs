use crate::{Failure, Reply, Server, TestUser, Watch};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// How long a request or one watch event may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a case works with: its own namespace and ways to ask the server.
#[derive(Clone)]
pub struct Ctx {
    /// The name of a fresh namespace; also the unique part of names of cluster-scoped objects.
    pub ns: String,
    server: Arc<dyn Server>,
    client: kube::Client,
    left_behind: Arc<Mutex<Vec<String>>>,
}

impl Ctx {
    pub(crate) async fn new(server: Arc<dyn Server>, case: &str) -> Result<Self, Failure> {
        let client = server.client();
        let ctx = Self { ns: String::new(), server, client, left_behind: Arc::default() };
        let prefix: String = case.replace('_', "-").chars().take(40).collect();
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": format!("{prefix}-")}});
        let reply = ctx.post("/api/v1/namespaces", &body).await?.ok(201)?;
        Ok(Self { ns: reply.json["metadata"]["name"].as_str().unwrap_or_default().to_owned(), ..ctx })
    }

    /// Also deletes cluster-scoped objects handed to [`Ctx::forget`]; what cannot be deleted stays.
    pub(crate) async fn clean_up(&self) {
        let paths = self.left_behind.lock().map(|mut paths| std::mem::take(&mut *paths)).unwrap_or_default();
        for path in paths.into_iter().rev() {
            self.delete(&path).await.ok();
        }
        self.delete(&format!("/api/v1/namespaces/{}", self.ns)).await.ok();
    }

    /// Deletes this path when the case has ended.
    pub fn forget(&self, path: impl Into<String>) {
        if let Ok(mut paths) = self.left_behind.lock() {
            paths.push(path.into());
        }
    }

    /// The path of something of the core group in the case's namespace.
    pub fn core(&self, rest: &str) -> String {
        format!("/api/v1/namespaces/{}/{rest}", self.ns)
    }

    /// The path of something of another group in the case's namespace: `ctx.group("apps/v1", "deployments")`.
    pub fn group(&self, group_version: &str, rest: &str) -> String {
        format!("/apis/{group_version}/namespaces/{}/{rest}", self.ns)
    }

    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The same namespace seen by another user.
    pub fn become_user(&self, user: TestUser) -> Result<Ctx, Failure> {
        let client = self
            .server
            .client_as(user)
            .ok_or_else(|| Failure(format!("the server under test has no user {}", user.name())))?;
        Ok(Ctx { client, ..self.clone() })
    }

    pub async fn compact(&self) {
        self.server.compact().await;
    }

    /// Connections are gone after it: go on with what this returns.
    pub async fn restart(&self) -> Ctx {
        self.server.restart().await;
        self.reconnect()
    }

    /// The same with new connections, as the administrator.
    pub fn reconnect(&self) -> Ctx {
        Ctx { client: self.server.client(), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> Request<'_> {
        Request { ctx: self, method, path: path.to_owned(), headers: Vec::new(), body: Bytes::new() }
    }

    pub async fn get(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Method::GET, path).send().await
    }

    pub async fn get_as(&self, path: &str, accept: &str) -> Result<Reply, Failure> {
        self.request(Method::GET, path).header("accept", accept).send().await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.request(Method::POST, path).json(body).send().await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.request(Method::PUT, path).json(body).send().await
    }

    pub async fn delete(&self, path: &str) -> Result<Reply, Failure> {
        self.request(Method::DELETE, path).send().await
    }

    pub async fn delete_with(&self, path: &str, options: &Value) -> Result<Reply, Failure> {
        self.request(Method::DELETE, path).json(options).send().await
    }

    pub async fn merge_patch(&self, path: &str, patch: &Value) -> Result<Reply, Failure> {
        self.patch(path, "application/merge-patch+json", patch).await
    }

    pub async fn json_patch(&self, path: &str, patch: &Value) -> Result<Reply, Failure> {
        self.patch(path, "application/json-patch+json", patch).await
    }

    pub async fn strategic_patch(&self, path: &str, patch: &Value) -> Result<Reply, Failure> {
        self.patch(path, "application/strategic-merge-patch+json", patch).await
    }

    pub async fn patch(&self, path: &str, content_type: &str, patch: &Value) -> Result<Reply, Failure> {
        self.request(Method::PATCH, path).json(patch).header("content-type", content_type).send().await
    }

    /// Creates and expects `201`.
    pub async fn create(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        Ok(self.post(path, body).await?.ok(201)?.json)
    }

    /// Creates something cluster-scoped that is deleted when the case has ended.
    pub async fn create_shared(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let created = self.create(path, body).await?;
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        self.forget(format!("{}/{name}", path.split('?').next().unwrap_or_default()));
        Ok(created)
    }

    /// Asks again until `enough` holds, for what a server does on its own a little later.
    pub async fn eventually(
        &self,
        what: &str,
        path: &str,
        enough: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, Failure> {
        let mut last = self.get(path).await?;
        for _ in 0..200 {
            if enough(&last) {
                return Ok(last);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            last = self.get(path).await?;
        }
        Err(last.unlike(&format!("{what} did not happen within ten seconds")))
    }

    /// Opens a watch; `path` has the query, `watch=true` is added.
    pub async fn watch(&self, path: &str) -> Result<Watch, Failure> {
        self.watch_as(path, "application/json").await
    }

    pub async fn watch_as(&self, path: &str, accept: &str) -> Result<Watch, Failure> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}watch=true");
        let response = self.request(Method::GET, &path).header("accept", accept).response().await?;
        let status = response.status().as_u16();
        if status != 200 {
            let body = response.into_body().collect().await?.to_bytes();
            return Err(Failure(format!("GET {path} answered {status} {}", String::from_utf8_lossy(&body))));
        }
        Ok(Watch::new(path, response.into_body(), PATIENCE))
    }
}

/// A request in the making; any header and any bytes.
pub struct Request<'a> {
    ctx: &'a Ctx,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Request<'_> {
    /// Replaces an earlier value of the same header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    async fn response(&self) -> Result<http::Response<kube::client::Body>, Failure> {
        let mut request = http::Request::builder().method(self.method.clone()).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(kube::client::Body::from(self.body.to_vec()))
            .map_err(|error| Failure(format!("{} {} cannot be sent: {error}", self.method, self.path)))?;
        let asked = tokio::time::timeout(PATIENCE, self.ctx.client.send(request)).await;
        match asked {
            Ok(answer) => {
                answer.map_err(|error| Failure(format!("{} {} failed: {error}", self.method, self.path)))
            }
            Err(_) => Err(Failure(format!("{} {} was not answered", self.method, self.path))),
        }
    }

    pub async fn send(self) -> Result<Reply, Failure> {
        let response = self.response().await?;
        let (parts, body) = response.into_parts();
        let asked = format!("{} {}", self.method, self.path);
        let body = tokio::time::timeout(PATIENCE, body.collect())
            .await
            .map_err(|_| Failure(format!("{asked}: the answer did not end")))??
            .to_bytes();
        Ok(Reply::new(asked, &parts, body))
    }
}

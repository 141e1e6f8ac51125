//! The simulated VPSie by its HTTP API, under paused time.

mod auth;
mod create;
mod every;
mod faults;
mod life;
mod managed;
mod nodes;
mod schema;
mod shapes;
mod switches;

use axum::{Router, body::Body};
use hostler_base::{Chance, Clock};
use hostler_sim::vpsie::{Settings, Vpsie, identifier_of};
use http::{HeaderMap, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{cell::RefCell, time::Duration};
use tower::ServiceExt;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

/// The cloud and a client of it.
struct Api {
    cloud: Vpsie,
    clock: Clock,
    router: Router,
    /// The headers that let a call in.
    credential: RefCell<Option<(&'static str, String)>>,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    /// The whole body of an answer that says that it went well.
    #[track_caller]
    fn good(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.body);
        assert_eq!(self.body["error"], false, "{}", self.body);
        self.body
    }

    #[track_caller]
    fn data(self) -> Value {
        self.good()["data"].take()
    }

    /// The message of a refusal, whose body must be what it is to be.
    #[track_caller]
    fn refused(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        assert_eq!(self.body["error"], true, "{}", self.body);
        assert!(self.body["code"].is_u64(), "{}", self.body);
        self.body["message"].as_str().unwrap().to_owned()
    }

    /// The body of an answer from outside the API.
    #[track_caller]
    fn with(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

/// Nobody counts calls here.
fn patient() -> Settings {
    Settings { requests_per_minute: 0, ..Settings::default() }
}

impl Api {
    fn new(settings: Settings) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let cloud = Vpsie::new(settings, clock.clone(), Chance::from_seed(1));
        Self { router: cloud.router(), cloud, clock, credential: RefCell::default() }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: String) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some((name, value)) = &*self.credential.borrow() {
            request = request.header(*name, value);
        }
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(Body::from(body)).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    /// A call by its whole path.
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.send(method, path, JSON, body.map(|body| body.to_string()).unwrap_or_default()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", &format!("/apps/v2/{path}"), None).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", &format!("/apps/v2/{path}"), Some(body)).await
    }

    async fn delete(&self, path: &str, body: Value) -> Answer {
        self.call("DELETE", &format!("/apps/v2/{path}"), Some(body)).await
    }

    async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.send("POST", &format!("/apps/v2/{path}"), FORM, pairs.join("&")).await
    }

    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Creates a VPS and waits until it runs; gives its identifier.
    async fn running(&self, hostname: &str) -> String {
        self.post("vm", vm(hostname)).await.good();
        self.wait(6).await;
        self.identifier(hostname).await
    }

    async fn identifier(&self, hostname: &str) -> String {
        let list = self.get("vm").await.data();
        let found = list.as_array().unwrap().iter().find(|vm| vm["hostname"] == hostname);
        found.unwrap()["identifier"].as_str().unwrap().to_owned()
    }

    async fn hostnames(&self) -> Vec<String> {
        let list = self.get("vm").await.data();
        list.as_array().unwrap().iter().map(|vm| vm["hostname"].as_str().unwrap().to_owned()).collect()
    }

    async fn pending(&self) -> Vec<String> {
        let queue = self.get("vm/pending").await.data();
        let names = queue.as_array().unwrap().iter();
        names.map(|one| one["data"]["hostname"].as_str().unwrap().to_owned()).collect()
    }

    async fn vm(&self, identifier: &str) -> Value {
        self.get(&format!("vm/{identifier}")).await.data()["vmData"].take()
    }

    async fn remove(&self, identifier: &str) -> Answer {
        let why = json!({"reason": "no longer needed", "note": ""});
        self.delete("vm", json!({"vmIdentifier": identifier, "password": "", "deleteStatistic": why})).await
    }

    /// The names of a datacenter's plans in a category.
    async fn plans(&self, category: &str) -> Vec<String> {
        let (datacenter, image) = (identifier_of("dc-us-east-1"), identifier_of("ubuntu-22.04-lts"));
        let fields = [
            ("dcIdentifier", datacenter.as_str()),
            ("osIdentifier", &image),
            ("planCatIdentifier", &identifier_of(category)),
            ("isCustom", "0"),
        ];
        let plans = self.form("resources", &fields).await.data();
        plans.as_array().unwrap().iter().map(|plan| plan["nickname"].as_str().unwrap().to_owned()).collect()
    }
}

fn vm(hostname: &str) -> Value {
    json!({"hostname": hostname, "resourceIdentifier": identifier_of("small-2cpu-4gb"),
        "osIdentifier": identifier_of("ubuntu-22.04-lts"), "dcIdentifier": identifier_of("dc-us-east-1"),
        "projectId": "501", "addPublicIpV4": "1", "tags": ["a"], "notes": "a note"})
}

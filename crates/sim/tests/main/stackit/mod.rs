//! The simulated STACKIT by its HTTP API, under paused time.

mod every;
mod faults;
mod life;
mod nodes;
mod resources;
mod schema;
mod shapes;
mod switches;
mod tokens;

use axum::{Router, body::Body};
use hostler_base::{Chance, Clock};
use hostler_sim::stackit::{Settings, Stackit};
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{cell::RefCell, time::Duration};
use tower::ServiceExt;

const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
const IMAGE: &str = "22222222-2222-4333-8444-555555555555";
const NETWORK: &str = "33333333-2222-4333-8444-555555555555";
const OTHER: &str = "44444444-2222-4333-8444-555555555555";

/// The cloud and a client of it.
struct Api {
    cloud: Stackit,
    clock: Clock,
    router: Router,
    token: RefCell<Option<String>>,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    /// The body of an answer that must have this status.
    #[track_caller]
    fn with(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// The message of a refusal, whose body must be what it is to be.
    #[track_caller]
    fn refused(self, status: u16) -> String {
        let body = self.with(status);
        assert_eq!(body["code"], status, "{body}");
        body["msg"].as_str().unwrap().to_owned()
    }
}

impl Api {
    fn new(settings: Settings) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let cloud = Stackit::new(settings, clock.clone(), Chance::from_seed(1));
        Self { router: cloud.router(), cloud, clock, token: RefCell::default() }
    }

    /// A call by its whole path.
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = &*self.token.borrow() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let response = self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    async fn get(&self, path: &str) -> Answer {
        self.call("GET", &at(path), None).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", &at(path), Some(body)).await
    }

    /// A `POST` without a body.
    async fn order(&self, path: &str) -> Answer {
        self.call("POST", &at(path), None).await
    }

    async fn put(&self, path: &str) -> Answer {
        self.call("PUT", &at(path), None).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call("PATCH", &at(path), Some(body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call("DELETE", &at(path), None).await
    }

    async fn create(&self, body: Value) -> Value {
        self.post("servers", body).await.with(StatusCode::CREATED.as_u16())
    }

    async fn server(&self, id: &str) -> Value {
        self.get(&format!("servers/{id}?details=true")).await.with(200)
    }

    async fn status(&self, id: &str) -> String {
        self.server(id).await["status"].as_str().unwrap().to_owned()
    }

    /// The names of listed things.
    async fn names(&self, path: &str) -> Vec<String> {
        let body = self.get(path).await.with(200);
        let items = body["items"].as_array().unwrap();
        items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }
}

fn at(path: &str) -> String {
    format!("/v2/projects/{PROJECT}/regions/eu01/{path}")
}

fn server(name: &str) -> Value {
    json!({"name": name, "machineType": "c2i.2", "imageId": IMAGE, "networking": {"networkId": NETWORK},
        "labels": {"kubernetes.io/machine": name}})
}

fn id(body: &Value) -> String {
    body["id"].as_str().unwrap().to_owned()
}

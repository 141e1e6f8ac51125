//! A server that notes what it is sent and answers what it is told to.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use hostler_base::{Chance, Clock, Transport, transport};
use hostler_driver::client::OperationName;
use hostler_stackit::{Api, ApiVersion, Authorisation, Client, Limit, Place, Surroundings};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

pub const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
pub const REGION: &str = "eu01";

#[derive(Clone, Debug)]
pub enum Answer {
    Json(u16, Value),
    /// Status, headers, body.
    Raw(u16, Vec<(&'static str, String)>, &'static str),
    /// The connection ends before the whole answer is there.
    Cut,
    Never,
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub authorization: Option<String>,
    pub content_type: Option<String>,
    pub operation: Option<&'static str>,
    pub body: Bytes,
}

impl Seen {
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

#[derive(Clone)]
pub struct Stage {
    pub clock: Clock,
    /// Lists of volumes, which come beside those of servers, are answered as if there were none, and not noted.
    without_volumes: bool,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Stage {
    pub fn new() -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        Self { clock, without_volumes: false, answers: Arc::default(), seen: Arc::default() }
    }

    /// For whoever counts calls about servers.
    pub fn of_servers() -> Self {
        Self { without_volumes: true, ..Self::new() }
    }

    /// What is answered next; when nothing is left, `{"items": []}`.
    pub fn will(&self, answers: impl IntoIterator<Item = Answer>) -> &Self {
        self.answers.lock().unwrap().extend(answers);
        self
    }

    /// Nothing of what was to be answered is.
    pub fn forget_answers(&self) {
        self.answers.lock().unwrap().clear();
    }

    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    pub fn transport(&self) -> Transport {
        transport::from_service(self.router().into_service::<hostler_base::Body>())
    }

    pub fn surroundings(&self) -> Surroundings {
        surroundings(self.transport(), &self.clock)
    }

    pub fn client(&self, version: ApiVersion, authorisation: Authorisation) -> Client {
        client(self.surroundings(), version, authorisation)
    }

    pub fn plain_client(&self) -> Client {
        self.client(ApiVersion::V2, Authorisation::None)
    }

    /// Everything that was sent since the last time this was asked.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    pub fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub fn elapsed(&self) -> Duration {
        Duration::try_from(self.clock.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap()
    }
}

pub fn surroundings(transport: Transport, clock: &Clock) -> Surroundings {
    Surroundings { transport, clock: clock.clone(), chance: Chance::from_seed(7) }
}

pub fn client(surroundings: Surroundings, version: ApiVersion, authorisation: Authorisation) -> Client {
    let api = Api { endpoint: "/".into(), version };
    let place = Place { project: PROJECT.into(), region: REGION.into() };
    let limit = Limit::new(surroundings.clock.clone(), surroundings.chance.clone());
    Client::new(surroundings, api, place, authorisation, Arc::new(limit))
}

async fn answer(State(stage): State<Stage>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if stage.without_volumes && head.uri.path().ends_with("/volumes") {
        return axum::Json(serde_json::json!({"items": []})).into_response();
    }
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let seen = Seen {
        method: head.method.to_string(),
        target: head.uri.to_string(),
        authorization: text(header::AUTHORIZATION),
        content_type: text(header::CONTENT_TYPE),
        operation: head.extensions.get::<OperationName>().map(|name| name.0),
        body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
    };
    stage.seen.lock().unwrap().push(seen);
    let next = stage.answers.lock().unwrap().pop_front();
    match next.unwrap_or_else(|| Answer::Json(200, serde_json::json!({"items": []}))) {
        Answer::Json(status, body) => {
            (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
        }
        Answer::Raw(status, headers, body) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            response
        }
        Answer::Cut => {
            let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
            Body::from_stream(broken).into_response()
        }
        Answer::Never => std::future::pending().await,
    }
}

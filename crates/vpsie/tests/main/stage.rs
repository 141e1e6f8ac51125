//! A server that notes what it is sent and answers what it is told to.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use hostler_base::{Chance, Clock, Transport, transport};
use hostler_driver::client::{OperationName, Surroundings};
use hostler_vpsie::{Client, Grant};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

pub const URL: &str = "http://localhost/apps/v2";

#[derive(Clone, Debug)]
pub enum Answer {
    Json(u16, Value),
    /// Status, headers, body.
    Raw(u16, Vec<(&'static str, String)>, String),
    /// The connection ends before the whole answer is there.
    Cut,
    Never,
}

pub fn fine(data: Value) -> Answer {
    Answer::Json(200, json!({"error": false, "data": data}))
}

pub fn refusal(status: u16, code: i64, message: &str) -> Answer {
    Answer::Json(status, json!({"error": true, "code": code, "message": message}))
}

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub line: String,
    pub own_header: Option<String>,
    pub authorization: Option<String>,
    pub content_type: Option<String>,
    pub operation: Option<&'static str>,
    pub body: Bytes,
}

impl Seen {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).unwrap()
    }
}

#[derive(Clone)]
pub struct Stage {
    pub clock: Clock,
    /// What is answered next, whatever is asked.
    next: Arc<Mutex<VecDeque<Answer>>>,
    /// What is answered to a method and path, each time.
    usual: Arc<Mutex<BTreeMap<String, Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Stage {
    pub fn new() -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        Self { clock, next: Arc::default(), usual: Arc::default(), seen: Arc::default() }
    }

    /// What is answered next; when nothing is left, what is usual, else an empty list.
    pub fn will(&self, answers: impl IntoIterator<Item = Answer>) -> &Self {
        self.next.lock().unwrap().extend(answers);
        self
    }

    /// What is answered from now on to this method and path, without what stands after the `?`.
    pub fn always(&self, line: &str, answer: Answer) -> &Self {
        self.usual.lock().unwrap().insert(line.to_owned(), answer);
        self
    }

    pub fn transport(&self) -> Transport {
        let router = Router::new().fallback(answer).with_state(self.clone());
        transport::from_service(router.into_service::<hostler_base::Body>())
    }

    pub fn surroundings(&self) -> Surroundings {
        Surroundings { transport: self.transport(), clock: self.clock.clone(), chance: Chance::from_seed(7) }
    }

    pub fn client(&self, grant: &Grant) -> Client {
        Client::new(self.surroundings(), URL.parse().unwrap(), grant)
    }

    pub fn with_key(&self) -> Client {
        self.client(&Grant::Token("key".to_owned().into()))
    }

    pub fn with_secret(&self) -> Client {
        self.client(&Grant::Client { id: "me&co".to_owned().into(), secret: "hunter2".to_owned().into() })
    }

    /// Everything that was sent since the last time this was asked.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    pub fn lines(&self) -> Vec<String> {
        self.take().into_iter().map(|seen| seen.line).collect()
    }

    pub fn elapsed(&self) -> Duration {
        Duration::try_from(self.clock.now().duration_since(Timestamp::UNIX_EPOCH)).unwrap()
    }
}

async fn answer(State(stage): State<Stage>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let target = head.uri.path_and_query().unwrap().to_string();
    let line = format!("{} {target}", head.method);
    let seen = Seen {
        line: line.clone(),
        own_header: text("vpsie-auth"),
        authorization: text(header::AUTHORIZATION.as_str()),
        content_type: text(header::CONTENT_TYPE.as_str()),
        operation: head.extensions.get::<OperationName>().map(|name| name.0),
        body: axum::body::to_bytes(body, usize::MAX).await.unwrap(),
    };
    stage.seen.lock().unwrap().push(seen);
    let path = line.split('?').next().unwrap();
    let next = stage.next.lock().unwrap().pop_front();
    let next = next.or_else(|| stage.usual.lock().unwrap().get(path).cloned());
    match next.unwrap_or_else(|| fine(json!([]))) {
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

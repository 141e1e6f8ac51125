//! The HTTP side: from a request to a call, across faults, the limit of calls and credentials, and back.

use super::{
    Fault, Settings, Vpsie, admin,
    answer::{Refusal, error_response},
    auth::Credential,
    call::Call,
    operation::{Operation, Target, target},
};
use crate::cloud::{
    http::{LARGEST_BODY, spoiled},
    path::pairs,
};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(super) fn router(cloud: Vpsie) -> Router {
    Router::new().fallback(serve).with_state(cloud)
}

async fn serve(State(cloud): State<Vpsie>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        let refusal = Refusal::bad("the body is too large or did not arrive");
        return refusal.into_response(&Settings::default());
    };
    let body = body.to_bytes();
    let path = head.uri.path();
    if let Some(path) = path.strip_prefix(admin::PREFIX) {
        return admin::answer(&cloud, &head.method, path, &body);
    }
    let id = cloud.lock().chance.u128();
    let mut response = match target(&head.method, path) {
        None => {
            let refusal = Refusal::missing("Route");
            refusal.into_response(&cloud.lock().settings)
        }
        Some(target) => {
            let query = head.uri.query().unwrap_or_default();
            match read(target, query, &head.headers, &body) {
                Ok(call) => answer(&cloud, &head.method, &Credential::of(&head.headers), call).await,
                Err(refusal) => refusal.into_response(&cloud.lock().settings),
            }
        }
    };
    if let Ok(id) = HeaderValue::from_str(&format!("{id:032x}")) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn read(target: Target, query: &str, headers: &HeaderMap, body: &Bytes) -> Result<Call, Refusal> {
    let query = pairs(query).ok_or_else(|| Refusal::bad("the query cannot be read"))?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.starts_with("application/x-www-form-urlencoded") {
        let form = std::str::from_utf8(body).ok().and_then(pairs);
        let form = form.ok_or_else(|| Refusal::bad("the form cannot be read"))?;
        return Ok(Call { target, query, body: Value::Null, form });
    }
    let body = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(body)
            .map_err(|error| Refusal::bad(format!("the body is not JSON: {error}")))?
    };
    Ok(Call { target, query, body, form: BTreeMap::new() })
}

async fn answer(cloud: &Vpsie, method: &Method, credential: &Credential, call: Call) -> Response {
    let fault = cloud.meet(&call);
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.after) {
        cloud.0.clock.sleep(Duration::from_secs_f64(fault.delay)).await;
        if fault.prevents() {
            return spoiled(fault, |status, message| refused(status, &message));
        }
    }
    let response = cloud.carry_out(method, &call, credential, fault.as_ref());
    match fault.filter(|fault| fault.after) {
        None => response,
        Some(fault) => {
            cloud.0.clock.sleep(Duration::from_secs_f64(fault.delay)).await;
            let refuse = |status, message: String| refused(status, &message);
            if fault.spoils() { spoiled(&fault, refuse) } else { response }
        }
    }
}

/// A refusal that a fault asks for. One with a status of success is an error all the same.
fn refused(status: StatusCode, message: &str) -> Response {
    let code = if status.is_success() { StatusCode::BAD_REQUEST } else { status };
    error_response(status, code, message)
}

fn too_many(settings: &Settings, seconds: i64) -> Response {
    let status = StatusCode::TOO_MANY_REQUESTS;
    let mut response = error_response(status, status, "Too many requests");
    if settings.tells_retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

impl Vpsie {
    /// Counts a call and says which fault it meets.
    fn meet(&self, call: &Call) -> Option<Fault> {
        let mut cloud = self.lock();
        let operation = call.target.operation.name();
        *cloud.calls.entry(operation).or_default() += 1;
        let mut about = call.about();
        // Whoever knows a VPS by its hostname can name it so, too.
        let named = cloud.vms.values().find(|vm| about.contains(&vm.identifier.as_str()));
        let named = named.map(|vm| vm.hostname.clone());
        about.extend(named.as_deref());
        cloud.faults.meet(operation, &about)
    }

    fn carry_out(
        &self,
        method: &Method,
        call: &Call,
        credential: &Credential,
        fault: Option<&Fault>,
    ) -> Response {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        if let Err(seconds) = cloud.within_rate(credential) {
            return too_many(&cloud.settings, seconds);
        }
        let is_open = call.target.operation == Operation::ExchangeToken;
        let admitted = if is_open { Ok(()) } else { cloud.admit(credential) };
        match admitted.and_then(|()| cloud.carry_out(call)) {
            Ok(mut answer) => {
                if *method != Method::GET {
                    self.0.changed.notify_one();
                }
                if let Some(fault) = fault {
                    answer.shorten(|items| fault.answer.shorten(items));
                }
                answer.into_response(&cloud.settings)
            }
            Err(refusal) => refusal.into_response(&cloud.settings),
        }
    }
}

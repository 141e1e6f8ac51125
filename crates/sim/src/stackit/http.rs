//! The HTTP side: from a request to a call, across tokens and faults, and back.

use super::{
    Fault, Stackit, admin,
    answer::{Outcome, Refusal},
    cloud::Cloud,
    dispatch::Call,
    operation::{Operation, Target, Version, target},
};
use crate::cloud::{
    http::{LARGEST_BODY, json_response, spoiled},
    path::pairs,
};
use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};
use std::time::Duration;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

pub(super) fn router(cloud: Stackit) -> Router {
    Router::new().fallback(serve).with_state(cloud)
}

async fn serve(State(cloud): State<Stackit>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LARGEST_BODY).collect().await else {
        return Refusal::bad("the body is too large or did not arrive").into_response();
    };
    let body = body.to_bytes();
    let path = head.uri.path();
    if let Some(path) = path.strip_prefix(admin::PREFIX) {
        return admin::answer(&cloud, &head.method, path, &body);
    }
    let id = format!("req-{:032x}", cloud.lock().chance.u128());
    let mut response = match read(&head.method, path, head.uri.query().unwrap_or_default(), &body) {
        Ok(call) => answer(&cloud, &head.method, &head.headers, call, &body, &id).await,
        Err(refusal) => refusal.into_response(),
    };
    if let (Ok(request), Ok(trace)) = (HeaderValue::from_str(&id), HeaderValue::from_str(&id[4..])) {
        response.headers_mut().insert(REQUEST_ID, request);
        response.headers_mut().insert(TRACE_ID, trace);
    }
    response
}

fn read(method: &Method, path: &str, query: &str, body: &Bytes) -> Result<Call, Refusal> {
    let is_token = method == Method::POST && path.trim_matches('/') == "token";
    let target = if is_token { Some(token_target()) } else { target(method, path) };
    let target = target
        .ok_or_else(|| Refusal::new(StatusCode::NOT_FOUND, format!("{method} {path} leads nowhere")))?;
    let query = pairs(query).ok_or_else(|| Refusal::bad("the query cannot be read"))?;
    let body = if is_token || body.is_empty() {
        None
    } else {
        let body = serde_json::from_slice(body);
        Some(body.map_err(|error| Refusal::bad(format!("the body does not match the schema: {error}")))?)
    };
    Ok(Call { target, query, body })
}

fn token_target() -> Target {
    let (operation, version) = (Operation::Token, Version::V2);
    Target { operation, version, project: String::new(), region: None, ids: Vec::new() }
}

async fn answer(
    cloud: &Stackit,
    method: &Method,
    headers: &HeaderMap,
    call: Call,
    body: &Bytes,
    id: &str,
) -> Response {
    let fault = cloud.meet(&call);
    if let Some(fault) = fault.as_ref().filter(|fault| !fault.after) {
        cloud.0.clock.sleep(Duration::from_secs_f64(fault.delay)).await;
        if fault.spoils() {
            return spoiled(fault, refusal);
        }
    }
    let response = if call.target.operation == Operation::Token {
        token(cloud, body)
    } else {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|text| text.strip_prefix("Bearer "));
        match cloud.carry_out(method, &call, bearer, id) {
            Ok(mut answer) => {
                let items = answer.body.as_mut().and_then(|body| body.get_mut("items"));
                if let (Some(fault), Some(items)) = (&fault, items) {
                    fault.answer.shorten(items);
                }
                answer.into_response()
            }
            Err(refusal) => refusal.into_response(),
        }
    };
    match fault.filter(|fault| fault.after) {
        None => response,
        Some(fault) => {
            cloud.0.clock.sleep(Duration::from_secs_f64(fault.delay)).await;
            if fault.spoils() { spoiled(&fault, refusal) } else { response }
        }
    }
}

fn token(cloud: &Stackit, body: &Bytes) -> Response {
    let form = std::str::from_utf8(body).ok().and_then(pairs).unwrap_or_default();
    let cloud_now = cloud.0.clock.now();
    let cloud = cloud.lock();
    match cloud.keys.grant(&form, &cloud.settings, &cloud.chance, cloud_now) {
        Ok(answer) => json_response(StatusCode::OK, &answer),
        Err(refusal) => {
            let body = json!({"error": refusal.error, "error_description": refusal.description});
            json_response(refusal.status, &body)
        }
    }
}

fn refusal(status: StatusCode, message: String) -> Response {
    Refusal::new(status, message).into_response()
}

impl Stackit {
    /// Counts a call and says which fault it meets.
    fn meet(&self, call: &Call) -> Option<Fault> {
        let mut cloud = self.lock();
        let operation = call.target.operation.name();
        *cloud.calls.entry(operation).or_default() += 1;
        let named = call.body.as_ref().and_then(|body| body["name"].as_str());
        // Whoever knows a server by its name can name it so, too.
        let by_id = call.target.ids.first().and_then(|id| cloud.name_of_server(id));
        let ids = call.target.ids.iter().map(String::as_str);
        let about: Vec<&str> = ids.chain(named).chain(by_id.as_deref()).collect();
        cloud.faults.meet(operation, &about)
    }

    fn carry_out(&self, method: &Method, call: &Call, bearer: Option<&str>, id: &str) -> Outcome {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.keys.admit(bearer, &call.target.project, &cloud.settings, now)?;
        cloud.settle(now);
        let outcome = cloud.carry_out(call, now);
        if let Ok(answer) = &outcome
            && *method != Method::GET
        {
            cloud.remember(id, method, &call.target, answer.body.as_ref(), now);
            self.0.changed.notify_one();
        }
        outcome
    }
}

impl Cloud {
    fn name_of_server(&self, id: &str) -> Option<String> {
        let server = self.estates().values().find_map(|estate| estate.servers.get(id))?;
        Some(server.name.clone())
    }

    fn remember(
        &mut self,
        id: &str,
        method: &Method,
        target: &Target,
        body: Option<&Value>,
        now: jiff::Timestamp,
    ) {
        if target.project.is_empty() {
            return;
        }
        let region = target.region.clone().unwrap_or_else(|| self.settings.region_of_v1.clone());
        let place = (target.project.clone(), region);
        self.desk(&place, now).remember(id, method, target, body);
    }
}

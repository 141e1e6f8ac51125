//! The HTTP side: paths, bodies and refusals as the IaaS API has them.

use super::{
    Stackit,
    cloud::{NewServer, Shown},
};
use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn router(cloud: Stackit) -> Router {
    Router::new()
        .route("/v2/projects/{project}/regions/{region}/servers", get(list).post(create))
        .route("/v2/projects/{project}/regions/{region}/servers/{id}", get(show).delete(remove))
        .layer(middleware::from_fn_with_state(cloud.clone(), guard))
        .with_state(cloud)
}

fn refusal(status: StatusCode, message: impl Into<String>) -> Response {
    (status, Json(json!({"code": status.as_u16(), "msg": message.into()}))).into_response()
}

/// Checks the token and gives every answer a request id.
async fn guard(State(cloud): State<Stackit>, request: Request, next: Next) -> Response {
    let mut response = if may_pass(&cloud, request.headers()) {
        next.run(request).await
    } else {
        refusal(StatusCode::UNAUTHORIZED, "the access token is missing or not valid")
    };
    let id = format!("req-{:032x}", cloud.0.chance.u128());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

fn may_pass(cloud: &Stackit, headers: &HeaderMap) -> bool {
    let tokens = &cloud.lock().settings.tokens;
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    tokens.is_empty()
        || given.and_then(|text| text.strip_prefix("Bearer ")).is_some_and(|token| tokens.contains(token))
}

fn shown(server: &Shown, details: bool) -> Value {
    let view = &server.view;
    let mut body = json!({
        "id": view.id, "name": view.name, "status": view.status, "machineType": view.machine_type,
        "labels": view.labels, "createdAt": server.created_at.to_string(), "updatedAt": server.created_at.to_string(),
        "powerStatus": if view.status == "ACTIVE" { "RUNNING" } else { "STOPPED" },
    });
    if view.status == "ERROR" {
        body["errorMessage"] = json!("the hypervisor could not start the server");
    }
    if details {
        body["nics"] = json!([{"nicId": view.id, "networkId": view.id, "networkName": "default",
            "mac": "02:00:00:00:00:01", "nicSecurity": true, "ipv4": server.address}]);
        body["userData"] = json!(server.user_data);
    }
    body
}

fn wants_details(query: &BTreeMap<String, String>) -> bool {
    query.get("details").is_some_and(|value| value == "true")
}

/// `key=value` pairs with commas between them.
fn selector(query: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, String> {
    let text = query.get("label_selector").map(String::as_str).unwrap_or_default();
    let pairs = text.split(',').filter(|part| !part.is_empty());
    pairs
        .map(|part| match part.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(format!("label_selector: {part:?} is not of the form key=value")),
        })
        .collect()
}

async fn list(
    State(cloud): State<Stackit>,
    Path((project, region)): Path<(String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let selector = match selector(&query) {
        Ok(selector) => selector,
        Err(message) => return refusal(StatusCode::BAD_REQUEST, message),
    };
    let now = cloud.0.clock.now();
    let servers = cloud.lock().list(&project, &region, &selector, now);
    let items: Vec<Value> = servers.iter().map(|server| shown(server, wants_details(&query))).collect();
    Json(json!({"items": items})).into_response()
}

async fn show(
    State(cloud): State<Stackit>,
    Path((project, region, id)): Path<(String, String, String)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let now = cloud.0.clock.now();
    let server = cloud.lock().get(&project, &region, &id, now);
    match server {
        Some(server) => Json(shown(&server, wants_details(&query))).into_response(),
        None => not_found(&id),
    }
}

fn not_found(id: &str) -> Response {
    refusal(StatusCode::NOT_FOUND, format!("the server {id} was not found"))
}

async fn remove(
    State(cloud): State<Stackit>,
    Path((project, region, id)): Path<(String, String, String)>,
) -> Response {
    if cloud.delete(&project, &region, &id) { StatusCode::NO_CONTENT.into_response() } else { not_found(&id) }
}

async fn create(
    State(cloud): State<Stackit>,
    Path((project, region)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let wanted = match serde_json::from_slice::<Value>(&body)
        .map_err(|error| error.to_string())
        .and_then(|body| read(&body))
    {
        Ok(wanted) => wanted,
        Err(message) => return refusal(StatusCode::BAD_REQUEST, message),
    };
    let id = cloud.create(&project, &region, wanted);
    let now = cloud.0.clock.now();
    let server = cloud.lock().get(&project, &region, &id, now);
    match server {
        Some(server) => (StatusCode::CREATED, Json(shown(&server, false))).into_response(),
        None => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the server was gone before it was there"),
    }
}

/// Reads a create call as strictly as the specification describes it.
fn read(body: &Value) -> Result<NewServer, String> {
    let text = |field: &str| body[field].as_str().filter(|text| !text.is_empty());
    let name = text("name").ok_or("name is required")?;
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    if name.len() > 63 || !name.split('.').all(label) {
        return Err(format!("name {name:?} does not match the pattern of a server name"));
    }
    let machine_type = text("machineType").ok_or("machineType is required")?;
    let networking = body["networking"].as_object().ok_or("networking is required")?;
    if networking.contains_key("networkId") && networking.contains_key("nicIds") {
        return Err("networking matches neither variant".to_owned());
    }
    let user_data = body["userData"].as_str().map(str::to_owned);
    if user_data.as_ref().is_some_and(|data| STANDARD.decode(data).is_err()) {
        return Err("userData is not base64".to_owned());
    }
    let labels = match &body["labels"] {
        Value::Null => BTreeMap::new(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value.as_str() {
                Some(value) if key.len() <= 63 && value.len() <= 63 => Ok((key.clone(), value.to_owned())),
                _ => Err(format!("label {key:?} is not valid")),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err("labels is not an object".to_owned()),
    };
    Ok(NewServer { name: name.to_owned(), machine_type: machine_type.to_owned(), labels, user_data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_calls_are_read_strictly() {
        let good = json!({"name": "m-1", "machineType": "c2i.2", "networking": {"networkId": "n"}});
        assert!(read(&good).is_ok());
        let broken = [
            ("name", json!("-x")),
            ("name", json!("a".repeat(64))),
            ("machineType", Value::Null),
            ("networking", Value::Null),
            ("networking", json!({"networkId": "n", "nicIds": ["x"]})),
            ("userData", json!("%")),
            ("labels", json!({"a": 1})),
        ];
        for (field, value) in broken {
            let mut body = good.clone();
            body[field] = value;
            assert!(
                read(&body).err().is_some_and(|message| message.contains(field.trim_end_matches('s'))),
                "{body}"
            );
        }
    }

    #[test]
    fn selectors_are_pairs() {
        let query = |text: &str| BTreeMap::from([("label_selector".to_owned(), text.to_owned())]);
        assert_eq!(
            selector(&query("a=b,c=")).unwrap(),
            [("a".into(), "b".into()), ("c".into(), String::new())]
        );
        assert!(selector(&query("a")).is_err());
        assert!(selector(&BTreeMap::new()).unwrap().is_empty());
    }
}

//! Who is let in, and how often.

use super::{Api, patient, vm};
use hostler_sim::vpsie::{KeyHeader, NewKey, Settings, TokenAnswer};
use serde_json::{Value, json};
use std::time::Duration;

const KEY: &str = "a-key";

fn locked() -> Settings {
    Settings { tokens: [KEY.to_owned()].into(), ..patient() }
}

async fn status(api: &Api, header: &'static str, value: &str) -> u16 {
    *api.credential.borrow_mut() = Some((header, value.to_owned()));
    api.get("vm").await.status
}

#[tokio::test(start_paused = true)]
async fn an_api_key_is_let_in_by_its_header() {
    for (header, [by_key, by_bearer]) in
        [(KeyHeader::VpsieAuth, [200, 401]), (KeyHeader::Bearer, [401, 200]), (KeyHeader::Both, [200, 200])]
    {
        let api = Api::new(Settings { key_header: header, ..locked() });
        api.get("vm").await.refused(401);
        assert_eq!(status(&api, "vpsie-auth", KEY).await, by_key, "{header:?}");
        assert_eq!(status(&api, "authorization", &format!("Bearer {KEY}")).await, by_bearer, "{header:?}");
        assert_eq!(status(&api, "vpsie-auth", "another").await, 401);
        api.post("vm", vm("n-1")).await.refused(401);
        assert!(api.cloud.vms().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_gets_a_token_for_a_while_as_json_and_as_a_form() {
    let clients = [("me".to_owned(), "secret".to_owned())].into();
    let api = Api::new(Settings { clients, token_life: Duration::from_secs(100), ..patient() });
    api.get("vm").await.refused(401);
    let by_json = api.post("auth/from/api", json!({"clientId": "me", "clientSecret": "secret"})).await;
    let by_form = api.form("auth/from/api", &[("clientId", "me"), ("clientSecret", "secret")]).await;
    for answer in [by_json, by_form] {
        let body = answer.with(200);
        assert_eq!(body["accessToken"]["expires"], "2026-01-01T00:01:40Z");
        let token = body["accessToken"]["token"].as_str().unwrap();
        assert_eq!(status(&api, "authorization", &format!("Bearer {token}")).await, 200);
        assert_eq!(status(&api, "vpsie-auth", token).await, 401);
    }
    let last = api.credential.borrow().clone().unwrap().1;
    *api.credential.borrow_mut() = None;
    api.post("auth/from/api", json!({"clientId": "me", "clientSecret": "wrong"})).await.refused(401);
    api.post("auth/from/api", json!({"clientId": "you", "clientSecret": "secret"})).await.refused(401);
    api.form("auth/from/api", &[("clientId", "me")]).await.refused(400);
    api.wait(100).await;
    assert_eq!(status(&api, "authorization", &format!("Bearer {last}")).await, 401, "it has expired");
}

#[tokio::test(start_paused = true)]
async fn clients_have_seen_two_answers() {
    for (answer, path) in [
        (TokenAnswer::AccessToken, ["accessToken", "token", "expires"]),
        (TokenAnswer::WithoutExpiry, ["accessToken", "token", ""]),
        (TokenAnswer::Token, ["access", "token", "expires"]),
    ] {
        let clients = [("me".to_owned(), "secret".to_owned())].into();
        let api = Api::new(Settings { clients, token_answer: answer, ..patient() });
        let body =
            api.post("auth/from/api", json!({"clientId": "me", "clientSecret": "secret"})).await.with(200);
        let inner = if answer == TokenAnswer::Token { &body["token"] } else { &body };
        assert!(inner[path[0]][path[1]].is_string(), "{body}");
        assert_eq!(inner[path[0]]["expires"].is_string(), !path[2].is_empty(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn credentials_are_issued_expire_and_are_revoked() {
    let api = Api::new(Settings { require_token: true, ..patient() });
    let key = api.cloud.issue_key(NewKey::Token, Some("2026-01-01T00:01:00Z".parse().unwrap()));
    assert_eq!(status(&api, "vpsie-auth", &key.secret).await, 200);
    assert_eq!(status(&api, "vpsie-auth", &key.id).await, 401);
    api.wait(60).await;
    assert_eq!(status(&api, "vpsie-auth", &key.secret).await, 401);

    let made = api.call("POST", "/_sim/keys", None).await.with(201);
    assert_eq!(status(&api, "vpsie-auth", made["token"].as_str().unwrap()).await, 200);
    let path = format!("/_sim/keys/{}", made["id"].as_str().unwrap());
    api.call("DELETE", &path, None).await.with(204);
    assert_eq!(status(&api, "vpsie-auth", made["token"].as_str().unwrap()).await, 401);
    api.call("DELETE", "/_sim/keys/none", None).await.with(404);
    api.call("POST", "/_sim/keys", Some(json!({"kind": "card"}))).await.with(400);

    for at_once in [true, false] {
        api.cloud.set(|settings| settings.revoked_at_once = at_once);
        let client = api.call("POST", "/_sim/keys", Some(json!({"kind": "client"}))).await.with(201);
        let body = json!({"clientId": client["clientId"], "clientSecret": client["clientSecret"]});
        let token = api.post("auth/from/api", body.clone()).await.with(200);
        let bearer = format!("Bearer {}", token["accessToken"]["token"].as_str().unwrap());
        assert_eq!(status(&api, "authorization", &bearer).await, 200);
        assert!(api.cloud.revoke_key(client["id"].as_str().unwrap()));
        let expected = if at_once { 401 } else { 200 };
        assert_eq!(status(&api, "authorization", &bearer).await, expected);
        api.post("auth/from/api", body).await.refused(401);
    }
}

#[tokio::test(start_paused = true)]
async fn a_minute_has_room_for_a_hundred_calls_with_a_credential() {
    let api =
        Api::new(Settings { tokens: [KEY.to_owned(), "b-key".to_owned()].into(), ..Settings::default() });
    for _ in 0..100 {
        assert_eq!(status(&api, "vpsie-auth", KEY).await, 200);
    }
    let refused = api.get("vm").await;
    assert!(refused.headers.get("retry-after").is_none());
    refused.refused(429);
    assert_eq!(status(&api, "vpsie-auth", "b-key").await, 200);
    *api.credential.borrow_mut() = Some(("vpsie-auth", KEY.to_owned()));
    api.cloud.set(|settings| settings.tells_retry_after = true);
    api.wait(30).await;
    assert_eq!(api.get("vm").await.headers["retry-after"], "31");
    api.wait(30).await;
    api.get("vm").await.good();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_anybody_without_a_word() {
    let api = Api::new(patient());
    assert_eq!(status(&api, "vpsie-auth", "anything").await, 200);
    assert_eq!(api.call("GET", "/elsewhere", None).await.body["error"], Value::Bool(true));
}

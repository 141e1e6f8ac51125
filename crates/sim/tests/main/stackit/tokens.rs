//! The key flow: assertions, tokens, expiry, revocation, rights.

use super::{Answer, Api, OTHER, PROJECT};
use aws_lc_rs::{rand::SystemRandom, rsa::KeyPair, signature::RSA_PKCS1_SHA512};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hostler_sim::stackit::{NewKey, Settings};
use http::{Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

fn strict() -> Settings {
    Settings { require_token: true, ..Settings::default() }
}

fn key(api: &Api) -> Value {
    let mail = "machines@sa.stackit.cloud".to_owned();
    api.cloud.issue_key(NewKey { mail, projects: [PROJECT.to_owned()].into(), ..NewKey::default() }).unwrap()
}

fn claims(api: &Api, key: &Value) -> Value {
    let credentials = &key["credentials"];
    let now = api.clock.now().as_second();
    json!({"iss": credentials["iss"], "sub": credentials["sub"], "aud": credentials["aud"],
        "jti": OTHER, "iat": now, "exp": now + 3600})
}

fn signed(key: &Value, header: &Value, claims: &Value) -> String {
    let text = key["credentials"]["privateKey"].as_str().unwrap();
    let der: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let pair = KeyPair::from_pkcs8(&STANDARD.decode(der).unwrap()).unwrap();
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", encoded(header), encoded(claims));
    let mut signature = vec![0; pair.public_modulus_len()];
    pair.sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn header_of(key: &Value) -> Value {
    json!({"alg": "RS512", "typ": "JWT", "kid": key["credentials"]["kid"]})
}

async fn token(api: &Api, form: String) -> Answer {
    let request = Request::post("/token").header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    let response =
        api.router.clone().oneshot(request.body(axum::body::Body::from(form)).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    Answer { status: head.status.as_u16(), headers: head.headers, body }
}

async fn by_assertion(api: &Api, assertion: &str) -> Answer {
    let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    token(api, format!("grant_type={grant}&assertion={assertion}")).await
}

async fn by_key(api: &Api, key: &Value) -> Answer {
    by_assertion(api, &signed(key, &header_of(key), &claims(api, key))).await
}

fn use_token(api: &Api, answer: Value) {
    *api.token.borrow_mut() = Some(answer["access_token"].as_str().unwrap().to_owned());
}

#[tokio::test(start_paused = true)]
async fn a_key_gives_a_token_that_expires() {
    let api = Api::new(strict());
    api.get("servers").await.refused(401);
    let key = key(&api);
    assert_eq!((&key["active"], &key["keyAlgorithm"]), (&json!(true), &json!("RSA_2048")));
    let answer = by_key(&api, &key).await.with(200);
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("Bearer"), &json!(3600)));
    let claims = answer["access_token"].as_str().unwrap().split('.').nth(1).unwrap().to_owned();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["exp"].as_i64(), Some(api.clock.now().as_second() + 3600));
    use_token(&api, answer.clone());
    api.get("servers").await.with(200);
    api.wait(3599).await;
    api.get("servers").await.with(200);
    api.wait(1).await;
    api.get("servers").await.refused(401);
    let form =
        format!("grant_type=refresh_token&refresh_token={}", answer["refresh_token"].as_str().unwrap());
    use_token(&api, token(&api, form).await.with(200));
    api.get("servers").await.with(200);
    *api.token.borrow_mut() = answer["refresh_token"].as_str().map(str::to_owned);
    api.get("servers").await.refused(401);
}

#[tokio::test(start_paused = true)]
async fn only_a_right_assertion_gives_a_token() {
    let api = Api::new(strict());
    let (ours, another) = (key(&api), key(&api));
    let right = claims(&api, &ours);
    let now = api.clock.now().as_second();
    by_assertion(&api, &signed(&ours, &header_of(&ours), &right)).await.with(200);
    for (field, value) in [
        ("iss", json!("else@sa.stackit.cloud")),
        ("sub", json!(OTHER)),
        ("aud", json!("https://elsewhere")),
        ("exp", json!(now - 61)),
        ("exp", json!(now + 7200)),
        ("exp", Value::Null),
        ("iat", json!(now + 120)),
        ("jti", json!("")),
    ] {
        let mut wrong = right.clone();
        wrong[field] = value;
        let answer = by_assertion(&api, &signed(&ours, &header_of(&ours), &wrong)).await;
        assert_eq!(answer.with(400)["error"], "invalid_grant", "{field}");
    }
    for (field, value, status) in
        [("alg", json!("RS256"), 400), ("typ", json!("JWS"), 400), ("kid", json!(OTHER), 401)]
    {
        let mut header = header_of(&ours);
        header[field] = value;
        by_assertion(&api, &signed(&ours, &header, &right)).await.with(status);
    }
    // Signed by somebody else.
    by_assertion(&api, &signed(&another, &header_of(&ours), &right)).await.with(400);
    by_assertion(&api, "no.jwt").await.with(400);
    token(&api, "grant_type=password".to_owned()).await.with(400);
    token(&api, String::new()).await.with(400);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_worth_nothing() {
    for at_once in [true, false] {
        let api = Api::new(Settings { revoked_at_once: at_once, ..strict() });
        let (old, new) = (key(&api), key(&api));
        use_token(&api, by_key(&api, &old).await.with(200));
        api.get("servers").await.with(200);
        assert!(api.cloud.revoke_key(old["credentials"]["kid"].as_str().unwrap()));
        assert!(!api.cloud.revoke_key("none"));
        let refused = by_key(&api, &old).await.with(401);
        assert!(refused["error_description"].as_str().unwrap().contains("not found"), "{refused}");
        assert_eq!(api.get("servers").await.status, if at_once { 401 } else { 200 });
        use_token(&api, by_key(&api, &new).await.with(200));
        api.get("servers").await.with(200);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_checked_for_form_and_rights() {
    let api = Api::new(Settings { tokens: ["static".to_owned()].into(), ..Settings::default() });
    api.get("servers").await.refused(401);
    use_token(&api, json!({"access_token": "static"}));
    api.get("servers").await.with(200);
    let answer = by_key(&api, &key(&api)).await.with(200);
    use_token(&api, answer.clone());
    api.get("servers").await.with(200);
    let elsewhere = format!("/v2/projects/{OTHER}/regions/eu01/servers");
    api.call("GET", &elsewhere, None).await.refused(403);
    api.call("GET", "/v2/keypairs", None).await.with(200);
    let whole = answer["access_token"].as_str().unwrap();
    let forged = format!("{}x", &whole[..whole.len() - 1]);
    let (signed, _) = whole.rsplit_once('.').unwrap();
    for wrong in [forged, format!("{signed}."), signed.to_owned(), "x".to_owned()] {
        use_token(&api, json!({"access_token": wrong}));
        api.get("servers").await.refused(401);
    }
    let second = Api::new(strict());
    use_token(&second, answer);
    assert_eq!(second.get("servers").await.status, 401, "the token names no key of this cloud");
}

#[tokio::test(start_paused = true)]
async fn keys_come_and_go_over_http_and_with_time() {
    let api = Api::new(Settings { token_life: Duration::from_secs(60), ..strict() });
    let made =
        api.call("POST", "/_sim/keys", Some(json!({"validUntil": "2026-01-01T01:00:00Z"}))).await.with(201);
    use_token(&api, by_key(&api, &made).await.with(200));
    api.get("servers").await.with(200);
    let own = api.cloud.issue_key(NewKey {
        mail: "own@sa.stackit.cloud".to_owned(),
        public_key: made["publicKey"].as_str().map(str::to_owned),
        ..NewKey::default()
    });
    let mut own = own.unwrap();
    assert!(own["credentials"]["privateKey"].is_null() && own["keyOrigin"] == "USER_PROVIDED");
    own["credentials"]["privateKey"] = made["credentials"]["privateKey"].clone();
    by_key(&api, &own).await.with(200);
    assert!(api.cloud.issue_key(NewKey { public_key: Some("?".to_owned()), ..NewKey::default() }).is_err());
    api.wait(3600).await;
    by_key(&api, &made).await.with(401);
    let kid = own["id"].as_str().unwrap();
    api.call("DELETE", &format!("/_sim/keys/{kid}"), None).await.with(204);
    api.call("DELETE", "/_sim/keys/none", None).await.refused(404);
    by_key(&api, &own).await.with(401);
}

#[tokio::test(start_paused = true)]
async fn the_token_endpoint_has_faults_too() {
    let api = Api::new(strict());
    let key = key(&api);
    api.cloud.add_fault("Token status=503 times=1".parse().unwrap()).unwrap();
    by_key(&api, &key).await.with(503);
    by_key(&api, &key).await.with(200);
}

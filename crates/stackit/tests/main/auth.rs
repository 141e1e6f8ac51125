use crate::stage::{PROJECT, REGION, client, surroundings};
use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::future::join_all;
use hostler_base::{Clock, transport};
use hostler_driver::{Attempt, Code, Credentials, DriverFactory, Identity, Order, UserData, Written};
use hostler_stackit::{ApiVersion, Client, Environment, Grant, StackitFactory, Surroundings};
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

/// Made once: that takes a while.
pub static PAIR: LazyLock<rcgen::KeyPair> = LazyLock::new(|| {
    rcgen::KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA512, rcgen::RsaKeySize::_2048).unwrap()
});

pub fn key_file() -> Value {
    json!({
        "id": "8d2a8a0e-0000-4000-8000-000000000000", "active": true, "keyAlgorithm": "RSA_2048",
        "credentials": {"kid": "kid-1", "iss": "node@sa.stackit.cloud", "sub": "sub-1", "aud": "https://aud.example",
                        "privateKey": PAIR.serialize_pem()},
    })
}

/// A cloud with a token endpoint. Tokens are numbered; each lasts an hour.
#[derive(Clone)]
struct Cloud {
    clock: Clock,
    state: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    forms: Vec<BTreeMap<String, String>>,
    /// The path of each call for a token.
    token_paths: Vec<String>,
    given: u32,
    valid: BTreeSet<String>,
    /// The token of each call.
    calls: Vec<Option<String>>,
    /// What the token endpoint answers instead of a token.
    trouble: Option<(u16, &'static str)>,
    token_delay: Duration,
    opaque: bool,
    /// Keys that get no token any more.
    revoked: BTreeSet<String>,
    created: u32,
    /// Each call is answered this much later than the one before.
    stagger: Duration,
    /// Tokens are given out but never taken.
    takes_none: bool,
}

impl Cloud {
    fn new() -> Self {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Self { clock: Clock::starting_at(epoch), state: Arc::default() }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    fn surroundings(&self) -> Surroundings {
        let router = Router::new()
            .route("/v2/projects/{project}/regions/{region}/servers", get(list).post(create))
            .route("/{*path}", post(token))
            .with_state(self.clone());
        let transport = transport::from_service(router.into_service::<hostler_base::Body>());
        surroundings(transport, &self.clock)
    }

    fn client_of(&self, grant: &Grant, environment: &Environment) -> Client {
        let surroundings = self.surroundings();
        let authorisation = grant.authorisation(environment, &surroundings).unwrap();
        client(surroundings, ApiVersion::V2, authorisation)
    }

    fn client(&self) -> Client {
        self.client_of(&key_grant(&key_file()), &Environment::default())
    }

    fn token_calls(&self) -> usize {
        self.with(|inner| inner.forms.len())
    }
}

fn key_grant(file: &Value) -> Grant {
    Grant::Key { name: "serviceaccount.json", text: file.to_string().into(), mail: None }
}

async fn token(
    State(cloud): State<Cloud>,
    uri: axum::http::Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    assert_eq!(headers[header::CONTENT_TYPE], "application/x-www-form-urlencoded");
    let pairs = body.split('&').map(|pair| pair.split_once('=').unwrap());
    let form = pairs.map(|(name, value)| (name.to_owned(), value.replace("%3A", ":"))).collect();
    let form: BTreeMap<String, String> = form;
    let kid = jsonwebtoken::decode_header(&form["assertion"]).unwrap().kid.unwrap();
    let delay = cloud.with(|inner| {
        inner.forms.push(form);
        inner.token_paths.push(uri.to_string());
        inner.token_delay
    });
    cloud.clock.sleep(delay).await;
    if cloud.with(|inner| inner.revoked.contains(&kid)) {
        return (StatusCode::BAD_REQUEST, "kid not found").into_response();
    }
    if let Some((status, body)) = cloud.with(|inner| inner.trouble) {
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    let exp = cloud.clock.now().as_second() + 3600;
    let token = cloud.with(|inner| {
        inner.given += 1;
        let claims = json!({"exp": exp, "n": inner.given});
        let token = if inner.opaque {
            format!("opaque-{}", inner.given)
        } else {
            jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(b"x")).unwrap()
        };
        inner.valid.insert(token.clone());
        token
    });
    Json(json!({"access_token": token, "expires_in": 3600, "refresh_token": "r", "token_type": "Bearer"}))
        .into_response()
}

fn admit(cloud: &Cloud, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let text = headers.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
    let token = text.and_then(|text| text.strip_prefix("Bearer ").map(str::to_owned));
    let valid = cloud.with(|inner| {
        let known = token.as_ref().is_some_and(|token| inner.valid.contains(token));
        let valid = known && !inner.takes_none;
        inner.calls.push(token);
        valid
    });
    let refusal = || (StatusCode::UNAUTHORIZED, Json(json!({"code": 401, "msg": "who are you"})));
    if valid { Ok(()) } else { Err(Box::new(refusal().into_response())) }
}

async fn list(State(cloud): State<Cloud>, headers: HeaderMap) -> Response {
    match admit(&cloud, &headers) {
        Ok(()) => Json(json!({"items": []})).into_response(),
        Err(refusal) => *refusal,
    }
}

async fn create(State(cloud): State<Cloud>, headers: HeaderMap, Json(order): Json<Value>) -> Response {
    let admitted = admit(&cloud, &headers);
    let delay = cloud.with(|inner| inner.stagger * u32::try_from(inner.calls.len()).unwrap());
    cloud.clock.sleep(delay).await;
    match admitted {
        Ok(()) => {
            cloud.with(|inner| inner.created += 1);
            let made = json!({"id": "s", "name": order["name"], "labels": order["labels"]});
            (StatusCode::CREATED, Json(made)).into_response()
        }
        Err(refusal) => *refusal,
    }
}

async fn make_server(client: &Client) -> Result<(), hostler_driver::Failure> {
    let body = json!({"name": "m", "machineType": "c2i.2", "networking": {"networkId": "n"}, "labels": {}});
    client.create_server(&serde_json::from_value(body).unwrap()).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_key_signs_an_assertion_and_its_token_authorises() {
    let cloud = Cloud::new();
    cloud.client().list_servers(None).await.unwrap();
    let (form, path, given, sent) = cloud.with(|inner| {
        (inner.forms[0].clone(), inner.token_paths[0].clone(), inner.valid.clone(), inner.calls.clone())
    });
    assert_eq!(path, "https://service-account.api.stackit.cloud/token");
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(sent, [given.first().cloned()]);

    let header = jsonwebtoken::decode_header(&form["assertion"]).unwrap();
    assert_eq!(
        (header.alg, header.typ.as_deref(), header.kid.as_deref()),
        (Algorithm::RS512, Some("JWT"), Some("kid-1"))
    );
    let mut validation = Validation::new(Algorithm::RS512);
    validation.set_audience(&["https://aud.example"]);
    validation.validate_exp = false;
    let public = DecodingKey::from_rsa_pem(PAIR.public_key_pem().as_bytes()).unwrap();
    let claims = jsonwebtoken::decode::<Value>(&form["assertion"], &public, &validation).unwrap().claims;
    let now = cloud.clock.now().as_second();
    let id = claims["jti"].as_str().unwrap();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "{id} is a random UUID");
    assert_eq!(
        claims,
        json!({"iss": "node@sa.stackit.cloud", "sub": "sub-1", "aud": "https://aud.example", "jti": id,
               "iat": now, "exp": now + 3600})
    );
}

#[tokio::test(start_paused = true)]
async fn one_flight_serves_all_callers() {
    let cloud = Cloud::new();
    cloud.with(|inner| inner.token_delay = Duration::from_secs(1));
    let client = cloud.client();
    for result in join_all((0..100).map(|_| make_server(&client))).await {
        result.unwrap();
    }
    assert_eq!(cloud.token_calls(), 1);
    assert_eq!(cloud.with(|inner| inner.calls.len()), 100);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_in_the_middle_of_a_flight_holds_up_nobody() {
    let cloud = Cloud::new();
    cloud.with(|inner| inner.token_delay = Duration::from_secs(5));
    let client = Arc::new(cloud.client());
    let call = || {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.list_servers(None).await })
    };
    let first = call();
    cloud.clock.sleep(Duration::from_secs(1)).await;
    let others = [call(), call(), call()];
    cloud.clock.sleep(Duration::from_secs(1)).await;
    assert_eq!(cloud.token_calls(), 1, "they wait for the first one's token");
    first.abort();
    // One who only waits may give up as well.
    others[1].abort();
    let [second, _, fourth] = others;
    second.await.unwrap().unwrap();
    fourth.await.unwrap().unwrap();
    assert_eq!(cloud.token_calls(), 2, "the next one gets a token, for all");
    client.list_servers(None).await.unwrap();
    assert_eq!((cloud.token_calls(), cloud.with(|inner| inner.calls.len())), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_before_it_ends() {
    for opaque in [false, true] {
        let cloud = Cloud::new();
        cloud.with(|inner| inner.opaque = opaque);
        let client = cloud.client();
        client.list_servers(None).await.unwrap();
        cloud.clock.sleep(Duration::from_secs(54 * 60)).await;
        client.list_servers(None).await.unwrap();
        assert_eq!(cloud.token_calls(), 1);
        cloud.clock.sleep(Duration::from_secs(2 * 60)).await;
        for result in join_all((0..20).map(|_| client.list_servers(None))).await {
            result.unwrap();
        }
        assert_eq!(cloud.token_calls(), 2, "one more for all");
        let ids = cloud
            .with(|inner| inner.forms.iter().map(|form| form["assertion"].clone()).collect::<BTreeSet<_>>());
        assert_eq!(ids.len(), 2, "an assertion is used once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_replaced_once_for_all() {
    let cloud = Cloud::new();
    let client = cloud.client();
    client.list_servers(None).await.unwrap();
    cloud.with(|inner| {
        inner.valid.clear();
        // The last refusals come when the new token is there already.
        inner.stagger = Duration::from_millis(10);
    });
    for result in join_all((0..100).map(|_| make_server(&client))).await {
        result.unwrap();
    }
    assert_eq!(cloud.token_calls(), 2);
    // Each came once with the old token at most, and once with the new one.
    assert_eq!(cloud.with(|inner| inner.calls.iter().filter(|token| **token != inner.calls[0]).count()), 100);
}

#[tokio::test(start_paused = true)]
async fn who_is_refused_with_a_new_token_too_is_told_so() {
    let cloud = Cloud::new();
    let client = cloud.client();
    client.list_servers(None).await.unwrap();
    let before = cloud.with(|inner| {
        inner.takes_none = true;
        inner.calls.len()
    });
    let failure = make_server(&client).await.unwrap_err();
    assert_eq!(failure.code, Code::Unauthenticated, "{failure}");
    assert_eq!(cloud.with(|inner| inner.calls.len()) - before, 2);
    assert_eq!(cloud.token_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_of_somebody_else_is_not_renewed() {
    let cloud = Cloud::new();
    let client = cloud.client_of(&Grant::Token("theirs".to_owned().into()), &Environment::default());
    let failure = client.list_servers(None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unauthenticated);
    assert_eq!(cloud.with(|inner| inner.calls.clone()), [Some("theirs".to_owned())]);
    assert_eq!(cloud.token_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_authentication_no_token_is_sent() {
    let cloud = Cloud::new();
    let client = cloud.client_of(&Grant::Nothing, &Environment::default());
    client.list_servers(None).await.unwrap_err();
    assert_eq!(cloud.with(|inner| inner.calls.clone()), [None]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_flight_fails_all_who_waited_for_it() {
    let cloud = Cloud::new();
    cloud.with(|inner| {
        inner.trouble = Some((503, "down"));
        inner.token_delay = Duration::from_millis(100);
    });
    let client = cloud.client();
    for result in join_all((0..50).map(|_| make_server(&client))).await {
        assert_eq!(result.unwrap_err().code, Code::Unavailable);
    }
    assert_eq!(cloud.token_calls(), 3, "one flight with two repeats");
    cloud.with(|inner| inner.trouble = None);
    make_server(&client).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_old_token_is_used_on_while_no_new_one_can_be_had() {
    let cloud = Cloud::new();
    let client = cloud.client();
    client.list_servers(None).await.unwrap();
    cloud.with(|inner| inner.trouble = Some((503, "down")));
    cloud.clock.sleep(Duration::from_secs(56 * 60)).await;
    client.list_servers(None).await.unwrap();
    let tried = cloud.token_calls();
    client.list_servers(None).await.unwrap();
    assert_eq!(cloud.token_calls(), tried, "not tried again at once");
    cloud.clock.sleep(Duration::from_secs(5 * 60)).await;
    assert_eq!(client.list_servers(None).await.unwrap_err().code, Code::Unavailable, "it has ended");
    cloud.with(|inner| inner.trouble = None);
    client.list_servers(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refused_key_is_told_with_what_to_do() {
    let cloud = Cloud::new();
    let client = cloud.client();
    let table = [
        (400, r#"{"error": "invalid_grant", "error_description": "kid not found"}"#, "was deleted"),
        (401, r#"{"message": "no such account"}"#, "put a new key into the Secret"),
        (403, "", "no body"),
    ];
    for (status, body, part) in table {
        cloud.with(|inner| inner.trouble = Some((status, body)));
        let before = cloud.token_calls();
        let failure = make_server(&client).await.unwrap_err();
        assert_eq!(failure.code, Code::Unauthenticated, "{failure}");
        assert!(
            failure.message.contains("node@sa.stackit.cloud") && failure.message.contains(part),
            "{failure}"
        );
        assert_eq!(cloud.token_calls() - before, 1, "a refusal is not repeated");
    }
    assert_eq!(cloud.with(|inner| inner.calls.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn every_refusal_of_a_token_has_its_code_and_what_passes_is_asked_for_again() {
    let (refused, passing) = ((Code::Unauthenticated, 1), (Code::Unavailable, 3));
    for (status, (code, calls)) in [
        (400, refused),
        (401, refused),
        (403, refused),
        (404, refused),
        (409, refused),
        (413, refused),
        (429, passing),
        (500, passing),
        (502, passing),
        (503, passing),
        (504, passing),
    ] {
        let cloud = Cloud::new();
        let client = cloud.client();
        cloud.with(|inner| inner.trouble = Some((status, r#"{"message": "not today"}"#)));
        let failure = make_server(&client).await.unwrap_err();
        assert_eq!(failure.code, code, "{status}: {failure}");
        let told = format!("answered {status}: not today");
        assert!(failure.message.contains(&told), "{status}: {failure}");
        assert_eq!(cloud.token_calls(), calls, "{status}");
        assert_eq!(cloud.with(|inner| inner.calls.len()), 0, "{status}: nothing is called without one");
        cloud.with(|inner| inner.trouble = None);
        make_server(&client).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_token_is_none() {
    let cloud = Cloud::new();
    let client = cloud.client();
    for body in ["", "<html>", r#"{"token": "hunter2"}"#, r#"{"access_token": "hunter2"}"#] {
        cloud.with(|inner| inner.trouble = Some((200, body)));
        let failure = client.list_servers(None).await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "{body}");
        assert!(!failure.message.contains("hunter2"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_does_not_come_is_not_waited_for_for_ever() {
    let cloud = Cloud::new();
    cloud.with(|inner| inner.token_delay = Duration::from_secs(1_000));
    let before = cloud.clock.now();
    let failure = cloud.client().list_servers(None).await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable, "{failure}");
    assert_eq!(cloud.clock.now().duration_since(before).as_secs(), 15);
}

#[tokio::test(start_paused = true)]
async fn the_environment_says_before_the_key_where_tokens_are() {
    let mut with_endpoint = key_file();
    with_endpoint["credentials"]["tokenEndpoint"] = json!("https://key.example/token");
    let environment =
        Environment { token_url: Some("https://env.example/token".into()), ..Environment::default() };
    let table = [
        (key_file(), Environment::default(), "https://service-account.api.stackit.cloud/token"),
        (with_endpoint.clone(), Environment::default(), "https://key.example/token"),
        (with_endpoint, environment.clone(), "https://env.example/token"),
        (key_file(), environment, "https://env.example/token"),
    ];
    for (file, environment, url) in table {
        let cloud = Cloud::new();
        cloud.client_of(&key_grant(&file), &environment).list_servers(None).await.unwrap();
        assert_eq!(cloud.with(|inner| inner.token_paths.clone()), [url]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_would_send_assertions_unencrypted_is_refused() {
    let cloud = Cloud::new();
    let mut file = key_file();
    file["credentials"]["tokenEndpoint"] = json!("http://key.example/token");
    let transport = transport::from_service(Router::new().into_service::<hostler_base::Body>());
    let refused =
        key_grant(&file).authorisation(&Environment::default(), &surroundings(transport, &cloud.clock));
    let failure = refused.err().unwrap();
    assert!(failure.message.contains("tokenEndpoint") && failure.message.contains("https"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn keys_are_read_in_all_their_forms() {
    let pem = |label: &str, der: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", wrapped(&STANDARD.encode(der)))
    };
    let pkcs8 = PAIR.serialize_der();
    // What PKCS#8 puts before an RSA key of 2048 bits is 26 bytes long.
    let pkcs1 = pem("RSA PRIVATE KEY", &pkcs8[26..]);
    let mut first = key_file();
    first["credentials"]["privateKey"] = json!(pkcs1);
    let mut outside = key_file();
    outside["privateKey"] = outside["credentials"]["privateKey"].take();
    let mut nameless = key_file();
    nameless["credentials"]["iss"] = json!("");
    for (file, mail) in [(first, None), (outside, None), (nameless, Some("mail@sa.stackit.cloud"))] {
        let cloud = Cloud::new();
        let grant = Grant::Key {
            name: "serviceAccountKey",
            text: format!("\n{file}\n").into(),
            mail: mail.map(str::to_owned),
        };
        cloud.client_of(&grant, &Environment::default()).list_servers(None).await.unwrap();
        let assertion = cloud.with(|inner| inner.forms[0]["assertion"].clone());
        let claims: Value = jsonwebtoken::dangerous::insecure_decode_claims(&assertion).unwrap();
        assert_eq!(claims["iss"], mail.unwrap_or("node@sa.stackit.cloud"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_replaced_in_the_middle_of_a_hundred_creates() {
    let cloud = Cloud::new();
    cloud.with(|inner| inner.stagger = Duration::from_millis(20));
    let secret = |kid: &str| {
        let mut file = key_file();
        file["credentials"]["kid"] = json!(kid);
        Credentials::new([("project-id", PROJECT.to_owned()), ("serviceaccount.json", file.to_string())])
    };
    let factory = StackitFactory::with_environment(cloud.surroundings(), Environment::simulated(""));
    let current = Mutex::new(secret("kid-1"));
    let spec = json!({"region": REGION, "machineType": "c2i.2", "imageId": PROJECT, "networking": {"networkId": PROJECT},
        "labels": {"kubernetes.io/cluster": "d"}});
    let create = async |number: u32| {
        cloud.clock.sleep(Duration::from_millis(10) * number).await;
        let identity = Identity { domain: "d".into(), machine: format!("m-{number}"), class: "c".into() };
        let user_data = Some(UserData::new("x"));
        let order = Order { identity, attempt: Attempt("a".into()), spec: spec.clone().into(), user_data };
        loop {
            let credentials = current.lock().unwrap().clone();
            match factory.driver(&credentials, &spec, Written::default()).unwrap().create(&order).await {
                Ok(_) => return,
                // Who is refused has made nothing and comes again.
                Err(failure) => assert_eq!(failure.code, Code::Unauthenticated, "{failure}"),
            }
            cloud.clock.sleep(Duration::from_secs(5)).await;
        }
    };
    let rotate = async {
        cloud.clock.sleep(Duration::from_millis(500)).await;
        cloud.with(|inner| {
            inner.revoked.insert("kid-1".into());
            inner.valid.clear();
        });
        cloud.clock.sleep(Duration::from_millis(200)).await;
        *current.lock().unwrap() = secret("kid-2");
    };
    futures::join!(join_all((0..100).map(create)), rotate);
    let (created, asked) = cloud.with(|inner| (inner.created, inner.calls.len()));
    assert_eq!(created, 100);
    assert!(asked > 100, "some met the old key's end");
}

fn wrapped(text: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join("\n")
}

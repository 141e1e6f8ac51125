//! Faults on demand, in process, over HTTP and on a socket.

use super::{Answer, Api, at, id, server};
use hostler_base::transport;
use hostler_sim::stackit::{Fault, Settings, Spoiled, Stackit};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn with(fault: Fault) -> Api {
    let api = Api::new(Settings::default());
    api.cloud.add_fault(fault).unwrap();
    api
}

async fn admin(api: &Api, method: &str, path: &str, body: Option<Value>) -> Answer {
    api.call(method, &format!("/_sim/{path}"), body).await
}

#[tokio::test(start_paused = true)]
async fn a_status_comes_instead_of_the_effect_or_after_it() {
    for (after, servers) in [(false, 0), (true, 1)] {
        let mut fault = Fault::on("CreateServer").status(500).times(1);
        fault.after = after;
        fault.message = Some("boom".to_owned());
        let api = with(fault);
        assert_eq!(api.post("servers", server("m-1")).await.refused(500), "boom");
        assert_eq!(api.cloud.servers().len(), servers, "after: {after}");
        api.create(server("m-2")).await;
        api.get("servers").await.with(200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_may_be_about_one_server_and_start_late() {
    let mut fault = Fault::on("GetServer").status(403);
    fault.about = Some("m-*".to_owned());
    fault.skip = 1;
    let api = with(fault);
    let (ours, other) = (id(&api.create(server("m-1")).await), id(&api.create(server("x")).await));
    api.get(&format!("servers/{ours}")).await.with(200);
    api.get(&format!("servers/{ours}")).await.refused(403);
    api.get(&format!("servers/{other}")).await.with(200);
    api.cloud.clear_faults();
    api.get(&format!("servers/{ours}")).await.with(200);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_say_when_to_come_again() {
    let mut fault = Fault::on("ListServers").status(429);
    fault.retry_after = Some(7);
    let answer = with(fault).get("servers").await;
    assert_eq!(answer.headers["retry-after"], "7");
    answer.refused(429);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_before_or_after_the_effect() {
    for after in [false, true] {
        let mut fault = Fault::on("CreateServer");
        fault.delay = 30.0;
        fault.after = after;
        let api = with(fault);
        let started = api.clock.now();
        let made = api.create(server("m-1")).await;
        assert_eq!(api.clock.now().duration_since(started).as_secs(), 30);
        let at_once = made["createdAt"] == started.to_string();
        assert_eq!(at_once, after, "{made}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_leaves_no_answer() {
    for (after, servers) in [(false, 0), (true, 1)] {
        let mut fault = Fault::on("CreateServer").dropped().times(1);
        fault.after = after;
        let api = with(fault);
        let request =
            || Request::post(at("servers")).body(transport::full(server("m-1").to_string())).unwrap();
        let lost = transport::exchange(&api.cloud.transport(), request(), 1 << 20).await;
        assert!(lost.is_err());
        assert_eq!(api.cloud.servers().len(), servers, "after: {after}");
        let answer = transport::exchange(&api.cloud.transport(), request(), 1 << 20).await.unwrap();
        assert_eq!(answer.status(), 201);
    }
    let api = with(Fault::on("*").dropped());
    let request = Request::get(at("servers")).body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(api.router.clone(), request).await.unwrap();
    assert!(response.into_body().collect().await.is_err(), "in process the body breaks off");
}

#[tokio::test(start_paused = true)]
async fn a_proxy_may_answer_with_a_page_or_with_nothing() {
    for (answer, status, expected, is_page) in [
        (Spoiled::Page, None, 502, true),
        (Spoiled::Page, Some(404), 404, true),
        (Spoiled::Empty, None, 200, false),
    ] {
        let mut fault = Fault::on("GetServer");
        fault.answer = answer;
        fault.status = status;
        let api = with(fault);
        let path = format!("servers/{}", id(&api.create(server("m-1")).await));
        let answer = api.get(&path).await;
        assert_eq!((answer.status, &answer.body), (expected, &Value::Null));
        let html = answer.headers.get("content-type").is_some_and(|kind| kind == "text/html");
        assert_eq!(html, is_page);
    }
}

#[tokio::test(start_paused = true)]
async fn lists_come_back_empty_or_cut() {
    for (answer, expected) in [(Spoiled::NoItems, 0), (Spoiled::Half, 2)] {
        let mut fault = Fault::on("ListServers").times(1);
        fault.answer = answer;
        let api = with(fault);
        for name in ["m-1", "m-2", "m-3"] {
            api.create(server(name)).await;
        }
        assert_eq!(api.names("servers").await.len(), expected);
        assert_eq!(api.names("servers").await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_sets_faults_and_settings_over_http() {
    let api = Api::new(Settings::default());
    let fault = json!({"operation": "DeleteServer", "status": 503, "times": 1});
    admin(&api, "POST", "faults", Some(fault)).await.with(201);
    admin(&api, "POST", "faults", Some(json!("ListServers answer=page times=1"))).await.with(201);
    admin(&api, "POST", "faults", Some(json!({"operation": "Nothing", "status": 500}))).await.refused(400);
    admin(&api, "POST", "faults", Some(json!({"operation": "*"}))).await.refused(400);
    let path = format!("servers/{}", id(&api.create(server("m-1")).await));
    api.delete(&path).await.refused(503);
    assert_eq!(api.get("servers").await.status, 502);
    let shown = admin(&api, "GET", "faults", None).await.with(200);
    assert_eq!(shown["items"][0]["calls"], 1);
    admin(&api, "DELETE", "faults", None).await.with(204);

    let changed =
        admin(&api, "PATCH", "settings", Some(json!({"listLag": 5, "bootTime": 0.5}))).await.with(200);
    assert_eq!((changed["listLag"].as_f64(), changed["deleteTime"].as_f64()), (Some(5.0), Some(1.0)));
    let wrong = admin(&api, "PATCH", "settings", Some(json!({"lag": 5}))).await.refused(400);
    assert!(wrong.contains("lag"), "{wrong}");
    api.create(server("m-2")).await;
    assert_eq!(api.names("servers").await, ["m-1"]);

    let calls = admin(&api, "GET", "calls", None).await.with(200);
    assert_eq!((&calls["CreateServer"], &calls["DeleteServer"]), (&json!(2), &json!(1)));
    admin(&api, "DELETE", "calls", None).await.with(204);
    assert!(api.cloud.calls().is_empty());
    let state = admin(&api, "GET", "state", None).await.with(200);
    let lengths = ["servers", "volumes", "nics"].map(|kind| state[kind].as_array().map(Vec::len));
    assert_eq!(lengths, [Some(2); 3]);
    let failed = id(&state["servers"][0]);
    admin(&api, "POST", &format!("servers/{failed}/fail"), Some(json!({"message": "x"}))).await.with(204);
    assert_eq!(api.status(&failed).await, "ERROR");
    admin(&api, "POST", "servers/none/fail", None).await.refused(404);
    admin(&api, "GET", "nothing", None).await.refused(404);
}

/// Sends one call over a socket and reads until the other side ends the connection.
async fn over_socket(address: std::net::SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: cloud\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // A reset is an end, too.
    let _ = socket.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn on_a_socket_a_dropped_connection_just_ends() {
    let clock = hostler_base::Clock::system();
    let cloud = Stackit::new(Settings::default(), clock, hostler_base::Chance::from_seed(1));
    cloud.add_fault(Fault::on("ListServers").dropped().times(1)).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(cloud.serve(listener));
    assert_eq!(over_socket(address, &at("servers")).await, "");
    let answer = over_socket(address, &at("servers")).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(r#"{"items":[]}"#), "{answer}");
    serving.abort();
}

//! Faults on demand, in process, over HTTP and on a socket.

use super::{Answer, Api, patient, vm};
use hostler_base::{Chance, Clock, transport};
use hostler_sim::vpsie::{Fault, Spoiled, Vpsie};
use http::Request;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn with(fault: Fault) -> Api {
    let api = Api::new(patient());
    api.cloud.add_fault(fault).unwrap();
    api
}

async fn admin(api: &Api, method: &str, path: &str, body: Option<Value>) -> Answer {
    api.call(method, &format!("/_sim/{path}"), body).await
}

#[tokio::test(start_paused = true)]
async fn a_status_comes_instead_of_the_effect_or_after_it() {
    for (after, vms) in [(false, 0), (true, 1)] {
        let mut fault = Fault::on("CreateVM").status(500).times(1);
        fault.after = after;
        fault.message = Some("boom".to_owned());
        let api = with(fault);
        assert_eq!(api.post("vm", vm("n-1")).await.refused(500), "boom");
        assert_eq!(api.cloud.vms().len(), vms, "after: {after}");
        api.post("vm", vm("n-2")).await.good();
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_may_come_as_a_success() {
    let mut fault = Fault::on("ListVMs").status(200);
    fault.message = Some("subscription does not allow this".to_owned());
    let answer = with(fault).get("vm").await;
    assert_eq!(answer.body["code"], 400);
    assert_eq!(answer.refused(200), "subscription does not allow this");
}

#[tokio::test(start_paused = true)]
async fn a_fault_may_be_about_one_vps_by_hostname_or_identifier() {
    let api = Api::new(patient());
    let (ours, other) = (api.running("n-1").await, api.running("x").await);
    let mut fault = Fault::on("*").status(403);
    fault.about = Some("n-*".to_owned());
    api.cloud.add_fault(fault).unwrap();
    api.get(&format!("vm/{ours}")).await.refused(403);
    api.remove(&ours).await.refused(403);
    api.post("vm", vm("n-2")).await.refused(403);
    api.get(&format!("vm/{other}")).await.good();
    api.cloud.clear_faults();
    let mut fault = Fault::on("DeleteVM").status(403);
    fault.about = Some(other.clone());
    api.cloud.add_fault(fault).unwrap();
    api.remove(&other).await.refused(403);
    api.remove(&ours).await.good();
}

#[tokio::test(start_paused = true)]
async fn lists_come_back_empty_or_cut() {
    let api = Api::new(patient());
    for name in ["n-1", "n-2", "n-3"] {
        api.post("vm", vm(name)).await.good();
    }
    api.wait(1).await;
    for (answer, expected) in [("noItems", 0), ("half", 2)] {
        for operation in ["ListVMs", "ListPendingVMs", "ListProjects"] {
            let text = format!("{operation} answer={answer} times=1");
            admin(&api, "POST", "faults", Some(json!(text))).await.with(201);
        }
        assert_eq!(api.pending().await.len(), expected, "{answer}");
        assert_eq!(api.pending().await.len(), 3);
        let projects = api.get("projects").await.data();
        assert_eq!(projects["rows"].as_array().unwrap().len(), expected.div_ceil(2), "{projects}");
        admin(&api, "DELETE", "faults", None).await.with(204);
    }
    api.wait(5).await;
    admin(&api, "POST", "faults", Some(json!("ListVMs answer=noItems"))).await.with(201);
    let body = api.get("vm").await.good();
    assert_eq!((&body["data"], &body["total"]), (&json!([]), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_may_say_when_to_come_again() {
    let mut fault = Fault::on("ListVMs").status(429);
    fault.retry_after = Some(7);
    let answer = with(fault).get("vm").await;
    assert_eq!(answer.headers["retry-after"], "7");
    answer.refused(429);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_leaves_no_answer_with_or_without_an_effect() {
    for (after, vms) in [(false, 0), (true, 1)] {
        let mut fault = Fault::on("CreateVM").dropped().times(1);
        fault.after = after;
        let api = with(fault);
        let request = || Request::post("/apps/v2/vm").body(transport::full(vm("n-1").to_string())).unwrap();
        assert!(transport::exchange(&api.cloud.transport(), request(), 1 << 20).await.is_err());
        assert_eq!(api.cloud.vms().len(), vms, "after: {after}");
        let answer = transport::exchange(&api.cloud.transport(), request(), 1 << 20).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_before_or_after_the_effect() {
    for after in [false, true] {
        let mut fault = Fault::on("CreateVM");
        fault.delay = 30.0;
        fault.after = after;
        let api = with(fault);
        let started = api.clock.now();
        api.post("vm", vm("n-1")).await.good();
        assert_eq!(api.clock.now().duration_since(started).as_secs(), 30);
        let at_once = api.cloud.vms()[0].created == started.to_string();
        assert_eq!(at_once, after);
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_may_answer_with_a_page_or_with_nothing() {
    for (answer, status, is_page) in [(Spoiled::Page, 502, true), (Spoiled::Empty, 200, false)] {
        let mut fault = Fault::on("ListVMs");
        fault.answer = answer;
        let answer = with(fault).get("vm").await;
        let html = answer.headers.get("content-type").is_some_and(|kind| kind == "text/html");
        assert_eq!((answer.status, answer.body, html), (status, Value::Null, is_page));
    }
}

#[tokio::test(start_paused = true)]
async fn another_process_sets_faults_and_settings_over_http() {
    let api = Api::new(patient());
    let fault = json!({"operation": "DeleteVM", "status": 503, "times": 1});
    admin(&api, "POST", "faults", Some(fault)).await.with(201);
    admin(&api, "POST", "faults", Some(json!({"operation": "Nothing", "status": 500}))).await.with(400);
    admin(&api, "POST", "faults", Some(json!({"operation": "*"}))).await.with(400);
    let id = api.running("n-1").await;
    api.remove(&id).await.refused(503);
    let shown = admin(&api, "GET", "faults", None).await.with(200);
    assert_eq!(shown["items"][0]["calls"], 1);
    admin(&api, "DELETE", "faults", None).await.with(204);

    let changed = admin(&api, "PATCH", "settings", Some(json!({"queueLag": 5, "maxVms": 2}))).await.with(200);
    assert_eq!((changed["queueLag"].as_f64(), changed["bootTime"].as_f64()), (Some(5.0), Some(2.0)));
    admin(&api, "PATCH", "settings", Some(json!({"lag": 5}))).await.with(400);
    api.post("vm", vm("n-2")).await.good();
    api.wait(4).await;
    assert!(api.pending().await.is_empty());
    api.post("vm", vm("n-3")).await.refused(400);

    let calls = admin(&api, "GET", "calls", None).await.with(200);
    assert_eq!((&calls["CreateVM"], &calls["DeleteVM"]), (&json!(3), &json!(1)));
    admin(&api, "DELETE", "calls", None).await.with(204);
    assert!(api.cloud.calls().is_empty());
    let made = admin(&api, "POST", "vms", Some(json!({"hostname": "theirs"}))).await.with(201);
    let path = format!("vms/{}", made["identifier"].as_str().unwrap());
    admin(&api, "PATCH", &path, Some(json!({"suspended": true}))).await.with(204);
    admin(&api, "PATCH", "vms/none", Some(json!({"suspended": true}))).await.with(404);
    admin(&api, "PATCH", &path, None).await.with(400);
    let state = admin(&api, "GET", "state", None).await.with(200);
    assert_eq!(state["vms"].as_array().unwrap().len(), 3);
    assert_eq!(state["vms"][2]["hostname"], "theirs");
    admin(&api, "GET", "nothing", None).await.with(404);
}

#[tokio::test]
async fn on_a_socket_a_dropped_connection_just_ends() {
    let cloud = Vpsie::new(patient(), Clock::system(), Chance::from_seed(1));
    cloud.add_fault(Fault::on("ListVMs").dropped().times(1)).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(cloud.serve(listener));
    let ask = async || {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = "GET /apps/v2/vm HTTP/1.1\r\nHost: cloud\r\nConnection: close\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // A reset is an end, too.
        let _ = socket.read_to_string(&mut answer).await;
        answer
    };
    assert_eq!(ask().await, "");
    let answer = ask().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains(r#""data":[]"#), "{answer}");
    serving.abort();
}

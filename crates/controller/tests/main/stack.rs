use crate::support::{SECOND, World, config_map, pass};
use bytes::Bytes;
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_controller::{
    Fence, Fenced, Rate, ReadOnly, StackOptions, behind_others,
    client::{CallName, TimedOut},
    kube_client, stack, transport_to,
};
use http::{Request, Response, header::USER_AGENT};
use http_body_util::{BodyExt, StreamBody};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::Notify;
use tower::ServiceExt;

type Frame = Result<http_body::Frame<Bytes>, Infallible>;

/// Writes down when each call arrives and from whom, and answers at once.
fn door(seen: &Arc<Mutex<Vec<(u128, String)>>>) -> Transport {
    let (seen, start) = (seen.clone(), tokio::time::Instant::now());
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let agent = request.headers().get(USER_AGENT).map(|agent| agent.to_str().unwrap().to_owned());
        seen.lock().unwrap().push((start.elapsed().as_millis(), agent.unwrap_or_default()));
        async { Ok::<_, Infallible>(Response::new(transport::full("ok"))) }
    }))
}

/// Begins an answer after `head` and then says nothing more, for ever.
fn silent(head: std::time::Duration) -> Transport {
    transport::from_service(tower::service_fn(move |_: Request<Body>| async move {
        pass(head).await;
        let body = StreamBody::new(futures::stream::pending::<Frame>());
        Ok::<_, Infallible>(Response::new(transport::boxed(body)))
    }))
}

fn options(world: &World) -> StackOptions {
    world.options(Fence::open(world.clock.clone()))
}

fn request(method: &str, uri: &str) -> Request<Body> {
    Request::builder().method(method).uri(uri).body(transport::empty()).unwrap()
}

async fn send(transport: &Transport, request: Request<Body>) -> Result<Bytes, BoxError> {
    let response = transport.clone().oneshot(request).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::test(start_paused = true)]
async fn a_call_is_bounded_in_time_head_and_body() {
    let world = World::new(1);
    let start = tokio::time::Instant::now();
    for head in [SECOND, SECOND * 60] {
        let client = stack(silent(head), &options(&world));
        let call = send(&client, request("GET", "/api/v1/nodes/n"));
        let error = tokio::time::timeout(SECOND * 60, call).await.expect("the call has an end").unwrap_err();
        let expected = TimedOut { what: "GET /api/v1/nodes/n".into(), limit: SECOND * 5 };
        assert_eq!(error.downcast_ref::<TimedOut>(), Some(&expected));
    }
    assert_eq!(start.elapsed(), SECOND * 10);
    assert!(
        world.metrics.text().contains("resource=\"nodes\",code=\"timeout\"} 1"),
        "{}",
        world.metrics.text()
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_last_but_must_begin() {
    let world = World::new(1);
    let client = stack(silent(SECOND), &options(&world));
    let response = client.oneshot(request("GET", "/api/v1/nodes?watch=true")).await.unwrap();
    let body = tokio::time::timeout(SECOND * 3600, response.into_body().collect()).await;
    assert!(body.is_err(), "an hour of silence is fine");
    let client = stack(silent(SECOND * 6), &options(&world));
    let error = client.oneshot(request("GET", "/api/v1/nodes?watch=true")).await.unwrap_err();
    assert!(error.is::<TimedOut>(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn calls_are_introduced_and_spaced() {
    let world = World::new(1);
    let seen = Arc::default();
    let rate = Some(Rate { per_second: 4.0, burst: 2 });
    let client = stack(door(&seen), &StackOptions { rate, ..options(&world) });
    let calls = (0..5).map(|_| send(&client, request("GET", "/version")));
    futures::future::try_join_all(calls).await.unwrap();
    let times: Vec<_> = seen.lock().unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [0, 0, 250, 500, 750]);
    assert!(seen.lock().unwrap().iter().all(|(_, agent)| agent == "hostler-test/1"));
}

#[tokio::test(start_paused = true)]
async fn calls_that_let_others_go_first_hold_nobody_up() {
    let world = World::new(1);
    let rate = Some(Rate { per_second: 10.0, burst: 1 });
    let options = StackOptions { rate, ..options(&world) };
    let client =
        kube_client(world.server.transport(hostler_apiserver::ApiServer::admin()), &options, "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let start = tokio::time::Instant::now();
    let many = futures::future::join_all((0..50).map(|_| async {
        behind_others(maps.get_opt("a")).await.unwrap();
    }));
    let few = async {
        pass(SECOND).await;
        let begin = tokio::time::Instant::now();
        for _ in 0..5 {
            maps.get_opt("a").await.unwrap();
        }
        begin.elapsed()
    };
    let (_, few) = futures::join!(many, few);
    assert!(few <= SECOND * 7 / 10, "five calls took {few:?}");
    assert!(start.elapsed() <= SECOND * 6, "all took {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_fence_stops_what_changes_something_and_nothing_else() {
    let world = World::new(1);
    let seen = Arc::default();
    let fence = Fence::closed(world.clock.clone());
    let client = stack(door(&seen), &world.options(fence.clone()));
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let error = send(&client, request(method, "/v2/servers")).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Fenced>().unwrap().needed, SECOND * 5);
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
    send(&client, request("GET", "/v2/servers")).await.unwrap();
    let mut search = request("POST", "/v1/machine/find");
    search.extensions_mut().insert(ReadOnly);
    search.extensions_mut().insert(CallName { verb: "find", resource: "machine" });
    send(&client, search).await.unwrap();
    fence.extend(world.clock.instant(), world.clock.now(), SECOND * 15);
    send(&client, request("POST", "/v2/servers")).await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 3);
    pass(SECOND * 11).await;
    send(&client, request("POST", "/v2/servers")).await.unwrap_err();
    let text = world.metrics.text();
    assert!(text.contains("verb=\"find\",resource=\"machine\",code=\"200\"} 1"), "{text}");
    assert!(text.contains("code=\"fenced\"} 2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waited_for_its_turn_meets_the_fence_then() {
    let world = World::new(1);
    let seen = Arc::default();
    let fence = Fence::closed(world.clock.clone());
    let rate = Some(Rate { per_second: 0.1, burst: 1 });
    let client = stack(door(&seen), &StackOptions { rate, ..world.options(fence.clone()) });
    fence.extend(world.clock.instant(), world.clock.now(), SECOND * 12);
    send(&client, request("POST", "/v2/servers")).await.unwrap();
    let error = send(&client, request("POST", "/v2/servers")).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Fenced>().unwrap().left, SECOND * 2);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// Sends a call as soon as there is a connection.
fn connecting(connected: &Arc<Notify>, seen: &Arc<Mutex<Vec<(u128, String)>>>) -> Transport {
    let (connected, door) = (connected.clone(), door(seen));
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let (connected, answer) = (connected.clone(), transport::send(&door, request));
        async move {
            connected.notified().await;
            answer.await
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_is_over_is_not_sent_when_it_wakes() {
    let world = World::new(1);
    for (stood_still, sent) in [(SECOND * 4, true), (SECOND * 5, false), (SECOND * 3600, false)] {
        let (connected, seen) = (Arc::<Notify>::default(), Arc::default());
        let fence = Fence::closed(world.clock.clone());
        fence.extend(world.clock.instant(), world.clock.now(), SECOND * 15);
        let client = stack(connecting(&connected, &seen), &world.options(fence));
        let mut call = pin!(send(&client, request("POST", "/v2/servers")));
        assert!(futures::poll!(&mut call).is_pending(), "there is no connection yet");
        // The process stands still. When it wakes up everything is there at once: connection and end of time.
        connected.notify_one();
        tokio::time::advance(stood_still).await;
        let answer = call.await;
        assert_eq!(seen.lock().unwrap().len(), usize::from(sent), "{stood_still:?}");
        assert_eq!(answer.is_ok(), sent, "{answer:?}");
        assert!(answer.err().is_none_or(|error| error.is::<TimedOut>()));
    }
}

#[tokio::test(start_paused = true)]
async fn kubes_client_works_on_the_stack_and_shows_its_errors() {
    let world = World::new(1);
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), "default");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
    let client = kube_client(silent(SECOND * 60), &options(&world), "default");
    let error = Api::<ConfigMap>::default_namespaced(client).get("a").await.unwrap_err();
    let kube::Error::Service(error) = error else { panic!("{error}") };
    assert!(error.is::<TimedOut>());
}

#[tokio::test]
async fn a_socket_behind_it_asks_once_and_hides_no_answer() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let busy = axum::Router::new().fallback(move || {
        count.fetch_add(1, Ordering::SeqCst);
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":429,
            "reason":"TooManyRequests","message":"later","details":{"retryAfterSeconds":1}}"#;
        let headers = [("content-type", "application/json"), ("retry-after", "1")];
        async move { (http::StatusCode::TOO_MANY_REQUESTS, headers, status) }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, busy).await });
    let world = World::new(1);
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let client = kube_client(transport_to(config).unwrap(), &options(&world), "default");
    let error = Api::<ConfigMap>::default_namespaced(client).get("a").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 429), "{error}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    server.abort();
}

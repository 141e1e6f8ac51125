//! Each fault on its own: what the server saw, and what the caller got.

use crate::tiny::cloud::{Switches, TinyCloud};
use futures::StreamExt;
use hostler_base::{BoxError, Chance, Clock, Transport, transport};
use hostler_sim::{
    Boundary, Class, Fault, Plan, Wire, World,
    incarnation::{Context, Process, Servers, Spec},
    sweep::all_faults,
    wire::Break,
};
use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, PostParams},
    runtime::watcher::{self, Event},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CLOUD: &str = "cloud";

/// The status of an answer, or what went wrong.
type Answer = Result<u16, String>;

fn post() -> Request<transport::Body> {
    let body = r#"{"name":"a","owner":"me"}"#;
    let request = Request::builder().method(Method::POST).uri("/v1/things?token=hush");
    request.header("content-type", "application/json").body(transport::full(body)).unwrap()
}

async fn send(cloud: &Transport, request: Request<transport::Body>) -> Answer {
    let answer = async {
        let response = transport::send(cloud, request).await?;
        let status = response.status().as_u16();
        response.into_body().collect().await?;
        Ok::<_, BoxError>(status)
    };
    let limited = tokio::time::timeout(Duration::from_hours(1), answer).await;
    limited.unwrap_or_else(|_| Err("no answer".into())).map_err(|error| error.to_string())
}

struct Run {
    /// What the callers got, in the order of the incarnations.
    answers: Vec<Answer>,
    things: usize,
    seconds: u64,
    trace: String,
}

/// One process creates a thing once per incarnation; the first create meets the fault.
async fn create_with(fault: Fault) -> Run {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let cloud = TinyCloud::new(clock.clone(), Chance::from_seed(1), Switches::default(), &[]);
    let mut servers = Servers::default();
    let router = cloud.router();
    let server = tower::service_fn(move |request: Request<transport::Body>| {
        router.clone().oneshot(request.map(axum::body::Body::new))
    });
    servers.add(CLOUD, TinyCloud::paths(), transport::from_service(server));
    let boundary = Boundary {
        actor: "one".into(),
        verb: "POST".into(),
        template: "/v1/things".into(),
        object: "a".into(),
        nth: 1,
    };
    let wire = Wire::new(Plan::seeded(1).fault_at(boundary, fault));
    let answers: Arc<Mutex<Vec<(Answer, u64)>>> = Arc::default();
    let start = clock.instant();
    let program = {
        let answers = answers.clone();
        move |context: Context| -> futures::future::BoxFuture<'static, ()> {
            let answers = answers.clone();
            Box::pin(async move {
                let answer = send(&context.transport(CLOUD), post()).await;
                answers.lock().unwrap().push((answer, start.elapsed().as_secs()));
                context.shutdown.cancelled().await;
            })
        }
    };
    let spec = Spec {
        actor: "one".into(),
        program: Arc::new(program),
        restart_after: Duration::from_secs(1),
        clock: clock.clone(),
        chance: Chance::from_seed(1),
        servers: Arc::new(servers),
        wire: Some(wire.clone()),
    };
    let shutdown = CancellationToken::new();
    let (_process, run) = Process::new(spec, shutdown.clone());
    let running = tokio::spawn(run);
    clock.sleep(Duration::from_hours(2)).await;
    shutdown.cancel();
    running.await.unwrap();
    let answers = answers.lock().unwrap().clone();
    Run {
        things: cloud.live().len(),
        seconds: answers.first().map(|(_, seconds)| *seconds).unwrap_or_default(),
        answers: answers.into_iter().map(|(answer, _)| answer).collect(),
        trace: wire.trace(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_fault_does_what_its_name_says() {
    let error = |text: &str| Err(text.to_owned());
    let seconds = Duration::from_secs;
    // The fault, what the first caller got, how many things there are, when the first answer came.
    let cases = [
        (Fault::Refused, error("connection refused"), 0, 0),
        (Fault::TimeoutBefore, error("connection timed out"), 0, 30),
        (Fault::TimeoutAfter, error("connection timed out"), 1, 30),
        (Fault::Duplicate, Ok(201), 2, 0),
        (Fault::Delay(seconds(90)), Ok(201), 1, 90),
        (Fault::Answer { status: 503, after_effect: false }, Ok(503), 0, 0),
        (Fault::Answer { status: 500, after_effect: true }, Ok(500), 1, 0),
        (Fault::Page { status: 200, after_effect: false }, Ok(200), 0, 0),
        (Fault::Page { status: 502, after_effect: true }, Ok(502), 1, 0),
        (Fault::Dead, error("no answer"), 0, 3600),
        (Fault::CrashBefore, Ok(201), 1, 1),
        (Fault::CrashAfter, Ok(201), 2, 1),
    ];
    for (fault, answer, things, after) in cases {
        let run = create_with(fault.clone()).await;
        assert_eq!(
            (&run.answers, run.things, run.seconds),
            (&vec![answer], things, after),
            "{fault}\n{}",
            run.trace
        );
        assert!(run.trace.contains(&format!("** {fault}")), "{}", run.trace);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_process_wakes_up_beside_its_successor() {
    let run = create_with(Fault::Stall(Duration::from_mins(1))).await;
    assert_eq!(run.answers, [Ok(201), Ok(201)], "{}", run.trace);
    assert_eq!((run.things, run.seconds), (2, 1), "the successor is first\n{}", run.trace);
}

#[tokio::test(start_paused = true)]
async fn the_trace_is_readable_and_keeps_secrets() {
    let run = create_with(Fault::CrashAfter).await;
    let expected = "        0.000 one/1 started
        0.001 one/1 POST /v1/things a #1 ?token=… -> 201 ** crash after the effect
        0.001 one/1 crashed
        1.001 one/2 started
        1.002 one/2 POST /v1/things a #2 ?token=… -> 201
";
    assert_eq!(run.trace, expected);
}

/// What a watcher was told, and by which incarnation, while a ConfigMap was written every ten seconds.
async fn watch_with(verb: &str, fault: Fault, any: bool) -> (Vec<String>, String) {
    let boundary = Boundary {
        actor: "one".into(),
        verb: verb.into(),
        template: "/api/v1/namespaces/{namespace}/configmaps".into(),
        object: "default".into(),
        nth: 1,
    };
    let mut world = World::in_virtual_time(Plan::seeded(1).fault_at(boundary, fault));
    let configs: Api<ConfigMap> = Api::default_namespaced(world.client());
    for name in ["a", "b"] {
        write(&configs, name).await;
    }
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let telling = told.clone();
    world.start("one", move |context| {
        let (told, number) = (telling.clone(), context.incarnation);
        Box::pin(async move {
            let configs: Api<ConfigMap> = Api::default_namespaced(context.kubernetes());
            let config = watcher::Config::default();
            // A list in pages asks for the newest state, whatever else is said.
            let config =
                if any { watcher::Config { page_size: None, ..config.any_semantic() } } else { config };
            let mut events = Box::pin(watcher::watcher(configs, config));
            while let Some(event) = events.next().await {
                let line = match event {
                    Ok(Event::Init) => "list".to_owned(),
                    Ok(Event::InitApply(config) | Event::Apply(config)) => config.name_any(),
                    Ok(Event::InitDone) => "listed".to_owned(),
                    Ok(Event::Delete(_)) => "deleted".to_owned(),
                    Err(_) => "error".to_owned(),
                };
                if line == "error" {
                    context.clock.sleep(Duration::from_secs(1)).await;
                }
                told.lock().unwrap().push(format!("{number} {line}"));
            }
        })
    });
    for name in ["c", "d"] {
        world.run_for(Duration::from_secs(10)).await;
        write(&configs, name).await;
    }
    world.run_for(Duration::from_secs(10)).await;
    let told = told.lock().unwrap().clone();
    (told, world.wire().unwrap().trace())
}

async fn write(configs: &Api<ConfigMap>, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    configs.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_a_watch_or_a_list_does_what_its_name_says() {
    let broken = |then| Fault::Watch { after: 1, then };
    let seconds = Duration::from_secs;
    let calm = "1 list, 1 a, 1 b, 1 listed, 1 c, 1 d";
    let first = "1 list, 1 a, 1 b, 1 listed, 1 c";
    for (verb, fault, any, expected) in [
        ("WATCH", Fault::Delay(seconds(3)), false, calm.to_owned()),
        (
            "WATCH",
            Fault::CrashBefore,
            false,
            "1 list, 1 a, 1 b, 1 listed, 2 list, 2 a, 2 b, 2 listed, 2 c, 2 d".to_owned(),
        ),
        (
            "WATCH",
            Fault::CrashAfter,
            false,
            "1 list, 1 a, 1 b, 1 listed, 2 list, 2 a, 2 b, 2 listed, 2 c, 2 d".to_owned(),
        ),
        ("WATCH", Fault::Dead, false, "1 list, 1 a, 1 b, 1 listed".to_owned()),
        ("WATCH", Fault::Refused, false, "1 list, 1 a, 1 b, 1 listed, 1 error, 1 c, 1 d".to_owned()),
        ("WATCH", broken(Break::Close), false, calm.to_owned()),
        ("WATCH", broken(Break::Reset), false, format!("{first}, 1 error, 1 d")),
        ("WATCH", broken(Break::Dead), false, first.to_owned()),
        (
            "WATCH",
            broken(Break::Gone),
            false,
            format!("{first}, 1 error, 1 list, 1 a, 1 b, 1 c, 1 listed, 1 d"),
        ),
        (
            "WATCH",
            broken(Break::Skip(seconds(15))),
            false,
            format!("{first}, 1 error, 1 list, 1 a, 1 b, 1 c, 1 d, 1 listed"),
        ),
        (
            "WATCH",
            broken(Break::Behind { revisions: 1, lasts: seconds(4) }),
            true,
            format!("{first}, 1 error, 1 list, 1 a, 1 b, 1 listed, 1 c, 1 d"),
        ),
        ("LIST", Fault::CrashAfter, false, "1 list, 2 list, 2 a, 2 b, 2 listed, 2 c, 2 d".to_owned()),
        ("LIST", Fault::Behind(1), true, "1 list, 1 a, 1 listed, 1 b, 1 c, 1 d".to_owned()),
    ] {
        let (told, trace) = watch_with(verb, fault.clone(), any).await;
        assert_eq!(told.join(", "), expected, "{verb} {fault}\n{trace}");
        assert!(trace.contains("**"), "{trace}");
    }
    let (told, trace) = watch_with("LIST", Fault::Behind(1), false).await;
    assert_eq!(told.join(", "), calm, "a list that asks for the newest state gets it\n{trace}");
    assert!(!trace.contains("**"), "and that is no fault\n{trace}");
}

#[test]
fn a_replica_is_behind_only_where_that_can_be_seen() {
    let boundary = |verb: &str| Boundary {
        actor: "one".into(),
        verb: verb.into(),
        template: "/api/v1/pods".into(),
        object: String::new(),
        nth: 1,
    };
    let behind = |class| {
        let faults = all_faults(class, &boundary("LIST"));
        faults.iter().filter(|fault| matches!(fault, Fault::Behind(_))).count()
    };
    assert_eq!((behind(Class::Read), behind(Class::CachedRead)), (0, 3));
}

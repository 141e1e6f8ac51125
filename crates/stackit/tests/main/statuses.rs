//! Every status of a server with every power status, through every method of the driver.

use crate::{
    servers::order,
    stage::{PROJECT, surroundings},
};
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use hostler_base::{Chance, Clock, transport};
use hostler_driver::{
    Code, Credentials, Deletion, Driver, DriverFactory, Failure, Finding, Found, Machine, Scope, Settled,
    State as ServerState, Written,
};
use hostler_sim::stackit::{Settings, Stackit};
use hostler_stackit::{
    Environment, StackitFactory,
    status::{OLD_STATUSES, POWER_STATUSES, STATUSES, state},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const NEW: &str = "SOMETHING-NEW";

/// How all servers are shown, whatever they are.
type Mask = Arc<Mutex<Option<(&'static str, Option<&'static str>)>>>;

/// Puts the mask on every server in an answer of the simulated cloud.
async fn masked(State(mask): State<Mask>, request: Request, next: Next) -> Response {
    let is_about_servers = request.uri().path().contains("/servers");
    let answer = next.run(request).await;
    let Some((status, power)) = *mask.lock().unwrap() else { return answer };
    let (head, body) = answer.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let Ok(mut shown) = serde_json::from_slice::<Value>(&body) else {
        return Response::from_parts(head, Body::from(body));
    };
    let list = shown["items"].is_array();
    let servers = if list {
        shown["items"].as_array_mut().unwrap().as_mut_slice()
    } else {
        std::slice::from_mut(&mut shown)
    };
    for server in servers.iter_mut().filter(|server| is_about_servers && server["machineType"].is_string()) {
        server["status"] = json!(status);
        server["powerStatus"] = json!(power);
        server["errorMessage"] = json!("it broke");
    }
    (head.status, axum::Json(shown)).into_response()
}

struct Stage {
    cloud: Stackit,
    mask: Mask,
    driver: Arc<dyn Driver>,
    clock: Clock,
}

impl Stage {
    fn new() -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let cloud = Stackit::new(Settings::default(), clock.clone(), Chance::from_seed(1));
        let mask = Mask::default();
        let router: Router = cloud.router().layer(from_fn_with_state(Arc::clone(&mask), masked));
        let transport = transport::from_service(router.into_service::<hostler_base::Body>());
        let environment = Environment::simulated("");
        let factory = StackitFactory::with_environment(surroundings(transport, &clock), environment);
        let credentials = Credentials::new([("project-id", PROJECT)]);
        let driver = factory.driver(&credentials, &order("m-1").spec, Written::default()).unwrap();
        Self { cloud, mask, driver, clock }
    }

    fn deletions(&self) -> u64 {
        self.cloud.calls().get("DeleteServer").copied().unwrap_or_default()
    }
}

/// The one machine of an answer.
fn one(finding: Finding) -> Machine {
    match finding.found {
        Found::One(machine) => *machine,
        other => panic!("{other:?}"),
    }
}

fn in_words(settled: Result<Settled, Failure>) -> String {
    match settled {
        Ok(Settled::Done(_)) => "done".to_owned(),
        Ok(Settled::Did(what) | Settled::Waiting(what)) => what,
        Err(failure) => failure.to_string(),
    }
}

/// What is settled, and whether a deletion takes a call.
fn expected(state: &ServerState, status: &str, id: &str) -> (String, bool) {
    match state {
        ServerState::Running => ("done".to_owned(), true),
        ServerState::Pending | ServerState::Stopped | ServerState::Unrecognised => {
            (format!("the server is {status}"), true)
        }
        ServerState::Deleting => (format!("the server is {status}"), false),
        ServerState::Failed { code, message } => {
            assert_eq!((*code, message.as_str()), (Code::Internal, "it broke"));
            (format!("Internal: the server {id} failed: it broke"), true)
        }
        ServerState::Deleted => (format!("NotFound: the server {id} is gone"), false),
    }
}

#[tokio::test(start_paused = true)]
async fn every_method_answers_as_the_table_of_statuses_says() {
    let statuses = STATUSES.into_iter().chain(OLD_STATUSES).chain([NEW]);
    let mut cases = 0;
    for status in statuses {
        for power in POWER_STATUSES.map(Some).into_iter().chain([None, Some(NEW)]) {
            let case = format!("{status} {power:?}");
            let wanted = state(status, power, Some("it broke"));
            let stage = Stage::new();
            let (driver, ours) = (&stage.driver, order("m-1"));
            let id = driver.create(&ours).await.unwrap().provider_id;
            stage.clock.sleep(Duration::from_secs(10)).await;
            *stage.mask.lock().unwrap() = Some((status, power));

            // Nothing but the API's own 404 means absent: who asks sees what the cloud says, be it DELETED.
            let asked = one(driver.find(&ours.identity, Some(&id)).await.unwrap());
            let looked = one(driver.look(&ours.identity, &id).await.unwrap());
            let listed = one(driver.find(&ours.identity, None).await.unwrap());
            let of_class = Scope::Class { domain: "shoot".into(), class: "c".into() };
            let all = driver.list(&of_class, None).await.unwrap();
            let other = driver.create(&order("m-2")).await.unwrap();
            for (how, machine) in [
                ("asked", &asked),
                ("looked", &looked),
                ("listed", &listed),
                ("all", &all.machines()[0]),
                ("made", &other),
            ] {
                assert_eq!((&machine.state, machine.raw_state.as_str()), (&wanted, status), "{case} {how}");
            }
            assert_eq!(all.machines().len(), 1, "{case}");

            let (settled, calls) = expected(&wanted, status, &id.to_string());
            assert_eq!(in_words(driver.settle(&ours, &asked).await), settled, "{case}");

            let before = stage.deletions();
            assert_eq!(driver.delete(&ours, &id).await.unwrap(), Deletion::Ordered, "{case}");
            assert_eq!(stage.deletions() - before, u64::from(calls), "{case}");
            cases += 1;
        }
    }
    assert_eq!(cases, 30 * 6);
}

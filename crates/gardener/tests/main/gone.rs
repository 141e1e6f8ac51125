//! A server is gone when the cloud itself has said so twice: asked for it, and then in a list. Nothing else is.

use crate::flow::{LONG, PROJECT, REGION, SOON, Stage, machine, ours};
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_gardener::api::Phase;
use hostler_sim::{
    Plan,
    stackit::{Settings, Stackit},
};
use http::{Method, Request, Response};
use serde_json::json;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// An answer that somebody gives in place of the cloud.
type Answer = (u16, String);

/// What is answered in place of the cloud: who asks for a server, and who lists them.
#[derive(Clone, Default)]
struct Impostor(Arc<Mutex<(Option<Answer>, Option<Answer>)>>);

impl Impostor {
    fn says(&self, asked: Option<Answer>, listed: Option<Answer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (asked, listed);
    }

    fn answer_to(&self, request: &Request<Body>) -> Option<Answer> {
        if request.method() != Method::GET {
            return None;
        }
        let (asked, listed) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let path = request.uri().path();
        match path.split_once("/servers") {
            Some((_, "")) => listed,
            Some((_, rest)) if rest.matches('/').count() == 1 => asked,
            _ => None,
        }
    }

    /// The way to the cloud, with this one in it.
    fn before(&self, cloud: &Stackit) -> Transport {
        let (this, cloud) = (self.clone(), cloud.transport());
        transport::from_service(tower::service_fn(move |request: Request<Body>| {
            let answer = this.answer_to(&request);
            let call = transport::send(&cloud, request);
            async move {
                let Some((status, body)) = answer else { return call.await };
                let answer = Response::builder().status(status).header("content-type", "application/json");
                Ok::<_, BoxError>(answer.body(transport::full(body)).unwrap())
            }
        }))
    }
}

/// A machine that runs, in a cloud with an impostor before it.
async fn running(seed: u64) -> (Stage, Impostor) {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    let impostor = Impostor::default();
    let cloud = impostor.before(&stage.cloud);
    stage.world.add_server("stackit", Stackit::paths(), cloud);
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
    (stage, impostor)
}

/// The API's own word that there is no such server.
fn own_404() -> Answer {
    (404, json!({"code": 404, "msg": "the server was not found"}).to_string())
}

/// A list in which nothing is.
fn empty_list() -> Answer {
    (200, json!({"items": []}).to_string())
}

/// What never means that a server is gone.
fn other_answers() -> Vec<(&'static str, Answer)> {
    let own = |status: u16| (status, json!({"code": status, "msg": "no"}).to_string());
    let page = |status: u16| (status, "<html><body>Not Found</body></html>".to_owned());
    vec![
        ("401", own(401)),
        ("403", own(403)),
        ("a proxy's 404", page(404)),
        ("a gateway's 404", (404, json!({"error": "no route"}).to_string())),
        ("a 404 without a body", (404, String::new())),
        ("410", own(410)),
        ("a proxy's 410", page(410)),
        ("409", own(409)),
        ("429", own(429)),
        ("500", own(500)),
        ("503", page(503)),
        ("a 200 without a body", (200, String::new())),
        ("a 204", (204, String::new())),
        ("half an answer", (200, r#"{"items": [{"id": "1"#.to_owned())),
        ("another object", (200, "{}".to_owned())),
        ("a page that says 200", page(200)),
    ]
}

/// The Machine stays as long as this is said, its server too, and both go when the cloud is heard again.
async fn is_not_gone(what: &str, asked: Option<Answer>, listed: Option<Answer>) {
    let (mut stage, impostor) = running(160).await;
    impostor.says(asked, listed);
    stage.delete_machine("m-1").await;
    // Longer than the longest time after which it is tried again.
    stage.world.run_for(Duration::from_mins(12)).await;
    let machine = stage.machines().get_opt("m-1").await.unwrap();
    let machine = machine.unwrap_or_else(|| panic!("{what}: the Machine was let go"));
    let said = machine.status.unwrap().last_operation.description;
    assert!(said.ends_with("Initiate VM deletion"), "{what}: {said}");
    assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{what}");
    impostor.says(None, None);
    stage.run_until_gone("m-1", LONG).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(stage.leftovers().await, [""; 0], "{what}");
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_is_not_told_by_anything_but_the_apis_own_404() {
    for (what, answer) in other_answers() {
        is_not_gone(what, Some(answer), Some(empty_list())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_found_is_gone_only_after_a_list_that_can_be_read() {
    for (what, answer) in other_answers() {
        is_not_gone(what, Some(own_404()), Some(answer)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn when_nothing_can_be_believed_nothing_is_gone() {
    for (what, answer) in other_answers() {
        is_not_gone(what, Some(answer.clone()), Some(answer)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_a_list_shows_is_deleted_whatever_was_said_to_who_asked() {
    let (mut stage, impostor) = running(161).await;
    impostor.says(Some(own_404()), None);
    stage.delete_machine("m-1").await;
    stage.run_until_gone("m-1", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_both_say_is_gone() {
    let (mut stage, _) = running(162).await;
    // Somebody deletes it in the portal.
    let id = ours(&stage.cloud.servers()).next().map(|server| server.id.clone()).unwrap();
    let path = format!("/v2/projects/{PROJECT}/regions/{REGION}/servers/{id}");
    let request = Request::delete(path).body(transport::empty()).unwrap();
    let answer = transport::exchange(&stage.cloud.transport(), request, 1 << 20).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    stage.delete_machine("m-1").await;
    stage.run_until_gone("m-1", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_shown_as_deleted_is_waited_for_until_it_is_not_shown() {
    // To whoever asks and in lists, or in lists only.
    for ghosts_answer in [true, false] {
        let gone_lag = Duration::from_mins(5);
        let settings = Settings { gone_lag, ghosts_are_deleted: true, ghosts_answer, ..Settings::default() };
        let mut stage = Stage::new(Plan::seeded(163), settings).await;
        stage.start_controller();
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("m-5")).await;
        stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
        stage.delete_machine("m-5").await;
        let cloud = stage.cloud.clone();
        let ended = async || ours(&cloud.servers()).count() == 0;
        stage.world.run_until("the server has ended", SOON, ended).await.unwrap();
        stage.world.run_for(Duration::from_mins(4)).await;
        let seen = stage.machines().get_opt("m-5").await.unwrap().expect("the Machine was let go");
        let said = seen.status.unwrap().last_operation.description;
        assert!(said.ends_with("Initiate VM deletion"), "{said}");
        stage.run_until_gone("m-5", Duration::from_mins(3)).await.unwrap();
        assert_eq!(stage.cloud.calls().get("DeleteServer"), Some(&1), "once is enough");
        assert_eq!(stage.leftovers().await, [""; 0]);
    }
}

use crate::stage::{Answer, Stage, client, surroundings};
use futures::future::join_all;
use hostler_driver::{Code, Failure, without_references};
use hostler_stackit::{ApiVersion, Authorisation, Client, wire::NicChange};
use serde_json::json;
use std::time::Duration;

fn refusal(status: u16) -> Answer {
    Answer::Json(status, json!({"code": status, "msg": "no"}))
}

fn too_many(retry_after: &str) -> Answer {
    Answer::Raw(429, vec![("retry-after", retry_after.to_owned())], r#"{"code": 429, "msg": "too many"}"#)
}

fn server() -> Answer {
    Answer::Json(200, json!({"id": "s", "name": "m"}))
}

/// One call of each kind that changes something.
async fn change(client: &Client, kind: &str) -> Result<(), Failure> {
    match kind {
        "POST" => client.start_server("s").await,
        "PUT" => client.add_nic("s", "n").await,
        "PATCH" => client.update_nic("w", "n", &NicChange::default()).await.map(drop),
        "DELETE" => client.delete_server("s").await,
        other => panic!("{other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_after_an_unknown_outcome() {
    for trouble in [Answer::Cut, refusal(500), refusal(502), refusal(503), refusal(504)] {
        let stage = Stage::new();
        stage.will([trouble.clone(), trouble.clone(), server()]);
        stage.plain_client().get_server("s").await.unwrap();
        assert_eq!(stage.take().len(), 3, "{trouble:?}");
        stage.will([trouble.clone(), trouble.clone(), trouble.clone(), server()]);
        stage.plain_client().get_server("s").await.unwrap_err();
        assert_eq!(stage.take().len(), 3, "{trouble:?}: not for ever");
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_is_never_repeated_after_an_unknown_outcome() {
    let troubles = [
        (Answer::Cut, Code::Unavailable),
        (Answer::Never, Code::DeadlineExceeded),
        (refusal(408), Code::DeadlineExceeded),
        (refusal(500), Code::Unavailable),
        (refusal(502), Code::Unavailable),
        (refusal(503), Code::Unavailable),
        (refusal(504), Code::DeadlineExceeded),
    ];
    for (trouble, code) in troubles {
        for kind in ["POST", "PUT", "PATCH", "DELETE"] {
            let stage = Stage::new();
            stage.will([trouble.clone(), server()]);
            let failure = change(&stage.plain_client(), kind).await.unwrap_err();
            assert_eq!((failure.code, stage.count()), (code, 1), "{kind} {trouble:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_within_its_time() {
    let stage = Stage::new();
    stage.will([Answer::Never]);
    let failure = stage.plain_client().list_servers(None).await.unwrap_err();
    assert_eq!(failure.code, Code::DeadlineExceeded);
    assert_eq!(stage.elapsed(), Duration::from_secs(30));
    assert!(failure.message.contains("GET /v2/") && failure.message.contains("30 s"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn after_a_429_any_call_waits_as_long_as_it_is_told_and_comes_again() {
    for kind in ["POST", "PUT", "PATCH", "DELETE"] {
        let stage = Stage::new();
        stage.will([too_many("4"), server()]);
        change(&stage.plain_client(), kind).await.unwrap();
        assert_eq!(stage.count(), 2, "{kind}");
        assert!(stage.elapsed() >= Duration::from_secs(4), "{kind}: {:?}", stage.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_pause_is_not_waited_for_by_a_worker() {
    let stage = Stage::new();
    let client = stage.plain_client();
    stage.will([too_many("60")]);
    let refused = client.start_server("s").await.unwrap_err();
    assert_eq!((refused.code, stage.take().len()), (Code::Unavailable, 1));
    assert_eq!(refused.message, "STACKIT answered 429: too many");
    let next = client.list_servers(None).await.unwrap_err();
    assert_eq!((next.code, stage.take().len()), (Code::Unavailable, 0), "nothing is sent meanwhile");
    assert_eq!(next, refused, "whoever is sent away is told the same");
    assert_eq!(stage.elapsed(), Duration::ZERO);
    // Another project is not concerned.
    crate::stage::client(stage.surroundings(), ApiVersion::V2, Authorisation::None)
        .list_servers(None)
        .await
        .unwrap();
    stage.clock.sleep(Duration::from_secs(60)).await;
    client.list_servers(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_refusals_calls_come_one_by_one_and_slower() {
    let stage = Stage::new();
    let client = stage.plain_client();
    stage.will([too_many("2")]);
    for list in join_all((0..51).map(|_| client.list_servers(None))).await {
        list.unwrap();
    }
    // After the pause of two seconds fifty a second instead of a hundred at once.
    let took = stage.elapsed();
    assert!((Duration::from_millis(2900)..Duration::from_millis(3100)).contains(&took), "{took:?}");
    assert_eq!(stage.count(), 52);
}

#[tokio::test(start_paused = true)]
async fn the_ids_of_a_call_are_told_beside_a_message_that_is_always_the_same() {
    let stage = Stage::new();
    let client = stage.plain_client();
    let mut failures = Vec::new();
    for id in ["req-1111", "req-2222"] {
        let headers = vec![("x-request-id", id.to_owned()), ("x-trace-id", format!("trace-{id}"))];
        stage.will([Answer::Raw(403, headers, r#"{"code": 403, "msg": "not yours"}"#)]);
        failures.push(client.get_server("s").await.unwrap_err());
    }
    assert_eq!(failures[0].message, failures[1].message);
    assert_eq!(
        failures[1].to_string(),
        "PermissionDenied: [X-Request-Id:req-2222]: [X-Trace-Id:trace-req-2222]: STACKIT answered 403: not yours"
    );
    let texts = failures.iter().map(Failure::to_machine_error).collect::<Vec<_>>();
    assert_ne!(texts[0], texts[1]);
    assert_eq!(without_references(&texts[0]), without_references(&texts[1]));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_is_not_taken_for_one() {
    let page = |status| Answer::Raw(status, vec![], "<html>welcome</html>");
    let stage = Stage::new();
    let client = stage.plain_client();
    for odd in
        [page(200), Answer::Raw(200, vec![], ""), Answer::Json(200, json!({})), page(404), refusal(204)]
    {
        stage.will([odd.clone()]);
        let list = client.list_servers(None).await.unwrap_err();
        assert_eq!(list.code, Code::Unavailable, "{odd:?}");
        stage.will([odd.clone()]);
        let get = client.get_server("s").await.unwrap_err();
        assert_eq!(get.code, Code::Unavailable, "{odd:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_that_would_lead_elsewhere_is_not_sent() {
    let stage = Stage::new();
    let client = stage.plain_client();
    for id in ["", ".", ".."] {
        assert_eq!(client.delete_server(id).await.unwrap_err().code, Code::InvalidArgument, "{id:?}");
        assert_eq!(client.get_server(id).await.unwrap_err().code, Code::InvalidArgument, "{id:?}");
    }
    assert_eq!(stage.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_waits() {
    let run = async || {
        let stage = Stage::new();
        stage.will([Answer::Cut, refusal(503), server()]);
        let client =
            client(surroundings(stage.transport(), &stage.clock), ApiVersion::V2, Authorisation::None);
        client.get_server("s").await.unwrap();
        stage.elapsed()
    };
    let first = run().await;
    assert!(first > Duration::from_millis(400), "{first:?}");
    assert_eq!(first, run().await);
}

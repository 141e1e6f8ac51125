//! In which header a key goes, and how a secret becomes tokens.

use crate::stage::{Answer, Stage, fine, refusal};
use futures::future::join_all;
use hostler_driver::Code;
use serde_json::json;
use std::time::Duration;

fn unauthorised() -> Answer {
    refusal(401, 401, "no")
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_in_vpsies_own_header() {
    let stage = Stage::new();
    stage.with_key().list_vms().await.unwrap();
    let seen = stage.take();
    assert_eq!((seen[0].own_header.as_deref(), seen[0].authorization.as_deref()), (Some("key"), None));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_there_is_tried_in_the_other_one_and_what_worked_is_kept() {
    let stage = Stage::new();
    let client = stage.with_key();
    stage.will([unauthorised()]);
    client.list_vms().await.unwrap();
    client.list_vms().await.unwrap();
    let headers: Vec<_> =
        stage.take().into_iter().map(|seen| (seen.own_header.is_some(), seen.authorization)).collect();
    let bearer = || (false, Some("Bearer key".to_owned()));
    assert_eq!(headers, [(true, None), bearer(), bearer()]);
    stage.will([unauthorised()]);
    assert_eq!(client.list_vms().await.unwrap_err().code, Code::Unauthenticated);
    assert_eq!(stage.take().len(), 1, "now it is the key that is refused");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_worked_once_is_not_tried_elsewhere() {
    let stage = Stage::new();
    let client = stage.with_key();
    client.list_vms().await.unwrap();
    stage.will([Answer::Json(200, json!({"error": true, "code": 401, "message": "no"}))]);
    let failure = client.list_vms().await.unwrap_err();
    assert_eq!(failure.code, Code::Unauthenticated);
    let expected = "VPSie API authentication failed: VPSie answered 401: no; check the Secret vpsie-secret";
    assert_eq!(failure.message, expected);
    assert_eq!(stage.take().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_refused_in_both_is_told_once() {
    let stage = Stage::new();
    let client = stage.with_key();
    for _ in 0..2 {
        stage.will([unauthorised(), unauthorised()]);
        assert_eq!(client.list_vms().await.unwrap_err().code, Code::Unauthenticated);
        let forms: Vec<bool> = stage.take().iter().map(|seen| seen.own_header.is_some()).collect();
        assert_eq!(forms, [true, false]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_exchanged_once_for_all_in_both_shapes_of_the_answer() {
    let shapes = [
        json!({"accessToken": {"token": "t1", "expires": "1970-01-01T01:00:00Z"}, "refreshToken": {"token": "r"}}),
        json!({"error": false, "token": {"access": {"token": "t1", "expires": "1970-01-01T01:00:00.000Z"},
            "refresh": {"token": "r", "expires": null}}}),
        json!({"accessToken": {"token": "t1"}}),
    ];
    for shape in shapes {
        let stage = Stage::new();
        let client = stage.with_secret();
        stage.always("POST /apps/v2/auth/from/api", Answer::Json(200, shape));
        for result in join_all((0..10).map(|_| client.list_vms())).await {
            result.unwrap();
        }
        let seen = stage.take();
        assert_eq!(seen[0].line, "POST /apps/v2/auth/from/api");
        assert_eq!(seen[0].text(), "clientId=me%26co&clientSecret=hunter2");
        assert_eq!(seen[0].content_type.as_deref(), Some("application/x-www-form-urlencoded"));
        assert!(seen[0].authorization.is_none() && seen[0].own_header.is_none());
        assert_eq!((seen.len(), seen[0].operation), (11, Some("CreateToken")));
        assert!(seen[1..].iter().all(|seen| seen.authorization.as_deref() == Some("Bearer t1")));
        // Five minutes before its end it is exchanged again.
        stage.clock.sleep(Duration::from_secs(3_299)).await;
        client.list_vms().await.unwrap();
        assert_eq!(stage.take().len(), 1);
        stage.clock.sleep(Duration::from_secs(1)).await;
        client.list_vms().await.unwrap();
        assert_eq!(stage.lines()[0], "POST /apps/v2/auth/from/api");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_is_exchanged_once_more() {
    let stage = Stage::new();
    let client = stage.with_secret();
    let token = |token: &str| Answer::Json(200, json!({"accessToken": {"token": token}}));
    stage.will([token("t1"), fine(json!([])), unauthorised(), token("t2"), fine(json!([]))]);
    client.list_vms().await.unwrap();
    client.list_vms().await.unwrap();
    let tokens: Vec<_> = stage.take().into_iter().filter_map(|seen| seen.authorization).collect();
    assert_eq!(tokens, ["Bearer t1", "Bearer t1", "Bearer t2"]);
    stage.will([unauthorised(), token("t3"), unauthorised()]);
    assert_eq!(client.list_vms().await.unwrap_err().code, Code::Unauthenticated);
    assert_eq!(stage.take().len(), 3, "and not for ever");
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_fails_says_what_to_correct_and_shows_no_secret() {
    let table = [
        (refusal(401, 401, "no"), Code::Unauthenticated),
        (refusal(200, 1, "invalid credentials"), Code::Unauthenticated),
        (refusal(404, 404, "hunter2"), Code::Unauthenticated),
        (Answer::Raw(404, vec![], "<html>".into()), Code::Unavailable),
        (Answer::Json(200, json!({"accessToken": {"token": ""}})), Code::Unavailable),
        (Answer::Json(200, json!({"accessToken": "hunter2"})), Code::Unavailable),
    ];
    for (answer, code) in table {
        let stage = Stage::new();
        let hides = !format!("{answer:?}").contains("404");
        stage.will([answer]);
        let failure = stage.with_secret().list_vms().await.unwrap_err();
        assert_eq!(failure.code, code, "{failure}");
        assert!(!hides || !failure.message.contains("hunter2"), "{failure}");
        if code == Code::Unauthenticated {
            assert!(failure.message.starts_with("VPSie API authentication failed"), "{failure}");
            assert!(failure.message.contains("clientSecret"), "{failure}");
        }
        assert_eq!(stage.take().len(), 1, "nothing is sent without a token");
    }
}

//! When a call is sent once more, and when it is not.

use crate::stage::{Answer, Stage, fine, refusal};
use futures::future::join_all;
use hostler_driver::Code;
use hostler_vpsie::wire::CreateVm;
use serde_json::json;
use std::time::Duration;

fn order() -> CreateVm {
    CreateVm {
        resource_identifier: "plan".into(),
        os_identifier: "os".into(),
        dc_identifier: "dc".into(),
        hostname: "m-1".into(),
        project_id: "7".into(),
        notes: String::new(),
        backup_enabled: false,
        weekly_backup_enabled: false,
        monthly_backup_enabled: false,
        public_ipv4: true,
        public_ipv6: false,
        private_ip: false,
        ssh_key_identifier: None,
        script_identifier: None,
        user_data: Some("aHVudGVyMg==".to_owned().into()),
        tags: Vec::new(),
        process_id: "p".into(),
        ssd: None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_is_never_sent_again_after_an_outcome_that_nobody_knows() {
    let lost = [
        Answer::Cut,
        Answer::Never,
        Answer::Json(500, json!({"error": true})),
        Answer::Raw(502, vec![], "<html>".into()),
        Answer::Raw(200, vec![], "<html>".into()),
        refusal(200, 1, "something is wrong"),
        refusal(409, 409, "conflict"),
    ];
    for answer in lost {
        let stage = Stage::new();
        let client = stage.with_key();
        stage.will([answer.clone()]);
        client.create_vm(&order(), false).await.unwrap_err();
        assert_eq!(stage.lines(), ["POST /apps/v2/vm"], "{answer:?}");
        stage.will([answer.clone()]);
        client.delete_vm("u", "no").await.unwrap_err();
        assert_eq!(stage.lines(), ["DELETE /apps/v2/vm"], "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_for_the_rate_is_sent_when_it_may_be() {
    let stage = Stage::new();
    let busy = Answer::Raw(429, vec![("retry-after", "7".into())], "{}".into());
    stage.will([busy.clone(), fine(json!(true))]);
    stage.with_key().create_vm(&order(), true).await.unwrap();
    assert_eq!(stage.lines(), ["POST /apps/v2/custom/vm", "POST /apps/v2/custom/vm"]);
    assert_eq!(stage.elapsed(), Duration::from_secs(7));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_put_again_for_a_while() {
    for answer in [Answer::Cut, Answer::Json(503, json!({})), Answer::Raw(500, vec![], String::new())] {
        let stage = Stage::new();
        let client = stage.with_key();
        stage.will([answer.clone(), answer.clone()]);
        client.list_vms().await.unwrap();
        assert_eq!(stage.take().len(), 3);
        stage.will([answer.clone(), answer.clone(), answer.clone()]);
        assert_eq!(client.list_vms().await.unwrap_err().code, Code::Unavailable);
    }
    let stage = Stage::new();
    stage.will([Answer::Never]);
    let failure = stage.with_key().create_vm(&order(), false).await.unwrap_err();
    assert_eq!(failure.code, Code::DeadlineExceeded);
    assert!(stage.elapsed() < Duration::from_secs(46));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_vpsie_does_not_answer() {
    let stage = Stage::new();
    let client = stage.with_key();
    stage.will(vec![Answer::Raw(502, vec![], String::new()); 5]);
    for _ in 0..5 {
        client.delete_vm("u", "no").await.unwrap_err();
    }
    stage.take();
    let failure = client.delete_vm("u", "no").await.unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    assert!(failure.message.contains("5 calls in a row"), "{failure}");
    assert!(stage.take().is_empty());
    stage.clock.sleep(Duration::from_secs(30)).await;
    client.delete_vm("u", "no").await.unwrap();
    client.list_vms().await.unwrap();
    for result in join_all((0..5).map(|_| client.list_vms())).await {
        result.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_do_not_look_like_silence() {
    let stage = Stage::new();
    let client = stage.with_key();
    stage.will(vec![refusal(404, 404, "no"); 20]);
    for _ in 0..20 {
        assert_eq!(client.get_vm("u").await.unwrap_err().code, Code::NotFound);
    }
    assert_eq!(stage.take().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn reads_leave_room_for_orders() {
    let stage = Stage::new();
    let client = stage.with_key();
    let reads = join_all((0..200).map(|_| client.list_vms()));
    let orders = async {
        stage.clock.sleep(Duration::from_millis(1)).await;
        let begun = stage.clock.instant();
        for result in join_all((0..25).map(|_| {
            let client = client.clone();
            async move { client.create_vm(&order(), false).await }
        }))
        .await
        {
            result.unwrap();
        }
        stage.clock.instant() - begun
    };
    let (reads, took) = tokio::join!(reads, orders);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(reads.iter().filter(|read| read.is_ok()).count(), 75);
    assert!(reads.into_iter().filter_map(Result::err).all(|failure| failure.code == Code::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_led_elsewhere() {
    let stage = Stage::new();
    stage.will([Answer::Raw(302, vec![("location", "https://elsewhere.example/".into())], String::new())]);
    let failure = stage.with_key().list_vms().await.unwrap_err();
    assert_eq!(failure.code, Code::FailedPrecondition);
    assert_eq!(stage.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_or_cut_is_none() {
    let long = format!(r#"{{"error":false,"data":[],"more":"{}"}}"#, "x".repeat(11 << 20));
    for answer in [
        Answer::Raw(200, vec![], long),
        Answer::Raw(200, vec![], r#"{"error":false,"data":[{"identifier":"u"}"#.into()),
        Answer::Json(200, json!({"error": false, "data": [{"identifier": "u"}], "total": 2})),
        Answer::Json(200, json!({"error": false, "data": null})),
        Answer::Json(200, json!({"error": false, "data": [{"id": 7, "initial_password": "hunter2"}]})),
    ] {
        let stage = Stage::new();
        stage.always("GET /apps/v2/vm", answer);
        let failure = stage.with_key().list_vms().await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
        assert!(!failure.message.contains("hunter2"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_another_one_is_no_answer() {
    let stage = Stage::new();
    let client = stage.with_key();
    for data in [json!({"vmData": {"identifier": "other"}}), json!({"vmData": {}}), json!({})] {
        stage.will([fine(data)]);
        let failure = client.get_vm("u").await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
    }
    stage.will([fine(json!({"vmData": {"identifier": "U"}}))]);
    client.get_vm("u").await.unwrap();
}

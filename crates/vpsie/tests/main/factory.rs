//! One driver for one account, and another one for another.

use crate::stage::{Stage, URL};
use hostler_driver::{Code, Credentials, Driver, DriverFactory, Failure, Written};
use hostler_vpsie::VpsieFactory;
use serde_json::{Value, json};
use std::sync::Arc;

fn driver(
    factory: &VpsieFactory,
    keys: &[(&str, &str)],
    written: Written<'_>,
) -> Result<Arc<dyn Driver>, Failure> {
    factory.driver(&Credentials::new(keys.iter().map(|(key, value)| (*key, *value))), &json!({}), written)
}

#[tokio::test(start_paused = true)]
async fn a_rotated_key_takes_effect_with_the_next_call() {
    let stage = Stage::new();
    let factory = VpsieFactory::new(stage.surroundings());
    let with = |token: &str| driver(&factory, &[("token", token), ("url", URL)], Written::default()).unwrap();
    let list = async |driver: Arc<dyn Driver>| {
        driver.list(&hostler_driver::Scope::Domain("d".into()), None).await.unwrap();
        stage.take().pop().and_then(|seen| seen.own_header)
    };
    let (first, again, rotated) = (with("a"), with("a"), with("b"));
    assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &rotated));
    assert_eq!(list(first).await.as_deref(), Some("a"));
    assert_eq!(list(rotated).await.as_deref(), Some("b"));
    assert_eq!(factory.provider(), "vpsie");
}

#[tokio::test(start_paused = true)]
async fn drivers_of_one_account_share_its_lists() {
    let stage = Stage::new();
    let factory = VpsieFactory::new(stage.surroundings());
    let with = |project: &str| {
        let keys = [("token", "a"), ("url", URL), ("projectId", project)];
        driver(&factory, &keys, Written::default()).unwrap()
    };
    let (one, two) = (with("1"), with("2"));
    assert!(!Arc::ptr_eq(&one, &two));
    let scope = hostler_driver::Scope::Domain("d".into());
    one.list(&scope, None).await.unwrap();
    two.list(&scope, None).await.unwrap();
    assert_eq!(stage.lines(), ["GET /apps/v2/vm/pending", "GET /apps/v2/vm"]);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_used_is_told_with_the_class() {
    let factory = VpsieFactory::new(Stage::new().surroundings());
    let credentials = Credentials::new([("url", "http://vpsie.example")]);
    let of = |spec: &Value, written| factory.driver(&credentials, spec, written).err().unwrap();
    let failure = of(&json!({"osImage": "x"}), Written::default());
    assert_eq!(failure.code, Code::InvalidArgument);
    for part in ["\"token\"", "\"url\"", "osImageID"] {
        assert!(failure.message.contains(part), "{failure}");
    }
    let known = of(&json!({"osImage": "x"}), Written { place: Some("VPSie at a"), id: None });
    assert!(!known.message.contains("osImage"), "{known}");
}

#[tokio::test(start_paused = true)]
async fn credentials_go_nowhere_but_to_the_host_beside_them() {
    let stage = Stage::new();
    let factory = VpsieFactory::new(stage.surroundings());
    let keys = [("token", "a"), ("url", URL)];
    let here = driver(&factory, &keys, Written::default()).unwrap().place();
    assert_eq!(here, "VPSie at localhost");
    driver(&factory, &keys, Written { place: Some(&here), id: None }).unwrap();
    let elsewhere = Written { place: Some("VPSie at elsewhere.example"), id: None };
    let failure = driver(&factory, &keys, elsewhere).err().unwrap();
    assert!(
        failure.message.contains("elsewhere.example") && failure.message.contains("\"url\""),
        "{failure}"
    );
    assert!(stage.take().is_empty());
}

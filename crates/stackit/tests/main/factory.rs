use crate::stage::{Answer, PROJECT, Stage};
use futures::StreamExt;
use hostler_driver::{
    Attempt, Code, Credentials, Driver, DriverFactory, Identity, Order, ProviderId, Scope, Settled, UserData,
    Written,
};
use hostler_stackit::{Authentication, Environment, StackitFactory};
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

fn factory(stage: &Stage) -> StackitFactory {
    let environment = Environment {
        endpoint: Some("https://iaas.example".into()),
        authentication: Authentication::Required,
        ..Environment::default()
    };
    StackitFactory::with_environment(stage.surroundings(), environment)
}

fn spec() -> Value {
    json!({"region": "eu01", "machineType": "c2i.2", "imageId": PROJECT})
}

fn secret(token: &str) -> Credentials {
    Credentials::new([("project-id", PROJECT), ("apiToken", token)])
}

async fn look(driver: &Arc<dyn Driver>) -> Result<(), hostler_driver::Failure> {
    let identity = Identity { domain: "d".into(), machine: "m".into(), class: "c".into() };
    driver.find(&identity, None).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_rotated_secret_is_used_on_the_next_call() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let old = factory.driver(&secret("old"), &spec(), Written::default()).unwrap();
    look(&old).await.unwrap();
    let new = factory.driver(&secret("new"), &spec(), Written::default()).unwrap();
    look(&new).await.unwrap();
    look(&old).await.unwrap();
    let sent: Vec<String> = stage.take().into_iter().filter_map(|seen| seen.authorization).collect();
    assert_eq!(sent, ["Bearer old", "Bearer new", "Bearer old"]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_secret_works_at_once_when_corrected() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let key = |text: &str| Credentials::new([("project-id", PROJECT), ("serviceaccount.json", text)]);
    for _ in 0..2 {
        assert_eq!(
            factory.driver(&key("{"), &spec(), Written::default()).err().unwrap().code,
            Code::InvalidArgument
        );
        assert_eq!(
            factory.driver(&key("{}"), &spec(), Written::default()).err().unwrap().code,
            Code::Internal
        );
    }
    let whole = crate::auth::key_file().to_string();
    factory.driver(&key(&whole), &spec(), Written::default()).unwrap();
    assert_eq!(
        factory.driver(&key("{"), &spec(), Written::default()).err().unwrap().code,
        Code::InvalidArgument
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_concern_the_cloud_makes_no_new_driver() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let with = |user_data: &str| {
        let keys = [("project-id", PROJECT), ("apiToken", "t"), ("userData", user_data)];
        factory.driver(&Credentials::new(keys), &spec(), Written::default()).unwrap()
    };
    assert!(Arc::ptr_eq(&with("a"), &with("b")));
    let other_class = json!({"region": "eu01", "machineType": "c2i.4", "imageId": PROJECT});
    assert!(Arc::ptr_eq(
        &with("a"),
        &factory.driver(&secret("t"), &other_class, Written::default()).unwrap()
    ));
    let elsewhere = json!({"region": "eu02", "machineType": "c2i.2", "imageId": PROJECT});
    assert!(!Arc::ptr_eq(&with("a"), &factory.driver(&secret("t"), &elsewhere, Written::default()).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn one_list_serves_all_secrets_with_the_same_right() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let zone = |zone: &str| {
        let keys = [("project-id", PROJECT), ("apiToken", "t"), ("region", zone)];
        factory.driver(&Credentials::new(keys), &spec(), Written::default()).unwrap()
    };
    let (one, two) = (zone("eu01-1"), zone("eu01-2"));
    assert!(!Arc::ptr_eq(&one, &two));
    for driver in [&one, &two] {
        driver.list(&Scope::Domain("d".into()), None).await.unwrap();
    }
    assert_eq!(stage.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_keys_of_a_project_share_its_limit_and_other_projects_do_not() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let one = factory.driver(&secret("one"), &spec(), Written::default()).unwrap();
    let two = factory.driver(&secret("two"), &spec(), Written::default()).unwrap();
    let keys = [("project-id", "22222222-2222-4333-8444-555555555555"), ("apiToken", "one")];
    let other = factory.driver(&Credentials::new(keys), &spec(), Written::default()).unwrap();
    stage.will([Answer::Raw(429, vec![("retry-after", "60".into())], "")]);
    assert_eq!(look(&one).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(look(&two).await.unwrap_err().code, Code::Unavailable);
    assert_eq!(stage.count(), 1, "the second did not call");
    look(&other).await.unwrap();
    stage.clock.sleep(Duration::from_secs(60)).await;
    look(&two).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_replaced_key_is_not_used_for_ever() {
    let stage = Stage::of_servers();
    let factory = factory(&stage);
    let mut changes = factory.driver(&secret("old"), &spec(), Written::default()).unwrap().changes();
    let ended = tokio::spawn(async move { while changes.next().await.is_some() {} });
    for _ in 0..40 {
        factory.driver(&secret("new"), &spec(), Written::default()).unwrap();
        stage.clock.sleep(Duration::from_secs(60)).await;
    }
    // Something new has to be asked for, so that somebody tidies up.
    factory.driver(&secret("newer"), &spec(), Written::default()).unwrap();
    tokio::time::timeout(Duration::from_secs(3600), ended).await.unwrap().unwrap();
    stage.take();
    stage.clock.sleep(Duration::from_secs(600)).await;
    assert_eq!(stage.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_told_before_any_call() {
    let stage = Stage::of_servers();
    let failure =
        factory(&stage).driver(&Credentials::default(), &json!({}), Written::default()).err().unwrap();
    assert_eq!(failure.code, Code::InvalidArgument);
    let of_secret = ["project-id", "serviceaccount.json"];
    let of_spec = ["providerSpec.region", "providerSpec.machineType", "providerSpec.imageId"];
    for part in of_secret.iter().chain(&of_spec) {
        assert!(failure.message.contains(part), "{part}: {failure}");
    }
    // What may be there is looked after whatever the class says: only what keeps from that is told.
    let id = ProviderId::stackit(PROJECT, "s").unwrap();
    let written = Written { place: None, id: Some(&id) };
    let failure = factory(&stage).driver(&Credentials::default(), &json!({}), written).err().unwrap();
    assert!(failure.message.contains("serviceaccount.json"), "{failure}");
    // Without a region there would be no path for any call.
    assert!(failure.message.contains("providerSpec.region: Region cannot be empty"), "{failure}");
    assert!(!failure.message.contains("providerSpec.machineType"), "{failure}");
    let without_region = factory(&stage).driver(&secret("t"), &json!({}), written).err().unwrap();
    assert!(without_region.message.starts_with("providerSpec.region: "), "{without_region}");
    assert_eq!(stage.count(), 0);
    // What is missing may stand elsewhere.
    let place = format!("project {PROJECT} region eu02");
    let in_secret = [("project-id", PROJECT), ("apiToken", "t"), ("region", "eu02-1")];
    for (credentials, written) in [
        (secret("t"), Written { place: Some(&place), id: Some(&id) }),
        (Credentials::new(in_secret), written),
    ] {
        let driver = factory(&stage).driver(&credentials, &json!({}), written).unwrap();
        assert_eq!(driver.place(), place);
        look(&driver).await.unwrap();
        let line = format!("GET https://iaas.example/v2/projects/{PROJECT}/regions/eu02/servers");
        assert!(stage.take()[0].line().starts_with(&line));
    }
}

/// Tells a process of this test that it is the one in which credentials lie about.
const SURROUNDED: &str = "HOSTLER_TEST_SURROUNDED";

/// What STACKIT's own programs take credentials from, in the environment of this process and in the home directory: only
/// another process can have that.
#[tokio::test(start_paused = true)]
async fn credentials_that_lie_about_are_not_used() {
    if std::env::var_os(SURROUNDED).is_none() {
        let home = std::env::temp_dir().join(format!("hostler-surrounded-{}", std::process::id()));
        let directory = home.join(".stackit");
        std::fs::create_dir_all(&directory).unwrap();
        let (key, token) = (crate::auth::key_file().to_string(), "lies-about");
        let (key_path, credentials_path) = (directory.join("key.json"), directory.join("credentials.json"));
        std::fs::write(&key_path, &key).unwrap();
        let credentials = json!({"STACKIT_SERVICE_ACCOUNT_TOKEN": token, "STACKIT_SERVICE_ACCOUNT_KEY": key,
            "STACKIT_SERVICE_ACCOUNT_KEY_PATH": key_path, "STACKIT_PRIVATE_KEY": "x"});
        std::fs::write(&credentials_path, credentials.to_string()).unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "factory::credentials_that_lie_about_are_not_used"])
            .env(SURROUNDED, "yes")
            .env("HOME", &home)
            .env("STACKIT_SERVICE_ACCOUNT_TOKEN", token)
            .env("STACKIT_SERVICE_ACCOUNT_KEY", &key)
            .env("STACKIT_SERVICE_ACCOUNT_KEY_PATH", &key_path)
            .env("STACKIT_PRIVATE_KEY", crate::auth::PAIR.serialize_pem())
            .env("STACKIT_PRIVATE_KEY_PATH", &key_path)
            .env("STACKIT_CREDENTIALS_PATH", &credentials_path)
            .output()
            .unwrap();
        std::fs::remove_dir_all(&home).unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let stage = Stage::of_servers();
    let environment = Environment::read(&std::env::vars().collect()).unwrap();
    let factory = StackitFactory::with_environment(stage.surroundings(), environment);
    let without_key = Credentials::new([("project-id", PROJECT)]);
    // Neither for an order nor for a server that is there.
    let id = ProviderId::stackit(PROJECT, "s").unwrap();
    let place = format!("project {PROJECT} region eu01");
    for written in [Written::default(), Written { place: Some(&place), id: Some(&id) }] {
        let failure = factory.driver(&without_key, &spec(), written).err().unwrap();
        assert_eq!(failure.code, Code::InvalidArgument, "{failure}");
        assert!(failure.message.contains("\"serviceaccount.json\" is missing"), "{failure}");
    }
    // With one in the Secret, that one.
    let driver = factory.driver(&secret("own"), &spec(), Written::default()).unwrap();
    look(&driver).await.unwrap();
    let sent: BTreeSet<Option<String>> = stage.take().into_iter().map(|seen| seen.authorization).collect();
    assert_eq!(sent, [Some("Bearer own".to_owned())].into());
}

#[tokio::test(start_paused = true)]
async fn what_the_environment_says_reaches_the_calls() {
    let stage = Stage::of_servers();
    let variables = [
        ("STACKIT_API_ENDPOINT", "http://mock.example:8080/"),
        ("STACKIT_NO_AUTH", "true"),
        ("STACKIT_PROJECT_ID", PROJECT),
        ("STACKIT_IAAS_API_VERSION", "v1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let environment = Environment::read(&variables).unwrap();
    let factory = StackitFactory::with_environment(stage.surroundings(), environment);
    let credentials = Credentials::new([("region", "eu01-2"), ("serviceaccount.json", "not even JSON")]);
    let spec = json!({"machineType": "c2i.2", "imageId": PROJECT});
    let driver = factory.driver(&credentials, &spec, Written::default()).unwrap();
    assert_eq!(driver.place(), format!("project {PROJECT} region eu01"));
    stage.will([Answer::Json(201, json!({"id": "s", "name": "m", "status": "CREATING"}))]);
    let identity = Identity { domain: "d".into(), machine: "m".into(), class: "c".into() };
    let order = Order {
        identity,
        attempt: Attempt("a".into()),
        spec: spec.into(),
        user_data: Some(UserData::new("x")),
    };
    driver.create(&order).await.unwrap();
    let seen = stage.take();
    assert_eq!(seen[0].line(), format!("POST http://mock.example:8080/v1/projects/{PROJECT}/servers"));
    assert_eq!(seen[0].authorization, None);
    let body: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!((&body["availabilityZone"], &body["networking"]), (&json!("eu01-2"), &Value::Null));
    assert_eq!(body["userData"], "eA==");
}

#[tokio::test(start_paused = true)]
async fn settling_answers_as_the_table_of_statuses_says() {
    let stage = Stage::of_servers();
    let driver = factory(&stage).driver(&secret("t"), &spec(), Written::default()).unwrap();
    let identity = Identity { domain: String::new(), machine: "m".into(), class: "c".into() };
    let id = ProviderId::stackit(PROJECT, "s").unwrap();
    let attempt = Attempt("a".into());
    let mut spec = spec();
    spec["bootVolume"] = json!({});
    let order = Order { identity: identity.clone(), attempt, spec: spec.into(), user_data: None };
    let labels = json!({"kubernetes.io/machine": "m", "kubernetes.io/machineclass": "c"});
    let table = [
        ("ACTIVE", "done"),
        ("CREATING", "waiting: the server is CREATING"),
        ("ERROR", "ResourceExhausted: No valid host was found"),
        ("DELETED", "NotFound: gone"),
    ];
    for (status, expected) in table {
        let message = "No valid host was found";
        let server =
            json!({"id": "s", "name": "m", "status": status, "errorMessage": message, "labels": labels});
        let no_nics = Answer::Json(200, json!({"items": []}));
        stage.will([Answer::Json(200, server.clone()), no_nics, Answer::Json(200, server)]);
        let found = driver.find(&identity, Some(&id)).await.unwrap().found;
        let answer = match driver.settle(&order, &found.machines()[0]).await {
            Ok(Settled::Done(_)) => "done".to_owned(),
            Ok(Settled::Did(what)) => format!("did: {what}"),
            Ok(Settled::Waiting(what)) => format!("waiting: {what}"),
            Err(failure) => failure.to_string(),
        };
        stage.forget_answers();
        let (start, end) = expected.split_once(": ").unwrap_or((expected, ""));
        assert!(answer.starts_with(start) && answer.ends_with(end), "{status}: {answer}");
    }
    // One that is being deleted takes no second call.
    stage.take();
    stage.will([Answer::Json(200, json!({"id": "s", "name": "m", "status": "DELETING", "labels": labels}))]);
    driver.delete(&order, &id).await.unwrap();
    assert_eq!(stage.take().len(), 1);
}

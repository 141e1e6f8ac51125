use axum::{
    extract::Request,
    middleware::{Next, from_fn},
};
use futures::StreamExt;
use hostler_base::{Chance, Clock, transport};
use hostler_driver::{
    Attempt, Code, Credentials, Driver, DriverFactory, Found, Identity, Order, Scope, UserData, Written,
};
use hostler_sim::stackit::{Settings, Stackit};
use hostler_stackit::StackitFactory;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

const PROJECT: &str = "11111111-2222-4333-8444-555555555555";
const REGION: &str = "eu01";

struct Stage {
    cloud: Stackit,
    driver: Arc<dyn Driver>,
    /// Path and query of every call.
    calls: Arc<Mutex<Vec<String>>>,
    clock: Clock,
}

impl Stage {
    fn new() -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let cloud = Stackit::new(Settings::default(), clock.clone(), Chance::from_seed(1));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&calls);
        let router = cloud.router().layer(from_fn(move |request: Request, next: Next| {
            noted.lock().unwrap().push(request.uri().to_string());
            next.run(request)
        }));
        let inner = transport::from_service(router.into_service::<hostler_base::Body>());
        let factory = StackitFactory::new(inner, "", clock.clone());
        let credentials = Credentials::new([("project-id", PROJECT)]);
        let driver = factory.driver(&credentials, &spec(), Written::default()).unwrap();
        Self { cloud, driver, calls, clock }
    }

    fn lists(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.contains("/servers?")).cloned().collect()
    }
}

fn spec() -> Value {
    json!({"region": REGION, "machineType": "c2i.2", "imageId": PROJECT, "networking": {"networkId": PROJECT},
        "labels": {"kubernetes.io/cluster": "shoot"}})
}

fn identity(machine: &str) -> Identity {
    Identity { domain: "shoot".into(), machine: machine.into(), class: "c".into() }
}

fn order(machine: &str) -> Order {
    let user_data = Some(UserData::new("hunter2"));
    Order { identity: identity(machine), attempt: Attempt("a1".into()), spec: Arc::new(spec()), user_data }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_usable_id_is_not_taken_for_absent() {
    let stage = Stage::new();
    stage.driver.create(&order("m-1")).await.unwrap();
    stage.cloud.set(|settings| settings.without_id = ["m-1".to_owned()].into());
    let found = stage.driver.find(&identity("m-1"), None).await.unwrap_err();
    let listed = stage.driver.list(&Scope::Domain("shoot".into()), None).await.unwrap_err();
    for failure in [found, listed] {
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
        assert!(failure.message.contains("unusable id"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_another_server_is_no_answer() {
    let stage = Stage::new();
    let first = stage.driver.create(&order("m-1")).await.unwrap().provider_id;
    let second = stage.driver.create(&order("m-1")).await.unwrap().provider_id;
    let mistaken = [(first.server().to_owned(), second.server().to_owned())];
    stage.cloud.set(|settings| settings.mistaken = mistaken.into());
    let asked = stage.driver.find(&identity("m-1"), Some(&first)).await.unwrap_err();
    let deleted = stage.driver.delete(&order("m-1"), &first).await.unwrap_err();
    for failure in [asked, deleted] {
        assert_eq!(failure.code, Code::Unavailable, "{failure}");
        assert!(failure.message.contains(first.server()) && failure.message.contains(second.server()));
    }
    assert!(stage.cloud.servers().iter().all(|server| server.status != "DELETING"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_an_order_that_names_another_server_is_no_answer() {
    let labels = |machine, cluster| {
        [
            ("kubernetes.io/machine", machine),
            ("kubernetes.io/machineclass", "c"),
            ("kubernetes.io/cluster", cluster),
        ]
    };
    let strangers = [
        labels("m-1", "other").to_vec(),
        labels("m-2", "shoot").to_vec(),
        // The same machine's, but not of this order.
        labels("m-1", "shoot").to_vec(),
        [&labels("m-1", "shoot")[..], &[("hostler.dev/create-attempt", "a0")]].concat(),
        Vec::new(),
    ];
    for labels in strangers {
        let stage = Stage::new();
        let other = stage.cloud.add_foreign(PROJECT, REGION, "m-1", &labels);
        stage.cloud.set(|settings| settings.answers_about = [("m-1".to_owned(), other.clone())].into());
        let failure = stage.driver.create(&order("m-1")).await.unwrap_err();
        assert_eq!(failure.code, Code::Unavailable, "what became of it is not known: {failure}");
        assert!(failure.message.contains(&other) && failure.message.contains("m-1"), "{failure}");
        assert_eq!(stage.cloud.servers().len(), 2, "the order had its effect");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_leave_user_data_where_it_is() {
    let stage = Stage::new();
    let id = stage.driver.create(&order("m-1")).await.unwrap().provider_id;
    let found = stage.driver.find(&identity("m-1"), None).await.unwrap().found;
    assert!(matches!(found, Found::One(machine) if machine.provider_id == id));
    stage.driver.list(&Scope::Domain("shoot".into()), None).await.unwrap();
    let lists = stage.lists();
    assert_eq!(lists.len(), 1, "the one of before will do");
    assert!(lists.iter().all(|list| list.contains("?details=false")), "{lists:?}");
    let asked = stage.driver.find(&identity("m-1"), Some(&id)).await.unwrap().found;
    assert!(!asked.machines()[0].addresses.is_empty(), "only with details are there addresses");
}

#[tokio::test(start_paused = true)]
async fn a_place_is_a_project_in_a_region() {
    assert_eq!(Stage::new().driver.place(), format!("project {PROJECT} region {REGION}"));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_soon_and_nobody_else_is_listed_for() {
    let stage = Stage::new();
    let mut changes = stage.driver.changes();
    let listener = tokio::spawn(async move { while changes.next().await.is_some() {} });
    let lists_within = async |minutes: u64| {
        let before = stage.lists().len();
        stage.clock.sleep(Duration::from_mins(minutes)).await;
        stage.lists().len() - before
    };
    lists_within(5).await;
    assert_eq!(lists_within(10).await, 10, "idle");
    stage.driver.create(&order("m-1")).await.unwrap();
    let busy = lists_within(1).await;
    assert!((10..=12).contains(&busy), "{busy} lists in a minute of waiting");
    lists_within(5).await;
    assert_eq!(lists_within(10).await, 10, "idle again");
    listener.abort();
}

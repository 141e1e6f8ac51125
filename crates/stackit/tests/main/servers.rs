//! The driver against the simulated cloud: what it finds, makes, finishes and deletes, and what it leaves alone.

use crate::stage::{PROJECT, REGION, client, surroundings};
use axum::{
    extract::Request,
    http::{Method, StatusCode},
    middleware::{Next, from_fn},
    response::IntoResponse,
};
use hostler_base::{Chance, Clock, transport};
use hostler_driver::{
    Attempt, Code, Credentials, Deletion, Driver, DriverFactory, Found, Identity, Machine, Order, ProviderId,
    Scope, Settled, UserData, VolumeSource, Written,
};
use hostler_sim::stackit::{Catalogue, Fault, MachineType, Settings, Stackit};
use hostler_stackit::{
    ApiVersion, Authorisation, Client, Environment, LabelNames, StackitFactory,
    wire::{NewNic, NicChange},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

pub const NETWORK: &str = "9f8e7d6c-5b4a-4938-8271-605f4e3d2c1b";

pub struct Stage {
    pub cloud: Stackit,
    pub clock: Clock,
    pub driver: Arc<dyn Driver>,
    /// Somebody else with all rights.
    pub other: Client,
}

impl Stage {
    pub fn with(settings: Settings, environment: Environment) -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let cloud = Stackit::new(settings, clock.clone(), Chance::from_seed(1));
        let version = environment.version;
        let surroundings = surroundings(cloud.transport(), &clock);
        let factory = StackitFactory::with_environment(surroundings.clone(), environment);
        let credentials = Credentials::new([("project-id", PROJECT)]);
        let driver = factory.driver(&credentials, &spec(), Written::default()).unwrap();
        let other = client(surroundings, version, Authorisation::None);
        Self { cloud, clock, driver, other }
    }

    pub fn new() -> Self {
        Self::with(Settings::default(), Environment::simulated(""))
    }

    /// The machine as it is after its server has booted.
    pub async fn booted(&self, order: &Order) -> Machine {
        let id = self.driver.create(order).await.unwrap().provider_id;
        self.clock.sleep(Duration::from_secs(10)).await;
        self.ask(&order.identity, &id).await.unwrap()
    }

    pub async fn ask(&self, identity: &Identity, id: &ProviderId) -> Option<Machine> {
        self.driver.find(identity, Some(id)).await.unwrap().found.machines().first().cloned()
    }

    /// Settles until nothing is left; says what was done.
    pub async fn settle(&self, order: &Order, machine: &Machine) -> Vec<String> {
        let mut done = Vec::new();
        loop {
            match self.driver.settle(order, machine).await.unwrap() {
                Settled::Done(machine) => {
                    assert!(!machine.addresses.is_empty());
                    return done;
                }
                Settled::Did(what) => done.push(what),
                Settled::Waiting(what) => panic!("{what}"),
            }
            assert!(done.len() < 10, "{done:?}");
        }
    }

    pub async fn gone(&self, order: &Order, id: &ProviderId) {
        assert_eq!(self.driver.delete(order, id).await.unwrap(), Deletion::Ordered);
        // By then no list that showed it counts any more.
        self.clock.sleep(Duration::from_secs(11)).await;
        assert_eq!(self.ask(&order.identity, id).await, None);
        assert!(matches!(self.driver.delete(order, id).await.unwrap(), Deletion::Absent(_)));
    }

    pub fn calls(&self, operation: &str) -> u64 {
        self.cloud.calls().get(operation).copied().unwrap_or_default()
    }

    pub fn fault(&self, fault: Fault) {
        self.cloud.add_fault(fault).unwrap();
    }
}

fn both_versions() -> [Stage; 2] {
    [ApiVersion::V1, ApiVersion::V2].map(|version| {
        Stage::with(Settings::default(), Environment { version, ..Environment::simulated("") })
    })
}

fn spec() -> Value {
    json!({"region": REGION, "machineType": "c2i.2", "imageId": PROJECT, "networking": {"networkId": NETWORK},
        "labels": {"kubernetes.io/cluster": "shoot"}, "bootVolume": {"size": 50}})
}

pub fn order_of(machine: &str, more: &Value) -> Order {
    let mut spec = spec();
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    Order {
        identity: Identity { domain: "shoot".into(), machine: machine.into(), class: "c".into() },
        attempt: Attempt("a1".into()),
        spec: Arc::new(spec),
        user_data: Some(UserData::new("#cloud-config")),
    }
}

pub fn order(machine: &str) -> Order {
    order_of(machine, &json!({}))
}

pub fn stackit_id(server: &str) -> ProviderId {
    ProviderId::stackit(PROJECT, server).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_server_is_found_by_its_labels_and_by_nothing_else() {
    let of = |cluster: Option<&'static str>, machine: Option<&'static str>, class: Option<&'static str>| {
        let labels = [
            ("kubernetes.io/cluster", cluster),
            ("kubernetes.io/machine", machine),
            ("kubernetes.io/machineclass", class),
        ];
        labels.into_iter().filter_map(|(key, value)| Some((key, value?))).collect::<Vec<_>>()
    };
    let table = [
        // labels, then whether it is ours
        ("made by the Go provider", of(Some("shoot"), Some("m-1"), Some("c")), true),
        ("of another class", of(Some("shoot"), Some("m-1"), Some("d")), true),
        ("of another cluster", of(Some("other"), Some("m-1"), Some("c")), false),
        ("of no cluster", of(None, Some("m-1"), Some("c")), false),
        ("another machine", of(Some("shoot"), Some("m-2"), Some("c")), false),
        ("no machine", of(Some("shoot"), None, Some("c")), false),
        ("a stranger of that name", of(None, None, None), false),
    ];
    for ignores_selector in [false, true] {
        for (what, labels, ours) in &table {
            let stage =
                Stage::with(Settings { ignores_selector, ..Settings::default() }, Environment::simulated(""));
            let server = stage.cloud.add_foreign(PROJECT, REGION, "m-1", labels);
            let (order, id) = (order("m-1"), stackit_id(&server));
            let found = stage.driver.find(&order.identity, None).await.unwrap().found;
            assert_eq!(found.machines().len(), usize::from(*ours), "{what}");
            let listed = stage.driver.list(&Scope::Domain("shoot".into()), None).await.unwrap();
            assert_eq!(listed.find(&order.identity).found.machines().len(), usize::from(*ours), "{what}");
            let deleted = stage.driver.delete(&order, &id).await;
            if *ours {
                assert_eq!(deleted, Ok(Deletion::Ordered), "{what}");
            } else {
                assert_eq!(deleted.unwrap_err().code, Code::InvalidArgument, "{what}");
                assert_eq!(stage.calls("DeleteServer"), 0, "{what}");
            }
            assert_eq!(stage.cloud.servers()[0].status == "DELETING", *ours, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_is_listed_without_what_others_made() {
    let stage =
        Stage::with(Settings { ignores_selector: true, ..Settings::default() }, Environment::simulated(""));
    stage.driver.create(&order("m-1")).await.unwrap();
    let other_class =
        Order { identity: Identity { class: "d".into(), ..order("m-2").identity }, ..order("m-2") };
    stage.driver.create(&other_class).await.unwrap();
    for labels in [
        vec![],
        vec![("kubernetes.io/machineclass", "c")],
        vec![("kubernetes.io/machineclass", "c"), ("kubernetes.io/cluster", "other")],
    ] {
        stage.cloud.add_foreign(PROJECT, REGION, "x", &labels);
    }
    let scope = Scope::Class { domain: "shoot".into(), class: "c".into() };
    let listed = stage.driver.list(&scope, None).await.unwrap();
    let names: Vec<&str> = listed.machines().iter().map(|machine| machine.name.as_str()).collect();
    assert_eq!(names, ["m-1"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_cluster_label_the_class_decides() {
    let mut order = order_of("m-1", &json!({"labels": null}));
    order.identity.domain = String::new();
    for (class, ours) in [(Some("c"), true), (Some("of-another-cluster"), false), (None, false)] {
        let stage = Stage::new();
        assert_eq!(stage.driver.describe(&order.spec).unwrap().domain, "");
        let mut labels = vec![("kubernetes.io/machine", "m-1")];
        labels.extend(class.map(|class| ("kubernetes.io/machineclass", class)));
        let id = stackit_id(&stage.cloud.add_foreign(PROJECT, REGION, "m-1", &labels));
        let found = stage.driver.find(&order.identity, None).await.unwrap().found;
        assert_eq!(found.machines().len(), usize::from(ours), "{class:?}");
        let deleted = stage.driver.delete(&order, &id).await;
        assert_eq!(stage.calls("DeleteServer"), u64::from(ours), "{class:?}");
        match deleted {
            Ok(deletion) => assert_eq!((deletion, ours), (Deletion::Ordered, true), "{class:?}"),
            Err(failure) => {
                assert_eq!((failure.code, ours), (Code::InvalidArgument, false), "{class:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_match_is_found_and_can_be_deleted() {
    let stage = Stage::new();
    let order = order("m-1");
    for _ in 0..3 {
        stage.driver.create(&order).await.unwrap();
    }
    let Found::Several(machines) = stage.driver.find(&order.identity, None).await.unwrap().found else {
        panic!("not all are found")
    };
    assert_eq!(machines.len(), 3);
    for machine in machines {
        stage.gone(&order, &machine.provider_id).await;
    }
    assert_eq!(stage.driver.find(&order.identity, None).await.unwrap().found, Found::Absent);
    assert!(
        stage.cloud.servers().is_empty() && stage.cloud.volumes().is_empty() && stage.cloud.nics().is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn only_an_id_of_this_project_is_asked_for() {
    let stage = Stage::new();
    for id in
        ["stackit://22222222-2222-4333-8444-555555555555/s", "stackit://s", "stackit:///s", "metal://p/s"]
    {
        let id: ProviderId = id.parse().unwrap();
        let order = order("m-1");
        let asked = stage.driver.find(&order.identity, Some(&id)).await.unwrap_err();
        let deleted = stage.driver.delete(&order, &id).await.unwrap_err();
        assert_eq!((asked.code, deleted.code), (Code::InvalidArgument, Code::InvalidArgument), "{id}");
    }
    assert_eq!(stage.cloud.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_apis_own_word_means_gone() {
    let stage = Stage::new();
    let order = order("m-1");
    let machine = stage.booted(&order).await;
    let faults = [
        Fault::on("GetServer").status(401),
        Fault::on("GetServer").status(403),
        Fault::on("GetServer").status(500),
        Fault::on("GetServer").dropped(),
        Fault { answer: hostler_sim::stackit::Spoiled::Page, ..Fault::on("GetServer").status(404) },
        Fault { answer: hostler_sim::stackit::Spoiled::Empty, ..Fault::on("GetServer").status(404) },
        Fault { answer: hostler_sim::stackit::Spoiled::Empty, ..Fault::on("GetServer") },
    ];
    for fault in faults {
        stage.fault(fault.clone());
        let asked = stage.driver.find(&order.identity, Some(&machine.provider_id)).await.unwrap_err();
        let deleted = stage.driver.delete(&order, &machine.provider_id).await.unwrap_err();
        assert!(
            asked.code != Code::NotFound && deleted.code != Code::NotFound,
            "{fault:?}: {asked} {deleted}"
        );
        assert_eq!(stage.calls("DeleteServer"), 0, "what cannot be looked at is not deleted: {fault:?}");
        stage.cloud.clear_faults();
    }
}

#[tokio::test(start_paused = true)]
async fn a_life_in_both_versions_of_the_api() {
    for stage in both_versions() {
        let more = json!({"allowedAddresses": ["10.0.0.0/8"], "bootVolume": null});
        let order = order_of("m-1", &more);
        let machine = stage.booted(&order).await;
        assert_eq!(machine.marks.attempt, Some(Attempt("a1".into())));
        stage.settle(&order, &machine).await;
        assert_eq!(stage.cloud.nics()[0].allowed_addresses, ["10.0.0.0/8"]);
        let changes = stage.calls("UpdateNic") + stage.calls("UpdateAttachedVolume");
        assert_eq!(stage.settle(&order, &machine).await, [""; 0], "once is enough");
        assert_eq!(stage.calls("UpdateNic") + stage.calls("UpdateAttachedVolume"), changes);
        stage.gone(&order, &machine.provider_id).await;
        assert!(stage.cloud.volumes().is_empty() && stage.cloud.nics().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_nothing_costs_no_call_to_settle() {
    let stage = Stage::new();
    let machine = stage.booted(&order("m-1")).await;
    let before: u64 = stage.cloud.calls().values().sum();
    stage.settle(&order("m-1"), &machine).await;
    assert_eq!(stage.cloud.calls().values().sum::<u64>(), before);
}

#[tokio::test(start_paused = true)]
async fn what_others_put_on_a_nic_stays() {
    let stage = Stage::new();
    let order = order_of("m-1", &json!({"allowedAddresses": ["10.0.0.1/8", "fd00::/8", "10.0.0.0/8"]}));
    let machine = stage.booted(&order).await;
    let second = stage.other.create_nic(PROJECT, &NewNic::default()).await.unwrap().id;
    stage.other.add_nic(machine.provider_id.server(), &second).await.unwrap();
    let nic = stage.cloud.nics().into_iter().find(|nic| nic.network == NETWORK).unwrap().id;
    let allow = async |addresses: &[&str]| {
        let allowed_addresses = Some(addresses.iter().map(|address| (*address).to_owned()).collect());
        let change = NicChange { allowed_addresses, ..NicChange::default() };
        stage.other.update_nic(NETWORK, &nic, &change).await.unwrap();
    };
    let allowed = |id: &str| {
        stage.cloud.nics().into_iter().find(|nic| nic.id == id).unwrap().allowed_addresses.join(" ")
    };
    allow(&["1.2.3.4", "192.168.0.0/16"]).await;
    stage.settle(&order, &machine).await;
    assert_eq!(allowed(&nic), "1.2.3.4 192.168.0.0/16 10.0.0.1/8 fd00::/8");
    assert_eq!(allowed(&second), "", "a NIC in another network is none of ours");
    // What somebody takes away later comes back; another spelling will do.
    allow(&["10.0.0.0/8", "1.2.3.4"]).await;
    stage.settle(&order, &machine).await;
    assert_eq!(allowed(&nic), "10.0.0.0/8 1.2.3.4 fd00::/8");
}

#[tokio::test(start_paused = true)]
async fn a_nic_that_changes_at_the_same_time_is_read_again() {
    let stage = Stage::new();
    let order = order_of("m-1", &json!({"allowedAddresses": ["10.0.0.0/8"]}));
    let machine = stage.booted(&order).await;
    stage.fault(Fault::on("UpdateNic").status(409).times(2));
    stage.settle(&order, &machine).await;
    assert_eq!((stage.calls("UpdateNic"), stage.calls("GetNic")), (3, 2));
    assert_eq!(stage.cloud.nics()[0].allowed_addresses, ["10.0.0.0/8"]);
    stage.cloud.clear_faults();

    let second = order_of("m-2", &json!({"allowedAddresses": ["10.0.0.0/8"]}));
    let machine = stage.booted(&second).await;
    stage.fault(Fault::on("UpdateNic").status(409));
    let failure = stage.driver.settle(&second, &machine).await.unwrap_err();
    assert_eq!(failure.code, Code::Aborted);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_puts_on_a_nic_between_a_refusal_and_the_next_try_stays() {
    let stage = Stage::new();
    let order = order_of("m-1", &json!({"allowedAddresses": ["10.0.0.0/8"]}));
    let machine = stage.booted(&order).await;
    // Each change is refused once, because just then somebody else has made one.
    let (cloud, changes) = (stage.cloud.clone(), Arc::new(AtomicU8::new(0)));
    let contested = cloud.router().layer(from_fn(move |request: Request, next: Next| {
        let (cloud, changes) = (cloud.transport(), Arc::clone(&changes));
        async move {
            let is_change = request.method() == Method::PATCH && request.uri().path().contains("/nics/");
            let number = if is_change { changes.fetch_add(1, Ordering::SeqCst) } else { u8::MAX };
            let theirs = match number {
                0 => json!({"allowedAddresses": ["1.2.3.4"]}),
                1 => json!({"allowedAddresses": ["5.6.7.8", "1.2.3.4"]}),
                _ => return next.run(request).await,
            };
            let other = Request::patch(request.uri().clone()).header("content-type", "application/json");
            let other = other.body(transport::full(theirs.to_string())).unwrap();
            transport::exchange(&cloud, other, 1 << 20).await.unwrap();
            let refusal = json!({"code": 409, "msg": "it has changed meanwhile"});
            (StatusCode::CONFLICT, axum::Json(refusal)).into_response()
        }
    }));
    let contested = transport::from_service(contested.into_service::<hostler_base::Body>());
    let factory =
        StackitFactory::with_environment(surroundings(contested, &stage.clock), Environment::simulated(""));
    let credentials = Credentials::new([("project-id", PROJECT)]);
    let driver = factory.driver(&credentials, &order.spec, Written::default()).unwrap();
    assert!(matches!(driver.settle(&order, &machine).await, Ok(Settled::Done(_))));
    assert_eq!(stage.cloud.nics()[0].allowed_addresses, ["5.6.7.8", "1.2.3.4", "10.0.0.0/8"]);
    assert_eq!(stage.calls("GetNic"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_of_somebody_else_is_not_settled() {
    let stage = Stage::new();
    let order = order_of("m-1", &json!({"allowedAddresses": ["10.0.0.0/8"], "bootVolume": null}));
    let labels = [("kubernetes.io/machine", "m-1"), ("kubernetes.io/cluster", "other")];
    let server = stage.cloud.add_foreign(PROJECT, REGION, "m-1", &labels);
    stage.clock.sleep(Duration::from_secs(10)).await;
    let machine = stage.ask(&order.identity, &stackit_id(&server)).await.unwrap();
    let failure = stage.driver.settle(&order, &machine).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    assert_eq!(stage.calls("UpdateNic") + stage.calls("UpdateAttachedVolume"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_what_does_not_exist_and_what_does() {
    let image = "00000000-0000-4000-8000-000000000001";
    let machine_type = |name: &str| MachineType { name: name.to_owned(), vcpus: 2, ram: 4096, disk: 0 };
    let catalogue = Catalogue {
        machine_types: ["c2i.2", "c2i.4", "m2i.8"].map(machine_type).to_vec(),
        images: BTreeMap::from([(image.to_owned(), "Flatcar".to_owned())]),
        networks: BTreeMap::from([(NETWORK.to_owned(), "nodes".to_owned())]),
        keypairs: ["operators".to_owned()].into(),
        availability_zones: vec!["eu01-1".to_owned(), "eu01-2".to_owned()],
    };
    let settings = Settings { catalogue: Some(catalogue), ..Settings::default() };
    let stage = Stage::with(settings, Environment::simulated(""));
    let good = json!({"imageId": image});
    stage.driver.create(&order_of("m-0", &good)).await.unwrap();
    assert_eq!(stage.calls("GetMachineType") + stage.calls("GetImage"), 0, "nobody asks before a refusal");

    let bad = json!({"imageId": image, "machineType": "c2i.3", "keypairName": "operator", "availabilityZone": "eu01-3",
        "affinityGroup": PROJECT});
    for _ in 0..3 {
        let failure = stage.driver.create(&order_of("m-1", &bad)).await.unwrap_err();
        assert!(matches!(failure.code, Code::InvalidArgument | Code::FailedPrecondition), "{failure}");
        for part in [
            "STACKIT answered 4",
            "providerSpec.machineType: \"c2i.3\" does not exist; the closest that do: c2i.2, c2i.4",
            "providerSpec.keypairName: \"operator\" does not exist; the closest that do: operators",
            "providerSpec.availabilityZone: \"eu01-3\" does not exist; the closest that do: eu01-1, eu01-2",
            "providerSpec.affinityGroup:",
        ] {
            assert!(failure.message.contains(part), "{part}: {failure}");
        }
        assert!(!failure.message.contains("imageId"), "that one exists: {failure}");
    }
    assert_eq!((stage.calls("GetMachineType"), stage.calls("GetImage")), (1, 1), "once per class");

    let lost = json!({"imageId": "00000000-0000-4000-8000-000000000002"});
    let failure = stage.driver.create(&order_of("m-1", &lost)).await.unwrap_err();
    assert!(failure.message.contains(&format!("the closest that do: {image} (Flatcar)")), "{failure}");

    // Who gives no advice does not change what the cloud decided, and holds nobody up for long.
    stage.fault(Fault { delay: 3600.0, ..Fault::on("GetMachineType") });
    let begun = tokio::time::Instant::now();
    let failure = stage
        .driver
        .create(&order_of("m-1", &json!({"imageId": image, "machineType": "c2i.9"})))
        .await
        .unwrap_err();
    assert!(failure.message.starts_with("STACKIT answered 400"), "{failure}");
    assert!(!failure.message.contains("the closest that do"), "it came too late: {failure}");
    assert!(begun.elapsed() <= Duration::from_secs(9), "{:?}", begun.elapsed());
    assert_eq!(stage.cloud.servers().len(), 1);
}

/// Whatever becomes of the look-ups of a class for the first time, an order that the cloud takes is not delayed by them.
#[tokio::test(start_paused = true)]
async fn an_order_that_is_taken_waits_for_no_advice() {
    let stage = Stage::new();
    let lookups = ["GetMachineType", "GetImage", "GetKeyPair", "GetAffinityGroup", "ListAvailabilityZones"];
    for operation in lookups {
        stage.fault(Fault { delay: 3600.0, ..Fault::on(operation) });
    }
    let begun = tokio::time::Instant::now();
    let spec = json!({"keypairName": "operators", "availabilityZone": "eu01-1"});
    stage.driver.create(&order_of("m-1", &spec)).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_answers_to_an_order_has_its_code() {
    let table = [
        (400, Code::InvalidArgument),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::FailedPrecondition),
        (409, Code::Aborted),
        (413, Code::ResourceExhausted),
        (429, Code::Unavailable),
        (500, Code::Unavailable),
        (502, Code::Unavailable),
        (504, Code::DeadlineExceeded),
    ];
    for (status, code) in table {
        let stage = Stage::new();
        stage.fault(Fault::on("CreateServer").status(status));
        let failure = stage.driver.create(&order("m-1")).await.unwrap_err();
        assert_eq!(failure.code, code, "{status}: {failure}");
        if status >= 500 {
            assert_eq!(
                stage.calls("CreateServer"),
                1,
                "{status}: an order with an unknown outcome is sent once"
            );
        }
    }
    for (quota, status) in [("vcpu", 403), ("ram", 413), ("nics", 400)] {
        let settings =
            Settings { quotas: [(quota.to_owned(), 0)].into(), quota_status: status, ..Settings::default() };
        let stage = Stage::with(settings, Environment::simulated(""));
        let failure = stage.driver.create(&order("m-1")).await.unwrap_err();
        assert_eq!(failure.code, Code::ResourceExhausted, "{quota}: {failure}");
    }
    let settings = Settings { capacity: [("c2i.2".to_owned(), 0)].into(), ..Settings::default() };
    let stage = Stage::with(settings, Environment::simulated(""));
    let machine = stage.booted(&order("m-1")).await;
    let failure = stage.driver.settle(&order("m-1"), &machine).await.unwrap_err();
    assert_eq!(failure.code, Code::ResourceExhausted);
    assert!(failure.message.contains("No valid host was found"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn an_order_is_checked_before_it_is_sent() {
    let stage = Stage::new();
    let warnings = stage.driver.check(&order("m-1"), 1).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let bad = order_of("m-1", &json!({"machineType": "", "networking": {"nicIds": [PROJECT]}}));
    let failure = stage.driver.check(&bad, 2).unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    for part in ["providerSpec.machineType", "providerSpec.networking.nicIds", "2 Machines"] {
        assert!(failure.message.contains(part), "{part}: {failure}");
    }
    assert_eq!(stage.driver.create(&bad).await.unwrap_err().code, Code::InvalidArgument);
    let unreadable = order_of("m-1", &json!({"volumes": 7}));
    assert_eq!(stage.driver.check(&unreadable, 1).unwrap_err().code, Code::Internal);
    assert_eq!(stage.driver.create(&unreadable).await.unwrap_err().code, Code::Internal);
    assert_eq!(stage.calls("CreateServer"), 0);

    let described = stage.driver.describe(&order_of("m", &json!({"userData": "own"})).spec).unwrap();
    assert_eq!((described.domain.as_str(), described.user_data.unwrap().expose()), ("shoot", "own"));
    let described = stage.driver.describe(&order_of("m", &json!({"labels": null})).spec).unwrap();
    assert!(described.domain.is_empty() && described.user_data.is_none());
}

#[tokio::test(start_paused = true)]
async fn labels_of_another_domain_are_another_world() {
    let variables = BTreeMap::from([("CUSTOM_LABEL_DOMAIN".to_owned(), "ske.example".to_owned())]);
    let labels = Environment::read(&variables).unwrap().labels;
    assert_eq!(labels, LabelNames::new("ske.example"));
    let stage = Stage::with(Settings::default(), Environment { labels, ..Environment::simulated("") });
    let usual = [
        ("kubernetes.io/machine", "m-1"),
        ("kubernetes.io/machineclass", "c"),
        ("kubernetes.io/cluster", "shoot"),
    ];
    stage.cloud.add_foreign(PROJECT, REGION, "m-1", &usual);
    assert_eq!(stage.driver.find(&order("m-1").identity, None).await.unwrap().found, Found::Absent);
    let machine = stage.driver.create(&order("m-1")).await.unwrap();
    let found = stage.driver.find(&order("m-1").identity, None).await.unwrap().found;
    assert!(matches!(found, Found::One(found) if found.provider_id == machine.provider_id));
    for wrong in ["a b", "-x", &"d".repeat(60)] {
        let variables = BTreeMap::from([("CUSTOM_LABEL_DOMAIN".to_owned(), wrong.to_owned())]);
        let failure = Environment::read(&variables).unwrap_err();
        assert!(failure.message.contains("CUSTOM_LABEL_DOMAIN"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_of_this_cloud_have_ids_and_others_have_none() {
    let csi = |driver: &str, handle: &str| VolumeSource::Csi { driver: driver.into(), handle: handle.into() };
    let in_tree = |kind: &str, id: &str| VolumeSource::InTree { kind: kind.into(), id: id.into() };
    let volumes = [
        csi("block-storage.csi.stackit.cloud", "v1"),
        csi("ebs.csi.aws.com", "v2"),
        csi("cinder.csi.openstack.org", "v3"),
        in_tree("cinder", "v4"),
        in_tree("awsElasticBlockStore", "v5"),
        csi("block-storage.csi.stackit.cloud", ""),
    ];
    assert_eq!(Stage::new().driver.volumes(&volumes).await.unwrap(), ["v1", "v3", "v4"]);
}

#[tokio::test(start_paused = true)]
async fn a_console_tells_why_without_telling_secrets() {
    let console = "booting\nkubelet --token abcdef.0123456789abcdef\nkubelet: cannot reach the API server";
    let settings =
        Settings { consoles: [("m-1".to_owned(), console.to_owned())].into(), ..Settings::default() };
    let stage = Stage::with(settings, Environment::simulated(""));
    let machine = stage.booted(&order("m-1")).await;
    let tail = stage.driver.console(&machine.provider_id).await.unwrap();
    assert_eq!(tail, "booting\nkubelet --token [hidden]\nkubelet: cannot reach the API server");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_looked_after_where_it_is_written_that_it_is() {
    let stage = Stage::new();
    let order = order("m-1");
    let machine = stage.booted(&order).await;
    let place = stage.driver.place();
    let surroundings = surroundings(stage.cloud.transport(), &stage.clock);
    let factory = StackitFactory::with_environment(surroundings, Environment::simulated(""));
    let elsewhere =
        Credentials::new([("project-id", "22222222-2222-4333-8444-555555555555"), ("region", "eu02")]);
    let spec = json!({"region": "eu02", "labels": 7});
    assert_eq!(factory.driver(&elsewhere, &spec, Written::default()).err().unwrap().code, Code::Internal);
    let written = Written { place: Some(&place), id: Some(&machine.provider_id) };
    let driver = factory.driver(&elsewhere, &spec, written).unwrap();
    assert_eq!(driver.place(), place);
    let order = Order { spec: Arc::new(spec), ..order };
    assert_eq!(driver.delete(&order, &machine.provider_id).await.unwrap(), Deletion::Ordered);
}

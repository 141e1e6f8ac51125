//! Client and driver on the simulated VPSie, which was written by the same facts and shares nothing with them.

use futures::future::join_all;
use hostler_base::{Chance, Clock, transport};
use hostler_driver::{
    Attempt, Code, Credentials, Deletion, Driver, DriverFactory, Finding, Found, How, Identity, Machine,
    Order, Settled, State, UserData, Written, client::Surroundings, gone_twice,
};
use hostler_sim::vpsie::{
    CreateAnswer, KeyHeader, NodeShape, Settings, SoldOut, TokenAnswer, Total, VmStage, Vpsie, WorkerAnswer,
    identifier_of,
};
use hostler_vpsie::{Account, Kind, NodeIdentity, VpsieFactory, What, marks};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const URL: &str = "http://localhost/apps/v2";

struct Stage {
    cloud: Vpsie,
    factory: VpsieFactory,
    clock: Clock,
}

impl Stage {
    fn new(settings: Settings) -> Self {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        let cloud = Vpsie::new(settings, clock.clone(), Chance::from_seed(1));
        let surroundings =
            Surroundings { transport: cloud.transport(), clock: clock.clone(), chance: Chance::from_seed(2) };
        Self { cloud, factory: VpsieFactory::new(surroundings), clock }
    }

    fn account(&self) -> Account {
        self.factory.account(&key("k")).unwrap()
    }

    fn driver(&self) -> Arc<dyn Driver> {
        self.factory.driver(&key("k"), &spec(json!({})), Written::default()).unwrap()
    }

    async fn until_there(&self, driver: &dyn Driver, identity: &Identity) -> Machine {
        for _ in 0..600 {
            let Finding { found, evidence } = driver.find(identity, None).await.unwrap();
            if let Found::One(machine) = found
                && machine.state == State::Running
            {
                return *machine;
            }
            assert!(evidence.how == How::Queued || self.clock.now() < lag(driver) || !self.is_between());
            self.clock.sleep(Duration::from_secs(1)).await;
        }
        panic!("{identity:?} never came");
    }

    fn is_between(&self) -> bool {
        self.cloud.vms().iter().any(|vm| matches!(vm.stage, VmStage::Queued | VmStage::Between))
    }
}

fn lag(driver: &dyn Driver) -> Timestamp {
    Timestamp::UNIX_EPOCH.checked_add(driver.list_lag()).unwrap()
}

fn key(token: &str) -> Credentials {
    Credentials::new([("token", token), ("url", URL)])
}

fn spec(more: Value) -> Value {
    let mut spec = json!({"cluster": "shoot", "datacenterID": "dc-us-east-1", "offeringID": "small-2cpu-4gb",
        "osImageID": "ubuntu-22.04-lts"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn identity(domain: &str, machine: &str) -> Identity {
    Identity { domain: domain.into(), machine: machine.into(), class: "c".into() }
}

fn order(identity: &Identity, more: Value) -> Order {
    Order {
        identity: identity.clone(),
        attempt: Attempt("a1".into()),
        spec: Arc::new(spec(more)),
        user_data: Some(UserData::new("#cloud-config\n")),
    }
}

fn ways() -> Vec<Settings> {
    let seconds = Duration::from_secs;
    vec![
        Settings::default(),
        Settings {
            queue_lag: seconds(5),
            queue_time: seconds(200),
            list_gap: seconds(60),
            boot_time: seconds(60),
            delete_time: seconds(90),
            deleted_time: seconds(30),
            ..Settings::default()
        },
        Settings {
            errors_with_200: true,
            total: Total::WithSpace,
            create_answer: CreateAnswer::Nothing,
            capital_hostnames: true,
            plain_identifiers: true,
            ..Settings::default()
        },
        Settings {
            missing_with_200: false,
            total: Total::Missing,
            create_answer: CreateAnswer::Done,
            gone_lag: seconds(20),
            ..Settings::default()
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn a_vps_comes_is_found_by_its_owner_only_and_goes() {
    for settings in ways() {
        let stage = Stage::new(settings);
        let driver = stage.driver();
        let (ours, theirs) = (identity("shoot", "m-1"), identity("other", "m-1"));
        for identity in [&ours, &theirs] {
            let taken = driver.create(&order(identity, json!({"notes": "for Ann"}))).await.unwrap_err();
            assert_eq!(taken.code, Code::Uninitialized, "{taken}");
        }
        let machine = stage.until_there(&*driver, &ours).await;
        let other = stage.until_there(&*driver, &theirs).await;
        assert_ne!(machine.provider_id, other.provider_id);
        assert_eq!(machine.marks.attempt, Some(Attempt("a1".into())));
        let id = &machine.provider_id;
        let settled = driver.settle(&order(&ours, json!({})), &machine).await.unwrap();
        assert!(matches!(settled, Settled::Done(done) if !done.addresses.is_empty()));
        let user_data = stage.cloud.user_data(id.server()).unwrap();
        assert_eq!(user_data, b"#cloud-config\n");

        let failure = driver.delete(&order(&theirs, json!({})), id).await.unwrap_err();
        assert_eq!(failure.code, Code::InvalidArgument, "{failure}");
        assert_eq!(driver.delete(&order(&ours, json!({})), id).await, Ok(Deletion::Ordered));
        loop {
            let asked = driver.find(&ours, Some(id)).await.unwrap();
            let listed = driver.find(&ours, None).await.unwrap();
            if gone_twice(&asked, &listed) {
                break;
            }
            let shown = asked.found.machines().iter().chain(listed.found.machines());
            assert!(shown.into_iter().all(|machine| machine.state == State::Deleting));
            stage.clock.sleep(Duration::from_secs(5)).await;
        }
        let left: Vec<String> =
            stage.cloud.vms().into_iter().filter(|vm| !vm.is_deleted).map(|vm| vm.identifier).collect();
        assert_eq!(left, [other.provider_id.server()]);
        assert_eq!(stage.cloud.calls()["DeleteVM"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn between_queue_and_list_it_never_looks_as_if_there_were_none() {
    let seconds = Duration::from_secs;
    let stage = Stage::new(Settings {
        queue_lag: seconds(10),
        queue_time: seconds(300),
        list_gap: seconds(120),
        ..Settings::default()
    });
    let driver = stage.driver();
    let own = identity("shoot", "m-1");
    driver.create(&order(&own, json!({}))).await.unwrap_err();
    let (ordered, mut queued) = (stage.clock.now(), 0);
    loop {
        let Finding { found, evidence } = driver.find(&own, None).await.unwrap();
        if found != Found::Absent {
            break;
        }
        queued += usize::from(evidence.how == How::Queued);
        assert!(!evidence.rules_out_attempt(ordered, driver.list_lag()), "after {:?}", stage.clock.now());
        stage.clock.sleep(seconds(7)).await;
    }
    assert!(queued > 30, "{queued}");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_comes_is_given_up() {
    for settings in [
        Settings { never_appears: ["m-1".to_owned()].into(), ..Settings::default() },
        Settings {
            sold_out_answer: SoldOut::Lost,
            sold_out: ["small-2cpu-4gb".to_owned()].into(),
            ..Settings::default()
        },
    ] {
        let stage = Stage::new(settings);
        let driver = stage.driver();
        let own = identity("shoot", "m-1");
        driver.create(&order(&own, json!({}))).await.unwrap_err();
        let ordered = stage.clock.now();
        for _ in 0..20 {
            driver.find(&own, None).await.unwrap();
            stage.clock.sleep(Duration::from_secs(60)).await;
        }
        let evidence = driver.find(&own, None).await.unwrap().evidence;
        assert!(evidence.rules_out_attempt(ordered, driver.list_lag()));
    }
}

#[tokio::test(start_paused = true)]
async fn keys_networks_and_tags_are_added_when_it_runs() {
    let stage = Stage::new(Settings::default());
    let driver = stage.driver();
    let own = identity("shoot", "m-1");
    let vpc = stage.account().client.list_vpcs().await.unwrap().pop().and_then(|vpc| vpc.name);
    let mut more = json!({"sshKeyIDs": ["ssh-key-123", "ssh-key-456"], "tags": ["web"]});
    if let Some(vpc) = &vpc {
        more["vpcID"] = json!(vpc);
    }
    let order = order(&own, more);
    driver.create(&order).await.unwrap_err();
    let machine = stage.until_there(&*driver, &own).await;
    let mut steps = 0;
    loop {
        match driver.settle(&order, &machine).await.unwrap() {
            Settled::Done(_) => break,
            Settled::Did(_) | Settled::Waiting(_) => steps += 1,
        }
        assert!(steps < 20);
        stage.clock.sleep(Duration::from_secs(1)).await;
    }
    let vm = stage.cloud.vms().pop().unwrap();
    assert_eq!(vm.ssh_keys.len(), 2);
    assert!(vm.tags.contains(&"web".to_owned()) && vm.tags.contains(&marks::tag(&own)), "{:?}", vm.tags);
    assert!(vpc.is_none() || vm.private_ip.is_some());
    let before = stage.cloud.calls();
    assert!(matches!(driver.settle(&order, &machine).await.unwrap(), Settled::Done(_)));
    let changed = ["AddTags", "AddSshKeyToVM", "AddVMToVpc"]
        .map(|name| stage.cloud.calls().get(name) == before.get(name));
    assert_eq!(changed, [true; 3], "nothing is done twice");
}

#[tokio::test(start_paused = true)]
async fn what_vpsie_refuses_has_its_code_and_its_name() {
    for with_200 in [false, true] {
        let settings = |change: fn(&mut Settings)| {
            let mut settings = Settings { errors_with_200: with_200, ..Settings::default() };
            change(&mut settings);
            settings
        };
        let table: [(Settings, Value, Code, &str); 6] = [
            (
                settings(|all| all.max_vms = Some(0)),
                json!({}),
                Code::ResourceExhausted,
                "Insufficient VPSie quota",
            ),
            (
                settings(|all| all.sold_out = ["small-2cpu-4gb".to_owned()].into()),
                json!({}),
                Code::ResourceExhausted,
                "Instance type not available",
            ),
            (
                settings(|_| {}),
                json!({"datacenterID": "dc-us-east-9"}),
                Code::InvalidArgument,
                "Datacenter not found",
            ),
            (
                settings(|_| {}),
                json!({"datacenterID": "11111111-1111-4111-8111-111111111111", "offeringID": "22222222-1111-4111-8111-111111111111"}),
                Code::FailedPrecondition,
                "Datacenter not found",
            ),
            (
                settings(|_| {}),
                json!({"offeringID": "11111111-1111-4111-8111-111111111111"}),
                Code::FailedPrecondition,
                "Instance type not available",
            ),
            (
                settings(|all| all.require_token = true),
                json!({}),
                Code::Unauthenticated,
                "VPSie API authentication failed",
            ),
        ];
        for (settings, more, code, name) in table {
            let stage = Stage::new(settings);
            let failure =
                stage.driver().create(&order(&identity("shoot", "m-1"), more.clone())).await.unwrap_err();
            assert_eq!(failure.code, code, "{more} {failure}");
            assert!(failure.message.starts_with(name), "{more} {failure}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_identifier_is_explained_by_what_there_is() {
    let stage = Stage::new(Settings::default());
    let wrong = json!({"offeringID": "11111111-1111-4111-8111-111111111111"});
    let failure = stage.driver().create(&order(&identity("shoot", "m-1"), wrong)).await.unwrap_err();
    assert!(
        failure.message.contains("providerSpec.offeringID")
            && failure.message.contains("the closest that do"),
        "{failure}"
    );
}

#[tokio::test(start_paused = true)]
async fn either_way_of_letting_in_is_found() {
    for header in [KeyHeader::VpsieAuth, KeyHeader::Bearer, KeyHeader::Both] {
        let stage = Stage::new(Settings {
            tokens: ["k".to_owned()].into(),
            key_header: header,
            ..Settings::default()
        });
        let client = stage.account().client;
        for _ in 0..3 {
            client.list_vms().await.unwrap();
        }
        let wrong = stage.factory.account(&key("wrong")).unwrap().client.list_vms().await.unwrap_err();
        assert_eq!(wrong.code, Code::Unauthenticated, "{wrong}");
    }
    for answer in [TokenAnswer::AccessToken, TokenAnswer::Token, TokenAnswer::WithoutExpiry] {
        let clients = BTreeMap::from([("me".to_owned(), "s&cret".to_owned())]);
        let stage = Stage::new(Settings {
            clients,
            token_answer: answer,
            token_life: Duration::from_secs(3_600),
            ..Settings::default()
        });
        let credentials = Credentials::new([("clientID", "me"), ("clientSecret", "s&cret"), ("url", URL)]);
        let client = stage.factory.account(&credentials).unwrap().client;
        for _ in 0..40 {
            client.list_vms().await.unwrap();
            stage.clock.sleep(Duration::from_secs(300)).await;
        }
        let exchanges = stage.cloud.calls()["ExchangeToken"];
        assert!((4..=5).contains(&exchanges), "{exchanges}");
    }
}

#[tokio::test(start_paused = true)]
async fn vpsie_is_never_called_too_often_and_orders_go_first() {
    let stage = Stage::new(Settings { max_vms: None, ..Settings::default() });
    let (driver, client) = (stage.driver(), stage.account().client);
    let until = stage.clock.instant() + Duration::from_secs(300);
    let reads = join_all((0..20).map(|_| async {
        while stage.clock.instant() < until {
            if let Err(failure) = client.list_vms().await {
                assert!(failure.message.contains("as often as it allows"), "{failure}");
                stage.clock.sleep(Duration::from_secs(1)).await;
            }
        }
    }));
    let orders = async {
        let mut longest = Duration::ZERO;
        for number in 0..60 {
            let own = identity("shoot", &format!("m-{number}"));
            let begun = stage.clock.instant();
            assert_eq!(driver.create(&order(&own, json!({}))).await.unwrap_err().code, Code::Uninitialized);
            longest = longest.max(stage.clock.instant() - begun);
            stage.clock.sleep(Duration::from_secs(5)).await;
        }
        longest
    };
    let (_, longest) = tokio::join!(reads, orders);
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    assert_eq!(stage.cloud.vms().len(), 60);
}

#[tokio::test(start_paused = true)]
async fn names_are_found_in_what_there_is() {
    let stage = Stage::new(Settings::default());
    let Account { catalogue, .. } = stage.account();
    let find = async |kind: Kind, name: &str| catalogue.find(&kind, "f", name).await.unwrap().unwrap();
    let datacenter = find(Kind::Datacenter, "dc-us-east-1").await.identifier;
    let image = find(Kind::Image, "ubuntu-22.04-lts").await;
    assert_eq!(image.what, What::Plain);
    assert_eq!(find(Kind::Image, "node-image").await.what, What::OwnImage);
    find(Kind::SshKey, "ssh-key-456").await;
    let offerings = catalogue.offerings(&datacenter, &image.identifier).await.unwrap();
    let small = offerings.iter().find(|offering| offering.name == "small-2cpu-4gb").unwrap();
    assert_eq!((small.millicores, small.memory_bytes), (2_000, 4 << 30));
    assert!(small.price.as_ref().is_some_and(|price| price.micros_per_hour > 1_000), "{small:?}");
    let own = order(&identity("shoot", "m-1"), json!({"osImageID": "node-image"}));
    let taken = stage.driver().create(&own).await.unwrap_err();
    assert_eq!((taken.code, stage.cloud.calls()["CreateCustomVM"]), (Code::Uninitialized, 1), "{taken}");
    stage.cloud.set(|settings| settings.lists_images = false);
    catalogue.forget();
    assert_eq!(catalogue.find(&Kind::Image, "f", &image.identifier).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn nodes_with_uids_are_kept_apart_from_those_of_other_clusters() {
    let stage = Stage::new(Settings::default());
    let driver = stage.driver();
    let uid = |number: u8| format!("0000000{number}-0000-4000-8000-000000000000");
    let node = |cluster: u8, node: u8| NodeIdentity { cluster: uid(cluster), group: uid(7), node: uid(node) };
    for (cluster, number) in [(1, 3), (1, 4), (2, 3)] {
        let more = json!({"hostname": format!("workers-{number}")});
        let taken = driver.create(&order(&node(cluster, number).identity(), more)).await.unwrap_err();
        assert_eq!(taken.code, Code::Uninitialized, "{taken}");
    }
    let machine = stage.until_there(&*driver, &node(1, 3).identity()).await;
    assert_eq!(NodeIdentity::of(&machine.marks), Some(node(1, 3)));
    let scope = hostler_driver::Scope::Domain(uid(1));
    let snapshot = driver.list(&scope, Some(stage.clock.now())).await.unwrap();
    assert_eq!(snapshot.machines().len(), 2);
}

/// The user makes clusters, no client of ours does.
async fn make_cluster(stage: &Stage) {
    let project = stage.account().client.list_projects().await.unwrap().pop().unwrap();
    let body = json!({"clusterName": "prod", "dcIdentifier": identifier_of("dc-us-east-1"), "nodesCountMaster": 1,
        "nodesCountSlave": 1, "kuberVer": "v1.30.1", "resourceIdentifier": identifier_of("small-2cpu-4gb"),
        "projectIdentifier": project.identifier, "vpcId": 1});
    let request = http::Request::post(format!("{URL}/k8s/create/cluster"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(transport::full(body.to_string()))
        .unwrap();
    let answer = transport::exchange(&stage.cloud.transport(), request, 1 << 20).await.unwrap();
    assert!(answer.status().is_success(), "{:?}", answer.body());
}

#[tokio::test(start_paused = true)]
async fn workers_of_managed_clusters_come_and_go() {
    for (worker, shape) in [
        (WorkerAnswer::Truth, NodeShape::Roles),
        (WorkerAnswer::Object, NodeShape::Union),
        (WorkerAnswer::Truth, NodeShape::Numbers),
    ] {
        let stage = Stage::new(Settings { worker_answer: worker, node_shape: shape, ..Settings::default() });
        make_cluster(&stage).await;
        let client = stage.account().client;
        let clusters = client.list_clusters().await.unwrap();
        let [cluster] = clusters.as_slice() else { panic!("{clusters:?}") };
        assert_eq!((cluster.name.as_deref(), cluster.version.as_deref()), (Some("prod"), Some("1.30.1")));
        let cluster = cluster.identifier.clone().unwrap();
        let group = client.list_node_groups(&cluster).await.unwrap().pop().unwrap();
        assert_eq!((group.cpu, group.ram), (Some(2), Some(4_096)));
        let offers = client.list_kubernetes_offers(&identifier_of("dc-us-east-1")).await.unwrap();
        assert!(offers.iter().any(|offer| offer.cpu == Some(2) && offer.hourly_micros().is_some()));
        stage.clock.sleep(Duration::from_secs(60)).await;
        let before = stage.cloud.workers().len();
        let added = client.add_worker(&cluster, group.id).await.unwrap();
        assert_eq!(added.identifier.is_some(), worker == WorkerAnswer::Object);
        client.add_worker(&cluster, None).await.unwrap();
        stage.clock.sleep(Duration::from_secs(60)).await;
        let page = client.get_cluster(&cluster).await.unwrap();
        assert!(page.nodes().len() > before && page.nodes().iter().all(|node| node.hostname.is_some()));
        let worker = stage.cloud.workers().pop().unwrap().identifier;
        client.remove_worker(&cluster, &worker).await.unwrap();
        stage.clock.sleep(Duration::from_secs(60)).await;
        assert!(stage.cloud.workers().iter().all(|one| one.identifier != worker));
        assert_eq!(client.remove_worker(&cluster, &worker).await.unwrap_err().code, Code::NotFound);
        assert_eq!(client.list_vms().await.unwrap(), Vec::new(), "workers are no VPSs");
    }
}

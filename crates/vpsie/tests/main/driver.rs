//! The driver, on answers as VPSie gives them.

use crate::stage::{Answer, Stage, URL, fine, refusal};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::StreamExt;
use hostler_driver::{
    Attempt, Change, Code, Credentials, Deletion, Driver, DriverFactory, Found, How, Identity, Order,
    ProviderId, Scope, Settled, State, UserData, Written, gone_twice,
};
use hostler_vpsie::{VpsieFactory, marks};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const DC: &str = "11111111-1111-4111-8111-111111111111";
const IMAGE: &str = "22222222-2222-4222-8222-222222222222";
const PLAN: &str = "33333333-3333-4333-8333-333333333333";
const VM: &str = "44444444-4444-4444-8444-444444444444";
const OTHER: &str = "55555555-5555-4555-8555-555555555555";

const LIST: &str = "GET /apps/v2/vm";
const QUEUE: &str = "GET /apps/v2/vm/pending";
const ORDER: &str = "POST /apps/v2/vm";

struct Theatre {
    stage: Stage,
    driver: Arc<dyn Driver>,
}

impl Theatre {
    fn new() -> Self {
        let stage = Stage::new();
        let factory = VpsieFactory::new(stage.surroundings());
        let credentials = Credentials::new([("token", "key"), ("url", URL)]);
        let driver = factory.driver(&credentials, &spec(json!({})), Written::default()).unwrap();
        stage
            .always(
                "GET /apps/v2/projects",
                fine(json!({"rows": [{"id": 3, "name": "mine", "is_default": 1}], "count": 1})),
            )
            .always("GET /apps/v2/images", Answer::Raw(404, vec![], "<html>".into()));
        Self { stage, driver }
    }

    fn shows(&self, queue: Value, list: Value) -> &Self {
        self.stage.always(QUEUE, fine(queue)).always(LIST, fine(list));
        self
    }

    fn page(&self, vm: &Value, tags: Value) -> &Self {
        let line = format!("GET /apps/v2/vm/{}", vm["identifier"].as_str().unwrap());
        self.stage.always(&line, fine(json!({"vmData": vm, "vmTags": tags})));
        self
    }

    fn no_page(&self, id: &str) -> &Self {
        self.stage.always(&format!("GET /apps/v2/vm/{id}"), refusal(200, 1, "VM not found"));
        self
    }

    async fn found(&self) -> (How, Found) {
        let finding = self.driver.find(&identity(), None).await.unwrap();
        (finding.evidence.how, finding.found)
    }
}

fn spec(more: Value) -> Value {
    let mut spec = json!({"cluster": "shoot", "datacenterID": DC, "offeringID": PLAN, "osImageID": IMAGE});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

fn identity_of(domain: &str) -> Identity {
    Identity { domain: domain.into(), machine: "m-1".into(), class: "c".into() }
}

fn identity() -> Identity {
    identity_of("shoot")
}

fn order(more: Value) -> Order {
    Order {
        identity: identity(),
        attempt: Attempt("a1".into()),
        spec: Arc::new(spec(more)),
        user_data: Some(UserData::new("hunter2")),
    }
}

fn vm_of(id: &str, identity: &Identity) -> Value {
    json!({"id": 1, "identifier": id, "hostname": "m-1", "is_active": 1, "power": 1, "default_ip": "192.0.2.1",
        "notes": marks::notes(identity, &Attempt("a1".into()), "x"), "created_on": "1970-01-01T00:00:00.000Z",
        "initial_password": "hunter2"})
}

fn vm() -> Value {
    vm_of(VM, &identity())
}

fn queued() -> Value {
    let process = marks::process(&identity(), &Attempt("a1".into()));
    json!([{"id": "q1", "data": {"hostname": "M-1", "processId": process, "vmPassword": "hunter2"}}])
}

fn id() -> ProviderId {
    ProviderId::vpsie(VM).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_order_carries_the_identity_and_tells_no_id() {
    let theatre = Theatre::new();
    theatre.stage.always(ORDER, fine(json!(true)));
    let more = json!({"tags": ["web"], "notes": "for Ann", "privateIP": true, "sshKeyIDs": [OTHER, VM]});
    let taken = theatre.driver.create(&order(more)).await.unwrap_err();
    assert_eq!(taken.code, Code::Uninitialized, "{taken}");
    let seen = theatre.stage.take().pop().unwrap();
    let user_data = STANDARD.encode("hunter2");
    assert_eq!(
        (seen.line.as_str(), seen.operation, seen.json()),
        (
            ORDER,
            Some("CreateVM"),
            json!({"resourceIdentifier": PLAN, "osIdentifier": IMAGE, "dcIdentifier": DC, "hostname": "m-1",
                "projectId": "3", "notes": "[hostler:1;shoot;c;m-1;a1] for Ann", "backupEnabled": "0",
                "weeklyBackupEnabled": "0", "monthlyBackupEnabled": "0", "addPublicIpV4": "1", "addPublicIpV6": "0",
                "addPrivateIp": "1", "sshKeyIdentifier": OTHER, "userData": user_data,
                "tags": ["web", marks::tag(&identity())], "processId": marks::process(&identity(), &Attempt("a1".into()))})
        )
    );
}

#[tokio::test(start_paused = true)]
async fn names_are_looked_up_and_an_image_of_ones_own_is_ordered_elsewhere() {
    let theatre = Theatre::new();
    let stage = &theatre.stage;
    stage
        .always("GET /apps/v2/datacenter", fine(json!([{"identifier": DC, "dc_name": "dc-us-east-1"}])))
        .always("GET /apps/v2/custom/images", fine(json!([{"identifier": IMAGE, "image_label": "golden"}])))
        .always("GET /api/v2/plans/category", fine(json!([{"identifier": "a", "name": "A"}])))
        .always("POST /apps/v2/resources", fine(json!([{"identifier": PLAN, "nickname": "small-2cpu-4gb"}])))
        .always("GET /apps/v2/scripts", fine(json!([{"identifier": "s", "script_name": "join.sh"}])))
        .always("GET /apps/v2/projects", fine(json!([{"id": 9, "identifier": OTHER, "name": "web"}])))
        .always("POST /apps/v2/custom/vm", fine(json!(true)));
    let names = json!({"datacenterID": "dc-us-east-1", "offeringID": "small-2cpu-4gb", "osImageID": "golden",
        "projectID": "web", "scriptID": "join", "diskGB": 80});
    let taken = theatre.driver.create(&order(names.clone())).await.unwrap_err();
    assert_eq!(taken.code, Code::Uninitialized, "{taken}");
    let seen = stage.take().pop().unwrap();
    assert_eq!(seen.line, "POST /apps/v2/custom/vm");
    let body = seen.json();
    for (field, expected) in [
        ("dcIdentifier", json!(DC)),
        ("osIdentifier", json!(IMAGE)),
        ("resourceIdentifier", json!(PLAN)),
        ("projectId", json!("9")),
        ("scriptIdentifier", json!("s")),
        ("ssd", json!(80)),
    ] {
        assert_eq!(body[field], expected, "{field}");
    }
    theatre.driver.create(&order(names)).await.unwrap_err();
    assert_eq!(stage.lines(), ["POST /apps/v2/custom/vm"], "names are known for a while");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_named_with_what_does() {
    let theatre = Theatre::new();
    theatre
        .stage
        .always("GET /apps/v2/datacenter", fine(json!([{"identifier": DC, "dc_name": "dc-us-east-1"}])))
        .always("GET /apps/v2/sshkeys", fine(json!([{"identifier": OTHER, "name": "ann"}])));
    let wrong = order(json!({"datacenterID": "dc-us-east-2", "sshKeyIDs": ["anna"]}));
    let failure = theatre.driver.create(&wrong).await.unwrap_err();
    assert_eq!(failure.code, Code::InvalidArgument);
    for part in [
        "Datacenter not found: providerSpec.datacenterID: \"dc-us-east-2\" does not exist; the closest that do: dc-us-east-1",
        "providerSpec.sshKeyIDs[0]: \"anna\" does not exist; the closest that do: ann",
    ] {
        assert!(failure.message.contains(part), "{failure}");
    }
    assert!(!theatre.stage.lines().iter().any(|line| line == ORDER));
}

#[tokio::test(start_paused = true)]
async fn a_refused_order_is_explained() {
    let theatre = Theatre::new();
    theatre
        .stage
        .always("GET /apps/v2/datacenter", fine(json!([{"identifier": DC, "dc_name": "dc-us-east-1"}])))
        .always("GET /api/v2/plans/category", fine(json!([{"identifier": "a", "name": "A"}])))
        .always("POST /apps/v2/resources", fine(json!([{"identifier": OTHER, "nickname": "small-2cpu-4gb"}])))
        .always(ORDER, refusal(200, 1, "Resource not found"));
    let failure = theatre.driver.create(&order(json!({}))).await.unwrap_err();
    assert_eq!(failure.code, Code::FailedPrecondition);
    let expected = format!(
        "Instance type not available: VPSie refused it: Resource not found; Instance type not available: providerSpec.offeringID: {PLAN:?} does not exist; the closest that do: small-2cpu-4gb ({OTHER})"
    );
    assert_eq!(failure.message, expected);
    theatre.stage.always(ORDER, refusal(402, 402, "insufficient balance"));
    let failure = theatre.driver.create(&order(json!({}))).await.unwrap_err();
    assert_eq!(failure.code, Code::ResourceExhausted);
    assert!(failure.message.starts_with("Insufficient VPSie quota"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn an_order_is_waited_for_from_the_queue_to_the_list() {
    let theatre = Theatre::new();
    let stage = &theatre.stage;
    theatre.shows(json!([]), json!([]));
    assert_eq!(theatre.found().await, (How::Listed, Found::Absent));
    theatre.shows(queued(), json!([]));
    assert_eq!(theatre.found().await, (How::Queued, Found::Absent));
    assert_eq!(
        stage.lines(),
        [QUEUE, LIST, QUEUE, LIST],
        "the queue is asked first: what leaves it in between is in the list"
    );
    theatre.shows(json!([]), json!([]));
    stage.clock.sleep(Duration::from_secs(200)).await;
    assert_eq!(theatre.found().await, (How::Queued, Found::Absent), "it is in neither for a while");
    theatre.shows(json!([]), json!([vm_of(OTHER, &identity_of("other"))]));
    assert_eq!(theatre.found().await, (How::Queued, Found::Absent), "that is another cluster's");
    theatre.shows(json!([]), json!([vm(), vm_of(OTHER, &identity_of("other"))]));
    let (how, found) = theatre.found().await;
    let Found::One(machine) = found else { panic!("{found:?}") };
    assert_eq!((how, machine.provider_id, machine.state), (How::Listed, id(), State::Running));
    assert_eq!(machine.marks.attempt, Some(Attempt("a1".into())));
}

#[tokio::test(start_paused = true)]
async fn an_order_that_never_shows_is_given_up_after_a_while() {
    let theatre = Theatre::new();
    theatre.shows(queued(), json!([]));
    theatre.found().await;
    theatre.shows(json!([]), json!([]));
    theatre.stage.clock.sleep(Duration::from_secs(601)).await;
    assert_eq!(theatre.found().await, (How::Listed, Found::Absent));
}

#[tokio::test(start_paused = true)]
async fn one_whose_notes_were_lost_is_known_by_its_tag_or_by_nobody() {
    let theatre = Theatre::new();
    let mut bare = vm();
    bare["notes"] = json!("renamed by Ann");
    theatre.shows(json!([]), json!([bare])).page(&bare, json!(["web", {"name": marks::tag(&identity())}]));
    assert!(matches!(theatre.found().await.1, Found::One(machine) if machine.provider_id == id()));
    theatre.page(&bare, json!([marks::tag(&identity_of("other"))]));
    assert_eq!(theatre.found().await.1, Found::Absent);
    theatre.page(&bare, json!(["web"]));
    let failure = theatre.driver.find(&identity(), None).await.unwrap_err();
    assert_eq!(failure.code, Code::FailedPrecondition);
    assert!(failure.message.contains(VM) && failure.message.contains(&marks::tag(&identity())), "{failure}");
    bare["hostname"] = json!("m-10");
    theatre.shows(json!([]), json!([bare]));
    assert_eq!(theatre.found().await.1, Found::Absent, "one of another name is nobody's business");
}

#[tokio::test(start_paused = true)]
async fn only_what_carries_the_identity_is_deleted() {
    let theatre = Theatre::new();
    let driver = &theatre.driver;
    for (stranger, tags) in [
        (vm_of(VM, &identity_of("other")), json!([])),
        (vm_of(VM, &identity_of("other")), json!([marks::tag(&identity())])),
        (
            {
                let mut bare = vm();
                bare["notes"] = Value::Null;
                bare
            },
            json!(["web"]),
        ),
    ] {
        theatre.page(&stranger, tags);
        let failure = driver.delete(&order(json!({})), &id()).await.unwrap_err();
        assert_eq!(failure.code, Code::InvalidArgument);
        assert!(failure.message.contains("left alone"), "{failure}");
    }
    assert!(theatre.stage.lines().iter().all(|line| line.starts_with("GET")));

    theatre.page(&vm(), json!([])).shows(json!([]), json!([vm()]));
    assert_eq!(driver.delete(&order(json!({})), &id()).await, Ok(Deletion::Ordered));
    let seen = theatre.stage.take().pop().unwrap();
    assert_eq!((seen.line.as_str(), seen.json()["vmIdentifier"].as_str()), ("DELETE /apps/v2/vm", Some(VM)));
    assert_eq!(driver.delete(&order(json!({})), &id()).await, Ok(Deletion::Ordered));
    assert!(theatre.stage.lines().iter().all(|line| line.starts_with("GET")), "it is under way");
    let found = driver.look(&identity(), &id()).await.unwrap().found;
    assert_eq!(found.machines()[0].state, State::Deleting, "VPSie itself shows nothing of it");
    theatre.stage.clock.sleep(Duration::from_secs(600)).await;
    theatre.stage.take();
    driver.delete(&order(json!({})), &id()).await.unwrap();
    assert_eq!(
        theatre.stage.lines().pop().as_deref(),
        Some("DELETE /apps/v2/vm"),
        "it may have been forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn gone_is_what_page_queue_and_list_do_not_show() {
    let theatre = Theatre::new();
    let driver = &theatre.driver;
    let mut shown_as_deleted = vm();
    shown_as_deleted["is_deleted"] = json!(1);
    theatre.shows(json!([]), json!([shown_as_deleted]));
    for gone in [true, false] {
        if gone {
            theatre.no_page(VM)
        } else {
            theatre.page(&shown_as_deleted, json!([]))
        };
        let asked = driver.find(&identity(), Some(&id())).await.unwrap();
        let listed = driver.find(&identity(), None).await.unwrap();
        assert!(gone_twice(&asked, &listed));
        assert!(matches!(driver.delete(&order(json!({})), &id()).await, Ok(Deletion::Absent(_))));
    }
    theatre.shows(queued(), json!([]));
    let asked = driver.find(&identity(), Some(&id())).await.unwrap();
    assert!(!gone_twice(&asked, &driver.find(&identity(), None).await.unwrap()), "an order is in hand");
    // Something on the way says so: that is no answer.
    theatre.stage.always(&format!("GET /apps/v2/vm/{VM}"), Answer::Raw(404, vec![], "<html>".into()));
    assert_eq!(driver.find(&identity(), Some(&id())).await.unwrap_err().code, Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn one_that_has_to_be_off_first_is_switched_off() {
    let theatre = Theatre::new();
    theatre.page(&vm(), json!([])).stage.always("DELETE /apps/v2/vm", refusal(409, 409, "VM is running"));
    let failure = theatre.driver.delete(&order(json!({})), &id()).await.unwrap_err();
    assert_eq!(failure.code, Code::Aborted);
    assert!(failure.message.contains("switched off first"), "{failure}");
    assert_eq!(theatre.stage.lines().pop().as_deref(), Some("POST /apps/v2/vm/stop"));
}

#[tokio::test(start_paused = true)]
async fn a_scope_holds_what_its_notes_say() {
    let theatre = Theatre::new();
    theatre.shows(
        json!([]),
        json!([vm(), vm_of(OTHER, &identity_of("other")), {"identifier": "x", "notes": null}]),
    );
    let scope = Scope::Class { domain: "shoot".into(), class: "c".into() };
    let snapshot = theatre.driver.list(&scope, None).await.unwrap();
    let ids: Vec<&str> = snapshot.machines().iter().map(|machine| machine.provider_id.server()).collect();
    assert_eq!(ids, [VM]);
    theatre.stage.take();
    theatre.driver.list(&scope, None).await.unwrap();
    assert!(theatre.stage.take().is_empty(), "the last list will do");
}

#[tokio::test(start_paused = true)]
async fn what_the_order_could_not_say_is_done_one_by_one() {
    let theatre = Theatre::new();
    let more = json!({"sshKeyIDs": [DC, OTHER], "vpcID": 9});
    theatre.page(&vm(), json!([marks::tag(&identity())])).shows(json!([]), json!([vm()]));
    let machine = theatre.found().await.1.machines()[0].clone();
    theatre.stage.take();
    let settle = async || {
        let settled = theatre.driver.settle(&order(more.clone()), &machine).await.unwrap();
        let lines = theatre.stage.lines();
        (settled, lines.into_iter().filter(|line| line.starts_with("POST")).collect::<Vec<_>>())
    };
    for line in ["sshkey", "addtags", "add/vpc"] {
        let (settled, lines) = settle().await;
        assert!(matches!(settled, Settled::Did(_)), "{settled:?}");
        assert_eq!(lines, [format!("POST /apps/v2/vm/{line}")]);
    }
    let (settled, lines) = settle().await;
    assert!(matches!(settled, Settled::Waiting(_)) && lines.is_empty(), "{settled:?} {lines:?}");
    let mut joined = vm();
    joined["private_ip"] = json!("10.0.0.1");
    theatre.page(&joined, json!([marks::tag(&identity())]));
    let (settled, lines) = settle().await;
    let Settled::Done(done) = settled else { panic!("{settled:?}") };
    assert!(lines.is_empty() && done.addresses.len() == 2, "{lines:?} {done:?}");
}

#[tokio::test(start_paused = true)]
async fn without_more_to_do_nothing_is_asked() {
    let theatre = Theatre::new();
    theatre.shows(json!([]), json!([vm()]));
    let machine = theatre.found().await.1.machines()[0].clone();
    theatre.stage.take();
    let settled = theatre.driver.settle(&order(json!({})), &machine).await.unwrap();
    assert!(matches!(settled, Settled::Done(_)));
    let bare = hostler_driver::Machine { addresses: Vec::new(), ..machine };
    let settled = theatre.driver.settle(&order(json!({})), &bare).await.unwrap();
    assert!(matches!(settled, Settled::Waiting(_)));
    assert!(theatre.stage.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_when_it_is_there() {
    let theatre = Theatre::new();
    theatre.shows(json!([]), json!([]));
    let mut changes = theatre.driver.changes();
    assert_eq!(changes.next().await, Some(Change::Everything));
    theatre.found().await;
    theatre.shows(json!([]), json!([vm()]));
    let begun = theatre.stage.clock.instant();
    assert_eq!(changes.next().await, Some(Change::Machine { id: id(), identity: Some(identity()) }));
    assert!(theatre.stage.clock.instant() - begun <= Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn many_who_look_share_the_lists_and_leave_room_for_orders() {
    let theatre = Theatre::new();
    theatre.shows(json!([]), json!([]));
    let until = theatre.stage.clock.instant() + Duration::from_secs(60);
    let look = async || {
        while theatre.stage.clock.instant() < until {
            theatre.driver.find(&identity(), None).await.unwrap();
        }
    };
    futures::future::join_all((0..100).map(|_| look())).await;
    let calls = theatre.stage.take().len();
    assert!((20..=60).contains(&calls), "{calls}");
}

#[tokio::test(start_paused = true)]
async fn a_name_of_ones_own_is_looked_for_in_the_queue() {
    let theatre = Theatre::new();
    theatre.stage.always(ORDER, fine(json!(true)));
    theatre.shows(json!([{"id": "q", "data": {"hostname": "node-1.vpsie.local"}}]), json!([]));
    assert_eq!(theatre.found().await.0, How::Listed);
    let taken = theatre.driver.create(&order(json!({"hostname": "node-1"}))).await.unwrap_err();
    assert_eq!(taken.code, Code::Uninitialized);
    let seen = theatre.stage.take();
    let sent = seen.iter().find(|seen| seen.line == ORDER).unwrap().json();
    assert_eq!(sent["hostname"], "node-1");
    assert_eq!(theatre.found().await.0, How::Queued);
}

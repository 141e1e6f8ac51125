use crate::support::{Faults, Lines, SECOND, World, config_map, pass};
use hostler_apiserver::User;
use hostler_controller::{EventKind, EventOptions, Fence, Recorder};
use k8s_openapi::api::core::v1::{ConfigMap, Event, ObjectReference};
use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, PostParams},
};
use tokio_util::sync::CancellationToken;

async fn object(world: &World) -> ObjectReference {
    let maps: Api<ConfigMap> = Api::namespaced(world.quiet_client(), "default");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap().object_ref(&())
}

async fn events(world: &World) -> Vec<Event> {
    let api: Api<Event> = Api::all(world.quiet_client());
    api.list(&ListParams::default()).await.unwrap().items
}

fn start(world: &World, client: kube::Client, options: EventOptions) -> (Recorder, CancellationToken) {
    let (recorder, writer) =
        Recorder::new(client, options, world.clock.clone(), &world.chance, world.metrics.clone());
    let stop = CancellationToken::new();
    tokio::spawn(writer.run(stop.clone()));
    (recorder, stop)
}

fn options() -> EventOptions {
    EventOptions::new("machine-controller", "host-1")
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_counted_and_another_is_not() {
    let world = World::new(1);
    let about = object(&world).await;
    let (recorder, _stop) = start(&world, world.client(), options());
    for second in 0..3 {
        pass(SECOND * second).await;
        recorder.record(&about, EventKind::Warning, "QuotaExceeded", "ask for more servers");
    }
    recorder.record(&about, EventKind::Normal, "Created", "x".repeat(2000));
    pass(SECOND).await;
    let found = events(&world).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    let repeated = found.iter().find(|event| event.reason.as_deref() == Some("QuotaExceeded")).unwrap();
    assert_eq!(repeated.count, Some(3));
    assert_eq!(repeated.type_.as_deref(), Some("Warning"));
    assert_eq!(repeated.involved_object.uid, about.uid);
    let span = repeated
        .last_timestamp
        .as_ref()
        .unwrap()
        .0
        .duration_since(repeated.first_timestamp.as_ref().unwrap().0);
    assert_eq!(span.as_secs(), 3);
    let long = found.iter().find(|event| event.reason.as_deref() == Some("Created")).unwrap();
    assert_eq!(long.message.as_ref().unwrap().len(), 1024);
    let name = long.metadata.name.as_deref().unwrap();
    assert!(name.starts_with("a.") && name.len() == "a.".len() + 16, "{name}");
}

#[tokio::test(start_paused = true)]
async fn what_is_another_one_each_time_makes_no_other_event() {
    fn without_number(message: &str) -> std::borrow::Cow<'_, str> {
        message.trim_end_matches(|letter: char| letter.is_ascii_digit()).into()
    }
    let world = World::new(1);
    let about = object(&world).await;
    let options = EventOptions { essence: without_number, ..options() };
    let (recorder, _stop) = start(&world, world.client(), options);
    for message in ["refused call 1", "refused call 2", "refused order 3"] {
        recorder.record(&about, EventKind::Warning, "CloudFailure", message);
        pass(SECOND).await;
    }
    let mut found: Vec<(String, i32)> = events(&world)
        .await
        .into_iter()
        .map(|event| (event.message.unwrap_or_default(), event.count.unwrap_or_default()))
        .collect();
    found.sort();
    assert_eq!(found, [("refused call 1".to_owned(), 2), ("refused order 3".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn after_the_window_or_when_it_is_gone_a_new_event_is_written() {
    let world = World::new(1);
    let about = object(&world).await;
    let (recorder, _stop) = start(&world, world.client(), options());
    let say = || recorder.record(&about, EventKind::Normal, "Waiting", "for a server");
    say();
    pass(SECOND * 601).await;
    say();
    pass(SECOND).await;
    assert_eq!(events(&world).await.len(), 2);
    let api: Api<Event> = Api::namespaced(world.quiet_client(), "default");
    for event in events(&world).await {
        api.delete(event.metadata.name.as_deref().unwrap(), &DeleteParams::default()).await.unwrap();
    }
    say();
    pass(SECOND).await;
    let found = events(&world).await;
    assert_eq!(found.iter().map(|event| event.count).collect::<Vec<_>>(), [Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_it_goes_on_and_counts() {
    let world = World::new(1);
    let about = object(&world).await;
    let nobody = User { name: "nobody".into(), uid: String::new(), groups: vec![] };
    let client = world.client_of(nobody, Fence::open(world.clock.clone()), Faults::default());
    let (recorder, _stop) = start(&world, client, options());
    recorder.record(&about, EventKind::Normal, "One", "one");
    recorder.record(&about, EventKind::Normal, "Two", "two");
    pass(SECOND).await;
    assert!(events(&world).await.is_empty());
    let text = world.metrics.text();
    assert!(text.contains("hostler_events_total{result=\"forbidden\"} 2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_and_what_waits_is_bounded() {
    let world = World::new(1);
    let about = object(&world).await;
    let (recorder, stop) = start(&world, world.client(), EventOptions { remembered: 2, ..options() });
    for reason in ["A", "B", "C", "B", "A"] {
        recorder.record(&about, EventKind::Normal, reason, "again");
        pass(SECOND).await;
    }
    let mut counts: Vec<_> =
        events(&world).await.iter().map(|e| (e.reason.clone().unwrap(), e.count.unwrap())).collect();
    counts.sort();
    let expected = [("A", 1), ("A", 1), ("B", 2), ("C", 1)];
    assert_eq!(counts, expected.map(|(reason, count)| (reason.to_owned(), count)));
    for number in 0..1000 {
        recorder.record(&about, EventKind::Normal, "Flood", number.to_string());
    }
    stop.cancel();
    pass(SECOND * 10).await;
    let written =
        events(&world).await.iter().filter(|event| event.reason.as_deref() == Some("Flood")).count();
    assert_eq!(written, 256, "what was taken is written even after the signal");
    assert!(world.metrics.text().contains("hostler_events_total{result=\"dropped\"} 744"));
}

#[tokio::test(start_paused = true)]
async fn events_about_objects_without_a_namespace_live_in_default() {
    let world = World::new(1);
    let about = ObjectReference {
        kind: Some("Node".into()),
        api_version: Some("v1".into()),
        name: Some("n1".into()),
        ..ObjectReference::default()
    };
    let (recorder, _stop) = start(&world, world.client(), options());
    recorder.record(&about, EventKind::Normal, "Drained", "node is empty");
    pass(SECOND).await;
    assert_eq!(events(&world).await[0].metadata.namespace.as_deref(), Some("default"));
}

#[tokio::test(start_paused = true)]
async fn the_same_words_about_something_else_are_another_event() {
    let world = World::new(1);
    let about = object(&world).await;
    let (recorder, _stop) = start(&world, world.client(), options());
    let born_again = ObjectReference { uid: Some("another".into()), ..about.clone() };
    let neighbour = ObjectReference { name: Some("b".into()), ..about.clone() };
    for about in [&about, &born_again, &neighbour] {
        recorder.record(about, EventKind::Normal, "Waiting", "for a server");
    }
    recorder.record(&about, EventKind::Warning, "Waiting", "for a server");
    pass(SECOND).await;
    let counts: Vec<_> = events(&world).await.iter().map(|event| event.count).collect();
    assert_eq!(counts, [Some(1); 4]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_holds_up_the_end_only_for_a_while() {
    let world = World::new(1);
    let about = object(&world).await;
    let (recorder, writer) =
        Recorder::new(world.client(), options(), world.clock.clone(), &world.chance, world.metrics.clone());
    let stop = CancellationToken::new();
    let writing = tokio::spawn(writer.run(stop.clone()));
    world.faults.dead.store(true, std::sync::atomic::Ordering::SeqCst);
    for number in 0..20 {
        recorder.record(&about, EventKind::Normal, "Flood", number.to_string());
    }
    pass(SECOND).await;
    stop.cancel();
    let asked = world.clock.instant();
    writing.await.unwrap();
    let took = world.clock.instant() - asked;
    assert!(took <= SECOND * 10, "one call may end, and five seconds for the rest: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_line_about_an_event_that_could_not_be_written_names_the_object() {
    for json in [true, false] {
        let (lines, _guard) = Lines::capture(json);
        let world = World::new(1);
        let about = object(&world).await;
        let nobody = User { name: "nobody".into(), uid: String::new(), groups: vec![] };
        let client = world.client_of(nobody, Fence::open(world.clock.clone()), Faults::default());
        let (recorder, _stop) = start(&world, client, options());
        recorder.record(&about, EventKind::Warning, "QuotaExceeded", "ask for more servers");
        pass(SECOND).await;
        let text = lines.text();
        let line = text.lines().find(|line| line.contains("could not write an event")).expect(&text);
        if json {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let fields = ["kind", "namespace", "object", "reason"].map(|field| line["fields"][field].clone());
            assert_eq!(fields, ["ConfigMap", "default", "a", "QuotaExceeded"]);
        } else {
            let named = r#"kind="ConfigMap" namespace="default" object="a" reason="QuotaExceeded""#;
            assert!(line.contains(named), "{line}");
        }
    }
}

use crate::flow::{SOON, Stage, from, machine, one_life, ours, secret};
use hostler_gardener::api::{Machine, MachineClass, Phase};
use hostler_sim::{Plan, stackit::Settings};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_machine_becomes_a_server_and_a_ready_node_and_then_nothing() {
    let mut stage = Stage::new(Plan::seeded(1), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();

    let servers = stage.cloud.servers();
    let server = ours(&servers).next().expect("a server");
    let machine = stage.machines().get("m-1").await.unwrap();
    assert_eq!(machine.spec.provider_id, format!("stackit://{}/{}", crate::flow::PROJECT, server.id));
    assert_eq!(machine.metadata.labels.unwrap()["node"], "m-1");
    assert_eq!(machine.metadata.annotations.unwrap()["machinepriority.machine.sapcloud.io"], "3");
    let node = Api::<Node>::all(stage.admin.clone()).get("m-1").await.unwrap();
    assert_eq!(node.spec.unwrap().provider_id, Some(format!("stackit://{}", server.id)));

    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    stage.run_until_gone("m-1", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[test]
fn the_same_seed_gives_the_same_life() {
    let run = || hostler_sim::sweep::paused(one_life(Plan::seeded(7), Settings::default())).unwrap();
    let (first, second) = (run(), run());
    assert_eq!(first.goal, Ok(()));
    assert_eq!(first.trace, second.trace);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_said_and_works_as_soon_as_it_is_there() {
    let mut stage = Stage::new(Plan::seeded(2), Settings::default()).await;
    stage.start_controller();
    // Not the name of somebody else's server: whose node comes first has the name.
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::CrashLoopBackOff, SOON).await.unwrap();
    let status = stage.machines().get("m-2").await.unwrap().status.unwrap();
    let description = status.last_operation.description;
    assert!(description.contains("there is no MachineClass \"small\": create it"), "{description}");
    let events = Api::<Event>::namespaced(stage.admin.clone(), crate::flow::NAMESPACE);
    stage.world.run_for(Duration::from_secs(1)).await;
    let told = events.list(&ListParams::default()).await.unwrap();
    assert!(
        told.items
            .iter()
            .any(|event| event.message.as_deref().is_some_and(|text| text.contains("MachineClass")))
    );

    stage.create_class_and_secret().await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_class_names_its_fields_and_can_be_corrected() {
    let mut stage = Stage::new(Plan::seeded(3), Settings::default()).await;
    stage.start_controller();
    stage.create(Api::<Secret>::namespaced(stage.user.clone(), crate::flow::NAMESPACE), secret()).await;
    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    let mut wrong = crate::flow::class();
    wrong["providerSpec"]["machineType"] = "".into();
    stage.create(classes.clone(), wrong).await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::CrashLoopBackOff, SOON).await.unwrap();
    let operation = stage.machines().get("m-1").await.unwrap().status.unwrap().last_operation;
    assert_eq!(operation.error_code, "InvalidArgument");
    assert!(
        operation.description.contains("providerSpec.machineType: is required"),
        "{}",
        operation.description
    );

    let mut right: MachineClass = from(crate::flow::class());
    right.metadata = classes.get("small").await.unwrap().metadata;
    classes.replace("small", &PostParams::default(), &right).await.unwrap();
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_machines_share_the_poller() {
    let mut stage = Stage::new(Plan::seeded(4), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    let names: Vec<String> = (1..=20).map(|number| format!("m-{number}")).collect();
    for name in &names {
        stage.create(stage.machines(), machine(name)).await;
    }
    for name in &names {
        stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    }
    assert_eq!(ours(&stage.cloud.servers()).count(), 20);
    for name in &names {
        stage.machines().delete(name, &DeleteParams::default()).await.unwrap();
    }
    let machines: Api<Machine> = Api::namespaced(stage.admin.clone(), crate::flow::NAMESPACE);
    let all_gone =
        async || machines.list(&ListParams::default()).await.is_ok_and(|list| list.items.is_empty());
    stage.world.run_until("all are gone", SOON, all_gone).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
    let calls = stage.cloud.calls();
    assert_eq!(calls.get("GetServer"), Some(&20), "each is asked for once, when it is gone: {calls:?}");
    assert!(calls["ListServers"] < 40, "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_failed_is_told_with_the_clouds_own_words() {
    let settings = Settings { fails: ["m-1".to_owned()].into(), ..Settings::default() };
    let mut stage = Stage::new(Plan::seeded(5), settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Failed, Duration::from_mins(40)).await.unwrap();
    let operation = stage.machines().get("m-1").await.unwrap().status.unwrap().last_operation;
    assert!(
        operation.description.contains("the hypervisor could not start the server"),
        "{}",
        operation.description
    );
    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    stage.run_until_gone("m-1", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn class_and_secret_stay_as_long_as_they_are_needed() {
    let mut stage = Stage::new(Plan::seeded(8), Settings::default()).await;
    stage.start_controller();
    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    let secrets = Api::<Secret>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
    let finalizers = |metadata: ObjectMeta| metadata.finalizers.unwrap_or_default();
    assert_eq!(
        finalizers(classes.get("small").await.unwrap().metadata),
        ["machine.sapcloud.io/machine-controller-manager"]
    );
    assert_eq!(
        finalizers(secrets.get("credentials").await.unwrap().metadata),
        ["machine.sapcloud.io/machine-controller"]
    );

    secrets.delete("credentials", &DeleteParams::default()).await.unwrap();
    classes.delete("small", &DeleteParams::default()).await.unwrap();
    stage.world.run_for(SOON).await;
    assert!(classes.get("small").await.is_ok() && secrets.get("credentials").await.is_ok());

    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    let nothing_left = async || {
        stage.admin_sees_no::<Machine>().await
            && stage.admin_sees_no::<MachineClass>().await
            && stage.admin_sees_no::<Secret>().await
    };
    let mut waited = Duration::ZERO;
    while !nothing_left().await {
        assert!(waited < SOON, "something is left");
        stage.world.run_for(Duration::from_secs(1)).await;
        waited += Duration::from_secs(1);
    }
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_unused_class_is_let_go_and_frees_its_secret() {
    let mut stage = Stage::new(Plan::seeded(9), Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    stage.run_until_gone("m-1", SOON).await.unwrap();
    stage.world.run_for(Duration::from_secs(5)).await;

    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    let secrets = Api::<Secret>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    assert_eq!(classes.get("small").await.unwrap().metadata.finalizers, None);
    assert!(secrets.get("credentials").await.unwrap().metadata.finalizers.is_some());
    classes.delete("small", &DeleteParams::default()).await.unwrap();
    stage.world.run_for(Duration::from_secs(5)).await;
    assert_eq!(secrets.get("credentials").await.unwrap().metadata.finalizers, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_only_has_the_machines_name_is_left_alone() {
    let mut stage = Stage::new(Plan::seeded(6), Settings::default()).await;
    stage.start_controller();
    let nodes = Api::<Node>::all(stage.admin.clone());
    stage.create(nodes.clone(), serde_json::json!({"metadata": {"name": "m-1"}})).await;
    // No class, so there never is a server.
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::CrashLoopBackOff, SOON).await.unwrap();
    stage.machines().delete("m-1", &DeleteParams::default()).await.unwrap();
    stage.world.run_for(SOON).await;
    let node = nodes.get("m-1").await.expect("somebody else's node");
    assert_eq!(node.spec.and_then(|spec| spec.unschedulable), None);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_asked_for_again_at_once() {
    let settings = Settings { tokens: ["another".to_owned()].into(), ..Settings::default() };
    let mut stage = Stage::new(Plan::seeded(8), settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::CrashLoopBackOff, SOON).await.unwrap();
    let before = stage.machines().get("m-1").await.unwrap().metadata.resource_version;
    stage.world.run_for(Duration::from_mins(1)).await;
    let operation = stage.machines().get("m-1").await.unwrap();
    assert_eq!(operation.metadata.resource_version, before, "the status was written again");
    assert_eq!(operation.status.unwrap().last_operation.error_code, "Unauthenticated");
}

/// What belongs to others on a Machine.
fn of_others(machine: &Machine) -> [serde_json::Value; 4] {
    let wire = serde_json::to_value(&machine.metadata).unwrap();
    let kept = |part: &str, name: &str| wire[part][name].clone();
    let finalizers = machine.metadata.finalizers.iter().flatten();
    let finalizers: Vec<&String> = finalizers.filter(|one| one.starts_with("example.com/")).collect();
    [
        kept("labels", "example.com/label"),
        kept("annotations", "example.com/annotation"),
        wire["ownerReferences"].clone(),
        serde_json::json!(finalizers),
    ]
}

/// Each thing that is written on a Machine leaves what others have put there: mark, id, the id of one that gave way, what is
/// noted in passing, every status, and the end.
#[tokio::test(start_paused = true)]
async fn what_others_have_put_on_a_machine_stays_whatever_is_written() {
    let settings = Settings { fails: ["m-5".to_owned()].into(), ..Settings::default() };
    let mut stage = Stage::new(Plan::seeded(10), settings).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    let mut wanted = machine("m-5");
    wanted["spec"]["creationTimeout"] = "1h0m0s".into();
    wanted["metadata"]["labels"] = serde_json::json!({"example.com/label": "theirs"});
    wanted["metadata"]["annotations"] = serde_json::json!({"example.com/annotation": "theirs"});
    // The owner need not be there, and is of a kind that nobody here knows.
    wanted["metadata"]["ownerReferences"] = serde_json::json!([{"apiVersion": "example.com/v1", "kind": "Pool",
        "name": "pool", "uid": "11111111-2222-4333-8444-000000000001", "controller": true}]);
    wanted["metadata"]["finalizers"] = serde_json::json!(["example.com/finalizer"]);
    let expected = of_others(&from(wanted.clone()));
    stage.create(stage.machines(), wanted).await;
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), crate::flow::NAMESPACE);
    let before = expected.clone();
    let looks = machines.clone();
    stage.world.observe(std::sync::Arc::new(move || {
        let (machines, expected) = (looks.clone(), before.clone());
        Box::pin(async move {
            match machines.get_opt("m-5").await {
                Ok(Some(machine)) if of_others(&machine) == expected => Ok(()),
                Ok(seen) => Err(format!("of others there is {:?}", seen.as_ref().map(of_others))),
                Err(error) => Err(error.to_string()),
            }
        })
    }));
    stage.run_until_said("m-5", "could not start the server", SOON).await.unwrap();
    stage.cloud.set(|settings| settings.fails.clear());
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    stage.machines().delete("m-5", &DeleteParams::default()).await.unwrap();
    let ours_is_off = async || {
        let finalizers = machines.get("m-5").await.ok().and_then(|machine| machine.metadata.finalizers);
        finalizers.is_some_and(|left| left == ["example.com/finalizer"])
    };
    stage.world.run_until("it is let go", SOON, ours_is_off).await.unwrap();
    stage.world.run_for(Duration::from_mins(1)).await;
    assert_eq!(of_others(&machines.get("m-5").await.unwrap()), expected);
    assert_eq!(stage.world.wire().unwrap().violations().len(), 0);
    let written = stage.world.wire().unwrap().recording().0;
    let writes = written.iter().filter(|(_, call)| call.verb == "PUT" && call.object == "shoot/m-5").count();
    // Mark, id, disowned, the second mark and id, the finalizer; and as many of the status.
    assert!(writes >= 6, "{writes} writes");
}

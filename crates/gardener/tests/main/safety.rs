//! What must never happen to a server, a node or a Machine, however odd the world gets.

use crate::{
    flow::{
        CLUSTER, LONG, NAMESPACE, PROJECT, REGION, SOON, Stage, from, machine, open_to_all, ours, secret,
    },
    orphans::plant,
};
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{Boundary, Break, Class, Fault, Plan, stackit::Settings};
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";

fn is_create(boundary: &Boundary) -> bool {
    boundary.verb == "POST" && boundary.template.ends_with("/servers")
}

/// The first create call takes effect, and its answer is lost with the process.
fn lost_answer(seed: u64) -> Plan {
    Plan::seeded(seed)
        .fault_when(|boundary, _| (is_create(boundary) && boundary.nth == 1).then_some(Fault::CrashAfter))
}

async fn running(plan: Plan, name: &str) -> Stage {
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine(name)).await;
    stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    stage
}

/// A pod on the machine's node that must not go.
async fn put_a_guarded_pod_on(stage: &Stage, node: &str) {
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE);
    let pod = json!({"metadata": {"name": "precious", "labels": {"app": "precious"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": [{"operator": "Exists"}]}});
    stage.create(pods.clone(), pod).await;
    let budget = json!({"metadata": {"name": "precious"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "precious"}}}});
    stage.create(Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE), budget).await;
    stage.world.run_for(Duration::from_secs(30)).await;
    let status = pods.get("precious").await.unwrap().status.unwrap_or_default();
    assert_eq!(status.phase.as_deref(), Some("Running"), "budgets guard running pods only");
}

/// Ways to make class and Secret name another place than the one the server was ordered in.
fn moves() -> [(&'static str, Value, Value); 4] {
    let spec = |spec: Value| json!({"providerSpec": spec});
    let project = json!({"stringData": {"project-id": "22222222-2222-4333-8444-555555555555"}});
    [
        ("region", spec(json!({"region": "eu02"})), json!({})),
        ("project", json!({}), project),
        ("cluster label", spec(json!({"labels": {"kubernetes.io/cluster": "another"}})), json!({})),
        ("nothing that can be read", spec(json!({"region": 7, "labels": null})), json!({})),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_server_is_deleted_where_it_was_ordered_whatever_class_and_secret_say_by_then() {
    for (what, class, secret) in moves() {
        let mut stage = running(Plan::seeded(20), "m-1").await;
        stage.patch(stage.classes(), "small", class).await;
        stage.patch(stage.secrets(), "credentials", secret).await;
        stage.delete_machine("m-1").await;
        stage.run_until_gone("m-1", LONG).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(stage.leftovers().await, Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_another_program_is_deleted_in_the_project_that_its_id_names() {
    const PLACE: &str = "machine.hostler.dev/place";
    let mut stage = running(Plan::seeded(24), "m-1").await;
    stage.patch(stage.machines(), "m-1", json!({"metadata": {"annotations": {PLACE: null}}})).await;
    let project = json!({"stringData": {"project-id": "22222222-2222-4333-8444-555555555555"}});
    stage.patch(stage.secrets(), "credentials", project).await;
    stage.delete_machine("m-1").await;
    stage.run_until_gone("m-1", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_server_of_another_program_is_deleted_where_it_was_at_first_sight() {
    const PLACE: &str = "machine.hostler.dev/place";
    for (what, class, secret) in moves() {
        let mut stage = running(Plan::seeded(29), "m-1").await;
        let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
        let place = async || {
            let seen = machines.get("m-1").await.unwrap().metadata.annotations.unwrap_or_default();
            seen.get(PLACE).cloned()
        };
        let ordered_in = place().await;
        stage.patch(stage.machines(), "m-1", json!({"metadata": {"annotations": {PLACE: null}}})).await;
        let noted = async || place().await == ordered_in;
        stage.world.run_until("the place is noted", SOON, noted).await.unwrap();
        stage.patch(stage.classes(), "small", class).await;
        stage.patch(stage.secrets(), "credentials", secret).await;
        stage.delete_machine("m-1").await;
        stage.run_until_gone("m-1", LONG).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(stage.leftovers().await, Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_cluster_is_the_machines_whose_id_names_it_and_nobody_elses() {
    let mut stage = Stage::new(Plan::seeded(32), open_to_all()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    // What is still to be done to its server: its boot volume shall go with it.
    stage.patch(stage.classes(), "small", json!({"providerSpec": {"bootVolume": null}})).await;
    // The class got its cluster label after these were made, by this cluster and by another one.
    let unlabelled = |class: &str| {
        let labels = [("kubernetes.io/machine", "m-2"), ("kubernetes.io/machineclass", class)];
        stage.cloud.add_foreign(PROJECT, REGION, "m-2", &labels)
    };
    let (own, other, other_class) = (unlabelled("small"), unlabelled("small"), unlabelled("large"));
    let is_there = |stage: &Stage, id: &String| stage.cloud.servers().iter().any(|server| server.id == *id);
    let mut taken_over = machine("m-2");
    taken_over["metadata"]["finalizers"] = json!([FINALIZER]);
    taken_over["spec"]["providerID"] = format!("stackit://{PROJECT}/{own}").into();
    stage.create(stage.machines(), taken_over).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    let volumes = |stage: &Stage, server: &String| {
        let volumes = stage.cloud.volumes().into_iter();
        volumes
            .filter(|volume| volume.server.as_ref() == Some(server))
            .map(|volume| volume.id)
            .collect::<Vec<_>>()
    };
    let (of_own, of_other) = (volumes(&stage, &own), volumes(&stage, &other));
    assert_eq!((of_own.len(), of_other.len()), (1, 1));
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", LONG).await.unwrap();
    assert!(!is_there(&stage, &own));
    assert!(!stage.cloud.volumes().iter().any(|volume| of_own.contains(&volume.id)));
    assert_eq!(volumes(&stage, &other), of_other);
    assert!(is_there(&stage, &other) && is_there(&stage, &other_class));

    // Without the id nobody can tell whose they are.
    stage.create(stage.machines(), machine("m-2")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("its own is ordered", SOON, ordered).await.unwrap();
    stage.world.run_for(SOON).await;
    stage.delete_machine("m-2").await;
    stage.run_until_gone("m-2", LONG).await.unwrap();
    assert!(is_there(&stage, &other) && is_there(&stage, &other_class));
    // Nor is one of another class, whatever the id says.
    let mut wrong = machine("m-2");
    wrong["spec"]["providerID"] = format!("stackit://{PROJECT}/{other_class}").into();
    stage.create(stage.machines(), wrong).await;
    stage.run_until_said("m-2", "is left alone", SOON).await.unwrap();
    stage.delete_machine("m-2").await;
    stage.world.run_for(LONG).await;
    assert!(stage.machines().get("m-2").await.is_ok());
    assert!(is_there(&stage, &other) && is_there(&stage, &other_class));
}

#[tokio::test(start_paused = true)]
async fn an_id_that_cannot_be_meant_is_told_and_nothing_is_done_until_it_is_corrected() {
    let id = "22222222-2222-4333-8444-555555555555";
    let wrong = [
        "nonsense".to_owned(),
        format!("aws:///eu01/{id}"),
        "stackit://".to_owned(),
        format!("stackit://{PROJECT}/"),
        format!("stackit://{PROJECT}/{id}/more"),
        format!("stackit://{PROJECT}/.."),
        format!("stackit://{id}"),
        format!("stackit:///{id}"),
        format!("metal://p/{id}"),
        format!("vpsie://{id}"),
    ];
    for deleting in [false, true] {
        for wrong in &wrong {
            let case = format!("{wrong}, deleting {deleting}");
            let mut stage = Stage::new(Plan::seeded(33), open_to_all()).await;
            stage.create_class_and_secret().await;
            let mut odd = machine("m-2");
            odd["metadata"]["finalizers"] = json!([FINALIZER]);
            odd["spec"]["providerID"] = json!(wrong);
            stage.create(stage.machines(), odd).await;
            if deleting {
                stage.delete_machine("m-2").await;
            }
            stage.start_controller();
            let told = stage.run_until_said("m-2", "code = [InvalidArgument]", SOON).await;
            told.unwrap_or_else(|error| panic!("{case}: {error}"));
            stage.world.run_for(LONG).await;
            let seen = stage.machines().get("m-2").await.unwrap();
            assert_eq!(seen.spec.provider_id, *wrong, "{case}");
            let status = seen.status.unwrap();
            if !deleting {
                assert_eq!(status.last_operation.error_code, "InvalidArgument", "{case}");
                // Its twenty minutes are over.
                assert_eq!(status.current_status.phase, Phase::Failed, "{case}");
            }
            let calls = stage.cloud.calls();
            let did = ["CreateServer", "DeleteServer"].map(|call| calls.get(call).copied());
            assert_eq!(did, [None; 2], "{case}");

            let right = plant(&stage, "m-2", "small", CLUSTER);
            let right = json!({"spec": {"providerID": format!("stackit://{PROJECT}/{right}")}});
            stage.patch(stage.machines(), "m-2", right).await;
            if deleting {
                stage.run_until_gone("m-2", LONG).await.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(ours(&stage.cloud.servers()).count(), 0, "{case}");
            } else {
                stage
                    .run_until_phase("m-2", Phase::Running, LONG)
                    .await
                    .unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(stage.cloud.calls().get("CreateServer"), None, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_by_a_clock_that_was_behind_is_waited_for_all_the_same() {
    let mut stage =
        Stage::new(lost_answer(31), Settings { list_lag: Duration::from_secs(25), ..Settings::default() })
            .await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("the server is ordered", SOON, ordered).await.unwrap();
    let behind = stage.world.clock().now() - Duration::from_hours(1);
    let mark = json!({"machine.hostler.dev/create-attempt": format!("mark@{behind}")});
    stage.patch(stage.machines(), "m-1", json!({"metadata": {"annotations": mark}})).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
    assert_eq!(stage.cloud.calls()["CreateServer"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_read_is_no_missing_place() {
    const PLACE: &str = "machine.hostler.dev/place";
    let mut stage = running(Plan::seeded(25), "m-1").await;
    stage.patch(stage.machines(), "m-1", json!({"metadata": {"annotations": {PLACE: "somewhere"}}})).await;
    stage.delete_machine("m-1").await;
    stage.run_until_said("m-1", PLACE, LONG).await.unwrap();
    stage.world.run_for(LONG).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 1);
    stage.patch(stage.machines(), "m-1", json!({"metadata": {"annotations": {PLACE: null}}})).await;
    stage.run_until_gone("m-1", LONG).await.unwrap();
    assert_eq!(stage.leftovers().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_order_had_no_answer_is_looked_for_where_it_was_ordered() {
    for (what, class, secret) in moves() {
        let mut stage = Stage::new(lost_answer(21), Settings::default()).await;
        stage.start_controller();
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("m-1")).await;
        let cloud = stage.cloud.clone();
        let ordered = async || ours(&cloud.servers()).count() == 1;
        stage.world.run_until("the server is ordered", SOON, ordered).await.unwrap();
        stage.patch(stage.classes(), "small", class).await;
        stage.patch(stage.secrets(), "credentials", secret).await;
        let machines = stage.machines();
        let adopted =
            async || machines.get("m-1").await.is_ok_and(|machine| !machine.spec.provider_id.is_empty());
        stage
            .world
            .run_until("it is adopted", SOON, adopted)
            .await
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        stage.world.run_for(LONG).await;
        let named = stage.cloud.servers().into_iter().filter(|server| server.name == "m-1");
        assert_eq!(named.count(), 2, "{what}: ours and somebody else's");

        stage.delete_machine("m-1").await;
        stage.run_until_gone("m-1", LONG).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(stage.leftovers().await, Vec::<String>::new(), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_server_is_left_alone_whatever_our_machine_says() {
    let mut stage = Stage::new(Plan::seeded(22), open_to_all()).await;
    // Its node is in our cluster, too.
    stage.cloud.set(|settings| settings.other_clusters.clear());
    stage.start_controller();
    stage.create_class_and_secret().await;
    let mut wrong = machine("m-1");
    wrong["spec"]["providerID"] = format!("stackit://{PROJECT}/{}", stage.foreign).into();
    stage.create(stage.machines(), wrong).await;
    stage.run_until_said("m-1", "is left alone", SOON).await.unwrap();
    stage.world.run_for(LONG).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 0, "another server was ordered");
    let seen = stage.machines().get("m-1").await.unwrap();
    assert_eq!(seen.metadata.labels, None, "adopted");
    assert_eq!(seen.status.unwrap().last_operation.error_code, "InvalidArgument");

    // Its node has the name of our machine.
    let nodes = Api::<Node>::all(stage.admin.clone());
    assert_eq!(
        nodes.get("m-1").await.unwrap().spec.unwrap().provider_id,
        Some(format!("stackit://{}", stage.foreign))
    );
    stage.delete_machine("m-1").await;
    stage.world.run_for(LONG).await;
    assert_eq!(nodes.get("m-1").await.unwrap().spec.unwrap().unschedulable, None, "cordoned");
    let said = stage.machines().get("m-1").await.unwrap().status.unwrap().last_operation.description;
    assert!(said.contains("is left alone"), "{said}");
    stage.patch(stage.machines(), "m-1", json!({"spec": {"providerID": null}})).await;
    stage.run_until_gone("m-1", LONG).await.unwrap();
    assert!(nodes.get("m-1").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_read_is_no_missing_attempt() {
    const ATTEMPT: &str = "machine.hostler.dev/create-attempt";
    for deleting in [false, true] {
        let mut stage = Stage::new(Plan::seeded(23), Settings::default()).await;
        stage.start_controller();
        stage.create_class_and_secret().await;
        let mut odd = machine("m-2");
        odd["metadata"]["annotations"] = json!({ATTEMPT: "who@knows"});
        stage.create(stage.machines(), odd).await;
        if deleting {
            stage.run_until_phase("m-2", Phase::CrashLoopBackOff, SOON).await.unwrap();
            stage.delete_machine("m-2").await;
            stage.run_until_phase("m-2", Phase::Terminating, SOON).await.unwrap();
        }
        stage.run_until_said("m-2", ATTEMPT, SOON).await.unwrap();
        stage.world.run_for(SOON).await;
        assert!(stage.machines().get("m-2").await.is_ok());
        assert_eq!(ours(&stage.cloud.servers()).count(), 0);
        let told = stage.told("m-2").await;
        let count = told.iter().filter(|event| event.contains(ATTEMPT)).count();
        assert_eq!(count, 1 + usize::from(deleting), "{told:?}");

        stage.patch(stage.machines(), "m-2", json!({"metadata": {"annotations": {ATTEMPT: null}}})).await;
        if deleting {
            stage.run_until_gone("m-2", LONG).await.unwrap();
        } else {
            stage.run_until_phase("m-2", Phase::Running, LONG).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_from_the_future_is_waited_for_from_now_on() {
    let mut stage =
        Stage::new(lost_answer(24), Settings { list_lag: Duration::from_secs(25), ..Settings::default() })
            .await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("the server is ordered", SOON, ordered).await.unwrap();
    // The process that marked it had a clock which was years ahead.
    stage
        .patch(
            stage.machines(),
            "m-1",
            json!({"metadata": {"annotations":
        {"machine.hostler.dev/create-attempt": "mark@2099-01-01T00:00:00Z"}}}),
        )
        .await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();

    // The same without a server: a new one is ordered, only later.
    let mut late = machine("m-2");
    late["metadata"]["annotations"] =
        json!({"machine.hostler.dev/create-attempt": "mark@2099-01-01T00:00:00Z"});
    stage.create(stage.machines(), late).await;
    stage.world.run_for(Duration::from_mins(1)).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 1, "nobody knows yet what became of the first call");
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_is_drained_although_its_server_was_never_learnt_of() {
    let mut stage = Stage::new(Plan::seeded(25), open_to_all()).await;
    stage.create_class_and_secret().await;
    // The process that ordered the server died before it had the answer, and the machine was deleted.
    let mut ordered = machine("m-7");
    ordered["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller-manager"]);
    ordered["metadata"]["annotations"] =
        json!({"machine.hostler.dev/create-attempt": "mark@2020-01-01T00:00:00Z"});
    stage.create(stage.machines(), ordered).await;
    stage.delete_machine("m-7").await;
    let labels = [
        ("kubernetes.io/machine", "m-7"),
        ("kubernetes.io/machineclass", "small"),
        ("kubernetes.io/cluster", CLUSTER),
    ];
    stage.cloud.add_foreign(PROJECT, REGION, "m-7", &labels);
    // Its node joins and gets work before anybody looks.
    let nodes = Api::<Node>::all(stage.admin.clone());
    let id = ours(&stage.cloud.servers()).next().map(|server| format!("stackit://{}", server.id));
    let joined =
        async || nodes.get("m-7").await.is_ok_and(|node| node.spec.unwrap_or_default().provider_id == id);
    stage.world.run_until("the node has joined", SOON, joined).await.unwrap();
    put_a_guarded_pod_on(&stage, "m-7").await;
    stage.start_controller();
    stage.world.run_for(LONG).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 1, "the server went with a pod on it");
    assert_eq!(nodes.get("m-7").await.unwrap().spec.unwrap().unschedulable, Some(true));
    let told = stage.told("m-7").await;
    assert!(told.iter().any(|event| event.contains("holds back")), "{told:?}");

    let budgets = Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE);
    budgets.delete("precious", &DeleteParams::default()).await.unwrap();
    stage.run_until_gone("m-7", SOON).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_made_anew_does_not_suffer_for_its_predecessor() {
    let blind = Arc::new(AtomicBool::new(false));
    let is_blind = Arc::clone(&blind);
    let plan = Plan::seeded(26).fault_when(move |boundary, class| {
        let machines = class == Class::Watch && boundary.template.ends_with("/machines");
        let dead = Fault::Watch { after: 0, then: Break::Dead };
        (machines && is_blind.load(Ordering::Relaxed)).then_some(dead)
    });
    let stage = running(plan, "m-7").await;
    put_a_guarded_pod_on(&stage, "m-7").await;
    stage.delete_machine("m-7").await;
    stage.world.run_for(Duration::from_secs(20)).await;
    // From now on the controller learns nothing new about Machines.
    blind.store(true, Ordering::Relaxed);
    stage.world.run_for(Duration::from_mins(2)).await;
    stage.patch(stage.machines(), "m-7", json!({"metadata": {"finalizers": null}})).await;
    stage.create(stage.machines(), machine("m-7")).await;
    let budgets = Api::<PodDisruptionBudget>::namespaced(stage.admin.clone(), NAMESPACE);
    budgets.delete("precious", &DeleteParams::default()).await.unwrap();
    stage.world.run_for(SOON).await;
    let pods = Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE);
    assert_eq!(pods.get("precious").await.expect("the pod").metadata.deletion_timestamp, None);
    let servers = stage.cloud.servers();
    assert_eq!(ours(&servers).map(|server| server.status).collect::<Vec<_>>(), ["ACTIVE"]);
    assert!(Api::<Node>::all(stage.admin.clone()).get("m-7").await.is_ok());
    let anew: Machine = stage.machines().get("m-7").await.unwrap();
    assert_eq!(anew.metadata.deletion_timestamp, None);
}

#[tokio::test(start_paused = true)]
async fn health_is_watched_without_class_and_secret() {
    let mut stage = running(Plan::seeded(27), "m-1").await;
    let off = json!({"metadata": {"finalizers": null}});
    stage.secrets().delete("credentials", &DeleteParams::default()).await.unwrap();
    stage.classes().delete("small", &DeleteParams::default()).await.unwrap();
    stage.patch(stage.classes(), "small", off.clone()).await;
    stage.patch(stage.secrets(), "credentials", off).await;
    stage.world.run_for(SOON).await;
    assert!(stage.classes().get_opt("small").await.unwrap().is_none());
    stage.nodes.silence("m-1");
    stage.world.run_for(Duration::from_secs(1)).await;
    let unwell =
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Test"}]}});
    let (nodes, unwell) = (Api::<Node>::all(stage.admin.clone()), kube::api::Patch::Strategic(unwell));
    nodes.patch_status("m-1", &kube::api::PatchParams::default(), &unwell).await.unwrap();
    stage.run_until_phase("m-1", Phase::Unknown, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_had_a_server_can_go_without_its_class() {
    let mut stage = Stage::new(Plan::seeded(28), Settings::default()).await;
    stage.start_controller();
    stage.create(stage.machines(), machine("m-1")).await;
    stage.run_until_phase("m-1", Phase::CrashLoopBackOff, SOON).await.unwrap();
    stage.delete_machine("m-1").await;
    stage.run_until_gone("m-1", SOON).await.unwrap();

    // One that might have a server cannot.
    let mut touched = machine("m-2");
    touched["metadata"]["annotations"] = json!({"machine.hostler.dev/place": "somewhere"});
    stage.create(stage.machines(), touched).await;
    stage.run_until_phase("m-2", Phase::CrashLoopBackOff, SOON).await.unwrap();
    stage.delete_machine("m-2").await;
    stage.world.run_for(LONG).await;
    assert!(stage.machines().get("m-2").await.is_ok());
}

/// A Machine as the Go provider leaves it behind in the middle of its order: it has the finalizer, and maybe a failure.
async fn begun_by_go(stage: &Stage, name: &str, status: Option<Value>) {
    let mut begun = machine(name);
    begun["metadata"]["finalizers"] = json!([FINALIZER]);
    stage.create(stage.machines(), begun).await;
    if let Some(status) = status {
        let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        machines.patch_status(name, &kube::api::PatchParams::default(), &patch).await.unwrap();
    }
}

fn crashed(code: &str) -> Value {
    let description =
        format!("Cloud provider message - machine codes error: code = [{code}] message = [no answer]");
    json!({"currentStatus": {"phase": "CrashLoopBackOff"}, "lastOperation": {"type": "Create", "state": "Failed",
        "errorCode": code, "description": description}})
}

fn states_of_go() -> [Option<Value>; 4] {
    let mut known = crashed("Internal");
    known["lastKnownState"] = json!("CREATING");
    [None, Some(crashed("DeadlineExceeded")), Some(crashed("Unavailable")), Some(known)]
}

#[tokio::test(start_paused = true)]
async fn a_server_that_another_program_has_just_ordered_is_not_ordered_again() {
    for (number, status) in states_of_go().into_iter().enumerate() {
        let lag = Settings { list_lag: Duration::from_secs(25), ..open_to_all() };
        let mut stage = Stage::new(Plan::seeded(30 + number as u64), lag).await;
        stage.create_class_and_secret().await;
        begun_by_go(&stage, "m-2", status.clone()).await;
        plant(&stage, "m-2", "small", CLUSTER);
        stage.start_controller();
        stage.run_until_phase("m-2", Phase::Running, LONG).await.unwrap();
        assert_eq!(stage.cloud.calls().get("CreateServer"), None, "{status:?}");
        assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{status:?}");

        // Nothing was ordered: then it is, only later.
        begun_by_go(&stage, "m-3", status.clone()).await;
        stage.world.run_for(Duration::from_mins(1)).await;
        assert_eq!(stage.cloud.calls().get("CreateServer"), None, "{status:?}: nobody knows yet");
        stage.run_until_phase("m-3", Phase::Running, LONG).await.unwrap();
        assert_eq!(stage.cloud.calls()["CreateServer"], 1, "{status:?}");
        let violations = stage.world.wire().unwrap().violations();
        assert_eq!(violations, [], "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_another_program_has_begun_with_goes_with_the_server_it_may_have() {
    for (number, status) in states_of_go().into_iter().enumerate() {
        for class_is_there in [true, false] {
            let case = format!("{status:?}, class {class_is_there}");
            let lag = Settings { list_lag: Duration::from_secs(25), ..open_to_all() };
            let mut stage = Stage::new(Plan::seeded(34 + number as u64), lag).await;
            begun_by_go(&stage, "m-2", status.clone()).await;
            plant(&stage, "m-2", "small", CLUSTER);
            stage.delete_machine("m-2").await;
            if class_is_there {
                stage.create_class_and_secret().await;
            }
            stage.start_controller();
            if !class_is_there {
                stage.world.run_for(LONG).await;
                assert!(stage.machines().get("m-2").await.is_ok(), "{case}");
                assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{case}");
                stage.create_class_and_secret().await;
            }
            stage.run_until_gone("m-2", LONG).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            stage.world.run_for(LONG).await;
            let violations = stage.world.wire().unwrap().violations();
            assert_eq!(violations, [], "{case}");
            assert_eq!(ours(&stage.cloud.servers()).count(), 0, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_machine_says_that_it_waits_for_its_class_to_be_kept() {
    let mut stage = Stage::new(Plan::seeded(29), Settings::default()).await;
    stage.create(stage.secrets(), secret()).await;
    let mut class: Value = crate::flow::class();
    class["metadata"]["finalizers"] = json!(["somebody/else"]);
    stage.create(stage.classes(), class).await;
    stage.classes().delete("small", &DeleteParams::default()).await.unwrap();
    stage.start_controller();
    stage.create(stage.machines(), machine("m-2")).await;
    stage.world.run_for(SOON).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 0);
    let told = stage.told("m-2").await;
    assert_eq!(
        told,
        [
            "NotYetKept: the MachineClass \"small\" is being deleted: create it anew once it is gone, or name another one"
        ]
    );

    stage.patch(stage.classes(), "small", json!({"metadata": {"finalizers": null}})).await;
    let class: hostler_gardener::api::MachineClass = from(crate::flow::class());
    stage.classes().create(&kube::api::PostParams::default(), &class).await.unwrap();
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_finished_when_the_controller_is_asked_to_end() {
    // A second more than it has had when it is asked.
    let slow = Fault::Delay(Duration::from_secs(2));
    let plan = Plan::seeded(40).fault_when(move |boundary, _| is_create(boundary).then(|| slow.clone()));
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-1")).await;
    let machines = Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE);
    let marked = async || {
        let seen = machines.get("m-1").await.unwrap().metadata.annotations.unwrap_or_default();
        seen.contains_key("machine.hostler.dev/create-attempt")
    };
    stage.world.run_until("the attempt is marked", SOON, marked).await.unwrap();
    stage.world.run_for(Duration::from_secs(1)).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 0, "the call is on its way");
    stage.world.shutdown().cancel();
    stage.world.run_for(Duration::from_secs(10)).await;
    assert_eq!(ours(&stage.cloud.servers()).count(), 1);
    let seen = machines.get("m-1").await.unwrap();
    assert_ne!(seen.spec.provider_id, "", "its answer was lost\n{}", stage.world.wire().unwrap().trace());
}

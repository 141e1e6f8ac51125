//! The defects of the Go controllers that `docs/gardener.md` lists: each has a test that shows what happens here.

use crate::flow::{NAMESPACE, SOON, Stage, class, controller, machine, ours, secret};
use hostler_base::{Body, BoxError, Transport, transport};
use hostler_gardener::{
    Options,
    api::{Machine, Phase},
};
use hostler_sim::{Fault, Plan, stackit::Settings};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// What the embedded API server puts into every pod.
const PRIORITY: &str = "\"priority\":0,";

/// How a row of the page begins, and the tests that show what it says.
const SHOWN: &[(&str, &[&str])] = &[
    ("the text of a cloud's error stands", &["the_words_of_a_cloud_lead_nobody_astray"]),
    (
        "the Node's condition `Terminating`",
        &["a_node_that_goes_says_whether_it_was_well", "a_node_is_not_well_by_any_condition_that_counts"],
    ),
    ("the annotation `machine-join-duration`", &["the_stages_of_a_machine_are_told_by_pool_kind_and_zone"]),
    ("metrics of durations crash", &["the_stages_of_a_machine_are_told_by_pool_kind_and_zone"]),
    (
        "crashes: a deletion seen late",
        &[
            "what_vanished_while_nobody_looked_is_told",
            "what_is_missing_is_said_and_works_as_soon_as_it_is_there",
            "attachments_of_volumes_without_a_name_are_let_go_with_the_others",
            "pods_with_claims_leave_though_they_have_no_priority",
            "names_of_any_length_have_tokens_nodes_and_an_end",
        ],
    ),
    (
        "a bootstrap token's id has three characters",
        &[
            "machines_whose_names_give_the_same_id_have_tokens_of_their_own",
            "a_token_is_used_again_only_if_it_is_this_machines_and_can_still_be_used",
        ],
    ),
    (
        "a drain that ran out of time",
        &[
            "a_volume_that_does_not_let_go_holds_up_neither_the_others_nor_the_end",
            "attachments_are_cleared_before_the_server_goes",
        ],
    ),
    ("a volume's id is used as a regular", &["ids_are_not_taken_for_parts_of_others"]),
    (
        "the freeze flag is a data race",
        &[
            "a_server_that_is_down_for_long_freezes_and_one_that_is_up_thaws",
            "one_that_cannot_be_thawed_holds_up_no_other_and_does_not_fail_for_it",
            "one_that_is_frozen_alone_can_be_deleted",
        ],
    ),
    ("templates are synced by changing", &["what_may_change_on_a_machine_is_kept_in_step"]),
    (
        "a MachineDeployment with `Recreate`",
        &["a_deployment_without_surge_keeps_nobody_from_being_looked_at"],
    ),
    ("an update in place waits", &["a_machine_that_boots_does_not_hold_up_an_update_in_place"]),
    ("a change of `replicas` in the middle", &["scaling_does_not_stall_an_update_in_place"]),
    ("a taint with `timeAdded`", &["a_taint_that_only_differs_in_its_time_is_the_same"]),
    ("a changed failure that looks like", &["the_same_failure_of_another_call_is_not_written_again"]),
    ("a class has two keys", &["woken_while_it_runs_it_runs_again_and_never_twice_at_once"]),
    (
        "a failed Machine that nobody owns",
        &[
            "a_machine_that_failed_without_a_server_orders_none_any_more",
            "a_machine_that_failed_without_a_server_costs_the_cloud_nothing_any_more",
        ],
    ),
    ("a server may be initialised although", &["nothing_is_done_to_a_server_whose_id_is_not_written"]),
    ("endless recursion on errors", &["failures_back_off_and_are_counted_and_panics_are_failures"]),
    // Where it wastes calls, time or memory.
    (
        "live reads in every round",
        &[
            "one_life_makes_the_committed_calls",
            "a_cloud_in_which_nothing_changes_is_listed_now_and_then_and_not_called_otherwise",
        ],
    ),
    (
        "status asked per machine and round",
        &[
            "many_machines_are_looked_for_in_one_list_and_settled_by_another",
            "many_deletions_are_one_reason_to_look_for_orphans",
            "every_call_ends_within_its_time",
            "many_machines_that_hit_one_quota_do_not_come_again_at_once",
        ],
    ),
    ("five seconds between two steps", &["a_deletion_takes_hardly_longer_than_the_cloud_needs_for_it"]),
    (
        "who is deleted while it comes",
        &["a_machine_that_is_given_back_while_its_server_is_made_goes_at_once"],
    ),
    (
        "a drain occupies a worker",
        &["drains_hold_up_no_creation", "force_is_noticed_in_the_middle_of_a_drain"],
    ),
    (
        "the limit of 20 calls a second",
        &[
            "drains_hold_up_no_creation",
            "a_thousand_drains_delay_no_creation",
            "a_thousand_deletions_delay_no_creation",
            "whoever_lets_others_go_first_takes_what_is_left_and_every_fifth_turn",
        ],
    ),
    ("nobody is told that machines were", &["whoever_was_left_alone_is_told_so_afterwards"]),
    ("whole pods, volumes and claims", &["a_pod_is_read_with_what_matters_and_nothing_else"]),
    (
        "one replacement at a time",
        &["of_a_deployment_one_machine_is_given_up_at_a_time", "not_even_blind_are_two_given_up_at_once"],
    ),
    (
        "sets make too many machines",
        &[
            "names_are_written_down_before_machines_with_these_names_are_made",
            "nothing_is_made_or_deleted_on_the_word_of_a_cache_alone",
        ],
    ),
    (
        "orphans are deleted at first sight",
        &[
            "orphans_are_given_time_and_then_go",
            "only_so_many_go_at_once_and_the_others_soon_after",
            "when_most_of_a_class_looks_orphaned_people_decide",
            "a_dry_run_only_tells",
            "a_class_is_let_go_only_when_its_servers_are_gone",
        ],
    ),
    (
        "`/healthz` is always fine",
        &[
            "one_leads_is_ready_and_gives_its_lease_back",
            "one_that_is_asked_to_end_while_nothing_answers_ends_gives_its_lease_back_and_nothing_is_doubled",
            "nobody_is_shown_a_secret_in_a_whole_life",
        ],
    ),
    (
        "pods with volumes one after another",
        &[
            "pods_with_volumes_go_one_after_another",
            "a_volume_is_followed_from_one_node_to_the_other",
            "a_budget_that_never_allows_anything_is_told_and_works_when_corrected",
        ],
    ),
    // Of STACKIT's provider.
    (
        "the label selector is trusted",
        &[
            "what_is_not_marked_as_ours_is_no_orphan_whatever_the_cloud_lists",
            "collection_survives_unknown_outcomes_in_foul_weather",
        ],
    ),
    (
        "clusters in one project with equal names",
        &[
            "two_machines_of_one_name_in_one_project_do_not_touch_each_other",
            "a_server_is_found_by_its_labels_and_by_nothing_else",
        ],
    ),
    (
        "a server in `ERROR` is adopted",
        &[
            "a_server_that_never_ran_is_replaced_after_a_while",
            "each_server_that_fails_is_waited_for_longer_whoever_works_by_then",
        ],
    ),
    ("nothing is cleaned up after half", &["what_is_done_afterwards_survives_every_fault"]),
    (
        "two servers of one Machine are an error",
        &[
            "the_server_with_the_node_is_kept_else_the_oldest_that_runs",
            "of_two_servers_of_a_machine_the_one_without_a_ready_node_goes",
            "every_match_is_found_and_can_be_deleted",
        ],
    ),
    (
        "a lost answer and a late list",
        &["one_life_survives_unknown_outcomes_with_a_lagging_list_and_an_ignored_selector"],
    ),
    (
        "boot volumes without `bootVolume` stay",
        &[
            "everything_is_done_to_a_server_before_it_counts",
            "a_server_that_is_given_up_while_it_is_made_leaves_no_volume",
            "a_class_that_changed_orphans_no_volume",
        ],
    ),
    ("NICs and volumes made besides", &["what_was_given_stays_and_what_was_made_goes"]),
    (
        "the server's state is ignored",
        &[
            "every_status_with_every_power_status_has_its_answers",
            "every_method_answers_as_the_table_of_statuses_says",
            "every_state_of_a_server_has_its_step",
            "a_machine_is_available_with_its_addresses_and_goes_without_a_drain",
        ],
    ),
    ("a snapshot is taken as boot source", &["what_is_wrong_is_told_with_its_field"]),
    ("a class with `nicIds` for several", &["a_class_with_things_that_exist_once_is_for_one_machine"]),
    (
        "nearly every refused order",
        &[
            "purpose_status_and_body_together_give_the_code",
            "a_refusal_on_the_way_in_is_told_and_tried_again",
        ],
    ),
    ("one 500 makes a deletion wait", &["a_refusal_on_the_way_out_is_told_and_tried_again"]),
    (
        "one failure ends the wait",
        &[
            "a_wait_survives_failures_and_says_the_last_status_when_it_is_over",
            "a_deletion_that_takes_too_long_is_told_with_the_last_status_and_goes_on",
        ],
    ),
    (
        "no room is recognised in a cut-off text",
        &["words_about_room_count_however_far_down_they_stand", "no_room_is_resource_exhausted"],
    ),
    ("the first wrong field only", &["all_of_it_is_told_at_once"]),
    ("a class without a region is not noticed", &["what_is_missing_is_told_before_any_call"]),
    (
        "a rotated key needs a restart",
        &[
            "the_old_key_ends_in_the_middle_of_a_hundred_creations_and_no_machine_fails",
            "a_key_that_is_replaced_before_its_end_is_not_missed",
            "many_projects_and_keys_are_used_at_once",
        ],
    ),
    ("a wrong Secret at the start", &["a_broken_secret_works_at_once_when_it_is_corrected"]),
    (
        "without a key, credentials of the surroundings",
        &["what_is_missing_is_told_before_any_call", "credentials_that_lie_about_are_not_used"],
    ),
    (
        "no timeout, retry, limit",
        &[
            "every_call_ends_within_its_time",
            "a_question_is_asked_again_after_an_unknown_outcome",
            "an_order_is_never_repeated_after_an_unknown_outcome",
            "after_refusals_calls_come_one_by_one_and_slower",
            "a_refused_token_is_replaced_once_for_all",
            "one_flight_serves_all_callers",
        ],
    ),
    (
        "a worker waits ten minutes per server",
        &["many_machines_share_the_poller", "who_waits_is_told_soon_and_nobody_else_is_listed_for"],
    ),
    ("no `GetVolumeIDs`", &["volumes_of_this_cloud_have_ids_and_others_have_none"]),
    ("no `InitializeMachine`", &["everything_is_done_to_a_server_before_it_counts"]),
    (
        "`allowedAddresses` are compared as text",
        &[
            "allowed_addresses_hold_also_when_somebody_takes_them_away",
            "ranges_are_read_as_go_reads_them",
            "a_nic_that_changes_at_the_same_time_is_read_again",
            "ranges_that_a_class_gets_later_reach_the_machines_that_run",
        ],
    ),
    (
        "labels are not changed",
        &["labels_that_a_class_gets_later_change_no_server", "labels_of_another_domain_are_another_world"],
    ),
    ("types, images and quotas", &["a_refusal_names_what_does_not_exist_and_what_does"]),
    (
        "no metrics, ids of requests",
        &[
            "every_metric_is_there_after_machines_came_and_went",
            "the_ids_of_a_refused_call_reach_people_and_cost_no_writes",
            "the_console_tells_why_a_node_did_not_join",
        ],
    ),
    (
        "no bootstrap token in the class's",
        &["the_class_may_ask_for_a_token_as_well_and_in_the_form_of_an_address"],
    ),
    ("samples that cannot work", &["the_samples_live_are_scaled_and_rolled_and_leave_nothing"]),
    (
        "raw answers in the log",
        &["the_message_is_the_clouds_own_and_not_too_long", "nobody_is_shown_a_secret_in_a_whole_life"],
    ),
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first cells of the page's tables about defects.
fn rows() -> Vec<String> {
    let page = fs::read_to_string(workspace().join("docs/gardener.md")).unwrap();
    let (_, rest) = page.split_once("## Defects of the Go controllers").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.filter(|cell| *cell != "there").map(str::to_owned).collect()
}

/// Everything that is written in the crates.
fn sources(directory: &Path, into: &mut String) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_defect_of_the_page_has_a_test_that_exists() {
    let rows = rows();
    let mut written = String::new();
    sources(&workspace().join("crates"), &mut written);
    for row in &rows {
        let entries: Vec<_> = SHOWN.iter().filter(|(start, _)| row.starts_with(start)).collect();
        assert_eq!(entries.len(), 1, "{row}");
    }
    for (start, tests) in SHOWN {
        assert!(rows.iter().any(|row| row.starts_with(start)), "the page says nothing of: {start}");
        for test in *tests {
            assert!(written.contains(&format!("fn {test}(")), "{start}: there is no test {test}");
        }
    }
}

async fn running(plan: Plan, class: Value, name: &str) -> Stage {
    let mut stage = Stage::new(plan, Settings::default()).await;
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    stage.create(stage.classes(), class).await;
    stage.create(stage.machines(), machine(name)).await;
    stage.run_until_phase(name, Phase::Running, SOON).await.unwrap();
    stage
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_well_by_any_condition_that_counts() {
    let mut stage = running(Plan::seeded(900), class(), "m-5").await;
    let nodes = Api::<Node>::all(stage.admin.clone());
    stage.nodes.silence("m-5");
    stage.world.run_for(Duration::from_secs(1)).await;
    let deadlock =
        json!({"status": {"conditions": [{"type": "KernelDeadlock", "status": "True", "reason": "Test"}]}});
    nodes.patch_status("m-5", &PatchParams::default(), &Patch::Strategic(deadlock)).await.unwrap();
    stage.run_until_phase("m-5", Phase::Failed, Duration::from_mins(20)).await.unwrap();
    stage.delete_machine("m-5").await;
    let says = async || {
        let node = nodes.get_opt("m-5").await.ok().flatten();
        let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
        let going = conditions.iter().find(|one| one.type_ == "Terminating");
        going.is_some_and(|going| going.reason.as_deref() == Some("Unhealthy"))
    };
    stage.world.run_until("it goes because it is not well", SOON, says).await.unwrap();
    stage.run_until_gone("m-5", SOON).await.unwrap();
}

/// An API server without the admission that gives every pod a priority, and how often it shows one that has none.
fn without_priorities(server: Transport) -> (Transport, Arc<AtomicUsize>) {
    let shown = Arc::new(AtomicUsize::new(0));
    let counts = shown.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (call, counts) = (transport::send(&server, request), counts.clone());
        async move {
            let answer = call.await?;
            let stripped = move |data: bytes::Bytes| {
                let text = String::from_utf8_lossy(&data);
                counts.fetch_add(text.matches(PRIORITY).count(), Ordering::Relaxed);
                bytes::Bytes::from(text.replace(PRIORITY, ""))
            };
            Ok::<_, BoxError>(
                answer.map(|body| transport::boxed(body.map_frame(move |frame| frame.map_data(&stripped)))),
            )
        }
    });
    (transport::from_service(service), shown)
}

#[tokio::test(start_paused = true)]
async fn pods_with_claims_leave_though_they_have_no_priority() {
    let mut stage = Stage::new(Plan::seeded(901), Settings::default()).await;
    let (kubernetes, shown) = without_priorities(stage.world.kubernetes());
    stage.world.start_through(kubernetes, "machine-controller", |context| {
        Box::pin(controller(context, Options::default()))
    });
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, SOON).await.unwrap();
    for name in ["one", "two"] {
        let claim = json!({"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{name}")}});
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "m-5", "volumes": [claim],
            "containers": [{"name": "c", "image": "i"}]}});
        stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), pod).await;
    }
    stage.world.run_for(Duration::from_secs(10)).await;
    stage.delete_machine("m-5").await;
    stage.run_until_gone("m-5", Duration::from_mins(20)).await.unwrap();
    assert_eq!(stage.leftovers().await, [""; 0]);
    assert!(shown.load(Ordering::Relaxed) >= 2, "their priorities were shown");
    let calls = stage.world.wire().unwrap().recording().0;
    let evicted = calls.iter().filter(|(_, call)| call.template.ends_with("/eviction")).count();
    assert_eq!(evicted, 2, "both were asked to leave");
}

/// Whatever else is asked for, the server of a Machine is found again by the id that is written on it.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_to_a_server_whose_id_is_not_written() {
    let mut demanding = class();
    demanding["providerSpec"]["allowedAddresses"] = json!(["10.0.0.0/8"]);
    // Everything that is written on the Machine after the order is refused at first: somebody else was faster.
    let plan = Plan::seeded(902).fault_when(|boundary, _| {
        let writes = boundary.verb == "PUT" && boundary.template.ends_with("/machines/{name}");
        (writes && (2..=5).contains(&boundary.nth))
            .then_some(Fault::Answer { status: 409, after_effect: false })
    });
    let mut stage = Stage::new(plan, Settings::default()).await;
    let (cloud, machines) = (stage.cloud.clone(), Api::<Machine>::namespaced(stage.admin.clone(), NAMESPACE));
    stage.world.observe(Arc::new(move || {
        let (cloud, machines) = (cloud.clone(), machines.clone());
        Box::pin(async move {
            let changed = cloud.nics().iter().any(|nic| !nic.allowed_addresses.is_empty());
            let machine = machines.get_opt("m-5").await.map_err(|error| error.to_string())?;
            let unnamed = machine.is_some_and(|machine| machine.spec.provider_id.is_empty());
            if changed && unnamed {
                Err("a NIC was changed before the id was written".to_owned())
            } else {
                Ok(())
            }
        })
    }));
    stage.start_controller();
    stage.create(stage.secrets(), secret()).await;
    stage.create(stage.classes(), demanding).await;
    stage.create(stage.machines(), machine("m-5")).await;
    stage.run_until_phase("m-5", Phase::Running, Duration::from_mins(15)).await.unwrap();
    assert!(stage.world.wire().unwrap().faults() >= 4, "{}", stage.world.wire().unwrap().faults());
    let servers = stage.cloud.servers();
    assert_eq!(ours(&servers).count(), 1);
    assert!(stage.cloud.nics().iter().any(|nic| nic.allowed_addresses == ["10.0.0.0/8"]));
}

/// Failures of the cloud while a server boots, and one that boots for ever.
#[tokio::test(start_paused = true)]
async fn a_wait_survives_failures_and_says_the_last_status_when_it_is_over() {
    use hostler_sim::stackit::Fault as Refusal;
    let mut stage = Stage::new(Plan::seeded(903), Settings::default()).await;
    stage.cloud.set(|settings| settings.boot_time = Duration::from_mins(3));
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-5")).await;
    let cloud = stage.cloud.clone();
    let ordered = async || ours(&cloud.servers()).count() == 1;
    stage.world.run_until("it is ordered", SOON, ordered).await.unwrap();
    let server = ours(&stage.cloud.servers()).next().unwrap().id.clone();
    for operation in ["ListServers", "GetServer"] {
        stage.cloud.add_fault(Refusal::on(operation).status(500).times(10)).unwrap();
    }
    stage.run_until_phase("m-5", Phase::Running, Duration::from_mins(6)).await.unwrap();
    assert_eq!(ours(&stage.cloud.servers()).next().unwrap().id, server, "it is the same one");

    stage.cloud.set(|settings| settings.boot_time = Duration::from_hours(3));
    stage.create(stage.machines(), machine("m-6")).await;
    stage.run_until_phase("m-6", Phase::Failed, Duration::from_mins(30)).await.unwrap();
    let operation = stage.machines().get("m-6").await.unwrap().status.unwrap().last_operation;
    assert_eq!(operation.error_code, "DeadlineExceeded");
    assert!(
        operation.description.contains("is CREATING, waiting until it runs"),
        "{}",
        operation.description
    );
}

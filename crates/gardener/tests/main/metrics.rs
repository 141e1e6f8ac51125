//! Every metric that dashboards of Gardener's machine controllers and of STACKIT's provider look for is served.

use crate::flow::{Seat, Stage, class, controller_on, machine, secret};
use hostler_base::transport;
use hostler_controller::Health;
use hostler_gardener::{
    Options,
    api::{MachineClass, Phase},
};
use hostler_sim::{
    Plan,
    stackit::{Fault, Settings},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const SOON: Duration = Duration::from_mins(10);

/// What is expected of a metric once machines came and went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shows {
    /// Something, while the machines are there.
    WhileThere,
    Something,
    /// It is told, and nothing happened.
    Nothing,
    /// It is told; how much of it there is is a matter of luck.
    Whatever,
}

/// Name, labels in their order, what it shows. Of a histogram the count is looked at.
const ALL: [(&str, &[&str], Shows); 37] = {
    use Shows::{Nothing, Something, Whatever, WhileThere};
    const KIND: &[&str] = &["namespace", "machine_deployment", "instance_type", "zone"];
    const SERVICE: &[&str] = &["provider", "service"];
    const NAME: &[&str] = &["name"];
    const HTTP: &[&str] = &["component", "host", "method", "operation", "status_code"];
    [
        ("mcm_machine_controller_frozen", &[], Nothing),
        ("mcm_machine_items_total", &[], WhileThere),
        ("mcm_machine_current_status_phase", &["name", "namespace"], WhileThere),
        (
            "mcm_machine_info",
            &[
                "name",
                "namespace",
                "createdAt",
                "spec_provider_id",
                "spec_class_api_group",
                "spec_class_kind",
                "spec_class_name",
                "node_name",
            ],
            WhileThere,
        ),
        ("mcm_machine_status_condition", &["name", "namespace", "condition"], WhileThere),
        ("mcm_machine_create_duration_seconds", KIND, Whatever),
        ("mcm_machine_initialize_duration_seconds", KIND, Something),
        ("mcm_machine_join_duration_seconds", KIND, Something),
        ("mcm_machine_delete_duration_seconds", KIND, Something),
        ("mcm_machine_drain_duration_seconds", &["namespace", "machine_deployment"], Whatever),
        ("mcm_machine_num_failed_join", KIND, Something),
        ("mcm_cloud_api_requests_total", SERVICE, Something),
        ("mcm_cloud_api_requests_failed_total", SERVICE, Something),
        ("mcm_cloud_api_api_request_duration_seconds_count", SERVICE, Something),
        ("mcm_cloud_api_driver_request_duration_seconds_count", &["provider", "operation"], Something),
        ("mcm_cloud_api_driver_requests_failed_total", &["provider", "operation", "error_code"], Something),
        ("mcm_misc_scrape_failure_total", &["binary", "kind"], Nothing),
        ("mcm_workqueue_depth", NAME, Nothing),
        ("mcm_workqueue_adds_total", NAME, Something),
        ("mcm_workqueue_queue_duration_seconds_count", NAME, Something),
        ("mcm_workqueue_work_duration_seconds_count", NAME, Something),
        ("mcm_workqueue_unfinished_work_seconds", NAME, Nothing),
        ("mcm_workqueue_longest_running_processor_seconds", NAME, Nothing),
        ("mcm_workqueue_retries_total", NAME, Something),
        ("mcm_reflector_lists_total", NAME, Something),
        ("mcm_reflector_list_duration_seconds_count", NAME, Something),
        ("mcm_reflector_items_per_list_count", NAME, Something),
        ("mcm_reflector_watches_total", NAME, Something),
        ("mcm_reflector_short_watches_total", NAME, Nothing),
        ("mcm_reflector_watch_duration_seconds_count", NAME, Something),
        ("mcm_reflector_items_per_watch_count", NAME, Something),
        ("mcm_reflector_last_resource_version", NAME, Something),
        ("rest_client_request_latency_seconds_count", &["verb", "url"], Something),
        ("rest_client_requests_total", &["code", "method", "host"], Something),
        ("stackit_api_http_requests_total", HTTP, Something),
        ("stackit_api_http_errors_total", HTTP, Something),
        ("stackit_api_http_request_duration_seconds_count", HTTP, Something),
    ]
};

/// What a scrape brings, as (name, labels, value).
async fn scrape(health: &Health) -> Vec<(String, Vec<(String, String)>, f64)> {
    let served = transport::from_service(health.router().into_service());
    let request = http::Request::get("/metrics").body(transport::empty()).unwrap();
    let answer = transport::exchange(&served, request, 1 << 20).await.unwrap();
    let text = String::from_utf8(answer.into_body().to_vec()).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(series).collect()
}

fn series(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let labels = labels.trim_end_matches('}').split("\",").filter(|label| !label.is_empty());
    let label = |label: &str| {
        let (name, value) = label.split_once("=\"").unwrap();
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    };
    (name.to_owned(), labels.map(label).collect(), value.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn every_metric_is_there_after_machines_came_and_went() {
    let mut stage = Stage::new(Plan::seeded(90), Settings::default()).await;
    let seat = Seat::default();
    let health = seat.health.clone();
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, Options::default()))
    });
    // The cloud's first answers are no good, so that something fails.
    stage.cloud.add_fault(Fault::on("ListServers").status(500).times(9)).unwrap();
    stage.create(Api::<Secret>::namespaced(stage.user.clone(), crate::flow::NAMESPACE), secret()).await;
    let mut with_template = class();
    with_template["nodeTemplate"] = json!({"capacity": {"cpu": "2", "gpu": "0", "memory": "4Gi"},
        "instanceType": "c2i.2", "region": "eu01", "zone": "eu01-1"});
    let classes = Api::<MachineClass>::namespaced(stage.user.clone(), crate::flow::NAMESPACE);
    stage.create(classes, with_template).await;
    let pooled = |name: &str, more: serde_json::Value| {
        let mut wanted = machine(name);
        wanted["metadata"]["labels"] = json!({"name": "pool"});
        wanted["spec"]["creationTimeout"] = more;
        wanted
    };
    stage.create(stage.machines(), pooled("m-1", json!("20m0s"))).await;
    stage.run_until_phase("m-1", Phase::Running, SOON).await.unwrap();
    // This one's node does not come in time.
    stage.cloud.set(|settings| settings.join_time = Duration::from_hours(1));
    stage.create(stage.machines(), pooled("m-2", json!("1m0s"))).await;
    stage.run_until_phase("m-2", Phase::Failed, SOON).await.unwrap();
    let there = scrape(&health).await;
    for name in ["m-1", "m-2"] {
        stage.delete_machine(name).await;
        stage.run_until_gone(name, SOON).await.unwrap();
    }
    stage.world.run_for(Duration::from_mins(2)).await;
    let gone = scrape(&health).await;

    for (name, labels, shows) in ALL {
        let scraped = if shows == Shows::WhileThere { &there } else { &gone };
        let found: Vec<_> = scraped.iter().filter(|(other, ..)| other == name).collect();
        assert!(!found.is_empty(), "{name} is not there");
        for (_, own, _) in &found {
            let own: Vec<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(own, labels, "the labels of {name}");
        }
        let something = found.iter().any(|(_, _, value)| *value != 0.0);
        match shows {
            Shows::WhileThere | Shows::Something => assert!(something, "{name} shows nothing: {found:?}"),
            Shows::Nothing => assert!(!something, "{name} shows something: {found:?}"),
            Shows::Whatever => {}
        }
        // What tells of single machines goes with them, and nothing else names them.
        let names_a_machine = |own: &[(String, String)]| own.iter().any(|(_, value)| value.contains("m-1"));
        let about_machines = shows == Shows::WhileThere && !labels.is_empty();
        assert_eq!(found.iter().any(|(_, own, _)| names_a_machine(own)), about_machines, "{name}");
    }
    assert_eq!(gone.iter().find(|(_, own, _)| own.iter().any(|(_, value)| value.contains("m-1"))), None);
    let values = |metric: &str, label: &str| -> BTreeSet<String> {
        let series = gone.iter().filter(|(name, ..)| name == metric);
        series
            .flat_map(|(_, own, _)| own)
            .filter(|(name, _)| name == label)
            .map(|(_, value)| value.clone())
            .collect()
    };
    let queues = [
        "machine",
        "machineclass",
        "machinesafetyapiserver",
        "machinesafetyorphanvms",
        "machinetermination",
        "node",
        "secret",
    ];
    assert_eq!(values("mcm_workqueue_adds_total", "name"), queues.map(str::to_owned).into());
    let operations =
        ["create_machine", "delete_machine", "get_machine_status", "initialize_machine", "list_machine"];
    assert_eq!(
        values("mcm_cloud_api_driver_request_duration_seconds_count", "operation"),
        operations.map(str::to_owned).into()
    );
    // What tells this half of Gardener's from the other one.
    let binary = values("mcm_misc_scrape_failure_total", "binary");
    assert_eq!(binary, ["machine-controller-manager-provider".to_owned()].into());
    assert!(values("stackit_api_http_requests_total", "operation").contains("CreateServer"));
    assert!(values("stackit_api_http_errors_total", "status_code").contains("500"));
    let series = gone.len();
    assert!(series < 3000, "{series} series after two machines");
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_leaves_machines_alone_says_so() {
    let away = Arc::new(AtomicBool::new(false));
    let asked = away.clone();
    let plan = Plan::seeded(91).fault_when(move |boundary, _| {
        let probe = boundary.object.ends_with("dummy_name") && asked.load(Ordering::Relaxed);
        probe.then_some(hostler_sim::Fault::Refused)
    });
    let mut stage = Stage::new(plan, Settings::default()).await;
    let seat = Seat::default();
    let health = seat.health.clone();
    stage.world.start("machine-controller", move |context| {
        Box::pin(controller_on(seat.clone(), context, Options::default()))
    });
    for is_away in [false, true, false] {
        away.store(is_away, Ordering::Relaxed);
        stage.world.run_for(SOON).await;
        let told =
            scrape(&health).await.into_iter().find(|(name, ..)| name == "mcm_machine_controller_frozen");
        assert_eq!(told.map(|(.., value)| value > 0.5), Some(is_away));
    }
}

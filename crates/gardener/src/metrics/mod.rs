//! What Gardener's dashboards look for, by the names that they know.

mod driver_calls;
mod objects;

use crate::api::{Machine, MachineClass, names};
pub(crate) use driver_calls::{DriverCalls, Method};
use hostler_controller::Cache;
use kube::ResourceExt;
use objects::Objects;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, gauge::Gauge},
};
use std::{borrow::Cow, fmt, time::Duration};

/// The metrics of a process with these controllers: queues, watches and calls to Kubernetes are told by the names of
/// Gardener's controllers as well.
pub fn metrics() -> hostler_controller::Metrics {
    hostler_controller::Metrics::as_in_client_go("mcm", |queue, lane| match (queue, lane) {
        // There the way out has a queue of its own.
        ("machine", "delete" | "drain") => "machinetermination",
        // There these have a queue each.
        (crate::keep::QUEUE, lane) => lane,
        (queue, _) => queue,
    })
}

#[derive(Clone, Default)]
pub(crate) struct Metrics {
    drain_duration: Family<PoolLabels, Gauge>,
    create_duration: Family<KindLabels, Gauge>,
    initialize_duration: Family<KindLabels, Gauge>,
    join_duration: Family<KindLabels, Gauge>,
    delete_duration: Family<KindLabels, Gauge>,
    failed_joins: Family<KindLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScrapeLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    namespace: String,
    machine_deployment: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    namespace: String,
    machine_deployment: String,
    instance_type: String,
    zone: String,
}

/// What a machine has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its server is there.
    Created,
    /// Everything is done to its server.
    Initialized,
    Joined,
    /// Its server is gone.
    Deleted,
}

impl Metrics {
    pub(crate) fn new(all: &hostler_controller::Metrics, machines: Cache<Machine>) -> Self {
        let metrics = Self::default();
        all.register_with(|registry| {
            registry.register(
                "mcm_machine_drain_duration_seconds",
                "How long the last drain of the MachineDeployment took",
                metrics.drain_duration.clone(),
            );
            for (name, help, family) in [
                (
                    "mcm_machine_create_duration_seconds",
                    "From the Machine's creation until its server was there, for the last one",
                    &metrics.create_duration,
                ),
                (
                    "mcm_machine_initialize_duration_seconds",
                    "From the Machine's creation until its server was set up, for the last one",
                    &metrics.initialize_duration,
                ),
                (
                    "mcm_machine_join_duration_seconds",
                    "From the Machine's creation until its node was Ready, for the last one",
                    &metrics.join_duration,
                ),
                (
                    "mcm_machine_delete_duration_seconds",
                    "From the Machine's deletion until its server was gone, for the last one",
                    &metrics.delete_duration,
                ),
            ] {
                registry.register(name, help, family.clone());
            }
            // Reading a cache cannot fail, so this stays at zero.
            let scrapes: Family<ScrapeLabels, Counter> = Family::default();
            drop(scrapes.get_or_create(&ScrapeLabels { kind: "Machine-count" }));
            let binary = (Cow::Borrowed("binary"), Cow::Borrowed("machine-controller-manager-provider"));
            registry.sub_registry_with_label(binary).register(
                "mcm_misc_scrape_failure",
                "Metrics that could not be collected",
                scrapes,
            );
            registry.register_collector(Box::new(FailedJoins(metrics.failed_joins.clone())));
            registry.register_collector(Box::new(Objects(machines)));
        });
        metrics
    }

    /// The drain of a machine's node is over. Machines without the label of their MachineDeployment are not counted.
    pub(crate) fn drained(&self, machine: &Machine, took: Duration) {
        let Some(deployment) = machine.labels().get(names::DEPLOYMENT_LABEL) else { return };
        let labels = PoolLabels {
            namespace: machine.namespace().unwrap_or_default(),
            machine_deployment: deployment.clone(),
        };
        self.drain_duration.get_or_create(&labels).set(seconds(took));
    }

    /// A machine has come so far after this time. The same machines are counted.
    pub(crate) fn reached(
        &self,
        stage: Stage,
        machine: &Machine,
        class: Option<&MachineClass>,
        took: Duration,
    ) {
        let Some(labels) = kind(machine, class) else { return };
        let family = match stage {
            Stage::Created => &self.create_duration,
            Stage::Initialized => &self.initialize_duration,
            Stage::Joined => &self.join_duration,
            Stage::Deleted => &self.delete_duration,
        };
        family.get_or_create(&labels).set(seconds(took));
    }

    /// A machine's node did not join in time.
    pub(crate) fn did_not_join(&self, machine: &Machine, class: Option<&MachineClass>) {
        if let Some(labels) = kind(machine, class) {
            self.failed_joins.get_or_create(&labels).inc();
        }
    }
}

fn kind(machine: &Machine, class: Option<&MachineClass>) -> Option<KindLabels> {
    let template = class.and_then(|class| class.spec.node_template.as_ref());
    let own = machine.spec.node_template.as_ref().and_then(|template| template.metadata.as_ref());
    let zone = own.and_then(|metadata| metadata.labels.as_ref()?.get("topology.kubernetes.io/zone"));
    Some(KindLabels {
        namespace: machine.namespace().unwrap_or_default(),
        machine_deployment: machine.labels().get(names::DEPLOYMENT_LABEL)?.clone(),
        instance_type: template.map(|template| template.instance_type.clone()).unwrap_or_default(),
        zone: zone.cloned().unwrap_or_default(),
    })
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

/// A counter whose name must not end in `_total`.
struct FailedJoins(Family<KindLabels, Gauge>);

impl fmt::Debug for FailedJoins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FailedJoins")
    }
}

impl Collector for FailedJoins {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Machines whose node did not join in time";
        self.0.encode(encoder.encode_descriptor(
            "mcm_machine_num_failed_join",
            help,
            None,
            MetricType::Unknown,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn machine(labels: Value) -> Machine {
        serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "shoot", "labels": labels},
            "spec": {"class": {"kind": "MachineClass", "name": "c"},
                "nodeTemplate": {"metadata": {"labels": {"topology.kubernetes.io/zone": "eu01-1"}}}}}))
        .unwrap()
    }

    fn lines(all: &hostler_controller::Metrics, name: &str) -> Vec<String> {
        let text = all.text();
        text.lines().filter(|line| line.starts_with(&format!("{name}{{"))).map(str::to_owned).collect()
    }

    #[test]
    fn the_last_drain_of_a_pool_is_told_in_whole_seconds() {
        let all = hostler_controller::Metrics::new();
        let metrics = Metrics::new(&all, Cache::default());
        metrics.drained(&machine(json!({})), Duration::from_secs(5));
        metrics.drained(&machine(json!({"name": "pool"})), Duration::from_secs(5));
        metrics.drained(&machine(json!({"name": "pool"})), Duration::from_millis(7900));
        assert_eq!(
            lines(&all, "mcm_machine_drain_duration_seconds"),
            ["mcm_machine_drain_duration_seconds{namespace=\"shoot\",machine_deployment=\"pool\"} 7"]
        );
    }

    #[test]
    fn the_stages_of_a_machine_are_told_by_pool_kind_and_zone() {
        let all = hostler_controller::Metrics::new();
        let metrics = Metrics::new(&all, Cache::default());
        let class: MachineClass =
            serde_json::from_value(json!({"metadata": {"name": "c"}, "providerSpec": {},
            "nodeTemplate": {"capacity": {}, "instanceType": "c2i.2", "region": "eu01", "zone": "z"}}))
            .unwrap();
        let labelled = machine(json!({"name": "pool"}));
        for (stage, name) in [
            (Stage::Created, "create"),
            (Stage::Initialized, "initialize"),
            (Stage::Joined, "join"),
            (Stage::Deleted, "delete"),
        ] {
            metrics.reached(stage, &machine(json!({})), Some(&class), Duration::from_secs(5));
            metrics.reached(stage, &labelled, Some(&class), Duration::from_secs(5));
            // A class that is gone, or has no template, breaks nothing.
            metrics.reached(stage, &labelled, None, Duration::from_secs(6));
            let name = format!("mcm_machine_{name}_duration_seconds");
            let mut found = lines(&all, &name);
            found.sort();
            let series = |kind: &str, value: u8| {
                format!(
                    "{name}{{namespace=\"shoot\",machine_deployment=\"pool\",instance_type=\"{kind}\",zone=\"eu01-1\"}} {value}"
                )
            };
            assert_eq!(found, [series("", 6), series("c2i.2", 5)]);
        }
        metrics.did_not_join(&labelled, Some(&class));
        metrics.did_not_join(&labelled, Some(&class));
        assert!(lines(&all, "mcm_machine_num_failed_join")[0].ends_with(" 2"));
    }
}

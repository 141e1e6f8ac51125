//! What Gardener's dashboards look for, by the names that they know.

use crate::api::{Machine, names};
use kube::ResourceExt;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
};
use std::time::Duration;

#[derive(Clone, Default)]
pub(crate) struct Metrics {
    drain_duration: Family<PoolLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    namespace: String,
    machine_deployment: String,
}

impl Metrics {
    pub(crate) fn new(all: &hostler_controller::Metrics) -> Self {
        let metrics = Self::default();
        all.register_with(|registry| {
            registry.register(
                "mcm_machine_drain_duration_seconds",
                "How long the last drain of the MachineDeployment took",
                metrics.drain_duration.clone(),
            );
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
        self.drain_duration.get_or_create(&labels).set(i64::try_from(took.as_secs()).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_drain_of_a_pool_is_told_in_whole_seconds() {
        let all = hostler_controller::Metrics::new();
        let metrics = Metrics::new(&all);
        let machine = |labels| -> Machine {
            serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "shoot", "labels": labels},
                "spec": {"class": {"kind": "MachineClass", "name": "c"}}}))
            .unwrap()
        };
        metrics.drained(&machine(json!({})), Duration::from_secs(5));
        metrics.drained(&machine(json!({"name": "pool"})), Duration::from_secs(5));
        metrics.drained(&machine(json!({"name": "pool"})), Duration::from_millis(7900));
        let text = all.text();
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("mcm_machine_drain_duration_seconds{")).collect();
        assert_eq!(
            lines,
            ["mcm_machine_drain_duration_seconds{namespace=\"shoot\",machine_deployment=\"pool\"} 7"]
        );
    }
}

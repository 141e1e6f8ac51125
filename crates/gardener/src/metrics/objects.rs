//! What is told of each Machine, read from the cache when it is asked for: one that is gone leaves nothing behind.

use crate::api::{Machine, Phase, names};
use hostler_controller::Cache;
use kube::{Resource, ResourceExt};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, gauge::ConstGauge},
};
use std::fmt;

pub(super) struct Objects(pub(super) Cache<Machine>);

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Objects")
    }
}

type Labels = Vec<(&'static str, String)>;
/// Name, help and series of one family.
type Told = (&'static str, &'static str, Vec<(Labels, i64)>);

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let machines = self.0.list();
        let count = i64::try_from(machines.len()).unwrap_or(i64::MAX);
        let family = encoder.encode_descriptor(
            "mcm_machine_items_total",
            "Machines there are",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(count).encode(family)?;
        let families: [Told; 3] = [
            (
                "mcm_machine_current_status_phase",
                "The phase: Terminating -4, Failed -3, CrashLoopBackOff -2, Unknown -1, Running 1, others 0",
                machines.iter().map(|machine| (named(machine), phase(machine))).collect(),
            ),
            (
                "mcm_machine_info",
                "What a Machine is, in labels",
                machines.iter().map(|machine| (info(machine), 1)).collect(),
            ),
            (
                "mcm_machine_status_condition",
                "A condition of the Machine's node: True 1, False 0, Unknown 2",
                machines.iter().flat_map(|machine| conditions(machine)).collect(),
            ),
        ];
        for (name, help, series) in families {
            if series.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, value) in &series {
                ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn named(machine: &Machine) -> Labels {
    vec![("name", machine.name_any()), ("namespace", machine.namespace().unwrap_or_default())]
}

fn phase(machine: &Machine) -> i64 {
    match machine.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default() {
        Phase::Terminating => -4,
        Phase::Failed => -3,
        Phase::CrashLoopBackOff => -2,
        Phase::Unknown => -1,
        Phase::Running => 1,
        _ => 0,
    }
}

fn info(machine: &Machine) -> Labels {
    let created = machine.meta().creation_timestamp.as_ref();
    let class = &machine.spec.class;
    let mut labels = named(machine);
    labels.extend([
        ("createdAt", created.map(|at| at.0.as_second().to_string()).unwrap_or_default()),
        ("spec_provider_id", machine.spec.provider_id.clone()),
        ("spec_class_api_group", class.api_group.clone()),
        ("spec_class_kind", class.kind.clone()),
        ("spec_class_name", class.name.clone()),
        ("node_name", machine.labels().get(names::NODE_LABEL).cloned().unwrap_or_default()),
    ]);
    labels
}

fn conditions(machine: &Machine) -> Vec<(Labels, i64)> {
    let conditions = machine.status.iter().flat_map(|status| &status.conditions);
    conditions
        .map(|condition| {
            let mut labels = named(machine);
            labels.push(("condition", condition.type_.clone()));
            let value = match condition.status.as_str() {
                "True" => 1,
                "False" => 0,
                _ => 2,
            };
            (labels, value)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn machine(status: &Value) -> Machine {
        let machine = json!({"metadata": {"name": "m", "namespace": "shoot"}, "spec": {}, "status": status});
        serde_json::from_value(machine).unwrap()
    }

    #[test]
    fn every_phase_has_the_number_that_dashboards_know() {
        for (name, expected) in [
            ("", 0),
            ("Pending", 0),
            ("Available", 0),
            ("Running", 1),
            ("Terminating", -4),
            ("Unknown", -1),
            ("Failed", -3),
            ("CrashLoopBackOff", -2),
            ("InPlaceUpdating", 0),
            ("InPlaceUpdateSuccessful", 0),
            ("InPlaceUpdateFailed", 0),
        ] {
            assert_eq!(phase(&machine(&json!({"currentStatus": {"phase": name}}))), expected, "{name}");
        }
        assert_eq!(phase(&machine(&Value::Null)), 0);
    }

    #[test]
    fn every_condition_has_the_number_of_its_status() {
        let statuses = [("Ready", "True", 1), ("DiskPressure", "False", 0), ("KernelDeadlock", "Unknown", 2)];
        let written = statuses.map(|(kind, status, _)| json!({"type": kind, "status": status}));
        let told = conditions(&machine(&json!({"conditions": written})));
        let expected = statuses.map(|(kind, _, value)| {
            let labels = [("name", "m"), ("namespace", "shoot"), ("condition", kind)];
            (labels.map(|(name, text)| (name, text.to_owned())).to_vec(), value)
        });
        assert_eq!(told, expected);
    }
}

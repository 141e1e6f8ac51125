//! What Gardener's manager tells Prometheus about MachineSets and MachineDeployments, read from the caches when it
//! is asked for: objects that are gone leave nothing behind.

use super::store::Store;
use crate::api::{MachineDeployment, MachineSet, MachineSummary, OperationState, OperationType};
use hostler_controller::Metrics;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::Counter, gauge::ConstGauge},
};
use std::{fmt, sync::Arc};

#[derive(Clone, Default)]
pub(super) struct SetMetrics {
    /// Machines that were deleted because they were unhealthy for too long.
    pub(super) stale: Counter,
}

impl SetMetrics {
    pub(super) fn register(metrics: &Metrics, store: Arc<Store>) -> Self {
        let own = Self::default();
        metrics.register_with(|registry| {
            let help = "Machines deleted because they were unhealthy for too long";
            registry.register("mcm_machine_stale_machines", help, own.stale.clone());
            registry.register_collector(Box::new(Objects(store)));
        });
        own
    }
}

struct Objects(Arc<Store>);

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Objects")
    }
}

/// The labels and the value of one series.
type Series = (Vec<(&'static str, String)>, i64);

impl Collector for Objects {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (sets, deployments) = (self.0.sets.list(), self.0.deployments.list());
        for (name, help, series) in of_sets(&sets).into_iter().chain(of_deployments(&deployments)) {
            if series.is_empty() {
                continue;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            match series.as_slice() {
                [(labels, value)] if labels.is_empty() => ConstGauge::new(*value).encode(family)?,
                series => {
                    for (labels, value) in series {
                        ConstGauge::new(*value).encode(family.encode_family(labels)?)?;
                    }
                }
            }
        }
        Ok(())
    }
}

type Family = (&'static str, &'static str, Vec<Series>);

fn named<K: kube::Resource>(object: &K) -> Vec<(&'static str, String)> {
    vec![("name", object.name_any()), ("namespace", object.namespace().unwrap_or_default())]
}

fn per<K: kube::Resource>(objects: &[Arc<K>], value: impl Fn(&K) -> Option<i64>) -> Vec<Series> {
    objects.iter().filter_map(|object| Some((named(&**object), value(object)?))).collect()
}

fn created_at<K: kube::Resource>(object: &K) -> (&'static str, String) {
    let created = object.creation_timestamp().map_or(0, |time| time.0.as_second());
    ("createdAt", created.to_string())
}

fn total(count: usize) -> Vec<Series> {
    vec![(Vec::new(), i64::try_from(count).unwrap_or(i64::MAX))]
}

fn condition(mut labels: Vec<(&'static str, String)>, kind: &str, status: &str) -> Series {
    labels.push(("condition", kind.to_owned()));
    let value = match status {
        "True" => 1,
        "False" => 0,
        _ => 2,
    };
    (labels, value)
}

fn failed(mut labels: Vec<(&'static str, String)>, machine: &MachineSummary) -> Series {
    let state = |state: OperationState| format!("{state:?}");
    let operation = |operation: OperationType| format!("{operation:?}");
    labels.extend([
        ("failed_machine_name", machine.name.clone()),
        ("failed_machine_provider_id", machine.provider_id.clone()),
        ("failed_machine_owner_ref", machine.owner_ref.clone()),
        ("failed_machine_last_operation_state", machine.last_operation.state.map(state).unwrap_or_default()),
        (
            "failed_machine_last_operation_machine_operation_type",
            machine.last_operation.operation.map(operation).unwrap_or_default(),
        ),
    ]);
    (labels, 1)
}

fn of_sets(sets: &[Arc<MachineSet>]) -> Vec<Family> {
    let of = |set: &MachineSet| set.status.clone().unwrap_or_default();
    let info = |set: &Arc<MachineSet>| {
        let class = &set.spec.machine_class;
        let mut labels = named(&**set);
        labels.extend([
            created_at(&**set),
            ("spec_machine_class_api_group", class.api_group.clone()),
            ("spec_machine_class_kind", class.kind.clone()),
            ("spec_machine_class_name", class.name.clone()),
        ]);
        (labels, 1)
    };
    let conditions = |set: &Arc<MachineSet>| {
        let labels = named(&**set);
        let one =
            move |each: crate::api::MachineSetCondition| condition(labels.clone(), &each.kind, &each.status);
        of(set).conditions.into_iter().map(one)
    };
    let failures = |set: &Arc<MachineSet>| {
        let labels = named(&**set);
        of(set).failed_machines.into_iter().map(move |machine| failed(labels.clone(), &machine))
    };
    let number = |value: fn(&MachineSet) -> i32| per(sets, |set| Some(i64::from(value(set))));
    let status =
        |value: fn(&crate::api::MachineSetStatus) -> i32| per(sets, |set| Some(i64::from(value(&of(set)))));
    vec![
        ("mcm_machine_set_items_total", "MachineSets", total(sets.len())),
        ("mcm_machine_set_info", "A MachineSet", sets.iter().map(info).collect()),
        ("mcm_machine_set_info_spec_replicas", "What is asked for", number(|set| set.spec.replicas)),
        (
            "mcm_machine_set_info_spec_min_ready_seconds",
            "The set's minReadySeconds",
            number(|set| set.spec.min_ready_seconds),
        ),
        (
            "mcm_machine_set_status_condition",
            "Conditions: 1 is True, 0 False, 2 Unknown",
            sets.iter().flat_map(conditions).collect(),
        ),
        ("mcm_machine_set_failed_machines", "Failed machines", sets.iter().flat_map(failures).collect()),
        (
            "mcm_machine_set_status_available_replicas",
            "Machines that are up",
            status(|status| status.available_replicas),
        ),
        (
            "mcm_machine_set_status_fully_labelled_replicas",
            "Machines with all labels of the template",
            status(|status| status.fully_labeled_replicas),
        ),
        (
            "mcm_machine_set_status_ready_replicas",
            "Machines that run",
            status(|status| status.ready_replicas),
        ),
        ("mcm_machine_set_status_replicas", "Machines", status(|status| status.replicas)),
    ]
}

fn of_deployments(deployments: &[Arc<MachineDeployment>]) -> Vec<Family> {
    let of = |deployment: &MachineDeployment| deployment.status.clone().unwrap_or_default();
    let info = |deployment: &Arc<MachineDeployment>| {
        let mut labels = named(&**deployment);
        labels.extend([
            created_at(&**deployment),
            ("spec_strategy_type", deployment.spec.strategy.kind.clone()),
        ]);
        (labels, 1)
    };
    let conditions = |deployment: &Arc<MachineDeployment>| {
        let labels = named(&**deployment);
        let one = move |each: crate::api::MachineDeploymentCondition| {
            condition(labels.clone(), &each.kind, &each.status)
        };
        of(deployment).conditions.into_iter().map(one)
    };
    let failures = |deployment: &Arc<MachineDeployment>| {
        let labels = named(&**deployment);
        of(deployment).failed_machines.into_iter().map(move |machine| failed(labels.clone(), &machine))
    };
    let number = |value: fn(&MachineDeployment) -> Option<i64>| per(deployments, value);
    let status = |value: fn(&crate::api::MachineDeploymentStatus) -> i32| {
        per(deployments, |deployment| Some(i64::from(value(&of(deployment)))))
    };
    vec![
        ("mcm_machine_deployment_items_total", "MachineDeployments", total(deployments.len())),
        ("mcm_machine_deployment_info", "A MachineDeployment", deployments.iter().map(info).collect()),
        (
            "mcm_machine_deployment_info_spec_paused",
            "1 while it is paused",
            number(|deployment| Some(i64::from(deployment.spec.paused))),
        ),
        (
            "mcm_machine_deployment_info_spec_replicas",
            "What is asked for",
            number(|deployment| Some(i64::from(deployment.spec.replicas))),
        ),
        (
            "mcm_machine_deployment_info_spec_min_ready_seconds",
            "The deployment's minReadySeconds",
            number(|deployment| Some(i64::from(deployment.spec.min_ready_seconds))),
        ),
        (
            "mcm_machine_deployment_info_spec_rolling_update_max_surge",
            "How many may be there besides during an update; a percentage as its number",
            number(|deployment| whole(deployment.spec.strategy.rolling_update.as_ref()?.max_surge.as_ref()?)),
        ),
        (
            "mcm_machine_deployment_info_spec_rolling_update_max_unavailable",
            "How many may be missing during an update; a percentage as its number",
            number(|deployment| {
                whole(deployment.spec.strategy.rolling_update.as_ref()?.max_unavailable.as_ref()?)
            }),
        ),
        (
            "mcm_machine_deployment_info_spec_revision_history_limit",
            "How many old MachineSets are kept",
            number(|deployment| deployment.spec.revision_history_limit.map(i64::from)),
        ),
        (
            "mcm_machine_deployment_info_spec_progress_deadline_seconds",
            "How long an update may make no progress",
            number(|deployment| deployment.spec.progress_deadline_seconds.map(i64::from)),
        ),
        (
            "mcm_machine_deployment_info_spec_rollback_to_revision",
            "The revision that is gone back to",
            number(|deployment| Some(deployment.spec.rollback_to.as_ref()?.revision)),
        ),
        (
            "mcm_machine_deployment_status_condition",
            "Conditions: 1 is True, 0 False, 2 Unknown",
            deployments.iter().flat_map(conditions).collect(),
        ),
        (
            "mcm_machine_deployment_status_available_replicas",
            "Machines that are up",
            status(|status| status.available_replicas),
        ),
        (
            "mcm_machine_deployment_status_unavailable_replicas",
            "Machines that are asked for and not up",
            status(|status| status.unavailable_replicas),
        ),
        (
            "mcm_machine_deployment_status_ready_replicas",
            "Machines that run",
            status(|status| status.ready_replicas),
        ),
        (
            "mcm_machine_deployment_status_updated_replicas",
            "Machines of the present template",
            status(|status| status.updated_replicas),
        ),
        (
            "mcm_machine_deployment_status_collision_count",
            "How often the name of a new MachineSet was somebody else's",
            per(deployments, |deployment| of(deployment).collision_count.map(i64::from)),
        ),
        ("mcm_machine_deployment_status_replicas", "Machines", status(|status| status.replicas)),
        (
            "mcm_machine_deployment_failed_machines",
            "Failed machines",
            deployments.iter().flat_map(failures).collect(),
        ),
    ]
}

fn whole(value: &IntOrString) -> Option<i64> {
    match value {
        IntOrString::Int(number) => Some(i64::from(*number)),
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What Gardener's manager has, after `mcm_machine_set_` and `mcm_machine_deployment_`.
    const OF_SETS: [&str; 10] = [
        "items_total",
        "info",
        "info_spec_replicas",
        "info_spec_min_ready_seconds",
        "status_condition",
        "failed_machines",
        "status_available_replicas",
        "status_fully_labelled_replicas",
        "status_ready_replicas",
        "status_replicas",
    ];
    const OF_DEPLOYMENTS: [&str; 18] = [
        "items_total",
        "info",
        "info_spec_paused",
        "info_spec_replicas",
        "info_spec_min_ready_seconds",
        "info_spec_rolling_update_max_surge",
        "info_spec_rolling_update_max_unavailable",
        "info_spec_revision_history_limit",
        "info_spec_progress_deadline_seconds",
        "info_spec_rollback_to_revision",
        "status_condition",
        "status_available_replicas",
        "status_unavailable_replicas",
        "status_ready_replicas",
        "status_updated_replicas",
        "status_collision_count",
        "status_replicas",
        "failed_machines",
    ];

    /// The value of the one series that a family has, and its labels.
    fn only<'a>(families: &'a [Family], name: &str) -> &'a Series {
        let (_, _, series) =
            families.iter().find(|(own, _, _)| *own == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(series.len(), 1, "{name}");
        &series[0]
    }

    #[test]
    fn everything_that_gardeners_manager_tells_is_told() {
        let failed = json!([{"name": "m", "providerID": "stackit://p/s", "ownerRef": "s",
            "lastOperation": {"type": "HealthCheck", "state": "Failed", "description": "unhealthy"}}]);
        let template = json!({"spec": {"class": {"kind": "MachineClass", "name": "small"}}});
        let set: MachineSet = serde_json::from_value(json!({
            "metadata": {"name": "s", "namespace": "n"},
            "spec": {"replicas": 7, "minReadySeconds": 11, "template": template},
            // Gardener's manager tells readyReplicas as replicas; each has its own number here.
            "status": {"replicas": 6, "fullyLabeledReplicas": 5, "readyReplicas": 4, "availableReplicas": 3,
                "failedMachines": failed,
                "machineSetCondition": [{"type": "Frozen", "status": "True", "reason": "OverShootingReplicaCount"}]},
        }))
        .unwrap();
        let sets = of_sets(&[Arc::new(set)]);
        for name in OF_SETS {
            only(&sets, &format!("mcm_machine_set_{name}"));
        }
        assert_eq!(sets.len(), OF_SETS.len());
        for (name, expected) in [
            ("items_total", 1),
            ("info", 1),
            ("info_spec_replicas", 7),
            ("info_spec_min_ready_seconds", 11),
            ("failed_machines", 1),
            ("status_available_replicas", 3),
            ("status_fully_labelled_replicas", 5),
            ("status_ready_replicas", 4),
            ("status_replicas", 6),
        ] {
            assert_eq!(only(&sets, &format!("mcm_machine_set_{name}")).1, expected, "{name}");
        }
        let (labels, value) = only(&sets, "mcm_machine_set_status_condition");
        assert_eq!((labels.last(), value), (Some(&("condition", "Frozen".to_owned())), &1));
        let (labels, _) = only(&sets, "mcm_machine_set_failed_machines");
        assert!(labels.contains(&("failed_machine_last_operation_state", "Failed".to_owned())), "{labels:?}");

        let deployment: MachineDeployment = serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n"},
            "spec": {"replicas": 17, "minReadySeconds": 12, "paused": true, "template": template,
                "revisionHistoryLimit": 3, "progressDeadlineSeconds": 600,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "30%", "maxUnavailable": 1}},
                "rollbackTo": {"revision": 7}},
            "status": {"collisionCount": 4, "failedMachines": failed, "replicas": 16, "updatedReplicas": 15,
                "readyReplicas": 14, "availableReplicas": 13, "unavailableReplicas": 9,
                "conditions": [{"type": "Progressing", "status": "Unknown"}]},
        }))
        .unwrap();
        let deployments = of_deployments(&[Arc::new(deployment)]);
        let names = OF_DEPLOYMENTS.map(|name| format!("mcm_machine_deployment_{name}"));
        for name in &names {
            only(&deployments, name);
        }
        assert_eq!(deployments.len(), names.len());
        for (name, expected) in [
            ("items_total", 1),
            ("info", 1),
            ("info_spec_paused", 1),
            ("info_spec_replicas", 17),
            ("info_spec_min_ready_seconds", 12),
            ("info_spec_rolling_update_max_unavailable", 1),
            ("info_spec_revision_history_limit", 3),
            ("info_spec_progress_deadline_seconds", 600),
            ("status_available_replicas", 13),
            ("status_unavailable_replicas", 9),
            ("status_ready_replicas", 14),
            ("status_updated_replicas", 15),
            ("status_replicas", 16),
            ("info_spec_rollback_to_revision", 7),
            ("status_collision_count", 4),
            ("failed_machines", 1),
            ("status_condition", 2),
            ("info_spec_rolling_update_max_surge", 30),
        ] {
            assert_eq!(only(&deployments, &format!("mcm_machine_deployment_{name}")).1, expected, "{name}");
        }
    }
}

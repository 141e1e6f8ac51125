//! Pods and the templates of daemon sets.

use crate::cluster::Priorities;
use crate::error::{At, Error, Fault, each};
use crate::quantity::resources;
use crate::requests::{Resize, container, whole_pod};
use crate::select;
use hostler_planner::model::{
    DaemonSet, Owner, OwnerKind, Phase, Pod, PodSpec, Time, Verdict, Volume, VolumeSource,
};
use k8s_openapi::api::apps::v1 as apps;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use std::sync::Arc;

const MIRROR: &str = "kubernetes.io/config.mirror";
pub fn pod(from: &core::Pod, priorities: &Priorities) -> Result<Pod, Error> {
    convert(from, priorities).of("Pod", &from.metadata)
}

fn convert(from: &core::Pod, priorities: &Priorities) -> Result<Pod, Fault> {
    let metadata = &from.metadata;
    let wanted = from.spec.as_ref().ok_or_else(|| Fault::new("is missing")).at("spec")?;
    let status = from.status.clone().unwrap_or_default();
    let statuses: Vec<core::ContainerStatus> = status
        .container_statuses
        .iter()
        .flatten()
        .chain(status.init_container_statuses.iter().flatten())
        .cloned()
        .collect();
    let infeasible = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
    });
    let resize = Resize { statuses: &statuses, infeasible };
    let given = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let name = metadata.name.clone().unwrap_or_default();
    Ok(Pod {
        namespace: metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        owner: owner(metadata),
        created: seconds(metadata.creation_timestamp.as_ref()).unwrap_or_default(),
        started: seconds(status.start_time.as_ref()),
        deleting: seconds(metadata.deletion_timestamp.as_ref()),
        phase: match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => Phase::Finished,
            Some("Running" | "Unknown") => Phase::Running,
            _ => Phase::Pending,
        },
        verdict: verdict(wanted, &status),
        node: given(&wanted.node_name),
        nominated_node: given(&status.nominated_node_name),
        spec: Arc::new(spec(wanted, metadata, &name, priorities, &resize).at("spec")?),
        name,
    })
}

pub fn daemon_set(from: &apps::DaemonSet, priorities: &Priorities) -> Result<DaemonSet, Error> {
    let converted = || {
        let wanted = from.spec.as_ref().ok_or_else(|| Fault::new("is missing")).at("spec")?;
        let template = &wanted.template;
        let pod = template.spec.as_ref().ok_or_else(|| Fault::new("is missing"));
        let labels = template.metadata.clone().unwrap_or_default();
        let name = from.metadata.name.clone().unwrap_or_default();
        let nothing = Resize { statuses: &[], infeasible: false };
        let spec = pod
            .and_then(|pod| spec(pod, &labels, &name, priorities, &nothing))
            .at("spec")
            .at("template")
            .at("spec")?;
        Ok(DaemonSet {
            namespace: from.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            name,
            spec: Arc::new(spec),
        })
    };
    converted().of("DaemonSet", &from.metadata)
}

fn spec(
    from: &core::PodSpec,
    metadata: &meta::ObjectMeta,
    name: &str,
    priorities: &Priorities,
    resize: &Resize<'_>,
) -> Result<PodSpec, Fault> {
    let host_network = from.host_network.unwrap_or(false);
    let converted = |from: &core::Container| container(from, host_network, resize);
    Ok(PodSpec {
        labels: metadata.labels.clone().unwrap_or_default(),
        priority: from.priority.or_else(|| priorities.of(from.priority_class_name.as_deref())),
        scheduler: from.scheduler_name.clone().filter(|name| !name.is_empty()),
        containers: each(&from.containers, converted).at("containers")?,
        init_containers: each(from.init_containers.iter().flatten(), converted).at("initContainers")?,
        overhead: from.overhead.as_ref().map(resources).transpose().at("overhead")?.unwrap_or_default(),
        pod_requests: whole_pod(from)?,
        node_selector: from.node_selector.clone().unwrap_or_default(),
        affinity: from
            .affinity
            .as_ref()
            .map(select::affinity)
            .transpose()
            .at("affinity")?
            .unwrap_or_default(),
        tolerations: each(from.tolerations.iter().flatten(), select::toleration).at("tolerations")?,
        spread: each(from.topology_spread_constraints.iter().flatten(), select::spread)
            .at("topologySpreadConstraints")?,
        volumes: from.volumes.iter().flatten().map(|from| volume(from, name)).collect(),
        resource_claims: from.resource_claims.iter().flatten().map(|claim| claim.name.clone()).collect(),
    })
}

fn volume(from: &core::Volume, pod: &str) -> Volume {
    let source = if let Some(claim) = &from.persistent_volume_claim {
        VolumeSource::Claim(claim.claim_name.clone())
    } else if from.ephemeral.is_some() {
        VolumeSource::Claim(format!("{pod}-{}", from.name))
    } else if let Some(directory) = &from.empty_dir {
        VolumeSource::EmptyDir { in_memory: directory.medium.as_deref() == Some("Memory") }
    } else if from.host_path.is_some() {
        VolumeSource::HostPath
    } else {
        VolumeSource::Other
    };
    Volume { name: from.name.clone(), source }
}

fn owner(metadata: &meta::ObjectMeta) -> Option<Owner> {
    let owners = metadata.owner_references.iter().flatten();
    let controller = owners.into_iter().find(|owner| owner.controller == Some(true));
    if metadata.annotations.as_ref().is_some_and(|own| own.contains_key(MIRROR)) {
        let name = controller.map(|owner| owner.name.clone()).unwrap_or_default();
        return Some(Owner { kind: OwnerKind::Node, name });
    }
    let controller = controller?;
    let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = match (group, controller.kind.as_str()) {
        ("apps", "ReplicaSet") => OwnerKind::ReplicaSet,
        ("apps", "StatefulSet") => OwnerKind::StatefulSet,
        ("apps", "DaemonSet") => OwnerKind::DaemonSet,
        ("batch", "Job") => OwnerKind::Job,
        ("", "ReplicationController") => OwnerKind::ReplicationController,
        ("", "Node") => OwnerKind::Node,
        _ => OwnerKind::Other,
    };
    Some(Owner { kind, name: controller.name.clone() })
}

fn verdict(spec: &core::PodSpec, status: &core::PodStatus) -> Verdict {
    if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        return Verdict::Gated;
    }
    let scheduled = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled");
    match scheduled {
        Some(condition) if condition.status == "False" => match condition.reason.as_deref() {
            Some("Unschedulable") => Verdict::Unschedulable,
            Some("SchedulingGated") => Verdict::Gated,
            _ => Verdict::Unseen,
        },
        _ => Verdict::Unseen,
    }
}

pub(crate) fn seconds(time: Option<&meta::Time>) -> Option<Time> {
    time.map(|time| time.0.as_second())
}

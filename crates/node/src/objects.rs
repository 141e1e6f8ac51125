//! Objects of the target cluster, with just the fields that a drain looks at: a big cluster has many of them, and
//! all of them are kept.

use jiff::Timestamp;
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement},
};
use kube::{ResourceExt, api::ObjectMeta};
use serde::Deserialize;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};

const MIRROR: &str = "kubernetes.io/config.mirror";

macro_rules! resource {
    ($type:ident, $kind:literal, $group:literal, $plural:literal, $scope:ty) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }
            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }
            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &kube::api::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut kube::api::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource;

resource!(BoundPod, "Pod", "", "pods", NamespaceResourceScope);
resource!(Budget, "PodDisruptionBudget", "policy", "poddisruptionbudgets", NamespaceResourceScope);
resource!(Claim, "PersistentVolumeClaim", "", "persistentvolumeclaims", NamespaceResourceScope);
resource!(Volume, "PersistentVolume", "", "persistentvolumes", ClusterResourceScope);
resource!(Attachment, "VolumeAttachment", "storage.k8s.io", "volumeattachments", ClusterResourceScope);

/// The metadata that is of use here.
fn trimmed(metadata: ObjectMeta, labels: bool) -> ObjectMeta {
    ObjectMeta {
        name: metadata.name,
        namespace: metadata.namespace,
        uid: metadata.uid,
        resource_version: metadata.resource_version,
        generation: metadata.generation,
        deletion_timestamp: metadata.deletion_timestamp,
        deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
        labels: metadata.labels.filter(|_| labels),
        ..ObjectMeta::default()
    }
}

/// A pod that has a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Pod")]
pub(crate) struct BoundPod {
    metadata: ObjectMeta,
    pub(crate) node: String,
    /// It belongs to its node and does not leave it: a mirror pod, or one of a DaemonSet.
    pub(crate) stays: bool,
    /// The names of its PersistentVolumeClaims.
    pub(crate) claims: Vec<String>,
    pub(crate) priority: i32,
    pub(crate) grace: Duration,
    pub(crate) phase: String,
    pub(crate) ready: bool,
}

impl BoundPod {
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it has to go before the node may.
    pub(crate) fn has_to_leave(&self, leave_ended: bool) -> bool {
        !(self.stays || leave_ended && self.has_ended())
    }

    /// Whether the API server asks the budget before it lets this pod go.
    pub(crate) fn counts_for_budgets(&self) -> bool {
        self.phase == "Running" && self.ready && self.metadata.deletion_timestamp.is_none()
    }

    /// Since when it is being deleted, until when it may take, and whether without any grace.
    pub(crate) fn leaving(&self) -> Option<(Timestamp, Timestamp, bool)> {
        let until = self.metadata.deletion_timestamp.as_ref()?.0;
        let grace = self.metadata.deletion_grace_period_seconds.unwrap_or_default();
        let since = until.checked_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(until);
        Some((since, until, grace == 0))
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Budget")]
pub(crate) struct Budget {
    metadata: ObjectMeta,
    selector: Option<LabelSelector>,
    status: wire::BudgetStatus,
}

impl Budget {
    pub(crate) fn covers(&self, pod: &BoundPod) -> bool {
        self.selector.as_ref().is_some_and(|selector| selects(selector, pod.labels()))
    }

    fn observed(&self) -> bool {
        self.status.observed_generation >= self.metadata.generation.unwrap_or_default()
    }

    /// How many pods may be disturbed now, as far as the budget's controller knows.
    pub(crate) fn allowed(&self) -> i32 {
        if self.observed() { self.status.disruptions_allowed.max(0) } else { 0 }
    }

    /// It allows no disruption although all its pods are well: it never will.
    pub(crate) fn is_misconfigured(&self) -> bool {
        let status = &self.status;
        self.observed()
            && status.expected_pods > 0
            && status.current_healthy >= status.expected_pods
            && status.disrupted_pods.is_empty()
            && status.disruptions_allowed == 0
    }
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal && selector.match_expressions.iter().flatten().all(|one| holds(one, labels))
}

fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
    match requirement.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Claim")]
pub(crate) struct Claim {
    metadata: ObjectMeta,
    /// The name of the volume it is bound to.
    pub(crate) volume: Option<String>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Volume")]
pub struct Volume {
    metadata: ObjectMeta,
    /// Nothing for a volume that no cloud knows, such as NFS.
    pub source: Option<VolumeSource>,
}

/// Where a volume comes from, as far as a cloud can recognise it as its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    Csi {
        driver: String,
        handle: String,
    },
    /// A source that was part of Kubernetes once: its field's name and the volume's id in it.
    InTree {
        kind: String,
        id: String,
    },
}

/// In-tree sources and the fields that hold their ids.
const IN_TREE: [(&str, &str); 5] = [
    ("awsElasticBlockStore", "volumeID"),
    ("azureDisk", "diskName"),
    ("cinder", "volumeID"),
    ("gcePersistentDisk", "pdName"),
    ("vsphereVolume", "volumePath"),
];

impl VolumeSource {
    fn read(spec: &BTreeMap<String, Value>) -> Option<Self> {
        let text = |source: &Value, field: &str| Some(source.get(field)?.as_str()?.to_owned());
        if let Some(csi) = spec.get("csi") {
            return Some(Self::Csi { driver: text(csi, "driver")?, handle: text(csi, "volumeHandle")? });
        }
        IN_TREE.iter().find_map(|(kind, field)| {
            Some(Self::InTree { kind: (*kind).to_owned(), id: text(spec.get(*kind)?, field)? })
        })
    }

    /// The volume's id in its cloud, if nobody who knows better is there to ask.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::Csi { handle, .. } => handle,
            Self::InTree { id, .. } => id,
        }
    }
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::Attachment")]
pub(crate) struct Attachment {
    metadata: ObjectMeta,
    pub(crate) node: String,
    /// Nothing for an inline volume.
    pub(crate) volume: Option<String>,
    pub(crate) attached: bool,
}

impl Attachment {
    pub(crate) fn is_live(&self) -> bool {
        self.metadata.deletion_timestamp.is_none()
    }
}

/// As the API server sends them.
mod wire {
    use super::{LabelSelector, MIRROR, ObjectMeta, Value, VolumeSource, trimmed};
    use serde::Deserialize;
    use std::{collections::BTreeMap, time::Duration};

    #[derive(Deserialize)]
    pub(super) struct Pod {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: PodSpec,
        #[serde(default)]
        status: PodStatus,
    }

    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct PodSpec {
        node_name: Option<String>,
        volumes: Option<Vec<PodVolume>>,
        priority: Option<i32>,
        termination_grace_period_seconds: Option<i64>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PodVolume {
        persistent_volume_claim: Option<ClaimSource>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ClaimSource {
        claim_name: String,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PodStatus {
        phase: Option<String>,
        conditions: Option<Vec<Condition>>,
    }

    #[derive(Deserialize)]
    struct Condition {
        r#type: String,
        status: String,
    }

    impl From<Pod> for super::BoundPod {
        fn from(Pod { metadata, spec, status }: Pod) -> Self {
            let mirror = metadata.annotations.iter().flatten().any(|(key, _)| key == MIRROR);
            let owners = metadata.owner_references.iter().flatten();
            let daemon = owners.clone().any(|one| one.controller == Some(true) && one.kind == "DaemonSet");
            let claims = spec.volumes.into_iter().flatten().filter_map(|one| one.persistent_volume_claim);
            let grace = spec.termination_grace_period_seconds.unwrap_or_default();
            let ready = |one: &Condition| one.r#type == "Ready" && one.status == "True";
            Self {
                stays: mirror || daemon,
                metadata: trimmed(metadata, true),
                node: spec.node_name.unwrap_or_default(),
                claims: claims.map(|one| one.claim_name).collect(),
                priority: spec.priority.unwrap_or_default(),
                grace: Duration::from_secs(grace.try_into().unwrap_or_default()),
                phase: status.phase.unwrap_or_default(),
                ready: status.conditions.iter().flatten().any(ready),
            }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct Budget {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: BudgetSpec,
        #[serde(default)]
        status: BudgetStatus,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct BudgetSpec {
        selector: Option<LabelSelector>,
    }

    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    pub(super) struct BudgetStatus {
        pub(super) observed_generation: i64,
        pub(super) disruptions_allowed: i32,
        pub(super) current_healthy: i32,
        pub(super) expected_pods: i32,
        pub(super) disrupted_pods: BTreeMap<String, Value>,
    }

    impl From<Budget> for super::Budget {
        fn from(Budget { metadata, spec, status }: Budget) -> Self {
            Self { metadata: trimmed(metadata, false), selector: spec.selector, status }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct Claim {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: ClaimSpec,
    }

    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct ClaimSpec {
        volume_name: Option<String>,
    }

    impl From<Claim> for super::Claim {
        fn from(Claim { metadata, spec }: Claim) -> Self {
            let volume = spec.volume_name.filter(|name| !name.is_empty());
            Self { metadata: trimmed(metadata, false), volume }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct Volume {
        metadata: ObjectMeta,
        #[serde(default)]
        spec: BTreeMap<String, Value>,
    }

    impl From<Volume> for super::Volume {
        fn from(Volume { metadata, spec }: Volume) -> Self {
            Self { metadata: trimmed(metadata, false), source: VolumeSource::read(&spec) }
        }
    }

    #[derive(Deserialize)]
    pub(super) struct Attachment {
        metadata: ObjectMeta,
        spec: AttachmentSpec,
        #[serde(default)]
        status: AttachmentStatus,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct AttachmentSpec {
        node_name: String,
        #[serde(default)]
        source: AttachmentSource,
    }

    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct AttachmentSource {
        persistent_volume_name: Option<String>,
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct AttachmentStatus {
        attached: bool,
    }

    impl From<Attachment> for super::Attachment {
        fn from(Attachment { metadata, spec, status }: Attachment) -> Self {
            Self {
                metadata: trimmed(metadata, false),
                node: spec.node_name,
                volume: spec.source.persistent_volume_name,
                attached: status.attached,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(value: Value) -> BoundPod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn pods_of_daemon_sets_and_mirror_pods_stay() {
        let owned = |kind: &str, controller: bool| {
            json!({"metadata": {"name": "p", "ownerReferences": [
                {"apiVersion": "v1", "kind": kind, "name": "o", "uid": "u", "controller": controller}]}})
        };
        for (object, stays) in [
            (json!({"metadata": {"name": "p"}}), false),
            (json!({"metadata": {"name": "p", "annotations": {MIRROR: "x"}}}), true),
            (owned("DaemonSet", true), true),
            (owned("DaemonSet", false), false),
            (owned("ReplicaSet", true), false),
        ] {
            assert_eq!(pod(object.clone()).stays, stays, "{object}");
        }
    }

    #[test]
    fn a_pod_is_read_with_what_matters_and_nothing_else() {
        let pod = pod(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}, "annotations": {"big": "x"},
                "deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 20},
            "spec": {"nodeName": "node", "priority": 7, "terminationGracePeriodSeconds": 30,
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }));
        assert_eq!((pod.node.as_str(), pod.priority, pod.grace.as_secs()), ("node", 7, 30));
        assert_eq!((pod.claims.as_slice(), pod.ready), (["c".to_owned()].as_slice(), true));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(pod.leaving(), Some((at(40), at(60), false)));
        assert!(pod.annotations().is_empty() && pod.labels().len() == 1);
    }

    #[test]
    fn budgets_tell_whom_they_cover_and_whether_they_ever_allow_anything() {
        let budget = |selector: Value, status: Value| -> Budget {
            serde_json::from_value(json!({"metadata": {"name": "b", "generation": 2},
                "spec": {"selector": selector}, "status": status}))
            .unwrap()
        };
        let pod = pod(json!({"metadata": {"name": "p", "labels": {"app": "db"}}}));
        let expression = |operator: &str| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": ["db"]}]});
        for (selector, covers) in [
            (json!(null), false),
            (json!({}), true),
            (json!({"matchLabels": {"app": "db"}}), true),
            (json!({"matchLabels": {"app": "web"}}), false),
            (expression("In"), true),
            (expression("NotIn"), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
        ] {
            assert_eq!(budget(selector.clone(), json!({})).covers(&pod), covers, "{selector}");
        }
        let well =
            json!({"observedGeneration": 2, "expectedPods": 3, "currentHealthy": 3, "disruptionsAllowed": 0});
        for (change, allowed, misconfigured) in [
            (json!({}), 0, true),
            (json!({"disruptionsAllowed": 2}), 2, false),
            (json!({"disruptionsAllowed": 2, "observedGeneration": 1}), 0, false),
            (json!({"observedGeneration": 1}), 0, false),
            (json!({"currentHealthy": 2}), 0, false),
            (json!({"expectedPods": 0, "currentHealthy": 0}), 0, false),
            (json!({"disruptedPods": {"p": "2026-01-01T00:00:00Z"}}), 0, false),
        ] {
            let mut status = well.clone();
            status.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let budget = budget(json!({}), status);
            assert_eq!((budget.allowed(), budget.is_misconfigured()), (allowed, misconfigured), "{change}");
        }
    }

    #[test]
    fn volumes_name_their_source() {
        let read = |spec: Value| -> Option<VolumeSource> {
            serde_json::from_value::<Volume>(json!({"metadata": {"name": "v"}, "spec": spec})).unwrap().source
        };
        let csi = json!({"capacity": {}, "csi": {"driver": "d", "volumeHandle": "h"}});
        assert_eq!(read(csi), Some(VolumeSource::Csi { driver: "d".into(), handle: "h".into() }));
        let cinder = json!({"cinder": {"volumeID": "h"}});
        assert_eq!(read(cinder), Some(VolumeSource::InTree { kind: "cinder".into(), id: "h".into() }));
        assert_eq!(read(json!({"nfs": {"server": "s", "path": "/"}})), None);
    }
}

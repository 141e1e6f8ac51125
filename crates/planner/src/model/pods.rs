use super::{Effect, Resources, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub annotations: BTreeMap<String, String>,
    pub owner: Option<Owner>,
    pub created: Time,
    pub started: Option<Time>,
    /// `metadata.deletionTimestamp`: when it should be gone.
    pub deleting: Option<Time>,
    pub phase: Phase,
    /// What the scheduler said of a pod without a node.
    pub verdict: Verdict,
    pub node: Option<String>,
    pub nominated_node: Option<String>,
    /// Pods may share one: who gives the same `Arc` saves the planner the comparison.
    pub spec: Arc<PodSpec>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Pending,
    Running,
    Finished,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// No word of a scheduler yet.
    Unseen,
    #[default]
    Unschedulable,
    Gated,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub kind: OwnerKind,
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerKind {
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Job,
    DaemonSet,
    /// A mirror pod's.
    Node,
    Other,
}

/// What decides where a pod can go. Pods of one namespace with equal specs are one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSpec {
    pub labels: BTreeMap<String, String>,
    pub priority: Option<i32>,
    pub scheduler: Option<String>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub overhead: Resources,
    /// `spec.resources.requests`; CPU, memory and huge pages stand for the whole pod where given.
    pub pod_requests: Option<Resources>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Affinity,
    pub tolerations: Vec<Toleration>,
    pub spread: Vec<Spread>,
    pub volumes: Vec<Volume>,
    /// Resource claims (DRA).
    pub resource_claims: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    pub requests: Resources,
    pub host_ports: Vec<HostPort>,
    /// An init container with `restartPolicy: Always`.
    pub sidecar: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct HostPort {
    pub port: u16,
    /// Empty is TCP.
    pub protocol: String,
    /// Empty is every address.
    pub ip: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Affinity {
    pub node: NodeAffinity,
    pub pods: PodAffinity,
    pub anti: PodAffinity,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// One of the terms must match.
    pub required: Option<Vec<NodeTerm>>,
    pub preferred: Vec<Weighted<NodeTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    pub required: Vec<PodTerm>,
    pub preferred: Vec<Weighted<PodTerm>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weighted<T> {
    pub weight: i32,
    pub term: T,
}

/// All requirements must hold; a term without any matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeTerm {
    pub labels: Vec<Requirement>,
    /// On `metadata.name`.
    pub fields: Vec<Requirement>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    #[default]
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
}

impl Requirement {
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Self {
        Self {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        }
    }
}

/// A label selector; empty matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Selector {
    pub labels: BTreeMap<String, String>,
    pub expressions: Vec<Requirement>,
}

impl Selector {
    pub fn label(key: &str, value: &str) -> Self {
        Self { labels: BTreeMap::from([(key.to_owned(), value.to_owned())]), expressions: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodTerm {
    pub topology_key: String,
    /// None matches nothing.
    pub selector: Option<Selector>,
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<Selector>,
    pub match_label_keys: Vec<String>,
    pub mismatch_label_keys: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SpreadPolicy {
    Honor,
    Ignore,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    pub topology_key: String,
    pub max_skew: i32,
    /// `DoNotSchedule`; otherwise `ScheduleAnyway`.
    pub hard: bool,
    pub selector: Option<Selector>,
    pub min_domains: Option<i32>,
    pub node_affinity: SpreadPolicy,
    pub node_taints: SpreadPolicy,
    pub match_label_keys: Vec<String>,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            topology_key: String::new(),
            max_skew: 1,
            hard: true,
            selector: None,
            min_domains: None,
            node_affinity: SpreadPolicy::Honor,
            node_taints: SpreadPolicy::Ignore,
            match_label_keys: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    #[default]
    Equal,
    Exists,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Empty with `Exists` is every key.
    pub key: String,
    pub operator: TolerationOperator,
    pub value: String,
    /// None is every effect.
    pub effect: Option<Effect>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    pub name: String,
    pub source: VolumeSource,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VolumeSource {
    /// Of no concern to planning: config maps, secrets and their like.
    #[default]
    Other,
    EmptyDir {
        in_memory: bool,
    },
    HostPath,
    /// A claim of the pod's namespace; for a generic ephemeral volume the claim made from it.
    Claim(String),
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    pub namespace: String,
    pub name: String,
    pub spec: Arc<PodSpec>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

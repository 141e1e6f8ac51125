use super::NodeTerm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub namespace: String,
    pub name: String,
    pub class: Option<String>,
    /// `spec.volumeName`.
    pub volume: Option<String>,
    /// `ReadWriteOncePod`.
    pub single_pod: bool,
    /// How much it asks for, and how it must be accessible; of interest only where nobody provisions its class.
    pub request: i64,
    pub modes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    pub name: String,
    /// Zone and region labels bind it as well.
    pub labels: BTreeMap<String, String>,
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// The CSI driver, where there is one.
    pub driver: Option<String>,
    /// A directory or disk of one node: it does not move with the pod.
    pub local: bool,
    /// Belongs to no claim, and any of its class may have it that asks for no more.
    pub available: bool,
    pub class: Option<String>,
    pub capacity: i64,
    pub modes: Vec<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StorageClass {
    pub name: String,
    /// Also the name of the CSI driver.
    pub provisioner: String,
    pub wait_for_first_consumer: bool,
    /// One of the terms must match.
    pub allowed_topologies: Vec<NodeTerm>,
}

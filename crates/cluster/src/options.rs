use std::time::Duration;

/// Which parts run, and how patient they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Gives pods their nodes.
    pub scheduler: bool,
    pub deployments: bool,
    pub replica_sets: bool,
    pub stateful_sets: bool,
    pub daemon_sets: bool,
    pub jobs: bool,
    /// Deletes what lost its owners.
    pub garbage_collection: bool,
    /// Empties namespaces that are being deleted.
    pub namespaces: bool,
    /// Keeps the status of PodDisruptionBudgets.
    pub budgets: bool,
    /// Marks nodes unknown whose lease is not renewed, and keeps their taints.
    pub node_life_cycle: bool,
    /// Deletes pods from nodes whose NoExecute taints they do not tolerate.
    pub taint_eviction: bool,
    /// Deletes pods whose node is gone, and long-ended ones above a limit.
    pub pod_garbage_collection: bool,
    /// Binds claims to volumes.
    pub volume_binding: bool,
    /// Makes a volume for each claim whose StorageClass names a provisioner, as a CSI driver would.
    pub provisioner: bool,
    /// Writes VolumeAttachments for pods' CSI volumes and removes them again.
    pub attach_detach: bool,
    /// Confirms VolumeAttachments, as a CSI driver would.
    pub attacher: bool,
    /// Keeps the finalizers that protect volumes and claims in use.
    pub volume_protection: bool,
    /// Gives each namespace its `default` ServiceAccount and its `kube-root-ca.crt`.
    pub service_accounts: bool,
    /// Deletes expired bootstrap tokens.
    pub bootstrap_tokens: bool,
    /// Writes events.
    pub events: bool,
    /// How long a node's lease may be silent before the node is Unknown.
    pub node_grace_period: Duration,
    /// How often nodes' leases are looked at.
    pub node_monitor_period: Duration,
    /// How long a node has to be gone before its pods are deleted: it may just be registering again.
    pub gone_node_quarantine: Duration,
    /// How often pods of nodes that are gone are looked for.
    pub pod_garbage_period: Duration,
    /// How many ended pods are kept before the oldest are deleted; 0 keeps all.
    pub ended_pods_kept: usize,
    /// What `kube-root-ca.crt` holds.
    pub root_certificate: String,
}

impl Options {
    /// Everything on, with the patience of a real control plane.
    pub fn all() -> Self {
        Self {
            scheduler: true,
            deployments: true,
            replica_sets: true,
            stateful_sets: true,
            daemon_sets: true,
            jobs: true,
            garbage_collection: true,
            namespaces: true,
            budgets: true,
            node_life_cycle: true,
            taint_eviction: true,
            pod_garbage_collection: true,
            volume_binding: true,
            provisioner: true,
            attach_detach: true,
            attacher: true,
            volume_protection: true,
            service_accounts: true,
            bootstrap_tokens: true,
            events: true,
            node_grace_period: Duration::from_secs(50),
            node_monitor_period: Duration::from_secs(5),
            gone_node_quarantine: Duration::from_secs(40),
            pod_garbage_period: Duration::from_secs(20),
            ended_pods_kept: 12_500,
            root_certificate: String::new(),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::all()
    }
}

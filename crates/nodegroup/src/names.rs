//! Every name that others read or write: labels, annotations, finalizers, reasons, events, error texts.

/// Labels of Nodes and of VPSieNodes.
pub mod label {
    /// The NodeGroup's name, on Nodes and VPSieNodes.
    pub const NODE_GROUP: &str = "autoscaler.vpsie.com/nodegroup";
    /// Its namespace: two groups of one name are two groups.
    pub const NODE_GROUP_NAMESPACE: &str = "autoscaler.vpsie.com/nodegroup-namespace";
    /// The NodeGroup's name, on VPSieNodes, as people select by it.
    pub const GROUP: &str = "nodegroup";
    pub const INSTANCE_TYPE: &str = "autoscaler.vpsie.com/instance-type";
    pub const DATACENTER: &str = "autoscaler.vpsie.com/datacenter";
    /// The VPSieNode's name, on its Node.
    pub const VPSIE_NODE: &str = "autoscaler.vpsie.com/vpsienode";
    /// `true` on Nodes that come and go with a VPSieNode.
    pub const MANAGED: &str = "autoscaler.vpsie.com/managed";

    pub const REGION: &str = "topology.kubernetes.io/region";
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    pub const NODE_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
}

/// Annotations by which people say something.
pub mod annotation {
    /// On a NodeGroup: `true` stops all scaling.
    pub const PAUSE: &str = "autoscaler.vpsie.com/pause";
    pub const MIN_NODES_OVERRIDE: &str = "autoscaler.vpsie.com/min-nodes-override";
    pub const MAX_NODES_OVERRIDE: &str = "autoscaler.vpsie.com/max-nodes-override";

    /// On a VPSieNode: `true` keeps it from everything but an explicit deletion.
    pub const DO_NOT_DELETE: &str = "autoscaler.vpsie.com/do-not-delete";
    /// On a VPSieNode: seconds.
    pub const DRAIN_TIMEOUT: &str = "autoscaler.vpsie.com/drain-timeout";
    /// On a VPSieNode that is deleted: `true` has its pods deleted at once and the VPS after them.
    pub const FORCE_DELETE: &str = "autoscaler.vpsie.com/force-delete";
    /// On a VPSieNode: the number or the identifier of a VPS that is there already and becomes its own.
    pub const ADOPT: &str = "autoscaler.vpsie.com/adopt";
    /// On an adopted VPSieNode: `Delete` has its VPS deleted with it.
    pub const DELETION_POLICY: &str = "autoscaler.vpsie.com/deletion-policy";
    /// On a VPSieNode: `true` says that its VPS is really gone although very many are missing at once.
    pub const VPS_GONE: &str = "autoscaler.vpsie.com/vps-gone";
}

/// Annotations that the controllers write for themselves.
pub mod note {
    /// On a VPSieNode: the mark of an order and when it was written.
    pub const ATTEMPT: &str = "autoscaler.vpsie.com/attempt";
    /// On a VPSieNode: the identifier of its VPS, by which VPSie's API asks for it.
    pub const VPS_IDENTIFIER: &str = "autoscaler.vpsie.com/vps-identifier";
    /// On a VPSieNode: since when the cloud shows its VPS nowhere.
    pub const ABSENT_SINCE: &str = "autoscaler.vpsie.com/absent-since";
    /// On a VPSieNode: why and since when the autoscaler wants it gone.
    pub const REMOVAL: &str = "autoscaler.vpsie.com/removal";
    /// On a VPSieNode: when a removal was last given up.
    pub const REMOVAL_FAILED: &str = "autoscaler.vpsie.com/removal-failed";
    /// On a VPSieNode: for which pods it was made.
    pub const MADE_FOR: &str = "autoscaler.vpsie.com/made-for";
    /// On a Node: the VPSieNode for which it was cordoned.
    pub const CORDONED_FOR: &str = "autoscaler.vpsie.com/cordoned-for";
    /// On a Node: which labels and taints it has of its NodeGroup, so that they go when that one drops them.
    pub const APPLIED: &str = "autoscaler.vpsie.com/applied";
    /// On a Node: since when it is not needed.
    pub const UNNEEDED_SINCE: &str = "autoscaler.vpsie.com/unneeded-since";
    /// On a Node: it came because of measured usage.
    pub const BOUGHT_BY_USAGE: &str = "autoscaler.vpsie.com/bought-by-usage";
    /// On a Node: when it was last part of a consolidation.
    pub const CONSOLIDATED: &str = "autoscaler.vpsie.com/consolidated";
    /// On a NodeGroup: when it last grew, shrank and was consolidated, when that was regretted, and since when its nodes
    /// have been busy.
    pub const LAST_SCALE_UP: &str = "autoscaler.vpsie.com/last-scale-up";
    pub const LAST_SCALE_DOWN: &str = "autoscaler.vpsie.com/last-scale-down";
    pub const LAST_CONSOLIDATION: &str = "autoscaler.vpsie.com/last-consolidation";
    pub const REGRETTED: &str = "autoscaler.vpsie.com/regretted";
    pub const HOT_SINCE: &str = "autoscaler.vpsie.com/hot-since";
    /// On a NodeGroup: offerings that are not to be had, and until when none is ordered.
    pub const BACK_OFF: &str = "autoscaler.vpsie.com/back-off";
}

pub mod finalizer {
    pub const NODE_GROUP: &str = "nodegroup.autoscaler.vpsie.com/finalizer";
    pub const VPSIE_NODE: &str = "vpsienode.autoscaler.vpsie.com/finalizer";
    /// Kubernetes' own, of a deletion that leaves the dependents.
    pub const ORPHAN: &str = "orphan";
}

/// Reasons of events.
pub mod event {
    pub const SCALING_UP: &str = "ScalingUp";
    pub const SCALING_DOWN: &str = "ScalingDown";
    pub const SCALE_LIMIT_REACHED: &str = "ScaleLimitReached";
    /// Of NodeGroups and of VPSieNodes.
    pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";

    pub const VPS_CREATED: &str = "VPSCreated";
    pub const NODE_JOINED: &str = "NodeJoined";
    pub const NODE_READY: &str = "NodeReady";
    pub const TERMINATING: &str = "Terminating";
    pub const JOIN_FAILED: &str = "JoinFailed";
    pub const DRAIN_FAILED: &str = "DrainFailed";
}

/// Reasons of conditions.
pub mod reason {
    pub const ALL_NODES_READY: &str = "AllNodesReady";
    pub const NODES_NOT_READY: &str = "NodesNotReady";
    pub const SCALING_UP: &str = "ScalingUp";
    pub const SCALING_DOWN: &str = "ScalingDown";
    pub const AT_DESIRED_SIZE: &str = "AtDesiredSize";
    pub const PAUSED: &str = "Paused";
    pub const DELETING: &str = "Deleting";
    pub const NO_ERRORS: &str = "NoErrors";
    pub const INVALID_CONFIGURATION: &str = "InvalidConfiguration";
    pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
    pub const VPS_VANISHED: &str = "VPSsVanished";
    pub const CLOUD_NOT_USABLE: &str = "VPSieAPIError";
    pub const MINIMUM_REACHED: &str = "MinimumReached";
    pub const ABOVE_MINIMUM: &str = "AboveMinimum";
    pub const MAXIMUM_REACHED: &str = "MaximumReached";
    pub const BELOW_MAXIMUM: &str = "BelowMaximum";

    pub const VPS_RUNNING: &str = "VPSRunning";
    pub const VPS_NOT_CREATED: &str = "VPSNotCreated";
    pub const VPS_STARTING: &str = "VPSStarting";
    pub const VPS_STOPPED: &str = "VPSStopped";
    pub const VPS_DELETING: &str = "VPSDeleting";
    pub const VPS_NOT_FOUND: &str = "VPSNotFound";
    pub const VPS_RELEASED: &str = "VPSReleased";
    pub const NODE_JOINED_CLUSTER: &str = "NodeJoinedCluster";
    pub const NODE_NOT_JOINED: &str = "NodeNotJoined";
    pub const NODE_READY: &str = "NodeReady";
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    pub const NODE_DELETED: &str = "NodeDeleted";
    pub const JOIN_FAILED: &str = "JoinFailed";
    pub const DRAIN_FAILED: &str = "DrainFailed";
    pub const ADOPTION_REFUSED: &str = "AdoptionRefused";
}

/// Texts that people look up.
pub mod error {
    pub const MIN_EXCEEDS_MAX: &str = "MinNodes exceeds MaxNodes";
    pub const AUTHENTICATION_FAILED: &str = "VPSie API authentication failed";
    pub const DATACENTER_NOT_FOUND: &str = "Datacenter not found";
    pub const NOT_AVAILABLE: &str = "Instance type not available";
    pub const MAXIMUM_REACHED: &str = "Maximum nodes reached";
    pub const JOIN_TIMEOUT: &str = "Node join timeout";
    pub const INSUFFICIENT_QUOTA: &str = "Insufficient VPSie quota";

    pub const PREFERRED_NOT_OFFERED: &str = "preferredInstanceType must be one of offeringIDs";
    pub const INSTANCE_ID_IMMUTABLE: &str = "vpsieInstanceID is immutable once it is set";
    pub const INSTANCE_ID_MISSING: &str = "vpsieInstanceID must be > 0 once there is a VPS";
}

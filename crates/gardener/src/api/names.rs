//! Labels, annotations and finalizers that both sides of the wire understand.

/// On Machine, MachineClass, MachineSet and MachineDeployment.
pub const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
/// On a Secret that a MachineClass refers to.
pub const SECRET_FINALIZER: &str = "machine.sapcloud.io/machine-controller";
/// On a Node that is a Machine's: whoever deletes the Node deletes the Machine, and the Node goes last.
pub const NODE_FINALIZER: &str = "node.machine.sapcloud.io/machine-controller";
/// On a Node: no Machine is behind it.
pub const NOT_MANAGED_ANNOTATION: &str = "node.machine.sapcloud.io/not-managed-by-mcm";
/// On a Machine: the name of its Node.
pub const NODE_LABEL: &str = "node";
/// On a Machine: its MachineDeployment, by convention.
pub const DEPLOYMENT_LABEL: &str = "name";
/// On a Machine: delete it without regard to its pods.
pub const FORCE_DELETION_LABEL: &str = "force-deletion";
/// On a Machine: `True` means that its node is drained at once, for an update in place or while it is kept.
pub const FORCE_DRAIN_LABEL: &str = "force-drain";
/// On a Machine: which one goes first when there are too many; lower goes first.
pub const PRIORITY_ANNOTATION: &str = "machinepriority.machine.sapcloud.io";
pub const DEFAULT_PRIORITY: &str = "3";
/// On a Machine: overrides its creation timeout.
pub const CREATION_TIMEOUT_ANNOTATION: &str = "node.machine.sapcloud.io/effective-creation-timeout";
/// On a Node: the name of its Machine.
pub const MACHINE_NAME_LABEL: &str = "node.gardener.cloud/machine-name";
/// On a Node: the template of its Machine as it was brought to it last.
pub const LAST_APPLIED_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";
/// On a Node: the resources that its class gave it last.
pub const LAST_CAPACITY_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-virtual-capacity";
/// On a Node: while this taint is there a Pending machine is not Running.
pub const CRITICAL_COMPONENTS_TAINT: &str = "node.gardener.cloud/critical-components-not-ready";
/// On a Machine: the create call that is under way or whose outcome is not known yet, as
/// `<mark>@<time>`. Written before the call, removed with the id that came of it.
pub const ATTEMPT_ANNOTATION: &str = "machine.hostler.dev/create-attempt";
/// On a Machine: where its server was ordered. It is looked for there and nowhere else.
pub const PLACE_ANNOTATION: &str = "machine.hostler.dev/place";

/// On a Machine without a server: the id of the one that failed before it ever ran and gives way to another.
pub const REPLACES_ANNOTATION: &str = "machine.hostler.dev/replaces";
/// On a Machine: how many of its servers have given way, each after it had failed before it ever ran.
pub const GIVEN_WAY_ANNOTATION: &str = "machine.hostler.dev/servers-given-way";

/// On a MachineClass: `true` means that servers without Machines are orphans however many there are.
pub const COLLECT_ORPHANS_ANNOTATION: &str = "machine.hostler.dev/collect-orphans";

/// On MachineSet and Machine, and in a MachineSet's selector: which template it is made from.
pub const HASH_LABEL: &str = "machine-template-hash";
/// On a Machine and a Node: `successful` or `failed`, the outcome of an update in place.
pub const UPDATE_RESULT_LABEL: &str = "node.machine.sapcloud.io/update-result";
pub const UPDATE_SUCCESSFUL: &str = "successful";
/// On a Node: why its update in place failed.
pub const UPDATE_FAILED_ANNOTATION: &str = "node.machine.sapcloud.io/update-failed-reason";
/// On a Node: it shall be updated in place, sooner or later.
pub const CANDIDATE_LABEL: &str = "node.machine.sapcloud.io/candidate-for-update";
/// On a Node: it shall be updated in place now.
pub const SELECTED_LABEL: &str = "node.machine.sapcloud.io/selected-for-update";
/// On a Machine: when the autoscaler chose it to go.
pub const MARKED_ANNOTATION: &str = "machine.sapcloud.io/marked-for-deletion-time";
/// On a MachineDeployment: the machines that the autoscaler chose, as `name~time,…`.
pub const TRIGGER_DELETION_ANNOTATION: &str = "node.machine.sapcloud.io/trigger-deletion-by-mcm";
/// On MachineDeployment and MachineSet: when the autoscaler last changed the replicas.
pub const SCALER_TIME_ANNOTATION: &str = "machine.sapcloud.io/last-deployment-replica-change-by-scaler-time";
/// On a Machine or Node: whether it is kept although it failed.
pub const PRESERVE_ANNOTATION: &str = "node.machine.sapcloud.io/preserve";
pub const AUTO_PRESERVED: &str = "auto-preserved";
/// On a Machine: what [`PRESERVE_ANNOTATION`] of its Node said last.
pub const NODE_PRESERVE_ANNOTATION: &str = "node.machine.sapcloud.io/last-applied-node-preserve-value";
/// The condition of a Node whose Machine is kept.
pub const PRESERVED_CONDITION: &str = "Preserved";
/// On a Node that is drained although its failed Machine is kept: `true` if it was not cordoned before.
pub const CORDONED_ANNOTATION: &str = "machine.hostler.dev/cordoned-to-preserve";
/// On MachineSet and MachineDeployment: `True` means that no machines are made.
pub const FREEZE_LABEL: &str = "freeze";
/// On MachineSet and MachineDeployment: undo the freeze.
pub const UNFREEZE_ANNOTATION: &str = "safety.machine.sapcloud.io/unfreeze";
/// On a MachineSet: no machines are made because it is updated in place.
pub const SCALE_UP_DISABLED_LABEL: &str = "node.machine.sapcloud.io/scale-up-disabled";
/// A Node's taint while its MachineSet is an old one, and the note on the MachineSet that it was put there.
pub const PREFER_NO_SCHEDULE: &str = "deployment.machine.sapcloud.io/prefer-no-schedule";
/// On a Node: the autoscaler leaves it alone.
pub const SCALE_DOWN_DISABLED_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// On a Node: it was us who wrote the annotation above.
pub const SCALE_DOWN_DISABLED_BY_US_ANNOTATION: &str =
    "cluster-autoscaler.kubernetes.io/scale-down-disabled-by-mcm";
/// On MachineSet and MachineDeployment: which template this is, counted.
pub const REVISION_ANNOTATION: &str = "deployment.kubernetes.io/revision";
/// On a MachineSet: the revisions it had before.
pub const REVISION_HISTORY_ANNOTATION: &str = "deployment.kubernetes.io/revision-history";
/// On a MachineSet: what its MachineDeployment asked for when it was last scaled.
pub const DESIRED_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/desired-replicas";
/// On a MachineSet: what its MachineDeployment allowed at most when it was last scaled.
pub const MAX_REPLICAS_ANNOTATION: &str = "deployment.kubernetes.io/max-replicas";
/// On a MachineSet: the names of the machines it makes at present. Written before they are made.
pub const CREATING_ANNOTATION: &str = "machine.hostler.dev/creating";
/// The condition of a Node, and of its Machine, that tells of an update in place.
pub const IN_PLACE_CONDITION: &str = "InPlaceUpdate";
pub const REASON_UPDATE_SUCCESSFUL: &str = "UpdateSuccessful";

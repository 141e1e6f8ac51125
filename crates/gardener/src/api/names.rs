//! Labels, annotations and finalizers that both sides of the wire understand.

/// On Machine, MachineClass, MachineSet and MachineDeployment.
pub const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
/// On a Secret that a MachineClass refers to.
pub const SECRET_FINALIZER: &str = "machine.sapcloud.io/machine-controller";
/// On a Machine: the name of its Node.
pub const NODE_LABEL: &str = "node";
/// On a Machine: its MachineDeployment, by convention.
pub const DEPLOYMENT_LABEL: &str = "name";
/// On a Machine: delete it without regard to its pods.
pub const FORCE_DELETION_LABEL: &str = "force-deletion";
/// On a Machine: which one goes first when there are too many; lower goes first.
pub const PRIORITY_ANNOTATION: &str = "machinepriority.machine.sapcloud.io";
pub const DEFAULT_PRIORITY: &str = "3";
/// On a Machine: overrides its creation timeout.
pub const CREATION_TIMEOUT_ANNOTATION: &str = "node.machine.sapcloud.io/effective-creation-timeout";
/// On a Node: the name of its Machine.
pub const MACHINE_NAME_LABEL: &str = "node.gardener.cloud/machine-name";
/// On a Node: while this taint is there a Pending machine is not Running.
pub const CRITICAL_COMPONENTS_TAINT: &str = "node.gardener.cloud/critical-components-not-ready";
/// On a Machine: the create call that is under way or whose outcome is not known yet, as
/// `<mark>@<time>`. Written before the call, removed with the id that came of it.
pub const ATTEMPT_ANNOTATION: &str = "machine.hostler.dev/create-attempt";
/// On a Machine: where its server was ordered. It is looked for there and nowhere else.
pub const PLACE_ANNOTATION: &str = "machine.hostler.dev/place";

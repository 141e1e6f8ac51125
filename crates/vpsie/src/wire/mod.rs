//! What goes over the wire.

mod catalogue;
pub(crate) mod envelope;
mod kubernetes;
mod lenient;
mod vm;

pub use catalogue::{Datacenter, Image, Plan, PlanCategory, Project, Script, SshKey, Vpc};
pub use kubernetes::{AddedWorker, Cluster, ClusterNode, KubernetesOffer, NodeGroup};
pub use vm::{CreateVm, PendingOrder, PendingVm, Vm, VmDetail, VmStatus};

//! Kubernetes objects as the planner wants them.
//!
//! One function per kind, each of a single object and nothing else, so that a watch can feed them as well as a file:
//! [`pod()`], [`node()`], [`daemon_set`], [`budget`], [`claim`], [`volume`], [`storage_class`], [`namespace`].
//! [`Dump`] is built on top of them: it takes what `kubectl get -o yaml` prints.
//!
//! Amounts are exact, and rounded up where the scheduler does. What cannot be understood is an [`Error`] that names the
//! object and the field.
#![forbid(unsafe_code)]

mod cluster;
mod dump;
mod error;
mod node;
mod pod;
mod quantity;
mod requests;
mod select;
mod storage;

pub use cluster::{Priorities, budget, namespace};
pub use dump::{Dump, KINDS, Kind, Loaded, documents};
pub use error::{Error, Fault};
pub use node::{attach_limits, labels as node_labels, node};
pub use pod::{daemon_set, pod};
pub use quantity::{exact, resources};
pub use select::taint;
pub use storage::{claim, storage_class, volume};

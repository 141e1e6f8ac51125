//! Workloads: what keeps the right pods in being.

pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod job;
pub(crate) mod pods;
pub(crate) mod replica_set;
mod revision;
pub(crate) mod stateful_set;
pub(crate) mod template;

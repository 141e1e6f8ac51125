//! Workloads: what keeps the right pods in being.

pub(crate) mod deployment;
pub(crate) mod pods;
pub(crate) mod replica_set;
pub(crate) mod template;

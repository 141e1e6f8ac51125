//! What may be chosen for all machines, by flags. What a Machine says itself goes before.

use crate::{freeze::FreezeOptions, orphans::OrphanOptions};
use hostler_node::Limits;
use std::time::Duration;

/// The defaults are those of Gardener's machine controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a machine may take until its node is Ready.
    pub creation_timeout: Duration,
    /// How long a machine may be unhealthy until it has failed.
    pub health_timeout: Duration,
    /// Conditions that make a node unhealthy unless they are False, with commas between them.
    pub node_conditions: String,
    pub drain: Limits,
    pub orphans: OrphanOptions,
    pub freeze: FreezeOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            creation_timeout: Duration::from_mins(20),
            health_timeout: Duration::from_mins(10),
            node_conditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable".to_owned(),
            drain: Limits::default(),
            orphans: OrphanOptions::default(),
            freeze: FreezeOptions::default(),
        }
    }
}

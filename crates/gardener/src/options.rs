//! What may be chosen for all machines, by flags. What a Machine says itself goes before.

use crate::{freeze::FreezeOptions, orphans::OrphanOptions};
use hostler_node::Limits;
use std::time::Duration;

/// The defaults are those of Gardener's machine controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a machine may take until its node is Ready.
    pub creation_timeout: Duration,
    /// How long a machine may be unhealthy until it has failed.
    pub health_timeout: Duration,
    /// Conditions that make a node unhealthy unless they are False, with commas between them.
    pub node_conditions: String,
    /// How long an update in place may take.
    pub in_place_update_timeout: Duration,
    /// How long a machine is kept that somebody wants to look at.
    pub preserve_timeout: Duration,
    pub drain: Limits,
    /// How many Machines of one kind of work are worked on at once.
    pub workers: usize,
    /// How often every Machine is looked at whether or not something changed.
    pub resync: Duration,
    /// How long to wait when the cloud has no room.
    pub resource_exhausted_retry: Duration,
    pub orphans: OrphanOptions,
    pub freeze: FreezeOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            creation_timeout: Duration::from_mins(20),
            health_timeout: Duration::from_mins(10),
            node_conditions: "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable".to_owned(),
            in_place_update_timeout: Duration::from_mins(20),
            preserve_timeout: Duration::from_hours(96),
            drain: Limits::default(),
            workers: 50,
            resync: Duration::from_hours(12),
            resource_exhausted_retry: Duration::from_mins(10),
            orphans: OrphanOptions::default(),
            freeze: FreezeOptions::default(),
        }
    }
}

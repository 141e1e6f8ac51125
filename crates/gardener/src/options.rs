//! What may be chosen for all machines, by flags. What a Machine says itself goes before.

use crate::orphans::OrphanOptions;
use hostler_node::Limits;
use std::time::Duration;

/// The defaults are those of Gardener's machine controllers.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a machine may take until its node is Ready.
    pub creation_timeout: Duration,
    pub drain: Limits,
    pub orphans: OrphanOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            creation_timeout: Duration::from_mins(20),
            drain: Limits::default(),
            orphans: OrphanOptions::default(),
        }
    }
}

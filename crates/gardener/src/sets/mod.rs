//! MachineSets and MachineDeployments: which Machines there shall be.
//!
//! Three controllers, each of which looks, lets a pure function decide one step, carries it out and looks again:
//!
//! - [`set`] makes and deletes the Machines of a MachineSet;
//! - [`deployment`] makes the MachineSets of a MachineDeployment, one per template, and shifts replicas from the old
//!   ones to the new one;
//! - [`freeze`] stops whoever makes far more Machines than were asked for.
//!
//! What they write is at once in the caches they decide on (see [`hostler_controller::Cache::learn`]), and what is
//! made has a name that is known before: a Machine's is written on its MachineSet, a MachineSet's follows from its
//! template. So a lost answer, a crash or a second leader makes nothing twice.

mod claim;
mod deployment;
mod freeze;
mod metrics;
mod set;
mod setup;
mod store;

pub use setup::{LEASE, SetOptions, SetParts, run};

//! A world in one process: simulated clouds, hollow nodes, controllers as incarnations, and faults on demand.
//!
//! Every call an actor makes crosses a [`wire`], which names it, writes it into the trace and may break it.
//! A controller process is an [`incarnation`]: it can crash before or after any call, stall and wake up later.
//! [`boundaries`] are the named calls of a flow as a committed list; a [`sweep`] runs the flow once per
//! boundary and fault and asks whether the goal was reached and no invariant was broken on the way.
#![forbid(unsafe_code)]

pub mod agent;
pub mod boundaries;
mod cloud;
pub mod csi;
pub mod hollow;
pub mod incarnation;
pub mod metrics;
mod proxy;
pub mod stackit;
pub mod sweep;
pub mod vpsie;
pub mod wire;
mod world;

pub use boundaries::{Boundary, Class};
pub use hollow::{HollowNodes, MachineSpec, NodeTaint};
pub use incarnation::{Context, Process};
pub use metrics::{Metrics, Usage};
pub use proxy::Proxy;
pub use sweep::{Finished, Sweep};
pub use wire::{Break, Fault, Paths, Plan, Wire};
pub use world::World;

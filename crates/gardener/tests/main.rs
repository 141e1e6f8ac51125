//! The Machine controller in a world: embedded API server, simulated STACKIT, hollow nodes, faults.

#[path = "main/flow.rs"]
mod flow;
#[path = "main/life.rs"]
mod life;
#[path = "main/sweep.rs"]
mod sweep;

//! Drains in a world: embedded API server, a cluster's own controllers, hollow nodes, a CSI driver, faults.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/budgets.rs"]
mod budgets;
#[path = "main/drains.rs"]
mod drains;
#[path = "main/many.rs"]
mod many;
#[path = "main/stage.rs"]
mod stage;
#[path = "main/sweep.rs"]
mod sweep;
#[path = "main/volumes.rs"]
mod volumes;

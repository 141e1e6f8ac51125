//! What Hostler claims, judged by the real things. `cargo xtask test real` starts a control plane and names it
//! to these tests: each has a namespace of its own in it, or an API server of its own where it needs one.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/beside.rs"]
mod beside;
#[path = "main/cluster_api.rs"]
mod cluster_api;
#[path = "main/commands.rs"]
mod commands;
#[path = "main/conformance.rs"]
mod conformance;
#[path = "main/definitions.rs"]
mod definitions;
#[path = "main/drain.rs"]
mod drain;
#[path = "main/faults.rs"]
mod faults;
#[path = "main/filters.rs"]
mod filters;
#[path = "main/gardener.rs"]
mod gardener;
#[path = "main/image.rs"]
mod image;
#[path = "main/rights.rs"]
mod rights;
#[path = "main/stage.rs"]
mod stage;
#[path = "main/strategies.rs"]
mod strategies;
#[path = "main/supervision.rs"]
mod supervision;
#[path = "main/take_over.rs"]
mod take_over;

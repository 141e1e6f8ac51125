//! The machinery's own tests: a tiny cloud and a tiny controller, right and wrong.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/tiny/mod.rs"]
mod tiny;

#[path = "main/faults.rs"]
mod faults;
#[path = "main/hollow.rs"]
mod hollow;
#[path = "main/incarnations.rs"]
mod incarnations;
#[path = "main/metrics.rs"]
mod metrics;
#[path = "main/repeatable.rs"]
mod repeatable;
#[path = "main/shape.rs"]
mod shape;
#[path = "main/stackit/mod.rs"]
mod stackit;
#[path = "main/start.rs"]
mod start;
#[path = "main/sweeps.rs"]
mod sweeps;
#[path = "main/town.rs"]
mod town;
#[path = "main/vpsie/mod.rs"]
mod vpsie;

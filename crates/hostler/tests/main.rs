//! The real binary: how it starts and ends, what it is made of, and kubectl on it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "main/credentials.rs"]
mod credentials;
#[path = "main/ending.rs"]
mod ending;
#[path = "main/image.rs"]
mod image;
#[path = "main/justfile.rs"]
mod justfile;
#[path = "main/kubectl.rs"]
mod kubectl;
#[path = "main/machine_controller.rs"]
mod machine_controller;
#[path = "main/nodes.rs"]
mod nodes;
#[path = "main/objects.rs"]
mod objects;
#[path = "main/plan.rs"]
mod plan;
#[path = "main/playground.rs"]
mod playground;
#[path = "main/process.rs"]
mod process;
#[path = "main/standstill.rs"]
mod standstill;
#[path = "main/web.rs"]
mod web;
#[path = "main/workloads.rs"]
mod workloads;

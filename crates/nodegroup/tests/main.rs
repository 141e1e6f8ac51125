//! The definitions on an API server, as people use them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/definitions.rs"]
mod definitions;
#[path = "main/kit.rs"]
mod kit;
#[path = "main/rules.rs"]
mod rules;

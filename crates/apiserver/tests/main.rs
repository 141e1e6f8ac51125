//! The server as its clients see it.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

#[path = "main/basics.rs"]
mod basics;
#[path = "main/bounds.rs"]
mod bounds;
#[path = "main/conformance.rs"]
mod conformance;
#[path = "main/generated_requests.rs"]
mod generated_requests;
#[path = "main/identity.rs"]
mod identity;
#[path = "main/kit.rs"]
mod kit;
#[path = "main/noise.rs"]
mod noise;
#[path = "main/noise_words.rs"]
mod noise_words;
#[path = "main/serving.rs"]
mod serving;
#[path = "main/sockets.rs"]
mod sockets;
#[path = "main/watches.rs"]
mod watches;

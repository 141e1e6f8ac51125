//! The server as its clients see it.

#[path = "main/basics.rs"]
mod basics;
#[path = "main/conformance.rs"]
mod conformance;
#[path = "main/kit.rs"]
mod kit;
#[path = "main/open.rs"]
mod open;
#[path = "main/serving.rs"]
mod serving;
#[path = "main/watches.rs"]
mod watches;

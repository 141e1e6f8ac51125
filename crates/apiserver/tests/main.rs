//! The server as its clients see it.

#[path = "main/basics.rs"]
mod basics;
#[path = "main/kit.rs"]
mod kit;
#[path = "main/watches.rs"]
mod watches;

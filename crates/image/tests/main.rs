//! The archive as others read it: its names, digests and sizes, and the files in it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/layout.rs"]
mod layout;
#[path = "main/places.rs"]
mod places;

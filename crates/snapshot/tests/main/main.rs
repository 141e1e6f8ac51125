//! Objects as the API server gives them, and what the planner gets.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod dump;
mod nodes;
mod others;
mod pods;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object from its JSON.
pub fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A part of what came out, as JSON.
pub fn part(of: &impl serde::Serialize, pointer: &str) -> Value {
    let whole = serde_json::to_value(of).unwrap();
    whole.pointer(pointer).unwrap_or_else(|| panic!("there is no {pointer} in {whole}")).clone()
}

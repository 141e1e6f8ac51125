//! Runs the cases on a real control plane, when one is named by environment variables.

#[path = "main/real.rs"]
mod real;

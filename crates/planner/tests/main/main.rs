//! The planner as its users see it.

mod checker;
mod exhaustive;
mod generate;
mod properties;

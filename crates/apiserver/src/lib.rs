//! A Kubernetes API server in memory: what controllers, kubectl and client-go need of one.
//!
//! The rooms: `error` and `field` hold the words for refusals; `store` keeps encoded objects, their
//! history and the watches; `types` knows the built-in kinds' fields; `crd` knows custom ones; `kinds` has
//! defaults, validation and life cycle per built-in kind; `access` decides who may do what; `admission`
//! looks at an object on its way in; `serve` is the HTTPS listener.
#![forbid(unsafe_code)]

mod access;
mod admission;
mod age;
mod contract;
mod crd;
mod crds;
mod discovery;
mod error;
mod extension;
mod field;
mod go_json;
mod handlers;
mod json_text;
mod kinds;
mod negotiate;
mod object;
mod openapi;
mod query;
mod registry;
mod request;
mod seed;
mod selector;
pub mod serve;
mod server;
mod service_account;
mod store;
mod table;
mod tables;
mod types;

pub use contract::User;
pub use extension::{Extension, ExtensionResource};
pub use server::{ApiServer, Options};

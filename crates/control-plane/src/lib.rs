//! The real things: etcd, kube-apiserver and what runs on it, built from pinned Go modules and started on
//! loopback, as the judge of everything that Hostler claims.
//!
//! [`Store`] builds and keeps the binaries, [`ControlPlane`] starts an API server and what belongs to it,
//! [`gardener`] and [`cluster_api`] start the managers that Hostler works beside.
#![forbid(unsafe_code)]

mod authority;
pub mod catalogue;
pub mod cluster_api;
pub mod gardener;
pub mod manifests;
mod plane;
mod ports;
mod process;
mod store;

pub use authority::{Authority, Identity};
pub use plane::{ADMINISTRATOR, ControlPlane, Options, Part, temporary_directory};
pub use ports::free_port;
pub use process::{Process, Program, own_binary, supervise};
pub use store::{BuildError, Store};

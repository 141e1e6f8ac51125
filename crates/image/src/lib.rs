//! The container image: one static executable, the certificates of public authorities, nothing else.
//!
//! It is written without a container engine, and equal input gives equal bytes.
#![forbid(unsafe_code)]

mod archive;
mod certificates;
mod executable;
mod root;

pub use archive::archive;
pub use executable::{Architecture, architecture, check_alone};
pub use root::{Entry, What, entries, write_root};

/// What a container runs before the arguments that it is given.
pub const ENTRYPOINT: [&str; 2] = ["/hostler", "machine-controller"];
/// Nobody in particular, and not root.
pub const USER: &str = "65532:65532";
/// So that a command can be named without its directory.
pub const ENVIRONMENT: [&str; 1] = ["PATH=/"];
/// Where the machine controller serves health and metrics unless it is told otherwise.
pub const PORT: &str = "10259";
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

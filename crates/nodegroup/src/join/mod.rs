//! How a VPS becomes a node: what its user data gets, what its Node gets, and which certificates it may have.

mod csr;
mod node;
mod token;
mod user_data;

pub use csr::{Kubelet, SERVING_SIGNER, Verdict, judge};
pub use node::{Wanted, behind, is_own, provider_id_of};
pub use token::{Read, TOKEN_NAMESPACE, bootstrap_token, read, secret_name};
pub use user_data::{Values, filled, wants_token};

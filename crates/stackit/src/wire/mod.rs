//! The API's objects, as far as anybody here reads or writes them. What is unknown is passed over; what may
//! be missing is an `Option`, since an answer that cannot be read helps nobody.
//!
//! Answers hold no user data: it carries a bootstrap token and has no business in our memory.

mod catalogue;
mod labels;
mod network;
mod server;
mod storage;

pub use catalogue::{
    AffinityGroup, Image, ImageAgent, ImageConfig, Keypair, MachineType, NewAffinityGroup, NewKeypair, Quota,
    Quotas,
};
pub use labels::Labels;
pub use network::{
    AddressRange, Network, NewNic, NewPublicIp, NewSecurityGroup, Nic, NicChange, PortRange, Protocol,
    PublicIp, PublicIpChange, SecurityGroup, SecurityGroupRule,
};
pub use server::{
    Agent, BootVolume, CreateServer, MaintenanceWindow, Networking, Server, ServerChange, ServerNic,
};
pub use storage::{AttachmentChange, NewVolume, Volume, VolumeAttachment, VolumeChange, VolumeSource};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels in an update: those that are not named stay, `None` removes one.
pub type LabelChange = BTreeMap<String, Option<String>>;

/// Every list of the API. There are no pages.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct List<T> {
    pub items: Vec<T>,
}

/// The body of every refusal.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ErrorBody {
    pub code: i64,
    pub msg: String,
}

#[derive(Deserialize)]
pub(crate) struct ConsoleUrl {
    pub(crate) url: String,
}

#[derive(Deserialize)]
pub(crate) struct ConsoleLog {
    pub(crate) output: String,
}

#[derive(Deserialize)]
pub(crate) struct QuotaAnswer {
    pub(crate) quotas: Quotas,
}

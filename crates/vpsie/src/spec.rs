//! The `providerSpec` of a MachineClass.

mod check;
mod read;

use hostler_driver::{Failure, Order, UserData};
use serde_json::Value;

/// What a VPS is made of. What names something of VPSie's is its identifier, or a name that only one has. An empty text
/// stands for a field that was left out.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderSpec {
    /// Whose the machines are: one value for each cluster and namespace of an account.
    pub cluster: String,
    pub datacenter: String,
    pub offering: String,
    pub image: String,
    pub project: String,
    pub ssh_keys: Vec<String>,
    pub script: String,
    pub vpc: String,
    /// In place of the machine's own name.
    pub hostname: String,
    pub tags: Vec<String>,
    pub notes: String,
    pub public_ipv4: bool,
    pub public_ipv6: bool,
    pub private_ip: bool,
    pub disk_gb: Option<i64>,
    pub(crate) user_data: Option<SpecUserData>,
}

/// User data that a description holds itself.
#[derive(Clone, Debug)]
pub(crate) struct SpecUserData(pub(crate) UserData);

impl PartialEq for SpecUserData {
    fn eq(&self, other: &Self) -> bool {
        self.0.expose() == other.0.expose()
    }
}

impl Default for ProviderSpec {
    fn default() -> Self {
        Self {
            cluster: String::new(),
            datacenter: String::new(),
            offering: String::new(),
            image: String::new(),
            project: String::new(),
            ssh_keys: Vec::new(),
            script: String::new(),
            vpc: String::new(),
            hostname: String::new(),
            tags: Vec::new(),
            notes: String::new(),
            // Without being asked for one VPSie may give none.
            public_ipv4: true,
            public_ipv6: false,
            private_ip: false,
            disk_gb: None,
            user_data: None,
        }
    }
}

impl ProviderSpec {
    /// Reads a spec; all that cannot be read is told at once. What it says is not looked at yet.
    pub fn parse(spec: &Value) -> Result<Self, Failure> {
        read::read(spec)
    }

    pub fn user_data(&self) -> Option<UserData> {
        self.user_data.as_ref().map(|SpecUserData(data)| data.clone())
    }

    /// What the VPS of an order is called. VPSie does not mind how names are written, Kubernetes does.
    pub(crate) fn hostname_of(&self, order: &Order) -> String {
        let own = Some(&self.hostname).filter(|name| !name.is_empty());
        own.unwrap_or(&order.identity.machine).to_ascii_lowercase()
    }
}

use super::{Client, call::Call};
use crate::wire::{
    List, Network, NewNic, NewPublicIp, NewSecurityGroup, Nic, NicChange, PublicIp, PublicIpChange,
    SecurityGroup, SecurityGroupRule,
};
use hostler_driver::Failure;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// NICs and networks.
impl Client {
    /// All NICs of the project that the API selects.
    pub async fn list_nics(&self, selector: Option<&str>) -> Result<Vec<Nic>, Failure> {
        self.list(Call::get("ListProjectNICs", self.in_project(&["nics"])?).selected_by(selector)).await
    }

    /// The NICs of the project that are attached to servers, by their servers, with what matters of each.
    pub(crate) async fn list_attached_nics(&self) -> Result<BTreeMap<String, Vec<Nic>>, Failure> {
        let call = Call::get("ListProjectNICs", self.in_project(&["nics"])?);
        // There are thousands: one after the other is read and made small.
        self.read(call, |answer| {
            let mut by_server: BTreeMap<String, Vec<Nic>> = BTreeMap::new();
            let list: List<&RawValue> = serde_json::from_slice(answer)?;
            for item in list.items {
                let mut nic: Nic = serde_json::from_str(item.get())?;
                if let Some(server) = nic.device.take() {
                    // Most servers have one.
                    by_server.entry(server).or_insert_with(|| Vec::with_capacity(1)).push(slim(nic));
                }
            }
            Ok(by_server)
        })
        .await
    }

    pub async fn list_network_nics(
        &self,
        network: &str,
        selector: Option<&str>,
    ) -> Result<Vec<Nic>, Failure> {
        let path = self.in_project(&["networks", network, "nics"])?;
        self.list(Call::get("ListNics", path).selected_by(selector)).await
    }

    /// A NIC whose network is not known.
    pub async fn find_nic(&self, nic: &str) -> Result<Nic, Failure> {
        self.ask(Call::get("GetProjectNIC", self.in_project(&["nics", nic])?)).await
    }

    pub async fn get_nic(&self, network: &str, nic: &str) -> Result<Nic, Failure> {
        self.ask(Call::get("GetNic", self.nic(network, nic)?)).await
    }

    pub async fn create_nic(&self, network: &str, nic: &NewNic) -> Result<Nic, Failure> {
        let path = self.in_project(&["networks", network, "nics"])?;
        self.ask(Call::create("CreateNic", path).body(nic)?).await
    }

    pub async fn update_nic(&self, network: &str, nic: &str, change: &NicChange) -> Result<Nic, Failure> {
        self.ask(Call::patch("UpdateNic", self.nic(network, nic)?).body(change)?).await
    }

    pub async fn delete_nic(&self, network: &str, nic: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteNic", self.nic(network, nic)?)).await
    }

    pub async fn list_networks(&self, selector: Option<&str>) -> Result<Vec<Network>, Failure> {
        self.list(Call::get("ListNetworks", self.in_project(&["networks"])?).selected_by(selector)).await
    }

    pub async fn get_network(&self, network: &str) -> Result<Network, Failure> {
        self.ask(Call::get("GetNetwork", self.in_project(&["networks", network])?)).await
    }

    fn nic(&self, network: &str, nic: &str) -> Result<String, Failure> {
        self.in_project(&["networks", network, "nics", nic])
    }
}

/// Public IPs.
impl Client {
    pub async fn list_public_ips(&self, selector: Option<&str>) -> Result<Vec<PublicIp>, Failure> {
        self.list(Call::get("ListPublicIPs", self.in_project(&["public-ips"])?).selected_by(selector)).await
    }

    pub async fn get_public_ip(&self, ip: &str) -> Result<PublicIp, Failure> {
        self.ask(Call::get("GetPublicIP", self.in_project(&["public-ips", ip])?)).await
    }

    pub async fn create_public_ip(&self, ip: &NewPublicIp) -> Result<PublicIp, Failure> {
        self.ask(Call::create("CreatePublicIP", self.in_project(&["public-ips"])?).body(ip)?).await
    }

    pub async fn update_public_ip(&self, ip: &str, change: &PublicIpChange) -> Result<PublicIp, Failure> {
        self.ask(Call::patch("UpdatePublicIP", self.in_project(&["public-ips", ip])?).body(change)?).await
    }

    pub async fn delete_public_ip(&self, ip: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeletePublicIP", self.in_project(&["public-ips", ip])?)).await
    }
}

/// Security groups.
impl Client {
    pub async fn list_security_groups(&self, selector: Option<&str>) -> Result<Vec<SecurityGroup>, Failure> {
        let path = self.in_project(&["security-groups"])?;
        self.list(Call::get("ListSecurityGroups", path).selected_by(selector)).await
    }

    pub async fn get_security_group(&self, group: &str) -> Result<SecurityGroup, Failure> {
        self.ask(Call::get("GetSecurityGroup", self.in_project(&["security-groups", group])?)).await
    }

    pub async fn create_security_group(&self, group: &NewSecurityGroup) -> Result<SecurityGroup, Failure> {
        let path = self.in_project(&["security-groups"])?;
        self.ask(Call::create("CreateSecurityGroup", path).body(group)?).await
    }

    pub async fn delete_security_group(&self, group: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteSecurityGroup", self.in_project(&["security-groups", group])?)).await
    }

    pub async fn list_security_group_rules(&self, group: &str) -> Result<Vec<SecurityGroupRule>, Failure> {
        let path = self.in_project(&["security-groups", group, "rules"])?;
        self.list(Call::get("ListSecurityGroupRules", path)).await
    }
}

/// Only what is asked of a NIC in a list: it is kept until all who asked have it.
fn slim(nic: Nic) -> Nic {
    Nic {
        id: nic.id,
        network_id: nic.network_id,
        ipv4: nic.ipv4,
        ipv6: nic.ipv6,
        allowed_addresses: nic.allowed_addresses,
        ..Nic::default()
    }
}

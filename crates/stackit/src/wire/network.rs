use super::{LabelChange, Labels};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A network interface.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nic {
    pub id: String,
    pub network_id: String,
    /// The server it is attached to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_security: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
    /// Addresses and CIDRs that may be used as sender besides its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_addresses: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewNic {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_security: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_addresses: Option<Vec<String>>,
}

/// What can be changed about a NIC. What is `None` stays; a list replaces the whole old one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NicChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelChange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_security: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_addresses: Option<Vec<String>>,
}

/// A network, in the shape of version 2 whichever version told of it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(from = "NetworkOfEitherVersion")]
pub struct Network {
    pub id: String,
    pub name: String,
    pub status: String,
    pub dhcp: Option<bool>,
    pub routed: Option<bool>,
    pub labels: Option<Labels>,
    pub ipv4: Option<AddressRange>,
    pub ipv6: Option<AddressRange>,
}

/// The addresses of one family in a network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressRange {
    pub prefixes: Vec<String>,
    pub gateway: Option<String>,
    pub nameservers: Option<Vec<String>>,
    pub public_ip: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworkOfEitherVersion {
    #[serde(alias = "networkId")]
    id: String,
    name: String,
    #[serde(default, alias = "state")]
    status: String,
    dhcp: Option<bool>,
    routed: Option<bool>,
    labels: Option<Labels>,
    ipv4: Option<AddressRange>,
    ipv6: Option<AddressRange>,
    // From here on: version 1 only.
    prefixes: Option<Vec<String>>,
    gateway: Option<String>,
    nameservers: Option<Vec<String>>,
    public_ip: Option<String>,
    #[serde(rename = "prefixesV6")]
    prefixes_v6: Option<Vec<String>>,
    #[serde(rename = "gatewayv6")]
    gateway_v6: Option<String>,
    #[serde(rename = "nameserversV6")]
    nameservers_v6: Option<Vec<String>>,
}

impl From<NetworkOfEitherVersion> for Network {
    fn from(told: NetworkOfEitherVersion) -> Self {
        let range = |prefixes: Option<Vec<String>>, gateway, nameservers, public_ip| {
            prefixes.map(|prefixes| AddressRange { prefixes, gateway, nameservers, public_ip })
        };
        Self {
            id: told.id,
            name: told.name,
            status: told.status,
            dhcp: told.dhcp,
            routed: told.routed,
            labels: told.labels,
            ipv4: told.ipv4.or_else(|| range(told.prefixes, told.gateway, told.nameservers, told.public_ip)),
            ipv6: told.ipv6.or_else(|| range(told.prefixes_v6, told.gateway_v6, told.nameservers_v6, None)),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PublicIp {
    pub id: String,
    pub ip: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// The NIC it leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewPublicIp {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface: Option<String>,
}

/// What can be changed about a public IP. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublicIpChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelChange>,
    /// `Some(None)` takes it off its NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_interface: Option<Option<String>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroup {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<Vec<SecurityGroupRule>>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewSecurityGroup {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateful: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecurityGroupRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `ingress` or `egress`.
    pub direction: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ethertype: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip_range: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_range: Option<PortRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_security_group_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct PortRange {
    pub min: u16,
    pub max: u16,
}

/// A protocol as answers name it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Protocol {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_network_is_the_same_whichever_version_told_of_it() {
        let first: Network = serde_json::from_value(json!({
            "networkId": "n", "name": "net", "state": "CREATED", "dhcp": true, "prefixes": ["10.0.0.0/24"],
            "gateway": "10.0.0.1", "nameservers": ["1.1.1.1"], "publicIp": "192.0.2.1",
            "prefixesV6": ["2001:db8::/64"], "gatewayv6": null}))
        .unwrap();
        let second: Network = serde_json::from_value(json!({
            "id": "n", "name": "net", "status": "CREATED", "dhcp": true,
            "ipv4": {"prefixes": ["10.0.0.0/24"], "gateway": "10.0.0.1", "nameservers": ["1.1.1.1"], "publicIp": "192.0.2.1"},
            "ipv6": {"prefixes": ["2001:db8::/64"]}}))
        .unwrap();
        assert_eq!(first, second);
        assert_eq!(first.ipv4.unwrap().prefixes, ["10.0.0.0/24"]);
    }

    #[test]
    fn a_public_ip_is_taken_off_its_nic_by_null() {
        let wire = |change: PublicIpChange| serde_json::to_value(change).unwrap();
        assert_eq!(wire(PublicIpChange::default()), json!({}));
        let off = PublicIpChange { network_interface: Some(None), ..PublicIpChange::default() };
        assert_eq!(wire(off), json!({"networkInterface": null}));
        let on = PublicIpChange { network_interface: Some(Some("n".into())), ..PublicIpChange::default() };
        assert_eq!(wire(on), json!({"networkInterface": "n"}));
    }

    #[test]
    fn an_empty_list_is_a_change_and_a_missing_one_is_none() {
        let change = NicChange { allowed_addresses: Some(vec![]), ..NicChange::default() };
        assert_eq!(serde_json::to_value(change).unwrap(), json!({"allowedAddresses": []}));
        assert_eq!(serde_json::to_value(NicChange::default()).unwrap(), json!({}));
    }
}

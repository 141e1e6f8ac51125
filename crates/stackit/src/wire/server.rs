use super::{LabelChange, Labels, Nic, VolumeSource};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A server as the API shows it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keypair_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_volume: Option<BootVolume>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance_window: Option<MaintenanceWindow>,
    /// Only with `details=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<Vec<ServerNic>>,
    /// Only with `details=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_mails: Option<Vec<String>>,
}

/// A NIC within a server's details.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerNic {
    pub nic_id: String,
    pub network_id: String,
    pub network_name: String,
    pub mac: String,
    pub nic_security: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_addresses: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
}

impl From<&Nic> for ServerNic {
    fn from(nic: &Nic) -> Self {
        Self {
            nic_id: nic.id.clone(),
            network_id: nic.network_id.clone(),
            network_name: String::new(),
            mac: nic.mac.clone().unwrap_or_default(),
            nic_security: nic.nic_security.unwrap_or_default(),
            ipv4: nic.ipv4.clone(),
            ipv6: nic.ipv6.clone(),
            public_ip: None,
            allowed_addresses: nic.allowed_addresses.clone(),
            security_groups: nic.security_groups.clone(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MaintenanceWindow {
    pub starts_at: String,
    pub ends_at: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// The body of a create call. User data is base64 already; nothing here can be printed, because of it.
#[derive(Clone, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateServer {
    pub name: String,
    pub machine_type: String,
    /// Version 2 refuses a server without it, version 1 chooses a network itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_volume: Option<BootVolume>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub volumes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub security_groups: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keypair_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub service_account_mails: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// Where a new server's NICs come from. The API takes exactly one of the two.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Networking {
    /// The platform makes a NIC in this network.
    #[serde(rename_all = "camelCase")]
    Network { network_id: String },
    /// These NICs exist already.
    #[serde(rename_all = "camelCase")]
    Nics { nic_ids: Vec<String> },
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BootVolume {
    /// Only in answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_class: Option<String>,
    /// In GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<VolumeSource>,
}

/// Whether STACKIT's agent is put on the server at its first boot; by default the image decides.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Agent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<bool>,
}

/// What can be changed about a server. What is `None` stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ServerChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelChange>,
    /// A value of `null` removes its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn networking_is_one_of_two() {
        let network = Networking::Network { network_id: "n".into() };
        let nics = Networking::Nics { nic_ids: vec!["a".into(), "b".into()] };
        for (networking, wire) in
            [(network, json!({"networkId": "n"})), (nics, json!({"nicIds": ["a", "b"]}))]
        {
            assert_eq!(serde_json::to_value(&networking).unwrap(), wire);
            assert_eq!(serde_json::from_value::<Networking>(wire).unwrap(), networking);
        }
        for neither in [json!({}), json!({"networkId": "n", "nicIds": []})] {
            assert!(serde_json::from_value::<Networking>(neither.clone()).is_err(), "{neither}");
        }
    }

    #[test]
    fn a_removed_label_is_null_on_the_wire() {
        let labels = BTreeMap::from([("old".to_owned(), None), ("new".to_owned(), Some("x".to_owned()))]);
        let change = ServerChange { labels: Some(labels), ..ServerChange::default() };
        assert_eq!(serde_json::to_value(&change).unwrap(), json!({"labels": {"old": null, "new": "x"}}));
    }

    #[test]
    fn a_server_is_read_however_little_or_much_is_told() {
        let little: Server = serde_json::from_value(json!({"id": "s", "name": "m"})).unwrap();
        assert_eq!(little, Server { id: "s".into(), name: "m".into(), ..Server::default() });
        let much: Server = serde_json::from_value(json!({
            "id": "s", "name": "m", "machineType": "c2i.2", "status": "ACTIVE", "powerStatus": "RUNNING",
            "bootVolume": {"id": "v", "deleteOnTermination": false}, "volumes": ["v2"],
            "labels": {"a": 1}, "agent": {"provisioned": true}, "userData": "aHVudGVyMg==",
            "maintenanceWindow": {"startsAt": "2026-01-01T00:00:00Z", "endsAt": "2026-01-01T01:00:00Z", "status": "PLANNED"},
            "nics": [{"nicId": "n", "networkId": "net", "networkName": "x", "mac": "02:00:00:00:00:01",
                      "nicSecurity": true, "ipv4": "10.0.0.1", "allowedAddresses": ["10.1.0.0/16"]}],
            "somethingNew": {}}))
        .unwrap();
        assert_eq!(much.boot_volume.as_ref().unwrap().id.as_deref(), Some("v"));
        assert_eq!(much.nics.as_ref().unwrap()[0].allowed_addresses.as_ref().unwrap(), &["10.1.0.0/16"]);
        assert!(!serde_json::to_string(&much).unwrap().contains("aHVudGVyMg"), "user data is not kept");
    }
}

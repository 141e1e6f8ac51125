//! Networks, in the shapes of both versions.

use super::{
    answer::{Outcome, Refusal, accepted, answer, found, items},
    check::{
        Checked, Fields, change_labels, is_address_or_cidr, is_generic_name, is_uuid, path_id, stamp, wrong,
    },
    cloud::Desk,
    dispatch::Call,
    operation::Version,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The network of servers for which none is named.
const DEFAULT_NETWORK: &str = "default";

pub(super) struct Network {
    pub(super) name: String,
    labels: BTreeMap<String, String>,
    prefix: String,
    nameservers: Vec<String>,
    dhcp: bool,
    routed: bool,
    created_at: Timestamp,
    updated_at: Timestamp,
}

fn show(id: &str, network: &Network, version: Version) -> Value {
    let mut body = json!({
        "name": network.name, "labels": network.labels, "dhcp": network.dhcp, "routed": network.routed,
        "createdAt": stamp(network.created_at), "updatedAt": stamp(network.updated_at),
    });
    match version {
        Version::V1 => {
            body["networkId"] = json!(id);
            body["state"] = json!("CREATED");
            body["prefixes"] = json!([network.prefix]);
            body["nameservers"] = json!(network.nameservers);
        }
        Version::V2 => {
            body["id"] = json!(id);
            body["status"] = json!("CREATED");
            body["ipv4"] = json!({"prefixes": [network.prefix], "nameservers": network.nameservers});
        }
    }
    body
}

/// What a create or change call says of the addresses.
struct Addresses {
    prefix: Option<String>,
    nameservers: Option<Vec<String>>,
}

fn addresses(fields: &Fields<'_>, version: Version) -> Checked<Addresses> {
    let family = match version {
        Version::V1 => fields.part("addressFamily")?,
        Version::V2 => None,
    };
    let ipv4 = match (&family, version) {
        (Some(family), _) => family.part("ipv4")?,
        (None, Version::V2) => fields.part("ipv4")?,
        (None, Version::V1) => None,
    };
    let Some(ipv4) = ipv4 else { return Ok(Addresses { prefix: None, nameservers: None }) };
    let is_prefix = |text: &str| text.contains('/') && is_address_or_cidr(text);
    let length = ipv4.number("prefixLength", 8, 29)?;
    let prefix = ipv4.text("prefix", is_prefix)?;
    if length.is_some() && prefix.is_some() {
        return Err(wrong("ipv4", "has both a prefix and a prefix length"));
    }
    let prefix = prefix.or_else(|| length.map(|length| format!("10.0.0.0/{length}")));
    Ok(Addresses { prefix, nameservers: ipv4.texts("nameservers", is_address_or_cidr)? })
}

impl Desk<'_> {
    fn insert_network(&mut self, id: &str, name: &str) {
        let network = Network {
            name: name.to_owned(),
            labels: BTreeMap::new(),
            prefix: "10.0.0.0/8".to_owned(),
            nameservers: Vec::new(),
            dhcp: true,
            routed: true,
            created_at: self.now,
            updated_at: self.now,
        };
        self.estate.networks.insert(id.to_owned(), network);
    }

    /// The id of the project's default network, which is there once it is needed.
    pub(super) fn default_network(&mut self) -> String {
        let known = self.estate.networks.iter().find(|(_, network)| network.name == DEFAULT_NETWORK);
        if let Some((id, _)) = known {
            return id.clone();
        }
        let id = self.new_id();
        self.insert_network(&id, DEFAULT_NETWORK);
        id
    }

    /// A network that somebody names. Without a catalogue it exists once it is named.
    pub(super) fn network(&mut self, id: &str) -> Checked<&mut Network> {
        path_id("networkId", id)?;
        if !self.estate.networks.contains_key(id) {
            let name = match &self.settings.catalogue {
                None => format!("network-{}", &id[..8]),
                Some(catalogue) => {
                    catalogue.networks.get(id).cloned().ok_or_else(|| Refusal::missing("network", id))?
                }
            };
            self.insert_network(id, &name);
        }
        self.estate.networks.get_mut(id).ok_or_else(|| Refusal::missing("network", id))
    }

    pub(super) fn list_networks(&mut self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        let catalogue = self.settings.catalogue.as_ref();
        for id in catalogue.into_iter().flat_map(|catalogue| catalogue.networks.keys()) {
            self.network(id)?;
        }
        let fitting = self.estate.networks.iter().filter(|(_, network)| selector.fits(&network.labels));
        items(fitting.map(|(id, network)| show(id, network, call.target.version)).collect())
    }

    pub(super) fn get_network(&mut self, id: &str, version: Version) -> Outcome {
        let network = self.network(id)?;
        found(show(id, network, version))
    }

    pub(super) fn create_network(&mut self, call: &Call) -> Outcome {
        let version = call.target.version;
        let fields = Fields::of(call.body.as_ref())?;
        let name = fields.required("name", is_generic_name)?;
        let (labels, addresses) = (fields.labels()?, addresses(&fields, version)?);
        let (dhcp, routed) = (fields.truth("dhcp")?, fields.truth("routed")?);
        fields.text("routingTableId", is_uuid)?;
        self.within_quota("networks", 1, StatusCode::FORBIDDEN)?;
        let id = self.new_id();
        self.insert_network(&id, &name);
        let network = self.network(&id)?;
        network.labels = labels;
        network.dhcp = dhcp.unwrap_or(true);
        network.routed = routed.unwrap_or(true);
        network.prefix = addresses.prefix.unwrap_or_else(|| network.prefix.clone());
        network.nameservers = addresses.nameservers.unwrap_or_default();
        let body = show(&id, network, version);
        answer(StatusCode::ACCEPTED, body)
    }

    pub(super) fn update_network(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let name = fields.text("name", is_generic_name)?;
        let (labels, addresses) = (fields.label_changes()?, addresses(&fields, call.target.version)?);
        let (dhcp, routed) = (fields.truth("dhcp")?, fields.truth("routed")?);
        let now = self.now;
        let network = self.network(id)?;
        change_labels(&mut network.labels, labels);
        network.name = name.unwrap_or_else(|| network.name.clone());
        network.dhcp = dhcp.unwrap_or(network.dhcp);
        network.routed = routed.unwrap_or(network.routed);
        network.nameservers = addresses.nameservers.unwrap_or_else(|| network.nameservers.clone());
        network.updated_at = now;
        accepted()
    }

    pub(super) fn delete_network(&mut self, id: &str) -> Outcome {
        self.network(id)?;
        if self.estate.nics.values().any(|nic| nic.network == id) {
            return Err(Refusal::conflict(format!("the network {id} still has NICs")));
        }
        self.estate.networks.remove(id);
        accepted()
    }
}

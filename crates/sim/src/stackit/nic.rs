//! Network interfaces, alone and on servers.

use super::{
    answer::{Outcome, Refusal, accepted, answer, done, found, items},
    check::{
        Checked, Fields, change_labels, is_address_or_cidr, is_description, is_generic_name, is_uuid, path_id,
    },
    cloud::Desk,
    create::Networking,
    dispatch::Call,
    life::Status,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr};

pub(super) struct Nic {
    pub(super) network: String,
    pub(super) server: Option<String>,
    /// Made by the platform for a server, and gone with it.
    pub(super) goes_with_server: bool,
    pub(super) ipv4: String,
    ipv6: Option<String>,
    mac: String,
    name: Option<String>,
    description: Option<String>,
    labels: BTreeMap<String, String>,
    pub(super) allowed: Vec<String>,
    security: bool,
    pub(super) groups: Vec<String>,
}

impl Nic {
    pub(super) fn add_group(&mut self, group: &str) {
        if !self.groups.iter().any(|known| known == group) {
            self.groups.push(group.to_owned());
        }
    }
}

const READ_ONLY: &[&str] = &["id", "networkId", "device", "mac", "status", "type"];
const CHANGEABLE: &[&str] =
    &["name", "description", "labels", "nicSecurity", "securityGroups", "allowedAddresses"];

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn show(id: &str, nic: &Nic) -> Value {
    let mut body = json!({
        "id": id, "networkId": nic.network, "mac": nic.mac, "ipv4": nic.ipv4, "labels": nic.labels,
        "allowedAddresses": nic.allowed, "nicSecurity": nic.security, "securityGroups": nic.groups,
        "status": if nic.server.is_some() { "ACTIVE" } else { "DOWN" },
        "type": if nic.server.is_some() { "server" } else { "none" },
    });
    let texts = [
        ("device", &nic.server),
        ("ipv6", &nic.ipv6),
        ("name", &nic.name),
        ("description", &nic.description),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            body[field] = json!(text);
        }
    }
    body
}

impl Desk<'_> {
    /// The entry of a server's details.
    pub(super) fn show_server_nic(&self, id: &str) -> Option<Value> {
        let nic = self.estate.nics.get(id)?;
        let network = self.estate.networks.get(&nic.network).map_or("default", |network| &network.name);
        let mut body = json!({
            "nicId": id, "networkId": nic.network, "networkName": network, "mac": nic.mac,
            "nicSecurity": nic.security, "ipv4": nic.ipv4, "allowedAddresses": nic.allowed,
            "securityGroups": nic.groups,
        });
        if let Some(address) = &nic.ipv6 {
            body["ipv6"] = json!(address);
        }
        let on_it = |address: &&super::public_ip::PublicIp| address.nic.as_deref() == Some(id);
        if let Some(address) = self.estate.public_ips.values().find(on_it) {
            body["publicIp"] = json!(address.ip);
        }
        Some(body)
    }

    fn new_nic(&mut self, network: &str, goes_with_server: bool) -> (String, Nic) {
        let id = self.new_id();
        let nic = self.blank_nic(network, goes_with_server);
        (id, nic)
    }

    fn blank_nic(&mut self, network: &str, goes_with_server: bool) -> Nic {
        self.estate.addresses = self.estate.addresses.wrapping_add(1);
        let [_, high, middle, low] = self.estate.addresses.to_be_bytes();
        Nic {
            network: network.to_owned(),
            server: None,
            goes_with_server,
            ipv4: format!("10.{high}.{middle}.{low}"),
            ipv6: None,
            mac: format!("02:00:00:{high:02x}:{middle:02x}:{low:02x}"),
            name: None,
            description: None,
            labels: BTreeMap::new(),
            allowed: Vec::new(),
            security: true,
            groups: Vec::new(),
        }
    }

    pub(super) fn make_nic_for_server(&mut self, network: &str) -> String {
        let (id, nic) = self.new_nic(network, true);
        self.estate.nics.insert(id.clone(), nic);
        id
    }

    pub(super) fn forget_nic(&mut self, id: &str) {
        self.estate.nics.remove(id);
        for address in
            self.estate.public_ips.values_mut().filter(|address| address.nic.as_deref() == Some(id))
        {
            address.nic = None;
        }
    }

    /// A NIC that somebody names. Without a catalogue it exists once it is named.
    fn given_nic(&mut self, id: &str) -> Checked<&mut Nic> {
        path_id("nicId", id)?;
        if !self.estate.nics.contains_key(id) {
            if self.settings.catalogue.is_some() {
                return Err(Refusal::missing("NIC", id));
            }
            let network = self.default_network();
            let nic = self.blank_nic(&network, false);
            self.estate.nics.insert(id.to_owned(), nic);
        }
        self.estate.nics.get_mut(id).ok_or_else(|| Refusal::missing("NIC", id))
    }

    /// The NICs that a create call names, all of them free; a network that it names is there.
    pub(super) fn nics_to_attach(&mut self, networking: &Networking) -> Checked<Vec<String>> {
        match networking {
            Networking::Default | Networking::None => Ok(Vec::new()),
            Networking::Network(network) => self.network(network).map(|_| Vec::new()),
            Networking::Nics(ids) => {
                for (at, id) in ids.iter().enumerate() {
                    let taken = self.given_nic(id)?.server.is_some();
                    if taken || ids[..at].contains(id) {
                        return Err(Refusal::bad(format!("the NIC {id} is already in use")));
                    }
                }
                Ok(ids.clone())
            }
        }
    }

    fn nic_of(&self, network: Option<&str>, id: &str) -> Checked<&Nic> {
        let nic = self.estate.nics.get(path_id("nicId", id)?);
        let here = nic.filter(|nic| network.is_none_or(|network| nic.network == network));
        here.ok_or_else(|| Refusal::missing("NIC", id))
    }

    pub(super) fn list_nics(&self, network: Option<&str>, call: &Call) -> Outcome {
        if let Some(network) = network {
            path_id("networkId", network)?;
        }
        let selector = call.selector(self.settings)?;
        let here = self.estate.nics.iter().filter(|(_, nic)| network.is_none_or(|id| nic.network == id));
        items(here.filter(|(_, nic)| selector.fits(&nic.labels)).map(|(id, nic)| show(id, nic)).collect())
    }

    pub(super) fn get_nic(&self, network: Option<&str>, id: &str) -> Outcome {
        found(show(id, self.nic_of(network, id)?))
    }

    pub(super) fn create_nic(&mut self, network: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        fields.only(&[CHANGEABLE, READ_ONLY, &["ipv4", "ipv6"]].concat())?;
        let (ipv4, ipv6) = (fields.text("ipv4", is_ip)?, fields.text("ipv6", is_ip)?);
        self.network(network)?;
        self.within_quota("nics", 1, StatusCode::FORBIDDEN)?;
        let (id, mut nic) = self.new_nic(network, false);
        change(&mut nic, &fields)?;
        if let Some(ipv4) = ipv4 {
            let taken = self.estate.nics.values().any(|other| other.network == network && other.ipv4 == ipv4);
            if taken {
                return Err(Refusal::conflict(format!("the address {ipv4} is already in use")));
            }
            nic.ipv4 = ipv4;
        }
        nic.ipv6 = ipv6;
        let body = show(&id, &nic);
        self.estate.nics.insert(id, nic);
        answer(StatusCode::CREATED, body)
    }

    pub(super) fn update_nic(&mut self, network: &str, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        fields.only(CHANGEABLE)?;
        self.nic_of(Some(network), id)?;
        if let Some(nic) = self.estate.nics.get_mut(id) {
            change(nic, &fields)?;
        }
        self.get_nic(Some(network), id)
    }

    pub(super) fn delete_nic(&mut self, network: &str, id: &str) -> Outcome {
        if let Some(server) = &self.nic_of(Some(network), id)?.server {
            return Err(Refusal::bad(format!("the NIC {id} is in use by the server {server}")));
        }
        self.forget_nic(id);
        done()
    }

    pub(super) fn list_server_nics(&self, server: &str) -> Outcome {
        let ids = &self.server(server)?.nics;
        items(ids.iter().filter_map(|id| Some(show(id, self.estate.nics.get(id)?))).collect())
    }

    /// Refuses changes to a server that is going.
    pub(super) fn changeable_server(&self, id: &str) -> Checked<()> {
        if self.server(id)?.status == Status::Deleting {
            return Err(Refusal::conflict(format!("the server {id} is being deleted")));
        }
        Ok(())
    }

    pub(super) fn add_nic(&mut self, server: &str, id: &str) -> Outcome {
        self.changeable_server(server)?;
        let nic = self.given_nic(id)?;
        if nic.server.as_deref().is_some_and(|other| other != server) {
            return Err(Refusal::conflict(format!("the NIC {id} is already in use")));
        }
        nic.server = Some(server.to_owned());
        let nics = &mut self.server_mut(server)?.nics;
        if !nics.iter().any(|known| known == id) {
            nics.push(id.to_owned());
        }
        accepted()
    }

    pub(super) fn remove_nic(&mut self, server: &str, id: &str) -> Outcome {
        let nics = &mut self.server_mut(server)?.nics;
        let at = nics.iter().position(|known| known == id).ok_or_else(|| Refusal::missing("NIC", id))?;
        nics.remove(at);
        if let Some(nic) = self.estate.nics.get_mut(id) {
            nic.server = None;
            nic.goes_with_server = false;
        }
        done()
    }

    pub(super) fn add_network(&mut self, server: &str, network: &str) -> Outcome {
        self.server(server)?;
        self.network(network)?;
        self.within_quota("nics", 1, StatusCode::FORBIDDEN)?;
        let id = self.make_nic_for_server(network);
        if let Some(nic) = self.estate.nics.get_mut(&id) {
            nic.server = Some(server.to_owned());
        }
        self.server_mut(server)?.nics.push(id);
        accepted()
    }

    /// Detaches and deletes the NICs of that network.
    pub(super) fn remove_network(&mut self, server: &str, network: &str) -> Outcome {
        let of_network = |id: &String| self.estate.nics.get(id).is_some_and(|nic| nic.network == network);
        let ids: Vec<String> =
            self.server(server)?.nics.iter().filter(|id| of_network(id)).cloned().collect();
        if ids.is_empty() {
            return Err(Refusal::missing("network", network));
        }
        self.server_mut(server)?.nics.retain(|id| !ids.contains(id));
        for id in &ids {
            self.forget_nic(id);
        }
        done()
    }
}

/// All fields are read before the first is written.
fn change(nic: &mut Nic, fields: &Fields<'_>) -> Checked<()> {
    let name = fields.text("name", is_generic_name)?;
    let description = fields.text("description", is_description)?;
    let labels = fields.label_changes()?;
    let security = fields.truth("nicSecurity")?;
    let groups = fields.texts("securityGroups", is_uuid)?;
    let allowed = fields.texts("allowedAddresses", is_address_or_cidr)?;
    nic.name = name.or_else(|| nic.name.take());
    nic.description = description.or_else(|| nic.description.take());
    change_labels(&mut nic.labels, labels);
    nic.security = security.unwrap_or(nic.security);
    if let Some(groups) = groups {
        nic.groups = groups;
    }
    if let Some(allowed) = allowed {
        nic.allowed = allowed;
    }
    Ok(())
}

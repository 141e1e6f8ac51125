//! Public IP addresses.

use super::{
    answer::{Outcome, Refusal, accepted, answer, done, found, items},
    check::{Checked, Fields, change_labels, is_uuid, path_id},
    cloud::Desk,
    dispatch::Call,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct PublicIp {
    pub(super) ip: String,
    pub(super) nic: Option<String>,
    labels: BTreeMap<String, String>,
}

fn show(id: &str, address: &PublicIp) -> Value {
    json!({"id": id, "ip": address.ip, "labels": address.labels, "networkInterface": address.nic})
}

impl Desk<'_> {
    fn public_ip(&mut self, id: &str) -> Checked<&mut PublicIp> {
        let address = self.estate.public_ips.get_mut(path_id("publicIpId", id)?);
        address.ok_or_else(|| Refusal::missing("public IP", id))
    }

    pub(super) fn list_public_ips(&self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        let fitting = self.estate.public_ips.iter().filter(|(_, address)| selector.fits(&address.labels));
        items(fitting.map(|(id, address)| show(id, address)).collect())
    }

    pub(super) fn get_public_ip(&mut self, id: &str) -> Outcome {
        let address = self.public_ip(id)?;
        found(show(id, address))
    }

    fn known_nic(&self, fields: &Fields<'_>) -> Checked<Option<String>> {
        let nic = fields.text("networkInterface", is_uuid)?;
        match &nic {
            Some(id) if !self.estate.nics.contains_key(id) => Err(Refusal::missing("NIC", id)),
            _ => Ok(nic),
        }
    }

    pub(super) fn create_public_ip(&mut self, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let (labels, nic) = (fields.labels()?, self.known_nic(&fields)?);
        self.within_quota("publicIps", 1, StatusCode::FORBIDDEN)?;
        let id = self.new_id();
        self.estate.addresses = self.estate.addresses.wrapping_add(1);
        let [_, _, middle, low] = self.estate.addresses.to_be_bytes();
        let address = PublicIp { ip: format!("198.18.{middle}.{low}"), nic, labels };
        let body = show(&id, &address);
        self.estate.public_ips.insert(id, address);
        answer(StatusCode::CREATED, body)
    }

    pub(super) fn update_public_ip(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let (labels, nic) = (fields.label_changes()?, self.known_nic(&fields)?);
        let address = self.public_ip(id)?;
        change_labels(&mut address.labels, labels);
        if fields.has("networkInterface") {
            address.nic = nic;
        }
        self.get_public_ip(id)
    }

    pub(super) fn delete_public_ip(&mut self, id: &str) -> Outcome {
        self.public_ip(id)?;
        self.estate.public_ips.remove(id);
        done()
    }

    pub(super) fn add_public_ip(&mut self, server: &str, id: &str) -> Outcome {
        self.changeable_server(server)?;
        let nic = self.server(server)?.nics.first().cloned();
        let nic = nic.ok_or_else(|| Refusal::conflict(format!("the server {server} has no NIC")))?;
        let address = self.public_ip(id)?;
        if address.nic.as_ref().is_some_and(|other| *other != nic) {
            return Err(Refusal::conflict(format!("the public IP {id} is already in use")));
        }
        address.nic = Some(nic);
        accepted()
    }

    pub(super) fn remove_public_ip(&mut self, server: &str, id: &str) -> Outcome {
        let nics = self.server(server)?.nics.clone();
        let address = self.public_ip(id)?;
        if !address.nic.as_ref().is_some_and(|nic| nics.contains(nic)) {
            return Err(Refusal::missing("public IP", id));
        }
        address.nic = None;
        done()
    }
}

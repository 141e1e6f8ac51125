//! From a call to the part of the cloud that answers it.

use super::{
    Settings,
    answer::{Outcome, Refusal, answer, found},
    check::{is_mail, is_uuid},
    cloud::{Cloud, Desk},
    life::Order,
    operation::{Operation, Target},
    selector::Selector,
    server::known_mail_count,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A call as it came over HTTP.
pub(super) struct Call {
    pub(super) target: Target,
    pub(super) query: BTreeMap<String, String>,
    pub(super) body: Option<Value>,
}

impl Call {
    pub(super) fn flag(&self, name: &str) -> Result<bool, Refusal> {
        match self.query.get(name).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Refusal::bad(format!("{name}: {other:?} is neither true nor false"))),
        }
    }

    /// What the list is to show; everything if the cloud ignores selectors.
    pub(super) fn selector(&self, settings: &Settings) -> Result<Selector, Refusal> {
        match self.query.get("label_selector") {
            Some(text) if !settings.ignores_selector => Selector::parse(text, settings.selector_grammar),
            _ => Ok(Selector::default()),
        }
    }

    fn id(&self, at: usize) -> &str {
        self.target.ids.get(at).map(String::as_str).unwrap_or_default()
    }
}

impl Cloud {
    pub(super) fn carry_out(&mut self, call: &Call, now: Timestamp) -> Outcome {
        use Operation as O;
        match call.target.operation {
            O::ListKeyPairs => return self.list_keypairs(call, now),
            O::CreateKeyPair => return self.create_keypair(call, now),
            O::GetKeyPair => return self.get_keypair(call.id(0), now),
            O::UpdateKeyPair => return self.update_keypair(call.id(0), call, now),
            O::DeleteKeyPair => return self.delete_keypair(call.id(0), now),
            O::CreateServer => {
                let named = call.body.as_ref().and_then(|body| body["keypairName"].as_str());
                if let Some(name) = named.filter(|name| !name.is_empty()) {
                    self.keypair(name, now)?;
                }
            }
            _ => {}
        }
        // As with everything else, a catalogue makes the cloud strict.
        let project = &call.target.project;
        let of_project = call.target.operation != O::ListAvailabilityZones;
        if of_project && self.settings.catalogue.is_some() && !is_uuid(project) {
            return Err(Refusal::bad(format!("projectId: {project:?} is an invalid uuid")));
        }
        let region = call.target.region.clone().unwrap_or_else(|| self.settings.region_of_v1.clone());
        let place = (project.clone(), region);
        self.desk(&place, now).carry_out(call)
    }
}

impl Desk<'_> {
    fn carry_out(&mut self, call: &Call) -> Outcome {
        use Operation as O;
        let (first, second) = (call.id(0), call.id(1));
        match call.target.operation {
            O::ListServers => self.list_servers(call),
            O::CreateServer => self.create_server(call),
            O::GetServer => self.get_server(first, call),
            O::UpdateServer => self.update_server(first, call),
            O::DeleteServer => self.delete_server(first),
            O::StartServer => self.order(first, Order::Start),
            O::StopServer => self.order(first, Order::Stop),
            O::DeallocateServer => self.order(first, Order::Deallocate),
            O::RebootServer => self.reboot_server(first, call),
            O::ResizeServer => self.resize_server(first, call),
            O::RescueServer => self.rescue_server(first, call),
            O::UnrescueServer => self.order(first, Order::Unrescue),
            O::GetServerConsole => self.console(first),
            O::GetServerLog => self.log(first, call),
            O::ListServerNICs => self.list_server_nics(first),
            O::AddNicToServer => self.add_nic(first, second),
            O::RemoveNicFromServer => self.remove_nic(first, second),
            O::AddNetworkToServer => self.add_network(first, second),
            O::RemoveNetworkFromServer => self.remove_network(first, second),
            O::AddPublicIpToServer => self.add_public_ip(first, second),
            O::RemovePublicIpFromServer => self.remove_public_ip(first, second),
            O::AddSecurityGroupToServer => self.add_group(first, second),
            O::RemoveSecurityGroupFromServer => self.remove_group(first, second),
            O::ListServerServiceAccounts => self.list_mails(first),
            O::AddServiceAccountToServer => self.add_mail(first, second),
            O::RemoveServiceAccountFromServer => self.remove_mail(first, second),
            O::ListAttachedVolumes => self.list_attachments(first),
            O::AddVolumeToServer => self.attach(first, second, call),
            O::UpdateAttachedVolume => self.update_attachment(first, second, call),
            O::GetAttachedVolume => self.get_attachment(first, second),
            O::RemoveVolumeFromServer => self.detach(first, second),
            O::ListNics => self.list_nics(Some(first), call),
            O::CreateNic => self.create_nic(first, call),
            O::GetNic => self.get_nic(Some(first), second),
            O::UpdateNic => self.update_nic(first, second, call),
            O::DeleteNic => self.delete_nic(first, second),
            O::ListProjectNICs => self.list_nics(None, call),
            O::GetProjectNIC => self.get_nic(None, first),
            O::ListNetworks => self.list_networks(call),
            O::CreateNetwork => self.create_network(call),
            O::GetNetwork => self.get_network(first, call.target.version),
            O::PartialUpdateNetwork => self.update_network(first, call),
            O::DeleteNetwork => self.delete_network(first),
            O::ListPublicIPs => self.list_public_ips(call),
            O::CreatePublicIP => self.create_public_ip(call),
            O::GetPublicIP => self.get_public_ip(first),
            O::UpdatePublicIP => self.update_public_ip(first, call),
            O::DeletePublicIP => self.delete_public_ip(first),
            O::ListSecurityGroups => self.list_groups(call),
            O::CreateSecurityGroup => self.create_group(call),
            O::GetSecurityGroup => self.get_group(first),
            O::UpdateSecurityGroup => self.update_group(first, call),
            O::DeleteSecurityGroup => self.delete_group(first),
            O::ListSecurityGroupRules => self.list_rules(first),
            O::CreateSecurityGroupRule => self.create_rule(first, call),
            O::GetSecurityGroupRule => self.get_rule(first, second),
            O::DeleteSecurityGroupRule => self.delete_rule(first, second),
            O::ListVolumes => self.list_volumes(call),
            O::CreateVolume => self.create_volume(call),
            O::GetVolume => self.get_volume(first),
            O::UpdateVolume => self.update_volume(first, call),
            O::DeleteVolume => self.delete_volume(first),
            O::ResizeVolume => self.resize_volume(first, call),
            O::ListVolumePerformanceClasses => self.list_classes(call),
            O::GetVolumePerformanceClass => self.get_class(first),
            O::ListMachineTypes => self.list_types(call),
            O::GetMachineType => self.get_type(first),
            O::ListImages => self.list_images(call),
            O::GetImage => self.get_image(first),
            O::ListAffinityGroups => self.list_affinity_groups(),
            O::CreateAffinityGroup => self.create_affinity_group(call),
            O::GetAffinityGroup => self.get_affinity_group(first),
            O::DeleteAffinityGroup => self.delete_affinity_group(first),
            O::ListQuotas => self.list_quotas(),
            O::GetProjectRequest => self.get_request(first),
            O::ListAvailabilityZones => self.list_zones(),
            // The cloud itself answers these, before a place is looked for.
            O::ListKeyPairs
            | O::CreateKeyPair
            | O::GetKeyPair
            | O::UpdateKeyPair
            | O::DeleteKeyPair
            | O::Token => Err(Refusal::new(StatusCode::NOT_FOUND, "there is nothing here")),
        }
    }

    fn add_mail(&mut self, server: &str, mail: &str) -> Outcome {
        if !is_mail(mail) {
            return Err(Refusal::bad(format!("serviceAccountMail: {mail:?} does not match the pattern")));
        }
        let mut mails = self.server(server)?.mails.clone();
        if !mails.iter().any(|known| known == mail) {
            mails.push(mail.to_owned());
        }
        known_mail_count(&mails).map_err(|refusal| Refusal::conflict(refusal.message))?;
        self.server_mut(server)?.mails = mails.clone();
        answer(StatusCode::CREATED, json!({"items": mails}))
    }

    fn remove_mail(&mut self, server: &str, mail: &str) -> Outcome {
        let mails = &mut self.server_mut(server)?.mails;
        let at = mails.iter().position(|known| known == mail);
        mails.remove(at.ok_or_else(|| Refusal::missing("service account", mail))?);
        found(json!({"items": mails}))
    }
}

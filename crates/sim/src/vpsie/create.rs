//! The create call for a VPS: read, checked against what exists, and taken. It leads to nothing that could be shown yet.

use super::{
    answer::{Answer, Checked, Outcome, Refusal, data},
    call::Call,
    catalogue::{Datacenter, Plan},
    cloud::Cloud,
    life::Stage,
    settings::{CreateAnswer, SoldOut},
    vm::{Vm, Wish},
};
use http::StatusCode;
use serde_json::json;

/// A plan that one could want: nobody sells it there.
const UNAVAILABLE: &str = "The selected plan is not available in this datacenter";

impl Cloud {
    pub(super) fn create_vm(&mut self, call: &Call, is_custom: bool) -> Outcome {
        let datacenter = self.datacenter(call.required("dcIdentifier")?)?;
        let image = self.image(call.required("osIdentifier")?, is_custom, &datacenter)?;
        let mut plan = self.plan_for(call.required("resourceIdentifier")?, &datacenter, &image.1)?;
        let hostname = call.required("hostname")?;
        if !is_hostname(hostname) {
            return Err(Refusal::bad("hostname is not valid"));
        }
        let project = call.number("projectId").ok_or_else(|| Refusal::bad("projectId is required"))?;
        if !self.catalogue.projects.iter().any(|known| known.id == project) {
            return Err(Refusal::missing("Project"));
        }
        let key = call.text("sshKeyIdentifier").map(str::to_owned);
        if key.as_ref().is_some_and(|key| !self.ssh_keys.contains_key(key)) {
            return Err(Refusal::missing("SSH key"));
        }
        let script = match call.text("scriptIdentifier") {
            None => None,
            Some(id) => {
                let script = self.scripts.get(id).ok_or_else(|| Refusal::missing("Script"))?;
                Some((id.to_owned(), script.content.clone()))
            }
        };
        self.within_quota()?;
        if let Some(ssd) = call.body["ssd"].as_u64().filter(|_| is_custom) {
            plan.ssd = ssd;
        }
        let wish = Wish {
            backup: call.flag("backupEnabled").unwrap_or_default(),
            ipv4: call.flag("addPublicIpV4").unwrap_or(self.settings.public_by_default),
            ipv6: call.flag("addPublicIpV6").unwrap_or_default(),
            private_ip: call.flag("addPrivateIp").unwrap_or_default(),
            is_custom,
        };
        let number = self.put_vm(hostname, plan, datacenter, image, wish);
        let private_ip = call.flag("addPrivateIp").unwrap_or_default().then(|| self.new_private_ip(None));
        if let Some(vm) = self.vms.get_mut(&number) {
            vm.project = project;
            vm.notes = call.text("notes").map(str::to_owned);
            vm.tags = call.texts("tags");
            vm.ssh_keys = key.into_iter().collect();
            vm.script = script;
            vm.user_data = call.text("userData").map(str::to_owned);
            vm.process = call.text("processId").map(str::to_owned);
            vm.private_ips = private_ip.into_iter().collect();
            if let Some(password) = call.text("vmPassword") {
                password.clone_into(&mut vm.password);
            }
        }
        self.enter(number, Stage::Accepted);
        match self.settings.create_answer {
            CreateAnswer::Truth => data(json!(true)),
            CreateAnswer::Done => Ok(Answer::Done),
            CreateAnswer::Nothing => Ok(Answer::Nothing),
        }
    }

    /// Puts a VPS there without asking whether it may be there; gives its number.
    pub(super) fn put_vm(
        &mut self,
        hostname: &str,
        plan: Plan,
        datacenter: Datacenter,
        image: (String, String),
        wish: Wish,
    ) -> u64 {
        let number = self.new_vm_number();
        let lost = self.settings.sold_out_answer == SoldOut::Lost && self.is_sold_out(&plan, &datacenter);
        let (high, low) = (number / 250 % 250, number % 250 + 1);
        let vm = Vm {
            identifier: self.new_id(),
            hostname: hostname.to_owned(),
            public_ip: wish.ipv4.then(|| format!("198.18.{high}.{low}")),
            public_ipv6: wish.ipv6.then(|| format!("2001:db8::{number:x}")),
            plan,
            datacenter,
            image,
            project: self.default_project(),
            notes: None,
            tags: Vec::new(),
            ssh_keys: Vec::new(),
            script: None,
            user_data: None,
            process: None,
            wish,
            private_ips: Vec::new(),
            password: self.chance.text(b"abcdefghjkmnpqrstuvwxyz23456789", 16),
            is_suspended: false,
            is_locked: false,
            is_lost: lost,
            stage: Stage::Accepted,
            before: Stage::Accepted,
            until: None,
            created: self.now,
            updated: self.now,
            listed: None,
        };
        self.vms.insert(number, vm);
        number
    }

    fn default_project(&self) -> u64 {
        let projects = &self.catalogue.projects;
        let default = projects.iter().find(|project| project.is_default).or_else(|| projects.first());
        default.map(|project| project.id).unwrap_or_default()
    }

    pub(super) fn datacenter(&self, identifier: &str) -> Checked<Datacenter> {
        let known = self.catalogue.datacenters.iter().find(|one| one.identifier == identifier);
        known.filter(|one| !one.is_inactive).cloned().ok_or_else(|| Refusal::missing("Datacenter"))
    }

    /// An image's identifier and name.
    pub(super) fn image(
        &self,
        identifier: &str,
        is_custom: bool,
        datacenter: &Datacenter,
    ) -> Checked<(String, String)> {
        let stock = self.catalogue.images.iter().filter(|_| !is_custom);
        let mut stock = stock.map(|image| (&image.identifier, &image.name));
        let custom = self.catalogue.custom_images.iter();
        let custom = custom.filter(|image| image.datacenter == datacenter.name);
        let mut custom = custom.map(|image| (&image.identifier, &image.name));
        let found = stock.find(|(known, _)| *known == identifier);
        let found = found.or_else(|| custom.find(|(known, _)| *known == identifier));
        found.map(|(id, name)| (id.clone(), name.clone())).ok_or_else(|| Refusal::missing("OS image"))
    }

    fn plan_for(&self, identifier: &str, datacenter: &Datacenter, image: &str) -> Checked<Plan> {
        let plan = self.catalogue.plans.iter().find(|plan| plan.identifier == identifier);
        let plan = plan.ok_or_else(|| Refusal::missing("Resource"))?;
        let refused = self.settings.sold_out_answer != SoldOut::Lost && self.is_sold_out(plan, datacenter);
        if refused || !plan.is_for(&datacenter.name, image) {
            return Err(Refusal::bad(UNAVAILABLE));
        }
        Ok(plan.clone())
    }

    pub(super) fn is_sold_out(&self, plan: &Plan, datacenter: &Datacenter) -> bool {
        self.settings.is_sold_out([&plan.name, &plan.identifier], [&datacenter.name, &datacenter.identifier])
    }

    fn within_quota(&self) -> Checked<()> {
        let Some(most) = self.settings.max_vms else { return Ok(()) };
        if self.vms.values().filter(|vm| vm.stage.counts()).count() < most {
            return Ok(());
        }
        let status = StatusCode::from_u16(self.settings.quota_status).unwrap_or(StatusCode::BAD_REQUEST);
        Err(Refusal::new(status, self.settings.quota_message.clone()))
    }
}

fn is_hostname(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

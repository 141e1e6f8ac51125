//! VPSs: what is remembered of one, how it is shown, and the calls about it that are no create call.

use super::{
    answer::{Answer, Checked, Outcome, Refusal, data, list},
    call::Call,
    catalogue::{Datacenter, Plan},
    cloud::{Cloud, HOURS_A_MONTH},
    life::{Order, Stage},
};
use jiff::Timestamp;
use serde_json::{Value, json};

/// The number of the account's user.
pub(super) const USER: u64 = 77;

#[derive(Clone)]
pub(super) struct Vm {
    pub(super) identifier: String,
    pub(super) hostname: String,
    pub(super) plan: Plan,
    pub(super) datacenter: Datacenter,
    /// The image's identifier and name.
    pub(super) image: (String, String),
    pub(super) project: u64,
    pub(super) notes: Option<String>,
    pub(super) tags: Vec<String>,
    /// By identifier.
    pub(super) ssh_keys: Vec<String>,
    /// The start-up script's identifier, and what was in it.
    pub(super) script: Option<(String, String)>,
    /// As it came, in base64.
    pub(super) user_data: Option<String>,
    pub(super) process: Option<String>,
    /// How it came, as far as the queue shows that.
    pub(super) wish: Wish,
    pub(super) public_ip: Option<String>,
    pub(super) public_ipv6: Option<String>,
    pub(super) private_ips: Vec<PrivateIp>,
    pub(super) password: String,
    pub(super) is_suspended: bool,
    pub(super) is_locked: bool,
    /// Nothing comes of it after its time in the queue.
    pub(super) is_lost: bool,
    pub(super) stage: Stage,
    pub(super) before: Stage,
    /// When the stage changes by itself.
    pub(super) until: Option<Timestamp>,
    pub(super) created: Timestamp,
    pub(super) updated: Timestamp,
    /// When it came into the list; it costs from then on.
    pub(super) listed: Option<Timestamp>,
}

#[derive(Clone)]
pub(super) struct Wish {
    pub(super) backup: bool,
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
    pub(super) private_ip: bool,
    pub(super) is_custom: bool,
}

#[derive(Clone)]
pub(super) struct PrivateIp {
    pub(super) number: u64,
    pub(super) address: String,
    pub(super) vpc: Option<u64>,
}

impl Vm {
    /// A stage that leaves things as they were counts as the one before it.
    fn shown_stage(&self) -> Stage {
        if self.stage == Stage::Leaving { self.before } else { self.stage }
    }

    pub(super) fn has_power(&self) -> bool {
        self.shown_stage().has_power() && !self.is_suspended
    }

    /// Whether what is on it works, so that its node is there.
    pub(super) fn works(&self) -> bool {
        self.shown_stage() == Stage::Running && !self.is_suspended
    }

    /// What it has cost, in dollars.
    pub(super) fn cost(&self, now: Timestamp) -> f64 {
        self.listed.map(|since| self.plan.price * hours(since, now) / HOURS_A_MONTH).unwrap_or_default()
    }
}

pub(super) fn hours(since: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(since).as_secs_f64() / 3600.0
}

pub(super) fn stamp(time: Timestamp) -> Value {
    Value::String(time.to_string())
}

fn bit(value: bool) -> u8 {
    u8::from(value)
}

impl Cloud {
    /// A VPS as lists have it: without its tags, and without a word about its status.
    fn show_vm(&self, number: u64, vm: &Vm) -> Value {
        let hostname =
            if self.settings.capital_hostnames { capitalised(&vm.hostname) } else { vm.hostname.clone() };
        let dropped = vm.stage.is_deleted().then(|| stamp(vm.updated));
        let keys: Vec<u64> =
            vm.ssh_keys.iter().filter_map(|key| self.ssh_keys.get(key)).map(|key| key.number).collect();
        json!({
            "id": number, "identifier": vm.identifier, "user_id": USER, "hostname": hostname,
            "boxsize_id": self.number_of_plan(&vm.plan.name), "boximage_id": 1,
            "datacenter_id": self.number_of_datacenter(&vm.datacenter.name), "node_id": 3,
            "dcIdentifier": vm.datacenter.identifier, "dc_name": vm.datacenter.name,
            "state": vm.datacenter.state, "country": vm.datacenter.country,
            "default_ip": vm.public_ip, "default_ipv6": vm.public_ipv6,
            "private_ip": vm.private_ips.first().map(|ip| ip.address.as_str()), "publicIp": vm.public_ip,
            "ram": vm.plan.ram, "cpu": vm.plan.cpu, "ssd": vm.plan.ssd, "traffic": vm.plan.traffic,
            "notes": vm.notes, "created_on": stamp(vm.created), "last_updated": stamp(vm.updated),
            "dropped_on": dropped, "is_active": bit(vm.shown_stage().is_built()),
            "is_deleted": bit(vm.stage.is_deleted()), "is_terminated": bit(vm.stage.is_deleted()),
            "is_suspended": bit(vm.is_suspended), "is_locked": bit(vm.is_locked), "power": bit(vm.has_power()),
            "projectId": vm.project, "script_id": vm.script.as_ref().map(|(script, _)| script.as_str()),
            "sshkey_id": keys.first(), "category": vm.image.1, "fullname": vm.image.1,
            "vmType": if vm.wish.is_custom { "custom" } else { "vm" }, "initial_password": vm.password,
        })
    }

    fn number_of_plan(&self, name: &str) -> usize {
        self.catalogue.plans.iter().position(|plan| plan.name == name).map_or(0, |at| at + 1)
    }

    pub(super) fn number_of_datacenter(&self, name: &str) -> usize {
        self.catalogue.datacenters.iter().position(|one| one.name == name).map_or(0, |at| at + 1)
    }

    pub(super) fn list_vms(&self, call: &Call) -> Outcome {
        let project = call.query.get("projectId").and_then(|text| text.parse::<u64>().ok());
        let here = self.vms.iter().filter(|(_, vm)| vm.stage.in_list());
        let wanted = here.filter(|(_, vm)| project.is_none_or(|project| vm.project == project));
        list(wanted.map(|(number, vm)| self.show_vm(*number, vm)))
    }

    /// What storage is mapped by: next to nothing, and hostnames as somebody once wrote them.
    pub(super) fn list_storage_vms(&self) -> Outcome {
        let here = self.vms.iter().filter(|(_, vm)| vm.stage.in_list());
        list(here.map(|(number, vm)| {
            json!({"id": number, "identifier": vm.identifier, "hostname": capitalised(&vm.hostname),
                "dcIdentifier": vm.datacenter.identifier})
        }))
    }

    pub(super) fn list_pending(&self) -> Outcome {
        list(self.vms.iter().filter(|(_, vm)| vm.stage.in_queue()).map(|(number, vm)| {
            let wish = &vm.wish;
            json!({
                "id": format!("pending-{number}"), "user_id": USER, "running": 1,
                "type": if wish.is_custom { "customVm" } else { "vm" },
                "data": {
                    "resourceIdentifier": vm.plan.identifier, "osIdentifier": vm.image.0,
                    "dcIdentifier": vm.datacenter.identifier, "hostname": vm.hostname,
                    "notes": vm.notes.as_ref().filter(|_| self.settings.queue_has_notes),
                    "addPublicIpV4": wish.ipv4, "addPublicIpV6": wish.ipv6, "addPrivateIp": wish.private_ip,
                    "backupEnabled": wish.backup, "tags": vm.tags, "projectId": vm.project,
                    "processId": vm.process, "sshKeyIdentifier": vm.ssh_keys.first(),
                    "scriptIdentifier": vm.script.as_ref().map(|(script, _)| script.as_str()),
                    "vmPassword": vm.password, "requestIp": "198.18.255.254",
                },
                "resourceData": {"identifier": vm.plan.identifier, "nickname": vm.plan.name, "cpu": vm.plan.cpu,
                    "ram": vm.plan.ram, "ssd": vm.plan.ssd, "traffic": vm.plan.traffic},
                "datacenter": {"identifier": vm.datacenter.identifier, "dc_name": vm.datacenter.name},
                "osData": {"identifier": vm.image.0, "name": vm.image.1},
            })
        }))
    }

    /// The number of a VPS that can be asked for.
    pub(super) fn find_vm(&self, id: &str) -> Checked<u64> {
        let by_number = self.settings.numeric_ids.then(|| id.parse::<u64>().ok()).flatten();
        let found = self
            .vms
            .iter()
            .find(|(number, vm)| vm.stage.answers() && (vm.identifier == id || by_number == Some(**number)));
        found.map(|(number, _)| *number).ok_or_else(|| Refusal::missing("VM"))
    }

    fn vm(&self, id: &str) -> Checked<(u64, &Vm)> {
        let number = self.find_vm(id)?;
        self.vms.get(&number).map(|vm| (number, vm)).ok_or_else(|| Refusal::missing("VM"))
    }

    /// The VPS that the body names, if it can be changed.
    fn vm_to_change(&mut self, call: &Call) -> Checked<(u64, &mut Vm)> {
        let number = self.find_vm(call.required("vmIdentifier")?)?;
        let now = self.now;
        let vm = self.vms.get_mut(&number).filter(|vm| !vm.stage.is_deleted());
        let vm = vm.ok_or_else(|| Refusal::missing("VM"))?;
        if vm.is_locked && call.target.operation != super::operation::Operation::UnlockVM {
            return Err(Refusal::conflict("VM is locked"));
        }
        vm.updated = now;
        Ok((number, vm))
    }

    pub(super) fn get_vm(&self, id: &str) -> Outcome {
        let (number, vm) = self.vm(id)?;
        let private: Vec<Value> = vm
            .private_ips
            .iter()
            .map(|ip| json!({"id": ip.number, "private_ip": ip.address, "vpc_id": ip.vpc}))
            .collect();
        data(json!({
            "vmData": self.show_vm(number, vm), "imageCategories": [], "vmTags": vm.tags,
            "privateIpData": private, "floatingIpData": [],
        }))
    }

    pub(super) fn get_status(&self, id: &str) -> Outcome {
        let (number, vm) = self.vm(id)?;
        let runs = vm.has_power();
        let uptime = if runs { self.now.duration_since(vm.updated).as_secs() } else { 0 };
        data(json!({
            "status": if runs { "running" } else { "stopped" }, "uptime": uptime, "cpu": 0.01, "ballon": 0,
            "pid": runs.then_some(number), "disk": 0, "diskread": 0, "diskwrite": 0,
            "running-machine": runs.then_some("pc-i440fx-8.1"), "running-qemu": runs.then_some("8.1.5"),
            "fullname": vm.image.1,
        }))
    }

    pub(super) fn get_agent_status(&self, id: &str) -> Outcome {
        let (_, vm) = self.vm(id)?;
        data(json!(vm.works()))
    }

    pub(super) fn delete_vm(&mut self, call: &Call) -> Outcome {
        let password = self.settings.delete_password.clone();
        if password.is_some_and(|password| call.text("password") != Some(password.as_str())) {
            return Err(Refusal::new(http::StatusCode::FORBIDDEN, "the password is wrong"));
        }
        let needs_stop = self.settings.delete_needs_stop;
        let (number, vm) = self.vm_to_change(call)?;
        if needs_stop && vm.has_power() {
            return Err(Refusal::conflict("VM is running"));
        }
        if vm.stage != Stage::Leaving {
            self.enter(number, Stage::Leaving);
        }
        data(json!(true))
    }

    pub(super) fn order(&mut self, call: &Call, order: Order) -> Outcome {
        let (number, vm) = self.vm_to_change(call)?;
        let next = vm.stage.ordered(order);
        let next = next.ok_or_else(|| Refusal::conflict(format!("VM cannot be told to {order:?} now")))?;
        self.enter(number, next);
        data(json!(true))
    }

    pub(super) fn lock(&mut self, call: &Call, locked: bool) -> Outcome {
        self.vm_to_change(call)?.1.is_locked = locked;
        Ok(Answer::Done)
    }

    pub(super) fn change_hostname(&mut self, call: &Call) -> Outcome {
        let hostname = call.required("hostname")?.to_owned();
        self.vm_to_change(call)?.1.hostname = hostname;
        Ok(Answer::Done)
    }

    pub(super) fn add_tags(&mut self, call: &Call) -> Outcome {
        let tags = call.texts("tags");
        let (_, vm) = self.vm_to_change(call)?;
        for tag in tags {
            if !vm.tags.contains(&tag) {
                vm.tags.push(tag);
            }
        }
        Ok(Answer::Done)
    }

    pub(super) fn add_key_to_vm(&mut self, call: &Call) -> Outcome {
        let key = call.required("sshKeyIdentifier")?.to_owned();
        if !self.ssh_keys.contains_key(&key) {
            return Err(Refusal::missing("SSH key"));
        }
        let (_, vm) = self.vm_to_change(call)?;
        if !vm.ssh_keys.contains(&key) {
            vm.ssh_keys.push(key);
        }
        Ok(Answer::Done)
    }

    pub(super) fn add_vm_to_vpc(&mut self, call: &Call) -> Outcome {
        let vpc = call.number("vpcId").ok_or_else(|| Refusal::bad("vpcId is required"))?;
        let place = call.required("dcIdentifier")?.to_owned();
        let known = self.vpcs.get(&vpc).filter(|vpc| vpc.datacenter == place);
        known.ok_or_else(|| Refusal::missing("VPC"))?;
        let (number, vm) = self.vm_to_change(call)?;
        if vm.datacenter.identifier != place {
            return Err(Refusal::bad("VM and VPC are in different datacenters"));
        }
        if vm.private_ips.iter().any(|ip| ip.vpc == Some(vpc)) {
            return Err(Refusal::conflict("VM is in this VPC already"));
        }
        let ip = self.new_private_ip(Some(vpc));
        if let Some(vm) = self.vms.get_mut(&number) {
            vm.private_ips.push(ip);
        }
        Ok(Answer::Done)
    }

    pub(super) fn remove_vm_from_vpc(&mut self, call: &Call) -> Outcome {
        let ip = call.number("privateIpId").ok_or_else(|| Refusal::bad("privateIpId is required"))?;
        let (_, vm) = self.vm_to_change(call)?;
        let at = vm.private_ips.iter().position(|known| known.number == ip);
        vm.private_ips.remove(at.ok_or_else(|| Refusal::missing("private IP"))?);
        Ok(Answer::Done)
    }

    pub(super) fn new_private_ip(&mut self, vpc: Option<u64>) -> PrivateIp {
        let number = self.new_number();
        let address = format!("10.20.{}.{}", number / 250 % 250, number % 250 + 1);
        PrivateIp { number, address, vpc }
    }
}

/// `Node-1` for `node-1`.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

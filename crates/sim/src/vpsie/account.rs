//! What an account can choose from and keeps: plans, datacenters, images, projects, keys, scripts, networks.

use super::{
    answer::{Answer, Checked, Outcome, Refusal, data, list},
    call::Call,
    catalogue::{Project, price},
    cloud::Cloud,
    settings::SoldOut,
    vm::{USER, stamp},
};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) struct SshKey {
    pub(super) number: u64,
    pub(super) name: String,
    pub(super) identifier: String,
    pub(super) text: String,
    pub(super) created: Timestamp,
}

pub(super) struct Script {
    pub(super) name: String,
    pub(super) content: String,
    pub(super) created: Timestamp,
}

pub(super) struct Vpc {
    pub(super) name: String,
    pub(super) range: String,
    pub(super) size: u64,
    /// The datacenter's identifier.
    pub(super) datacenter: String,
}

impl Cloud {
    pub(super) fn list_plan_categories(&self) -> Outcome {
        let known = self.catalogue.categories.iter();
        list(known.map(|category| json!({"identifier": category.identifier, "name": category.name})))
    }

    /// The plans of one category for one image in one datacenter. The call is a form; a body in JSON is none.
    pub(super) fn list_plans(&self, call: &Call) -> Outcome {
        let field = |name: &str| -> Checked<&str> {
            let value = call.form.get(name).map(String::as_str).filter(|value| !value.is_empty());
            value.ok_or_else(|| Refusal::bad(format!("{name} is required")))
        };
        let datacenter = self.datacenter(field("dcIdentifier")?)?;
        let image = self.image(field("osIdentifier")?, false, &datacenter)?;
        let category = field("planCatIdentifier")?;
        let category = self.catalogue.categories.iter().find(|known| known.identifier == category);
        let category = category.ok_or_else(|| Refusal::missing("Plan category"))?;
        let hides = self.settings.sold_out_answer == SoldOut::Unlisted;
        let plans = self.catalogue.plans.iter().filter(|plan| {
            plan.category == category.name
                && plan.is_for(&datacenter.name, &image.1)
                && !(hides && self.is_sold_out(plan, &datacenter))
        });
        list(plans.map(|plan| {
            json!({"identifier": plan.identifier, "nickname": plan.name, "cpu": plan.cpu, "ram": plan.ram,
                "ssd": plan.ssd, "traffic": plan.traffic, "price": price(plan.price)})
        }))
    }

    pub(super) fn list_datacenters(&self, call: &Call) -> Outcome {
        let number = |name: &str| call.query.get(name).and_then(|text| text.parse::<usize>().ok());
        let (offset, limit) = (number("offset").unwrap_or(0), number("limit").unwrap_or(usize::MAX));
        let page = self.catalogue.datacenters.iter().enumerate().skip(offset).take(limit);
        list(page.map(|(at, one)| {
            json!({
                "identifier": one.identifier, "dc_name": one.name, "dc_image": "", "state": one.state,
                "country": one.country, "is_active": u8::from(!one.is_inactive), "is_deleted": 0,
                "default_selected": u8::from(at == 0), "is_fip_available": 1, "is_bucket_available": 0,
                "is_private": 0,
            })
        }))
    }

    pub(super) fn list_images(&self) -> Outcome {
        if !self.settings.lists_images {
            return Err(Refusal::missing("Route"));
        }
        list(
            self.catalogue
                .images
                .iter()
                .map(|image| json!({"identifier": image.identifier, "name": image.name})),
        )
    }

    pub(super) fn list_custom_images(&self) -> Outcome {
        let place = |name: &str| {
            let found = self.catalogue.datacenters.iter().find(|one| one.name == name);
            found.map(|one| one.identifier.clone())
        };
        list(self.catalogue.custom_images.iter().map(|image| {
            json!({"identifier": image.identifier, "image_label": image.name, "image_size": image.size,
                "dcIdentifier": place(&image.datacenter), "original_name": format!("{}.qcow2", image.name),
                "created_on": "2025-06-01T00:00:00Z"})
        }))
    }

    pub(super) fn list_projects(&self) -> Outcome {
        let rows: Vec<Value> = self.catalogue.projects.iter().map(show_project).collect();
        data(json!({"count": rows.len(), "rows": rows}))
    }

    pub(super) fn get_project(&self, identifier: &str) -> Outcome {
        let project = self.catalogue.projects.iter().find(|project| project.identifier == identifier);
        data(show_project(project.ok_or_else(|| Refusal::missing("Project"))?))
    }

    pub(super) fn list_ssh_keys(&self) -> Outcome {
        list(self.ssh_keys.values().map(show_key))
    }

    pub(super) fn get_ssh_key(&self, identifier: &str) -> Outcome {
        data(show_key(self.ssh_keys.get(identifier).ok_or_else(|| Refusal::missing("SSH key"))?))
    }

    /// The field is called `privateKey` and takes the public one. No id is answered.
    pub(super) fn add_ssh_key(&mut self, call: &Call) -> Outcome {
        let (name, text) = (call.required("name")?.to_owned(), call.required("privateKey")?.to_owned());
        let (number, identifier, created) = (self.new_number(), self.new_id(), self.now);
        self.ssh_keys.insert(identifier.clone(), SshKey { number, name, identifier, text, created });
        Ok(Answer::Done)
    }

    pub(super) fn delete_ssh_key(&mut self, call: &Call) -> Outcome {
        let identifier = call.required("identifier")?;
        self.ssh_keys.remove(identifier).ok_or_else(|| Refusal::missing("SSH key"))?;
        Ok(Answer::Done)
    }

    pub(super) fn list_scripts(&self) -> Outcome {
        list(self.scripts.iter().map(|(identifier, script)| show_script(identifier, script)))
    }

    pub(super) fn get_script(&self, identifier: &str) -> Outcome {
        let script = self.scripts.get(identifier).ok_or_else(|| Refusal::missing("Script"))?;
        let mut body = show_script(identifier, script);
        body["script"] = json!(script.content);
        data(body)
    }

    /// Whatever the name is, `.sh` is put behind it. No id is answered.
    pub(super) fn add_script(&mut self, call: &Call) -> Outcome {
        let name = format!("{}.sh", call.required("name")?);
        let content = call.required("scriptContent")?.to_owned();
        if call.required("scriptType")? != "bash" {
            return Err(Refusal::bad("scriptType is not valid"));
        }
        let script = Script { name, content, created: self.now };
        self.scripts.insert(self.new_id(), script);
        Ok(Answer::Done)
    }

    pub(super) fn delete_script(&mut self, call: &Call) -> Outcome {
        let identifier = call.required("scriptIdentifier")?;
        self.scripts.remove(identifier).ok_or_else(|| Refusal::missing("Script"))?;
        Ok(Answer::Done)
    }

    pub(super) fn list_vpcs(&self) -> Outcome {
        list(self.vpcs.iter().map(|(number, vpc)| show_vpc(*number, vpc)))
    }

    pub(super) fn get_vpc(&self, id: &str) -> Outcome {
        let number = id.parse::<u64>().map_err(|_| Refusal::missing("VPC"))?;
        data(show_vpc(number, self.vpcs.get(&number).ok_or_else(|| Refusal::missing("VPC"))?))
    }

    pub(super) fn add_vpc(&mut self, call: &Call) -> Outcome {
        let datacenter = self.datacenter(call.required("dcIdentifier")?)?.identifier;
        let vpc = Vpc {
            name: call.required("name")?.to_owned(),
            range: call.text("networkRange").unwrap_or("10.20.0.0").to_owned(),
            size: call.number("networkSize").unwrap_or(16),
            datacenter,
        };
        let number = self.new_number();
        self.vpcs.insert(number, vpc);
        Ok(Answer::Done)
    }

    pub(super) fn delete_vpc(&mut self, id: &str) -> Outcome {
        let number = id.parse::<u64>().map_err(|_| Refusal::missing("VPC"))?;
        let used = |vm: &super::vm::Vm| {
            !vm.stage.is_deleted() && vm.private_ips.iter().any(|ip| ip.vpc == Some(number))
        };
        if self.vms.values().any(used) {
            return Err(Refusal::conflict("VPC is in use"));
        }
        self.vpcs.remove(&number).ok_or_else(|| Refusal::missing("VPC"))?;
        Ok(Answer::Done)
    }
}

fn show_project(project: &Project) -> Value {
    json!({"id": project.id, "name": project.name, "description": "", "identifier": project.identifier,
        "is_default": u8::from(project.is_default)})
}

fn show_key(key: &SshKey) -> Value {
    json!({"id": key.number, "name": key.name, "identifier": key.identifier, "private_key": key.text,
        "user_id": USER, "created_on": stamp(key.created)})
}

fn show_script(identifier: &str, script: &Script) -> Value {
    json!({"identifier": identifier, "script_name": script.name, "user_id": USER,
        "created_on": stamp(script.created)})
}

fn show_vpc(number: u64, vpc: &Vpc) -> Value {
    json!({"id": number, "name": vpc.name, "network_range": vpc.range, "network_size": vpc.size, "is_default": 0,
        "dc_identifier": vpc.datacenter, "user_id": USER})
}

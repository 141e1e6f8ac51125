//! What can be looked up: machine types, images, zones, performance classes, affinity groups, quotas.

use super::{
    answer::{Outcome, Refusal, answer, done, found, items},
    check::{Checked, Fields, is_generic_name, path_id},
    cloud::{AffinityGroup, Desk},
    dispatch::Call,
    settings::MachineType,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The limit of what has none in the settings.
const NO_LIMIT: i64 = 1_000_000_000;

/// The machine types in lists when there is no catalogue; any other name is one, too.
const MACHINE_TYPES: [&str; 6] = ["c2i.1", "c2i.2", "c2i.4", "c2i.8", "m2i.2", "m2i.8"];

/// The image in lists when there is no catalogue; any other id is one, too.
const IMAGE: (&str, &str) = ("0bf2e1a4-3c5d-4e6f-8a7b-9c0d1e2f3a4b", "Simulated Linux");

const PERFORMANCE_CLASSES: [&str; 4] =
    ["storage_premium_perf1", "storage_premium_perf2", "storage_premium_perf4", "storage_premium_perf6"];

/// `c2i.4` has four cores; what cannot be read has two.
pub(super) fn cores(machine_type: &str) -> u32 {
    let digits: String =
        machine_type.split('.').nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(2).clamp(1, 256)
}

fn type_by_name(name: &str) -> MachineType {
    let vcpus = i64::from(cores(name));
    MachineType { name: name.to_owned(), vcpus, ram: vcpus * 4096, disk: 0 }
}

fn show_type(machine_type: &MachineType) -> Value {
    let MachineType { name, vcpus, ram, disk } = machine_type;
    json!({"name": name, "vcpus": vcpus, "ram": ram, "disk": disk,
        "description": format!("{vcpus} vCPUs, {ram} MB"), "extraSpecs": {"cpu": "simulated"}})
}

/// Comparisons of a name or number, with `&&` between them.
fn type_fits(machine_type: &MachineType, filter: &str) -> Option<bool> {
    let mut fits = true;
    for part in filter.split("&&") {
        let operator = ["==", "!=", ">=", "<=", ">", "<"].into_iter().find(|sign| part.contains(sign))?;
        let (field, value) = part.split_once(operator)?;
        let value = value.trim();
        let order = if field.trim() == "name" {
            let quoted = value.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
            machine_type.name.as_str().cmp(quoted)
        } else {
            let number = match field.trim() {
                "vcpus" => machine_type.vcpus,
                "ram" => machine_type.ram,
                "disk" => machine_type.disk,
                _ => return None,
            };
            number.cmp(&value.parse().ok()?)
        };
        fits &= match operator {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            ">=" => order.is_ge(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_lt(),
        };
    }
    Some(fits)
}

fn show_image(id: &str, name: &str) -> Value {
    json!({"id": id, "name": name, "diskFormat": "qcow2", "minDiskSize": 10, "minRam": 1024,
        "scope": "public", "status": "AVAILABLE", "size": 1_073_741_824_i64, "protected": false,
        "agent": {"supported": true, "provisionByDefault": false},
        "config": {"architecture": "x86", "uefi": true, "operatingSystem": "linux"}, "labels": {}})
}

impl Desk<'_> {
    fn machine_types(&self) -> Vec<MachineType> {
        match &self.settings.catalogue {
            Some(catalogue) => catalogue.machine_types.clone(),
            None => MACHINE_TYPES.iter().map(|name| type_by_name(name)).collect(),
        }
    }

    /// A machine type that a create call names.
    pub(super) fn machine_type(&self, name: &str) -> Checked<MachineType> {
        self.known_type(name).ok_or_else(|| Refusal::bad(format!("the machine type {name} is not valid")))
    }

    fn known_type(&self, name: &str) -> Option<MachineType> {
        match &self.settings.catalogue {
            Some(catalogue) => catalogue.machine_types.iter().find(|known| known.name == name).cloned(),
            None => is_generic_name(name).then(|| type_by_name(name)),
        }
    }

    pub(super) fn list_types(&self, call: &Call) -> Outcome {
        let mut listed = Vec::new();
        for machine_type in self.machine_types() {
            let fits = match call.query.get("filter") {
                None => true,
                Some(filter) => type_fits(&machine_type, filter)
                    .ok_or_else(|| Refusal::bad(format!("filter: {filter:?} is not understood")))?,
            };
            if fits {
                listed.push(show_type(&machine_type));
            }
        }
        items(listed)
    }

    pub(super) fn get_type(&self, name: &str) -> Outcome {
        found(show_type(&self.known_type(name).ok_or_else(|| Refusal::missing("machine type", name))?))
    }

    /// The name of an image that a create call names.
    pub(super) fn image_name(&self, id: &str) -> Checked<String> {
        path_id("imageId", id)?;
        match &self.settings.catalogue {
            Some(catalogue) => catalogue.images.get(id).cloned(),
            None if id == IMAGE.0 => Some(IMAGE.1.to_owned()),
            None => Some(format!("image-{}", &id[..8])),
        }
        .ok_or_else(|| Refusal::missing("image", id))
    }

    pub(super) fn list_images(&self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        // All images here are public, which is what the flag would add.
        call.flag("all")?;
        let images: Vec<Value> = match &self.settings.catalogue {
            Some(catalogue) => catalogue.images.iter().map(|(id, name)| show_image(id, name)).collect(),
            None => vec![show_image(IMAGE.0, IMAGE.1)],
        };
        items(if selector.fits(&BTreeMap::new()) { images } else { Vec::new() })
    }

    pub(super) fn get_image(&self, id: &str) -> Outcome {
        found(show_image(id, &self.image_name(id)?))
    }

    pub(super) fn zones(&self) -> Vec<String> {
        let region = &self.place.1;
        match &self.settings.catalogue {
            Some(catalogue) if !catalogue.availability_zones.is_empty() => {
                catalogue.availability_zones.clone()
            }
            _ => ["1", "2", "3", "m"].iter().map(|zone| format!("{region}-{zone}")).collect(),
        }
    }

    /// The zone that a create call means; without one, the metro zone.
    pub(super) fn zone(&self, wanted: Option<&str>) -> Checked<String> {
        let known = self.zones();
        match wanted {
            None => Ok(known.last().cloned().unwrap_or_default()),
            Some(zone) if self.settings.catalogue.is_none() || known.iter().any(|known| known == zone) => {
                Ok(zone.to_owned())
            }
            Some(zone) => Err(Refusal::bad(format!("the availability zone {zone} is not valid"))),
        }
    }

    pub(super) fn list_zones(&self) -> Outcome {
        items(self.zones().into_iter().map(Value::String).collect())
    }

    pub(super) fn list_classes(&self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        let classes = PERFORMANCE_CLASSES.iter().filter(|_| selector.fits(&BTreeMap::new()));
        items(classes.map(|name| show_class(name)).collect())
    }

    pub(super) fn get_class(&self, name: &str) -> Outcome {
        if PERFORMANCE_CLASSES.contains(&name) || self.settings.catalogue.is_none() && is_generic_name(name) {
            found(show_class(name))
        } else {
            Err(Refusal::missing("volume performance class", name))
        }
    }

    /// An affinity group that a create call names. Without a catalogue it exists once it is named.
    pub(super) fn affinity_group(&mut self, id: &str) -> Checked<()> {
        path_id("affinityGroupId", id)?;
        if !self.estate.affinity_groups.contains_key(id) {
            if self.settings.catalogue.is_some() {
                return Err(Refusal::missing("affinity group", id));
            }
            let name = format!("group-{}", &id[..8]);
            let group = AffinityGroup { name, policy: "soft-anti-affinity".to_owned() };
            self.estate.affinity_groups.insert(id.to_owned(), group);
        }
        Ok(())
    }

    fn show_affinity_group(&self, id: &str, group: &AffinityGroup) -> Value {
        let servers = self.estate.servers.iter();
        let members = servers.filter(|(_, server)| server.affinity_group.as_deref() == Some(id));
        let members: Vec<&String> = members.map(|(id, _)| id).collect();
        json!({"id": id, "name": group.name, "policy": group.policy, "members": members})
    }

    pub(super) fn list_affinity_groups(&self) -> Outcome {
        let groups = self.estate.affinity_groups.iter();
        items(groups.map(|(id, group)| self.show_affinity_group(id, group)).collect())
    }

    pub(super) fn get_affinity_group(&self, id: &str) -> Outcome {
        let group = self.estate.affinity_groups.get(path_id("affinityGroupId", id)?);
        let group = group.ok_or_else(|| Refusal::missing("affinity group", id))?;
        found(self.show_affinity_group(id, group))
    }

    pub(super) fn create_affinity_group(&mut self, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let known = |text: &str| {
            matches!(text, "hard-anti-affinity" | "hard-affinity" | "soft-anti-affinity" | "soft-affinity")
        };
        let name = fields.required("name", is_generic_name)?;
        let policy = fields.required("policy", known)?;
        let id = self.new_id();
        let group = AffinityGroup { name, policy };
        let body = self.show_affinity_group(&id, &group);
        self.estate.affinity_groups.insert(id, group);
        answer(StatusCode::CREATED, body)
    }

    pub(super) fn delete_affinity_group(&mut self, id: &str) -> Outcome {
        self.get_affinity_group(id)?;
        self.estate.affinity_groups.remove(id);
        done()
    }

    fn usage(&self, quota: &str) -> i64 {
        let estate = &*self.estate;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let of_types = |measure: fn(&MachineType) -> i64| {
            let types = estate.servers.values().filter_map(|server| self.known_type(&server.machine_type));
            types.map(|machine_type| measure(&machine_type)).sum()
        };
        match quota {
            "vcpu" => of_types(|machine_type| machine_type.vcpus),
            "ram" => of_types(|machine_type| machine_type.ram),
            "volumes" => count(estate.volumes.len()),
            "gigabytes" => estate.volumes.values().map(|volume| volume.size).sum(),
            "publicIps" => count(estate.public_ips.len()),
            "networks" => count(estate.networks.len()),
            "nics" => count(estate.nics.len()),
            "securityGroups" => count(estate.groups.len()),
            "securityGroupRules" => count(estate.groups.values().map(|group| group.rules.len()).sum()),
            // There are no snapshots and backups here.
            _ => 0,
        }
    }

    pub(super) fn list_quotas(&self) -> Outcome {
        let names = [
            "backupGigabytes",
            "backups",
            "gigabytes",
            "networks",
            "nics",
            "publicIps",
            "ram",
            "securityGroupRules",
            "securityGroups",
            "snapshots",
            "vcpu",
            "volumes",
        ];
        let quota = |name: &&str| {
            let limit = self.settings.quotas.get(*name).copied().unwrap_or(NO_LIMIT);
            ((*name).to_owned(), json!({"limit": limit, "usage": self.usage(name)}))
        };
        found(json!({"quotas": Value::Object(names.iter().map(quota).collect())}))
    }

    /// Refuses what goes beyond a quota.
    pub(super) fn within_quota(&self, quota: &str, more: i64, status: StatusCode) -> Checked<()> {
        let Some(limit) = self.settings.quotas.get(quota).copied() else { return Ok(()) };
        let used = self.usage(quota);
        if used.saturating_add(more) <= limit {
            return Ok(());
        }
        let message =
            format!("Quota exceeded for {quota}: {used} of {limit} are used, {more} more are needed");
        Err(Refusal::new(status, message))
    }
}

fn show_class(name: &str) -> Value {
    json!({"name": name, "description": "simulated", "iops": 500, "throughput": 50, "labels": {}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_come_from_the_type_name() {
        let cases = [("c2i.4", 4), ("g1a.8d", 8), ("n1.14d.g1", 14), ("odd", 2), ("", 2)];
        for (name, expected) in cases {
            assert_eq!(cores(name), expected, "{name}");
        }
    }

    #[test]
    fn filters_compare_names_and_numbers() {
        let machine_type = type_by_name("c2i.4");
        for (filter, expected) in [
            (r#"name == "c2i.4""#, Some(true)),
            ("name == 'c2i.2'", Some(false)),
            ("vcpus >= 4 && ram < 20000", Some(true)),
            ("vcpus > 4", Some(false)),
            ("disk != 0", Some(false)),
            ("speed == 1", None),
            ("vcpus", None),
            ("vcpus == many", None),
        ] {
            assert_eq!(type_fits(&machine_type, filter), expected, "{filter}");
        }
    }
}

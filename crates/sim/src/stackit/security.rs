//! Security groups and their rules. They let nothing in or out: nobody sends packets here.

use super::{
    answer::{Outcome, Refusal, accepted, answer, done, found, items},
    check::{Checked, Fields, change_labels, is_description, is_generic_name, is_uuid, path_id, stamp},
    cloud::Desk,
    dispatch::Call,
};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct Group {
    pub(super) name: String,
    description: Option<String>,
    stateful: bool,
    labels: BTreeMap<String, String>,
    pub(super) rules: BTreeMap<String, Value>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// What a rule may say beside its direction.
const RULE_FIELDS: &[&str] = &[
    "id",
    "createdAt",
    "updatedAt",
    "securityGroupId",
    "direction",
    "description",
    "ethertype",
    "icmpParameters",
    "ipRange",
    "portRange",
    "protocol",
    "remoteSecurityGroupId",
];

fn show(id: &str, group: &Group) -> Value {
    let rules: Vec<&Value> = group.rules.values().collect();
    let mut body = json!({
        "id": id, "name": group.name, "stateful": group.stateful, "labels": group.labels, "rules": rules,
        "createdAt": stamp(group.created_at), "updatedAt": stamp(group.updated_at),
    });
    if let Some(description) = &group.description {
        body["description"] = json!(description);
    }
    body
}

impl Desk<'_> {
    fn insert_group(&mut self, id: &str, name: &str) {
        let group = Group {
            name: name.to_owned(),
            description: None,
            stateful: true,
            labels: BTreeMap::new(),
            rules: BTreeMap::new(),
            created_at: self.now,
            updated_at: self.now,
        };
        self.estate.groups.insert(id.to_owned(), group);
    }

    /// The id of a group that a create call names. Without a catalogue it exists once it is named.
    pub(super) fn group_by_name_or_id(&mut self, text: &str) -> Checked<String> {
        if self.estate.groups.contains_key(text) {
            return Ok(text.to_owned());
        }
        if let Some((id, _)) = self.estate.groups.iter().find(|(_, group)| group.name == text) {
            return Ok(id.clone());
        }
        if self.settings.catalogue.is_some() {
            return Err(Refusal::missing("security group", text));
        }
        let id = if is_uuid(text) { text.to_owned() } else { self.new_id() };
        self.insert_group(&id, text);
        Ok(id)
    }

    fn group(&mut self, id: &str) -> Checked<&mut Group> {
        let group = self.estate.groups.get_mut(path_id("securityGroupId", id)?);
        group.ok_or_else(|| Refusal::missing("security group", id))
    }

    pub(super) fn list_groups(&self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        let fitting = self.estate.groups.iter().filter(|(_, group)| selector.fits(&group.labels));
        items(fitting.map(|(id, group)| show(id, group)).collect())
    }

    pub(super) fn get_group(&mut self, id: &str) -> Outcome {
        let group = self.group(id)?;
        found(show(id, group))
    }

    pub(super) fn create_group(&mut self, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let name = fields.required("name", is_generic_name)?;
        let description = fields.text("description", is_description)?;
        let (labels, stateful) = (fields.labels()?, fields.truth("stateful")?);
        self.within_quota("securityGroups", 1, StatusCode::FORBIDDEN)?;
        let id = self.new_id();
        self.insert_group(&id, &name);
        let group = self.group(&id)?;
        group.description = description;
        group.labels = labels;
        group.stateful = stateful.unwrap_or(true);
        let body = show(&id, group);
        answer(StatusCode::CREATED, body)
    }

    pub(super) fn update_group(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let name = fields.text("name", is_generic_name)?;
        let description = fields.text("description", is_description)?;
        let labels = fields.label_changes()?;
        let now = self.now;
        let group = self.group(id)?;
        group.name = name.unwrap_or_else(|| group.name.clone());
        group.description = description.or_else(|| group.description.take());
        change_labels(&mut group.labels, labels);
        group.updated_at = now;
        self.get_group(id)
    }

    pub(super) fn delete_group(&mut self, id: &str) -> Outcome {
        self.group(id)?;
        if self.estate.nics.values().any(|nic| nic.groups.iter().any(|group| group == id)) {
            return Err(Refusal::conflict(format!("the security group {id} is in use")));
        }
        self.estate.groups.remove(id);
        done()
    }

    pub(super) fn list_rules(&mut self, id: &str) -> Outcome {
        items(self.group(id)?.rules.values().cloned().collect())
    }

    pub(super) fn create_rule(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        fields.only(RULE_FIELDS)?;
        fields.required("direction", |text| matches!(text, "ingress" | "egress"))?;
        self.within_quota("securityGroupRules", 1, StatusCode::FORBIDDEN)?;
        let rule_id = self.new_id();
        let mut rule = call.body.clone().unwrap_or_default();
        rule["id"] = json!(rule_id);
        rule["securityGroupId"] = json!(id);
        rule["createdAt"] = stamp(self.now);
        rule["updatedAt"] = stamp(self.now);
        if fields.get("ethertype").is_none() {
            rule["ethertype"] = json!("IPv4");
        }
        self.group(id)?.rules.insert(rule_id, rule.clone());
        answer(StatusCode::CREATED, rule)
    }

    pub(super) fn get_rule(&mut self, id: &str, rule: &str) -> Outcome {
        let known = self.group(id)?.rules.get(path_id("securityGroupRuleId", rule)?);
        found(known.cloned().ok_or_else(|| Refusal::missing("security group rule", rule))?)
    }

    pub(super) fn delete_rule(&mut self, id: &str, rule: &str) -> Outcome {
        let known = self.group(id)?.rules.remove(path_id("securityGroupRuleId", rule)?);
        known.ok_or_else(|| Refusal::missing("security group rule", rule))?;
        done()
    }

    pub(super) fn add_group(&mut self, server: &str, id: &str) -> Outcome {
        self.changeable_server(server)?;
        path_id("securityGroupId", id)?;
        let id = self.group_by_name_or_id(id)?;
        for nic in self.server(server)?.nics.clone() {
            if let Some(nic) = self.estate.nics.get_mut(&nic) {
                nic.add_group(&id);
            }
        }
        accepted()
    }

    pub(super) fn remove_group(&mut self, server: &str, id: &str) -> Outcome {
        self.group(id)?;
        for nic in self.server(server)?.nics.clone() {
            if let Some(nic) = self.estate.nics.get_mut(&nic) {
                nic.groups.retain(|group| group != id);
            }
        }
        done()
    }
}

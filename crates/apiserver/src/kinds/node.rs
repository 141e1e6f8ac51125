//! Nodes: they bring their status along when they register.

use super::{
    json::{at, child, empty, entries, has, items, set, text},
    names::{label_value, qualified_name},
    quantity::Quantity,
    report::{Report, in_order},
    scheduling_validation::taint_effect,
};
use crate::{
    contract::{Context, Kind},
    error::ApiError,
    field::{Fault, FieldError},
};
use serde_json::{Value, json};
use std::{cmp::Ordering, collections::BTreeSet, net::IpAddr};

pub(crate) struct Nodes;

impl Kind for Nodes {
    fn default(&self, node: &mut Value) {
        child(node, "spec");
        mirror_pod_cidr(node);
        let capacity = at(node, &["status", "capacity"]).clone();
        if !empty(&capacity)
            && let Some(status) = child(node, "status")
            && !has(status, &["allocatable"])
        {
            set(status, "allocatable", capacity);
        }
    }

    fn prepare_create(&self, _node: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate(&self, node: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        taints(items(node, &["spec", "taints"]), &mut report);
        for list in ["capacity", "allocatable"] {
            for (name, quantity) in entries(node, &["status", list]) {
                amount(name, quantity, &format!("status.{list}.{name}"), &mut report);
            }
        }
        pod_cidrs(node, &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let before = items(old, &["spec", "podCIDRs"]);
        if !before.is_empty() && before != items(new, &["spec", "podCIDRs"]) {
            let why = "node updates may not change podCIDR except from \"\" to valid";
            report.forbidden("spec.podCIDRs", why);
        }
        let before = text(old, &["spec", "providerID"]);
        if !before.is_empty() && before != text(new, &["spec", "providerID"]) {
            let why = "node updates may not change providerID except from \"\" to valid";
            report.forbidden("spec.providerID", why);
        }
        addresses(new, &mut report);
        report.errors
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> Vec<FieldError> {
        let mut report = Report { errors: self.validate(new) };
        addresses(new, &mut report);
        report.errors
    }

    fn has_generation(&self) -> bool {
        false
    }
}

/// `podCIDR` is the first of `podCIDRs`; whoever sets one sets both.
fn mirror_pod_cidr(node: &mut Value) {
    let first = items(node, &["spec", "podCIDRs"]).first().cloned();
    let single = text(node, &["spec", "podCIDR"]).to_owned();
    let Some(spec) = node.get_mut("spec") else { return };
    match first {
        Some(first) => set(spec, "podCIDR", first),
        None if !single.is_empty() => set(spec, "podCIDRs", json!([single])),
        None => {}
    }
}

fn taints(taints: &[Value], report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        // A real server looks for them in the metadata.
        let field = format!("metadata.taints[{index}]");
        let (key, value) = (text(taint, &["key"]), text(taint, &["value"]));
        report.wrong(format_args!("{field}.key"), key, qualified_name(key));
        let wrong = label_value(value);
        if !wrong.is_empty() {
            report.invalid(format!("{field}.value"), value, wrong.join(";"));
        }
        let effect = text(taint, &["effect"]);
        taint_effect(effect, format_args!("{field}.effect"), report);
        if !seen.insert((effect, key)) {
            let detail = "taints must be unique by key and effect pair";
            let shown = in_order(&[
                ("Key", key.into()),
                ("Value", value.into()),
                ("Effect", effect.into()),
                ("TimeAdded", at(taint, &["timeAdded"]).clone()),
            ]);
            report.push(FieldError::new(Fault::Duplicate, field, Value::Null, detail).shown_as(shown));
        }
    }
}

fn amount(name: &str, quantity: &Value, field: &str, report: &mut Report) {
    let amount = quantity.as_str().unwrap_or_default();
    if let Some(value) = Quantity::parse(amount) {
        if value.sign() == Ordering::Less {
            report.invalid(field, amount, "must be greater than or equal to 0");
        }
        let extended = name.contains('/') && !name.contains("kubernetes.io/");
        if (extended || name == "pods") && !value.is_whole() {
            report.invalid(field, amount, "must be an integer");
        }
    }
}

fn pod_cidrs(node: &Value, report: &mut Report) {
    let ranges: Vec<&str> = items(node, &["spec", "podCIDRs"]).iter().filter_map(Value::as_str).collect();
    let mut families = BTreeSet::new();
    for (index, range) in ranges.iter().enumerate() {
        if let Some(address) = cidr(range) {
            families.insert(address.is_ipv6());
        } else {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            report.invalid(format!("spec.podCIDRs[{index}]"), *range, why);
        }
    }
    if ranges.len() > 1 && (families.len() != 2 || ranges.len() > 2) {
        let why = "may specify no more than one CIDR for each IP family";
        report.invalid("spec.podCIDRs", at(node, &["spec", "podCIDRs"]).clone(), why);
    }
}

fn cidr(range: &str) -> Option<IpAddr> {
    let (address, bits) = range.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    (bits <= if address.is_ipv6() { 128 } else { 32 }).then_some(address)
}

fn addresses(node: &Value, report: &mut Report) {
    let addresses = items(node, &["status", "addresses"]);
    for (index, address) in addresses.iter().enumerate() {
        if addresses.iter().take(index).any(|before| before == address) {
            let shown = in_order(&[
                ("Type", at(address, &["type"]).clone()),
                ("Address", at(address, &["address"]).clone()),
            ]);
            let error = FieldError::duplicate(format!("status.addresses[{index}]"), Value::Null);
            report.push(error.shown_as(shown));
        }
    }
}

//! Kinds about which there is little to say.

use super::{
    json::{at, child, fill, fill_text, flag, items, items_mut, number, remove, text},
    names,
    pod_validation::ip_address,
    report::Report,
};
use crate::{contract::Kind, field::FieldError};
use serde_json::Value;

/// An object with spec and status about which nothing more is known.
pub(crate) struct Plain;

impl Kind for Plain {}

/// An object that is only data: no status, no generation.
pub(crate) struct Data;

impl Kind for Data {
    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) struct Leases;

impl Kind for Leases {
    fn default(&self, lease: &mut Value) {
        // Coordinated leader election is off, and with it these fields.
        if let Some(spec) = child(lease, "spec") {
            remove(spec, "strategy");
            remove(spec, "preferredHolder");
        }
    }

    fn validate(&self, lease: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(lease, &["spec"]);
        if let Some(seconds) = number(spec, &["leaseDurationSeconds"])
            && seconds <= 0
        {
            report.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
        }
        report.not_negative(spec, "leaseTransitions", "spec");
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) struct PriorityClasses;

/// The classes that come with every cluster.
pub(crate) const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
const HIGHEST_PRIORITY: i64 = 1_000_000_000;

impl Kind for PriorityClasses {
    fn default(&self, class: &mut Value) {
        fill(class, "preemptionPolicy", "PreemptLowerPriority");
        fill(class, "value", 0);
    }

    fn validate(&self, class: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let name = text(class, &["metadata", "name"]);
        let value = number(class, &["value"]).unwrap_or_default();
        if name.starts_with("system-") {
            if let Some(why) = not_a_system_class(name, value, flag(class, &["globalDefault"])) {
                let why = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                );
                report.forbidden("metadata.name", why);
            }
        } else if value > HIGHEST_PRIORITY {
            let why = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
            report.forbidden("value", why);
        }
        if let Some(policy) = at(class, &["preemptionPolicy"]).as_str() {
            report.one_of("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        if number(new, &["value"]) != number(old, &["value"]) {
            report.forbidden("value", "may not be changed in an update.");
        }
        report.immutable(new, old, &["preemptionPolicy"], "preemptionPolicy");
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    /// It has a generation that never moves.
    fn moves_generation(&self, _new: &Value, _old: &Value) -> bool {
        false
    }
}

fn not_a_system_class(name: &str, value: i64, global: bool) -> Option<String> {
    match SYSTEM_PRIORITIES.iter().find(|(system, _)| *system == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
        Some(_) if global => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}

pub(crate) struct Endpoints;

impl Kind for Endpoints {
    fn default(&self, endpoints: &mut Value) {
        for subset in items_mut(endpoints, "subsets") {
            for port in items_mut(subset, "ports") {
                fill_text(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, endpoints: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for (index, subset) in items(endpoints, &["subsets"]).iter().enumerate() {
            let field = format!("subsets[{index}]");
            let (ready, not_ready) = (items(subset, &["addresses"]), items(subset, &["notReadyAddresses"]));
            if ready.is_empty() && not_ready.is_empty() {
                report.required(&field, "must specify `addresses` or `notReadyAddresses`");
            }
            for (list, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
                for (place, address) in addresses.iter().enumerate() {
                    ip_address(
                        text(address, &["ip"]),
                        format_args!("{field}.{list}[{place}].ip"),
                        &mut report,
                    );
                }
            }
            let ports = items(subset, &["ports"]);
            for (place, port) in ports.iter().enumerate() {
                let field = format!("{field}.ports[{place}]");
                let name = text(port, &["name"]);
                if name.is_empty() && ports.len() > 1 {
                    report.required(format!("{field}.name"), "");
                } else if !name.is_empty() {
                    report.wrong(format_args!("{field}.name"), name, names::label(name));
                }
                let number = number(port, &["port"]).unwrap_or_default();
                for why in names::port_number(number) {
                    report.invalid(format!("{field}.port"), number, why);
                }
            }
        }
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) struct EndpointSlices;

impl Kind for EndpointSlices {
    fn default(&self, slice: &mut Value) {
        fill(slice, "endpoints", Value::Null);
        fill(slice, "ports", Value::Null);
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    }

    fn validate(&self, slice: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let kind = text(slice, &["addressType"]);
        report.one_of("addressType", kind, &["FQDN", "IPv4", "IPv6"]);
        for (index, endpoint) in items(slice, &["endpoints"]).iter().enumerate() {
            if items(endpoint, &["addresses"]).is_empty() {
                let why = "must contain at least 1 address";
                report.required(format!("endpoints[{index}].addresses"), why);
            }
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        report.immutable(new, old, &["addressType"], "addressType");
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }
}

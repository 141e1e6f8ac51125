//! What volumes are attached by: attachments, and what nodes and drivers say of themselves.

use super::{
    json::{at, child, empty, fill, has, items, number, set, text},
    names,
    report::{Report, in_order, same},
};
use crate::{
    contract::{Context, Kind},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) struct VolumeAttachments;

impl Kind for VolumeAttachments {
    fn default(&self, attachment: &mut Value) {
        if let Some(spec) = child(attachment, "spec") {
            child(spec, "source");
        }
    }

    fn prepare_create(&self, attachment: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(attachment, "status", json!({ "attached": false }));
        Ok(())
    }

    fn validate(&self, attachment: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(attachment, &["spec"]);
        csi_driver_name(text(spec, &["attacher"]), "spec.attacher", &mut report);
        let source = at(spec, &["source"]);
        let one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        match (has(source, &["inlineVolumeSpec"]), at(source, &["persistentVolumeName"]).as_str()) {
            (false, None) => report.required("spec.source", one),
            (true, Some(_)) => report.forbidden("spec.source", one),
            (false, Some("")) => {
                let why = "must specify non empty persistentVolumeName";
                report.required("spec.source.persistentVolumeName", why);
            }
            _ => {}
        }
        let node = text(spec, &["nodeName"]);
        report.wrong("spec.nodeName", node, names::subdomain(node));
        if let Some(volume) = at(source, &["persistentVolumeName"]).as_str() {
            report.wrong("spec.source.persistentVolumeName", volume, names::subdomain(volume));
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        if !same(at(new, &["spec"]), at(old, &["spec"])) {
            let spec = at(new, &["spec"]);
            let source = at(spec, &["source"]);
            // In the words of a real server's inner form.
            let inner = in_order(&[
                ("PersistentVolumeName", at(source, &["persistentVolumeName"]).clone()),
                ("InlineVolumeSpec", at(source, &["inlineVolumeSpec"]).clone()),
            ]);
            let shown = format!(
                "{{\"Attacher\":{},\"Source\":{inner},\"NodeName\":{}}}",
                at(spec, &["attacher"]),
                at(spec, &["nodeName"])
            );
            report.push(FieldError::invalid("spec", Value::Null, "field is immutable").shown_as(shown));
        }
        report.errors
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) struct CsiNodes;

impl Kind for CsiNodes {
    fn default(&self, node: &mut Value) {
        if let Some(spec) = child(node, "spec") {
            if empty(at(spec, &["drivers"])) {
                set(spec, "drivers", Value::Null);
            }
            for driver in super::json::items_mut(spec, "drivers") {
                fill(driver, "topologyKeys", Value::Null);
            }
        }
    }

    fn validate(&self, node: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let mut seen = BTreeSet::new();
        for (index, driver) in items(node, &["spec", "drivers"]).iter().enumerate() {
            let field = format!("spec.drivers[{index}]");
            let name = text(driver, &["name"]);
            csi_driver_name(name, &format!("{field}.name"), &mut report);
            if text(driver, &["nodeID"]).is_empty() {
                report.required(format!("{field}.nodeID"), "");
            }
            if let Some(count) = number(driver, &["allocatable", "count"])
                && count < 0
            {
                let why = "must be greater than or equal to 0";
                report.invalid(format!("{field}.allocatable.count"), count, why);
            }
            if !seen.insert(name) {
                report.duplicate(format!("{field}.name"), name);
            }
            for (place, key) in items(driver, &["topologyKeys"]).iter().filter_map(Value::as_str).enumerate()
            {
                report.wrong(format_args!("{field}.topologyKeys[{place}]"), key, names::qualified_name(key));
            }
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let fixed = |driver: &Value| {
            let mut driver = driver.clone();
            super::json::remove(&mut driver, "allocatable");
            driver
        };
        for before in items(old, &["spec", "drivers"]) {
            for now in items(new, &["spec", "drivers"]) {
                if text(now, &["name"]) == text(before, &["name"]) && !same(&fixed(now), &fixed(before)) {
                    let shown = [
                        ("Name", at(now, &["name"]).clone()),
                        ("NodeID", at(now, &["nodeID"]).clone()),
                        ("TopologyKeys", at(now, &["topologyKeys"]).clone()),
                        ("Allocatable", Value::Null),
                    ];
                    report.invalid_in_order("spec.drivers", &shown, "field is immutable");
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

pub(crate) struct CsiDrivers;

impl Kind for CsiDrivers {
    fn default(&self, driver: &mut Value) {
        let Some(spec) = child(driver, "spec") else { return };
        fill(spec, "attachRequired", true);
        for flag in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            fill(spec, flag, false);
        }
        fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        if empty(at(spec, &["volumeLifecycleModes"])) {
            set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn validate(&self, driver: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        csi_driver_name(text(driver, &["metadata", "name"]), "metadata.name", &mut report);
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        let policy = text(driver, &["spec", "fsGroupPolicy"]);
        if !policies.contains(&policy) {
            report.unsupported("spec.fsGroupPolicy", policy, &policies);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for (path, field) in [
            (["spec", "attachRequired"], "spec.attachedRequired"),
            (["spec", "fsGroupPolicy"], "spec.fsGroupPolicy"),
            (["spec", "volumeLifecycleModes"], "spec.volumeLifecycleModes"),
        ] {
            report.immutable(new, old, &path, field);
        }
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    /// A new driver has none; the first change would make it 1.
    fn has_generation(&self) -> bool {
        false
    }
}

/// The name by which a storage driver registers.
pub(crate) fn csi_driver_name(name: &str, field: &str, report: &mut Report) {
    if name.is_empty() {
        report.required(field, "");
        return;
    }
    if name.len() > 63 {
        report.too_long(field, 63);
    }
    report.wrong(field, name, names::subdomain(&name.to_lowercase()));
}

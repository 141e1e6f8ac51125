//! Volumes, claims, and the classes that claims name.

use super::{
    csi::csi_driver_name,
    json::{at, child, entries, fill, fill_text, has, items, set, text},
    names,
    quantity::Quantity,
    report::{Report, same},
    scheduling_validation::node_selector,
    volume_validation::{host_path, nfs},
};
use crate::{
    contract::{Context, Kind, keep},
    error::ApiError,
    field::FieldError,
    object,
};
use serde_json::{Value, json};
use std::cmp::Ordering;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(crate) struct PersistentVolumes;

/// What a volume's spec holds besides the description of where it is.
const VOLUME_SPEC: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// In the order in which a real server looks at them: all after the first are refused.
const VOLUME_SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

impl Kind for PersistentVolumes {
    fn default(&self, volume: &mut Value) {
        if let Some(spec) = child(volume, "spec") {
            fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
            fill(spec, "volumeMode", "Filesystem");
            if let Some(path) = spec.get_mut("hostPath") {
                fill(path, "type", "");
            }
        }
        if let Some(status) = child(volume, "status") {
            fill_text(status, "phase", "Pending");
        }
    }

    fn prepare_create(&self, volume: &mut Value, context: &Context<'_>) -> Result<(), ApiError> {
        let now = object::seconds(context.clock.now());
        set(volume, "status", json!({ "phase": "Pending", "lastPhaseTransitionTime": now }));
        Ok(())
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep(new, old, "spec");
        let time = ["status", "lastPhaseTransitionTime"];
        let moved = text(new, &["status", "phase"]) != text(old, &["status", "phase"]);
        let given = at(new, &time);
        let time = if !moved && given.is_null() {
            at(old, &time).clone()
        } else if moved && (given.is_null() || given == at(old, &time)) {
            object::seconds(context.clock.now()).into()
        } else {
            return;
        };
        if let Some(status) = child(new, "status")
            && !time.is_null()
        {
            set(status, "lastPhaseTransitionTime", time);
        }
    }

    fn validate(&self, volume: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        volume_spec(at(volume, &["spec"]), &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let source = |volume: &Value| {
            let mut spec = at(volume, &["spec"]).clone();
            for field in VOLUME_SPEC {
                super::json::remove(&mut spec, field);
            }
            spec
        };
        let (now, mut before) = (source(new), source(old));
        // A driver that learns to expand may be given its secret later.
        if let Some(csi) = before.get_mut("csi")
            && !has(csi, &["controllerExpandSecretRef"])
        {
            keep(csi, at(&now, &["csi"]), "controllerExpandSecretRef");
        }
        if !same(&now, &before) {
            let why = format!("spec.persistentvolumesource is immutable after creation\n- {before}\n+ {now}");
            report.forbidden("spec.persistentvolumesource", why);
        }
        report.immutable(new, old, &["spec", "volumeMode"], "volumeMode");
        if has(old, &["spec", "nodeAffinity"]) {
            report.immutable(new, old, &["spec", "nodeAffinity"], "nodeAffinity");
        }
        report.errors
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn volume_spec(spec: &Value, report: &mut Report) {
    if items(spec, &["accessModes"]).is_empty() {
        report.required("spec.accessModes", "");
    }
    access_modes(spec, "spec", report);
    let capacity = entries(spec, &["capacity"]);
    if capacity.is_empty() {
        report.required("spec.capacity", "");
    }
    if !has(spec, &["capacity", "storage"]) || capacity.len() > 1 {
        report.unsupported("spec.capacity", at(spec, &["capacity"]).clone(), &["storage"]);
    }
    for (name, quantity) in capacity {
        positive(quantity.as_str().unwrap_or_default(), &format!("spec.capacity[{name}]"), report);
    }
    let policy = text(spec, &["persistentVolumeReclaimPolicy"]);
    let policies = ["Delete", "Recycle", "Retain"];
    if !policy.is_empty() && !policies.contains(&policy) {
        report.unsupported("spec.persistentVolumeReclaimPolicy", policy, &policies);
    }
    let affinity = at(spec, &["nodeAffinity"]);
    if !affinity.is_null() {
        if has(affinity, &["required"]) {
            node_selector(at(affinity, &["required"]), format_args!("spec.nodeAffinity.required"), report);
        } else {
            report.required("spec.nodeAffinity.required", "must specify required node constraints");
        }
    }
    volume_source(spec, report);
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        report.wrong("spec.storageClassName", class, names::subdomain(class));
    }
    volume_mode(spec, "spec", report);
}

fn volume_source(spec: &Value, report: &mut Report) {
    let mut sources =
        VOLUME_SOURCES.iter().map(|kind| (*kind, at(spec, &[kind]))).filter(|(_, source)| !source.is_null());
    let Some((kind, source)) = sources.next() else {
        report.required("spec", "must specify a volume type");
        return;
    };
    let field = format!("spec.{kind}");
    match kind {
        "csi" => {
            csi_driver_name(text(source, &["driver"]), &format!("{field}.driver"), report);
            if text(source, &["volumeHandle"]).is_empty() {
                report.required(format!("{field}.volumeHandle"), "");
            }
            let secrets = [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ];
            for reference in secrets {
                if has(source, &[reference]) {
                    for key in ["name", "namespace"] {
                        if text(source, &[reference, key]).is_empty() {
                            report.required(format!("{field}.{reference}.{key}"), "");
                        }
                    }
                }
            }
        }
        "hostPath" => host_path(source, format_args!("{field}"), report),
        "nfs" => nfs(source, format_args!("{field}"), report),
        "local" => {
            if text(source, &["path"]).is_empty() {
                report.required(format!("{field}.path"), "");
            }
            if !has(spec, &["nodeAffinity"]) {
                report.required("spec.nodeAffinity", "Local volume requires node affinity");
            }
        }
        _ => {}
    }
    for (other, _) in sources {
        report.forbidden(format!("spec.{other}"), "may not specify more than 1 volume type");
    }
}

fn access_modes(spec: &Value, field: &str, report: &mut Report) {
    let modes: Vec<&str> = items(spec, &["accessModes"]).iter().filter_map(Value::as_str).collect();
    let field = format!("{field}.accessModes");
    for mode in &modes {
        if !ACCESS_MODES.contains(mode) {
            report.unsupported(&field, *mode, &ACCESS_MODES);
        }
    }
    let shared = modes.iter().any(|mode| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode));
    if shared && modes.contains(&"ReadWriteOncePod") {
        report.forbidden(field, "may not use ReadWriteOncePod with other access modes");
    }
}

fn volume_mode(spec: &Value, field: &str, report: &mut Report) {
    if let Some(mode) = at(spec, &["volumeMode"]).as_str()
        && !matches!(mode, "Block" | "Filesystem")
    {
        report.unsupported(format!("{field}.volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

fn positive(amount: &str, field: &str, report: &mut Report) {
    if Quantity::parse(amount).is_some_and(|value| value.sign() != Ordering::Greater) {
        report.invalid(field, amount, "must be greater than zero");
    }
}

pub(crate) struct PersistentVolumeClaims;

impl Kind for PersistentVolumeClaims {
    fn default(&self, claim: &mut Value) {
        default_claim(claim);
    }

    fn prepare_create(&self, claim: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(claim, "status", json!({ "phase": "Pending" }));
        mirror_data_source(claim);
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "status");
        mirror_data_source(new);
        Ok(())
    }

    fn validate(&self, claim: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        validate_claim_spec(at(claim, &["spec"]), "spec", &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        claim_update(new, old)
    }

    fn has_generation(&self) -> bool {
        false
    }
}

pub(crate) fn default_claim(claim: &mut Value) {
    if let Some(spec) = child(claim, "spec") {
        fill(spec, "volumeMode", "Filesystem");
        child(spec, "resources");
    }
    if let Some(status) = child(claim, "status") {
        fill_text(status, "phase", "Pending");
    }
}

/// A source named in one of the two fields is shown in both, unless it is in another namespace.
fn mirror_data_source(claim: &mut Value) {
    let Some(spec) = claim.get_mut("spec") else { return };
    let (source, reference) = (at(spec, &["dataSource"]).clone(), at(spec, &["dataSourceRef"]).clone());
    if source.is_null() && !reference.is_null() && text(&reference, &["namespace"]).is_empty() {
        set(spec, "dataSource", reference);
    } else if reference.is_null() && !source.is_null() {
        set(spec, "dataSourceRef", source);
    }
}

pub(crate) fn validate_claim_spec(spec: &Value, field: &str, report: &mut Report) {
    if items(spec, &["accessModes"]).is_empty() {
        report.required(format!("{field}.accessModes"), "at least 1 access mode is required");
    }
    report.selector(at(spec, &["selector"]), format_args!("{field}.selector"));
    access_modes(spec, field, report);
    match at(spec, &["resources", "requests", "storage"]).as_str() {
        None => report.required(format!("{field}.resources[storage]"), ""),
        Some(amount) => positive(amount, &format!("{field}.resources[storage]"), report),
    }
    let class = text(spec, &["storageClassName"]);
    if !class.is_empty() {
        report.wrong(format_args!("{field}.storageClassName"), class, names::subdomain(class));
    }
    volume_mode(spec, field, report);
    for key in ["dataSource", "dataSourceRef"] {
        if has(spec, &[key]) {
            for part in ["name", "kind"] {
                if text(spec, &[key, part]).is_empty() {
                    report.required(format!("{field}.{key}.{part}"), "");
                }
            }
        }
    }
}

fn claim_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut report = Report::default();
    let (mut now, mut before) = (at(new, &["spec"]).clone(), at(old, &["spec"]).clone());
    if text(&before, &["volumeName"]).is_empty() {
        keep(&mut before, &now, "volumeName");
    }
    if !has(&before, &["storageClassName"]) {
        keep(&mut now, &before, "storageClassName");
    }
    let size = ["resources", "requests", "storage"];
    let (asked, had) = (at(&now, &size).clone(), at(&before, &size).clone());
    if text(new, &["status", "phase"]) == "Bound" {
        keep(&mut now, &before, "volumeAttributesClassName");
        if let Some(requests) = now.get_mut("resources").and_then(|resources| resources.get_mut("requests")) {
            set(requests, "storage", had.clone());
        }
    }
    if !same(&now, &before) {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        report.forbidden("spec", format!("{why}\n- {before}\n+ {now}"));
    }
    let quantity = |value: &Value| Quantity::parse(value.as_str().unwrap_or_default()).unwrap_or_default();
    if quantity(&asked) < quantity(&had)
        && quantity(&asked) <= quantity(at(old, &["status", "capacity", "storage"]))
    {
        report.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    report.immutable(new, old, &["spec", "volumeMode"], "volumeMode");
    report.errors
}

pub(crate) struct StorageClasses;

impl Kind for StorageClasses {
    fn default(&self, class: &mut Value) {
        fill(class, "reclaimPolicy", "Delete");
        fill(class, "volumeBindingMode", "Immediate");
    }

    fn validate(&self, class: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let provisioner = text(class, &["provisioner"]);
        if provisioner.is_empty() {
            report.required("provisioner", "");
        } else {
            let lower = provisioner.to_lowercase();
            report.wrong("provisioner", &lower, names::qualified_name(&lower));
        }
        let policy = text(class, &["reclaimPolicy"]);
        if !matches!(policy, "" | "Delete" | "Retain") {
            report.unsupported("reclaimPolicy", policy, &["Delete", "Retain"]);
        }
        let mode = text(class, &["volumeBindingMode"]);
        let modes = ["Immediate", "WaitForFirstConsumer"];
        if !modes.contains(&mode) {
            report.unsupported("volumeBindingMode", mode, &modes);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            report.immutable(new, old, &[field], field);
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

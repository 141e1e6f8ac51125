//! A pod's volumes.

use super::{
    json::{at, has, items, number, text},
    names,
    quantity::Quantity,
    report::{Place, Report},
};
use serde_json::Value;
use std::{cmp::Ordering, collections::BTreeMap};

/// In the order in which a real server looks at them: all after the first are refused.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Checks the volumes; gives those that are sound by name, whether each can be used as a block device.
pub(crate) fn volumes<'a>(
    volumes: &'a [Value],
    field: Place<'_>,
    report: &mut Report,
) -> BTreeMap<&'a str, bool> {
    let mut sound = BTreeMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = format_args!("{field}[{index}]");
        let before = report.errors.len();
        source(volume, field, report);
        let name = text(volume, &["name"]);
        let name_field = format_args!("{field}.name");
        if name.is_empty() {
            report.required(name_field, "");
        } else {
            report.wrong(name_field, name, names::label(name));
        }
        if sound.contains_key(name) {
            report.duplicate(name_field, name);
        }
        if report.errors.len() == before {
            sound.insert(name, has(volume, &["persistentVolumeClaim"]) || has(volume, &["ephemeral"]));
        }
    }
    sound
}

fn source(volume: &Value, field: Place<'_>, report: &mut Report) {
    let mut found = SOURCES.iter().filter(|source| has(volume, &[source]));
    let Some(first) = found.next() else {
        report.required(field, "must specify a volume type");
        return;
    };
    let value = at(volume, &[first]);
    let place = format_args!("{field}.{first}");
    match *first {
        "emptyDir" => {
            let limit = Quantity::parse(text(value, &["sizeLimit"]));
            if limit.is_some_and(|limit| limit.sign() == Ordering::Less) {
                report.forbidden(
                    format_args!("{place}.sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                );
            }
        }
        "hostPath" => host_path(value, place, report),
        "secret" => {
            needs(value, "secretName", place, report);
            files(value, place, report);
        }
        "configMap" => {
            needs(value, "name", place, report);
            files(value, place, report);
        }
        "persistentVolumeClaim" => needs(value, "claimName", place, report),
        "nfs" => nfs(value, place, report),
        "csi" => {
            super::csi::csi_driver_name(text(value, &["driver"]), &format!("{place}.driver"), report);
        }
        "downwardAPI" => {
            mode(value, "defaultMode", place, report);
            for item in items(value, &["items"]) {
                downward_file(item, place, report);
            }
        }
        "projected" => projected(value, place, report),
        "ephemeral" if !has(value, &["volumeClaimTemplate"]) => {
            report.required(format_args!("{place}.volumeClaimTemplate"), "");
        }
        "ephemeral" => {
            let spec = at(value, &["volumeClaimTemplate", "spec"]);
            super::storage::validate_claim_spec(spec, &format!("{place}.volumeClaimTemplate.spec"), report);
        }
        _ => {}
    }
    for other in found {
        report.forbidden(format_args!("{field}.{other}"), "may not specify more than 1 volume type");
    }
}

fn needs(value: &Value, key: &str, field: Place<'_>, report: &mut Report) {
    if text(value, &[key]).is_empty() {
        report.required(format_args!("{field}.{key}"), "");
    }
}

pub(crate) fn nfs(value: &Value, field: Place<'_>, report: &mut Report) {
    needs(value, "server", field, report);
    needs(value, "path", field, report);
    let path = text(value, &["path"]);
    if !path.starts_with('/') {
        report.invalid(format_args!("{field}.path"), path, "must be an absolute path");
    }
}

pub(crate) fn host_path(value: &Value, field: Place<'_>, report: &mut Report) {
    let path = text(value, &["path"]);
    if path.is_empty() {
        report.required(format_args!("{field}.path"), "");
        return;
    }
    no_backsteps(path, format_args!("{field}.path"), report);
    let kind = text(value, &["type"]);
    if !HOST_PATH_TYPES.contains(&kind) {
        report.unsupported(format_args!("{field}.type"), kind, &HOST_PATH_TYPES);
    }
}

fn mode(value: &Value, key: &str, field: Place<'_>, report: &mut Report) {
    if let Some(mode) = number(value, &[key])
        && !(0..=0o777).contains(&mode)
    {
        report.invalid(format_args!("{field}.{key}"), mode, MODE);
    }
}

/// `defaultMode` and the keys of a secret or config map that become files.
fn files(value: &Value, field: Place<'_>, report: &mut Report) {
    mode(value, "defaultMode", field, report);
    key_paths(value, field, report);
}

fn key_paths(value: &Value, field: Place<'_>, report: &mut Report) {
    for (index, item) in items(value, &["items"]).iter().enumerate() {
        let field = format_args!("{field}.items[{index}]");
        needs(item, "key", field, report);
        needs(item, "path", field, report);
        local_path(text(item, &["path"]), format_args!("{field}.path"), report);
        mode(item, "mode", field, report);
    }
}

fn downward_file(item: &Value, field: Place<'_>, report: &mut Report) {
    needs(item, "path", field, report);
    local_path(text(item, &["path"]), format_args!("{field}.path"), report);
    if !has(item, &["fieldRef"]) && !has(item, &["resourceFieldRef"]) {
        report.required(field, "one of fieldRef and resourceFieldRef is required");
    }
    mode(item, "mode", field, report);
}

fn projected(value: &Value, field: Place<'_>, report: &mut Report) {
    mode(value, "defaultMode", field, report);
    for (index, source) in items(value, &["sources"]).iter().enumerate() {
        let field = format_args!("{field}.sources[{index}]");
        for kind in ["secret", "configMap"] {
            if has(source, &[kind]) {
                let field = format_args!("{field}.{kind}");
                needs(at(source, &[kind]), "name", field, report);
                key_paths(at(source, &[kind]), field, report);
            }
        }
        for item in items(source, &["downwardAPI", "items"]) {
            downward_file(item, format_args!("{field}.downwardAPI"), report);
        }
        if has(source, &["serviceAccountToken"]) {
            let token = at(source, &["serviceAccountToken"]);
            let field = format_args!("{field}.serviceAccountToken");
            let seconds = number(token, &["expirationSeconds"]).unwrap_or_default();
            if seconds < 600 {
                let why = "may not specify a duration less than 10 minutes";
                report.invalid(format_args!("{field}.expirationSeconds"), seconds, why);
            }
            needs(token, "path", field, report);
        }
    }
}

pub(crate) fn descending_path(path: &str, field: Place<'_>, report: &mut Report) {
    if path.starts_with('/') {
        report.invalid(field, path, "must be a relative path");
    }
    no_backsteps(path, field, report);
}

fn local_path(path: &str, field: Place<'_>, report: &mut Report) {
    descending_path(path, field, report);
    if path.starts_with("..") && !path.starts_with("../") {
        report.invalid(field, path, "must not start with '..'");
    }
}

pub(crate) fn no_backsteps(path: &str, field: Place<'_>, report: &mut Report) {
    if path.split('/').any(|part| part == "..") {
        report.invalid(field, path, "must not contain '..'");
    }
}

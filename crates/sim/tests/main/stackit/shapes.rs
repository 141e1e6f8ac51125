//! The shapes of the API's answers, written from its documentation, and a checker for them.

use serde_json::Value;

/// A field's type.
#[derive(Clone, Copy)]
pub enum Kind {
    Uuid,
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    Whole,
    Truth,
    Time,
    Mac,
    Address,
    /// Any object.
    Map,
    /// An object with texts in it.
    Labels,
    List(&'static Kind),
    Object(&'static Shape),
    /// Or `null`.
    Nullable(&'static Kind),
}

use Kind::{Address, Labels, List, Mac, Map, Nullable, Object, Text, Time, Truth, Uuid, Whole, Word};

/// An object's fields: name, type, and whether there is no object without it. There are no other fields.
pub struct Shape(pub &'static [(&'static str, Kind, bool)]);

const SERVER_STATUS: Kind = Word(&[
    "ACTIVE",
    "BACKING-UP",
    "CREATING",
    "DEALLOCATED",
    "DEALLOCATING",
    "DELETED",
    "DELETING",
    "ERROR",
    "INACTIVE",
    "MIGRATING",
    "PAUSED",
    "REBOOT",
    "REBOOTING",
    "REBUILD",
    "REBUILDING",
    "RESCUE",
    "RESCUING",
    "RESIZING",
    "RESTORING",
    "SNAPSHOTTING",
    "STARTING",
    "STOPPING",
    "UNRESCUING",
    "UPDATING",
]);
const STATE: Kind = Word(&["CREATING", "CREATED", "DELETING", "DELETED", "FAILED", "UPDATED", "UPDATING"]);

pub const ERROR: Shape = Shape(&[("code", Whole, true), ("msg", Text, true)]);

pub const BOOT_VOLUME: Shape = Shape(&[("id", Uuid, false), ("deleteOnTermination", Truth, false)]);
pub const AGENT: Shape = Shape(&[("provisioned", Truth, false)]);

pub const SERVER: Shape = Shape(&[
    ("id", Uuid, true),
    ("name", Text, true),
    ("machineType", Text, true),
    ("status", SERVER_STATUS, true),
    ("powerStatus", Word(&["CRASHED", "ERROR", "RUNNING", "STOPPED"]), false),
    ("availabilityZone", Text, false),
    ("labels", Labels, false),
    ("metadata", Map, false),
    ("configDrive", Truth, false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
    ("launchedAt", Time, false),
    ("volumes", List(&Uuid), false),
    ("bootVolume", Object(&BOOT_VOLUME), false),
    ("agent", Object(&AGENT), false),
    ("imageId", Uuid, false),
    ("keypairName", Text, false),
    ("affinityGroup", Uuid, false),
    ("errorMessage", Text, false),
]);

pub const SERVER_NETWORK: Shape = Shape(&[
    ("nicId", Uuid, true),
    ("networkId", Uuid, true),
    ("networkName", Text, true),
    ("mac", Mac, true),
    ("nicSecurity", Truth, true),
    ("ipv4", Address, false),
    ("ipv6", Address, false),
    ("publicIp", Address, false),
    ("allowedAddresses", List(&Text), false),
    ("securityGroups", List(&Uuid), false),
]);

/// What only details show.
pub const DETAILS: Shape = Shape(&[
    ("nics", List(&Object(&SERVER_NETWORK)), true),
    ("serviceAccountMails", List(&Text), false),
    ("userData", Text, false),
]);

pub const NIC: Shape = Shape(&[
    ("id", Uuid, true),
    ("networkId", Uuid, true),
    ("device", Uuid, false),
    ("mac", Mac, false),
    ("status", Word(&["ACTIVE", "DOWN"]), false),
    ("type", Word(&["server", "metadata", "gateway", "none"]), false),
    ("name", Text, false),
    ("description", Text, false),
    ("ipv4", Address, false),
    ("ipv6", Address, false),
    ("labels", Labels, false),
    ("allowedAddresses", List(&Text), false),
    ("nicSecurity", Truth, false),
    ("securityGroups", List(&Uuid), false),
]);

pub const IPV4: Shape = Shape(&[("prefixes", List(&Text), true), ("nameservers", List(&Address), false)]);

pub const NETWORK_V2: Shape = Shape(&[
    ("id", Uuid, true),
    ("name", Text, true),
    ("status", STATE, true),
    ("ipv4", Object(&IPV4), false),
    ("labels", Labels, false),
    ("dhcp", Truth, false),
    ("routed", Truth, false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

pub const NETWORK_V1: Shape = Shape(&[
    ("networkId", Uuid, true),
    ("name", Text, true),
    ("state", STATE, true),
    ("prefixes", List(&Text), false),
    ("nameservers", List(&Address), false),
    ("labels", Labels, false),
    ("dhcp", Truth, false),
    ("routed", Truth, false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

pub const PUBLIC_IP: Shape = Shape(&[
    ("id", Uuid, true),
    ("ip", Address, true),
    ("labels", Labels, false),
    ("networkInterface", Nullable(&Uuid), false),
]);

pub const RULE: Shape = Shape(&[
    ("id", Uuid, true),
    ("securityGroupId", Uuid, true),
    ("direction", Word(&["ingress", "egress"]), true),
    ("ethertype", Word(&["IPv4", "IPv6"]), false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

pub const SECURITY_GROUP: Shape = Shape(&[
    ("id", Uuid, true),
    ("name", Text, true),
    ("description", Text, false),
    ("stateful", Truth, false),
    ("labels", Labels, false),
    ("rules", List(&Object(&RULE)), false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

pub const SOURCE: Shape =
    Shape(&[("type", Word(&["image", "volume", "snapshot", "backup"]), true), ("id", Uuid, true)]);

pub const VOLUME: Shape = Shape(&[
    ("id", Uuid, true),
    ("availabilityZone", Text, true),
    ("status", Word(&["ATTACHED", "AVAILABLE", "CREATING", "DELETING", "RESIZING"]), true),
    ("serverId", Uuid, false),
    ("name", Text, false),
    ("description", Text, false),
    ("size", Whole, false),
    ("performanceClass", Text, false),
    ("labels", Labels, false),
    ("bootable", Truth, false),
    ("encrypted", Truth, false),
    ("source", Object(&SOURCE), false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

pub const ATTACHMENT: Shape =
    Shape(&[("serverId", Uuid, true), ("volumeId", Uuid, true), ("deleteOnTermination", Truth, true)]);

pub const MACHINE_TYPE: Shape = Shape(&[
    ("name", Text, true),
    ("vcpus", Whole, true),
    ("ram", Whole, true),
    ("disk", Whole, true),
    ("description", Text, false),
    ("extraSpecs", Map, false),
]);

pub const IMAGE: Shape = Shape(&[
    ("id", Uuid, true),
    ("name", Text, true),
    ("diskFormat", Word(&["raw", "qcow2", "iso"]), true),
    ("minDiskSize", Whole, false),
    ("minRam", Whole, false),
    ("scope", Word(&["public", "local", "projects", "organization"]), false),
    ("status", Word(&["AVAILABLE", "CREATING", "DEACTIVATED", "DELETED", "DELETING", "ERROR"]), false),
    ("size", Whole, false),
    ("protected", Truth, false),
    ("agent", Map, false),
    ("config", Map, false),
    ("labels", Labels, false),
]);

pub const KEYPAIR: Shape = Shape(&[
    ("name", Text, true),
    ("publicKey", Text, true),
    ("fingerprint", Text, true),
    ("labels", Labels, false),
    ("createdAt", Time, false),
    ("updatedAt", Time, false),
]);

const POLICY: Kind = Word(&["hard-anti-affinity", "hard-affinity", "soft-anti-affinity", "soft-affinity"]);
pub const AFFINITY_GROUP: Shape = Shape(&[
    ("id", Uuid, true),
    ("name", Text, true),
    ("policy", POLICY, true),
    ("members", List(&Uuid), true),
]);

pub const PERFORMANCE_CLASS: Shape = Shape(&[
    ("name", Text, true),
    ("description", Text, false),
    ("iops", Whole, false),
    ("throughput", Whole, false),
    ("labels", Labels, false),
]);

const QUOTA: Kind = Object(&Shape(&[("limit", Whole, true), ("usage", Whole, true)]));
pub const QUOTAS: Shape = Shape(&[(
    "quotas",
    Object(&Shape(&[
        ("backupGigabytes", QUOTA, true),
        ("backups", QUOTA, true),
        ("gigabytes", QUOTA, true),
        ("networks", QUOTA, true),
        ("nics", QUOTA, true),
        ("publicIps", QUOTA, true),
        ("ram", QUOTA, true),
        ("securityGroupRules", QUOTA, true),
        ("securityGroups", QUOTA, true),
        ("snapshots", QUOTA, true),
        ("vcpu", QUOTA, true),
        ("volumes", QUOTA, true),
    ])),
    true,
)]);

const RESOURCE: Kind = Word(&["SERVER", "VOLUME", "NIC", "NETWORK"]);
pub const REQUEST: Shape = Shape(&[
    ("requestId", Text, true),
    ("requestType", RESOURCE, true),
    ("requestAction", Word(&["CREATE", "UPDATE", "DELETE"]), true),
    ("status", STATE, true),
    (
        "resources",
        List(&Object(&Shape(&[("id", Uuid, true), ("type", RESOURCE, true), ("status", STATE, true)]))),
        true,
    ),
]);

pub const MAILS: Shape = Shape(&[("items", List(&Text), true)]);
pub const ZONES: Shape = Shape(&[("items", List(&Text), true)]);
pub const CONSOLE: Shape = Shape(&[("url", Text, true)]);
pub const LOG: Shape = Shape(&[("output", Text, true)]);

/// What is wrong with a value, with the way to it.
fn problem(value: &Value, kind: Kind) -> Option<String> {
    let fits = match kind {
        Nullable(inner) => return if value.is_null() { None } else { problem(value, *inner) },
        Object(shape) => return misshapen(value, &[shape]),
        List(inner) => match value.as_array() {
            None => false,
            Some(items) => {
                let mut problems =
                    items.iter().enumerate().filter_map(|(at, item)| Some((at, problem(item, *inner)?)));
                return problems.next().map(|(at, problem)| format!("[{at}]{problem}"));
            }
        },
        Uuid => value.as_str().is_some_and(|text| {
            text.len() == 36
                && text.chars().all(|c| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c))
        }),
        Text => value.is_string(),
        Word(known) => value.as_str().is_some_and(|text| known.contains(&text)),
        Whole => value.is_i64(),
        Truth => value.is_boolean(),
        Time => {
            value.as_str().is_some_and(|text| text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok())
        }
        Mac => value.as_str().is_some_and(|text| {
            text.len() == 17
                && text.split(':').all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok())
        }),
        Address => value.as_str().is_some_and(|text| text.parse::<std::net::IpAddr>().is_ok()),
        Map => value.is_object(),
        Labels => value.as_object().is_some_and(|labels| labels.values().all(Value::is_string)),
    };
    (!fits).then(|| format!(": {value} does not fit"))
}

/// What is wrong with an object that is to have the fields of these shapes.
pub fn misshapen(value: &Value, shapes: &[&Shape]) -> Option<String> {
    let Some(object) = value.as_object() else { return Some(format!(": {value} is no object")) };
    let fields = || shapes.iter().flat_map(|shape| shape.0);
    if let Some(name) = object.keys().find(|name| fields().all(|(known, _, _)| known != name)) {
        return Some(format!(".{name} is not in the schema"));
    }
    fields().find_map(|(name, kind, required)| match object.get(*name) {
        None => required.then(|| format!(".{name} is missing")),
        Some(value) => problem(value, *kind).map(|problem| format!(".{name}{problem}")),
    })
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let good =
        serde_json::json!({"serverId": super::IMAGE, "volumeId": super::IMAGE, "deleteOnTermination": true});
    assert_eq!(misshapen(&good, &[&ATTACHMENT]), None);
    for (field, value) in [
        ("serverId", Value::from("x")),
        ("volumeId", Value::Null),
        ("deleteOnTermination", Value::from("true")),
        ("more", Value::from(1)),
    ] {
        let mut wrong = good.clone();
        wrong[field] = value;
        assert!(misshapen(&wrong, &[&ATTACHMENT]).is_some_and(|problem| problem.contains(field)));
    }
    assert!(misshapen(&serde_json::json!({}), &[&ATTACHMENT]).is_some());
}

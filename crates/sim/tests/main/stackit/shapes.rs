//! The shapes of the API's answers, written from its documentation.

use crate::shape::Kind::{
    self, Address, Labels, List, Mac, Map, Nullable, Object, Text, Time, Truth, Uuid, Whole, Word,
};
pub use crate::shape::{Shape, misshapen};
use serde_json::Value;

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

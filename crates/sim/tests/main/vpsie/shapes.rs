//! The shapes of the API's answers, written from what clients are known to read of them.

pub use crate::shape::misshapen;
use crate::shape::{
    Kind::{self, Address, Bit, List, Map, Nullable, Number, Object, Text, Time, Truth, Uuid, Whole, Word},
    Shape,
};

const MAYBE_TEXT: Kind = Nullable(&Text);
const MAYBE_ADDRESS: Kind = Nullable(&Address);
const MAYBE_TIME: Kind = Nullable(&Time);

pub const ERROR: Shape = Shape(&[("error", Truth, true), ("code", Whole, true), ("message", Text, true)]);

/// What is around the data.
pub const ENVELOPE: Shape = Shape(&[("error", Truth, true), ("total", Whole, false)]);

/// No status and no tags in it.
pub const VM: Shape = Shape(&[
    ("id", Whole, true),
    ("identifier", Uuid, true),
    ("user_id", Whole, true),
    ("boxsize_id", Whole, true),
    ("boximage_id", Whole, true),
    ("datacenter_id", Whole, true),
    ("dcIdentifier", Uuid, true),
    ("dc_name", Text, false),
    ("node_id", Whole, true),
    ("hostname", Text, true),
    ("default_ip", MAYBE_ADDRESS, true),
    ("default_ipv6", MAYBE_ADDRESS, true),
    ("private_ip", MAYBE_ADDRESS, true),
    ("publicIp", MAYBE_ADDRESS, true),
    ("ram", Whole, true),
    ("cpu", Whole, true),
    ("ssd", Whole, true),
    ("traffic", Whole, true),
    ("notes", MAYBE_TEXT, true),
    ("created_on", Time, true),
    ("last_updated", Time, true),
    ("dropped_on", MAYBE_TIME, true),
    ("is_active", Bit, true),
    ("is_deleted", Bit, true),
    ("is_suspended", Bit, true),
    ("is_locked", Bit, true),
    ("is_terminated", Bit, true),
    ("power", Bit, true),
    ("projectId", Whole, true),
    ("script_id", MAYBE_TEXT, true),
    ("sshkey_id", Nullable(&Whole), true),
    ("category", Text, true),
    ("fullname", Text, true),
    ("state", Text, true),
    ("country", Text, true),
    ("vmType", Text, true),
    ("initial_password", Text, true),
]);

const PRIVATE_IP: Shape =
    Shape(&[("id", Whole, true), ("private_ip", Address, true), ("vpc_id", Nullable(&Whole), true)]);
pub const DETAIL: Shape = Shape(&[
    ("vmData", Object(&VM), true),
    ("imageCategories", List(&Map), true),
    ("vmTags", List(&Text), true),
    ("privateIpData", List(&Object(&PRIVATE_IP)), true),
    ("floatingIpData", List(&Map), true),
]);

const WISH: Shape = Shape(&[
    ("resourceIdentifier", Uuid, true),
    ("osIdentifier", Uuid, true),
    ("dcIdentifier", Uuid, true),
    ("hostname", Text, true),
    ("notes", MAYBE_TEXT, true),
    ("addPublicIpV4", Truth, true),
    ("addPublicIpV6", Truth, true),
    ("addPrivateIp", Truth, true),
    ("backupEnabled", Truth, true),
    ("tags", List(&Text), true),
    ("projectId", Whole, true),
    ("processId", MAYBE_TEXT, true),
    ("sshKeyIdentifier", Nullable(&Uuid), true),
    ("scriptIdentifier", Nullable(&Uuid), true),
    ("vmPassword", Text, true),
    ("requestIp", Address, true),
]);
pub const PENDING: Shape = Shape(&[
    ("id", Text, true),
    ("user_id", Whole, true),
    ("data", Object(&WISH), true),
    ("resourceData", Map, true),
    ("datacenter", Map, true),
    ("osData", Map, true),
    ("running", Whole, true),
    ("type", Text, true),
]);

pub const LIVE: Shape = Shape(&[
    ("status", Word(&["running", "stopped"]), true),
    ("uptime", Whole, true),
    ("cpu", Number, true),
    ("ballon", Whole, true),
    ("pid", Nullable(&Whole), true),
    ("disk", Whole, true),
    ("diskread", Whole, true),
    ("diskwrite", Whole, true),
    ("running-machine", MAYBE_TEXT, true),
    ("running-qemu", MAYBE_TEXT, true),
    ("fullname", Text, true),
]);

pub const STORAGE_VM: Shape = Shape(&[
    ("id", Whole, true),
    ("identifier", Uuid, true),
    ("hostname", Text, true),
    ("dcIdentifier", Uuid, true),
]);

pub const CATEGORY: Shape = Shape(&[("identifier", Uuid, true), ("name", Text, true)]);
pub const PLAN: Shape = Shape(&[
    ("identifier", Uuid, true),
    ("nickname", Text, true),
    ("cpu", Whole, true),
    ("ram", Whole, true),
    ("ssd", Whole, true),
    ("traffic", Whole, true),
    ("price", Number, true),
]);
pub const DATACENTER: Shape = Shape(&[
    ("identifier", Uuid, true),
    ("dc_name", Text, true),
    ("dc_image", Text, true),
    ("state", Text, true),
    ("country", Text, true),
    ("is_active", Bit, true),
    ("is_deleted", Bit, true),
    ("default_selected", Bit, true),
    ("is_fip_available", Bit, true),
    ("is_bucket_available", Bit, true),
    ("is_private", Bit, true),
]);
pub const IMAGE: Shape = Shape(&[("identifier", Uuid, true), ("name", Text, true)]);
pub const CUSTOM_IMAGE: Shape = Shape(&[
    ("identifier", Uuid, true),
    ("image_label", Text, true),
    ("image_size", Whole, true),
    ("dcIdentifier", Uuid, true),
    ("original_name", Text, true),
    ("created_on", Time, true),
]);
pub const PROJECT: Shape = Shape(&[
    ("id", Whole, true),
    ("name", Text, true),
    ("description", Text, true),
    ("identifier", Uuid, true),
    ("is_default", Bit, true),
]);
pub const ROWS: Shape = Shape(&[("rows", List(&Object(&PROJECT)), true), ("count", Whole, true)]);
pub const KEY: Shape = Shape(&[
    ("id", Whole, true),
    ("name", Text, true),
    ("identifier", Uuid, true),
    ("private_key", Text, true),
    ("user_id", Whole, false),
    ("created_on", Time, true),
]);
pub const SCRIPT: Shape = Shape(&[
    ("identifier", Uuid, true),
    ("script_name", Text, true),
    ("script", Text, false),
    ("user_id", Whole, false),
    ("created_on", Time, false),
]);
pub const VPC: Shape = Shape(&[
    ("id", Whole, true),
    ("name", Text, true),
    ("network_range", Text, true),
    ("network_size", Whole, true),
    ("is_default", Bit, true),
    ("dc_identifier", Uuid, true),
    ("user_id", Whole, false),
]);

pub const CLUSTER: Shape = Shape(&[
    ("cluster_name", Text, true),
    ("identifier", Uuid, true),
    ("user_id", Whole, true),
    ("count", Whole, true),
    ("kube_version", Text, true),
    ("nickname", MAYBE_TEXT, true),
    ("cpu", Nullable(&Whole), true),
    ("ram", Nullable(&Whole), true),
    ("traffic", Whole, true),
    ("color", Text, true),
    ("price", Nullable(&Number), true),
    ("lock", Bit, true),
    ("created_by", Text, true),
    ("upgrade_version", MAYBE_TEXT, true),
    ("lb_id", Nullable(&Whole), false),
    ("managerCount", Whole, true),
    ("slaveCount", Whole, true),
    ("created_on", Time, true),
    ("updated_on", Time, true),
]);
const ROLE: Shape = Shape(&[
    ("identifier", Uuid, true),
    ("hostname", Text, true),
    ("ip", MAYBE_ADDRESS, true),
    ("status", Word(&["provisioning", "running", "deleting"]), true),
    ("role", Word(&["master", "slave"]), true),
    ("cpu", Whole, true),
    ("ram", Whole, true),
    ("disk", Whole, true),
]);
const NUMBERED: Shape = Shape(&[
    ("id", Whole, true),
    ("user_id", Whole, true),
    ("hostname", Text, true),
    ("default_ip", MAYBE_ADDRESS, true),
    ("private_ip", MAYBE_ADDRESS, true),
    ("node_type", Whole, true),
    ("node_id", Whole, true),
    ("datacenter_id", Whole, true),
    ("created_on", Time, true),
]);
const ABOUT_CLUSTER: [(&str, Kind, bool); 6] = [
    ("cluster_name", Text, true),
    ("identifier", Uuid, true),
    ("kube_version", Text, true),
    ("managerCount", Whole, true),
    ("slaveCount", Whole, true),
    ("created_on", Time, true),
];
pub const CLUSTER_DETAIL: Shape = Shape(&ABOUT_CLUSTER);
pub const BY_ROLE: Shape =
    Shape(&[("masters", List(&Object(&ROLE)), true), ("slaves", List(&Object(&ROLE)), true)]);
pub const BY_NUMBER: Shape = Shape(&[("nodes", List(&Object(&NUMBERED)), true)]);
pub const GROUP: Shape = Shape(&[
    ("id", Whole, true),
    ("group_name", Text, true),
    ("identifier", Uuid, true),
    ("boxsize_id", Whole, true),
    ("datacenter_id", Whole, true),
    ("dcIdentifier", Uuid, true),
    ("ram", Whole, true),
    ("cpu", Whole, true),
    ("ssd", Whole, true),
    ("traffic", Whole, true),
    ("nodes_count", Whole, true),
    ("cluster_id", Whole, true),
    ("project_id", Whole, true),
    ("is_active", Bit, true),
    ("is_deleted", Bit, true),
    ("created_on", Time, true),
    ("last_updated", Time, true),
    ("dropped_on", MAYBE_TIME, false),
    ("notes", MAYBE_TEXT, false),
]);
pub const KUBE_SIZE: Shape = Shape(&[
    ("id", Whole, true),
    ("name", Text, true),
    ("cpu", Whole, true),
    ("ram", Whole, true),
    ("disk", Whole, true),
    ("price", Number, true),
    ("hourly_price", Number, true),
]);
pub const GROUP_ID: Shape = Shape(&[("groupId", Whole, true)]);
pub const REMOVED: Shape = Shape(&[("error", Truth, true), ("code", Whole, true), ("message", Text, true)]);

const EXPIRING: Shape = Shape(&[("token", Text, true), ("expires", Time, true)]);
pub const TOKENS: Shape =
    Shape(&[("accessToken", Object(&EXPIRING), true), ("refreshToken", Object(&EXPIRING), true)]);
const NESTED: Shape = Shape(&[("access", Object(&EXPIRING), true), ("refresh", Object(&EXPIRING), true)]);
pub const NESTED_TOKENS: Shape = Shape(&[("error", Truth, true), ("token", Object(&NESTED), true)]);

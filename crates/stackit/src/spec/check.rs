//! What is wrong with a `providerSpec`: all of it, each with its field.

use super::ProviderSpec;
use crate::{
    cidr::Cidr,
    wire::{BootVolume, VolumeSource},
};
use hostler_driver::client::is_uuid;
use serde_json::{Map, Value};

/// Label keys that start so belong to STACKIT.
const RESERVED_LABELS: &str = "stackit-";
const LABEL_LENGTH: usize = 63;

impl ProviderSpec {
    /// Everything that is wrong with the spec alone. What it leaves to others, networking for example, is
    /// checked where these are known.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        // Without one the Secret has to name it; whoever reads both tells if it does not.
        problems.unless(
            self.region.is_empty() || is_region(&self.region),
            "region",
            "Region has invalid format: small letters and digits, such as eu01; a zone such as eu01-1 belongs into availabilityZone",
        );
        problems.unless(
            self.availability_zone.is_empty() || is_zone(&self.availability_zone),
            "availabilityZone",
            "has invalid format: a region and a number or m, such as eu01-1 or eu01-m",
        );
        if self.machine_type.is_empty() {
            problems.add("machineType", "is required, for example c2i.2");
        } else {
            problems.unless(
                is_machine_type(&self.machine_type),
                "machineType",
                "has invalid format: a name such as c2i.2, g1a.8d or n1.14d.g1",
            );
        }
        if !self.image_id.is_empty() {
            problems.uuid("imageId", &self.image_id);
        } else if self.boot_volume.as_ref().is_none_or(|volume| volume.source.is_none()) {
            problems.add("imageId", "imageId or bootVolume.source is required");
        }
        self.check_labels(&mut problems);
        self.check_networking(&mut problems);
        for (at, group) in self.security_groups.iter().enumerate() {
            problems.unless(!group.is_empty(), &format!("securityGroups[{at}]"), "cannot be empty");
        }
        if let Some(volume) = &self.boot_volume {
            check_boot_volume(&mut problems, volume);
        }
        for (at, volume) in self.volumes.iter().enumerate() {
            problems.uuid(&format!("volumes[{at}]"), volume);
            problems.unless(
                !self.volumes[..at].contains(volume),
                &format!("volumes[{at}]"),
                "is there twice: a volume can be attached once",
            );
        }
        let keypair = |c: char| c.is_ascii_alphanumeric() || "@._-".contains(c);
        problems.unless(
            self.keypair_name.len() <= 127 && self.keypair_name.chars().all(keypair),
            "keypairName",
            "has invalid format: at most 127 letters, digits and @._-",
        );
        for (at, address) in self.allowed_addresses.iter().enumerate() {
            problems.unless(
                Cidr::parse(address).is_some(),
                &format!("allowedAddresses[{at}]"),
                &format!("{address:?} has an invalid CIDR: give a range such as 10.0.0.0/16 or fd00::/64"),
            );
        }
        if !self.affinity_group.is_empty() {
            problems.uuid("affinityGroup", &self.affinity_group);
        }
        problems.unless(
            self.service_account_mails.len() <= 1,
            "serviceAccountMails",
            "at most one service account is possible",
        );
        for (at, mail) in self.service_account_mails.iter().enumerate() {
            problems.unless(
                is_mail(mail),
                &format!("serviceAccountMails[{at}]"),
                "must be the mail address of a service account",
            );
        }
        if let Some(metadata) = &self.metadata {
            check_metadata(&mut problems, metadata);
        }
        problems.0
    }

    fn check_labels(&self, problems: &mut Problems) {
        for (key, value) in &self.labels {
            let field = format!("labels[{key:?}]");
            problems.unless(
                is_label_key(key),
                &field,
                "the key has invalid format: at most 63 letters, digits and -_./, with a letter or digit at both ends",
            );
            problems.unless(
                !key.starts_with(RESERVED_LABELS),
                &field,
                "keys that start with stackit- are reserved for STACKIT: choose another one",
            );
            problems.unless(
                is_label_value(value),
                &field,
                "the value has invalid format: at most 63 letters, digits and -_., with a letter or digit at both ends",
            );
        }
    }

    fn check_networking(&self, problems: &mut Problems) {
        let Some(networking) = &self.networking else { return };
        if !networking.network_id.is_empty() {
            problems.uuid("networking.networkId", &networking.network_id);
            problems.unless(
                networking.nic_ids.is_empty(),
                "networking",
                "cannot specify both networkId and nicIds, they are mutually exclusive: give one",
            );
        }
        for (at, nic) in networking.nic_ids.iter().enumerate() {
            problems.uuid(&format!("networking.nicIds[{at}]"), nic);
        }
    }
}

#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, field: &str, problem: &str) {
        self.0.push(format!("providerSpec.{field}: {problem}"));
    }

    fn unless(&mut self, fine: bool, field: &str, problem: &str) {
        if !fine {
            self.add(field, problem);
        }
    }

    fn uuid(&mut self, field: &str, text: &str) {
        if text.is_empty() {
            self.add(field, "cannot be empty");
        } else {
            self.unless(is_uuid(text), field, &format!("{text:?} must be a UUID"));
        }
    }
}

fn check_boot_volume(problems: &mut Problems, volume: &BootVolume) {
    problems.unless(
        volume.size.is_none_or(|size| size >= 0),
        "bootVolume.size",
        "must be positive or zero, in GB",
    );
    let Some(VolumeSource { kind, id }) = &volume.source else { return };
    match kind.as_str() {
        "image" | "volume" => {}
        "" => problems.add("bootVolume.source.type", "is required: image or volume"),
        "snapshot" => problems.add(
            "bootVolume.source.type",
            "STACKIT boots no server from a snapshot: make a volume of it and give that, with the type volume",
        ),
        _ => problems.add("bootVolume.source.type", &format!("{kind:?} is not possible: image or volume")),
    }
    problems.uuid("bootVolume.source.id", id);
}

fn check_metadata(problems: &mut Problems, metadata: &Map<String, Value>) {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_:. ".contains(c);
    for (key, value) in metadata {
        let field = format!("metadata[{key:?}]");
        problems.unless(
            (1..=255).contains(&key.len()) && key.chars().all(letter),
            &field,
            "the key has invalid format: at most 255 letters, digits, spaces and -_:.",
        );
        let fine = match value {
            Value::String(text) => text.len() <= 255 && !text.contains('\n'),
            Value::Array(_) | Value::Object(_) => false,
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        };
        problems.unless(fine, &field, "the value must be one line of at most 255 letters, or a number");
    }
}

fn is_region(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| is_small(byte) || byte.is_ascii_digit())
}

fn is_zone(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-').is_some_and(|(region, zone)| is_region(region) && (zone == "m" || number(zone)))
}

/// `^[a-z]+[0-9]+[a-z]*\.[0-9]+[a-z]*(\.[a-z]+[0-9]+)*$`
fn is_machine_type(text: &str) -> bool {
    let mut rest = Rest(text.as_bytes());
    let start = rest.skip(is_small) > 0 && rest.skip(is_digit) > 0;
    rest.skip(is_small);
    let size = start && rest.dot() && rest.skip(is_digit) > 0;
    rest.skip(is_small);
    let mut fine = size;
    while fine && !rest.0.is_empty() {
        fine = rest.dot() && rest.skip(is_small) > 0 && rest.skip(is_digit) > 0;
    }
    fine
}

fn is_small(byte: u8) -> bool {
    byte.is_ascii_lowercase()
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// What is still to be read of a text.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Skips what fits; says how much that was.
    fn skip(&mut self, fits: fn(u8) -> bool) -> usize {
        let length = self.0.iter().take_while(|byte| fits(**byte)).count();
        self.0 = &self.0[length..];
        length
    }

    fn dot(&mut self) -> bool {
        let rest = self.0.strip_prefix(b".");
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }
}

pub(crate) fn is_label_key(text: &str) -> bool {
    !text.is_empty() && is_label(text, "-_./")
}

/// Whether a text can be the value of a label, as the identity of a server has to be.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_label(text, "-_.")
}

fn is_label(text: &str, more: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LABEL_LENGTH
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

/// `^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$`
fn is_mail(text: &str) -> bool {
    let all = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    let Some((local, domain)) = text.split_once('@') else { return false };
    let Some((host, top)) = domain.rsplit_once('.') else { return false };
    all(local, "._%+-") && all(host, ".-") && top.len() >= 2 && top.chars().all(|c| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

    fn good() -> Value {
        json!({"region": "eu01", "machineType": "c2i.2", "imageId": ID, "networking": {"networkId": ID}})
    }

    fn problems_with(field: &str, value: Value) -> Vec<String> {
        let mut spec = good();
        match field.split_once('.') {
            None => spec[field] = value,
            Some((part, field)) => spec[part][field] = value,
        }
        ProviderSpec::parse(&spec).unwrap().problems()
    }

    #[test]
    fn what_is_right_is_taken() {
        let long = "a".repeat(63);
        let table = [
            ("region", json!("eu01")),
            ("region", json!("")),
            ("availabilityZone", json!("eu01-1")),
            ("availabilityZone", json!("eu01-12")),
            ("availabilityZone", json!("eu01-m")),
            ("availabilityZone", Value::Null),
            ("machineType", json!("t1.1")),
            ("machineType", json!("g1a.8d")),
            ("machineType", json!("n1.14d.g1")),
            ("machineType", json!("n1.14d.g1.x2")),
            ("imageId", json!(ID.to_uppercase())),
            ("labels", json!({"kubernetes.io/cluster": "shoot--a--b", "a": "", "b_c.d-e": "x"})),
            ("labels", json!({ long.as_str(): long.as_str() })),
            ("networking", Value::Null),
            ("networking", json!({})),
            ("networking", json!({"nicIds": [ID]})),
            ("securityGroups", json!(["default", ID])),
            ("bootVolume", json!({})),
            (
                "bootVolume",
                json!({"size": 0, "source": {"type": "volume", "id": ID}, "performanceClass": "x y"}),
            ),
            ("volumes", json!([ID])),
            ("keypairName", json!("a@b._-")),
            ("keypairName", json!("k".repeat(127))),
            ("allowedAddresses", json!(["10.0.0.1/8", "0.0.0.0/0", "fd00::/8", "::/0"])),
            ("affinityGroup", json!(ID)),
            ("serviceAccountMails", json!(["a-b.c+d@sa.stackit.cloud"])),
            ("agent", json!({})),
            ("metadata", json!({"a b:c._-": "x", "n": 1, "t": true, "z": null})),
            ("userData", json!("#!/bin/sh\n")),
        ];
        for (field, value) in table {
            assert_eq!(problems_with(field, value.clone()), Vec::<String>::new(), "{field} {value}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let table = [
            ("region", json!("eu01-1"), "region: Region has invalid format"),
            ("region", json!("EU01"), "region: Region has invalid format"),
            ("availabilityZone", json!("eu01"), "availabilityZone: "),
            ("availabilityZone", json!("eu01-a"), "availabilityZone: "),
            ("availabilityZone", json!("eu01-m1"), "availabilityZone: "),
            ("availabilityZone", json!("-1"), "availabilityZone: "),
            ("availabilityZone", json!("eu01-\u{661}"), "availabilityZone: "),
            ("machineType", json!(""), "machineType: is required"),
            ("machineType", json!("c2i"), "machineType: has invalid format"),
            ("machineType", json!("c2i."), "machineType: has invalid format"),
            ("machineType", json!("C2i.2"), "machineType: has invalid format"),
            ("machineType", json!("2i.2"), "machineType: has invalid format"),
            ("machineType", json!("c2i.2."), "machineType: has invalid format"),
            ("machineType", json!("c2i.2.g"), "machineType: has invalid format"),
            ("machineType", json!("c2i.2 "), "machineType: has invalid format"),
            ("imageId", json!(""), "imageId: imageId or bootVolume.source is required"),
            ("imageId", json!("ubuntu"), "imageId: \"ubuntu\" must be a UUID"),
            ("labels", json!({"-a": "x"}), "labels[\"-a\"]: the key"),
            ("labels", json!({"a".repeat(64): "x"}), "]: the key"),
            ("labels", json!({"": "x"}), "labels[\"\"]: the key"),
            ("labels", json!({"stackit-x": "x"}), "labels[\"stackit-x\"]: keys that start with stackit-"),
            ("labels", json!({"a": "x/y"}), "labels[\"a\"]: the value"),
            ("labels", json!({"a": "ü".repeat(32)}), "labels[\"a\"]: the value"),
            ("networking", json!({"networkId": "n"}), "networking.networkId: \"n\" must be a UUID"),
            ("networking", json!({"nicIds": [ID, ""]}), "networking.nicIds[1]: cannot be empty"),
            ("networking", json!({"networkId": ID, "nicIds": [ID]}), "networking: cannot specify both"),
            ("securityGroups", json!(["a", ""]), "securityGroups[1]: cannot be empty"),
            ("bootVolume", json!({"size": -1}), "bootVolume.size: must be positive or zero"),
            ("bootVolume", json!({"source": {"type": "image"}}), "bootVolume.source.id: cannot be empty"),
            ("bootVolume", json!({"source": {"id": ID}}), "bootVolume.source.type: is required"),
            (
                "bootVolume",
                json!({"source": {"type": "snapshot", "id": ID}}),
                "bootVolume.source.type: STACKIT boots",
            ),
            ("bootVolume", json!({"source": {"type": "tape", "id": ID}}), "bootVolume.source.type: \"tape\""),
            ("volumes", json!([""]), "volumes[0]: cannot be empty"),
            ("volumes", json!([ID, ID]), "volumes[1]: is there twice"),
            ("keypairName", json!("a b"), "keypairName: "),
            ("keypairName", json!("k".repeat(128)), "keypairName: "),
            (
                "allowedAddresses",
                json!(["10.0.0.0/8", "10.0.0.1"]),
                "allowedAddresses[1]: \"10.0.0.1\" has an invalid CIDR",
            ),
            ("affinityGroup", json!("group"), "affinityGroup: \"group\" must be a UUID"),
            ("serviceAccountMails", json!(["a@b.cd", "c@d.ef"]), "serviceAccountMails: at most one"),
            ("serviceAccountMails", json!([""]), "serviceAccountMails[0]: "),
            ("serviceAccountMails", json!(["a@b"]), "serviceAccountMails[0]: "),
            ("serviceAccountMails", json!(["a@b.c1"]), "serviceAccountMails[0]: "),
            ("metadata", json!({"a/b": "x"}), "metadata[\"a/b\"]: the key"),
            ("metadata", json!({"a": "x".repeat(256)}), "metadata[\"a\"]: the value"),
            ("metadata", json!({"a": ["x"]}), "metadata[\"a\"]: the value"),
        ];
        for (field, value, expected) in table {
            let problems = problems_with(field, value.clone());
            assert_eq!(problems.len(), 1, "{field} {value}: {problems:?}");
            assert!(problems[0].starts_with("providerSpec."), "{problems:?}");
            assert!(problems[0].contains(expected), "{field} {value}: {problems:?}");
        }
    }

    #[test]
    fn all_of_it_is_told_at_once() {
        let spec = json!({"region": "EU", "labels": {"b": "/", "a": "/"}, "networking": {"networkId": "n"},
            "volumes": ["v"], "keypairName": "#", "allowedAddresses": ["x"]});
        let problems = ProviderSpec::parse(&spec).unwrap().problems();
        let fields: Vec<&str> = problems.iter().filter_map(|problem| problem.split(": ").next()).collect();
        assert_eq!(
            fields,
            [
                "providerSpec.region",
                "providerSpec.machineType",
                "providerSpec.imageId",
                "providerSpec.labels[\"a\"]",
                "providerSpec.labels[\"b\"]",
                "providerSpec.networking.networkId",
                "providerSpec.volumes[0]",
                "providerSpec.keypairName",
                "providerSpec.allowedAddresses[0]",
            ]
        );
    }
}

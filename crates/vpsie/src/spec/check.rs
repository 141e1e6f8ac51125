//! What is wrong with a `providerSpec`, found without asking VPSie: all of it, each with its field.

use super::ProviderSpec;
use crate::{Hints, marks};
use hostler_driver::{Code, Failure, Order};

const LONGEST_NOTES: usize = 1_000;
const LONGEST_TAG: usize = 64;

impl ProviderSpec {
    /// Everything that is wrong with an order of this spec, when so many machines are made from it.
    pub(crate) fn check(&self, order: &Order, hints: &Hints, machines: usize) -> Result<(), Failure> {
        let mut problems = self.problems();
        if self.datacenter.is_empty() && hints.datacenter.is_none() {
            problems.push(
                "providerSpec.datacenterID: is required, there or as \"datacenterId\" in the Secret"
                    .to_owned(),
            );
        }
        if self.hostname.is_empty() && !is_hostname(&self.hostname_of(order)) {
            problems.push(format!(
                "metadata.name: {:?} cannot be the name of a host: choose one of letters, digits and -, or give providerSpec.hostname",
                order.identity.machine
            ));
        }
        if !self.hostname.is_empty() && machines > 1 {
            problems.push(format!(
                "providerSpec.hostname: one name is for one machine, and {machines} Machines use this class: leave it out, or make a class for each"
            ));
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Failure::new(Code::InvalidArgument, problems.join("; ")))
        }
    }

    /// What is used although it looks wrong.
    pub(crate) fn warnings(&self, order: &Order) -> Vec<String> {
        let mut warnings = Vec::new();
        if order.identity.domain.is_empty() {
            warnings.push(
                "providerSpec.cluster: is empty, so the machines of several clusters in this account are told apart by their names alone"
                    .to_owned(),
            );
        }
        if order.user_data.is_none() && self.script.is_empty() {
            warnings.push(
                "providerSpec: there is neither user data nor a scriptID, so nothing but the image makes a node of the VPS"
                    .to_owned(),
            );
        }
        warnings
    }

    /// Everything that is wrong with the spec alone.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut unless = |fine: bool, field: &str, problem: &str| {
            if !fine {
                problems.push(format!("providerSpec.{field}: {problem}"));
            }
        };
        unless(!self.offering.is_empty(), "offeringID", "is required");
        unless(!self.image.is_empty(), "osImageID", "is required");
        unless(
            self.hostname.is_empty() || is_hostname(&self.hostname),
            "hostname",
            "must consist of small letters, digits, - and ., with a letter or digit at both ends",
        );
        for (list, field) in [(&self.ssh_keys, "sshKeyIDs"), (&self.tags, "tags")] {
            for (at, text) in list.iter().enumerate() {
                unless(!text.trim().is_empty(), &format!("{field}[{at}]"), "cannot be empty");
                unless(!list[..at].contains(text), &format!("{field}[{at}]"), "is there twice");
            }
        }
        for (at, tag) in self.tags.iter().enumerate() {
            let plain = tag.len() <= LONGEST_TAG && !tag.contains(',') && !tag.contains(char::is_control);
            unless(plain, &format!("tags[{at}]"), "must have at most 64 letters and no comma");
            unless(
                !tag.starts_with(marks::TAG_PREFIX),
                &format!("tags[{at}]"),
                "tags that start with hostler- are reserved: choose another one",
            );
        }
        unless(
            self.notes.len() <= LONGEST_NOTES && !self.notes.contains(char::is_control),
            "notes",
            "must be one line of at most 1000 letters",
        );
        unless(
            !self.notes.contains(marks::START),
            "notes",
            "cannot hold \"[hostler:\", by which a VPS is recognised",
        );
        unless(self.disk_gb.is_none_or(|size| size > 0), "diskGB", "must be above zero");
        problems
    }
}

/// Whether a text can be the name of a host and of a node.
fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::{Attempt, Identity, UserData};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn order(machine: &str) -> Order {
        Order {
            identity: Identity { domain: "shoot".into(), machine: machine.into(), class: "c".into() },
            attempt: Attempt("a1".into()),
            spec: Arc::new(Value::Null),
            user_data: Some(UserData::new("#cloud-config")),
        }
    }

    fn spec(more: &Value) -> ProviderSpec {
        let mut spec = json!({"datacenterID": "dc", "offeringID": "small", "osImageID": "ubuntu"});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        ProviderSpec::parse(&spec).unwrap()
    }

    #[test]
    fn each_rule_names_its_field() {
        let long = "a".repeat(64);
        let table = [
            (json!({}), None),
            (
                json!({"hostname": "node-1.vpsie.local", "tags": ["web"], "notes": "for [them]", "diskGB": 1}),
                None,
            ),
            (json!({"datacenterID": ""}), Some("datacenterID: is required")),
            (json!({"offeringID": ""}), Some("offeringID: is required")),
            (json!({"osImageID": null}), Some("osImageID: is required")),
            (json!({"hostname": "Node"}), Some("hostname: must")),
            (json!({"hostname": "-a"}), Some("hostname: must")),
            (json!({"hostname": "a..b"}), Some("hostname: must")),
            (json!({"hostname": long}), Some("hostname: must")),
            (json!({"sshKeyIDs": ["a", ""]}), Some("sshKeyIDs[1]: cannot be empty")),
            (json!({"sshKeyIDs": ["a", "a"]}), Some("sshKeyIDs[1]: is there twice")),
            (json!({"tags": [" "]}), Some("tags[0]: cannot be empty")),
            (json!({"tags": ["a,b"]}), Some("tags[0]: must have")),
            (json!({"tags": ["hostler-1"]}), Some("tags[0]: tags that start")),
            (json!({"tags": ["a".repeat(65)]}), Some("tags[0]: must have")),
            (json!({"notes": "two\nlines"}), Some("notes: must be one line")),
            (json!({"notes": "x [hostler:1;a;b;c;d]"}), Some("notes: cannot hold")),
            (json!({"notes": "x".repeat(1_001)}), Some("notes: must be one line")),
            (json!({"diskGB": 0}), Some("diskGB: must be above zero")),
        ];
        for (more, problem) in table {
            let checked = spec(&more).check(&order("m-1"), &Hints::default(), 1);
            match problem {
                None => assert_eq!(checked, Ok(()), "{more}"),
                Some(problem) => {
                    let failure = checked.unwrap_err();
                    assert_eq!(failure.code, Code::InvalidArgument);
                    assert!(failure.message.contains(&format!("providerSpec.{problem}")), "{failure}");
                }
            }
        }
    }

    #[test]
    fn what_the_secret_says_will_do_and_one_name_is_for_one_machine() {
        let hints = Hints { datacenter: Some("dc".into()), ..Hints::default() };
        assert_eq!(spec(&json!({"datacenterID": ""})).check(&order("m"), &hints, 5), Ok(()));
        let named = spec(&json!({"hostname": "h"}));
        assert_eq!(named.check(&order("M/1"), &hints, 1), Ok(()));
        let failure = named.check(&order("m"), &hints, 2).unwrap_err();
        assert!(failure.message.contains("2 Machines use this class"), "{failure}");
        let failure = spec(&json!({})).check(&order("M_1"), &hints, 1).unwrap_err();
        assert!(failure.message.starts_with("metadata.name: \"M_1\""), "{failure}");
    }

    #[test]
    fn what_looks_wrong_is_told_and_used() {
        let warnings = |domain: &str, data: bool, script: &str| {
            let mut order = order("m");
            order.identity.domain = domain.into();
            order.user_data = order.user_data.filter(|_| data);
            spec(&json!({"scriptID": script})).warnings(&order).len()
        };
        assert_eq!(
            [
                warnings("d", true, ""),
                warnings("", true, ""),
                warnings("d", false, ""),
                warnings("d", false, "s")
            ],
            [0, 1, 1, 0]
        );
    }
}

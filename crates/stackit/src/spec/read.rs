//! Reads a `providerSpec` as the Go provider does: names in any case, `null` for what was left out, unknown
//! names passed over. Everything that is of the wrong kind is told at once, each with its field.

use super::{NetworkingSpec, ProviderSpec};
use crate::wire::{Agent, BootVolume, VolumeSource};
use hostler_driver::{Code, Failure, UserData};
use serde_json::{Map, Value};
use std::{cell::RefCell, collections::BTreeMap};

pub(super) fn read(spec: &Value) -> Result<ProviderSpec, Failure> {
    let problems = RefCell::new(Vec::new());
    let Value::Object(map) = spec else {
        return Err(Failure::new(Code::Internal, "providerSpec: must be an object with the server's fields"));
    };
    let fields = Fields { path: "providerSpec".to_owned(), map, problems: &problems };
    let read = ProviderSpec {
        region: fields.text("region"),
        machine_type: fields.text("machineType"),
        image_id: fields.text("imageId"),
        labels: fields.labels("labels"),
        networking: fields
            .part("networking")
            .map(|part| NetworkingSpec { network_id: part.text("networkId"), nic_ids: part.texts("nicIds") }),
        allowed_addresses: fields.words("allowedAddresses"),
        security_groups: fields.texts("securityGroups"),
        user_data: Some(fields.text("userData")).filter(|text| !text.is_empty()).map(UserData::new),
        boot_volume: fields.part("bootVolume").map(|part| BootVolume {
            id: None,
            delete_on_termination: part.truth("deleteOnTermination"),
            performance_class: Some(part.text("performanceClass")).filter(|class| !class.is_empty()),
            size: part.whole_number("size"),
            source: part
                .part("source")
                .map(|source| VolumeSource { kind: source.text("type"), id: source.text("id") }),
        }),
        volumes: fields.texts("volumes"),
        keypair_name: fields.text("keypairName"),
        availability_zone: fields.text("availabilityZone"),
        affinity_group: fields.text("affinityGroup"),
        service_account_mails: fields.texts("serviceAccountMails"),
        agent: fields.part("agent").map(|part| Agent { provisioned: part.truth("provisioned") }),
        metadata: fields.part("metadata").map(|part| part.map.clone()),
    };
    let problems = problems.into_inner();
    if problems.is_empty() { Ok(read) } else { Err(Failure::new(Code::Internal, problems.join("; "))) }
}

/// An object within the spec.
struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    problems: &'a RefCell<Vec<String>>,
}

impl<'a> Fields<'a> {
    /// The value of a field; the name as it should be written goes before one in another case.
    fn value(&self, name: &str) -> Option<&'a Value> {
        let in_any_case = || self.map.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = self.map.get(name).or_else(|| in_any_case().map(|(_, value)| value));
        value.filter(|value| !value.is_null())
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Option<T> {
        self.problems.borrow_mut().push(format!("{}.{name}: must be {wanted}", self.path));
        None
    }

    fn text(&self, name: &str) -> String {
        let read = self.value(name).and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            _ => self.wrong(name, "a text"),
        });
        read.unwrap_or_default()
    }

    fn truth(&self, name: &str) -> Option<bool> {
        self.value(name)
            .and_then(|value| value.as_bool().or_else(|| self.wrong(name, "true or false, without quotes")))
    }

    fn whole_number(&self, name: &str) -> Option<i64> {
        self.value(name)
            .and_then(|value| value.as_i64().or_else(|| self.wrong(name, "a whole number, without quotes")))
    }

    fn part(&self, name: &str) -> Option<Self> {
        match self.value(name)? {
            Value::Object(map) => {
                Some(Self { path: format!("{}.{name}", self.path), map, problems: self.problems })
            }
            _ => self.wrong(name, "an object"),
        }
    }

    /// A list of texts. A `null` in it is an empty one, which the rules find fault with.
    fn texts(&self, name: &str) -> Vec<String> {
        let list = match self.value(name) {
            None => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => return self.wrong(name, "a list of texts").unwrap_or_default(),
        };
        let text = |(at, value): (usize, &Value)| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            _ => self.wrong(&format!("{name}[{at}]"), "a text").unwrap_or_default(),
        };
        list.iter().enumerate().map(text).collect()
    }

    /// A list of texts without spaces: a template that joins several gives one text with spaces between them.
    fn words(&self, name: &str) -> Vec<String> {
        let split = |text: String| match text.split_whitespace().count() {
            0 => vec![text],
            _ => text.split_whitespace().map(str::to_owned).collect(),
        };
        self.texts(name).into_iter().flat_map(split).collect()
    }

    fn labels(&self, name: &str) -> BTreeMap<String, String> {
        let Some(part) = self.part(name) else { return BTreeMap::new() };
        let text = |(key, value): (&String, &Value)| {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                _ => self.wrong(&format!("{name}[{key:?}]"), "a text: put it in quotes").unwrap_or_default(),
            };
            (key.clone(), text)
        };
        part.map.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_read_in_any_case_and_null_is_nothing() {
        let spec = read(&json!({
            "Region": "eu01", "MACHINETYPE": "c2i.2", "imageid": "i", "labels": null, "networking": null,
            "bootVolume": {"Size": 50, "performanceClass": null, "source": null, "DeleteOnTermination": null},
            "keypairName": null, "volumes": null, "agent": {"provisioned": null}, "unknown": {"x": 1}}))
        .unwrap();
        assert_eq!(
            (spec.region.as_str(), spec.machine_type.as_str(), spec.image_id.as_str()),
            ("eu01", "c2i.2", "i")
        );
        assert_eq!(spec.boot_volume.unwrap(), BootVolume { size: Some(50), ..BootVolume::default() });
        assert_eq!(spec.agent, Some(Agent { provisioned: None }));
        assert!(spec.networking.is_none() && spec.labels.is_empty() && spec.keypair_name.is_empty());
    }

    #[test]
    fn the_right_spelling_goes_before_others() {
        let spec = read(&json!({"REGION": "a", "region": "b", "rEgion": "c"})).unwrap();
        assert_eq!(spec.region, "b");
    }

    #[test]
    fn a_joined_list_is_taken_apart() {
        let addresses =
            |list: Value| read(&json!({"allowedAddresses": list})).unwrap().allowed_addresses.join("|");
        assert_eq!(
            addresses(json!(["10.0.0.0/8 fd00::/8", "10.1.0.0/16"])),
            "10.0.0.0/8|fd00::/8|10.1.0.0/16"
        );
        assert_eq!(addresses(json!([""])), "");
    }

    #[test]
    fn everything_of_the_wrong_kind_is_told_at_once() {
        let failure = read(&json!({
            "region": 1, "labels": {"a": 1}, "networking": [], "volumes": "v", "bootVolume": {"size": "50", "source": 7,
            "deleteOnTermination": "false"}, "securityGroups": ["a", 2], "agent": {"provisioned": 1}, "metadata": "x"}))
        .unwrap_err();
        assert_eq!(failure.code, Code::Internal);
        for field in [
            "providerSpec.region:",
            "providerSpec.labels[\"a\"]:",
            "providerSpec.networking:",
            "providerSpec.volumes:",
            "providerSpec.bootVolume.size:",
            "providerSpec.bootVolume.source:",
            "providerSpec.bootVolume.deleteOnTermination:",
            "providerSpec.securityGroups[1]:",
            "providerSpec.agent.provisioned:",
            "providerSpec.metadata:",
        ] {
            assert!(failure.message.contains(field), "{field} in {failure}");
        }
        for spec in [Value::Null, json!([]), json!("x")] {
            assert_eq!(read(&spec).unwrap_err().code, Code::Internal, "{spec}");
        }
    }

    #[test]
    fn nothing_shows_the_user_data() {
        let spec = read(&json!({"userData": "hunter2"})).unwrap();
        assert!(!format!("{spec:?}").contains("hunter2"));
        assert_eq!(spec.user_data.unwrap().expose(), "hunter2");
        let failure = read(&json!({"userData": ["hunter2"]})).unwrap_err();
        assert!(!failure.message.contains("hunter2"), "{failure}");
    }
}

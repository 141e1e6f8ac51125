//! Reads a `providerSpec`. What is of the wrong kind, and what there is no field for, is told at once.

use super::{ProviderSpec, SpecUserData};
use hostler_driver::{Code, Failure, UserData, client::closest};
use serde_json::{Map, Value};
use std::cell::RefCell;

const FIELDS: [&str; 16] = [
    "cluster",
    "datacenterID",
    "offeringID",
    "osImageID",
    "projectID",
    "sshKeyIDs",
    "scriptID",
    "vpcID",
    "hostname",
    "tags",
    "notes",
    "publicIPv4",
    "publicIPv6",
    "privateIP",
    "diskGB",
    "userData",
];

pub(super) fn read(spec: &Value) -> Result<ProviderSpec, Failure> {
    let Value::Object(map) = spec else {
        return Err(refused("providerSpec: must be an object with the VPS's fields".to_owned()));
    };
    let fields = Fields { map, problems: RefCell::default() };
    for name in map.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let known = FIELDS.map(|field| (field.to_owned(), field.to_owned()));
        let meant = closest(name, known, 1).concat();
        fields.problem(&format!("{name:?}: there is no such field; the closest is {meant}"));
    }
    let usual = ProviderSpec::default();
    let read = ProviderSpec {
        cluster: fields.text("cluster"),
        datacenter: fields.text("datacenterID"),
        offering: fields.text("offeringID"),
        image: fields.text("osImageID"),
        project: fields.text("projectID"),
        ssh_keys: fields.texts("sshKeyIDs"),
        script: fields.text("scriptID"),
        vpc: fields.text("vpcID"),
        hostname: fields.text("hostname"),
        tags: fields.texts("tags"),
        notes: fields.text("notes"),
        public_ipv4: fields.truth("publicIPv4").unwrap_or(usual.public_ipv4),
        public_ipv6: fields.truth("publicIPv6").unwrap_or(usual.public_ipv6),
        private_ip: fields.truth("privateIP").unwrap_or(usual.private_ip),
        disk_gb: fields.whole_number("diskGB"),
        user_data: Some(fields.text("userData"))
            .filter(|text| !text.is_empty())
            .map(|text| SpecUserData(UserData::new(text))),
    };
    let problems = fields.problems.into_inner();
    if problems.is_empty() { Ok(read) } else { Err(refused(problems.join("; "))) }
}

fn refused(message: String) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

struct Fields<'a> {
    map: &'a Map<String, Value>,
    problems: RefCell<Vec<String>>,
}

impl<'a> Fields<'a> {
    fn value(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    fn problem(&self, problem: &str) {
        self.problems.borrow_mut().push(format!("providerSpec.{problem}"));
    }

    fn wrong<T>(&self, name: &str, wanted: &str) -> Option<T> {
        self.problem(&format!("{name}: must be {wanted}"));
        None
    }

    /// A text; also the number of something is one.
    fn text(&self, name: &str) -> String {
        let read = self.value(name).and_then(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) if number.is_u64() => Some(number.to_string()),
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

    fn texts(&self, name: &str) -> Vec<String> {
        let list = match self.value(name) {
            None => return Vec::new(),
            Some(Value::Array(list)) => list,
            Some(_) => return self.wrong(name, "a list of texts").unwrap_or_default(),
        };
        let text = |(at, value): (usize, &Value)| match value {
            Value::String(text) => text.clone(),
            _ => self.wrong(&format!("{name}[{at}]"), "a text").unwrap_or_default(),
        };
        list.iter().enumerate().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_is_read_and_has_its_default() {
        let full = json!({"cluster": "shoot", "datacenterID": "d", "offeringID": "o", "osImageID": "i", "projectID": 7,
            "sshKeyIDs": ["k"], "scriptID": "s", "vpcID": "9", "hostname": "h", "tags": ["t"], "notes": "n",
            "publicIPv4": false, "publicIPv6": true, "privateIP": true, "diskGB": 80, "userData": "hunter2"});
        assert_eq!(full.as_object().unwrap().len(), FIELDS.len());
        assert!(FIELDS.iter().all(|field| full.get(field).is_some()), "one that is added is missed here");
        let spec = read(&full).unwrap();
        let text = |text: &str| text.to_owned();
        let expected = ProviderSpec {
            cluster: text("shoot"),
            datacenter: text("d"),
            offering: text("o"),
            image: text("i"),
            project: text("7"),
            ssh_keys: vec![text("k")],
            script: text("s"),
            vpc: text("9"),
            hostname: text("h"),
            tags: vec![text("t")],
            notes: text("n"),
            public_ipv4: false,
            public_ipv6: true,
            private_ip: true,
            disk_gb: Some(80),
            user_data: Some(SpecUserData(UserData::new("hunter2"))),
        };
        assert_eq!(spec, expected);
        assert!(!format!("{spec:?}").contains("hunter2"));
        let nothing: Map<String, Value> =
            FIELDS.iter().map(|field| ((*field).to_owned(), Value::Null)).collect();
        assert_eq!(read(&Value::Object(nothing)).unwrap(), ProviderSpec::default());
        assert_eq!(read(&json!({})).unwrap(), ProviderSpec::default());
    }

    #[test]
    fn all_that_cannot_be_read_is_told_at_once_and_not_shown() {
        let failure =
            read(&json!({"datacenterId": "d", "osImageID": {"a": 1}, "sshKeyIDs": "k", "tags": ["a", 7],
            "publicIPv4": "yes", "diskGB": "80", "userData": ["hunter2"], "offeringID": -1}))
            .unwrap_err();
        assert_eq!(failure.code, Code::InvalidArgument);
        for part in [
            "providerSpec.\"datacenterId\": there is no such field; the closest is datacenterID",
            "providerSpec.osImageID: must be a text",
            "providerSpec.sshKeyIDs: must be a list of texts",
            "providerSpec.tags[1]: must be a text",
            "providerSpec.publicIPv4: must be true or false",
            "providerSpec.diskGB: must be a whole number",
            "providerSpec.userData: must be a text",
            "providerSpec.offeringID: must be a text",
        ] {
            assert!(failure.message.contains(part), "{part} in {failure}");
        }
        assert!(!failure.message.contains("hunter2"));
        for spec in [Value::Null, json!([]), json!("hunter2")] {
            assert!(read(&spec).unwrap_err().message.starts_with("providerSpec: must be an object"));
        }
    }
}

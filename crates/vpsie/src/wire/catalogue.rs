use super::lenient;
use serde::Deserialize;

/// Hours in a month, by which prices are told.
const HOURS: u64 = 730;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Datacenter {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(rename = "dc_name", deserialize_with = "lenient::text")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub state: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub country: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_active: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_deleted: Option<bool>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PlanCategory {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub name: Option<String>,
}

/// A size that a virtual machine can have in one datacenter with one operating system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Plan {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub nickname: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub cpu: Option<i64>,
    /// In MB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ram: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ssd: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub traffic: Option<i64>,
    /// What a month costs, in millionths of a dollar.
    #[serde(rename = "price", deserialize_with = "lenient::micros")]
    pub monthly_micros: Option<u64>,
    /// The class it is of, such as A for shared processors. Lists do not tell it: it is what was asked for.
    #[serde(skip)]
    pub category: String,
}

impl Plan {
    /// What an hour costs: the month has 730.
    pub fn hourly_micros(&self) -> Option<u64> {
        self.monthly_micros.map(hourly)
    }
}

/// The part of a monthly price that an hour is, rounded.
pub(crate) fn hourly(monthly: u64) -> u64 {
    monthly.saturating_add(HOURS / 2) / HOURS
}

/// An image to boot from. Those of the user's own are ordered in another place than those that VPSie has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Image {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    name: Option<String>,
    #[serde(rename = "image_label", deserialize_with = "lenient::text")]
    own_label: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    label: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    fullname: Option<String>,
    #[serde(rename = "dcIdentifier", deserialize_with = "lenient::text")]
    pub datacenter: Option<String>,
}

impl Image {
    /// What people call it, wherever that is told.
    pub fn name(&self) -> Option<&str> {
        let names = [&self.own_label, &self.name, &self.label, &self.fullname];
        names.into_iter().find_map(Option::as_deref)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Project {
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_default: Option<bool>,
}

/// The key itself, which lists hold under a misleading name, is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SshKey {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub name: Option<String>,
}

/// What it does is not read: people put secrets there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Script {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(rename = "script_name", deserialize_with = "lenient::text")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vpc {
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    pub name: Option<String>,
    #[serde(rename = "dc_identifier", deserialize_with = "lenient::text")]
    pub datacenter: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_hour_is_a_part_of_a_month() {
        let table = [
            (json!({"price": 7.3}), Some(10_000)),
            (json!({"price": 6}), Some(8_219)),
            (json!({"price": "12.00"}), Some(16_438)),
            (json!({"price": 0}), Some(0)),
            (json!({"price": null}), None),
            (json!({}), None),
        ];
        for (plan, expected) in table {
            let read: Plan = serde_json::from_value(plan.clone()).unwrap();
            assert_eq!(read.hourly_micros(), expected, "{plan}");
        }
        assert_eq!(hourly(u64::MAX), u64::MAX / HOURS);
    }

    #[test]
    fn secrets_in_lists_are_not_read() {
        let key = json!({"id": 1, "identifier": "k", "name": "mine", "private_key": "hunter2"});
        let script = json!({"identifier": "s", "script_name": "join.sh", "script": "hunter2", "scriptContent": "hunter2"});
        let (key, script): (SshKey, Script) =
            (serde_json::from_value(key).unwrap(), serde_json::from_value(script).unwrap());
        assert_eq!((key.name.as_deref(), script.name.as_deref()), (Some("mine"), Some("join.sh")));
        assert!(!format!("{key:?}{script:?}").contains("hunter2"));
    }

    #[test]
    fn images_have_names_in_several_places() {
        for name in ["name", "image_label", "label", "fullname"] {
            let image: Image = serde_json::from_value(json!({"identifier": "i", name: "ubuntu"})).unwrap();
            assert_eq!(image.name(), Some("ubuntu"), "{name}");
        }
        let all = json!({"identifier": "i", "name": "a", "image_label": "b", "label": "c", "fullname": "d"});
        assert_eq!(serde_json::from_value::<Image>(all).unwrap().name(), Some("b"));
    }
}

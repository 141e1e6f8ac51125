use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;
use std::fmt;

/// Labels in an answer: nothing stops others from writing what is no text.
///
/// In order of their names, and without room for more. They do not change, and a thousand servers are kept with a few
/// labels each: a map has room for eleven.
#[derive(Clone, Default, PartialEq)]
pub struct Labels(Box<[(Box<str>, Value)]>);

impl Labels {
    pub fn get(&self, name: &str) -> Option<&Value> {
        let place = self.0.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// The label of this name, if it is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Those that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(key, value)| Some((&**key, value.as_str()?)))
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(key, value)| (key, value))).finish()
    }
}

impl<K: Into<Box<str>>> FromIterator<(K, Value)> for Labels {
    /// Of two of one name the later counts.
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(labels: I) -> Self {
        let mut all: Vec<(Box<str>, Value)> =
            labels.into_iter().map(|(key, value)| (key.into(), value)).collect();
        all.reverse();
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all.dedup_by(|(one, _), (other, _)| one == other);
        Self(all.into_boxed_slice())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut all: Vec<(Box<str>, Value)> = Vec::new();
                while let Some(label) = map.next_entry()? {
                    all.push(label);
                }
                Ok(all.into_iter().collect())
            }
        }

        deserializer.deserialize_map(All)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_found_and_written_as_they_were_read() {
        let told = json!({"b": "two", "a": "one", "c": 3, "d": null});
        let labels: Labels = serde_json::from_value(told.clone()).unwrap();
        assert_eq!((labels.text("a"), labels.text("b"), labels.text("c")), (Some("one"), Some("two"), None));
        assert_eq!((labels.get("c"), labels.get("e")), (Some(&json!(3)), None));
        assert_eq!(labels.texts().collect::<Vec<_>>(), [("a", "one"), ("b", "two")]);
        assert_eq!(serde_json::to_value(&labels).unwrap(), told);
        assert_eq!(format!("{labels:?}").matches("String").count(), 2);
    }

    #[test]
    fn of_two_of_one_name_the_later_counts() {
        let labels: Labels =
            serde_json::from_str(r#"{"b": "x", "a": "first", "a": "second", "a": "third"}"#).unwrap();
        assert_eq!(labels.texts().collect::<Vec<_>>(), [("a", "third"), ("b", "x")]);
        assert!(serde_json::from_str::<Labels>(r#"["a"]"#).is_err());
    }
}

//! Settings of a simulated cloud as other processes write them.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The settings with changes as JSON names them; what is not named stays.
pub(crate) fn merged<S: Serialize + DeserializeOwned>(settings: &S, changes: &Value) -> Result<S, String> {
    let Value::Object(changes) = changes else { return Err("the settings must be an object".to_owned()) };
    let mut whole = serde_json::to_value(settings).map_err(|error| error.to_string())?;
    for (name, value) in changes {
        whole[name] = value.clone();
    }
    serde_json::from_value(whole).map_err(|error| format!("settings: {error}"))
}

/// The change that `name=value` stands for. The value is JSON, or else a text.
pub(crate) fn assignment(text: &str) -> Result<Value, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text:?} is not of the form name=value"))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok(Value::Object(Map::from_iter([(name.to_owned(), value)])))
}

/// Whether a name fits a pattern, whose last character may be a `*`.
pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

pub(crate) mod seconds {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(duration.as_secs_f64())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|error| D::Error::custom(format!("{seconds} seconds: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_rest() {
        for (pattern, name, expected) in
            [("a", "a", true), ("a", "ab", false), ("a*", "ab", true), ("*", "", true), ("b*", "ab", false)]
        {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}

use crate::{Code, Failure};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// What a machine is given to become a node. It holds a token, so nothing shows it.
#[derive(Clone)]
pub struct UserData(Arc<SecretString>);

impl UserData {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(SecretString::from(text.into())))
    }

    /// The text itself, for the request to the cloud and nothing else.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserData([hidden])")
    }
}

/// The keys and values of a Secret, or of several merged ones.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, SecretSlice<u8>>);

impl Credentials {
    pub fn new<K: Into<String>, V: Into<Vec<u8>>>(data: impl IntoIterator<Item = (K, V)>) -> Self {
        Self(data.into_iter().map(|(key, value)| (key.into(), SecretSlice::from(value.into()))).collect())
    }

    /// Whether the key is there and has a value.
    pub fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| !value.expose_secret().is_empty())
    }

    /// Whether the key is there, be it without a value.
    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The value of a key that must be there and be text.
    pub fn text(&self, key: &str) -> Result<SecretString, Failure> {
        let invalid =
            |what: &str| Failure::new(Code::InvalidArgument, format!("the Secret's key {key:?} {what}"));
        let value = self.0.get(key).ok_or_else(|| invalid("is missing: add it"))?.expose_secret();
        if value.is_empty() {
            return Err(invalid("is empty: give it a value"));
        }
        let text = std::str::from_utf8(value).map_err(|_| invalid("is not UTF-8 text"))?;
        Ok(SecretString::from(text.to_owned()))
    }

    /// Whether both hold the same keys and values: a driver made for one then serves for the other.
    pub fn same_as(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.iter().zip(&other.0).all(|((key, value), (other_key, other_value))| {
                key == other_key && value.expose_secret() == other_value.expose_secret()
            })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.0.keys().collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let user_data = UserData::new("token=hunter2");
        let credentials = Credentials::new([("serviceaccount.json", "hunter2")]);
        let shown = format!("{user_data:?} {credentials:?} {:#?}", (user_data.clone(), credentials.clone()));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("serviceaccount.json"), "{shown}");
        assert_eq!(user_data.expose(), "token=hunter2");
    }

    #[test]
    fn a_wrong_value_is_named_but_not_shown() {
        let credentials = Credentials::new([("empty", Vec::new()), ("binary", vec![0xff, 0x41])]);
        let message = |key| credentials.text(key).map(|_| ()).unwrap_err().to_string();
        assert_eq!(message("token"), "InvalidArgument: the Secret's key \"token\" is missing: add it");
        assert_eq!(message("empty"), "InvalidArgument: the Secret's key \"empty\" is empty: give it a value");
        assert_eq!(message("binary"), "InvalidArgument: the Secret's key \"binary\" is not UTF-8 text");
        assert!(!credentials.has("empty") && credentials.has("binary"));
        assert!(credentials.contains("empty") && !credentials.contains("token"));
    }

    #[test]
    fn a_rotated_secret_is_another_one() {
        let old = Credentials::new([("a", "1"), ("b", "2")]);
        assert!(old.same_as(&Credentials::new([("b", "2"), ("a", "1")])));
        for other in [vec![("a", "1")], vec![("a", "1"), ("b", "3")], vec![("a", "1"), ("c", "2")]] {
            assert!(!old.same_as(&Credentials::new(other)));
        }
    }
}

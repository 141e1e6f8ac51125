//! Objects as they come over the wire, one that cannot be understood among others.
//!
//! kube's `DeserializeGuard` serves the same end, but it makes two copies of every object in memory before it reads
//! one, and it reads who owns which field, which is the larger half of most objects and of no use here.

use crate::lean::without_owners;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::value::RawValue;

/// An object, or why it could not be understood and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Guarded<K>(pub(super) Result<K, Misunderstood>);

#[derive(Clone, Debug)]
pub(super) struct Misunderstood {
    pub(super) why: String,
    pub(super) metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<K: DeserializeOwned> Guarded<K> {
    /// Fails only if the text is no object, or has no name that can be read.
    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let text = without_owners(text);
        let object = match serde_json::from_str(&text) {
            Ok(object) => Ok(object),
            Err(error) => {
                let Named { metadata } = serde_json::from_str(&text)?;
                Err(Misunderstood { why: error.to_string(), metadata })
            }
        };
        Ok(Self(object))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(Box::<RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::ObjectList;
    use serde_json::json;

    #[test]
    fn one_that_cannot_be_understood_does_not_spoil_the_others() {
        let good = json!({"metadata": {"name": "good", "managedFields": [{"manager": "m"}]}});
        let bad = json!({"metadata": {"name": "bad", "namespace": "n"}, "spec": {"containers": "none"}});
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": [good, bad]});
        let list: ObjectList<Guarded<Pod>> = serde_json::from_str(&list.to_string()).unwrap();
        let [Guarded(Ok(one)), Guarded(Err(other))] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!((one.metadata.name.as_deref(), &one.metadata.managed_fields), (Some("good"), &None));
        assert_eq!(other.metadata.name.as_deref(), Some("bad"));
        assert!(other.why.contains("expected a sequence"), "{}", other.why);
    }
}

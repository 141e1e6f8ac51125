//! Pod templates: what makes two of them different, and the pods made of them.

use super::pods::owner_reference;
use crate::kind::Kind;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::api::ObjectMeta;
use serde::Serialize;

/// Characters that Kubernetes uses in generated names: no vowels, so that no words appear.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short name for a template. `collisions` makes it another one, should the name be taken.
pub(crate) fn hash<T: Serialize>(template: &T, collisions: Option<i32>) -> String {
    let text = serde_json::to_string(template).unwrap_or_default();
    let number = text
        .bytes()
        .chain(collisions.iter().flat_map(|count| count.to_le_bytes()))
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    number
        .to_string()
        .bytes()
        .map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]))
        .collect()
}

/// A pod as the template describes it, owned by `owner`; the server completes its name.
pub(crate) fn pod<O: Kind>(template: &PodTemplateSpec, owner: &O) -> Pod {
    let name = owner.meta().name.clone().unwrap_or_default();
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_follows_the_template_and_the_collisions() {
        let one = json!({"spec": {"containers": [{"image": "a"}]}});
        let other = json!({"spec": {"containers": [{"image": "b"}]}});
        assert_eq!(hash(&one, None), hash(&one, None));
        assert_ne!(hash(&one, None), hash(&other, None));
        assert_ne!(hash(&one, None), hash(&one, Some(1)));
        assert!(hash(&one, None).bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}

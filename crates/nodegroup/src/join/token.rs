//! Bootstrap tokens of short life, one for each VPSieNode whose user data has a place for one.

use crate::{api::VPSieNode, group::label_value, life::OwnToken, names::label};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

/// Where Kubernetes looks for bootstrap tokens.
pub const TOKEN_NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Those for whom kubeadm has certificates approved.
const GROUPS: &str = "system:bootstrappers:kubeadm:default-node-token";

pub fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

/// The Secret of a token for this VPSieNode. It is found again by its labels, and ends by itself.
pub fn bootstrap_token(node: &VPSieNode, id: &str, secret: &SecretString, expires_at: Timestamp) -> Secret {
    // Whole seconds, as Go writes them.
    let expiration = Timestamp::from_second(expires_at.as_second()).unwrap_or(expires_at).to_string();
    let description = format!("Bootstrap token of VPSieNode {}", node.name_any());
    let fields = [
        ("description", description.as_str()),
        ("token-id", id),
        ("token-secret", secret.expose_secret()),
        ("expiration", &expiration),
        ("usage-bootstrap-authentication", "true"),
        ("usage-bootstrap-signing", "true"),
        ("auth-extra-groups", GROUPS),
    ];
    let labels = [
        (label::VPSIE_NODE, label_value(&node.name_any())),
        (label::NODE_GROUP_NAMESPACE, node.namespace().unwrap_or_default()),
    ];
    // An owner in another namespace would have it collected at once.
    let at_home = node.namespace().as_deref() == Some(TOKEN_NAMESPACE);
    let owner = at_home.then(|| OwnerReference {
        api_version: VPSieNode::api_version(&()).into_owned(),
        kind: VPSieNode::kind(&()).into_owned(),
        name: node.name_any(),
        uid: node.uid().unwrap_or_default(),
        ..OwnerReference::default()
    });
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(id)),
            namespace: Some(TOKEN_NAMESPACE.to_owned()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from(
            fields.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec()))),
        )),
        ..Secret::default()
    }
}

/// A token that was found.
pub struct Read {
    pub seen: OwnToken,
    /// `id.secret`; nothing if nobody could join with it.
    pub token: Option<SecretString>,
}

/// What a Secret says, if it holds a token of this VPSieNode.
pub fn read(secret: &Secret, node: &VPSieNode, now: Timestamp) -> Option<Read> {
    let labels = secret.labels();
    let own = labels.get(label::VPSIE_NODE) == Some(&label_value(&node.name_any()))
        && labels.get(label::NODE_GROUP_NAMESPACE).map(String::as_str) == node.metadata.namespace.as_deref();
    if !own || secret.type_.as_deref() != Some(SECRET_TYPE) {
        return None;
    }
    let field = |name: &str| str::from_utf8(&secret.data.as_ref()?.get(name)?.0).ok();
    let id = secret.name_any().strip_prefix("bootstrap-token-")?.to_owned();
    let alive = field("expiration").and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at > now);
    let usable =
        alive && field("token-id") == Some(&id) && field("usage-bootstrap-authentication") == Some("true");
    let token = field("token-secret").filter(|_| usable).map(|secret| format!("{id}.{secret}").into());
    Some(Read { seen: OwnToken { id, uid: secret.uid().unwrap_or_default(), valid: token.is_some() }, token })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::VPSieNodeSpec;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(namespace: &str, name: &str) -> VPSieNode {
        let mut node = VPSieNode::new(name, VPSieNodeSpec::default());
        node.metadata.namespace = Some(namespace.into());
        node.metadata.uid = Some("u-1".into());
        node
    }

    fn token(node: &VPSieNode) -> Secret {
        bootstrap_token(node, "abcdef", &SecretString::from("0123456789abcdef"), at(100))
    }

    #[test]
    fn a_token_is_one_that_kubernetes_takes() {
        let secret = token(&node("kube-system", "workers-1"));
        let data: BTreeMap<&str, &str> = secret
            .data
            .as_ref()
            .unwrap()
            .iter()
            .map(|(key, value)| (key.as_str(), str::from_utf8(&value.0).unwrap()))
            .collect();
        let expected = BTreeMap::from([
            ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"),
            ("description", "Bootstrap token of VPSieNode workers-1"),
            ("expiration", "1970-01-01T00:01:40Z"),
            ("token-id", "abcdef"),
            ("token-secret", "0123456789abcdef"),
            ("usage-bootstrap-authentication", "true"),
            ("usage-bootstrap-signing", "true"),
        ]);
        assert_eq!(data, expected);
        assert_eq!(
            (secret.name_any().as_str(), secret.type_.as_deref()),
            ("bootstrap-token-abcdef", Some("bootstrap.kubernetes.io/token"))
        );
        assert_eq!(secret.owner_references().len(), 1);
        assert_eq!(token(&node("team", "workers-1")).owner_references().len(), 0);
    }

    #[test]
    fn a_token_is_its_vpsie_nodes_alone_and_only_as_long_as_it_lives() {
        let own = node("team", "workers-1");
        let valid = |secret: &Secret, node: &VPSieNode, second| {
            read(secret, node, at(second)).map(|read| (read.seen.valid, read.token.is_some()))
        };
        let secret = token(&own);
        assert_eq!(valid(&secret, &own, 99), Some((true, true)));
        assert_eq!(valid(&secret, &own, 100), Some((false, false)), "it has ended");
        for other in [node("team", "workers-2"), node("kube-system", "workers-1")] {
            assert_eq!(valid(&secret, &other, 0), None);
        }
        let found = read(&secret, &own, at(0)).unwrap();
        assert_eq!(found.token.unwrap().expose_secret(), "abcdef.0123456789abcdef");
        let mut odd = secret.clone();
        odd.type_ = Some("Opaque".into());
        assert_eq!(valid(&odd, &own, 0), None);
        for field in ["token-id", "token-secret", "expiration", "usage-bootstrap-authentication"] {
            let mut odd = secret.clone();
            odd.data.as_mut().unwrap().remove(field);
            assert_eq!(valid(&odd, &own, 0), Some((false, false)), "{field}");
        }
    }
}

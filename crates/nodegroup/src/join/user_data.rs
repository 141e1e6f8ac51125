//! Placeholders in user data. Who writes none gets the user data byte for byte.

use hostler_driver::UserData;
use k8s_openapi::api::core::v1::Taint;
use secrecy::{ExposeSecret, SecretString};
use std::collections::BTreeMap;

/// `id.secret`, for `kubeadm join --token` or a bootstrap kubeconfig.
const TOKEN: &str = "<<BOOTSTRAP_TOKEN>>";
/// The hostname, which is the VPSieNode's and the node's name.
const NAME: &str = "<<NODE_NAME>>";
/// `a=b,c=d`, for the kubelet's `--node-labels`.
const LABELS: &str = "<<NODE_LABELS>>";
/// `a=b:NoSchedule,c=d:NoExecute`, for the kubelet's `--register-with-taints`.
const TAINTS: &str = "<<NODE_TAINTS>>";
/// For the kubelet's `--provider-id`. No VPS knows its identifier before it is made, so this one names it by its
/// hostname.
const PROVIDER_ID: &str = "<<PROVIDER_ID>>";

/// Of Kubernetes' own labels a kubelet may give itself these, and those below the two domains.
const OWN_LABELS: [&str; 6] = [
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const OWN_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// What there is to fill in.
pub struct Values<'a> {
    pub name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    pub provider_id: &'a str,
    /// Without one its place stays as it is.
    pub token: Option<&'a SecretString>,
}

/// Whether it has a place for a token.
pub fn wants_token(user_data: &str) -> bool {
    user_data.contains(TOKEN)
}

/// The user data with everything filled in, in one pass: what is filled in is not looked into again.
pub fn filled(user_data: &str, values: &Values<'_>) -> UserData {
    let mut text = String::with_capacity(user_data.len());
    let mut rest = user_data;
    while let Some(at) = rest.find("<<") {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        match placeholder(from, values) {
            Some((placeholder, value)) => {
                text.push_str(&value);
                rest = &from[placeholder.len()..];
            }
            None => {
                text.push('<');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    UserData::new(text)
}

/// The placeholder at the beginning of the text, and what stands for it.
fn placeholder(text: &str, values: &Values<'_>) -> Option<(&'static str, String)> {
    let found =
        [TOKEN, NAME, LABELS, TAINTS, PROVIDER_ID].into_iter().find(|known| text.starts_with(known))?;
    let value = match found {
        TOKEN => values.token?.expose_secret().to_owned(),
        NAME => values.name.to_owned(),
        LABELS => labels(values.labels),
        TAINTS => taints(values.taints),
        _ => values.provider_id.to_owned(),
    };
    Some((found, value))
}

/// Those that a kubelet may give itself; the Node gets the others from us.
fn labels(labels: &BTreeMap<String, String>) -> String {
    let own = labels.iter().filter(|(key, _)| may_give_itself(key));
    own.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

fn may_give_itself(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return true };
    let within =
        |parent: &str| domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !within("kubernetes.io") && !within("k8s.io") {
        return true;
    }
    OWN_LABELS.contains(&key) || OWN_DOMAINS.into_iter().any(within)
}

fn taints(taints: &[Taint]) -> String {
    let one = |taint: &Taint| {
        format!("{}={}:{}", taint.key, taint.value.as_deref().unwrap_or_default(), taint.effect)
    };
    taints.iter().map(one).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(text: &str, token: Option<&str>) -> String {
        let labels = [
            ("environment", "production"),
            ("autoscaler.vpsie.com/nodegroup", "workers"),
            ("node-role.kubernetes.io/worker", ""),
            ("topology.kubernetes.io/zone", "dc"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let taint = |key: &str, value: Option<&str>, effect: &str| Taint {
            key: key.into(),
            value: value.map(str::to_owned),
            effect: effect.into(),
            ..Taint::default()
        };
        let taints = [taint("gpu", Some("true"), "NoSchedule"), taint("alone", None, "NoExecute")];
        let token = token.map(SecretString::from);
        let values = Values {
            name: "workers-1",
            labels: &labels,
            taints: &taints,
            provider_id: "vpsie://workers-1",
            token: token.as_ref(),
        };
        filled(text, &values).expose().to_owned()
    }

    #[test]
    fn who_opts_in_gets_what_it_asks_for() {
        let table = [
            ("kubeadm join --token <<BOOTSTRAP_TOKEN>> x", "kubeadm join --token abcdef.0123456789abcdef x"),
            ("<<NODE_NAME>>/<<NODE_NAME>>", "workers-1/workers-1"),
            (
                "--node-labels=<<NODE_LABELS>>",
                "--node-labels=autoscaler.vpsie.com/nodegroup=workers,environment=production,topology.kubernetes.io/zone=dc",
            ),
            (
                "--register-with-taints=<<NODE_TAINTS>>",
                "--register-with-taints=gpu=true:NoSchedule,alone=:NoExecute",
            ),
            ("--provider-id=<<PROVIDER_ID>>", "--provider-id=vpsie://workers-1"),
        ];
        for (text, expected) in table {
            assert_eq!(fill(text, Some("abcdef.0123456789abcdef")), expected);
        }
    }

    #[test]
    fn anything_else_stays_byte_for_byte() {
        for text in [
            "",
            "#!/bin/sh\ncat <<EOF\nüml\u{0}\r\nEOF\n",
            "<<",
            "<<<NODE",
            "<<BOOTSTRAP_TOKEN>",
            "<< NODE_NAME >>",
            "<<MACHINE_NAME>>",
            "{{ .Token }} ${NODE_NAME}",
        ] {
            assert_eq!(fill(text, Some("t")), text);
            assert!(!wants_token(text));
        }
        assert_eq!(fill("<<<NODE_NAME>>>", None), "<workers-1>");
    }

    #[test]
    fn what_is_filled_in_is_not_looked_into_again() {
        assert_eq!(fill("<<BOOTSTRAP_TOKEN>>", Some("<<NODE_NAME>>")), "<<NODE_NAME>>");
    }

    #[test]
    fn a_token_is_wanted_where_there_is_a_place_for_it_and_its_place_stays_without_one() {
        assert!(wants_token("x <<BOOTSTRAP_TOKEN>>"));
        assert_eq!(fill("<<BOOTSTRAP_TOKEN>> <<NODE_NAME>>", None), "<<BOOTSTRAP_TOKEN>> workers-1");
    }

    #[test]
    fn a_kubelet_gives_itself_no_label_that_it_must_not() {
        let table = [
            ("environment", true),
            ("example.com/a", true),
            ("kubernetes.io/hostname", true),
            ("kubernetes.io/role", false),
            ("node-restriction.kubernetes.io/a", false),
            ("node.kubernetes.io/a", true),
            ("a.node.kubernetes.io/a", true),
            ("sub.k8s.io/a", false),
            ("notkubernetes.io/a", true),
        ];
        for (key, expected) in table {
            assert_eq!(may_give_itself(key), expected, "{key}");
        }
    }
}

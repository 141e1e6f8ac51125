//! The labels by which servers are recognised, as the Go provider writes them.

use crate::wire::{Labels, Server};
use hostler_driver::{Attempt, Marks};

/// What label keys start with unless the environment says otherwise.
pub const DEFAULT_DOMAIN: &str = "kubernetes.io";
/// A label whose key ends in this names the cluster a server belongs to.
pub const CLUSTER_SUFFIX: &str = "/cluster";
/// The create call a server came from.
pub const ATTEMPT: &str = "hostler.dev/create-attempt";
/// On a server whose boot volume is to stay when it goes, and on a boot volume that is still to go when its server is
/// gone.
pub const BOOT_VOLUME: &str = "hostler.dev/boot-volume";
pub const BOOT_VOLUME_STAYS: &str = "stays";
pub const BOOT_VOLUME_GOES: &str = "goes";
/// On such a volume: the server that it was made for.
pub const SERVER: &str = "hostler.dev/server";

/// The keys of the labels of one domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelNames {
    pub machine: String,
    pub class: String,
    pub cluster: String,
}

impl LabelNames {
    pub fn new(domain: &str) -> Self {
        Self {
            machine: format!("{domain}/machine"),
            class: format!("{domain}/machineclass"),
            cluster: format!("{domain}{CLUSTER_SUFFIX}"),
        }
    }

    /// The cluster that labels name: under our own key, else under the first other one that ends so.
    pub(crate) fn cluster<'a>(&self, labels: &[(&'a str, &'a str)]) -> Option<&'a str> {
        let own = labels.iter().find(|(key, _)| *key == self.cluster);
        let any = || labels.iter().find(|(key, _)| key.ends_with(CLUSTER_SUFFIX));
        own.or_else(any).map(|(_, value)| *value)
    }

    /// What a server says about itself. If it has several labels that may name its cluster, none of them under
    /// our own key, one that says `cluster` counts.
    pub(crate) fn marks(&self, server: &Server, cluster: Option<&str>) -> Marks {
        let labels: Vec<(&str, &str)> = server.labels.iter().flat_map(Labels::texts).collect();
        let label = |wanted: &str| {
            labels.iter().find(|(key, _)| *key == wanted).map(|(_, value)| (*value).to_owned())
        };
        let says_so = |(key, value): &&(&str, &str)| {
            key.ends_with(CLUSTER_SUFFIX) && cluster.is_some_and(|cluster| cluster == *value)
        };
        let meant = match labels.iter().find(says_so) {
            Some((_, value)) if label(&self.cluster).is_none() => Some(*value),
            _ => self.cluster(&labels),
        };
        Marks {
            domain: meant.map(str::to_owned),
            machine: label(&self.machine),
            class: label(&self.class),
            attempt: label(ATTEMPT).map(Attempt),
        }
    }
}

impl Default for LabelNames {
    fn default() -> Self {
        Self::new(DEFAULT_DOMAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn marks(names: &LabelNames, labels: serde_json::Value, cluster: Option<&str>) -> Marks {
        let server = json!({"id": "s", "name": "n", "labels": labels});
        names.marks(&serde_json::from_value(server).unwrap(), cluster)
    }

    #[test]
    fn a_server_tells_whose_it_is() {
        let names = LabelNames::default();
        let table = [
            (json!(null), None, None),
            (json!({"kubernetes.io/cluster": ""}), None, Some("")),
            (json!({"kubernetes.io/cluster": "a"}), None, Some("a")),
            (json!({"kubernetes.io/cluster": "a"}), Some("b"), Some("a")),
            (json!({"x/cluster": "a"}), None, Some("a")),
            (json!({"a/cluster": "x", "kubernetes.io/cluster": "a"}), None, Some("a")),
            (json!({"a/cluster": "x", "kubernetes.io/cluster": "a"}), Some("x"), Some("a")),
            (json!({"a/cluster": "x", "b/cluster": "y"}), None, Some("x")),
            (json!({"a/cluster": "x", "b/cluster": "y"}), Some("y"), Some("y")),
            (json!({"a/cluster": "x", "b/cluster": "y"}), Some("z"), Some("x")),
            (json!({"a/cluster": "x", "b": "y"}), Some("y"), Some("x")),
            (json!({"kubernetes.io/cluster": 7}), None, None),
            (json!({"cluster": "a"}), None, None),
        ];
        for (labels, cluster, expected) in table {
            let marks = marks(&names, labels.clone(), cluster);
            assert_eq!(marks.domain.as_deref(), expected, "{labels} {cluster:?}");
        }
    }

    #[test]
    fn the_domain_of_labels_can_be_chosen() {
        let labels = json!({"kubernetes.io/machine": "m", "kubernetes.io/machineclass": "c",
            "ske.example/machine": "m2", "ske.example/machineclass": "c2", ATTEMPT: "a"});
        let usual = marks(&LabelNames::default(), labels.clone(), None);
        assert_eq!((usual.machine.as_deref(), usual.class.as_deref()), (Some("m"), Some("c")));
        assert_eq!(usual.attempt, Some(Attempt("a".into())));
        let chosen = marks(&LabelNames::new("ske.example"), labels, None);
        assert_eq!((chosen.machine.as_deref(), chosen.class.as_deref()), (Some("m2"), Some("c2")));
    }
}

//! The VPSieNodes that a group makes.

use crate::{
    api::{NodeGroup, VPSieNode, VPSieNodeSpec},
    names::{finalizer, label},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt, api::ObjectMeta};
use std::collections::BTreeMap;

/// A hostname is no longer than this, and a VPSieNode is named like its host.
const LONGEST: usize = 63;

/// The name of a new VPSieNode: its group's, as far as it fits, and something that tells it from the others. It is a
/// hostname, too.
pub fn name_for(group: &str, distinct: u64) -> String {
    let end = format!("-{:08x}", distinct & 0xffff_ffff);
    let host: String = group
        .chars()
        .map(|letter| if letter.is_ascii_lowercase() || letter.is_ascii_digit() { letter } else { '-' })
        .take(LONGEST - end.len())
        .collect();
    let host = host.trim_matches('-');
    format!("{}{end}", if host.is_empty() { "node" } else { host })
}

/// The object. It has its finalizer from the first moment on.
pub fn vpsie_node(group: &NodeGroup, name: &str, offering: &str) -> VPSieNode {
    let own = group.name_any();
    let labels = [
        (label::GROUP, label_value(&own)),
        (label::NODE_GROUP, label_value(&own)),
        (label::NODE_GROUP_NAMESPACE, group.namespace().unwrap_or_default()),
        (label::INSTANCE_TYPE, label_value(offering)),
        (label::DATACENTER, label_value(&group.spec.datacenter_id)),
    ];
    let owner = OwnerReference {
        api_version: NodeGroup::api_version(&()).into_owned(),
        kind: NodeGroup::kind(&()).into_owned(),
        name: own.clone(),
        uid: group.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let spec = VPSieNodeSpec {
        vpsie_instance_id: 0,
        instance_type: offering.to_owned(),
        node_group_name: own,
        datacenter_id: group.spec.datacenter_id.clone(),
        resource_identifier: group.spec.resource_identifier.clone(),
        ..VPSieNodeSpec::default()
    };
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: group.namespace(),
        labels: Some(
            labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<BTreeMap<_, _>>(),
        ),
        finalizers: Some(vec![finalizer::VPSIE_NODE.to_owned()]),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    VPSieNode { metadata, spec, status: None }
}

/// The text as far as it can be a label's value: names of datacenters and offerings may have blanks.
pub(crate) fn label_value(text: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let value: String =
        text.chars().map(|letter| if fits(letter) { letter } else { '-' }).take(LONGEST).collect();
    value.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::NodeGroupSpec, validate};
    use serde_json::json;

    #[test]
    fn names_are_hostnames() {
        let long = "a".repeat(100);
        let table = [
            ("production-workers", 0x1234_5678, "production-workers-12345678".to_owned()),
            ("a.b", 1, "a-b-00000001".to_owned()),
            ("x", u64::MAX, "x-ffffffff".to_owned()),
            ("...", 7, "node-00000007".to_owned()),
            (long.as_str(), 7, format!("{}-00000007", "a".repeat(54))),
        ];
        for (group, distinct, expected) in table {
            let name = name_for(group, distinct);
            assert_eq!(name, expected);
            assert!(name.len() <= 63);
        }
    }

    #[test]
    fn what_is_no_label_becomes_one() {
        let long = "x".repeat(70);
        let table = [
            ("dc-us-east-1", "dc-us-east-1".to_owned()),
            ("New York (1)", "New-York--1".to_owned()),
            ("", String::new()),
            ("--", String::new()),
            (&long, "x".repeat(63)),
        ];
        for (text, expected) in table {
            assert_eq!(label_value(text), expected);
        }
    }

    #[test]
    fn a_new_one_is_its_groups_own_and_has_no_vps_yet() {
        let mut group = NodeGroup::new(
            "workers",
            NodeGroupSpec { datacenter_id: "dc-us-east-1".into(), ..NodeGroupSpec::default() },
        );
        group.metadata.namespace = Some("kube-system".into());
        group.metadata.uid = Some("u-1".into());
        let node = vpsie_node(&group, "workers-1", "small-2cpu-4gb");
        let expected = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
            "metadata": {
                "name": "workers-1", "namespace": "kube-system",
                "finalizers": ["vpsienode.autoscaler.vpsie.com/finalizer"],
                "labels": {
                    "nodegroup": "workers",
                    "autoscaler.vpsie.com/nodegroup": "workers",
                    "autoscaler.vpsie.com/nodegroup-namespace": "kube-system",
                    "autoscaler.vpsie.com/instance-type": "small-2cpu-4gb",
                    "autoscaler.vpsie.com/datacenter": "dc-us-east-1",
                },
                "ownerReferences": [{
                    "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup", "name": "workers", "uid": "u-1",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "vpsieInstanceID": 0, "instanceType": "small-2cpu-4gb", "nodeGroupName": "workers",
                "datacenterID": "dc-us-east-1",
            },
        });
        assert_eq!(serde_json::to_value(&node).unwrap(), expected);
        assert_eq!(validate::vpsie_node(&node, None), []);
    }
}

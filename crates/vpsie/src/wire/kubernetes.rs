//! Clusters that VPSie runs.

use super::{catalogue::hourly, lenient};
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cluster {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(rename = "cluster_name", deserialize_with = "lenient::text")]
    pub name: Option<String>,
    /// Without a `v` in front.
    #[serde(rename = "kube_version", deserialize_with = "lenient::text")]
    pub version: Option<String>,
    #[serde(rename = "managerCount", deserialize_with = "lenient::whole")]
    pub managers: Option<i64>,
    #[serde(rename = "slaveCount", deserialize_with = "lenient::whole")]
    pub workers: Option<i64>,
    /// Its nodes, in whichever of three lists they are told.
    nodes: Option<Vec<ClusterNode>>,
    masters: Option<Vec<ClusterNode>>,
    slaves: Option<Vec<ClusterNode>>,
}

impl Cluster {
    /// All nodes that its page tells of, once each. Lists of clusters tell of none.
    pub fn nodes(&self) -> Vec<&ClusterNode> {
        let lists = [&self.nodes, &self.masters, &self.slaves];
        let mut all: Vec<&ClusterNode> = Vec::new();
        for node in lists.into_iter().flatten().flatten() {
            let key = |node: &ClusterNode| node.identifier.clone().or_else(|| node.hostname.clone());
            if key(node).is_none() || !all.iter().any(|known| key(known) == key(node)) {
                all.push(node);
            }
        }
        all
    }
}

/// A node as its cluster's page tells of it. Its number is none of a virtual machine's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterNode {
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    default_ip: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    ip: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub private_ip: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub status: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub role: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub node_type: Option<i64>,
}

impl ClusterNode {
    pub fn address(&self) -> Option<&str> {
        self.default_ip.as_deref().or(self.ip.as_deref())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeGroup {
    /// The number by which workers are added.
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(rename = "group_name", deserialize_with = "lenient::text")]
    pub name: Option<String>,
    #[serde(rename = "boxsize_id", deserialize_with = "lenient::whole")]
    pub size: Option<i64>,
    #[serde(rename = "dcIdentifier", deserialize_with = "lenient::text")]
    pub datacenter: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub cpu: Option<i64>,
    /// In MB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ram: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ssd: Option<i64>,
    #[serde(deserialize_with = "lenient::whole")]
    pub nodes_count: Option<i64>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_deleted: Option<bool>,
}

/// A size that a group's nodes can have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KubernetesOffer {
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    #[serde(deserialize_with = "lenient::text")]
    pub name: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub cpu: Option<i64>,
    /// In MB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ram: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub disk: Option<i64>,
    #[serde(rename = "price", deserialize_with = "lenient::micros")]
    pub monthly_micros: Option<u64>,
    #[serde(rename = "hourly_price", deserialize_with = "lenient::micros")]
    own_hourly_micros: Option<u64>,
}

impl KubernetesOffer {
    /// What an hour costs, as VPSie says it, else as a part of the month.
    pub fn hourly_micros(&self) -> Option<u64> {
        self.own_hourly_micros.or_else(|| self.monthly_micros.map(hourly))
    }
}

/// What is told of a worker that was ordered: often nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AddedWorker {
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nodes_are_found_in_every_list_once() {
        let cluster: Cluster = serde_json::from_value(json!({"identifier": "c", "cluster_name": "prod",
            "nodes": [{"id": 1, "hostname": "a", "default_ip": "192.0.2.1"}, {"id": 2}],
            "masters": [{"identifier": "m", "hostname": "b"}],
            "slaves": [{"identifier": "m", "hostname": "b"}, {"identifier": "s", "ip": "192.0.2.3"}, {"id": 3}]}))
        .unwrap();
        let told: Vec<_> = cluster
            .nodes()
            .into_iter()
            .map(|node| (node.id, node.identifier.as_deref(), node.address()))
            .collect();
        assert_eq!(
            told,
            [
                (Some(1), None, Some("192.0.2.1")),
                (Some(2), None, None),
                (None, Some("m"), None),
                (None, Some("s"), Some("192.0.2.3")),
                (Some(3), None, None),
            ]
        );
    }

    #[test]
    fn an_offers_own_price_per_hour_counts() {
        let of = |offer| serde_json::from_value::<KubernetesOffer>(offer).unwrap().hourly_micros();
        assert_eq!(of(json!({"price": 7.3, "hourly_price": 0.02})), Some(20_000));
        assert_eq!(of(json!({"price": 7.3})), Some(10_000));
        assert_eq!(of(json!({})), None);
    }
}

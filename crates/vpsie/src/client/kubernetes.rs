use super::{Call, Client, path};
use crate::wire::{AddedWorker, Cluster, KubernetesOffer, NodeGroup, envelope};
use hostler_driver::Failure;
use serde_json::json;

/// Clusters that VPSie runs. Their workers are in no list of virtual machines.
impl Client {
    pub async fn list_clusters(&self) -> Result<Vec<Cluster>, Failure> {
        self.list(Call::get("ListClusters", path(&["k8s", "cluster", "all"])?)).await
    }

    /// One with its nodes.
    pub async fn get_cluster(&self, cluster: &str) -> Result<Cluster, Failure> {
        self.ask(Call::get("GetCluster", path(&["k8s", "cluster", "byId", cluster])?), envelope::data).await
    }

    pub async fn list_node_groups(&self, cluster: &str) -> Result<Vec<NodeGroup>, Failure> {
        let path = path(&["k8s", "node", "groups", "byClusterId", cluster])?;
        let all: Vec<NodeGroup> = self.list(Call::get("ListNodeGroups", path)).await?;
        Ok(all.into_iter().filter(|group| group.is_deleted != Some(true)).collect())
    }

    /// The sizes that the nodes of a datacenter's clusters can have.
    pub async fn list_kubernetes_offers(&self, datacenter: &str) -> Result<Vec<KubernetesOffer>, Failure> {
        let call = Call::ask("ListKubernetesOffers", path(&["k8s", "offers"])?);
        self.list(call.json(&json!({"dcIdentifier": datacenter}))?).await
    }

    /// Adds one worker to a group, or without one to the first. Often nothing is told of it.
    pub async fn add_worker(&self, cluster: &str, group: Option<i64>) -> Result<AddedWorker, Failure> {
        let base = ["k8s", "cluster", "byId", cluster, "add", "slave"];
        let path = match group.map(|group| group.to_string()) {
            None => path(&base)?,
            Some(group) => path(&[&base[..], &["group", group.as_str()]].concat())?,
        };
        self.ask(Call::create("AddWorker", path), |body| Ok(added(body))).await
    }

    /// Removes just this worker.
    pub async fn remove_worker(&self, cluster: &str, node: &str) -> Result<(), Failure> {
        let path = path(&["k8s", "cluster", "byId", cluster, "delete", "slave"])?;
        self.tell(Call::delete("RemoveWorker", path).json(&json!({"identifier": node}))?).await
    }
}

/// Whatever else is answered, the order was taken.
fn added(body: &[u8]) -> AddedWorker {
    envelope::data(body).unwrap_or_default()
}

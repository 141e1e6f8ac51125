//! What an observer outside the API sees.

use super::{
    Vpsie,
    cloud::Cloud,
    vm::{Vm, stamp},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmView {
    pub id: u64,
    pub identifier: String,
    pub hostname: String,
    /// The name of the plan.
    pub plan: String,
    /// The name of the datacenter.
    pub datacenter: String,
    /// The name of the image.
    pub image: String,
    pub project: u64,
    pub notes: Option<String>,
    pub tags: Vec<String>,
    pub ssh_keys: Vec<String>,
    /// In dollars a month.
    pub price: f64,
    pub stage: VmStage,
    pub power: bool,
    /// Deleted, and still to be seen.
    pub is_deleted: bool,
    pub default_ip: Option<String>,
    pub private_ip: Option<String>,
    pub created: Value,
}

/// Where a VPS is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum VmStage {
    /// Accepted, and to be seen nowhere.
    Accepted,
    Queued,
    /// Out of the queue and not in the list.
    Between,
    /// In the list.
    Listed,
    /// Its deletion was ordered, or has taken place.
    Leaving,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// The name of the cluster.
    pub cluster: String,
    pub identifier: String,
    pub hostname: String,
    pub size: String,
    /// In dollars a month.
    pub price: f64,
    pub status: &'static str,
}

fn stage(vm: &Vm) -> VmStage {
    use super::life::Stage as S;
    match vm.stage {
        S::Accepted => VmStage::Accepted,
        S::Queued => VmStage::Queued,
        S::Between => VmStage::Between,
        S::Leaving | S::Deleted | S::Ghost | S::Gone => VmStage::Leaving,
        S::Booting | S::Running | S::Stopping | S::Stopped | S::Starting | S::Restarting => VmStage::Listed,
    }
}

impl Vpsie {
    /// All VPSs that there are in whatever stage, whoever made them, by number. Those that are gone and still in lists
    /// are not among them.
    pub fn vms(&self) -> Vec<VmView> {
        let cloud = self.settled();
        let there = cloud.vms.iter().filter(|(_, vm)| vm.stage != super::life::Stage::Ghost);
        let view = |(number, vm): (&u64, &Vm)| VmView {
            id: *number,
            identifier: vm.identifier.clone(),
            hostname: vm.hostname.clone(),
            plan: vm.plan.name.clone(),
            datacenter: vm.datacenter.name.clone(),
            image: vm.image.1.clone(),
            project: vm.project,
            notes: vm.notes.clone(),
            tags: vm.tags.clone(),
            ssh_keys: vm.ssh_keys.clone(),
            price: vm.plan.price,
            stage: stage(vm),
            power: vm.has_power(),
            is_deleted: vm.stage.is_deleted(),
            default_ip: vm.public_ip.clone(),
            private_ip: vm.private_ips.first().map(|ip| ip.address.clone()),
            created: stamp(vm.created),
        };
        there.map(view).collect()
    }

    /// All workers of managed clusters.
    pub fn workers(&self) -> Vec<WorkerView> {
        let cloud = self.settled();
        let all = cloud.clusters.values().flat_map(|cluster| {
            cluster.workers.iter().map(|(identifier, worker)| WorkerView {
                cluster: cluster.name.clone(),
                identifier: identifier.clone(),
                hostname: worker.hostname.clone(),
                size: worker.size.name.clone(),
                price: worker.size.price,
                status: worker.stage.name(),
            })
        });
        all.collect()
    }

    /// What a VPS was given as user data, byte for byte. It may hold secrets.
    pub fn user_data(&self, identifier: &str) -> Option<Vec<u8>> {
        let cloud = self.settled();
        let vm = cloud.vms.values().find(|vm| vm.identifier == identifier)?;
        STANDARD.decode(vm.user_data.as_ref()?).ok()
    }

    /// What everything that is there costs in a month, in dollars.
    pub fn monthly(&self) -> f64 {
        let cloud = self.settled();
        let vms = cloud.vms.values().filter(|vm| vm.stage.counts()).map(|vm| vm.plan.price);
        let workers = cloud.clusters.values().flat_map(|cluster| cluster.workers.values());
        vms.chain(workers.map(|worker| worker.size.price)).sum()
    }

    /// What everything has cost up to now, in dollars: by the second, from the list until it is deleted.
    pub fn spent(&self) -> f64 {
        let cloud = self.settled();
        let now = cloud.now;
        let vms = cloud.vms.values().filter(|vm| vm.stage.counts()).map(|vm| vm.cost(now));
        let workers = cloud.clusters.values().flat_map(|cluster| cluster.workers.values());
        cloud.spent + vms.chain(workers.map(|worker| worker.cost(now))).sum::<f64>()
    }

    fn settled(&self) -> std::sync::MutexGuard<'_, Cloud> {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        cloud
    }
}

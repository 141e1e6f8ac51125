//! From VPSs and workers to nodes.

use super::{
    Vpsie,
    bootstrap::Bootstrap,
    catalogue::Datacenter,
    cloud::Cloud,
    managed::{Stage, Worker},
    settings::one_fits,
    vm::Vm,
};
use crate::{
    cloud::drive::{Running, Wanted, drive},
    hollow::{HollowNodes, MachineSpec},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::time::Duration;

/// The category whose plans lend their guests memory.
const BALLOONED: &str = "A";

impl Vpsie {
    /// Lets the nodes of running VPSs and workers join, and switches off those that go. Runs for ever.
    pub async fn drive(self, nodes: HollowNodes) {
        drive(nodes, &self.0.clock, &self.0.changed, |running| self.wanted(running)).await;
    }

    /// What is to run now, and how long it stays so. Of what runs already only the id counts.
    fn wanted(&self, running: &Running) -> (Wanted, Option<Duration>) {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let mut wanted = Wanted::new();
        for vm in cloud.vms.values().filter(|vm| vm.works()) {
            let machine = match running.get(&vm.identifier) {
                Some(name) => MachineSpec::new(name),
                None => cloud.machine(vm),
            };
            wanted.insert(vm.identifier.clone(), machine);
        }
        let clusters = cloud.clusters.iter();
        let clusters = clusters.filter(|(_, one)| !cloud.settings.other_clusters.contains(&one.name));
        for (id, cluster) in clusters {
            for (identifier, worker) in &cluster.workers {
                if worker.stage == Stage::Running {
                    let machine = cloud.worker_machine(id, &cluster.datacenter, identifier, worker);
                    wanted.insert(identifier.clone(), machine);
                }
            }
        }
        (wanted, cloud.next_change())
    }
}

impl Cloud {
    fn machine(&self, vm: &Vm) -> MachineSpec {
        let hostname = vm.hostname.to_lowercase();
        let data = vm.user_data.as_ref().and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default();
        let script = vm.script.as_ref().map(|(_, content)| content.as_bytes()).unwrap_or_default();
        let bootstrap = Bootstrap::of(&[&data, script], &hostname);
        let mut machine = MachineSpec::new(bootstrap.node_name.as_deref().unwrap_or(&hostname));
        let seen = self.settings.ballooned_memory.filter(|_| vm.plan.category == BALLOONED);
        self.give_room(&mut machine, vm.plan.cpu, seen.unwrap_or(vm.plan.ram).min(vm.plan.ram), vm.plan.ssd);
        machine.internal_ip =
            vm.private_ips.first().map(|ip| ip.address.clone()).or_else(|| vm.public_ip.clone());
        machine.boot_time = self.settings.join_time;
        machine.never_joins = bootstrap.is_broken
            || (bootstrap.token.is_none() && !self.settings.joins_without_token)
            || one_fits(&self.settings.never_joins, &vm.hostname);
        machine.bootstrap_token = bootstrap.token;
        machine.provider_id = bootstrap.provider_id;
        machine.labels = bootstrap.labels;
        machine.taints = bootstrap.taints;
        machine
    }

    /// A worker is set up from outside: it needs no token of the cluster's.
    fn worker_machine(
        &self,
        cluster: &str,
        datacenter: &Datacenter,
        identifier: &str,
        worker: &Worker,
    ) -> MachineSpec {
        let mut machine = MachineSpec::new(&worker.hostname.to_lowercase());
        self.give_room(&mut machine, worker.size.cpu, worker.size.ram, worker.size.disk);
        machine.internal_ip = Some(worker.ip.clone());
        machine.boot_time = self.settings.join_time;
        machine.never_joins = one_fits(&self.settings.never_joins, &worker.hostname);
        if self.settings.worker_hints {
            let place = &datacenter.identifier;
            machine.provider_id = Some(format!("vpsie://{place}/{cluster}/{identifier}"));
            machine.labels.insert("vpsie.com/cluster-id".to_owned(), cluster.to_owned());
            machine.labels.insert("vpsie.com/datacenter-id".to_owned(), place.clone());
        }
        machine
    }

    /// A machine sees less than what its plan is called, and its kubelet keeps some of that.
    fn give_room(&self, machine: &mut MachineSpec, cores: u64, memory: u64, disk: u64) {
        let settings = &self.settings;
        // Whole numbers stand in a catalogue, and they are small.
        #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let seen = (memory as f64 * (1.0 - settings.kernel_share)) as u64;
        let capacity = [
            ("cpu", cores.to_string()),
            ("memory", format!("{seen}Mi")),
            ("ephemeral-storage", format!("{disk}Gi")),
        ];
        machine.capacity.extend(capacity.map(|(name, amount)| (name.to_owned(), amount)));
        let allocatable = [
            ("cpu", format!("{}m", (cores * 1000).saturating_sub(settings.reserved_cpu))),
            ("memory", format!("{}Mi", seen.saturating_sub(settings.reserved_memory))),
            // As a kubelet does that evicts pods before the last tenth is used.
            ("ephemeral-storage", format!("{}Mi", disk * 1024 / 10 * 9)),
        ];
        machine.allocatable.extend(allocatable.map(|(name, amount)| (name.to_owned(), amount)));
    }
}

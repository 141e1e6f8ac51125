//! The controllers of MachineSets and MachineDeployments, for where Gardener's own manager does not run. They work only
//! while this process holds that one's lease, so the two never work at once.

use crate::{arguments::go_bool, kubeconfig::Cluster, machine_controller::user_agent};
use anyhow::bail;
use clap::{ArgAction, Args};
use hostler_base::{Chance, GoDuration};
use hostler_controller::{Election, Health, LeaseOptions, Led, StackOptions, kube_client};
use hostler_gardener::sets::{self, LEASE, SetOptions, SetParts};
use tokio_util::sync::CancellationToken;

#[derive(Args)]
#[group(id = "machine-sets")]
pub struct Options {
    /// Looks after MachineSets and MachineDeployments too, in place of Gardener's machine-controller-manager.
    #[arg(long, default_value_t = false, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    pub with_machine_sets: bool,
    /// So many machines more than allowed, and a MachineSet makes no more.
    #[arg(long, default_value_t = 2, value_name = "MACHINES", value_parser = clap::value_parser!(i32).range(0..))]
    safety_up: i32,
    /// So many machines fewer than that, and it does again.
    #[arg(long, default_value_t = 1, value_name = "MACHINES", value_parser = clap::value_parser!(i32).range(0..))]
    safety_down: i32,
    /// How often machines are counted for that.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    machine_safety_overshooting_period: GoDuration,
    /// Whether the cluster autoscaler shall leave nodes alone while their machines are exchanged.
    #[arg(long, default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool, value_name = "BOOL")]
    autoscaler_scaledown_annotation_during_rollout: bool,
}

impl Options {
    pub fn chosen(&self) -> SetOptions {
        SetOptions {
            safety_up: self.safety_up,
            safety_down: self.safety_down,
            overshooting_period: self.machine_safety_overshooting_period.0,
            disable_scale_down_during_rollout: self.autoscaler_scaledown_annotation_during_rollout,
        }
    }
}

/// What is needed to run the controllers.
pub struct Place {
    pub control: Cluster,
    pub target: Cluster,
    pub namespace: String,
    /// How calls are made; the fence of the lease is put into it.
    pub stack: StackOptions,
    pub lease: LeaseOptions,
    pub chance: Chance,
    pub health: Health,
    pub options: SetOptions,
}

/// Waits for the lease and works while it is held.
pub async fn lead(place: Place, stop: CancellationToken) -> anyhow::Result<()> {
    let Place { control, target, namespace, stack, lease, chance, health, options } = place;
    let (clock, metrics) = (stack.clock.clone(), stack.metrics.clone());
    let lease = LeaseOptions { name: LEASE.to_owned(), ..lease };
    let instance = lease.identity.clone();
    let stack = StackOptions { server: Some(control.address), ..stack };
    let for_leases = StackOptions { user_agent: user_agent("machine-leader-election"), ..stack.clone() };
    let client = kube_client(control.for_leases, &for_leases, &namespace);
    let election = Election::new(client, lease, clock.clone(), &chance, metrics.clone());
    let fenced = StackOptions { fence: election.fence(), ..stack };
    let in_target = StackOptions { server: Some(target.address), ..fenced.clone() };
    let parts = SetParts {
        control: kube_client(control.transport, &fenced, &namespace),
        namespace,
        target: Some(kube_client(target.transport, &in_target, "default")),
        clock,
        chance: chance.split("machine-sets"),
        metrics,
        health,
        instance,
        options,
    };
    match election.lead(&stop, || Box::pin(sets::run(parts, stop.clone()))).await {
        Led::Finished(()) | Led::Never => Ok(()),
        Led::Lost => bail!("the lease {LEASE} was lost: another instance may be working now"),
    }
}

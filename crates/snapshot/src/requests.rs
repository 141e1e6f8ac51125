//! What containers ask for.

use crate::error::{At, Fault};
use crate::quantity::resources;
use hostler_planner::model::{Container, HostPort, Resources};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

type Amounts = BTreeMap<String, Quantity>;

/// Requests as the API server completes them in pods: who names a limit and no request asks for the limit. In templates
/// that is not written down.
fn completed(asked: &core::ResourceRequirements) -> Result<Resources, Fault> {
    let mut amounts: Amounts = asked.limits.clone().unwrap_or_default();
    // A fault must be told of the field that has it.
    resources(&amounts).at("limits").at("resources")?;
    amounts.extend(asked.requests.clone().unwrap_or_default());
    resources(&amounts).at("requests").at("resources")
}

fn larger(one: &mut Resources, other: &Resources) {
    one.cpu = one.cpu.max(other.cpu);
    one.memory = one.memory.max(other.memory);
    one.ephemeral_storage = one.ephemeral_storage.max(other.ephemeral_storage);
    for (name, amount) in &other.extended {
        let own = one.extended.entry(name.clone()).or_default();
        *own = (*own).max(*amount);
    }
}

/// What a container has while it is being resized: the kubelet's word counts as well as the wish, and alone where the
/// wish cannot be fulfilled.
pub(crate) struct Resize<'s> {
    pub statuses: &'s [core::ContainerStatus],
    pub infeasible: bool,
}

impl Resize<'_> {
    fn apply(&self, name: &str, wish: Resources) -> Result<Resources, Fault> {
        let Some(status) = self.statuses.iter().find(|status| status.name == name) else { return Ok(wish) };
        let actual = status.resources.as_ref().and_then(|own| own.requests.as_ref());
        let told = [status.allocated_resources.as_ref(), actual];
        if told.iter().all(Option::is_none) {
            return Ok(wish);
        }
        let mut amounts = if self.infeasible { Resources::default() } else { wish };
        for list in told.into_iter().flatten() {
            larger(&mut amounts, &resources(list).at("status").at(name)?);
        }
        Ok(amounts)
    }
}

pub(crate) fn container(
    from: &core::Container,
    host_network: bool,
    resize: &Resize<'_>,
) -> Result<Container, Fault> {
    let asked = from.resources.as_ref().map(completed).transpose()?.unwrap_or_default();
    let sidecar = from.restart_policy.as_deref() == Some("Always");
    let mut host_ports = Vec::new();
    for (at, port) in from.ports.iter().flatten().enumerate() {
        let given = port.host_port.unwrap_or(0);
        // In templates that is not written down either.
        let number = if given == 0 && host_network { port.container_port } else { given };
        let number = u16::try_from(number)
            .map_err(|_| Fault::new(format!("{number} is no port")))
            .at(format_args!("[{at}]"))
            .at("ports")?;
        if number != 0 {
            host_ports.push(HostPort {
                port: number,
                protocol: port.protocol.clone().unwrap_or_default(),
                ip: port.host_ip.clone().unwrap_or_default(),
            });
        }
    }
    Ok(Container { requests: resize.apply(&from.name, asked)?, host_ports, sidecar })
}

/// Requests of the pod as a whole. A limit stands for a request that neither the pod nor a container names.
pub(crate) fn whole_pod(spec: &core::PodSpec) -> Result<Option<Resources>, Fault> {
    let Some(asked) = &spec.resources else { return Ok(None) };
    let mut amounts: Amounts = asked.requests.clone().unwrap_or_default();
    for (name, limit) in asked.limits.iter().flatten() {
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let mut lists = containers.filter_map(|container| container.resources.as_ref());
        let named = lists.any(|own| {
            [&own.requests, &own.limits].into_iter().flatten().any(|amounts| amounts.contains_key(name))
        });
        if !named {
            amounts.entry(name.clone()).or_insert_with(|| limit.clone());
        }
    }
    resources(&amounts).at("requests").at("resources").map(Some)
}

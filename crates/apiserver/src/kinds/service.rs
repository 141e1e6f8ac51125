//! Services: their addresses, ports and traffic policies.

use super::{
    container_validation::port_number_or_name,
    json::{at, child, empty, fill, fill_text, flag, has, items, items_mut, number, remove, set, text},
    names,
    pod_validation::ip_address,
    report::{Report, in_order},
};
use crate::{
    contract::{Context, GroupResource, Kind, keep},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

pub(crate) struct Services;

/// The network services get their addresses from, `10.96.0.0/16`; its first address is the server's own.
const NETWORK: [u8; 2] = [10, 96];
const FIRST_NODE_PORT: i64 = 30_000;
const NODE_PORTS: usize = 2768;
const LAST_NODE_PORT: i64 = 32_767;

impl Kind for Services {
    fn default(&self, service: &mut Value) {
        if let Some(spec) = child(service, "spec") {
            default_spec(spec);
        }
    }

    fn prepare_create(&self, service: &mut Value, context: &Context<'_>) -> Result<(), ApiError> {
        set(service, "status", json!({ "loadBalancer": {} }));
        allocate(service, None, context)
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "status");
        keep_addresses(new, old);
        allocate(new, Some(old), context)
    }

    fn validate(&self, service: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        validate_spec(at(service, &["spec"]), &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let kind = |service| text(service, &["spec", "type"]);
        if kind(new) != "ExternalName" && kind(old) != "ExternalName" {
            let (now, before) = (items(new, &["spec", "clusterIPs"]), items(old, &["spec", "clusterIPs"]));
            for (index, address) in before.iter().enumerate() {
                if now.get(index).is_some_and(|now| now != address) {
                    let field = format!("spec.clusterIPs[{index}]");
                    report.invalid(
                        field,
                        at(new, &["spec", "clusterIPs"]).clone(),
                        "may not change once set",
                    );
                }
            }
            if !before.is_empty() && now.is_empty() {
                report.invalid("spec.clusterIPs[0]", Value::Null, "primary clusterIP can not be unset");
            }
        }
        report.errors
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn is_external(spec: &Value) -> bool {
    matches!(text(spec, &["type"]), "NodePort" | "LoadBalancer")
        || (text(spec, &["type"]) == "ClusterIP" && !items(spec, &["externalIPs"]).is_empty())
}

fn is_headless(spec: &Value) -> bool {
    text(spec, &["clusterIP"]) == "None"
}

fn default_spec(spec: &mut Value) {
    fill_text(spec, "sessionAffinity", "None");
    match text(spec, &["sessionAffinity"]) {
        "None" => {
            remove(spec, "sessionAffinityConfig");
        }
        "ClientIP" if !has(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"]) => {
            set(spec, "sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": 10800 } }));
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        fill_text(port, "protocol", "TCP");
        let target = at(port, &["targetPort"]);
        if empty(target) || target.as_i64() == Some(0) {
            let own = number(port, &["port"]).unwrap_or_default();
            set(port, "targetPort", own);
        }
    }
    if is_external(spec) {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(text(spec, &["type"]), "NodePort" | "LoadBalancer" | "ClusterIP") {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if text(spec, &["type"]) == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Whoever updates a service need not repeat what the server once chose.
fn keep_addresses(new: &mut Value, old: &Value) {
    let before = at(old, &["spec"]);
    let Some(spec) = new.get_mut("spec") else { return };
    if text(spec, &["type"]) == "ExternalName" || text(before, &["type"]) == "ExternalName" {
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if empty(at(spec, &[key])) {
            // A changed single address is not overruled by the old list.
            let changed = key == "clusterIPs"
                && !text(spec, &["clusterIP"]).is_empty()
                && text(spec, &["clusterIP"]) != text(before, &["clusterIP"]);
            if !changed {
                keep(spec, before, key);
            }
        }
    }
    if matches!(text(spec, &["type"]), "NodePort" | "LoadBalancer") {
        let ports = items(before, &["ports"]).to_vec();
        for port in items_mut(spec, "ports") {
            let same = |one: &&Value| {
                at(one, &["port"]) == at(port, &["port"]) && at(one, &["protocol"]) == at(port, &["protocol"])
            };
            let known = ports.iter().find(same).and_then(|one| number(one, &["nodePort"]));
            if number(port, &["nodePort"]).unwrap_or_default() == 0
                && let Some(known) = known
            {
                set(port, "nodePort", known);
            }
        }
    }
}

/// Gives the service what it asks for or needs: an address, ports on the nodes.
fn allocate(service: &mut Value, old: Option<&Value>, context: &Context<'_>) -> Result<(), ApiError> {
    let name = text(service, &["metadata", "name"]).to_owned();
    let own = (text(service, &["metadata", "namespace"]).to_owned(), name.clone());
    let Some(spec) = service.get_mut("spec") else { return Ok(()) };
    if text(spec, &["type"]) == "ExternalName" {
        return Ok(());
    }
    // Who asks for nothing new need not look at what others have.
    let before = at(old.unwrap_or(&Value::Null), &["spec"]);
    let held = node_ports_of(before);
    let is_settled = !text(spec, &["clusterIP"]).is_empty()
        && text(spec, &["clusterIP"]) == text(before, &["clusterIP"])
        && (!needs_node_ports(spec)
            || items(spec, &["ports"]).iter().all(|port| held.contains(&node_port(port))));
    let others: Vec<_> = if is_settled {
        Vec::new()
    } else {
        let mut all = context.lookup.list(&GroupResource::new("", "services"), "");
        all.retain(|other| {
            (text(other, &["metadata", "namespace"]), text(other, &["metadata", "name"]))
                != (own.0.as_str(), own.1.as_str())
        });
        all
    };
    let list = items(spec, &["clusterIPs"]).first().and_then(Value::as_str).unwrap_or_default().to_owned();
    if text(spec, &["clusterIP"]).is_empty() && !list.is_empty() {
        set(spec, "clusterIP", list);
    } else if !text(spec, &["clusterIP"]).is_empty() && list.is_empty() {
        let address = text(spec, &["clusterIP"]).to_owned();
        set(spec, "clusterIPs", json!([address]));
    }
    let wanted = text(spec, &["clusterIP"]).to_owned();
    let taken: BTreeSet<&str> = others.iter().map(|other| text(other, &["spec", "clusterIP"])).collect();
    if wanted.is_empty() {
        let address = free_address(context, &taken);
        set(spec, "clusterIP", address.clone());
        set(spec, "clusterIPs", json!([address]));
    } else if wanted != "None"
        && text(before, &["clusterIP"]) != wanted
        && let Ok(address) = wanted.parse::<IpAddr>()
    {
        let why = if !in_network(address) {
            Some("the provided network does not match the current range")
        } else if taken.contains(wanted.as_str()) {
            Some("provided IP is already allocated")
        } else {
            None
        };
        if let Some(why) = why {
            let why = format!("failed to allocate IP {wanted}: {why}");
            let error = FieldError::invalid("spec.clusterIPs", json!([wanted]), why);
            return Err(ApiError::invalid("", "Service", &name, &[error]));
        }
    }
    if empty(at(spec, &["ipFamilies"])) {
        set(spec, "ipFamilies", json!(["IPv4"]));
    }
    fill_text(spec, "ipFamilyPolicy", "SingleStack");
    allocate_node_ports(spec, &held, &others, context)
        .map_err(|error| ApiError::invalid("", "Service", &name, &[error]))
}

fn in_network(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[..2] == NETWORK)
}

/// An address nobody has. Where the network is full the last candidate is given again: 65,000 services are
/// more than a store in memory will see.
fn free_address(context: &Context<'_>, taken: &BTreeSet<&str>) -> String {
    let start = context.chance.below(65_534);
    let address = |step: usize| {
        let host = (start + step) % 65_534 + 1;
        let [high, low] = u16::try_from(host).unwrap_or(1).to_be_bytes();
        Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low).to_string()
    };
    (0..65_534)
        .map(address)
        .find(|address| address != "10.96.0.1" && !taken.contains(address.as_str()))
        .unwrap_or_else(|| address(0))
}

fn needs_node_ports(spec: &Value) -> bool {
    match text(spec, &["type"]) {
        "NodePort" => true,
        "LoadBalancer" => flag(spec, &["allocateLoadBalancerNodePorts"]),
        _ => false,
    }
}

fn node_port(port: &Value) -> i64 {
    number(port, &["nodePort"]).unwrap_or_default()
}

fn node_ports_of(spec: &Value) -> BTreeSet<i64> {
    items(spec, &["ports"]).iter().map(node_port).filter(|port| *port != 0).collect()
}

/// Takes the ports that are named, if they are free or were `held` before, and gives the rest any that are free.
fn allocate_node_ports(
    spec: &mut Value,
    held: &BTreeSet<i64>,
    others: &[Arc<Value>],
    context: &Context<'_>,
) -> Result<(), FieldError> {
    if !needs_node_ports(spec) {
        return Ok(());
    }
    let mut taken: BTreeSet<i64> =
        others.iter().flat_map(|other| node_ports_of(at(other, &["spec"]))).collect();
    // A port is for one protocol, or for several of the same service.
    let mut own: BTreeSet<(i64, String)> = BTreeSet::new();
    for (index, port) in items(spec, &["ports"]).iter().enumerate() {
        let asked = node_port(port);
        if asked == 0 {
            continue;
        }
        let is_new = own.insert((asked, text(port, &["protocol"]).to_owned()));
        let why = if !(FIRST_NODE_PORT..=LAST_NODE_PORT).contains(&asked) {
            "provided port is not in the valid range. The range of valid ports is 30000-32767"
        } else if !is_new || (taken.contains(&asked) && !held.contains(&asked)) {
            "provided port is already allocated"
        } else {
            continue;
        };
        return Err(FieldError::invalid(format!("spec.ports[{index}].nodePort"), asked, why));
    }
    taken.extend(own.into_iter().map(|(port, _)| port));
    for port in items_mut(spec, "ports").filter(|port| node_port(port) == 0) {
        let start = context.chance.below(NODE_PORTS);
        let free = (FIRST_NODE_PORT..=LAST_NODE_PORT)
            .cycle()
            .skip(start)
            .take(NODE_PORTS)
            .find(|candidate| !taken.contains(candidate));
        if let Some(free) = free {
            taken.insert(free);
            set(port, "nodePort", free);
        }
    }
    Ok(())
}

fn validate_spec(spec: &Value, report: &mut Report) {
    let kind = text(spec, &["type"]);
    let ports = items(spec, &["ports"]);
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        report.required("spec.ports", "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            report.invalid("spec.clusterIPs[0]", "None", why);
        }
        "ExternalName" => {
            if !items(spec, &["clusterIPs"]).is_empty() || !text(spec, &["clusterIP"]).is_empty() {
                report.forbidden("spec.clusterIPs", "may not be set for ExternalName services");
            }
            let target = text(spec, &["externalName"]);
            let target = target.strip_suffix('.').unwrap_or(target);
            if target.is_empty() {
                report.required("spec.externalName", "");
            } else {
                report.wrong("spec.externalName", target, names::subdomain(target));
            }
        }
        _ => {}
    }
    each_port(ports, report);
    report.labels(spec, &["selector"], "spec.selector");
    report.one_of("spec.sessionAffinity", text(spec, &["sessionAffinity"]), &["ClientIP", "None"]);
    if let Some(seconds) = number(spec, &["sessionAffinityConfig", "clientIP", "timeoutSeconds"])
        && !(1..=86_400).contains(&seconds)
    {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        report.invalid(field, seconds, "must be greater than 0 and less than 86400");
    }
    for (index, address) in items(spec, &["clusterIPs"]).iter().filter_map(Value::as_str).enumerate() {
        if address != "None" {
            ip_address(address, format_args!("spec.clusterIPs[{index}]"), report);
        }
    }
    for (index, address) in items(spec, &["externalIPs"]).iter().filter_map(Value::as_str).enumerate() {
        ip_address(address, format_args!("spec.externalIPs[{index}]"), report);
    }
    report.one_of("spec.type", kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    port_clashes(kind, ports, report);
    if has(spec, &["allocateLoadBalancerNodePorts"]) && kind != "LoadBalancer" {
        let why = "may only be used when `type` is 'LoadBalancer'";
        report.forbidden("spec.allocateLoadBalancerNodePorts", why);
    }
    let policy = text(spec, &["externalTrafficPolicy"]);
    if is_external(spec) {
        report.one_of("spec.externalTrafficPolicy", policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        let why = "may only be set for externally-accessible services";
        report.invalid("spec.externalTrafficPolicy", policy, why);
    }
    if let Some(policy) = at(spec, &["internalTrafficPolicy"]).as_str()
        && !matches!(policy, "Cluster" | "Local")
    {
        report.unsupported("spec.internalTrafficPolicy", policy, &["Cluster", "Local"]);
    }
}

fn each_port(ports: &[Value], report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("spec.ports[{index}]");
        let name = text(port, &["name"]);
        if name.is_empty() {
            if ports.len() > 1 {
                report.required(format!("{field}.name"), "");
            }
        } else {
            report.wrong(format_args!("{field}.name"), name, names::label(name));
            if !seen.insert(name) {
                report.duplicate(format!("{field}.name"), name);
            }
        }
        let own = number(port, &["port"]).unwrap_or_default();
        for why in names::port_number(own) {
            report.invalid(format!("{field}.port"), own, why);
        }
        report.one_of(format_args!("{field}.protocol"), text(port, &["protocol"]), &["SCTP", "TCP", "UDP"]);
        port_number_or_name(at(port, &["targetPort"]), format_args!("{field}.targetPort"), report);
    }
}

fn port_clashes(kind: &str, ports: &[Value], report: &mut Report) {
    let key = |port: &Value, field: &str| {
        (text(port, &["protocol"]).to_owned(), number(port, &[field]).unwrap_or_default())
    };
    let mut on_nodes = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let node_port = key(port, "nodePort");
        if node_port.1 != 0 {
            let field = format!("spec.ports[{index}].nodePort");
            if kind == "ClusterIP" {
                report.forbidden(&field, "may not be used when `type` is 'ClusterIP'");
            }
            if !on_nodes.insert(node_port.clone()) {
                report.duplicate(&field, node_port.1);
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let own = key(port, "port");
        if !seen.insert(own.clone()) {
            // A real server shows the port in its own form.
            let shown = in_order(&[
                ("Name", "".into()),
                ("Protocol", own.0.into()),
                ("AppProtocol", Value::Null),
                ("Port", own.1.into()),
                ("TargetPort", 0.into()),
                ("NodePort", 0.into()),
            ]);
            let error = FieldError::duplicate(format!("spec.ports[{index}]"), Value::Null);
            report.push(error.shown_as(shown));
        }
    }
}

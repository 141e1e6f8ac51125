//! Whether a pod, or the template of one, makes sense.

use super::{
    container_validation::{self, Surroundings},
    json::{at, flag, has, items, number, pick, text},
    names,
    quantity::Quantity,
    report::{Place, Report},
    scheduling_validation, volume_validation,
};
use crate::field::FieldError;
use serde_json::Value;
use std::{cmp::Ordering, collections::BTreeSet};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(crate) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let mut report = Report::default();
    let spec = at(pod, &["spec"]);
    pod_annotations(at(pod, &["metadata"]), spec, format_args!("metadata.annotations"), &mut report);
    validate_spec(spec, format_args!("spec"), true, &mut report);
    if text(spec, &["serviceAccountName"]).is_empty() {
        for (index, volume) in items(spec, &["volumes"]).iter().enumerate() {
            for (place, source) in items(volume, &["projected", "sources"]).iter().enumerate() {
                if has(source, &["serviceAccountToken"]) {
                    report.forbidden(
                        format_args!("spec.volumes[{index}].projected.sources[{place}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    if !items(spec, &["ephemeralContainers"]).is_empty() {
        report.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(spec, &["nodeName"]).is_empty() && !items(spec, &["schedulingGates"]).is_empty() {
        report.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, &[list]).iter().enumerate() {
            image_without_spaces(container, format_args!("spec.{list}[{index}]"), &mut report);
        }
    }
    report.errors
}

pub(crate) fn image_without_spaces(container: &Value, field: Place<'_>, report: &mut Report) {
    let image = text(container, &["image"]);
    if image.trim().len() != image.len() {
        report.invalid(format_args!("{field}.image"), image, "must not have leading or trailing whitespace");
    }
}

/// A template's own fields; what a workload demands of it on top is the workload's.
pub(crate) fn validate_template(template: &Value, field: Place<'_>, report: &mut Report) {
    let metadata = at(template, &["metadata"]);
    let spec = at(template, &["spec"]);
    // Without `metadata` in between: a real server says so.
    report.labels(metadata, &["labels"], format_args!("{field}.labels"));
    report.annotations(metadata, format_args!("{field}.annotations"));
    pod_annotations(metadata, spec, format_args!("{field}.annotations"), report);
    validate_spec(spec, format_args!("{field}.spec"), false, report);
    if !items(spec, &["ephemeralContainers"]).is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        report.forbidden(format_args!("{field}.spec.ephemeralContainers"), why);
    }
}

fn pod_annotations(metadata: &Value, spec: &Value, field: Place<'_>, report: &mut Report) {
    let annotation = |key: &str| at(metadata, &["annotations", key]).as_str();
    if let Some(value) = annotation(MIRROR)
        && text(spec, &["nodeName"]).is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        report.invalid(format_args!("{field}[{MIRROR}]"), value, why);
    }
    if let Some(cost) = annotation(DELETION_COST) {
        // No plus sign and no leading zero: what Go's parser takes would be ambiguous.
        let canonical = cost.parse::<i32>().is_ok_and(|number| number.to_string() == cost);
        if !canonical {
            report.invalid(format_args!("{field}[{DELETION_COST}]"), cost, "must be a 32bit integer");
        }
    }
}

fn validate_spec(spec: &Value, field: Place<'_>, is_pod: bool, report: &mut Report) {
    let [
        active_deadline,
        affinity,
        dns_config,
        dns_policy,
        host_aliases,
        host_network,
        hostname,
        node_name,
        node_selector,
        os,
        overhead,
        preemption_policy,
        priority_class,
        readiness_gates,
        restart_policy,
        runtime_class,
        scheduling_gates,
        service_account,
        subdomain,
        grace_period,
        tolerations,
        spread_constraints,
        volumes,
    ] = pick(
        spec,
        [
            "activeDeadlineSeconds",
            "affinity",
            "dnsConfig",
            "dnsPolicy",
            "hostAliases",
            "hostNetwork",
            "hostname",
            "nodeName",
            "nodeSelector",
            "os",
            "overhead",
            "preemptionPolicy",
            "priorityClassName",
            "readinessGates",
            "restartPolicy",
            "runtimeClassName",
            "schedulingGates",
            "serviceAccountName",
            "subdomain",
            "terminationGracePeriodSeconds",
            "tolerations",
            "topologySpreadConstraints",
            "volumes",
        ],
    );
    let volumes = volume_validation::volumes(items(volumes, &[]), format_args!("{field}.volumes"), report);
    let around = Surroundings { volumes, grace_period: grace_period.as_i64() };
    container_validation::containers(spec, &around, field, report);
    if flag(host_network, &[]) {
        host_network_ports(spec, field, is_pod, report);
    }
    let policies = ["Always", "OnFailure", "Never"];
    report.one_of(format_args!("{field}.restartPolicy"), text(restart_policy, &[]), &policies);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    report.one_of(format_args!("{field}.dnsPolicy"), text(dns_policy, &[]), &policies);
    report.labels(node_selector, &[], format_args!("{field}.nodeSelector"));
    security_context(spec, field, report);
    scheduling_validation::affinity(affinity, format_args!("{field}.affinity"), report);
    self::dns_config(text(dns_policy, &[]), dns_config, format_args!("{field}.dnsConfig"), report);
    for (index, gate) in items(readiness_gates, &[]).iter().enumerate() {
        let kind = text(gate, &["conditionType"]);
        let field = format_args!("{field}.readinessGates[{index}].conditionType");
        report.wrong(field, kind, names::qualified_name(kind));
    }
    let mut gates = BTreeSet::new();
    for (index, gate) in items(scheduling_gates, &[]).iter().enumerate() {
        let name = text(gate, &["name"]);
        let field = format_args!("{field}.schedulingGates[{index}]");
        report.wrong(field, name, names::qualified_name(name));
        if !gates.insert(name) {
            report.duplicate(field, name);
        }
    }
    scheduling_validation::spread_constraints(
        items(spread_constraints, &[]),
        format_args!("{field}.topologySpreadConstraints"),
        report,
    );
    named(service_account, format_args!("{field}.serviceAccountName"), names::subdomain, report);
    named(node_name, format_args!("{field}.nodeName"), names::subdomain, report);
    if let Some(seconds) = active_deadline.as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = names::between(1, i64::from(i32::MAX));
        report.invalid(format_args!("{field}.activeDeadlineSeconds"), seconds, why);
    }
    named(hostname, format_args!("{field}.hostname"), names::label, report);
    named(subdomain, format_args!("{field}.subdomain"), names::label, report);
    scheduling_validation::tolerations(items(tolerations, &[]), format_args!("{field}.tolerations"), report);
    for (index, alias) in items(host_aliases, &[]).iter().enumerate() {
        let field = format_args!("{field}.hostAliases[{index}]");
        ip_address(text(alias, &["ip"]), format_args!("{field}.ip"), report);
        for (place, name) in items(alias, &["hostnames"]).iter().filter_map(Value::as_str).enumerate() {
            report.wrong(format_args!("{field}.hostnames[{place}]"), name, names::subdomain(name));
        }
    }
    named(priority_class, format_args!("{field}.priorityClassName"), names::subdomain, report);
    named(runtime_class, format_args!("{field}.runtimeClassName"), names::subdomain, report);
    if let Some(policy) = preemption_policy.as_str() {
        report.one_of(format_args!("{field}.preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    self::overhead(overhead, format_args!("{field}.overhead"), report);
    if let Some(system) = at(os, &["name"]).as_str() {
        report.one_of(format_args!("{field}.os.name"), system, &["linux", "windows"]);
    }
}

fn named(name: &Value, field: Place<'_>, check: fn(&str) -> Vec<String>, report: &mut Report) {
    let name = text(name, &[]);
    if !name.is_empty() {
        report.wrong(field, name, check(name));
    }
}

pub(crate) fn ip_address(address: &str, field: Place<'_>, report: &mut Report) {
    if address.parse::<std::net::IpAddr>().is_err() {
        report.invalid(field, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

fn host_network_ports(spec: &Value, field: Place<'_>, is_pod: bool, report: &mut Report) {
    for (index, container) in items(spec, &["containers"]).iter().enumerate() {
        for (place, port) in items(container, &["ports"]).iter().enumerate() {
            let host = number(port, &["hostPort"]).unwrap_or_default();
            let own = number(port, &["containerPort"]).unwrap_or_default();
            if (is_pod || host != 0) && host != own {
                let field = format_args!("{field}.containers[{index}].ports[{place}].hostPort");
                report.invalid(field, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn security_context(spec: &Value, field: Place<'_>, report: &mut Report) {
    let context = at(spec, &["securityContext"]);
    let field = format_args!("{field}.securityContext");
    container_validation::user_and_groups(context, field, report);
    if flag(spec, &["shareProcessNamespace"]) && flag(spec, &["hostPID"]) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.invalid(format_args!("{field}.shareProcessNamespace"), true, why);
    }
    if let Some(policy) = at(context, &["fsGroupChangePolicy"]).as_str()
        && !matches!(policy, "Always" | "OnRootMismatch")
    {
        report.unsupported(
            format_args!("{field}.fsGroupChangePolicy"),
            policy,
            &["Always", "OnRootMismatch"],
        );
    }
    let profile = at(context, &["seccompProfile"]);
    container_validation::seccomp(profile, format_args!("{field}.seccompProfile"), report);
}

fn dns_config(policy: &str, config: &Value, field: Place<'_>, report: &mut Report) {
    let servers = items(config, &["nameservers"]);
    if policy == "None" {
        if config.is_null() {
            report.required(field, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            report.required(format_args!("{field}.nameservers"), why);
            return;
        }
    }
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        report.invalid(format_args!("{field}.nameservers"), at(config, &["nameservers"]).clone(), why);
    }
    for (index, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        ip_address(server, format_args!("{field}.nameservers[{index}]"), report);
    }
    for (index, option) in items(config, &["options"]).iter().enumerate() {
        if text(option, &["name"]).is_empty() {
            report.required(format_args!("{field}.options[{index}]"), "must not be empty");
        }
    }
}

fn overhead(overhead: &Value, field: Place<'_>, report: &mut Report) {
    for (name, quantity) in super::json::entries(overhead, &[]) {
        let amount = quantity.as_str().unwrap_or_default();
        if Quantity::parse(amount).is_some_and(|value| value.sign() == Ordering::Less) {
            let field = format_args!("{field}.limits[{name}]");
            report.invalid(field, amount, "must be greater than or equal to 0");
        }
    }
}

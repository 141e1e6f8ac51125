//! The containers of a pod.

use super::{
    json::{at, entries, flag, has, items, number, pick, text},
    names,
    quantity::Quantity,
    report::{Place, Report},
    volume_validation::{descending_path, no_backsteps},
};
use serde_json::Value;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

/// What a container's checks need to know of its pod.
pub(crate) struct Surroundings<'a> {
    /// The sound volumes; whether each can be a block device.
    pub(crate) volumes: BTreeMap<&'a str, bool>,
    pub(crate) grace_period: Option<i64>,
}

pub(crate) fn containers(spec: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let containers = items(spec, &["containers"]);
    let list = format_args!("{field}.containers");
    if containers.is_empty() {
        report.required(list, "");
    }
    let mut seen = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let field = format_args!("{list}[{index}]");
        common(container, around, field, report);
        let name = text(container, &["name"]);
        if !seen.insert(name) {
            report.duplicate(format_args!("{field}.name"), name);
        }
        lifecycle_and_probes(container, around, field, report);
        restart_policy(container, field, report);
    }
    host_ports(containers, list, report);
    init_containers(spec, seen, around, field, report);
}

fn init_containers<'a>(
    spec: &'a Value,
    mut seen: BTreeSet<&'a str>,
    around: &Surroundings<'_>,
    field: Place<'_>,
    report: &mut Report,
) {
    let list = format_args!("{field}.initContainers");
    for (index, container) in items(spec, &["initContainers"]).iter().enumerate() {
        let field = format_args!("{list}[{index}]");
        common(container, around, field, report);
        restart_policy(container, field, report);
        let name = text(container, &["name"]);
        if seen.contains(name) {
            report.duplicate(format_args!("{field}.name"), name);
        } else if !name.is_empty() {
            seen.insert(name);
        }
        host_ports(std::slice::from_ref(container), list, report);
        if text(container, &["restartPolicy"]) == "Always" {
            lifecycle_and_probes(container, around, field, report);
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if has(container, &[key]) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    report.forbidden(format_args!("{field}.{key}"), why);
                }
            }
        }
    }
}

fn common(container: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let [image, pull_policy, name, requirements, security, message_policy] = pick(
        container,
        ["image", "imagePullPolicy", "name", "resources", "securityContext", "terminationMessagePolicy"],
    );
    let name = text(name, &[]);
    if name.is_empty() {
        report.required(format_args!("{field}.name"), "");
    } else {
        report.wrong(format_args!("{field}.name"), name, names::label(name));
    }
    if text(image, &[]).is_empty() {
        report.required(format_args!("{field}.image"), "");
    }
    report.one_of(
        format_args!("{field}.terminationMessagePolicy"),
        text(message_policy, &[]),
        &["File", "FallbackToLogsOnError"],
    );
    ports(container, format_args!("{field}.ports"), report);
    environment(container, field, report);
    mounts(container, around, format_args!("{field}.volumeMounts"), report);
    devices(container, around, format_args!("{field}.volumeDevices"), report);
    report.one_of(
        format_args!("{field}.imagePullPolicy"),
        text(pull_policy, &[]),
        &["Always", "IfNotPresent", "Never"],
    );
    resources(requirements, format_args!("{field}.resources"), report);
    security_context(security, format_args!("{field}.securityContext"), report);
}

fn restart_policy(container: &Value, field: Place<'_>, report: &mut Report) {
    let policy = at(container, &["restartPolicy"]);
    if let Some(policy) = policy.as_str() {
        let supported = ["Always", "Never", "OnFailure"];
        if !supported.contains(&policy) {
            report.unsupported(format_args!("{field}.restartPolicy"), policy, &supported);
        }
    } else if !items(container, &["restartPolicyRules"]).is_empty() {
        let why = "must specify restartPolicy when restart rules are used";
        report.required(format_args!("{field}.restartPolicy"), why);
    }
}

fn ports(container: &Value, field: Place<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, port) in items(container, &["ports"]).iter().enumerate() {
        let field = format_args!("{field}[{index}]");
        let name = text(port, &["name"]);
        if !name.is_empty() {
            let wrong = names::port_name(name);
            if !wrong.is_empty() {
                report.wrong(format_args!("{field}.name"), name, wrong);
            } else if !seen.insert(name) {
                report.duplicate(format_args!("{field}.name"), name);
            }
        }
        let number_of = |key: &str| number(port, &[key]).unwrap_or_default();
        if number_of("containerPort") == 0 {
            report.required(format_args!("{field}.containerPort"), "");
        }
        for key in ["containerPort", "hostPort"] {
            let value = number_of(key);
            if value != 0 {
                for why in names::port_number(value) {
                    report.invalid(format_args!("{field}.{key}"), value, why);
                }
            }
        }
        report.one_of(format_args!("{field}.protocol"), text(port, &["protocol"]), &["SCTP", "TCP", "UDP"]);
    }
}

/// Two containers of a pod cannot take the same port of their host.
fn host_ports(containers: &[Value], field: Place<'_>, report: &mut Report) {
    let mut taken = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (place, port) in items(container, &["ports"]).iter().enumerate() {
            let host_port = number(port, &["hostPort"]).unwrap_or_default();
            if host_port == 0 {
                continue;
            }
            let key = format!("{}/{}/{host_port}", text(port, &["protocol"]), text(port, &["hostIP"]));
            if !taken.insert(key.clone()) {
                report.duplicate(format_args!("{field}[{index}].ports[{place}].hostPort"), key);
            }
        }
    }
}

const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn environment(container: &Value, field: Place<'_>, report: &mut Report) {
    for (index, variable) in items(container, &["env"]).iter().enumerate() {
        let field = format_args!("{field}.env[{index}]");
        let name = text(variable, &["name"]);
        if name.is_empty() {
            report.required(format_args!("{field}.name"), "");
        } else {
            report.wrong(format_args!("{field}.name"), name, names::environment_name(name));
        }
        if has(variable, &["valueFrom"]) {
            value_from(variable, format_args!("{field}.valueFrom"), report);
        }
    }
    let list = format_args!("{field}.envFrom");
    for (index, source) in items(container, &["envFrom"]).iter().enumerate() {
        let field = format_args!("{list}[{index}]");
        let prefix = text(source, &["prefix"]);
        if !prefix.is_empty() {
            report.wrong(format_args!("{field}.prefix"), prefix, names::environment_name(prefix));
        }
        let mut sources = 0;
        for kind in ["configMapRef", "secretRef"] {
            if has(source, &[kind]) {
                sources += 1;
                let name = text(source, &[kind, "name"]);
                if name.is_empty() {
                    report.required(format_args!("{field}.{kind}.name"), "");
                } else {
                    let wrong = names::name_errors(names::NameRule::Subdomain, name, true);
                    report.wrong(format_args!("{field}.{kind}.name"), name, wrong);
                }
            }
        }
        if sources == 0 {
            report.invalid(list, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if sources > 1 {
            report.invalid(list, "", "may not have more than one field specified at a time");
        }
    }
}

fn value_from(variable: &Value, field: Place<'_>, report: &mut Report) {
    let source = at(variable, &["valueFrom"]);
    let mut sources = 0;
    if has(source, &["fieldRef"]) {
        sources += 1;
        field_reference(at(source, &["fieldRef"]), format_args!("{field}.fieldRef"), report);
    }
    if has(source, &["resourceFieldRef"]) {
        sources += 1;
        if text(source, &["resourceFieldRef", "resource"]).is_empty() {
            report.required(format_args!("{field}.resourceFieldRef.resource"), "");
        }
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if has(source, &[kind]) {
            sources += 1;
            let name = text(source, &[kind, "name"]);
            report.wrong(format_args!("{field}.{kind}.name"), name, names::subdomain(name));
            let key = text(source, &[kind, "key"]);
            if key.is_empty() {
                report.required(format_args!("{field}.{kind}.key"), "");
            } else {
                report.wrong(format_args!("{field}.{kind}.key"), key, names::config_key(key));
            }
        }
    }
    if has(source, &["fileKeyRef"]) {
        sources += 1;
    }
    if sources == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        report.invalid(field, "", why);
    } else if !text(variable, &["value"]).is_empty() {
        report.invalid(field, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        report.invalid(field, "", "may not have more than one field specified at a time");
    }
}

fn field_reference(reference: &Value, field: Place<'_>, report: &mut Report) {
    let path = text(reference, &["fieldPath"]);
    if path.is_empty() {
        report.required(format_args!("{field}.fieldPath"), "");
        return;
    }
    let subscript = |map: &str| path.strip_prefix(map)?.strip_prefix("['")?.strip_suffix("']");
    if let Some(key) = subscript("metadata.labels") {
        report.wrong(field, key, names::qualified_name(key));
    } else if let Some(key) = subscript("metadata.annotations") {
        report.wrong(field, key, names::qualified_name(&key.to_lowercase()));
    } else if !FIELD_PATHS.contains(&path) {
        if matches!(path, "metadata.labels" | "metadata.annotations") {
            report.unsupported(format_args!("{field}.fieldPath"), path, &FIELD_PATHS);
        } else {
            let why = format!("error converting fieldPath: field label not supported: {path}");
            report.invalid(format_args!("{field}.fieldPath"), path, why);
        }
    }
}

fn mounts(container: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let devices = items(container, &["volumeDevices"]);
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, &["volumeMounts"]).iter().enumerate() {
        let place = format_args!("{field}[{index}]");
        let name = text(mount, &["name"]);
        let path = text(mount, &["mountPath"]);
        if name.is_empty() {
            report.required(format_args!("{place}.name"), "");
        }
        if !around.volumes.contains_key(name) {
            report.not_found(format_args!("{place}.name"), name);
        }
        if path.is_empty() {
            report.required(format_args!("{place}.mountPath"), "");
        }
        if !paths.insert(path) {
            report.invalid(format_args!("{place}.mountPath"), path, "must be unique");
        }
        if devices.iter().any(|device| text(device, &["name"]) == name) {
            report.invalid(format_args!("{place}.name"), name, "must not already exist in volumeDevices");
        }
        if devices.iter().any(|device| text(device, &["devicePath"]) == path) {
            let why = "must not already exist as a path in volumeDevices";
            report.invalid(format_args!("{place}.mountPath"), path, why);
        }
        let sub_path = text(mount, &["subPath"]);
        let expression = text(mount, &["subPathExpr"]);
        if !sub_path.is_empty() {
            descending_path(sub_path, format_args!("{field}.subPath"), report);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let why = "subPathExpr and subPath are mutually exclusive";
                report.invalid(format_args!("{place}.subPathExpr"), expression, why);
            }
            descending_path(expression, format_args!("{field}.subPathExpr"), report);
        }
        if let Some(propagation) = at(mount, &["mountPropagation"]).as_str() {
            let supported = ["Bidirectional", "HostToContainer", "None"];
            if !supported.contains(&propagation) {
                report.unsupported(format_args!("{field}.mountPropagation"), propagation, &supported);
            }
            if propagation == "Bidirectional" && !flag(container, &["securityContext", "privileged"]) {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                report.forbidden(format_args!("{field}.mountPropagation"), why);
            }
        }
    }
}

fn devices(container: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let (mut device_names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(container, &["volumeDevices"]).iter().enumerate() {
        let field = format_args!("{field}[{index}]");
        let name = text(device, &["name"]);
        let path = text(device, &["devicePath"]);
        if name.is_empty() {
            report.required(format_args!("{field}.name"), "");
        }
        if !device_names.insert(name) {
            report.invalid(format_args!("{field}.name"), name, "must be unique");
        }
        match around.volumes.get(name) {
            None => report.not_found(format_args!("{field}.name"), name),
            Some(false) => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                report.invalid(format_args!("{field}.name"), name, why);
            }
            Some(true) => {}
        }
        if path.is_empty() {
            report.required(format_args!("{field}.devicePath"), "");
        }
        if !paths.insert(path) {
            report.invalid(format_args!("{field}.devicePath"), path, "must be unique");
        }
        no_backsteps(path, format_args!("{field}.devicePath"), report);
    }
}

/// Names and amounts of what a container asks for and may use.
pub(crate) fn resources(resources: &Value, field: Place<'_>, report: &mut Report) {
    let huge = |name: &str| name.starts_with("hugepages-");
    let (limits, requests) = (entries(resources, &["limits"]), entries(resources, &["requests"]));
    for (name, quantity) in &limits {
        resource(name, quantity, format_args!("{field}.limits[{name}]"), report);
    }
    for (name, quantity) in &requests {
        resource(name, quantity, format_args!("{field}.requests[{name}]"), report);
        let shared = is_native(name) && !huge(name);
        let amount = quantity.as_str().unwrap_or_default();
        if let Some((_, limit)) = limits.iter().find(|(other, _)| other == name) {
            let limit = limit.as_str().unwrap_or_default();
            let order = Quantity::parse(amount).cmp(&Quantity::parse(limit));
            if order != Ordering::Equal && !shared {
                let why = format!("must be equal to {name} limit of {limit}");
                report.invalid(format_args!("{field}.requests"), amount, why);
            } else if order == Ordering::Greater {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                report.invalid(format_args!("{field}.requests"), amount, why);
            }
        } else if !shared {
            report.required(
                format_args!("{field}.limits"),
                "Limit must be set for non overcommitable resources",
            );
        }
    }
    let mut all = limits.iter().chain(&requests).map(|(name, _)| *name);
    if all.clone().any(huge) && !all.any(|name| matches!(name, "cpu" | "memory")) {
        report.forbidden(field, "HugePages require cpu or memory");
    }
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn resource(name: &str, quantity: &Value, field: Place<'_>, report: &mut Report) {
    let wrong = names::qualified_name(name);
    let well_named = wrong.is_empty();
    report.wrong(field, name, wrong);
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') {
        let known = standard || matches!(name, "storage" | "pods" | "services");
        if well_named && !known {
            report.invalid(field, name, "must be a standard resource type or fully qualified");
        }
        if !standard {
            report.invalid(field, name, "must be a standard resource for containers");
        }
    } else if !is_native(name)
        && (name.starts_with("requests.") || !names::qualified_name(&format!("requests.{name}")).is_empty())
    {
        report.invalid(field, name, "doesn't follow extended resource name standard");
    }
    let amount = quantity.as_str().unwrap_or_default();
    if let Some(value) = Quantity::parse(amount) {
        if value.sign() == Ordering::Less {
            report.invalid(field, amount, "must be greater than or equal to 0");
        }
        if !is_native(name) && !value.is_whole() {
            report.invalid(field, amount, "must be an integer");
        }
    }
}

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

fn lifecycle_and_probes(container: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
    let [lifecycle, liveness, readiness, startup] =
        pick(container, ["lifecycle", probes[0], probes[1], probes[2]]);
    for hook in ["postStart", "preStop"] {
        let action = at(lifecycle, &[hook]);
        if !action.is_null() {
            handler(action, around, format_args!("{field}.lifecycle.{hook}"), report);
        }
    }
    for (name, probe) in probes.into_iter().zip([liveness, readiness, startup]) {
        if probe.is_null() {
            continue;
        }
        let field = format_args!("{field}.{name}");
        handler(probe, around, field, report);
        for key in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            report.not_negative(probe, key, field);
        }
        let grace = number(probe, &["terminationGracePeriodSeconds"]);
        if let Some(seconds) = grace
            && seconds <= 0
        {
            report.invalid(
                format_args!("{field}.terminationGracePeriodSeconds"),
                seconds,
                "must be greater than 0",
            );
        }
        if name == "readinessProbe" {
            if let Some(seconds) = grace {
                let why = "must not be set for readinessProbes";
                report.invalid(format_args!("{field}.terminationGracePeriodSeconds"), seconds, why);
            }
        } else if let Some(threshold) = number(probe, &["successThreshold"])
            && threshold != 1
        {
            report.invalid(format_args!("{field}.successThreshold"), threshold, "must be 1");
        }
    }
}

fn handler(action: &Value, around: &Surroundings<'_>, field: Place<'_>, report: &mut Report) {
    let mut found = HANDLERS.iter().filter(|handler| has(action, &[handler]));
    let Some(first) = found.next() else {
        report.required(field, "must specify a handler type");
        return;
    };
    let value = at(action, &[first]);
    let place = format_args!("{field}.{first}");
    match *first {
        "exec" if items(value, &["command"]).is_empty() => {
            report.required(format_args!("{place}.command"), "");
        }
        "httpGet" => {
            if text(value, &["path"]).is_empty() {
                report.required(format_args!("{place}.path"), "");
            }
            port_number_or_name(at(value, &["port"]), format_args!("{place}.port"), report);
            let scheme = text(value, &["scheme"]);
            if !matches!(scheme, "HTTP" | "HTTPS") {
                report.unsupported(format_args!("{place}.scheme"), scheme, &["HTTP", "HTTPS"]);
            }
        }
        "tcpSocket" | "grpc" => {
            port_number_or_name(at(value, &["port"]), format_args!("{place}.port"), report);
        }
        "sleep" => {
            let seconds = number(value, &["seconds"]).unwrap_or_default();
            if let Some(grace) = around.grace_period
                && (seconds < 0 || seconds > grace)
            {
                let why =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                report.invalid(place, seconds, why);
            }
        }
        _ => {}
    }
    for other in found {
        report.forbidden(format_args!("{field}.{other}"), "may not specify more than 1 handler type");
    }
}

pub(crate) fn port_number_or_name(port: &Value, field: Place<'_>, report: &mut Report) {
    if let Some(name) = port.as_str() {
        report.wrong(field, name, names::port_name(name));
    } else {
        let number = port.as_i64().unwrap_or_default();
        for why in names::port_number(number) {
            report.invalid(field, number, why);
        }
    }
}

fn security_context(context: &Value, field: Place<'_>, report: &mut Report) {
    user_and_groups(context, field, report);
    seccomp(at(context, &["seccompProfile"]), format_args!("{field}.seccompProfile"), report);
    if at(context, &["allowPrivilegeEscalation"]).as_bool() == Some(false) {
        if flag(context, &["privileged"]) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            report.invalid(field, context.clone(), why);
        }
        let added = items(context, &["capabilities", "add"]);
        if added.iter().any(|capability| capability.as_str() == Some("CAP_SYS_ADMIN")) {
            let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            report.invalid(field, context.clone(), why);
        }
    }
}

pub(crate) fn user_and_groups(context: &Value, field: Place<'_>, report: &mut Report) {
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = number(context, &[key])
            && !(0..=i64::from(i32::MAX)).contains(&id)
        {
            report.invalid(format_args!("{field}.{key}"), id, names::between(0, i64::from(i32::MAX)));
        }
    }
}

pub(crate) fn seccomp(profile: &Value, field: Place<'_>, report: &mut Report) {
    if profile.is_null() {
        return;
    }
    let kind = text(profile, &["type"]);
    if kind.is_empty() {
        report.required(format_args!("{field}.type"), "type is required when seccompProfile is set");
    } else {
        report.one_of(format_args!("{field}.type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let place = format_args!("{field}.localhostProfile");
    match (kind, at(profile, &["localhostProfile"]).as_str()) {
        ("Localhost", None) => report.required(place, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(path)) => descending_path(path, place, report),
        (_, Some(_)) => {
            report.invalid(place, profile.clone(), "can only be set when seccomp type is Localhost");
        }
        _ => {}
    }
}

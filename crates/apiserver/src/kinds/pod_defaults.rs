//! What a pod and a pod template get when it was left out.

use super::json::{at, child, empty, fill, fill_number, fill_text, flag, has, items_mut, set, text};
use serde_json::{Value, json};

const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Fills a pod: its spec, and what only a pod gets but no template.
pub(crate) fn default_pod(pod: &mut Value) {
    let Some(spec) = child(pod, "spec") else { return };
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
        }
    }
    fill(spec, "enableServiceLinks", true);
    if flag(spec, &["hostNetwork"]) {
        for list in ["containers", "initContainers"] {
            items_mut(spec, list).for_each(host_ports);
        }
    }
    default_pod_spec(spec);
}

/// Old clients know one address of a pod, new ones a list of them: where they differ the one counts.
pub(crate) fn one_list_of_addresses(pod: &mut Value) {
    let address = text(pod, &["status", "podIP"]).to_owned();
    let first = at(pod, &["status", "podIPs"]).get(0).map(|entry| text(entry, &["ip"]));
    if !address.is_empty()
        && first != Some(address.as_str())
        && let Some(status) = child(pod, "status")
    {
        set(status, "podIPs", json!([{ "ip": address }]));
    }
}

/// Fills the template of a workload at `spec.template`.
pub(crate) fn default_template(workload: &mut Value) {
    if let Some(spec) = child(workload, "spec")
        && let Some(template) = child(spec, "template")
    {
        child(template, "metadata");
        if let Some(pod_spec) = child(template, "spec") {
            default_pod_spec(pod_spec);
        }
    }
}

fn default_pod_spec(spec: &mut Value) {
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    fill_text(spec, "schedulerName", "default-scheduler");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    mirror_service_account(spec);
    if let Some(constraints) = spec.get_mut("topologySpreadConstraints").and_then(Value::as_array_mut) {
        constraints.iter_mut().for_each(drop_spread_defaults);
    }
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(default_container);
    }
    items_mut(spec, "volumes").for_each(default_volume);
}

/// Node inclusion policies stay as they are; an empty text is the same as none.
fn drop_spread_defaults(constraint: &mut Value) {
    for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        if constraint.get(key).and_then(Value::as_str) == Some("") {
            super::json::remove(constraint, key);
        }
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are shown, the new one wins.
fn mirror_service_account(spec: &mut Value) {
    let name = [text(spec, &["serviceAccountName"]), text(spec, &["serviceAccount"])]
        .into_iter()
        .find(|name| !name.is_empty())
        .map(str::to_owned);
    if let Some(name) = name {
        set(spec, "serviceAccountName", name.clone());
        set(spec, "serviceAccount", name);
    }
}

fn default_container(container: &mut Value) {
    let policy = if tag_is_latest(text(container, &["image"])) { "Always" } else { "IfNotPresent" };
    fill_text(container, "imagePullPolicy", policy);
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    for port in items_mut(container, "ports") {
        fill_text(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            if let Some(reference) = source.get_mut("fieldRef") {
                fill_text(reference, "apiVersion", "v1");
            }
            if let Some(reference) = source.get_mut("fileKeyRef") {
                fill(reference, "optional", false);
            }
            if let Some(reference) = source.get_mut("resourceFieldRef") {
                fill(reference, "divisor", "0");
            }
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(action) = container.get_mut("lifecycle").and_then(|lifecycle| lifecycle.get_mut(hook)) {
            default_http_get(action);
        }
    }
}

fn default_probe(probe: &mut Value) {
    if !probe.is_object() {
        return;
    }
    fill_number(probe, "timeoutSeconds", 1);
    fill_number(probe, "periodSeconds", 10);
    fill_number(probe, "successThreshold", 1);
    fill_number(probe, "failureThreshold", 3);
    default_http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc") {
        fill(grpc, "service", "");
    }
}

fn default_http_get(action: &mut Value) {
    if let Some(get) = action.get_mut("httpGet") {
        fill_text(get, "path", "/");
        fill_text(get, "scheme", "HTTP");
    }
}

/// Whether the image's tag is `latest`, which it also is when there is neither tag nor digest.
fn tag_is_latest(image: &str) -> bool {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest && !image.is_empty(),
    }
}

fn requests_from_limits(container: &mut Value) {
    let resources = at(container, &["resources"]);
    let Some(limits) = at(resources, &["limits"]).as_object() else { return };
    let missing: Vec<(String, Value)> = limits
        .iter()
        .filter(|(name, _)| !has(resources, &["requests", name]))
        .map(|(name, quantity)| (name.clone(), quantity.clone()))
        .collect();
    if let Some(resources) = container.get_mut("resources")
        && let Some(requests) = child(resources, "requests")
    {
        for (name, quantity) in missing {
            fill(requests, &name, quantity);
        }
        if empty(requests) {
            super::json::remove(resources, "requests");
        }
    }
}

fn host_ports(container: &mut Value) {
    for port in items_mut(container, "ports") {
        if let Some(number) = port.get("containerPort").and_then(Value::as_i64) {
            fill_number(port, "hostPort", number);
        }
    }
}

fn default_volume(volume: &mut Value) {
    let Some(fields) = volume.as_object() else { return };
    if fields.iter().all(|(key, value)| key == "name" || value.is_null()) {
        set(volume, "emptyDir", json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            fill(source, "defaultMode", 420);
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        fill(path, "type", "");
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = if tag_is_latest(text(image, &["reference"])) { "Always" } else { "IfNotPresent" };
        fill_text(image, "pullPolicy", policy);
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        fill(disk, "cachingMode", "ReadWrite");
        fill(disk, "fsType", "ext4");
        fill(disk, "readOnly", false);
        fill(disk, "kind", "Shared");
    }
    if let Some(iscsi) = volume.get_mut("iscsi") {
        fill_text(iscsi, "iscsiInterface", "default");
    }
    if let Some(downward) = volume.get_mut("downwardAPI") {
        items_mut(downward, "items").for_each(default_field_ref);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items_mut(projected, "sources") {
            if let Some(token) = source.get_mut("serviceAccountToken") {
                fill(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = source.get_mut("downwardAPI") {
                items_mut(downward, "items").for_each(default_field_ref);
            }
        }
    }
    if let Some(template) =
        volume.get_mut("ephemeral").and_then(|source| source.get_mut("volumeClaimTemplate"))
        && has(template, &["spec"])
        && let Some(spec) = template.get_mut("spec")
    {
        fill(spec, "volumeMode", "Filesystem");
        fill(spec, "resources", json!({}));
    }
}

fn default_field_ref(item: &mut Value) {
    if let Some(reference) = item.get_mut("fieldRef") {
        fill_text(reference, "apiVersion", "v1");
    }
    if let Some(reference) = item.get_mut("resourceFieldRef") {
        fill(reference, "divisor", "0");
    }
}

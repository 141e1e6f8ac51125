//! What there is: groups, versions and resources, in the old form and aggregated, and their OpenAPI schemas.

use crate::{
    error::ApiError,
    handlers::json_answer,
    negotiate::{self, Form},
    registry::{Registry, Resource},
    request::{Place, api_version},
    server::Core,
};
use hostler_base::transport::Body;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The order in which a real server lists its own groups; others follow by name.
const ORDER: [&str; 13] = [
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "certificates.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
];

/// A group with its versions, the preferred one first.
struct Group {
    name: String,
    versions: Vec<String>,
}

/// The groups of the registry and those behind other servers.
fn all_groups(core: &Core) -> Vec<Group> {
    let mut groups = groups(&core.registry);
    groups.extend(
        core.extensions.all().iter().map(|extension| Group {
            name: extension.group.clone(),
            versions: vec![extension.version.clone()],
        }),
    );
    sort(&mut groups);
    groups
}

fn sort(groups: &mut [Group]) {
    let rank = |name: &str| ORDER.iter().position(|one| *one == name).unwrap_or(ORDER.len());
    groups.sort_by(|left, right| {
        rank(&left.name).cmp(&rank(&right.name)).then_with(|| left.name.cmp(&right.name))
    });
}

fn groups(registry: &Registry) -> Vec<Group> {
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in registry.all() {
        let known = versions.entry(resource.group().to_owned()).or_default();
        for version in &resource.versions {
            if !known.contains(version) {
                known.push(version.clone());
            }
        }
    }
    let mut groups: Vec<Group> = versions
        .into_iter()
        .map(|(name, mut versions)| {
            crate::registry::sort_versions(&mut versions);
            Group { name, versions }
        })
        .collect();
    sort(&mut groups);
    groups
}

pub(crate) fn answer(
    core: &Core,
    path: &str,
    place: &Place,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let registry = &core.registry;
    match place {
        Place::CoreVersions | Place::Groups => {
            let form = negotiate::form(headers, true)?;
            let core_group = *place == Place::CoreVersions;
            if form == Form::Discovery {
                let mut response = json_answer(StatusCode::OK, &aggregated(core, core_group));
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
                return Ok(response);
            }
            let document = if core_group { core_versions() } else { group_list(core) };
            Ok(json_answer(StatusCode::OK, &document))
        }
        Place::Group(name) => {
            let groups = groups(registry);
            let group = groups.iter().find(|group| group.name == *name && !name.is_empty());
            let mut document = group_document(group.ok_or_else(ApiError::no_such_path)?);
            document["kind"] = json!("APIGroup");
            document["apiVersion"] = json!("v1");
            Ok(json_answer(StatusCode::OK, &document))
        }
        Place::Version { group, version } => {
            let resources = resources(registry, group, version);
            if resources.is_empty() {
                return Err(ApiError::no_such_path());
            }
            let entries: Vec<Value> =
                resources.iter().flat_map(|resource| legacy_entries(resource, version)).collect();
            let document = json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version(group, version),
                "resources": entries,
            });
            Ok(json_answer(StatusCode::OK, &document))
        }
        _ if path == "/" => Ok(json_answer(StatusCode::OK, &root(core))),
        _ => crate::openapi::answer(core, path),
    }
}

pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Vec<Arc<Resource>> {
    let served = |resource: &Arc<Resource>| resource.versions.iter().any(|one| one == version);
    registry.all().into_iter().filter(|resource| resource.group() == group && served(resource)).collect()
}

/// Every served group and version.
pub(crate) fn group_versions(registry: &Registry) -> Vec<(String, String)> {
    let pairs = |group: Group| {
        let name = group.name;
        group.versions.into_iter().map(move |version| (name.clone(), version))
    };
    groups(registry).into_iter().flat_map(pairs).collect()
}

fn root(core: &Core) -> Value {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .to_vec();
    for group in all_groups(core) {
        let base = if group.name.is_empty() { "/api".to_owned() } else { format!("/apis/{}", group.name) };
        paths.extend(group.versions.iter().map(|version| format!("{base}/{version}")));
        paths.push(base);
    }
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    })
}

fn group_document(group: &Group) -> Value {
    let version =
        |version: &String| json!({"groupVersion": api_version(&group.name, version), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

fn group_list(core: &Core) -> Value {
    let groups: Vec<Value> =
        all_groups(core).iter().filter(|group| !group.name.is_empty()).map(group_document).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn legacy_entries(resource: &Resource, version: &str) -> Vec<Value> {
    let mut main = json!({
        "name": resource.name(), "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let mut entries = vec![main];
    for sub in resource.subresources_of(version) {
        let mut entry = json!({
            "name": format!("{}/{}", resource.name(), sub.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": sub.verbs,
        });
        if let Some((group, version, kind)) = sub.response {
            entry["kind"] = json!(kind);
            if !group.is_empty() {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
        }
        entries.push(entry);
    }
    entries
}

fn aggregated(core: &Core, core_group: bool) -> Value {
    let groups = all_groups(core);
    let items: Vec<Value> = groups
        .iter()
        .filter(|group| group.name.is_empty() == core_group)
        .map(|group| {
            let versions: Vec<Value> =
                group.versions.iter().map(|version| aggregated_version(core, &group.name, version)).collect();
            json!({"metadata": {"name": group.name, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    })
}

fn aggregated_version(core: &Core, group: &str, version: &str) -> Value {
    if let Some(extension) = core.extensions.of(group) {
        return extension.discovery();
    }
    let resources: Vec<Value> = resources(&core.registry, group, version)
        .iter()
        .map(|resource| aggregated_entry(resource, version))
        .collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_entry(resource: &Resource, version: &str) -> Value {
    let own = json!({"group": resource.group(), "version": version, "kind": resource.kind});
    let mut entry = json!({
        "resource": resource.name(), "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": resource.verbs(),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = resource
        .subresources_of(version)
        .map(|sub| {
            let response = sub.response.map_or_else(
                || own.clone(),
                |(group, version, kind)| json!({"group": group, "version": version, "kind": kind}),
            );
            json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

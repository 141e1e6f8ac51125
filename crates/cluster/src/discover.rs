//! Which resources the API server serves right now.

use crate::garbage::graph::Served;
use kube::Client;
use kube::core::ApiResource;
use kube::core::discovery::v2::APIGroupDiscovery;

/// Every resource in its group's preferred version, ordered by group and name.
pub(crate) async fn resources(client: &Client) -> Result<Vec<Served>, kube::Error> {
    let core = client.list_core_api_versions_aggregated().await?;
    let groups = client.list_api_groups_aggregated().await?;
    let mut found: Vec<Served> = core.items.iter().chain(&groups.items).flat_map(of_group).collect();
    found.sort_by_key(Served::id);
    Ok(found)
}

/// A group's versions come in order of preference; a resource is taken from the first that has it.
fn of_group(group: &APIGroupDiscovery) -> Vec<Served> {
    let name = group.metadata.as_ref().and_then(|meta| meta.name.clone()).unwrap_or_default();
    let mut found: Vec<Served> = Vec::new();
    for version in &group.versions {
        let Some(version_name) = version.version.clone() else { continue };
        for resource in &version.resources {
            let (Some(plural), Some(kind)) = (
                resource.resource.clone(),
                resource.response_kind.as_ref().and_then(|kind| kind.kind.clone()),
            ) else {
                continue;
            };
            if found.iter().any(|earlier| earlier.api.plural == plural) {
                continue;
            }
            let api_version =
                if name.is_empty() { version_name.clone() } else { format!("{name}/{version_name}") };
            found.push(Served {
                api: ApiResource {
                    group: name.clone(),
                    version: version_name.clone(),
                    api_version,
                    kind,
                    plural,
                },
                namespaced: resource.scope.as_deref() == Some("Namespaced"),
                verbs: resource.verbs.iter().cloned().collect(),
            });
        }
    }
    found
}

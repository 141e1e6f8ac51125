//! Manifests of others: read, and applied to a server.

use crate::plane::{PATIENCE, PAUSE};
use anyhow::{Context, bail};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// How often an object that others change meanwhile is written.
const ATTEMPTS: usize = 20;

/// All objects in the YAML files of a directory that are no parts of a kustomization, files by name.
pub fn read(directory: &Path) -> anyhow::Result<Vec<Value>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("{} cannot be read", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        objects.extend(parse(&text).with_context(|| format!("{} is no manifest", file.display()))?);
    }
    Ok(objects)
}

/// The objects of a text with one or several YAML documents.
pub fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut options = serde_saphyr::Options::default();
    // Definitions of a CRD are large, and they come from modules whose contents are pinned.
    options.budget = None;
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(documents
        .into_iter()
        .filter(|document| document["kind"].is_string() && document["apiVersion"].is_string())
        .collect())
}

/// Makes objects that belong to no namespace, or replaces those that are there.
pub async fn apply(client: &Client, objects: &[Value]) -> anyhow::Result<()> {
    for object in objects {
        let mut object: DynamicObject = serde_json::from_value(object.clone())?;
        let Some(types) = object.types.clone() else { bail!("an object without a kind") };
        let name = object.metadata.name.clone().context("an object without a name")?;
        let kind = GroupVersionKind::try_from(&types)?;
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
        let mut written = api.create(&PostParams::default(), &object).await;
        // Somebody else may be doing the same at the same time.
        for _ in 0..ATTEMPTS {
            if !matches!(&written, Err(kube::Error::Api(status)) if status.code == 409) {
                break;
            }
            object.metadata.resource_version = api.get(&name).await?.metadata.resource_version;
            written = api.replace(&name, &PostParams::default(), &object).await;
        }
        written.with_context(|| format!("{} {name} cannot be applied", types.kind))?;
    }
    Ok(())
}

/// Installs CustomResourceDefinitions and waits until discovery tells of all their kinds: a manager that asks before
/// gives up.
pub async fn define(client: &Client, definitions: &[Value]) -> anyhow::Result<()> {
    apply(client, definitions).await?;
    let mut missing: Vec<(String, &str)> = definitions.iter().flat_map(served).collect();
    let start = Instant::now();
    loop {
        let groups = client.list_api_groups().await?;
        let told: Vec<&str> = groups
            .groups
            .iter()
            .flat_map(|group| &group.versions)
            .map(|version| version.group_version.as_str())
            .collect();
        let mut later = Vec::new();
        for (version, resource) in missing {
            let is_there = told.contains(&version.as_str())
                && client
                    .list_api_group_resources(&version)
                    .await
                    .is_ok_and(|known| known.resources.iter().any(|one| one.name == resource));
            if !is_there {
                later.push((version, resource));
            }
        }
        if later.is_empty() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("the server does not tell of {later:?} within {PATIENCE:?}");
        }
        missing = later;
        tokio::time::sleep(PAUSE).await;
    }
}

/// The versions that a definition serves, each with its group, and the resource's name in them.
fn served(definition: &Value) -> impl Iterator<Item = (String, &str)> {
    let spec = &definition["spec"];
    let (group, plural) =
        (spec["group"].as_str().unwrap_or_default(), spec["names"]["plural"].as_str().unwrap_or_default());
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .filter_map(move |version| Some((format!("{group}/{}", version["name"].as_str()?), plural)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_that_are_not_served_are_not_waited_for() {
        let definition = json!({"spec": {"group": "example.com", "names": {"plural": "things"}, "versions": [
            {"name": "v1", "served": true}, {"name": "v1alpha1", "served": false}, {"name": "v2", "served": true}
        ]}});
        let found: Vec<_> = served(&definition).collect();
        assert_eq!(found, [("example.com/v1".to_owned(), "things"), ("example.com/v2".to_owned(), "things")]);
    }

    #[test]
    fn documents_that_are_no_objects_are_passed_over() {
        let text =
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\nresources: [x.yaml]\n---\n";
        let objects = parse(text).unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(objects[0]["metadata"]["name"], "a");
    }
}

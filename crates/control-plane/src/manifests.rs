//! Manifests of others: read, and applied to a server.

use anyhow::{Context, bail};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use std::{fs, path::Path, path::PathBuf};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_are_no_objects_are_passed_over() {
        let text =
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\nresources: [x.yaml]\n---\n";
        let objects = parse(text).unwrap();
        assert_eq!(objects.len(), 1);
        assert_eq!(objects[0]["metadata"]["name"], "a");
    }
}

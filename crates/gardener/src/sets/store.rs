//! The objects these controllers look at and write.

use crate::api::{Machine, MachineDeployment, MachineSet};
use hostler_controller::{Cache, Key, Trouble};
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{fmt::Debug, sync::Arc};

pub(super) struct Store {
    pub(super) control: Client,
    pub(super) namespace: String,
    /// The cluster with the Nodes, if there is one.
    pub(super) target: Option<Client>,
    pub(super) machines: Cache<Machine>,
    pub(super) sets: Cache<MachineSet>,
    pub(super) deployments: Cache<MachineDeployment>,
    /// Empty without a target cluster.
    pub(super) nodes: Cache<Node>,
}

/// A kind that the store keeps.
pub(super) trait Stored:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
    fn cache(store: &Store) -> &Cache<Self>;
    fn api(store: &Store) -> Option<Api<Self>>;
}

impl Stored for Machine {
    fn cache(store: &Store) -> &Cache<Self> {
        &store.machines
    }

    fn api(store: &Store) -> Option<Api<Self>> {
        Some(Api::namespaced(store.control.clone(), &store.namespace))
    }
}

impl Stored for MachineSet {
    fn cache(store: &Store) -> &Cache<Self> {
        &store.sets
    }

    fn api(store: &Store) -> Option<Api<Self>> {
        Some(Api::namespaced(store.control.clone(), &store.namespace))
    }
}

impl Stored for MachineDeployment {
    fn cache(store: &Store) -> &Cache<Self> {
        &store.deployments
    }

    fn api(store: &Store) -> Option<Api<Self>> {
        Some(Api::namespaced(store.control.clone(), &store.namespace))
    }
}

impl Stored for Node {
    fn cache(store: &Store) -> &Cache<Self> {
        &store.nodes
    }

    fn api(store: &Store) -> Option<Api<Self>> {
        Some(Api::all(store.target.clone()?))
    }
}

/// What became of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    /// It had changed meanwhile; what it is now is known, so the decision can be made anew.
    Outdated,
    /// It is not there any more.
    Gone,
}

/// Which part of an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Object,
    Status,
}

impl Store {
    /// Writes what differs between the two, provided that the object still is as it was. Fields that we do not know
    /// stay as they are.
    pub(super) async fn write<K: Stored>(
        &self,
        before: &K,
        after: &K,
        part: Part,
    ) -> Result<Written, Trouble> {
        let Some(api) = K::api(self) else { return Ok(Written::Gone) };
        let body = body(before, after, part)?;
        let (name, params) = (before.name_any(), PatchParams::default());
        let patch = Patch::Merge(body);
        let written = match part {
            Part::Object => api.patch(&name, &params, &patch).await,
            Part::Status => api.patch_status(&name, &params, &patch).await,
        };
        match written {
            Ok(object) => {
                K::cache(self).learn(Arc::new(object));
                Ok(Written::Done)
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Written::Gone),
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let now = self.look::<K>(&name).await?;
                if now.is_some_and(|now| now.meta().resource_version == before.meta().resource_version) {
                    // Something else is in the way, and nothing that changes will wake whoever waits for it.
                    return Err(kube::Error::Api(status).into());
                }
                Ok(Written::Outdated)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The object as the server has it now.
    pub(super) async fn look<K: Stored>(&self, name: &str) -> Result<Option<Arc<K>>, Trouble> {
        let Some(api) = K::api(self) else { return Ok(None) };
        let found = api.get_opt(name).await?.map(Arc::new);
        if let Some(object) = &found {
            K::cache(self).learn(object.clone());
        }
        Ok(found)
    }

    /// Lists what the server has now, so that nothing that is there is missing in the cache.
    pub(super) async fn refresh<K: Stored>(&self, labels: Option<String>) -> Result<(), Trouble> {
        let Some(api) = K::api(self) else { return Ok(()) };
        let params = ListParams { label_selector: labels, ..ListParams::default() };
        for object in api.list(&params).await?.items {
            K::cache(self).learn(Arc::new(object));
        }
        Ok(())
    }

    pub(super) fn node(&self, machine: &Machine) -> Option<Arc<Node>> {
        let name = machine.labels().get(crate::api::names::NODE_LABEL)?;
        self.nodes.get(&Key::new("Node", "", name.clone()))
    }
}

fn body<K: Stored>(before: &K, after: &K, part: Part) -> Result<Value, Trouble> {
    let (before_json, after_json) = (serde_json::to_value(before)?, serde_json::to_value(after)?);
    let mut body = match part {
        Part::Object => difference(&without_status(before_json), &without_status(after_json)),
        Part::Status => json!({"status": difference(&before_json["status"], &after_json["status"])}),
    };
    let meta = before.meta();
    if !body["metadata"].is_object() {
        body["metadata"] = json!({});
    }
    body["metadata"]["uid"] = json!(meta.uid);
    body["metadata"]["resourceVersion"] = json!(meta.resource_version);
    Ok(body)
}

fn without_status(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

/// The merge patch (RFC 7396) that makes the second of the first.
fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (before, after) else { return after.clone() };
    let mut changes = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(other) => drop(changes.insert(key.clone(), difference(other, value))),
            None => drop(changes.insert(key.clone(), value.clone())),
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    Value::Object(changes)
}

/// How an event names the object that it is about.
pub(super) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: object.meta().namespace.clone(),
        name: object.meta().name.clone(),
        uid: object.meta().uid.clone(),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_written() {
        let table = [
            (json!({"a": 1, "b": {"c": 2}}), json!({"a": 1, "b": {"c": 2}}), json!({})),
            (json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 2, "b": 3})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), json!({"a": {"c": null}})),
            (json!({"a": [1, 2]}), json!({"a": [2]}), json!({"a": [2]})),
            (json!({"a": {"b": 1}}), json!({"a": null}), json!({"a": null})),
        ];
        for (before, after, expected) in table {
            assert_eq!(difference(&before, &after), expected, "{before} -> {after}");
        }
    }

    #[test]
    fn a_write_names_the_version_it_was_decided_on() {
        let mut before = MachineSet::new("s", crate::api::MachineSetSpec::default());
        before.metadata.uid = Some("u".to_owned());
        before.metadata.resource_version = Some("7".to_owned());
        let mut after = before.clone();
        after.spec.replicas = 3;
        after.status = Some(crate::api::MachineSetStatus { replicas: 2, ..Default::default() });
        assert_eq!(
            body(&before, &after, Part::Object).unwrap(),
            json!({"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"replicas": 3}})
        );
        let status = body(&before, &after, Part::Status).unwrap();
        assert_eq!(status["status"]["replicas"], 2);
        assert_eq!(status.get("spec"), None);
    }
}

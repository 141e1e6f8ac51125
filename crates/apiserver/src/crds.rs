//! The life of custom resource definitions: their status, the resources they bring, and what goes with them.

use crate::{
    contract::{GroupResource, Lookup},
    crd::{self, CustomKind},
    handlers::Internal,
    object,
    registry::{self, Custom},
    server::Core,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeSet, sync::Arc};
use tokio_util::sync::CancellationToken;

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn shelf() -> GroupResource {
    GroupResource::new("apiextensions.k8s.io", "customresourcedefinitions")
}

/// Marks a definition whose deletion begins: its objects have to go first.
pub(crate) fn mark_terminating(definition: &mut Value, now: Timestamp) {
    let mut finalizers = object::finalizers(definition);
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    object::set_finalizers(definition, &finalizers);
    let condition = json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": object::seconds(now),
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    });
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = definition["status"]["conditions"].as_array_mut() {
        conditions.retain(|one| one["type"] != "Terminating");
        conditions.push(condition);
    }
}

/// Brings status and served resources in line with the definitions; called after each change of one, and
/// when the last object of one that is going away is gone.
pub(crate) fn sync(core: &Arc<Core>) {
    let definitions = core.list(&shelf(), "");
    for definition in &definitions {
        let name = object::name(definition);
        let status = crd::status(definition, &definitions, core.clock.now());
        if definition.get("status") != Some(&status) {
            // The write calls back here, with the new state.
            let internal = Internal::new(core, &shelf(), "", name);
            internal.overwrite(|definition| definition["status"] = status.clone());
            return;
        }
    }
    serve(core, &definitions);
    for definition in definitions.iter().filter(|definition| object::is_deleting(definition)) {
        clean_up(core, definition);
    }
}

/// Makes the registry show what is established.
fn serve(core: &Arc<Core>, definitions: &[Arc<Value>]) {
    let mut wanted = BTreeSet::new();
    let present = core.registry.customs();
    for definition in definitions.iter().filter(|definition| crd::is_established(definition)) {
        let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let id = GroupResource::new(text("/spec/group"), text("/spec/names/plural"));
        let terminating = object::is_deleting(definition);
        let mark = (object::text(definition, "uid").to_owned(), object::generation(definition));
        let old =
            present.iter().find(|resource| resource.id == id).and_then(|resource| resource.custom.as_ref());
        wanted.insert(id);
        if old.is_some_and(|old| old.mark == mark && old.terminating == terminating) {
            continue;
        }
        match CustomKind::compile(definition) {
            Ok(kind) => {
                let gone = old.map_or_else(CancellationToken::new, |old| old.gone.clone());
                let custom = Custom { kind: Arc::new(kind), gone, terminating, mark };
                core.registry.put_custom(registry::custom(custom));
            }
            Err(errors) => tracing::error!(?errors, "an accepted definition cannot be served"),
        }
    }
    for resource in present.iter().filter(|resource| !wanted.contains(&resource.id)) {
        core.registry.remove_custom(&resource.id);
    }
}

/// Deletes the objects of a definition that is going away, then lets it go.
fn clean_up(core: &Arc<Core>, definition: &Value) {
    if !object::finalizers(definition).iter().any(|finalizer| finalizer == CLEANUP) {
        return;
    }
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let id = GroupResource::new(text("/spec/group"), text("/spec/names/plural"));
    for stored in core.store.list(&id, "", None).map(|listed| listed.items).unwrap_or_default() {
        if !object::is_deleting(&stored.parse()) {
            Internal::new(core, &id, &stored.key.namespace, &stored.key.name).delete();
        }
    }
    if core.store.is_empty(&id) {
        Internal::new(core, &shelf(), "", object::name(definition)).overwrite(|definition| {
            let mut finalizers = object::finalizers(definition);
            finalizers.retain(|finalizer| finalizer != CLEANUP);
            object::set_finalizers(definition, &finalizers);
        });
    }
}

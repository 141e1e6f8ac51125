//! The life of custom resource definitions: their status, the resources they bring, and what goes with them.

use crate::{
    contract::{GroupResource, Lookup},
    crd::{self, CustomKind},
    handlers::{self, Internal},
    object,
    registry::{self, Custom},
    server::Core,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
};
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

/// Who brings the registry in line with the definitions, and whether that is to be done once more.
#[derive(Default)]
pub(crate) struct Syncing {
    at_work: Mutex<()>,
    wanted: AtomicBool,
}

/// Brings status and served resources in line with the definitions; called after each change of one, and
/// when the last object of one that is going away is gone. One at a time: whoever comes meanwhile, from another
/// thread or by a write of this work itself, leaves it to the one that is at it.
pub(crate) fn sync(core: &Arc<Core>) {
    core.syncing.wanted.store(true, Ordering::SeqCst);
    while core.syncing.wanted.load(Ordering::SeqCst) {
        let _at_work = match core.syncing.at_work.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        while core.syncing.wanted.swap(false, Ordering::SeqCst) {
            sync_once(core);
        }
    }
}

/// One step: each write asks for the next one.
fn sync_once(core: &Arc<Core>) {
    let definitions = core.list(&shelf(), "");
    for definition in &definitions {
        let name = object::name(definition);
        let status = crd::status(definition, &definitions, core.clock.now());
        if definition.get("status") != Some(&status) {
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
        let known = old.filter(|old| old.mark == mark).map(|old| Arc::clone(&old.kind));
        let kind = known.map_or_else(|| CustomKind::compile(definition).map(Arc::new), Ok);
        match kind {
            Ok(kind) => {
                let gone = old.map_or_else(CancellationToken::new, |old| old.gone.clone());
                let is_changed = old.is_some_and(|old| old.mark != mark);
                let resource = Arc::new(registry::custom(Custom { kind, gone, terminating, mark }));
                core.registry.put_custom(Arc::clone(&resource));
                if is_changed {
                    handlers::refresh(core, &resource);
                }
            }
            Err(errors) => {
                let name = object::name(definition);
                tracing::error!(?errors, name, "an accepted definition cannot be served");
            }
        }
    }
    for resource in present.iter().filter(|resource| !wanted.contains(&resource.id)) {
        core.registry.remove_custom(&resource.id);
        core.store.retire(&resource.shelf);
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

//! The walls between the rooms of this crate: what the request path asks of a kind, of admission and of
//! access control, and what those may look up.

use crate::{error::ApiError, field::FieldError};
use hostler_base::{Chance, Clock};
use serde_json::Value;
use std::sync::Arc;

/// Names a resource: `("apps", "deployments")`; the core group is `""`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    pub group: Arc<str>,
    pub resource: Arc<str>,
}

impl GroupResource {
    pub fn new(group: &str, resource: &str) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

/// Who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

/// What may be looked up while an object is on its way in. Reads the newest state.
pub trait Lookup: Send + Sync {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>>;
    /// In the order of (namespace, name); an empty namespace means all.
    fn list(&self, resource: &GroupResource, namespace: &str) -> Vec<Arc<Value>>;
}

/// What one request carries into the hooks of a kind.
pub struct Context<'a> {
    pub clock: &'a Clock,
    pub chance: &'a Chance,
    pub user: &'a User,
    pub lookup: &'a dyn Lookup,
}

/// How an object with a grace period is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Removed at once (after its finalizers).
    Now,
    /// Marked with this grace period in seconds, removed by a later delete with grace 0.
    Graceful(i64),
}

/// What is special about one kind. The defaults are those of a plain object with spec and status.
/// All work on JSON objects of the kind's one stored version; metadata is handled by the request path.
pub trait Kind: Send + Sync {
    /// Fills what was left out, on create, update and patch.
    fn default(&self, _object: &mut Value) {}

    /// Sets what a client may not set: by default the status is dropped where there is a status subresource.
    /// The object already has its name, namespace, uid and creation time.
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        if let Some(fields) = object.as_object_mut()
            && self.has_status()
        {
            fields.remove("status");
        }
        Ok(())
    }

    /// Undoes what an update of the main resource may not change: by default the status.
    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        if self.has_status() {
            keep(new, old, "status");
        }
        Ok(())
    }

    /// Undoes what an update of the status may not change: by default all but the status.
    fn prepare_status_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        let (Some(fields), Some(before)) = (new.as_object_mut(), old.as_object()) else { return };
        fields.retain(|name, _| matches!(name.as_str(), "status" | "metadata"));
        for (name, value) in before.iter().filter(|(name, _)| name.as_str() != "status") {
            fields.entry(name.as_str()).or_insert_with(|| value.clone());
        }
    }

    fn validate(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// On update; `new` was also given to [`Kind::validate`].
    fn validate_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_status_update(&self, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Undoes what an update of a subresource other than the status (`approval`, `finalize`) may not change:
    /// by default everything.
    fn prepare_subresource_update(
        &self,
        _subresource: &str,
        new: &mut Value,
        old: &Value,
        _context: &Context<'_>,
    ) {
        *new = old.clone();
    }

    fn validate_subresource_update(&self, _subresource: &str, _new: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn has_status(&self) -> bool {
        true
    }

    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    fn has_generation(&self) -> bool {
        true
    }

    /// Whether an update is a new generation of an object that has them.
    fn moves_generation(&self, new: &Value, old: &Value) -> bool {
        desired_state_differs(new, old)
    }

    /// Whether something still holds an object whose deletion has begun: it goes only when nothing does.
    fn is_held(&self, object: &Value) -> bool {
        let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
        finalizers.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
    }

    /// What changes besides the metadata when an object's deletion begins.
    fn begin_deletion(&self, _object: &mut Value) {}

    /// What a delete with this requested grace period means for this object.
    fn deletion(&self, _object: &Value, _requested: Option<i64>) -> Deletion {
        Deletion::Now
    }
}

/// Whether anything but type, metadata and status differs.
pub fn desired_state_differs(new: &Value, old: &Value) -> bool {
    !same_besides(new, old, &["status"])
}

/// Whether two objects are the same besides type, metadata and these fields.
pub(crate) fn same_besides(new: &Value, old: &Value, left_out: &[&str]) -> bool {
    fn rest<'a>(object: &'a Value, left_out: &'a [&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(name, _)| {
            !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") && !left_out.contains(&name.as_str())
        })
    }
    rest(new, left_out).eq(rest(old, left_out))
}

/// Puts `old`'s value of a top-level field back into `new`.
pub fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// What is done, for access control and admission. A request without a resource has an empty `resource`
/// and its path in `path`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub verb: String,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub path: String,
}

/// One column of a Table answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    pub format: String,
    pub description: String,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

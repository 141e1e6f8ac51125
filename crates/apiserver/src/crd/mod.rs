//! CustomResourceDefinitions: everything about them as pure functions on JSON.
//!
//! A definition is judged by [`validate_crd`], its status is worked out by [`status()`], and
//! [`CustomKind::compile`] reads it once into what the request path needs for every custom resource:
//! pruning, defaulting, validation, Table cells, scale.

mod cel_value;
mod check;
mod columns;
mod defaults;
mod definition;
mod embedded;
mod field_path;
mod formats;
mod go_regex;
mod json_path;
mod lists;
mod openapi;
mod path;
#[cfg(test)]
mod real_server;
mod rules;
mod scale;
mod schema;
mod schema_rules;
mod shape;
mod status;
mod structural;
#[cfg(test)]
mod tests;
mod typing;

pub use defaults::default_crd;
pub use definition::validate_crd;
pub use openapi::merge_openapi;
pub use scale::ScalePaths;
pub use status::{is_established, status};

use crate::{
    contract::Column,
    field::{Fault, FieldError},
};
use columns::Columns;
use jiff::Timestamp;
use json_path::JsonPath;
use path::Path;
use schema::Schema;
use serde_json::Value;
use std::sync::Arc;

/// A custom kind, ready to be served.
#[derive(Debug)]
pub struct CustomKind {
    identity: Arc<Identity>,
    storage_version: String,
    versions: Vec<CustomVersion>,
}

/// What all versions of a kind have in common.
#[derive(Debug)]
struct Identity {
    group: String,
    names: Names,
    namespaced: bool,
}

/// What a custom kind is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the definition calls them so")]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

impl Names {
    fn read(names: &Value) -> Self {
        let text = |name: &str| names.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let texts = |name: &str| -> Vec<String> {
            let list = names.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: texts("shortNames"),
            categories: texts("categories"),
        }
    }
}

/// One version of a custom kind.
#[derive(Debug)]
pub struct CustomVersion {
    identity: Arc<Identity>,
    name: String,
    served: bool,
    storage: bool,
    deprecation_warning: Option<String>,
    has_status: bool,
    scale: Option<ScalePaths>,
    columns: Columns,
    selectable: Vec<String>,
    selectable_paths: Vec<Option<JsonPath>>,
    schema: Schema,
    schema_json: Value,
}

impl CustomKind {
    /// Reads a definition. Fails only for one that [`validate_crd`] would refuse.
    pub fn compile(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let text = |path: &str| crd.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let identity = Arc::new(Identity {
            group: text("/spec/group").to_owned(),
            names: Names::read(crd.pointer("/spec/names").unwrap_or(&Value::Null)),
            namespaced: text("/spec/scope") == "Namespaced",
        });
        let mut errors = Vec::new();
        let list = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten().enumerate();
        let versions: Vec<CustomVersion> =
            list.map(|(at, version)| CustomVersion::compile(version, &identity, at, &mut errors)).collect();
        let storage_version =
            versions.iter().find(|version| version.storage).map(|version| version.name.clone());
        let Some(storage_version) = storage_version else {
            errors.push(FieldError::required(
                "spec.versions",
                "must have exactly one version marked as storage version",
            ));
            return Err(errors);
        };
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self { identity, storage_version, versions })
    }

    pub fn group(&self) -> &str {
        &self.identity.group
    }

    pub fn names(&self) -> &Names {
        &self.identity.names
    }

    pub fn namespaced(&self) -> bool {
        self.identity.namespaced
    }

    /// The version objects are kept in.
    pub fn storage_version(&self) -> &str {
        &self.storage_version
    }

    /// All versions, in the order of the definition.
    pub fn versions(&self) -> &[CustomVersion] {
        &self.versions
    }

    pub fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Makes an object one of another version. With the strategy `None` only its `apiVersion` changes.
    pub fn convert(&self, object: &mut Value, to: &str) {
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), format!("{}/{to}", self.identity.group).into());
        }
    }
}

impl CustomVersion {
    fn compile(version: &Value, identity: &Arc<Identity>, at: usize, errors: &mut Vec<FieldError>) -> Self {
        let flag = |name: &str| version.get(name).and_then(Value::as_bool).unwrap_or_default();
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let nothing = serde_json::json!({"type": "object"});
        let schema_json = version.pointer("/schema/openAPIV3Schema").unwrap_or(&nothing).clone();
        let mut flaws = Vec::new();
        let place = format!("spec.versions[{at}].schema.openAPIV3Schema");
        let schema = Schema::compile(&schema_json, &place, &mut flaws);
        errors.extend(flaws.into_iter().map(|flaw| FieldError::invalid(flaw.place, flaw.value, flaw.detail)));
        let fields = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
        let paths: Vec<&str> = fields.filter_map(|field| field.get("jsonPath")?.as_str()).collect();
        let warning = version.get("deprecationWarning").and_then(Value::as_str).map_or_else(
            || format!("{}/{name} {} is deprecated", identity.group, identity.names.kind),
            str::to_owned,
        );
        Self {
            identity: Arc::clone(identity),
            served: flag("served"),
            storage: flag("storage"),
            deprecation_warning: flag("deprecated").then_some(warning),
            has_status: version.pointer("/subresources/status").is_some_and(Value::is_object),
            scale: ScalePaths::read(version),
            columns: Columns::compile(version),
            selectable: paths.iter().map(|path| path.trim_start_matches('.').to_owned()).collect(),
            selectable_paths: paths.iter().map(|path| JsonPath::parse(path)).collect(),
            schema,
            schema_json,
            name,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn served(&self) -> bool {
        self.served
    }

    /// What to warn a client of that uses this version.
    pub fn deprecation_warning(&self) -> Option<&str> {
        self.deprecation_warning.as_deref()
    }

    /// Removes fields the schema does not know and returns their paths, sorted. Metadata is left to the server.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(object, &self.schema)
    }

    /// Fills in the defaults of the schema. To be called after [`CustomVersion::prune`].
    pub fn default(&self, object: &mut Value) {
        shape::default(object, &self.schema);
    }

    /// What is wrong with an object after pruning and defaulting; `old` is the object before an update.
    /// Metadata of the object itself is checked by the server.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = check::check(&self.schema, new, old, None);
        if let Some(scale) = &self.scale {
            errors.extend(scale.check(new));
        }
        embedded::check(&self.schema, new, &Path::Root, &mut errors);
        let duplicates = |object: &Value| {
            let mut duplicates = Vec::new();
            lists::check(&self.schema, object, &Path::Root, &mut duplicates);
            duplicates
        };
        // Lists that were wrong before do not have to be mended by whoever comes next.
        if old.is_none_or(|old| duplicates(old).is_empty()) {
            errors.extend(duplicates(new));
        }
        if self.schema.has_rules {
            if errors.iter().any(blocks_rules) {
                let detail = "some validation rules were not checked because the object was invalid; \
                              correct the existing errors to complete validation";
                errors.push(FieldError::invalid("<nil>", Value::Null, detail));
            } else {
                errors.extend(rules::check(&self.schema, new, old, &Path::Root, true));
            }
        }
        errors
    }

    /// Whether there is a `status` subresource.
    pub fn has_status(&self) -> bool {
        self.has_status
    }

    /// The paths of the `scale` subresource, if there is one.
    pub fn scale(&self) -> Option<&ScalePaths> {
        self.scale.as_ref()
    }

    /// The fields a selector may name beside `metadata.name` and `metadata.namespace`: `spec.size`.
    pub fn selectable_fields(&self) -> &[String] {
        &self.selectable
    }

    /// The value of a selectable field, empty where it is not set; `None` for a field that is not selectable.
    pub fn selectable_value(&self, object: &Value, field: &str) -> Option<String> {
        let at = self.selectable.iter().position(|selectable| selectable == field)?;
        let found = self.selectable_paths[at].as_ref().and_then(|path| path.find(object).first().copied());
        Some(match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        })
    }

    /// The columns of a Table, Name first.
    pub fn columns(&self) -> &[Column] {
        &self.columns.columns
    }

    /// One row of a Table.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.columns.cells(object, now)
    }

    /// The OpenAPI v3 document of this version alone; see [`merge_openapi`] for kinds that share a group version.
    pub fn openapi_v3(&self) -> Value {
        openapi::document(self)
    }

    /// The schema as it was given.
    pub fn schema(&self) -> &Value {
        &self.schema_json
    }
}

/// Rules assume that types, lengths and required fields are right; they are not run on what is not.
fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.fault,
        Fault::NotSupported | Fault::Required | Fault::TooLong | Fault::TooMany | Fault::TypeInvalid
    )
}

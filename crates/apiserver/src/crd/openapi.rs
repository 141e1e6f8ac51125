//! The OpenAPI v3 document of a custom kind: what `kubectl explain` shows and `kubectl apply` asks for.

use super::{CustomVersion, Identity};
use serde_json::{Map, Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const API_VERSION: &str = "The group and version of the API this object is written in.";
const KIND: &str = "What kind of object this is.";
const METADATA: &str = "Name, namespace, labels and what the server keeps about the object.";

/// Puts the paths and schemas of one document into another of the same group version.
pub fn merge_openapi(into: &mut Value, other: Value) {
    let Value::Object(other) = other else { return };
    for (place, fields) in [
        ("/paths", other.get("paths")),
        ("/components/schemas", other.get("components").and_then(|all| all.get("schemas"))),
    ] {
        if let (Some(Value::Object(into)), Some(Value::Object(fields))) = (into.pointer_mut(place), fields) {
            for (name, value) in fields {
                into.entry(name).or_insert_with(|| value.clone());
            }
        }
    }
}

pub(super) fn document(version: &CustomVersion) -> Value {
    let names = Component::of(&version.identity, &version.name);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths(version, &names),
        "components": {"schemas": schemas(version, &names)},
    })
}

/// The names a kind has in the document.
struct Component {
    kind: String,
    list: String,
    group_version_kind: Value,
    /// `TryExampleComV1`.
    operation: String,
}

impl Component {
    fn of(identity: &Identity, version: &str) -> Self {
        let mut domain: Vec<&str> = identity.group.split('.').collect();
        let operation: String = domain.iter().chain([&version]).map(|word| capitalised(word)).collect();
        domain.reverse();
        let prefix = format!("{}.{version}", domain.join("."));
        Self {
            kind: format!("{prefix}.{}", identity.names.kind),
            list: format!("{prefix}.{}", identity.names.list_kind),
            group_version_kind: json!({"group": identity.group, "version": version, "kind": identity.names.kind}),
            operation,
        }
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn schemas(version: &CustomVersion, names: &Component) -> Value {
    let mut kind = version.schema_json.clone();
    add_meta_fields(&mut kind, true);
    kind["x-kubernetes-group-version-kind"] = json!([names.group_version_kind]);
    let identity = &version.identity;
    let list_gvk =
        json!({"group": identity.group, "version": version.name, "kind": identity.names.list_kind});
    let list = json!({
        "description": format!("{} is a list of {}", identity.names.list_kind, identity.names.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "metadata": {"description": METADATA, "allOf": [reference(&format!("{META}.ListMeta"))]},
            "items": {"type": "array", "items": reference(&names.kind)},
        },
        "x-kubernetes-group-version-kind": [list_gvk],
    });
    let mut schemas = meta_schemas();
    schemas.insert(names.kind.clone(), kind);
    schemas.insert(names.list.clone(), list);
    if version.scale.is_some() {
        schemas.insert("io.k8s.api.autoscaling.v1.Scale".to_owned(), scale_schema());
    }
    Value::Object(schemas)
}

/// The server's own fields are there in every resource, whatever the schema says.
fn add_meta_fields(schema: &mut Value, resource: bool) {
    let Some(fields) = schema.as_object_mut() else { return };
    let embedded = fields.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if resource || embedded {
        let properties = fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert("apiVersion".to_owned(), json!({"description": API_VERSION, "type": "string"}));
            properties.insert("kind".to_owned(), json!({"description": KIND, "type": "string"}));
            let metadata =
                json!({"description": METADATA, "allOf": [reference(&format!("{META}.ObjectMeta"))]});
            properties.insert("metadata".to_owned(), metadata);
        }
    }
    for property in fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        add_meta_fields(property.1, false);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(child) = fields.get_mut(name) {
            add_meta_fields(child, false);
        }
    }
}

/// Which operations a path has.
struct Operations<'a> {
    version: &'a CustomVersion,
    names: &'a Component,
}

fn paths(version: &CustomVersion, names: &Component) -> Value {
    let identity = &version.identity;
    let root = format!("/apis/{}/{}", identity.group, version.name);
    let plural = &identity.names.plural;
    let collection = if identity.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    let item = format!("{collection}/{{name}}");
    let operations = Operations { version, names };
    let mut paths = Map::new();
    paths.insert(collection, operations.path(&["list", "post", "deletecollection"], "", false));
    paths.insert(item.clone(), operations.path(&["get", "put", "delete", "patch"], "", true));
    if identity.namespaced {
        paths.insert(format!("{root}/{plural}"), operations.path(&["list"], "ForAllNamespaces", false));
    }
    if version.has_status {
        paths.insert(format!("{item}/status"), operations.path(&["get", "put", "patch"], "Status", true));
    }
    if version.scale.is_some() {
        paths.insert(format!("{item}/scale"), operations.path(&["get", "put", "patch"], "Scale", true));
    }
    Value::Object(paths)
}

impl Operations<'_> {
    fn path(&self, actions: &[&str], suffix: &str, named: bool) -> Value {
        let mut path = Map::new();
        for action in actions {
            let verb = match *action {
                "list" => "get",
                "deletecollection" => "delete",
                other => other,
            };
            path.insert(verb.to_owned(), self.operation(action, suffix));
        }
        let mut parameters = Vec::new();
        if named {
            parameters
                .push(path_parameter("name", &format!("name of the {}", self.version.identity.names.kind)));
        }
        if self.version.identity.namespaced && suffix != "ForAllNamespaces" {
            let description = "object name and auth scope, such as for teams and projects";
            parameters.push(path_parameter("namespace", description));
        }
        parameters.push(query_parameter("pretty", "string"));
        path.insert("parameters".to_owned(), Value::Array(parameters));
        Value::Object(path)
    }

    fn operation(&self, action: &str, suffix: &str) -> Value {
        let identity = &self.version.identity;
        let kind = &identity.names.kind;
        let schema = match (action, suffix) {
            ("list", _) => reference(&self.names.list),
            (_, "Scale") => reference("io.k8s.api.autoscaling.v1.Scale"),
            ("delete" | "deletecollection", _) => reference(&format!("{META}.Status")),
            _ => reference(&self.names.kind),
        };
        let (word, description) = match action {
            "list" => ("list", format!("list objects of kind {kind}")),
            "post" => ("create", format!("create {} {kind}", article(kind))),
            "get" => ("read", format!("read the specified {kind}")),
            "put" => ("replace", format!("replace the specified {kind}")),
            "patch" => ("patch", format!("partially update the specified {kind}")),
            "delete" => ("delete", format!("delete {} {kind}", article(kind))),
            _ => ("deleteCollection", format!("delete collection of {kind}")),
        };
        let scope = if identity.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let content = json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}});
        let mut operation = json!({
            "description": description,
            "operationId": format!("{word}{}{scope}{kind}{suffix}", self.names.operation),
            "parameters": parameters(action),
            "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": match suffix {
                "Scale" => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
                _ => self.names.group_version_kind.clone(),
            },
        });
        let body = match action {
            "post" | "put" => Some(
                json!({"content": {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}}, "required": true}),
            ),
            "patch" => {
                let patch = json!({"schema": reference(&format!("{META}.Patch"))});
                Some(json!({
                    "content": {"application/json-patch+json": patch, "application/merge-patch+json": patch},
                    "required": true,
                }))
            }
            "delete" | "deletecollection" => {
                let options = json!({"schema": reference(&format!("{META}.DeleteOptions"))});
                Some(json!({"content": {"application/json": options, "application/yaml": options}}))
            }
            _ => None,
        };
        if let Some(body) = body {
            operation["requestBody"] = body;
        }
        operation
    }
}

fn article(kind: &str) -> &'static str {
    if kind.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" }
}

fn path_parameter(name: &str, description: &str) -> Value {
    let schema = json!({"type": "string", "uniqueItems": true});
    json!({"name": name, "in": "path", "description": description, "required": true, "schema": schema})
}

fn query_parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn parameters(action: &str) -> Vec<Value> {
    let list: &[(&str, &str)] = &[
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    let write: &[(&str, &str)] =
        &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
    let delete: &[(&str, &str)] = &[
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ];
    let chosen: &[(&str, &str)] = match action {
        "list" | "deletecollection" => list,
        "get" => &[("resourceVersion", "string")],
        "delete" => delete,
        _ => write,
    };
    chosen.iter().map(|(name, kind)| query_parameter(name, kind)).collect()
}

fn object(properties: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties})
}

fn list_of(schema: &Value) -> Value {
    json!({"type": "array", "items": schema})
}

/// What every resource refers to.
fn meta_schemas() -> Map<String, Value> {
    let (text, number, flag) = (
        json!({"type": "string"}),
        json!({"type": "integer", "format": "int64"}),
        json!({"type": "boolean"}),
    );
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let meta = |name: &str| reference(&format!("{META}.{name}"));
    let mut owner = object(&[
        ("apiVersion", text.clone()),
        ("kind", text.clone()),
        ("name", text.clone()),
        ("uid", text.clone()),
        ("controller", flag.clone()),
        ("blockOwnerDeletion", flag.clone()),
    ]);
    owner["required"] = json!(["apiVersion", "kind", "name", "uid"]);
    let schemas = [
        ("Time", json!({"type": "string", "format": "date-time"})),
        ("FieldsV1", json!({"type": "object"})),
        ("Patch", json!({"type": "object"})),
        ("OwnerReference", owner),
        (
            "ManagedFieldsEntry",
            object(&[
                ("apiVersion", text.clone()),
                ("fieldsType", text.clone()),
                ("fieldsV1", meta("FieldsV1")),
                ("manager", text.clone()),
                ("operation", text.clone()),
                ("subresource", text.clone()),
                ("time", meta("Time")),
            ]),
        ),
        (
            "ObjectMeta",
            object(&[
                ("annotations", texts.clone()),
                ("creationTimestamp", meta("Time")),
                ("deletionGracePeriodSeconds", number.clone()),
                ("deletionTimestamp", meta("Time")),
                ("finalizers", list_of(&text)),
                ("generateName", text.clone()),
                ("generation", number.clone()),
                ("labels", texts),
                ("managedFields", list_of(&meta("ManagedFieldsEntry"))),
                ("name", text.clone()),
                ("namespace", text.clone()),
                ("ownerReferences", list_of(&meta("OwnerReference"))),
                ("resourceVersion", text.clone()),
                ("selfLink", text.clone()),
                ("uid", text.clone()),
            ]),
        ),
        (
            "ListMeta",
            object(&[
                ("continue", text.clone()),
                ("remainingItemCount", number.clone()),
                ("resourceVersion", text.clone()),
                ("selfLink", text.clone()),
            ]),
        ),
        ("Preconditions", object(&[("resourceVersion", text.clone()), ("uid", text.clone())])),
        (
            "DeleteOptions",
            object(&[
                ("apiVersion", text.clone()),
                ("dryRun", list_of(&text)),
                ("gracePeriodSeconds", number.clone()),
                ("kind", text.clone()),
                ("orphanDependents", flag),
                ("preconditions", meta("Preconditions")),
                ("propagationPolicy", text.clone()),
            ]),
        ),
        (
            "Status",
            object(&[
                ("apiVersion", text.clone()),
                ("code", number),
                ("details", json!({"type": "object"})),
                ("kind", text.clone()),
                ("message", text.clone()),
                ("metadata", meta("ListMeta")),
                ("reason", text.clone()),
                ("status", text),
            ]),
        ),
    ];
    schemas.into_iter().map(|(name, schema)| (format!("{META}.{name}"), schema)).collect()
}

fn scale_schema() -> Value {
    let replicas = json!({"type": "integer", "format": "int32"});
    let text = json!({"type": "string"});
    let mut scale = object(&[
        ("apiVersion", text.clone()),
        ("kind", text.clone()),
        ("metadata", reference(&format!("{META}.ObjectMeta"))),
        ("spec", object(&[("replicas", replicas.clone())])),
        ("status", object(&[("replicas", replicas), ("selector", text)])),
    ]);
    scale["x-kubernetes-group-version-kind"] =
        json!([{"group": "autoscaling", "version": "v1", "kind": "Scale"}]);
    scale
}

//! OpenAPI v3 documents of the built-in group versions: paths with their kinds and parameters, and the types
//! without descriptions. kubectl needs them for `apply` and `explain`.

use super::table::{self, Field, FieldType, ListKind, TypeRef, TypeShape};
use crate::object;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::OnceLock};

/// `group version resource scope apiVersion kind methods-on-the-collection methods-on-one-object`
const RESOURCES: &str = include_str!("../../data/resources.txt");

/// A document that is made once, and the name of its state.
pub struct Document {
    pub value: Value,
    hash: OnceLock<String>,
}

impl Document {
    /// Printed and hashed when it is first asked for.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| document_hash(&self.value))
    }
}

pub fn document_hash(document: &Value) -> String {
    object::hex(&Sha256::digest(document.to_string().as_bytes())).to_uppercase()
}

/// The document of one group version, made when it is first asked for.
pub fn openapi_v3(group: &str, version: &str) -> Option<&'static Document> {
    static DOCUMENTS: OnceLock<BTreeMap<&'static str, OnceLock<Document>>> = OnceLock::new();
    if version != "v1" {
        return None;
    }
    let documents = DOCUMENTS.get_or_init(|| {
        RESOURCES
            .lines()
            .filter_map(Resource::parse)
            .map(|resource| (resource.group, OnceLock::new()))
            .collect()
    });
    let (group, cell) = documents.get_key_value(group)?;
    Some(cell.get_or_init(|| Document { value: document(group), hash: OnceLock::new() }))
}

struct Resource {
    group: &'static str,
    name: &'static str,
    is_namespaced: bool,
    api_version: &'static str,
    kind: &'static str,
    collection_methods: &'static str,
    object_methods: &'static str,
}

impl Resource {
    fn parse(line: &'static str) -> Option<Self> {
        let mut words = line.split(' ');
        let group = words.next()?;
        let group = if group == "core" { "" } else { group };
        let (name, scope) = (words.nth(1)?, words.next()?);
        Some(Self {
            group,
            name,
            is_namespaced: scope == "N",
            api_version: words.next()?,
            kind: words.next()?,
            collection_methods: words.next()?,
            object_methods: words.next()?,
        })
    }

    fn gvk(&self) -> Value {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        json!({"group": group, "kind": self.kind, "version": version})
    }
}

fn document(group: &'static str) -> Value {
    let mut paths = Map::new();
    let mut wanted: Vec<TypeRef> =
        table::all().filter(|ty| ty.is_kind() && ty.group() == Some(group)).collect();
    for resource in RESOURCES.lines().filter_map(Resource::parse).filter(|resource| resource.group == group) {
        wanted.extend(table::kind(resource.api_version, resource.kind));
        add_paths(&mut paths, &resource);
    }
    wanted.extend(["DeleteOptions", "Status"].iter().filter_map(|kind| table::kind("v1", kind)));
    let mut schemas = leaf_schemas();
    while let Some(ty) = wanted.pop() {
        let name = schema_name(ty);
        if !schemas.contains_key(&name) {
            let schema = type_schema(ty, group, &mut wanted);
            schemas.insert(name, schema);
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "1.36"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn add_paths(paths: &mut Map<String, Value>, resource: &Resource) {
    let root =
        if resource.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}/v1", resource.group) };
    let space = if resource.is_namespaced { "/namespaces/{namespace}" } else { "" };
    let (name, subresource) = resource
        .name
        .split_once('/')
        .map_or((resource.name, String::new()), |(name, sub)| (name, format!("/{sub}")));
    let namespace = resource.is_namespaced.then(|| path_parameter("namespace"));
    if resource.collection_methods != "-" {
        let mut parameters: Vec<Value> = namespace.iter().cloned().collect();
        let item = operations(resource, resource.collection_methods, true, &parameters);
        paths.insert(format!("{root}{space}/{name}"), item);
        if resource.is_namespaced && resource.collection_methods.starts_with("get") {
            parameters.clear();
            paths.insert(format!("{root}/{name}"), operations(resource, "get", true, &parameters));
        }
    }
    if resource.object_methods != "-" {
        let parameters: Vec<Value> = std::iter::once(path_parameter("name")).chain(namespace).collect();
        let item = operations(resource, resource.object_methods, false, &parameters);
        paths.insert(format!("{root}{space}/{name}/{{name}}{subresource}"), item);
    }
}

fn path_parameter(name: &str) -> Value {
    json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
}

fn query_parameter(name: &str, kind: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn operations(resource: &Resource, methods: &str, is_collection: bool, parameters: &[Value]) -> Value {
    let mut item = Map::new();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), Value::Array(parameters.to_vec()));
    }
    let schema = table::kind(resource.api_version, resource.kind).map(reference).unwrap_or_default();
    for method in methods.split(',') {
        let (action, queries): (&str, &[(&str, &str)]) = match (method, is_collection) {
            ("get", false) => ("get", &[]),
            ("get", true) => ("list", LIST_PARAMETERS),
            ("post", _) => ("post", WRITE_PARAMETERS),
            ("put", _) => ("put", WRITE_PARAMETERS),
            ("patch", _) => ("patch", PATCH_PARAMETERS),
            (_, false) => ("delete", DELETE_PARAMETERS),
            (_, true) => ("deletecollection", LIST_PARAMETERS),
        };
        let queries: Vec<Value> = queries.iter().map(|(name, kind)| query_parameter(name, kind)).collect();
        let mut operation = json!({
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": resource.gvk(),
        });
        if !queries.is_empty() {
            operation["parameters"] = Value::Array(queries);
        }
        match method {
            "put" | "post" => {
                operation["requestBody"] = json!({"required": true, "content": {"*/*": {"schema": schema}}});
            }
            "patch" => operation["requestBody"] = patch_body(),
            _ => {}
        }
        item.insert(method.to_owned(), operation);
    }
    Value::Object(item)
}

fn patch_body() -> Value {
    let kinds = [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
    ];
    let content: Map<String, Value> =
        kinds.iter().map(|kind| ((*kind).to_owned(), json!({"schema": {"type": "object"}}))).collect();
    json!({"required": true, "content": content})
}

const LIST_PARAMETERS: &[(&str, &str)] = &[
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
const WRITE_PARAMETERS: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCH_PARAMETERS: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETE_PARAMETERS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const CUSTOM: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// The types that are no structs on the wire.
fn leaf_schemas() -> Map<String, Value> {
    [
        (TIME, json!({"type": "string", "format": "date-time"})),
        (MICRO_TIME, json!({"type": "string", "format": "date-time"})),
        (QUANTITY, json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
        (
            INT_OR_STRING,
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        (RAW, json!({"type": "object"})),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

fn schema_name(ty: TypeRef) -> String {
    match ty.group() {
        None => format!("{META}.{}", ty.short_name()),
        Some("apiextensions.k8s.io") => format!("{CUSTOM}.{}", ty.short_name()),
        Some(_) => format!("io.k8s.api.{}", ty.name().replace('/', ".")),
    }
}

fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn reference(ty: TypeRef) -> Value {
    named(&schema_name(ty))
}

fn type_schema(ty: TypeRef, group: &str, wanted: &mut Vec<TypeRef>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in ty.fields() {
        if field.required {
            required.push(field.json);
        }
        properties.insert(field.json.to_owned(), field_schema(field, wanted));
    }
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if ty.is_atomic() {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    if ty.is_kind() {
        let group = ty.group().unwrap_or(group);
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": group, "kind": ty.short_name(), "version": ty.version()}]);
    }
    schema
}

fn field_schema(field: &Field, wanted: &mut Vec<TypeRef>) -> Value {
    let mut schema = value_schema(&field.ty, wanted);
    if let TypeShape::List(_) = field.ty.shape {
        match &field.list {
            ListKind::Atomic => schema["x-kubernetes-list-type"] = json!("atomic"),
            ListKind::Set => schema["x-kubernetes-list-type"] = json!("set"),
            ListKind::Map(keys) => {
                schema["x-kubernetes-list-type"] = json!("map");
                schema["x-kubernetes-list-map-keys"] = json!(keys);
            }
        }
    }
    if field.is_atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    let strategy = field.strategy;
    let words: Vec<&str> =
        [(strategy.merge, "merge"), (strategy.replace, "replace"), (strategy.retain_keys, "retainKeys")]
            .into_iter()
            .filter_map(|(set, word)| set.then_some(word))
            .collect();
    if !words.is_empty() {
        schema["x-kubernetes-patch-strategy"] = json!(words.join(","));
    }
    if !field.merge_key.is_empty() {
        schema["x-kubernetes-patch-merge-key"] = json!(field.merge_key);
    }
    schema
}

fn value_schema(ty: &FieldType, wanted: &mut Vec<TypeRef>) -> Value {
    match &ty.shape {
        TypeShape::String => json!({"type": "string"}),
        TypeShape::Bool => json!({"type": "boolean"}),
        TypeShape::Int32 => json!({"type": "integer", "format": "int32"}),
        TypeShape::Int64 => json!({"type": "integer", "format": "int64"}),
        TypeShape::Float64 => json!({"type": "number", "format": "double"}),
        TypeShape::Bytes => json!({"type": "string", "format": "byte"}),
        TypeShape::Time => json!({"allOf": [named(TIME)]}),
        TypeShape::MicroTime => json!({"allOf": [named(MICRO_TIME)]}),
        TypeShape::Quantity => json!({"allOf": [named(QUANTITY)]}),
        TypeShape::IntOrString => json!({"allOf": [named(INT_OR_STRING)]}),
        TypeShape::Raw => json!({"allOf": [named(RAW)]}),
        // Anything may stand in these.
        TypeShape::Json | TypeShape::SchemaOrArray | TypeShape::SchemaOrBool | TypeShape::SchemaOrStrings => {
            json!({})
        }
        TypeShape::Struct(inner) => {
            wanted.push(*inner);
            json!({"allOf": [reference(*inner)]})
        }
        TypeShape::List(element) => json!({"type": "array", "items": value_schema(element, wanted)}),
        TypeShape::Map(value) => {
            json!({"type": "object", "additionalProperties": value_schema(value, wanted)})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [&str; 14] = [
        "",
        "apiextensions.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    ];

    #[test]
    fn kubectl_finds_what_it_looks_for() {
        let document = &openapi_v3("apps", "v1").expect("is there").value;
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "apps", "kind": "Deployment", "version": "v1"})
        );
        let parameters = patch["parameters"].as_array().expect("parameters");
        for name in ["dryRun", "fieldValidation"] {
            assert!(
                parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "query")
            );
        }
        let scale =
            &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
        assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
        let schemas = &document["components"]["schemas"];
        let spec = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(spec["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(spec["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(schemas["io.k8s.api.apps.v1.DeploymentSpec"]["required"], json!(["selector", "template"]));
        assert!(openapi_v3("apps", "v2").is_none());
        assert!(openapi_v3("example.org", "v1").is_none());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references<'a>(value: &'a Value, into: &mut Vec<&'a str>) {
            match value {
                Value::Object(map) => {
                    into.extend(map.get("$ref").and_then(Value::as_str));
                    map.values().for_each(|inner| references(inner, into));
                }
                Value::Array(items) => items.iter().for_each(|inner| references(inner, into)),
                _ => {}
            }
        }
        for group in GROUPS {
            let document = &openapi_v3(group, "v1").expect("is there").value;
            let mut found = Vec::new();
            references(document, &mut found);
            assert!(found.len() > 10, "{group}");
            for reference in found {
                let name = reference.strip_prefix("#/components/schemas/").expect("a schema");
                assert!(document["components"]["schemas"].get(name).is_some(), "{group}: {name}");
            }
        }
    }
}

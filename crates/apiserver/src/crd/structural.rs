//! Structural schemas: every field has one type, given on the way from the root and not in `anyOf` or `not`.
//! Only such a schema says which fields to prune and what to default.

use super::{check, embedded, path::Path, rules, schema::Schema, shape};
use crate::field::FieldError;
use serde_json::{Map, Value};

/// Where a schema stands; decides what is said when its type is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The fields allowed beside `properties` at the root when the status is a subresource.
const ALLOWED_AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// With a status subresource the status is checked by its own part of the schema; the root may not say
/// anything that would be lost by that.
pub(super) fn check_root_with_status(json: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let kind = text(json, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{place}.type"), kind, detail));
    }
    let set = json.as_object().into_iter().flatten().filter(|(_, value)| !is_zero(value));
    let allowed = |name: &str| ALLOWED_AT_ROOT.iter().any(|(_, allowed)| *allowed == name);
    if set.into_iter().any(|(name, _)| !allowed(name)) {
        let names = ALLOWED_AT_ROOT.map(|(name, _)| name).join(" ");
        let detail = format!(
            "only [{names}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(place, json.clone(), detail));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(json: &Value, name: &str) -> bool {
    json.get(name) == Some(&Value::Bool(true))
}

fn object<'a>(json: &'a Value, name: &str) -> Option<&'a Map<String, Value>> {
    json.get(name).and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

fn list<'a>(json: &'a Value, name: &str) -> &'a [Value] {
    json.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn schema<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    json.get(name).filter(|schema| schema.is_object())
}

/// What keeps a schema from being structural.
pub(super) fn check(json: &Value, place: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_level(json, Level::Root, place, &mut errors);
    check_completeness(json, json, place, place, &mut errors);
    errors
}

/// What the root's combinations speak of has to be defined beside them.
fn check_completeness(
    json: &Value,
    spine: &Value,
    spine_place: &str,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let mut nested = |part: &Value, place: String| {
        check_nested_completeness(part, Some(spine), spine_place, &place, errors);
    };
    if let Some(part) = schema(json, "not") {
        nested(part, format!("{place}.not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (at, part) in list(json, name).iter().enumerate() {
            nested(part, format!("{place}.{name}[{at}]"));
        }
    }
}

fn check_nested_completeness(
    json: &Value,
    spine: Option<&Value>,
    spine_place: &str,
    place: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(spine) = spine else {
        errors.push(FieldError::required(spine_place, format!("because it is defined in {place}")));
        return;
    };
    check_completeness(json, spine, spine_place, place, errors);
    if let Some(items) = schema(json, "items") {
        let (spine_place, place) = (format!("{spine_place}.items"), format!("{place}.items"));
        check_nested_completeness(items, schema(spine, "items"), &spine_place, &place, errors);
    }
    for (name, property) in object(json, "properties").into_iter().flatten() {
        let spine = spine.get("properties").and_then(|properties| properties.get(name));
        let below = |place: &str| format!("{place}.properties[{name}]");
        check_nested_completeness(property, spine, &below(spine_place), &below(place), errors);
    }
}

fn check_level(json: &Value, level: Level, place: &str, errors: &mut Vec<FieldError>) {
    let kind = text(json, "type");
    let (int_or_string, preserve, embedded) = (
        flag(json, "x-kubernetes-int-or-string"),
        flag(json, "x-kubernetes-preserve-unknown-fields"),
        flag(json, "x-kubernetes-embedded-resource"),
    );
    match json.get("items") {
        Some(items @ Value::Object(_)) => check_level(items, Level::Item, &format!("{place}.items"), errors),
        // A list of schemas is refused elsewhere.
        Some(Value::Array(_)) => {}
        _ if kind == "array" => {
            errors.push(FieldError::required(format!("{place}.items"), "must be specified"));
        }
        _ => {}
    }
    let properties = object(json, "properties");
    for (name, property) in properties.into_iter().flatten() {
        check_level(property, Level::Field, &format!("{place}.properties[{name}]"), errors);
    }
    let additional = json.get("additionalProperties").filter(|value| !value.is_null());
    if let Some(additional) = additional {
        let place = format!("{place}.additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&place, "must not be used at the root"));
        }
        if additional.is_object() {
            check_level(additional, Level::Field, &place, errors);
        }
        if embedded {
            errors.push(FieldError::forbidden(
                &place,
                "must not be used if x-kubernetes-embedded-resource is set",
            ));
        }
    }
    if int_or_string {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        for (set, name) in
            [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
        {
            if set {
                errors.push(FieldError::invalid(format!("{place}.{name}"), true, detail));
            }
        }
    }
    check_combinations(json, Skip::of(json), place, errors);
    check_type(json, level, place, errors);
    if embedded && !preserve && properties.is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{place}.properties"), detail));
    }
}

fn check_type(json: &Value, level: Level, place: &str, errors: &mut Vec<FieldError>) {
    let kind = text(json, "type");
    let embedded = flag(json, "x-kubernetes-embedded-resource");
    let untyped =
        flag(json, "x-kubernetes-int-or-string") || flag(json, "x-kubernetes-preserve-unknown-fields");
    let type_place = format!("{place}.type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(type_place.as_str(), detail),
            other => FieldError::invalid(type_place.as_str(), other, detail),
        });
    } else if kind.is_empty() && !untyped {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(type_place.as_str(), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(type_place, kind, "must be object at the root"));
    }
    let resource = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) =
            json.get("properties").and_then(|properties| properties.get(name)).filter(|_| resource)
            && text(property, "type") != "string"
        {
            let place = format!("{place}.properties[{name}].type");
            errors.push(FieldError::invalid(place, text(property, "type"), "must be string"));
        }
    }
    if let Some(metadata) = json.get("properties").and_then(|properties| properties.get("metadata")) {
        let place = format!("{place}.properties[metadata]");
        if resource && text(metadata, "type") != "object" {
            errors.push(FieldError::invalid(
                format!("{place}.type"),
                text(metadata, "type"),
                "must be object",
            ));
        }
        if level == Level::Root && !metadata_is_plain(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(place, detail));
        }
    }
}

fn metadata_is_plain(metadata: &Value) -> bool {
    metadata.as_object().into_iter().flatten().filter(|(_, value)| !is_zero(value)).all(|(name, value)| {
        match name.as_str() {
            "type" | "default" => true,
            "properties" => value
                .as_object()
                .into_iter()
                .flatten()
                .all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
            _ => false,
        }
    })
}

/// Which `anyOf` is the customary way to say "integer or string" and may name types.
#[derive(Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    any_of_in_first_all_of: bool,
}

impl Skip {
    fn of(json: &Value) -> Self {
        let first = list(json, "allOf").first();
        Self {
            any_of: is_int_or_string(list(json, "anyOf")),
            any_of_in_first_all_of: first.is_some_and(|first| is_int_or_string(list(first, "anyOf"))),
        }
    }
}

fn is_int_or_string(alternatives: &[Value]) -> bool {
    let only_type = |json: &Value, kind: &str| {
        text(json, "type") == kind
            && json.as_object().is_some_and(|fields| fields.values().filter(|v| !is_zero(v)).count() == 1)
    };
    matches!(alternatives, [first, second] if only_type(first, "integer") && only_type(second, "string"))
}

fn check_combinations(json: &Value, skip: Skip, place: &str, errors: &mut Vec<FieldError>) {
    if !skip.any_of {
        for (at, part) in list(json, "anyOf").iter().enumerate() {
            check_nested(part, Skip::default(), &format!("{place}.anyOf[{at}]"), errors);
        }
    }
    for (at, part) in list(json, "allOf").iter().enumerate() {
        let inside = Skip { any_of: skip.any_of_in_first_all_of && at == 0, any_of_in_first_all_of: false };
        check_nested(part, inside, &format!("{place}.allOf[{at}]"), errors);
    }
    for (at, part) in list(json, "oneOf").iter().enumerate() {
        check_nested(part, Skip::default(), &format!("{place}.oneOf[{at}]"), errors);
    }
    if let Some(part) = schema(json, "not") {
        check_nested(part, Skip::default(), &format!("{place}.not"), errors);
    }
}

fn check_nested(json: &Value, skip: Skip, place: &str, errors: &mut Vec<FieldError>) {
    check_combinations(json, skip, place, errors);
    if let Some(items) = schema(json, "items") {
        check_nested(items, Skip::default(), &format!("{place}.items"), errors);
    }
    for (name, property) in object(json, "properties").into_iter().flatten() {
        check_nested(property, Skip::default(), &format!("{place}.properties[{name}]"), errors);
    }
    let forbidden = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (name, detail) in forbidden {
        let defined = json.get(name).is_some_and(|value| match detail {
            "must be undefined to be structural" => !value.is_null(),
            _ => !is_zero(value),
        });
        if defined {
            errors.push(FieldError::forbidden(format!("{place}.{name}"), detail));
        }
    }
    if json.get("properties").and_then(|properties| properties.get("metadata")).is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(format!("{place}.properties[metadata]"), detail));
    }
}

/// A default has to be what its own schema asks for.
pub(super) fn check_defaults(schema: &Schema, place: &str, errors: &mut Vec<FieldError>) {
    check_defaults_below(schema, place, false, errors);
}

fn check_defaults_below(schema: &Schema, place: &str, inside_meta: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        check_default(schema, default, &format!("{place}.default"), inside_meta, errors);
    }
    let inside_meta = inside_meta && !schema.embedded;
    if let Some(items) = &schema.items {
        check_defaults_below(items, &format!("{place}.items"), inside_meta, errors);
    }
    for (name, property) in &schema.properties {
        let meta =
            inside_meta || (schema.embedded && matches!(name.as_str(), "metadata" | "kind" | "apiVersion"));
        check_defaults_below(property, &format!("{place}.properties[{name}]"), meta, errors);
    }
}

fn check_default(
    schema: &Schema,
    default: &Value,
    place: &str,
    inside_meta: bool,
    errors: &mut Vec<FieldError>,
) {
    if !inside_meta && shape::prune_part(&mut default.clone(), schema) {
        errors.push(FieldError::invalid(place, default.clone(), "must not have unknown fields"));
    }
    let mut found = Vec::new();
    embedded::check(schema, default, &Path::Under(place), &mut found);
    if found.is_empty() {
        found = check::check(schema, default, None, Some(place));
    }
    // Rules about a change must hold for a default that appears, and for one that stays.
    for old in [Some(default), None] {
        if found.is_empty() {
            found = rules::check(schema, default, old, &Path::Under(place), schema.embedded);
        }
    }
    errors.extend(found);
}

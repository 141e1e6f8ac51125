//! What a schema may and may not say, beyond being structural: list and map types, defaults, rules.

use super::{
    field_path,
    schema::{Flaw, Schema},
    typing,
};
use crate::field::FieldError;
use serde_json::Value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Where in the definition a schema stands, and what that forbids.
#[derive(Clone)]
pub(super) struct Place {
    text: String,
    root: bool,
    inside_meta: bool,
    no_defaults: Option<String>,
}

impl Place {
    pub(super) fn root(text: &str) -> Self {
        Self { text: text.to_owned(), root: true, inside_meta: false, no_defaults: None }
    }

    fn below(&self, step: &str) -> Self {
        Self { text: format!("{}.{step}", self.text), root: false, ..self.clone() }
    }

    fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.text)
    }
}

fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn present(json: &Value, name: &str) -> bool {
    match json.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn flag(json: &Value, name: &str) -> bool {
    json.get(name) == Some(&Value::Bool(true))
}

pub(super) fn check(json: &Value, schema: &Schema, place: &Place, errors: &mut Vec<FieldError>) {
    check_vocabulary(json, place, errors);
    if flag(json, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(place.at("uniqueItems"), detail));
    }
    check_children(json, schema, place, errors);
    if json.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let detail = "must be true or undefined";
        errors.push(FieldError::invalid(place.at("x-kubernetes-preserve-unknown-fields"), false, detail));
    }
    check_map_type(json, place, errors);
    check_list_type(json, place, errors);
    check_rules(json, schema, place, errors);
}

fn check_vocabulary(json: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let kind = text(json, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(place.at("type"), kind, &TYPES));
    }
    if present(json, "default")
        && let Some(reason) = &place.no_defaults
    {
        errors.push(FieldError::forbidden(place.at("default"), format!("must not be set {reason}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if present(json, name) {
            errors.push(FieldError::forbidden(place.at(name), format!("{name} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(place.at("type"), detail));
    }
    if json.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        errors
            .push(FieldError::forbidden(place.at("items"), "items must be a schema object and not an array"));
    }
    if place.inside_meta && flag(json, "x-kubernetes-embedded-resource") {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(place.at("x-kubernetes-embedded-resource"), detail));
    }
}

fn check_children(json: &Value, schema: &Schema, place: &Place, errors: &mut Vec<FieldError>) {
    let properties = json.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty());
    if let Some(additional) = json.get("additionalProperties").filter(|value| !value.is_null()) {
        if properties.is_some() && *additional != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(place.at("additionalProperties"), detail));
        }
        if let super::schema::Additional::Schema(compiled) = &schema.additional {
            let mut below = place.below("additionalProperties");
            if place.inside_meta {
                below.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            check(additional, compiled, &below, errors);
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let Some(compiled) = schema.properties.get(name) else { continue };
        let mut below = place.below(&format!("properties[{name}]"));
        let meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if meta && (place.root || schema.embedded) {
            below.inside_meta = true;
            if place.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check(property, compiled, &below, errors);
    }
    if let (Some(not), Some(compiled)) = (json.get("not"), &schema.not) {
        check(not, compiled, &place.below("not"), errors);
    }
    for (name, compiled) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)]
    {
        let parts = json.get(name).and_then(Value::as_array).into_iter().flatten();
        for (at, (part, compiled)) in parts.zip(compiled).enumerate() {
            check(part, compiled, &place.below(&format!("{name}[{at}]")), errors);
        }
    }
    if let (Some(items), Some(compiled)) = (json.get("items"), &schema.items) {
        check(items, compiled, &place.below("items"), errors);
    }
}

fn check_map_type(json: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let Some(map_type) = json.get("x-kubernetes-map-type").and_then(Value::as_str) else { return };
    let detail = "must be object if x-kubernetes-map-type is specified";
    match text(json, "type") {
        "object" => {}
        "" => errors.push(FieldError::required(place.at("type"), detail)),
        other => errors.push(FieldError::invalid(place.at("type"), other, detail)),
    }
    if !matches!(map_type, "atomic" | "granular") {
        let place = place.at("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(place, map_type, &["atomic", "granular"]));
    }
}

fn check_list_type(json: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let list_type = json.get("x-kubernetes-list-type").and_then(Value::as_str);
    let items = json.get("items").filter(|items| items.is_object());
    let keys: Vec<&str> = json
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(list_type) = list_type {
        let detail = "must be array if x-kubernetes-list-type is specified";
        match text(json, "type") {
            "array" if list_type == "set" => check_set_items(items, place, errors),
            "array" => {}
            "" => errors.push(FieldError::required(place.at("type"), detail)),
            other => errors.push(FieldError::invalid(place.at("type"), other, detail)),
        }
        if !matches!(list_type, "atomic" | "set" | "map") {
            let mut error = FieldError::not_supported(place.at("x-kubernetes-list-type"), list_type, &[]);
            "supported values: \"atomic\", \"set\", \"map\"".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let place = place.at("x-kubernetes-list-type");
        errors.push(match list_type {
            None => FieldError::required(place, detail),
            Some(other) => FieldError::invalid(place, other, detail),
        });
    }
    if list_type == Some("map") {
        check_list_map(json, items, &keys, place, errors);
    }
    if matches!(list_type, Some("map" | "set"))
        && let Some(items) = items
    {
        check_items_of_keyed_list(list_type.unwrap_or_default(), items, &keys, place, errors);
    }
}

fn check_set_items(items: Option<&Value>, place: &Place, errors: &mut Vec<FieldError>) {
    let Some(items) = items else { return };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
    match text(items, "type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            errors.push(FieldError::invalid(place.at("items.x-kubernetes-list-type"), list_type, detail));
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
            errors.push(FieldError::invalid(place.at("items.x-kubernetes-map-type"), list_type, detail));
        }
        _ => {}
    }
}

fn check_list_map(
    json: &Value,
    items: Option<&Value>,
    keys: &[&str],
    place: &Place,
    errors: &mut Vec<FieldError>,
) {
    let keys_place = place.at("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_place.as_str(), detail));
    }
    let Some(items) = items else {
        if !present(json, "items") {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(place.at("items"), detail));
        }
        return;
    };
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(place.at("items.type"), text(items, "type"), detail));
        return;
    }
    for (at, key) in keys.iter().enumerate() {
        match items.get("properties").and_then(|properties| properties.get(*key)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(
                    place.at(&format!("items.properties[{key}].type")),
                    "object",
                    detail,
                ));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_place.as_str(), keys.to_vec(), detail));
            }
        }
        if keys[..at].contains(key) {
            errors.push(FieldError::invalid(
                keys_place.as_str(),
                keys.to_vec(),
                "must not contain duplicate entries",
            ));
        }
    }
}

fn check_items_of_keyed_list(
    list_type: &str,
    items: &Value,
    keys: &[&str],
    place: &Place,
    errors: &mut Vec<FieldError>,
) {
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(place.at("items.nullable"), detail));
    }
    if list_type != "map" {
        return;
    }
    let required: Vec<&str> = items
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for key in keys {
        let Some(property) = items.get("properties").and_then(|properties| properties.get(*key)) else {
            continue;
        };
        let key_place = |name: &str| place.at(&format!("items.properties[{key}].{name}"));
        if !required.contains(key) && !present(property, "default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(key_place("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(key_place("nullable"), detail));
        }
    }
}

fn check_rules(json: &Value, schema: &Schema, place: &Place, errors: &mut Vec<FieldError>) {
    let rules = json.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    for (at, rule) in rules.enumerate() {
        let place = |name: &str| place.at(&format!("x-kubernetes-validations[{at}].{name}"));
        let has_lines = |text: &str| text.contains(['\n', '\r']);
        let (source, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if source.is_empty() {
            errors.push(FieldError::required(place("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.push(FieldError::invalid(place("message"), message, "must be non-empty if specified"));
        } else if has_lines(message.trim()) {
            errors.push(FieldError::invalid(place("message"), message, "must not contain line breaks"));
        } else if has_lines(source) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(place("message"), detail));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(place("messageExpression"), detail));
        }
        if let Some(reason) =
            rule.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason))
        {
            errors.push(FieldError::not_supported(place("reason"), reason, &REASONS));
        }
        let path = text(rule, "fieldPath");
        if !path.is_empty() {
            if path.trim().is_empty() {
                errors.push(FieldError::invalid(place("fieldPath"), path, "must be non-empty if specified"));
            }
            if has_lines(path) {
                errors.push(FieldError::invalid(place("fieldPath"), path, "must not contain line breaks"));
            }
            if field_path::resolve(path, schema).is_err() {
                errors.push(FieldError::invalid(place("fieldPath"), path, "must be a valid path"));
            }
        }
    }
}

/// Judges the rules' expressions: those that did not parse, and what the others name.
pub(super) fn check_expressions(
    json: &Value,
    schema: &Schema,
    place: &str,
    flaws: Vec<Flaw>,
    errors: &mut Vec<FieldError>,
) {
    for flaw in flaws {
        let shown = shown_rule(&flaw.value);
        let detail = format!("{shown}: {}", flaw.detail);
        errors.push(FieldError::invalid(flaw.place, flaw.value, detail).without_value());
    }
    check_expressions_below(json, schema, place, true, None, errors);
}

fn check_expressions_below(
    json: &Value,
    schema: &Schema,
    place: &str,
    root: bool,
    uncorrelatable: Option<&str>,
    errors: &mut Vec<FieldError>,
) {
    if !schema.has_rules {
        return;
    }
    for rule in &schema.rules {
        let place = format!("{place}.x-kubernetes-validations[{}]", rule.at);
        let rule_json =
            json.pointer(&format!("/x-kubernetes-validations/{}", rule.at)).cloned().unwrap_or_default();
        if let Some(fault) = typing::check_rule(rule, schema, root || schema.embedded) {
            let detail = format!("{}: {fault}", shown_rule(&rule_json));
            errors.push(
                FieldError::invalid(format!("{place}.rule"), rule_json.clone(), detail).without_value(),
            );
        }
        if let Some(fault) = typing::check_message(rule, schema, root || schema.embedded) {
            let detail = format!("{}: {fault}", shown_rule(&rule_json));
            let place = format!("{place}.messageExpression");
            errors.push(FieldError::invalid(place, rule_json.clone(), detail).without_value());
        }
        if rule.uses_old_self() {
            if let Some(around) = uncorrelatable {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
                );
                errors.push(FieldError::invalid(format!("{place}.rule"), text(&rule_json, "rule"), detail));
            }
        } else if let Some(optional) = rule_json.get("optionalOldSelf").filter(|value| !value.is_null()) {
            let detail = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(format!("{place}.optionalOldSelf"), optional.clone(), detail));
        }
    }
    let nothing = Value::Null;
    let child = |name: &str| json.get(name).unwrap_or(&nothing);
    if let super::schema::Additional::Schema(additional) = &schema.additional {
        let below = format!("{place}.additionalProperties");
        check_expressions_below(
            child("additionalProperties"),
            additional,
            &below,
            false,
            uncorrelatable,
            errors,
        );
    }
    for (name, property) in &schema.properties {
        let below = format!("{place}.properties[{name}]");
        let json = child("properties").get(name).unwrap_or(&nothing);
        check_expressions_below(json, property, &below, false, uncorrelatable, errors);
    }
    if let Some(items) = &schema.items {
        let correlated = schema.list_type == super::schema::ListType::Map;
        let uncorrelatable = uncorrelatable.or(if correlated { None } else { Some(place) });
        check_expressions_below(
            child("items"),
            items,
            &format!("{place}.items"),
            false,
            uncorrelatable,
            errors,
        );
    }
}

/// A rule as a real server shows it in errors.
fn shown_rule(rule: &Value) -> String {
    let value = |name: &str| {
        let text = Value::from(text(rule, name)).to_string();
        text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    let optional = |name: &str| rule.get(name).cloned().unwrap_or_default();
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        value("rule"),
        value("message"),
        value("messageExpression"),
        optional("reason"),
        value("fieldPath"),
        optional("optionalOldSelf"),
    )
}

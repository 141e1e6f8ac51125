//! The schema of one version, read once from the definition's JSON into what checks need.

use super::{formats, go_regex, rules::Rule};
use regex::Regex;
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type of a JSON value and the format a real server sees in it. A whole number beyond 64 bits is a float.
    pub(super) fn of(value: &Value) -> Option<(Self, &'static str)> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => (Self::Boolean, ""),
            Value::Number(number) if number.as_i64().is_some() => (Self::Integer, "int64"),
            Value::Number(_) => (Self::Number, "float64"),
            Value::String(_) => (Self::String, ""),
            Value::Array(_) => (Self::Array, ""),
            Value::Object(_) => (Self::Object, ""),
        })
    }
}

/// What may stand beside the named properties.
#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    Unset,
    Allowed(bool),
    Schema(Box<Schema>),
}

#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) exclusive_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    Map,
}

#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    pub(super) regex: Regex,
}

/// A format that is checked: its name as written, and the check if it is one of strings.
#[derive(Clone, Debug)]
pub(super) struct Format {
    pub(super) name: String,
    pub(super) check: Option<fn(&str) -> bool>,
}

#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Empty: any. Integer and string for int-or-string.
    pub(super) types: Vec<Type>,
    /// What `type` itself says; messages of rules name it.
    pub(super) declared_type: String,
    pub(super) format: Option<Format>,
    pub(super) nullable: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) allowed: Vec<Value>,
    pub(super) limits: Limits,
    pub(super) pattern: Option<Pattern>,
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) int_or_string: bool,
    pub(super) list_type: ListType,
    pub(super) list_keys: Vec<String>,
    pub(super) rules: Vec<Rule>,
    /// Whether this schema or one below it has rules.
    pub(super) has_rules: bool,
}

/// Why a schema cannot be compiled: where, what stands there, and what is wrong with it.
pub(super) struct Flaw {
    pub(super) place: String,
    pub(super) value: Value,
    pub(super) detail: String,
    /// Whether it is about a rule and not about a pattern.
    pub(super) of_rule: bool,
}

impl Schema {
    /// Reads a schema. What cannot be used is noted in `flaws`; a definition that passed validation has none.
    pub(super) fn compile(json: &Value, place: &str, flaws: &mut Vec<Flaw>) -> Self {
        let flag = |name: &str| json.get(name).and_then(Value::as_bool).unwrap_or_default();
        let number = |name: &str| json.get(name).and_then(Value::as_f64);
        let count = |name: &str| json.get(name).and_then(Value::as_u64);
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default();
        let texts = |name: &str| -> Vec<String> {
            let list = json.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let declared_type = text("type").to_owned();
        let int_or_string = flag("x-kubernetes-int-or-string");
        let types = if int_or_string {
            vec![Type::Integer, Type::String]
        } else {
            Type::parse(&declared_type).into_iter().collect()
        };
        let mut schema = Self {
            format: known_format(text("format"), &types),
            types,
            declared_type,
            nullable: flag("nullable"),
            default: json.get("default").filter(|value| !value.is_null()).cloned(),
            required: texts("required"),
            allowed: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            limits: Limits {
                minimum: number("minimum"),
                maximum: number("maximum"),
                exclusive_minimum: flag("exclusiveMinimum"),
                exclusive_maximum: flag("exclusiveMaximum"),
                multiple_of: number("multipleOf"),
                min_length: count("minLength"),
                max_length: count("maxLength"),
                min_items: count("minItems"),
                max_items: count("maxItems"),
                min_properties: count("minProperties"),
                max_properties: count("maxProperties"),
            },
            unique_items: flag("uniqueItems"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string,
            list_type: match text("x-kubernetes-list-type") {
                "map" => ListType::Map,
                "set" => ListType::Set,
                _ => ListType::Atomic,
            },
            list_keys: texts("x-kubernetes-list-map-keys"),
            ..Self::default()
        };
        schema.compile_pattern(text("pattern"), place, flaws);
        schema.compile_children(json, place, flaws);
        schema.rules = Rule::compile_all(json, &schema, place, flaws);
        schema.has_rules = !schema.rules.is_empty() || schema.children().any(|child| child.has_rules);
        schema
    }

    fn compile_pattern(&mut self, source: &str, place: &str, flaws: &mut Vec<Flaw>) {
        if source.is_empty() {
            return;
        }
        match go_regex::compile(source) {
            Ok(regex) => self.pattern = Some(Pattern { source: source.to_owned(), regex }),
            Err(error) => flaws.push(Flaw {
                place: format!("{place}.pattern"),
                value: source.into(),
                detail: format!("must be a valid regular expression, but isn't: {}", one_line(&error)),
                of_rule: false,
            }),
        }
    }

    fn compile_children(&mut self, json: &Value, place: &str, flaws: &mut Vec<Flaw>) {
        if let Some(properties) = json.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let compiled = Self::compile(property, &format!("{place}.properties[{name}]"), flaws);
                self.properties.insert(name.clone(), compiled);
            }
        }
        self.additional = match json.get("additionalProperties") {
            Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
            Some(schema @ Value::Object(_)) => {
                let compiled = Self::compile(schema, &format!("{place}.additionalProperties"), flaws);
                Additional::Schema(Box::new(compiled))
            }
            _ => Additional::Unset,
        };
        let mut one = |name: &str| -> Option<Box<Self>> {
            let schema = json.get(name).filter(|schema| schema.is_object())?;
            Some(Box::new(Self::compile(schema, &format!("{place}.{name}"), flaws)))
        };
        self.items = one("items");
        self.not = one("not");
        let mut several = |name: &str| -> Vec<Self> {
            let list = json.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
            list.map(|(at, schema)| Self::compile(schema, &format!("{place}.{name}[{at}]"), flaws)).collect()
        };
        self.all_of = several("allOf");
        self.any_of = several("anyOf");
        self.one_of = several("oneOf");
    }

    /// The schemas of the values inside a value of this schema.
    pub(super) fn children(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Schema(schema) => Some(schema.as_ref()),
            _ => None,
        };
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }

    /// The schema of a field, by its own name or as one of a map.
    pub(super) fn of_field(&self, name: &str) -> Option<&Self> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }
}

/// A format counts only where a real server knows it for the type; elsewhere it is a note for people.
fn known_format(name: &str, types: &[Type]) -> Option<Format> {
    let check = match types {
        [] | [Type::String] | [_, _] => Some(formats::check(name)?),
        [Type::Integer] if matches!(name, "int32" | "int64") => None,
        [Type::Number] if matches!(name, "float" | "double") => None,
        _ => return None,
    };
    Some(Format { name: name.to_owned(), check })
}

/// The last line of a regex error says what is wrong; the lines before draw the pattern.
fn one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// The items a list had before, to be found by their keys, which are compared with their defaults filled in.
pub(super) struct OldItems<'a> {
    schema: &'a Schema,
    /// The first of each, by the text of its keys.
    by_keys: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn new(schema: &'a Schema, old: &'a [Value]) -> Self {
        let mut by_keys = BTreeMap::new();
        for item in old {
            if let Some(keys) = schema.keys_of(item) {
                by_keys.entry(keys).or_insert(item);
            }
        }
        Self { schema, by_keys }
    }

    /// None unless the list is one of maps.
    pub(super) fn of_map(schema: &'a Schema, old: Option<&'a Value>) -> Self {
        let old = old.and_then(Value::as_array).filter(|_| schema.list_type == ListType::Map);
        Self::new(schema, old.map(Vec::as_slice).unwrap_or_default())
    }

    pub(super) fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.by_keys.is_empty() {
            return None;
        }
        self.by_keys.get(&self.schema.keys_of(item)?).copied()
    }
}

impl Schema {
    /// The keys of an item of a list-map, as text.
    fn keys_of(&self, item: &Value) -> Option<String> {
        let fields = item.as_object()?;
        let mut out = String::new();
        for key in &self.list_keys {
            let default = || self.items.as_ref()?.properties.get(key)?.default.as_ref();
            let _ = write!(out, "{},", fields.get(key).or_else(default).unwrap_or(&Value::Null));
        }
        Some(out)
    }
}

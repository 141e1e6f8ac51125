//! JSON values as rules see them: typed by the schema, fields under names a rule can write.

use super::{
    formats,
    schema::{Additional, ListType, OldItems, Schema, Type},
};
use base64::Engine;
use kube_cel::{
    KubeCelExt,
    cel::{
        Context, ResolveResult, Value as Cel,
        objects::{Key, Map},
        parser::{Expression, Parser},
    },
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

/// The functions every rule may call, and the names of types. A type is its name: `type(x) == string`.
pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("type", |value: Cel| -> ResolveResult {
        Ok(Cel::String(Arc::new(type_name(&value).to_owned())))
    });
    context.add_function("dyn", |value: Cel| -> ResolveResult { Ok(value) });
    for name in TYPE_NAMES {
        context.add_variable_from_value(name, Cel::String(Arc::new(name.to_owned())));
    }
    context
});

/// The types a rule may name.
pub(super) const TYPE_NAMES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];

fn type_name(value: &Cel) -> &'static str {
    match value {
        Cel::List(_) => "list",
        Cel::Map(_) => "map",
        Cel::Int(_) => "int",
        Cel::UInt(_) => "uint",
        Cel::Float(_) => "double",
        Cel::String(_) => "string",
        Cel::Bytes(_) => "bytes",
        Cel::Bool(_) => "bool",
        Cel::Null => "null_type",
        Cel::Duration(_) => "google.protobuf.Duration",
        Cel::Timestamp(_) => "google.protobuf.Timestamp",
        Cel::Function(..) | Cel::Opaque(_) => "optional_type",
    }
}

static TO_TIMESTAMP: LazyLock<Option<Expression>> =
    LazyLock::new(|| Parser::new().parse("timestamp(text)").ok());
static TO_DURATION: LazyLock<Option<Expression>> =
    LazyLock::new(|| Parser::new().parse("duration(text)").ok());

/// Words that are no field names in a rule; a field of that name is written `__word__`.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A field's name as a rule writes it.
pub(super) fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// The value a rule on `schema` sees as `self`. At the root of a resource the server's own fields are there too.
pub(super) fn to_cel(value: &Value, schema: Option<&Schema>, resource_root: bool) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => {
            let kinds = schema.map(|schema| schema.types.as_slice()).unwrap_or_default();
            let float = number.as_f64().unwrap_or(f64::NAN);
            match number.as_i64() {
                Some(_) if kinds == [Type::Number] => Cel::Float(float),
                Some(whole) => Cel::Int(whole),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a whole number the schema calls an integer"
                )]
                None if kinds == [Type::Integer] && float.fract() == 0.0 => Cel::Int(float as i64),
                None => Cel::Float(float),
            }
        }
        Value::String(text) => text_to_cel(text, schema),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            let embedded = schema.is_some_and(|schema| schema.embedded);
            Cel::List(Arc::new(items.iter().map(|item| to_cel(item, schema, embedded)).collect()))
        }
        Value::Object(fields) => {
            let is_map = schema.is_some_and(|schema| !matches!(schema.additional, Additional::Unset));
            let entries = fields.iter().map(|(name, field)| {
                let key = if is_map { name.clone() } else { escaped(name) };
                let schema = schema.and_then(|schema| schema.of_field(name));
                let embedded = schema.is_some_and(|schema| schema.embedded);
                let value = if resource_root && name == "metadata" {
                    visible_metadata(field)
                } else {
                    to_cel(field, schema, embedded)
                };
                (Key::String(Arc::new(key)), value)
            });
            Cel::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Rules may look at the name only.
fn visible_metadata(metadata: &Value) -> Cel {
    let names = ["name", "generateName"].into_iter().filter_map(|name| {
        let value = metadata.get(name)?;
        Some((Key::String(Arc::new(name.to_owned())), to_cel(value, None, false)))
    });
    Cel::Map(Map { map: Arc::new(names.collect::<HashMap<_, _>>()) })
}

fn text_to_cel(text: &str, schema: Option<&Schema>) -> Cel {
    let plain = || Cel::String(Arc::new(text.to_owned()));
    let Some(format) = schema.and_then(|schema| schema.format.as_ref()) else { return plain() };
    if schema.is_some_and(|schema| schema.int_or_string) {
        return plain();
    }
    let read = |reader: &Option<Expression>, text: String| {
        let mut scope = FUNCTIONS.new_inner_scope();
        scope.add_variable_from_value("text", Cel::String(Arc::new(text)));
        reader.as_ref().and_then(|reader| scope.resolve(reader).ok())
    };
    match format.name.as_str() {
        "date" => read(&TO_TIMESTAMP, format!("{text}T00:00:00Z")).unwrap_or_else(plain),
        "date-time" | "datetime" => read(&TO_TIMESTAMP, text.to_uppercase()).unwrap_or_else(plain),
        "duration" => {
            let seconds = formats::parse_duration(text).map(|nanoseconds| format!("{nanoseconds}ns"));
            seconds.and_then(|text| read(&TO_DURATION, text)).unwrap_or_else(plain)
        }
        "byte" => match base64::engine::general_purpose::STANDARD.decode(text) {
            Ok(bytes) => Cel::Bytes(Arc::new(bytes)),
            Err(_) => plain(),
        },
        _ => plain(),
    }
}

/// The old value with the items of sets and list-maps in the order of the new one: a rule that compares
/// them is not to see a mere change of places.
pub(super) fn aligned(schema: Option<&Schema>, new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let field = |(name, value): (&String, &Value)| {
                let schema = schema.and_then(|schema| schema.of_field(name));
                let value = new.get(name).map_or_else(|| value.clone(), |new| aligned(schema, new, value));
                (name.clone(), value)
            };
            Value::Object(old.iter().map(field).collect())
        }
        (Value::Array(new), Value::Array(old_items)) => match schema {
            Some(schema) if schema.list_type == ListType::Map && new.len() == old_items.len() => {
                let known = OldItems::new(schema, old_items);
                let items: Option<Vec<Value>> = new
                    .iter()
                    .map(|item| known.find(item).map(|old| aligned(schema.items.as_deref(), item, old)))
                    .collect();
                items.map_or_else(|| old.clone(), Value::Array)
            }
            Some(schema) if schema.list_type == ListType::Set && new.len() == old_items.len() => {
                if new.iter().all(|item| old_items.contains(item)) {
                    Value::Array(new.clone())
                } else {
                    old.clone()
                }
            }
            _ => old.clone(),
        },
        _ => old.clone(),
    }
}

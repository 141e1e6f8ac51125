//! Printer columns: what a Table shows of a custom resource.

use super::json_path::JsonPath;
use crate::{age, contract::Column, field::plain_float};
use jiff::Timestamp;
use serde_json::Value;

const NAME: &str = "The object's name, unique in its namespace.";

const AGE: &str = "How long ago the object was created.";

/// The columns of one version, Name first.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) columns: Vec<Column>,
    /// The path of each column but the first. One that cannot be read shows nothing.
    paths: Vec<Option<JsonPath>>,
}

impl Columns {
    /// Reads `additionalPrinterColumns`; without any there is the age.
    pub(super) fn compile(version: &Value) -> Self {
        let mut columns = vec![column("Name", "string", "name", NAME, 0)];
        let mut paths = Vec::new();
        let definitions = version.get("additionalPrinterColumns").and_then(Value::as_array);
        match definitions.filter(|definitions| !definitions.is_empty()) {
            None => {
                columns.push(column("Age", "date", "", AGE, 0));
                paths.push(JsonPath::parse(".metadata.creationTimestamp"));
            }
            Some(definitions) => {
                for definition in definitions {
                    let text = |name: &str| definition.get(name).and_then(Value::as_str).unwrap_or_default();
                    let path = text("jsonPath");
                    let made_up = format!("Custom resource definition column (in JSONPath format): {path}");
                    let description = match text("description") {
                        "" => &made_up,
                        given => given,
                    };
                    let priority = definition.get("priority").and_then(Value::as_i64).unwrap_or_default();
                    let priority = i32::try_from(priority).unwrap_or_default();
                    columns.push(column(text("name"), text("type"), text("format"), description, priority));
                    paths.push(JsonPath::parse(path));
                }
            }
        }
        Self { columns, paths }
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let name = object.pointer("/metadata/name").cloned().unwrap_or_else(|| "".into());
        let others = self.columns.iter().skip(1).zip(&self.paths).map(|(column, path)| {
            let value = path.as_ref().and_then(|path| path.find(object).first().copied());
            value.map_or(Value::Null, |value| cell(&column.kind, value, now))
        });
        std::iter::once(name).chain(others).collect()
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i32) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: format.to_owned(),
        description: description.to_owned(),
        priority,
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("string", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => plain_float(float).into(),
            _ => number.to_string().into(),
        },
        ("string", other) => other.to_string().into(),
        #[expect(clippy::cast_possible_truncation, reason = "a real server cuts the fraction off as well")]
        ("integer", Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.as_f64().map(|float| float as i64))
            .map_or(Value::Null, Value::from),
        ("number", Value::Number(number)) => number.as_f64().map_or(Value::Null, |float| {
            // Go writes a whole float without a fraction.
            number.as_i64().map_or_else(|| float.into(), Value::from)
        }),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(_) => age::since(value, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

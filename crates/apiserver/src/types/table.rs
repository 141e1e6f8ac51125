//! The table of the built-in kinds' fields, read from `data/types.txt` as far as it is asked for.
//!
//! A paragraph per type: its name (`apps/v1.DeploymentSpec`, after the Go package), `kind` if it has
//! apiVersion and kind, `atomic` if server-side apply takes it as one value; then a line per field:
//! JSON name (`-`: an embedded struct whose fields stand among the outer ones in JSON, but not in protobuf),
//! protobuf number, type, and what else is known. Types are written like `*[]{}string=v1.Name`: pointer, list of,
//! map of; a name after `=` is the Go name, of a string or number itself, else of the list or map around
//! it; `@` marks a list that is a message of its own in protobuf. `o` and `z`: left out when empty or zero, `r`: required,
//! `strategy` and `key`: strategic merge patch, `list`: how its elements are told apart, otherwise it is atomic.

use std::sync::OnceLock;

const TYPES: &str = include_str!("../../data/types.txt");

/// A built-in struct.
#[derive(Clone, Copy)]
pub struct TypeRef(&'static Entry);

struct Entry {
    name: &'static str,
    is_kind: bool,
    is_atomic: bool,
    lines: &'static str,
    shape: OnceLock<Shape>,
    zero: OnceLock<serde_json::Value>,
    always_written: OnceLock<Vec<(&'static str, serde_json::Value)>>,
    has_zeros: OnceLock<bool>,
}

/// The fields of one struct.
pub(super) struct Shape {
    /// Sorted by JSON name, with those of embedded structs.
    fields: Vec<Field>,
    /// How the names of the fields begin, in the same order: comparing numbers finds nearly all of them.
    starts: Vec<u64>,
    /// In the order of their protobuf numbers.
    wire: Vec<(u32, Wire)>,
}

/// What a protobuf field number means.
#[derive(Clone, Copy)]
pub(super) enum Wire {
    /// Index into the fields.
    Field(usize),
    /// A message whose fields belong to the outer object.
    Embedded(TypeRef),
}

pub(super) struct Field {
    pub(super) json: &'static str,
    /// How a set of fields begins its member of this name: `"f:name":`.
    pub(super) member: Box<str>,
    pub(super) ty: FieldType,
    pub(super) is_pointer: bool,
    pub(super) omit_empty: bool,
    pub(super) omit_zero: bool,
    pub(super) required: bool,
    pub(super) strategy: Strategy,
    /// Strategic merge: the field by which elements of the list are told apart; empty if none.
    pub(super) merge_key: &'static str,
    pub(super) list: ListKind,
    /// Server-side apply takes this map as one value.
    pub(super) is_atomic: bool,
    /// The name of the embedded struct that this field stands in, as Go's errors show it; empty if none.
    pub(super) embedded_in: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strategy {
    pub(super) merge: bool,
    pub(super) replace: bool,
    pub(super) retain_keys: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Atomic,
    Set,
    Map(Vec<&'static str>),
}

#[derive(Clone)]
pub(super) struct FieldType {
    pub(super) shape: TypeShape,
    /// Go's name of the type; empty for those without one.
    pub(super) go_name: &'static str,
    /// In protobuf a message with this list as its field 1.
    pub(super) is_wrapped: bool,
}

#[derive(Clone)]
pub(super) enum TypeShape {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any object, kept as it is.
    Raw,
    /// Any JSON value.
    Json,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStrings,
    Struct(TypeRef),
    List(Box<FieldType>),
    Map(Box<FieldType>),
}

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        TYPES
            .split("\n\n")
            .map(|paragraph| {
                let (head, lines) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
                let mut words = head.split(' ');
                let name = words.next().unwrap_or_default();
                let (mut is_kind, mut is_atomic) = (false, false);
                for word in words {
                    is_kind |= word == "kind";
                    is_atomic |= word == "atomic";
                }
                Entry {
                    name,
                    is_kind,
                    is_atomic,
                    lines,
                    shape: OnceLock::new(),
                    zero: OnceLock::new(),
                    always_written: OnceLock::new(),
                    has_zeros: OnceLock::new(),
                }
            })
            .collect()
    })
}

fn find(name: &str) -> Option<TypeRef> {
    let entries = entries();
    let index = entries.binary_search_by(|entry| entry.name.cmp(name)).ok()?;
    Some(TypeRef(&entries[index]))
}

/// Group and Go package of the served API groups.
const PACKAGES: [(&str, &str); 18] = [
    ("", "core"),
    ("admissionregistration.k8s.io", "admissionregistration"),
    ("apiextensions.k8s.io", "apiextensions"),
    ("apps", "apps"),
    ("authentication.k8s.io", "authentication"),
    ("authorization.k8s.io", "authorization"),
    ("autoscaling", "autoscaling"),
    ("batch", "batch"),
    ("certificates.k8s.io", "certificates"),
    ("coordination.k8s.io", "coordination"),
    ("discovery.k8s.io", "discovery"),
    ("events.k8s.io", "events"),
    ("networking.k8s.io", "networking"),
    ("node.k8s.io", "node"),
    ("policy", "policy"),
    ("rbac.authorization.k8s.io", "rbac"),
    ("scheduling.k8s.io", "scheduling"),
    ("storage.k8s.io", "storage"),
];

/// The struct of a built-in kind. The kinds of `meta.k8s.io` (`DeleteOptions`, `Status` …) are known in every
/// group version.
pub fn kind(api_version: &str, kind: &str) -> Option<TypeRef> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let own = PACKAGES
        .iter()
        .find(|(name, _)| *name == group)
        .and_then(|(_, package)| find(&format!("{package}/{version}.{kind}")));
    own.or_else(|| find(&format!("meta/v1.{kind}"))).filter(|ty| ty.0.is_kind)
}

/// The struct of `metadata`, for objects whose kind is not built in.
pub fn object_meta() -> Option<TypeRef> {
    find("meta/v1.ObjectMeta")
}

pub(super) fn schema_props() -> Option<TypeRef> {
    find("apiextensions/v1.JSONSchemaProps")
}

/// All structs, in the order of their names.
pub(super) fn all() -> impl Iterator<Item = TypeRef> {
    entries().iter().map(TypeRef)
}

impl TypeRef {
    /// `apps/v1.DeploymentSpec`
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// `DeploymentSpec`
    pub fn short_name(self) -> &'static str {
        self.0.name.rsplit('.').next().unwrap_or(self.0.name)
    }

    /// `v1`
    pub fn version(self) -> &'static str {
        let package = self.0.name.split('.').next().unwrap_or_default();
        package.rsplit('/').next().unwrap_or(package)
    }

    /// The API group, `None` for what belongs to none.
    pub fn group(self) -> Option<&'static str> {
        let package = self.0.name.split('/').next().unwrap_or_default();
        PACKAGES.iter().find(|(_, name)| *name == package).map(|(group, _)| *group)
    }

    pub(super) fn is_kind(self) -> bool {
        self.0.is_kind
    }

    pub(super) fn is_atomic(self) -> bool {
        self.0.is_atomic
    }

    pub(super) fn fields(self) -> &'static [Field] {
        &self.shape().fields
    }

    pub(super) fn field(self, json: &str) -> Option<&'static Field> {
        self.walk().field(json)
    }

    /// For finding the fields of an object one after the other.
    pub(super) fn walk(self) -> Walk {
        Walk { shape: self.shape(), next: 0 }
    }

    pub(super) fn wire(self, number: u32) -> Option<Wire> {
        let wire = &self.shape().wire;
        wire.binary_search_by_key(&number, |(number, _)| *number).ok().map(|index| wire[index].1)
    }

    /// What Go writes for an object of this type in which nothing was set.
    pub(super) fn zero(self) -> &'static serde_json::Value {
        self.0.zero.get_or_init(|| {
            let mut zero = serde_json::Value::Object(serde_json::Map::new());
            super::decode::fill_zero_values(self, &mut zero);
            zero
        })
    }

    /// The fields that Go writes although nobody set them, and what it writes.
    pub(super) fn always_written(self) -> &'static [(&'static str, serde_json::Value)] {
        self.0.always_written.get_or_init(|| {
            let fields = self.fields().iter();
            fields.filter_map(|field| Some((field.json, super::decode::written_zero(field)?))).collect()
        })
    }

    /// Whether Go writes anything that nobody set into an object of this type, however deep inside.
    pub(super) fn has_zeros(self) -> bool {
        *self.0.has_zeros.get_or_init(|| {
            let mut seen = vec![self];
            let mut next = 0;
            while let Some(ty) = seen.get(next).copied() {
                if !ty.always_written().is_empty() {
                    return true;
                }
                for inner in ty.fields().iter().filter_map(|field| field.ty.structure()) {
                    if !seen.contains(&inner) {
                        seen.push(inner);
                    }
                }
                next += 1;
            }
            false
        })
    }

    fn shape(self) -> &'static Shape {
        let entry = self.0;
        entry.shape.get_or_init(|| {
            let mut fields = Vec::new();
            let mut wire = Vec::new();
            if entry.is_kind {
                fields.push(Field::type_meta("apiVersion"));
                fields.push(Field::type_meta("kind"));
            }
            for line in entry.lines.lines() {
                let Some((number, field)) = Field::parse(line) else { continue };
                if field.json != "-" {
                    wire.push((number, field.json));
                    fields.push(field);
                }
            }
            let mut embedded = Vec::new();
            for line in entry.lines.lines() {
                let Some((
                    number,
                    Field { json: "-", ty: FieldType { shape: TypeShape::Struct(inner), .. }, .. },
                )) = Field::parse(line)
                else {
                    continue;
                };
                embedded.push((number, Wire::Embedded(inner)));
                fields.extend(inner.fields().iter().map(|field| field.embedded(inner)));
            }
            fields.sort_by_key(|field| field.json);
            let place = |json: &str| fields.binary_search_by(|field| field.json.cmp(json)).ok();
            let mut wire: Vec<(u32, Wire)> = wire
                .into_iter()
                .filter_map(|(number, json)| Some((number, Wire::Field(place(json)?))))
                .chain(embedded)
                .collect();
            wire.sort_by_key(|(number, _)| *number);
            let starts = fields.iter().map(|field| start_of(field.json)).collect();
            Shape { fields, starts, wire }
        })
    }
}

/// Finds fields by their names. Names that come in order, as those of a map do, are found in one walk.
pub(super) struct Walk {
    shape: &'static Shape,
    next: usize,
}

impl Walk {
    #[inline(never)]
    pub(super) fn field(&mut self, json: &str) -> Option<&'static Field> {
        let Shape { fields, starts, .. } = self.shape;
        let start = start_of(json);
        if starts.get(self.next).is_none_or(|next| *next > start) {
            self.next = 0;
        }
        let ahead = starts.get(self.next..)?;
        self.next += ahead.iter().position(|other| *other >= start)?;
        let alike = starts.get(self.next..)?.iter().take_while(|other| **other == start).count();
        let mut alike = fields.get(self.next..self.next + alike)?.iter();
        // A short name is all in its start.
        alike.find(|field| field.json.len() == json.len() && (json.len() <= 8 || field.json == json))
    }
}

/// The first eight bytes of a name as a number that is in the order of the names.
fn start_of(name: &str) -> u64 {
    match name.as_bytes().first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let number = name.bytes().fold(0, |number, byte| number << 8 | u64::from(byte));
            number << (8 * (8 - name.len().max(1)))
        }
    }
}

impl PartialEq for TypeRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl std::fmt::Debug for TypeRef {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0.name)
    }
}

impl Field {
    fn type_meta(json: &'static str) -> Self {
        Self {
            json,
            member: format!("\"f:{json}\":").into(),
            ty: FieldType::plain(TypeShape::String),
            is_pointer: false,
            omit_empty: true,
            omit_zero: false,
            required: false,
            strategy: Strategy::default(),
            merge_key: "",
            list: ListKind::Atomic,
            is_atomic: false,
            embedded_in: String::new(),
        }
    }

    fn parse(line: &'static str) -> Option<(u32, Self)> {
        let mut words = line.trim_start().split(' ');
        let json = words.next()?;
        let number = words.next()?.parse().ok()?;
        let text = words.next()?;
        let pointee = text.strip_prefix('*');
        let mut field = Self {
            is_pointer: pointee.is_some(),
            omit_empty: false,
            ty: FieldType::parse(pointee.unwrap_or(text))?,
            ..Self::type_meta(json)
        };
        for word in words {
            match word.split_once('=') {
                None => match word {
                    "o" => field.omit_empty = true,
                    "z" => field.omit_zero = true,
                    "r" => field.required = true,
                    "atomic" => field.is_atomic = true,
                    _ => {}
                },
                Some(("key", name)) => field.merge_key = name,
                Some(("strategy", names)) => {
                    for name in names.split(',') {
                        field.strategy.merge |= name == "merge";
                        field.strategy.replace |= name == "replace";
                        field.strategy.retain_keys |= name == "retainKeys";
                    }
                }
                Some(("list", kind)) => {
                    field.list = kind
                        .strip_prefix("map:")
                        .map_or(ListKind::Set, |keys| ListKind::Map(keys.split(',').collect()));
                }
                Some(_) => {}
            }
        }
        Some((number, field))
    }

    /// The same field seen from the struct around the embedded one.
    fn embedded(&self, inner: TypeRef) -> Self {
        let mut embedded_in = inner.short_name().to_owned();
        if !self.embedded_in.is_empty() {
            embedded_in.push('.');
            embedded_in.push_str(&self.embedded_in);
        }
        Self {
            member: self.member.clone(),
            ty: self.ty.clone(),
            list: self.list.clone(),
            embedded_in,
            ..*self
        }
    }

    /// Whether the field is left out when this is its value.
    pub(super) fn is_left_out(&self, value: &serde_json::Value) -> bool {
        use serde_json::Value;
        self.omit_empty
            && !self.is_pointer
            // Sending an empty list of these is an order, see `managed_fields`.
            && self.json != "managedFields"
            && match (&self.ty.shape, value) {
                // A Go struct like IntOrString is never omitted, but its zero value means that it was not set.
                (TypeShape::String | TypeShape::Bytes | TypeShape::IntOrString, Value::String(text)) => {
                    text.is_empty()
                }
                (TypeShape::Bool, Value::Bool(flag)) => !flag,
                (TypeShape::Int32 | TypeShape::Int64 | TypeShape::IntOrString, Value::Number(number)) => {
                    number.as_i64() == Some(0)
                }
                (TypeShape::Float64, Value::Number(number)) => number.as_f64() == Some(0.0),
                (TypeShape::List(_), Value::Array(items)) => items.is_empty(),
                (TypeShape::Map(_), Value::Object(entries)) => entries.is_empty(),
                _ => false,
            }
    }
}

impl FieldType {
    fn plain(shape: TypeShape) -> Self {
        Self { shape, go_name: "", is_wrapped: false }
    }

    fn parse(text: &'static str) -> Option<Self> {
        let mut inner = None;
        for (mark, list) in [("[]", true), ("{}", false)] {
            if let Some(rest) = text.strip_prefix(mark) {
                inner = Some((list, Self::parse(rest)?));
            }
        }
        if let Some((is_list, mut element)) = inner {
            let mut outer = Self::plain(TypeShape::String);
            let is_collection = matches!(element.shape, TypeShape::List(_) | TypeShape::Map(_));
            let is_plain = matches!(element.shape, TypeShape::String | TypeShape::Int32 | TypeShape::Int64);
            if !is_collection && (element.is_wrapped || !is_plain) {
                outer.go_name = std::mem::take(&mut element.go_name);
                outer.is_wrapped = std::mem::take(&mut element.is_wrapped);
            }
            if is_list {
                outer.shape = TypeShape::List(Box::new(element));
            } else {
                outer.shape = TypeShape::Map(Box::new(element));
            }
            return Some(outer);
        }
        let (base, go_name) = text.split_once(['=', '@']).unwrap_or((text, ""));
        let shape = match base {
            "string" => TypeShape::String,
            "bool" => TypeShape::Bool,
            "int32" => TypeShape::Int32,
            "int64" => TypeShape::Int64,
            "float64" => TypeShape::Float64,
            "bytes" => TypeShape::Bytes,
            "time" => TypeShape::Time,
            "microtime" => TypeShape::MicroTime,
            "quantity" => TypeShape::Quantity,
            "intorstring" => TypeShape::IntOrString,
            "raw" => TypeShape::Raw,
            "json" => TypeShape::Json,
            "schema-or-array" => TypeShape::SchemaOrArray,
            "schema-or-bool" => TypeShape::SchemaOrBool,
            "schema-or-strings" => TypeShape::SchemaOrStrings,
            name => TypeShape::Struct(find(name)?),
        };
        Some(Self { shape, go_name, is_wrapped: text.contains('@') })
    }

    /// The struct itself, or that of which this is a list or map.
    pub(super) fn structure(&self) -> Option<TypeRef> {
        match &self.shape {
            TypeShape::Struct(ty) => Some(*ty),
            TypeShape::List(element) | TypeShape::Map(element) => element.structure(),
            _ => None,
        }
    }

    /// The type as Go prints it in its errors.
    pub(super) fn go(&self) -> String {
        if !self.go_name.is_empty() {
            return self.go_name.to_owned();
        }
        match &self.shape {
            TypeShape::String | TypeShape::Time | TypeShape::MicroTime => "string".to_owned(),
            TypeShape::Bool => "bool".to_owned(),
            TypeShape::Int32 | TypeShape::IntOrString => "int32".to_owned(),
            TypeShape::Int64 => "int64".to_owned(),
            TypeShape::Float64 => "float64".to_owned(),
            TypeShape::Bytes => "[]uint8".to_owned(),
            TypeShape::Quantity => "resource.Quantity".to_owned(),
            TypeShape::Raw => "runtime.RawExtension".to_owned(),
            TypeShape::Json => "v1.JSON".to_owned(),
            TypeShape::SchemaOrArray => "v1.JSONSchemaPropsOrArray".to_owned(),
            TypeShape::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            TypeShape::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            TypeShape::Struct(ty) => format!("{}.{}", ty.version(), ty.short_name()),
            TypeShape::List(element) => format!("[]{}", element.go()),
            TypeShape::Map(value) => format!("map[string]{}", value.go()),
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;

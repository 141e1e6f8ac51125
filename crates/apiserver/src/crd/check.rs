//! Checks a value against its schema, with the words and the order of a real server.
//!
//! On update a part that did not change is not complained about: a schema that became stricter must not
//! make every old object immutable.

use super::{
    path::Path,
    schema::{Additional, ListType, OldItems, Schema, Type},
};
use crate::field::{Fault, FieldError, plain_float, quoted};
use serde_json::Value;
use std::collections::BTreeSet;

/// So many issues are told; whoever has more does not read them.
const MOST_ISSUES: usize = 256;

/// All errors of a value. `base` is the field it lies in, `None` for a whole object.
pub(super) fn check(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    base: Option<&str>,
) -> Vec<FieldError> {
    let mut outcome = Outcome::default();
    check_value(schema, new, old, &Path::Root, &mut outcome);
    if old.is_some_and(|old| equal(Some(schema), new, old)) {
        return Vec::new();
    }
    outcome.issues.into_iter().map(|issue| issue.into_error(base)).collect()
}

/// What was found, and how many checks passed: of several failed alternatives the one that came furthest
/// is reported.
struct Outcome {
    issues: Vec<Issue>,
    matches: usize,
    /// How many issues are told at most.
    room: usize,
}

impl Default for Outcome {
    fn default() -> Self {
        Self { issues: Vec::new(), matches: 0, room: MOST_ISSUES }
    }
}

struct Issue {
    /// The place, or empty for what is said about the object as a whole.
    place: String,
    /// Distinguishes issues: the same text is said once.
    text: String,
    fault: Fault,
    value: Value,
}

impl Issue {
    fn into_error(self, base: Option<&str>) -> FieldError {
        let place = self.place.trim_start_matches('.');
        let field = match (base, place) {
            (None, "") => "<nil>".to_owned(),
            (None, place) => place.to_owned(),
            (Some(base), "") => base.to_owned(),
            (Some(base), place) => format!("{base}.{place}"),
        };
        let detail = if self.fault == Fault::Required { String::new() } else { self.text };
        FieldError::new(self.fault, field, self.value, detail)
    }
}

impl Outcome {
    fn add(&mut self, place: String, fault: Fault, value: Value, text: String) {
        self.push(Issue { place, text, fault, value });
    }

    fn invalid(&mut self, path: &Path<'_>, value: Value, text: &str) {
        let place = path.dotted();
        let text = format!("{place} in body {text}");
        self.add(place, Fault::Invalid, value, text);
    }

    /// Said about the object as a whole, whatever the place.
    fn general(&mut self, text: String) {
        self.add(String::new(), Fault::Invalid, "".into(), text);
    }

    fn push(&mut self, issue: Issue) {
        if self.issues.len() >= self.room {
            return;
        }
        let said = |other: &Issue| {
            other.text == issue.text && other.fault == issue.fault && other.place == issue.place
        };
        if !self.issues.iter().any(said) {
            self.issues.push(issue);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for issue in other.issues {
            self.push(issue);
        }
    }
}

/// Checks a field or item; nothing is said about one that did not change.
fn check_part(schema: &Schema, new: &Value, old: Option<&Value>, path: &Path<'_>, outcome: &mut Outcome) {
    let mut part = Outcome { room: outcome.room.saturating_sub(outcome.issues.len()), ..Outcome::default() };
    if part.room == 0 {
        return;
    }
    check_value(schema, new, old, path, &mut part);
    if !part.issues.is_empty() && old.is_some_and(|old| equal(Some(schema), new, old)) {
        part.issues.clear();
    }
    outcome.merge(part);
}

fn check_value(schema: &Schema, new: &Value, old: Option<&Value>, path: &Path<'_>, outcome: &mut Outcome) {
    if new.is_null() {
        check_type(schema, new, path, outcome);
        check_enum(schema, new, path, outcome);
        return;
    }
    if !schema.types.is_empty() || schema.format.is_some() {
        check_type(schema, new, path, outcome);
        outcome.matches += 1;
    }
    check_combinations(schema, new, old, path, outcome);
    outcome.matches += 1;
    match new {
        Value::String(text) => {
            check_string(schema, text, path, outcome);
            outcome.matches += 1;
        }
        Value::Number(_) => {
            check_number(schema, new, path, outcome);
            outcome.matches += 2;
        }
        Value::Array(items) => {
            check_items(schema, items, old, path, outcome);
            outcome.matches += 2;
        }
        _ => {}
    }
    check_enum(schema, new, path, outcome);
    outcome.matches += 1;
    if let Value::Object(fields) = new {
        check_fields(schema, fields, old, path, outcome);
        outcome.matches += 1;
    }
    outcome.matches += 1;
}

fn check_type(schema: &Schema, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    let mut wrong = |wanted: &str, found: &str| {
        let place = path.dotted();
        let text = format!("{place} in body must be of type {wanted}: {}", quoted(found));
        outcome.add(place, Fault::TypeInvalid, found.into(), text);
    };
    let names = || schema.types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
    let Some((found, found_format)) = Type::of(value) else {
        if schema.types.is_empty() || schema.nullable {
            outcome.matches += 1;
        } else {
            wrong(&names(), "null");
        }
        return;
    };
    // Beyond 53 bits a float cannot tell one whole number from the next.
    let whole =
        value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0);
    let fits = schema.types.contains(&found)
        || (found == Type::Number && whole && schema.types.contains(&Type::Integer))
        || (found == Type::Integer && schema.types.contains(&Type::Number));
    let text_or_list = matches!(found, Type::String | Type::Array);
    if let Some(format) = &schema.format {
        if !text_or_list && !fits && found_format != format.name {
            wrong(&format.name, found_format);
            return;
        }
        // A real server leaves text with a format to the check of the format, and lists with it.
        let numeric = schema.types.iter().any(|kind| matches!(kind, Type::Integer | Type::Number));
        if text_or_list && !numeric {
            outcome.matches += 1;
            return;
        }
    }
    if fits {
        outcome.matches += 1;
    } else {
        wrong(&names(), found.name());
    }
}

fn check_combinations(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let run = |alternative: &Schema| {
        let mut result = Outcome::default();
        check_value(alternative, new, old, path, &mut result);
        result
    };
    let furthest = |best: Option<Outcome>, result: Outcome| match best {
        Some(best) if result.matches <= best.matches => Some(best),
        _ => Some(result),
    };
    let place = || quoted(&path.dotted());
    if !schema.any_of.is_empty() {
        let mut best = None;
        let mut valid = None;
        for alternative in &schema.any_of {
            let result = run(alternative);
            if result.issues.is_empty() {
                valid = Some(result);
                break;
            }
            best = furthest(best, result);
        }
        if valid.is_none() {
            outcome.general(format!("{} must validate at least one schema (anyOf)", place()));
        }
        if let Some(result) = valid.or(best) {
            outcome.merge(result);
        }
    }
    if !schema.one_of.is_empty() {
        let mut best = None;
        let mut valid = Vec::new();
        for alternative in &schema.one_of {
            let result = run(alternative);
            if result.issues.is_empty() {
                valid.push(result);
            } else if valid.is_empty() {
                best = furthest(best, result);
            }
        }
        let count = valid.len();
        if count == 1 {
            for result in valid {
                outcome.merge(result);
            }
        } else {
            let found = if count == 0 {
                "Found none valid".to_owned()
            } else {
                format!("Found {count} valid alternatives")
            };
            outcome.general(format!("{} must validate one and only one schema (oneOf). {found}", place()));
            if let Some(best) = best.filter(|_| count == 0) {
                outcome.merge(best);
            }
        }
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for part in &schema.all_of {
            let result = run(part);
            valid += usize::from(result.issues.is_empty());
            outcome.merge(result);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.general(format!("{} must validate all the schemas (allOf){none}", place()));
        }
    }
    if let Some(not) = &schema.not
        && run(not).issues.is_empty()
    {
        outcome.general(format!("{} must not validate the schema (not)", place()));
    }
    outcome.matches += 1;
}

fn check_string(schema: &Schema, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
    let limits = &schema.limits;
    let length = || u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    if let Some(most) = limits.max_length.filter(|most| length() > *most) {
        let bytes = if most == 1 { "byte" } else { "bytes" };
        outcome.add(
            path.dotted(),
            Fault::TooLong,
            Value::Null,
            format!("may not be more than {most} {bytes}"),
        );
    } else if let Some(least) = limits.min_length.filter(|least| length() < *least) {
        outcome.invalid(path, text.into(), &format!("should be at least {least} chars long"));
    } else if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.regex.is_match(text)) {
        outcome.invalid(path, text.into(), &format!("should match '{}'", pattern.source));
    }
    if let Some(format) = &schema.format
        && let Some(check) = format.check
    {
        if !check(text) {
            let place = path.dotted();
            let detail = format!("{place} in body must be of type {}: {}", format.name, quoted(text));
            outcome.add(place, Fault::TypeInvalid, text.into(), detail);
        }
        outcome.matches += 1;
    }
}

fn check_number(schema: &Schema, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    let Some(number) = value.as_f64() else { return };
    let whole = value.as_i64();
    check_range(schema, number, whole, "Checked", path, outcome);
    let limits = &schema.limits;
    // A bound that does not fit the type is itself complained about, then compared as a plain number.
    if let Some(factor) = limits.multiple_of {
        let fits = check_range(schema, factor, None, "MultipleOf", path, outcome);
        let compared = whole.filter(|_| fits);
        let shown = compared.map_or_else(|| plain_float(factor), |_| plain_float(factor.trunc()));
        #[expect(clippy::cast_possible_truncation, reason = "whole numbers are compared as whole numbers")]
        let multiple = if let Some(whole) = compared {
            factor.trunc() > 0.0 && whole % (factor as i64).max(1) == 0
        } else {
            let quotient = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            is_json_integer(quotient)
        };
        if factor <= 0.0 {
            let place = path.dotted();
            let text = format!("factor MultipleOf declared for {place} must be positive: {shown}");
            outcome.add(place, Fault::Invalid, factor.into(), text);
        } else if !multiple {
            outcome.invalid(path, value.clone(), &format!("should be a multiple of {shown}"));
        }
    }
    if let Some(least) = limits.minimum {
        let fits = check_range(schema, least, None, "Minimum boundary", path, outcome);
        let bound = if whole.is_some() && fits { least.trunc() } else { least };
        let below = if limits.exclusive_minimum { number <= bound } else { number < bound };
        if below {
            let words = if limits.exclusive_minimum { "greater than" } else { "greater than or equal to" };
            outcome.invalid(path, value.clone(), &format!("should be {words} {}", plain_float(bound)));
        }
    }
    if let Some(most) = limits.maximum {
        let fits = check_range(schema, most, None, "Maximum boundary", path, outcome);
        let bound = if whole.is_some() && fits { most.trunc() } else { most };
        let above = if limits.exclusive_maximum { number >= bound } else { number > bound };
        if above {
            let words = if limits.exclusive_maximum { "less than" } else { "less than or equal to" };
            outcome.invalid(path, value.clone(), &format!("should be {words} {}", plain_float(bound)));
        }
    }
}

/// Whether a number has room in the type and format of the schema.
fn check_range(
    schema: &Schema,
    number: f64,
    whole: Option<i64>,
    what: &str,
    path: &Path<'_>,
    outcome: &mut Outcome,
) -> bool {
    let [kind] = schema.types.as_slice() else { return true };
    let format = schema.format.as_ref().map(|format| format.name.as_str()).unwrap_or_default();
    let fits = match (kind, format) {
        (Type::Integer, "int32") => {
            number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number)
        }
        (Type::Integer, _) => {
            whole.is_some() || (number.fract() == 0.0 && number.abs() < 9.223_372_036_854_775e18)
        }
        (Type::Number, "float") => number.abs() <= f64::from(f32::MAX),
        _ => true,
    };
    if !fits {
        let format =
            if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        outcome.general(format!(
            "{what} value must be of type {} {format} in {}",
            kind.name(),
            path.dotted()
        ));
    }
    fits
}

fn is_json_integer(number: f64) -> bool {
    number.is_finite() && (number - number.round()).abs() < 1e-9
}

fn check_items(
    schema: &Schema,
    items: &[Value],
    old: Option<&Value>,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    if let Some(item_schema) = &schema.items {
        let old_items = OldItems::of_map(schema, old);
        for (index, item) in items.iter().enumerate() {
            let old_item = old_items.find(item);
            check_part(item_schema, item, old_item, &path.index(index), outcome);
        }
    }
    let size = u64::try_from(items.len()).unwrap_or(u64::MAX);
    if let Some(least) = schema.limits.min_items.filter(|least| size < *least) {
        outcome.invalid(path, size.into(), &format!("should have at least {least} items"));
    }
    if let Some(most) = schema.limits.max_items.filter(|most| size > *most) {
        too_many(path, size, most, outcome);
    }
    let mut seen = BTreeSet::new();
    if schema.unique_items && items.iter().any(|item| !seen.insert(item.to_string())) {
        outcome.invalid(path, "".into(), "shouldn't contain duplicates");
    }
}

fn too_many(path: &Path<'_>, size: u64, most: u64, outcome: &mut Outcome) {
    let items = if most == 1 { "item" } else { "items" };
    outcome.add(path.dotted(), Fault::TooMany, size.into(), format!("must have at most {most} {items}"));
}

fn check_enum(schema: &Schema, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
    if schema.allowed.is_empty() {
        return;
    }
    // A null is never one of the values, even where null is listed.
    if !value.is_null() && schema.allowed.iter().any(|allowed| same(allowed, value)) {
        return;
    }
    let show = |allowed: &Value| match allowed {
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    };
    let list = schema.allowed.iter().map(show).collect::<Vec<_>>().join(", ");
    outcome.add(path.dotted(), Fault::NotSupported, value.clone(), format!("supported values: {list}"));
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

fn check_fields(
    schema: &Schema,
    fields: &serde_json::Map<String, Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    outcome: &mut Outcome,
) {
    let size = u64::try_from(fields.len()).unwrap_or(u64::MAX);
    if let Some(least) = schema.limits.min_properties.filter(|least| size < *least) {
        outcome.invalid(path, size.into(), &format!("should have at least {least} properties"));
    }
    if let Some(most) = schema.limits.max_properties.filter(|most| size > *most) {
        too_many(path, size, most, outcome);
    }
    let unnamed = || fields.iter().filter(|(name, _)| !schema.properties.contains_key(*name));
    match &schema.additional {
        Additional::Allowed(false) => {
            for (name, _) in unnamed() {
                let place = path.dotted();
                let text = format!("{place}.{name} in body is a forbidden property");
                outcome.add(place, Fault::Invalid, name.as_str().into(), text);
            }
        }
        Additional::Schema(additional) => {
            for (name, field) in unnamed() {
                let old = old.and_then(|old| old.get(name));
                check_part(additional, field, old, &path.key(name), outcome);
            }
        }
        _ => {}
    }
    for (name, property) in &schema.properties {
        if let Some(field) = fields.get(name) {
            // The server sets these two on both objects: their change cannot be seen.
            let visible = !(matches!(path, Path::Root) && matches!(name.as_str(), "apiVersion" | "kind"));
            let old = old.and_then(|old| old.get(name)).filter(|_| visible);
            check_part(property, field, old, &path.field(name), outcome);
        }
    }
    for name in schema.required.iter().filter(|name| !fields.contains_key(*name)) {
        let place = path.field(name).dotted();
        outcome.add(place.clone(), Fault::Required, Value::Null, format!("{place} in body is required"));
    }
}

/// Whether a value is still the old one. Items of list-maps may have changed places.
pub(super) fn equal(schema: Option<&Schema>, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(name, value)| {
                    let schema = schema.and_then(|schema| schema.of_field(name));
                    old.get(name).is_some_and(|old| equal(schema, value, old))
                })
        }
        (Value::Array(new), Value::Array(old)) => {
            let as_map = schema.filter(|schema| schema.list_type == ListType::Map);
            new.len() == old.len()
                && match as_map {
                    Some(schema) => {
                        let (items, old) = (schema.items.as_deref(), OldItems::new(schema, old));
                        new.iter().all(|item| old.find(item).is_some_and(|old| equal(items, item, old)))
                    }
                    None => new == old,
                }
        }
        _ => new == old,
    }
}

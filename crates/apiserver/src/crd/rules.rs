//! `x-kubernetes-validations`: rules in CEL, parsed when the definition is read, evaluated per object.

use super::{
    cel_value::{FUNCTIONS, aligned, to_cel},
    check::equal,
    field_path,
    path::Path,
    schema::{Additional, Flaw, OldItems, Schema},
};
use crate::field::{Fault, FieldError};
use kube_cel::cel::{
    Context, ExecutionError, Value as Cel,
    common::ast::{EntryExpr, Expr},
    objects::OptionalValue,
    parser::{Expression, Parser},
};
use serde_json::Value;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// The largest message a `messageExpression` may make, in bytes.
const LONGEST_MESSAGE: usize = 5 * 1024;

/// How many steps of nested loops a rule may take. A real server counts the cost of every operation; we only
/// have to make sure that no rule takes for ever.
const MOST_STEPS: u64 = 2_000_000;
/// How many steps all rules of an object may take.
const MOST_STEPS_TOGETHER: u64 = 4 * MOST_STEPS;

/// A loop that gathers a list or a map copies what it has so far at each step; so many items weigh as much as a step.
const COPIES_PER_STEP: u64 = 50;

/// The longest rule and the deepest nesting of one.
const LONGEST_RULE: usize = 100_000;
const DEEPEST_RULE: u32 = 250;

/// Up to this depth a rule is evaluated where we are.
const DEEP_FOR_OUR_STACK: u32 = 24;

#[derive(Debug)]
pub(super) struct Rule {
    /// Its place in the list of rules.
    pub(super) at: usize,
    source: String,
    message: String,
    message_source: String,
    message_expression: Option<(Expression, Shape)>,
    reason: String,
    /// The field below this value that is blamed, in the form of a path in messages.
    blamed: Option<String>,
    optional_old_self: bool,
    expression: Expression,
    uses_old_self: bool,
    shape: Shape,
}

impl Rule {
    /// The rules of one schema. Those that do not parse are noted as flaws.
    pub(super) fn compile_all(
        json: &Value,
        schema: &Schema,
        place: &str,
        flaws: &mut Vec<Flaw>,
    ) -> Vec<Self> {
        let rules = json.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
        rules
            .enumerate()
            .filter_map(|(at, rule)| {
                let place = format!("{place}.x-kubernetes-validations[{at}]");
                Self::compile(rule, at, schema, &place, flaws)
            })
            .collect()
    }

    fn compile(json: &Value, at: usize, schema: &Schema, place: &str, flaws: &mut Vec<Flaw>) -> Option<Self> {
        let text = |name: &str| json.get(name).and_then(Value::as_str).unwrap_or_default();
        let source = text("rule").trim();
        if source.is_empty() {
            return None;
        }
        let mut parsed = |field: &str, prefix: &str, source: &str| match parse(source) {
            Ok(expression) => Some(expression),
            Err(error) => {
                let detail = format!("{prefix}compilation failed: {error}");
                flaws.push(Flaw {
                    place: format!("{place}.{field}"),
                    value: json.clone(),
                    detail,
                    of_rule: true,
                });
                None
            }
        };
        let (expression, shape) = parsed("rule", "", source)?;
        let message_expression = match text("messageExpression") {
            "" => None,
            source => parsed("messageExpression", "messageExpression ", source),
        };
        Some(Self {
            at,
            source: source.to_owned(),
            message: text("message").trim().to_owned(),
            message_source: text("messageExpression").to_owned(),
            message_expression,
            reason: text("reason").to_owned(),
            blamed: field_path::resolve(text("fieldPath"), schema).ok().map(|(path, _)| path),
            optional_old_self: json.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or_default(),
            uses_old_self: expression.references().has_variable("oldSelf"),
            shape,
            expression,
        })
    }

    pub(super) fn uses_old_self(&self) -> bool {
        self.uses_old_self
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn old_self_is_optional(&self) -> bool {
        self.optional_old_self
    }

    pub(super) fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The expression of the message and its text.
    pub(super) fn message_expression(&self) -> Option<(&Expression, &str)> {
        self.message_expression.as_ref().map(|(expression, _)| (expression, self.message_source.as_str()))
    }

    fn name(&self) -> &str {
        if self.message.is_empty() { &self.source } else { &self.message }
    }

    fn failure(&self, scope: &Context<'_>, largest: u64) -> String {
        if let Some((expression, shape)) = &self.message_expression
            && !shape.is_endless(largest)
            && let Ok(Cel::String(text)) = evaluate(expression, *shape, scope)
        {
            let text = text.trim();
            if !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if self.message.is_empty() { format!("failed rule: {}", self.source) } else { self.message.clone() }
    }
}

/// Parser and interpreter recurse with large frames: a dozen brackets fill a thread's usual stack. What may be
/// deep runs on a stack of its own; the caller waits, so nothing runs at the same time.
fn with_room<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    const STACK: usize = 256 * 1024 * 1024;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        thread.ok().and_then(|thread| thread.join().ok())
    })
}

fn parse(source: &str) -> Result<(Expression, Shape), String> {
    let at_start = |text: &str| format!("ERROR: <input>:1:1: {text}");
    if source.len() > LONGEST_RULE {
        return Err(at_start(&format!(
            "expression code point size exceeds limit: size: {}, limit {LONGEST_RULE}",
            source.len()
        )));
    }
    with_room(|| {
        let mut expression =
            Parser::new().enable_optional_syntax(true).parse(source).map_err(|errors| errors.to_string())?;
        tolerate_missing_optionals(&mut expression.expr);
        let (loops, gathering) = loops(&expression.expr);
        let shape = Shape { depth: depth(&expression.expr), loops, gathering };
        if shape.depth > DEEPEST_RULE {
            return Err(at_start(&format!("expression recursion limit exceeded: {DEEPEST_RULE}")));
        }
        Ok((expression, shape))
    })
    .unwrap_or_else(|| Err(at_start("Syntax error: the expression cannot be read")))
}

/// How deep an expression, and the loops in it, are nested.
#[derive(Clone, Copy, Debug)]
struct Shape {
    depth: u32,
    loops: u32,
    gathering: u32,
}

/// `a.?b` of an absent field is an empty optional; the interpreter does so only for `a[?"b"]`.
fn tolerate_missing_optionals(expression: &mut Expr) {
    if let Expr::Call(call) = expression
        && call.func_name == "_?._"
    {
        "_[?_]".clone_into(&mut call.func_name);
    }
    each_child(expression, &mut |child| tolerate_missing_optionals(child));
}

fn each_child(expression: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match expression {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| visit(&mut target.expr));
            call.args.iter_mut().for_each(|argument| visit(&mut argument.expr));
        }
        Expr::Comprehension(comprehension) => {
            let parts = comprehension.as_mut();
            for part in [
                &mut parts.iter_range,
                &mut parts.accu_init,
                &mut parts.loop_cond,
                &mut parts.loop_step,
                &mut parts.result,
            ] {
                visit(&mut part.expr);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(|element| visit(&mut element.expr)),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    visit(&mut entry.key.expr);
                    visit(&mut entry.value.expr);
                }
            }
        }
        Expr::Select(select) => visit(&mut select.operand.expr),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

fn children(expression: &Expr) -> Vec<&Expr> {
    match expression {
        Expr::Call(call) => {
            let target = call.target.iter().map(|target| &target.expr);
            target.chain(call.args.iter().map(|argument| &argument.expr)).collect()
        }
        Expr::Comprehension(parts) => {
            [&parts.iter_range, &parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result]
                .map(|part| &part.expr)
                .to_vec()
        }
        Expr::List(list) => list.elements.iter().map(|element| &element.expr).collect(),
        Expr::Map(map) => {
            let entries = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key.expr, &entry.value.expr]),
                EntryExpr::StructField(_) => None,
            });
            entries.flatten().collect()
        }
        Expr::Select(select) => vec![&select.operand.expr],
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

fn depth(expression: &Expr) -> u32 {
    children(expression).into_iter().map(depth).max().unwrap_or(0) + 1
}

/// How many loops lie in each other, and how many of them gather a list or a map.
fn loops(expression: &Expr) -> (u32, u32) {
    if let Expr::Comprehension(parts) = expression {
        let gathers = matches!(parts.accu_init.expr, Expr::List(_) | Expr::Map(_));
        let (loops_inside, gathering) = loops(&parts.loop_cond.expr).max(loops(&parts.loop_step.expr));
        let own = (loops_inside + 1, gathering + u32::from(gathers));
        return own.max(loops(&parts.iter_range.expr));
    }
    children(expression).into_iter().map(loops).max().unwrap_or_default()
}

impl Shape {
    /// How many steps a rule of this shape takes at most on a value whose largest collection has so many items.
    fn steps(self, largest: u64) -> u64 {
        let copies = (largest / COPIES_PER_STEP).max(1).saturating_pow(self.gathering);
        largest.saturating_pow(self.loops).saturating_mul(copies)
    }

    /// Whether that could take too long. One loop over what a body can hold does not.
    fn is_endless(self, largest: u64) -> bool {
        (self.loops > 1 || self.gathering > 0) && self.steps(largest) > MOST_STEPS
    }
}

/// A panic inside a function of the interpreter is a failed rule, not a dead server.
fn evaluate(expression: &Expression, shape: Shape, scope: &Context<'_>) -> Result<Cel, String> {
    let outcome = if shape.depth > DEEP_FOR_OUR_STACK {
        with_room(|| scope.resolve(expression))
    } else {
        catch_unwind(AssertUnwindSafe(|| scope.resolve(expression))).ok()
    };
    match outcome {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(words(&error)),
        None => Err("internal error".to_owned()),
    }
}

/// The interpreter's errors in the words of cel-go.
fn words(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. } => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Cel::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { function, .. } if function == "quantity" => {
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                .to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// Checks all rules of a schema on an object. `old` is there on update.
pub(super) fn check(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    resource_root: bool,
) -> Vec<FieldError> {
    let mut found = Found::default();
    let unchanged = old.map(|old| Correlation { schema, new, old });
    walk(schema, new, old, unchanged, path, resource_root, &mut found);
    found.errors
}

/// What the rules found so far, and how many steps they took.
#[derive(Default)]
struct Found {
    errors: Vec<FieldError>,
    steps: u64,
}

/// The nearest value around a rule that can be compared with what it was before.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    schema: &'a Schema,
    new: &'a Value,
    old: &'a Value,
}

fn walk<'a>(
    schema: &'a Schema,
    new: &'a Value,
    old: Option<&'a Value>,
    nearest: Option<Correlation<'a>>,
    path: &Path<'_>,
    resource_root: bool,
    found: &mut Found,
) {
    if !schema.has_rules || new.is_null() || found.steps > MOST_STEPS_TOGETHER {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    check_rules(schema, new, old, nearest, path, resource_root, found);
    match new {
        Value::Array(items) => {
            let Some(item_schema) = schema.items.as_deref() else { return };
            let old_items = OldItems::of_map(schema, old);
            for (index, item) in items.iter().enumerate() {
                let old_item = old_items.find(item);
                let nearest =
                    old_item.map(|old| Correlation { schema: item_schema, new: item, old }).or(nearest);
                walk(item_schema, item, old_item, nearest, &path.index(index), item_schema.embedded, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let old_field = old.and_then(|old| old.get(name));
                let (schema, path) = match (schema.properties.get(name), &schema.additional) {
                    (Some(property), _) => (property, path.field(name)),
                    (None, Additional::Schema(additional)) => (additional.as_ref(), path.key(name)),
                    _ => continue,
                };
                let nearest = old_field.map(|old| Correlation { schema, new: field, old }).or(nearest);
                walk(schema, field, old_field, nearest, &path, schema.embedded, found);
            }
        }
        _ => {}
    }
}

fn check_rules(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    nearest: Option<Correlation<'_>>,
    path: &Path<'_>,
    resource_root: bool,
    found: &mut Found,
) {
    if schema.rules.is_empty() {
        return;
    }
    let mut scope = FUNCTIONS.new_inner_scope();
    scope.add_variable_from_value("self", to_cel(new, Some(schema), resource_root));
    let transition = schema.rules.iter().any(Rule::uses_old_self);
    let old_self = old
        .filter(|_| transition)
        .map(|old| to_cel(&aligned(Some(schema), new, old), Some(schema), resource_root));
    let kind = || Value::from(schema.declared_type.as_str());
    let largest = largest_collection(new);
    for rule in &schema.rules {
        if rule.uses_old_self && old.is_none() && !rule.optional_old_self {
            continue;
        }
        found.steps = found.steps.saturating_add(rule.shape.steps(largest));
        if found.steps > MOST_STEPS_TOGETHER && !rule.shape.is_endless(largest) {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            found.errors.push(FieldError::invalid(path.text(), kind(), detail));
            return;
        }
        if rule.shape.is_endless(largest) {
            let detail = format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                rule.name()
            );
            found.errors.push(FieldError::invalid(path.text(), kind(), detail));
            return;
        }
        let mut rule_scope = scope.new_inner_scope();
        match (&old_self, rule.optional_old_self) {
            (Some(old), false) => rule_scope.add_variable_from_value("oldSelf", old.clone()),
            (old, true) => {
                let optional = old.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                rule_scope.add_variable_from_value("oldSelf", Cel::Opaque(Arc::new(optional)));
            }
            (None, false) => {}
        }
        match evaluate(&rule.expression, rule.shape, &rule_scope) {
            Ok(Cel::Bool(true)) => {}
            Ok(Cel::Bool(false)) => {
                let unchanged = || nearest.is_some_and(|near| equal(Some(near.schema), near.new, near.old));
                if rule.uses_old_self || !unchanged() {
                    found.errors.push(failed(rule, schema, new, path, rule.failure(&rule_scope, largest)));
                }
            }
            Ok(_) => found.errors.push(FieldError::invalid(
                path.text(),
                kind(),
                "cel expression must evaluate to a bool",
            )),
            Err(error) if error == "no such overload" => {
                let detail = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                    rule.name()
                );
                found.errors.push(FieldError::invalid(path.text(), kind(), detail));
            }
            Err(error) => {
                let detail = format!("{error} evaluating rule: {}", rule.name());
                found.errors.push(FieldError::invalid(path.text(), kind(), detail));
            }
        }
    }
}

fn failed(rule: &Rule, schema: &Schema, value: &Value, path: &Path<'_>, detail: String) -> FieldError {
    let field = match (&rule.blamed, path) {
        (None, path) => path.text(),
        (Some(blamed), Path::Root) => blamed.clone(),
        (Some(blamed), path) => format!("{}.{blamed}", path.text()),
    };
    let whole = matches!(schema.declared_type.as_str(), "object" | "array");
    let error = match rule.reason.as_str() {
        "FieldValueForbidden" => FieldError::forbidden(field, detail),
        "FieldValueRequired" => FieldError::required(field, detail),
        "FieldValueDuplicate" => FieldError::new(Fault::Duplicate, field, value.clone(), ""),
        _ => FieldError::invalid(field, value.clone(), detail),
    };
    if whole { error.without_value() } else { error }
}

fn largest_collection(value: &Value) -> u64 {
    let (own, inside) = match value {
        Value::Array(items) => (items.len(), items.iter().map(largest_collection).max()),
        Value::Object(fields) => (fields.len(), fields.values().map(largest_collection).max()),
        _ => return 0,
    };
    u64::try_from(own).unwrap_or(u64::MAX).max(inside.unwrap_or(0))
}

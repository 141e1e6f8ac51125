//! A modest type check of rules, so that a misspelt field is found when the definition is written and not
//! when the first object arrives. What it cannot judge it leaves alone.

use super::{
    cel_value::{FUNCTIONS, TYPE_NAMES, escaped},
    rules::Rule,
    schema::{Additional, Schema, Type},
};
use kube_cel::cel::{
    ExecutionError,
    common::ast::{CallExpr, EntryExpr, Expr, LiteralValue, operators},
    parser::Parser,
};
use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// What is known about a value.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Unknown,
    Bool,
    Int,
    Double,
    Text,
    /// A value of this schema; whether it is a whole resource.
    Of(&'a Schema, bool),
    Metadata,
}

impl<'a> Kind<'a> {
    fn of(schema: &'a Schema, resource: bool) -> Self {
        if schema.format.as_ref().is_some_and(|format| format.check.is_some()) {
            return match schema.format.as_ref().map(|format| format.name.as_str()) {
                Some("date" | "date-time" | "datetime" | "duration" | "byte") | None => Self::Unknown,
                Some(_) => Self::Text,
            };
        }
        match schema.types.as_slice() {
            [Type::Boolean] => Self::Bool,
            [Type::Integer] => Self::Int,
            [Type::Number] => Self::Double,
            [Type::String] => Self::Text,
            [Type::Object | Type::Array] => Self::Of(schema, resource),
            _ => Self::Unknown,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::Bool => Some("bool"),
            Self::Int => Some("int"),
            Self::Double => Some("double"),
            Self::Text => Some("string"),
            Self::Unknown | Self::Of(..) | Self::Metadata => None,
        }
    }

    /// The value of an entry of a list or map.
    fn entry(self) -> Self {
        match self {
            Self::Of(schema, _) => match (&schema.items, &schema.additional) {
                (Some(items), _) => Self::of(items, items.embedded),
                (None, Additional::Schema(additional)) => Self::of(additional, additional.embedded),
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }
}

/// What is wrong with a rule, in the form of cel-go's compile errors.
pub(super) fn check_rule(rule: &Rule, schema: &Schema, resource: bool) -> Option<String> {
    match result_kind(rule, &rule.expression().expr, rule.source(), schema, resource) {
        Err(faults) => Some(format!("compilation failed: {faults}")),
        Ok(Kind::Bool | Kind::Unknown) => None,
        Ok(_) => Some("cel expression must evaluate to a bool".to_owned()),
    }
}

/// What is wrong with the expression of a rule's message.
pub(super) fn check_message(rule: &Rule, schema: &Schema, resource: bool) -> Option<String> {
    let (expression, source) = rule.message_expression()?;
    match result_kind(rule, &expression.expr, source, schema, resource) {
        Err(faults) => Some(format!("messageExpression compilation failed: {faults}")),
        Ok(Kind::Text | Kind::Unknown) => None,
        Ok(_) => Some("messageExpression must evaluate to a string".to_owned()),
    }
}

fn result_kind<'a>(
    rule: &Rule,
    expression: &Expr,
    source: &str,
    schema: &'a Schema,
    resource: bool,
) -> Result<Kind<'a>, String> {
    let root = match Kind::of(schema, resource) {
        Kind::Unknown if schema.declared_type == "object" => Kind::Of(schema, resource),
        other => other,
    };
    let old = if rule.old_self_is_optional() { Kind::Unknown } else { root };
    let mut checker =
        Checker { source, variables: vec![("self", root), ("oldSelf", old)], faults: Vec::new() };
    let result = checker.kind(expression);
    if checker.faults.is_empty() {
        return Ok(result);
    }
    checker.faults.sort();
    checker.faults.dedup();
    let texts: Vec<String> = checker.faults.iter().map(|(at, text)| locate(source, *at, text)).collect();
    Err(texts.join("\n"))
}

/// `ERROR: <input>:1:5: text`, the line, and a mark under the place.
fn locate(source: &str, at: usize, text: &str) -> String {
    let before = source.get(..at).unwrap_or_default();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let mut out = format!("ERROR: <input>:{}:{}: {text}", line + 1, column + 1);
    if let Some(code) = source.lines().nth(line) {
        let _ = write!(out, "\n | {code}\n | {}^", ".".repeat(column));
    }
    out
}

struct Checker<'a, 'r> {
    source: &'r str,
    variables: Vec<(&'r str, Kind<'a>)>,
    faults: Vec<(usize, String)>,
}

impl<'a, 'r> Checker<'a, 'r> {
    fn fault(&mut self, near: &str, offset: usize, text: String) {
        let at = self.source.find(near).map_or(0, |at| at + offset);
        self.faults.push((at, text));
    }

    fn kind(&mut self, expression: &'r Expr) -> Kind<'a> {
        match expression {
            Expr::Ident(name) => self.variable(name),
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Kind::Bool,
                LiteralValue::Int(_) => Kind::Int,
                LiteralValue::Double(_) => Kind::Double,
                LiteralValue::String(_) => Kind::Text,
                _ => Kind::Unknown,
            },
            Expr::Select(select) => {
                let operand = self.kind(&select.operand.expr);
                let field = self.field(operand, &select.field);
                if select.test { Kind::Bool } else { field }
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(parts) => {
                let range = self.kind(&parts.iter_range.expr);
                let accumulated = self.kind(&parts.accu_init.expr);
                let known = self.variables.len();
                let is_map = matches!(range, Kind::Of(schema, _) if schema.items.is_none());
                let entry = if is_map { Kind::Unknown } else { range.entry() };
                self.variables.push((&parts.iter_var, entry));
                if let Some(second) = &parts.iter_var2 {
                    self.variables.push((second, Kind::Unknown));
                }
                self.variables.push((&parts.accu_var, Kind::Unknown));
                self.kind(&parts.loop_cond.expr);
                self.kind(&parts.loop_step.expr);
                self.kind(&parts.result.expr);
                self.variables.truncate(known);
                // `all` and `exists` carry a bool through, `map` and `filter` a list.
                if matches!(accumulated, Kind::Bool) { Kind::Bool } else { Kind::Unknown }
            }
            Expr::List(list) => {
                for element in &list.elements {
                    self.kind(&element.expr);
                }
                Kind::Unknown
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.kind(&entry.key.expr);
                        self.kind(&entry.value.expr);
                    }
                }
                Kind::Unknown
            }
            Expr::Struct(_) | Expr::Unspecified => Kind::Unknown,
        }
    }

    fn variable(&mut self, name: &str) -> Kind<'a> {
        if let Some((_, kind)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            return *kind;
        }
        // Names the macros made up, and types.
        if !name.starts_with(['@', '_']) && !TYPE_NAMES.contains(&name) {
            self.fault(name, 0, format!("undeclared reference to '{name}' (in container '')"));
        }
        Kind::Unknown
    }

    fn field(&mut self, operand: Kind<'a>, field: &str) -> Kind<'a> {
        let known = match operand {
            Kind::Of(schema, resource) => match (&schema.additional, resource, field) {
                _ if schema.items.is_some() => None,
                (_, true, "apiVersion" | "kind") => Some(Kind::Text),
                (_, true, "metadata") => Some(Kind::Metadata),
                (Additional::Schema(additional), ..) => Some(Kind::of(additional, additional.embedded)),
                (Additional::Allowed(_), ..) => Some(Kind::Unknown),
                _ => {
                    let property = schema.properties.iter().find(|(name, _)| escaped(name) == field);
                    property.map(|(_, property)| Kind::of(property, property.embedded))
                }
            },
            Kind::Metadata => matches!(field, "name" | "generateName").then_some(Kind::Text),
            _ => Some(Kind::Unknown),
        };
        known.unwrap_or_else(|| {
            self.fault(&format!(".{field}"), 0, format!("undefined field '{field}'"));
            Kind::Unknown
        })
    }

    fn call(&mut self, call: &'r CallExpr) -> Kind<'a> {
        let name = call.func_name.as_str();
        let mut namespace = None;
        match call.target.as_ref().map(|target| &target.expr) {
            Some(Expr::Ident(prefix)) if is_function(&format!("{prefix}.{name}")) => namespace = Some(prefix),
            Some(target) => {
                self.kind(target);
            }
            None => {}
        }
        let arguments: Vec<Kind<'a>> = call.args.iter().map(|argument| self.kind(&argument.expr)).collect();
        let is_operator = name.starts_with(['_', '!', '-', '@']);
        if !is_operator && namespace.is_none() && !is_function(name) {
            let text = format!("undeclared reference to '{name}' (in container '')");
            self.fault(&format!("{name}("), name.len(), text);
            return Kind::Unknown;
        }
        match name {
            operators::INDEX => arguments.first().map_or(Kind::Unknown, |list| list.entry()),
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS => {
                self.compared(name, &arguments);
                Kind::Bool
            }
            operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT | operators::IN => {
                Kind::Bool
            }
            "startsWith" | "endsWith" | "contains" | "matches" | "hasValue" => Kind::Bool,
            "size" => Kind::Int,
            _ => Kind::Unknown,
        }
    }

    fn compared(&mut self, operator: &str, arguments: &[Kind<'a>]) {
        let [Some(left), Some(right)] =
            [arguments.first(), arguments.get(1)].map(|kind| kind.and_then(|kind| kind.name()))
        else {
            return;
        };
        let equality = matches!(operator, operators::EQUALS | operators::NOT_EQUALS);
        let numbers = [left, right].iter().all(|kind| matches!(*kind, "int" | "double"));
        if left != right && (equality || !numbers) {
            let symbol = operator.trim_matches('_');
            let text = format!("found no matching overload for '{operator}' applied to '({left}, {right})'");
            self.fault(symbol, 0, text);
        }
    }
}

/// Whether there is a function of this name: calling one that does not exist fails in its own way.
fn is_function(name: &str) -> bool {
    let call = catch_unwind(|| Parser::new().parse(&format!("{name}()")));
    let Ok(Ok(call)) = call else { return true };
    let outcome = catch_unwind(AssertUnwindSafe(|| FUNCTIONS.resolve(&call)));
    match outcome {
        Ok(Err(ExecutionError::UndeclaredReference(missing))) => {
            // The namespace of a qualified name is a variable nobody declared.
            let short = name.rsplit('.').next().unwrap_or(name);
            missing.as_str() != name && missing.as_str() != short && !name.starts_with(&format!("{missing}."))
        }
        _ => true,
    }
}

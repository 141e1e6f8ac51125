//! The part of JSONPath that printer columns and selectable fields use: `.a.b`, `['x']`, `[0]`, `[*]`,
//! `[?(@.type=="Ready")].status`.

use serde_json::Value;

/// A path, read once.
#[derive(Debug, Default)]
pub(super) struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: JsonPath, operator: Operator, wanted: Value },
    Exists(JsonPath),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How deep filters may lie in each other.
const DEEPEST: u8 = 16;

impl JsonPath {
    /// Reads a path; `None` for what we do not understand.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::parse_inside(text, DEEPEST)
    }

    fn parse_inside(text: &str, levels: u8) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        rest = rest.strip_prefix(['$', '@']).unwrap_or(rest);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing_bracket(after)?;
                steps.extend(bracket(after[..end].trim(), levels)?);
                rest = &after[end + 1..];
                continue;
            }
            let after = rest.strip_prefix('.').unwrap_or(rest);
            let (name, length) = field_name(after);
            match name.as_str() {
                "" if after.starts_with('[') => {}
                "" if after.is_empty() => {}
                "" => return None,
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            rest = &after[length..];
        }
        Some(Self { steps })
    }

    /// The values a path leads to, in order. What is missing leads nowhere.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        self.steps
            .iter()
            .fold(vec![value], |found, step| found.into_iter().flat_map(|value| step.apply(value)).collect())
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let entries = || -> Vec<&'a Value> {
            match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(fields) => fields.values().collect(),
                _ => Vec::new(),
            }
        };
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let at = if *index < 0 { length + index } else { *index };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::All => entries(),
            Self::Filter { path, operator, wanted } => entries()
                .into_iter()
                .filter(|entry| path.find(entry).first().is_some_and(|found| operator.holds(found, wanted)))
                .collect(),
            Self::Exists(path) => {
                entries().into_iter().filter(|entry| !path.find(entry).is_empty()).collect()
            }
        }
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        let Some(order) = order else { return matches!(self, Self::NotEqual) };
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// A name up to the next separator; `\.` is a dot in a name. Returns the length read.
fn field_name(text: &str) -> (String, usize) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '.' | '[' | ']' => return (name, at),
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            other => name.push(other),
        }
    }
    (name, text.len())
}

/// Where the bracket that is already open is closed; quotes and nested brackets are skipped.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' | '"' if quote == Some(character) => quote = None,
            '\'' | '"' if quote.is_none() => quote = Some(character),
            _ if quote.is_some() => {}
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What stands in brackets. A dot in a quoted name leads one level down unless it is escaped, as in a real server.
fn bracket(inside: &str, levels: u8) -> Option<Vec<Step>> {
    if inside == "*" {
        return Some(vec![Step::All]);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        return Some(vec![filter_step(filter.trim(), levels.checked_sub(1)?)?]);
    }
    if let Some(names) = inside.strip_prefix('\'').and_then(|names| names.strip_suffix('\'')) {
        let mut steps = Vec::new();
        let mut rest = names;
        loop {
            let (name, length) = field_name(rest);
            steps.push(Step::Field(name));
            match rest[length..].strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.len() == length => return Some(steps),
                None => return None,
            }
        }
    }
    match literal(inside)? {
        Value::Number(number) => Some(vec![Step::Index(number.as_i64()?)]),
        _ => None,
    }
}

fn filter_step(filter: &str, levels: u8) -> Option<Step> {
    let operators = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    for (symbol, operator) in operators {
        if let Some((path, wanted)) = filter.split_once(symbol) {
            let wanted = literal(wanted.trim())?;
            return Some(Step::Filter { path: JsonPath::parse_inside(path, levels)?, operator, wanted });
        }
    }
    Some(Step::Exists(JsonPath::parse_inside(filter, levels)?))
}

fn literal(text: &str) -> Option<Value> {
    for quote in ['\'', '"'] {
        if let Some(inside) = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)) {
            return Some(Value::String(
                inside.replace("\\'", "'").replace("\\\"", "\"").replace("\\\\", "\\"),
            ));
        }
    }
    match text {
        "true" => Some(true.into()),
        "false" => Some(false.into()),
        number => {
            number.parse::<i64>().map(Value::from).or_else(|_| number.parse::<f64>().map(Value::from)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "metadata": {"name": "a", "annotations": {"a.b/c": "x"}},
            "spec": {"list": [1, 2, 3], "node-pool": "p"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Other", "status": "False", "n": 2},
            ]},
        });
        let cases = [
            (".metadata.name", json!(["a"])),
            (".metadata.annotations['a\\.b/c']", json!(["x"])),
            (".metadata.annotations['a.b/c']", json!([])),
            (".metadata.annotations.a\\.b/c", json!(["x"])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([3])),
            (".spec.list[*]", json!([1, 2, 3])),
            (".spec.list[9]", json!([])),
            (".spec.node-pool", json!(["p"])),
            (".status.conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".status.conditions[?(@.type=='Other')].status", json!(["False"])),
            (".status.conditions[?(@.type == 'None')].status", json!([])),
            (".status.conditions[?(@.n > 1)].type", json!(["Other"])),
            (".status.conditions[?(@.n)].type", json!(["Ready", "Other"])),
            (".status.missing.deeper", json!([])),
            (".", json!([object.clone()])),
        ];
        for (text, wanted) in cases {
            let path = JsonPath::parse(text).unwrap_or_else(|| panic!("{text} is not understood"));
            assert_eq!(json!(path.find(&object)), wanted, "{text}");
        }
    }

    #[test]
    fn broken_paths_are_refused() {
        for text in [".a[", ".a[?(@.b==)]", ".a['b", ".a[x]", "..a"] {
            assert!(JsonPath::parse(text).is_none(), "{text}");
        }
        let nested = |levels: usize| format!(".a{}{}", "[?(@.b".repeat(levels), ")]".repeat(levels));
        assert!(JsonPath::parse(&nested(10)).is_some());
        assert!(JsonPath::parse(&nested(3000)).is_none());
    }
}

//! What is wrong, and where.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt::{self, Display};

/// An object that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {name}: {fault}")]
pub struct Error {
    pub kind: String,
    /// With its namespace, if it has one.
    pub name: String,
    pub fault: Fault,
}

/// A field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From the inside out.
    path: Vec<String>,
    problem: String,
}

impl Fault {
    pub fn new(problem: impl Display) -> Self {
        Self { path: Vec::new(), problem: problem.to_string() }
    }

    pub fn field(&self) -> String {
        let mut field = String::new();
        for step in self.path.iter().rev() {
            if !field.is_empty() && !step.starts_with('[') {
                field.push('.');
            }
            field.push_str(step);
        }
        field
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field();
        if field.is_empty() { f.write_str(&self.problem) } else { write!(f, "{field}: {}", self.problem) }
    }
}

/// Says where a fault is, step by step on its way out.
pub(crate) trait At<T> {
    fn at(self, field: impl Display) -> Result<T, Fault>;
    fn of(self, kind: &str, metadata: &ObjectMeta) -> Result<T, Error>;
}

impl<T> At<T> for Result<T, Fault> {
    fn at(self, field: impl Display) -> Self {
        self.map_err(|mut fault| {
            fault.path.push(field.to_string());
            fault
        })
    }

    fn of(self, kind: &str, metadata: &ObjectMeta) -> Result<T, Error> {
        self.map_err(|fault| Error { kind: kind.to_owned(), name: full_name(metadata), fault })
    }
}

pub(crate) fn full_name(metadata: &ObjectMeta) -> String {
    let name = metadata.name.as_deref().unwrap_or("without a name");
    metadata.namespace.as_ref().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// Every element of a list, with its number where one is wrong.
pub(crate) fn each<'t, T: 't, U>(
    list: impl IntoIterator<Item = &'t T>,
    convert: impl Fn(&T) -> Result<U, Fault>,
) -> Result<Vec<U>, Fault> {
    list.into_iter()
        .enumerate()
        .map(|(at, element)| {
            convert(element).map_err(|mut fault| {
                fault.path.push(format!("[{at}]"));
                fault
            })
        })
        .collect()
}

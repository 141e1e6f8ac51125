//! Faults on demand: which call goes wrong, and how.

use super::settings::fits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::str::FromStr;

/// A fault. As text, for a command line: `CreateServer status=503 skip=1 times=2`. Which operations there are, the
/// cloud says that is given the fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Fault {
    /// The operation by its name in this cloud, or `*`.
    pub operation: String,
    /// Only calls about this: an id in the path, or an id or a name in the body. A `*` at the end stands for any rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// So many matching calls go well before.
    #[serde(default)]
    pub skip: u32,
    /// So many matching calls go wrong; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Seconds that the call takes longer.
    #[serde(default)]
    pub delay: f64,
    /// The call is answered with this status and has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The message in the error's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Seconds in the header `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// What else becomes of the answer.
    #[serde(default)]
    pub answer: Spoiled,
    /// The status, or what becomes of the answer, comes after the call had its effect.
    #[serde(default)]
    pub after: bool,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Spoiled {
    #[default]
    No,
    /// The connection ends without one.
    Dropped,
    /// A page in HTML, as a proxy shows it, with the fault's status or 502.
    Page,
    /// Nothing in it, with the fault's status or 200.
    Empty,
    /// A list without anything in it.
    NoItems,
    /// A list whose second half is missing.
    Half,
}

impl Spoiled {
    /// Takes out of a list what this leaves out. Other bodies stay as they are.
    pub(crate) fn shorten(self, list: &mut Value) {
        let Some(items) = list.as_array_mut() else { return };
        match self {
            Self::NoItems => items.clear(),
            Self::Half => items.truncate(items.len().div_ceil(2)),
            Self::No | Self::Dropped | Self::Page | Self::Empty => {}
        }
    }
}

impl Fault {
    /// A fault that has no effect yet, on every call of an operation.
    pub fn on(operation: &str) -> Self {
        Self {
            operation: operation.to_owned(),
            about: None,
            skip: 0,
            times: None,
            delay: 0.0,
            status: None,
            message: None,
            retry_after: None,
            answer: Spoiled::No,
            after: false,
        }
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    pub fn dropped(mut self) -> Self {
        self.answer = Spoiled::Dropped;
        self
    }

    pub fn after(mut self) -> Self {
        self.after = true;
        self
    }

    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// A fault from its text, if the cloud has its operation.
    pub(crate) fn read<'a>(
        text: &str,
        mut operations: impl Iterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let fault: Self = text.parse()?;
        fault.unknown(&mut operations).map_or(Ok(fault), Err)
    }

    /// What is wrong with it for a cloud that has these operations.
    pub(crate) fn wrong_for<'a>(&self, mut operations: impl Iterator<Item = &'a str>) -> Option<String> {
        self.unknown(&mut operations).or_else(|| self.problem())
    }

    fn unknown<'a>(&self, operations: &mut impl Iterator<Item = &'a str>) -> Option<String> {
        let known = self.operation == "*" || operations.any(|name| name == self.operation);
        (!known).then(|| format!("operation: {:?} is no operation of the API", self.operation))
    }

    /// What is wrong with the description itself.
    pub fn problem(&self) -> Option<String> {
        if self.status.is_some_and(|status| !(100..=599).contains(&status)) {
            return Some("status: it must lie between 100 and 599".to_owned());
        }
        if !(0.0..=86_400.0).contains(&self.delay) {
            return Some("delay: it must lie between 0 and 86400 seconds".to_owned());
        }
        let idle = self.status.is_none() && self.answer == Spoiled::No && self.delay == 0.0;
        idle.then(|| "the fault does nothing: give it a status, a delay or an answer".to_owned())
    }

    /// Whether the answer is another one than the call's own, and not only a shorter one.
    pub(crate) fn spoils(&self) -> bool {
        self.status.is_some() || !matches!(self.answer, Spoiled::No | Spoiled::NoItems | Spoiled::Half)
    }

    /// Whether the call does nothing.
    pub(crate) fn prevents(&self) -> bool {
        !self.after && self.spoils()
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let mut fields = Map::new();
        let operation = words.next().ok_or("a fault starts with the operation")?;
        fields.insert("operation".to_owned(), operation.into());
        for word in words {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("{word:?} is not of the form name=value"))?;
            let text_only = matches!(name, "about" | "message" | "answer");
            let value = match serde_json::from_str(value) {
                Ok(value) if !text_only => value,
                // There are no spaces in a word, but in messages there are.
                _ => Value::String(value.replace('_', " ")),
            };
            fields.insert(name.to_owned(), value);
        }
        let fault: Self = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
        fault.problem().map_or(Ok(fault), Err)
    }
}

/// The faults that are set, and how often each was met.
#[derive(Default)]
pub(crate) struct Faults(Vec<(Fault, u32)>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0.push((fault, 0));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Fault, u32)> {
        self.0.iter().map(|(fault, met)| (fault, *met))
    }

    /// The fault that a call meets: the first that is for it. Those it passes count it, too.
    pub(crate) fn meet(&mut self, operation: &str, about: &[&str]) -> Option<Fault> {
        let mut met_one = None;
        for (fault, met) in &mut self.0 {
            let is_for = (fault.operation == "*" || fault.operation == operation)
                && fault.about.as_ref().is_none_or(|wanted| about.iter().any(|name| fits(wanted, name)));
            if !is_for {
                continue;
            }
            *met = met.saturating_add(1);
            let number = *met;
            let over = fault.times.is_some_and(|times| number > fault.skip.saturating_add(times));
            if met_one.is_none() && number > fault.skip && !over {
                met_one = Some(fault.clone());
            }
        }
        met_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_from_text() {
        let fault: Fault = "CreateServer about=m-* status=429 retryAfter=7 skip=1 times=2 message=slow_down"
            .parse()
            .unwrap();
        let mut expected = Fault::on("CreateServer").status(429).times(2);
        expected.about = Some("m-*".to_owned());
        expected.retry_after = Some(7);
        expected.skip = 1;
        expected.message = Some("slow down".to_owned());
        assert_eq!(fault, expected);
        assert_eq!("* answer=dropped after=true".parse(), Ok(Fault::on("*").dropped().after()));
        for wrong in [
            "",
            "CreateServer",
            "CreateServer status=5",
            "CreateServer delay=-1",
            "CreateServer what=1",
            "CreateServer status",
            "CreateServer answer=lost",
        ] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cloud_knows_its_operations() {
        let read = |text| Fault::read(text, ["CreateServer"].into_iter());
        assert!(read("CreateServer status=500").is_ok() && read("* status=500").is_ok());
        assert!(read("CreateServers status=500").unwrap_err().contains("CreateServers"));
        assert!(read("CreateServer").is_err());
    }

    #[test]
    fn lists_are_shortened() {
        let mut list = serde_json::json!([1, 2, 3]);
        Spoiled::No.shorten(&mut list);
        Spoiled::Half.shorten(&mut list);
        assert_eq!(list, serde_json::json!([1, 2]));
        Spoiled::NoItems.shorten(&mut list);
        assert_eq!(list, serde_json::json!([]));
    }

    #[test]
    fn faults_count_the_calls_they_are_for() {
        let mut faults = Faults::default();
        let mut second = Fault::on("GetServer").status(500).times(1);
        second.skip = 1;
        second.about = Some("a*".to_owned());
        faults.add(second);
        faults.add(Fault::on("*").status(503));
        let mut meet = |operation, about| faults.meet(operation, &[about]).and_then(|fault| fault.status);
        assert_eq!(meet("GetServer", "b"), Some(503));
        assert_eq!(meet("GetServer", "ab"), Some(503));
        assert_eq!(meet("GetServer", "ab"), Some(500));
        assert_eq!(meet("GetServer", "ab"), Some(503));
        assert_eq!(meet("ListServers", "ab"), Some(503));
    }
}

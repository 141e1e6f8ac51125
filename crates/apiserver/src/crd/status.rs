//! The status of a definition: which of its names are accepted, and since when it is served.

use super::Names;
use crate::object;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Works out the status of a definition from its spec, its present status and the other definitions
/// (those of other groups and itself do not count). Unchanged conditions keep their time.
pub fn status(crd: &Value, others: &[Arc<Value>], now: Timestamp) -> Value {
    let old = crd.get("status").unwrap_or(&Value::Null);
    let wanted = Names::read(crd.pointer("/spec/names").unwrap_or(&Value::Null));
    let accepted = Names::read(old.get("acceptedNames").unwrap_or(&Value::Null));
    let taken = Taken::by_others(crd, others);
    let (names, conflict) = accept(&wanted, accepted, &taken);

    let names_accepted = match &conflict {
        None => condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", false, reason, message),
    };
    let was_established = find(old, "Established").is_some_and(|old| old["status"] == "True");
    let established = if was_established || conflict.is_none() {
        condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted")
    } else {
        condition("Established", false, "NotAccepted", "not all names are accepted")
    };
    let mut status = old.as_object().cloned().unwrap_or_default();
    let mut conditions = old.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    for new in [names_accepted, established] {
        set_condition(&mut conditions, new, now);
    }
    status.insert("conditions".to_owned(), Value::Array(conditions));
    status.insert("acceptedNames".to_owned(), names_to_json(&names));
    status.insert("storedVersions".to_owned(), json!(stored_versions(crd)));
    Value::Object(status)
}

/// Whether the names of a definition are accepted and it is to be served.
pub fn is_established(crd: &Value) -> bool {
    find(crd.get("status").unwrap_or(&Value::Null), "Established")
        .is_some_and(|found| found["status"] == "True")
}

/// The versions objects may still be stored in: those known so far, and the present storage version.
pub(super) fn stored_versions(crd: &Value) -> Vec<String> {
    let list = |path: &str| crd.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let mut stored: Vec<String> =
        list("/status/storedVersions").filter_map(Value::as_str).map(str::to_owned).collect();
    let storage = list("/spec/versions").find(|version| version["storage"] == true);
    if let Some(name) = storage.and_then(|version| version["name"].as_str())
        && !stored.iter().any(|stored| stored == name)
    {
        stored.push(name.to_owned());
    }
    stored
}

/// The names other definitions of the group have.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn by_others(crd: &Value, others: &[Arc<Value>]) -> Self {
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        let group = crd.pointer("/spec/group");
        let own_name = crd.pointer("/metadata/name");
        for other in others {
            if other.pointer("/spec/group") != group || other.pointer("/metadata/name") == own_name {
                continue;
            }
            let names = Names::read(other.pointer("/status/acceptedNames").unwrap_or(&Value::Null));
            taken.resources.extend([names.plural, names.singular]);
            taken.resources.extend(names.short_names);
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken
    }
}

/// Takes over the names that are free; says which one is not.
fn accept(wanted: &Names, accepted: Names, taken: &Taken) -> (Names, Option<(&'static str, String)>) {
    let mut names = accepted.clone();
    let mut conflict = None;
    let in_use = |name: &str| format!("{} is already in use", crate::field::quoted(name));
    let mut take = |wanted: &str, accepted: &str, taken: &BTreeSet<String>, reason: &'static str| {
        if wanted == accepted || !taken.contains(wanted) {
            return wanted.to_owned();
        }
        conflict = Some((reason, in_use(wanted)));
        accepted.to_owned()
    };
    names.plural = take(&wanted.plural, &accepted.plural, &taken.resources, "PluralConflict");
    names.singular = take(&wanted.singular, &accepted.singular, &taken.resources, "SingularConflict");
    let short_names: Vec<String> = wanted
        .short_names
        .iter()
        .filter(|name| !accepted.short_names.contains(name) && taken.resources.contains(*name))
        .map(|name| in_use(name))
        .collect();
    let short_conflict = match short_names.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    };
    if short_conflict.is_none() {
        names.short_names.clone_from(&wanted.short_names);
    }
    let kind = take(&wanted.kind, &accepted.kind, &taken.kinds, "KindConflict");
    let list_kind = take(&wanted.list_kind, &accepted.list_kind, &taken.kinds, "ListKindConflict");
    let kind_in_conflict = matches!(conflict, Some(("KindConflict" | "ListKindConflict", _)));
    if let Some(message) = short_conflict.filter(|_| !kind_in_conflict) {
        conflict = Some(("ShortNamesConflict", message));
    }
    names.kind = kind;
    names.list_kind = list_kind;
    names.categories.clone_from(&wanted.categories);
    (names, conflict)
}

fn names_to_json(names: &Names) -> Value {
    let mut out = Map::new();
    out.insert("plural".to_owned(), names.plural.as_str().into());
    out.insert("kind".to_owned(), names.kind.as_str().into());
    for (key, text) in [("singular", &names.singular), ("listKind", &names.list_kind)] {
        if !text.is_empty() {
            out.insert(key.to_owned(), text.as_str().into());
        }
    }
    for (key, list) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        if !list.is_empty() {
            out.insert(key.to_owned(), json!(list));
        }
    }
    Value::Object(out)
}

fn condition(kind: &str, holds: bool, reason: &str, message: &str) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status.get("conditions")?.as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// Puts a condition into the list; its time changes only with its status.
fn set_condition(conditions: &mut Vec<Value>, mut new: Value, now: Timestamp) {
    let old = conditions.iter_mut().find(|condition| condition["type"] == new["type"]);
    let since = old
        .as_ref()
        .filter(|old| old["status"] == new["status"])
        .map(|old| old["lastTransitionTime"].clone());
    new["lastTransitionTime"] =
        since.filter(|since| !since.is_null()).unwrap_or_else(|| json!(object::seconds(now)));
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

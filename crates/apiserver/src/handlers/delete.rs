//! Delete: at once, after a grace period, or when the last finalizer is gone.

use super::{
    Exchange, body,
    create::encode,
    json_answer, read,
    rules::{Rules, is_definition},
    view,
};
use crate::{
    admission::Operation,
    contract::Deletion,
    crds,
    error::ApiError,
    field::{Fault, FieldError},
    object, query,
    store::{Clash, Key, Stored},
    types,
};
use bytes::Bytes;
use hostler_base::transport::Body;
use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The options as their type reads them.
fn typed(body: Value) -> Result<Value, ApiError> {
    let Some(ty) = types::kind("v1", "DeleteOptions") else { return Ok(body) };
    let decoded = types::decode(ty, body).map_err(|error| {
        // The kind is not at stake here, so a real server does not speak of it.
        let mark = " cannot be handled as a DeleteOptions: ";
        error.message.split_once(mark).map_or_else(|| error.clone(), |(_, why)| ApiError::bad_request(why))
    })?;
    Ok(decoded.object)
}

#[derive(Clone, Debug, Default)]
pub(super) struct DeleteOptions {
    grace: Option<i64>,
    policy: String,
    orphan_dependents: Option<bool>,
    uid: String,
    resource_version: String,
    dry_run: bool,
}

/// What became of the object.
pub(super) enum Fate {
    Removed(Arc<Stored>),
    /// It is marked and waits for a finalizer or the end of its grace period.
    Waits(Arc<Stored>),
}

impl DeleteOptions {
    fn read(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Self, ApiError> {
        let query = exchange.query;
        let options = if bytes.is_empty() {
            Self {
                grace: query.number("gracePeriodSeconds")?,
                policy: query.text("propagationPolicy").to_owned(),
                orphan_dependents: query.flag("orphanDependents"),
                dry_run: query.dry_run("DeleteOptions")?,
                ..Self::default()
            }
        } else {
            return Self::from_body(&typed(body::decode(exchange.headers, "DeleteOptions", bytes)?)?);
        };
        options.check()?;
        Ok(options)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    pub(super) fn from_body(body: &Value) -> Result<Self, ApiError> {
        let kind = body["kind"].as_str().unwrap_or_default();
        if !(kind.is_empty() || kind == "DeleteOptions") {
            let version = body["apiVersion"].as_str().unwrap_or("v1");
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let stages: Vec<String> = body["dryRun"].as_array().into_iter().flatten().map(text).collect();
        let options = Self {
            grace: body["gracePeriodSeconds"].as_i64(),
            policy: text(&body["propagationPolicy"]),
            orphan_dependents: body["orphanDependents"].as_bool(),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: query::dry_run(&stages, "DeleteOptions")?,
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        if !matches!(self.policy.as_str(), "" | "Background" | "Foreground" | "Orphan") {
            let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            errors.push(FieldError::new(
                Fault::NotSupported,
                "propagationPolicy",
                json!(self.policy),
                supported,
            ));
        }
        if !self.policy.is_empty() && self.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", self.policy.clone(), why));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }

    /// The finalizers an object gets for the garbage collector.
    fn finalizers(&self, present: &[String]) -> Vec<String> {
        let has = |name: &str| present.iter().any(|finalizer| finalizer == name);
        let (orphan, foreground) = match (self.orphan_dependents, self.policy.as_str()) {
            (Some(orphan), _) => (orphan, false),
            (None, "Orphan") => (true, false),
            (None, "Foreground") => (false, true),
            (None, "Background") => (false, false),
            (None, _) => (has(ORPHAN), has(FOREGROUND) && !has(ORPHAN)),
        };
        let mut finalizers: Vec<String> =
            present.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
        if orphan {
            finalizers.push(ORPHAN.to_owned());
        }
        if foreground {
            finalizers.push(FOREGROUND.to_owned());
        }
        finalizers
    }
}

pub(super) fn delete(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let options = DeleteOptions::read(exchange, bytes)?;
    let target = exchange.target;
    let fate = delete_object(exchange, &target.namespace, &target.name, &options)?;
    Ok(match fate {
        Fate::Removed(stored) if exchange.resource.returns_deleted => {
            exchange.object(StatusCode::OK, &stored)
        }
        Fate::Removed(stored) => json_answer(StatusCode::OK, &success(exchange, &stored)),
        Fate::Waits(stored) => exchange.object(StatusCode::OK, &stored),
    })
}

fn success(exchange: &Exchange<'_>, stored: &Stored) -> Value {
    let object = stored.parse();
    let mut details = json!({
        "name": *stored.key.name, "kind": exchange.resource.name(), "uid": object::text(&object, "uid"),
    });
    if !exchange.resource.group().is_empty() {
        details["group"] = json!(exchange.resource.group());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

pub(super) fn delete_collection(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let options = DeleteOptions::read(exchange, bytes)?;
    let selector = read::selector(exchange)?;
    let listed = exchange.core.store.list(&exchange.resource.shelf, &exchange.target.namespace, None);
    let listed = listed.map_err(|_| ApiError::internal("the present cannot be listed"))?;
    let chosen: Vec<&Arc<Stored>> = listed.items.iter().filter(|item| selector.matches(item)).collect();
    for item in &chosen {
        match delete_object(exchange, &item.key.namespace, &item.key.name, &options) {
            Ok(_) => {}
            Err(error) if error.code == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read::render(exchange, &chosen, json!({"resourceVersion": listed.revision.to_string()})))
}

/// The next state of an object that is to be deleted; `None` when it goes at once.
fn marked(exchange: &Exchange<'_>, old: &Value, options: &DeleteOptions, now: Timestamp) -> Option<Value> {
    let rules = Rules::of(exchange.resource, &exchange.target.version);
    let mut new = old.clone();
    let is_deleting = object::is_deleting(old);
    let mut grace = 0;
    if is_deleting {
        // The end of a grace period can only be brought forward.
        let present = object::grace(old).unwrap_or_default();
        if present > 0 {
            let Some(asked) = options.grace.map(|asked| if asked < 0 { 1 } else { asked }) else {
                return Some(new);
            };
            if asked >= present {
                return Some(new);
            }
            shorten(&mut new, present, asked, now);
            grace = object::grace(&new).unwrap_or_default();
        }
    } else if let Deletion::Graceful(given) = rules.kind().deletion(old, options.grace) {
        grace = given.max(0);
    }
    let finalizers = options.finalizers(&object::finalizers(old));
    object::set_finalizers(&mut new, &finalizers);
    if is_definition(exchange.resource) && !is_deleting {
        crds::mark_terminating(&mut new, now);
    }
    if grace == 0 && !rules.kind().is_held(&new) {
        return None;
    }
    if !is_deleting {
        set_deletion(&mut new, now, grace);
        rules.kind().begin_deletion(&mut new);
        if object::generation(old) > 0 {
            object::set(&mut new, "generation", json!(object::generation(old) + 1));
        }
    }
    Some(new)
}

/// Brings the end of a grace period forward, but not before now: then a second is left, unless none was asked for.
fn shorten(object: &mut Value, present: i64, asked: i64, now: Timestamp) {
    let end: Timestamp = object::text(object, "deletionTimestamp").parse().unwrap_or(now);
    let start = end.saturating_sub(SignedDuration::from_secs(present)).unwrap_or(end);
    let wanted = start.saturating_add(SignedDuration::from_secs(asked)).unwrap_or(start);
    let (end, grace) = if wanted < now { (now, asked.min(1)) } else { (wanted, asked) };
    object::set(object, "deletionTimestamp", json!(object::seconds(end)));
    object::set(object, "deletionGracePeriodSeconds", json!(grace));
}

/// The state an object is removed in: kinds with a grace period show that it has ended.
fn last_state(exchange: &Exchange<'_>, old: Value) -> Value {
    let mut last = old;
    if exchange.resource.graceful {
        set_deletion(&mut last, exchange.core.clock.now(), 0);
    }
    last
}

fn set_deletion(object: &mut Value, start: Timestamp, grace: i64) {
    let end = start.saturating_add(SignedDuration::from_secs(grace)).unwrap_or(start);
    object::set(object, "deletionTimestamp", json!(object::seconds(end)));
    object::set(object, "deletionGracePeriodSeconds", json!(grace));
}

fn check_preconditions(
    exchange: &Exchange<'_>,
    old: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let pairs =
        [("UID", "uid", &options.uid), ("ResourceVersion", "resourceVersion", &options.resource_version)];
    for (name, field, wanted) in pairs {
        let found = object::text(old, field);
        if !wanted.is_empty() && wanted != found {
            let end = if name == "UID" {
                "The object might have been deleted and then recreated"
            } else {
                "The object might have been modified"
            };
            let why = format!(
                "the {name} in the precondition ({wanted}) does not match the {name} in record ({found}). {end}"
            );
            let resource = exchange.resource;
            return Err(ApiError::conflict(resource.group(), &resource.kind, object::name(old), &why));
        }
    }
    Ok(())
}

pub(super) fn delete_object(
    exchange: &Exchange<'_>,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> Result<Fate, ApiError> {
    let (store, shelf) = (&exchange.core.store, &exchange.resource.shelf);
    let key = Key::new(namespace, name);
    loop {
        let current = store.get(shelf, &key).ok_or_else(|| exchange.not_found(name))?;
        let old = view::tree(exchange.resource, &exchange.target.version, &current);
        check_preconditions(exchange, &old, options)?;
        exchange.admit_named(Operation::Delete, name, None, Some(&old))?;
        let next = marked(exchange, &old, options, exchange.core.clock.now());
        if options.dry_run {
            return Ok(match next {
                Some(mut new) => {
                    Fate::Waits(Arc::new(encode(exchange, &current.key, current.revision, &mut new)))
                }
                None => Fate::Removed(current),
            });
        }
        let written = match next {
            Some(new) if new == old => return Ok(Fate::Waits(current)),
            Some(mut new) => store
                .replace(shelf, &key, current.revision, |revision| {
                    encode(exchange, &current.key, revision, &mut new)
                })
                .map(Fate::Waits),
            None => {
                let mut last = last_state(exchange, old);
                store
                    .remove(shelf, &key, current.revision, |revision| {
                        encode(exchange, &current.key, revision, &mut last)
                    })
                    .map(Fate::Removed)
            }
        };
        match written {
            Ok(fate) => {
                exchange.wrote();
                return Ok(fate);
            }
            // Someone else wrote in between: look again.
            Err(Clash::Changed | Clash::Exists) => {}
            Err(Clash::Missing) => return Err(exchange.not_found(name)),
            Err(Clash::TooLarge) => return Err(ApiError::does_not_fit()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_can_be_shortened_but_not_into_the_past() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        // The deletion began half a minute ago.
        for (asked, end, grace) in [
            (45, "2026-01-01T00:01:15Z", 45),
            (30, "2026-01-01T00:01:00Z", 30),
            (10, "2026-01-01T00:01:00Z", 1),
            (0, "2026-01-01T00:01:00Z", 0),
        ] {
            let mut object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:01:30Z"}});
            shorten(&mut object, 60, asked, now);
            let expected = json!({"deletionTimestamp": end, "deletionGracePeriodSeconds": grace});
            assert_eq!(object["metadata"], expected, "{asked}");
        }
    }

    #[test]
    fn the_policy_decides_which_finalizers_an_object_gets() {
        type Case<'a> = (&'a str, Option<bool>, &'a [&'a str], &'a [&'a str]);
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let cases: [Case<'_>; 7] = [
            ("", None, &["x"], &["x"]),
            ("Foreground", None, &["x"], &["x", FOREGROUND]),
            ("Orphan", None, &[], &[ORPHAN]),
            ("Background", None, &[FOREGROUND, ORPHAN], &[]),
            ("", None, &[FOREGROUND], &[FOREGROUND]),
            ("", Some(true), &[FOREGROUND], &[ORPHAN]),
            ("", Some(false), &[ORPHAN], &[]),
        ];
        for (policy, orphan_dependents, present, expected) in cases {
            let options =
                DeleteOptions { policy: policy.to_owned(), orphan_dependents, ..DeleteOptions::default() };
            assert_eq!(options.finalizers(&list(present)), list(expected), "{policy} {orphan_dependents:?}");
        }
    }
}

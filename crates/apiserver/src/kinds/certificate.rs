//! Requests for certificates: asked for by a user, approved or denied, then signed.

use super::{
    json::{at, child, fill, has, items, items_mut, number, remove, set, text},
    names,
    report::{Report, same},
};
use crate::{
    contract::{Context, Kind, keep},
    error::ApiError,
    field::FieldError,
    object,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) struct CertificateSigningRequests;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

impl Kind for CertificateSigningRequests {
    fn prepare_create(&self, request: &mut Value, context: &Context<'_>) -> Result<(), ApiError> {
        set(request, "status", json!({}));
        if let Some(spec) = child(request, "spec") {
            for key in ["username", "uid", "groups", "extra"] {
                remove(spec, key);
            }
            let user = context.user;
            if !user.name.is_empty() {
                set(spec, "username", user.name.clone());
            }
            if !user.uid.is_empty() {
                set(spec, "uid", user.uid.clone());
            }
            if !user.groups.is_empty() {
                set(spec, "groups", json!(user.groups));
            }
        }
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "spec");
        keep(new, old, "status");
        Ok(())
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep(new, old, "spec");
        for kind in ["Approved", "Denied"] {
            keep_conditions(new, old, kind);
        }
        stamp(new, old, context);
    }

    /// `approval` changes nothing but the conditions.
    fn prepare_subresource_update(
        &self,
        _subresource: &str,
        new: &mut Value,
        old: &Value,
        context: &Context<'_>,
    ) {
        stamp(new, old, context);
        let conditions = at(new, &["status", "conditions"]).clone();
        keep(new, old, "spec");
        keep(new, old, "status");
        if let Some(status) = child(new, "status") {
            if conditions.is_null() {
                remove(status, "conditions");
            } else {
                set(status, "conditions", conditions);
            }
        }
    }

    fn validate(&self, request: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        validate_request(request, &mut report);
        report.errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        conditions(new, &mut report);
        if !has(old, &["status", "certificate"]) {
            certificate(new, &mut report);
        }
        conditions_stay(new, old, &mut report);
        for kind in ["Approved", "Denied"] {
            let (now, before) = (of_kind(new, kind), of_kind(old, kind));
            if now.len() > before.len() {
                let why = format!("updates may not add a condition of type {kind:?}");
                report.forbidden("status.conditions", why);
            } else if now.len() == before.len()
                && !now.iter().zip(&before).all(|(now, before)| same(now, before))
            {
                let why = format!("updates may not modify a condition of type {kind:?}");
                report.forbidden("status.conditions", why);
            }
        }
        let path = ["status", "certificate"];
        if has(old, &path) && at(old, &path) != at(new, &path) {
            report.forbidden("status.certificate", "updates may not modify existing certificate content");
        }
        report.errors
    }

    fn validate_subresource_update(&self, _subresource: &str, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        conditions(new, &mut report);
        conditions_stay(new, old, &mut report);
        report.errors
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn of_kind<'a>(request: &'a Value, kind: &str) -> Vec<&'a Value> {
    items(request, &["status", "conditions"]).iter().filter(|one| text(one, &["type"]) == kind).collect()
}

/// Who writes the status need not know how the request was approved.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<Value> = of_kind(old, kind).into_iter().cloned().collect();
    if before.len() != of_kind(new, kind).len() {
        return;
    }
    if let Some(status) = new.get_mut("status") {
        let places = items_mut(status, "conditions").filter(|one| text(one, &["type"]) == kind);
        for (place, condition) in places.zip(before) {
            *place = condition;
        }
    }
}

fn stamp(new: &mut Value, old: &Value, context: &Context<'_>) {
    let now = object::seconds(context.clock.now());
    let Some(status) = new.get_mut("status") else { return };
    for condition in items_mut(status, "conditions") {
        fill(condition, "lastUpdateTime", now.clone());
        let before = items(old, &["status", "conditions"]).iter().find(|one| {
            at(one, &["type"]) == at(condition, &["type"])
                && at(one, &["status"]) == at(condition, &["status"])
        });
        let since = before.map(|one| text(one, &["lastTransitionTime"])).filter(|since| !since.is_empty());
        fill(condition, "lastTransitionTime", since.unwrap_or(&now));
    }
}

fn conditions_stay(new: &Value, old: &Value, report: &mut Report) {
    for kind in ["Approved", "Denied", "Failed"] {
        if of_kind(new, kind).len() < of_kind(old, kind).len() {
            let why = format!("updates may not remove a condition of type {kind:?}");
            report.forbidden("status.conditions", why);
        }
    }
}

fn conditions(request: &Value, report: &mut Report) {
    let field = "status.conditions";
    let (mut seen, mut decided) = (BTreeSet::new(), BTreeSet::new());
    for (index, condition) in items(request, &["status", "conditions"]).iter().enumerate() {
        let kind = text(condition, &["type"]);
        if kind.is_empty() {
            report.required(format!("{field}[{index}].type"), "");
        }
        let decision = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if decision { &["True"] } else { &["False", "True", "Unknown"] };
        report.one_of(format_args!("{field}[{index}].status"), text(condition, &["status"]), allowed);
        if matches!(kind, "Approved" | "Denied") {
            decided.insert(kind);
            if decided.len() > 1 {
                let why = "Approved and Denied conditions are mutually exclusive";
                report.invalid(field, kind, why);
            }
        }
        if !seen.insert(kind) {
            report.duplicate(format!("{field}[{index}].type"), kind);
        }
    }
}

fn validate_request(request: &Value, report: &mut Report) {
    let spec = at(request, &["spec"]);
    let encoded = text(spec, &["request"]);
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if !String::from_utf8_lossy(&decoded).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        report.invalid("spec.request", encoded, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages: Vec<&str> = items(spec, &["usages"]).iter().filter_map(Value::as_str).collect();
    if usages.is_empty() {
        report.required("spec.usages", "");
    }
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            report.unsupported(format!("spec.usages[{index}]"), *usage, &USAGES);
        }
    }
    let mut seen = BTreeSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !seen.insert(usage) {
            report.duplicate(format!("spec.usages[{index}]"), *usage);
        }
    }
    signer(text(spec, &["signerName"]), report);
    if let Some(seconds) = number(spec, &["expirationSeconds"])
        && seconds < 600
    {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        report.invalid("spec.expirationSeconds", seconds, why);
    }
    conditions(request, report);
}

fn signer(name: &str, report: &mut Report) {
    let field = "spec.signerName";
    if name == "kubernetes.io/legacy-unknown" {
        report.invalid(field, name, "the legacy signerName is not allowed via this API version");
        return;
    }
    if name.is_empty() {
        report.required(field, "");
        return;
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        report.invalid(field, name, why);
        return;
    };
    report.wrong(field, domain, names::subdomain(domain));
    if domain.split('.').count() < 2 {
        let why = "should be a domain with at least two segments separated by dots";
        report.invalid(field, domain, why);
    }
    for part in path.split('.') {
        report.wrong(field, part, names::label(part));
    }
}

fn certificate(request: &Value, report: &mut Report) {
    let encoded = text(request, &["status", "certificate"]);
    if encoded.is_empty() {
        return;
    }
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    if !String::from_utf8_lossy(&decoded).contains("-----BEGIN CERTIFICATE-----") {
        let why = "must contain at least one CERTIFICATE PEM block";
        report.invalid("status.certificate", "<certificate data>", why);
    }
}

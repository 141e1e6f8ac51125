//! Roles and their bindings.

use super::{
    json::{at, fill_text, has, items, items_mut, set, text},
    names,
    report::{Report, same},
};
use crate::{contract::Kind, field::FieldError};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles; those of a namespace cannot name paths.
pub(crate) struct Roles {
    pub(crate) namespaced: bool,
}

impl Kind for Roles {
    fn validate(&self, role: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for (index, rule) in items(role, &["rules"]).iter().enumerate() {
            validate_rule(rule, self.namespaced, &format!("rules[{index}]"), &mut report);
        }
        if has(role, &["aggregationRule"]) {
            let selectors = items(role, &["aggregationRule", "clusterRoleSelectors"]);
            if selectors.is_empty() {
                let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
                report.required("aggregationRule.clusterRoleSelectors", why);
            }
            for (index, selector) in selectors.iter().enumerate() {
                report.selector(selector, format_args!("aggregationRule.clusterRoleSelectors[{index}]"));
            }
        }
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn validate_rule(rule: &Value, namespaced: bool, field: &str, report: &mut Report) {
    let none = |key: &str| items(rule, &[key]).is_empty();
    if none("verbs") {
        report.required(format!("{field}.verbs"), "verbs must contain at least one value");
    }
    if !none("nonResourceURLs") {
        let paths = at(rule, &["nonResourceURLs"]);
        let field = format!("{field}.nonResourceURLs");
        if namespaced {
            report.invalid(&field, paths.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !none("apiGroups") || !none("resources") || !none("resourceNames") {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            report.invalid(&field, paths.clone(), why);
        }
        return;
    }
    if none("apiGroups") {
        report.required(format!("{field}.apiGroups"), "resource rules must supply at least one api group");
    }
    if none("resources") {
        report.required(format!("{field}.resources"), "resource rules must supply at least one resource");
    }
}

pub(crate) struct Bindings {
    pub(crate) namespaced: bool,
}

impl Kind for Bindings {
    fn default(&self, binding: &mut Value) {
        if let Some(role) = binding.get_mut("roleRef") {
            fill_text(role, "apiGroup", GROUP);
        }
        for subject in items_mut(binding, "subjects") {
            if matches!(text(subject, &["kind"]), "User" | "Group") {
                fill_text(subject, "apiGroup", GROUP);
            }
        }
    }

    fn validate(&self, binding: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let role = at(binding, &["roleRef"]);
        let group = text(role, &["apiGroup"]);
        if group != GROUP {
            report.unsupported("roleRef.apiGroup", group, &[GROUP]);
        }
        let kinds: &[&str] = if self.namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
        let kind = text(role, &["kind"]);
        if !kinds.contains(&kind) {
            report.unsupported("roleRef.kind", kind, kinds);
        }
        let name = text(role, &["name"]);
        if name.is_empty() {
            report.required("roleRef.name", "");
        } else {
            report.wrong("roleRef.name", name, names::path_segment(name, false));
        }
        for (index, subject) in items(binding, &["subjects"]).iter().enumerate() {
            validate_subject(subject, self.namespaced, &format!("subjects[{index}]"), &mut report);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let (role, before) = (at(new, &["roleRef"]), at(old, &["roleRef"]));
        if !same(role, before) {
            let mut shown = json!({});
            for (key, field) in [("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")] {
                set(&mut shown, key, text(role, &[field]));
            }
            report.invalid("roleRef", shown, "cannot change roleRef");
        }
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

fn validate_subject(subject: &Value, namespaced: bool, field: &str, report: &mut Report) {
    let (name, group) = (text(subject, &["name"]), text(subject, &["apiGroup"]));
    if name.is_empty() {
        report.required(format!("{field}.name"), "");
    }
    match text(subject, &["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                report.wrong(format_args!("{field}.name"), name, names::subdomain(name));
            }
            if !group.is_empty() {
                report.unsupported(format!("{field}.apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, &["namespace"]).is_empty() {
                report.required(format!("{field}.namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                report.unsupported(format!("{field}.apiGroup"), group, &[GROUP]);
            }
        }
        other => report.unsupported(format!("{field}.kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

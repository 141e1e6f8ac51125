//! Access reviews: objects that are questions, answered in their status and never stored.

use super::{Grant, authorize, grants, items, text};
use crate::{
    contract::{Attributes, Lookup, User},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};

const AUTHORIZATION: &str = "authorization.k8s.io";

/// Answers the question in `object`, which was posted to `resource` (in the namespace of its metadata
/// where it has one).
pub fn review(resource: &str, object: &mut Value, user: &User, lookup: &dyn Lookup) -> Result<(), ApiError> {
    let status = match resource {
        "selfsubjectaccessreviews" => access(object, "SelfSubjectAccessReview", user, lookup)?,
        "subjectaccessreviews" => {
            access(object, "SubjectAccessReview", &asked_about(object, "SubjectAccessReview")?, lookup)?
        }
        "localsubjectaccessreviews" => {
            let namespace = text(&object["metadata"], "namespace");
            if text(&object["spec"]["resourceAttributes"], "namespace") != namespace {
                let why = "must match metadata.namespace";
                let given = object["spec"]["resourceAttributes"]["namespace"].clone();
                return Err(invalid(
                    "LocalSubjectAccessReview",
                    FieldError::invalid("spec.resourceAttributes.namespace", given, why),
                ));
            }
            access(
                object,
                "LocalSubjectAccessReview",
                &asked_about(object, "LocalSubjectAccessReview")?,
                lookup,
            )?
        }
        "selfsubjectrulesreviews" => own_rules(object, user, lookup)?,
        "selfsubjectreviews" => json!({"userInfo": user_info(user)}),
        _ => return Err(ApiError::no_such_path()),
    };
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), status);
    }
    Ok(())
}

fn invalid(kind: &str, error: FieldError) -> ApiError {
    ApiError::invalid(AUTHORIZATION, kind, "", &[error])
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    info
}

fn asked_about(object: &Value, kind: &str) -> Result<User, ApiError> {
    let spec = &object["spec"];
    let groups: Vec<String> = items(spec, "groups").filter_map(Value::as_str).map(str::to_owned).collect();
    if text(spec, "user").is_empty() && groups.is_empty() {
        return Err(invalid(
            kind,
            FieldError::invalid(
                "spec.user",
                text(spec, "user"),
                "at least one of user or group must be specified",
            ),
        ));
    }
    Ok(User { name: text(spec, "user").to_owned(), uid: text(spec, "uid").to_owned(), groups })
}

fn access(object: &Value, kind: &str, user: &User, lookup: &dyn Lookup) -> Result<Value, ApiError> {
    let spec = &object["spec"];
    let given = |field: &str| spec.get(field).filter(|value| value.is_object());
    let attributes = match (given("resourceAttributes"), given("nonResourceAttributes")) {
        (Some(asked), None) => Attributes {
            verb: text(asked, "verb").to_owned(),
            group: text(asked, "group").to_owned(),
            version: text(asked, "version").to_owned(),
            resource: text(asked, "resource").to_owned(),
            subresource: text(asked, "subresource").to_owned(),
            namespace: text(asked, "namespace").to_owned(),
            name: text(asked, "name").to_owned(),
            path: String::new(),
        },
        (None, Some(asked)) => Attributes {
            verb: text(asked, "verb").to_owned(),
            path: text(asked, "path").to_owned(),
            ..Attributes::default()
        },
        (Some(_), Some(_)) => {
            let why = "cannot be specified in combination with resourceAttributes";
            return Err(invalid(
                kind,
                FieldError::invalid("spec.nonResourceAttributes", spec["nonResourceAttributes"].clone(), why),
            ));
        }
        (None, None) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(kind, FieldError::invalid("spec.resourceAttributes", Value::Null, why)));
        }
    };
    let decision = authorize(user, &attributes, lookup);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    Ok(status)
}

fn own_rules(object: &Value, user: &User, lookup: &dyn Lookup) -> Result<Value, ApiError> {
    let namespace = text(&object["spec"], "namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (grants, missing) = grants(user, namespace, lookup);
    let mut resources = Vec::new();
    let mut paths = Vec::new();
    for rule in grants.iter().flat_map(Grant::rules) {
        let part = |fields: &[&str]| -> Value {
            fields
                .iter()
                .filter_map(|field| rule.get(*field).map(|value| ((*field).to_owned(), value.clone())))
                .collect()
        };
        if items(rule, "resources").next().is_some() {
            resources.push(part(&["verbs", "apiGroups", "resources", "resourceNames"]));
        }
        if items(rule, "nonResourceURLs").next().is_some() {
            paths.push(part(&["verbs", "nonResourceURLs"]));
        }
    }
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": !missing.is_empty()});
    if !missing.is_empty() {
        status["evaluationError"] = json!(missing.join(", "));
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reader_in_a, user};
    use super::*;

    fn answer(resource: &str, spec: Value, who: &str) -> Result<Value, String> {
        let mut object = json!({"metadata": {"namespace": "a"}, "spec": spec});
        review(resource, &mut object, &user(who), &reader_in_a()).map_err(|error| error.message)?;
        Ok(object["status"].clone())
    }

    #[test]
    fn ones_own_rights() {
        let ask =
            |verb: &str| json!({"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "a"}});
        let yes = answer("selfsubjectaccessreviews", ask("get"), "jane").unwrap();
        assert_eq!(yes["allowed"], true);
        assert_eq!(
            yes["reason"],
            r#"RBAC: allowed by RoleBinding "jane-reads/a" of Role "reader" to User "jane""#
        );
        assert_eq!(
            answer("selfsubjectaccessreviews", ask("delete"), "jane").unwrap(),
            json!({"allowed": false})
        );
    }

    #[test]
    fn somebody_elses_rights() {
        let spec = json!({"user": "jane", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "a"}});
        assert_eq!(answer("subjectaccessreviews", spec, "root").unwrap()["allowed"], true);
        let nobody = json!({"resourceAttributes": {"verb": "get", "resource": "pods"}});
        assert!(
            answer("subjectaccessreviews", nobody, "root")
                .unwrap_err()
                .contains("at least one of user or group")
        );
    }

    #[test]
    fn a_question_needs_exactly_one_subject_matter() {
        assert!(
            answer("selfsubjectaccessreviews", json!({}), "jane").unwrap_err().contains("exactly one of")
        );
    }

    #[test]
    fn rules_and_identity() {
        let status = answer("selfsubjectrulesreviews", json!({"namespace": "a"}), "jane").unwrap();
        assert_eq!(status["resourceRules"].as_array().unwrap().len(), 3);
        assert_eq!(status["incomplete"], false);
        let status = answer("selfsubjectreviews", Value::Null, "jane").unwrap();
        assert_eq!(status["userInfo"]["username"], "jane");
    }
}

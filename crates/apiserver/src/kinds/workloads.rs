//! Deployments, replica sets, stateful sets, daemon sets and their like.

use super::{
    json::{at, child, fill, fill_text, items, number, remove, set, text},
    names,
    pod_defaults::default_template,
    pod_validation::validate_template,
    report::{Report, same},
    selector, storage,
    workload_rules::{
        always_running, amount_of, at_most_all, collisions, daemon_strategy, deployment_strategy,
        empty_selector, int_or_percent, matches_template, replica_counts, selector_of, selector_stays,
        shown_strategy, template,
    },
};
use crate::{
    contract::{Context, Kind, desired_state_differs, keep},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};

pub(crate) struct Deployments;

impl Kind for Deployments {
    fn default(&self, deployment: &mut Value) {
        default_template(deployment);
        let Some(spec) = child(deployment, "spec") else { return };
        fill(spec, "replicas", 1);
        if let Some(strategy) = child(spec, "strategy") {
            fill_text(strategy, "type", "RollingUpdate");
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = child(strategy, "rollingUpdate")
            {
                fill(rolling, "maxUnavailable", "25%");
                fill(rolling, "maxSurge", "25%");
            }
        }
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, deployment: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(deployment, "status", json!({}));
        Ok(())
    }

    fn prepare_status_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) {
        keep(new, old, "spec");
        if let Some(metadata) = new.get_mut("metadata") {
            keep(metadata, at(old, &["metadata"]), "labels");
        }
    }

    fn validate(&self, deployment: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(deployment, &["spec"]);
        report.not_negative(spec, "replicas", "spec");
        if selector_of(spec, "deployment", "invalid label selector", &mut report) {
            template(spec, "ReplicaSet", &mut report);
        }
        deployment_strategy(at(spec, &["strategy"]), &mut report);
        report.not_negative(spec, "minReadySeconds", "spec");
        report.not_negative(spec, "revisionHistoryLimit", "spec");
        if let Some(deadline) = number(spec, &["progressDeadlineSeconds"]) {
            report.not_negative(spec, "progressDeadlineSeconds", "spec");
            if deadline <= number(spec, &["minReadySeconds"]).unwrap_or_default() {
                let why = "must be greater than minReadySeconds";
                report.invalid("spec.progressDeadlineSeconds", deadline, why);
            }
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        selector_stays(new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let counts = [
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ];
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        let mut report = Report::default();
        replica_counts(new, &counts, &parts, "cannot be greater than readyReplicas", &mut report);
        collisions(new, old, &mut report);
        report.errors
    }

    /// Annotations are copied to the replica sets, so they are desired state too.
    fn moves_generation(&self, new: &Value, old: &Value) -> bool {
        let annotations = ["metadata", "annotations"];
        desired_state_differs(new, old) || !same(at(new, &annotations), at(old, &annotations))
    }
}

pub(crate) struct ReplicaSets;

impl Kind for ReplicaSets {
    fn default(&self, set: &mut Value) {
        default_template(set);
        if let Some(spec) = child(set, "spec") {
            fill(spec, "replicas", 1);
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(object, "status", json!({ "replicas": 0 }));
        Ok(())
    }

    fn validate(&self, set: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(set, &["spec"]);
        report.not_negative(spec, "replicas", "spec");
        report.not_negative(spec, "minReadySeconds", "spec");
        if selector_of(spec, "deployment", "invalid label selector", &mut report) {
            template(spec, "ReplicaSet", &mut report);
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        selector_stays(new, old)
    }

    fn validate_status_update(&self, new: &Value, _old: &Value) -> Vec<FieldError> {
        let counts = [
            "replicas",
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "terminatingReplicas",
        ];
        let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        let mut report = Report::default();
        replica_counts(new, &counts, &parts, "cannot be greater than readyReplicas", &mut report);
        report.errors
    }
}

pub(crate) struct StatefulSets;

impl Kind for StatefulSets {
    fn default(&self, set: &mut Value) {
        default_template(set);
        let Some(spec) = child(set, "spec") else { return };
        fill_text(spec, "podManagementPolicy", "OrderedReady");
        if let Some(strategy) = child(spec, "updateStrategy") {
            if text(strategy, &["type"]).is_empty() {
                fill_text(strategy, "type", "RollingUpdate");
                child(strategy, "rollingUpdate");
            }
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = strategy.get_mut("rollingUpdate")
            {
                fill(rolling, "partition", 0);
            }
        }
        if let Some(policy) = child(spec, "persistentVolumeClaimRetentionPolicy") {
            fill_text(policy, "whenDeleted", "Retain");
            fill_text(policy, "whenScaled", "Retain");
        }
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "serviceName", "");
        for claim in super::json::items_mut(spec, "volumeClaimTemplates") {
            storage::default_claim(claim);
            fill_text(claim, "apiVersion", "v1");
            fill_text(claim, "kind", "PersistentVolumeClaim");
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(object, "status", json!({ "replicas": 0, "availableReplicas": 0 }));
        Ok(())
    }

    fn validate(&self, set: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        stateful_spec(at(set, &["spec"]), &mut report);
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let mut spec = at(new, &["spec"]).clone();
        let before = at(old, &["spec"]);
        for field in [
            "replicas",
            "template",
            "updateStrategy",
            "minReadySeconds",
            "ordinals",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
        ] {
            keep(&mut spec, before, field);
        }
        if !same(&spec, before) {
            report.forbidden(
                "spec",
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
        report.errors
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let counts = [
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        let mut report = Report::default();
        replica_counts(new, &counts, &parts, "cannot be greater than status.readyReplicas", &mut report);
        collisions(new, old, &mut report);
        report.errors
    }
}

fn stateful_spec(spec: &Value, report: &mut Report) {
    match text(spec, &["podManagementPolicy"]) {
        "" => report.required("spec.podManagementPolicy", ""),
        "OrderedReady" | "Parallel" => {}
        other => report.invalid("spec.podManagementPolicy", other, "must be 'OrderedReady' or 'Parallel'"),
    }
    let strategy = at(spec, &["updateStrategy"]);
    let rolling = at(strategy, &["rollingUpdate"]);
    match text(strategy, &["type"]) {
        "" => report.required("spec.updateStrategy", ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                report.invalid("spec.updateStrategy.rollingUpdate", rolling.clone(), why);
            }
        }
        "RollingUpdate" => {
            let field = "spec.updateStrategy.rollingUpdate";
            report.not_negative(rolling, "partition", field);
            let value = at(rolling, &["maxUnavailable"]);
            if !value.is_null() {
                let field = format!("{field}.maxUnavailable");
                int_or_percent(value, &field, report);
                if amount_of(value) == 0 {
                    report.invalid(&field, value.clone(), "cannot be 0");
                }
                at_most_all(value, &field, report);
            }
        }
        _ => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            let error = FieldError::invalid("spec.updateStrategy", Value::Null, why);
            report.push(error.shown_as(shown_strategy(strategy)));
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        let policy = text(spec, &["persistentVolumeClaimRetentionPolicy", key]);
        if !matches!(policy, "Retain" | "Delete") {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            report.unsupported(field, policy, &["Retain", "Delete"]);
        }
    }
    let claims = items(spec, &["volumeClaimTemplates"]);
    for (index, claim) in claims.iter().enumerate() {
        let field = format!("spec.volumeClaimTemplates[{index}].spec");
        storage::validate_claim_spec(at(claim, &["spec"]), &field, report);
    }
    report.not_negative(spec, "replicas", "spec");
    report.not_negative(spec, "minReadySeconds", "spec");
    report.not_negative(at(spec, &["ordinals"]), "start", "spec.ordinals");
    let service = text(spec, &["serviceName"]);
    if !service.is_empty() {
        report.wrong("spec.serviceName", service, names::label(service));
    }
    if selector_of(spec, "statefulset", "", report) {
        matches_template(spec, report);
        validate_template(&with_claims(spec), format_args!("spec.template"), report);
    }
    always_running(spec, "StatefulSet", report);
}

/// The template as its pods will be: with a volume per claim, and without the names the controller gives.
fn with_claims(spec: &Value) -> Value {
    let mut template = at(spec, &["template"]).clone();
    let claims: Vec<&str> = items(spec, &["volumeClaimTemplates"])
        .iter()
        .map(|claim| text(claim, &["metadata", "name"]))
        .collect();
    if let Some(pod) = template.get_mut("spec") {
        remove(pod, "subdomain");
        remove(pod, "hostname");
        if !claims.is_empty() {
            let claimed = claims
                .iter()
                .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } }));
            let others = items(pod, &["volumes"])
                .iter()
                .filter(|volume| !claims.contains(&text(volume, &["name"])))
                .cloned();
            let volumes: Vec<Value> = claimed.chain(others).collect();
            set(pod, "volumes", volumes);
        }
    }
    template
}

pub(crate) struct DaemonSets;

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

impl Kind for DaemonSets {
    fn default(&self, set: &mut Value) {
        default_template(set);
        let Some(spec) = child(set, "spec") else { return };
        if let Some(strategy) = child(spec, "updateStrategy") {
            fill_text(strategy, "type", "RollingUpdate");
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = child(strategy, "rollingUpdate")
            {
                fill(rolling, "maxUnavailable", 1);
                fill(rolling, "maxSurge", 0);
            }
        }
        fill(spec, "revisionHistoryLimit", 10);
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
        let status = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        set(object, "status", status);
        Ok(())
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: &Context<'_>) -> Result<(), ApiError> {
        keep(new, old, "status");
        let path = ["spec", "template"];
        let moved = !same(at(new, &path), at(old, &path));
        set_template_generation(new, template_generation(old) + i64::from(moved));
        Ok(())
    }

    fn validate(&self, set: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(set, &["spec"]);
        let chosen = at(spec, &["selector"]);
        report.selector(chosen, "spec.selector");
        let labels = at(spec, &["template", "metadata", "labels"]);
        if !selector::matches(chosen, labels) {
            let why = "`selector` does not match template `labels`";
            report.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        if chosen.is_object() && empty_selector(chosen) {
            report.invalid("spec.selector", chosen.clone(), "empty selector is invalid for daemonset");
        }
        validate_template(at(spec, &["template"]), format_args!("spec.template"), &mut report);
        always_running(spec, "DaemonSet", &mut report);
        report.not_negative(spec, "minReadySeconds", "spec");
        daemon_strategy(at(spec, &["updateStrategy"]), &mut report);
        report.not_negative(spec, "revisionHistoryLimit", "spec");
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        selector_stays(new, old)
    }

    fn validate_status_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        for count in [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ] {
            report.not_negative(at(new, &["status"]), count, "status");
        }
        collisions(new, old, &mut report);
        report.errors
    }
}

fn template_generation(set: &Value) -> i64 {
    text(set, &["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    if let Some(metadata) = child(object, "metadata")
        && let Some(annotations) = child(metadata, "annotations")
    {
        set(annotations, TEMPLATE_GENERATION, generation.to_string());
    }
}

pub(crate) struct ControllerRevisions;

impl Kind for ControllerRevisions {
    fn validate(&self, revision: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let number = number(revision, &["revision"]).unwrap_or_default();
        if number < 0 {
            report.invalid("revision", number, "must be greater than or equal to 0");
        }
        match at(revision, &["data"]) {
            Value::Null => report.required("data", "data is mandatory"),
            Value::Object(_) => {}
            _ => report.required("data", "data must be a valid JSON object"),
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        report.immutable(new, old, &["data"], "data");
        report.errors
    }

    fn has_status(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        false
    }
}

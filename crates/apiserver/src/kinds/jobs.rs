//! Jobs and cron jobs.

use super::{
    json::{at, child, empty, fill, fill_text, flag, has, number, set, text},
    names,
    pod_defaults::default_template,
    pod_validation::validate_template,
    report::{Report, same},
    selector,
};
use crate::{
    contract::{Context, Kind},
    error::ApiError,
    field::FieldError,
};
use serde_json::{Value, json};

pub(crate) struct Jobs;

const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

impl Kind for Jobs {
    fn default(&self, job: &mut Value) {
        default_template(job);
        let labels = at(job, &["spec", "template", "metadata", "labels"]).clone();
        if !empty(&labels)
            && empty(at(job, &["metadata", "labels"]))
            && let Some(metadata) = child(job, "metadata")
        {
            set(metadata, "labels", labels);
        }
        if let Some(spec) = child(job, "spec") {
            default_job_spec(spec);
            fill(spec, "manualSelector", false);
        }
    }

    fn prepare_create(&self, job: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        let template_labels = ["spec", "template", "metadata", "labels"];
        let labels = at(job, &["metadata", "labels"]);
        let inherits = empty(labels) || labels == at(job, &template_labels);
        if !flag(job, &["spec", "manualSelector"]) {
            generate_selector(job);
        }
        // A job without labels of its own has those of its pods, also the generated ones.
        let labels = at(job, &template_labels).clone();
        if inherits
            && !empty(&labels)
            && let Some(metadata) = child(job, "metadata")
        {
            set(metadata, "labels", labels);
        }
        set(job, "status", json!({}));
        Ok(())
    }

    fn validate(&self, job: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        generated_selector(job, &mut report);
        let spec = at(job, &["spec"]);
        job_spec(spec, "spec", &mut report);
        let chosen = at(spec, &["selector"]);
        if chosen.is_null() {
            report.required("spec.selector", "");
        } else {
            report.selector(chosen, "spec.selector");
        }
        let labels = at(spec, &["template", "metadata", "labels"]);
        if !selector::matches(chosen, labels) {
            let why = "`selector` does not match template `labels`";
            report.invalid("spec.template.metadata.labels", labels.clone(), why);
        }
        if text(spec, &["completionMode"]) == "Indexed"
            && let Some(completions) = number(spec, &["completions"])
            && completions > 0
        {
            let name = text(job, &["metadata", "name"]);
            let last_pod = format!("{name}-{}", completions - 1);
            if !names::label(&last_pod).is_empty() {
                let why = format!("will not able to create pod with invalid DNS label: {last_pod}");
                report.invalid("metadata.name", name, why);
            }
        }
        report.errors
    }

    fn validate_update(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let indexed = text(old, &["spec", "completionMode"]) == "Indexed";
        if !indexed {
            report.immutable(new, old, &["spec", "completions"], "spec.completions");
        }
        report.immutable(new, old, &["spec", "selector"], "spec.selector");
        let suspended = flag(old, &["spec", "suspend"]);
        let template = ["spec", "template"];
        if !suspended && !same(at(new, &template), at(old, &template)) {
            report.invalid("spec.template", at(new, &template).clone(), "field is immutable");
        }
        for field in
            ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
        {
            report.immutable(new, old, &["spec", field], format_args!("spec.{field}"));
        }
        report.errors
    }
}

fn default_job_spec(spec: &mut Value) {
    if !has(spec, &["completions"]) && !has(spec, &["parallelism"]) {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let limit = if has(spec, &["backoffLimitPerIndex"]) { i32::MAX } else { 6 };
    fill(spec, "backoffLimit", limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let policy = if has(spec, &["podFailurePolicy"]) { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", policy);
}

/// The pods of a job are found by the job's uid.
fn generate_selector(job: &mut Value) {
    let name = text(job, &["metadata", "name"]).to_owned();
    let uid = text(job, &["metadata", "uid"]).to_owned();
    let Some(spec) = child(job, "spec") else { return };
    if let Some(labels) = child(spec, "template")
        .and_then(|template| child(template, "metadata"))
        .and_then(|metadata| child(metadata, "labels"))
    {
        for label in NAME_LABELS {
            fill(labels, label, name.clone());
        }
        for label in UID_LABELS {
            fill(labels, label, uid.clone());
        }
    }
    if let Some(labels) = child(spec, "selector").and_then(|selector| child(selector, "matchLabels")) {
        fill(labels, UID_LABELS[1], uid);
    }
}

fn generated_selector(job: &Value, report: &mut Report) {
    if flag(job, &["spec", "manualSelector"]) || !has(job, &["spec", "selector"]) {
        return;
    }
    let (name, uid) = (text(job, &["metadata", "name"]), text(job, &["metadata", "uid"]));
    let labels = at(job, &["spec", "template", "metadata", "labels"]);
    let field = "spec.template.metadata.labels";
    let expected =
        [(UID_LABELS[0], uid), (NAME_LABELS[0], name), (UID_LABELS[1], uid), (NAME_LABELS[1], name)];
    for (label, value) in expected {
        match labels.get(label).and_then(Value::as_str) {
            None => report.required(format!("{field}[{label}]"), &format!("must be '{value}'")),
            Some(found) if found != value => {
                report.invalid(format!("{field}[{label}]"), labels.clone(), format!("must be '{value}'"));
            }
            Some(_) => {}
        }
    }
    let expected: Value = expected.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    let chosen = at(job, &["spec", "selector"]);
    if !selector::matches(chosen, &expected) {
        report.invalid("spec.selector", chosen.clone(), "`selector` not auto-generated");
    }
}

fn job_spec(spec: &Value, field: &str, report: &mut Report) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        report.not_negative(spec, key, field);
    }
    match text(spec, &["completionMode"]) {
        "Indexed" => {
            if !has(spec, &["completions"]) {
                report.required(format!("{field}.completions"), "when completion mode is Indexed");
            }
        }
        "" | "NonIndexed" => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = number(spec, &[key]) {
                    report.invalid(format!("{field}.{key}"), value, "requires indexed completion mode");
                }
            }
            if has(spec, &["successPolicy"]) {
                let policy = at(spec, &["successPolicy"]).clone();
                report.invalid(format!("{field}.successPolicy"), policy, "requires indexed completion mode");
            }
        }
        other => report.unsupported(format!("{field}.completionMode"), other, &["NonIndexed", "Indexed"]),
    }
    validate_template(at(spec, &["template"]), format_args!("{field}.template"), report);
    let place = format!("{field}.template.spec.restartPolicy");
    match text(spec, &["template", "spec", "restartPolicy"]) {
        "Always" | "" => report.required(place, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if has(spec, &["podFailurePolicy"]) {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                report.invalid(place, "OnFailure", why);
            }
        }
        other => report.unsupported(place, other, &["OnFailure", "Never"]),
    }
}

pub(crate) struct CronJobs;

impl Kind for CronJobs {
    fn default(&self, job: &mut Value) {
        let Some(spec) = child(job, "spec") else { return };
        fill_text(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        if let Some(template) = child(spec, "jobTemplate") {
            child(template, "metadata");
            default_template(template);
        }
    }

    fn prepare_create(&self, job: &mut Value, _context: &Context<'_>) -> Result<(), ApiError> {
        set(job, "status", json!({}));
        Ok(())
    }

    fn validate(&self, job: &Value) -> Vec<FieldError> {
        let mut report = Report::default();
        let spec = at(job, &["spec"]);
        let schedule = text(spec, &["schedule"]);
        if schedule.is_empty() {
            report.required("spec.schedule", "");
        } else {
            validate_schedule(schedule, &mut report);
        }
        report.not_negative(spec, "startingDeadlineSeconds", "spec");
        let policies = ["Allow", "Forbid", "Replace"];
        report.one_of("spec.concurrencyPolicy", text(spec, &["concurrencyPolicy"]), &policies);
        job_spec(at(spec, &["jobTemplate", "spec"]), "spec.jobTemplate.spec", &mut report);
        report.not_negative(spec, "successfulJobsHistoryLimit", "spec");
        report.not_negative(spec, "failedJobsHistoryLimit", "spec");
        let name = text(job, &["metadata", "name"]);
        if name.len() > 52 {
            report.invalid("metadata.name", name, "must be no more than 52 characters");
        }
        report.errors
    }
}

fn validate_schedule(schedule: &str, report: &mut Report) {
    let field = "spec.schedule";
    if schedule.contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        report.invalid(field, schedule, why);
        return;
    }
    if schedule.starts_with('@') {
        let known = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
        if !known.contains(&schedule) && !schedule.starts_with("@every ") {
            report.invalid(field, schedule, format!("unrecognized descriptor: {schedule}"));
        }
        return;
    }
    let parts = schedule.split_whitespace().count();
    if parts != 5 {
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        let why = format!("expected exactly 5 fields, found {parts}: [{}]", fields.join(" "));
        report.invalid(field, schedule, why);
    }
}

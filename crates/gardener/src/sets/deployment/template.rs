//! Which MachineSet is made from which template, and what is written on it.

use super::numbers::{Bounds, Set};
use crate::{
    api::{
        MachineConfiguration, MachineDeployment, MachineSet, MachineSetSpec, MachineTemplateSpec,
        TemplateMeta, names,
    },
    sets::claim::owned_by,
};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// What the ends of names are made of.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ENCODED: usize = 5;

/// Annotations that concern a deployment or a set alone.
const OWN: [&str; 9] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    names::REVISION_ANNOTATION,
    names::REVISION_HISTORY_ANNOTATION,
    names::DESIRED_REPLICAS_ANNOTATION,
    names::MAX_REPLICAS_ANNOTATION,
    names::PREFER_NO_SCHEDULE,
    names::UNFREEZE_ANNOTATION,
    names::TRIGGER_DELETION_ANNOTATION,
    names::CREATING_ANNOTATION,
];

/// What makes machines of two templates different machines. The rest of a template is brought to the machines that
/// are there.
fn identity(template: &MachineTemplateSpec) -> MachineTemplateSpec {
    let mut identity = without_hash(template.clone());
    identity.spec.node_template = None;
    identity.spec.configuration = MachineConfiguration::default();
    identity.spec.class.kind.clear();
    identity
}

pub(super) fn without_hash(mut template: MachineTemplateSpec) -> MachineTemplateSpec {
    if let Some(meta) = &mut template.metadata {
        meta.others.remove("creationTimestamp");
        meta.others.retain(|_, value| !value.is_null());
        if let Some(labels) = &mut meta.labels {
            labels.remove(names::HASH_LABEL);
        }
        meta.labels = meta.labels.take().filter(|labels| !labels.is_empty());
        meta.annotations = meta.annotations.take().filter(|notes| !notes.is_empty());
    }
    template.metadata = template.metadata.filter(|meta| *meta != TemplateMeta::default());
    template
}

pub(super) fn is_same(one: &MachineTemplateSpec, other: &MachineTemplateSpec) -> bool {
    identity(one) == identity(other)
}

/// The hash of what makes the difference, and only of that: the same machines always get the same name.
pub(super) fn hash(template: &MachineTemplateSpec, collisions: Option<i32>) -> String {
    // A template is plain data, which JSON can hold.
    let text = serde_json::to_string(&identity(template)).unwrap_or_default();
    let collisions = collisions.map(|count| i64::from(count).to_le_bytes());
    let bytes = text.bytes().chain(collisions.into_iter().flatten());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_string()
}

fn set_name(deployment: &str, hash: &str) -> String {
    let encoded =
        hash.bytes().take(ENCODED).filter_map(|byte| ALPHABET.get(usize::from(byte) % ALPHABET.len()));
    let encoded: String = encoded.map(|byte| char::from(*byte)).collect();
    format!("{deployment}-{encoded}")
}

/// The set that is made for the deployment's present template.
pub(super) fn fresh(
    deployment: &MachineDeployment,
    revision: i64,
    replicas: i32,
    bounds: Bounds,
) -> MachineSet {
    let spec = &deployment.spec;
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
    let hash = hash(&spec.template, collisions);
    let mut template = spec.template.clone();
    let meta = template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().insert(names::HASH_LABEL.to_owned(), hash.clone());
    let labels = meta.labels.clone();
    let mut selector = spec.selector.clone().unwrap_or_default();
    selector.match_labels.get_or_insert_default().insert(names::HASH_LABEL.to_owned(), hash.clone());
    let mut set = MachineSet::new(
        &set_name(&deployment.name_any(), &hash),
        MachineSetSpec {
            replicas,
            selector: Some(selector),
            template,
            min_ready_seconds: spec.min_ready_seconds,
            auto_preserve_failed_machine_max: spec.auto_preserve_failed_machine_max,
            ..MachineSetSpec::default()
        },
    );
    set.metadata.namespace = deployment.namespace();
    set.metadata.labels = labels;
    set.metadata.owner_references = Some(vec![owned_by(deployment)]);
    let mut set = in_step(deployment, &set, revision);
    note_scale(&mut set, bounds);
    set
}

/// The new set with what it takes over from its deployment.
pub(super) fn in_step(deployment: &MachineDeployment, set: &MachineSet, revision: i64) -> MachineSet {
    let (spec, mut after) = (&deployment.spec, set.clone());
    after.annotations_mut().extend(shared_annotations(deployment.annotations()));
    let before = revision_of(set);
    if before < revision {
        let notes = after.annotations_mut();
        let old = notes.insert(names::REVISION_ANNOTATION.to_owned(), revision.to_string());
        if let Some(old) = old {
            let history = notes.entry(names::REVISION_HISTORY_ANNOTATION.to_owned()).or_default();
            *history = if history.is_empty() { old } else { format!("{history},{old}") };
        }
    }
    after.spec.min_ready_seconds = spec.min_ready_seconds;
    after.spec.auto_preserve_failed_machine_max = spec.auto_preserve_failed_machine_max;
    let (of, to) = (&spec.template.spec, &mut after.spec.template.spec);
    to.node_template.clone_from(&of.node_template);
    to.configuration.clone_from(&of.configuration);
    to.class.kind.clone_from(&of.class.kind);
    // An update that is turned back makes a new set of an old one.
    if after.labels().contains_key(names::SCALE_UP_DISABLED_LABEL) {
        after.labels_mut().remove(names::SCALE_UP_DISABLED_LABEL);
    }
    after
}

fn shared_annotations(notes: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    notes
        .iter()
        .filter(|(key, _)| !OWN.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// The deployment as it was when the set was its new one.
pub(super) fn turned_back(deployment: &MachineDeployment, set: &MachineSet) -> MachineDeployment {
    let mut after = deployment.clone();
    after.spec.template = without_hash(set.spec.template.clone());
    let own = deployment.annotations().iter().filter(|(key, _)| OWN.contains(&key.as_str()));
    let mut notes: BTreeMap<_, _> = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    notes.extend(shared_annotations(set.annotations()));
    after.metadata.annotations = Some(notes);
    after
}

pub(super) fn revision_of(set: &MachineSet) -> i64 {
    note(set, names::REVISION_ANNOTATION).unwrap_or(0)
}

fn note<T: std::str::FromStr>(set: &MachineSet, key: &str) -> Option<T> {
    set.annotations().get(key)?.parse().ok()
}

/// Notes on a set what the deployment asks for.
pub(super) fn note_scale(set: &mut MachineSet, bounds: Bounds) {
    let notes = set.annotations_mut();
    notes.insert(names::DESIRED_REPLICAS_ANNOTATION.to_owned(), bounds.replicas.to_string());
    notes.insert(names::MAX_REPLICAS_ANNOTATION.to_owned(), bounds.noted_most().to_string());
}

/// The set's numbers, with what is known of its machines.
pub(super) fn numbers(set: &MachineSet, machines: usize, available: usize) -> Set {
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let status = set.status.clone().unwrap_or_default();
    Set {
        replicas: set.spec.replicas,
        occupied: set.spec.replicas.max(count(machines)).max(status.replicas),
        available: count(available).min(set.spec.replicas),
        status_available: status.available_replicas,
        desired_before: note(set, names::DESIRED_REPLICAS_ANNOTATION),
        most_before: note(set, names::MAX_REPLICAS_ANNOTATION),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn template(patch: &[(&str, Value)]) -> MachineTemplateSpec {
        let mut json = json!({"metadata": {"labels": {"pool": "a"}},
            "spec": {"class": {"kind": "MachineClass", "name": "c"}}});
        for (path, value) in patch {
            *json.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_needs_new_machines_and_what_does_not() {
        let base = template(&[]);
        let class = |class: Value| template(&[("/spec/class", class)]);
        for (name, other, same) in [
            (
                "the hash",
                template(&[("/metadata/labels", json!({"pool": "a", "machine-template-hash": "1"}))]),
                true,
            ),
            ("the kind of class", class(json!({"kind": "Other", "name": "c"})), true),
            (
                "a timeout",
                template(&[(
                    "/spec",
                    json!({"class": {"kind": "MachineClass", "name": "c"}, "drainTimeout": "1m"}),
                )]),
                true,
            ),
            (
                "the node",
                template(&[(
                    "/spec",
                    json!({"class": {"kind": "MachineClass", "name": "c"},
                "nodeTemplate": {"metadata": {"labels": {"a": "b"}}}}),
                )]),
                true,
            ),
            (
                "empty annotations",
                template(&[("/metadata", json!({"labels": {"pool": "a"}, "annotations": {}}))]),
                true,
            ),
            ("the class", class(json!({"kind": "MachineClass", "name": "d"})), false),
            (
                "the group of the class",
                class(json!({"apiGroup": "g", "kind": "MachineClass", "name": "c"})),
                false,
            ),
            ("a label", template(&[("/metadata/labels", json!({"pool": "a", "b": "c"}))]), false),
            (
                "an annotation",
                template(&[("/metadata", json!({"labels": {"pool": "a"}, "annotations": {"b": "c"}}))]),
                false,
            ),
        ] {
            assert_eq!(is_same(&base, &other), same, "{name}");
            assert_eq!(hash(&base, None) == hash(&other, None), same, "{name}: the hash");
        }
        assert_ne!(hash(&base, None), hash(&base, Some(1)), "a collision leads to another name");
    }

    fn deployment() -> MachineDeployment {
        serde_json::from_value(json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "annotations": {
                "mine": "1", names::TRIGGER_DELETION_ANNOTATION: "m~t", names::REVISION_ANNOTATION: "4"}},
            "spec": {"replicas": 5, "selector": {"matchLabels": {"pool": "a"}}, "template": template(&[]),
                     "autoPreserveFailedMachineMax": 2},
        }))
        .unwrap()
    }

    const BOUNDS: Bounds =
        Bounds { replicas: 5, surge: 2, unavailable: 1, way: super::super::numbers::Way::Rolling };

    #[test]
    fn a_fresh_set() {
        let set = fresh(&deployment(), 3, 2, BOUNDS);
        let hash = hash(&template(&[]), None);
        assert!(set.name_any().starts_with("d-") && set.name_any().len() == 7, "{}", set.name_any());
        assert_eq!(set.labels()[names::HASH_LABEL], hash);
        assert_eq!(set.spec.selector.clone().unwrap().match_labels.unwrap()[names::HASH_LABEL], hash);
        assert_eq!(set.spec.template.metadata.clone().unwrap().labels.unwrap()[names::HASH_LABEL], hash);
        assert_eq!(set.owner_references()[0].uid, "u");
        assert_eq!((set.spec.replicas, set.spec.auto_preserve_failed_machine_max), (2, 2));
        assert_eq!(
            set.annotations().clone(),
            BTreeMap::from([
                ("mine".to_owned(), "1".to_owned()),
                (names::REVISION_ANNOTATION.to_owned(), "3".to_owned()),
                (names::DESIRED_REPLICAS_ANNOTATION.to_owned(), "5".to_owned()),
                (names::MAX_REPLICAS_ANNOTATION.to_owned(), "7".to_owned()),
            ])
        );
    }

    #[test]
    fn a_set_that_is_new_again_remembers_its_revisions() {
        let first = fresh(&deployment(), 1, 2, BOUNDS);
        let again = in_step(&deployment(), &first, 3);
        let again = in_step(&deployment(), &again, 5);
        assert_eq!(again.annotations()[names::REVISION_ANNOTATION], "5");
        assert_eq!(again.annotations()[names::REVISION_HISTORY_ANNOTATION], "1,3");
        assert_eq!(in_step(&deployment(), &again, 2), again, "revisions never go back");
        let mut annotated = deployment();
        annotated.annotations_mut().insert("mine".to_owned(), "2".to_owned());
        let again = in_step(&annotated, &again, 5);
        assert_eq!(again.annotations()["mine"], "2");
        assert_eq!(again.annotations()[names::REVISION_HISTORY_ANNOTATION], "1,3", "no new revision");
    }

    #[test]
    fn a_deployment_goes_back_to_what_the_set_was_made_from() {
        let mut set = fresh(&deployment(), 1, 2, BOUNDS);
        set.annotations_mut().insert("mine".to_owned(), "old".to_owned());
        set.annotations_mut().insert(names::CREATING_ANNOTATION.to_owned(), "x".to_owned());
        let mut now = deployment();
        now.spec.template.spec.class.name = "other".to_owned();
        now.annotations_mut().insert("since".to_owned(), "then".to_owned());
        let back = turned_back(&now, &set);
        assert_eq!(back.spec.template, template(&[]));
        let keys: Vec<_> = back.annotations().keys().map(String::as_str).collect();
        assert_eq!(keys, [names::REVISION_ANNOTATION, "mine", names::TRIGGER_DELETION_ANNOTATION]);
        assert_eq!(back.annotations()["mine"], "old");
    }

    #[test]
    fn a_set_takes_the_room_of_all_its_machines() {
        let mut set = fresh(&deployment(), 1, 3, BOUNDS);
        assert_eq!(
            numbers(&set, 5, 4),
            Set {
                replicas: 3,
                occupied: 5,
                available: 3,
                status_available: 0,
                desired_before: Some(5),
                most_before: Some(7)
            }
        );
        set.status =
            Some(crate::api::MachineSetStatus { replicas: 6, available_replicas: 2, ..Default::default() });
        let numbers = numbers(&set, 1, 1);
        assert_eq!((numbers.occupied, numbers.available, numbers.status_available), (6, 1, 2));
    }
}

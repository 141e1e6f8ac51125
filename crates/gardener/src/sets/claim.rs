//! Whose object is it: by its controlling owner, and by the owner's selector.

use crate::api::MachineTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::{
    Resource, ResourceExt,
    core::{Selector, SelectorExt},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Ours,
    /// It has no owner and fits.
    Adopt,
    /// It is ours and does not fit any more.
    Release,
    Foreign,
}

/// A selector that selects something: one that is missing, empty or malformed is an error.
pub(super) fn selector(selector: Option<&LabelSelector>) -> Result<Selector, String> {
    let Some(selector) = selector else { return Err("spec.selector: is required".to_owned()) };
    let parsed = Selector::try_from(selector.clone()).map_err(|error| format!("spec.selector: {error}"))?;
    if parsed.selects_all() {
        return Err("spec.selector: is empty and would select everything".to_owned());
    }
    Ok(parsed)
}

/// What sets and deployments have to say alike; gives which objects are theirs, or what is wrong in words.
pub(super) fn check(
    replicas: i32,
    template: &MachineTemplateSpec,
    selects: Option<&LabelSelector>,
) -> Result<Selector, String> {
    if replicas < 0 {
        return Err("spec.replicas: must not be negative".to_owned());
    }
    let class = &template.spec.class;
    if class.kind.is_empty() || class.name.is_empty() {
        return Err("spec.template.spec.class: kind and name are required".to_owned());
    }
    let selector = selector(selects)?;
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.clone()).unwrap_or_default();
    if !selector.matches(&labels) {
        return Err("spec.template.metadata.labels: must match spec.selector".to_owned());
    }
    Ok(selector)
}

pub(super) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

pub(super) fn is_deleting<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

pub(super) fn claim<K: Resource, O: Resource>(object: &K, owner: &O, selector: &Selector) -> Claim {
    let fits = selector.matches(object.labels());
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.meta().uid.as_ref() => Claim::Foreign,
        // Nobody else will look after it when the owner goes.
        Some(_) if fits || is_deleting(owner) => Claim::Ours,
        Some(_) => Claim::Release,
        None if fits && !is_deleting(object) && !is_deleting(owner) => Claim::Adopt,
        None => Claim::Foreign,
    }
}

/// The reference to a controlling owner.
pub(super) fn owned_by<O: Resource<DynamicType = ()>>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Makes this the controlling owner. Other owners stay.
pub(super) fn adopt<K: Resource, O: Resource<DynamicType = ()>>(object: &mut K, owner: &O) {
    let owners = object.owner_references_mut();
    owners.retain(|other| other.controller != Some(true));
    owners.push(owned_by(owner));
}

/// Takes this owner off. Other owners stay.
pub(super) fn release<K: Resource, O: Resource>(object: &mut K, owner: &O) {
    let uid = owner.meta().uid.as_deref();
    object.owner_references_mut().retain(|other| Some(other.uid.as_str()) != uid);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Machine, MachineSet, MachineSetSpec, MachineSpec};
    use serde_json::json;

    fn owner(deleting: bool) -> MachineSet {
        let mut set = MachineSet::new("s", MachineSetSpec::default());
        set.metadata.uid = Some("us".to_owned());
        set.metadata.deletion_timestamp =
            deleting.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        set
    }

    fn machine(label: &str, owner: Option<&str>) -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.labels_mut().insert("pool".to_owned(), label.to_owned());
        machine.metadata.owner_references = owner.map(|uid| {
            vec![
                OwnerReference { uid: "somebody".to_owned(), ..OwnerReference::default() },
                OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() },
            ]
        });
        machine
    }

    #[test]
    fn what_fits_and_is_free_is_ours() {
        let wanted: LabelSelector = serde_json::from_value(json!({"matchLabels": {"pool": "a"}})).unwrap();
        let wanted = selector(Some(&wanted)).unwrap();
        for (label, controller, deleting, expected) in [
            ("a", Some("us"), false, Claim::Ours),
            ("b", Some("us"), false, Claim::Release),
            ("b", Some("us"), true, Claim::Ours),
            ("a", Some("them"), false, Claim::Foreign),
            ("a", None, false, Claim::Adopt),
            ("a", None, true, Claim::Foreign),
            ("b", None, false, Claim::Foreign),
        ] {
            let (machine, owner) = (machine(label, controller), owner(deleting));
            assert_eq!(claim(&machine, &owner, &wanted), expected, "{label} {controller:?} {deleting}");
        }
    }

    #[test]
    fn other_owners_stay() {
        let mut released = machine("a", Some("us"));
        release(&mut released, &owner(false));
        let uids = |machine: &Machine| -> Vec<String> {
            machine.owner_references().iter().map(|owner| owner.uid.clone()).collect()
        };
        assert_eq!(uids(&released), ["somebody"]);
        adopt(&mut released, &owner(false));
        assert_eq!(uids(&released), ["somebody", "us"]);
        assert_eq!(controller_of(&released).map(|owner| owner.kind.as_str()), Some("MachineSet"));
    }

    #[test]
    fn nothing_is_owned_by_a_selector_that_selects_everything() {
        assert!(selector(None).is_err());
        assert!(selector(Some(&LabelSelector::default())).is_err());
        let odd = json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]});
        assert!(selector(Some(&serde_json::from_value(odd).unwrap())).is_err());
    }
}

//! What a Machine says about its Node: labels, annotations and taints of its template, and what its class says
//! about resources that the kubelet does not know of.
//!
//! What was brought to the Node last is written on it, as Gardener's own controllers write it, so that what is
//! taken off the template comes off the Node, and nothing else does.

use super::{Machine, MachineController, Memory};
use crate::{
    api::{NodeTemplateSpec, names},
    life::Behind,
};
use hostler_controller::{Key, Trouble};
use hostler_node::Node;
use k8s_openapi::{
    api::core::v1::{NodeSpec, Taint},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

type Texts = BTreeMap<String, String>;
type Amounts = BTreeMap<String, Quantity>;

/// What a template is about, and nothing else that it may hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Template {
    labels: Texts,
    annotations: Texts,
    taints: Vec<Taint>,
}

impl Template {
    fn of(spec: Option<&NodeTemplateSpec>) -> Self {
        let metadata = spec.and_then(|spec| spec.metadata.clone()).unwrap_or_default();
        let taints = spec.and_then(|spec| spec.spec.as_ref()?.taints.clone()).unwrap_or_default();
        Self {
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            taints,
        }
    }

    /// What was brought to a node last. What cannot be read was nothing.
    fn last_applied(node: &Node) -> Self {
        let text = node.annotations().get(names::LAST_APPLIED_ANNOTATION);
        Self::of(text.and_then(|text| serde_json::from_str(text).ok()).as_ref())
    }

    /// As both sides read it.
    fn render(&self) -> String {
        let metadata = ObjectMeta {
            labels: Some(self.labels.clone()).filter(|labels| !labels.is_empty()),
            annotations: Some(self.annotations.clone()).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        };
        let spec = NodeSpec {
            taints: Some(self.taints.clone()).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        };
        json!({"metadata": metadata, "spec": spec}).to_string()
    }

    fn is_same_as(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.annotations == other.annotations
            && self.taints.len() == other.taints.len()
            && self.taints.iter().zip(&other.taints).all(|(one, other)| is_same_taint(one, other))
    }
}

/// When a taint was added is not the template's business.
fn is_same_taint(one: &Taint, other: &Taint) -> bool {
    is_same_place(one, other)
        && one.value.as_deref().unwrap_or_default() == other.value.as_deref().unwrap_or_default()
}

fn is_same_place(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}

/// What `node` lacks that `template` says of the node of this machine. Without a class nothing is known of its
/// resources, and they stay as they are.
pub(super) fn behind(
    node: &Node,
    machine: &str,
    template: Option<&NodeTemplateSpec>,
    resources: Option<&Amounts>,
) -> Behind {
    let (wanted, last) = (Template::of(template), Template::last_applied(node));
    let mut labels = changes(node.labels(), &wanted.labels, &last.labels);
    if node.labels().get(names::MACHINE_NAME_LABEL).is_none_or(|name| name != machine) {
        labels.insert(names::MACHINE_NAME_LABEL.to_owned(), json!(machine));
    }
    let mut annotations = changes(node.annotations(), &wanted.annotations, &last.annotations);
    if !wanted.is_same_as(&last) {
        annotations.insert(names::LAST_APPLIED_ANNOTATION.to_owned(), json!(wanted.render()));
    }
    if super::is_unmanaged(node) {
        annotations.insert(names::NOT_MANAGED_ANNOTATION.to_owned(), Value::Null);
    }
    let holds = !super::is_held(node) && node.meta().deletion_timestamp.is_none();
    let status = resources.and_then(|wanted| capacity(node, wanted, &mut annotations));
    let taints = taints(node, &wanted.taints, &last.taints);
    let mut metadata = Map::new();
    for (field, texts) in [("labels", labels), ("annotations", annotations)] {
        if !texts.is_empty() {
            metadata.insert(field.to_owned(), Value::Object(texts));
        }
    }
    if holds {
        // Added to what others have put there.
        metadata.insert("finalizers".to_owned(), json!([names::NODE_FINALIZER]));
    }
    if metadata.is_empty() && taints.is_none() {
        return Behind { status, node: None };
    }
    metadata.insert("uid".to_owned(), json!(node.uid()));
    let mut patch = json!({"metadata": metadata});
    if let Some(taints) = taints {
        // The whole list goes; if somebody else has changed it meanwhile, it is decided anew.
        patch["metadata"]["resourceVersion"] = json!(node.resource_version());
        patch["spec"] = json!({"taints": taints});
    }
    Behind { status, node: Some(patch) }
}

impl MachineController {
    /// What the machine's node lacks, apart from what this run has brought to it.
    pub(super) fn behind(&self, machine: &Machine, node: &Node, memory: &Memory) -> Behind {
        let class = Key::new(
            "MachineClass",
            machine.namespace().unwrap_or_default(),
            machine.spec.class.name.clone(),
        );
        let class = self.caches.classes.get(&class);
        let resources = class.as_ref().and_then(|class| class.spec.node_template.as_ref());
        let resources = resources.map(|template| &template.virtual_capacity);
        let name = machine.name_any();
        let Behind { status, node } = behind(node, &name, machine.spec.node_template.as_deref(), resources);
        Behind {
            status: status.filter(|_| !memory.node_status_patched),
            node: node.filter(|_| !memory.node_patched),
        }
    }

    /// Brings something to a node. If that fails the machine's life goes on all the same, and it is tried again.
    pub(super) async fn patch_node(&self, name: &str, patch: Value, status: bool, memory: &mut Memory) {
        let Some(target) = self.target.clone() else { return };
        let nodes: Api<Node> = Api::all(target);
        let (patch, params) = (Patch::Strategic(patch), PatchParams::default());
        let done = if status {
            memory.node_status_patched = true;
            nodes.patch_status(name, &params, &patch).await
        } else {
            memory.node_patched = true;
            nodes.patch(name, &params, &patch).await
        };
        match done {
            Ok(_) => {}
            // The cache is behind; what it will show wakes the machine.
            Err(kube::Error::Api(answer)) if answer.code == 404 => {}
            Err(error) => {
                tracing::warn!(%error, node = name, "the template could not be brought to the node");
                memory.trouble = Some(Trouble::from(error));
            }
        }
    }
}

/// What has to change of what is there: what came into the template, and what went out of it.
fn changes(there: &Texts, wanted: &Texts, last: &Texts) -> Map<String, Value> {
    let gone = last.keys().filter(|key| !wanted.contains_key(*key) && there.contains_key(*key));
    let new = wanted.iter().filter(|(key, value)| there.get(*key) != Some(*value));
    gone.map(|key| (key.clone(), Value::Null))
        .chain(new.map(|(key, value)| (key.clone(), json!(value))))
        .collect()
}

fn taints(node: &Node, wanted: &[Taint], last: &[Taint]) -> Option<Vec<Taint>> {
    let there = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let of = |list: &[Taint], taint: &Taint| list.iter().find(|other| is_same_place(other, taint)).cloned();
    let stay = there.iter().filter(|taint| of(last, taint).is_none() || of(wanted, taint).is_some());
    let mut all: Vec<Taint> = stay
        .map(|taint| match of(wanted, taint) {
            Some(other) if !is_same_taint(&other, taint) => other,
            _ => taint.clone(),
        })
        .collect();
    for taint in wanted {
        if of(&all, taint).is_none() {
            all.push(taint.clone());
        }
    }
    (all != there).then_some(all)
}

/// The patch of the status, if resources are missing or wrong. What was brought is noted in `annotations`.
fn capacity(node: &Node, wanted: &Amounts, annotations: &mut Map<String, Value>) -> Option<Value> {
    let there = node.status.as_ref().and_then(|status| status.capacity.clone()).unwrap_or_default();
    let noted = node.annotations().get(names::LAST_CAPACITY_ANNOTATION);
    let last: Amounts = noted.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let gone = last.keys().filter(|key| !wanted.contains_key(*key) && there.contains_key(*key));
    let new = wanted
        .iter()
        .filter(|(key, value)| !there.get(*key).is_some_and(|other| is_same_amount(other, value)));
    let changes: Map<String, Value> = gone
        .map(|key| (key.clone(), Value::Null))
        .chain(new.map(|(key, value)| (key.clone(), json!(value))))
        .collect();
    if wanted.is_empty() && noted.is_some() {
        annotations.insert(names::LAST_CAPACITY_ANNOTATION.to_owned(), Value::Null);
    } else if *wanted != last {
        annotations.insert(names::LAST_CAPACITY_ANNOTATION.to_owned(), json!(json!(wanted).to_string()));
    }
    (!changes.is_empty()).then(|| json!({"metadata": {"uid": node.uid()}, "status": {"capacity": changes}}))
}

/// The API server writes `1000m` as `1`.
fn is_same_amount(one: &Quantity, other: &Quantity) -> bool {
    one == other || amount(&one.0).is_some_and(|one| amount(&other.0) == Some(one))
}

fn amount(text: &str) -> Option<f64> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 9] =
        [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    for (power, suffix) in (1..).zip(BINARY) {
        if let Some(number) = text.strip_suffix(suffix) {
            return number.parse::<f64>().ok().map(|number| number * 1024_f64.powi(power));
        }
    }
    for (suffix, power) in DECIMAL {
        if let Some(number) = text.strip_suffix(suffix) {
            return format!("{number}e{power}").parse().ok();
        }
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that is held already.
    fn node(value: Value) -> Node {
        let mut value = value;
        value["metadata"]["finalizers"] = json!([names::NODE_FINALIZER]);
        value["metadata"]["uid"] = json!("u");
        value["metadata"]["resourceVersion"] = json!("7");
        serde_json::from_value(value).unwrap()
    }

    fn template(value: Value) -> NodeTemplateSpec {
        serde_json::from_value(value).unwrap()
    }

    fn taint(key: &str, value: &str) -> Value {
        json!({"key": key, "value": value, "effect": "NoSchedule"})
    }

    #[test]
    fn the_template_is_brought_to_a_node_that_knows_nothing_of_it() {
        let node = node(
            json!({"metadata": {"name": "m", "labels": {"own": "1"}}, "spec": {"taints": [taint("a", "")]}}),
        );
        let template = template(json!({"metadata": {"labels": {"pool": "x"}, "annotations": {"note": "y"}},
            "spec": {"taints": [taint("b", "1")]}}));
        let behind = behind(&node, "m", Some(&template), None);
        assert_eq!(behind.status, None);
        let applied = r#"{"metadata":{"annotations":{"note":"y"},"labels":{"pool":"x"}},"spec":{"taints":[{"effect":"NoSchedule","key":"b","value":"1"}]}}"#;
        assert_eq!(
            behind.node.unwrap(),
            json!({"metadata": {"uid": "u", "resourceVersion": "7",
                    "labels": {"pool": "x", "node.gardener.cloud/machine-name": "m"},
                    "annotations": {"note": "y", "node.machine.sapcloud.io/last-applied-anno-labels-taints": applied}},
                "spec": {"taints": [taint("a", ""), taint("b", "1")]}})
        );
    }

    /// The node after a patch, as the API server merges it.
    fn patched(node: &Node, patch: Option<&Value>) -> Node {
        fn merge(into: &mut Value, patch: &Value) {
            let Value::Object(fields) = patch else {
                *into = patch.clone();
                return;
            };
            if !into.is_object() {
                *into = json!({});
            }
            for (key, value) in fields {
                if value.is_null() {
                    into.as_object_mut().unwrap().remove(key);
                } else {
                    merge(&mut into[key], value);
                }
            }
        }
        let mut value = json!(node);
        if let Some(patch) = patch {
            merge(&mut value, patch);
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn what_is_brought_is_brought_once_and_what_leaves_the_template_leaves_the_node() {
        let before = node(json!({"metadata": {"name": "m", "labels": {"own": "1", "pool": "old"},
            "annotations": {"own": "2"}}, "spec": {"taints": [taint("own", "")]}}));
        let full = template(
            json!({"metadata": {"labels": {"pool": "x", "more": "1"}, "annotations": {"note": "y"}},
            "spec": {"taints": [taint("b", "1"), {"key": "own", "effect": "NoSchedule", "value": "changed"}]}}),
        );
        let after = patched(&before, behind(&before, "m", Some(&full), None).node.as_ref());
        assert_eq!(behind(&after, "m", Some(&full), None), Behind::default(), "nothing is left to do");
        assert_eq!(after.labels()["pool"], "x");

        let less = template(json!({"metadata": {"labels": {"more": "1"}}}));
        let later = patched(&after, behind(&after, "m", Some(&less), None).node.as_ref());
        assert_eq!(behind(&later, "m", Some(&less), None), Behind::default());
        let keys: Vec<&String> = later.labels().keys().collect();
        assert_eq!(keys, ["more", "node.gardener.cloud/machine-name", "own"]);
        assert_eq!(later.annotations().keys().filter(|key| !key.contains('/')).collect::<Vec<_>>(), ["own"]);
        let left = later.spec.as_ref().unwrap().taints.clone().unwrap_or_default();
        assert_eq!(left, [], "all of them were the template's");

        let none = patched(&later, behind(&later, "m", None, None).node.as_ref());
        assert_eq!(behind(&none, "m", None, None), Behind::default());
        assert_eq!(none.labels().keys().collect::<Vec<_>>(), ["node.gardener.cloud/machine-name", "own"]);
    }

    #[test]
    fn a_node_with_nothing_to_bring_gets_its_machines_name_and_no_more() {
        let plain = node(json!({"metadata": {"name": "m"}}));
        let patch = behind(&plain, "m", None, None).node.unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"uid": "u", "labels": {"node.gardener.cloud/machine-name": "m"}}})
        );
    }

    #[test]
    fn a_node_is_held_while_nobody_has_deleted_it_and_is_nobodys_no_more() {
        let of = |metadata: Value| {
            let mut metadata = metadata;
            metadata["labels"] = json!({"node.gardener.cloud/machine-name": "m"});
            behind(&serde_json::from_value(json!({"metadata": metadata})).unwrap(), "m", None, None).node
        };
        let held = json!(["node.machine.sapcloud.io/machine-controller"]);
        for (what, metadata, expected) in [
            ("new", json!({}), Some(json!({"uid": null, "finalizers": held}))),
            (
                "held by others",
                json!({"finalizers": ["a/b"]}),
                Some(json!({"uid": null, "finalizers": held})),
            ),
            ("held", json!({"finalizers": held}), None),
            ("going", json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), None),
            (
                "nobody's",
                json!({"finalizers": held, "annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": "1"}}),
                Some(
                    json!({"uid": null, "annotations": {"node.machine.sapcloud.io/not-managed-by-mcm": null}}),
                ),
            ),
        ] {
            assert_eq!(of(metadata).map(|patch| patch["metadata"].clone()), expected, "{what}");
        }
    }

    #[test]
    fn what_go_wrote_counts_and_what_nobody_can_read_does_not() {
        let wanted = template(json!({"metadata": {"labels": {"pool": "x"}}}));
        let with = |applied: &str| {
            node(json!({"metadata": {"name": "m", "labels": {"pool": "x", "old": "1",
                "node.gardener.cloud/machine-name": "m"},
                "annotations": {"node.machine.sapcloud.io/last-applied-anno-labels-taints": applied}}}))
        };
        let go = with(r#"{"metadata":{"creationTimestamp":null,"labels":{"pool":"x"}},"spec":{}}"#);
        assert_eq!(behind(&go, "m", Some(&wanted), None), Behind::default());
        let older = with(r#"{"metadata":{"creationTimestamp":null,"labels":{"old":"1"}},"spec":{}}"#);
        assert_eq!(
            behind(&older, "m", Some(&wanted), None).node.unwrap()["metadata"]["labels"],
            json!({"old": null})
        );
        let broken = with("no JSON");
        let patch = behind(&broken, "m", Some(&wanted), None).node.unwrap();
        assert_eq!(
            patch["metadata"]["labels"],
            Value::Null,
            "what is there and was never ours stays: {patch}"
        );
    }

    #[test]
    fn a_taint_that_only_differs_in_its_time_is_the_same() {
        let mut timed = taint("b", "");
        timed["timeAdded"] = json!("2026-01-01T00:00:00Z");
        let wanted = template(json!({"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}}));
        let there = node(json!({"metadata": {"name": "m"}, "spec": {"taints": [timed]}}));
        let patch = behind(&there, "m", Some(&wanted), None).node.unwrap();
        assert_eq!(patch.get("spec"), None, "{patch}");
    }

    #[test]
    fn resources_of_the_class_are_brought_and_taken_back() {
        let amounts = |value: Value| -> Amounts { serde_json::from_value(value).unwrap() };
        let before =
            node(json!({"metadata": {"name": "m", "labels": {"node.gardener.cloud/machine-name": "m"}},
            "status": {"capacity": {"cpu": "4", "x/a": "1"}}}));
        let wanted = amounts(json!({"x/a": "1000m", "x/b": "2"}));
        let first = behind(&before, "m", None, Some(&wanted));
        assert_eq!(first.status.as_ref().unwrap()["status"], json!({"capacity": {"x/b": "2"}}));
        let after = patched(&patched(&before, first.status.as_ref()), first.node.as_ref());
        assert_eq!(behind(&after, "m", None, Some(&wanted)), Behind::default());
        assert_eq!(behind(&after, "m", None, None), Behind::default(), "without a class nothing is known");

        let back = behind(&after, "m", None, Some(&Amounts::new()));
        assert_eq!(back.status.as_ref().unwrap()["status"], json!({"capacity": {"x/a": null, "x/b": null}}));
        let end = patched(&patched(&after, back.status.as_ref()), back.node.as_ref());
        assert_eq!(behind(&end, "m", None, Some(&Amounts::new())), Behind::default());
        assert!(!end.annotations().contains_key(names::LAST_CAPACITY_ANNOTATION));
    }

    #[test]
    fn amounts_are_compared_by_what_they_mean() {
        for (one, other, same) in [
            ("1", "1000m", true),
            ("1Gi", "1024Mi", true),
            ("1e3", "1k", true),
            ("0.5", "500m", true),
            ("1", "2", false),
            ("1Ki", "1k", false),
            ("many", "1", false),
            ("many", "many", true),
        ] {
            assert_eq!(is_same_amount(&Quantity(one.into()), &Quantity(other.into())), same, "{one} {other}");
        }
    }
}

use super::{Found, Problem, is_label_key, is_label_value};
use crate::{
    api::{MOST_OFFERINGS, NodeGroupSpec, TAINT_EFFECTS},
    names::error,
};
use std::collections::BTreeSet;

/// Everything that is wrong with a NodeGroup by itself, in the order of its fields. What the cloud has to say (whether
/// there is such a datacenter) is not asked here.
pub fn node_group(spec: &NodeGroupSpec) -> Vec<Problem> {
    let mut found = Found::default();
    found.at_least("spec.minNodes", spec.min_nodes.into(), 0);
    found.at_least("spec.maxNodes", spec.max_nodes.into(), 1);
    found.when(spec.min_nodes > spec.max_nodes, "spec.minNodes", error::MIN_EXCEEDS_MAX);
    found.given("spec.datacenterID", &spec.datacenter_id);
    offerings(spec, &mut found);
    found.given("spec.osImageID", &spec.os_image_id);
    policies(spec, &mut found);
    for (key, value) in &spec.labels {
        let field = format!("spec.labels[{key}]");
        found.when(!is_label_key(key), &field, "is no valid label key");
        found.when(!is_label_value(value), &field, "has no valid label value");
    }
    taints(spec, &mut found);
    found.when(spec.kube_size_id.is_some_and(|size| size < 1), "spec.kubeSizeID", "must be > 0");
    found.0
}

fn offerings(spec: &NodeGroupSpec, found: &mut Found) {
    let (offered, field) = (&spec.offering_ids, "spec.offeringIDs");
    found.when(offered.is_empty(), field, "must contain at least one entry");
    let many = usize::try_from(MOST_OFFERINGS).is_ok_and(|most| offered.len() > most);
    found.when(many, field, format!("must contain at most {MOST_OFFERINGS} entries"));
    for (at, _) in offered.iter().enumerate().filter(|(_, id)| id.is_empty()) {
        found.when(true, format!("{field}[{at}]"), "must not be empty");
    }
    let preferred = &spec.preferred_instance_type;
    let foreign = !preferred.is_empty() && !offered.contains(preferred);
    found.when(foreign, "spec.preferredInstanceType", error::PREFERRED_NOT_OFFERED);
}

fn policies(spec: &NodeGroupSpec, found: &mut Found) {
    let (up, down) = (&spec.scale_up_policy, &spec.scale_down_policy);
    let both = [
        ("scaleUpPolicy", up.stabilization_window_seconds, up.cpu_threshold, up.memory_threshold),
        ("scaleDownPolicy", down.stabilization_window_seconds, down.cpu_threshold, down.memory_threshold),
    ];
    for (policy, window, cpu, memory) in both {
        found.positive(format!("spec.{policy}.stabilizationWindowSeconds"), window.into());
        found.percent(format!("spec.{policy}.cpuThreshold"), cpu.into());
        found.percent(format!("spec.{policy}.memoryThreshold"), memory.into());
    }
    found.at_least("spec.scaleDownPolicy.unneededTime", down.unneeded_time.into(), 0);
    let cooldown = down.cooldown_seconds.unwrap_or_default();
    found.at_least("spec.scaleDownPolicy.cooldownSeconds", cooldown.into(), 0);
}

fn taints(spec: &NodeGroupSpec, found: &mut Found) {
    let mut seen = BTreeSet::new();
    for (at, taint) in spec.taints.iter().enumerate() {
        let field = |part: &str| format!("spec.taints[{at}].{part}");
        let effect = taint.effect.as_str();
        found.when(!is_label_key(&taint.key), field("key"), "is no valid taint key");
        let value = taint.value.as_deref().unwrap_or_default();
        found.when(!is_label_value(value), field("value"), "is no valid taint value");
        found.when(
            !TAINT_EFFECTS.contains(&effect),
            field("effect"),
            format!("must be one of {}", TAINT_EFFECTS.join(", ")),
        );
        let twice = !seen.insert((taint.key.as_str(), effect));
        found.when(twice, field("key"), "is there twice with the same effect");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Taint;

    fn good() -> NodeGroupSpec {
        NodeGroupSpec {
            min_nodes: 1,
            max_nodes: 3,
            datacenter_id: "dc-us-east-1".into(),
            offering_ids: vec!["small-2cpu-4gb".into(), "medium-4cpu-8gb".into()],
            os_image_id: "ubuntu-22.04-lts".into(),
            ..NodeGroupSpec::default()
        }
    }

    fn taint(key: &str, effect: &str) -> Taint {
        Taint { key: key.into(), effect: effect.into(), ..Taint::default() }
    }

    type Case = (fn(&mut NodeGroupSpec), &'static [&'static str]);

    #[test]
    fn every_problem_is_found_and_names_its_field() {
        let table: [Case; 27] = [
            (|_| {}, &[]),
            (|spec| spec.preferred_instance_type = "medium-4cpu-8gb".into(), &[]),
            (|spec| spec.min_nodes = 0, &[]),
            (|spec| spec.min_nodes = 3, &[]),
            (|spec| spec.min_nodes = -1, &["spec.minNodes: must be >= 0, is -1"]),
            (|spec| spec.min_nodes = 4, &["spec.minNodes: MinNodes exceeds MaxNodes"]),
            (
                |spec| spec.max_nodes = 0,
                &["spec.maxNodes: must be >= 1, is 0", "spec.minNodes: MinNodes exceeds MaxNodes"],
            ),
            (|spec| spec.datacenter_id.clear(), &["spec.datacenterID: is required and must not be empty"]),
            (|spec| spec.offering_ids.clear(), &["spec.offeringIDs: must contain at least one entry"]),
            (|spec| spec.offering_ids[1].clear(), &["spec.offeringIDs[1]: must not be empty"]),
            (
                |spec| spec.offering_ids = vec!["o".into(); 101],
                &["spec.offeringIDs: must contain at most 100 entries"],
            ),
            (|spec| spec.os_image_id.clear(), &["spec.osImageID: is required and must not be empty"]),
            (
                |spec| spec.preferred_instance_type = "huge".into(),
                &["spec.preferredInstanceType: preferredInstanceType must be one of offeringIDs"],
            ),
            (
                |spec| spec.scale_up_policy.stabilization_window_seconds = 0,
                &["spec.scaleUpPolicy.stabilizationWindowSeconds: must be > 0, is 0"],
            ),
            (
                |spec| spec.scale_up_policy.cpu_threshold = 101,
                &["spec.scaleUpPolicy.cpuThreshold: must be between 0 and 100, is 101"],
            ),
            (
                |spec| spec.scale_up_policy.memory_threshold = -1,
                &["spec.scaleUpPolicy.memoryThreshold: must be between 0 and 100, is -1"],
            ),
            (
                |spec| spec.scale_down_policy.stabilization_window_seconds = -5,
                &["spec.scaleDownPolicy.stabilizationWindowSeconds: must be > 0, is -5"],
            ),
            (
                |spec| spec.scale_down_policy.cpu_threshold = -1,
                &["spec.scaleDownPolicy.cpuThreshold: must be between 0 and 100, is -1"],
            ),
            (
                |spec| spec.scale_down_policy.memory_threshold = 200,
                &["spec.scaleDownPolicy.memoryThreshold: must be between 0 and 100, is 200"],
            ),
            (
                |spec| spec.scale_down_policy.unneeded_time = -1,
                &["spec.scaleDownPolicy.unneededTime: must be >= 0, is -1"],
            ),
            (
                |spec| spec.scale_down_policy.cooldown_seconds = Some(-1),
                &["spec.scaleDownPolicy.cooldownSeconds: must be >= 0, is -1"],
            ),
            (
                |spec| spec.labels = [("a b".into(), "c/d".into())].into(),
                &["spec.labels[a b]: is no valid label key", "spec.labels[a b]: has no valid label value"],
            ),
            (
                |spec| spec.taints = vec![taint("", "NoExecute")],
                &["spec.taints[0].key: is no valid taint key"],
            ),
            (
                |spec| spec.taints = vec![taint("a", "Never")],
                &["spec.taints[0].effect: must be one of NoSchedule, PreferNoSchedule, NoExecute"],
            ),
            (
                |spec| spec.taints = vec![taint("a", "NoSchedule"), taint("a", "NoSchedule")],
                &["spec.taints[1].key: is there twice with the same effect"],
            ),
            (|spec| spec.taints = vec![taint("a", "NoSchedule"), taint("a", "NoExecute")], &[]),
            (|spec| spec.kube_size_id = Some(0), &["spec.kubeSizeID: must be > 0"]),
        ];
        for (change, expected) in table {
            let mut spec = good();
            change(&mut spec);
            let problems: Vec<String> = node_group(&spec).iter().map(ToString::to_string).collect();
            assert_eq!(problems, expected);
        }
    }

    #[test]
    fn all_problems_of_an_empty_spec_are_told_at_once() {
        let problems = node_group(&NodeGroupSpec::default());
        let fields: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        assert_eq!(fields, ["spec.maxNodes", "spec.datacenterID", "spec.offeringIDs", "spec.osImageID"]);
    }
}

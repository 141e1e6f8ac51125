//! A NodeGroup and its members as the planner wants them.

use super::{BackOff, Effective, Member, Standing, Windows};
use crate::{
    api::NodeGroup,
    group::label_value,
    names::{label, note},
};
use hostler_planner::model;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Taint;
use kube::ResourceExt;

/// An instance type with its size and price.
#[derive(Clone, Debug, Default)]
pub struct Size {
    /// As the spec has it.
    pub offering: String,
    pub capacity: model::Resources,
    /// Billionths of the currency per hour.
    pub price: model::Price,
    pub available: bool,
}

/// The name by which the planner knows a group: equal names in two namespaces are two groups.
pub fn planned_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The group. `region` and `datacenter` are what its nodes' labels will say.
pub fn planned_group(
    group: &NodeGroup,
    limits: &Effective,
    windows: &Windows,
    sizes: &[Size],
    back_off: &BackOff,
    region: &str,
    now: Timestamp,
) -> model::Group {
    let (spec, namespace, name) = (&group.spec, group.namespace().unwrap_or_default(), group.name_any());
    let datacenter = label_value(&spec.datacenter_id);
    let mut labels = spec.labels.clone();
    let own = [
        (label::NODE_GROUP, label_value(&name)),
        (label::NODE_GROUP_NAMESPACE, namespace.clone()),
        (label::MANAGED, "true".to_owned()),
        (label::DATACENTER, datacenter.clone()),
        (label::REGION, label_value(region)),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value)));
    let offering = |size: &Size| {
        let own = label_value(&size.offering);
        let held = back_off.held(&size.offering, &spec.datacenter_id, now).is_some();
        model::Offering {
            name: size.offering.clone(),
            zone: Some(datacenter.clone()),
            capacity: size.capacity.clone(),
            price: size.price,
            available: size.available && !held,
            labels: [label::INSTANCE_TYPE, label::NODE_INSTANCE_TYPE]
                .map(|key| (key.to_owned(), own.clone()))
                .into(),
            ..model::Offering::default()
        }
    };
    let (up, down) = (&spec.scale_up_policy, &spec.scale_down_policy);
    model::Group {
        name: planned_name(&namespace, &name),
        min: limits.min,
        max: limits.max,
        labels,
        taints: spec.taints.iter().filter_map(taint).collect(),
        offerings: sizes.iter().map(offering).collect(),
        preferred: Some(spec.preferred_instance_type.clone()).filter(|name| !name.is_empty()),
        mixing: spec.allow_mixed_instances,
        scale_up: model::ScaleUpPolicy {
            enabled: up.enabled,
            window: up.stabilization_window_seconds.into(),
            cpu_threshold: up.cpu_threshold.into(),
            memory_threshold: up.memory_threshold.into(),
        },
        scale_down: model::ScaleDownPolicy {
            enabled: down.enabled,
            window: down.stabilization_window_seconds.into(),
            cpu_threshold: down.cpu_threshold.into(),
            memory_threshold: down.memory_threshold.into(),
            unneeded_time: down.unneeded_time.into(),
            cooldown: down.cooldown_seconds.unwrap_or_default().into(),
        },
        paused: limits.paused,
        last_scale_up: seconds(windows.last_scale_up),
        last_scale_down: seconds(windows.last_scale_down),
        last_consolidation: seconds(windows.last_consolidation),
        regretted: seconds(windows.regretted),
        hot_since: seconds(windows.hot_since),
        ..model::Group::default()
    }
}

fn seconds(at: Option<Timestamp>) -> Option<model::Time> {
    at.map(Timestamp::as_second)
}

fn taint(taint: &Taint) -> Option<model::Taint> {
    let effect = match taint.effect.as_str() {
        "NoSchedule" => model::Effect::NoSchedule,
        "PreferNoSchedule" => model::Effect::PreferNoSchedule,
        "NoExecute" => model::Effect::NoExecute,
        _ => return None,
    };
    Some(model::Taint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), effect))
}

/// A member that is no node yet. Those that failed count as long as there is, or may be, a VPS.
pub fn planned_machine(group: &str, datacenter: &str, member: &Member) -> Option<model::Machine> {
    let failed = match member.standing() {
        Standing::Comes if !member.had_node => false,
        Standing::Failed if member.counts() => true,
        _ => return None,
    };
    Some(model::Machine {
        name: member.name.clone(),
        group: group.to_owned(),
        offering: member.offering.clone(),
        zone: Some(label_value(datacenter)),
        failed,
    })
}

/// What the planner has to know of a node beside what the node itself says.
pub fn complete(node: &mut model::Node, group: &str, member: &Member) {
    node.group = Some(group.to_owned());
    node.offering = Some(member.offering.clone());
    node.draining |= member.standing() == Standing::Goes || member.standing() == Standing::Failed;
    if member.protected {
        node.annotations.insert(crate::names::annotation::DO_NOT_DELETE.to_owned(), "true".to_owned());
    }
    let moment = |name: &str| {
        node.annotations.get(name).and_then(|text| text.parse::<Timestamp>().ok()).map(Timestamp::as_second)
    };
    let (unneeded, consolidated) = (moment(note::UNNEEDED_SINCE), moment(note::CONSOLIDATED));
    node.unneeded_since = unneeded;
    node.consolidated = consolidated;
    node.bought_by_usage = node.annotations.get(note::BOUGHT_BY_USAGE).is_some_and(|text| text == "true");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{NodeGroupSpec, ScaleDownPolicy, VPSieNodePhase as Phase},
        group::Existence,
        life::Why,
    };
    use hostler_planner::{ScaleUp, scale_up};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn group() -> NodeGroup {
        let mut group = NodeGroup::new(
            "workers",
            NodeGroupSpec {
                min_nodes: 0,
                max_nodes: 5,
                datacenter_id: "dc 1".into(),
                labels: [("tier".to_owned(), "web".to_owned())].into(),
                taints: vec![Taint {
                    key: "gpu".into(),
                    value: Some("true".into()),
                    effect: "NoSchedule".into(),
                    ..Taint::default()
                }],
                preferred_instance_type: "small".into(),
                ..NodeGroupSpec::default()
            },
        );
        group.metadata.namespace = Some("kube-system".into());
        group
    }

    fn sizes() -> Vec<Size> {
        let size = |offering: &str, cpu, price| Size {
            offering: offering.into(),
            capacity: model::Resources::new(cpu, 8 << 30).with_pods(110),
            price,
            available: true,
        };
        vec![size("small", 2_000, 10), size("large", 8_000, 30)]
    }

    fn planned(group: &NodeGroup, windows: Windows, back_off: &BackOff) -> model::Group {
        let limits = Effective { min: 1, max: 4, ..Effective::default() };
        planned_group(group, &limits, &windows, &sizes(), back_off, "New York", at(1000))
    }

    #[test]
    fn a_group_is_planned_with_what_its_nodes_will_have() {
        let plan = planned(&group(), Windows::default(), &BackOff::default());
        let labels: Vec<_> = plan.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("autoscaler.vpsie.com/datacenter", "dc-1"),
            ("autoscaler.vpsie.com/managed", "true"),
            ("autoscaler.vpsie.com/nodegroup", "workers"),
            ("autoscaler.vpsie.com/nodegroup-namespace", "kube-system"),
            ("tier", "web"),
            ("topology.kubernetes.io/region", "New-York"),
        ];
        assert_eq!(labels, expected);
        assert_eq!((plan.name.as_str(), plan.min, plan.max), ("kube-system/workers", 1, 4));
        assert_eq!((plan.preferred.as_deref(), plan.mixing, plan.paused), (Some("small"), false, false));
        assert_eq!(plan.taints, [model::Taint::new("gpu", "true", model::Effect::NoSchedule)]);
        let offering = &plan.offerings[1];
        assert_eq!(
            (offering.name.as_str(), offering.zone.as_deref(), offering.price),
            ("large", Some("dc-1"), 30)
        );
        assert_eq!(offering.labels["node.kubernetes.io/instance-type"], "large");
        let policies = (plan.scale_up.window, plan.scale_down.window, plan.scale_down.unneeded_time);
        assert_eq!(policies, (60, 600, 600));
    }

    #[test]
    fn what_is_held_back_is_not_available() {
        let mut back_off = BackOff::default();
        back_off.note("small", "dc 1", "no more", at(990));
        let plan = planned(&group(), Windows::default(), &back_off);
        let available: Vec<bool> = plan.offerings.iter().map(|offering| offering.available).collect();
        assert_eq!(available, [false, true]);
        let cluster = model::Cluster {
            now: 1000,
            groups: vec![model::Group { min: 1, taints: Vec::new(), ..plan }],
            ..model::Cluster::default()
        };
        let ScaleUp { machines, .. } = scale_up(&cluster);
        assert_eq!(machines.iter().map(|machine| machine.offering).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn windows_and_the_cooldown_are_the_planners() {
        let windows = Windows { last_scale_down: Some(at(100)), ..Windows::default() };
        for (cooldown, expected) in [(None, 0), (Some(0), 0), (Some(900), 900)] {
            let mut group = group();
            group.spec.scale_down_policy =
                ScaleDownPolicy { cooldown_seconds: cooldown, ..ScaleDownPolicy::default() };
            let plan = planned(&group, windows, &BackOff::default());
            assert_eq!(plan.last_scale_down, Some(100));
            assert_eq!((plan.scale_down.window, plan.scale_down.cooldown), (600, expected), "{cooldown:?}");
        }
    }

    #[test]
    fn only_what_is_no_node_yet_is_a_machine() {
        let failed = |existence| Member { phase: Some(Phase::Failed), existence, ..Member::coming("m") };
        let table = [
            ("coming", Member::coming("m"), Some(false)),
            ("joined", Member { had_node: true, ..Member::coming("m") }, None),
            ("ready", Member::ready("m"), None),
            ("going", Member { deleting: true, ..Member::coming("m") }, None),
            ("failed, with a VPS", failed(Existence::There), Some(true)),
            ("failed, perhaps with one", failed(Existence::Maybe), Some(true)),
            ("failed without one", failed(Existence::None), None),
        ];
        for (what, member, expected) in table {
            let machine = planned_machine("kube-system/workers", "dc 1", &member);
            assert_eq!(machine.as_ref().map(|machine| machine.failed), expected, "{what}");
            assert!(machine.is_none_or(|machine| machine.zone.as_deref() == Some("dc-1")));
        }
    }

    #[test]
    fn a_node_is_completed_by_what_is_noted_on_it() {
        let notes = [
            ("autoscaler.vpsie.com/unneeded-since", "1970-01-01T00:01:40Z"),
            ("autoscaler.vpsie.com/consolidated", "1970-01-01T00:03:20Z"),
            ("autoscaler.vpsie.com/bought-by-usage", "true"),
        ];
        let node = || model::Node {
            annotations: notes.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
            group: Some("workers".into()),
            ..model::Node::default()
        };
        let done = |member: &Member| {
            let mut node = node();
            complete(&mut node, "kube-system/workers", member);
            node
        };
        let calm = done(&Member::ready("m"));
        assert_eq!(
            (calm.group.as_deref(), calm.offering.as_deref()),
            (Some("kube-system/workers"), Some("small"))
        );
        assert_eq!(
            (calm.unneeded_since, calm.consolidated, calm.bought_by_usage),
            (Some(100), Some(200), true)
        );
        assert!(!calm.draining && !calm.annotations.contains_key("autoscaler.vpsie.com/do-not-delete"));
        let going = Member { removal: Some(Why::ScaleDown), protected: true, ..Member::ready("m") };
        let going = done(&going);
        assert!(going.draining && going.annotations["autoscaler.vpsie.com/do-not-delete"] == "true");
    }
}

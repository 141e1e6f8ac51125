use super::{Found, Problem};
use crate::{
    api::{VPSieNode, VPSieNodePhase as Phase},
    names::error,
};

/// Everything that is wrong with a VPSieNode by itself, and with what became of it since it was `old`.
pub fn vpsie_node(node: &VPSieNode, old: Option<&VPSieNode>) -> Vec<Problem> {
    let (spec, id) = (&node.spec, node.spec.vpsie_instance_id);
    let mut found = Found::default();
    found.at_least("spec.vpsieInstanceID", id, 0);
    found.when(id == 0 && needs_vps(node), "spec.vpsieInstanceID", error::INSTANCE_ID_MISSING);
    let before = old.map_or(0, |old| old.spec.vpsie_instance_id);
    found.when(before != 0 && id != before, "spec.vpsieInstanceID", error::INSTANCE_ID_IMMUTABLE);
    found.given("spec.instanceType", &spec.instance_type);
    found.given("spec.nodeGroupName", &spec.node_group_name);
    found.given("spec.datacenterID", &spec.datacenter_id);
    found.0
}

/// Whether it stands where it cannot be without a VPS. Workers of a cluster that VPSie runs have no number.
fn needs_vps(node: &VPSieNode) -> bool {
    let phase = node.status.as_ref().and_then(|status| status.phase);
    let up = matches!(phase, Some(Phase::Provisioned | Phase::Joining | Phase::Ready));
    up && node.spec.resource_identifier.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{VPSieNodeSpec, VPSieNodeStatus};

    fn node(id: i64, phase: Option<Phase>) -> VPSieNode {
        let spec = VPSieNodeSpec {
            vpsie_instance_id: id,
            instance_type: "small".into(),
            node_group_name: "workers".into(),
            datacenter_id: "dc".into(),
            ..VPSieNodeSpec::default()
        };
        let status = phase.map(|phase| VPSieNodeStatus { phase: Some(phase), ..VPSieNodeStatus::default() });
        VPSieNode { status, ..VPSieNode::new("n", spec) }
    }

    fn texts(node: &VPSieNode, old: Option<&VPSieNode>) -> Vec<String> {
        vpsie_node(node, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_number_is_set_once_and_must_be_there_once_there_is_a_vps() {
        let missing = "spec.vpsieInstanceID: vpsieInstanceID must be > 0 once there is a VPS";
        let fixed = "spec.vpsieInstanceID: vpsieInstanceID is immutable once it is set";
        let table = [
            (None, 0, None, vec![]),
            (None, 1001, None, vec![]),
            (None, -1, None, vec!["spec.vpsieInstanceID: must be >= 0, is -1"]),
            (Some(0), 1001, Some(Phase::Provisioning), vec![]),
            (Some(1001), 1001, Some(Phase::Ready), vec![]),
            (Some(1001), 1002, Some(Phase::Ready), vec![fixed]),
            (Some(1001), 0, Some(Phase::Failed), vec![fixed]),
        ];
        for (before, id, phase, expected) in table {
            let old = before.map(|id| node(id, None));
            assert_eq!(texts(&node(id, phase), old.as_ref()), expected, "{before:?} {id} {phase:?}");
        }
        for phase in Phase::ALL {
            let needs = matches!(phase, Phase::Provisioned | Phase::Joining | Phase::Ready);
            let expected = if needs { vec![missing] } else { vec![] };
            assert_eq!(texts(&node(0, Some(phase)), None), expected, "{phase:?}");
            let mut worker = node(0, Some(phase));
            worker.spec.resource_identifier = Some("cluster".into());
            assert_eq!(texts(&worker, None), Vec::<String>::new(), "a worker, {phase:?}");
        }
    }

    #[test]
    fn every_required_field_is_asked_for() {
        let mut empty = node(0, None);
        empty.spec = VPSieNodeSpec::default();
        let fields: Vec<String> = vpsie_node(&empty, None).into_iter().map(|problem| problem.field).collect();
        assert_eq!(fields, ["spec.instanceType", "spec.nodeGroupName", "spec.datacenterID"]);
    }
}

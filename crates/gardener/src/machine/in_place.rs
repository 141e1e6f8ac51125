//! What a node says about its update in place, and what is written there.

use super::{Machine, MachineController, Next, health::conditions_of};
use crate::{
    api::names,
    life::{InPlace, Stage, UpdateResult},
};
use hostler_controller::{Outcome, Trouble};
use hostler_node::Node;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::NodeCondition, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

const UPDATE_FAILED: &str = "failed";

pub(super) fn seen_on(node: &Node) -> InPlace {
    let labels = node.labels();
    let result = labels.get(names::UPDATE_RESULT_LABEL).and_then(|result| match result.as_str() {
        names::UPDATE_SUCCESSFUL => Some(UpdateResult::Successful),
        UPDATE_FAILED => {
            let why = node.annotations().get(names::UPDATE_FAILED_ANNOTATION);
            Some(UpdateResult::Failed(why.cloned().unwrap_or_default()))
        }
        _ => None,
    });
    InPlace {
        candidate: labels.contains_key(names::CANDIDATE_LABEL),
        selected: labels.contains_key(names::SELECTED_LABEL),
        result,
        stage: condition(node).and_then(|condition| Stage::read(condition.reason.as_deref()?)),
    }
}

/// Since when the node waits to be drained for its update, if it does.
pub(super) fn drain_since(node: &Node) -> Option<Timestamp> {
    let condition = condition(node)?;
    let selected = condition.reason.as_deref() == Some(Stage::SelectedForUpdate.reason());
    condition.last_transition_time.as_ref().filter(|_| selected).map(|time| time.0)
}

fn condition(node: &Node) -> Option<&NodeCondition> {
    conditions_of(node).iter().find(|condition| condition.type_ == names::IN_PLACE_CONDITION)
}

impl MachineController {
    /// Writes on the node how far its update is. What comes next is decided when the watch shows it.
    pub(super) async fn set_in_place(
        &self,
        machine: &Machine,
        stage: Stage,
        message: &str,
    ) -> Result<Next, Trouble> {
        let (Some(target), Some(node)) = (&self.target, self.node(machine)) else {
            return Ok(Next::End(Outcome::Done));
        };
        let now = Time(self.clock.now());
        // Merged by type: what others say about the node stays.
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": node.uid()},
            "status": {"conditions": [{
                "type": names::IN_PLACE_CONDITION, "status": "True", "reason": stage.reason(), "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }]},
        }));
        let nodes: Api<Node> = Api::all(target.clone());
        let written = nodes.patch_status(&node.name_any(), &PatchParams::default(), &patch).await?;
        self.caches.nodes.learn(std::sync::Arc::new(written));
        Ok(Next::Again(Box::new(machine.clone())))
    }
}

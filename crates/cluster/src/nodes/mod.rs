//! The life of nodes: who is still there, what is wrong with them, and what that means for their pods.

pub(crate) mod eviction;
pub(crate) mod health;
pub(crate) mod pod_garbage;
mod taints;

use crate::part::{Context, Sweep};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::sync::Arc;

/// The taint by which somebody says that a node will not come back.
pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Changes a pod's status by a strategic patch, so that conditions of others stay.
async fn patch_pod_status(
    context: &Context,
    pod: &Pod,
    status: &Value,
    sweep: &mut Sweep,
) -> Option<Arc<Pod>> {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let name = pod.metadata.name.clone().unwrap_or_default();
    let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let patch = Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
    let written = api.patch_status(&name, &PatchParams::default(), &patch).await;
    sweep.note_about("writing a pod's status", pod, written).map(|pod| context.caches.pods.write(pod))
}

/// Says on a pod why it is about to be deleted.
async fn announce(
    context: &Context,
    pod: &Pod,
    reason: &str,
    message: &str,
    failed: bool,
    sweep: &mut Sweep,
) {
    let said = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if said.into_iter().any(|one| one.type_ == "DisruptionTarget" && one.status == "True") {
        return;
    }
    let mut status = json!({"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": context.time()
    }]});
    if failed {
        status["phase"] = json!("Failed");
    }
    patch_pod_status(context, pod, &status, sweep).await;
}

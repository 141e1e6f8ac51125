//! Confirms attachments, as the CSI driver they name would.

use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentStatus};
use serde_json::json;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Attacher;

impl Part for Attacher {
    const NAME: &'static str = "attacher";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.attachments]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        for attachment in context.caches.attachments.all() {
            tend(context, &attachment, &mut sweep).await;
        }
        sweep
    }
}

fn finalizer(attachment: &VolumeAttachment) -> String {
    format!("external-attacher/{}", attachment.spec.attacher.replace('.', "-"))
}

async fn tend(context: &Context, attachment: &Arc<VolumeAttachment>, sweep: &mut Sweep) {
    let cache = &context.caches.attachments;
    let held = attachment.metadata.finalizers.clone().unwrap_or_default();
    let ours = finalizer(attachment);
    let holds = held.contains(&ours);
    let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    let leaving = attachment.metadata.deletion_timestamp.is_some();
    let finalizers: Vec<String> = match (leaving, holds) {
        (false, false) => held.into_iter().chain([ours]).collect(),
        (true, true) => held.into_iter().filter(|one| *one != ours).collect(),
        _ => held,
    };
    let version = &attachment.metadata.resource_version;
    if !leaving && holds && !attached {
        let mut changed = (**attachment).clone();
        changed.status = Some(VolumeAttachmentStatus { attached: true, ..VolumeAttachmentStatus::default() });
        sweep.note_about("confirming an attachment", &changed, context.replace_status(cache, &changed).await);
    } else if leaving == holds {
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        match context.merge(cache, attachment.as_ref(), &patch).await {
            Ok(rest) if leaving && rest.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) => {
                cache.bury(&rest);
            }
            result => {
                sweep.note_about("holding an attachment", attachment.as_ref(), result);
            }
        }
    }
}

//! Attaches the volumes that pods need to their nodes, and detaches what no pod needs any more.

use crate::cache::Watched;
use crate::events::Level;
use crate::kind::Caches;
use crate::nodes::OUT_OF_SERVICE;
use crate::part::{Context, Part, Sweep};
use crate::scheduler::storage::{claim_names, is_bound};
use crate::workload::pods::{has_ended, node_of};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{AttachedVolume, Node, Pod};
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use kube::api::{DeleteParams, ObjectMeta};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

const NAME: &str = "attachdetach-controller";
/// How long a node that is not well may keep a volume mounted before it is taken away.
const PATIENCE: SignedDuration = SignedDuration::from_secs(360);

/// A CSI volume on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attachment {
    node: String,
    volume: String,
    driver: String,
    handle: String,
}

impl Attachment {
    /// The same names as the real controller gives, so that either can go on with the other's work.
    fn name(&self) -> String {
        let digest = Sha256::digest(format!("{}{}{}", self.handle, self.driver, self.node));
        let mut name = "csi-".to_owned();
        for byte in digest {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    fn unique_name(&self) -> String {
        unique_name(&self.driver, &self.handle)
    }
}

/// A volume as nodes name it in their status.
fn unique_name(driver: &str, handle: &str) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

#[derive(Debug, Default)]
pub(crate) struct AttachDetach {
    /// No volume is attached or wanted anywhere, and the nodes say so.
    at_rest: bool,
}

impl Part for AttachDetach {
    const NAME: &'static str = "attach and detach";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![
            &*caches.pods,
            &*caches.claims,
            &*caches.volumes,
            &*caches.attachments,
            &*caches.csi_drivers,
            &*caches.nodes,
        ]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let wanted = wanted(context);
        let present = context.caches.attachments.all();
        let nothing = wanted.is_empty() && present.is_empty();
        if nothing && self.at_rest {
            return sweep;
        }
        let now = context.now();
        let names: BTreeSet<String> = wanted.keys().map(Attachment::name).collect();
        for attachment in &present {
            let name = attachment.metadata.name.clone().unwrap_or_default();
            if names.contains(&name)
                || !name.starts_with("csi-")
                || attachment.metadata.deletion_timestamp.is_some()
            {
                continue;
            }
            match detach_at(context, attachment, now) {
                Some(at) if at > now => sweep.due_at(now, at),
                _ => {
                    let deleted = context
                        .delete(&context.caches.attachments, attachment.as_ref(), DeleteParams::default())
                        .await;
                    sweep.note_about("detaching a volume", attachment.as_ref(), deleted);
                }
            }
        }
        for (attachment, wish) in &wanted {
            attach(context, attachment, wish, &mut sweep).await;
        }
        let told = self::report(context, &mut sweep).await;
        self.at_rest = nothing && told;
        sweep
    }
}

/// Why a volume is wanted on a node.
#[derive(Debug)]
struct Wish {
    pod: Arc<Pod>,
    /// May be on one node only.
    single: bool,
}

fn wanted(context: &Context) -> BTreeMap<Attachment, Wish> {
    let caches = &context.caches;
    let mut wanted = BTreeMap::new();
    for pod in caches.pods.all() {
        let Some(node) = node_of(&pod) else { continue };
        if has_ended(&pod) || caches.nodes.get("", node).is_none() {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        for claim in claim_names(&pod).iter().filter_map(|name| caches.claims.get(namespace, name)) {
            let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).unwrap_or_default();
            let Some(found) = caches.volumes.get("", &volume).filter(|_| is_bound(&claim)) else { continue };
            let Some(spec) = &found.spec else { continue };
            let Some(csi) = &spec.csi else { continue };
            let driver = caches.csi_drivers.get("", &csi.driver);
            if driver.is_some_and(|driver| driver.spec.attach_required == Some(false)) {
                continue;
            }
            let modes = spec.access_modes.as_deref().unwrap_or_default();
            let single = !modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
            let attachment = Attachment {
                node: node.to_owned(),
                volume,
                driver: csi.driver.clone(),
                handle: csi.volume_handle.clone(),
            };
            wanted.entry(attachment).or_insert_with(|| Wish { pod: pod.clone(), single });
        }
    }
    wanted
}

async fn attach(context: &Context, attachment: &Attachment, wish: &Wish, sweep: &mut Sweep) {
    let caches = &context.caches;
    if caches.attachments.get("", &attachment.name()).is_some() {
        return;
    }
    let elsewhere = caches.attachments.all().into_iter().any(|other| {
        other.spec.source.persistent_volume_name.as_ref() == Some(&attachment.volume)
            && other.spec.node_name != attachment.node
    });
    if wish.single && elsewhere {
        let message = format!(
            "Multi-Attach error for volume \"{}\" Volume is already exclusively attached to one node and can't be attached to another",
            attachment.volume
        );
        context.event(NAME, wish.pod.as_ref(), Level::Warning, "FailedAttachVolume", &message).await;
        return;
    }
    let object = VolumeAttachment {
        metadata: ObjectMeta { name: Some(attachment.name()), ..ObjectMeta::default() },
        spec: VolumeAttachmentSpec {
            attacher: attachment.driver.clone(),
            node_name: attachment.node.clone(),
            source: VolumeAttachmentSource {
                persistent_volume_name: Some(attachment.volume.clone()),
                inline_volume_spec: None,
            },
        },
        status: None,
    };
    let created = context.create(&caches.attachments, &object).await;
    if sweep.note_about("attaching a volume", &object, created).is_some() {
        let message = format!("AttachVolume.Attach succeeded for volume \"{}\" ", attachment.volume);
        context.event(NAME, wish.pod.as_ref(), Level::Normal, "SuccessfulAttachVolume", &message).await;
    }
}

/// When an attachment that nobody needs may go; a node that still has it mounted is waited for, but not for ever
/// if the node is not well.
fn detach_at(context: &Context, attachment: &VolumeAttachment, now: Timestamp) -> Option<Timestamp> {
    let node = context.caches.nodes.get("", &attachment.spec.node_name)?;
    let volume = attachment.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
    let csi = context.caches.volumes.get("", volume)?.spec.as_ref()?.csi.clone()?;
    mounted_until(&node, &unique_name(&csi.driver, &csi.volume_handle), now)
}

fn mounted_until(node: &Node, unique_name: &str, now: Timestamp) -> Option<Timestamp> {
    let status = node.status.as_ref()?;
    let in_use = status.volumes_in_use.iter().flatten().any(|one| one == unique_name);
    let out =
        node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|one| one.key == OUT_OF_SERVICE);
    if !in_use || out {
        return None;
    }
    let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready");
    match ready {
        Some(one) if one.status != "True" => {
            let since = one.last_transition_time.as_ref().map_or(now, |time| time.0);
            since.checked_add(PATIENCE).ok()
        }
        // A node that is well will say when it has unmounted it.
        _ => now.checked_add(PATIENCE).ok(),
    }
}

/// Tells each node which volumes are attached to it; false if one could not be told.
async fn report(context: &Context, sweep: &mut Sweep) -> bool {
    let mut told = true;
    let caches = &context.caches;
    let mut attached: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for attachment in caches.attachments.all() {
        let there = attachment.status.as_ref().is_some_and(|status| status.attached);
        let volume = attachment.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
        let csi = caches.volumes.get("", volume).and_then(|volume| volume.spec.as_ref()?.csi.clone());
        let Some(csi) = csi.filter(|_| there) else { continue };
        let one = Attachment {
            node: attachment.spec.node_name.clone(),
            volume: volume.to_owned(),
            driver: csi.driver,
            handle: csi.volume_handle,
        };
        attached.entry(one.node.clone()).or_default().insert(one.unique_name());
    }
    for node in caches.nodes.all() {
        let name = node.metadata.name.clone().unwrap_or_default();
        let wanted: Vec<AttachedVolume> = attached
            .remove(&name)
            .unwrap_or_default()
            .into_iter()
            .map(|name| AttachedVolume { name, device_path: String::new() })
            .collect();
        let present =
            node.status.as_ref().and_then(|status| status.volumes_attached.as_deref()).unwrap_or_default();
        if present != wanted {
            let patch = json!({"status": {"volumesAttached": wanted}});
            let written = context.merge_status(&caches.nodes, node.as_ref(), &patch).await;
            told &= sweep.note_about("reporting attached volumes", node.as_ref(), written).is_some();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_volume_is_waited_for() {
        let now = Timestamp::from_second(1000).unwrap();
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let since = "1970-01-01T00:10:00Z";
        for (name, node, expected) in [
            ("not mounted", json!({"status": {}}), None),
            ("mounted", json!({"status": {"volumesInUse": ["v"]}}), at(1360)),
            (
                "mounted on a node that is not well",
                json!({"status": {"volumesInUse": ["v"], "conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]}}),
                at(960),
            ),
            (
                "given up",
                json!({"spec": {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}, "status": {"volumesInUse": ["v"]}}),
                None,
            ),
        ] {
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(mounted_until(&node, "v", now), expected, "{name}");
        }
    }

    #[test]
    fn names_are_those_of_the_real_controller() {
        let attachment = Attachment {
            node: "node".to_owned(),
            volume: "pv".to_owned(),
            driver: "driver".to_owned(),
            handle: "handle".to_owned(),
        };
        let digest = Sha256::digest("handledrivernode");
        assert!(attachment.name().starts_with(&format!("csi-{:02x}{:02x}", digest[0], digest[1])));
        assert_eq!(attachment.name().len(), 4 + 64);
    }
}

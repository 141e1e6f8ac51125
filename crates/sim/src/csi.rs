//! A CSI driver's attacher: it carries out VolumeAttachments in its own time, one node at a time, and remembers where
//! each volume really was.

use futures::TryStreamExt;
use hostler_base::Clock;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The driver of STACKIT's block storage.
pub const STACKIT_BLOCK_STORAGE: &str = "block-storage.csi.stackit.cloud";

const RETRY: Duration = Duration::from_secs(1);

/// How a driver behaves.
#[derive(Clone, Debug)]
pub struct CsiSettings {
    /// The attacher's name in VolumeAttachments.
    pub driver: String,
    pub attach_time: SignedDuration,
    pub detach_time: SignedDuration,
    /// Volumes, by the names of their PersistentVolumes, that never let go of their node.
    pub stuck: BTreeSet<String>,
}

impl Default for CsiSettings {
    fn default() -> Self {
        Self {
            driver: STACKIT_BLOCK_STORAGE.to_owned(),
            attach_time: SignedDuration::from_secs(5),
            detach_time: SignedDuration::from_secs(5),
            stuck: BTreeSet::new(),
        }
    }
}

/// A volume came to a node or left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub at: Timestamp,
    pub volume: String,
    pub node: String,
    pub attached: bool,
}

/// The handle on a driver.
#[derive(Clone)]
pub struct Csi(Arc<Mutex<State>>);

struct State {
    settings: CsiSettings,
    history: Vec<Moved>,
    /// Where each volume is.
    places: BTreeMap<String, String>,
}

/// What an attachment needs next.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Hold,
    Attach,
    LetGo,
    Wait(Timestamp),
    Rest,
}

impl Csi {
    /// The handle, and the future that does the driver's work.
    pub fn new(
        settings: CsiSettings,
        client: Client,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let state = State { settings, history: Vec::new(), places: BTreeMap::new() };
        let csi = Self(Arc::new(Mutex::new(state)));
        (csi.clone(), csi.run(client, clock))
    }

    /// Everything that happened to volumes, in order.
    pub fn history(&self) -> Vec<Moved> {
        self.state().history.clone()
    }

    /// Where a volume is now.
    pub fn place(&self, volume: &str) -> Option<String> {
        self.state().places.get(volume).cloned()
    }

    /// From now on the volume never lets go of its node.
    pub fn hold_on(&self, volume: &str) {
        self.state().settings.stuck.insert(volume.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self, client: Client, clock: Clock) {
        let api: Api<VolumeAttachment> = Api::all(client);
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
        let mut known: BTreeMap<String, VolumeAttachment> = BTreeMap::new();
        let mut listed = BTreeMap::new();
        // Since when an attachment has been as it is: new, or on its way out.
        let mut since: BTreeMap<(String, bool), Timestamp> = BTreeMap::new();
        let mut due: Option<Timestamp> = None;
        loop {
            let pause =
                due.map(|due| Duration::try_from(due.duration_since(clock.now())).unwrap_or_default());
            tokio::select! {
                biased;
                event = events.try_next() => match event {
                    Ok(Some(Event::Init)) => listed.clear(),
                    Ok(Some(Event::InitApply(one))) => drop(listed.insert(one.name_any(), one)),
                    Ok(Some(Event::InitDone)) => known = std::mem::take(&mut listed),
                    Ok(Some(Event::Apply(one))) => drop(known.insert(one.name_any(), one)),
                    Ok(Some(Event::Delete(one))) => drop(known.remove(&one.name_any())),
                    Ok(None) => return,
                    Err(error) => {
                        tracing::debug!(%error, "the attacher's watch failed");
                        clock.sleep(RETRY).await;
                    }
                },
                () = async { clock.sleep(pause.unwrap_or_default()).await }, if pause.is_some() => {}
            }
            since.retain(|(name, _), _| known.contains_key(name));
            due = None;
            let now = clock.now();
            for one in known.values() {
                let leaving = one.metadata.deletion_timestamp.is_some();
                let began = *since.entry((one.name_any(), leaving)).or_insert(now);
                let again = self.tend(&api, one, began, now).await;
                due = [due, again].into_iter().flatten().min();
            }
        }
    }

    /// Does what is next for an attachment; says when to look again.
    async fn tend(
        &self,
        api: &Api<VolumeAttachment>,
        one: &VolumeAttachment,
        began: Timestamp,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let finalizer = format!("external-attacher/{}", one.spec.attacher.replace('.', "-"));
        let next = self.state().next(one, &finalizer, began, now);
        let mut finalizers = one.metadata.finalizers.clone().unwrap_or_default();
        let name = one.name_any();
        let written = match next {
            Next::Rest => return None,
            Next::Wait(until) => return Some(until),
            Next::Attach => {
                let patch = Patch::Merge(json!({"status": {"attached": true}}));
                api.patch_status(&name, &PatchParams::default(), &patch).await
            }
            Next::Hold | Next::LetGo => {
                finalizers.retain(|held| *held != finalizer);
                if next == Next::Hold {
                    finalizers.push(finalizer);
                }
                let version = &one.metadata.resource_version;
                let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
            }
        };
        match written {
            Ok(_) if next == Next::Attach => self.state().moved(one, true, now),
            Ok(_) if next == Next::LetGo => self.state().moved(one, false, now),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, name, "an attachment could not be written");
                return Some(now + SignedDuration::from_secs(1));
            }
        }
        None
    }
}

fn volume_of(one: &VolumeAttachment) -> String {
    one.spec.source.persistent_volume_name.clone().unwrap_or_default()
}

impl State {
    fn next(&self, one: &VolumeAttachment, finalizer: &str, began: Timestamp, now: Timestamp) -> Next {
        if one.spec.attacher != self.settings.driver {
            return Next::Rest;
        }
        let held = one.finalizers().iter().any(|held| held == finalizer);
        let attached = one.status.as_ref().is_some_and(|status| status.attached);
        if one.metadata.deletion_timestamp.is_some() {
            let until = began + self.settings.detach_time;
            return match held {
                true if self.settings.stuck.contains(&volume_of(one)) => Next::Rest,
                true if now < until => Next::Wait(until),
                true => Next::LetGo,
                false => Next::Rest,
            };
        }
        let until = began + self.settings.attach_time;
        // It is woken when the other attachment goes.
        let elsewhere = self.places.get(&volume_of(one)).is_some_and(|place| *place != one.spec.node_name);
        match (held, attached) {
            (false, _) => Next::Hold,
            (true, false) if elsewhere => Next::Rest,
            (true, false) if now < until => Next::Wait(until),
            (true, false) => Next::Attach,
            (true, true) => Next::Rest,
        }
    }

    fn moved(&mut self, one: &VolumeAttachment, attached: bool, now: Timestamp) {
        let (volume, node) = (volume_of(one), one.spec.node_name.clone());
        if attached {
            self.places.insert(volume.clone(), node.clone());
        } else if self.places.get(&volume) == Some(&node) {
            self.places.remove(&volume);
        }
        self.history.push(Moved { at: now, volume, node, attached });
    }
}

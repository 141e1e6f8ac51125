//! Boot volumes that could not be told to go with their servers.
//!
//! Each is labelled before its server is deleted, so that whoever lists the labelled ones later, in this process or
//! another one, knows what is still to be deleted. Until it is, its server is shown as one that failed.

use crate::{
    Client,
    labels::{self, LabelNames},
    wire::{BootVolume, LabelChange, Labels, Server, Volume},
};
use hostler_base::Clock;
use hostler_driver::{Code, Failure};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How often volumes that somebody has labelled are looked for while none is known.
const PERIOD: Duration = Duration::from_hours(1);
/// How soon they are looked for again when that failed in a way that passes: what nobody knows of nobody deletes.
const AGAIN: Duration = Duration::from_mins(1);

/// The labels by which the boot volume of a server is recognised when that one is gone.
pub(crate) fn labels(server: &Server, names: &LabelNames) -> BTreeMap<String, String> {
    let own = server.labels.iter().flat_map(Labels::texts);
    let identity = own.filter(|(key, _)| {
        *key == names.machine || *key == names.class || key.ends_with(labels::CLUSTER_SUFFIX)
    });
    let mut all: BTreeMap<String, String> =
        identity.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    all.insert(labels::BOOT_VOLUME.to_owned(), labels::BOOT_VOLUME_GOES.to_owned());
    all.insert(labels::SERVER.to_owned(), server.id.clone());
    all
}

/// The server that a volume is to go with; nothing if nobody has said so.
pub(crate) fn server_of(volume: &Volume) -> Option<&str> {
    let label = |key: &str| volume.labels.as_ref()?.text(key);
    let goes = label(labels::BOOT_VOLUME) == Some(labels::BOOT_VOLUME_GOES);
    label(labels::SERVER).filter(|server| goes && !server.is_empty())
}

/// What is left of a server, in the form of one.
fn shown(volume: &Volume) -> Option<Server> {
    let server = server_of(volume)?;
    let going = volume.status.as_deref() == Some("DELETING");
    Some(Server {
        id: server.to_owned(),
        status: if going { "DELETING" } else { "ERROR" }.to_owned(),
        error_message: Some(format!("it is gone, but its boot volume {} is left", volume.id)),
        labels: volume.labels.clone(),
        boot_volume: Some(BootVolume { id: Some(volume.id.clone()), ..BootVolume::default() }),
        ..Server::default()
    })
}

/// What is known of them in one project and region.
#[derive(Default)]
pub(crate) struct Remains(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// As the last list showed them.
    listed: Vec<Volume>,
    /// Labelled by this process. A list may be behind, so they are forgotten only when asking for them says so.
    own: Vec<Volume>,
    /// When it is time to ask again although nothing is known.
    next: Option<Instant>,
}

impl Remains {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This volume is about to outlive its server.
    pub(crate) fn remember(&self, volume: &str, labels: &BTreeMap<String, String>) {
        let labels = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let labels: Labels = labels.collect();
        let volume = Volume { id: volume.to_owned(), labels: Some(labels), ..Volume::default() };
        self.known().own.push(volume);
    }

    /// This volume is gone, or somebody else's now.
    pub(crate) fn forget(&self, volume: &str) {
        let mut known = self.known();
        known.own.retain(|one| one.id != volume);
        known.listed.retain(|one| one.id != volume);
    }

    /// What is left of this server, if anything is.
    pub(crate) fn of(&self, server: &str) -> Option<Server> {
        self.all().into_iter().find(|one| one.id == server)
    }

    fn all(&self) -> Vec<Server> {
        let known = self.known();
        let unlisted = known.own.iter().filter(|own| !known.listed.iter().any(|listed| listed.id == own.id));
        known.listed.iter().chain(unlisted).filter_map(shown).collect()
    }

    fn is_due(&self, now: Instant) -> bool {
        let known = self.known();
        let nothing = known.listed.is_empty() && known.own.is_empty();
        let lately = known.next.is_some_and(|next| now < next);
        !(nothing && lately)
    }

    /// What is left of servers. Who cannot list volumes goes by what is known: servers are looked after all the same.
    pub(crate) async fn look(&self, client: &Client, clock: &Clock) -> Vec<Server> {
        let now = clock.instant();
        if self.is_due(now) {
            // Without a selector, as servers are listed: nobody knows what one may look like.
            let volumes = client.list_volumes(None).await;
            let mut known = self.known();
            let pause = match volumes {
                Ok(volumes) => {
                    known.listed = volumes.into_iter().filter(|one| server_of(one).is_some()).collect();
                    PERIOD
                }
                Err(failure) => {
                    tracing::warn!(%failure, "volumes that servers left could not be listed");
                    if passes(&failure) { AGAIN } else { PERIOD }
                }
            };
            known.next = Some(now + pause);
        }
        self.all()
    }
}

/// Whether the same question may be answered soon. Who may not list volumes has labelled none, either.
fn passes(failure: &Failure) -> bool {
    matches!(failure.code, Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Unknown)
}

/// The change that puts labels on a volume.
pub(crate) fn change(labels: &BTreeMap<String, String>) -> LabelChange {
    labels.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn volume(labels: Value, status: &str) -> Volume {
        serde_json::from_value(json!({"id": "v", "labels": labels, "status": status})).unwrap()
    }

    #[test]
    fn only_a_volume_that_was_told_to_go_is_shown_as_what_is_left() {
        let server: Server = serde_json::from_value(json!({"id": "s", "name": "m", "labels":
            {"kubernetes.io/machine": "m", "kubernetes.io/machineclass": "c", "x/cluster": "a", "team": "b", "n": 1}}))
        .unwrap();
        let labels = labels(&server, &LabelNames::default());
        let told = json!({"kubernetes.io/machine": "m", "kubernetes.io/machineclass": "c", "x/cluster": "a",
            "hostler.dev/boot-volume": "goes", "hostler.dev/server": "s"});
        assert_eq!(serde_json::to_value(&labels).unwrap(), told);
        let left = shown(&volume(told.clone(), "AVAILABLE")).unwrap();
        assert_eq!((left.id.as_str(), left.status.as_str()), ("s", "ERROR"));
        assert_eq!(shown(&volume(told.clone(), "DELETING")).unwrap().status, "DELETING");
        for (key, value) in [
            ("hostler.dev/boot-volume", Value::Null),
            ("hostler.dev/boot-volume", json!("stays")),
            ("hostler.dev/server", Value::Null),
            ("hostler.dev/server", json!("")),
        ] {
            let mut other = told.clone();
            other[key] = value;
            assert!(shown(&volume(other.clone(), "AVAILABLE")).is_none(), "{other}");
        }
    }
}

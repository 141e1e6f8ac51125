//! One list per project and interval serves everybody who waits for a server of that project.

use crate::{
    Client,
    shared::Shared,
    wire::{Nic, Server},
};
use hostler_base::Clock;
use hostler_driver::{Change, Changes, Evidence, Failure, How};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// How often a project is listed while somebody waits for a server of it.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often it is listed while nobody does.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);
/// Whoever waits for a server calls the cloud at least once in this time.
const BUSY_AFTER_CALL: Duration = Duration::from_secs(150);

/// A complete list of a project's servers and when it was begun.
#[derive(Clone)]
pub(crate) struct Listing {
    pub(crate) began_at: Timestamp,
    pub(crate) answered_at: Timestamp,
    pub(crate) servers: Arc<Vec<Server>>,
    index: Arc<Index>,
}

/// Where to find a server in a list.
struct Index {
    by_id: BTreeMap<String, usize>,
    /// By the label that names their machine.
    by_machine: BTreeMap<String, Vec<usize>>,
}

impl Index {
    fn of(servers: &[Server], machine_label: &str) -> Self {
        let by_id = servers.iter().enumerate().map(|(place, server)| (server.id.clone(), place)).collect();
        let mut by_machine: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, server) in servers.iter().enumerate() {
            let label = server.labels.as_ref().and_then(|labels| labels.get(machine_label));
            if let Some(machine) = label.and_then(Value::as_str) {
                by_machine.entry(machine.to_owned()).or_default().push(place);
            }
        }
        Self { by_id, by_machine }
    }
}

impl Listing {
    pub(crate) fn server(&self, id: &str) -> Option<&Server> {
        self.servers.get(*self.index.by_id.get(id)?)
    }

    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { how: How::Listed, began_at: self.began_at, answered_at: self.answered_at }
    }

    /// The servers whose label names this machine, whoever's it is.
    pub(crate) fn of_machine(&self, machine: &str) -> impl Iterator<Item = &Server> {
        let places = self.index.by_machine.get(machine).into_iter().flatten();
        places.filter_map(|place| self.servers.get(*place))
    }
}

pub(crate) struct Poller {
    client: Client,
    clock: Clock,
    /// The label that names a server's machine.
    machine_label: String,
    lists: Shared<Listing>,
    nics: Shared<Arc<BTreeMap<String, Vec<Nic>>>>,
    /// The last list that succeeded.
    latest: watch::Sender<Option<Listing>>,
    last_call: std::sync::Mutex<Instant>,
    stirred: Notify,
}

impl Poller {
    pub(crate) fn new(client: Client, machine_label: String, clock: Clock) -> Self {
        Self {
            client,
            machine_label,
            lists: Shared::new(clock.clone()),
            nics: Shared::new(clock.clone()),
            latest: watch::Sender::new(None),
            last_call: std::sync::Mutex::new(clock.instant()),
            stirred: Notify::new(),
            clock,
        }
    }

    /// Somebody called the cloud for a machine, so there will be news to wait for.
    pub(crate) fn stir(&self) {
        *self.last_call.lock().unwrap_or_else(PoisonError::into_inner) = self.clock.instant();
        self.stirred.notify_one();
    }

    fn is_busy(&self) -> bool {
        let last = *self.last_call.lock().unwrap_or_else(PoisonError::into_inner);
        self.clock.instant().saturating_duration_since(last) < BUSY_AFTER_CALL
    }

    /// Waits until the next list is due: soon while somebody waits for it.
    async fn pause(&self) {
        while !self.is_busy() {
            tokio::select! {
                biased;
                () = self.stirred.notified() => {}
                () = self.clock.sleep(IDLE_INTERVAL) => return,
            }
        }
        self.clock.sleep(INTERVAL).await;
    }

    /// A list begun later than `after`; the last one if that is late enough, else a new one.
    pub(crate) async fn listing(&self, after: Timestamp) -> Result<Listing, Failure> {
        if let Some(listing) = self.latest().filter(|listing| listing.began_at > after) {
            return Ok(listing);
        }
        self.next_listing().await
    }

    /// A list begun after this call, shared by all who ask for one before it begins.
    pub(crate) async fn next_listing(&self) -> Result<Listing, Failure> {
        self.lists
            .ask(async || {
                let began_at = self.clock.now();
                let servers = self.client.list_servers(None).await?;
                let index = Arc::new(Index::of(&servers, &self.machine_label));
                let (answered_at, servers) = (self.clock.now(), Arc::new(servers));
                let listing = Listing { began_at, answered_at, servers, index };
                self.latest.send_replace(Some(listing.clone()));
                Ok(listing)
            })
            .await
    }

    /// The NICs of the project by the servers that they are attached to, in a list begun after this call and shared
    /// in the same way.
    pub(crate) async fn nics(&self) -> Result<Arc<BTreeMap<String, Vec<Nic>>>, Failure> {
        self.nics
            .ask(async || {
                let mut by_server: BTreeMap<String, Vec<Nic>> = BTreeMap::new();
                for nic in self.client.list_nics(None).await? {
                    if let Some(server) = nic.device.clone() {
                        by_server.entry(server).or_default().push(nic);
                    }
                }
                Ok(Arc::new(by_server))
            })
            .await
    }

    /// The last list that succeeded, however old.
    pub(crate) fn latest(&self) -> Option<Listing> {
        self.latest.borrow().clone()
    }

    /// Tells what changed between two lists, whoever asked for them; `describe` makes a change of a server.
    pub(crate) fn changes(
        self: &Arc<Self>,
        describe: impl Fn(&Server) -> Option<Change> + Send + Sync + 'static,
    ) -> Changes {
        // Whoever listens does not keep it alive: with a replaced key it would go on asking for ever.
        let (poller, latest) = (Arc::downgrade(self), self.latest.subscribe());
        let start = (poller, latest, Arc::new(describe), None::<Listing>);
        let batches = futures::stream::unfold(start, |(weak, mut latest, describe, before)| async move {
            let poller = weak.upgrade()?;
            tokio::select! {
                biased;
                // It cannot end while the poller is there.
                _ = latest.changed() => {}
                () = poller.pause() => {
                    // Nothing is learnt from a failure; the next list is compared with the one before.
                    if let Err(failure) = poller.next_listing().await {
                        tracing::warn!(error = %failure, "listing the project's servers failed");
                    }
                }
            }
            let now = latest.borrow_and_update().clone();
            let changes = now.as_ref().map(|now| difference(before.as_ref(), now, &*describe));
            let changes = changes.unwrap_or_default();
            Some((futures::stream::iter(changes), (weak, latest, describe, now)))
        });
        Box::pin(futures::StreamExt::flatten(batches))
    }
}

fn difference(
    before: Option<&Listing>,
    now: &Listing,
    describe: &(impl Fn(&Server) -> Option<Change> + ?Sized),
) -> Vec<Change> {
    let Some(before) = before else { return vec![Change::Everything] };
    let came_or_changed = now.servers.iter().filter(|server| before.server(&server.id) != Some(*server));
    let went = before.servers.iter().filter(|server| now.server(&server.id).is_none());
    came_or_changed.chain(went).filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::ProviderId;
    use serde_json::json;

    fn server(id: &str, status: &str) -> Server {
        Server { id: id.into(), status: status.into(), ..Server::default() }
    }

    fn listing(servers: &[Server]) -> Listing {
        let index = Arc::new(Index::of(servers, "machine"));
        let (began_at, answered_at) = (Timestamp::MIN, Timestamp::MIN);
        Listing { began_at, answered_at, servers: Arc::new(servers.to_vec()), index }
    }

    #[test]
    fn a_difference_names_what_came_went_and_changed() {
        let describe = |server: &Server| {
            Some(Change::Machine { id: ProviderId::stackit("p", &server.id).ok()?, identity: None })
        };
        let before = listing(&[server("a", "CREATING"), server("b", "ACTIVE"), server("c", "ACTIVE")]);
        let now = listing(&[server("a", "ACTIVE"), server("c", "ACTIVE"), server("d", "CREATING")]);
        let ids: Vec<String> = difference(Some(&before), &now, &describe)
            .into_iter()
            .map(|change| match change {
                Change::Machine { id, .. } => id.server().to_owned(),
                Change::Everything => "everything".to_owned(),
            })
            .collect();
        assert_eq!(ids, ["a", "d", "b"]);
        assert_eq!(difference(None, &now, &describe), [Change::Everything]);
    }

    #[test]
    fn servers_are_found_by_their_id_and_by_the_machine_that_they_name() {
        let labelled = |id: &str, machine: &str| {
            let labels = json!({"machine": machine, "other": "m"});
            serde_json::from_value(json!({"id": id, "name": "n", "labels": labels})).unwrap()
        };
        let all = listing(&[labelled("a", "m"), labelled("b", "n"), labelled("c", "m"), server("d", "")]);
        let ids = |machine: &str| all.of_machine(machine).map(|server| server.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids("m"), ids("n"), ids("o")), (vec!["a".into(), "c".into()], vec!["b".into()], vec![]));
        assert_eq!(all.server("b").map(|server| server.id.as_str()), Some("b"));
        assert!(all.server("e").is_none());
    }
}

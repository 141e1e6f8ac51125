//! One list per project and interval serves everybody who waits for a server of that project.

use crate::{Client, wire::Server};
use hostler_base::Clock;
use hostler_driver::{Change, Changes, Failure};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Mutex, Notify},
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
}

pub(crate) struct Poller {
    client: Client,
    clock: Clock,
    last: Mutex<Option<Listing>>,
    last_call: std::sync::Mutex<Instant>,
    stirred: Notify,
}

impl Poller {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        let last_call = std::sync::Mutex::new(clock.instant());
        Self { client, clock, last: Mutex::new(None), last_call, stirred: Notify::new() }
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

    /// A list begun later than `after`; the last one if that is late enough, else a new one. Who comes while
    /// another is listing waits for that list instead of making one more.
    pub(crate) async fn listing(&self, after: Timestamp) -> Result<Listing, Failure> {
        let mut last = self.last.lock().await;
        if let Some(listing) = last.as_ref().filter(|listing| listing.began_at > after) {
            return Ok(listing.clone());
        }
        let began_at = self.clock.now();
        let servers = Arc::new(self.client.list_servers(None).await?);
        let listing = Listing { began_at, answered_at: self.clock.now(), servers };
        *last = Some(listing.clone());
        Ok(listing)
    }

    /// Tells what changed between two lists; `describe` makes a change of a server.
    pub(crate) fn changes(
        self: &Arc<Self>,
        describe: impl Fn(&Server) -> Option<Change> + Send + Sync + 'static,
    ) -> Changes {
        // Whoever listens does not keep it alive: with a replaced key it would go on asking for ever.
        let poller = Arc::downgrade(self);
        let describe = Arc::new(describe);
        let start = (poller, describe, None::<BTreeMap<String, Server>>);
        let batches = futures::stream::unfold(start, |(weak, describe, before)| async move {
            let poller = weak.upgrade()?;
            poller.pause().await;
            let after = poller.clock.now() - INTERVAL.min(Duration::from_secs(4));
            let (changes, now) = match poller.listing(after).await {
                Ok(listing) => {
                    let now: BTreeMap<String, Server> =
                        listing.servers.iter().map(|server| (server.id.clone(), server.clone())).collect();
                    (difference(before.as_ref(), &now, &*describe), Some(now))
                }
                // Nothing was learnt; the next list is compared with the one before.
                Err(failure) => {
                    tracing::warn!(error = %failure, "listing the project's servers failed");
                    (Vec::new(), before)
                }
            };
            Some((futures::stream::iter(changes), (weak, describe, now)))
        });
        Box::pin(futures::StreamExt::flatten(batches))
    }
}

fn difference(
    before: Option<&BTreeMap<String, Server>>,
    now: &BTreeMap<String, Server>,
    describe: &(impl Fn(&Server) -> Option<Change> + ?Sized),
) -> Vec<Change> {
    let Some(before) = before else { return vec![Change::Everything] };
    let came_or_changed = now.values().filter(|server| before.get(&server.id) != Some(*server));
    let went = before.values().filter(|server| !now.contains_key(&server.id));
    came_or_changed.chain(went).filter_map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::ProviderId;

    fn server(id: &str, status: &str) -> Server {
        Server { id: id.into(), status: status.into(), ..Server::default() }
    }

    #[test]
    fn a_difference_names_what_came_went_and_changed() {
        let map = |servers: &[Server]| {
            servers.iter().map(|s| (s.id.clone(), s.clone())).collect::<BTreeMap<_, _>>()
        };
        let describe = |server: &Server| {
            Some(Change::Machine { id: ProviderId::stackit("p", &server.id).ok()?, identity: None })
        };
        let before = map(&[server("a", "CREATING"), server("b", "ACTIVE"), server("c", "ACTIVE")]);
        let now = map(&[server("a", "ACTIVE"), server("c", "ACTIVE"), server("d", "CREATING")]);
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
}

//! One list per project and interval serves everybody who waits for a server of that project.

use crate::{
    Client,
    listing::{Listing, Servers},
    remains::Remains,
    wire::{Nic, Server},
};
use hostler_base::Clock;
use hostler_driver::{
    Change, Changes, Failure,
    client::{Pace, Shared},
};
use jiff::Timestamp;
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

pub(crate) struct Poller {
    client: Client,
    clock: Clock,
    /// The label that names a server's machine.
    machine_label: String,
    lists: Shared<Listing>,
    nics: Shared<Arc<BTreeMap<String, Vec<Nic>>>>,
    pub(crate) remains: Remains,
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
            lists: Shared::new(clock.clone(), Pace::default()),
            nics: Shared::new(clock.clone(), Pace::default()),
            remains: Remains::default(),
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
                let (before, nothing) = (self.latest(), Servers::default());
                let before = before.as_ref().map_or(&nothing, Listing::read);
                let servers = self.client.list_all_servers(before).await?;
                let remains = self.remains.look(&self.client, &self.clock).await;
                let listing = Listing::new(began_at, self.clock.now(), servers, &self.machine_label);
                let listing = listing.with_remains(remains);
                self.latest.send_replace(Some(listing.clone()));
                Ok(listing)
            })
            .await
    }

    /// The NICs of the project by the servers that they are attached to, in a list begun after this call and shared
    /// in the same way.
    pub(crate) async fn nics(&self) -> Result<Arc<BTreeMap<String, Vec<Nic>>>, Failure> {
        self.nics.ask(async || self.client.list_attached_nics().await.map(Arc::new)).await
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
            let changes = now.as_ref().map(|now| now.since(before.as_ref(), &*describe));
            let changes = changes.unwrap_or_default();
            Some((futures::stream::iter(changes), (weak, latest, describe, now)))
        });
        Box::pin(futures::StreamExt::flatten(batches))
    }
}

//! One list per account and interval serves everybody who waits for a VPS of that account.

use crate::{
    Client,
    queue::Queue,
    wire::{PendingOrder, Vm},
};
use hostler_base::Clock;
use hostler_driver::{
    Change, Changes, Evidence, Failure, How,
    client::{Pace, Shared},
};
use jiff::Timestamp;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// How often an account is listed while somebody waits for a VPS of it.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often it is listed while nobody does.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);
/// Whoever waits for a VPS calls VPSie at least once in this time.
const BUSY_AFTER_CALL: Duration = Duration::from_secs(150);
/// Each question takes two calls, and no more than half of what VPSie allows is for them, however many ask.
const PACE: Pace = Pace { times: 4, window: Duration::from_secs(10) };
/// How long a deletion that was ordered is believed to go on: VPSie shows nothing of it.
const DELETING_FOR: Duration = Duration::from_secs(10 * 60);

/// A complete list, and what was in the queue before it.
#[derive(Clone)]
pub(crate) struct Listing {
    began_at: Timestamp,
    answered_at: Timestamp,
    /// By identifier.
    vms: Arc<BTreeMap<String, Arc<Vm>>>,
    in_hand: Arc<Vec<PendingOrder>>,
}

impl Listing {
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { how: How::Listed, began_at: self.began_at, answered_at: self.answered_at }
    }

    pub(crate) fn vms(&self) -> impl Iterator<Item = &Vm> {
        self.vms.values().map(AsRef::as_ref)
    }

    pub(crate) fn vm(&self, identifier: &str) -> Option<&Vm> {
        self.vms.get(&identifier.to_ascii_lowercase()).map(AsRef::as_ref)
    }

    pub(crate) fn in_hand(&self) -> &[PendingOrder] {
        &self.in_hand
    }

    /// What came, went or changed since another list, as `describe` tells it.
    fn since(&self, before: Option<&Self>, describe: impl Fn(&Vm) -> Option<Change>) -> Vec<Change> {
        let Some(before) = before else { return vec![Change::Everything] };
        if Arc::ptr_eq(&self.vms, &before.vms) {
            return Vec::new();
        }
        let here = self.vms.iter().filter(|(id, vm)| before.vms.get(*id) != Some(*vm)).map(|(_, vm)| vm);
        let gone = before.vms.iter().filter(|(id, _)| !self.vms.contains_key(*id)).map(|(_, vm)| vm);
        here.chain(gone).filter_map(|vm| describe(vm)).collect()
    }
}

pub(crate) struct Poller {
    client: Client,
    clock: Clock,
    lists: Shared<Listing>,
    queue: Queue,
    /// The last list that succeeded.
    latest: watch::Sender<Option<Listing>>,
    last_call: Mutex<Instant>,
    stirred: Notify,
    /// Whose deletion was ordered, and when.
    deleting: Mutex<BTreeMap<String, Instant>>,
}

impl Poller {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            lists: Shared::new(clock.clone(), PACE),
            queue: Queue::default(),
            latest: watch::Sender::new(None),
            last_call: Mutex::new(clock.instant()),
            stirred: Notify::new(),
            deleting: Mutex::default(),
            clock,
        }
    }

    /// Somebody called VPSie for a machine, so there will be news to wait for.
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

    /// A list begun after this call, shared by all who ask for one before it begins. The queue is asked before the list:
    /// what leaves the one in between is in the other.
    pub(crate) async fn next_listing(&self) -> Result<Listing, Failure> {
        self.lists
            .ask(async || {
                let began_at = self.clock.now();
                let pending = self.client.list_pending_vms().await?;
                let vms = self.client.list_vms().await?;
                let before = self.latest();
                let shared = |id: &str, vm: Vm| {
                    let known = before.as_ref().and_then(|before| before.vms.get(id));
                    known.filter(|known| ***known == vm).map_or_else(|| Arc::new(vm), Arc::clone)
                };
                let with_id = |vm: Vm| {
                    let id = vm.identifier.as_deref().unwrap_or_default().to_ascii_lowercase();
                    (id.clone(), shared(&id, vm))
                };
                let vms: BTreeMap<String, Arc<Vm>> = vms.into_iter().map(with_id).collect();
                let answered_at = self.clock.now();
                let all: Vec<Arc<Vm>> = vms.values().cloned().collect();
                let in_hand = Arc::new(self.queue.look(answered_at, pending, &all));
                let listing = Listing { began_at, answered_at, vms: Arc::new(vms), in_hand };
                self.latest.send_replace(Some(listing.clone()));
                Ok(listing)
            })
            .await
    }

    /// The last list that succeeded, however old.
    fn latest(&self) -> Option<Listing> {
        self.latest.borrow().clone()
    }

    /// Its deletion was ordered. VPSie itself shows nothing of that until it is gone.
    pub(crate) fn ordered_deletion(&self, identifier: &str) {
        let now = self.clock.instant();
        let mut deleting = self.deleting.lock().unwrap_or_else(PoisonError::into_inner);
        deleting.retain(|_, at| now.saturating_duration_since(*at) < DELETING_FOR);
        deleting.insert(identifier.to_ascii_lowercase(), now);
    }

    pub(crate) fn is_deleting(&self, identifier: &str) -> bool {
        let now = self.clock.instant();
        let deleting = self.deleting.lock().unwrap_or_else(PoisonError::into_inner);
        let ordered = deleting.get(&identifier.to_ascii_lowercase());
        ordered.is_some_and(|at| now.saturating_duration_since(*at) < DELETING_FOR)
    }

    /// Tells what changed between two lists, whoever asked for them; `describe` makes a change of a VPS.
    pub(crate) fn changes(
        self: &Arc<Self>,
        describe: impl Fn(&Vm) -> Option<Change> + Send + Sync + 'static,
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
                        tracing::warn!(error = %failure, "listing the account's VPSs failed");
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

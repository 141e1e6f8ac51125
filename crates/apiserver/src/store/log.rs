use super::{Shelf, Store, Stored};
use crate::contract::GroupResource;
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::{Arc, OnceLock};
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl ChangeKind {
    /// `type` of a watch event.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change in the log of a resource.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) kind: ChangeKind,
    /// The state after the change; for a deletion the last state with the deletion's revision.
    pub(crate) now: Arc<Stored>,
    pub(crate) before: Option<Arc<Stored>>,
    line: OnceLock<Bytes>,
}

/// One line of a watch: `{"type":…,"object":…}` and a line feed.
pub(crate) fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(object.len() + kind.len() + 24);
    out.put_slice(b"{\"type\":\"");
    out.put_slice(kind.as_bytes());
    out.put_slice(b"\",\"object\":");
    out.put_slice(object);
    out.put_slice(b"}\n");
    out.freeze()
}

impl Change {
    pub(crate) fn new(
        revision: u64,
        kind: ChangeKind,
        now: Arc<Stored>,
        before: Option<Arc<Stored>>,
    ) -> Self {
        Self { revision, kind, now, before, line: OnceLock::new() }
    }

    /// The watch event as it goes to everyone who sees this change as it is; encoded once.
    pub(crate) fn line(&self) -> Bytes {
        self.line.get_or_init(|| line(self.kind.name(), &self.now.bytes)).clone()
    }
}

/// The history asked for is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The oldest revision that can still be asked for.
    pub(crate) oldest: u64,
}

/// What a watcher reads in one go.
pub(crate) struct Batch {
    pub(crate) changes: Vec<Arc<Change>>,
    /// Where to go on from.
    pub(crate) position: u64,
    /// There may be more in the log already.
    pub(crate) is_cut: bool,
}

/// So many bytes of old states a shelf keeps, besides counting its changes.
const MOST_BYTES: usize = 64 * 1024 * 1024;

impl Shelf {
    pub(super) fn record(&mut self, change: Change, history: usize) {
        self.log_bytes += change.now.bytes.len();
        self.log.push_back(Arc::new(change));
        while self.log.len() > history || (self.log_bytes > MOST_BYTES && self.log.len() > 1) {
            if let Some(oldest) = self.log.pop_front() {
                self.log_bytes -= oldest.now.bytes.len();
                self.forgotten = oldest.revision;
                self.lost = oldest.revision;
            }
        }
        self.window = self.window.max(self.forgotten);
        self.changed.notify_waiters();
    }
}

impl Shelf {
    /// Drops the log.
    pub(super) fn forget(&mut self) {
        if let Some(newest) = self.log.back() {
            self.lost = newest.revision;
        }
        self.log.clear();
        self.log_bytes = 0;
    }
}

impl Store {
    /// Up to `limit` changes after revision `after`. A watch that begins must do so inside the window; one
    /// that is `running` fails only when it really missed a change.
    pub(crate) fn changes(
        &self,
        resource: &GroupResource,
        after: u64,
        limit: usize,
        running: bool,
    ) -> Result<Batch, TooOld> {
        let mut state = self.lock();
        let current = state.revision;
        let shelf = state.shelf(resource);
        let oldest = if running { shelf.lost } else { shelf.window };
        if after < oldest {
            return Err(TooOld { oldest });
        }
        let start = shelf.log.partition_point(|change| change.revision <= after);
        let changes: Vec<_> = shelf.log.range(start..).take(limit).cloned().collect();
        let is_cut = changes.len() == limit;
        let position = match changes.last() {
            Some(last) if is_cut => last.revision,
            _ => current.max(after),
        };
        Ok(Batch { changes, position, is_cut })
    }

    /// Rings after each change of the resource.
    pub(crate) fn bell(&self, resource: &GroupResource) -> Arc<Notify> {
        Arc::clone(&self.lock().shelf(resource).changed)
    }
}

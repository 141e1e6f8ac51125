//! Answers that are not read. A socket that takes nothing more breaks by itself ([`super::stall`]); but HTTP/2
//! carries many answers on one socket, and a client can go on answering pings while it leaves one of them lying.

use bytes::Bytes;
use hostler_base::transport::{Body, BoxError};
use http_body::{Body as _, Frame, SizeHint};
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

/// A client has to take at least so much at a time; the rest of a large answer waits here, where it is seen.
const PIECE: usize = 64 * 1024;

/// The answers of one connection of which a piece was handed out and the next one not yet asked for.
#[derive(Clone, Default)]
pub(super) struct Readers(Arc<Mutex<Handed>>);

#[derive(Default)]
struct Handed {
    answers: u64,
    since: BTreeMap<u64, Instant>,
}

impl Readers {
    /// The answer keeps its place among those under way, if it has one, until it is read or given up.
    pub(super) fn follow(&self, body: Body, place: Option<OwnedSemaphorePermit>) -> Followed {
        let number = self.with(|handed| {
            handed.answers += 1;
            handed.answers
        });
        Followed { body, rest: Bytes::new(), begun: false, number, readers: self.clone(), _place: place }
    }

    /// Returns as soon as an answer has been left unread for this long.
    pub(super) async fn one_is_left_unread(&self, patience: Duration) {
        let mut look = Instant::now() + patience;
        loop {
            tokio::time::sleep_until(look).await;
            let oldest = self.with(|handed| handed.since.values().min().copied());
            let now = Instant::now();
            look = oldest.unwrap_or(now) + patience;
            if look <= now {
                return;
            }
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Handed) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A body that tells its connection's [`Readers`] when it waits for its client. While it waits for its own next
/// piece, as a quiet watch does, nobody is to blame.
pub(super) struct Followed {
    body: Body,
    rest: Bytes,
    begun: bool,
    number: u64,
    readers: Readers,
    _place: Option<OwnedSemaphorePermit>,
}

impl Followed {
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                other => return other,
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = self.next(context);
        self.begun = true;
        let number = self.number;
        let waits_for_client = matches!(next, Poll::Ready(Some(Ok(_))));
        self.readers.with(|handed| {
            if waits_for_client {
                handed.since.insert(number, Instant::now());
            } else {
                handed.since.remove(&number);
            }
        });
        next
    }

    /// Once begun it ends only when the client asks for more: until then its last piece may lie unread.
    fn is_end_stream(&self) -> bool {
        !self.begun && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let number = self.number;
        self.readers.with(|handed| handed.since.remove(&number));
    }
}

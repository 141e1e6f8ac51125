use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

/// So many bytes tell which version of HTTP a client speaks; until then nobody else watches the time.
const BEGINNING: usize = 24;

/// A connection that breaks when the other side says nothing at first, or leaves what was written unread for
/// too long.
pub(super) struct Stall<S> {
    stream: S,
    /// How many bytes are still missing from the beginning, and how long they may take.
    missing: usize,
    begins: Pin<Box<Sleep>>,
    patience: Duration,
    /// Set while a write waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Stall<S> {
    pub(super) fn new(stream: S, beginning: Duration, patience: Duration) -> Self {
        let begins = Box::pin(tokio::time::sleep(beginning));
        Self { stream, missing: BEGINNING, begins, patience, waits: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.waits = None;
            return result;
        }
        let patience = self.patience;
        let waits =
            self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + patience)));
        ready!(waits.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if self.missing == 0 {
            return result;
        }
        if result.is_pending() {
            ready!(self.begins.as_mut().poll(context));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")));
        }
        self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_cut_off() {
        let (near, far) = tokio::io::duplex(16);
        let mut near = Stall::new(near, Duration::from_secs(3600), Duration::from_secs(60));
        near.write_all(&[0; 16]).await.unwrap();
        let error = near.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_at_first_is_cut_off() {
        for (said, cut) in [(0, true), (23, true), (24, false)] {
            let (near, mut far) = tokio::io::duplex(64);
            let mut near = Stall::new(near, Duration::from_secs(30), Duration::from_secs(3600));
            far.write_all(&vec![0; said]).await.unwrap();
            near.read_exact(&mut vec![0; said]).await.unwrap();
            let next = tokio::time::timeout(Duration::from_secs(31), near.read_u8()).await;
            assert_eq!(next.is_ok_and(|read| read.is_err()), cut, "{said} bytes");
        }
    }
}

//! The body of a watch, which can break after any event.

use super::{Break, Fence, answer};
use bytes::{Bytes, BytesMut};
use futures::stream;
use hostler_base::{Body, BoxError, transport};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use std::{collections::VecDeque, future::pending, time::Duration};
use tokio::time::Instant;

/// Called when the watch breaks, to write it down and to prepare the reconnect.
pub(crate) type OnBreak = Box<dyn FnOnce(&Break) + Send>;

pub(crate) struct Breaking {
    pub(crate) after: usize,
    pub(crate) then: Break,
    pub(crate) on_break: OnBreak,
}

struct Watched {
    body: Body,
    buffer: BytesMut,
    delivered: usize,
    breaking: Option<Breaking>,
    hold: Option<Duration>,
    fence: Fence,
    ended: bool,
}

/// How far a watch lags behind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    /// The replica behind it has to catch up first.
    pub(crate) hold: Option<Duration>,
    /// Everything comes so much later.
    pub(crate) late: Option<Duration>,
}

pub(crate) fn wrap(body: Body, fence: Fence, breaking: Option<Breaking>, lag: Lag) -> Body {
    let body = match lag.late {
        Some(late) => delayed(body, late),
        None => body,
    };
    let watched = Watched {
        body,
        buffer: BytesMut::new(),
        delivered: 0,
        breaking,
        hold: lag.hold,
        fence,
        ended: false,
    };
    let frames = stream::unfold(watched, |mut watched| async move {
        let item = watched.next().await?;
        watched.fence.pass().await;
        Some((item.map(Frame::data), watched))
    });
    transport::boxed(StreamBody::new(frames))
}

/// The same body, every frame of it so much later. Its end comes with its last frame.
fn delayed(body: Body, by: Duration) -> Body {
    let frames = stream::unfold((Some(body), VecDeque::new()), move |(mut body, mut waiting)| async move {
        loop {
            let (due, ended) = (waiting.front().map(|(due, _)| *due), body.is_none());
            let came = async {
                match &mut body {
                    Some(body) => body.frame().await,
                    None => pending().await,
                }
            };
            let frame = match due {
                Some(due) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(due) => {
                        let (_, frame) = waiting.pop_front()?;
                        return Some((frame, (body, waiting)));
                    }
                    frame = came => frame,
                },
                None if ended => return None,
                None => came.await,
            };
            match frame {
                Some(frame) => waiting.push_back((Instant::now() + by, frame)),
                None => body = None,
            }
        }
    });
    transport::boxed(StreamBody::new(frames))
}

impl Watched {
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.ended {
            return None;
        }
        if let Some(hold) = self.hold.take() {
            tokio::time::sleep(hold).await;
        }
        loop {
            if let Some(breaking) = self.breaking.take_if(|breaking| self.delivered >= breaking.after) {
                self.ended = true;
                return self.broken(breaking).await;
            }
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let event = self.buffer.split_to(end + 1).freeze();
                if !is_bookmark(&event) {
                    self.delivered += 1;
                }
                return Some(Ok(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        self.buffer.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Some(Err(error));
                }
                None => {
                    self.ended = true;
                    let rest = self.buffer.split().freeze();
                    return (!rest.is_empty()).then_some(Ok(rest));
                }
            }
        }
    }

    async fn broken(&mut self, breaking: Breaking) -> Option<Result<Bytes, BoxError>> {
        // The server's side of the connection ends here, whatever the client believes.
        self.body = transport::empty();
        (breaking.on_break)(&breaking.then);
        let gone = || Some(Ok(Bytes::from(answer::gone_event())));
        match breaking.then {
            Break::Close => None,
            Break::Reset => Some(Err(answer::reset())),
            Break::Dead => pending().await,
            Break::Skip(time) => {
                tokio::time::sleep(time).await;
                gone()
            }
            Break::Gone | Break::Behind { .. } => gone(),
        }
    }
}

fn is_bookmark(event: &[u8]) -> bool {
    let head = &event[..event.len().min(40)];
    head.windows(10).any(|window| window == br#""BOOKMARK""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(count: usize) -> Body {
        let bookmark = "{\"type\":\"BOOKMARK\",\"object\":{}}\n";
        transport::full(format!("{bookmark}{}", "{\"type\":\"ADDED\",\"object\":{}}\n".repeat(count)))
    }

    async fn read(after: usize, then: Break) -> (usize, Option<String>) {
        let breaking = Breaking { after, then, on_break: Box::new(|_| ()) };
        let mut body = wrap(events(3), Fence::default(), Some(breaking), Lag::default());
        let mut added = 0;
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
                    if text.contains("ERROR") {
                        return (added, Some(text));
                    }
                    added += usize::from(text.contains("ADDED"));
                }
                Err(error) => return (added, Some(error.to_string())),
            }
        }
        (added, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_breaks_after_the_given_number_of_events() {
        assert_eq!(read(2, Break::Close).await, (2, None));
        assert_eq!(read(0, Break::Close).await, (0, None));
        assert_eq!(read(1, Break::Reset).await.1.as_deref(), Some("connection reset by peer"));
        let (added, end) = read(1, Break::Skip(Duration::from_secs(5))).await;
        assert_eq!(added, 1);
        assert!(end.is_some_and(|end| end.contains("410")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_watch_tells_everything_later() {
        // One event every second, two of them.
        let events = stream::unfold(0, |told| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let event = Bytes::from("{\"type\":\"ADDED\",\"object\":{}}\n");
            (told < 2).then(|| (Ok::<_, BoxError>(Frame::data(event)), told + 1))
        });
        let late = Lag { late: Some(Duration::from_secs(5)), hold: None };
        let events = transport::boxed(StreamBody::new(events));
        let mut body = wrap(events, Fence::default(), None, late);
        let begin = Instant::now();
        for second in [6, 7] {
            assert!(body.frame().await.unwrap().is_ok());
            assert_eq!(begin.elapsed().as_secs(), second);
        }
        assert!(body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_watch_says_nothing() {
        let breaking = Breaking { after: 0, then: Break::Dead, on_break: Box::new(|_| ()) };
        let mut body = wrap(events(3), Fence::default(), Some(breaking), Lag::default());
        assert!(tokio::time::timeout(Duration::from_hours(1), body.frame()).await.is_err());
    }
}

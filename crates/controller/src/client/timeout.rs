use super::call::is_watch;
use bytes::Bytes;
use hostler_base::{Body, BoxError, Clock, Transport, transport};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use jiff::{SignedDuration, Timestamp};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep};

/// A call took too long. Whether it took effect is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} was not answered within {limit:?}; whether it took effect is not known")]
pub struct TimedOut {
    pub what: String,
    pub limit: Duration,
}

/// Bounds the time a call takes: of a watch until its answer begins, of everything else until it ends.
pub(super) fn bounded(inner: Transport, limit: Duration, clock: Clock) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let streams = is_watch(&request);
        let what = format!("{} {}", request.method(), request.uri().path());
        let (answer, clock) = (transport::send(&inner, request), clock.clone());
        async move {
            let deadline = Instant::now() + limit;
            let too_late = TimedOut { what, limit };
            let Some(answer) = in_time(answer, deadline, limit, &clock).await else {
                return Err(too_late.into());
            };
            let answer: Response<Body> = answer?;
            if streams {
                return Ok::<_, BoxError>(answer);
            }
            let sleep = Box::pin(tokio::time::sleep_until(deadline));
            Ok(answer.map(|body| transport::boxed(BoundedBody { body, sleep, too_late })))
        }
    }))
}

/// The answer, unless its time is over. The time is looked at first, each time before the call goes on: a process that
/// stood still may find both that its call can be sent at last and that this should have been long ago. By then another
/// process may lead. The time of day counts too: one that was frozen together with its machine may find its monotonic
/// clock where it left it.
async fn in_time<T>(
    answer: impl Future<Output = T> + Unpin,
    deadline: Instant,
    limit: Duration,
    clock: &Clock,
) -> Option<T> {
    let length = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let end_of_day = clock.now().saturating_add(length).unwrap_or(Timestamp::MAX);
    let (mut answer, mut sleep) = (answer, pin!(tokio::time::sleep_until(deadline)));
    poll_fn(|context| {
        let over = Instant::now() >= deadline || clock.now() >= end_of_day;
        if over || sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut answer).poll(context).map(Some)
    })
    .await
}

struct BoundedBody {
    body: Body,
    sleep: Pin<Box<Sleep>>,
    too_late: TimedOut,
}

impl http_body::Body for BoundedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        match self.sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err(self.too_late.clone().into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

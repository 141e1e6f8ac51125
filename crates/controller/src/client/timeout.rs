use super::call::is_watch;
use bytes::Bytes;
use hostler_base::{Body, BoxError, Transport, transport};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use std::{
    future::Future,
    pin::Pin,
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
pub(super) fn bounded(inner: Transport, limit: Duration) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let streams = is_watch(&request);
        let what = format!("{} {}", request.method(), request.uri().path());
        let answer = transport::send(&inner, request);
        async move {
            let deadline = Instant::now() + limit;
            let too_late = TimedOut { what, limit };
            let Ok(answer) = tokio::time::timeout_at(deadline, answer).await else {
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

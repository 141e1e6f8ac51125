//! Every call to Kubernetes or a cloud goes through a [`Transport`]: plain `http` requests into a tower
//! service. Production puts a socket behind it, a test puts an `axum::Router` or a fault layer there.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use std::{
    error::Error,
    pin::{Pin, pin},
};
use tower::{Service, ServiceExt, util::BoxCloneSyncService};

pub type BoxError = Box<dyn Error + Send + Sync>;
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
pub type Transport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// A body that is there as a whole.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body without content.
pub fn empty() -> Body {
    full(Bytes::new())
}

/// Boxes any body whose error can be boxed.
pub fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// Makes a [`Transport`] of any HTTP service, for example an `axum::Router` or kube's client stack.
pub fn from_service<S, Out>(service: S) -> Transport
where
    S: Service<Request<Body>, Response = Response<Out>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    Out: http_body::Body<Data = Bytes> + Send + 'static,
    Out::Error: Into<BoxError>,
{
    BoxCloneSyncService::new(service.map_response(|response| response.map(boxed)).map_err(Into::into))
}

/// What went wrong and why, in one line: libraries often say only that a request could not be sent, and keep the reason
/// behind it.
pub fn with_causes(error: &dyn Error) -> BoxError {
    let (mut told, mut cause) = (error.to_string(), error.source());
    while let Some(deeper) = cause {
        told = format!("{told}: {deeper}");
        cause = deeper.source();
    }
    told.into()
}

/// A future that may move between threads.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sends a request when the answer is first awaited. The future is boxed: without that the compiler cannot see
/// that a caller's future may move between threads.
pub fn send(transport: &Transport, request: Request<Body>) -> BoxFuture<Result<Response<Body>, BoxError>> {
    Box::pin(transport.clone().oneshot(request))
}

/// Sends a request and reads the whole answer, at most `limit` bytes of it.
pub fn exchange(
    transport: &Transport,
    request: Request<Body>,
    limit: usize,
) -> BoxFuture<Result<Response<Bytes>, BoxError>> {
    let call = send(transport, request);
    Box::pin(async move {
        let (head, body) = call.await?.into_parts();
        Ok(Response::from_parts(head, whole(Limited::new(body, limit)).await?))
    })
}

/// Reads a body into one place, piece by piece: a connection lends its own room for each piece, and whoever keeps all
/// pieces until the last one keeps a long list twice.
fn whole(body: Limited<Body>) -> BoxFuture<Result<Bytes, BoxError>> {
    Box::pin(async move {
        let mut body = pin!(body);
        let expected = body.size_hint().lower();
        let (mut only, mut joined) = (Bytes::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            if only.is_empty() && joined.is_empty() {
                only = piece;
                continue;
            }
            if joined.is_empty() {
                joined.reserve_exact(usize::try_from(expected).unwrap_or_default().max(only.len()));
                joined.extend_from_slice(&std::mem::take(&mut only));
            }
            joined.extend_from_slice(&piece);
        }
        Ok(if joined.is_empty() { only } else { joined.into() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    #[tokio::test]
    async fn a_service_function_becomes_a_transport() {
        let echo = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let response = from_service(echo).oneshot(Request::new(full("ping"))).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ping");
    }

    #[test]
    fn an_error_is_told_with_its_causes() {
        #[derive(Debug)]
        struct Unsent(std::io::Error);
        impl std::fmt::Display for Unsent {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("it could not be sent")
            }
        }
        impl Error for Unsent {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Unsent(std::io::Error::other("nobody listens"));
        assert_eq!(with_causes(&error).to_string(), "it could not be sent: nobody listens");
    }

    #[tokio::test]
    async fn pieces_become_one_answer() {
        for pieces in [vec![], vec!["ping"], vec!["pi", "", "ng"], vec!["", "p", "i", "n", "g"]] {
            let whole = pieces.concat();
            let frames = pieces.into_iter().map(|piece| Ok::<_, BoxError>(Frame::data(piece.into())));
            let body = boxed(StreamBody::new(stream::iter(frames.collect::<Vec<_>>())));
            assert_eq!(super::whole(Limited::new(body, 4)).await.unwrap(), whole);
        }
    }

    #[tokio::test]
    async fn an_answer_beyond_the_limit_is_an_error() {
        let echo = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let transport = from_service(echo);
        assert_eq!(exchange(&transport, Request::new(full("ping")), 4).await.unwrap().into_body(), "ping");
        assert!(exchange(&transport, Request::new(full("ping")), 3).await.is_err());
    }
}

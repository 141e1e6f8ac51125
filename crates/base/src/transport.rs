//! Every call to Kubernetes or a cloud goes through a [`Transport`]: plain `http` requests into a tower
//! service. Production puts a socket behind it, a test puts an `axum::Router` or a fault layer there.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use tower::{Service, ServiceExt, util::BoxCloneSyncService};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[tokio::test]
    async fn a_service_function_becomes_a_transport() {
        let echo = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let response = from_service(echo).oneshot(Request::new(full("ping"))).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ping");
    }
}

use super::TimedOut;
use crate::{Fence, Fenced, metrics::Metrics};
use hostler_base::{Body, BoxError, Clock, Transport, transport};
use http::{Method, Request};
use std::{borrow::Cow, time::Duration};

/// Put into a request's extensions: it changes nothing although its method says otherwise, like a search
/// that is sent as POST. The leader fence lets it pass.
#[derive(Clone, Copy, Debug)]
pub struct ReadOnly;

/// Put into a request's extensions by a cloud's client: what the call is called in metrics. Without it the
/// name is read from a Kubernetes path.
#[derive(Clone, Copy, Debug)]
pub struct CallName {
    pub verb: &'static str,
    pub resource: &'static str,
}

pub(super) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

fn changes_something<B>(request: &Request<B>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
        && request.extensions().get::<ReadOnly>().is_none()
}

/// Refuses calls that change something when the lease may not outlast them.
pub(super) fn fenced(inner: Transport, fence: Fence, needed: Duration) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let refused = if changes_something(&request) { fence.check(needed).err() } else { None };
        let answer = transport::send(&inner, request);
        async move {
            match refused {
                Some(refused) => Err(refused.into()),
                None => answer.await,
            }
        }
    }))
}

/// Counts calls and measures the time until their answer begins.
pub(super) fn counted(inner: Transport, client: &'static str, clock: Clock, metrics: Metrics) -> Transport {
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let (verb, resource) = match request.extensions().get::<CallName>() {
            Some(CallName { verb, resource }) => (Cow::Borrowed(*verb), Cow::Borrowed(*resource)),
            None => kubernetes_name(request.method(), request.uri().path(), is_watch(&request)),
        };
        let (answer, clock, metrics) = (transport::send(&inner, request), clock.clone(), metrics.clone());
        async move {
            let start = clock.instant();
            let answer = answer.await;
            let code = match &answer {
                Ok(response) => Cow::Owned(response.status().as_u16().to_string()),
                Err(error) => Cow::Borrowed(error_code(error)),
            };
            metrics.called(client, &verb, &resource, &code, clock.instant().saturating_duration_since(start));
            answer
        }
    }))
}

fn error_code(error: &BoxError) -> &'static str {
    if error.is::<Fenced>() {
        "fenced"
    } else if error.is::<TimedOut>() {
        "timeout"
    } else {
        "error"
    }
}

/// Verb and resource of a Kubernetes request; names of objects and namespaces do not appear.
fn kubernetes_name(method: &Method, path: &str, watch: bool) -> (Cow<'static, str>, Cow<'static, str>) {
    let mut parts = path.trim_matches('/').split('/');
    let rest: Vec<&str> = match parts.next() {
        Some("api") => parts.skip(1).collect(),
        Some("apis") => parts.skip(2).collect(),
        _ => return (Cow::Owned(method.as_str().to_ascii_lowercase()), Cow::Borrowed("other")),
    };
    // A namespace is an object itself, and in front of the objects in it.
    let rest = match rest[..] {
        ["namespaces", _, resource, ..] if !matches!(resource, "status" | "finalize") => &rest[2..],
        _ => &rest[..],
    };
    let (resource, named, subresource) = match *rest {
        [] => return (Cow::Borrowed("get"), Cow::Borrowed("discovery")),
        [resource] => (resource, false, None),
        [resource, _] => (resource, true, None),
        [resource, _, subresource, ..] => (resource, true, Some(subresource)),
    };
    let verb = match (method.as_str(), named) {
        ("GET", _) if watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    };
    let resource = subresource.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
    (Cow::Borrowed(verb), Cow::Owned(resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_without_objects() {
        let table = [
            ("GET", "/api/v1/nodes", false, "list nodes"),
            ("GET", "/api/v1/nodes", true, "watch nodes"),
            ("GET", "/api/v1/nodes/n1", false, "get nodes"),
            ("GET", "/api/v1/namespaces", false, "list namespaces"),
            ("GET", "/api/v1/namespaces/shoot", false, "get namespaces"),
            ("PUT", "/api/v1/namespaces/shoot/finalize", false, "update namespaces/finalize"),
            ("POST", "/api/v1/namespaces/shoot/pods/p/eviction", false, "create pods/eviction"),
            ("DELETE", "/api/v1/namespaces/shoot/pods", false, "deletecollection pods"),
            ("DELETE", "/api/v1/namespaces/shoot/pods/p", false, "delete pods"),
            ("PATCH", "/apis/a.b/v1/namespaces/n/machines/m/status", false, "patch machines/status"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", false, "update leases"),
            ("GET", "/apis/apps/v1", false, "get discovery"),
            ("GET", "/apis", false, "get discovery"),
            ("GET", "/version", false, "get other"),
            ("POST", "/", false, "post other"),
        ];
        for (method, path, watch, expected) in table {
            let method: Method = method.parse().unwrap();
            let (verb, resource) = kubernetes_name(&method, path, watch);
            assert_eq!(format!("{verb} {resource}"), expected, "{method} {path}");
        }
    }

    #[test]
    fn only_calls_that_change_something_meet_the_fence() {
        let request = |method: &str| Request::builder().method(method).body(()).unwrap();
        for (method, changes) in [
            ("GET", false),
            ("HEAD", false),
            ("POST", true),
            ("PUT", true),
            ("PATCH", true),
            ("DELETE", true),
        ] {
            assert_eq!(changes_something(&request(method)), changes, "{method}");
        }
        let mut search = request("POST");
        search.extensions_mut().insert(ReadOnly);
        assert!(!changes_something(&search));
    }

    #[test]
    fn a_watch_is_known_by_its_query() {
        let watch = |uri: &str| is_watch(&Request::builder().uri(uri).body(()).unwrap());
        assert!(watch("/api/v1/nodes?&watch=true&timeoutSeconds=30") && watch("/x?watch=1"));
        assert!(
            !watch("/api/v1/nodes") && !watch("/x?watch=false") && !watch("/x?labelSelector=watch%3Dtrue")
        );
    }
}

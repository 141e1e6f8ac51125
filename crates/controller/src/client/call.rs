use super::TimedOut;
use crate::{Fence, Fenced, metrics::Metrics};
use hostler_base::{Body, BoxError, Clock, Transport, transport};
use http::{Method, Request};
use std::{borrow::Cow, sync::Arc, time::Duration};

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

pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
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

/// Counts calls and measures the time until their answer begins. `server` is the address of a Kubernetes API server.
pub(super) fn counted(
    inner: Transport,
    client: &'static str,
    server: Option<&str>,
    clock: Clock,
    metrics: Metrics,
) -> Transport {
    let server: Option<Arc<str>> = server.map(|server| server.trim_end_matches('/').into());
    transport::from_service(tower::service_fn(move |request: Request<Body>| {
        let target = server.clone().map(|server| (server, request.method().clone(), request.uri().clone()));
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
            let took = clock.instant().saturating_duration_since(start);
            metrics.called(client, &verb, &resource, &code, took);
            if let Some((server, method, uri)) = target {
                let code = if answer.is_ok() { &*code } else { "<error>" };
                let url = format!("{server}{}", template(uri.path()));
                metrics.requested(method.as_str(), url, host(&server), code, took);
            }
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

/// The host of an address, with its port.
fn host(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split_once('/').map_or(rest, |(host, _)| host)
}

/// The path of a Kubernetes request without the names in it, escaped as a URL is.
fn template(path: &str) -> String {
    const NAMESPACE: &str = "%7Bnamespace%7D";
    const NAME: &str = "%7Bname%7D";
    let mut segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let first = match segments.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => return "/%7Bprefix%7D".to_owned(),
    };
    let inside = segments.get(first) == Some(&"namespaces")
        && segments.get(first + 2).is_some_and(|next| !matches!(*next, "status" | "finalize"));
    let (namespace, name) = if inside { (first + 1, first + 3) } else { (segments.len(), first + 1) };
    if let Some(segment) = segments.get_mut(namespace) {
        *segment = NAMESPACE;
    }
    if let Some(segment) = segments.get_mut(name) {
        *segment = NAME;
    }
    format!("/{}", segments.join("/"))
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
    fn urls_are_told_without_names() {
        let table = [
            ("/api/v1/nodes", "/api/v1/nodes"),
            ("/api/v1/nodes/n1", "/api/v1/nodes/%7Bname%7D"),
            ("/api/v1/nodes/n1/status", "/api/v1/nodes/%7Bname%7D/status"),
            ("/api/v1/namespaces/shoot", "/api/v1/namespaces/%7Bname%7D"),
            ("/api/v1/namespaces/shoot/status", "/api/v1/namespaces/%7Bname%7D/status"),
            ("/api/v1/namespaces/shoot/pods", "/api/v1/namespaces/%7Bnamespace%7D/pods"),
            (
                "/api/v1/namespaces/shoot/pods/p/eviction",
                "/api/v1/namespaces/%7Bnamespace%7D/pods/%7Bname%7D/eviction",
            ),
            (
                "/apis/machine.sapcloud.io/v1alpha1/namespaces/n/machines/m",
                "/apis/machine.sapcloud.io/v1alpha1/namespaces/%7Bnamespace%7D/machines/%7Bname%7D",
            ),
            ("/apis/apps/v1", "/apis/apps/v1"),
            ("/healthz", "/%7Bprefix%7D"),
            ("", "/%7Bprefix%7D"),
        ];
        for (path, expected) in table {
            assert_eq!(template(path), expected, "{path}");
        }
    }

    #[test]
    fn an_address_has_a_host() {
        for (address, expected) in
            [("https://10.0.0.1:443", "10.0.0.1:443"), ("http://a/b/c", "a"), ("a:1", "a:1"), ("", "")]
        {
            assert_eq!(host(address), expected);
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

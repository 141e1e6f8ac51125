//! What a URL asks for.

use crate::contract::Attributes;
use http::Method;
use std::borrow::Cow;

/// A request for a resource, read from its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    /// The old form of a watch: `/api/v1/watch/…`.
    pub(crate) watch_path: bool,
}

/// The places a path can lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/G`
    Group(String),
    /// `/api/v1` and `/apis/G/V`
    Version {
        group: String,
        version: String,
    },
    Resource(Target),
    /// All other paths.
    Other,
}

/// Decodes `%xx`; `None` when that gives no UTF-8.
fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    String::from_utf8(decoded_bytes(text)).ok().map(Cow::Owned)
}

/// Decodes `%xx`.
pub(crate) fn decoded_bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// Finds out where a path leads; `None` for one that cannot be decoded.
pub(crate) fn place(path: &str) -> Option<Place> {
    let trimmed = path.trim_start_matches('/').trim_end_matches('/');
    let parts: Vec<Cow<'_, str>> = trimmed.split('/').map(percent_decode).collect::<Option<_>>()?;
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    Some(match parts.as_slice() {
        ["api"] => Place::CoreVersions,
        ["apis"] => Place::Groups,
        ["apis", group] => Place::Group((*group).to_owned()),
        ["api", version] => Place::Version { group: String::new(), version: (*version).to_owned() },
        ["apis", group, version] => {
            Place::Version { group: (*group).to_owned(), version: (*version).to_owned() }
        }
        ["api", version, rest @ ..] => target("", version, rest),
        ["apis", group, version, rest @ ..] => target(group, version, rest),
        _ => Place::Other,
    })
}

fn target(group: &str, version: &str, rest: &[&str]) -> Place {
    let (watch_path, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        rest => (false, rest),
    };
    let (namespace, resource, name, subresource) = match rest {
        ["namespaces"] => ("", "namespaces", "", String::new()),
        ["namespaces", name] => ("", "namespaces", *name, String::new()),
        ["namespaces", name, sub @ ("status" | "finalize")] => ("", "namespaces", *name, (*sub).to_owned()),
        ["namespaces", namespace, resource] => (*namespace, *resource, "", String::new()),
        ["namespaces", namespace, resource, name, sub @ ..] => (*namespace, *resource, *name, sub.join("/")),
        [resource] => ("", *resource, "", String::new()),
        [resource, name, sub @ ..] => ("", *resource, *name, sub.join("/")),
        [] => return Place::Other,
    };
    Place::Resource(Target {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        subresource,
        watch_path,
    })
}

/// The verb of a request for a resource; `None` for a method without one.
pub(crate) fn verb(method: &Method, target: &Target, watch: bool) -> Option<&'static str> {
    Some(match *method {
        Method::GET if watch || target.watch_path => "watch",
        Method::GET | Method::HEAD if target.name.is_empty() => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if target.name.is_empty() => "deletecollection",
        Method::DELETE => "delete",
        _ => return None,
    })
}

impl Target {
    pub(crate) fn attributes(&self, verb: &str, path: &str) -> Attributes {
        Attributes {
            verb: verb.to_owned(),
            group: self.group.clone(),
            version: self.version.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            namespace: if self.resource == "namespaces" && self.group.is_empty() {
                self.name.clone()
            } else {
                self.namespace.clone()
            },
            name: self.name.clone(),
            path: path.to_owned(),
        }
    }

    /// `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

/// `v1` or `apps/v1`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> (String, String, String, String, String) {
        match place(path) {
            Some(Place::Resource(t)) => (t.group, t.namespace, t.resource, t.name, t.subresource),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_lead_to_resources() {
        let cases = [
            ("/api/v1/pods", ["", "", "pods", "", ""]),
            ("/api/v1/namespaces", ["", "", "namespaces", "", ""]),
            ("/api/v1/namespaces/a", ["", "", "namespaces", "a", ""]),
            ("/api/v1/namespaces/a/status", ["", "", "namespaces", "a", "status"]),
            ("/api/v1/namespaces/a/pods", ["", "a", "pods", "", ""]),
            ("/api/v1/namespaces/a/pods/b/log", ["", "a", "pods", "b", "log"]),
            ("/apis/apps/v1/namespaces/a/deployments/b/scale", ["apps", "a", "deployments", "b", "scale"]),
            ("/api/v1/nodes/n/proxy/x/y", ["", "", "nodes", "n", "proxy/x/y"]),
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                ["rbac.authorization.k8s.io", "", "clusterroles", "system:node", ""],
            ),
        ];
        for (path, [group, namespace, resource, name, sub]) in cases {
            let expected = (group.into(), namespace.into(), resource.into(), name.into(), sub.into());
            assert_eq!(read(path), expected, "{path}");
        }
    }

    #[test]
    fn other_places_are_told_apart() {
        assert_eq!(place("/api"), Some(Place::CoreVersions));
        assert_eq!(place("/apis/"), Some(Place::Groups));
        assert_eq!(place("/apis/apps"), Some(Place::Group("apps".into())));
        assert_eq!(place("/api/v1"), Some(Place::Version { group: String::new(), version: "v1".into() }));
        assert_eq!(place("/healthz"), Some(Place::Other));
        assert_eq!(place("/api/v1/pods/%ff"), None);
    }
}

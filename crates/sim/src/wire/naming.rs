//! Names for calls that are the same in every run: path templates, and stable names for random ids.

use crate::boundaries::Class;
use http::{Method, Uri};
use serde_json::Value;
use std::collections::BTreeMap;

/// How the paths of a server are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    Kubernetes,
    /// Templates such as `/v2/projects/{project}/servers/{server}`; a path that fits none is its own template. A `POST`
    /// to one of `reads` has no effect.
    Templates {
        all: Vec<String>,
        reads: Vec<String>,
    },
}

impl Paths {
    pub fn templates<'a>(templates: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Templates { all: templates.into_iter().map(str::to_owned).collect(), reads: Vec::new() }
    }

    /// Some templates are read with a `POST`.
    pub fn read_by_post<'a>(self, templates: impl IntoIterator<Item = &'a str>) -> Self {
        match self {
            Self::Kubernetes => Self::Kubernetes,
            Self::Templates { all, mut reads } => {
                reads.extend(templates.into_iter().map(str::to_owned));
                Self::Templates { all, reads }
            }
        }
    }
}

/// A request as far as it has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) verb: String,
    pub(crate) template: String,
    /// The values of the template's parameters, and the name a body gives.
    pub(crate) values: Vec<String>,
    pub(crate) class: Class,
}

pub(crate) fn name(paths: &Paths, method: &Method, uri: &Uri, body: &[u8]) -> Named {
    match paths {
        Paths::Kubernetes => kubernetes(method, uri, body),
        Paths::Templates { all, reads } => cloud(all, reads, method, uri, body),
    }
}

fn kubernetes(method: &Method, uri: &Uri, body: &[u8]) -> Named {
    let segments: Vec<&str> = uri.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let prefix = match segments.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        _ => segments.len(),
    }
    .min(segments.len());
    let (head, mut rest) = segments.split_at(prefix);
    let mut template: Vec<&str> = head.to_vec();
    let mut values = Vec::new();
    // `namespaces/x/status` and `namespaces/x/finalize` belong to the namespace itself.
    if let ["namespaces", namespace, resource, ..] = rest
        && !["status", "finalize"].contains(resource)
    {
        template.extend(["namespaces", "{namespace}"]);
        values.push((*namespace).to_owned());
        rest = &rest[2..];
    }
    let mut named = false;
    for (position, segment) in rest.iter().enumerate() {
        if position == 1 {
            template.push("{name}");
            values.push((*segment).to_owned());
            named = true;
        } else {
            template.push(segment);
        }
    }
    let watch = query(uri).any(|(key, value)| key == "watch" && matches!(value, "true" | "1"));
    let verb = match (method, named) {
        (&Method::GET, _) if watch => "WATCH",
        (&Method::GET, false) if prefix < segments.len() => "LIST",
        (method, _) => method.as_str(),
    };
    if !named && method == Method::POST {
        values.extend(body_name(body));
    }
    let resource = rest.first().copied().unwrap_or_default();
    if let ("events", Some(event)) = (resource, values.last_mut()) {
        *event = without_draw(event);
    }
    let class = if watch {
        Class::Watch
    } else if resource == "leases" {
        Class::Lease
    } else if verb == "LIST" && query(uri).any(|pair| pair == ("resourceVersion", "0")) {
        Class::CachedRead
    } else {
        Class::of(method)
    };
    Named { verb: verb.to_owned(), template: format!("/{}", template.join("/")), values, class }
}

/// An event's name is that of its object and a drawn number, which is another one as soon as an event more or
/// less was written before.
fn without_draw(event: &str) -> String {
    match event.rsplit_once('.') {
        Some((object, draw)) if draw.len() == 16 && draw.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            format!("{object}.*")
        }
        _ => event.to_owned(),
    }
}

fn cloud(templates: &[String], reads: &[String], method: &Method, uri: &Uri, body: &[u8]) -> Named {
    let path: Vec<&str> = uri.path().split('/').collect();
    let fitting =
        templates.iter().find_map(|template| fit(template, &path).map(|values| (template.clone(), values)));
    let (template, mut values) = fitting.unwrap_or_else(|| (uri.path().to_owned(), Vec::new()));
    if method == Method::POST || method == Method::DELETE {
        values.extend(body_name(body).or_else(|| body_object(body)));
    }
    let is_read = method == Method::POST && reads.contains(&template);
    let class = if is_read { Class::Read } else { Class::of(method) };
    Named { verb: method.as_str().to_owned(), template, values, class }
}

/// The parameters' values if the path fits the template.
fn fit(template: &str, path: &[&str]) -> Option<Vec<String>> {
    let parts: Vec<&str> = template.split('/').collect();
    if parts.len() != path.len() {
        return None;
    }
    let mut values = Vec::new();
    for (part, segment) in parts.iter().zip(path) {
        if part.starts_with('{') && part.ends_with('}') {
            values.push((*segment).to_owned());
        } else if part != segment {
            return None;
        }
    }
    Some(values)
}

fn body_name(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let metadata = body.get("metadata").unwrap_or(&body);
    let text = |key| metadata.get(key).and_then(Value::as_str).map(str::to_owned);
    text("name").or_else(|| text("generateName"))
}

/// What a cloud's call is about whose path does not say so.
fn body_object(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let mut named =
        ["hostname", "vmIdentifier", "identifier"].into_iter().filter_map(|key| body[key].as_str());
    named.next().map(str::to_owned)
}

pub(crate) fn query(uri: &Uri) -> impl Iterator<Item = (&str, &str)> {
    uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key, value)
    })
}

/// The query as it may be shown: what looks like a secret is left out.
pub(crate) fn shown_query(uri: &Uri) -> String {
    let secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        ["token", "secret", "password", "key", "code", "assertion", "credential"]
            .iter()
            .any(|word| key.contains(word))
    };
    let pairs: Vec<String> = query(uri)
        .filter(|(key, _)| !["watch", "timeoutSeconds", "allowWatchBookmarks", "limit"].contains(key))
        .map(|(key, value)| if secret(key) { format!("{key}=…") } else { format!("{key}={value}") })
        .collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Stable names for what servers name by chance: a cloud's id becomes the name that came with it, a
/// generated Kubernetes name its prefix and a number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    aliases: BTreeMap<String, String>,
    taken: BTreeMap<String, usize>,
}

impl Names {
    pub(crate) fn shown(&mut self, value: &str) -> String {
        if let Some(alias) = self.aliases.get(value) {
            return alias.clone();
        }
        if looks_random(value) { self.give(value, "id") } else { value.to_owned() }
    }

    /// Learns from an answer which ids belong to which names.
    pub(crate) fn learn(&mut self, paths: &Paths, answer: &Value) {
        match paths {
            Paths::Kubernetes => {
                let text = |key| answer.get("metadata")?.get(key)?.as_str();
                if let (Some(prefix), Some(name)) = (text("generateName"), text("name"))
                    && !self.aliases.contains_key(name)
                {
                    self.give(name, prefix);
                }
            }
            Paths::Templates { .. } => self.learn_ids(answer, 3),
        }
    }

    fn learn_ids(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(fields) => {
                let text = |key| fields.get(key).and_then(Value::as_str);
                let id = text("identifier").or_else(|| text("id"));
                if let (Some(id), Some(name)) = (id, text("name").or_else(|| text("hostname")))
                    && !self.aliases.contains_key(id)
                {
                    self.give(id, name);
                }
                if depth > 0 {
                    fields.values().for_each(|field| self.learn_ids(field, depth - 1));
                }
            }
            Value::Array(items) if depth > 0 => items.iter().for_each(|item| self.learn_ids(item, depth - 1)),
            _ => {}
        }
    }

    /// The first bearer of a name is called so, the others get a number.
    fn give(&mut self, value: &str, name: &str) -> String {
        let taken = self.taken.entry(name.to_owned()).or_default();
        *taken += 1;
        let alias = if *taken == 1 { name.to_owned() } else { format!("{name}~{taken}") };
        self.aliases.insert(value.to_owned(), alias.clone());
        alias
    }
}

fn looks_random(value: &str) -> bool {
    value.len() >= 8
        && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && value.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(paths: &Paths, method: Method, uri: &str, body: &str) -> String {
        let named = name(paths, &method, &uri.parse().unwrap(), body.as_bytes());
        format!("{:?} {} {} {}", named.class, named.verb, named.template, named.values.join("/"))
    }

    #[test]
    fn kubernetes_paths_become_templates() {
        let cases = [
            (Method::GET, "/api/v1/pods?limit=500", "", "Read LIST /api/v1/pods "),
            (Method::GET, "/api/v1/pods?watch=true&resourceVersion=3", "", "Watch WATCH /api/v1/pods "),
            (
                Method::PUT,
                "/api/v1/namespaces/default/configmaps/a?fieldManager=x",
                "",
                "Effect PUT /api/v1/namespaces/{namespace}/configmaps/{name} default/a",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/default/pods",
                r#"{"metadata":{"name":"p"}}"#,
                "Effect POST /api/v1/namespaces/{namespace}/pods default/p",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/default/pods/p/eviction",
                r#"{"metadata":{"name":"p"}}"#,
                "Effect POST /api/v1/namespaces/{namespace}/pods/{name}/eviction default/p",
            ),
            (Method::GET, "/api/v1/namespaces/x", "", "Read GET /api/v1/namespaces/{name} x"),
            (
                Method::PUT,
                "/api/v1/namespaces/x/finalize",
                "",
                "Effect PUT /api/v1/namespaces/{name}/finalize x",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/n/deployments/d/status",
                "",
                "Effect PATCH /apis/apps/v1/namespaces/{namespace}/deployments/{name}/status n/d",
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                "",
                "Lease PUT /apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name} n/l",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/n/events",
                r#"{"metadata":{"name":"m-1.ebdac557b4146324"}}"#,
                "Effect POST /api/v1/namespaces/{namespace}/events n/m-1.*",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/events/m-1.0000000000000001",
                "",
                "Effect PATCH /api/v1/namespaces/{namespace}/events/{name} n/m-1.*",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/n/events/by-hand.1",
                "",
                "Effect PATCH /api/v1/namespaces/{namespace}/events/{name} n/by-hand.1",
            ),
            (Method::GET, "/api/v1/pods?limit=5&resourceVersion=0", "", "CachedRead LIST /api/v1/pods "),
            (Method::GET, "/api/v1/pods?resourceVersion=10", "", "Read LIST /api/v1/pods "),
            (Method::GET, "/version", "", "Read GET /version "),
        ];
        for (method, uri, body, expected) in cases {
            assert_eq!(shown(&Paths::Kubernetes, method, uri, body), expected, "{uri}");
        }
    }

    #[test]
    fn cloud_paths_follow_the_given_templates() {
        let paths =
            Paths::templates(["/v2/projects/{project}/servers", "/v2/projects/{project}/servers/{server}"])
                .read_by_post(["/prices"]);
        let cases = [
            (
                Method::POST,
                "/v2/projects/p/servers",
                r#"{"name":"m-1"}"#,
                "Effect POST /v2/projects/{project}/servers p/m-1",
            ),
            (
                Method::DELETE,
                "/v2/projects/p/servers/17",
                "",
                "Effect DELETE /v2/projects/{project}/servers/{server} p/17",
            ),
            (Method::GET, "/elsewhere", "", "Read GET /elsewhere "),
            (Method::POST, "/prices", r#"{"name":"p"}"#, "Read POST /prices p"),
            (Method::POST, "/vm", r#"{"hostname":"h"}"#, "Effect POST /vm h"),
            (Method::DELETE, "/vm", r#"{"vmIdentifier":"v","password":""}"#, "Effect DELETE /vm v"),
        ];
        for (method, uri, body, expected) in cases {
            assert_eq!(shown(&paths, method, uri, body), expected, "{uri}");
        }
    }

    #[test]
    fn random_ids_get_the_names_that_came_with_them() {
        let mut names = Names::default();
        let cloud = Paths::templates([]);
        names.learn(
            &cloud,
            &json!({"items": [{"id": "0a1b2c3d", "name": "a"}, {"id": "ffff0000", "name": "a"}]}),
        );
        assert_eq!(names.shown("0a1b2c3d"), "a");
        assert_eq!(names.shown("ffff0000"), "a~2");
        assert_eq!(names.shown("12345678-aaaa"), "id");
        assert_eq!(names.shown("12345678-aaaa"), "id");
        assert_eq!(names.shown("eu01"), "eu01");
        names.learn(&cloud, &json!({"data": [{"id": 7, "identifier": "77770000", "hostname": "h"}]}));
        assert_eq!(names.shown("77770000"), "h");
        names.learn(&Paths::Kubernetes, &json!({"metadata": {"generateName": "web-", "name": "web-x7f2q"}}));
        assert_eq!(names.shown("web-x7f2q"), "web-");
    }

    #[test]
    fn secrets_in_a_query_are_not_shown() {
        let uri: Uri = "/x?accessToken=abc&labelSelector=a%3Db&limit=500".parse().unwrap();
        assert_eq!(shown_query(&uri), "?accessToken=…&labelSelector=a%3Db");
    }
}

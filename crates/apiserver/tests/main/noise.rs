//! Requests drawn by chance: paths, queries, headers and bodies, most of them nearly right.

use crate::{
    generated_requests::Offer,
    noise_words::{ACCEPTS, FIELDS, MEDIA, METHODS, NAMES, NAMESPACES, ODD_NAMES, PARAMETERS, VALUES},
};
use hostler_base::Chance;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

pub(crate) struct Prepared {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl std::fmt::Display for Prepared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(400).collect();
        let target: String = self.target.chars().take(300).collect();
        write!(formatter, "{} {target} {:?} {} bytes {body:?}", self.method, self.headers, self.body.len())
    }
}

pub(crate) struct Noise {
    chance: Chance,
    offers: Vec<Offer>,
}

impl Noise {
    pub(crate) fn new(chance: Chance, offers: Vec<Offer>) -> Self {
        Self { chance, offers }
    }

    fn pick<'a, T: ?Sized>(&self, list: &[&'a T]) -> &'a T {
        list[self.chance.below(list.len())]
    }

    pub(crate) fn request(&self) -> Prepared {
        let offer = &self.offers[self.chance.below(self.offers.len())];
        let (method, collection) = self.method(offer);
        let mut target = if self.chance.hit(0.03) { self.elsewhere() } else { self.path(offer, collection) };
        target.push_str(&self.query(&method));
        let mut media = self.pick(&MEDIA);
        // Most patches should be some patch, most bodies some JSON.
        if method == "PATCH" && self.chance.hit(0.7) {
            media = MEDIA[4 + self.chance.below(3)];
        } else if method != "PATCH" && self.chance.hit(0.6) {
            media = "application/json";
        }
        let mut headers = Vec::new();
        if self.chance.hit(0.95) {
            headers.push(("content-type".to_owned(), media.to_owned()));
        }
        if self.chance.hit(0.35) {
            headers.push(("accept".to_owned(), self.pick(&ACCEPTS).to_owned()));
        }
        if self.chance.hit(0.05) {
            headers.push(("impersonate-user".to_owned(), "somebody".to_owned()));
        }
        let body = if matches!(method.as_str(), "GET" | "HEAD") && self.chance.hit(0.95) {
            Vec::new()
        } else {
            self.body(offer, media)
        };
        Prepared { method, target, headers, body }
    }

    /// A method, mostly one the resource has, and whether it is for the whole collection.
    fn method(&self, offer: &Offer) -> (String, bool) {
        if self.chance.hit(0.12) || offer.verbs.is_empty() {
            return (self.pick(&METHODS).to_owned(), self.chance.hit(0.3));
        }
        let (method, collection) = match offer.verbs[self.chance.below(offer.verbs.len())].as_str() {
            "create" => ("POST", true),
            "list" | "watch" => ("GET", true),
            "update" => ("PUT", false),
            "patch" => ("PATCH", false),
            "delete" => ("DELETE", false),
            // Not too often: the other requests need objects to meet.
            "deletecollection" if self.chance.hit(0.1) => ("DELETE", true),
            "deletecollection" => ("POST", true),
            _ => ("GET", false),
        };
        (method.to_owned(), collection)
    }

    fn name(&self) -> String {
        match self.chance.below(40) {
            0 => self.pick(&ODD_NAMES).to_owned(),
            1 => "x".repeat(300),
            _ => self.pick(&NAMES).to_owned(),
        }
    }

    fn path(&self, offer: &Offer, collection: bool) -> String {
        let mut path =
            if offer.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", offer.group) };
        path.push('/');
        path.push_str(if self.chance.hit(0.02) { "v9" } else { &offer.version });
        let (resource, subresource) = offer.name.split_once('/').unwrap_or((&offer.name, ""));
        // Here and there a namespace too many or too few.
        if offer.namespaced != self.chance.hit(0.04) {
            path.push_str("/namespaces/");
            path.push_str(self.pick(&NAMESPACES));
        }
        path.push('/');
        path.push_str(resource);
        if subresource.is_empty() && collection != self.chance.hit(0.02) {
            return path;
        }
        path.push('/');
        path.push_str(&self.name());
        if !subresource.is_empty() {
            path.push('/');
            path.push_str(subresource);
        } else if self.chance.hit(0.03) {
            path.push_str(self.pick(&["/status", "/scale", "/log", "/eviction", "/x/y", "/"]));
        }
        path
    }

    fn elsewhere(&self) -> String {
        let known = [
            "/",
            "/api",
            "/apis",
            "/version",
            "/healthz",
            "/livez",
            "/readyz",
            "/readyz/ping",
            "/openapi/v3",
            "/openapi/v3/api/v1",
            "/openapi/v3/apis/apps/v1",
            "/openapi/v3/apis/noise.example.com/v1",
            "/openapi/v2",
            "/metrics",
            "/apis/apps",
            "/apis/noise.example.com",
            "/api/v2",
            "/apis/none.example.com/v1",
            "/favicon.ico",
            "//",
            "/api//v1",
            "/api/v1/",
            "/apis/apps/v1/namespaces",
            "/api/v1/watch/pods",
            "/api/v1/namespaces/default",
            "/api/v1/namespaces/default/finalize",
            "/%2e%2e/api",
            "/.well-known/openid-configuration",
        ];
        if self.chance.hit(0.9) {
            return self.pick(&known).to_owned();
        }
        let letters = b"abcxyz/./%20-_~!$&'()*+,;=:@";
        format!("/{}", self.chance.text(letters, self.chance.below(200)))
    }

    fn query(&self, method: &str) -> String {
        let mut pairs = Vec::new();
        if self.chance.hit(0.4) {
            for _ in 0..self.chance.below(4) {
                let name = if self.chance.hit(0.97) { self.pick(&PARAMETERS) } else { "%zz" };
                pairs.push(format!("{name}={}", self.pick(&VALUES).replace(' ', "%20")));
            }
        }
        if method == "GET" && self.chance.hit(0.15) {
            pairs.push("watch=1".to_owned());
        }
        if pairs.iter().any(|pair| pair.starts_with("watch")) {
            pairs.push(format!("timeoutSeconds={}", 1 + self.chance.below(3)));
        }
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }

    fn body(&self, offer: &Offer, media: &str) -> Vec<u8> {
        match self.chance.below(100) {
            0..4 => return self.broken(),
            4 => return self.nested(),
            5 if self.chance.hit(0.1) => return self.huge(),
            6..9 => return self.protobuf(offer),
            9..11 => return self.yaml_bomb(),
            11..13 => return (0..self.chance.below(300)).map(|_| self.byte()).collect(),
            _ => {}
        }
        let value = match media {
            "application/json-patch+json" => self.json_patch(),
            "application/merge-patch+json" | "application/strategic-merge-patch+json"
                if self.chance.hit(0.8) =>
            {
                self.patch()
            }
            "application/vnd.kubernetes.protobuf" => return self.protobuf(offer),
            _ => self.object(offer),
        };
        let mut text = value.to_string().into_bytes();
        if self.chance.hit(0.02) {
            text.truncate(self.chance.below(text.len() + 1));
        }
        text
    }

    fn byte(&self) -> u8 {
        u8::try_from(self.chance.below(256)).unwrap_or_default()
    }

    fn broken(&self) -> Vec<u8> {
        let texts = [
            "",
            " ",
            "{",
            "}",
            "[]",
            "null",
            "1",
            "\"x\"",
            "{\"kind\":",
            "{\"a\":1,}",
            "{'a':1}",
            "{\"a\":1}{\"b\":2}",
            "{\"kind\":1,\"apiVersion\":{}}",
            "{\"metadata\":[]}",
            "{\"metadata\":{\"name\":5}}",
            "---\n---\n",
            "a: b: c",
            "\u{feff}{}",
            "{\"a\":1e999}",
            "{\"a\":-0,\"a\":2}",
            "{\"items\":[]}",
            "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{}]}",
            "!!binary x",
            "&a [*a]",
            "{\"\\ud800\":1}",
            "NaN",
            "\t- x",
        ];
        self.pick(&texts).as_bytes().to_vec()
    }

    fn nested(&self) -> Vec<u8> {
        let depth = [100, 1000, 20_000][self.chance.below(3)];
        match self.chance.below(3) {
            0 => "[".repeat(depth).into_bytes(),
            1 => format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)).into_bytes(),
            _ => format!(
                "{{\"metadata\":{{\"name\":\"a\"}},\"spec\":{}1{}}}",
                "[".repeat(depth),
                "]".repeat(depth)
            )
            .into_bytes(),
        }
    }

    fn huge(&self) -> Vec<u8> {
        let filler = "x".repeat([1, 2, 4][self.chance.below(3)] * 1024 * 1024);
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name()}, "data": {"a": filler}})
            .to_string()
            .into_bytes()
    }

    fn protobuf(&self, offer: &Offer) -> Vec<u8> {
        let mut bytes = if self.chance.hit(0.9) { b"k8s\0".to_vec() } else { b"k8s".to_vec() };
        if self.chance.hit(0.7) {
            // A well-formed envelope: type meta, then a body of noise.
            let api_version = if offer.group.is_empty() {
                "v1".to_owned()
            } else {
                format!("{}/{}", offer.group, offer.version)
            };
            let mut meta = Vec::new();
            for (tag, text) in [(0x0a, api_version.as_str()), (0x12, offer.kind.as_str())] {
                meta.push(tag);
                meta.push(u8::try_from(text.len()).unwrap_or(0));
                meta.extend_from_slice(text.as_bytes());
            }
            bytes.push(0x0a);
            bytes.push(u8::try_from(meta.len()).unwrap_or(0));
            bytes.extend(meta);
            let body: Vec<u8> = match self.chance.below(3) {
                0 => Vec::new(),
                1 => [0x0a, 0x03, 0x0a, 0x01, b'a'].to_vec(),
                _ => (0..self.chance.below(100)).map(|_| self.byte()).collect(),
            };
            bytes.push(0x12);
            bytes.push(u8::try_from(body.len()).unwrap_or(0));
            bytes.extend(body);
        } else if self.chance.hit(0.3) {
            bytes.extend(self.object(offer).to_string().into_bytes());
        } else {
            bytes.extend((0..self.chance.below(120)).map(|_| self.byte()));
        }
        bytes
    }

    fn yaml_bomb(&self) -> Vec<u8> {
        let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for level in 1..self.chance.below(12) {
            let before = format!("*a{}", level - 1);
            let _ = writeln!(text, "a{level}: &a{level} [{}]", vec![before; 9].join(","));
        }
        text.push_str("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n");
        text.into_bytes()
    }

    fn json_patch(&self) -> Value {
        let operation = || {
            let op = self.pick(&["add", "remove", "replace", "move", "copy", "test", "burn"]);
            let path = || {
                let depth = self.chance.below(5);
                let steps = (0..depth).map(|_| match self.chance.below(6) {
                    0 => "/0".to_owned(),
                    1 => "/-".to_owned(),
                    2 => "/~1~0~2".to_owned(),
                    _ => format!("/{}", self.pick(&FIELDS)),
                });
                steps.collect::<String>()
            };
            json!({"op": op, "path": path(), "from": path(), "value": self.value(2)})
        };
        let count = if self.chance.hit(0.002) { 11_000 } else { self.chance.below(5) };
        Value::Array((0..count).map(|_| operation()).collect())
    }

    fn patch(&self) -> Value {
        let mut patch = match self.chance.below(4) {
            0 => json!({"metadata": {"labels": {"a": self.value(0)}, "annotations": {"b": self.value(0)}}}),
            1 => json!({"metadata": {"finalizers": self.value(1), "resourceVersion": self.value(0)}}),
            2 => {
                json!({"spec": {"replicas": self.value(0), "template": self.value(2)}, "status": self.value(2)})
            }
            _ => self.value(3),
        };
        if self.chance.hit(0.3)
            && let Some(fields) = patch.as_object_mut()
        {
            let directives = [
                "$patch",
                "$retainKeys",
                "$setElementOrder/containers",
                "$deleteFromPrimitiveList/finalizers",
            ];
            let place = fields.entry(self.pick(&["spec", "metadata"])).or_insert_with(|| json!({}));
            if let Some(place) = place.as_object_mut() {
                place.insert(self.pick(&directives).to_owned(), self.value(1));
            }
        }
        patch
    }

    /// An object of the kind, with a few values that do not belong.
    fn object(&self, offer: &Offer) -> Value {
        let group_version = if offer.group.is_empty() {
            offer.version.clone()
        } else {
            format!("{}/{}", offer.group, offer.version)
        };
        let mut object = json!({
            "apiVersion": group_version, "kind": offer.kind,
            "metadata": {"name": self.name(), "labels": {"a": "b"}},
        });
        if offer.namespaced && self.chance.hit(0.3) {
            object["metadata"]["namespace"] = json!(self.pick(&NAMESPACES));
        }
        if self.chance.hit(0.1) {
            object["metadata"]["generateName"] = json!("x-");
        }
        if self.chance.hit(0.1) {
            object["metadata"]["finalizers"] = json!(["example.com/wait"]);
        }
        for (field, value) in example(&offer.kind) {
            object[field] = value;
        }
        for _ in 0..self.chance.below(3) {
            self.damage(&mut object);
        }
        object
    }

    /// Replaces, adds or removes one value somewhere inside.
    fn damage(&self, value: &mut Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() && self.chance.hit(0.85) => {
                let at = self.chance.below(fields.len());
                let name = fields.keys().nth(at).cloned().unwrap_or_default();
                match self.chance.below(8) {
                    0 => {
                        fields.remove(&name);
                    }
                    1 => {
                        fields.insert(self.pick(&FIELDS).to_owned(), self.value(2));
                    }
                    _ => fields.get_mut(&name).into_iter().for_each(|field| self.damage(field)),
                }
            }
            Value::Array(items) if !items.is_empty() && self.chance.hit(0.85) => {
                let at = self.chance.below(items.len());
                self.damage(&mut items[at]);
            }
            other => *other = self.value(2),
        }
    }

    fn value(&self, depth: usize) -> Value {
        match self.chance.below(if depth == 0 { 9 } else { 12 }) {
            0 => Value::Null,
            1 => json!(self.chance.hit(0.5)),
            2 => json!(self.chance.below(100)),
            3 if self.chance.hit(0.1) => json!(u64::MAX),
            3 => json!([i64::MIN, i64::MAX, -1, 0, 3_000_000_000][self.chance.below(5)]),
            4 => json!([0.5, -1e300, 1e21][self.chance.below(3)]),
            5 => json!(self.pick(&[
                "",
                "a",
                "A B",
                "2024-01-01T00:00:00Z",
                "10%",
                "1Gi",
                "\u{0}",
                "\u{ffff}",
                "😀",
                "a/b",
                "true",
                "-1"
            ])),
            6 => json!("long ".repeat(self.chance.below(200))),
            7 => json!({}),
            8 => json!([]),
            9 => Value::Array((0..self.chance.below(4)).map(|_| self.value(depth - 1)).collect()),
            _ => {
                let field = |_| (self.pick(&FIELDS).to_owned(), self.value(depth - 1));
                Value::Object((0..self.chance.below(4)).map(field).collect::<Map<_, _>>())
            }
        }
    }
}

/// Fields that make an object of a kind nearly right.
fn example(kind: &str) -> Vec<(&'static str, Value)> {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    let workload = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    match kind {
        "Pod" => vec![(
            "spec",
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]}),
        )],
        "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet" => vec![("spec", workload)],
        "Job" => vec![(
            "spec",
            json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}),
        )],
        "ConfigMap" => vec![("data", json!({"a": "1"}))],
        "Secret" => vec![("stringData", json!({"a": "1"})), ("type", json!("Opaque"))],
        "Service" => vec![("spec", json!({"selector": {"a": "b"}, "ports": [{"port": 80}]}))],
        "Role" | "ClusterRole" => {
            vec![("rules", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]))]
        }
        "RoleBinding" | "ClusterRoleBinding" => vec![
            (
                "roleRef",
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}),
            ),
            ("subjects", json!([{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}])),
        ],
        "PodDisruptionBudget" => {
            vec![("spec", json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}))]
        }
        "Lease" => vec![("spec", json!({"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.000000Z"}))],
        "Node" => vec![
            ("spec", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})),
            ("status", json!({"conditions": [{"type": "Ready", "status": "True"}]})),
        ],
        "Scale" => vec![("spec", json!({"replicas": 3}))],
        "Binding" => vec![("target", json!({"kind": "Node", "name": "a"}))],
        "Noise" | "Hum" => vec![(
            "spec",
            json!({"replicas": 2, "size": "10%", "mode": "a", "ports": [{"name": "p", "port": 1}]}),
        )],
        "CustomResourceDefinition" => vec![
            ("metadata", json!({"name": "as.b.example.com"})),
            (
                "spec",
                json!({
                    "group": "b.example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
                    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}],
                }),
            ),
        ],
        _ => vec![("spec", json!({}))],
    }
}

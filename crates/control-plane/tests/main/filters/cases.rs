//! Random pods, nodes and clusters as the API server would have them; the same for the same seed.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// What a case is about, and the filters that judge it.
pub const PREDICATES: [(&str, &[&str]); 16] = [
    ("node name", &["NodeAffinity"]),
    ("unschedulable", &["NodeUnschedulable", "TaintToleration"]),
    ("resources", &["NodeResourcesFit"]),
    ("taints", &["TaintToleration"]),
    ("node selector", &["NodeAffinity"]),
    ("node affinity", &["NodeAffinity"]),
    ("pod affinity", &["InterPodAffinity"]),
    ("anti-affinity", &["InterPodAffinity"]),
    ("anti-affinity of others", &["InterPodAffinity"]),
    ("spread", &["PodTopologySpread"]),
    ("spread with minDomains", &["PodTopologySpread"]),
    ("spread with policies", &["PodTopologySpread"]),
    ("host ports", &["NodePorts"]),
    ("bound volumes", &["VolumeBinding", "VolumeZone"]),
    ("volumes that wait for a pod", &["VolumeBinding"]),
    ("attach limits", &["NodeVolumeLimits"]),
];
/// Claims that one pod may use refuse whole clusters at a time.
pub const SINGLE: (&str, &[&str]) = ("claims for one pod", &["VolumeRestrictions"]);

pub const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const ZONES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 3] = ["web", "db", "job"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

pub struct Case {
    /// As the program wants it.
    pub question: Value,
    /// Numbers of `PREDICATES`; one behind them is `SINGLE`.
    pub about: Vec<usize>,
}

struct Maker {
    rng: Rng,
    prefix: String,
    about: Vec<usize>,
    names: Vec<String>,
    claims: Vec<(String, String)>,
}

fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut at = object;
    for key in path {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[*key];
    }
    *at = value;
}

impl Maker {
    fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    fn word(&mut self, words: &[&'static str]) -> &'static str {
        words[self.rng.usize(..words.len())]
    }

    fn is_about(&self, name: &str) -> bool {
        self.about.iter().any(|at| PREDICATES.get(*at).map_or(SINGLE.0, |known| known.0) == name)
    }

    fn full(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn namespace(&mut self) -> String {
        let name = if self.chance(80) { "own" } else { self.word(&["red", "blue"]) };
        self.full(name)
    }

    fn node(&mut self, at: usize) -> Value {
        let name = self.full(&format!("n{at}"));
        self.names.push(name.clone());
        let mut labels = Map::new();
        labels.insert(HOST.to_owned(), name.clone().into());
        if self.chance(92) {
            labels.insert(ZONE.to_owned(), self.word(&ZONES).into());
        }
        if self.chance(60) {
            labels.insert("disk".to_owned(), self.word(&["ssd", "hdd"]).into());
            labels.insert("rank".to_owned(), self.word(&["1", "2", "3", "12", "high"]).into());
        }
        let mut taints = Vec::new();
        if self.is_about("taints") && self.chance(70)
            || self.is_about("spread with policies") && self.chance(40)
        {
            for _ in 0..self.rng.usize(1..3) {
                taints.push(json!({
                    "key": self.word(&["dedicated", "special"]),
                    "value": self.word(&["x", "y", ""]),
                    "effect": self.word(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
                }));
            }
            taints.dedup_by_key(|taint| (taint["key"].clone(), taint["effect"].clone()));
        }
        let unschedulable = self.is_about("unschedulable") && self.chance(50);
        // The taint follows a cordon within a moment.
        if unschedulable && (self.chance(60) || self.is_about("spread with policies")) {
            taints.push(json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }));
        }
        let mut allocatable = json!({
            "cpu": self.word(&["1", "2", "3900m", "0.5"]), "memory": self.word(&["1Gi", "2000Mi", "3G"]),
            "ephemeral-storage": self.word(&["1Gi", "10Gi"]), "pods": self.word(&["2", "4", "110"]),
        });
        if !self.is_about("resources") {
            allocatable =
                json!({ "cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110" });
        } else if self.chance(40) {
            set(&mut allocatable, &["example.com/gpu"], self.word(&["1", "2"]).into());
            set(&mut allocatable, &["hugepages-2Mi"], self.word(&["2Mi", "8Mi"]).into());
        }
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": labels, "creationTimestamp": "2020-01-01T00:00:00Z" },
            "spec": { "taints": taints, "unschedulable": unschedulable },
            "status": { "allocatable": allocatable, "conditions": [{ "type": "Ready", "status": "True" }] },
        })
    }

    fn csi_node(&mut self, at: usize) -> Value {
        let mut drivers = Vec::new();
        for name in ["csi.example.com", "other.example.com"] {
            if self.chance(80) {
                let mut driver = json!({ "name": name, "nodeID": "x", "topologyKeys": [ZONE] });
                if self.chance(75) {
                    set(&mut driver, &["allocatable", "count"], self.rng.i32(0..4).into());
                }
                drivers.push(driver);
            }
        }
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": self.names[at] },
                "spec": { "drivers": drivers } })
    }

    fn requirement(&mut self) -> Value {
        let (key, operator, values): (&str, &str, Vec<&str>) = match self.rng.u32(..9) {
            0 => (ZONE, "In", vec![self.word(&ZONES), "b"]),
            1 => (ZONE, "NotIn", vec![self.word(&ZONES)]),
            2 => ("disk", "Exists", vec![]),
            3 => ("disk", "DoesNotExist", vec![]),
            4 => ("rank", "Gt", vec![self.word(&["1", "2", "-5"])]),
            5 => ("rank", "Lt", vec![self.word(&["2", "3", "x"])]),
            6 => ("disk", "In", vec![self.word(&["ssd", "hdd"])]),
            7 => ("rank", "NotIn", vec!["1", "high"]),
            _ => (ZONE, "Exists", vec![]),
        };
        json!({ "key": key, "operator": operator, "values": values })
    }

    fn by_name(&mut self) -> Value {
        let at = self.rng.usize(..self.names.len());
        let operator = self.word(&["In", "In", "NotIn"]);
        json!([{ "key": "metadata.name", "operator": operator, "values": [self.names[at]] }])
    }

    fn node_terms(&mut self) -> Value {
        let terms: Vec<Value> = (0..self.rng.usize(1..4))
            .map(|_| {
                let mut term = json!({});
                if self.chance(90) {
                    let count = self.rng.usize(1..3);
                    term["matchExpressions"] = (0..count).map(|_| self.requirement()).collect();
                }
                if self.chance(10) {
                    term["matchFields"] = self.by_name();
                }
                term
            })
            .collect();
        terms.into()
    }

    fn selector(&mut self, own: &str) -> Value {
        match self.rng.u32(..12) {
            0 => Value::Null,
            1 => json!({}),
            2 => {
                json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": [self.word(&APPS)] }] })
            }
            3 => json!({ "matchExpressions": [{ "key": "version", "operator": "Exists" }] }),
            4..6 => json!({ "matchLabels": { "app": self.word(&APPS) } }),
            _ => json!({ "matchLabels": { "app": own } }),
        }
    }

    fn topology_key(&mut self) -> &'static str {
        self.word(&[HOST, HOST, ZONE, ZONE, "disk"])
    }

    /// With the keys of labels merged into the selector, as the API server does it. Of a pod that waits the scheduler
    /// takes every namespace for one without labels, so `what_the_scheduler_gets_wrong` has that case.
    fn pod_term(&mut self, labels: &Value, waits: bool) -> Value {
        let own = labels["app"].as_str().unwrap_or_default().to_owned();
        let mut term = json!({ "topologyKey": self.topology_key() });
        let mut selector = self.selector(&own);
        for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            if !selector.is_null() && self.chance(10) {
                let mut expressions = selector["matchExpressions"].as_array().cloned().unwrap_or_default();
                let value = labels["version"].clone();
                expressions.push(json!({ "key": "version", "operator": operator, "values": [value] }));
                selector["matchExpressions"] = expressions.into();
                term[field] = json!(["version"]);
                break;
            }
        }
        term["labelSelector"] = selector;
        if self.chance(20) {
            term["namespaces"] = json!([self.full("red")]);
        }
        match self.rng.u32(..8) {
            0 => term["namespaceSelector"] = json!({}),
            1 => {
                term["namespaceSelector"] = json!({ "matchLabels": { "team": self.word(&["red", "blue"]) } });
            }
            2 if !waits => {
                let out = json!({ "key": "team", "operator": "DoesNotExist" });
                term["namespaceSelector"] = json!({ "matchExpressions": [out] });
            }
            _ => {}
        }
        term
    }

    fn terms(&mut self, labels: &Value, waits: bool) -> Value {
        (0..self.rng.usize(1..3)).map(|_| self.pod_term(labels, waits)).collect()
    }

    fn spread(&mut self, labels: &Value) -> Value {
        let own = labels["app"].as_str().unwrap_or_default().to_owned();
        let mut constraints: Vec<Value> = Vec::new();
        for _ in 0..self.rng.usize(1..3) {
            let mut constraint = json!({
                "topologyKey": self.topology_key(), "maxSkew": self.rng.i32(1..3),
                "whenUnsatisfiable": if self.chance(90) { "DoNotSchedule" } else { "ScheduleAnyway" },
                "labelSelector": self.selector(&own),
            });
            if self.is_about("spread with minDomains") && constraint["whenUnsatisfiable"] == "DoNotSchedule" {
                constraint["minDomains"] = self.rng.i32(1..5).into();
            }
            if self.is_about("spread with policies") {
                constraint["nodeAffinityPolicy"] = self.word(&["Honor", "Ignore"]).into();
                constraint["nodeTaintsPolicy"] = self.word(&["Honor", "Ignore"]).into();
            }
            if !constraint["labelSelector"].is_null() && self.chance(15) {
                constraint["matchLabelKeys"] = json!(["version"]);
            }
            // The API server takes a key once for each way to treat it.
            let same = |other: &Value| {
                other["topologyKey"] == constraint["topologyKey"]
                    && other["whenUnsatisfiable"] == constraint["whenUnsatisfiable"]
            };
            if !constraints.iter().any(same) {
                constraints.push(constraint);
            }
        }
        constraints.into()
    }

    fn amounts(&mut self) -> Value {
        let mut amounts = json!({
            "cpu": self.word(&["100m", "0.25", "500m", "1", "1500m", "0"]),
            "memory": self.word(&["128Mi", "1Gi", "500M", "0", "1.5Gi"]),
        });
        if self.chance(25) {
            amounts["ephemeral-storage"] = self.word(&["1Gi", "600Mi", "9Gi"]).into();
        }
        if self.chance(25) {
            amounts["example.com/gpu"] = self.word(&["1", "2"]).into();
        }
        if self.chance(10) {
            amounts["hugepages-2Mi"] = self.word(&["2Mi", "4Mi"]).into();
        }
        amounts
    }

    /// Containers, sidecars and what goes on top.
    fn demands(&mut self, spec: &mut Value, rich: bool) {
        let container = |name: &str| json!({ "name": name, "image": "i" });
        let mut containers = vec![container("a")];
        if rich {
            if self.chance(30) {
                containers.push(container("b"));
            }
            for container in &mut containers {
                set(container, &["resources", "requests"], self.amounts());
            }
            if self.chance(40) {
                let mut inits = Vec::new();
                for at in 0..self.rng.usize(1..4) {
                    let mut init = container(&format!("i{at}"));
                    set(&mut init, &["resources", "requests"], self.amounts());
                    if self.chance(50) {
                        init["restartPolicy"] = "Always".into();
                    }
                    inits.push(init);
                }
                spec["initContainers"] = inits.into();
            }
            if self.chance(15) {
                spec["overhead"] = json!({ "cpu": "250m", "memory": "100Mi" });
            }
            if self.chance(15) {
                spec["resources"] =
                    json!({ "requests": { "cpu": self.word(&["2", "750m"]), "memory": "1Gi" } });
            }
        }
        if self.is_about("host ports") {
            let mut ports = Vec::new();
            for _ in 0..self.rng.usize(..3) {
                let mut port = json!({ "containerPort": 1, "hostPort": *[80, 81].get(self.rng.usize(..2)).unwrap_or(&80),
                                       "protocol": self.word(&["TCP", "TCP", "UDP"]) });
                let ip = self.word(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]);
                if !ip.is_empty() {
                    port["hostIP"] = ip.into();
                }
                ports.push(port);
            }
            if self.chance(25) {
                let mut sidecar = container("s");
                sidecar["restartPolicy"] = self.word(&["Always", ""]).into();
                if sidecar["restartPolicy"] == "" {
                    sidecar.as_object_mut().unwrap().remove("restartPolicy");
                }
                sidecar["ports"] = ports.into();
                let mut inits = spec["initContainers"].as_array().cloned().unwrap_or_default();
                inits.push(sidecar);
                spec["initContainers"] = inits.into();
            } else {
                containers[0]["ports"] = ports.into();
            }
        }
        spec["containers"] = containers.into();
    }

    fn tolerations(&mut self) -> Value {
        let mut all = Vec::new();
        for _ in 0..self.rng.usize(..3) {
            let mut toleration = if self.chance(40) {
                json!({ "operator": "Exists" })
            } else {
                json!({ "operator": self.word(&["Equal", ""]), "value": self.word(&["x", "y", ""]) })
            };
            if toleration["operator"] != "Exists" || self.chance(70) {
                toleration["key"] =
                    self.word(&["dedicated", "special", "node.kubernetes.io/unschedulable"]).into();
            }
            if self.chance(40) {
                toleration["effect"] = self.word(&["NoSchedule", "NoExecute", "PreferNoSchedule"]).into();
            }
            all.push(toleration);
        }
        all.into()
    }

    fn use_claims(&mut self, name: &str, namespace: &str, spec: &mut Value, most: usize) {
        let mut volumes = Vec::new();
        let own: Vec<String> = self
            .claims
            .iter()
            .filter(|(space, _)| space == namespace)
            .map(|(_, claim)| claim.clone())
            .collect();
        let most = most.min(own.len());
        for at in 0..self.rng.usize(..=most) {
            let claim = own[self.rng.usize(..own.len())].clone();
            volumes
                .push(json!({ "name": format!("v{at}"), "persistentVolumeClaim": { "claimName": claim } }));
        }
        if self.chance(3) {
            let claim = json!({ "claimName": format!("{name}-nowhere") });
            volumes.push(json!({ "name": "w", "persistentVolumeClaim": claim }));
        }
        volumes.push(json!({ "name": "x", "emptyDir": {} }));
        spec["volumes"] = volumes.into();
    }

    fn stores(&self) -> bool {
        ["bound volumes", "volumes that wait for a pod", "attach limits", SINGLE.0]
            .iter()
            .any(|name| self.is_about(name))
    }

    /// A pod that waits, or one on a node.
    fn pod(&mut self, name: &str, node: Option<String>) -> Value {
        let name = self.full(name);
        let waits = node.is_none();
        let namespace = if waits { self.full("own") } else { self.namespace() };
        let labels = json!({ "app": self.word(&APPS), "version": self.word(&["1", "2"]) });
        let mut spec = json!({ "schedulerName": "default-scheduler" });
        let rich = self.is_about("resources");
        self.demands(&mut spec, rich);
        if self.stores() {
            self.use_claims(&name, &namespace, &mut spec, if waits { 3 } else { 2 });
        }
        let others = self.is_about("anti-affinity of others");
        if waits {
            if self.is_about("node selector") {
                let value = self.word(&ZONES);
                spec["nodeSelector"] = if self.chance(70) {
                    json!({ ZONE: value })
                } else {
                    json!({ ZONE: value, "disk": self.word(&["ssd", "hdd"]) })
                };
            }
            if self.is_about("node affinity") || self.is_about("spread with policies") && self.chance(50) {
                let terms = self.node_terms();
                set(&mut spec, &["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"], terms);
            }
            if self.is_about("node name") {
                let fields = self.by_name();
                let terms = json!([{ "matchFields": fields }]);
                set(&mut spec, &["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"], terms);
            }
            if self.is_about("taints")
                || self.is_about("unschedulable")
                || self.is_about("spread with policies")
            {
                spec["tolerations"] = self.tolerations();
            }
            if self.is_about("pod affinity") {
                let terms = self.terms(&labels, true);
                set(&mut spec, &["affinity", "podAffinity", REQUIRED], terms);
            }
            if ["spread", "spread with minDomains", "spread with policies"]
                .iter()
                .any(|own| self.is_about(own))
            {
                spec["topologySpreadConstraints"] = self.spread(&labels);
            }
        }
        if waits && self.is_about("anti-affinity") || !waits && others && self.chance(50) {
            let terms = self.terms(&labels, waits);
            set(&mut spec, &["affinity", "podAntiAffinity", REQUIRED], terms);
        }
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace, "uid": name, "labels": labels,
                          "creationTimestamp": "2020-01-01T00:00:00Z" },
            "spec": spec,
        });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = node.into();
            let phase = if self.chance(6) { self.word(&["Succeeded", "Failed"]) } else { "Running" };
            pod["status"] = json!({ "phase": phase });
            if phase == "Running" && self.chance(8) {
                pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
            }
        } else {
            let condition = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" });
            pod["status"] = json!({ "phase": "Pending", "conditions": [condition] });
        }
        pod
    }

    fn classes(&mut self) -> Vec<Value> {
        let class = |name: String, mode: &str, provisioner: &str| {
            json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
                    "provisioner": provisioner, "volumeBindingMode": mode })
        };
        let mut waits = class(self.full("waits"), "WaitForFirstConsumer", "csi.example.com");
        if self.chance(80) {
            let mut terms =
                vec![json!({ "matchLabelExpressions": [{ "key": ZONE, "values": [self.word(&ZONES)] }] })];
            if self.chance(40) {
                terms.push(json!({ "matchLabelExpressions": [
                    { "key": ZONE, "values": ["a", "b"] }, { "key": "disk", "values": ["ssd"] },
                ] }));
            }
            waits["allowedTopologies"] = terms.into();
        }
        vec![
            waits,
            class(self.full("other"), "WaitForFirstConsumer", "other.example.com"),
            class(self.full("at-once"), "Immediate", "csi.example.com"),
            class(self.full("static"), "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
        ]
    }

    fn volume(&mut self, name: &str, namespace: &str, claim: &str, driver: &str) -> Value {
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": name, "labels": {} },
            "spec": {
                "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
                "csi": { "driver": driver, "volumeHandle": name },
                "claimRef": { "namespace": namespace, "name": claim, "uid": claim },
            },
            "status": { "phase": "Bound" },
        });
        if self.is_about("bound volumes") {
            if self.chance(50) {
                let count = self.rng.usize(1..3);
                let terms: Vec<Value> = (0..count)
                    .map(|_| {
                        let requirement =
                            json!({ "key": ZONE, "operator": "In", "values": [self.word(&ZONES)] });
                        json!({ "matchExpressions": [requirement] })
                    })
                    .collect();
                set(&mut volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"], terms.into());
            }
            if self.chance(50) {
                let zone = self.word(&["a", "b", "a__b"]);
                volume["metadata"]["labels"][ZONE] = zone.into();
            }
        }
        volume
    }

    /// Claims, bound or not, with their volumes.
    fn storage(&mut self) -> (Vec<Value>, Vec<Value>) {
        let (mut claims, mut volumes) = (Vec::new(), Vec::new());
        for at in 0..6 {
            let name = self.full(&format!("c{at}"));
            let namespace = if at < 4 { self.full("own") } else { self.full("red") };
            let only_bound = !self.is_about("volumes that wait for a pod");
            let bound = self.chance(if only_bound { 95 } else { 25 });
            let class = self.word(&["waits", "waits", "waits", "other", "other", "at-once", "static", ""]);
            // Most of what is not bound waits for a pod.
            let class =
                if !bound && self.chance(80) { self.word(&["waits", "waits", "other"]) } else { class };
            let mode =
                if self.is_about(SINGLE.0) && self.chance(50) { "ReadWriteOncePod" } else { "ReadWriteOnce" };
            let mut claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": { "name": name, "namespace": namespace, "uid": name },
                "spec": { "accessModes": [mode], "resources": { "requests": { "storage": "1Gi" } } },
                "status": { "phase": if bound { "Bound" } else { "Pending" } },
            });
            if !class.is_empty() {
                claim["spec"]["storageClassName"] = self.full(class).into();
            }
            if bound {
                let volume = self.full(&format!("v{at}"));
                claim["spec"]["volumeName"] = volume.clone().into();
                set(
                    &mut claim,
                    &["metadata", "annotations", "pv.kubernetes.io/bind-completed"],
                    "yes".into(),
                );
                let driver = self.word(&["csi.example.com", "csi.example.com", "other.example.com"]);
                if !self.chance(2) {
                    volumes.push(self.volume(&volume, &namespace, &name, driver));
                }
            }
            claims.push(claim);
            self.claims.push((namespace, name));
        }
        (claims, volumes)
    }
}

pub fn case(number: usize, seed: u64) -> Case {
    let mut rng = Rng::with_seed(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
    let all = PREDICATES.len() + 1;
    let mut about = vec![number % all];
    // Some cases are about several things, some about nearly all.
    let more = match rng.u32(..10) {
        0 => 12,
        1..4 => 2,
        _ => 0,
    };
    about.extend((0..more).map(|_| rng.usize(..all)));
    about.sort_unstable();
    about.dedup();
    let mut maker = Maker { rng, prefix: format!("c{number}"), about, names: Vec::new(), claims: Vec::new() };
    let nodes: Vec<Value> = (0..maker.rng.usize(2..6)).map(|at| maker.node(at)).collect();
    let csi_nodes: Vec<Value> = (0..nodes.len()).map(|at| maker.csi_node(at)).collect();
    let (classes, (claims, volumes)) = if maker.stores() {
        (maker.classes(), maker.storage())
    } else {
        (Vec::new(), (Vec::new(), Vec::new()))
    };
    let namespaces: Vec<Value> = [("own", json!({})), ("red", json!({ "team": "red" })), ("blue", json!({ "team": "blue" }))]
        .into_iter()
        .map(|(name, labels)| {
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": maker.full(name), "labels": labels } })
        })
        .collect();
    let pods: Vec<Value> = (0..maker.rng.usize(..9))
        .map(|at| {
            let node = maker.names[maker.rng.usize(..maker.names.len())].clone();
            maker.pod(&format!("p{at}"), Some(node))
        })
        .collect();
    let pod = maker.pod("pod", None);
    let question = json!({
        "pod": pod, "pods": pods, "nodes": nodes, "csiNodes": csi_nodes, "claims": claims, "volumes": volumes,
        "storageClasses": classes, "namespaces": namespaces,
    });
    Case { question, about: maker.about }
}

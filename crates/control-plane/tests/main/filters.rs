//! The planner beside the scheduler's own filters: the same objects are given to both, and both say of every node
//! whether a pod fits.

#[path = "filters/cases.rs"]
mod cases;

use crate::stage::store;
use cases::{Case, PREDICATES, SINGLE, ZONE, case};
use hostler_control_plane::catalogue::SCHEDULER_FILTERS;
use hostler_planner::model::Cluster;
use hostler_planner::{Reason, objections};
use hostler_snapshot::Dump;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const CASES: usize = 8_500;
/// How often each predicate has to be seen either way.
const LEAST: usize = 100;

/// What the scheduler says of a node.
#[derive(Deserialize)]
struct Verdict {
    refused: Vec<String>,
    fits: bool,
    #[serde(default)]
    why: String,
}

type Answer = BTreeMap<String, Verdict>;

fn ask(questions: &[&Value]) -> Vec<Answer> {
    let mut child = Command::new(store().path(&SCHEDULER_FILTERS))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: Vec<String> = questions.iter().map(|question| format!("{question}\n")).collect();
    // Nothing is answered before everything is asked.
    input.write_all(lines.concat().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the scheduler's filters end with {}", output.status);
    let answers = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    answers.collect::<Result<_, _>>().unwrap()
}

/// The case as `hostler plan` would read it, and the number of the pod in question.
fn cluster(question: &Value) -> (Cluster, usize) {
    let mut dump = Dump::default();
    let lists = ["pods", "nodes", "csiNodes", "claims", "volumes", "storageClasses", "namespaces"];
    for object in lists.iter().flat_map(|list| question[list].as_array().unwrap()) {
        dump.add(object.clone()).unwrap();
    }
    dump.add(question["pod"].clone()).unwrap();
    let cluster = dump.load(1_800_000_000).unwrap().cluster;
    let wanted = question["pod"]["metadata"]["name"].as_str();
    let pod = cluster.pods.iter().position(|pod| Some(pod.name.as_str()) == wanted).unwrap();
    (cluster, pod)
}

/// By predicate: how many nodes its filters accepted and refused, in cases about it.
#[derive(Default)]
struct Tally {
    seen: BTreeMap<usize, [usize; 2]>,
    nodes: usize,
    fits: usize,
}

impl Tally {
    fn count(&mut self, about: &[usize], verdict: &Verdict) {
        self.nodes += 1;
        self.fits += usize::from(verdict.fits);
        for predicate in about {
            let (_, filters) = PREDICATES.get(*predicate).copied().unwrap_or(SINGLE);
            let refused = verdict.refused.iter().any(|name| filters.contains(&name.as_str()));
            self.seen.entry(*predicate).or_default()[usize::from(refused)] += 1;
        }
    }
}

/// Filters of which one must say the same; none where a reason is not one filter's.
fn filters_of(reason: &Reason) -> &'static [&'static str] {
    match reason {
        Reason::TaintNotTolerated { .. } => &["NodeUnschedulable", "TaintToleration"],
        Reason::SelectorMismatch { .. } | Reason::NodeAffinityMismatch { .. } => &["NodeAffinity"],
        Reason::VolumeElsewhere { .. } | Reason::NoVolumeLeft { .. } => &["VolumeBinding", "VolumeZone"],
        Reason::TooSmall { .. } => &["NodeResourcesFit"],
        Reason::PortTaken { .. } => &["NodePorts"],
        Reason::AttachLimit { .. } => &["NodeVolumeLimits"],
        Reason::AntiAffinity { .. } | Reason::Unwanted { .. } | Reason::AffinityUnmet { .. } => {
            &["InterPodAffinity"]
        }
        Reason::TopologyKeyMissing { .. } | Reason::SpreadExceeded { .. } => &["PodTopologySpread"],
        _ => &[],
    }
}

fn disagreement(number: usize, case: &Case, answer: &Answer, tally: &mut Tally) -> Option<String> {
    let (cluster, pod) = cluster(&case.question);
    let ours = objections(&cluster, pod);
    assert_eq!(ours.len(), answer.len(), "case {number}: both see all nodes");
    let mut told = None;
    for (node, objection) in cluster.nodes.iter().zip(ours) {
        let verdict = &answer[&node.name];
        assert_eq!(
            verdict.fits,
            verdict.refused.is_empty(),
            "case {number}: filters one by one and together"
        );
        tally.count(&case.about, verdict);
        let filters = objection.as_ref().map_or(&[] as &[&str], filters_of);
        let named =
            filters.is_empty() || filters.iter().any(|own| verdict.refused.iter().any(|name| name == own));
        if verdict.fits != objection.is_none() || !named {
            let own = objection.map_or_else(|| "it fits".to_owned(), |reason| reason.to_string());
            let their = if verdict.fits { "it fits" } else { &verdict.why };
            told.get_or_insert_with(|| {
                format!("case {number}, node {}: we say: {own}; the scheduler says: {their}", node.name)
            });
        }
    }
    told
}

/// `HOSTLER_SEED` makes other cases.
#[test]
fn the_planner_agrees_with_the_scheduler() {
    let seed: u64 = std::env::var("HOSTLER_SEED").map_or(7, |seed| seed.parse().unwrap());
    let cases: Vec<Case> = (0..CASES).map(|number| case(number, seed)).collect();
    let questions: Vec<&Value> = cases.iter().map(|case| &case.question).collect();
    let answers = ask(&questions);
    assert_eq!(answers.len(), cases.len());
    let mut tally = Tally::default();
    let mut told = Vec::new();
    for (number, (case, answer)) in cases.iter().zip(&answers).enumerate() {
        if let Some(line) = disagreement(number, case, answer, &mut tally) {
            if told.is_empty() {
                println!("{}", serde_json::to_string_pretty(&case.question).unwrap());
            }
            told.push(line);
        }
    }
    for (predicate, [accepted, refused]) in &tally.seen {
        let (name, _) = PREDICATES.get(*predicate).copied().unwrap_or(SINGLE);
        println!("scheduler and planner on {name}: {accepted} nodes accepted, {refused} refused");
    }
    println!(
        "scheduler and planner on everything: {} cases with {} nodes, {} of them fit, {} cases disagree (seed {seed})",
        cases.len(),
        tally.nodes,
        tally.fits,
        told.len()
    );
    assert!(
        told.is_empty(),
        "seed {seed}: {} cases disagree:\n{}",
        told.len(),
        told[..told.len().min(20)].join("\n")
    );
    for predicate in 0..=PREDICATES.len() {
        let name = PREDICATES.get(predicate).copied().unwrap_or(SINGLE).0;
        let both = tally.seen.get(&predicate).copied().unwrap_or_default();
        assert!(both.iter().all(|seen| *seen >= LEAST), "{name} was seen {both:?} times");
    }
}

/// A pod's own term with a namespace selector that a namespace without labels meets, such as `DoesNotExist`: the
/// scheduler of 1.36 looks for the pods of such namespaces, and then takes those of every other one as well, since the
/// copy of the term in which it notes that it has looked is lost. The planner does what is documented. When this fails
/// the scheduler does too, and `cases` can have such selectors in pods that wait.
#[test]
fn what_the_scheduler_gets_wrong() {
    let selector = json!({ "matchExpressions": [{ "key": "team", "operator": "DoesNotExist" }] });
    let term = json!({ "topologyKey": ZONE, "labelSelector": { "matchLabels": { "app": "x" } },
                       "namespaceSelector": selector });
    let affinity = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    let pod = |name: &str, namespace: &str, more: Value| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": namespace, "labels": { "app": "x" } },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
        });
        pod["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    };
    let namespace = |name: &str, labels: Value| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } });
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": { ZONE: "a" } },
        "status": { "allocatable": { "cpu": "4", "memory": "4Gi", "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] },
    });
    let question = json!({
        "pod": pod("waits", "own", json!({ "affinity": affinity })),
        "pods": [pod("runs", "red", json!({ "nodeName": "n" }))], "nodes": [node],
        "namespaces": [namespace("own", json!({})), namespace("red", json!({ "team": "red" }))],
        "csiNodes": [], "claims": [], "volumes": [], "storageClasses": [],
    });
    let (cluster, at) = cluster(&question);
    assert_eq!(objections(&cluster, at), [None]);
    let answers = ask(&[&question]);
    assert_eq!(answers[0]["n"].refused, ["InterPodAffinity"], "{}", answers[0]["n"].why);
}

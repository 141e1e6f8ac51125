//! Karpenter's scheduling benchmark: 400 types in three zones, sizes and labels drawn at random.

use crate::{Report, megabytes, timed};
use fastrand::Rng;
use hostler_planner::model::*;
use hostler_planner::{ScaleUp, scale_down, scale_up};
use std::collections::BTreeMap;
use std::sync::Arc;

const MI: i64 = 1 << 20;
const GI: i64 = 1 << 30;
/// One CPU with its two GiB, in billionths.
const UNIT: Price = 314_748_365;

pub fn group() -> Group {
    let mut offerings = Vec::new();
    for at in 1..=400i64 {
        let capacity = Resources::new(at * 1000, at * 2 * GI).with_pods(at * 10);
        let allocatable = Resources::new(at * 1000 - 100, at * 2 * GI - 10 * MI).with_pods(at * 10);
        for zone in ["test-zone-1", "test-zone-2", "test-zone-3"] {
            offerings.push(Offering {
                name: format!("fake-it-{at}"),
                zone: Some(zone.to_owned()),
                capacity: capacity.clone(),
                allocatable: Some(allocatable.clone()),
                price: at * UNIT,
                ..Offering::default()
            });
        }
    }
    Group { name: "default".to_owned(), offerings, mixing: true, ..Group::default() }
}

fn letter(rng: &mut Rng) -> &'static str {
    ["a", "b", "c", "d", "e", "f", "g"][rng.usize(..7)]
}

pub fn size(rng: &mut Rng) -> Resources {
    let cpu = [100, 250, 500, 1000, 1500][rng.usize(..5)];
    let memory = [100, 256, 512, 1024, 2048, 4096][rng.usize(..6)];
    Resources::new(cpu, memory * MI)
}

fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

pub fn term(key: &str, selector: Selector) -> PodTerm {
    PodTerm { topology_key: key.to_owned(), selector: Some(selector), ..PodTerm::default() }
}

fn pods(count: usize) -> Vec<Pod> {
    let mut rng = Rng::with_seed(42);
    let rng = &mut rng;
    (0..count)
        .map(|at| {
            let requests = size(rng);
            let mut spec = PodSpec {
                containers: vec![Container { requests, ..Container::default() }],
                labels: labels("my-label", letter(rng)),
                ..PodSpec::default()
            };
            match at % 5 {
                kind @ (1 | 2) => spec.spread.push(Spread {
                    topology_key: [keys::ZONE, keys::HOSTNAME][kind - 1].to_owned(),
                    selector: Some(Selector::label("my-label", letter(rng))),
                    ..Spread::default()
                }),
                3 => {
                    let value = letter(rng);
                    spec.labels = labels("my-affininity", value);
                    spec.affinity
                        .pods
                        .required
                        .push(term(keys::ZONE, Selector::label("my-affininity", value)));
                }
                4 => {
                    spec.labels = labels("app", "nginx");
                    spec.affinity.anti.required.push(term(keys::HOSTNAME, Selector::label("app", "nginx")));
                }
                _ => {}
            }
            Pod {
                namespace: "default".to_owned(),
                name: format!("pod-{at}"),
                spec: Arc::new(spec),
                ..Pod::default()
            }
        })
        .collect()
}

pub fn units(price: Price) -> f64 {
    price as f64 / UNIT as f64
}

/// What the pods and the overhead of so many nodes take at the least.
pub fn lower_bound(cluster: &Cluster, nodes: usize) -> f64 {
    let requests = cluster.pods.iter().map(|pod| &pod.spec.containers[0].requests);
    let (cpu, memory) = requests.fold((0, 0), |sum, r| (sum.0 + r.cpu, sum.1 + r.memory));
    let nodes = nodes as f64;
    (cpu as f64 / 1000.0 + 0.1 * nodes).max((memory as f64 + 10.0 * MI as f64 * nodes) / (2.0 * GI as f64))
}

pub fn diverse() -> Vec<Report> {
    [(1_000, 100.0), (5_000, 80.0), (20_000, 500.0)]
        .into_iter()
        .map(|(count, bar)| {
            let cluster = Cluster { pods: pods(count), groups: vec![group()], ..Cluster::default() };
            crate::forget_peak();
            let (time, plan) = timed(|| scale_up(&cluster));
            let nodes = plan.machines.len();
            let ratio = units(plan.price) / lower_bound(&cluster, nodes);
            // Of a thousand pods the bound is further away: rounding is the larger part.
            let price = if count < 5_000 { 1.15 } else { 1.10 };
            let good = time <= bar && nodes == count / 5 && ratio <= price && plan.bindings.len() == count;
            Report {
                what: format!("karpenter diverse {count}"),
                numbers: format!(
                    "{time:8.1} ms (bar {bar}), {nodes} nodes, price {ratio:.3} of the bound (bar {price}), {} unplaced, {:.1} MB",
                    count - plan.bindings.len(),
                    megabytes(crate::peak())
                ),
                good,
            }
        })
        .collect()
}

pub fn preferences() -> Vec<Report> {
    let mut rng = Rng::with_seed(42);
    let anti = |weight: i32, key: &str| Weighted {
        weight,
        term: PodTerm {
            topology_key: key.to_owned(),
            selector: Some(Selector::label("app", "nginx")),
            ..PodTerm::default()
        },
    };
    let zone = Requirement::new(keys::ZONE, Operator::In, &["test-zone-1"]);
    let requests = size(&mut rng);
    let spec = PodSpec {
        labels: labels("app", "nginx"),
        containers: vec![Container { requests, ..Container::default() }],
        affinity: Affinity {
            node: NodeAffinity {
                required: None,
                preferred: vec![Weighted {
                    weight: 1,
                    term: NodeTerm { labels: vec![zone], fields: Vec::new() },
                }],
            },
            anti: PodAffinity {
                required: Vec::new(),
                preferred: vec![anti(10, keys::ZONE), anti(1, keys::HOSTNAME)],
            },
            ..Affinity::default()
        },
        ..PodSpec::default()
    };
    let pods: Vec<Pod> = (0..4_000)
        .map(|at| Pod {
            namespace: "default".to_owned(),
            name: format!("pod-{at}"),
            spec: Arc::new(spec.clone()),
            ..Pod::default()
        })
        .collect();
    let mut cluster = Cluster { pods, groups: vec![group()], ..Cluster::default() };
    let mut reports = Vec::new();
    for (respect, most) in [(true, 4_000), (false, 21)] {
        cluster.settings.preferences = if respect { Preferences::Respect } else { Preferences::Ignore };
        crate::forget_peak();
        let (time, plan): (f64, ScaleUp) = timed(|| scale_up(&cluster));
        let nodes = plan.machines.len();
        let right = if respect { nodes == most } else { nodes <= most };
        reports.push(Report {
            what: format!("karpenter preferences {}", if respect { "respected" } else { "ignored" }),
            numbers: format!(
                "{time:8.1} ms (bar 500), {nodes} nodes (bar {most}), price {:.3} of the bound, {:.1} MB",
                units(plan.price) / lower_bound(&cluster, nodes),
                megabytes(crate::peak())
            ),
            good: time <= 500.0 && right && plan.bindings.len() == 4_000,
        });
    }
    reports
}

/// A thousand nodes with thirty diverse pods each, all candidates: a place elsewhere is looked for each of them.
pub fn scan() -> Vec<Report> {
    let mut cluster =
        Cluster { now: 10_000, pods: pods(30_000), groups: vec![group()], ..Cluster::default() };
    cluster.groups[0].scale_down.cpu_threshold = 1_000;
    cluster.groups[0].scale_down.memory_threshold = 1_000;
    for at in 0..1_000 {
        let name = format!("node-{at}");
        let zone = ["test-zone-1", "test-zone-2", "test-zone-3"][at % 3];
        let labels = [(keys::HOSTNAME, name.as_str()), (keys::ZONE, zone)];
        cluster.nodes.push(Node {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            name: name.clone(),
            allocatable: Resources::new(24_000, 48 * GI).with_pods(200),
            ready: true,
            group: Some("default".to_owned()),
            offering: Some("fake-it-24".to_owned()),
            unneeded_since: Some(0),
            ..Node::default()
        });
        for pod in &mut cluster.pods[at * 30..(at + 1) * 30] {
            pod.node = Some(name.clone());
            pod.phase = Phase::Running;
            pod.owner = Some(Owner { kind: OwnerKind::ReplicaSet, name: "owner".to_owned() });
        }
    }
    crate::forget_peak();
    let (time, plan) = timed(|| scale_down(&cluster));
    vec![Report {
        what: "scan of 1,000 nodes x 30 diverse".to_owned(),
        numbers: format!(
            "{time:8.1} ms (bar 5000), {:.2} ms for each candidate in the mean (bar 5), {} could go, {:.1} MB",
            time / 1000.0,
            plan.removed.len(),
            megabytes(crate::peak())
        ),
        good: time <= 5_000.0,
    }]
}

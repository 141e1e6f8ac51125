//! Cluster Autoscaler's benchmarks.

use crate::{Report, timed};
use hostler_planner::model::*;
use hostler_planner::{scale_down, scale_up};
use std::sync::Arc;

fn spec(cpu: i64, memory: i64) -> PodSpec {
    let container = Container { requests: Resources::new(cpu, memory), ..Container::default() };
    PodSpec { containers: vec![container], ..PodSpec::default() }
}

fn pod(at: usize, spec: Arc<PodSpec>) -> Pod {
    Pod { namespace: "default".to_owned(), name: format!("pod-{at}"), spec, ..Pod::default() }
}

fn group(cpu: i64, memory: i64, max: u32) -> Group {
    let size = Resources::new(cpu, memory).with_pods(100);
    let offering = Offering {
        name: "only".to_owned(),
        allocatable: Some(size.clone()),
        capacity: size,
        price: 1_000_000_000,
        ..Offering::default()
    };
    Group { name: "group".to_owned(), max, offerings: vec![offering], ..Group::default() }
}

/// The price of so many nodes, all of one type, against that of as many as the sums of all pods take at the least.
fn of_the_bound(cluster: &Cluster, nodes: usize) -> f64 {
    let size = &cluster.groups[0].offerings[0].capacity;
    let requests = cluster.pods.iter().map(|pod| &pod.spec.containers[0].requests);
    let (cpu, memory) = requests.fold((0, 0), |sum, r| (sum.0 + r.cpu, sum.1 + r.memory));
    let pods = cluster.pods.len() as f64 / size.pods as f64;
    let least = (cpu as f64 / size.cpu as f64).max(memory as f64 / size.memory as f64).max(pods).ceil();
    nodes as f64 / least
}

pub fn binpacking() -> Vec<Report> {
    let (small, large) = (Arc::new(spec(50, 100)), Arc::new(spec(95, 190)));
    let kind = |at: usize| if at < 50_000 { &small } else { &large };
    let mut reports = Vec::new();
    for (what, shared, bar) in [("classes", true, 5.0), ("objects", false, 60.0)] {
        crate::forget_peak();
        let before = crate::peak();
        let pods = (0..51_000)
            .map(|at| pod(at, if shared { kind(at).clone() } else { Arc::new((**kind(at)).clone()) }))
            .collect();
        let cluster = Cluster { pods, groups: vec![group(1000, 5000, 3000)], ..Cluster::default() };
        let input = crate::peak();
        let (time, plan) = timed(|| scale_up(&cluster));
        let (nodes, memory) = (plan.machines.len(), (crate::peak() - before) >> 20);
        reports.push(Report {
            what: format!("autoscaler binpacking from {what}"),
            numbers: format!(
                "{time:8.1} ms (bar {bar}), {nodes} nodes (bar 2595), price {:.3} of the bound, {memory} MiB of which {} are the pods (bar 50)",
                of_the_bound(&cluster, nodes),
                (input - before) >> 20
            ),
            good: time <= bar && nodes == 2595 && plan.bindings.len() == 51_000 && memory <= 50,
        });
    }
    reports
}

pub fn up() -> Vec<Report> {
    crate::forget_peak();
    let pods = (0..50_000).map(|at| pod(at, Arc::new(spec(200, 200)))).collect();
    let cluster = Cluster { pods, groups: vec![group(10_000, 10_000, 2_000)], ..Cluster::default() };
    let (time, plan) = timed(|| scale_up(&cluster));
    let (nodes, memory) = (plan.machines.len(), crate::peak() >> 20);
    vec![Report {
        what: "autoscaler up 50,000".to_owned(),
        numbers: format!(
            "{time:8.1} ms (bar 200), {nodes} nodes (bar 1000), price {:.3} of the bound, {memory} MiB (bar 200)",
            of_the_bound(&cluster, nodes)
        ),
        good: time <= 200.0 && nodes == 1000 && plan.bindings.len() == 50_000 && memory <= 200,
    }]
}

/// Nodes of 10,000m and 100 pods, each with so many pods of 100m.
fn full(nodes: usize, pods_each: usize) -> Cluster {
    let spec = Arc::new(spec(100, 100));
    let mut cluster =
        Cluster { now: 10_000, groups: vec![group(10_000, 10_000, 20_000)], ..Cluster::default() };
    for at in 0..nodes {
        let name = format!("node-{at}");
        for which in 0..pods_each {
            let mut pod = pod(at * pods_each + which, spec.clone());
            pod.node = Some(name.clone());
            pod.phase = Phase::Running;
            pod.annotations
                .insert("cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(), "true".to_owned());
            cluster.pods.push(pod);
        }
        cluster.nodes.push(Node {
            labels: [(keys::HOSTNAME.to_owned(), name.clone())].into(),
            name,
            allocatable: Resources::new(10_000, 10_000).with_pods(100),
            ready: true,
            group: Some("group".to_owned()),
            offering: Some("only".to_owned()),
            unneeded_since: Some(0),
            ..Node::default()
        });
    }
    cluster
}

pub fn down() -> Vec<Report> {
    crate::forget_peak();
    let cluster = full(2_000, 40);
    let (time, plan) = timed(|| scale_down(&cluster));
    let removed = plan.removed.len();
    vec![Report {
        what: "autoscaler down 2,000 / 80,000".to_owned(),
        numbers: format!(
            "{time:8.1} ms (bar 300), {removed} removed (bar 1200), price {:.3} of the bound, {} MiB",
            of_the_bound(&cluster, 2_000 - removed),
            crate::peak() >> 20
        ),
        good: time <= 300.0 && removed == 1200,
    }]
}

/// The same cluster ten times as large must not cost more for each pod.
pub fn large() -> Vec<Report> {
    let mut each = Vec::new();
    crate::forget_peak();
    for nodes in [1_000, 10_000] {
        let mut cluster = full(nodes, 30);
        cluster.pods.extend((0..1_000).map(|at| pod(at, Arc::new(spec(200, 200)))));
        let (time, (up, down)) = timed(|| (scale_up(&cluster), scale_down(&cluster)));
        let sizes = (up.bindings.len(), down.removed.len());
        each.push((time * 1000.0 / (nodes * 30) as f64, time, sizes));
    }
    let memory = crate::peak() >> 20;
    let ratio = each[1].0 / each[0].0;
    vec![Report {
        what: "10,000 nodes / 300,000 pods".to_owned(),
        numbers: format!(
            "{:8.1} ms, {:.2} us for each pod, {ratio:.2} times that at 1,000 nodes (bar 2), {memory} MiB (bar 1024)",
            each[1].1, each[1].0
        ),
        good: ratio <= 2.0 && memory <= 1024,
    }]
}

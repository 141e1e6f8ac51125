//! Cluster Autoscaler's benchmarks.

use crate::{MB, Report, megabytes, timed};
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
        let (nodes, memory) = (plan.machines.len(), crate::peak() - before);
        reports.push(Report {
            what: format!("autoscaler binpacking from {what}"),
            numbers: format!(
                "{time:8.1} ms (bar {bar}), {nodes} nodes (bar 2595), price {:.3} of the bound, {:.1} MB of which {:.1} are the pods (bar 50)",
                of_the_bound(&cluster, nodes),
                megabytes(memory),
                megabytes(input - before)
            ),
            good: time <= bar && nodes == 2595 && plan.bindings.len() == 51_000 && memory <= 50 * MB,
        });
    }
    reports
}

pub fn up() -> Vec<Report> {
    crate::forget_peak();
    let pods = (0..50_000).map(|at| pod(at, Arc::new(spec(200, 200)))).collect();
    let cluster = Cluster { pods, groups: vec![group(10_000, 10_000, 2_000)], ..Cluster::default() };
    let (time, plan) = timed(|| scale_up(&cluster));
    let (nodes, memory) = (plan.machines.len(), crate::peak());
    vec![Report {
        what: "autoscaler up 50,000".to_owned(),
        numbers: format!(
            "{time:8.1} ms (bar 200), {nodes} nodes (bar 1000), price {:.3} of the bound, {:.1} MB (bar 200)",
            of_the_bound(&cluster, nodes),
            megabytes(memory)
        ),
        good: time <= 200.0 && nodes == 1000 && plan.bindings.len() == 50_000 && memory <= 200 * MB,
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
            "{time:8.1} ms (bar 300), {removed} removed (bar 1200), price {:.3} of the bound, {:.1} MB",
            of_the_bound(&cluster, 2_000 - removed),
            megabytes(crate::peak())
        ),
        good: time <= 300.0 && removed == 1200,
    }]
}

/// The same cluster ten times as large, with ten times as many pods that wait, must not cost more for each pod.
pub fn large() -> Vec<Report> {
    let mut each = Vec::new();
    crate::forget_peak();
    for nodes in [1_000, 10_000] {
        let mut cluster = full(nodes, 30);
        cluster.pods.extend((0..nodes).map(|at| pod(at, Arc::new(spec(200, 200)))));
        let (time, (up, down)) = timed(|| (scale_up(&cluster), scale_down(&cluster)));
        let (bought, removed) = (up.machines.len(), down.removed.len());
        let price = of_the_bound(&cluster, nodes + bought - removed);
        let good = up.bindings.len() == nodes && bought == 0 && price <= 1.05;
        each.push((time * 1000.0 / cluster.pods.len() as f64, time, bought, removed, price, good));
    }
    let memory = crate::peak();
    let ratio = each[1].0 / each[0].0;
    let (per_pod, time, bought, removed, price, _) = each[1];
    vec![Report {
        what: "10,000 nodes / 300,000 pods".to_owned(),
        numbers: format!(
            "{time:8.1} ms, {per_pod:.2} us for each pod, {ratio:.2} times that at 1,000 nodes (bar 2), {bought} bought (bar 0), {removed} removed, price {price:.3} of the bound (bar 1.05), {:.1} MB (bar 1 GiB)",
            megabytes(memory)
        ),
        good: ratio <= 2.0 && memory <= 1 << 30 && each.iter().all(|one| one.5),
    }]
}

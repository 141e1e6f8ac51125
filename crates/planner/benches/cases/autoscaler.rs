//! Cluster Autoscaler's benchmarks.

use crate::{Report, timed};
use hostler_planner::model::*;
use hostler_planner::scale_up;
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
                "{time:8.1} ms (bar {bar}), {nodes} nodes (bar 2595), {memory} MiB of which {} are the pods (bar 50)",
                (input - before) >> 20
            ),
            good: time <= bar && nodes == 2595 && plan.bindings.len() == 51_000 && memory <= 50,
        });
    }
    reports
}

pub fn up() -> Vec<Report> {
    crate::forget_peak();
    let before = crate::peak();
    let pods = (0..50_000).map(|at| pod(at, Arc::new(spec(200, 200)))).collect();
    let cluster = Cluster { pods, groups: vec![group(10_000, 10_000, 2_000)], ..Cluster::default() };
    let (time, plan) = timed(|| scale_up(&cluster));
    let (nodes, memory) = (plan.machines.len(), (crate::peak() - before) >> 20);
    vec![Report {
        what: "autoscaler up 50,000".to_owned(),
        numbers: format!("{time:8.1} ms (bar 200), {nodes} nodes (bar 1000), {memory} MiB (bar 200)"),
        good: time <= 200.0 && nodes == 1000 && plan.bindings.len() == 50_000 && memory <= 200,
    }]
}

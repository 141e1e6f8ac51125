//! Consolidation: plans by the checker's rules, tables of nodes that stay, and what becomes of them.

use crate::properties::seeds;
use crate::{generate, giving_back, replay};
use hostler_planner::model::*;
use hostler_planner::{Consolidated, NewMachine, Target, consolidate, scale_up};

/// Groups of several types, nodes that rested or not.
fn random(seed: u64) -> Cluster {
    let mut cluster = giving_back::random(seed, &generate::SETTLED);
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xC0_50_1D);
    for group in &mut cluster.groups {
        group.mixing |= rng.u32(..10) > 3;
        group.max = group.max.max(rng.u32(..20));
        group.consolidation.enabled = rng.u32(..10) > 0;
        group.consolidation.minimum_saving = [0, 15, 15, 40][rng.usize(..4)];
        group.consolidation.saving_per_pod = [0, 0, 100, 400][rng.usize(..4)];
        group.scale_up.cpu_threshold = [0, 80][rng.usize(..2)];
        group.scale_up.memory_threshold = [0, 80][rng.usize(..2)];
    }
    for node in &mut cluster.nodes {
        node.consolidated = (rng.u32(..10) == 0).then_some(9_000);
        node.created = if rng.u32(..10) == 0 { 9_900 } else { 0 };
        node.bought_by_usage = rng.u32(..5) == 0;
        if rng.u32(..10) > 0 {
            let group = &cluster.groups[rng.usize(..cluster.groups.len())];
            let offering = &group.offerings[rng.usize(..group.offerings.len())];
            node.group = Some(group.name.clone());
            node.labels.extend(group.labels.clone());
            node.labels.extend(offering.zone.iter().map(|zone| (keys::ZONE.to_owned(), zone.clone())));
            node.offering = Some(offering.name.clone());
            node.allocatable = offering.capacity.clone();
        }
    }
    if rng.bool() {
        cluster.pods.retain(|pod| pod.node.is_some());
    }
    for pod in &mut cluster.pods {
        // Most are easy to move: it is about where to.
        if rng.u32(..3) > 0 {
            pod.annotations
                .insert("cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(), "true".to_owned());
        }
    }
    cluster
}

/// The cluster after a plan was carried out, all at once.
fn afterwards(cluster: &Cluster, plan: &Consolidated) -> Cluster {
    let mut after = cluster.clone();
    let name = |number: usize| format!("new{number}");
    for (number, NewMachine { group, offering }) in plan.machines.iter().enumerate() {
        let group = &cluster.groups[*group];
        let offering = &group.offerings[*offering];
        let mut labels = group.labels.clone();
        labels.extend(offering.labels.clone());
        labels.extend(offering.zone.iter().map(|zone| (keys::ZONE.to_owned(), zone.clone())));
        labels.insert(keys::HOSTNAME.to_owned(), name(number));
        after.nodes.push(Node {
            name: name(number),
            labels,
            taints: group.taints.clone(),
            allocatable: offering.capacity.clone(),
            ready: true,
            created: cluster.now,
            group: Some(group.name.clone()),
            offering: Some(offering.name.clone()),
            attach_limits: offering.attach_limits.clone(),
            ..Node::default()
        });
    }
    for binding in plan.steps.iter().flat_map(|step| &step.moves) {
        after.pods[binding.pod].node = Some(match binding.target {
            Target::Node(to) => cluster.nodes[to].name.clone(),
            Target::Machine(_) => unreachable!("a machine in flight takes no pods"),
            Target::New(number) => name(number),
        });
    }
    for at in plan.touched() {
        after.nodes[at].consolidated = Some(cluster.now);
    }
    let gone: Vec<String> =
        plan.steps.iter().flat_map(|step| &step.removed).map(|at| cluster.nodes[*at].name.clone()).collect();
    after.nodes.retain(|node| !gone.contains(&node.name));
    after.pods.retain(|pod| pod.node.as_ref().is_none_or(|node| !gone.contains(node)));
    after
}

#[test]
fn what_is_replaced_costs_less_and_leaves_no_pod_behind() {
    let (mut removed, mut replaced, mut together, mut pods, mut contented) = (0, 0, 0, 0, 0);
    for seed in seeds(4_000) {
        let cluster = random(seed);
        let plan = consolidate(&cluster);
        replay::consolidated(&cluster, &plan).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(plan, consolidate(&cluster), "seed {seed}: the same input gives the same plan");
        for step in &plan.steps {
            removed += step.removed.len();
            replaced += usize::from(!step.machines.is_empty());
            together += usize::from(step.removed.len() > 1);
            pods += step.moves.len();
        }
        let after = afterwards(&cluster, &plan);
        assert_eq!(
            consolidate(&after)
                .steps
                .iter()
                .flat_map(|s| &s.removed)
                .filter(|at| after.nodes[**at].consolidated == Some(after.now))
                .count(),
            0,
            "seed {seed}: twice in an hour"
        );
        let short = cluster.groups.iter().any(|group| group.min > 0);
        let before = scale_up(&cluster);
        let content = before.machines.is_empty() && before.unplaced().is_empty();
        if content && !plan.steps.is_empty() && !short {
            contented += 1;
            let then = scale_up(&after);
            assert!(then.machines.is_empty(), "seed {seed}: it grows by {:?}", then.machines);
        }
    }
    println!(
        "{removed} nodes with {pods} pods gone, {replaced} steps with machines, {together} of several nodes, {contented} content before and after"
    );
    if std::env::var("HOSTLER_SEED").is_err() {
        assert!(removed > 500 && replaced > 100 && together > 10 && pods > 500 && contented > 200);
    }
}

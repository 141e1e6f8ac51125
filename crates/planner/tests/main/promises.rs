//! What the random clusters would show sooner or later, shown one by one.

use crate::replay;
use hostler_planner::model::*;
use hostler_planner::{Explanation, Fate, ScaleUp, Target, scale_down, scale_up};
use std::sync::Arc;

fn spec(cpu: i64, memory: i64) -> PodSpec {
    PodSpec {
        labels: [("app".to_owned(), "web".to_owned())].into(),
        containers: vec![Container { requests: Resources::new(cpu, memory), ..Container::default() }],
        ..PodSpec::default()
    }
}

fn waiting(name: &str, spec: PodSpec) -> Pod {
    Pod { namespace: "default".to_owned(), name: name.to_owned(), spec: Arc::new(spec), ..Pod::default() }
}

fn running(name: &str, node: &str, spec: PodSpec) -> Pod {
    Pod {
        node: Some(node.to_owned()),
        phase: Phase::Running,
        owner: Some(Owner { kind: OwnerKind::ReplicaSet, name: "owner".to_owned() }),
        ..waiting(name, spec)
    }
}

fn size(cpu: i64) -> Resources {
    Resources::new(cpu, 10_000).with_pods(10)
}

fn node(name: &str, cpu: i64) -> Node {
    Node {
        name: name.to_owned(),
        labels: [(keys::HOSTNAME.to_owned(), name.to_owned())].into(),
        allocatable: size(cpu),
        ready: true,
        group: Some("g".to_owned()),
        offering: Some("t".to_owned()),
        unneeded_since: Some(0),
        ..Node::default()
    }
}

/// Of no group: how large it is says nothing of others.
fn lone(name: &str, cpu: i64) -> Node {
    Node { group: None, ..node(name, cpu) }
}

/// One group that buys one type of 1,000m.
fn cluster(nodes: Vec<Node>, pods: Vec<Pod>) -> Cluster {
    let offering = Offering {
        name: "t".to_owned(),
        capacity: size(1000),
        allocatable: Some(size(1000)),
        price: 10,
        ..Offering::default()
    };
    let group = Group {
        name: "g".to_owned(),
        offerings: vec![offering],
        max: 10,
        scale_down: ScaleDownPolicy {
            cpu_threshold: 101,
            memory_threshold: 101,
            ..ScaleDownPolicy::default()
        },
        ..Group::default()
    };
    Cluster { now: 10_000, nodes, pods, groups: vec![group], ..Cluster::default() }
}

fn planned(cluster: &Cluster) -> ScaleUp {
    let plan = scale_up(cluster);
    replay::up(cluster, &plan).unwrap();
    plan
}

fn said(plan: &ScaleUp) -> Vec<String> {
    plan.pods.iter().flat_map(|verdict| &verdict.reasons).map(ToString::to_string).collect()
}

/// Pods that wait fit on two nodes in one way only, which is not the first that comes to mind. A third node could be
/// emptied into what the first way leaves over, but not into what the right one does.
fn missed() -> Cluster {
    let mut cluster = cluster(vec![node("n1", 1000), node("n2", 1000), node("n3", 400)], Vec::new());
    for (at, cpu) in [400, 400, 300, 300, 300, 300].into_iter().enumerate() {
        cluster.pods.push(waiting(&format!("w{at}"), spec(cpu, 100)));
    }
    cluster.pods.push(running("r", "n3", spec(200, 100)));
    cluster
}

#[test]
fn a_node_stays_where_the_scale_up_would_miss_it() {
    let mut cluster = missed();
    let plan = planned(&cluster);
    assert!(plan.machines.is_empty() && plan.unplaced().is_empty(), "nothing is bought: {plan:?}");
    let plan = scale_down(&cluster);
    assert_eq!(plan.removed, [] as [usize; 0]);
    let reason = Explanation::node("n3", plan.nodes[2].reason.clone()).to_string();
    assert_eq!(reason, "node n3 kept: pod w5 waits for room");
    // One that is not in the way goes all the same.
    cluster.nodes.push(node("n4", 250));
    let plan = scale_down(&cluster);
    replay::down(&cluster, &plan).unwrap();
    assert_eq!(plan.removed, [3]);
    assert_eq!(plan.nodes[2].fate, Fate::Keep);
}

#[test]
fn preferences_buy_nothing_and_are_followed_where_that_is_free() {
    let ssd = |mut node: Node| {
        node.labels.insert("disk".to_owned(), "ssd".to_owned());
        node
    };
    let wants = |cpu: i64| {
        let mut spec = spec(cpu, 100);
        let labels = vec![Requirement::new("disk", Operator::In, &["ssd"])];
        spec.affinity.node.preferred =
            vec![Weighted { weight: 1, term: NodeTerm { labels, fields: Vec::new() } }];
        spec
    };
    let soft = |mut node: Node| {
        node.taints = vec![Taint::new("maybe", "", Effect::PreferNoSchedule)];
        node
    };
    let table = [
        (vec![node("n1", 1000), ssd(node("n2", 1000))], wants(500), Target::Node(1)),
        // There is no room on the one it would like.
        (vec![node("n1", 1000), ssd(lone("n2", 400))], wants(500), Target::Node(0)),
        (vec![soft(node("n1", 1000)), node("n2", 1000)], spec(500, 100), Target::Node(1)),
        (vec![soft(node("n1", 1000)), lone("n2", 400)], spec(500, 100), Target::Node(0)),
        (vec![soft(lone("n1", 400)), lone("n2", 400)], spec(500, 100), Target::New(0)),
    ];
    for (at, (nodes, spec, target)) in table.into_iter().enumerate() {
        let plan = planned(&cluster(nodes, vec![waiting("p", spec)]));
        assert_eq!(plan.bindings[0].target, target, "row {at}");
    }
}

/// Where several new nodes cost the same it is what the pods would like that decides; whatever finds the plan.
#[test]
fn of_new_nodes_for_one_price_the_one_that_pods_would_like_is_bought() {
    type Change = fn(&mut Cluster);
    fn sold(cluster: &mut Cluster, zones: &[&str]) {
        let one = cluster.groups[0].offerings[0].clone();
        let zoned = |zone: &&str| Offering { zone: Some((*zone).to_owned()), ..one.clone() };
        cluster.groups[0].offerings = zones.iter().map(zoned).collect();
    }
    fn each(cluster: &mut Cluster, with: impl Fn(&mut PodSpec)) {
        for pod in &mut cluster.pods {
            with(Arc::make_mut(&mut pod.spec));
        }
    }
    fn zone_b() -> Weighted<NodeTerm> {
        let labels = vec![Requirement::new(keys::ZONE, Operator::In, &["b"])];
        Weighted { weight: 1, term: NodeTerm { labels, fields: Vec::new() } }
    }
    fn beside(app: &str) -> Weighted<PodTerm> {
        let term = PodTerm {
            topology_key: keys::ZONE.to_owned(),
            selector: Some(Selector::label("app", app)),
            ..PodTerm::default()
        };
        Weighted { weight: 1, term }
    }
    /// A full node in a zone, with a pod of an app.
    fn runs(cluster: &mut Cluster, zone: &str, app: &str) {
        let mut there = lone(&format!("in-{zone}"), 100);
        there.labels.insert(keys::ZONE.to_owned(), zone.to_owned());
        let mut spec = spec(100, 100);
        spec.labels.insert("app".to_owned(), app.to_owned());
        cluster.pods.push(running(&format!("r-{zone}"), &there.name, spec));
        cluster.nodes.push(there);
    }
    let table: &[(Change, &str)] = &[
        (
            |c| {
                sold(c, &["a", "b", "c"]);
                each(c, |s| s.affinity.node.preferred.push(zone_b()));
            },
            "g b",
        ),
        // It costs more there.
        (
            |c| {
                sold(c, &["a", "b"]);
                c.groups[0].offerings[1].price = 11;
                each(c, |s| s.affinity.node.preferred.push(zone_b()));
            },
            "g a",
        ),
        (
            |c| {
                sold(c, &["a", "b"]);
                each(c, |s| s.affinity.anti.preferred.push(beside("web")));
                runs(c, "a", "web");
            },
            "g b",
        ),
        (
            |c| {
                sold(c, &["a", "b"]);
                each(c, |s| s.affinity.pods.preferred.push(beside("db")));
                runs(c, "b", "db");
            },
            "g b",
        ),
        (
            |c| {
                sold(c, &["a", "b"]);
                each(c, |s| {
                    s.spread.push(Spread {
                        topology_key: keys::ZONE.to_owned(),
                        hard: false,
                        selector: Some(Selector::label("app", "web")),
                        ..Spread::default()
                    });
                });
                runs(c, "a", "web");
            },
            "g b",
        ),
        (
            |c| {
                let other = Group { name: "h".to_owned(), ..c.groups[0].clone() };
                c.groups[0].taints = vec![Taint::new("maybe", "", Effect::PreferNoSchedule)];
                c.groups.push(other);
            },
            "h -",
        ),
        (
            |c| {
                let other = Group { name: "h".to_owned(), ..c.groups[0].clone() };
                c.groups[0].taints = vec![Taint::new("maybe", "", Effect::PreferNoSchedule)];
                c.groups[0].offerings[0].price = 9;
                c.groups.push(other);
            },
            "g -",
        ),
    ];
    for (at, (change, expected)) in table.iter().enumerate() {
        for (pods, search) in [(1, 12), (1, 0), (14, 0)] {
            let all = (0..pods).map(|at| waiting(&format!("p{at}"), spec(700, 100))).collect();
            let mut cluster = cluster(Vec::new(), all);
            cluster.groups[0].mixing = true;
            cluster.groups[0].max = 20;
            cluster.settings.search_pods = search;
            change(&mut cluster);
            let plan = planned(&cluster);
            assert_eq!((plan.machines.len(), plan.unplaced().len()), (pods, 0), "row {at}");
            // A preference that looks at others is met by the first of them at least.
            let machine = plan.machines[0];
            let group = &cluster.groups[machine.group];
            let zone = group.offerings[machine.offering].zone.as_deref().unwrap_or("-");
            assert_eq!(format!("{} {zone}", group.name), *expected, "row {at}, {pods} pods");
        }
    }
}

/// With `Respect` they buy what they ask for, and are given up where that cannot be had.
#[test]
fn preferences_buy_nodes_where_they_are_to_be_respected() {
    let with = |change: &dyn Fn(&mut PodSpec)| {
        let mut spec = spec(400, 100);
        change(&mut spec);
        let mut cluster = cluster(Vec::new(), vec![waiting("p0", spec.clone()), waiting("p1", spec)]);
        let one = cluster.groups[0].offerings[0].clone();
        let zoned =
            |(zone, price): (&str, Price)| Offering { zone: Some(zone.to_owned()), price, ..one.clone() };
        cluster.groups[0].mixing = true;
        cluster.groups[0].offerings = [("a", 10), ("b", 30)].map(zoned).into();
        cluster
    };
    let prefers_zone = |zone: &'static str| {
        move |spec: &mut PodSpec| {
            let labels = vec![Requirement::new(keys::ZONE, Operator::In, &[zone])];
            let term = NodeTerm { labels, fields: Vec::new() };
            spec.affinity.node.preferred.push(Weighted { weight: 1, term });
        }
    };
    let apart = |spec: &mut PodSpec| {
        let term = PodTerm {
            topology_key: keys::HOSTNAME.to_owned(),
            selector: Some(Selector::label("app", "web")),
            ..PodTerm::default()
        };
        spec.affinity.anti.preferred.push(Weighted { weight: 1, term });
    };
    let table: [(Cluster, Price, Price); 3] =
        [(with(&prefers_zone("b")), 10, 30), (with(&prefers_zone("c")), 10, 10), (with(&apart), 10, 20)];
    for (at, (mut cluster, ignored, respected)) in table.into_iter().enumerate() {
        assert_eq!(planned(&cluster).price, ignored, "row {at}");
        cluster.settings.preferences = Preferences::Respect;
        assert_eq!(planned(&cluster).price, respected, "row {at}, respected");
    }
}

/// The smallest number is that of the nodes that are there, whether they have room or not; a new node counts as empty.
#[test]
fn spread_over_host_names_is_that_of_the_scheduler() {
    let spread = |cpu: i64| {
        let mut spec = spec(cpu, 100);
        spec.spread.push(Spread {
            topology_key: keys::HOSTNAME.to_owned(),
            selector: Some(Selector::label("app", "web")),
            ..Spread::default()
        });
        spec
    };
    let on = |nodes: &[&str]| -> Vec<Pod> {
        let pods = nodes.iter().enumerate();
        pods.map(|(at, node)| running(&format!("r{at}"), node, spread(100))).collect()
    };
    // By nodes, pods that run, pods that wait: how many nodes are bought.
    let table: [(&[i64], &[&str], usize, usize); 5] = [
        (&[1000, 1000], &["n0"], 1, 0),
        (&[1000, 1000], &["n0", "n1"], 2, 0),
        // The other node is too small for one more, so that the first must not get another.
        (&[1000, 50], &["n0"], 1, 1),
        (&[1000, 50], &["n0"], 2, 2),
        (&[1000], &["n0"], 3, 0),
    ];
    for (at, (sizes, there, count, bought)) in table.into_iter().enumerate() {
        let nodes = sizes.iter().enumerate().map(|(at, cpu)| lone(&format!("n{at}"), *cpu)).collect();
        let mut pods = on(there);
        pods.extend((0..count).map(|at| waiting(&format!("w{at}"), spread(100))));
        let plan = planned(&cluster(nodes, pods));
        assert_eq!((plan.machines.len(), plan.unplaced().len()), (bought, 0), "row {at}");
    }
}

#[test]
fn limits_of_all_groups_hold() {
    let pods = || (0..5).map(|at| waiting(&format!("p{at}"), spec(900, 100))).collect::<Vec<_>>();
    let table = [
        ("nodes", 3, 2, "group g: limit of 3 nodes for all groups reached"),
        ("cpu", 4_500, 3, "group g: limit of 4.5 CPU for all groups reached"),
        ("memory", 25_000, 1, "group g: limit of 25000 B memory for all groups reached"),
    ];
    for (resource, limit, bought, reason) in table {
        let mut one = cluster(vec![node("full", 1000)], pods());
        one.pods.push(running("r", "full", spec(1000, 100)));
        one.settings.limits.insert(resource.to_owned(), limit);
        // A second group must not help itself either.
        let other = Group { name: "h".to_owned(), ..one.groups[0].clone() };
        one.groups.push(other);
        let plan = planned(&one);
        assert_eq!(plan.machines.len(), bought, "{resource}");
        let one_of_both = said(&plan);
        assert!(one_of_both.contains(&reason.replace("group g", "group h")), "{one_of_both:?}");
    }
}

#[test]
fn a_new_node_is_as_large_as_those_that_were_seen() {
    let pod = |cpu: i64| waiting("p", spec(cpu, 100));
    let bought = |with: &dyn Fn(&mut Cluster), cpu: i64| {
        let mut one = cluster(Vec::new(), vec![pod(cpu)]);
        one.groups[0].offerings[0].allocatable = None;
        one.groups[0].offerings[0].capacity = Resources::new(1000, 8 << 30).with_pods(10);
        with(&mut one);
        scale_up(&one).machines.len()
    };
    let busy = |cpu: i64, ready: bool, group: &str| {
        let group = group.to_owned();
        move |one: &mut Cluster| {
            let full = Node { ready, unschedulable: true, group: Some(group.clone()), ..node("seen", cpu) };
            one.nodes.push(full);
        }
    };
    // Before one was seen the size less 100m, 200 MiB and 5 % of the memory, and 10 % of the disk.
    let asks = |memory: i64, disk: i64| {
        let mut spec = spec(100, memory);
        spec.containers[0].requests.ephemeral_storage = disk;
        let mut one = cluster(Vec::new(), vec![waiting("p", spec)]);
        one.groups[0].offerings[0].allocatable = None;
        let mut size = Resources::new(1000, 100_000 << 20).with_pods(10);
        size.ephemeral_storage = 1_000_000;
        one.groups[0].offerings[0].capacity = size;
        scale_up(&one).machines.len()
    };
    assert_eq!([94_800 << 20, (94_800 << 20) + 1].map(|memory| asks(memory, 0)), [1, 0]);
    assert_eq!([900_000, 900_001].map(|disk| asks(100, disk)), [1, 0]);
    assert_eq!([900, 901].map(|cpu| bought(&|_| (), cpu)), [1, 0]);
    assert_eq!([950, 951].map(|cpu| bought(&busy(950, true, "g"), cpu)), [1, 0]);
    assert_eq!([800, 801].map(|cpu| bought(&busy(800, true, "g"), cpu)), [1, 0]);
    // One that is not ready, or of another group, says nothing.
    assert_eq!([900, 901].map(|cpu| bought(&busy(950, false, "g"), cpu)), [1, 0]);
    assert_eq!([900, 901].map(|cpu| bought(&busy(950, true, "other"), cpu)), [1, 0]);
    // What is known of it comes before the margin.
    let known = |one: &mut Cluster| one.groups[0].offerings[0].allocatable = Some(size(970));
    assert_eq!([970, 971].map(|cpu| bought(&known, cpu)), [1, 0]);
}

#[test]
fn a_nominated_pod_has_its_room() {
    let mut cluster = cluster(vec![node("n1", 1000)], vec![waiting("p", spec(600, 100))]);
    cluster.pods[0].nominated_node = Some("n1".to_owned());
    cluster.pods.push(waiting("q", spec(600, 100)));
    let plan = planned(&cluster);
    assert_eq!(plan.bindings.iter().map(|b| (b.pod, b.target)).collect::<Vec<_>>(), [(1, Target::New(0))]);
    assert!(said(&plan).contains(&"pod p: will go to node n1, where others make room".to_owned()));
}

#[test]
fn what_is_below_the_cutoff_takes_no_room() {
    let mut low = spec(900, 100);
    low.priority = Some(-11);
    let cluster =
        cluster(vec![node("n1", 1000)], vec![running("low", "n1", low), waiting("p", spec(900, 100))]);
    assert_eq!(scale_up(&cluster).bindings[0].target, Target::Node(0));
}

#[test]
fn start_up_taints_are_not_there_for_long() {
    let starting = Taint::new("starting", "", Effect::NoSchedule);
    let mut one = cluster(vec![node("n1", 1000)], vec![waiting("p", spec(500, 100))]);
    one.nodes[0].taints = vec![starting.clone()];
    one.nodes[0].created = 9_900;
    assert_eq!(scale_up(&one).bindings[0].target, Target::New(0), "it is a taint as any other");
    one.groups[0].startup_taints = vec![starting.clone()];
    one.groups[0].taints = vec![starting];
    assert_eq!(scale_up(&one).bindings[0].target, Target::Node(0), "it will be gone");
    one.nodes.clear();
    assert_eq!(scale_up(&one).bindings[0].target, Target::New(0), "that of a new node as well");
    one.nodes = vec![Node { created: 0, taints: one.groups[0].taints.clone(), ..node("n1", 1000) }];
    assert_eq!(scale_up(&one).bindings[0].target, Target::New(0), "it should be gone and is not");
}

/// What has just come says that it is not ready, and not yet how large it is.
#[test]
fn a_node_that_starts_is_as_large_as_others_and_loses_its_taints() {
    for (taint, target) in [
        ("node.kubernetes.io/not-ready", Target::Node(0)),
        ("node.kubernetes.io/unreachable", Target::Node(0)),
        ("node.kubernetes.io/network-unavailable", Target::Node(0)),
        ("node.cloudprovider.kubernetes.io/uninitialized", Target::Node(0)),
        ("node.kubernetes.io/disk-pressure", Target::New(0)),
    ] {
        let taints = vec![Taint::new(taint, "", Effect::NoSchedule)];
        let starts =
            Node { ready: false, created: 9_900, taints, allocatable: Resources::default(), ..node("n1", 0) };
        let mut one = cluster(vec![starts], vec![waiting("p", spec(1_000, 100))]);
        let plan = planned(&one);
        assert_eq!(plan.bindings[0].target, target, "{taint}");
        // One that starts for too long is not waited for.
        one.nodes[0].created = 9_100;
        assert_eq!(planned(&one).bindings[0].target, Target::New(0), "{taint}");
    }
}

/// Which of two nodes goes where one of them must stay.
#[test]
fn empty_nodes_go_first() {
    for (there, goes) in [("n1", 1), ("n2", 0)] {
        let mut cluster =
            cluster(vec![node("n1", 1000), node("n2", 1000)], vec![running("r", there, spec(100, 100))]);
        cluster.groups[0].min = 1;
        assert_eq!(scale_down(&cluster).removed, [goes]);
    }
}

#[test]
fn what_is_not_ready_and_schedulable_does_not_count_for_the_minimum() {
    type Change = fn(&mut Node);
    let table: &[(Change, bool)] = &[
        (|_| (), true),
        (|n| n.ready = false, false),
        (
            |n| {
                n.ready = false;
                n.created = 9_900;
            },
            false,
        ),
        (|n| n.unschedulable = true, false),
        (|n| n.draining = true, false),
        (|n| n.group = None, false),
    ];
    for (at, (change, goes)) in table.iter().enumerate() {
        let mut cluster = cluster(vec![node("n1", 1000), node("n2", 1000)], Vec::new());
        cluster.groups[0].min = 1;
        change(&mut cluster.nodes[1]);
        assert_eq!(scale_down(&cluster).removed.len(), usize::from(*goes), "row {at}");
        // Nor does a machine that has not come.
        cluster.nodes.pop();
        let failed = at % 2 == 0;
        cluster.machines.push(Machine {
            name: "m".to_owned(),
            group: "g".to_owned(),
            offering: "t".to_owned(),
            failed,
            ..Machine::default()
        });
        assert!(scale_down(&cluster).removed.is_empty());
    }
}

/// What keeps a pod, or does not, beside what the table of `giving_back` has.
#[test]
fn pods_keep_their_nodes_for_a_reason() {
    const SAFE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
    type Change = fn(&mut Cluster);
    fn volume(cluster: &mut Cluster, source: VolumeSource) {
        let volume = Volume { name: "data".to_owned(), source };
        Arc::make_mut(&mut cluster.pods[0].spec).volumes.push(volume);
    }
    fn annotate(cluster: &mut Cluster, key: &str, value: &str) {
        cluster.pods[0].annotations.insert(key.to_owned(), value.to_owned());
    }
    fn budget(cluster: &mut Cluster, name: &str) {
        cluster.budgets.push(Budget {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            selector: Some(Selector::label("app", "web")),
            allowed: 9,
        });
    }
    let goes = "node n1: goes, its 1 pods fit elsewhere";
    let table: &[(Change, &str)] = &[
        (|_| (), goes),
        (|c| budget(c, "one"), goes),
        (
            |c| {
                budget(c, "one");
                budget(c, "two");
            },
            "node n1 kept: pod p has several budgets (one, two) and cannot be evicted",
        ),
        (|c| volume(c, VolumeSource::HostPath), "node n1 kept: pod p keeps data on the node in volume data"),
        (|c| volume(c, VolumeSource::EmptyDir { in_memory: true }), goes),
        (
            |c| {
                volume(c, VolumeSource::EmptyDir { in_memory: false });
                annotate(c, "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes", "other, data");
            },
            goes,
        ),
        (
            |c| {
                volume(c, VolumeSource::HostPath);
                annotate(c, SAFE, "true");
            },
            goes,
        ),
        (
            |c| annotate(c, SAFE, "false"),
            "node n1 kept: pod p has annotation cluster-autoscaler.kubernetes.io/safe-to-evict",
        ),
        (
            |c| annotate(c, "karpenter.sh/do-not-disrupt", "true"),
            "node n1 kept: pod p has annotation karpenter.sh/do-not-disrupt",
        ),
        (
            |c| {
                c.nodes[0]
                    .annotations
                    .insert("cluster-autoscaler.kubernetes.io/scale-down-disabled".into(), "true".into());
            },
            "node n1 kept: annotation cluster-autoscaler.kubernetes.io/scale-down-disabled",
        ),
        (
            |c| {
                c.nodes[0].annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
            },
            "node n1 kept: annotation karpenter.sh/do-not-disrupt",
        ),
        (
            |c| c.pods[0].owner = Some(Owner { kind: OwnerKind::Other, name: "own".to_owned() }),
            "node n1 kept: pod p has no controller that would make it anew",
        ),
        // What comes with the node goes with it.
        (
            |c| c.pods[0].owner = Some(Owner { kind: OwnerKind::Node, name: "n1".to_owned() }),
            "node n1: goes, it is empty",
        ),
        (
            |c| c.pods[0].owner = Some(Owner { kind: OwnerKind::DaemonSet, name: "agent".to_owned() }),
            "node n1: goes, it is empty",
        ),
        (|c| c.pods[0].phase = Phase::Finished, "node n1: goes, it is empty"),
        // Both have to be below, of what is asked for and of what is used.
        (
            |c| {
                c.groups[0].scale_down.cpu_threshold = 21;
                c.groups[0].scale_down.memory_threshold = 30;
            },
            "node n1 kept: 30 % of its memory is requested, threshold is 30 %",
        ),
        (
            |c| {
                c.groups[0].scale_down.cpu_threshold = 21;
                c.groups[0].scale_down.memory_threshold = 31;
            },
            goes,
        ),
        (
            |c| {
                c.groups[0].scale_down.memory_threshold = 31;
                c.nodes[0].usage = Some(Usage { cpu: 0, memory: 3_100 });
            },
            "node n1 kept: 31 % of its memory is used, threshold is 31 %",
        ),
    ];
    for (change, words) in table {
        let mut cluster = cluster(
            vec![node("n1", 1000), Node { group: None, ..node("n2", 1000) }],
            vec![running("p", "n1", spec(200, 3_000))],
        );
        change(&mut cluster);
        let plan = scale_down(&cluster);
        replay::down(&cluster, &plan).unwrap();
        assert_eq!(Explanation::node("n1", plan.nodes[0].reason.clone()).to_string(), *words);
        assert_eq!(plan.removed.is_empty(), words.contains("kept"), "{words}");
    }
}

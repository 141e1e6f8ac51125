//! Scale-up: what is bought, and what is said of it.

use crate::replay;
use hostler_planner::model::*;
use hostler_planner::{ScaleUp, Target, scale_up};
use std::sync::Arc;

fn offering(name: &str, cpu: i64, price: Price) -> Offering {
    let size = Resources::new(cpu, 8000).with_pods(10);
    let allocatable = Some(size.clone());
    Offering { name: name.to_owned(), capacity: size, allocatable, price, ..Offering::default() }
}

fn pod(name: &str, cpu: i64) -> Pod {
    let requests = Resources::new(cpu, 10);
    let containers = vec![Container { requests, ..Container::default() }];
    let labels = [("app".to_owned(), "web".to_owned())].into();
    let spec = Arc::new(PodSpec { containers, labels, ..PodSpec::default() });
    Pod { namespace: "default".to_owned(), name: name.to_owned(), spec, ..Pod::default() }
}

fn change(pod: &mut Pod, with: impl FnOnce(&mut PodSpec)) {
    with(Arc::make_mut(&mut pod.spec));
}

/// One pod of 1,000m, one group with a small and a large type.
fn simple() -> Cluster {
    let offerings = vec![offering("small", 2000, 10), offering("large", 8000, 30)];
    let group = Group { name: "g".to_owned(), offerings, max: 10, mixing: true, ..Group::default() };
    Cluster { now: 10_000, pods: vec![pod("p", 1000)], groups: vec![group], ..Cluster::default() }
}

fn words(plan: &ScaleUp) -> Vec<String> {
    plan.pods.iter().flat_map(|verdict| &verdict.reasons).map(ToString::to_string).collect()
}

fn own(cluster: &mut Cluster, kind: OwnerKind) {
    cluster.pods[0].owner = Some(Owner { kind, name: "owner".to_owned() });
}

/// A node of the group that takes all of a type's size.
fn there<'c>(cluster: &'c mut Cluster, offering: &str) -> &'c mut Node {
    let all = &cluster.groups[0].offerings;
    let allocatable = all.iter().find(|own| own.name == offering).unwrap().capacity.clone();
    cluster.nodes.push(Node {
        name: "n".to_owned(),
        allocatable,
        ready: true,
        group: Some("g".to_owned()),
        offering: Some(offering.to_owned()),
        ..Node::default()
    });
    cluster.nodes.last_mut().unwrap()
}

/// Everything is sold in these zones only.
fn zones(cluster: &mut Cluster, zones: &[&str]) {
    let offerings = &mut cluster.groups[0].offerings;
    let all = std::mem::take(offerings);
    for zone in zones {
        offerings.extend(all.iter().cloned().map(|one| Offering { zone: Some((*zone).to_owned()), ..one }));
    }
}

/// A cordoned node in a zone, with a pod that looks like the one that waits.
fn runs(cluster: &mut Cluster, zone: &str) {
    let node = there(cluster, "small");
    node.labels.insert(keys::ZONE.to_owned(), zone.to_owned());
    node.unschedulable = true;
    let pod = Pod { node: Some("n".to_owned()), phase: Phase::Running, ..pod("r", 10) };
    cluster.pods.push(pod);
}

fn beside(key: &str) -> PodTerm {
    let selector = Some(Selector::label("app", "web"));
    PodTerm { topology_key: key.to_owned(), selector, ..PodTerm::default() }
}

/// The pod has a claim that is bound to nothing.
fn claim(cluster: &mut Cluster) {
    let source = VolumeSource::Claim("data".to_owned());
    change(&mut cluster.pods[0], |s| s.volumes.push(Volume { name: "data".to_owned(), source }));
    let (namespace, name) = ("default".to_owned(), "data".to_owned());
    cluster.claims.push(Claim { namespace, name, ..Claim::default() });
}

fn fail(cluster: &mut Cluster) {
    let (name, group, offering) = ("m".to_owned(), "g".to_owned(), "small".to_owned());
    cluster.machines.push(Machine { name, group, offering, failed: true, ..Machine::default() });
}

#[test]
fn what_cannot_be_placed_is_explained() {
    type Change = fn(&mut Cluster);
    let table: &[(Change, &str)] = &[
        (|_| (), "group g: goes to a new small (0.00000 per hour)"),
        (
            |c| c.groups[0].taints = vec![Taint::new("dedicated", "gpu", Effect::NoSchedule)],
            "group g: taint dedicated=gpu not tolerated",
        ),
        (|c| c.pods[0] = pod("p", 9000), "offering large: needs 9 CPU, has 8"),
        (|c| c.groups[0].paused = true, "group g: is paused"),
        (|c| c.groups[0].scale_up.enabled = false, "group g: scale-up is off"),
        (|c| c.groups[0].last_scale_up = Some(9_990), "group g: grew a moment ago, rests until 10050"),
        (|c| c.groups[0].max = 0, "group g: has its 0 nodes"),
        // What failed takes a place, and says nothing of the type.
        (
            |c| {
                c.groups[0].mixing = false;
                c.groups[0].offerings[0].available = false;
                fail(c);
            },
            "group g: goes to a new large (0.00000 per hour)",
        ),
        (
            |c| {
                c.groups[0].max = 1;
                fail(c);
            },
            "group g: has its 1 nodes",
        ),
        (|c| c.groups[0].limits = [("cpu".to_owned(), 1000)].into(), "group g: limit of 1 CPU reached"),
        (
            |c| c.groups[0].limits = [("memory".to_owned(), 7_999)].into(),
            "group g: limit of 7999 B memory reached",
        ),
        (
            |c| c.groups[0].limits = [("memory".to_owned(), 8_000)].into(),
            "group g: goes to a new small (0.00000 per hour)",
        ),
        (
            |c| {
                c.groups[0].limits = [("gpu".to_owned(), 1)].into();
                for o in &mut c.groups[0].offerings {
                    o.capacity.extended.insert("gpu".to_owned(), 2);
                    o.allocatable = Some(o.capacity.clone());
                }
                change(&mut c.pods[0], |s| {
                    s.containers[0].requests = Resources::new(1000, 10).with("gpu", 1);
                });
            },
            "group g: limit of 1 gpu reached",
        ),
        (|c| c.groups[0].offerings.clear(), "group g: has no offerings"),
        (
            |c| c.groups[0].offerings.iter_mut().for_each(|o| o.available = false),
            "group g: no offering is available",
        ),
        (
            |c| change(&mut c.pods[0], |s| drop(s.node_selector.insert("disk".to_owned(), "ssd".to_owned()))),
            "group g: label disk=ssd is missing",
        ),
        (
            |c| change(&mut c.pods[0], |s| s.resource_claims.push("gpu".to_owned())),
            "pod p: resource claims (gpu) are not planned for",
        ),
        (
            |c| {
                change(&mut c.pods[0], |s| {
                    let source = VolumeSource::Claim("data".to_owned());
                    s.volumes.push(Volume { name: "data".to_owned(), source });
                });
            },
            "pod p: claim data does not exist",
        ),
        (
            |c| {
                change(&mut c.pods[0], |s| {
                    let selector = Some(Selector::label("app", "db"));
                    let topology_key = keys::HOSTNAME.to_owned();
                    s.affinity.pods.required.push(PodTerm { topology_key, selector, ..PodTerm::default() });
                });
            },
            "group g: no pod it must be with is in its kubernetes.io/hostname",
        ),
        (|c| c.pods[0].verdict = Verdict::Gated, "pod p: has scheduling gates"),
        (|c| c.pods[0].deleting = Some(10_010), "pod p: is being deleted"),
        (|c| own(c, OwnerKind::DaemonSet), "pod p: belongs to a daemon set"),
        (|c| own(c, OwnerKind::Node), "pod p: is a static pod"),
        (
            |c| {
                c.settings.schedulers = Some(vec!["default-scheduler".to_owned()]);
                change(&mut c.pods[0], |s| s.scheduler = Some("volcano".to_owned()));
            },
            "pod p: belongs to scheduler volcano",
        ),
        (
            |c| {
                c.settings.schedulers = Some(vec!["default-scheduler".to_owned()]);
            },
            "group g: goes to a new small (0.00000 per hour)",
        ),
        (
            |c| change(&mut c.pods[0], |s| s.scheduler = Some("volcano".to_owned())),
            "group g: goes to a new small (0.00000 per hour)",
        ),
        (
            |c| {
                c.groups[0].mixing = false;
                there(c, "large").unschedulable = true;
                c.pods[0] = pod("p", 1_000);
                c.groups[0].offerings[1].available = false;
            },
            "group g: the group keeps to large",
        ),
        (
            |c| {
                let group = Group { name: "h".to_owned(), max: 0, ..c.groups[0].clone() };
                c.groups[0] = Group { offerings: vec![offering("dear", 2_000, 11)], ..c.groups[0].clone() };
                c.groups.push(Group { max: 10, ..group });
            },
            "group g: would fit on dear, another plan costs less|group h: goes to a new small (0.00000 per hour)",
        ),
        (
            |c| {
                let term = NodeTerm {
                    labels: vec![Requirement::new("disk", Operator::Exists, &[])],
                    fields: Vec::new(),
                };
                change(&mut c.pods[0], |s| s.affinity.node.required = Some(vec![term]));
            },
            "group g: node affinity on disk not met",
        ),
        (
            |c| {
                change(&mut c.pods[0], |s| {
                    s.spread.push(Spread {
                        topology_key: "rack".to_owned(),
                        selector: Some(Selector::label("app", "web")),
                        ..Spread::default()
                    });
                });
            },
            "group g: label rack is missing",
        ),
        (
            |c| {
                zones(c, &["a"]);
                runs(c, "a");
                change(&mut c.pods[0], |s| s.affinity.anti.required.push(beside(keys::ZONE)));
            },
            "group g: a pod it must avoid is in topology.kubernetes.io/zone a",
        ),
        (
            |c| {
                zones(c, &["a"]);
                runs(c, "a");
                change(&mut c.pods[1], |s| s.affinity.anti.required.push(beside(keys::ZONE)));
            },
            "group g: a pod in topology.kubernetes.io/zone a does not want it near",
        ),
        (
            |c| {
                zones(c, &["a"]);
                runs(c, "a");
                let other = there(c, "small");
                other.labels.insert(keys::ZONE.to_owned(), "b".to_owned());
                (other.name, other.group, other.allocatable.cpu) = ("m".to_owned(), None, 500);
                change(&mut c.pods[0], |s| {
                    s.spread.push(Spread {
                        topology_key: keys::ZONE.to_owned(),
                        selector: Some(Selector::label("app", "web")),
                        ..Spread::default()
                    });
                });
            },
            "group g: spread over topology.kubernetes.io/zone: a would be 2 ahead, allowed is 1",
        ),
        (
            |c| {
                c.daemon_sets = vec![agent("agent", 10)];
                let agent = Arc::make_mut(&mut c.daemon_sets[0].spec);
                agent.containers[0].host_ports.push(HostPort { port: 80, ..HostPort::default() });
                let port = HostPort { port: 80, ..HostPort::default() };
                change(&mut c.pods[0], |s| s.containers[0].host_ports.push(port));
            },
            "group g: host port 80 is taken",
        ),
        (
            |c| {
                claim(c);
                c.claims[0].volume = Some("disk".to_owned());
            },
            "pod p: volume disk of claim data does not exist",
        ),
        (
            |c| {
                claim(c);
                c.claims[0].volume = Some("disk".to_owned());
                let labels = [(keys::ZONE.to_owned(), "b".to_owned())].into();
                let name = "disk".to_owned();
                c.volumes.push(PersistentVolume { name, labels, ..PersistentVolume::default() });
                zones(c, &["a"]);
            },
            "group g: the volume of claim data is elsewhere",
        ),
        (claim, "pod p: claim data is not bound and has no storage class"),
        (
            |c| {
                claim(c);
                c.claims[0].class = Some("at-once".to_owned());
                let name = "at-once".to_owned();
                c.storage_classes.push(StorageClass { name, ..StorageClass::default() });
            },
            "pod p: claim data is not bound, and its class does not wait for a pod",
        ),
        (
            |c| {
                claim(c);
                c.claims[0].volume = Some("disk".to_owned());
                c.claims[0].single_pod = true;
                let name = "disk".to_owned();
                c.volumes.push(PersistentVolume { name, ..PersistentVolume::default() });
                let mut other = c.pods[0].clone();
                there(c, "small").unschedulable = true;
                (other.name, other.node, other.phase) =
                    ("q".to_owned(), Some("n".to_owned()), Phase::Running);
                c.pods.push(other);
            },
            "group g: claim default/data is for one pod only and in use",
        ),
        (|c| c.pods[0].verdict = Verdict::Unseen, "pod p: the scheduler has not looked at it yet"),
        (|c| change(&mut c.pods[0], |s| s.priority = Some(-11)), "pod p: priority -11 is below -10"),
        (
            |c| {
                let allocatable = Resources::new(4000, 4000).with_pods(10);
                c.nodes.push(Node { name: "n1".to_owned(), allocatable, ready: true, ..Node::default() });
            },
            "pod p: fits on node n1",
        ),
        (
            |c| {
                let (name, group, offering) = ("m1".to_owned(), "g".to_owned(), "small".to_owned());
                c.machines.push(Machine { name, group, offering, ..Machine::default() });
            },
            "pod p: fits on machine m1, which is coming",
        ),
    ];
    for (with, expected) in table {
        let mut cluster = simple();
        with(&mut cluster);
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap();
        assert_eq!(words(&plan).join("|"), *expected);
    }
}

#[test]
fn the_cheapest_types_for_all_pods_are_bought() {
    // Pods of 1,000m, mixing, nodes of the group, preferred; what is bought.
    type Row = (usize, bool, Option<&'static str>, Option<&'static str>, &'static [&'static str]);
    let table: &[Row] = &[
        (2, true, None, None, &["small"]),
        (8, true, None, None, &["large"]),
        (10, true, None, None, &["large", "small"]),
        // Without mixing a group starts with the type that is cheapest for all.
        (10, false, None, None, &["small", "small", "small", "small", "small"]),
        (9, false, None, None, &["small", "small", "small", "small", "small"]),
        // And keeps to the type it has.
        (2, false, Some("large"), None, &["large"]),
        (2, true, Some("large"), None, &["small"]),
        // A preferred type wins a tie only.
        (2, true, None, Some("large"), &["small"]),
        (2, true, None, Some("twin"), &["twin"]),
        (2, false, None, Some("large"), &["small"]),
        (2, false, None, Some("twin"), &["twin"]),
    ];
    for (at, (pods, mixing, has, preferred, expected)) in table.iter().enumerate() {
        let mut cluster = simple();
        cluster.pods = (0..*pods).map(|at| pod(&format!("p{at}"), 1000)).collect();
        let group = &mut cluster.groups[0];
        group.mixing = *mixing;
        group.preferred = preferred.map(str::to_owned);
        if *pods == 10 && !*mixing {
            group.offerings[1].price = 41;
        }
        if *pods == 9 {
            group.offerings[1].price = 41;
        }
        group.offerings.push(offering("twin", 2000, 10));
        if let Some(has) = has {
            cluster.nodes.push(Node {
                name: "full".to_owned(),
                allocatable: group.offerings.iter().find(|o| o.name == *has).unwrap().capacity.clone(),
                ready: true,
                unschedulable: true,
                group: Some("g".to_owned()),
                offering: Some((*has).to_owned()),
                ..Node::default()
            });
        }
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap();
        let offerings = &cluster.groups[0].offerings;
        let mut bought: Vec<&str> =
            plan.machines.iter().map(|m| offerings[m.offering].name.as_str()).collect();
        bought.sort_unstable();
        if preferred.is_none() {
            // A twin is as good.
            bought = bought.into_iter().map(|name| if name == "twin" { "small" } else { name }).collect();
        }
        assert_eq!(bought, *expected, "row {at}");
    }
}

#[test]
fn what_cannot_be_placed_does_not_block_the_rest() {
    let mut cluster = simple();
    cluster.pods.insert(0, pod("giant", 50_000));
    let plan = scale_up(&cluster);
    assert_eq!((plan.machines.len(), plan.unplaced()), (1, vec![0]));
}

#[test]
fn pods_of_a_draining_node_get_a_place_before_they_are_evicted() {
    let mut cluster = simple();
    let allocatable = Resources::new(4000, 4000).with_pods(10);
    cluster.nodes.push(Node {
        name: "old".to_owned(),
        allocatable,
        ready: true,
        draining: true,
        ..Node::default()
    });
    cluster.pods[0].node = Some("old".to_owned());
    cluster.pods[0].phase = Phase::Running;
    let plan = scale_up(&cluster);
    assert_eq!(plan.bindings.first().map(|binding| binding.target), Some(Target::New(0)));
}

#[test]
fn a_group_grows_to_its_minimum() {
    let mut cluster = simple();
    cluster.groups[0].min = 3;
    let plan = scale_up(&cluster);
    let said: Vec<String> = plan.groups.iter().map(ToString::to_string).collect();
    assert_eq!(
        (plan.machines.len(), plan.price, said),
        (3, 30, vec!["group g: has fewer than its 3 nodes".to_owned()])
    );
}

#[test]
fn a_node_takes_no_more_volumes_than_it_can_attach() {
    let mut cluster = simple();
    cluster.pods = (0..3).map(|at| pod(&format!("p{at}"), 100)).collect();
    cluster.storage_classes = vec![StorageClass {
        name: "disks".to_owned(),
        provisioner: "csi".to_owned(),
        wait_for_first_consumer: true,
        ..StorageClass::default()
    }];
    for (at, pod) in cluster.pods.iter_mut().enumerate() {
        let claim = format!("claim{at}");
        change(pod, |spec| {
            spec.volumes.push(Volume { name: "data".to_owned(), source: VolumeSource::Claim(claim.clone()) });
        });
        let (namespace, class) = ("default".to_owned(), Some("disks".to_owned()));
        cluster.claims.push(Claim { namespace, name: claim, class, ..Claim::default() });
    }
    for (limit, machines) in [(None, 1), (Some(3), 1), (Some(2), 2), (Some(1), 3)] {
        for offering in &mut cluster.groups[0].offerings {
            offering.attach_limits = limit.map(|limit| ("csi".to_owned(), limit)).into_iter().collect();
        }
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap();
        assert_eq!((plan.machines.len(), plan.unplaced().len()), (machines, 0), "limit {limit:?}");
    }
}

fn agent(name: &str, cpu: i64) -> DaemonSet {
    let requests = Resources::new(cpu, 10);
    let containers = vec![Container { requests, ..Container::default() }];
    let labels = [("app".to_owned(), "agent".to_owned())].into();
    let spec = Arc::new(PodSpec { containers, labels, ..PodSpec::default() });
    DaemonSet { namespace: "default".to_owned(), name: name.to_owned(), spec }
}

#[test]
fn daemon_sets_that_look_alike_are_not_taken_for_others() {
    let mut cluster = simple();
    // With the first pod they take all of the small type; the last one alone decides that it is too small.
    cluster.daemon_sets = vec![agent("a", 100), agent("b", 100), agent("c", 800)];
    assert_eq!(scale_up(&cluster).machines[0].offering, 0);
    cluster.daemon_sets[2] = agent("c", 801);
    let plan = scale_up(&cluster);
    replay::up(&cluster, &plan).unwrap();
    assert_eq!(plan.machines[0].offering, 1);
}

/// Others may raise what a daemon set's pods ask for when they are made; what is less than it says counts for nothing.
#[test]
fn what_pods_of_daemon_sets_ask_for_is_seen_where_they_run() {
    for (live, offering) in [(None, 0), (Some(500), 0), (Some(1_000), 0), (Some(1_001), 1)] {
        let mut cluster = simple();
        cluster.daemon_sets = vec![agent("agent", 900)];
        if let Some(cpu) = live {
            let node = there(&mut cluster, "small");
            (node.group, node.unschedulable) = (None, true);
            let owner = Some(Owner { kind: OwnerKind::DaemonSet, name: "agent".to_owned() });
            let node = Some("n".to_owned());
            cluster.pods.push(Pod { owner, node, phase: Phase::Running, ..pod("agent-x", cpu) });
        }
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap();
        assert_eq!(plan.machines[0].offering, offering, "{live:?}");
    }
}

#[test]
fn the_next_best_plan_is_told() {
    let mut cluster = simple();
    let told = |cluster: &Cluster| scale_up(cluster).runner_up.map(|reason| reason.to_string());
    cluster.groups[0].offerings[1].price = 30_000;
    let large = "the next best plan is 1 large of g (0.00003 per hour)";
    assert_eq!(told(&cluster).as_deref(), Some(large));
    // A group that keeps to one type has no other.
    cluster.groups[0].mixing = false;
    assert_eq!(told(&cluster).as_deref(), Some(large), "it has no type yet");
    there(&mut cluster, "small").unschedulable = true;
    assert_eq!(told(&cluster), None);
    cluster.groups[0].mixing = true;
    cluster.pods.extend((0..4).map(|at| pod(&format!("p{at}"), 2_000)));
    cluster.groups[0].offerings[0].price = 10_000;
    // Five of the small ones cost more than large and small.
    assert_eq!(told(&cluster).as_deref(), Some("the next best plan is 5 small of g (0.00005 per hour)"));
    cluster.pods = vec![pod("p", 8_000)];
    assert_eq!(told(&cluster), None, "nothing else is large enough");
    cluster.pods.clear();
    assert_eq!(told(&cluster), None, "nothing is bought");
}

#[test]
fn of_two_types_for_one_price_the_one_that_wastes_less_is_bought() {
    for mixing in [true, false] {
        for reversed in [true, false] {
            let mut cluster = simple();
            let group = &mut cluster.groups[0];
            group.mixing = mixing;
            group.offerings[1].price = 10;
            if reversed {
                group.offerings.reverse();
            }
            let plan = scale_up(&cluster);
            assert_eq!(cluster.groups[0].offerings[plan.machines[0].offering].name, "small");
            // The one that is preferred wins a tie in price all the same.
            cluster.groups[0].preferred = Some("large".to_owned());
            let plan = scale_up(&cluster);
            assert_eq!(cluster.groups[0].offerings[plan.machines[0].offering].name, "large");
        }
    }
}

#[test]
fn nothing_runs_on_a_machine_that_failed() {
    let mut cluster = simple();
    cluster.daemon_sets = vec![agent("agent", 100)];
    for offering in &mut cluster.groups[0].offerings {
        offering.zone = Some("a".to_owned());
    }
    cluster.groups[0].max = 1;
    cluster.machines = vec![Machine {
        name: "m".to_owned(),
        group: "g".to_owned(),
        offering: "small".to_owned(),
        zone: Some("a".to_owned()),
        failed: true,
    }];
    cluster.nodes = vec![Node {
        name: "n".to_owned(),
        labels: [(keys::ZONE.to_owned(), "a".to_owned())].into(),
        allocatable: Resources::new(2000, 2000).with_pods(10),
        ready: true,
        ..Node::default()
    }];
    change(&mut cluster.pods[0], |spec| {
        spec.affinity.anti.required.push(PodTerm {
            topology_key: keys::ZONE.to_owned(),
            selector: Some(Selector::label("app", "agent")),
            ..PodTerm::default()
        });
    });
    let plan = scale_up(&cluster);
    replay::up(&cluster, &plan).unwrap();
    assert_eq!(plan.bindings.first().map(|binding| binding.target), Some(Target::Node(0)));
}

#[test]
fn a_claim_that_nobody_provisions_gets_a_volume_that_is_there_or_none() {
    let mut cluster = simple();
    cluster.pods = vec![pod("p0", 100), pod("p1", 100)];
    cluster.storage_classes = vec![StorageClass {
        name: "by-hand".to_owned(),
        provisioner: "kubernetes.io/no-provisioner".to_owned(),
        wait_for_first_consumer: true,
        ..StorageClass::default()
    }];
    for (at, pod) in cluster.pods.iter_mut().enumerate() {
        let claim = format!("claim{at}");
        change(pod, |spec| {
            spec.volumes.push(Volume { name: "data".to_owned(), source: VolumeSource::Claim(claim.clone()) });
        });
        let (namespace, class) = ("default".to_owned(), Some("by-hand".to_owned()));
        let modes = vec!["ReadWriteOnce".to_owned()];
        cluster.claims.push(Claim { namespace, name: claim, class, request: 10, modes, ..Claim::default() });
    }
    let volume = |name: &str| PersistentVolume {
        name: name.to_owned(),
        available: true,
        class: Some("by-hand".to_owned()),
        capacity: 10,
        modes: vec!["ReadWriteOnce".to_owned()],
        ..PersistentVolume::default()
    };
    let on_ssd = |name: &str| {
        let labels = vec![Requirement::new("disk", Operator::In, &["ssd"])];
        PersistentVolume {
            node_affinity: Some(vec![NodeTerm { labels, fields: Vec::new() }]),
            ..volume(name)
        }
    };
    let table: Vec<(Vec<PersistentVolume>, usize, &str)> = vec![
        (vec![volume("a"), volume("b")], 0, "group g: goes to a new small (0.00000 per hour)"),
        (vec![volume("a")], 1, "group g: there is no volume for claim default/claim1 to be had from here"),
        (
            vec![volume("a"), on_ssd("b")],
            1,
            "group g: there is no volume for claim default/claim1 to be had from here",
        ),
        (vec![], 2, "pod p1: claim claim1 is not bound, and nobody provisions its class"),
        (
            vec![PersistentVolume { available: false, ..volume("a") }],
            2,
            "pod p1: claim claim1 is not bound, and nobody provisions its class",
        ),
        (
            vec![PersistentVolume { capacity: 9, ..volume("a") }],
            2,
            "pod p1: claim claim1 is not bound, and nobody provisions its class",
        ),
        (
            vec![PersistentVolume { modes: Vec::new(), ..volume("a") }],
            2,
            "pod p1: claim claim1 is not bound, and nobody provisions its class",
        ),
        (
            vec![PersistentVolume { class: None, ..volume("a") }],
            2,
            "pod p1: claim claim1 is not bound, and nobody provisions its class",
        ),
    ];
    for (at, (volumes, unplaced, said)) in table.into_iter().enumerate() {
        cluster.volumes = volumes;
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap();
        assert_eq!(
            (plan.unplaced().len(), words(&plan).pop().unwrap()),
            (unplaced, said.to_owned()),
            "row {at}"
        );
    }
}

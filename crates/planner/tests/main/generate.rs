//! Random clusters, the same for the same seed.

use fastrand::Rng;
use hostler_planner::model::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Bounds {
    pub nodes: usize,
    pub running: usize,
    pub kinds: usize,
    pub waiting: usize,
    pub offerings: usize,
    pub groups: usize,
}

pub const SMALL: Bounds = Bounds { nodes: 3, running: 5, kinds: 4, waiting: 10, offerings: 4, groups: 2 };
pub const MEDIUM: Bounds = Bounds { nodes: 12, running: 40, kinds: 9, waiting: 60, offerings: 9, groups: 4 };
/// Many nodes, few pods that wait.
pub const SETTLED: Bounds = Bounds { nodes: 16, running: 70, kinds: 7, waiting: 6, offerings: 9, groups: 3 };

const ZONES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 3] = ["web", "db", "job"];

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn pick<'t, T>(rng: &mut Rng, from: &'t [T]) -> &'t T {
    &from[rng.usize(..from.len())]
}

fn word(rng: &mut Rng, from: &[&'static str]) -> &'static str {
    from[rng.usize(..from.len())]
}

fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(..100) < percent
}

fn taint(rng: &mut Rng) -> Taint {
    let effect =
        *pick(rng, &[Effect::NoSchedule, Effect::NoSchedule, Effect::NoExecute, Effect::PreferNoSchedule]);
    Taint::new("dedicated", word(rng, &["x", "y"]), effect)
}

fn toleration(rng: &mut Rng) -> Toleration {
    let exists = chance(rng, 40);
    Toleration {
        key: if exists && chance(rng, 30) { String::new() } else { "dedicated".to_owned() },
        operator: if exists { TolerationOperator::Exists } else { TolerationOperator::Equal },
        value: if exists { String::new() } else { word(rng, &["x", "y"]).to_owned() },
        effect: *pick(rng, &[None, None, Some(Effect::NoSchedule), Some(Effect::NoExecute)]),
    }
}

fn node_term(rng: &mut Rng) -> NodeTerm {
    let requirement = match rng.u32(..8) {
        0 => Requirement::new(keys::ZONE, Operator::In, &[word(rng, &ZONES), "b"]),
        1 => Requirement::new(keys::ZONE, Operator::NotIn, &[word(rng, &ZONES)]),
        2 => Requirement::new("disk", Operator::Exists, &[]),
        3 => Requirement::new("disk", Operator::DoesNotExist, &[]),
        4 => Requirement::new("rank", Operator::Gt, &[word(rng, &["1", "2"])]),
        5 => Requirement::new("rank", Operator::Lt, &[word(rng, &["2", "3"])]),
        6 => Requirement::new(keys::HOSTNAME, Operator::NotIn, &["n0"]),
        _ => {
            let field = Requirement::new("metadata.name", Operator::In, &["n0", "n1"]);
            return NodeTerm { labels: Vec::new(), fields: vec![field] };
        }
    };
    NodeTerm { labels: vec![requirement], fields: Vec::new() }
}

fn topology_key(rng: &mut Rng) -> String {
    word(rng, &[keys::HOSTNAME, keys::HOSTNAME, keys::ZONE, keys::ZONE, "disk"]).to_owned()
}

fn selector(rng: &mut Rng, own: &str) -> Option<Selector> {
    match rng.u32(..12) {
        0 => None,
        1 => Some(Selector::default()),
        2 => Some(Selector {
            labels: BTreeMap::new(),
            expressions: vec![Requirement::new("app", Operator::NotIn, &[word(rng, &APPS)])],
        }),
        3..6 => Some(Selector::label("app", word(rng, &APPS))),
        _ => Some(Selector::label("app", own)),
    }
}

fn pod_term(rng: &mut Rng, own: &str) -> PodTerm {
    PodTerm {
        topology_key: topology_key(rng),
        selector: selector(rng, own),
        namespaces: if chance(rng, 10) { vec!["other".to_owned()] } else { Vec::new() },
        namespace_selector: match rng.u32(..12) {
            0 => Some(Selector::default()),
            1 => Some(Selector::label("team", "red")),
            _ => None,
        },
        match_label_keys: if chance(rng, 8) { vec!["version".to_owned()] } else { Vec::new() },
        mismatch_label_keys: if chance(rng, 5) { vec!["version".to_owned()] } else { Vec::new() },
    }
}

fn amounts(rng: &mut Rng) -> Resources {
    let mut amounts = Resources::new(rng.i64(1..16) * 100, rng.i64(1..16) * 100);
    if chance(rng, 10) {
        amounts.ephemeral_storage = rng.i64(1..6) * 100;
    }
    if chance(rng, 5) {
        amounts.extended.insert("gpu".to_owned(), 1);
    }
    amounts
}

pub fn spec(rng: &mut Rng, claims: usize) -> PodSpec {
    let app = word(rng, &APPS);
    let mut spec = PodSpec {
        labels: map(&[("app", app), ("version", word(rng, &["1", "2"]))]),
        containers: vec![Container { requests: amounts(rng), ..Container::default() }],
        ..PodSpec::default()
    };
    if chance(rng, 8) {
        spec.init_containers.push(Container {
            requests: amounts(rng),
            sidecar: chance(rng, 50),
            ..Container::default()
        });
    }
    if chance(rng, 5) {
        spec.overhead = Resources::new(50, 50);
    }
    if chance(rng, 15) {
        spec.priority = Some(*pick(rng, &[0, 5, 10, -20]));
    }
    if chance(rng, 10) {
        spec.node_selector = map(&[(keys::ZONE, word(rng, &ZONES))]);
    }
    if chance(rng, 12) {
        let terms = (0..rng.usize(1..3)).map(|_| node_term(rng)).collect();
        spec.affinity.node.required = Some(terms);
    }
    if chance(rng, 25) {
        spec.tolerations.push(toleration(rng));
    }
    if chance(rng, 15) {
        let term = pod_term(rng, app);
        spec.affinity.anti.required.push(term);
    }
    if chance(rng, 12) {
        for _ in 0..rng.usize(1..3) {
            let term = pod_term(rng, app);
            spec.affinity.pods.required.push(term);
        }
    }
    if chance(rng, 20) {
        for _ in 0..rng.usize(1..3) {
            spec.spread.push(Spread {
                topology_key: topology_key(rng),
                max_skew: rng.i32(1..3),
                hard: chance(rng, 90),
                selector: selector(rng, app),
                min_domains: if chance(rng, 15) { Some(rng.i32(1..4)) } else { None },
                node_affinity: *pick(rng, &[SpreadPolicy::Honor, SpreadPolicy::Honor, SpreadPolicy::Ignore]),
                node_taints: *pick(rng, &[SpreadPolicy::Ignore, SpreadPolicy::Ignore, SpreadPolicy::Honor]),
                match_label_keys: if chance(rng, 10) { vec!["version".to_owned()] } else { Vec::new() },
            });
        }
    }
    if chance(rng, 8) {
        spec.containers[0].host_ports.push(HostPort {
            port: *pick(rng, &[80, 81]),
            protocol: word(rng, &["", "TCP", "UDP"]).to_owned(),
            ip: word(rng, &["", "10.0.0.1", "10.0.0.2"]).to_owned(),
        });
    }
    if claims > 0 && chance(rng, 10) {
        let source = VolumeSource::Claim(format!("claim{}", rng.usize(..claims)));
        spec.volumes.push(Volume { name: "data".to_owned(), source });
    }
    if chance(rng, 10) {
        let term = pod_term(rng, app);
        spec.affinity.anti.preferred.push(Weighted { weight: rng.i32(1..50), term });
    }
    if chance(rng, 10) {
        let term = node_term(rng);
        spec.affinity.node.preferred.push(Weighted { weight: rng.i32(1..50), term });
    }
    // What came later draws from a copy, so that the cases of before stay what they were.
    rarer(&mut rng.clone(), &mut spec, app);
    spec
}

fn rarer(rng: &mut Rng, spec: &mut PodSpec, app: &str) {
    if chance(rng, 10) {
        let term = pod_term(rng, app);
        spec.affinity.pods.preferred.push(Weighted { weight: rng.i32(1..50), term });
    }
    if chance(rng, 6) {
        // Less than the containers ask for is possible too.
        let mut whole = amounts(rng);
        whole.ephemeral_storage = 0;
        if chance(rng, 30) {
            whole.cpu = 0;
        }
        spec.pod_requests = Some(whole);
    }
    if chance(rng, 5) {
        let page = word(rng, &["hugepages-2Mi", "hugepages-1Gi"]).to_owned();
        spec.containers[0].requests.extended.insert(page, rng.i64(1..3) * 100);
    }
    if chance(rng, 2) {
        spec.resource_claims.push("device".to_owned());
    }
}

fn storage(rng: &mut Rng, cluster: &mut Cluster) -> usize {
    cluster.storage_classes = vec![
        StorageClass {
            name: "waits".to_owned(),
            provisioner: "csi".to_owned(),
            wait_for_first_consumer: true,
            allowed_topologies: if chance(rng, 50) {
                let labels = vec![Requirement::new(keys::ZONE, Operator::In, &["a", "b"])];
                vec![NodeTerm { labels, fields: Vec::new() }]
            } else {
                Vec::new()
            },
        },
        StorageClass { name: "at-once".to_owned(), provisioner: "csi".to_owned(), ..StorageClass::default() },
    ];
    for at in 0..3 {
        let bound = chance(rng, 50);
        if bound {
            let zone = word(rng, &ZONES);
            let by_label = chance(rng, 50);
            let labels = vec![Requirement::new(keys::ZONE, Operator::In, &[zone])];
            cluster.volumes.push(PersistentVolume {
                name: format!("volume{at}"),
                labels: if by_label { map(&[(keys::ZONE, zone)]) } else { BTreeMap::new() },
                node_affinity: (!by_label).then(|| vec![NodeTerm { labels, fields: Vec::new() }]),
                driver: Some("csi".to_owned()),
                ..PersistentVolume::default()
            });
        }
        cluster.claims.push(Claim {
            namespace: "default".to_owned(),
            name: format!("claim{at}"),
            class: Some(word(rng, &["waits", "waits", "at-once"]).to_owned()),
            volume: bound.then(|| format!("volume{at}")),
            single_pod: chance(rng, 30),
            ..Claim::default()
        });
    }
    volumes_by_hand(&mut rng.clone(), cluster);
    3
}

/// Some claims get one of a few volumes that are there.
fn volumes_by_hand(rng: &mut Rng, cluster: &mut Cluster) {
    cluster.storage_classes.push(StorageClass {
        name: "by-hand".to_owned(),
        provisioner: "kubernetes.io/no-provisioner".to_owned(),
        wait_for_first_consumer: true,
        ..StorageClass::default()
    });
    for claim in cluster.claims.iter_mut().filter(|claim| claim.volume.is_none()) {
        if chance(rng, 50) {
            claim.class = Some("by-hand".to_owned());
            claim.request = rng.i64(1..4);
            claim.modes = if chance(rng, 20) { vec!["ReadWriteMany".to_owned()] } else { Vec::new() };
        }
    }
    for at in 0..rng.usize(..4) {
        let requirement = match rng.u32(..4) {
            0 => Some(Requirement::new(keys::HOSTNAME, Operator::In, &[word(rng, &["n0", "n1"])])),
            1 => None,
            _ => Some(Requirement::new(keys::ZONE, Operator::In, &[word(rng, &ZONES)])),
        };
        cluster.volumes.push(PersistentVolume {
            name: format!("by-hand{at}"),
            local: chance(&mut rng.clone(), 40),
            node_affinity: requirement.map(|own| vec![NodeTerm { labels: vec![own], fields: Vec::new() }]),
            available: chance(rng, 90),
            class: Some(word(rng, &["by-hand", "by-hand", "waits"]).to_owned()),
            capacity: rng.i64(1..5),
            modes: if chance(rng, 70) { vec!["ReadWriteMany".to_owned()] } else { Vec::new() },
            ..PersistentVolume::default()
        });
    }
}

fn group(rng: &mut Rng, at: usize, bounds: &Bounds, offerings: usize) -> Group {
    let mut group = Group {
        name: format!("g{at}"),
        max: if chance(rng, 40) { rng.u32(1..4) } else { 20 },
        min: u32::from(chance(rng, 10)),
        mixing: chance(rng, 60),
        ..Group::default()
    };
    if chance(rng, 40) {
        group.labels = map(&[("disk", word(rng, &["ssd", "hdd"])), ("rank", word(rng, &["1", "2", "3"]))]);
    }
    if chance(rng, 30) {
        group.taints.push(taint(rng));
    }
    if chance(rng, 10) {
        group.startup_taints.push(Taint::new("dedicated", "", Effect::NoSchedule));
    }
    if chance(rng, 10) {
        group.limits.insert("cpu".to_owned(), rng.i64(2..12) * 1000);
    }
    for at in 0..offerings.min(bounds.offerings) {
        let units = *pick(rng, &[1, 2, 4]);
        let memory = *pick(rng, &[1, 1, 2]);
        let mut capacity =
            Resources::new(units * 1000, units * memory * 1000).with_pods(*pick(rng, &[3, 10, 10]));
        capacity.ephemeral_storage = 1000;
        if chance(rng, 20) {
            capacity.extended.insert("gpu".to_owned(), 2);
        }
        group.offerings.push(Offering {
            name: format!("t{at}"),
            zone: Some(word(rng, &ZONES).to_owned()),
            allocatable: Some(capacity.clone()),
            capacity,
            price: units * 1000 * rng.i64(8..13) / 10 + memory * 100,
            available: chance(rng, 95),
            attach_limits: if chance(rng, 30) { [("csi".to_owned(), 1)].into() } else { BTreeMap::new() },
            ..Offering::default()
        });
    }
    if chance(rng, 30) && !group.offerings.is_empty() {
        group.preferred = Some(group.offerings[0].name.clone());
    }
    let rng = &mut rng.clone();
    for offering in &mut group.offerings {
        if chance(rng, 30) {
            offering.capacity.extended.insert("hugepages-2Mi".to_owned(), 300);
            offering.allocatable = Some(offering.capacity.clone());
        }
    }
    if chance(rng, 10) {
        group.limits.insert("memory".to_owned(), rng.i64(2..12) * 1000);
    }
    group
}

fn node(rng: &mut Rng, at: usize, cluster: &Cluster) -> Node {
    let mut labels = map(&[(keys::ZONE, word(rng, &ZONES))]);
    labels.insert(keys::HOSTNAME.to_owned(), format!("n{at}"));
    if chance(rng, 40) {
        labels.extend(map(&[("disk", word(rng, &["ssd", "hdd"])), ("rank", word(rng, &["1", "2", "3"]))]));
    }
    if chance(rng, 5) {
        labels.remove(keys::ZONE);
    }
    let owner = chance(rng, 50).then(|| pick(rng, &cluster.groups));
    let offering = owner.and_then(|group| group.offerings.first());
    let mut allocatable = offering.map_or_else(
        || Resources::new(rng.i64(1..5) * 1000, rng.i64(1..5) * 1000).with_pods(8),
        |offering| offering.capacity.clone(),
    );
    allocatable.ephemeral_storage = 1000;
    Node {
        name: format!("n{at}"),
        labels,
        taints: if chance(rng, 20) { vec![taint(rng)] } else { Vec::new() },
        allocatable,
        ready: chance(rng, 90),
        unschedulable: chance(rng, 5),
        draining: chance(rng, 5),
        created: *pick(rng, &[0, 0, 0, 9_900]),
        group: owner.filter(|_| offering.is_some()).map(|group| group.name.clone()),
        offering: offering.map(|offering| offering.name.clone()),
        attach_limits: if chance(rng, 30) { [("csi".to_owned(), 1)].into() } else { BTreeMap::new() },
        ..Node::default()
    }
}

pub fn cluster(seed: u64, bounds: &Bounds) -> Cluster {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let mut cluster = Cluster { now: 10_000, ..Cluster::default() };
    cluster.settings.search_steps = 20_000;
    cluster.namespaces = vec![
        Namespace { name: "default".to_owned(), labels: map(&[("team", "red")]) },
        Namespace { name: "other".to_owned(), labels: map(&[("team", "blue")]) },
    ];
    let claims = if chance(rng, 40) { storage(rng, &mut cluster) } else { 0 };
    let groups = rng.usize(1..=bounds.groups);
    for at in 0..groups {
        let offerings = rng.usize(1..=bounds.offerings / groups.min(bounds.offerings));
        let group = group(rng, at, bounds, offerings);
        cluster.groups.push(group);
    }
    for at in 0..rng.usize(..=bounds.nodes) {
        let node = node(rng, at, &cluster);
        cluster.nodes.push(node);
    }
    if chance(rng, 20) {
        let (group, offering) = {
            let group = pick(rng, &cluster.groups);
            (group.name.clone(), group.offerings[0].clone())
        };
        cluster.machines.push(Machine {
            name: "m0".to_owned(),
            group,
            offering: offering.name,
            zone: offering.zone,
            failed: chance(rng, 30),
        });
    }
    if chance(rng, 20) {
        let mut daemon = PodSpec { labels: map(&[("app", "agent")]), ..PodSpec::default() };
        daemon.containers.push(Container { requests: Resources::new(100, 50), ..Container::default() });
        if chance(rng, 30) {
            daemon.node_selector = map(&[(keys::ZONE, "a")]);
        }
        if chance(rng, 50) {
            daemon
                .tolerations
                .push(Toleration { operator: TolerationOperator::Exists, ..Toleration::default() });
        }
        let daemon =
            DaemonSet { namespace: "default".to_owned(), name: "agent".to_owned(), spec: Arc::new(daemon) };
        cluster.daemon_sets.push(daemon);
    }
    pods(rng, &mut cluster, bounds, claims);
    let rng = &mut rng.clone();
    if chance(rng, 12) {
        let (resource, limit) =
            *pick(rng, &[("nodes", 3), ("nodes", 6), ("cpu", 7_000), ("memory", 8_000), ("gpu", 2)]);
        cluster.settings.limits.insert(resource.to_owned(), limit);
    }
    agents(rng, &mut cluster);
    beginners(rng, &mut cluster);
    cluster
}

/// The daemon set has a host port, or its pods ask for more than it says.
fn agents(rng: &mut Rng, cluster: &mut Cluster) {
    let Some(set) = cluster.daemon_sets.first_mut() else { return };
    if chance(rng, 40) {
        let port = *pick(rng, &[80, 81, 9_100]);
        Arc::make_mut(&mut set.spec).containers[0].host_ports.push(HostPort { port, ..HostPort::default() });
    }
    let mut spec = (*set.spec).clone();
    spec.containers[0].requests = Resources::new(rng.i64(0..4) * 100, rng.i64(0..3) * 50);
    let (namespace, owner) = (set.namespace.clone(), set.name.clone());
    for at in 0..cluster.nodes.len() {
        if chance(rng, 20) {
            cluster.pods.push(Pod {
                namespace: namespace.clone(),
                name: format!("agent{at}"),
                owner: Some(Owner { kind: OwnerKind::DaemonSet, name: owner.clone() }),
                phase: Phase::Running,
                node: Some(cluster.nodes[at].name.clone()),
                spec: Arc::new(spec.clone()),
                ..Pod::default()
            });
        }
    }
}

/// Nodes that start do not know their size yet, and have taints that say so.
fn beginners(rng: &mut Rng, cluster: &mut Cluster) {
    let now = cluster.now;
    for node in cluster.nodes.iter_mut().filter(|node| !node.ready && now - node.created < 900) {
        if chance(rng, 50) && node.group.is_some() {
            node.allocatable = Resources::default();
        }
        let taint = word(
            rng,
            &[
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unreachable",
                "node.kubernetes.io/network-unavailable",
                "node.cloudprovider.kubernetes.io/uninitialized",
            ],
        );
        node.taints.push(Taint::new(taint, "", Effect::NoSchedule));
    }
}

fn pods(rng: &mut Rng, cluster: &mut Cluster, bounds: &Bounds, claims: usize) {
    let namespace = |rng: &mut Rng| if chance(rng, 85) { "default".to_owned() } else { "other".to_owned() };
    let kinds: Vec<(String, Arc<PodSpec>)> =
        (0..rng.usize(1..=bounds.kinds)).map(|_| (namespace(rng), Arc::new(spec(rng, claims)))).collect();
    let pod = |at: usize, (namespace, spec): &(String, Arc<PodSpec>)| Pod {
        namespace: namespace.clone(),
        name: format!("p{at}"),
        owner: Some(Owner { kind: OwnerKind::ReplicaSet, name: "owner".to_owned() }),
        spec: spec.clone(),
        ..Pod::default()
    };
    let running = if cluster.nodes.is_empty() { 0 } else { rng.usize(..=bounds.running) };
    for at in 0..running {
        let kind = if chance(rng, 60) {
            pick(rng, &kinds).clone()
        } else {
            let mut other = spec(rng, claims);
            other.containers[0].requests = Resources::new(rng.i64(0..5) * 100, rng.i64(0..5) * 100);
            (namespace(rng), Arc::new(other))
        };
        let mut pod = pod(at, &kind);
        pod.phase = Phase::Running;
        pod.node = Some(pick(rng, &cluster.nodes).name.clone());
        pod.deleting = chance(rng, 8).then_some(10_010);
        cluster.pods.push(pod);
    }
    for at in 0..rng.usize(..=bounds.waiting) {
        let kind = pick(rng, &kinds).clone();
        let mut pod = pod(running + at, &kind);
        match rng.u32(..40) {
            0 => pod.verdict = Verdict::Gated,
            1 => pod.verdict = Verdict::Unseen,
            2 => pod.nominated_node = cluster.nodes.first().map(|node| node.name.clone()),
            3 => pod.deleting = Some(10_010),
            _ => {}
        }
        cluster.pods.push(pod);
    }
}

//! The rules again, written apart from the solver: strings, loops, no counters. It replays a plan and says which
//! binding breaks which rule.

mod storage;

use hostler_planner::NewMachine;
use hostler_planner::model::*;
use std::collections::BTreeMap;

#[derive(Clone)]
pub struct Guest {
    pub namespace: String,
    pub spec: std::sync::Arc<PodSpec>,
    pub leaving: bool,
}

#[derive(Clone)]
pub struct Host {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub size: Resources,
    pub limits: BTreeMap<String, i64>,
    pub closed: bool,
    pub guests: Vec<Guest>,
}

/// How spread constraints see domains without nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// As the scheduler: they do not exist.
    Nodes,
    /// What could be bought counts as empty.
    Offers,
}

pub struct World<'c> {
    pub cluster: &'c Cluster,
    pub hosts: Vec<Host>,
    /// What could be bought, with group and offering.
    pub offers: Vec<(NewMachine, Host)>,
    pub sight: Sight,
    /// Which claims got which volume, and for how many pods.
    pub given: BTreeMap<(String, String), (String, usize)>,
}

pub fn requests(spec: &PodSpec) -> BTreeMap<String, i64> {
    let flat = |r: &Resources| {
        let mut map: BTreeMap<String, i64> = r.extended.clone();
        map.insert("cpu".into(), r.cpu);
        map.insert("memory".into(), r.memory);
        map.insert("ephemeral-storage".into(), r.ephemeral_storage);
        map
    };
    let plus = |a: &BTreeMap<String, i64>, b: &BTreeMap<String, i64>| {
        let mut sum = a.clone();
        for (k, v) in b {
            *sum.entry(k.clone()).or_default() += v;
        }
        sum
    };
    let most = |a: &BTreeMap<String, i64>, b: &BTreeMap<String, i64>| {
        let mut max = a.clone();
        for (k, v) in b {
            let e = max.entry(k.clone()).or_default();
            *e = (*e).max(*v);
        }
        max
    };
    let none = BTreeMap::new();
    let main = spec.containers.iter().fold(none.clone(), |sum, c| plus(&sum, &flat(&c.requests)));
    let side = spec
        .init_containers
        .iter()
        .filter(|c| c.sidecar)
        .fold(none.clone(), |sum, c| plus(&sum, &flat(&c.requests)));
    let mut total = plus(&main, &side);
    for (at, init) in spec.init_containers.iter().enumerate().filter(|(_, c)| !c.sidecar) {
        let before = spec.init_containers[..at]
            .iter()
            .filter(|c| c.sidecar)
            .fold(none.clone(), |sum, c| plus(&sum, &flat(&c.requests)));
        total = most(&total, &plus(&before, &flat(&init.requests)));
    }
    if let Some(pod) = &spec.pod_requests {
        for (name, amount) in flat(pod) {
            let whole = name == "cpu" || name == "memory" || name.starts_with("hugepages-");
            if whole && amount > 0 {
                total.insert(name, amount);
            }
        }
    }
    let mut total = plus(&total, &flat(&spec.overhead));
    total.insert("pods".into(), 1);
    total
}

fn requirement(r: &Requirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&r.key);
    let compare = |up: bool| match (
        value.and_then(|v| v.parse::<i64>().ok()),
        r.values.first().map(|v| v.parse::<i64>()),
    ) {
        (Some(have), Some(Ok(bound))) => (up && have > bound) || (!up && have < bound),
        _ => false,
    };
    match r.operator {
        Operator::In => value.is_some_and(|v| r.values.contains(v)),
        Operator::NotIn => !value.is_some_and(|v| r.values.contains(v)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => compare(true),
        Operator::Lt => compare(false),
    }
}

pub fn selects(selector: Option<&Selector>, labels: &BTreeMap<String, String>) -> bool {
    selector.is_some_and(|s| {
        s.labels.iter().all(|(k, v)| labels.get(k) == Some(v))
            && s.expressions.iter().all(|r| requirement(r, labels))
    })
}

fn term(t: &NodeTerm, host: &Host) -> bool {
    let name = BTreeMap::from([("metadata.name".to_owned(), host.name.clone())]);
    let field =
        |r: &Requirement| requirement(&Requirement { key: "metadata.name".into(), ..r.clone() }, &name);
    (!t.labels.is_empty() || !t.fields.is_empty())
        && t.labels.iter().all(|r| requirement(r, &host.labels))
        && t.fields.iter().all(field)
}

fn wants_node(spec: &PodSpec, host: &Host) -> bool {
    spec.node_selector.iter().all(|(k, v)| host.labels.get(k) == Some(v))
        && spec.affinity.node.required.as_ref().is_none_or(|terms| terms.iter().any(|t| term(t, host)))
}

fn tolerates(spec: &PodSpec, host: &Host) -> bool {
    let covered = |taint: &Taint| {
        spec.tolerations.iter().any(|t| {
            let effect = t.effect.is_none() || t.effect == Some(taint.effect);
            let exists = t.operator == TolerationOperator::Exists;
            let key = if t.key.is_empty() { exists } else { t.key == taint.key };
            effect && key && (exists || t.value == taint.value)
        })
    };
    host.taints.iter().filter(|t| t.effect != Effect::PreferNoSchedule).all(covered)
}

impl World<'_> {
    fn term_means(&self, t: &PodTerm, owner: &Guest, other: &Guest) -> bool {
        let mut selector = t.selector.clone();
        if let Some(selector) = &mut selector {
            for (keys, operator) in
                [(&t.match_label_keys, Operator::In), (&t.mismatch_label_keys, Operator::NotIn)]
            {
                for key in keys {
                    if let Some(value) = owner.spec.labels.get(key) {
                        selector.expressions.push(Requirement::new(key, operator, &[value]));
                    }
                }
            }
        }
        let namespace = if t.namespaces.is_empty() && t.namespace_selector.is_none() {
            owner.namespace == other.namespace
        } else {
            let labels =
                self.cluster.namespaces.iter().find(|n| n.name == other.namespace).map(|n| n.labels.clone());
            t.namespaces.contains(&other.namespace)
                || t.namespace_selector.as_ref().is_some_and(|s| {
                    (s.labels.is_empty() && s.expressions.is_empty())
                        || labels.is_some_and(|l| selects(Some(s), &l))
                })
        };
        namespace && selects(selector.as_ref(), &other.spec.labels)
    }

    /// Whether the scheduler would let a pod onto a host as things are.
    pub fn allows(&self, guest: &Guest, at: usize) -> Result<(), String> {
        let host = &self.hosts[at];
        let spec = &guest.spec;
        if host.closed {
            return Err("host is closed".into());
        }
        if !spec.resource_claims.is_empty() {
            return Err("resource claims".into());
        }
        if !wants_node(spec, host) {
            return Err("selector or node affinity".into());
        }
        if !tolerates(spec, host) {
            return Err("taint".into());
        }
        self.storage(guest, host)?;
        for (name, needs) in requests(spec).into_iter().filter(|(_, needs)| *needs > 0) {
            let has = match name.as_str() {
                "cpu" => host.size.cpu,
                "memory" => host.size.memory,
                "ephemeral-storage" => host.size.ephemeral_storage,
                "pods" => host.size.pods,
                other => host.size.extended.get(other).copied().unwrap_or(0),
            };
            let used: i64 =
                host.guests.iter().map(|g| requests(&g.spec).get(&name).copied().unwrap_or(0)).sum();
            if used + needs > has {
                return Err(format!("{name}: {used} of {has} used, needs {needs}"));
            }
        }
        let ports = |spec: &PodSpec| -> Vec<HostPort> {
            let sidecars = spec.init_containers.iter().filter(|c| c.sidecar);
            spec.containers.iter().chain(sidecars).flat_map(|c| c.host_ports.clone()).collect()
        };
        let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0";
        let protocol =
            |p: &HostPort| if p.protocol.is_empty() { "TCP".to_owned() } else { p.protocol.clone() };
        for own in ports(spec) {
            for taken in host.guests.iter().flat_map(|g| ports(&g.spec)) {
                if own.port == taken.port
                    && protocol(&own) == protocol(&taken)
                    && (any(&own.ip) || any(&taken.ip) || own.ip == taken.ip)
                {
                    return Err(format!("port {}", own.port));
                }
            }
        }
        self.company(guest, host)?;
        self.spread(guest, host)
    }

    fn company(&self, guest: &Guest, host: &Host) -> Result<(), String> {
        let same =
            |a: &Host, b: &Host, key: &str| a.labels.get(key).is_some_and(|v| b.labels.get(key) == Some(v));
        for other in &self.hosts {
            for there in &other.guests {
                for t in &guest.spec.affinity.anti.required {
                    if same(other, host, &t.topology_key) && self.term_means(t, guest, there) {
                        return Err(format!("anti-affinity over {}", t.topology_key));
                    }
                }
                for t in &there.spec.affinity.anti.required {
                    if same(other, host, &t.topology_key) && self.term_means(t, there, guest) {
                        return Err(format!("another's anti-affinity over {}", t.topology_key));
                    }
                }
            }
        }
        let terms = &guest.spec.affinity.pods.required;
        if terms.is_empty() {
            return Ok(());
        }
        if let Some(t) = terms.iter().find(|t| !host.labels.contains_key(&t.topology_key)) {
            return Err(format!("label {} missing", t.topology_key));
        }
        let meant = |there: &Guest| terms.iter().all(|t| self.term_means(t, guest, there));
        let near = |t: &PodTerm| {
            self.hosts.iter().any(|h| same(h, host, &t.topology_key) && h.guests.iter().any(meant))
        };
        if terms.iter().all(near) {
            return Ok(());
        }
        let anywhere = self.hosts.iter().any(|h| {
            h.guests.iter().any(meant) && terms.iter().any(|t| h.labels.contains_key(&t.topology_key))
        });
        if !anywhere && meant(guest) { Ok(()) } else { Err("affinity".into()) }
    }

    fn spread(&self, guest: &Guest, host: &Host) -> Result<(), String> {
        let hard: Vec<&Spread> = guest.spec.spread.iter().filter(|s| s.hard).collect();
        for constraint in &hard {
            let key = &constraint.topology_key;
            let Some(domain) = host.labels.get(key) else { return Err(format!("label {key} missing")) };
            let mut selector = constraint.selector.clone();
            if let Some(selector) = &mut selector {
                for key in &constraint.match_label_keys {
                    if let Some(value) = guest.spec.labels.get(key) {
                        selector.expressions.push(Requirement::new(key, Operator::In, &[value]));
                    }
                }
            }
            let counts = |h: &Host| {
                hard.iter().all(|s| h.labels.contains_key(&s.topology_key))
                    && (constraint.node_affinity == SpreadPolicy::Ignore || wants_node(&guest.spec, h))
                    && (constraint.node_taints == SpreadPolicy::Ignore || tolerates(&guest.spec, h))
            };
            let nobody = selector.as_ref().is_some_and(|s| s.labels.is_empty() && s.expressions.is_empty());
            let matching = |g: &&Guest| {
                !nobody
                    && !g.leaving
                    && g.namespace == guest.namespace
                    && selects(selector.as_ref(), &g.spec.labels)
            };
            let mut domains: BTreeMap<String, usize> = BTreeMap::new();
            for h in self.hosts.iter().filter(|h| counts(h)) {
                *domains.entry(h.labels[key].clone()).or_default() +=
                    h.guests.iter().filter(matching).count();
            }
            let own = domains.get(domain).copied().unwrap_or(0);
            if self.sight == Sight::Offers {
                for (number, (_, offer)) in
                    self.offers.iter().enumerate().filter(|(_, (_, offer))| counts(offer))
                {
                    let name = if key == keys::HOSTNAME {
                        format!("offer {number}")
                    } else {
                        offer.labels[key].clone()
                    };
                    domains.entry(name).or_default();
                }
            }
            let mut least = domains.values().min().copied().unwrap_or(0);
            if domains.len() < usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap() {
                least = 0;
            }
            let itself = usize::from(selects(selector.as_ref(), &guest.spec.labels));
            if i64::try_from(own + itself).unwrap() - i64::try_from(least).unwrap()
                > i64::from(constraint.max_skew)
            {
                return Err(format!("spread over {key}: {domain} has {own}, least is {least}"));
            }
        }
        Ok(())
    }

    pub fn put(&mut self, guest: Guest, at: usize) {
        for (claim, volume) in self.found_volumes(&guest, &self.hosts[at]).unwrap_or_default() {
            self.given.entry(claim).or_insert((volume, 0)).1 += 1;
        }
        self.hosts[at].guests.push(guest);
    }

    /// The last one that was put there goes again.
    pub fn take_back(&mut self, at: usize) {
        let Some(guest) = self.hosts[at].guests.pop() else { return };
        for (claim, _) in self.found_volumes(&guest, &self.hosts[at]).unwrap_or_default() {
            let left = self.given.get_mut(&claim).map(|(_, users)| {
                *users -= 1;
                *users
            });
            if left == Some(0) {
                self.given.remove(&claim);
            }
        }
    }
}

fn known_size(cluster: &Cluster, group: &Group, offering: &Offering) -> Resources {
    let seen: Vec<&Resources> = cluster
        .nodes
        .iter()
        .filter(|n| {
            n.ready && n.group.as_ref() == Some(&group.name) && n.offering.as_ref() == Some(&offering.name)
        })
        .map(|n| &n.allocatable)
        .filter(|size| size.cpu > 0)
        .collect();
    let Some(first) = seen.first() else {
        return offering.allocatable.clone().unwrap_or_else(|| {
            let m = &cluster.settings.margin;
            let c = &offering.capacity;
            Resources {
                cpu: (c.cpu - m.cpu).max(0),
                memory: (c.memory - m.memory - c.memory / 100 * m.memory_percent).max(0),
                ephemeral_storage: c.ephemeral_storage - c.ephemeral_storage / 100 * m.ephemeral_percent,
                pods: if c.pods == 0 { cluster.settings.default_pods } else { c.pods },
                extended: c.extended.clone(),
            }
        });
    };
    let least = |pick: &dyn Fn(&Resources) -> i64| seen.iter().map(|size| pick(size)).min().unwrap();
    Resources {
        cpu: least(&|r| r.cpu),
        memory: least(&|r| r.memory),
        ephemeral_storage: least(&|r| r.ephemeral_storage),
        pods: least(&|r| r.pods),
        extended: first
            .extended
            .keys()
            .map(|k| (k.clone(), least(&|r| r.extended.get(k).copied().unwrap_or(0))))
            .collect(),
    }
}

/// What a node has; one that does not say yet has what others of its kind have.
fn size_of(cluster: &Cluster, node: &Node, booting: bool) -> Resources {
    let unknown = booting && node.allocatable.cpu == 0 && node.allocatable.memory == 0;
    let group = cluster.groups.iter().find(|group| Some(&group.name) == node.group.as_ref());
    let offering = group.and_then(|group| {
        let mut all = group.offerings.iter().filter(|own| Some(&own.name) == node.offering.as_ref());
        let zone = node.labels.get(keys::ZONE);
        all.clone().find(|own| own.zone.as_ref() == zone).or_else(|| all.next())
    });
    match (group, offering) {
        (Some(group), Some(offering)) if unknown => known_size(cluster, group, offering),
        _ => node.allocatable.clone(),
    }
}

fn unborn(cluster: &Cluster, group: &Group, offering: &Offering, name: &str) -> Host {
    let mut labels = BTreeMap::from([
        (keys::OS.to_owned(), "linux".to_owned()),
        (keys::ARCH.to_owned(), "amd64".to_owned()),
        (keys::INSTANCE_TYPE.to_owned(), offering.name.clone()),
    ]);
    labels.extend(offering.zone.iter().map(|zone| (keys::ZONE.to_owned(), zone.clone())));
    labels.extend(group.labels.clone());
    labels.extend(offering.labels.clone());
    labels.insert(keys::HOSTNAME.to_owned(), name.to_owned());
    let mut host = Host {
        name: name.to_owned(),
        labels,
        taints: group
            .taints
            .iter()
            .filter(|t| !group.startup_taints.iter().any(|s| s.key == t.key))
            .cloned()
            .collect(),
        size: known_size(cluster, group, offering),
        limits: offering.attach_limits.clone(),
        closed: false,
        guests: Vec::new(),
    };
    greet(cluster, &mut host, &[]);
    host
}

/// Daemon pods that will come, but for those that are there.
fn greet(cluster: &Cluster, host: &mut Host, there: &[(String, String)]) {
    for set in &cluster.daemon_sets {
        let mut spec = (*set.spec).clone();
        for key in
            ["not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"]
        {
            let key = format!("node.kubernetes.io/{key}");
            spec.tolerations.push(Toleration {
                key,
                operator: TolerationOperator::Exists,
                ..Toleration::default()
            });
        }
        // Its pods may ask for more than it says.
        let own = requests(&spec);
        for pod in &cluster.pods {
            let of_set = pod.namespace == set.namespace
                && pod.owner == Some(Owner { kind: OwnerKind::DaemonSet, name: set.name.clone() });
            if !of_set || pod.phase == Phase::Finished {
                continue;
            }
            for (name, amount) in requests(&pod.spec) {
                let more = amount - own.get(&name).copied().unwrap_or(0);
                let overhead = &mut spec.overhead;
                let before = set.spec.overhead.clone();
                let (most, base) = match name.as_str() {
                    "cpu" => (&mut overhead.cpu, before.cpu),
                    "memory" => (&mut overhead.memory, before.memory),
                    "ephemeral-storage" => (&mut overhead.ephemeral_storage, before.ephemeral_storage),
                    "pods" => continue,
                    other => (
                        overhead.extended.entry(other.to_owned()).or_default(),
                        before.extended.get(other).copied().unwrap_or(0),
                    ),
                };
                *most = (*most).max(base + more.max(0));
            }
        }
        if wants_node(&spec, host)
            && tolerates(&spec, host)
            && !there.contains(&(set.namespace.clone(), set.name.clone()))
        {
            host.guests.push(Guest { namespace: set.namespace.clone(), spec: spec.into(), leaving: false });
        }
    }
}

pub fn tied(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(|o| o.kind == OwnerKind::DaemonSet || o.kind == OwnerKind::Node)
}

pub fn guest(pod: &Pod) -> Guest {
    Guest { namespace: pod.namespace.clone(), spec: pod.spec.clone(), leaving: pod.deleting.is_some() }
}

/// Pods that nodes are bought for.
pub fn waits(cluster: &Cluster, pod: &Pod) -> bool {
    let low = pod.spec.priority.is_some_and(|p| p < cluster.settings.priority_cutoff);
    if pod.phase == Phase::Finished || pod.deleting.is_some() || low || tied(pod) {
        return false;
    }
    match &pod.node {
        Some(name) => cluster.nodes.iter().any(|n| n.name == *name && n.draining),
        None => {
            pod.nominated_node.is_none()
                && pod.verdict == Verdict::Unschedulable
                && cluster.settings.schedulers.as_ref().is_none_or(|own| {
                    own.contains(&pod.spec.scheduler.clone().unwrap_or_else(|| "default-scheduler".into()))
                })
        }
    }
}

/// Nodes first, machines in flight behind them.
pub fn world(cluster: &Cluster) -> World<'_> {
    let mut hosts = Vec::new();
    for node in &cluster.nodes {
        let young = cluster.now - node.created < cluster.settings.startup_time;
        let booting = young && !node.ready;
        let group = cluster.groups.iter().find(|g| Some(&g.name) == node.group.as_ref());
        let status = [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "node.kubernetes.io/network-unavailable",
            "node.cloudprovider.kubernetes.io/uninitialized",
        ];
        let mut taints: Vec<Taint> = node
            .taints
            .iter()
            .filter(|t| !(young && group.is_some_and(|g| g.startup_taints.iter().any(|s| s.key == t.key))))
            .filter(|t| !(booting && status.contains(&t.key.as_str())))
            .cloned()
            .collect();
        if node.unschedulable {
            taints.push(Taint::new(keys::UNSCHEDULABLE, "", Effect::NoSchedule));
        }
        let mut host = Host {
            name: node.name.clone(),
            labels: node.labels.clone(),
            taints,
            size: size_of(cluster, node, booting),
            limits: node.attach_limits.clone(),
            closed: node.draining || !(node.ready || booting),
            guests: Vec::new(),
        };
        let mut there = Vec::new();
        for pod in &cluster.pods {
            let here = pod.node.as_ref() == Some(&node.name)
                || (pod.node.is_none()
                    && pod.nominated_node.as_ref() == Some(&node.name)
                    && pod.deleting.is_none());
            let low = pod.spec.priority.is_some_and(|p| p < cluster.settings.priority_cutoff);
            if !here || pod.phase == Phase::Finished || waits(cluster, pod) || (low && pod.node.is_some()) {
                continue;
            }
            if let Some(owner) = pod.owner.as_ref().filter(|o| o.kind == OwnerKind::DaemonSet) {
                there.push((pod.namespace.clone(), owner.name.clone()));
            }
            host.guests.push(guest(pod));
        }
        if booting {
            greet(cluster, &mut host, &there);
        }
        hosts.push(host);
    }
    let mut world = World { cluster, hosts, offers: Vec::new(), sight: Sight::Nodes, given: BTreeMap::new() };
    for machine in &cluster.machines {
        let group = cluster.groups.iter().find(|g| g.name == machine.group);
        let offering = group.and_then(|g| {
            let named = |o: &&Offering| o.name == machine.offering;
            g.offerings
                .iter()
                .filter(named)
                .find(|o| o.zone == machine.zone)
                .or_else(|| g.offerings.iter().find(named))
        });
        // A machine that will be no node has no labels either.
        let host = match (group, offering) {
            (Some(group), Some(offering)) if !machine.failed => {
                unborn(cluster, group, offering, &machine.name)
            }
            _ => Host {
                name: machine.name.clone(),
                labels: BTreeMap::new(),
                taints: Vec::new(),
                size: Resources::default(),
                limits: BTreeMap::new(),
                closed: true,
                guests: Vec::new(),
            },
        };
        world.hosts.push(host);
    }
    for (group_at, group) in cluster.groups.iter().enumerate() {
        for (at, offering) in group.offerings.iter().enumerate().filter(|(_, o)| o.available) {
            let machine = NewMachine { group: group_at, offering: at };
            world.offers.push((machine, unborn(cluster, group, offering, "")));
        }
    }
    world
}

/// A new node of the plan.
pub fn new_host(cluster: &Cluster, machine: NewMachine, number: usize) -> Host {
    let group = &cluster.groups[machine.group];
    unborn(cluster, group, &group.offerings[machine.offering], &format!("new {number}"))
}

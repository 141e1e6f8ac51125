//! Plans carried out step by step by the checker's rules.

use crate::checker::{Guest, World, guest, new_host, selects, tied, waits, world};
use hostler_planner::model::*;
use hostler_planner::{Binding, Consolidated, Fate, Replacement, ScaleDown, ScaleUp, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Replays a plan. All its machines are there from the first binding to one of them on.
pub fn up(cluster: &Cluster, plan: &ScaleUp) -> Result<(), String> {
    let mut world = world(cluster);
    let first = world.hosts.len();
    let mut bound: BTreeSet<usize> = BTreeSet::new();
    let mut come = false;
    for (step, binding) in plan.bindings.iter().enumerate() {
        let pod = &cluster.pods[binding.pod];
        if !bound.insert(binding.pod) || !waits(cluster, pod) {
            return Err(format!("step {step}: pod {} bound twice or not waiting", pod.name));
        }
        let at = match binding.target {
            Target::Node(at) => at,
            Target::Machine(at) => cluster.nodes.len() + at,
            Target::New(at) => {
                if !come {
                    come = true;
                    let new = plan.machines.iter().enumerate();
                    world.hosts.extend(new.map(|(number, machine)| new_host(cluster, *machine, number)));
                }
                first + at
            }
        };
        world
            .allows(&guest(pod), at)
            .map_err(|why| format!("step {step}: pod {} on {:?}: {why}", pod.name, binding.target))?;
        world.put(guest(pod), at);
    }
    let waiting: BTreeSet<usize> =
        (0..cluster.pods.len()).filter(|at| waits(cluster, &cluster.pods[*at])).collect();
    let unplaced: BTreeSet<usize> = plan.unplaced().into_iter().collect();
    if &waiting - &bound != unplaced {
        return Err("bound and unplaced are not all that wait".into());
    }
    let price: Price = plan.machines.iter().map(|machine| machine.price(cluster)).sum();
    if price != plan.price {
        return Err(format!("price is {price}, not {}", plan.price));
    }
    crate::sizes::sizes(cluster, &plan.machines)
}

/// Nodes that go, one after the other, and what their pods and groups may bear.
struct Leaving<'c> {
    cluster: &'c Cluster,
    world: World<'c>,
    budgets: Vec<i32>,
    /// By group: nodes that count towards its minimum.
    ready: BTreeMap<&'c str, i64>,
    gone: BTreeSet<usize>,
}

impl<'c> Leaving<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let mut ready = BTreeMap::new();
        for node in cluster.nodes.iter().filter(|n| n.ready && !n.unschedulable && !n.draining) {
            *ready.entry(node.group.as_deref().unwrap_or("")).or_default() += 1;
        }
        let budgets = cluster.budgets.iter().map(|budget| budget.allowed).collect();
        Self { cluster, world: world(cluster), budgets, ready, gone: BTreeSet::new() }
    }

    /// Closes the node and takes off it what must go elsewhere.
    fn evict(&mut self, at: usize) -> Result<Vec<usize>, String> {
        let cluster = self.cluster;
        let node = &cluster.nodes[at];
        let group = cluster.groups.iter().find(|g| Some(&g.name) == node.group.as_ref()).ok_or("no group")?;
        let last = [group.last_scale_up, group.last_scale_down].into_iter().flatten().max();
        let pause = last.is_some_and(|last| last + group.scale_down.window > cluster.now);
        let marks = [
            "cluster-autoscaler.kubernetes.io/scale-down-disabled",
            "karpenter.sh/do-not-disrupt",
            "autoscaler.vpsie.com/do-not-delete",
        ];
        let protected = marks.iter().any(|mark| node.annotations.get(*mark).is_some_and(|v| v == "true"));
        if !group.scale_down.enabled || group.paused || !node.ready || node.draining || node.unschedulable {
            return Err(format!("{} must not go", node.name));
        }
        if pause || protected || !self.gone.insert(at) {
            return Err(format!("{} must not go now, or twice", node.name));
        }
        *self.ready.entry(group.name.as_str()).or_default() -= 1;
        let mut evicted = Vec::new();
        for (number, pod) in cluster.pods.iter().enumerate() {
            let low = pod.spec.priority.is_some_and(|p| p < cluster.settings.priority_cutoff);
            let stays = pod.phase == Phase::Finished || pod.deleting.is_some() || tied(pod) || low;
            if pod.node.as_ref() != Some(&node.name) || stays || waits(cluster, pod) {
                continue;
            }
            self.may_evict(pod)?;
            let one = guest(pod);
            let same =
                |g: &Guest| Arc::ptr_eq(&g.spec, &one.spec) && g.namespace == one.namespace && !g.leaving;
            let found = self.world.hosts[at].guests.iter().position(same).ok_or("pod is not there")?;
            self.world.hosts[at].guests.remove(found);
            evicted.push(number);
        }
        self.world.hosts[at].closed = true;
        Ok(evicted)
    }

    fn may_evict(&mut self, pod: &Pod) -> Result<(), String> {
        let cluster = self.cluster;
        let safe = pod.annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict").map(String::as_str);
        if safe != Some("true") && (safe.is_some() || pod.owner.is_none()) {
            return Err(format!("{} must not be evicted", pod.name));
        }
        let siblings = cluster.pods.iter().filter(|other| {
            other.owner == pod.owner
                && other.namespace == pod.namespace
                && other.phase != Phase::Finished
                && other.deleting.is_none()
        });
        if pod.owner.is_some() && siblings.count() < cluster.settings.min_replicas as usize {
            return Err(format!("{} has too few siblings", pod.name));
        }
        let budgets: Vec<usize> = (0..cluster.budgets.len())
            .filter(|at| {
                let budget = &cluster.budgets[*at];
                budget.namespace == pod.namespace && selects(budget.selector.as_ref(), &pod.spec.labels)
            })
            .collect();
        if budgets.len() > 1 {
            return Err(format!("{} has two budgets", pod.name));
        }
        if safe != Some("true")
            && pod.namespace == "kube-system"
            && budgets.is_empty()
            && cluster.now - pod.created < 3600
        {
            return Err(format!("{} of the system is too young", pod.name));
        }
        for budget in budgets {
            self.budgets[budget] -= 1;
            if self.budgets[budget] < 0 {
                return Err(format!("{} breaks a budget", pod.name));
            }
        }
        Ok(())
    }

    /// Puts the pods elsewhere, all of them, in the order of the plan.
    fn settle(
        &mut self,
        evicted: &[usize],
        moves: &[Binding],
        host: impl Fn(Target) -> Option<usize>,
    ) -> Result<(), String> {
        let mut left: BTreeSet<usize> = evicted.iter().copied().collect();
        for binding in moves {
            let pod = &self.cluster.pods[binding.pod];
            let at =
                host(binding.target).ok_or_else(|| format!("{} goes to {:?}", pod.name, binding.target))?;
            let ripe = self.cluster.nodes.get(at).is_none_or(|node| node.ready);
            if !left.remove(&binding.pod) || !ripe {
                return Err(format!("{} is not to be moved, or not there", pod.name));
            }
            self.world
                .allows(&guest(pod), at)
                .map_err(|why| format!("{} on {:?}: {why}", pod.name, binding.target))?;
            self.world.put(guest(pod), at);
        }
        if left.is_empty() { Ok(()) } else { Err(format!("pods {left:?} have no place")) }
    }

    fn enough_are_left(&self) -> Result<(), String> {
        let gone = self.gone.iter().filter_map(|at| self.cluster.nodes[*at].group.as_ref());
        let touched: BTreeSet<&String> = gone.collect();
        for group in self.cluster.groups.iter().filter(|group| touched.contains(&group.name)) {
            if self.ready.get(group.name.as_str()).copied().unwrap_or(0) < i64::from(group.min) {
                return Err(format!("{} has too few", group.name));
            }
        }
        Ok(())
    }
}

pub fn down(cluster: &Cluster, plan: &ScaleDown) -> Result<(), String> {
    let mut leaving = Leaving::new(cluster);
    let mut moves = plan.moves.iter().copied().peekable();
    for at in &plan.removed {
        let node = &cluster.nodes[*at];
        let group = cluster.groups.iter().find(|g| Some(&g.name) == node.group.as_ref()).ok_or("no group")?;
        if node.unneeded_since.is_none_or(|since| since + group.scale_down.unneeded_time > cluster.now) {
            return Err(format!("{} is unneeded too short a time", node.name));
        }
        let evicted = leaving.evict(*at)?;
        let of_node = |b: &Binding| cluster.pods[b.pod].node.as_ref() == Some(&node.name);
        let mine: Vec<Binding> = std::iter::from_fn(|| moves.next_if(of_node)).collect();
        let host = |target| match target {
            Target::Node(to) => Some(to),
            Target::Machine(_) | Target::New(_) => None,
        };
        leaving.settle(&evicted, &mine, host)?;
        leaving.enough_are_left()?;
    }
    if moves.next().is_some() { Err("moves of nodes that stay".to_owned()) } else { Ok(()) }
}

pub fn consolidated(cluster: &Cluster, plan: &Consolidated) -> Result<(), String> {
    let mut leaving = Leaving::new(cluster);
    let mut saved = 0;
    let mut bought = 0;
    for step in &plan.steps {
        saved += step.saved;
        worth_its_while(cluster, plan, step)?;
        let first = leaving.world.hosts.len();
        for number in &step.machines {
            if *number != bought {
                return Err("machines are not in the order of the steps".to_owned());
            }
            bought += 1;
            let machine = plan.machines[*number];
            leaving.world.hosts.push(new_host(cluster, machine, *number));
            *leaving.ready.entry(cluster.groups[machine.group].name.as_str()).or_default() += 1;
        }
        let mut evicted = Vec::new();
        for at in &step.removed {
            if !rested(cluster, &cluster.nodes[*at]) {
                return Err(format!("{} had its share", cluster.nodes[*at].name));
            }
            evicted.extend(leaving.evict(*at)?);
        }
        let host = |target| match target {
            Target::Node(to) => rested(cluster, &cluster.nodes[to]).then_some(to),
            Target::Machine(_) => None,
            Target::New(number) => step.machines.iter().position(|own| *own == number).map(|at| first + at),
        };
        leaving.settle(&evicted, &step.moves, host)?;
        leaving.enough_are_left()?;
    }
    let targets: BTreeSet<Target> = plan.steps.iter().flat_map(|s| &s.moves).map(|b| b.target).collect();
    if leaving.gone.iter().any(|at| targets.contains(&Target::Node(*at))) {
        return Err("a node gives and takes".to_owned());
    }
    let told: BTreeSet<usize> = plan
        .nodes
        .iter()
        .filter(|verdict| verdict.fate == Fate::Remove)
        .map(|verdict| verdict.node)
        .collect();
    if told != leaving.gone || plan.nodes.len() != cluster.nodes.len() {
        return Err("verdicts and steps differ".to_owned());
    }
    if saved != plan.saved || bought != plan.machines.len() {
        return Err(format!("saves {saved}, not {}", plan.saved));
    }
    calm(cluster, plan)?;
    crate::sizes::sizes(cluster, &plan.machines)
}

/// Neither came nor took part a short time ago.
fn rested(cluster: &Cluster, node: &Node) -> bool {
    let group = cluster.groups.iter().find(|group| node.group.as_ref() == Some(&group.name));
    let pause = group.map_or(3600, |group| group.consolidation.pause);
    node.consolidated.is_none_or(|last| cluster.now - last >= pause)
        && (group.is_none() || cluster.now - node.created >= pause)
}

/// The saving is what it is said to be, and large enough.
fn worth_its_while(cluster: &Cluster, plan: &Consolidated, step: &Replacement) -> Result<(), String> {
    let (mut before, mut share, mut fee) = (0, 0, 0);
    for at in &step.removed {
        let node = &cluster.nodes[*at];
        let group = cluster.groups.iter().find(|g| Some(&g.name) == node.group.as_ref()).ok_or("no group")?;
        let offering =
            group.offerings.iter().find(|o| Some(&o.name) == node.offering.as_ref()).ok_or("no price")?;
        if !group.consolidation.enabled {
            return Err(format!("{} does not want it", group.name));
        }
        before += offering.price;
        share += offering.price * group.consolidation.minimum_saving;
        let here = |pod: &&Binding| cluster.pods[pod.pod].node.as_ref() == Some(&node.name);
        fee += Price::try_from(step.moves.iter().filter(here).count()).unwrap()
            * group.consolidation.saving_per_pod;
    }
    let after: Price = step.machines.iter().map(|at| plan.machines[*at].price(cluster)).sum();
    let saved = before - after;
    if saved != step.saved || saved * 100 < share || saved < fee || saved <= 0 {
        return Err(format!("step saves {saved} and not {}, of {before}, for {fee}", step.saved));
    }
    Ok(())
}

/// With their load on those that stay and come, no group is so busy that it would grow.
fn calm(cluster: &Cluster, plan: &Consolidated) -> Result<(), String> {
    let removed: BTreeSet<usize> = plan.steps.iter().flat_map(|step| &step.removed).copied().collect();
    for (number, group) in cluster.groups.iter().enumerate().filter(|(_, group)| group.scale_up.enabled) {
        let of_group = |node: &Node| node.ready && node.group.as_ref() == Some(&group.name);
        let nodes: Vec<usize> = (0..cluster.nodes.len()).filter(|at| of_group(&cluster.nodes[*at])).collect();
        let gone: Vec<&usize> = nodes.iter().filter(|at| removed.contains(at)).collect();
        let usage: Option<Vec<Usage>> = nodes.iter().map(|at| cluster.nodes[*at].usage).collect();
        let Some(usage) = usage else {
            if gone.iter().any(|at| cluster.nodes[**at].bought_by_usage) {
                return Err(format!("{} loses what usage bought without knowing it", group.name));
            }
            continue;
        };
        // Where none stays the load went to other groups.
        let empty = gone.len() == nodes.len();
        let stay = nodes.iter().filter(|at| !removed.contains(at) && !cluster.nodes[**at].draining);
        let new = plan.machines.iter().enumerate().filter(|(_, machine)| machine.group == number);
        // What daemon sets take of a new node is no room for load.
        let fresh = new.map(|(at, machine)| {
            let host = new_host(cluster, *machine, at);
            let daemons = |name: &str| -> i64 {
                host.guests
                    .iter()
                    .map(|g| crate::checker::requests(&g.spec).get(name).copied().unwrap_or(0))
                    .sum()
            };
            (host.size.cpu - daemons("cpu"), host.size.memory - daemons("memory"))
        });
        let sizes =
            stay.map(|at| (cluster.nodes[*at].allocatable.cpu, cluster.nodes[*at].allocatable.memory));
        let (cpu, memory) = sizes.chain(fresh).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let hot = |used: i64, size: i64, threshold: i64| threshold > 0 && used * 100 / size >= threshold;
        let used = usage.iter().fold((0, 0), |sum, one| (sum.0 + one.cpu, sum.1 + one.memory));
        if !gone.is_empty()
            && !empty
            && cpu > 0
            && memory > 0
            && (hot(used.0, cpu, group.scale_up.cpu_threshold)
                || hot(used.1, memory, group.scale_up.memory_threshold))
        {
            return Err(format!("{} would grow again", group.name));
        }
    }
    Ok(())
}

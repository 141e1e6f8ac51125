//! Every way to serve a few pods, by the checker's rules: most of the highest priority served, then cheapest.

use crate::checker::{Guest, Sight, World, guest, new_host, waits, world};
use hostler_planner::NewMachine;
use hostler_planner::model::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

pub struct Best {
    /// Priority and number of unserved pods, highest first.
    pub unserved: Vec<(i32, usize)>,
    pub price: Price,
}

struct Search<'c> {
    world: World<'c>,
    kinds: Vec<(Guest, usize)>,
    machines: Vec<NewMachine>,
    /// By host: kinds put there.
    put: BTreeMap<usize, Vec<usize>>,
    skipped: BTreeMap<i32, usize>,
    best: Option<Best>,
    steps: usize,
    seen: HashSet<String>,
    ordered: bool,
    first_new: usize,
}

pub fn compare(ours: &[(i32, usize)], theirs: &[(i32, usize)]) -> std::cmp::Ordering {
    let at = |list: &[(i32, usize)], priority: i32| {
        list.iter().find(|(p, _)| *p == priority).map_or(0, |(_, n)| *n)
    };
    let all: BTreeSet<i32> = ours.iter().chain(theirs).map(|(p, _)| *p).collect();
    all.into_iter()
        .rev()
        .map(|p| at(ours, p).cmp(&at(theirs, p)))
        .find(|o| o.is_ne())
        .unwrap_or(std::cmp::Ordering::Equal)
}

/// None if there were too many ways.
pub fn best(cluster: &Cluster, steps: usize) -> Option<Best> {
    let world = world(cluster);
    let mut kinds: Vec<(Guest, usize)> = Vec::new();
    for pod in cluster.pods.iter().filter(|pod| waits(cluster, pod)) {
        let one = guest(pod);
        match kinds.iter_mut().find(|(kind, _)| kind.namespace == one.namespace && kind.spec == one.spec) {
            Some((_, count)) => *count += 1,
            None => kinds.push((one, 1)),
        }
    }
    let ordered = kinds.iter().any(|(kind, _)| {
        !kind.spec.volumes.is_empty()
            || !kind.spec.affinity.pods.required.is_empty()
            || kind.spec.spread.iter().any(|s| s.hard)
    });
    kinds.sort_by_key(|(kind, _)| std::cmp::Reverse(kind.spec.containers[0].requests.cpu));
    let mut search = Search {
        first_new: world.hosts.len(),
        world,
        kinds,
        machines: Vec::new(),
        put: BTreeMap::new(),
        skipped: BTreeMap::new(),
        best: None,
        steps,
        seen: HashSet::new(),
        ordered,
    };
    search.step();
    (search.steps > 0).then_some(search.best).flatten()
}

impl Search<'_> {
    fn price(&self) -> Price {
        let cluster = self.world.cluster;
        let bought: Price = self.machines.iter().map(|m| m.price(cluster)).sum();
        bought + self.missing().iter().map(|m| m.price(cluster)).sum::<Price>()
    }

    /// The cheapest machines up to every group's minimum, as far as they may be had.
    fn missing(&self) -> Vec<NewMachine> {
        let cluster = self.world.cluster;
        let mut missing: Vec<NewMachine> = Vec::new();
        for (at, group) in cluster.groups.iter().enumerate() {
            let stay =
                cluster.nodes.iter().filter(|n| n.group.as_ref() == Some(&group.name) && !n.draining).count()
                    + cluster.machines.iter().filter(|m| m.group == group.name && !m.failed).count()
                    + self.machines.iter().filter(|m| m.group == at).count();
            for _ in stay..group.min as usize {
                let all: Vec<NewMachine> = self.machines.iter().chain(&missing).copied().collect();
                let cheapest = self
                    .world
                    .offers
                    .iter()
                    .map(|(machine, _)| *machine)
                    .filter(|machine| machine.group == at && self.may_buy(&all, *machine))
                    .min_by_key(|machine| machine.price(cluster));
                missing.extend(cheapest);
            }
        }
        missing
    }

    fn may_buy(&self, so_far: &[NewMachine], machine: NewMachine) -> bool {
        let cluster = self.world.cluster;
        let all: Vec<NewMachine> = so_far.iter().copied().chain([machine]).collect();
        crate::sizes::sizes(cluster, &all).is_ok() && crate::sizes::keeps_type(cluster, machine)
    }

    fn step(&mut self) {
        if self.steps == 0 {
            return;
        }
        self.steps -= 1;
        let skipped: Vec<(i32, usize)> =
            self.skipped.iter().rev().map(|(p, n)| (*p, *n)).filter(|(_, n)| *n > 0).collect();
        if let Some(best) = &self.best {
            let order = compare(&skipped, &best.unserved);
            let bought: Price = self.machines.iter().map(|m| m.price(self.world.cluster)).sum();
            if order.is_gt() || (order.is_eq() && bought >= best.price) {
                return;
            }
        }
        if self.kinds.iter().all(|(_, count)| *count == 0) {
            let price = self.price();
            let better = self
                .best
                .as_ref()
                .is_none_or(|best| compare(&skipped, &best.unserved).then(price.cmp(&best.price)).is_lt());
            if better {
                self.best = Some(Best { unserved: skipped, price });
            }
            return;
        }
        if !self.seen.insert(self.fingerprint()) {
            return;
        }
        for kind in 0..self.kinds.len() {
            if self.kinds[kind].1 == 0 {
                continue;
            }
            self.kinds[kind].1 -= 1;
            self.place(kind);
            self.kinds[kind].1 += 1;
            if !self.ordered {
                break;
            }
        }
        if let Some(kind) = self.kinds.iter().position(|(_, count)| *count > 0) {
            let priority = self.kinds[kind].0.spec.priority.unwrap_or(0);
            let count = std::mem::take(&mut self.kinds[kind].1);
            *self.skipped.entry(priority).or_default() += count;
            self.put.entry(usize::MAX).or_default().push(kind);
            self.step();
            self.put.get_mut(&usize::MAX).unwrap().pop();
            *self.skipped.entry(priority).or_default() -= count;
            self.kinds[kind].1 = count;
        }
    }

    fn place(&mut self, kind: usize) {
        let one = self.kinds[kind].0.clone();
        for at in 0..self.world.hosts.len() {
            self.world.sight = if self.machines.is_empty() { Sight::Nodes } else { Sight::Offers };
            if self.world.allows(&one, at).is_ok() {
                self.descend(kind, &one, at);
            }
        }
        let offers: Vec<NewMachine> = self.world.offers.iter().map(|(machine, _)| *machine).collect();
        for machine in offers {
            if !self.may_buy(&self.machines, machine) {
                continue;
            }
            let at = self.world.hosts.len();
            let host = new_host(self.world.cluster, machine, at);
            self.world.hosts.push(host);
            self.machines.push(machine);
            self.world.sight = Sight::Offers;
            if self.world.allows(&one, at).is_ok() {
                self.descend(kind, &one, at);
            }
            self.machines.pop();
            self.world.hosts.pop();
        }
    }

    fn descend(&mut self, kind: usize, one: &Guest, at: usize) {
        self.world.put(one.clone(), at);
        self.put.entry(at).or_default().push(kind);
        self.step();
        self.put.get_mut(&at).unwrap().pop();
        self.world.take_back(at);
    }

    fn fingerprint(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (at, kinds) in self.put.iter().filter(|(_, kinds)| !kinds.is_empty()) {
            let mut kinds = kinds.clone();
            kinds.sort_unstable();
            let host = match at.checked_sub(self.first_new).and_then(|new| self.machines.get(new)) {
                Some(machine) => format!("{}/{}", machine.group, machine.offering),
                None => at.to_string(),
            };
            lines.push(format!("{host}:{kinds:?}"));
        }
        lines.extend(self.world.given.iter().map(|given| format!("{given:?}")));
        lines.sort_unstable();
        lines.join(";")
    }
}

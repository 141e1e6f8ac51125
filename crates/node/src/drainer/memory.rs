//! What a process remembers of its drains: how long it has been waiting, and what watches do not show yet. All of
//! it may be lost at any time.

use crate::{
    Node,
    drain::{
        Act, EVICT_AGAIN, Order, PodId, Refusal, Removal, Seen, Share, Step, Tracked, Tried, Verified, Why,
        after,
    },
    watches::News,
};
use hostler_controller::Key;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// All drains of a process, and who waits for what.
#[derive(Default)]
pub(super) struct Books {
    drains: BTreeMap<Key, Memory>,
    by_node: BTreeMap<String, Key>,
    by_interest: BTreeMap<Interest, BTreeSet<Key>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Interest {
    Budget(String),
    Volume(String),
}

/// One drain.
pub(super) struct Memory {
    pub(super) node: String,
    pub(super) began: Timestamp,
    pub(super) forced_since: Option<Timestamp>,
    pub(super) absent: Absent,
    /// What came of the last writes to the node, and when.
    pub(super) marked: (Timestamp, Tried),
    pub(super) cordoned: (Timestamp, Tried),
    /// By the pods' uids.
    pub(super) refusals: BTreeMap<String, Refusal>,
    pub(super) asked: BTreeMap<String, Asked>,
    pub(super) volumes: BTreeMap<String, Tracked>,
    pub(super) verified: Verified,
    /// Attachments whose deletion was ordered.
    pub(super) detached: BTreeSet<String>,
    pub(super) detach_failed: Option<(Timestamp, String)>,
    interests: BTreeSet<Interest>,
}

/// What the API server said about a node that no watch has shown.
pub(super) enum Absent {
    NotAsked,
    Unanswered { at: Timestamp, text: String },
    Gone,
    There(Box<Node>),
}

/// What came of asking for a pod, until the watch shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Evicted(Timestamp),
    Killed(Timestamp),
    Gone,
}

impl Books {
    pub(super) fn len(&self) -> usize {
        self.drains.len()
    }

    /// The memory of a drain; a new one if there is none or it was for another node.
    pub(super) fn begin(&mut self, order: &Order, now: Timestamp) -> &mut Memory {
        if self.drains.get(&order.key).is_some_and(|memory| memory.node != order.node) {
            self.forget(&order.key);
        }
        self.by_node.entry(order.node.clone()).or_insert_with(|| order.key.clone());
        self.drains.entry(order.key.clone()).or_insert_with(|| Memory {
            node: order.node.clone(),
            began: now,
            forced_since: None,
            absent: Absent::NotAsked,
            marked: (now, Tried::NotYet),
            cordoned: (now, Tried::NotYet),
            refusals: BTreeMap::new(),
            asked: BTreeMap::new(),
            volumes: BTreeMap::new(),
            verified: Verified::No,
            detached: BTreeSet::new(),
            detach_failed: None,
            interests: BTreeSet::new(),
        })
    }

    pub(super) fn get(&mut self, key: &Key) -> Option<&mut Memory> {
        self.drains.get_mut(key)
    }

    pub(super) fn forget(&mut self, key: &Key) {
        let Some(memory) = self.drains.remove(key) else { return };
        if self.by_node.get(&memory.node) == Some(key) {
            self.by_node.remove(&memory.node);
        }
        for interest in &memory.interests {
            self.lose_interest(interest, key);
        }
    }

    fn lose_interest(&mut self, interest: &Interest, key: &Key) {
        if let Some(keys) = self.by_interest.get_mut(interest) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_interest.remove(interest);
            }
        }
    }

    /// Remembers which budgets and volumes this drain wants to hear of.
    pub(super) fn note_interests(&mut self, order: &Order, seen: &Seen) {
        let budgets = seen.pods.iter().filter_map(|pod| pod.budget.clone()).map(Interest::Budget);
        let volumes = seen.volumes.iter().map(|(name, _)| Interest::Volume(name.clone()));
        let new: BTreeSet<Interest> = budgets.chain(volumes).collect();
        let Some(memory) = self.drains.get_mut(&order.key) else { return };
        let old = std::mem::replace(&mut memory.interests, new.clone());
        for interest in old.difference(&new) {
            self.lose_interest(interest, &order.key);
        }
        for interest in new.difference(&old) {
            self.by_interest.entry(interest.clone()).or_default().insert(order.key.clone());
        }
    }

    /// Whose drains may go on because of this.
    pub(super) fn concerned(&self, news: &News<'_>) -> Vec<Key> {
        let interest = match news {
            News::Node(node) => return self.by_node.get(*node).into_iter().cloned().collect(),
            News::Budget { namespace, name } => Interest::Budget(format!("{namespace}/{name}")),
            News::Volume(name) => Interest::Volume((*name).to_owned()),
        };
        self.by_interest.get(&interest).into_iter().flatten().cloned().collect()
    }
}

impl Memory {
    /// Pods that are held back without having been asked for count as refused from now on.
    pub(super) fn hold_back<T>(&mut self, seen: &Seen, step: &Step<T>) {
        let due: BTreeSet<&PodId> = match step {
            Step::Act(Act::Remove(removals)) => removals.iter().map(|removal| &removal.pod).collect(),
            Step::Wait(_) => BTreeSet::new(),
            _ => return,
        };
        for pod in &seen.pods {
            let held = pod.leaving.is_none() && pod.refusal.is_none() && !due.contains(&pod.id);
            if let Some(budget) = pod.budget.as_ref().and_then(|name| seen.budgets.get(name)).filter(|_| held)
                && budget.left <= 0
            {
                let why = Why::Budget { version: Some(budget.version.clone()) };
                let refusal = Refusal { first: seen.now, last: seen.now, why };
                self.refusals.insert(pod.id.uid.clone(), refusal);
            }
        }
    }

    pub(super) fn refused(&mut self, removal: &Removal, why: Why, now: Timestamp) {
        // Being refused by a budget once more does not make it a new refusal.
        let before =
            self.refusals.get(&removal.pod.uid).filter(|refusal| matches!(refusal.why, Why::Budget { .. }));
        let first = before.map_or(now, |refusal| refusal.first);
        self.refusals.insert(removal.pod.uid.clone(), Refusal { first, last: now, why });
    }
}

/// How many disruptions of each budget's version this process has used. Many drains share a budget: without this
/// all of them would ask for the one disruption that it allows.
#[derive(Default)]
pub(super) struct Ledger(BTreeMap<String, Used>);

struct Used {
    version: String,
    count: i32,
    at: Timestamp,
}

impl Ledger {
    /// How many nobody has taken yet.
    pub(super) fn left(&self, budget: &str, version: &str, allowed: i32, now: Timestamp) -> i32 {
        let used =
            self.0.get(budget).filter(|used| used.version == version && now < after(used.at, EVICT_AGAIN));
        allowed - used.map_or(0, |used| used.count)
    }

    /// Takes one if there still is one.
    pub(super) fn take(&mut self, share: &Share, now: Timestamp) -> bool {
        if self.left(&share.budget, &share.version, share.allowed, now) <= 0 {
            return false;
        }
        // What is not used again soon needs no entry.
        self.0.retain(|_, used| now < after(used.at, EVICT_AGAIN));
        let used = self.0.entry(share.budget.clone()).or_insert_with(|| Used {
            version: String::new(),
            count: 0,
            at: now,
        });
        if used.version != share.version {
            *used = Used { version: share.version.clone(), count: 0, at: now };
        }
        used.count += 1;
        used.at = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drain::{Limits, PodSeen};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_disruption_is_taken_once() {
        let mut ledger = Ledger::default();
        let share = |version: &str| Share { budget: "n/b".into(), version: version.into(), allowed: 1 };
        assert!(ledger.take(&share("1"), at(0)));
        assert!(!ledger.take(&share("1"), at(1)), "it is used");
        assert_eq!(ledger.left("n/b", "1", 1, at(1)), 0);
        assert!(ledger.take(&share("2"), at(2)), "the budget has changed since");
        assert!(!ledger.take(&share("2"), at(3)));
        assert!(
            ledger.take(&share("2"), at(22)),
            "what was taken was not used, or the budget would have changed"
        );
    }

    fn order(name: &str, node: &str) -> Order {
        Order {
            key: Key::new("Machine", "n", name),
            node: node.into(),
            is_meant: std::sync::Arc::new(|_| true),
            since: at(0),
            limits: Limits::default(),
            force: false,
            mark: None,
            volumes: None,
            leave_ended: false,
        }
    }

    #[test]
    fn only_those_whom_it_concerns_are_woken() {
        let mut books = Books::default();
        let seen = |budget: Option<&str>, volume: Option<&str>| Seen {
            now: at(0),
            began: at(0),
            node_name: String::new(),
            limits: Limits::default(),
            forced: None,
            force_until: at(0),
            forced_at: at(0),
            node: crate::drain::NodeSeen::Gone,
            pods: budget
                .map(|budget| PodSeen {
                    id: PodId { namespace: "n".into(), name: "p".into(), uid: "u".into() },
                    priority: 0,
                    has_claims: false,
                    volumes: Vec::new(),
                    leaving: None,
                    budget: Some(budget.into()),
                    refusal: None,
                })
                .into_iter()
                .collect(),
            budgets: BTreeMap::new(),
            volumes: volume
                .map(|name| (name.to_owned(), crate::drain::InTheWay::Stuck))
                .into_iter()
                .collect(),
            verified: Verified::No,
        };
        let (a, b) = (order("a", "node-a"), order("b", "node-b"));
        books.begin(&a, at(0));
        books.begin(&b, at(0));
        books.note_interests(&a, &seen(Some("n/b"), None));
        books.note_interests(&b, &seen(None, Some("v")));
        let budget = News::Budget { namespace: "n", name: "b" };
        assert_eq!(books.concerned(&News::Node("node-a")), std::slice::from_ref(&a.key));
        assert_eq!(books.concerned(&budget), std::slice::from_ref(&a.key));
        assert_eq!(books.concerned(&News::Volume("v")), std::slice::from_ref(&b.key));
        assert_eq!(books.concerned(&News::Node("node-c")), []);
        books.note_interests(&a, &seen(None, None));
        assert_eq!(books.concerned(&budget), []);
        books.forget(&b.key);
        assert_eq!(
            (books.concerned(&News::Volume("v")), books.concerned(&News::Node("node-b"))),
            (vec![], vec![])
        );
        assert_eq!((books.len(), books.by_interest.len()), (1, 0));
        // The same object with another node is another drain.
        books.begin(&order("a", "node-x"), at(5));
        assert_eq!(books.concerned(&News::Node("node-a")), []);
        assert_eq!(books.concerned(&News::Node("node-x")), [a.key]);
    }
}

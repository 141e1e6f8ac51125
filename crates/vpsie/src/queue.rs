//! The orders that VPSie has taken and does not show as machines yet.
//!
//! An order is in the queue, then for a moment in neither queue nor list, then in the list. What was in the queue is
//! remembered until its machine is shown: a moment in between does not look like nothing.

use crate::{
    marks,
    wire::{PendingOrder, PendingVm, Vm},
};
use hostler_driver::{Identity, Recognition};
use jiff::{SignedDuration, Timestamp};
use std::sync::{Arc, Mutex, PoisonError};

/// How long an order that has left the queue may take to be in the list. One that failed never is.
const TRANSIT: SignedDuration = SignedDuration::from_mins(10);

/// What the queue has held.
#[derive(Default)]
pub(crate) struct Queue(Mutex<Vec<Seen>>);

struct Seen {
    entry: PendingVm,
    last_at: Timestamp,
    /// The machines that had its name when it was first seen, and those of other orders: none of them has come of it.
    older: Vec<String>,
}

impl Queue {
    /// Takes in what queue and list show; tells which orders are in hand. The queue was asked first.
    pub(crate) fn look(&self, now: Timestamp, queue: Vec<PendingVm>, vms: &[Arc<Vm>]) -> Vec<PendingOrder> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in queue {
            match seen.iter_mut().find(|known| is_same(&known.entry, &entry)) {
                Some(known) => {
                    known.last_at = now;
                    known.entry = entry;
                }
                None => {
                    let order = entry.order();
                    let older = namesakes(&order, vms).filter(|vm| by_marks(&order, vm) != Some(true));
                    let older = older.filter_map(|vm| vm.identifier.clone()).collect();
                    seen.push(Seen { entry, last_at: now, older });
                }
            }
        }
        // Of one order comes one machine: one that is found for an order is none of the others'.
        let mut taken: Vec<String> = Vec::new();
        seen.retain_mut(|known| {
            if known.last_at == now {
                return true;
            }
            known.older.extend(taken.iter().cloned());
            let order = known.entry.order();
            match vms.iter().find(|vm| came_of(&order, vm, &known.older)) {
                Some(vm) => {
                    taken.extend(vm.identifier.clone());
                    false
                }
                None => now.duration_since(known.last_at) <= TRANSIT,
            }
        });
        for known in seen.iter_mut() {
            known.older.extend(taken.iter().cloned());
        }
        seen.iter().map(|known| known.entry.order()).collect()
    }
}

/// Entries have ids; one without is known by what it says.
fn is_same(one: &PendingVm, other: &PendingVm) -> bool {
    match (&one.id, &other.id) {
        (Some(one), Some(other)) => one == other,
        _ => one.order() == other.order(),
    }
}

fn namesakes<'a>(order: &PendingOrder, vms: &'a [Arc<Vm>]) -> impl Iterator<Item = &'a Vm> {
    let name = order.hostname.clone().unwrap_or_default();
    vms.iter().map(|vm| &**vm).filter(move |vm| is_called(vm.hostname.as_deref(), &name))
}

/// Whether a name is the other one, however both are written; VPSie may add a domain.
pub(crate) fn is_called(hostname: Option<&str>, name: &str) -> bool {
    let hostname = hostname.unwrap_or_default().to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    !name.is_empty()
        && hostname.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Whether this machine is the one of that order: by the marks of both, else by the name, if it is a new one.
fn came_of(order: &PendingOrder, vm: &Vm, older: &[String]) -> bool {
    by_marks(order, vm).unwrap_or_else(|| {
        let is_old = vm.identifier.as_ref().is_some_and(|id| older.contains(id));
        !is_old && is_called(vm.hostname.as_deref(), order.hostname.as_deref().unwrap_or_default())
    })
}

/// What marks say of it; nothing if one of the two has none.
fn by_marks(order: &PendingOrder, vm: &Vm) -> Option<bool> {
    let marked = vm.notes.as_deref().and_then(marks::read)?;
    if let Some(said) = order.notes.as_deref().and_then(marks::read) {
        return Some(marked == said);
    }
    let process = order.process.as_ref().filter(|process| process.starts_with(marks::TAG_PREFIX))?;
    let identity = Identity {
        domain: marked.domain().to_owned(),
        machine: marked.machine.clone().unwrap_or_default(),
        class: marked.class.clone().unwrap_or_default(),
    };
    Some(marked.attempt.is_some_and(|attempt| marks::process(&identity, &attempt) == *process))
}

/// Whether an order may be for this machine, which is to be called so. What the queue shows again of an order decides;
/// what it does not show leaves the name.
pub(crate) fn may_be_for(order: &PendingOrder, identity: &Identity, hostname: &str) -> bool {
    if let Some(marks) = order.notes.as_deref().and_then(marks::read) {
        return identity.recognise(&marks) == Recognition::Ours;
    }
    let tag = marks::tag(identity);
    let process = order.process.as_deref().filter(|process| process.starts_with(marks::TAG_PREFIX));
    if let Some(process) = process {
        return process.strip_prefix(&tag).is_some_and(|rest| rest.starts_with('-'));
    }
    if order.tags.iter().any(|tag| tag.starts_with(marks::TAG_PREFIX)) {
        return order.tags.contains(&tag);
    }
    is_called(order.hostname.as_deref(), hostname)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::Attempt;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn identity(domain: &str) -> Identity {
        Identity { domain: domain.into(), machine: "m-1".into(), class: "c".into() }
    }

    fn attempt() -> Attempt {
        Attempt("a1".into())
    }

    fn entry(id: &str, data: &Value) -> PendingVm {
        serde_json::from_value(json!({"id": id, "data": data})).unwrap()
    }

    fn vm(id: &str, hostname: &str, notes: Option<&str>) -> Arc<Vm> {
        Arc::new(Vm {
            identifier: Some(id.into()),
            hostname: Some(hostname.into()),
            notes: notes.map(Into::into),
            ..Vm::default()
        })
    }

    #[test]
    fn what_an_order_shows_again_decides_whose_it_is() {
        let (own, other) = (identity("a"), identity("b"));
        let by = |identity: &Identity| {
            [
                json!({"hostname": "m-1", "notes": marks::notes(identity, &attempt(), "")}),
                json!({"hostname": "m-1", "processId": marks::process(identity, &attempt())}),
                json!({"hostname": "m-1", "tags": ["x", marks::tag(identity)]}),
            ]
        };
        for data in by(&own) {
            assert!(may_be_for(&entry("1", &data).order(), &own, "m-1"), "{data}");
            assert!(may_be_for(&entry("1", &data).order(), &own, "renamed"), "{data}");
        }
        for data in by(&other) {
            assert!(!may_be_for(&entry("1", &data).order(), &own, "m-1"), "{data}");
        }
        for (data, expected) in [
            (json!({"hostname": "m-1"}), true),
            (json!({"hostname": "M-1.vpsie.local", "tags": ["web"], "processId": "77"}), true),
            (json!({"hostname": "m-12"}), false),
            (json!({"hostname": null}), false),
            (json!({}), false),
        ] {
            assert_eq!(may_be_for(&entry("1", &data).order(), &own, "m-1"), expected, "{data}");
        }
    }

    #[test]
    fn an_order_is_in_hand_until_its_machine_is_shown() {
        let (own, other) = (identity("a"), identity("b"));
        let (mine, theirs) = (marks::notes(&own, &attempt(), ""), marks::notes(&other, &attempt(), ""));
        let shown = [
            // What the queue shows of the order.
            json!({"hostname": "m-1", "processId": marks::process(&own, &attempt())}),
            json!({"hostname": "m-1", "notes": mine.clone()}),
        ];
        for data in shown {
            let queue = Queue::default();
            let in_hand =
                |now, entries: Vec<PendingVm>, vms: &[Arc<Vm>]| queue.look(at(now), entries, vms).len();
            let theirs = vm("2", "m-1", Some(&theirs));
            assert_eq!(in_hand(0, vec![entry("1", &data)], &[]), 1);
            assert_eq!(in_hand(60, vec![entry("1", &data)], &[]), 1);
            assert_eq!(in_hand(70, Vec::new(), &[]), 1, "it has left the queue");
            assert_eq!(in_hand(80, Vec::new(), &[Arc::clone(&theirs)]), 1, "that is another one's");
            assert_eq!(in_hand(90, Vec::new(), &[theirs, vm("3", "m-1", Some(&mine))]), 0);
            assert_eq!(in_hand(91, Vec::new(), &[]), 0, "it is not remembered for ever");
        }
    }

    #[test]
    fn without_marks_a_new_machine_of_that_name_is_the_one() {
        let queue = Queue::default();
        let data = json!({"hostname": "m-1"});
        let old = vm("1", "m-1", None);
        let look = |now, entries: Vec<PendingVm>, vms: &[Arc<Vm>]| queue.look(at(now), entries, vms).len();
        assert_eq!(look(0, vec![entry("1", &data)], &[Arc::clone(&old)]), 1);
        assert_eq!(look(10, Vec::new(), &[Arc::clone(&old)]), 1);
        assert_eq!(look(20, Vec::new(), &[old, vm("2", "M-1", None)]), 0);
    }

    #[test]
    fn of_two_orders_that_look_alike_one_machine_settles_one() {
        let queue = Queue::default();
        let data = json!({"hostname": "m-1"});
        let look = |now, entries: Vec<PendingVm>, vms: &[Arc<Vm>]| queue.look(at(now), entries, vms).len();
        assert_eq!(look(0, vec![entry("1", &data), entry("2", &data)], &[]), 2);
        let (first, second) = (vm("a", "m-1", None), vm("b", "m-1", None));
        assert_eq!(look(10, Vec::new(), &[Arc::clone(&first)]), 1);
        assert_eq!(look(20, Vec::new(), &[Arc::clone(&first)]), 1, "it has been counted");
        assert_eq!(look(30, Vec::new(), &[first, second]), 0);
    }

    #[test]
    fn an_order_that_came_to_nothing_is_given_up() {
        let queue = Queue::default();
        let data = json!({"hostname": "m-1"});
        let nothing: [Arc<Vm>; 0] = [];
        assert_eq!(queue.look(at(0), vec![entry("1", &data), entry("2", &data)], &nothing).len(), 2);
        assert_eq!(queue.look(at(600), Vec::new(), &nothing).len(), 2);
        assert_eq!(queue.look(at(601), vec![entry("2", &data)], &nothing).len(), 1);
    }
}

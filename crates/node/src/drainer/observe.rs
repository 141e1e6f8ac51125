//! What a decision needs to know, gathered from watches and memory.

use super::{
    Drainer,
    memory::{Absent, Asked, Memory},
};
use crate::{
    Node,
    drain::{
        AttachmentsSeen, BudgetSeen, FORCE_FOR, Leaving, NodeSeen, Order, PodId, PodSeen, Seen, TRY_AGAIN,
        Tried, Verified, VolumeFacts, after, is_named_in, track,
    },
    health::{self, Forced},
    objects::{BoundPod, Budget, Volume},
};
use hostler_controller::Key;
use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError},
    time::Duration,
};

/// The pods that use each volume, with [`leaving`] of each.
type Users = BTreeMap<String, Vec<(Arc<BoundPod>, Option<(Timestamp, Timestamp, bool)>)>>;

/// How long an answer is believed before the watch shows what it led to.
const BELIEVED: Duration = Duration::from_secs(10);

impl Drainer {
    pub(super) fn observe(&self, order: &Order, memory: &mut Memory) -> Seen {
        let now = self.clock.now();
        let node = self.node(order, memory);
        let unwell = node.as_deref().and_then(health::forced_at);
        let timeout = (after(order.since, order.limits.timeout), Forced::TimedOut);
        let asked = order.force.then_some((now, Forced::Asked));
        let (forced_at, why) =
            [asked, Some(timeout), unwell].into_iter().flatten().min_by_key(|(at, _)| *at).unwrap_or(timeout);
        let forced = (now >= forced_at).then_some(why);
        if forced.is_none() {
            memory.forced_since = None;
        } else if memory.forced_since.is_none() {
            // What was waited for politely does not matter any more.
            memory.forced_since = Some(now);
            memory.refusals.clear();
        }
        let present = self.view.pods_by_node.of(&order.node);
        forget_what_is_over(&present, memory, now);
        let leave: Vec<&Arc<BoundPod>> = present
            .iter()
            .filter(|pod| pod.has_to_leave(order.leave_ended))
            .filter(|pod| memory.asked.get(&uid(pod)) != Some(&Asked::Gone))
            .collect();
        let users = self.users(&present, memory);
        let volumes = self.follow_volumes(order, memory, &users, node.as_deref(), now);
        let mut budgets = BTreeMap::new();
        let pods: Vec<PodSeen> = leave
            .iter()
            .map(|pod| self.pod(order, memory, pod, (&users, node.as_deref()), &mut budgets, now))
            .collect();
        if pods.iter().any(|pod| pod.leaving.is_none()) {
            memory.verified = Verified::No;
        }
        let forced_since = memory.forced_since.unwrap_or(now);
        Seen {
            now,
            began: memory.began,
            node_name: order.node.clone(),
            limits: order.limits,
            forced,
            force_until: after(forced_since, FORCE_FOR),
            forced_at,
            node: node_seen(order, memory, node.as_deref(), now),
            pods,
            budgets,
            volumes,
            verified: memory.verified.clone(),
        }
    }

    fn node(&self, order: &Order, memory: &Memory) -> Option<Arc<Node>> {
        let cached = self.nodes.get(&Key::new("Node", "", order.node.clone()));
        cached.or_else(|| match &memory.absent {
            Absent::There(node) => Some(Arc::new(Node::clone(node))),
            _ => None,
        })
    }

    /// Who on the node uses which volume, besides pods that have ended.
    fn users(&self, present: &[Arc<BoundPod>], memory: &Memory) -> Users {
        let mut users = Users::new();
        for pod in present.iter().filter(|pod| !pod.claims.is_empty() && !pod.has_ended()) {
            if memory.asked.get(&uid(pod)) != Some(&Asked::Gone) {
                for volume in self.view.volumes_of(pod) {
                    users.entry(volume.name_any()).or_default().push((pod.clone(), leaving(pod, memory)));
                }
            }
        }
        users
    }

    fn pod(
        &self,
        order: &Order,
        memory: &Memory,
        pod: &BoundPod,
        (users, node): (&Users, Option<&Node>),
        budgets: &mut BTreeMap<String, BudgetSeen>,
        now: Timestamp,
    ) -> PodSeen {
        let id =
            PodId { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any(), uid: uid(pod) };
        let shared = |volume: &Volume| {
            let users = users.get(&volume.name_any()).into_iter().flatten();
            users.filter(|(_, leaving)| leaving.is_none()).any(|(user, _)| uid(user) != id.uid)
        };
        let volumes = self.view.volumes_of(pod).into_iter();
        let volumes = volumes.filter(|volume| self.is_attached(order, volume, node) && !shared(volume));
        let budget = pod.counts_for_budgets().then(|| self.budget_of(pod)).flatten();
        if let Some((name, budget)) = &budget
            && !budgets.contains_key(name)
        {
            budgets.insert(name.clone(), self.budget(name, budget, now));
        }
        let leaving = leaving(pod, memory).map(|(since, until, at_once)| Leaving {
            since,
            until,
            at_once,
            detached_by: detached_by(order, pod, since),
        });
        PodSeen {
            priority: pod.priority,
            has_claims: !pod.claims.is_empty(),
            volumes: volumes.map(|volume| volume.name_any()).collect(),
            leaving,
            budget: budget.map(|(name, _)| name),
            refusal: memory.refusals.get(&id.uid).cloned(),
            id,
        }
    }

    /// The budget that covers the pod; the first one if there are several, and then the API server says what it
    /// thinks of that.
    fn budget_of(&self, pod: &BoundPod) -> Option<(String, Arc<Budget>)> {
        let namespace = pod.namespace().unwrap_or_default();
        let mut covering =
            self.view.budgets_by_namespace.of(&namespace).into_iter().filter(|one| one.covers(pod));
        let first = covering.next()?;
        covering.next().is_none().then(|| (format!("{namespace}/{}", first.name_any()), first))
    }

    fn budget(&self, name: &str, budget: &Budget, now: Timestamp) -> BudgetSeen {
        let version = budget.resource_version().unwrap_or_default();
        let allowed = budget.allowed();
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let left = ledger.left(name, &version, allowed, now);
        BudgetSeen { version, allowed, left, misconfigured: budget.is_misconfigured() }
    }

    pub(super) fn volumes_near(&self, node: &str) -> BTreeMap<String, Arc<Volume>> {
        let pods = self.view.pods_by_node.of(node);
        let used = pods.iter().flat_map(|pod| self.view.volumes_of(pod));
        let attachments = self.view.attachments_by_node.of(node);
        let attached = attachments.iter().filter_map(|one| self.view.volume(one.volume.as_deref()?));
        used.chain(attached).map(|volume| (volume.name_any(), volume)).collect()
    }

    /// Whether it is attached to the node, as far as anybody knows.
    fn is_attached(&self, order: &Order, volume: &Volume, node: Option<&Node>) -> bool {
        let Some(id) = id_of(order, volume) else { return false };
        let named =
            node.and_then(|node| node.status.as_ref()?.volumes_attached.as_deref()).unwrap_or_default();
        self.view.attachments_by_volume.of(&volume.name_any()).iter().any(|one| one.node == order.node)
            || named.iter().any(|one| is_named_in(&id, &one.name))
    }

    /// Where the volumes that are or were on the node have got to.
    fn follow_volumes(
        &self,
        order: &Order,
        memory: &mut Memory,
        users: &Users,
        node: Option<&Node>,
        now: Timestamp,
    ) -> Vec<(String, crate::drain::InTheWay)> {
        let mut known: BTreeMap<String, Arc<Volume>> = self.volumes_near(&order.node);
        known.extend(memory.volumes.keys().filter_map(|name| Some((name.clone(), self.view.volume(name)?))));
        let mut tracked = BTreeMap::new();
        let mut in_the_way = Vec::new();
        for (name, volume) in known {
            if id_of(order, &volume).is_none() {
                continue;
            }
            let attachments = self.view.attachments_by_volume.of(&name);
            let users = users.get(&name).map(Vec::as_slice).unwrap_or_default();
            let leaving = users.iter().filter_map(|(pod, leaving)| Some((pod, leaving.as_ref()?.0)));
            let facts = VolumeFacts {
                used: users.iter().any(|(_, leaving)| leaving.is_none()),
                leaving: leaving.map(|(pod, since)| detached_by(order, pod, since)).max(),
                attached_here: self.is_attached(order, &volume, node),
                attached_elsewhere: attachments.iter().any(|one| one.node != order.node && one.attached),
                before: memory.volumes.get(&name).copied(),
            };
            let (remember, state) = track(facts, order.limits, now);
            tracked.extend(remember.map(|remember| (name.clone(), remember)));
            in_the_way.extend(state.map(|state| (name, state)));
        }
        memory.volumes = tracked;
        in_the_way
    }

    pub(super) fn observe_attachments(&self, order: &Order, memory: &mut Memory) -> AttachmentsSeen {
        let now = self.clock.now();
        let node = self.node(order, memory);
        let live = self.view.attachments_by_node.of(&order.node);
        let live = live.iter().filter(|one| one.is_live()).map(|one| one.name_any());
        let live = live.filter(|name| !memory.detached.contains(name)).collect();
        let failed = memory.detach_failed.as_ref().filter(|(at, _)| now < after(*at, TRY_AGAIN));
        AttachmentsSeen {
            now,
            volumes_attached: node.as_ref().is_some_and(|node| {
                node.status
                    .as_ref()
                    .is_some_and(|status| status.volumes_attached.iter().flatten().next().is_some())
            }),
            node: node_seen(order, memory, node.as_deref(), now),
            live,
            failed: failed.map(|(_, text)| text.clone()),
        }
    }
}

fn uid(pod: &BoundPod) -> String {
    pod.meta().uid.clone().unwrap_or_default()
}

/// Until when the volumes of a pod that leaves may take to be detached.
fn detached_by(order: &Order, pod: &BoundPod, since: Timestamp) -> Timestamp {
    after(after(since, pod.grace), order.limits.detach)
}

/// The id of a volume that is waited for.
fn id_of(order: &Order, volume: &Volume) -> Option<String> {
    match &order.volumes {
        Some(ids) => ids.get(&volume.name_any()).cloned(),
        None => volume.source.as_ref().map(|source| source.id().to_owned()),
    }
}

/// Since when it leaves, until when it may take, and whether without any grace, by the watch or by what was asked.
fn leaving(pod: &BoundPod, memory: &Memory) -> Option<(Timestamp, Timestamp, bool)> {
    let asked = memory.asked.get(&uid(pod));
    match (pod.leaving(), asked) {
        (_, Some(Asked::Killed(at))) => Some((*at, *at, true)),
        (Some(leaving), _) => Some(leaving),
        (None, Some(Asked::Evicted(at))) => Some((*at, after(*at, pod.grace), false)),
        (None, Some(Asked::Gone) | None) => None,
    }
}

fn node_seen(order: &Order, memory: &Memory, node: Option<&Node>, now: Timestamp) -> NodeSeen {
    let Some(node) = node else {
        return match &memory.absent {
            Absent::Gone => NodeSeen::Gone,
            Absent::Unanswered { at, text } => NodeSeen::Unanswered { at: *at, text: text.clone() },
            Absent::NotAsked | Absent::There(_) => NodeSeen::NotInCache,
        };
    };
    if !(order.is_meant)(node) {
        return NodeSeen::Gone;
    }
    let unschedulable = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
    // Somebody may undo it.
    let either = |shown: bool, (at, tried): &(Timestamp, Tried)| match tried {
        _ if shown => Tried::Done,
        Tried::Done if now >= after(*at, BELIEVED) => Tried::NotYet,
        tried => tried.clone(),
    };
    NodeSeen::There {
        marked: either(order.mark.is_none() || health::is_terminating(node), &memory.marked),
        cordoned: either(unschedulable, &memory.cordoned),
    }
}

/// Pods that are not there any more need no memory.
fn forget_what_is_over(present: &[Arc<BoundPod>], memory: &mut Memory, now: Timestamp) {
    let uids: BTreeSet<String> = present.iter().map(|pod| uid(pod)).collect();
    memory.refusals.retain(|uid, _| uids.contains(uid));
    memory.asked.retain(|uid, asked| {
        uids.contains(uid)
            && match asked {
                Asked::Evicted(at) | Asked::Killed(at) => now < after(*at, BELIEVED),
                Asked::Gone => true,
            }
    });
}

//! Every state a machine's life can get into is visited: what is written × what is in the cloud × what its
//! lists show × a crash or a fault at each edge. In each state it is safe; from each the goal is reached.

use super::{AttemptMark, NodeView, Observed, Sightings, StatusChange, Step, Tried, decide};
use crate::api::{OperationType, Phase};
use hostler_driver::{
    Attempt, Code, Evidence, Failure, Finding, Found, How, Identity, Machine as Server, Marks, ProviderId,
    Recognition, State,
};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

const LIST_LAG: Duration = Duration::from_secs(30);

/// How long ago an attempt was marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Age {
    /// Its call may still be sent.
    Young,
    /// Too late to send, too early to tell from a list.
    Stale,
    /// Lists begun now show what became of it.
    Settled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Life {
    Booting,
    Up,
    Failed,
    Deleting,
}

/// A server in the cloud. Owner 9 is somebody else's server of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Vm {
    id: u8,
    owner: usize,
    life: Life,
    in_lists: bool,
}

const FOREIGN: usize = 9;

/// What is written on one Machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Written {
    deleting: bool,
    finalizer: bool,
    phase: Phase,
    description: String,
    provider_id: Option<u8>,
    node_label: bool,
    attempt: Option<Age>,
}

/// What one run knows; gone with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Memory {
    unsent: bool,
    /// What happened in this run in which order: the last mark, question and list.
    order: Vec<char>,
    asked: Option<Vec<(u8, Life)>>,
    listed: Option<Vec<(u8, usize, Life)>>,
    /// When the list was begun every earlier attempt's outcome could be seen in it.
    listed_when_settled: bool,
    created: Option<u8>,
    settled: bool,
    failed: Option<u8>,
}

impl Memory {
    fn note(&mut self, event: char) {
        self.order.retain(|earlier| *earlier != event);
        self.order.push(event);
    }

    fn rank(&self, event: char) -> i64 {
        self.order.iter().position(|noted| *noted == event).map_or(-1, |at| i64::try_from(at).unwrap())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    None,
    Joined { ready: bool, cordoned: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Actor {
    written: Option<Written>,
    memory: Memory,
    node: Node,
    /// A create call that timed out on our side and may still take effect.
    in_flight: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct World {
    actors: Vec<Actor>,
    vms: Vec<Vm>,
    faults: u8,
    /// Machines with an index below this also have nodes, and lists that lag behind for them; for the others
    /// both are left out so that the walk with two machines stays finite in practice.
    detailed: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Fine,
    /// Refused or lost on the way there.
    NoEffect,
    /// Done, but the answer was lost.
    AnswerLost,
    /// The answer was lost, and it will be done later or not at all.
    Later,
    CrashBefore,
    CrashAfter,
}

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn id(number: u8) -> ProviderId {
    ProviderId::stackit("p", &format!("s{number}")).unwrap()
}

fn number(id: &ProviderId) -> u8 {
    id.server().trim_start_matches('s').parse().unwrap()
}

fn identity(actor: usize) -> Identity {
    Identity { domain: format!("cluster-{actor}"), machine: "m".into(), class: "c".into() }
}

fn server(number: u8, owner: usize, life: Life) -> Server {
    let identity = identity(owner);
    Server {
        provider_id: id(number),
        name: identity.machine.clone(),
        marks: Marks {
            domain: Some(identity.domain),
            machine: Some(identity.machine),
            class: Some(identity.class),
            attempt: None,
        },
        state: match life {
            Life::Booting => State::Pending,
            Life::Up => State::Running,
            Life::Failed => State::Failed { message: "no".into() },
            Life::Deleting => State::Deleting,
        },
        raw_state: String::new(),
        addresses: Vec::new(),
        created_at: None,
    }
}

fn failure() -> Failure {
    Failure::new(Code::Unavailable, "try again")
}

impl Actor {
    fn new() -> Self {
        let written = Written {
            deleting: false,
            finalizer: false,
            phase: Phase::Empty,
            description: String::new(),
            provider_id: None,
            node_label: false,
            attempt: None,
        };
        Self { written: Some(written), memory: Memory::default(), node: Node::None, in_flight: false }
    }

    fn observe(&self, written: &Written, actor: usize) -> Observed {
        let memory = &self.memory;
        // Moments of this run lie in the last minute, in the order in which they happened.
        let moment = |event| now() + SignedDuration::from_secs(memory.rank(event) - 10);
        let at = match written.attempt {
            Some(Age::Young) if memory.unsent => moment('m'),
            Some(Age::Young) => now() - SignedDuration::from_secs(9),
            Some(Age::Stale) => now() - SignedDuration::from_secs(30),
            _ => now() - SignedDuration::from_hours(2),
        };
        let asked = memory.asked.as_ref().map(|vms| Finding {
            found: Found::from_machines(
                vms.iter().map(|(number, life)| server(*number, actor, *life)).collect(),
            ),
            evidence: Evidence { how: How::Asked, began_at: moment('a'), answered_at: moment('a') },
        });
        let listed = memory.listed.as_ref().map(|vms| {
            let ours = vms.iter().map(|(number, owner, life)| server(*number, *owner, *life));
            let ours = ours.filter(|server| identity(actor).recognise(&server.marks) == Recognition::Ours);
            let began_at = if memory.listed_when_settled || written.attempt != Some(Age::Settled) {
                moment('l')
            } else {
                at
            };
            Finding {
                found: Found::from_machines(ours.collect()),
                evidence: Evidence { how: How::Listed, began_at, answered_at: began_at },
            }
        });
        Observed {
            now: now(),
            name: "m".into(),
            created_at: now() - SignedDuration::from_secs(60),
            creation_timeout: SignedDuration::from_mins(20),
            deleting: written.deleting,
            has_finalizer: written.finalizer,
            phase: written.phase,
            operation: Some(OperationType::Create),
            description: written.description.clone(),
            provider_id: written.provider_id.map(|number| Ok(id(number))),
            has_node_label: written.node_label,
            attempt: written.attempt.map(|_| AttemptMark { attempt: Attempt("x".into()), at }),
            attempt_unsent: memory.unsent,
            ready_to_act: Ok(()),
            sightings: Sightings {
                asked,
                listed,
                created: memory.created.map(|number| Box::new(server(number, actor, Life::Booting))),
                settled: memory.settled,
            },
            failure: memory.failed.map(|tried| {
                let tried = [Tried::Look, Tried::Create, Tried::Settle, Tried::Delete][usize::from(tried)];
                (tried, failure())
            }),
            node: match self.node {
                Node::None => None,
                Node::Joined { ready, cordoned } => {
                    Some(NodeView { name: "m".into(), ready, cordoned, ..NodeView::default() })
                }
            },
            list_lag: LIST_LAG,
        }
    }
}

impl World {
    fn new(machines: usize, detailed: usize) -> Self {
        let foreign = Vm { id: 0, owner: FOREIGN, life: Life::Up, in_lists: true };
        Self { actors: vec![Actor::new(); machines], vms: vec![foreign], faults: 0, detailed }
    }

    fn owned(&self, actor: usize) -> impl Iterator<Item = &Vm> {
        self.vms.iter().filter(move |vm| vm.owner == actor)
    }

    fn add_server(&mut self, owner: usize) -> u8 {
        let id = (1..u8::MAX).find(|id| self.vms.iter().all(|vm| vm.id != *id)).unwrap();
        self.vms.push(Vm { id, owner, life: Life::Booting, in_lists: owner >= self.detailed });
        self.vms.sort();
        id
    }

    /// What is wrong with this state, if anything is.
    fn violation(&self) -> Option<String> {
        if !self.vms.iter().any(|vm| vm.owner == FOREIGN && vm.life == Life::Up) {
            return Some("a foreign server was touched".into());
        }
        for (index, actor) in self.actors.iter().enumerate() {
            let live = self.owned(index).filter(|vm| vm.life != Life::Deleting).count();
            if live + usize::from(actor.in_flight) > 1 {
                return Some(format!(
                    "machine {index} has {live} servers and {} on the way",
                    u8::from(actor.in_flight)
                ));
            }
            if actor.written.is_none() && (self.owned(index).next().is_some() || actor.in_flight) {
                return Some(format!("machine {index} is gone and left a server behind"));
            }
        }
        None
    }

    /// What happens by itself.
    fn by_themselves(&self) -> Vec<(String, Self)> {
        let mut next = Vec::new();
        for (index, vm) in self.vms.iter().enumerate().filter(|(_, vm)| vm.owner != FOREIGN) {
            let mut with = |what: &str, change: &dyn Fn(&mut Self)| {
                let mut world = self.clone();
                change(&mut world);
                next.push((format!("server {} {what}", vm.id), world));
            };
            match vm.life {
                Life::Booting => {
                    with("is up", &|world| world.vms[index].life = Life::Up);
                    if self.faults > 0 {
                        with("fails", &|world| world.vms[index].life = Life::Failed);
                    }
                }
                Life::Deleting => with("is gone", &|world| {
                    world.vms.remove(index);
                }),
                Life::Up | Life::Failed => {}
            }
            if !vm.in_lists {
                with("appears in lists", &|world| world.vms[index].in_lists = true);
            }
        }
        for (index, actor) in self.actors.iter().enumerate() {
            let mut with = |what: &str, change: &dyn Fn(&mut Self)| {
                let mut world = self.clone();
                change(&mut world);
                next.push((format!("machine {index}: {what}"), world));
            };
            if actor.in_flight {
                with("the late create call takes effect", &|world| {
                    world.actors[index].in_flight = false;
                    world.add_server(index);
                });
                with("the late create call is lost", &|world| world.actors[index].in_flight = false);
            }
            let up = self.owned(index).any(|vm| vm.life == Life::Up);
            match actor.node {
                Node::None if up && index < self.detailed => with("its node joins", &|world| {
                    world.actors[index].node = Node::Joined { ready: true, cordoned: false };
                }),
                Node::Joined { ready: true, cordoned } if !up => with("its node is lost", &|world| {
                    world.actors[index].node = Node::Joined { ready: false, cordoned };
                }),
                _ => {}
            }
            let Some(written) = &actor.written else { continue };
            if !written.deleting {
                with("a user deletes it", &|world| {
                    let actor = &mut world.actors[index];
                    if let Some(written) = &mut actor.written {
                        written.deleting = true;
                        if !written.finalizer {
                            actor.written = None;
                        }
                    }
                    actor.memory = Memory::default();
                });
            }
            let lists_are_complete = !actor.in_flight && self.owned(index).all(|vm| vm.in_lists);
            match written.attempt {
                Some(Age::Young) => with("time passes", &|world| {
                    if let Some(written) = &mut world.actors[index].written {
                        written.attempt = Some(Age::Stale);
                    }
                }),
                Some(Age::Stale) if lists_are_complete => with("much time passes", &|world| {
                    let actor = &mut world.actors[index];
                    actor.memory.listed_when_settled = false;
                    if let Some(written) = &mut actor.written {
                        written.attempt = Some(Age::Settled);
                    }
                }),
                _ => {}
            }
        }
        next
    }

    /// What this machine's controller does next, with every way it can end.
    fn by_controller(&self, index: usize, most_faults: u8) -> Vec<(String, bool, Self)> {
        let actor = &self.actors[index];
        let Some(written) = &actor.written else { return Vec::new() };
        let step = decide(&actor.observe(written, index));
        let mut outcomes = vec![Outcome::Fine];
        if self.faults < most_faults {
            outcomes.extend([
                Outcome::NoEffect,
                Outcome::AnswerLost,
                Outcome::CrashBefore,
                Outcome::CrashAfter,
            ]);
            if step == Step::Create {
                outcomes.push(Outcome::Later);
            }
        }
        outcomes
            .into_iter()
            .map(|outcome| {
                let mut world = self.clone();
                world.faults += u8::from(outcome != Outcome::Fine);
                world.carry_out(index, &step, outcome);
                (format!("machine {index}: {step:?} ends {outcome:?}"), outcome == Outcome::Fine, world)
            })
            .collect()
    }

    fn carry_out(&mut self, index: usize, step: &Step, outcome: Outcome) {
        if !matches!(outcome, Outcome::NoEffect | Outcome::CrashBefore | Outcome::Later) {
            self.effect(index, step);
        }
        if outcome == Outcome::Later {
            self.actors[index].in_flight = true;
        }
        let ends = matches!(step, Step::Wait { .. } | Step::Done);
        let actor = &mut self.actors[index];
        let tried = match step {
            Step::Ask(_) | Step::List => Some(0),
            Step::Create => Some(1),
            Step::Settle(_) => Some(2),
            Step::DeleteServer(_) => Some(3),
            _ => None,
        };
        match outcome {
            Outcome::Fine if !ends => {}
            Outcome::NoEffect | Outcome::AnswerLost | Outcome::Later if tried.is_some() => {
                actor.memory = Memory { failed: tried, ..Memory::default() };
            }
            // A write of the object that failed ends the run, as a crash does.
            _ => actor.memory = Memory::default(),
        }
    }

    fn effect(&mut self, index: usize, step: &Step) {
        if let Step::DeleteServer(target) = step
            && let Some(vm) = self.vms.iter_mut().find(|vm| vm.id == number(target))
        {
            vm.life = Life::Deleting;
        }
        let created = (*step == Step::Create).then(|| self.add_server(index));
        let vms = self.vms.clone();
        let actor = &mut self.actors[index];
        let Some(written) = &mut actor.written else { return };
        let memory = &mut actor.memory;
        match step {
            Step::AddFinalizer => written.finalizer = true,
            Step::Ask(target) => {
                memory.note('a');
                let found = vms.iter().filter(|vm| vm.id == number(target));
                memory.asked = Some(found.map(|vm| (vm.id, vm.life)).collect());
            }
            Step::List => {
                memory.note('l');
                memory.listed_when_settled = true;
                let shown = vms.iter().filter(|vm| vm.in_lists);
                memory.listed = Some(shown.map(|vm| (vm.id, vm.owner, vm.life)).collect());
            }
            Step::MarkAttempt => {
                memory.note('m');
                memory.unsent = true;
                memory.listed = None;
                written.attempt = Some(Age::Young);
            }
            Step::Create => {
                memory.unsent = false;
                memory.created = created;
            }
            Step::Adopt(target) => {
                written.provider_id = Some(number(target));
                written.node_label = true;
                written.attempt = None;
                *memory = Memory::default();
            }
            Step::Settle(_) => memory.settled = true,
            Step::WriteStatus(StatusChange { phase, description, .. }) => {
                written.description.clone_from(description);
                if let Some(phase) = phase {
                    written.phase = *phase;
                }
            }
            Step::Cordon => actor.node = Node::Joined { ready: true, cordoned: true },
            Step::Evict { .. } => {}
            Step::DeleteServer(_) => *memory = Memory::default(),
            Step::DeleteNode => actor.node = Node::None,
            Step::RemoveFinalizer => actor.written = None,
            Step::Wait { .. } | Step::Done => {}
        }
    }

    fn is_goal(&self) -> bool {
        self.actors.iter().enumerate().all(|(index, actor)| match &actor.written {
            None => self.owned(index).next().is_none() && actor.node == Node::None,
            Some(written) if index >= self.detailed => !written.deleting && written.phase == Phase::Pending,
            Some(written) => !written.deleting && written.phase == Phase::Running,
        })
    }
}

struct Walk {
    states: usize,
    edges: usize,
}

/// Visits everything that can be reached, then asks from where the goal can.
fn walk(machines: usize, detailed: usize, most_faults: u8) -> Walk {
    let mut seen: HashMap<World, usize> = HashMap::new();
    let mut came_from: Vec<(usize, String)> = Vec::new();
    let mut good_edges: Vec<Vec<usize>> = Vec::new();
    let mut goals = Vec::new();
    let mut todo = VecDeque::new();
    let mut edges = 0;
    let start = World::new(machines, detailed);
    seen.insert(start.clone(), 0);
    came_from.push((0, "start".into()));
    good_edges.push(Vec::new());
    todo.push_back((0, start));
    while let Some((at, world)) = todo.pop_front() {
        if let Some(what) = world.violation() {
            panic!("{what}\n{}\n{world:#?}", story(&came_from, at));
        }
        if world.is_goal() {
            goals.push(at);
        }
        let mut next: Vec<(String, bool, World)> =
            world.by_themselves().into_iter().map(|(what, world)| (what, true, world)).collect();
        for actor in 0..machines {
            next.extend(world.by_controller(actor, most_faults));
        }
        for (what, good, world) in next {
            edges += 1;
            let new = seen.len();
            let to = *seen.entry(world.clone()).or_insert(new);
            if to == new {
                came_from.push((at, what));
                good_edges.push(Vec::new());
                todo.push_back((to, world));
            }
            if good {
                good_edges[to].push(at);
            }
        }
    }
    let mut reached = vec![false; seen.len()];
    let mut todo: VecDeque<usize> = goals.into();
    for goal in &todo {
        reached[*goal] = true;
    }
    while let Some(at) = todo.pop_front() {
        for from in &good_edges[at] {
            if !std::mem::replace(&mut reached[*from], true) {
                todo.push_back(*from);
            }
        }
    }
    if let Some(lost) = reached.iter().position(|reached| !reached) {
        panic!("no way to the goal\n{}", story(&came_from, lost));
    }
    Walk { states: seen.len(), edges }
}

fn story(came_from: &[(usize, String)], mut at: usize) -> String {
    let mut lines = Vec::new();
    while at != 0 {
        lines.push(came_from[at].1.clone());
        at = came_from[at].0;
    }
    lines.reverse();
    lines.join("\n")
}

#[test]
fn one_machine_is_safe_in_every_state_and_reaches_its_goal_from_each() {
    let walk = walk(1, 1, 3);
    println!("one machine, three faults: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
}

#[test]
fn two_machines_of_one_name_in_one_project_do_not_touch_each_other() {
    let walk = walk(2, 0, 1);
    println!("two machines, one fault: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 5_000, "the walk became trivial: {} states", walk.states);
}

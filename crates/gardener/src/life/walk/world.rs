//! The world of the walk: what is written, what is in the cloud, and what can happen next.

use crate::api::Phase;
use crate::life::{AttemptMark, NodeView, Observed, Sightings, StatusChange, Step, Tried, decide, node};
use hostler_driver::{
    Attempt, Code, Evidence, Failure, Finding, Found, How, Identity, Machine as Server, Marks, ProviderId,
    Recognition, State,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

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
    /// By a clock that was ahead of the one of now.
    Future,
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
const FOREIGN_ID: u8 = 0;

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
    place: bool,
    /// The status has the node's conditions as they are.
    recorded: bool,
    /// It has been in its phase for longer than it may be unhealthy.
    long: bool,
}

/// What one run knows; gone with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Memory {
    unsent: bool,
    /// What happened in this run in which order: the last mark, question and list.
    order: Vec<char>,
    asked: Option<Vec<(u8, usize, Life)>>,
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
pub(super) struct World {
    actors: Vec<Actor>,
    vms: Vec<Vm>,
    faults: u8,
    /// Machines with an index below this also have nodes, lists that lag behind, servers that vanish, and users
    /// who make them anew; for the others all of that is left out so that the walk with two machines stays finite in practice.
    detailed: usize,
    class: Class,
    /// A step that is wrong whatever comes of it.
    wrong: Option<&'static str>,
}

/// Whether class and Secret are there and name the place that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    /// It is kept.
    Kept,
    /// Somebody takes it away again and again.
    There,
    Missing,
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
            Life::Failed => State::Failed { code: Code::Internal, message: "no".into() },
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
            place: false,
            recorded: false,
            long: false,
        };
        Self { written: Some(written), memory: Memory::default(), node: Node::None, in_flight: false }
    }

    fn conditions_change(&mut self) {
        if let Some(written) = &mut self.written {
            written.recorded = false;
        }
    }

    fn observe(&self, written: &Written, actor: usize, class: bool) -> Observed {
        let memory = &self.memory;
        // Moments of this run lie in the last minute, in the order in which they happened.
        let moment = |event| now() + SignedDuration::from_secs(memory.rank(event) - 10);
        let at = match written.attempt {
            Some(Age::Young) if memory.unsent => moment('m'),
            Some(Age::Young) => now() - SignedDuration::from_secs(9),
            Some(Age::Stale) => now() - SignedDuration::from_secs(30),
            Some(Age::Future) => now() + SignedDuration::from_hours(1),
            _ => now() - SignedDuration::from_hours(2),
        };
        let asked = memory.asked.as_ref().map(|vms| Finding {
            found: Found::from_machines(
                vms.iter().map(|(number, owner, life)| server(*number, *owner, *life)).collect(),
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
            phase_since: Some(now() - SignedDuration::from_mins(if written.long { 60 } else { 1 })),
            description: written.description.clone(),
            operation: None,
            operation_at: None,
            provider_id: written.provider_id.map(|number| Ok(id(number))),
            has_node_label: written.node_label,
            attempt: written.attempt.map(|_| AttemptMark { attempt: Attempt("x".into()), at }),
            attempt_unsent: memory.unsent,
            untouched: written.attempt.is_none() && !written.place,
            ready_to_act: if class { Ok(identity(actor)) } else { Err(failure()) },
            not_kept: None,
            refused: None,
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
                _ if !written.node_label => None,
                Node::None => None,
                Node::Joined { ready, .. } => Some(NodeView {
                    name: "m".into(),
                    ready,
                    recorded: written.recorded,
                    ..NodeView::default()
                }),
            },
            health_timeout: Some(SignedDuration::from_mins(10)),
            in_place_timeout: SignedDuration::from_mins(20),
            replaced: None,
            drain: written.node_label.then_some(match self.node {
                Node::Joined { cordoned: false, .. } => node::Step::Act(node::Act::Cordon),
                _ => node::Step::Done(node::Drained {
                    forced: None,
                    failed: None,
                    volumes_left: false,
                    took: Duration::ZERO,
                }),
            }),
            attachments: written.node_label.then_some(node::Step::Done(node::Cleared::Detached)),
            list_lag: LIST_LAG,
            periods: hostler_driver::Periods::default(),
        }
    }
}

impl World {
    pub(super) fn new(machines: usize, detailed: usize) -> Self {
        let foreign = Vm { id: FOREIGN_ID, owner: FOREIGN, life: Life::Up, in_lists: true };
        Self {
            actors: vec![Actor::new(); machines],
            vms: vec![foreign],
            faults: 0,
            detailed,
            class: Class::Kept,
            wrong: None,
        }
    }

    pub(super) fn with_somebody_elses_id(mut self) -> Self {
        for written in self.actors.iter_mut().flat_map(|actor| &mut actor.written) {
            written.provider_id = Some(FOREIGN_ID);
        }
        self
    }

    pub(super) fn with_a_class_that_comes_and_goes(self) -> Self {
        Self { class: Class::There, ..self }
    }

    pub(super) fn machines(&self) -> usize {
        self.actors.len()
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
    pub(super) fn violation(&self) -> Option<String> {
        if !self.vms.iter().any(|vm| vm.owner == FOREIGN && vm.life == Life::Up) {
            return Some("a foreign server was touched".into());
        }
        if let Some(wrong) = self.wrong {
            return Some(wrong.into());
        }
        for (index, actor) in self.actors.iter().enumerate() {
            let adopted = actor.written.as_ref().filter(|written| written.node_label);
            if adopted.is_some_and(|written| written.provider_id == Some(FOREIGN_ID)) {
                return Some("a foreign server was adopted".into());
            }
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
    pub(super) fn by_themselves(&self) -> Vec<(String, Self)> {
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
            if self.faults > 0 && vm.life != Life::Deleting && vm.owner < self.detailed {
                with("vanishes", &|world| {
                    world.vms.remove(index);
                });
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
                    world.actors[index].conditions_change();
                    world.actors[index].node = Node::Joined { ready: true, cordoned: false };
                }),
                Node::Joined { ready: true, cordoned } if !up => with("its node is lost", &|world| {
                    world.actors[index].conditions_change();
                    world.actors[index].node = Node::Joined { ready: false, cordoned };
                }),
                _ => {}
            }
            let Some(written) = &actor.written else {
                if index < self.detailed {
                    with("a user makes it anew", &|world| world.actors[index].written = Actor::new().written);
                }
                continue;
            };
            // More than one server on its way out would only make the walk longer.
            let known =
                !actor.in_flight && self.owned(index).count() < 2 && self.owned(index).all(|vm| vm.in_lists);
            let kept = self.class == Class::Kept;
            if self.faults > 0 && known && written.finalizer && index < self.detailed && kept {
                // The machine that comes after it has the same name and knows nothing of it. (If that one
                // goes before it has its own finalizer, the server is the user's to find.)
                with("a user tears it out of its finalizer and makes it anew", &|world| {
                    let Actor { written, memory, .. } = Actor::new();
                    let actor = &mut world.actors[index];
                    actor.written = written.map(|written| Written { finalizer: true, ..written });
                    actor.memory = memory;
                });
            }
            if written.phase == Phase::Unknown && !written.long {
                with("it stays unhealthy", &|world| {
                    if let Some(written) = &mut world.actors[index].written {
                        written.long = true;
                    }
                });
            }
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
            if written.provider_id == Some(FOREIGN_ID) {
                with("a user takes the wrong id off", &|world| {
                    let actor = &mut world.actors[index];
                    actor.memory = Memory::default();
                    if let Some(written) = &mut actor.written {
                        written.provider_id = None;
                    }
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
            if self.faults > 0
                && index < self.detailed
                && matches!(written.attempt, Some(age) if age != Age::Future)
            {
                with("the clock is set back", &|world| {
                    if let Some(written) = &mut world.actors[index].written {
                        written.attempt = Some(Age::Future);
                    }
                });
            }
        }
        let other = match self.class {
            Class::Kept => return next,
            Class::There => Class::Missing,
            Class::Missing => Class::There,
        };
        next.push((format!("the class is {other:?}"), Self { class: other, ..self.clone() }));
        next
    }

    /// What this machine's controller does next, with every way it can end.
    pub(super) fn by_controller(&self, index: usize, most_faults: u8) -> Vec<(String, bool, Self)> {
        let actor = &self.actors[index];
        let Some(written) = &actor.written else { return Vec::new() };
        let step = decide(&actor.observe(written, index, self.class != Class::Missing));
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

    /// What must not even be tried.
    fn forbidden(&self, index: usize, step: &Step) -> Option<&'static str> {
        let owner =
            |target: &ProviderId| self.vms.iter().find(|vm| vm.id == number(target)).map(|vm| vm.owner);
        let written = self.actors[index].written.as_ref()?;
        match step {
            Step::Settle(server) if owner(&server.provider_id).is_some_and(|owner| owner != index) => {
                Some("a foreign server was settled")
            }
            Step::DeleteServer(_) if !written.node_label => {
                Some("a server was deleted before its node had a name")
            }
            _ => None,
        }
    }

    fn carry_out(&mut self, index: usize, step: &Step, outcome: Outcome) {
        self.wrong = self.wrong.or_else(|| self.forbidden(index, step));
        if !matches!(outcome, Outcome::NoEffect | Outcome::CrashBefore | Outcome::Later) {
            self.effect(index, step);
        }
        if outcome == Outcome::Later {
            self.actors[index].in_flight = true;
        }
        let ends = matches!(step, Step::Wait { .. } | Step::TryAgain { .. } | Step::Done);
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
                memory.asked = Some(found.map(|vm| (vm.id, vm.owner, vm.life)).collect());
            }
            Step::List => {
                memory.note('l');
                memory.listed_when_settled = true;
                let shown = vms.iter().filter(|vm| vm.in_lists);
                memory.listed = Some(shown.map(|vm| (vm.id, vm.owner, vm.life)).collect());
            }
            Step::MarkAttempt => {
                *memory = Memory { unsent: true, ..Memory::default() };
                memory.note('m');
                written.attempt = Some(Age::Young);
                written.place = true;
            }
            Step::Redate(_) => {
                *memory = Memory::default();
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
                written.place = true;
                *memory = Memory::default();
            }
            Step::Settle(_) => memory.settled = true,
            Step::WriteStatus(StatusChange { phase, description, .. })
            | Step::GiveUp(StatusChange { phase, description, .. }) => {
                written.description.clone_from(description);
                if let Some(phase) = phase {
                    written.phase = *phase;
                    written.long = false;
                }
            }
            Step::RecordConditions => written.recorded = true,
            Step::OnNode(_) => actor.node = Node::Joined { ready: true, cordoned: true },
            Step::DeleteServer(_) => *memory = Memory::default(),
            Step::DeleteNode => actor.node = Node::None,
            Step::RemoveFinalizer => actor.written = None,
            // No node of this world is updated in place.
            Step::SetInPlace(..) | Step::Wait { .. } | Step::TryAgain { .. } | Step::Done => {}
        }
    }

    pub(super) fn is_goal(&self) -> bool {
        self.actors.iter().enumerate().all(|(index, actor)| match &actor.written {
            None => self.owned(index).next().is_none() && actor.node == Node::None,
            Some(written) if index >= self.detailed => !written.deleting && written.phase == Phase::Pending,
            Some(written) => !written.deleting && written.phase == Phase::Running,
        })
    }
}

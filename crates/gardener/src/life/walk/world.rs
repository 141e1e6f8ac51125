//! The world of the walk: what is written, what is in the cloud, and what can happen next.

mod nature;
mod special;
mod steps;
mod view;

use crate::api::Phase;
use special::{Keep, Update};

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
    /// It never ran.
    Failed,
    /// It ran.
    Broken,
    Deleting,
}

/// A server in the cloud. Owner 9 is somebody else's server of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Vm {
    id: u8,
    owner: usize,
    life: Life,
    in_lists: bool,
    /// It can join with the token that is there.
    has_token: bool,
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
    replaces: Option<u8>,
    /// What was written last was written long ago.
    long_told: bool,
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
    token: Option<Token>,
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

/// The machine's bootstrap token in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Token {
    None,
    Valid,
    Expired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Node {
    None,
    Joined {
        ready: bool,
        cordoned: bool,
        /// It has what its machine says of it, and our finalizer.
        labelled: bool,
        /// Somebody has deleted it.
        going: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Actor {
    written: Option<Written>,
    memory: Memory,
    node: Node,
    token: Token,
    /// It is time to look at what was done to its server.
    upkeep_due: bool,
    /// A create call that timed out on our side and may still take effect.
    in_flight: bool,
    update: Update,
    keep: Keep,
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
    has_target: bool,
    /// Also with bootstrap tokens, templates, and a look at the server from time to time.
    rich: bool,
    /// Nodes are updated in place.
    updates: bool,
    /// Machines are kept although they failed, if somebody wants so.
    keeps: bool,
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

impl Actor {
    fn new() -> Self {
        let written = Written {
            deleting: false,
            finalizer: false,
            phase: Phase::Empty,
            description: String::new(),
            provider_id: None,
            replaces: None,
            long_told: false,
            node_label: false,
            attempt: None,
            place: false,
            recorded: false,
            long: false,
        };
        Self {
            written: Some(written),
            memory: Memory::default(),
            node: Node::None,
            token: Token::None,
            upkeep_due: false,
            in_flight: false,
            update: Update::default(),
            keep: Keep::default(),
        }
    }

    fn conditions_change(&mut self) {
        if let Some(written) = &mut self.written {
            written.recorded = false;
        }
    }
}

impl World {
    pub(super) fn new(machines: usize, detailed: usize) -> Self {
        let foreign = Vm { id: FOREIGN_ID, owner: FOREIGN, life: Life::Up, in_lists: true, has_token: false };
        Self {
            actors: vec![Actor::new(); machines],
            vms: vec![foreign],
            faults: 0,
            detailed,
            class: Class::Kept,
            has_target: true,
            rich: false,
            updates: false,
            keeps: false,
            wrong: None,
        }
    }

    pub(super) fn with_somebody_elses_id(mut self) -> Self {
        for written in self.actors.iter_mut().flat_map(|actor| &mut actor.written) {
            written.provider_id = Some(FOREIGN_ID);
        }
        self
    }

    /// Another program holds the machines and has ordered a server for each, which nothing tells of.
    pub(super) fn begun_by_others(mut self) -> Self {
        for actor in &mut self.actors {
            actor.in_flight = true;
            actor.token = if self.rich { Token::Valid } else { Token::None };
            if let Some(written) = &mut actor.written {
                written.finalizer = true;
            }
        }
        self
    }

    pub(super) fn with_a_class_that_comes_and_goes(self) -> Self {
        Self { class: Class::There, ..self }
    }

    pub(super) fn rich(self) -> Self {
        Self { rich: true, ..self }
    }

    pub(super) fn without_target(self) -> Self {
        Self { has_target: false, ..self }
    }

    pub(super) fn machines(&self) -> usize {
        self.actors.len()
    }

    fn owned(&self, actor: usize) -> impl Iterator<Item = &Vm> {
        self.vms.iter().filter(move |vm| vm.owner == actor)
    }

    fn add_server(&mut self, owner: usize) -> u8 {
        let id = (1..u8::MAX).find(|id| self.vms.iter().all(|vm| vm.id != *id)).unwrap();
        let has_token = self.actors[owner].token != Token::None;
        let in_lists = owner >= self.detailed;
        self.vms.push(Vm { id, owner, life: Life::Booting, in_lists, has_token });
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
            let adopted = actor.written.as_ref().filter(|written| {
                written.node_label || matches!(written.phase, Phase::Available | Phase::Pending)
            });
            if adopted.is_some_and(|written| written.provider_id == Some(FOREIGN_ID)) {
                return Some("a foreign server was adopted".into());
            }
            if let Some(wrong) = self.wrongly_kept(actor) {
                return Some(format!("machine {index}: {wrong}"));
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
            let unlabelled = matches!(actor.node, Node::Joined { labelled: false, .. });
            if actor.written.as_ref().is_some_and(|written| written.phase == Phase::Running)
                && unlabelled
                && self.faults == 0
            {
                return Some(format!("machine {index} runs and its node lacks what the machine says of it"));
            }
            if actor.written.is_none() && actor.token != Token::None {
                return Some(format!("machine {index} is gone and left a token behind"));
            }
            let running = actor.written.as_ref().is_some_and(|written| written.phase == Phase::Running);
            if running && actor.token != Token::None && actor.node != Node::None && self.faults == 0 {
                return Some(format!("machine {index} has joined and its token is still there"));
            }
        }
        None
    }

    pub(super) fn is_goal(&self) -> bool {
        self.actors.iter().enumerate().all(|(index, actor)| match &actor.written {
            None => {
                self.owned(index).next().is_none() && actor.node == Node::None && actor.token == Token::None
            }
            Some(written) if !self.has_target => !written.deleting && written.phase == Phase::Available,
            Some(written) if index >= self.detailed => !written.deleting && written.phase == Phase::Pending,
            Some(written) => !written.deleting && written.phase == Phase::Running,
        })
    }
}

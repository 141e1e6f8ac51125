//! The world of the walk.

use crate::{
    api::{VPSieNodePhase as Phase, VPSieNodeStatus as Status},
    life::{Cordon, SpecChange, Why},
};
use jiff::{SignedDuration, Timestamp};

/// What can happen in a walk beside the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) tokens: bool,
    pub(super) removals: bool,
    pub(super) people: bool,
    pub(super) freezes: bool,
    pub(super) means_come_and_go: bool,
}

/// What is waited for shortly is so old: new, too old to send a call, and old enough for lists to show it.
const AGES: [i64; 3] = [0, 30, 180];
/// What takes its time is new, or too old for any patience.
pub(super) const LONG: i64 = 7200;

pub(super) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub(super) fn ago(age: i64) -> Timestamp {
    now() - SignedDuration::from_secs(age)
}

pub(super) fn older(age: i64) -> i64 {
    AGES.into_iter().find(|next| *next > age).unwrap_or(age)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Life {
    Booting,
    Up,
    Off,
    Broken,
    Going,
}

/// A VPS. Number 0 is somebody else's of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vm {
    pub(super) number: u8,
    pub(super) life: Life,
    pub(super) in_lists: bool,
}

pub(super) const FOREIGN: u8 = 0;

/// What is written on the VPSieNode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) deleting: bool,
    pub(super) finalizer: bool,
    pub(super) vps: Option<u8>,
    pub(super) attempt: Option<i64>,
    pub(super) absent: Option<i64>,
    pub(super) removal: Option<(Why, i64)>,
    pub(super) removal_failed: Option<i64>,
    pub(super) status: Status,
    pub(super) said: SpecChange,
}

/// What one run knows; gone with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) unsent: bool,
    /// The last mark, look, question and list, in their order.
    pub(super) order: Vec<char>,
    pub(super) looked: Option<Vec<(u8, Life)>>,
    pub(super) asked: Option<Vec<(u8, Life)>>,
    pub(super) listed: Option<Vec<(u8, Life)>>,
    /// How long ago the list was begun, and the question asked.
    pub(super) age: i64,
    pub(super) created: Option<u8>,
    pub(super) failed: Option<u8>,
}

impl Memory {
    pub(super) fn note(&mut self, event: char) {
        self.order.retain(|earlier| *earlier != event);
        self.order.push(event);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pods {
    None,
    There,
    /// Asked to go, and not gone yet.
    Leaving,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) ready: bool,
    pub(super) cordon: Cordon,
    pub(super) labelled: bool,
    pub(super) pods: Pods,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) features: Features,
    pub(super) object: Option<Object>,
    pub(super) memory: Memory,
    pub(super) vms: Vec<Vm>,
    pub(super) node: Option<Node>,
    /// Its node was there.
    pub(super) had_node: bool,
    pub(super) token: bool,
    /// A create call that timed out on our side and may still take effect.
    pub(super) in_flight: bool,
    pub(super) faults: u8,
    pub(super) frozen: bool,
    pub(super) means: bool,
    pub(super) protected: bool,
    pub(super) paused: bool,
    /// A step that is wrong whatever comes of it.
    pub(super) wrong: Option<&'static str>,
}

impl World {
    pub(super) fn new(features: Features) -> Self {
        let object = Object {
            deleting: false,
            finalizer: true,
            vps: None,
            attempt: None,
            absent: None,
            removal: None,
            removal_failed: None,
            status: Status::default(),
            said: SpecChange::default(),
        };
        Self {
            features,
            object: Some(object),
            memory: Memory::default(),
            vms: vec![Vm { number: FOREIGN, life: Life::Up, in_lists: true }],
            node: None,
            had_node: false,
            token: false,
            in_flight: false,
            faults: 0,
            frozen: false,
            means: true,
            protected: false,
            paused: false,
            wrong: None,
        }
    }

    pub(super) fn own(&self) -> impl Iterator<Item = &Vm> {
        self.vms.iter().filter(|vm| vm.number != FOREIGN)
    }

    pub(super) fn phase(&self) -> Option<Phase> {
        self.object.as_ref().and_then(|object| object.status.phase)
    }

    pub(super) fn add_vps(&mut self) -> u8 {
        let number = (1..u8::MAX).find(|number| self.vms.iter().all(|vm| vm.number != *number)).unwrap();
        self.vms.push(Vm { number, life: Life::Booting, in_lists: false });
        number
    }

    /// Nothing of it is left to be paid or to be wondered at.
    fn is_clean(&self) -> bool {
        self.own().next().is_none() && !self.in_flight && self.node.is_none() && !self.token
    }

    /// What is wrong with this state, if anything is.
    pub(super) fn violation(&self) -> Option<String> {
        if !self.vms.iter().any(|vm| vm.number == FOREIGN && vm.life == Life::Up) {
            return Some("somebody else's VPS was touched".into());
        }
        if let Some(wrong) = self.wrong {
            return Some(wrong.into());
        }
        let live = self.own().filter(|vm| vm.life != Life::Going).count();
        if live + usize::from(self.in_flight) > 1 {
            return Some(format!("{live} VPSs and {} on the way", u8::from(self.in_flight)));
        }
        let Some(object) = &self.object else {
            let what = "it is gone and left something behind".to_owned();
            return (!self.is_clean()).then_some(what);
        };
        if object.vps == Some(FOREIGN) {
            return Some("somebody else's VPS was adopted".into());
        }
        let status = &object.status;
        let stamps = [
            &status.created_at,
            &status.provisioned_at,
            &status.joined_at,
            &status.ready_at,
            &status.terminating_at,
        ];
        let stamps: Vec<Timestamp> = stamps.into_iter().flatten().map(|time| time.0).collect();
        if stamps.is_sorted() { None } else { Some(format!("timestamps go back: {stamps:?}")) }
    }

    pub(super) fn is_goal(&self) -> bool {
        let Some(object) = &self.object else { return self.is_clean() };
        let calm = !object.deleting && object.removal.is_none();
        match self.phase() {
            Some(Phase::Ready) if calm => {
                let well =
                    self.node.is_some_and(|node| node.ready && node.labelled && node.cordon != Cordon::Ours);
                let kept = self.node.is_none() && self.protected;
                well && !self.token || kept
            }
            Some(Phase::Failed) if calm => self.is_clean() || self.protected,
            _ => false,
        }
    }
}

//! What happens without the controller: VPSs, lists, nodes, pods, time and people.

use super::world::{FOREIGN, LONG, Life, Memory, Node, Pods, World, ago, older};
use crate::{
    api::VPSieNodePhase as Phase,
    life::{Cordon, Why},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

type Next = Vec<(&'static str, bool, World)>;

impl World {
    /// What happens by itself, and whether one may hope for it.
    pub(super) fn by_itself(&self, most_faults: u8) -> Next {
        let mut next = Next::new();
        self.vps_changes(most_faults, &mut next);
        self.node_changes(most_faults, &mut next);
        self.people(&mut next);
        self.circumstances(most_faults, &mut next);
        next.extend(self.a_while_later().map(|world| ("a while passes", true, world)));
        next.extend(self.much_later().map(|world| ("hours pass", true, world)));
        next
    }

    fn with(&self, what: &'static str, good: bool, next: &mut Next, change: impl FnOnce(&mut Self)) {
        let mut world = self.clone();
        change(&mut world);
        next.push((what, good, world));
    }

    /// The same, as a fault: only so many happen.
    fn mishap(&self, what: &'static str, most: u8, next: &mut Next, change: impl FnOnce(&mut Self)) {
        if self.faults < most {
            self.with(what, false, next, |world| {
                world.faults += 1;
                change(world);
            });
        }
    }

    fn vps_changes(&self, most: u8, next: &mut Next) {
        for (at, vm) in self.vms.iter().enumerate().filter(|(_, vm)| vm.number != FOREIGN) {
            match vm.life {
                Life::Booting => {
                    self.with("its VPS runs", true, next, |world| world.vms[at].life = Life::Up);
                    self.mishap("its VPS fails", most, next, |world| world.vms[at].life = Life::Broken);
                }
                Life::Going => self.with("its VPS is gone", true, next, |world| {
                    world.vms.remove(at);
                }),
                Life::Up => {
                    self.mishap("its VPS is switched off", most, next, |world| {
                        world.vms[at].life = Life::Off;
                    });
                }
                Life::Off => {
                    self.with("its VPS is switched on", true, next, |world| world.vms[at].life = Life::Up);
                }
                Life::Broken => {}
            }
            if vm.life != Life::Going {
                self.mishap("its VPS vanishes", most, next, |world| {
                    world.vms.remove(at);
                });
            }
            if !vm.in_lists {
                self.with("its VPS appears in lists", true, next, |world| world.vms[at].in_lists = true);
            }
        }
        if self.in_flight {
            self.with("the late create call takes effect", true, next, |world| {
                world.in_flight = false;
                world.add_vps();
            });
            self.with("the late create call is lost", true, next, |world| world.in_flight = false);
        }
    }

    fn node_changes(&self, most: u8, next: &mut Next) {
        let up = self.own().any(|vm| vm.life == Life::Up);
        let Some(node) = self.node else {
            let may_join = up && !self.had_node && (!self.features.tokens || self.token);
            if may_join {
                self.with("its node joins", true, next, |world| {
                    world.had_node = true;
                    world.node =
                        Some(Node { ready: false, cordon: Cordon::No, labelled: false, pods: Pods::None });
                });
            }
            return;
        };
        let mut set = |what: &'static str, good: bool, node: Node| {
            self.with(what, good, next, |world| world.node = Some(node));
        };
        if !node.ready && up {
            set("its node is ready", true, Node { ready: true, ..node });
        }
        if node.ready && !up {
            set("its node is lost", true, Node { ready: false, ..node });
        }
        if node.ready
            && node.cordon == Cordon::No
            && node.pods == Pods::None
            && self.phase() == Some(Phase::Ready)
        {
            set("pods come", false, Node { pods: Pods::There, ..node });
        }
        if node.pods == Pods::Leaving && node.ready {
            set("its pods have left", true, Node { pods: Pods::None, ..node });
        }
        if node.ready && up {
            self.mishap("its node is not ready", most, next, |world| {
                world.node = Some(Node { ready: false, ..node });
            });
        }
    }

    fn people(&self, next: &mut Next) {
        let Some(object) = &self.object else { return };
        // Where the autoscaler removes it, it ends in the same way.
        if !object.deleting && !self.features.removals {
            self.with("somebody deletes it", false, next, |world| {
                world.memory = Memory::default();
                if let Some(object) = &mut world.object {
                    object.deleting = true;
                }
            });
        }
        if self.features.removals {
            self.autoscaler(next);
        }
        if !self.features.people {
            return;
        }
        if let Some(node) = self.node {
            self.with("somebody deletes its node", false, next, |world| world.node = None);
            let cordon = match node.cordon {
                Cordon::No => Some(Cordon::Theirs),
                Cordon::Theirs => Some(Cordon::No),
                Cordon::Ours => None,
            };
            let in_service = matches!(self.phase(), Some(Phase::Ready | Phase::Terminating));
            if let Some(cordon) = cordon.filter(|_| in_service && !object.deleting) {
                self.with("somebody cordons or uncordons its node", true, next, |world| {
                    world.node = Some(Node { cordon, ..node });
                });
            }
        }
        if !object.deleting {
            self.with("somebody protects it, or not", false, next, |world| {
                world.protected = !world.protected;
            });
        }
    }

    /// What the group does to it.
    fn autoscaler(&self, next: &mut Next) {
        let Some(object) = &self.object else { return };
        let may = !object.deleting && object.removal.is_none() && object.removal_failed.is_none();
        let mut mark = |what: &'static str, why: Why| {
            self.with(what, false, next, |world| {
                world.memory = Memory::default();
                if let Some(object) = &mut world.object {
                    object.removal = Some((why, 0));
                }
            });
        };
        if may && !matches!(self.phase(), None | Some(Phase::Failed)) {
            mark("its node is not needed", Why::ScaleDown);
        }
        if may && self.phase() == Some(Phase::Ready) && self.node.is_some_and(|node| !node.ready) {
            mark("its node is to be replaced", Why::Unhealthy);
        }
        if object.removal.is_some() || self.paused {
            self.with("the group is paused, or not", false, next, |world| world.paused = !world.paused);
        }
    }

    fn circumstances(&self, most: u8, next: &mut Next) {
        if self.features.freezes {
            if self.frozen {
                self.with("nobody doubts the answers", true, next, |world| world.frozen = false);
            } else {
                self.mishap("very many VPSs vanish", most, next, |world| world.frozen = true);
            }
        }
        if self.features.means_come_and_go {
            if self.means {
                self.mishap("the credentials are gone", most, next, |world| world.means = false);
            } else {
                self.with("the credentials are back", true, next, |world| world.means = true);
            }
        }
    }

    /// A minute or two: what is waited for shortly is over. A call takes effect, and lists show it, before its attempt is
    /// settled.
    fn a_while_later(&self) -> Option<Self> {
        let object = self.object.as_ref()?;
        let open = self.in_flight || self.own().any(|vm| !vm.in_lists);
        if open && object.attempt.is_some_and(|age| age >= 30) {
            return None;
        }
        let mut world = self.clone();
        let (new, memory) = (world.object.as_mut()?, &mut world.memory);
        new.attempt.iter_mut().chain(&mut new.absent).for_each(|age| *age = older(*age));
        if *memory != Memory::default() {
            // What was seen in this run is older by as much.
            let passed = |old: Option<i64>, new: Option<i64>| new.unwrap_or(0) - old.unwrap_or(0);
            let passed = passed(object.attempt, new.attempt).max(passed(object.absent, new.absent));
            memory.age = if passed > 0 { (memory.age + passed).min(180) } else { older(memory.age) };
        }
        (world != *self).then_some(world)
    }

    /// Hours: all patience is over.
    fn much_later(&self) -> Option<Self> {
        let object = self.object.as_ref()?;
        let settled = |age: Option<i64>| age.is_none_or(|age| older(age) == age);
        let open = self.in_flight || self.own().any(|vm| !vm.in_lists);
        if open || !settled(object.attempt) || !settled(object.absent) {
            return None;
        }
        let mut world = self.clone();
        // No run takes so long.
        world.memory = Memory::default();
        let object = world.object.as_mut()?;
        object.removal_failed.iter_mut().for_each(|age| *age = LONG);
        object.removal.iter_mut().for_each(|(_, since)| *since = LONG);
        let status = &mut object.status;
        let times = [
            &mut status.created_at,
            &mut status.provisioned_at,
            &mut status.joined_at,
            &mut status.ready_at,
            &mut status.terminating_at,
        ];
        let times = times.into_iter().flatten();
        let conditions = status.conditions.iter_mut().map(|condition| &mut condition.last_transition_time);
        times.chain(conditions).for_each(|time| *time = Time(ago(LONG)));
        (world != *self).then_some(world)
    }
}

//! What happens without the controller: servers, lists, nodes, time and users.

use super::{Actor, Age, Class, FOREIGN, FOREIGN_ID, Life, Memory, Node, Token, World, Written};
use crate::api::Phase;

impl World {
    /// What happens by itself.
    pub(in crate::life::walk) fn by_themselves(&self) -> Vec<(String, Self)> {
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
                Life::Up if self.faults > 0 && self.rich => {
                    with("breaks", &|world| world.vms[index].life = Life::Broken);
                }
                Life::Up | Life::Failed | Life::Broken => {}
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
            let with_token = actor.token == Token::Valid;
            let may_join =
                self.owned(index).any(|vm| vm.life == Life::Up && (!self.rich || vm.has_token && with_token));
            let may_join = may_join && self.has_target && index < self.detailed;
            if actor.token == Token::Valid && self.faults > 0 {
                with("its token expires", &|world| world.actors[index].token = Token::Expired);
            }
            match actor.node {
                Node::None if may_join => with("its node joins", &|world| {
                    world.actors[index].conditions_change();
                    world.actors[index].node =
                        Node::Joined { ready: true, cordoned: false, labelled: !world.rich, going: false };
                }),
                Node::Joined { ready: true, cordoned, labelled, going } if !up => {
                    with("its node is lost", &|world| {
                        world.actors[index].conditions_change();
                        world.actors[index].node = Node::Joined { ready: false, cordoned, labelled, going };
                    });
                }
                _ => {}
            }
            let owned = actor.written.as_ref().is_some_and(|written| written.node_label);
            if let Node::Joined { ready, cordoned, labelled: true, going } = actor.node
                && !owned
            {
                with("its node is nobody's and is released", &|world| {
                    let node = Node::Joined { ready, cordoned, labelled: false, going };
                    world.actors[index].node = if going { Node::None } else { node };
                });
            }
            if let Node::Joined { ready, cordoned, labelled: true, going: false } = actor.node
                && self.rich
            {
                with("a user deletes its node", &|world| {
                    world.actors[index].node = Node::Joined { ready, cordoned, labelled: true, going: true };
                });
            }
            next.extend(self.by_others(index));
            let mut with = |what: &str, change: &dyn Fn(&mut Self)| {
                let mut world = self.clone();
                change(&mut world);
                next.push((format!("machine {index}: {what}"), world));
            };
            let special = self.updates || self.keeps;
            let Some(written) = &actor.written else {
                if index < self.detailed && !special {
                    with("a user makes it anew", &|world| world.actors[index].written = Actor::new().written);
                }
                continue;
            };
            // More than one server on its way out would only make the walk longer.
            let known =
                !actor.in_flight && self.owned(index).count() < 2 && self.owned(index).all(|vm| vm.in_lists);
            let kept = self.class == Class::Kept;
            if self.faults > 0 && known && written.finalizer && index < self.detailed && kept && !special {
                // The machine that comes after it has the same name and knows nothing of it. (If that one
                // goes before it has its own finalizer, the server is the user's to find.)
                with("a user tears it out of its finalizer and makes it anew", &|world| {
                    let Actor { written, memory, .. } = Actor::new();
                    let actor = &mut world.actors[index];
                    actor.written = written.map(|written| Written { finalizer: true, ..written });
                    actor.memory = memory;
                });
            }
            let updating = matches!(written.phase, Phase::InPlaceUpdating | Phase::InPlaceUpdateFailed);
            if (written.phase == Phase::Unknown || updating) && !written.long {
                with("it stays so for long", &|world| {
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
            let told = written.phase == Phase::CrashLoopBackOff && index < self.detailed;
            if told && !written.deleting && !written.long_told {
                with("a failure is told for long", &|world| {
                    if let Some(written) = &mut world.actors[index].written {
                        written.long_told = true;
                    }
                });
            }
            if self.rich && written.phase == Phase::Running && !actor.upkeep_due && !written.deleting {
                with("it is time for a look at its server", &|world| world.actors[index].upkeep_due = true);
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
}

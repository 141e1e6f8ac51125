//! What a decision needs to know, gathered from the object, the caches and this run's memory.

use super::{
    AttemptMark, Identity, Machine, MachineController, Means, Memory, Observed, Order, Purpose, drain::Turn,
    token,
};
use crate::{
    api::{Phase, names},
    clouds::Lead,
    keep::Keeper,
    life::NodeView,
};
use hostler_base::{GoDuration, stable_hash};
use hostler_controller::Key;
use hostler_driver::{Attempt, Code, Described, Driver, Failure, Periods, ProviderId, Written};
use hostler_node::Node;
use jiff::SignedDuration;
use kube::{Resource, ResourceExt};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

/// Without a driver nothing is created, so any lag will do.
const NO_LAG: Duration = Duration::ZERO;

impl MachineController {
    /// Class, Secrets and driver of a machine, or what is missing. The driver is one for the place where the
    /// machine's server is or may be, whatever class and Secrets say by now; only who orders a new one goes by
    /// what they say.
    pub(super) fn means(&self, machine: &Machine, to: Purpose) -> Result<Means, Failure> {
        if machine.annotations().contains_key(names::ATTEMPT_ANNOTATION) && attempt_of(machine).is_none() {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!(
                    "metadata.annotations: {} cannot be read: it tells whether a server was ordered; remove it only if there is none",
                    names::ATTEMPT_ANNOTATION
                ),
            ));
        }
        let namespace = machine.namespace().unwrap_or_default();
        let class_name = &machine.spec.class.name;
        if machine.spec.class.kind != "MachineClass" || class_name.is_empty() {
            return Err(Failure::new(
                Code::InvalidArgument,
                "spec.class: must name a class: kind MachineClass and its name",
            ));
        }
        let class = self
            .caches
            .classes
            .get(&Key::new("MachineClass", namespace.clone(), class_name.clone()))
            .ok_or_else(|| missing(format!("there is no MachineClass {class_name:?}: create it")))?;
        let whereabouts = Whereabouts::of(machine, to)?;
        let written = Written { place: whereabouts.place.as_deref(), id: whereabouts.id.as_ref() };
        let Lead { driver, calls, described, user_data, spec } = self.clouds.lead(&class, written)?;
        self.listen_to(&driver);
        let described = match described {
            Err(_) if whereabouts.domain.is_some() => Described::default(),
            described => described?,
        };
        let user_data = match described.user_data {
            Some(own) => Some(own),
            None => user_data?,
        };
        let identity = Identity {
            domain: whereabouts.domain.unwrap_or(described.domain),
            machine: machine.name_any(),
            class: class.name_any(),
        };
        let place = Whereabouts::render(&driver.place(), &identity.domain);
        let order = Order {
            identity,
            attempt: attempt_of(machine).map_or_else(|| Attempt(String::new()), |mark| mark.attempt),
            spec,
            user_data,
        };
        let provider = class.spec.provider.clone();
        Ok(Means { driver, calls, order, place, provider, upkeep: described.upkeep })
    }

    /// Lets the driver's news wake machines.
    fn listen_to(&self, driver: &Arc<dyn Driver>) {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.iter().any(|other| other.ptr_eq(&Arc::downgrade(driver))) {
            return;
        }
        heard.retain(|other| other.strong_count() > 0);
        heard.push(Arc::downgrade(driver));
        // Nobody minds if the listener has ended with the process.
        let _ = self.new_drivers.send(Arc::clone(driver));
    }

    /// Why no server can be ordered, found without asking the cloud; else what looks wrong and is used.
    pub(super) fn check(&self, means: &Means) -> Result<Vec<String>, Failure> {
        self.clouds.serves(&means.provider)?;
        let class = &means.order.identity.class;
        let machines = self.caches.machines.count(|machine| machine.spec.class.name == *class);
        means.driver.check(&means.order, machines)
    }

    pub(super) fn observe(
        &self,
        machine: &Machine,
        memory: &Memory,
        means: &Result<Means, Failure>,
    ) -> Observed {
        let now = self.clock.now();
        let meta = machine.meta();
        let status = machine.status.clone().unwrap_or_default();
        let replaces = replaces(machine);
        let spec_id = Some(machine.spec.provider_id.as_str()).filter(|id| !id.is_empty());
        // Who leaves takes the one along that was to give way.
        let leaving = meta.deletion_timestamp.as_ref().and(replaces).filter(|_| spec_id.is_none());
        let provider_id = spec_id.or(leaving);
        let turn = self.turn(machine);
        let order = turn.and_then(|_| self.drain_order(machine, memory, means));
        if turn.is_none() {
            self.forget_drain(&Key::of(machine));
        }
        let drain = self.drainer.as_ref().zip(order.as_ref());
        let node = self.node(machine).filter(|_| !memory.node_deleted);
        let running_for = self.clock.instant().saturating_duration_since(self.started_at);
        Observed {
            now,
            started_at: now.saturating_sub(running_for).unwrap_or(now),
            name: machine.name_any(),
            created_at: meta.creation_timestamp.as_ref().map_or(now, |time| time.0),
            creation_timeout: creation_timeout(machine, self.options.creation_timeout),
            deleting: meta.deletion_timestamp.is_some(),
            has_finalizer: has_finalizer(machine),
            phase: status.current_status.phase,
            phase_since: status.current_status.last_update_time.map(|time| time.0),
            description: status.last_operation.description,
            operation: status.last_operation.operation.zip(status.last_operation.state),
            operation_at: status.last_operation.last_update_time.map(|time| time.0),
            provider_id: provider_id.map(|id| id.parse::<ProviderId>().map_err(|error| error.to_string())),
            replaces: replaces.and_then(|id| id.parse().ok()),
            given_way: given_way(machine),
            ran: status.last_known_state.strip_suffix(" ran").and_then(|id| id.parse().ok()),
            has_node_label: machine.labels().contains_key(names::NODE_LABEL),
            attempt: attempt_of(machine)
                .filter(|mark| memory.attempt_unsent || !self.unsent.holds(&Key::of(machine), mark)),
            attempt_unsent: memory.attempt_unsent,
            untouched: is_untouched(machine),
            placed: machine.annotations().contains_key(names::PLACE_ANNOTATION),
            ready_to_act: means.as_ref().map(|means| means.order.identity.clone()).map_err(Clone::clone),
            not_kept: provider_id
                .is_none()
                .then(|| Keeper::not_yet_kept(machine, &self.caches.classes, &self.caches.secrets))
                .flatten(),
            refused: means
                .as_ref()
                .ok()
                // Before the cloud was looked at nobody is about to order anything.
                .filter(|_| provider_id.is_none() && memory.sightings.listed.is_some())
                .and_then(|means| self.check(means).err()),
            order_in: self.patience(machine),
            sightings: memory.sightings.clone(),
            failure: memory.failure.clone(),
            upkeep_in: means.as_ref().ok().filter(|means| means.upkeep).map(|_| self.upkeep_in(machine)),
            has_target: self.target.is_some(),
            token_wanted: self.target.is_some()
                && means
                    .as_ref()
                    .is_ok_and(|means| means.order.user_data.as_ref().is_some_and(token::is_wanted_by)),
            token: memory.token.as_ref().map(|known| known.view(now)),
            preserve: self.preserve_of(machine, node.as_deref()),
            node: node.map(|node| NodeView {
                behind: self.behind(machine, &node, memory),
                ..self.node_view(machine, &node)
            }),
            node_unseen: self.target.is_some()
                && machine.labels().contains_key(names::NODE_LABEL)
                && status.conditions.is_empty()
                && !memory.node_looked_for,
            node_lost: self.has_lost_its_node(machine),
            node_on: self.node_on(&machine.name_any()),
            node_naming_it: self.node_naming(machine),
            health_timeout: (machine.spec.configuration.disable_health_timeout != Some(true)).then(|| {
                let own = machine.spec.configuration.health_timeout.as_deref();
                own.and_then(read).unwrap_or_else(|| signed(self.options.health_timeout))
            }),
            in_place_timeout: {
                let own = machine.spec.configuration.in_place_update_timeout.as_deref();
                own.and_then(read).unwrap_or_else(|| signed(self.options.in_place_update_timeout))
            },
            replaced: matches!(status.current_status.phase, Phase::Unknown | Phase::InPlaceUpdateFailed)
                .then(|| self.replaced(machine))
                .flatten(),
            drain: drain
                .filter(|_| matches!(turn, Some(Turn::Drain | Turn::InPlace | Turn::Preserve)))
                .map(|(drainer, order)| drainer.look(order)),
            attachments: drain
                .filter(|_| turn == Some(Turn::Attachments))
                .map(|(drainer, order)| drainer.look_at_attachments(order)),
            periods: Periods::default()
                .with_resource_exhausted(self.options.resource_exhausted_retry)
                .spread(stable_hash(&machine.name_any())),
            list_lag: means.as_ref().map_or(NO_LAG, |means| means.driver.list_lag()),
        }
    }

    /// The server on which the node of this name says that it runs.
    fn node_on(&self, name: &str) -> Option<ProviderId> {
        let node = self.caches.nodes.get(&Key::new("Node", "", name))?;
        node.spec.as_ref()?.provider_id.as_ref()?.parse().ok()
    }

    /// A node that says that it is this machine's, which names none itself.
    fn node_naming(&self, machine: &Machine) -> Option<String> {
        let unnamed = !machine.labels().contains_key(names::NODE_LABEL);
        if !unnamed || machine.meta().deletion_timestamp.is_none() {
            return None;
        }
        let named = self.caches.nodes.with_word(&machine.name_any());
        named.iter().find(|node| is_node_of(&machine.spec.provider_id, node)).map(|node| node.name_any())
    }

    /// The machine's node: the one its label names, unless that says that it runs on another server. A node that
    /// happens to have the machine's name is not.
    pub(super) fn node(&self, machine: &Machine) -> Option<Arc<Node>> {
        let name = machine.labels().get(names::NODE_LABEL)?;
        let node = self.caches.nodes.get(&Key::new("Node", "", name.clone()))?;
        is_node_of(&machine.spec.provider_id, &node).then_some(node)
    }
}

/// The id of a failed server that is to be replaced.
pub(super) fn replaces(machine: &Machine) -> Option<&str> {
    machine.annotations().get(names::REPLACES_ANNOTATION).map(String::as_str)
}

/// Whether a node may run on the server with this id.
pub(crate) fn is_node_of(provider_id: &str, node: &Node) -> bool {
    let says = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
    !is_elsewhere(provider_id, says)
}

/// Whether machine and node name different servers. An id that cannot be read names none.
fn is_elsewhere(machine: &str, node: &str) -> bool {
    match (machine.parse::<ProviderId>(), node.parse::<ProviderId>()) {
        (Ok(machine), Ok(node)) => !machine.names_same_server(&node),
        _ => false,
    }
}

/// What is written as the last known state of a machine whose server was seen running before it was of any use.
pub(super) fn ran(id: &ProviderId) -> String {
    format!("{id} ran")
}

/// How many of a machine's servers have given way. What cannot be read is none.
pub(super) fn given_way(machine: &Machine) -> u32 {
    let written = machine.annotations().get(names::GIVEN_WAY_ANNOTATION);
    written.and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// Whether a machine has our finalizer.
pub(super) fn has_finalizer(machine: &Machine) -> bool {
    machine.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER)
}

/// Whether nothing on the machine tells of an attempt to make a server.
fn is_untouched(machine: &Machine) -> bool {
    let marks = [names::ATTEMPT_ANNOTATION, names::PLACE_ANNOTATION, names::REPLACES_ANNOTATION];
    let known = machine.status.as_ref().is_some_and(|status| !status.last_known_state.is_empty());
    !known && !marks.iter().any(|name| machine.annotations().contains_key(*name))
}

fn missing(what: String) -> Failure {
    Failure::new(Code::FailedPrecondition, what)
}

pub(super) fn attempt_of(machine: &Machine) -> Option<AttemptMark> {
    machine.annotations().get(names::ATTEMPT_ANNOTATION).and_then(|text| AttemptMark::parse(text))
}

/// What is written about where a machine's server is, and whose it is.
#[derive(Default)]
struct Whereabouts {
    place: Option<String>,
    domain: Option<String>,
    id: Option<ProviderId>,
}

impl Whereabouts {
    fn render(place: &str, domain: &str) -> String {
        format!("{place} cluster {domain}")
    }

    /// Binding as long as there is a server, or may be one.
    fn of(machine: &Machine, to: Purpose) -> Result<Self, Failure> {
        let own: Option<ProviderId> = machine.spec.provider_id.parse().ok();
        let id = own.or_else(|| replaces(machine)?.parse().ok());
        let binding = id.is_some()
            || machine.meta().deletion_timestamp.is_some()
            || machine.annotations().contains_key(names::ATTEMPT_ANNOTATION);
        if to == Purpose::OrderAnew || !binding {
            return Ok(Self::default());
        }
        let Some(written) = machine.annotations().get(names::PLACE_ANNOTATION) else {
            return Ok(Self { id, ..Self::default() });
        };
        let (place, domain) = written.rsplit_once(" cluster ").ok_or_else(|| {
            Failure::new(
                Code::InvalidArgument,
                format!(
                    "metadata.annotations: {} cannot be read: it tells where the server was ordered; remove it only if class and Secret still name that place",
                    names::PLACE_ANNOTATION
                ),
            )
        })?;
        Ok(Self { place: Some(place.to_owned()), domain: Some(domain.to_owned()), id })
    }
}

/// The annotation, else the spec, else the default; what cannot be read is passed over.
pub(super) fn creation_timeout(machine: &Machine, default: Duration) -> SignedDuration {
    machine
        .annotations()
        .get(names::CREATION_TIMEOUT_ANNOTATION)
        .and_then(|text| read(text))
        .or_else(|| machine.spec.configuration.creation_timeout.as_deref().and_then(read))
        .unwrap_or_else(|| signed(default))
}

pub(super) fn read(text: &str) -> Option<SignedDuration> {
    let GoDuration(duration) = text.parse().ok()?;
    SignedDuration::try_from(duration).ok()
}

pub(super) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_of_another_server_is_no_node_of_ours() {
        let (ours, other) = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
        let machine = format!("stackit://33333333-3333-4333-8333-333333333333/{ours}");
        for (node, elsewhere) in [
            (format!("stackit://{ours}"), false),
            (format!("stackit:///{ours}"), false),
            (machine.clone(), false),
            (format!("stackit://{other}"), true),
            (format!("stackit:///{other}"), true),
            (String::new(), false),
            ("who knows".to_owned(), false),
        ] {
            assert_eq!(is_elsewhere(&machine, &node), elsewhere, "{node}");
        }
        assert!(!is_elsewhere("", &format!("stackit://{other}")));
    }

    #[test]
    fn creation_timeouts_that_cannot_be_read_are_passed_over() {
        let timeout = |annotation: Option<&str>, spec: Option<&str>| {
            let machine = json!({
                "metadata": {"annotations": annotation.map(|text| json!({names::CREATION_TIMEOUT_ANNOTATION: text}))},
                "spec": {"class": {"kind": "MachineClass", "name": "c"}, "creationTimeout": spec},
            });
            creation_timeout(&serde_json::from_value(machine).unwrap(), Duration::from_mins(20))
        };
        let minutes = SignedDuration::from_mins;
        for (annotation, spec, expected) in [
            (None, None, 20),
            (None, Some("10m0s"), 10),
            (Some("5m"), Some("10m"), 5),
            (Some("soon"), Some("10m"), 10),
            (None, Some("99999999999999999999h"), 20),
            (None, Some("5s-3s"), 20),
            (None, Some("-10m"), 20),
        ] {
            assert_eq!(timeout(annotation, spec), minutes(expected), "{annotation:?} {spec:?}");
        }
    }
}

//! What the drain of a machine's node needs to know of the machine.

use super::{Machine, MachineController, Means, Memory, Observed, in_place};
use crate::{
    api::{Phase, names},
    life::Cursor,
    metrics::Method,
};
use hostler_base::GoDuration;
use hostler_controller::Key;
use hostler_driver::{Code, Failure, VolumeSource};
use hostler_node::{Limits, Order, Step, VolumeSource as Source};
use kube::{Resource, ResourceExt};
use std::{sync::Arc, time::Duration};

/// How often at most an eviction is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(20);

/// Whose turn it is, if the node has to do with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Drain,
    Attachments,
    /// Before an update in place.
    InPlace,
    /// Of a machine that has failed and is kept.
    Preserve,
}

fn turn_of(machine: &Machine) -> Option<Turn> {
    machine.meta().deletion_timestamp.as_ref()?;
    let status =
        machine.status.as_ref().filter(|status| status.current_status.phase == Phase::Terminating)?;
    match Cursor::read(&status.last_operation.description) {
        Cursor::Drain => Some(Turn::Drain),
        Cursor::DeleteAttachments => Some(Turn::Attachments),
        _ => None,
    }
}

/// As Go reads a bool; what is none is no.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Reason and message of the condition of a node that is going.
fn why(well: bool) -> (&'static str, &'static str) {
    if well {
        ("ScaleDown", "Machine Controller is scaling down machine")
    } else {
        ("Unhealthy", "Machine Controller is terminating failed machine")
    }
}

fn limits(machine: &Machine, defaults: Limits) -> Limits {
    let own = &machine.spec.configuration;
    let read = |text: &String| text.parse().ok().map(|GoDuration(duration)| duration);
    let timeout = own.drain_timeout.as_ref().and_then(read).unwrap_or(defaults.timeout);
    let retries = own.max_evict_retries.and_then(|retries| u32::try_from(retries).ok());
    let fitting = u32::try_from(timeout.as_secs() / RETRY_INTERVAL.as_secs()).unwrap_or(u32::MAX);
    Limits { timeout, evict_retries: retries.unwrap_or(defaults.evict_retries).min(fitting), ..defaults }
}

impl MachineController {
    pub(super) fn turn(&self, machine: &Machine) -> Option<Turn> {
        if machine.meta().deletion_timestamp.is_some() {
            return turn_of(machine);
        }
        let node = self.node(machine)?;
        if in_place::drain_since(&node).is_some() {
            return Some(Turn::InPlace);
        }
        let phase = machine.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default();
        let drains = self.preserve_of(machine, Some(&node)).drains(phase, self.clock.now());
        drains.then_some(Turn::Preserve)
    }

    /// The drain that is to be done for a machine whose node has a name.
    pub(super) fn drain_order(
        &self,
        machine: &Machine,
        memory: &Memory,
        means: &Result<Means, Failure>,
    ) -> Option<Order> {
        self.target.as_ref()?;
        let node = machine.labels().get(names::NODE_LABEL)?.clone();
        let on = self.node(machine);
        let well = on.as_ref().is_none_or(|node| self.is_well(machine, node));
        let label = |name: &str| machine.labels().get(name).map(String::as_str).unwrap_or_default();
        let (since, force, mark) = match &machine.meta().deletion_timestamp {
            Some(deleted) => (deleted.0, is_true(label(names::FORCE_DELETION_LABEL)), Some(why(well))),
            None => {
                let failed = || Some(machine.status.as_ref()?.current_status.last_update_time.as_ref()?.0);
                let since = in_place::drain_since(on.as_ref()?).or_else(failed)?;
                (since, label(names::FORCE_DRAIN_LABEL) == "True", None)
            }
        };
        let ids = memory.volume_ids.iter().filter_map(|(name, id)| Some((name.clone(), id.clone()?)));
        let own = machine.spec.provider_id.clone();
        Some(Order {
            key: Key::of(machine),
            node,
            is_meant: Arc::new(move |node| super::observe::is_node_of(&own, node)),
            since,
            limits: limits(machine, self.options.drain),
            force,
            mark,
            volumes: (means.is_ok() && !memory.volumes_unknown).then(|| ids.collect()),
            leave_ended: false,
        })
    }

    /// Lets the driver say which volumes near the node are its own, before a decision needs to know.
    pub(super) async fn ask_for_volume_ids(
        &self,
        machine: &Machine,
        memory: &mut Memory,
        means: &Result<Means, Failure>,
    ) {
        let (Some(Turn::Drain | Turn::InPlace | Turn::Preserve), Ok(means)) = (self.turn(machine), means)
        else {
            return;
        };
        let Some(node) = machine.labels().get(names::NODE_LABEL) else { return };
        let Some(drainer) = &self.drainer else { return };
        for (name, volume) in drainer.volumes(node) {
            if memory.volume_ids.contains_key(&name) || memory.volumes_unknown {
                continue;
            }
            let source = volume.source.clone().map(|source| match source {
                Source::Csi { driver, handle } => VolumeSource::Csi { driver, handle },
                Source::InTree { kind, id } => VolumeSource::InTree { kind, id },
            });
            let ids = match source {
                Some(source) => {
                    let asked = means.driver.volumes(std::slice::from_ref(&source));
                    means.calls.timed(Method::GetVolumeIds, asked).await
                }
                None => Ok(Vec::new()),
            };
            match ids {
                Ok(ids) => drop(memory.volume_ids.insert(name, ids.into_iter().next())),
                Err(failure) => {
                    if failure.code != Code::Unimplemented {
                        tracing::warn!(%failure, volume = name, "nobody can tell whose volume it is");
                    }
                    memory.volumes_unknown = true;
                }
            }
        }
    }

    /// How long a drain took, once it is over.
    pub(super) fn note_drain(&self, machine: &Machine, seen: &Observed) {
        if let Some(Step::Done(drained)) = &seen.drain {
            self.metrics.drained(machine, drained.took);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn machine(value: Value) -> Machine {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_machine_may_have_limits_of_its_own() {
        let seconds = Duration::from_secs;
        let defaults = Limits { detach: seconds(7), reattach: seconds(8), ..Limits::default() };
        let of = |configuration: Value| {
            let mut spec = json!({"class": {"kind": "MachineClass", "name": "c"}});
            spec.as_object_mut().unwrap().extend(configuration.as_object().unwrap().clone());
            let limits = limits(&machine(json!({"metadata": {"name": "m"}, "spec": spec})), defaults);
            assert_eq!((limits.detach, limits.reattach), (seconds(7), seconds(8)), "nothing of these");
            (limits.timeout.as_secs(), limits.evict_retries)
        };
        for (configuration, expected) in [
            (json!({}), (7200, 360)),
            (json!({"drainTimeout": "10m0s"}), (600, 30)),
            (json!({"drainTimeout": "soon"}), (7200, 360)),
            (json!({"maxEvictRetries": 7}), (7200, 7)),
            (json!({"maxEvictRetries": -7}), (7200, 360)),
            (json!({"drainTimeout": "1m", "maxEvictRetries": 100}), (60, 3)),
        ] {
            assert_eq!(of(configuration.clone()), expected, "{configuration}");
        }
    }

    #[test]
    fn the_drain_has_its_turn_in_a_deletion_only() {
        let of = |deleted: Option<&str>, phase: &str, description: &str| {
            turn_of(&machine(json!({
                "metadata": {"name": "m", "deletionTimestamp": deleted},
                "spec": {"class": {"kind": "MachineClass", "name": "c"}},
                "status": {"currentStatus": {"phase": phase}, "lastOperation": {"description": description}},
            })))
        };
        let deleted = Some("2026-01-01T00:00:00Z");
        assert!(of(deleted, "Terminating", "Initiate node drain") == Some(Turn::Drain));
        assert!(of(deleted, "Terminating", "Delete Volume Attachments") == Some(Turn::Attachments));
        assert!(of(deleted, "Terminating", "Initiate VM deletion").is_none());
        assert!(of(deleted, "Running", "Initiate node drain").is_none());
        assert!(of(None, "Terminating", "Initiate node drain").is_none());
    }

    #[test]
    fn labels_are_read_as_go_reads_them() {
        for (text, expected) in
            [("True", true), ("true", true), ("1", true), ("yes", false), ("", false), ("tRUE", false)]
        {
            assert_eq!(is_true(text), expected, "{text}");
        }
    }
}

//! Which machines go first when there are too many.

use crate::api::{Machine, Phase, names};
use jiff::Timestamp;
use kube::ResourceExt;

/// Sorts machines by this: the first one goes first.
pub(super) type Rank = (Preservation, i64, (bool, Option<Timestamp>), u8, Option<Timestamp>, String);

/// Machines that somebody wants to look at go last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Preservation {
    None,
    Automatic(Timestamp),
    Wanted(Timestamp),
}

pub(super) fn rank(machine: &Machine, now: Timestamp) -> Rank {
    let note = |name: &str| machine.annotations().get(name);
    let priority = note(names::PRIORITY_ANNOTATION).and_then(|text| text.parse().ok());
    let default = names::DEFAULT_PRIORITY.parse().unwrap_or(3);
    let marked: Option<Timestamp> = note(names::MARKED_ANNOTATION).and_then(|text| text.parse().ok());
    (
        preservation(machine, now),
        priority.unwrap_or(default),
        (marked.is_none(), marked),
        phase_rank(phase(machine)),
        machine.metadata.creation_timestamp.as_ref().map(|time| time.0),
        machine.name_any(),
    )
}

pub(in crate::sets) fn phase(machine: &Machine) -> Phase {
    machine.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default()
}

/// When the machine stops being preserved, if it is.
pub(super) fn preserved_until(machine: &Machine) -> Option<Timestamp> {
    machine.status.as_ref()?.current_status.preserve_expiry_time.as_ref().map(|time| time.0)
}

fn preservation(machine: &Machine, now: Timestamp) -> Preservation {
    match preserved_until(machine).filter(|until| *until > now) {
        None => Preservation::None,
        Some(until) => {
            let value = machine.annotations().get(names::PRESERVE_ANNOTATION).map(String::as_str);
            if value == Some(names::AUTO_PRESERVED) {
                Preservation::Automatic(until)
            } else {
                Preservation::Wanted(until)
            }
        }
    }
}

fn phase_rank(phase: Phase) -> u8 {
    match phase {
        Phase::Terminating
        | Phase::Empty
        | Phase::InPlaceUpdating
        | Phase::InPlaceUpdateSuccessful
        | Phase::InPlaceUpdateFailed => 0,
        Phase::Failed => 1,
        Phase::CrashLoopBackOff => 2,
        Phase::Unknown => 3,
        Phase::Pending => 4,
        Phase::Available => 5,
        Phase::Running => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn machine(name: &str, annotations: Value, phase: &str, created: u32, expires: Option<u32>) -> Machine {
        let at = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        let mut current = json!({"phase": phase});
        if let Some(expires) = expires {
            current["preserveExpiryTime"] = json!(at(expires));
        }
        serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations, "creationTimestamp": at(created)},
            "spec": {}, "status": {"currentStatus": current, "lastOperation": {}},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_to_go() {
        let priority = |value: &str| json!({names::PRIORITY_ANNOTATION: value});
        let marked = |time: &str| json!({names::PRIORITY_ANNOTATION: "1", names::MARKED_ANNOTATION: time});
        let automatic = json!({names::PRESERVE_ANNOTATION: "auto-preserved"});
        let wanted = json!({names::PRESERVE_ANNOTATION: "now"});
        // In the order in which they go.
        let machines = vec![
            machine("earlier-mark", marked("2026-01-01T00:00:01Z"), "Running", 9, None),
            machine("later-mark", marked("2026-01-01T00:00:02Z"), "Running", 1, None),
            machine("unreadable-mark", marked("soon"), "Running", 1, None),
            machine("priority-2", priority("2"), "Running", 9, None),
            machine("not-started", json!({}), "", 9, None),
            machine("failed", json!({}), "Failed", 9, None),
            machine("expired", wanted.clone(), "Failed", 10, Some(20)),
            machine("crashing", json!({}), "CrashLoopBackOff", 9, None),
            machine("unknown", json!({}), "Unknown", 9, None),
            machine("pending", json!({}), "Pending", 9, None),
            machine("available", json!({}), "Available", 9, None),
            machine("older", json!({}), "Running", 1, None),
            machine("younger", priority("three"), "Running", 2, None),
            machine("precious", priority("5"), "Failed", 1, None),
            machine("auto-soon", automatic.clone(), "Failed", 9, Some(40)),
            machine("auto-late", automatic, "Failed", 1, Some(50)),
            machine("kept-soon", wanted.clone(), "Failed", 1, Some(40)),
            machine("kept-late", wanted, "Failed", 1, Some(50)),
        ];
        let now: Timestamp = "2026-01-01T00:00:30Z".parse().unwrap();
        let names = |machines: &[Machine]| machines.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        let mut sorted = machines.clone();
        sorted.reverse();
        sorted.sort_by_key(|machine| rank(machine, now));
        assert_eq!(names(&sorted), names(&machines));
    }
}

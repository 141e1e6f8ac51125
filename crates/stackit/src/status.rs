//! What the cloud's words for a server mean: one table for the words, and one answer per question for each
//! state that they stand for.

use crate::failure::is_about_capacity;
use hostler_driver::{Code, State};

/// The words of the API's server status.
pub const STATUSES: [&str; 24] = [
    "ACTIVE",
    "BACKING-UP",
    "CREATING",
    "DEALLOCATED",
    "DEALLOCATING",
    "DELETED",
    "DELETING",
    "ERROR",
    "INACTIVE",
    "MIGRATING",
    "PAUSED",
    "REBOOT",
    "REBOOTING",
    "REBUILD",
    "REBUILDING",
    "RESCUE",
    "RESCUING",
    "RESIZING",
    "RESTORING",
    "SNAPSHOTTING",
    "STARTING",
    "STOPPING",
    "UNRESCUING",
    "UPDATING",
];
/// Words that older descriptions of the API have.
pub const OLD_STATUSES: [&str; 5] = ["BUILDING", "RUNNING", "STOPPED", "SHUTOFF", "UNKNOWN"];
/// The words of the API's power status.
pub const POWER_STATUSES: [&str; 4] = ["CRASHED", "ERROR", "RUNNING", "STOPPED"];

/// What a server is doing. The status decides; the power status only tells of a server that should run
/// whether it does.
pub fn state(status: &str, power: Option<&str>, message: Option<&str>) -> State {
    let if_powered = match power {
        // A server whose system went down is there and off, however its status reads.
        Some("STOPPED" | "CRASHED" | "ERROR") => State::Stopped,
        _ => State::Running,
    };
    match status {
        "ACTIVE" | "RUNNING" => if_powered,
        // It runs, or will in a moment, whatever its power status says meanwhile.
        "BACKING-UP" | "SNAPSHOTTING" | "MIGRATING" | "UPDATING" | "REBOOT" | "REBOOTING" | "RESIZING" => {
            State::Running
        }
        "CREATING" | "BUILDING" | "STARTING" | "REBUILD" | "REBUILDING" | "RESTORING" | "UNRESCUING" => {
            State::Pending
        }
        "INACTIVE" | "STOPPED" | "SHUTOFF" | "STOPPING" | "PAUSED" | "DEALLOCATED" | "DEALLOCATING"
        | "RESCUE" | "RESCUING" => State::Stopped,
        "ERROR" => {
            let message = message.unwrap_or("the cloud gives no reason").to_owned();
            // Nothing that passes by itself, so it is not asked for again and again.
            let code = if is_about_capacity(&message) { Code::ResourceExhausted } else { Code::Internal };
            State::Failed { code, message }
        }
        "DELETING" => State::Deleting,
        "DELETED" => State::Deleted,
        _ => State::Unrecognised,
    }
}

/// What create and initialize answer about a server that was ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs.
    Done,
    /// Nothing to do but wait; overdue is a question of time.
    Waiting,
    /// It will not run; the code says why.
    Failed(Code),
    /// There is none.
    Absent,
}

pub fn progress(state: &State) -> Progress {
    match state {
        State::Running => Progress::Done,
        State::Pending | State::Stopped | State::Deleting | State::Unrecognised => Progress::Waiting,
        State::Failed { code, .. } => Progress::Failed(*code),
        State::Deleted => Progress::Absent,
    }
}

/// Whether deleting a server takes a call; else it is only waited for.
pub fn needs_delete_call(state: &State) -> bool {
    !matches!(state, State::Deleting | State::Deleted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter per power status: none, CRASHED, ERROR, RUNNING, STOPPED, an unseen one.
    /// `r` running, `p` pending, `s` stopped, `f` failed, `d` deleting, `x` deleted, `?` unrecognised.
    const TABLE: [(&str, &str); 30] = [
        ("ACTIVE", "r s s r s r"),
        ("BACKING-UP", "r r r r r r"),
        ("CREATING", "p p p p p p"),
        ("DEALLOCATED", "s s s s s s"),
        ("DEALLOCATING", "s s s s s s"),
        ("DELETED", "x x x x x x"),
        ("DELETING", "d d d d d d"),
        ("ERROR", "f f f f f f"),
        ("INACTIVE", "s s s s s s"),
        ("MIGRATING", "r r r r r r"),
        ("PAUSED", "s s s s s s"),
        ("REBOOT", "r r r r r r"),
        ("REBOOTING", "r r r r r r"),
        ("REBUILD", "p p p p p p"),
        ("REBUILDING", "p p p p p p"),
        ("RESCUE", "s s s s s s"),
        ("RESCUING", "s s s s s s"),
        ("RESIZING", "r r r r r r"),
        ("RESTORING", "p p p p p p"),
        ("SNAPSHOTTING", "r r r r r r"),
        ("STARTING", "p p p p p p"),
        ("STOPPING", "s s s s s s"),
        ("UNRESCUING", "p p p p p p"),
        ("UPDATING", "r r r r r r"),
        ("BUILDING", "p p p p p p"),
        ("RUNNING", "r s s r s r"),
        ("STOPPED", "s s s s s s"),
        ("SHUTOFF", "s s s s s s"),
        ("UNKNOWN", "? ? ? ? ? ?"),
        ("SOMETHING-NEW", "? ? ? ? ? ?"),
    ];

    /// What follows from it, by letter: how far a creation is, whether a deletion takes a call, whether it is there.
    fn answers(letter: &str) -> (Progress, bool, bool) {
        match letter {
            "r" => (Progress::Done, true, true),
            "p" | "s" | "?" => (Progress::Waiting, true, true),
            "f" => (Progress::Failed(Code::Internal), true, true),
            "d" => (Progress::Waiting, false, true),
            "x" => (Progress::Absent, false, false),
            other => panic!("{other}"),
        }
    }

    fn letter(state: &State) -> &'static str {
        match state {
            State::Running => "r",
            State::Pending => "p",
            State::Stopped => "s",
            State::Failed { .. } => "f",
            State::Deleting => "d",
            State::Deleted => "x",
            State::Unrecognised => "?",
        }
    }

    #[test]
    fn every_status_with_every_power_status_has_its_answers() {
        let known: Vec<&str> = STATUSES.into_iter().chain(OLD_STATUSES).chain(["SOMETHING-NEW"]).collect();
        assert_eq!(TABLE.map(|(status, _)| status).to_vec(), known);
        let powers: Vec<Option<&str>> =
            [None].into_iter().chain(POWER_STATUSES.map(Some)).chain([Some("SOMETHING-NEW")]).collect();
        for (status, row) in TABLE {
            let letters: Vec<&str> = row.split_whitespace().collect();
            assert_eq!(letters.len(), powers.len());
            for (power, expected) in powers.iter().zip(letters) {
                let state = state(status, *power, None);
                assert_eq!(letter(&state), expected, "{status} {power:?}");
                let found = (progress(&state), needs_delete_call(&state), state.is_present());
                assert_eq!(found, answers(expected), "{status} {power:?}");
            }
        }
    }

    #[test]
    fn a_failed_server_says_why_and_no_room_is_no_room() {
        let message = "No valid host was found. There are not enough hosts available.";
        let full = state("ERROR", Some("STOPPED"), Some(message));
        assert_eq!(full, State::Failed { code: Code::ResourceExhausted, message: message.to_owned() });
        assert_eq!(progress(&full), Progress::Failed(Code::ResourceExhausted));
        let silent = state("ERROR", None, None);
        assert_eq!(
            silent,
            State::Failed { code: Code::Internal, message: "the cloud gives no reason".to_owned() }
        );
    }
}

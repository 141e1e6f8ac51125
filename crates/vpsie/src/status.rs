//! What the flags of a VPS mean. There is no word for its state: VPSie shows it as several flags.

use crate::wire::Vm;
use hostler_driver::{Code, State};

/// The word for what a VPS is doing that people are shown.
pub fn word(vm: &Vm) -> &'static str {
    let is = |flag: Option<bool>| flag == Some(true);
    match (vm.is_active, vm.power) {
        _ if is(vm.is_deleted) || is(vm.is_terminated) => "terminated",
        _ if is(vm.is_suspended) => "suspended",
        _ if is(vm.is_locked) => "locked",
        (Some(false), _) => "pending",
        (_, Some(true)) | (Some(true), None) => "running",
        (_, Some(false)) => "stopped",
        (None, None) => "unknown",
    }
}

pub fn state(vm: &Vm) -> State {
    match word(vm) {
        "terminated" if vm.is_deleted == Some(true) => State::Deleted,
        "terminated" => State::Failed {
            code: Code::Internal,
            message: "VPSie has terminated it: look at it in VPSie's portal".to_owned(),
        },
        // Locked is who may change it; whether it runs is another matter.
        "locked" if vm.power == Some(true) && vm.is_active != Some(false) => State::Running,
        "suspended" | "locked" | "stopped" => State::Stopped,
        "pending" => State::Pending,
        "running" => State::Running,
        _ => State::Unrecognised,
    }
}

/// Whether VPSie still shows it, but as gone.
pub fn is_gone(vm: &Vm) -> bool {
    vm.is_deleted == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_together_give_the_state() {
        let table = [
            (json!({"is_active": 1, "power": 1}), "running", "Running"),
            (json!({"is_active": "1", "power": "1", "is_locked": "0"}), "running", "Running"),
            (json!({"is_active": 1}), "running", "Running"),
            (json!({"power": 1}), "running", "Running"),
            (json!({"is_active": 1, "power": 0}), "stopped", "Stopped"),
            (json!({"power": 0}), "stopped", "Stopped"),
            (json!({"is_active": 0, "power": 1}), "pending", "Pending"),
            (json!({"is_active": 0, "power": 0}), "pending", "Pending"),
            (json!({"is_active": 0}), "pending", "Pending"),
            (json!({}), "unknown", "Unrecognised"),
            (json!({"is_active": 1, "power": 1, "is_suspended": 1}), "suspended", "Stopped"),
            (json!({"is_active": 1, "power": 1, "is_locked": 1}), "locked", "Running"),
            (json!({"is_active": 1, "power": 0, "is_locked": 1}), "locked", "Stopped"),
            (json!({"is_active": 1, "power": 1, "is_deleted": 1}), "terminated", "Deleted"),
            (json!({"is_active": 1, "power": 1, "is_terminated": 1}), "terminated", "Failed"),
            (json!({"is_terminated": 1, "is_deleted": 1}), "terminated", "Deleted"),
            (json!({"is_suspended": 1, "is_locked": 1}), "suspended", "Stopped"),
        ];
        for (vm, shown, expected) in table {
            let read: Vm = serde_json::from_value(vm.clone()).unwrap();
            assert_eq!(word(&read), shown, "{vm}");
            assert!(format!("{:?}", state(&read)).starts_with(expected), "{vm}");
            assert_eq!(is_gone(&read), expected == "Deleted", "{vm}");
        }
    }
}

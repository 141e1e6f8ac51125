//! Cases that do not pass on this server yet, and why. A case in this list that passes fails the tests.

pub(crate) const OPEN: &[(&str, &str)] = &[
    (
        "certificate signing request/conditions_stay",
        "200, expected 422 Invalid: status.conditions: Forbidden: updates may not remove a condition of type \"Denied\"",
    ),
    ("pod/status_by_subresource", "200, /status/podIPs should be [{\"ip\":\"10.0.0.1\"}] and is null"),
];

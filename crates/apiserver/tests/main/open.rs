//! Cases that do not pass on this server yet, and why. A case in this list that passes fails the tests.

pub(crate) const OPEN: &[(&str, &str)] = &[
    (
        "field validation/strict_refuses_unknown_and_duplicate",
        "201, expected 400 BadRequest: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.nme",
    ),
    (
        "field validation/warn_is_the_default",
        "default: expected [\"299 - \\\"unknown field \\\\\\\"metadata.nme\\\\\\\"\\\"\", \"299 - \\\"unknown field \\\\\\\"dat\\\\\\\"\\\"\", \"299 - \\\"duplicate field \\\\\\\"data.",
    ),
];

//! Events are kept once and shown in two groups, whose fields have different names.

use serde_json::Value;

/// Core name and `events.k8s.io` name of the fields that differ.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename<'a>(event: &mut Value, api_version: &str, pairs: impl Iterator<Item = (&'a str, &'a str)>) {
    let Some(fields) = event.as_object_mut() else { return };
    for (from, to) in pairs {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    fields.insert("apiVersion".to_owned(), api_version.into());
}

/// Makes an `events.k8s.io/v1` event one of the core group.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, "v1", NAMES.into_iter().map(|(core, new)| (new, core)));
}

/// Makes a core event one of `events.k8s.io/v1`.
pub(crate) fn from_core(event: &mut Value) {
    rename(event, "events.k8s.io/v1", NAMES.into_iter());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_survives_the_way_there_and_back() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "a"}, "message": "m", "count": 2,
            "reportingComponent": "c", "reason": "r",
        });
        let mut event = core.clone();
        from_core(&mut event);
        assert_eq!(event["regarding"]["name"], "a");
        assert_eq!((&event["note"], &event["reportingController"]), (&json!("m"), &json!("c")));
        assert_eq!(event["apiVersion"], "events.k8s.io/v1");
        to_core(&mut event);
        assert_eq!(event, core);
    }
}

//! When what was last done to a group: it is written on the NodeGroup, so that windows survive a restart.

use crate::names::note;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    pub last_scale_up: Option<Timestamp>,
    pub last_scale_down: Option<Timestamp>,
    pub last_consolidation: Option<Timestamp>,
    pub regretted: Option<Timestamp>,
    pub hot_since: Option<Timestamp>,
}

impl Windows {
    /// What is written. A text that nobody can read, or a moment that lies ahead, opens no window.
    pub fn read(annotations: &BTreeMap<String, String>, now: Timestamp) -> Self {
        let moment = |name: &str| {
            let at = annotations.get(name)?.parse::<Timestamp>().ok()?;
            (at <= now).then_some(at)
        };
        Self {
            last_scale_up: moment(note::LAST_SCALE_UP),
            last_scale_down: moment(note::LAST_SCALE_DOWN),
            last_consolidation: moment(note::LAST_CONSOLIDATION),
            regretted: moment(note::REGRETTED),
            hot_since: moment(note::HOT_SINCE),
        }
    }

    fn named(&self) -> [(&'static str, Option<Timestamp>); 5] {
        [
            (note::LAST_SCALE_UP, self.last_scale_up),
            (note::LAST_SCALE_DOWN, self.last_scale_down),
            (note::LAST_CONSOLIDATION, self.last_consolidation),
            (note::REGRETTED, self.regretted),
            (note::HOT_SINCE, self.hot_since),
        ]
    }

    /// The annotations that have to change so that this is written; nothing if it is.
    pub fn changes(&self, annotations: &BTreeMap<String, String>) -> Map<String, Value> {
        let mut changes = Map::new();
        for (name, moment) in self.named() {
            let text = moment.map(|moment| moment.to_string());
            if annotations.get(name) != text.as_ref() {
                changes.insert(name.to_owned(), json!(text));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_only_what_differs_is_written() {
        let windows = Windows {
            last_scale_up: Some(at(10)),
            last_scale_down: Some(at(20)),
            last_consolidation: Some(at(30)),
            regretted: Some(at(40)),
            hot_since: Some(at(50)),
        };
        let changes = windows.changes(&BTreeMap::new());
        let written: BTreeMap<String, String> =
            changes.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap().to_owned())).collect();
        assert_eq!(written.len(), 5);
        assert_eq!(Windows::read(&written, at(50)), windows);
        assert!(windows.changes(&written).is_empty());
        let cooler = Windows { hot_since: None, last_scale_up: Some(at(60)), ..windows };
        let expected = json!({
            "autoscaler.vpsie.com/hot-since": null,
            "autoscaler.vpsie.com/last-scale-up": "1970-01-01T00:01:00Z",
        });
        assert_eq!(Value::Object(cooler.changes(&written)), expected);
    }

    #[test]
    fn what_cannot_be_holds_nobody_up() {
        let annotations: BTreeMap<String, String> = [
            (note::LAST_SCALE_UP.to_owned(), "tomorrow".to_owned()),
            (note::LAST_SCALE_DOWN.to_owned(), at(100).to_string()),
        ]
        .into();
        assert_eq!(Windows::read(&annotations, at(50)), Windows::default());
    }
}

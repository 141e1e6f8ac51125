//! How many nodes a group may have, overrides taken into account.

use crate::{
    api::NodeGroupSpec,
    names::{annotation, error},
    validate::Problem,
};
use std::collections::BTreeMap;

/// What holds now, and what is wrong with what people said beside the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effective {
    pub min: u32,
    pub max: u32,
    /// All scaling stops.
    pub paused: bool,
    /// Overrides that cannot be followed: the spec's values hold in their place.
    pub problems: Vec<Problem>,
}

pub fn effective(spec: &NodeGroupSpec, annotations: &BTreeMap<String, String>) -> Effective {
    let mut problems = Vec::new();
    let min = overridden(annotations, annotation::MIN_NODES_OVERRIDE, &mut problems);
    let max = overridden(annotations, annotation::MAX_NODES_OVERRIDE, &mut problems);
    let own_max = u32::try_from(spec.max_nodes).unwrap_or(0);
    let own = (u32::try_from(spec.min_nodes).unwrap_or(0).min(own_max), own_max);
    let mut limits = (min.unwrap_or(own.0), max.unwrap_or(own.1));
    if limits.0 > limits.1 {
        let name =
            if min.is_some() { annotation::MIN_NODES_OVERRIDE } else { annotation::MAX_NODES_OVERRIDE };
        let told = format!("{}: {} > {}", error::MIN_EXCEEDS_MAX, limits.0, limits.1);
        problems.push(Problem::new(field(name), told));
        limits = own;
    }
    let paused = match annotations.get(annotation::PAUSE).map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let told = format!("must be \"true\" or \"false\", is {other:?}; the group rests until then");
            problems.push(Problem::new(field(annotation::PAUSE), told));
            // Who writes such a thing wants it to rest.
            true
        }
    };
    Effective { min: limits.0, max: limits.1, paused, problems }
}

fn field(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

fn overridden(
    annotations: &BTreeMap<String, String>,
    name: &str,
    problems: &mut Vec<Problem>,
) -> Option<u32> {
    let text = annotations.get(name)?;
    // The numbers of the spec are of this size, too.
    let number = text.trim().parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok());
    if number.is_none() {
        problems.push(Problem::new(field(name), format!("must be a number of nodes, is {text:?}")));
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_hold_as_long_as_they_make_sense() {
        let min = "metadata.annotations[autoscaler.vpsie.com/min-nodes-override]";
        let max = "metadata.annotations[autoscaler.vpsie.com/max-nodes-override]";
        let pause = "metadata.annotations[autoscaler.vpsie.com/pause]";
        let no_number = |field: &str, text: &str| format!("{field}: must be a number of nodes, is {text:?}");
        let exceeds = |field: &str, text: &str| format!("{field}: MinNodes exceeds MaxNodes: {text}");
        // pause, min and max override; what holds; what is wrong
        let table = [
            (["", "", ""], (2, 5, false), vec![]),
            (["true", "", ""], (2, 5, true), vec![]),
            (["false", "", ""], (2, 5, false), vec![]),
            (["", "4", ""], (4, 5, false), vec![]),
            (["", "0", ""], (0, 5, false), vec![]),
            (["", "", "15"], (2, 15, false), vec![]),
            (["", "7", "9"], (7, 9, false), vec![]),
            (["", " 3 ", "3"], (3, 3, false), vec![]),
            (["", "", "0"], (2, 5, false), vec![exceeds(max, "2 > 0")]),
            (["", "0", "0"], (0, 0, false), vec![]),
            (["", "6", ""], (2, 5, false), vec![exceeds(min, "6 > 5")]),
            (["", "", "1"], (2, 5, false), vec![exceeds(max, "2 > 1")]),
            (["", "9", "8"], (2, 5, false), vec![exceeds(min, "9 > 8")]),
            (["", "many", ""], (2, 5, false), vec![no_number(min, "many")]),
            (["", "-1", "15"], (2, 15, false), vec![no_number(min, "-1")]),
            (
                ["", "1.5", "4294967296"],
                (2, 5, false),
                vec![no_number(min, "1.5"), no_number(max, "4294967296")],
            ),
            (["", "", "2147483648"], (2, 5, false), vec![no_number(max, "2147483648")]),
            (
                ["yes", "", ""],
                (2, 5, true),
                vec![format!(
                    "{pause}: must be \"true\" or \"false\", is \"yes\"; the group rests until then"
                )],
            ),
        ];
        let spec = NodeGroupSpec { min_nodes: 2, max_nodes: 5, ..NodeGroupSpec::default() };
        for (texts, (min, max, paused), wrong) in table {
            let names = [annotation::PAUSE, annotation::MIN_NODES_OVERRIDE, annotation::MAX_NODES_OVERRIDE];
            let given = names.into_iter().zip(texts).filter(|(_, text)| !text.is_empty());
            let annotations = given.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
            let found = effective(&spec, &annotations);
            assert_eq!((found.min, found.max, found.paused), (min, max, paused), "{texts:?}");
            let told: Vec<String> = found.problems.iter().map(ToString::to_string).collect();
            assert_eq!(told, wrong, "{texts:?}");
        }
    }

    #[test]
    fn a_spec_that_makes_no_sense_never_grows_without_bound() {
        for (min, max, expected) in [(-1, 3, (0, 3)), (4, 3, (3, 3)), (1, -1, (0, 0)), (i32::MAX, 1, (1, 1))]
        {
            let spec = NodeGroupSpec { min_nodes: min, max_nodes: max, ..NodeGroupSpec::default() };
            let found = effective(&spec, &BTreeMap::new());
            assert_eq!((found.min, found.max), expected, "{min} {max}");
        }
    }
}

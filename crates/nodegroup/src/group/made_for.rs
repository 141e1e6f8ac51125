//! Which pods a VPSieNode was made for. Who still waits when that node is Ready gets no second one: something about pod or
//! node is not as it was planned, and another node would not be either.

use super::Member;
use hostler_base::stable_hash;
use std::collections::{BTreeMap, BTreeSet};

/// What is noted on a VPSieNode: the pods, in short, and the generation of the NodeGroup that it was made by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeFor {
    pub generation: i64,
    pods: BTreeSet<String>,
}

fn short(uid: &str) -> String {
    format!("{:08x}", stable_hash(uid) >> 32)
}

impl MadeFor {
    pub fn new<'u>(generation: i64, uids: impl IntoIterator<Item = &'u str>) -> Self {
        Self { generation, pods: uids.into_iter().map(short).collect() }
    }

    /// The annotation's value; nothing if it was made for no pod.
    pub fn render(&self) -> Option<String> {
        let pods: Vec<&str> = self.pods.iter().map(String::as_str).collect();
        (!pods.is_empty()).then(|| format!("{}:{}", self.generation, pods.join(",")))
    }

    /// A text that nobody can read holds nobody back.
    pub fn parse(text: &str) -> Option<Self> {
        let (generation, pods) = text.split_once(':')?;
        Some(Self {
            generation: generation.parse().ok()?,
            pods: pods.split(',').map(str::to_owned).collect(),
        })
    }
}

/// By the UID of a pod that waits: the VPSieNode that was made for it, is Ready, and does not suit it. It is asked again
/// when the NodeGroup changes, or when that VPSieNode goes.
pub fn disappointed<'u>(
    waiting: impl IntoIterator<Item = &'u str>,
    generation: i64,
    made: &[(&Member, MadeFor)],
) -> BTreeMap<&'u str, String> {
    let there: Vec<_> = made
        .iter()
        .filter(|(member, made)| member.is_wanted() && member.node_ready && made.generation == generation)
        .collect();
    let of = |uid: &'u str| {
        let short = short(uid);
        let (member, _) = there.iter().find(|(_, made)| made.pods.contains(&short))?;
        Some((uid, member.name.clone()))
    };
    waiting.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let made = MadeFor::new(3, ["u-1", "u-2"]);
        let text = made.render().unwrap();
        assert_eq!(text.len(), "3:".len() + 8 + 1 + 8);
        assert_eq!(MadeFor::parse(&text), Some(made));
        assert_eq!(MadeFor::new(3, []).render(), None);
        for text in ["", "x", "x:00000000"] {
            assert_eq!(MadeFor::parse(text), None, "{text}");
        }
    }

    #[test]
    fn who_still_waits_when_its_node_is_ready_gets_no_second_one() {
        let held = |member: &Member, generation| {
            let made = [(member, MadeFor::new(3, ["u-1", "u-2"]))];
            let held = disappointed(["u-1", "u-3"], generation, &made);
            held.into_iter().map(|(uid, name)| format!("{uid} {name}")).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(held(&Member::ready("n"), 3), ["u-1 n"]);
        assert_eq!(held(&Member::ready("n"), 4), none, "the group was changed");
        assert_eq!(held(&Member::coming("n"), 3), none, "it is not there yet");
        assert_eq!(held(&Member { deleting: true, ..Member::ready("n") }, 3), none, "it goes");
        assert_eq!(
            held(&Member { node_ready: false, ..Member::ready("n") }, 3),
            none,
            "nobody could go there"
        );
    }
}

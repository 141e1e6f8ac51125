//! How a VPS is recognised: its notes carry whose it is and which order it came from, because lists show notes and no
//! tags. A tag says the same in short, for one whose notes were lost.
//!
//! `[hostler:1;CLUSTER;GROUP;OBJECT;ATTEMPT] whatever the user wrote`. The four are the identity's domain, class and
//! machine, and the mark of the order, each percent-encoded. The number tells the version: what comes with another one
//! is nobody's as far as this one knows.

use hostler_driver::{Attempt, Identity, Marks, client::escape, client::is_uuid};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What no user's notes may hold, so that there is one mark in them.
pub const START: &str = "[hostler:";
const VERSION: &str = "1";
const END: char = ']';
/// What our own tags begin with.
pub const TAG_PREFIX: &str = "hostler-";
/// How many bytes of a digest a tag holds.
const TAG_BYTES: usize = 10;

/// The notes of a VPS that is ordered, with what the user wants to have in them. The mark goes first: whatever is cut
/// off at the end, it is whole.
pub fn notes(identity: &Identity, attempt: &Attempt, wanted: &str) -> String {
    let Identity { domain, machine, class } = identity;
    let parts = [domain, class, machine, &attempt.0].map(|part| escape(part)).join(";");
    format!("{START}{VERSION};{parts}{END} {wanted}").trim_end().to_owned()
}

/// What notes say. Two marks in them say nothing: nobody knows which is right.
pub fn read(notes: &str) -> Option<Marks> {
    let (_, after) = notes.split_once(START)?;
    if after.contains(START) {
        return None;
    }
    let (mark, _) = after.split_once(END)?;
    let parts: Vec<&str> = mark.split(';').collect();
    let [VERSION, parts @ ..] = parts.as_slice() else { return None };
    let [domain, class, machine, attempt] = parts else { return None };
    let attempt = unescape(attempt)?;
    Some(Marks {
        domain: Some(unescape(domain)?),
        machine: Some(unescape(machine)?).filter(|name| !name.is_empty()),
        class: Some(unescape(class)?).filter(|name| !name.is_empty()),
        attempt: Some(attempt).filter(|mark| !mark.is_empty()).map(Attempt),
    })
}

/// The opposite of [`escape`]; nothing if it is not that.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The tag that says whose a VPS is. A class counts where no cluster is named, as in [`Identity::recognise`].
pub fn tag(identity: &Identity) -> String {
    let Identity { domain, machine, class } = identity;
    let class = if domain.is_empty() { class.as_str() } else { "" };
    let mut hash = Sha256::new();
    for part in [domain, class, machine] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(TAG_BYTES).fold(TAG_PREFIX.to_owned(), |mut tag, byte| {
        // Writing to a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
        tag
    })
}

/// What an order is called in VPSie's queue, where it may be shown again: whose it is, and which one.
pub fn process(identity: &Identity, attempt: &Attempt) -> String {
    format!("{}-{}", tag(identity), attempt.0)
}

/// What a VPS says about itself, by its notes, else by its tags. These are known only of one that was asked for.
pub fn of(identity: &Identity, notes: Option<&str>, tags: &[String]) -> Marks {
    if let Some(marks) = notes.and_then(read) {
        return marks;
    }
    let own = tag(identity);
    if !tags.contains(&own) {
        return Marks::default();
    }
    let Identity { domain, machine, class } = identity.clone();
    Marks { domain: Some(domain), machine: Some(machine), class: Some(class), attempt: None }
}

/// The identity of a node that is looked after as such, by the UIDs of the objects that stand for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIdentity {
    /// Of the cluster: its namespace `kube-system`, for example.
    pub cluster: String,
    /// Of the NodeGroup.
    pub group: String,
    /// Of the VPSieNode.
    pub node: String,
}

impl NodeIdentity {
    /// The same as drivers know it.
    pub fn identity(&self) -> Identity {
        let Self { cluster, group, node } = self.clone();
        Identity { domain: cluster, machine: node, class: group }
    }

    /// Nothing for what is no such node: a Machine of Gardener, for example, which is known by names.
    pub fn of(marks: &Marks) -> Option<Self> {
        let uid = |text: &Option<String>| text.clone().filter(|text| is_uuid(text));
        Some(Self { cluster: uid(&marks.domain)?, group: uid(&marks.class)?, node: uid(&marks.machine)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::Recognition;

    fn identity(domain: &str, machine: &str, class: &str) -> Identity {
        Identity { domain: domain.into(), machine: machine.into(), class: class.into() }
    }

    #[test]
    fn what_is_written_is_read_back_whatever_is_around_it() {
        let table = [
            identity("shoot--a--b", "m-1", "c"),
            identity("", "m-1", "c"),
            identity("a;b]c%d [hostler:1;", "ü", "c d"),
            identity(&"d".repeat(63), &"m".repeat(63), &"c".repeat(63)),
        ];
        for own in table {
            for wanted in ["", "made for the web team; ask [them]", "100%"] {
                let attempt = Attempt("a1".into());
                let notes = notes(&own, &attempt, wanted);
                for seen in [notes.clone(), format!("  {notes}\n"), format!("renamed by Ann {notes} ]")] {
                    let marks = read(&seen).unwrap();
                    assert_eq!(own.recognise(&marks), Recognition::Ours, "{seen}");
                    assert_eq!(marks.attempt.as_ref(), Some(&attempt), "{seen}");
                }
            }
        }
        let long =
            notes(&identity(&"d".repeat(63), &"m".repeat(63), &"c".repeat(63)), &Attempt("a".repeat(10)), "");
        assert!(long.len() <= 255, "{}", long.len());
    }

    #[test]
    fn the_form_is_the_same_for_ever() {
        let own = identity("shoot", "m-1", "c");
        assert_eq!(notes(&own, &Attempt("a1".into()), "hello"), "[hostler:1;shoot;c;m-1;a1] hello");
        assert_eq!(tag(&own), "hostler-d416e85b2985a5cb7d45");
        assert_eq!(process(&own, &Attempt("a1".into())), "hostler-d416e85b2985a5cb7d45-a1");
    }

    #[test]
    fn what_is_not_whole_or_not_ours_says_nothing() {
        for notes in [
            "",
            "a server of mine",
            "[hostler:1;shoot;c;m-1;a1",
            "[hostler:2;shoot;c;m-1;a1]",
            "[hostler:1;shoot;c;m-1]",
            "[hostler:1;shoot;c;m-1;a1;x]",
            "[hostler:1;sh%ZZoot;c;m-1;a1]",
            "[hostler:1;shoot%;c;m-1;a1]",
            "[hostler:1;shoot;c;m-1;a1] [hostler:1;other;c;m-1;a1]",
        ] {
            assert_eq!(read(notes), None, "{notes}");
        }
        let bare = read("[hostler:1;;;;]").unwrap();
        assert_eq!((bare.machine, bare.class, bare.attempt), (None, None, None));
    }

    #[test]
    fn a_tag_stands_in_for_lost_notes_only() {
        let (own, other) = (identity("a", "m", "c"), identity("b", "m", "c"));
        let tags = ["web".to_owned(), tag(&own)];
        let foreign = notes(&other, &Attempt(String::new()), "");
        let table = [
            (None, &tags[..], Recognition::Ours),
            (Some("lost"), &tags[..], Recognition::Ours),
            (None, &tags[..1], Recognition::Foreign),
            (Some(foreign.as_str()), &tags[..], Recognition::Foreign),
        ];
        for (notes, tags, expected) in table {
            assert_eq!(own.recognise(&of(&own, notes, tags)), expected, "{notes:?} {tags:?}");
        }
        assert_ne!(tag(&own), tag(&other));
        assert_eq!(tag(&own), tag(&identity("a", "m", "moved")), "it stays itself in another class");
        assert_ne!(tag(&identity("", "m", "c")), tag(&identity("", "m", "d")), "unless no cluster is named");
    }

    #[test]
    fn nodes_are_known_by_uids_in_the_same_notes() {
        let uid = |letter: char| {
            let part = |length| letter.to_string().repeat(length);
            format!("{}-{}-{}-{}-{}", part(8), part(4), part(4), part(4), part(12))
        };
        let node = NodeIdentity { cluster: uid('a'), group: uid('b'), node: uid('c') };
        let written = notes(&node.identity(), &Attempt("a1b2c3d4e5".into()), "");
        assert!(written.len() < 150, "{}", written.len());
        assert_eq!(NodeIdentity::of(&read(&written).unwrap()), Some(node));
        let machine = notes(&identity("shoot", "m", "c"), &Attempt(String::new()), "");
        assert_eq!(NodeIdentity::of(&read(&machine).unwrap()), None);
    }
}

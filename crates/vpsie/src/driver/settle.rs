//! What is still to be done to a VPS that runs: a pure function of what was asked for and what is there.

use super::choice::Chosen;
use crate::{ProviderSpec, marks, wire::VmDetail};
use hostler_driver::Identity;

/// One call that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Lets one more key in.
    Key {
        key: String,
    },
    /// Notes that it was let in, and adds what other tags are missing.
    Tags {
        tags: Vec<String>,
    },
    Vpc {
        vpc: i64,
    },
}

/// What this process has done already and VPSie may not show yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done<'a> {
    pub(super) keys: &'a [String],
    pub(super) tags: &'a [String],
    pub(super) vpc: bool,
}

/// The tag that says that a key was let in: nothing else shows it.
fn key_tag(key: &str) -> String {
    let short: String = key.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    format!("{}key-{}", marks::TAG_PREFIX, short.to_ascii_lowercase())
}

/// Whether there is anything that the order itself does not say.
pub(super) fn is_more(spec: &ProviderSpec) -> bool {
    spec.ssh_keys.len() > 1 || !spec.vpc.is_empty()
}

/// The next thing to do, if there is one. The first key went with the order.
pub(super) fn todo(
    identity: &Identity,
    spec: &ProviderSpec,
    chosen: &Chosen,
    vm: &VmDetail,
    done: Done<'_>,
) -> Option<Todo> {
    let has = |tag: &String| {
        let mut known = vm.tags.iter().chain(done.tags);
        known.any(|known| known.eq_ignore_ascii_case(tag))
    };
    let more_keys = chosen.ssh_keys.iter().skip(1);
    let missing_key = more_keys.clone().find(|key| !has(&key_tag(key)) && !done.keys.contains(key));
    if let Some(key) = missing_key {
        return Some(Todo::Key { key: key.clone() });
    }
    let wanted =
        spec.tags.iter().cloned().chain([marks::tag(identity)]).chain(more_keys.map(|key| key_tag(key)));
    let tags: Vec<String> = wanted.filter(|tag| !has(tag)).collect();
    if !tags.is_empty() {
        return Some(Todo::Tags { tags });
    }
    let attached = vm.vm.private_ip.is_some() || done.vpc;
    chosen.vpc.filter(|_| !attached).map(|vpc| Todo::Vpc { vpc })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Vm;

    fn identity() -> Identity {
        Identity { domain: "d".into(), machine: "m".into(), class: "c".into() }
    }

    fn chosen(keys: &[&str], vpc: Option<i64>) -> Chosen {
        Chosen {
            datacenter: "dc".into(),
            plan: "p".into(),
            image: "i".into(),
            own_image: false,
            project: "1".into(),
            ssh_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            script: None,
            vpc,
        }
    }

    #[test]
    fn keys_then_tags_then_the_network() {
        let spec = ProviderSpec { tags: vec!["web".into()], ..ProviderSpec::default() };
        let own = marks::tag(&identity());
        let all = chosen(&["a-1", "b-2", "c-3"], Some(9));
        let next = |tags: &[&str], private: bool, done: Done<'_>| {
            let vm = Vm { private_ip: private.then(|| "10.0.0.1".into()), ..Vm::default() };
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            todo(&identity(), &spec, &all, &VmDetail { vm, tags }, done)
        };
        let key = |key: &str| Some(Todo::Key { key: key.to_owned() });
        let tags =
            |tags: &[&str]| Some(Todo::Tags { tags: tags.iter().map(|tag| (*tag).to_owned()).collect() });
        let nothing = Done::default();
        let (one, two) = (["b-2".to_owned()], ["b-2".to_owned(), "c-3".to_owned()]);
        let done = |keys| Done { keys, ..nothing };
        assert_eq!(next(&["web", &own], false, nothing), key("b-2"));
        assert_eq!(next(&["web", &own], false, done(&one)), key("c-3"));
        assert_eq!(next(&["web", &own], false, done(&two)), tags(&["hostler-key-b2", "hostler-key-c3"]));
        assert_eq!(next(&["WEB", "hostler-key-b2"], false, nothing), key("c-3"));
        let all_tags = ["web", &own, "hostler-key-b2", "hostler-key-c3"];
        assert_eq!(next(&all_tags[1..], false, nothing), tags(&["web"]));
        assert_eq!(next(&all_tags, false, nothing), Some(Todo::Vpc { vpc: 9 }));
        assert_eq!(next(&all_tags, true, nothing), None);
        assert_eq!(next(&all_tags, false, Done { vpc: true, ..nothing }), None);
        let told = all_tags.map(str::to_owned);
        let silent = Done { keys: &two, tags: &told, vpc: true };
        assert_eq!(
            next(&[], false, silent),
            None,
            "nothing is done for ever because VPSie shows nothing of it"
        );
    }

    #[test]
    fn what_goes_with_the_order_needs_nothing_more() {
        let one = chosen(&["a"], None);
        let vm = VmDetail { vm: Vm::default(), tags: vec![marks::tag(&identity())] };
        assert_eq!(todo(&identity(), &ProviderSpec::default(), &one, &vm, Done::default()), None);
        let more = |keys: usize, vpc: &str| {
            let ssh_keys = vec![String::new(); keys];
            is_more(&ProviderSpec { ssh_keys, vpc: vpc.into(), ..ProviderSpec::default() })
        };
        assert_eq!([more(0, ""), more(1, ""), more(2, ""), more(0, "9")], [false, false, true, true]);
    }
}

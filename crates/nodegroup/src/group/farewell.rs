//! The end of a NodeGroup: it stays until every VPS of its own is proven gone.

use super::Member;
use crate::names::finalizer;

/// What comes next for a NodeGroup that somebody has deleted. The minimum does not count any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// Nothing holds it.
    Done,
    /// Kubernetes is about to part it from its VPSieNodes, which then look after themselves.
    WaitForOrphaning,
    /// Delete these VPSieNodes: they drain by themselves, with budgets.
    Delete(Vec<String>),
    /// These are on their way out.
    Wait(Vec<String>),
    RemoveFinalizer,
}

/// `members` are those that name it as their owner.
pub fn farewell(finalizers: &[String], members: &[Member]) -> Farewell {
    let has = |wanted: &str| finalizers.iter().any(|finalizer| finalizer == wanted);
    if !has(finalizer::NODE_GROUP) {
        return Farewell::Done;
    }
    if has(finalizer::ORPHAN) {
        return Farewell::WaitForOrphaning;
    }
    let names = |members: Vec<&Member>| members.into_iter().map(|member| member.name.clone()).collect();
    let mut staying: Vec<&Member> = members.iter().filter(|member| !member.deleting).collect();
    // Whoever looks after the others goes with the last of them.
    staying.sort_by_key(|member| (member.hosts_us, member.name.clone()));
    let others = staying.iter().any(|member| !member.hosts_us) || staying.len() < members.len();
    if others {
        staying.retain(|member| !member.hosts_us);
    }
    if !staying.is_empty() {
        return Farewell::Delete(names(staying));
    }
    if members.is_empty() {
        Farewell::RemoveFinalizer
    } else {
        Farewell::Wait(names(members.iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_goes_when_nothing_of_it_is_left_and_orphans_stay() {
        let ours = || vec![finalizer::NODE_GROUP.to_owned()];
        let orphaning = || vec![finalizer::ORPHAN.to_owned(), finalizer::NODE_GROUP.to_owned()];
        let deleted = |name: &str| Member { deleting: true, ..Member::ready(name) };
        let home = |name: &str| Member { hosts_us: true, ..Member::ready(name) };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let table = [
            ("nothing holds it", vec![], vec![Member::ready("a")], Farewell::Done),
            ("no members", ours(), vec![], Farewell::RemoveFinalizer),
            (
                "all are deleted",
                ours(),
                vec![Member::ready("b"), Member::coming("a")],
                Farewell::Delete(names(&["a", "b"])),
            ),
            ("one is left", ours(), vec![deleted("a"), Member::ready("b")], Farewell::Delete(names(&["b"]))),
            ("all are going", ours(), vec![deleted("a"), deleted("b")], Farewell::Wait(names(&["a", "b"]))),
            ("orphaning", orphaning(), vec![Member::ready("a")], Farewell::WaitForOrphaning),
            ("orphaned", ours(), vec![], Farewell::RemoveFinalizer),
            ("our own last", ours(), vec![home("a"), Member::ready("b")], Farewell::Delete(names(&["b"]))),
            (
                "not while others go",
                ours(),
                vec![home("a"), deleted("b")],
                Farewell::Wait(names(&["a", "b"])),
            ),
            ("then our own", ours(), vec![home("a")], Farewell::Delete(names(&["a"]))),
            (
                "protected or not",
                ours(),
                vec![Member { protected: true, ..Member::ready("a") }],
                Farewell::Delete(names(&["a"])),
            ),
        ];
        for (what, finalizers, members, expected) in table {
            assert_eq!(farewell(&finalizers, &members), expected, "{what}");
        }
    }
}

//! VPSs that carry our cluster's identity and that no VPSieNode has.

use hostler_driver::{Machine as Vps, ProviderId, State};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How long after it was first seen without a VPSieNode a VPS is an orphan still. That is the second sighting.
pub const GRACE: SignedDuration = SignedDuration::from_mins(5);
/// So many may be lost without anybody thinking of more than an accident.
const FEW: usize = 2;

/// What a VPSieNode says of its VPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Has {
        id: ProviderId,
        /// Nothing of it is taken away without being asked for.
        protected: bool,
    },
    /// It is not known yet which one is its own, or it is looking after all of them itself.
    Busy,
}

/// Everything one pass looks at.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// When the list was begun.
    pub began_at: Timestamp,
    pub vpss: &'a [Vps],
    /// The identity's domain: one that does not carry it is never touched.
    pub cluster: &'a str,
    /// By the UID that is the identity's machine.
    pub owners: &'a BTreeMap<String, Owner>,
    /// VPSs whose Node is Ready and has pods that are no daemons.
    pub working: &'a BTreeSet<ProviderId>,
    /// Earlier sightings.
    pub before: &'a BTreeMap<ProviderId, Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// All orphans, with the first sighting.
    pub sightings: BTreeMap<ProviderId, Timestamp>,
    /// Those to be deleted now.
    pub due: Vec<ProviderId>,
    /// Those that work: a person has to decide.
    pub reported: Vec<ProviderId>,
    /// Why nothing is deleted although something is due.
    pub stopped: Option<String>,
    /// When to look again, if something waits for its second sighting.
    pub again: Option<Timestamp>,
}

pub fn collect(seen: &Observed<'_>) -> Pass {
    let ours: Vec<&Vps> = seen.vpss.iter().filter(|vps| vps.marks.domain() == seen.cluster).collect();
    let ours = if seen.cluster.is_empty() { Vec::new() } else { ours };
    let mut pass = Pass::default();
    for vps in &ours {
        if !is_orphan(vps, seen.owners) {
            continue;
        }
        let id = vps.provider_id.clone();
        let first = seen.before.get(&id).copied().filter(|first| *first <= seen.began_at);
        let first = first.unwrap_or(seen.began_at);
        pass.sightings.insert(id.clone(), first);
        if seen.working.iter().any(|working| working.names_same_server(&id)) {
            pass.reported.push(id);
        } else if seen.began_at.duration_since(first) >= GRACE {
            pass.due.push(id);
        } else {
            let due = first.saturating_add(GRACE).ok();
            pass.again = [pass.again, due].into_iter().flatten().min();
        }
    }
    let orphans = pass.sightings.len();
    if orphans > FEW && orphans * 2 > ours.len() && !pass.due.is_empty() {
        pass.due.clear();
        pass.stopped = Some(format!(
            "{orphans} of {} VPSs of this cluster have no VPSieNode: none is deleted, because it looks as if the \
             VPSieNodes were lost. Restore them, or delete the VPSs in VPSie's console",
            ours.len()
        ));
    }
    pass
}

fn is_orphan(vps: &Vps, owners: &BTreeMap<String, Owner>) -> bool {
    if matches!(vps.state, State::Deleting | State::Deleted) {
        return false;
    }
    // What was made by hand names no VPSieNode.
    let Some(owner) = &vps.marks.machine else { return false };
    match owners.get(owner) {
        None => true,
        Some(Owner::Busy) => false,
        Some(Owner::Has { id, protected }) => !protected && !id.names_same_server(&vps.provider_id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::Marks;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn id(name: &str) -> ProviderId {
        ProviderId::vpsie(&format!("id-{name}")).unwrap()
    }

    fn vps(name: &str) -> Vps {
        Vps {
            provider_id: id(name),
            name: name.into(),
            marks: Marks {
                domain: Some("ours".into()),
                machine: Some(name.into()),
                class: Some("g".into()),
                attempt: None,
            },
            state: State::Running,
            raw_state: "running".into(),
            addresses: Vec::new(),
            created_at: None,
            launched_at: None,
        }
    }

    /// Five VPSs at minute 100, of which `a` has been an orphan since minute 0.
    struct Scene {
        vpss: Vec<Vps>,
        cluster: &'static str,
        owners: BTreeMap<String, Owner>,
        working: BTreeSet<ProviderId>,
        before: BTreeMap<ProviderId, Timestamp>,
    }

    fn scene() -> Scene {
        let owner = |name: &&str| ((*name).to_owned(), Owner::Has { id: id(name), protected: false });
        Scene {
            vpss: ["a", "b", "c", "d", "e"].map(vps).to_vec(),
            cluster: "ours",
            owners: ["b", "c", "d", "e"].iter().map(owner).collect(),
            working: BTreeSet::new(),
            before: [(id("a"), at(0))].into(),
        }
    }

    impl Scene {
        fn pass(&self) -> Pass {
            collect(&Observed {
                began_at: at(100),
                vpss: &self.vpss,
                cluster: self.cluster,
                owners: &self.owners,
                working: &self.working,
                before: &self.before,
            })
        }
    }

    #[test]
    fn only_what_was_seen_twice_is_due() {
        let due = |first: Option<i64>| {
            let mut scene = scene();
            scene.before = first.map(|minute| (id("a"), at(minute))).into_iter().collect();
            let pass = scene.pass();
            (
                pass.due.len(),
                pass.again.map(|at| at.as_second() / 60),
                pass.sightings[&id("a")].as_second() / 60,
            )
        };
        assert_eq!(due(Some(95)), (1, None, 95));
        assert_eq!(due(Some(96)), (0, Some(101), 96));
        assert_eq!(due(None), (0, Some(105), 100));
        assert_eq!(due(Some(500)), (0, Some(105), 100), "a clock that was set back proves nothing");
        let mut busy = scene();
        busy.owners.insert("a".into(), Owner::Busy);
        assert_eq!(busy.pass(), Pass::default(), "an interrupted sighting counts from the start");
    }

    /// What is changed, in words.
    type Case = (&'static str, fn(&mut Vps));

    #[test]
    fn what_is_not_ours_for_sure_is_left_alone() {
        let changes: [Case; 6] = [
            ("another cluster's", |vps| vps.marks.domain = Some("theirs".into())),
            ("nobody's", |vps| vps.marks = Marks::default()),
            ("without a cluster", |vps| vps.marks.domain = None),
            ("without a VPSieNode", |vps| vps.marks.machine = None),
            ("going", |vps| vps.state = State::Deleting),
            ("gone", |vps| vps.state = State::Deleted),
        ];
        for (what, change) in changes {
            let mut scene = scene();
            change(&mut scene.vpss[0]);
            assert_eq!(scene.pass(), Pass::default(), "{what}");
        }
        let mut nameless = scene();
        nameless.cluster = "";
        nameless.vpss[0].marks.domain = None;
        assert_eq!(nameless.pass(), Pass::default(), "a cluster without a name has nothing");
    }

    #[test]
    fn one_too_many_of_a_living_vpsie_node_goes_unless_it_is_protected() {
        let other = |protected| {
            let mut scene = scene();
            scene.owners.insert("a".into(), Owner::Has { id: id("other"), protected });
            scene.pass().due
        };
        assert_eq!((other(false), other(true)), (vec![id("a")], vec![]));
    }

    #[test]
    fn what_works_is_reported_and_not_removed() {
        let mut scene = scene();
        scene.working = [id("a")].into();
        let pass = scene.pass();
        assert_eq!((pass.due, pass.reported), (vec![], vec![id("a")]));
    }

    #[test]
    fn many_at_once_look_like_lost_objects() {
        // orphans, others, are they deleted
        for (orphans, others, deleted) in
            [(1, 0, true), (2, 0, true), (3, 0, false), (3, 2, false), (3, 3, true), (10, 9, false)]
        {
            let name = |number: usize| format!("m{number}");
            let all = (0..orphans + others).map(name);
            let mut scene = scene();
            scene.vpss = all.clone().map(|name| vps(&name)).collect();
            scene.owners = all.skip(orphans).map(|name| (name, Owner::Busy)).collect();
            scene.before = scene.vpss.iter().map(|vps| (vps.provider_id.clone(), at(0))).collect();
            let pass = scene.pass();
            assert_eq!(
                (pass.due.len() == orphans, pass.stopped.is_none()),
                (deleted, deleted),
                "{orphans} {others}"
            );
            assert_eq!(pass.sightings.len(), orphans, "they are remembered all the same");
        }
    }
}

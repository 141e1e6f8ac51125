use crate::api::{Machine, Phase, names};
use hostler_driver::{Machine as Server, ProviderId, Scope, State};
use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// So few orphans are taken for lost ones and not for a sign that the Machines are, unless one has a Ready node. Who does
/// not know the nodes cannot tell.
const FEW: usize = 2;

/// How orphans are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanOptions {
    /// How often every class is looked at, besides when a Machine has gone.
    pub period: Duration,
    /// A server is an orphan in two lists that are so far apart before anything is done to it.
    pub grace: Duration,
    /// How many servers of a class are deleted in one pass.
    pub limit: usize,
    /// Orphans are told of and not deleted.
    pub dry_run: bool,
}

impl Default for OrphanOptions {
    fn default() -> Self {
        Self { period: Duration::from_mins(15), grace: Duration::from_mins(5), limit: 10, dry_run: false }
    }
}

/// What a Machine says about servers that carry its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Its server is being found, made or deleted, and so is every other one of its name; or nobody can tell.
    Busy,
    /// This one is its server, and no other.
    Has(ProviderId),
}

impl Owner {
    pub(super) fn of(machine: &Machine) -> Self {
        let phase = machine.status.as_ref().map(|status| status.current_status.phase).unwrap_or_default();
        let starting = matches!(phase, Phase::Empty | Phase::CrashLoopBackOff)
            || machine.annotations().contains_key(names::ATTEMPT_ANNOTATION);
        match machine.spec.provider_id.parse() {
            Ok(id) if !starting && machine.meta().deletion_timestamp.is_none() => Self::Has(id),
            _ => Self::Busy,
        }
    }
}

/// What is known in one pass over one class.
pub(super) struct Observed<'a> {
    /// When the list of servers was begun.
    pub(super) began_at: Timestamp,
    /// Whatever the cloud listed.
    pub(super) servers: &'a [Server],
    /// The servers that this class may own.
    pub(super) scope: &'a Scope,
    /// All Machines by name.
    pub(super) owners: &'a BTreeMap<String, Owner>,
    /// The servers, by the cloud's ids, whose nodes are Ready.
    pub(super) ready: &'a BTreeSet<String>,
    /// Whether the nodes are known: without a cluster for them, and before they are listed, none is Ready for anybody.
    pub(super) knows_nodes: bool,
    /// The orphans of the pass before, and when they were first seen.
    pub(super) before: &'a BTreeMap<ProviderId, Timestamp>,
    pub(super) options: OrphanOptions,
    /// Somebody has said that servers without Machines are really orphans, however many there are.
    pub(super) confirmed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Orphan {
    pub(super) id: ProviderId,
    /// The Machine that it was made for.
    pub(super) machine: String,
    pub(super) since: Timestamp,
}

/// What a pass over a class found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pass {
    pub(super) orphans: Vec<Orphan>,
    /// Those that have been orphans for long enough, and not too many at once.
    pub(super) due: Vec<Orphan>,
    /// Why nothing is due although there are orphans.
    pub(super) stopped: Option<String>,
    /// When there is more to do, if not at the usual time.
    pub(super) again: Option<Duration>,
}

impl Pass {
    pub(super) fn sightings(&self) -> BTreeMap<ProviderId, Timestamp> {
        self.orphans.iter().map(|orphan| (orphan.id.clone(), orphan.since)).collect()
    }
}

/// Whether nobody has a server any more. `ready` says whether its node is.
pub(super) fn is_orphan(server: &Server, owner: Option<&Owner>, ready: bool) -> bool {
    if matches!(server.state, State::Deleting | State::Deleted) {
        return false;
    }
    match owner {
        None => true,
        Some(Owner::Busy) => false,
        // One too many. With pods on it, it is not ours to take away.
        Some(Owner::Has(id)) => !id.names_same_server(&server.provider_id) && !ready,
    }
}

pub(super) fn decide(seen: &Observed<'_>) -> Pass {
    // The list may hold more than was asked for.
    let own = seen.servers.iter().filter(|server| seen.scope.holds(&server.marks));
    let own: Vec<&Server> = own.filter(|server| server.state.is_present()).collect();
    let ready = |server: &Server| seen.ready.contains(server.provider_id.server());
    let mut orphans = Vec::new();
    let mut any_ready = false;
    for server in &own {
        // What is not marked with a Machine's name was made by hand.
        let Some(machine) = &server.marks.machine else { continue };
        if is_orphan(server, seen.owners.get(machine), ready(server)) {
            let id = server.provider_id.clone();
            let since = seen.before.get(&id).copied().unwrap_or(seen.began_at);
            any_ready |= ready(server);
            orphans.push(Orphan { id, machine: machine.clone(), since });
        }
    }
    let few = orphans.len() <= FEW && seen.knows_nodes && !any_ready;
    let most = orphans.len() * 2 > own.len() && !few;
    if most && !seen.confirmed {
        let stopped = Some(format!(
            "{} of {} servers of this class have no Machine: nothing is deleted, because it looks as if the Machines were lost. Restore them, or if these servers are really not needed annotate the class with {}=true",
            orphans.len(),
            own.len(),
            names::COLLECT_ORPHANS_ANNOTATION
        ));
        return Pass { orphans, stopped, ..Pass::default() };
    }
    let created = |orphan: &Orphan| {
        let server = own.iter().find(|server| server.provider_id == orphan.id);
        server.and_then(|server| server.created_at)
    };
    let left = |orphan: &Orphan| {
        let since = created(orphan).map_or(orphan.since, |created| created.max(orphan.since));
        let grace = SignedDuration::try_from(seen.options.grace).unwrap_or(SignedDuration::MAX);
        grace.saturating_sub(seen.began_at.duration_since(since))
    };
    let due: Vec<Orphan> = orphans.iter().filter(|orphan| !left(orphan).is_positive()).cloned().collect();
    let more = due.len() > seen.options.limit;
    let waiting = orphans.iter().map(left).filter(SignedDuration::is_positive).min();
    let again = if more { Some(SignedDuration::from_mins(1)) } else { waiting };
    let due = due.into_iter().take(seen.options.limit).collect();
    Pass { orphans, due, stopped: None, again: again.map(SignedDuration::unsigned_abs) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::Marks;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn id(server: &str) -> ProviderId {
        ProviderId::stackit("p", server).unwrap()
    }

    fn server(name: &str) -> Server {
        Server {
            provider_id: id(&format!("id-{name}")),
            name: name.into(),
            marks: Marks {
                domain: Some("ours".into()),
                machine: Some(name.into()),
                class: Some("c".into()),
                attempt: None,
            },
            state: State::Running,
            raw_state: "ACTIVE".into(),
            addresses: Vec::new(),
            created_at: None,
            launched_at: None,
        }
    }

    /// What is changed, in words.
    type Case<T> = (&'static str, fn(&mut T));

    struct Scene {
        began_at: i64,
        servers: Vec<Server>,
        owners: BTreeMap<String, Owner>,
        ready: BTreeSet<String>,
        knows_nodes: bool,
        before: BTreeMap<ProviderId, Timestamp>,
        options: OrphanOptions,
        confirmed: bool,
    }

    impl Scene {
        /// Five servers, all of them owned but `a`, which was seen long ago.
        fn new() -> Self {
            let names = ["a", "b", "c", "d", "e"];
            let owners =
                names[1..].iter().map(|name| ((*name).to_owned(), Owner::Has(id(&format!("id-{name}")))));
            Self {
                began_at: 1_000,
                servers: names.map(server).to_vec(),
                owners: owners.collect(),
                ready: BTreeSet::new(),
                knows_nodes: true,
                before: [(id("id-a"), at(0))].into(),
                options: OrphanOptions { limit: 2, ..OrphanOptions::default() },
                confirmed: false,
            }
        }

        fn pass(&self) -> Pass {
            decide(&Observed {
                began_at: at(self.began_at),
                servers: &self.servers,
                scope: &Scope::Class { domain: "ours".into(), class: "c".into() },
                owners: &self.owners,
                ready: &self.ready,
                knows_nodes: self.knows_nodes,
                before: &self.before,
                options: self.options,
                confirmed: self.confirmed,
            })
        }

        fn due(&self) -> Vec<String> {
            self.pass().due.into_iter().map(|orphan| orphan.machine).collect()
        }
    }

    #[test]
    fn only_what_was_seen_twice_a_grace_period_apart_is_due() {
        let scene = Scene::new();
        assert_eq!(scene.due(), ["a"]);
        let seconds = |first: i64, created: Option<i64>| {
            let mut scene = Scene::new();
            scene.before = [(id("id-a"), at(first))].into();
            scene.servers[0].created_at = created.map(at);
            let pass = scene.pass();
            (pass.due.len(), pass.again.map(|again| again.as_secs()))
        };
        for (first, created, expected) in [
            (700, None, (1, None)),
            (701, None, (0, Some(1))),
            (1_000, None, (0, Some(300))),
            (0, Some(700), (1, None)),
            (0, Some(900), (0, Some(200))),
            // A clock that was set back proves nothing.
            (5_000, None, (0, Some(4_300))),
        ] {
            assert_eq!(seconds(first, created), expected, "{first} {created:?}");
        }
        let mut new = Scene::new();
        new.before.clear();
        assert_eq!((new.due().len(), new.pass().sightings()), (0, [(id("id-a"), at(1_000))].into()));
        let mut gone = Scene::new();
        gone.owners.insert("a".into(), Owner::Busy);
        assert_eq!(gone.pass().sightings(), BTreeMap::new(), "an interrupted sighting counts from the start");
    }

    #[test]
    fn what_is_not_marked_as_ours_is_no_orphan_whatever_the_cloud_lists() {
        let foreign: [Case<Server>; 6] = [
            ("another cluster", |server| server.marks.domain = Some("theirs".into())),
            ("no cluster", |server| server.marks.domain = None),
            ("another class", |server| server.marks.class = Some("d".into())),
            ("no class", |server| server.marks.class = None),
            ("no machine", |server| server.marks.machine = None),
            ("going", |server| server.state = State::Deleting),
        ];
        for (what, change) in foreign {
            let mut scene = Scene::new();
            change(&mut scene.servers[0]);
            assert_eq!(scene.pass().orphans, [], "{what}");
        }
    }

    #[test]
    fn a_machine_keeps_its_server_and_while_it_is_busy_all_of_its_name() {
        let table = [
            (None, false, true),
            (None, true, true),
            (Some(Owner::Busy), false, false),
            (Some(Owner::Has(id("id-a"))), false, false),
            (Some(Owner::Has(id("another"))), false, true),
            (Some(Owner::Has(id("another"))), true, false),
        ];
        for (owner, ready, expected) in table {
            assert_eq!(is_orphan(&server("a"), owner.as_ref(), ready), expected, "{owner:?} {ready}");
        }
    }

    #[test]
    fn machines_say_whether_they_are_busy() {
        let owner = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut machine = json!({"metadata": {"name": "m", "annotations": {}},
                "spec": {"class": {"kind": "MachineClass", "name": "c"}, "providerID": "stackit://p/s"},
                "status": {"currentStatus": {"phase": "Running"}}});
            change(&mut machine);
            Owner::of(&serde_json::from_value(machine).unwrap())
        };
        assert_eq!(owner(&|_| {}), Owner::Has(id("s")));
        for phase in ["Pending", "Unknown", "Failed", "Available", "InPlaceUpdating"] {
            assert_eq!(
                owner(&|machine| machine["status"]["currentStatus"]["phase"] = json!(phase)),
                Owner::Has(id("s"))
            );
        }
        let busy: [Case<serde_json::Value>; 6] = [
            ("new", |machine| machine["status"] = json!({})),
            ("crash loop", |machine| machine["status"]["currentStatus"]["phase"] = json!("CrashLoopBackOff")),
            ("no id", |machine| machine["spec"]["providerID"] = json!("")),
            ("unreadable id", |machine| machine["spec"]["providerID"] = json!("who knows")),
            ("ordering", |machine| {
                machine["metadata"]["annotations"][names::ATTEMPT_ANNOTATION] = json!("x");
            }),
            ("deleting", |machine| machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
        ];
        for (what, change) in busy {
            assert_eq!(owner(&change), Owner::Busy, "{what}");
        }
    }

    #[test]
    fn nothing_is_done_when_most_of_a_class_looks_orphaned() {
        // orphans, others, one of the orphans has a Ready node, somebody said so, are they collected
        let table = [
            (1, 0, false, false, true),
            (2, 0, false, false, true),
            (3, 0, false, false, false),
            (3, 3, false, false, true),
            (4, 3, false, false, false),
            (4, 3, false, true, true),
            (1, 0, true, false, false),
            (1, 0, true, true, true),
            (1, 1, true, false, true),
        ];
        for (orphans, others, ready, confirmed, collected) in table {
            let mut scene = Scene::new();
            let name = |number: usize| format!("m{number}");
            scene.servers = (0..orphans + others).map(|number| server(&name(number))).collect();
            scene.owners = (orphans..orphans + others).map(|number| (name(number), Owner::Busy)).collect();
            scene.before = (0..orphans).map(|number| (id(&format!("id-m{number}")), at(0))).collect();
            scene.ready = ready.then(|| "id-m0".to_owned()).into_iter().collect();
            scene.confirmed = confirmed;
            let pass = scene.pass();
            let case = format!("{orphans} {others} {ready} {confirmed}");
            assert_eq!(pass.due.is_empty(), !collected, "{case}");
            assert_eq!(pass.stopped.is_some(), !collected, "{case}");
            assert_eq!(pass.sightings().len(), orphans, "{case}: they are remembered all the same");
        }
    }

    #[test]
    fn who_does_not_know_the_nodes_takes_no_class_for_a_few_lost_servers() {
        // orphans, others, somebody said so, are they collected
        let table = [
            (1, 0, false, false),
            (2, 0, false, false),
            (2, 1, false, false),
            (1, 0, true, true),
            (2, 0, true, true),
            (1, 1, false, true),
            (2, 2, false, true),
            (3, 3, false, true),
        ];
        for (orphans, others, confirmed, collected) in table {
            let mut scene = Scene::new();
            let name = |number: usize| format!("m{number}");
            scene.servers = (0..orphans + others).map(|number| server(&name(number))).collect();
            scene.owners = (orphans..orphans + others).map(|number| (name(number), Owner::Busy)).collect();
            scene.before = (0..orphans).map(|number| (id(&format!("id-m{number}")), at(0))).collect();
            scene.knows_nodes = false;
            scene.confirmed = confirmed;
            let pass = scene.pass();
            let case = format!("{orphans} {others} {confirmed}");
            assert_eq!(pass.due.is_empty(), !collected, "{case}");
            assert_eq!(pass.stopped.is_some(), !collected, "{case}");
        }
    }

    #[test]
    fn only_so_many_go_at_once_and_the_others_soon_after() {
        let mut scene = Scene::new();
        scene.owners.retain(|name, _| name == "d" || name == "e");
        scene.servers.extend(["f", "g"].map(server));
        scene.owners.extend(["f", "g"].map(|name| (name.to_owned(), Owner::Busy)));
        scene.before = ["a", "b", "c"].map(|name| (id(&format!("id-{name}")), at(0))).into();
        let pass = scene.pass();
        assert_eq!((pass.orphans.len(), pass.due.len(), pass.again), (3, 2, Some(Duration::from_mins(1))));
    }
}

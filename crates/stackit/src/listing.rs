//! A complete list of a project's servers. A thousand servers are listed again and again while a few of them change, so
//! a list shares with the one before what stayed the same, and only what changed is read.

use crate::wire::{BootVolume, List, Server};
use hostler_driver::{Change, Evidence, How};
use jiff::Timestamp;
use serde_json::value::RawValue;
use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Servers as an answer told them, each with what it was read from.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    all: Vec<Arc<Server>>,
    /// What each was read from, as a number that another text has by no likely chance.
    texts: Vec<u64>,
}

impl Servers {
    /// Reads a list. What `before` was read from the same text is taken from there.
    pub(crate) fn read(answer: &[u8], before: &Self) -> serde_json::Result<Self> {
        let known: HashMap<u64, &Arc<Server>> = before.texts.iter().copied().zip(&before.all).collect();
        let list: List<&RawValue> = serde_json::from_slice(answer)?;
        let mut read =
            Self { all: Vec::with_capacity(list.items.len()), texts: Vec::with_capacity(list.items.len()) };
        for item in list.items {
            let mut hasher = DefaultHasher::new();
            item.get().hash(&mut hasher);
            let text = hasher.finish();
            let server = match known.get(&text) {
                Some(server) => Arc::clone(server),
                None => Arc::new(slim(serde_json::from_str(item.get())?)),
            };
            read.all.push(server);
            read.texts.push(text);
        }
        Ok(read)
    }
}

/// Only what is asked of a server in a list: it is kept for as long as it is listed.
fn slim(server: Server) -> Server {
    let boot_volume = server.boot_volume.map(|volume| BootVolume {
        id: volume.id,
        delete_on_termination: volume.delete_on_termination,
        ..BootVolume::default()
    });
    let nics = server.nics.map(|mut nics| {
        nics.shrink_to_fit();
        nics
    });
    Server {
        id: server.id,
        name: server.name,
        status: server.status,
        power_status: server.power_status,
        error_message: server.error_message,
        labels: server.labels,
        created_at: server.created_at,
        launched_at: server.launched_at,
        boot_volume,
        nics,
        ..Server::default()
    }
}

/// The list and when it was begun.
#[derive(Clone)]
pub(crate) struct Listing {
    pub(crate) began_at: Timestamp,
    pub(crate) answered_at: Timestamp,
    servers: Arc<Servers>,
    index: Arc<Index>,
    /// What is left of servers that are gone, in the form of servers.
    remains: Arc<Vec<Server>>,
}

/// Where to find a server in a list.
struct Index {
    by_id: Vec<usize>,
    /// By the label that names their machine; without those that have none.
    by_machine: Vec<usize>,
    machine_label: String,
}

fn label<'a>(server: &'a Server, name: &str) -> Option<&'a str> {
    server.labels.as_ref()?.text(name)
}

impl Index {
    fn of(servers: &[Arc<Server>], machine_label: &str) -> Self {
        let sorted = |mut named: Vec<(&str, usize)>| -> Vec<usize> {
            named.sort_unstable();
            named.into_iter().map(|(_, place)| place).collect()
        };
        let all = || servers.iter().enumerate();
        let by_id = sorted(all().map(|(place, server)| (server.id.as_str(), place)).collect());
        let machines = all().filter_map(|(place, server)| Some((label(server, machine_label)?, place)));
        let by_machine = sorted(machines.collect());
        Self { by_id, by_machine, machine_label: machine_label.to_owned() }
    }
}

impl Listing {
    pub(crate) fn new(
        began_at: Timestamp,
        answered_at: Timestamp,
        servers: Servers,
        machine_label: &str,
    ) -> Self {
        let index = Arc::new(Index::of(&servers.all, machine_label));
        Self { began_at, answered_at, servers: Arc::new(servers), index, remains: Arc::default() }
    }

    /// With what is left of servers. What is listed itself is more than that.
    pub(crate) fn with_remains(mut self, mut remains: Vec<Server>) -> Self {
        remains.retain(|one| self.server(&one.id).is_none());
        self.remains = Arc::new(remains);
        self
    }

    /// All that there is of servers, be it only what they left.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Server> {
        self.servers().iter().map(|server| &**server).chain(&*self.remains)
    }

    /// The server with this id, or what is left of it.
    pub(crate) fn any(&self, id: &str) -> Option<&Server> {
        let left = || self.remains.iter().find(|one| one.id == id);
        self.server(id).map(|server| &**server).or_else(left)
    }

    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        &self.servers.all
    }

    /// What a list after this one is compared with.
    pub(crate) fn read(&self) -> &Servers {
        &self.servers
    }

    pub(crate) fn server(&self, id: &str) -> Option<&Arc<Server>> {
        let at = |place: &usize| self.servers.all.get(*place);
        let found = self.index.by_id.binary_search_by(|place| at(place).map_or("", |one| &one.id).cmp(id));
        at(self.index.by_id.get(found.ok()?)?)
    }

    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { how: How::Listed, began_at: self.began_at, answered_at: self.answered_at }
    }

    /// The servers whose label names this machine, whoever's it is, and what is left of such servers.
    pub(crate) fn of_machine<'a>(&'a self, machine: &'a str) -> impl Iterator<Item = &'a Server> {
        let Index { by_machine, machine_label, .. } = &*self.index;
        let at = |place: &usize| self.servers.all.get(*place);
        let named = |place: &usize| at(place).and_then(|server| label(server, machine_label)).unwrap_or("");
        let first = by_machine.partition_point(|place| named(place) < machine);
        let end = by_machine.partition_point(|place| named(place) <= machine);
        let listed = by_machine.get(first..end).unwrap_or_default().iter().filter_map(at);
        let left = self.remains.iter().filter(move |one| label(one, machine_label) == Some(machine));
        listed.map(|server| &**server).chain(left)
    }

    /// What came, changed and went since the one before.
    pub(crate) fn since(
        &self,
        before: Option<&Self>,
        describe: &(impl Fn(&Server) -> Option<Change> + ?Sized),
    ) -> Vec<Change> {
        let Some(before) = before else { return vec![Change::Everything] };
        let same = |one: &Arc<Server>, other: &Arc<Server>| Arc::ptr_eq(one, other) || one == other;
        let came_or_changed =
            self.servers().iter().filter(|now| !before.server(&now.id).is_some_and(|then| same(now, then)));
        let went = before.servers().iter().filter(|server| self.server(&server.id).is_none());
        let left = before.remains.iter().filter(|one| self.any(&one.id).is_none());
        let servers = came_or_changed.chain(went).map(|server| &**server);
        servers.chain(left).filter_map(describe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::ProviderId;
    use serde_json::{Value, json};

    fn listing(servers: &Value, before: Option<&Listing>) -> Listing {
        let answer = json!({"items": servers}).to_string();
        let nothing = Servers::default();
        let servers = Servers::read(answer.as_bytes(), before.map_or(&nothing, Listing::read)).unwrap();
        Listing::new(Timestamp::MIN, Timestamp::MIN, servers, "machine")
    }

    fn server(id: &str, status: &str) -> Value {
        json!({"id": id, "name": "n", "status": status})
    }

    #[test]
    fn a_difference_names_what_came_went_and_changed() {
        let describe = |server: &Server| {
            Some(Change::Machine { id: ProviderId::stackit("p", &server.id).ok()?, identity: None })
        };
        let before =
            listing(&json!([server("a", "CREATING"), server("b", "ACTIVE"), server("c", "ACTIVE")]), None);
        let now = json!([server("d", "CREATING"), server("a", "ACTIVE"), server("c", "ACTIVE")]);
        // Whether it was read beside the one before or not makes no difference.
        for now in [listing(&now, Some(&before)), listing(&now, None)] {
            let changes = now.since(Some(&before), &describe);
            let ids: Vec<String> = changes
                .into_iter()
                .map(|change| match change {
                    Change::Machine { id, .. } => id.server().to_owned(),
                    Change::Everything => "everything".to_owned(),
                })
                .collect();
            assert_eq!(ids, ["d", "a", "b"]);
            assert_eq!(now.since(None, &describe), [Change::Everything]);
        }
    }

    #[test]
    fn only_what_changed_is_read_and_what_is_read_is_what_was_told() {
        let before = listing(&json!([server("a", "CREATING"), server("b", "ACTIVE")]), None);
        let now =
            listing(&json!([server("b", "ACTIVE"), server("a", "ACTIVE"), server("c", "")]), Some(&before));
        let statuses: Vec<(&str, &str)> =
            now.servers().iter().map(|server| (server.id.as_str(), server.status.as_str())).collect();
        assert_eq!(statuses, [("b", "ACTIVE"), ("a", "ACTIVE"), ("c", "")]);
        let is_shared = |id: &str| Arc::ptr_eq(now.server(id).unwrap(), before.server(id).unwrap());
        assert!(is_shared("b") && !is_shared("a"));
    }

    #[test]
    fn a_list_with_one_that_cannot_be_read_is_no_list() {
        for answer in
            ["", "{}", "[]", r#"{"items": {}}"#, r#"{"items": [{"id": "a"}]}"#, r#"{"items": ["a"]}"#]
        {
            assert!(Servers::read(answer.as_bytes(), &Servers::default()).is_err(), "{answer}");
        }
    }

    #[test]
    fn servers_are_found_by_their_id_and_by_the_machine_that_they_name() {
        let labelled = |id: &str, machine: Value| json!({"id": id, "name": "n", "labels": {"machine": machine, "other": "m"}});
        let all = listing(
            &json!([
                labelled("c", json!("m")),
                labelled("b", json!("n")),
                labelled("a", json!("m")),
                labelled("e", json!(5)),
                server("d", "")
            ]),
            None,
        );
        let ids = |machine: &str| all.of_machine(machine).map(|server| server.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids("m"), ids("n")), (vec!["c".into(), "a".into()], vec!["b".into()]));
        assert_eq!((ids("o"), ids("l"), ids("")), (vec![], vec![], vec![]));
        for id in ["a", "b", "c", "d", "e"] {
            assert_eq!(all.server(id).map(|server| server.id.as_str()), Some(id));
        }
        assert!(all.server("f").is_none() && all.server("").is_none());
    }
}

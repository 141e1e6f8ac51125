//! A simulated STACKIT: the IaaS API's servers, with a life in time and faults as switches.
//!
//! Nothing happens in the background: a server's status follows from the clock whenever somebody looks. What
//! has to reach other parts of the world, a machine that boots or goes, is told by [`Stackit::drive`].

mod api;
mod cloud;

use crate::hollow::{HollowNodes, MachineSpec};
use axum::Router;
use cloud::{Cloud, NewServer};
use hostler_base::{Chance, Clock};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// How the cloud behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// From the create call until the server is `ACTIVE`.
    pub boot_time: Duration,
    /// From the delete call until the server is gone.
    pub delete_time: Duration,
    /// How long a new server is missing from lists.
    pub list_lag: Duration,
    /// `label_selector` has no effect.
    pub ignores_selector: bool,
    /// If not empty, only these bearer tokens are let in.
    pub tokens: BTreeSet<String>,
    /// Servers of these names end in `ERROR`.
    pub fails: BTreeSet<String>,
    /// From `ACTIVE` until the node registers.
    pub join_time: Duration,
    /// Servers of these names have no id in lists.
    pub without_id: BTreeSet<String>,
    /// Who asks for the server with one of these ids is told of another one.
    pub mistaken: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            boot_time: Duration::from_secs(2),
            delete_time: Duration::from_secs(1),
            list_lag: Duration::ZERO,
            ignores_selector: false,
            tokens: BTreeSet::new(),
            fails: BTreeSet::new(),
            join_time: Duration::from_secs(1),
            without_id: BTreeSet::new(),
            mistaken: BTreeMap::new(),
        }
    }
}

/// A server as an observer outside the API sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    pub project: String,
    pub region: String,
    pub id: String,
    pub name: String,
    pub status: &'static str,
    pub labels: BTreeMap<String, String>,
    pub machine_type: String,
}

/// The cloud; clones are the same one.
#[derive(Clone)]
pub struct Stackit(Arc<Shared>);

struct Shared {
    cloud: Mutex<Cloud>,
    clock: Clock,
    chance: Chance,
    changed: Notify,
}

impl Stackit {
    pub fn new(settings: Settings, clock: Clock, chance: Chance) -> Self {
        let cloud = Mutex::new(Cloud::new(settings));
        Self(Arc::new(Shared { cloud, clock, chance, changed: Notify::new() }))
    }

    /// The HTTP API.
    pub fn router(&self) -> Router {
        api::router(self.clone())
    }

    /// All servers that are there now, whoever made them, by id.
    pub fn servers(&self) -> Vec<ServerView> {
        let now = self.0.clock.now();
        self.lock().present(now)
    }

    /// Changes how the cloud behaves from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.lock().settings);
        self.0.changed.notify_one();
    }

    /// Puts a server there as somebody else would; gives its id.
    pub fn add_foreign(&self, project: &str, region: &str, name: &str, labels: &[(&str, &str)]) -> String {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let server =
            NewServer { name: name.to_owned(), machine_type: "c2i.2".to_owned(), labels, user_data: None };
        self.create(project, region, server)
    }

    fn create(&self, project: &str, region: &str, server: NewServer) -> String {
        let id = uuid(&self.0.chance);
        self.lock().create(project, region, &id, server, self.0.clock.now());
        self.0.changed.notify_one();
        id
    }

    fn delete(&self, project: &str, region: &str, id: &str) -> bool {
        let deleted = self.lock().delete(project, region, id, self.0.clock.now());
        self.0.changed.notify_one();
        deleted
    }

    fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.0.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the nodes of running servers join and switches off those whose server goes. Runs for ever.
    pub async fn drive(self, nodes: HollowNodes) {
        let mut running: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let now = self.0.clock.now();
            let (servers, join_time, next) = {
                let cloud = self.lock();
                (cloud.present(now), cloud.settings.join_time, cloud.next_change(now))
            };
            let active: BTreeMap<String, ServerView> = servers
                .into_iter()
                .filter(|server| {
                    server.status == "ACTIVE" && server.labels.contains_key(cloud::MACHINE_LABEL)
                })
                .map(|server| (server.id.clone(), server))
                .collect();
            running.retain(|id, name| {
                let stays = active.contains_key(id);
                if !stays {
                    nodes.shutdown(name);
                }
                stays
            });
            for (id, server) in active {
                running.entry(id).or_insert_with(|| {
                    nodes.boot(machine(&server, join_time));
                    server.name
                });
            }
            tokio::select! {
                biased;
                () = self.0.changed.notified() => {}
                () = async { match next { Some(wait) => self.0.clock.sleep(wait).await, None => std::future::pending().await } } => {}
            }
        }
    }
}

fn machine(server: &ServerView, join_time: Duration) -> MachineSpec {
    let cores = cores(&server.machine_type);
    let mut machine = MachineSpec::new(&server.name);
    machine.provider_id = Some(format!("stackit://{}", server.id));
    machine.capacity.insert("cpu".to_owned(), cores.to_string());
    machine.capacity.insert("memory".to_owned(), format!("{}Gi", cores * 4));
    machine.labels.insert("node.kubernetes.io/instance-type".to_owned(), server.machine_type.clone());
    machine.labels.insert("topology.kubernetes.io/region".to_owned(), server.region.clone());
    machine.boot_time = join_time;
    machine
}

/// `c2i.4` has four cores; what cannot be read has two.
fn cores(machine_type: &str) -> u32 {
    let digits: String =
        machine_type.split('.').nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(2).clamp(1, 256)
}

fn uuid(chance: &Chance) -> String {
    let bits = chance.u128() & !(0xf000 << 64) | (0x4000 << 64);
    let bits = bits & !(0xc000 << 48) | (0x8000 << 48);
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_the_form_of_a_uuid() {
        let chance = Chance::from_seed(1);
        for _ in 0..100 {
            let id = uuid(&chance);
            assert_eq!((id.len(), &id[14..15]), (36, "4"), "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }

    #[test]
    fn cores_come_from_the_type_name() {
        let cases = [("c2i.4", 4), ("g1a.8d", 8), ("n1.14d.g1", 14), ("odd", 2), ("", 2)];
        for (name, expected) in cases {
            assert_eq!(cores(name), expected, "{name}");
        }
    }
}

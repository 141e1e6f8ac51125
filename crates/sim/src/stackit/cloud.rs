//! What the cloud remembers, and how time changes it.

use super::{ServerView, Settings};
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeMap, time::Duration};

/// Servers with this label become nodes.
pub(super) const MACHINE_LABEL: &str = "kubernetes.io/machine";

pub(super) struct Cloud {
    pub(super) settings: Settings,
    /// By project, region and id.
    servers: BTreeMap<(String, String, String), Server>,
}

struct Server {
    name: String,
    machine_type: String,
    labels: BTreeMap<String, String>,
    user_data: Option<String>,
    created_at: Timestamp,
    active_at: Timestamp,
    in_lists_at: Timestamp,
    gone_at: Option<Timestamp>,
    fails: bool,
    number: u32,
}

pub(super) struct NewServer {
    pub(super) name: String,
    pub(super) machine_type: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) user_data: Option<String>,
}

/// One server as the API shows it.
pub(super) struct Shown {
    pub(super) view: ServerView,
    pub(super) created_at: Timestamp,
    pub(super) address: String,
    pub(super) user_data: Option<String>,
}

fn after(from: Timestamp, wait: Duration) -> Timestamp {
    from.saturating_add(SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX))
        .unwrap_or(Timestamp::MAX)
}

impl Server {
    fn status(&self, now: Timestamp) -> Option<&'static str> {
        match self.gone_at {
            Some(gone) if now >= gone => None,
            Some(_) => Some("DELETING"),
            None if now < self.active_at => Some("CREATING"),
            None if self.fails => Some("ERROR"),
            None => Some("ACTIVE"),
        }
    }
}

impl Cloud {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, servers: BTreeMap::new() }
    }

    pub(super) fn create(&mut self, project: &str, region: &str, id: &str, new: NewServer, now: Timestamp) {
        self.forget_gone(now);
        let number = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        let server = Server {
            fails: self.settings.fails.contains(&new.name),
            name: new.name,
            machine_type: new.machine_type,
            labels: new.labels,
            user_data: new.user_data,
            created_at: now,
            active_at: after(now, self.settings.boot_time),
            in_lists_at: after(now, self.settings.list_lag),
            gone_at: None,
            number,
        };
        self.servers.insert((project.to_owned(), region.to_owned(), id.to_owned()), server);
    }

    /// Orders a deletion; false if there is no such server.
    pub(super) fn delete(&mut self, project: &str, region: &str, id: &str, now: Timestamp) -> bool {
        let gone_at = after(now, self.settings.delete_time);
        let key = (project.to_owned(), region.to_owned(), id.to_owned());
        match self.servers.get_mut(&key).filter(|server| server.status(now).is_some()) {
            Some(server) => {
                server.gone_at.get_or_insert(gone_at);
                true
            }
            None => false,
        }
    }

    fn forget_gone(&mut self, now: Timestamp) {
        self.servers.retain(|_, server| server.status(now).is_some());
    }

    fn shown(&self, now: Timestamp) -> impl Iterator<Item = (Shown, &Server)> {
        self.servers.iter().filter_map(move |((project, region, id), server)| {
            let view = ServerView {
                project: project.clone(),
                region: region.clone(),
                id: id.clone(),
                name: server.name.clone(),
                status: server.status(now)?,
                labels: server.labels.clone(),
                machine_type: server.machine_type.clone(),
            };
            let [_, high, middle, low] = server.number.to_be_bytes();
            let address = format!("10.{high}.{middle}.{low}");
            let (created_at, user_data) = (server.created_at, server.user_data.clone());
            Some((Shown { view, created_at, address, user_data }, server))
        })
    }

    pub(super) fn present(&self, now: Timestamp) -> Vec<ServerView> {
        self.shown(now).map(|(shown, _)| shown.view).collect()
    }

    pub(super) fn get(&self, project: &str, region: &str, id: &str, now: Timestamp) -> Option<Shown> {
        let id = self.settings.mistaken.get(id).map_or(id, String::as_str);
        let here = |view: &ServerView| view.project == project && view.region == region && view.id == id;
        self.shown(now).map(|(shown, _)| shown).find(|shown| here(&shown.view))
    }

    /// What a list shows: the servers of a place that carry all these labels and have arrived in lists.
    pub(super) fn list(
        &self,
        project: &str,
        region: &str,
        selector: &[(String, String)],
        now: Timestamp,
    ) -> Vec<Shown> {
        self.shown(now)
            .filter(|(shown, server)| {
                let carries = |(key, value): &(String, String)| shown.view.labels.get(key) == Some(value);
                shown.view.project == project
                    && shown.view.region == region
                    && now >= server.in_lists_at
                    && (self.settings.ignores_selector || selector.iter().all(carries))
            })
            .map(|(mut shown, _)| {
                if self.settings.without_id.contains(&shown.view.name) {
                    shown.view.id.clear();
                }
                shown
            })
            .collect()
    }

    /// How long until some server's status changes by itself.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let moments = self.servers.values().flat_map(|server| [Some(server.active_at), server.gone_at]);
        let next = moments.flatten().filter(|moment| *moment > now).min()?;
        Some(next.duration_since(now).unsigned_abs())
    }
}

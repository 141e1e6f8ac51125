//! What the cloud remembers, and how time changes it.
//!
//! Nothing runs in the background: whoever looks first lets everything happen that was due, in its order.

use super::{
    Settings,
    keypair::Keypair,
    life::Status,
    network::Network,
    nic::Nic,
    public_ip::PublicIp,
    request::Requests,
    security::Group,
    server::Server,
    token::Keys,
    volume::{State, Volume},
};
use crate::cloud::{after, fault::Faults, uuid};
use hostler_base::Chance;
use jiff::Timestamp;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// A project and a region in it.
pub(super) type Place = (String, String);

pub(super) struct Cloud {
    pub(super) settings: Settings,
    pub(super) faults: Faults,
    pub(super) keys: Keys,
    pub(super) keypairs: BTreeMap<String, Keypair>,
    /// How often each operation was called.
    pub(super) calls: BTreeMap<&'static str, u64>,
    pub(super) chance: Chance,
    estates: BTreeMap<Place, Estate>,
    agenda: Agenda,
}

/// What somebody has in a place, by id.
#[derive(Default)]
pub(super) struct Estate {
    pub(super) servers: BTreeMap<String, Server>,
    /// Servers that are gone but still in lists, until then.
    pub(super) ghosts: Vec<(Timestamp, String, Server)>,
    pub(super) nics: BTreeMap<String, Nic>,
    pub(super) networks: BTreeMap<String, Network>,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) public_ips: BTreeMap<String, PublicIp>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) affinity_groups: BTreeMap<String, AffinityGroup>,
    pub(super) requests: Requests,
    /// How many addresses were given out.
    pub(super) addresses: u32,
}

pub(super) struct AffinityGroup {
    pub(super) name: String,
    pub(super) policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Server(String),
    Volume(String),
    /// A server that is gone leaves the lists.
    Ghost,
}

/// When something happens by itself.
#[derive(Default)]
pub(super) struct Agenda(BTreeSet<(Timestamp, Place, Due)>);

impl Agenda {
    pub(super) fn add(&mut self, at: Timestamp, place: &Place, due: Due) {
        self.0.insert((at, place.clone(), due));
    }
}

/// A place as a call or the passing of time finds it.
pub(super) struct Desk<'a> {
    pub(super) estate: &'a mut Estate,
    pub(super) agenda: &'a mut Agenda,
    pub(super) settings: &'a Settings,
    pub(super) chance: &'a Chance,
    pub(super) place: &'a Place,
    pub(super) now: Timestamp,
}

impl Cloud {
    pub(super) fn new(settings: Settings, chance: Chance) -> Self {
        Self {
            settings,
            faults: Faults::default(),
            keys: Keys::new(&chance.split("tokens")),
            keypairs: BTreeMap::new(),
            calls: BTreeMap::new(),
            chance,
            estates: BTreeMap::new(),
            agenda: Agenda::default(),
        }
    }

    /// Lets everything happen that was due by now.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while self.agenda.0.first().is_some_and(|(at, _, _)| *at <= now) {
            let Some((at, place, due)) = self.agenda.0.pop_first() else { return };
            let mut desk = self.desk(&place, at);
            match due {
                Due::Server(id) => desk.advance_server(&id),
                Due::Volume(id) => desk.advance_volume(&id),
                Due::Ghost => desk.estate.ghosts.retain(|(until, _, _)| *until > at),
            }
        }
    }

    pub(super) fn desk<'a>(&'a mut self, place: &'a Place, now: Timestamp) -> Desk<'a> {
        Desk {
            estate: self.estates.entry(place.clone()).or_default(),
            agenda: &mut self.agenda,
            settings: &self.settings,
            chance: &self.chance,
            place,
            now,
        }
    }

    pub(super) fn estates(&self) -> &BTreeMap<Place, Estate> {
        &self.estates
    }

    /// How long until something changes by itself.
    pub(super) fn next_change(&self, now: Timestamp) -> Option<Duration> {
        let (next, _, _) = self.agenda.0.first()?;
        Some(next.duration_since(now).unsigned_abs())
    }

    /// Lets servers go on that are not to be stuck any more.
    pub(super) fn release(&mut self, now: Timestamp) {
        let wait = self.settings.delete_time;
        for (place, estate) in &mut self.estates {
            for (id, server) in &mut estate.servers {
                let stuck = server.status == Status::Deleting && server.until.is_none();
                if stuck && !self.settings.sticks(&server.name) {
                    let gone = after(now, wait);
                    server.until = Some(gone);
                    self.agenda.add(gone, place, Due::Server(id.clone()));
                }
            }
        }
    }

    /// Where a server is.
    pub(super) fn place_of(&self, id: &str) -> Option<Place> {
        self.estates
            .iter()
            .find(|(_, estate)| estate.servers.contains_key(id))
            .map(|(place, _)| place.clone())
    }
}

impl Desk<'_> {
    /// An id that nothing has yet.
    pub(super) fn new_id(&self) -> String {
        uuid(self.chance)
    }

    /// A time that varies as the settings say.
    pub(super) fn drawn(&self, time: Duration) -> Duration {
        let jitter = self.settings.jitter;
        if jitter.is_zero() { time } else { time.saturating_add(jitter.mul_f64(self.chance.unit())) }
    }

    /// The server takes this status now, and the next one after a while.
    pub(super) fn enter(&mut self, id: &str, status: Status, wait: Option<Duration>) {
        let until = wait.map(|wait| after(self.now, wait));
        let now = self.now;
        let Some(server) = self.estate.servers.get_mut(id) else { return };
        server.before = server.status;
        server.status = status;
        server.until = until;
        server.updated_at = now;
        if let Some(until) = until {
            self.agenda.add(until, self.place, Due::Server(id.to_owned()));
        }
    }

    fn advance_server(&mut self, id: &str) {
        let Some(server) = self.estate.servers.get_mut(id).filter(|server| server.until == Some(self.now))
        else {
            return;
        };
        if server.status == Status::Deleting {
            self.terminate(id);
            return;
        }
        let next = server.status.next(server.before);
        match (next, server.failure.take()) {
            (Some(Status::Active), Some(message)) => {
                server.error = Some(message);
                self.enter(id, Status::Error, None);
            }
            (Some(next), _) => {
                if next == Status::Active {
                    server.launched_at.get_or_insert(self.now);
                }
                self.enter(id, next, None);
            }
            (None, _) => server.until = None,
        }
    }

    fn advance_volume(&mut self, id: &str) {
        let Some(volume) = self.estate.volumes.get_mut(id).filter(|volume| volume.until == Some(self.now))
        else {
            return;
        };
        volume.until = None;
        volume.updated_at = self.now;
        match volume.state {
            State::Creating | State::Resizing => volume.state = State::Available,
            State::Deleting => {
                self.estate.volumes.remove(id);
            }
            State::Available => {}
        }
    }

    /// The server is gone: with it the NICs that were made for it and the volumes that are to go with it.
    fn terminate(&mut self, id: &str) {
        let Some(server) = self.estate.servers.remove(id) else { return };
        for nic in &server.nics {
            let made_for_it = self.estate.nics.get(nic).is_some_and(|nic| nic.goes_with_server);
            if made_for_it {
                self.forget_nic(nic);
            } else if let Some(nic) = self.estate.nics.get_mut(nic) {
                nic.server = None;
            }
        }
        for (volume, goes) in &server.attachments {
            if *goes {
                self.estate.volumes.remove(volume);
            } else if let Some(volume) = self.estate.volumes.get_mut(volume) {
                volume.server = None;
            }
        }
        if !self.settings.gone_lag.is_zero() {
            let until = after(self.now, self.settings.gone_lag);
            self.estate.ghosts.push((until, id.to_owned(), server));
            self.agenda.add(until, self.place, Due::Ghost);
        }
    }
}

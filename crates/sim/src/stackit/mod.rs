//! A simulated STACKIT: the IaaS API in both versions, the token endpoint, a life in time, and faults.
//!
//! Nothing happens in the background: a server's status follows from the clock whenever somebody looks. What
//! has to reach other parts of the world, a machine that boots or goes, is told by [`Stackit::drive`].
//!
//! Whatever nobody outside STACKIT knows is a switch in the [`Settings`]. Without a [`Catalogue`] every
//! well-formed id of an image, a network, a keypair, a machine type, a NIC, a volume or a group exists once it
//! is named. [`admin`] lets other processes change settings and add faults over HTTP.

pub mod admin;
mod answer;
mod check;
mod cloud;
mod create;
mod dispatch;
mod drive;
mod http;
mod keypair;
mod life;
mod lookup;
mod network;
mod nic;
mod operation;
mod public_ip;
mod request;
mod security;
mod selector;
mod server;
mod settings;
mod token;
mod view;
mod volume;

use crate::{
    cloud::http::{self as cloud_http, failing_transport},
    wire::Paths,
};
use axum::Router;
use cloud::Cloud;
use create::NewServer;
use hostler_base::{Chance, Clock, Transport};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{net::TcpListener, sync::Notify};

pub use crate::cloud::fault::{Fault, Spoiled};
pub use settings::{Catalogue, EmptyNetworking, MachineType, SelectorGrammar, Settings};
pub use token::NewKey;
pub use view::{NicView, ServerView, VolumeView};

/// The cloud; clones are the same one.
#[derive(Clone)]
pub struct Stackit(Arc<Shared>);

struct Shared {
    cloud: Mutex<Cloud>,
    clock: Clock,
    changed: Notify,
}

impl Stackit {
    pub fn new(settings: Settings, clock: Clock, chance: Chance) -> Self {
        let cloud = Mutex::new(Cloud::new(settings, chance));
        Self(Arc::new(Shared { cloud, clock, changed: Notify::new() }))
    }

    /// The HTTP API, the token endpoint `/token`, and what [`admin`] describes. An answer that a fault lets
    /// nobody see has a body that breaks off; over [`Stackit::transport`] and [`Stackit::serve`] there is no
    /// answer then.
    pub fn router(&self) -> Router {
        http::router(self.clone())
    }

    /// How calls to it are named.
    pub fn paths() -> Paths {
        Paths::templates(operation::templates().iter().map(String::as_str).chain(["/token"]))
    }

    /// Every operation of the API by name, method and path in version 2, with names for what varies.
    pub fn operations() -> Vec<(&'static str, ::http::Method, String)> {
        operation::all().collect()
    }

    /// The same as [`Stackit::router`], as a transport whose calls can fail.
    pub fn transport(&self) -> Transport {
        failing_transport(self.router())
    }

    /// Serves the cloud to other processes, until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        cloud_http::serve(self.router(), listener).await;
    }

    /// Changes how the cloud behaves from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        change(&mut cloud.settings);
        cloud.release(now);
        drop(cloud);
        self.0.changed.notify_one();
    }

    /// A fault as a command line has it. The error says what is wrong with it.
    pub fn read_fault(text: &str) -> Result<Fault, String> {
        Fault::read(text, operation::names())
    }

    /// From now on calls meet this fault. The error says what is wrong with it.
    pub fn add_fault(&self, fault: Fault) -> Result<(), String> {
        if let Some(problem) = fault.wrong_for(operation::names()) {
            return Err(problem);
        }
        self.lock().faults.add(fault);
        Ok(())
    }

    pub fn clear_faults(&self) {
        self.lock().faults.clear();
    }

    /// How often each operation was called.
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.lock().calls.clone()
    }

    /// A service account key as the portal hands it out. The error says what is wrong with the wish.
    pub fn issue_key(&self, key: NewKey) -> Result<Value, String> {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        let chance = cloud.chance.clone();
        cloud.keys.issue(key, &chance, now)
    }

    /// False if there is no such key.
    pub fn revoke_key(&self, kid: &str) -> bool {
        self.lock().keys.revoke(kid)
    }

    /// Puts a server there as somebody else would; gives its id.
    pub fn add_foreign(&self, project: &str, region: &str, name: &str, labels: &[(&str, &str)]) -> String {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let place = (project.to_owned(), region.to_owned());
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let id = cloud.desk(&place, now).put_server(NewServer::named(name, "c2i.2", labels));
        drop(cloud);
        self.0.changed.notify_one();
        id
    }

    /// The volumes of a server outlive it, as those do that nobody told to go with it. False if there is no such server.
    pub fn let_volumes_stay(&self, id: &str) -> bool {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let Some(place) = cloud.place_of(id) else { return false };
        let mut desk = cloud.desk(&place, now);
        desk.server_mut(id).is_ok_and(|server| {
            server.attachments.values_mut().for_each(|goes| *goes = false);
            true
        })
    }

    /// A server that ran is in `ERROR` now. False if there is none.
    pub fn fail_server(&self, id: &str, message: &str) -> bool {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let Some(place) = cloud.place_of(id) else { return false };
        let failed = cloud.desk(&place, now).break_server(id, message).is_ok();
        drop(cloud);
        self.0.changed.notify_one();
        failed
    }

    fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.0.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

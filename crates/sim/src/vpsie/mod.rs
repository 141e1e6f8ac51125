//! A simulated VPSie: the HTTP API as public clients have seen it, a life in time, and faults.
//!
//! Nothing happens in the background: a VPS's stage follows from the clock whenever somebody looks. What has to
//! reach other parts of the world, a machine that boots or goes, is told by [`Vpsie::drive`].
//!
//! VPSie publishes no specification. Whatever nobody outside VPSie knows, or clients have seen differently, is a switch
//! in the [`Settings`]. [`admin`] lets other processes change settings and add faults over HTTP.
//!
//! What a VPS must have in its user data to become a node is described in [`bootstrap`].

mod account;
pub mod admin;
mod answer;
mod auth;
pub mod bootstrap;
mod call;
mod catalogue;
mod cloud;
mod create;
mod dispatch;
mod drive;
mod http;
mod life;
mod managed;
mod operation;
mod settings;
mod view;
mod vm;

use crate::{
    cloud::http::{self as cloud_http, failing_transport},
    wire::Paths,
};
use axum::Router;
use cloud::Cloud;
use hostler_base::{Chance, Clock, Transport};
use jiff::Timestamp;
use life::Stage;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{net::TcpListener, sync::Notify};
use vm::Wish;

pub use crate::cloud::fault::{Fault, Spoiled};
pub use auth::{Key, NewKey};
pub use catalogue::{Catalogue, CustomImage, Datacenter, KubeSize, Named, Plan, Project, identifier_of};
pub use settings::{CreateAnswer, KeyHeader, NodeShape, Settings, SoldOut, TokenAnswer, Total, WorkerAnswer};
pub use view::{VmStage, VmView, WorkerView};

/// The cloud; clones are the same one.
#[derive(Clone)]
pub struct Vpsie(Arc<Shared>);

struct Shared {
    cloud: Mutex<Cloud>,
    clock: Clock,
    changed: Notify,
}

impl Vpsie {
    pub fn new(settings: Settings, clock: Clock, chance: Chance) -> Self {
        let cloud = Mutex::new(Cloud::new(settings, chance, clock.now()));
        Self(Arc::new(Shared { cloud, clock, changed: Notify::new() }))
    }

    /// The HTTP API under `/apps/v2` and `/api/v2`, and what [`admin`] describes. An answer that a fault lets nobody see
    /// has a body that breaks off; over [`Vpsie::transport`] and [`Vpsie::serve`] there is no answer then.
    pub fn router(&self) -> Router {
        http::router(self.clone())
    }

    /// How calls to it are named.
    pub fn paths() -> Paths {
        let reads = ["/apps/v2/resources", "/apps/v2/k8s/offers", "/apps/v2/auth/from/api"];
        Paths::templates(operation::templates().iter().map(String::as_str)).read_by_post(reads)
    }

    /// Every operation of the API by name, method and path, with names for what varies.
    pub fn operations() -> Vec<(&'static str, ::http::Method, String)> {
        operation::all().collect()
    }

    /// The same as [`Vpsie::router`], as a transport whose calls can fail.
    pub fn transport(&self) -> Transport {
        failing_transport(self.router())
    }

    /// Serves the cloud to other processes, until the future is dropped.
    pub async fn serve(self, listener: TcpListener) {
        cloud_http::serve(self.router(), listener).await;
    }

    /// Changes how the cloud behaves from now on.
    pub fn set(&self, change: impl FnOnce(&mut Settings)) {
        self.change(|cloud| {
            let mut settings = cloud.settings.clone();
            change(&mut settings);
            cloud.behave(settings);
        });
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

    /// A credential as the console hands it out. Only where credentials are needed does it make a difference.
    pub fn issue_key(&self, kind: NewKey, valid_until: Option<Timestamp>) -> Key {
        let mut cloud = self.lock();
        let chance = cloud.chance.clone();
        cloud.keys.issue(kind, valid_until, &chance)
    }

    /// False if there is no such credential.
    pub fn revoke_key(&self, id: &str) -> bool {
        self.lock().keys.revoke(id)
    }

    /// Puts a VPS there that runs at once, of the first plan in the first datacenter, as somebody else would; gives its
    /// identifier. Nothing if the catalogue lacks one.
    pub fn add_foreign(&self, hostname: &str) -> Option<String> {
        self.change(|cloud| {
            let plan = cloud.catalogue.plans.first()?.clone();
            let datacenter = cloud.catalogue.datacenters.first()?.clone();
            let image = cloud.catalogue.images.first()?;
            let image = (image.identifier.clone(), image.name.clone());
            let wish = Wish { backup: false, ipv4: true, ipv6: false, private_ip: false, is_custom: false };
            let number = cloud.put_vm(hostname, plan, datacenter, image, wish);
            let now = cloud.now;
            let vm = cloud.vms.get_mut(&number)?;
            vm.listed = Some(now);
            let identifier = vm.identifier.clone();
            cloud.enter(number, Stage::Running);
            Some(identifier)
        })
    }

    /// A VPS is suspended, or is not any more. False if there is none with this identifier.
    pub fn suspend(&self, identifier: &str, suspended: bool) -> bool {
        self.change(|cloud| {
            let vm = cloud.vms.values_mut().find(|vm| vm.identifier == identifier && vm.stage.answers());
            vm.map(|vm| vm.is_suspended = suspended).is_some()
        })
    }

    /// Lets what was due happen, and then something more.
    fn change<T>(&self, change: impl FnOnce(&mut Cloud) -> T) -> T {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let out = change(&mut cloud);
        drop(cloud);
        self.0.changed.notify_one();
        out
    }

    fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.0.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The way from a class to its cloud.

use crate::{
    api::MachineClass,
    metrics::{DriverCalls, Method},
};
use hostler_base::Clock;
use hostler_controller::{Cache, Key};
use hostler_driver::{
    Code, Credentials, Described, Driver, DriverFactory, Failure, Identity, Order, ProviderId, Scope,
    Snapshot, UserData, Written,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret, SecretReference};
use kube::ResourceExt;
use secrecy::ExposeSecret;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// All clouds, by the classes and Secrets that lead to them.
#[derive(Clone)]
pub(crate) struct Clouds {
    drivers: Arc<Factories>,
    pub(crate) secrets: Cache<Secret>,
    calls: DriverCalls,
    clock: Clock,
    ways: Arc<Mutex<BTreeMap<WayMark, Way>>>,
}

/// What makes the drivers of each cloud.
pub(crate) struct Factories {
    /// Also for classes that name no cloud, or one that there is not.
    pub(crate) first: Arc<dyn DriverFactory>,
    pub(crate) others: Vec<Arc<dyn DriverFactory>>,
}

impl Factories {
    fn all(&self) -> impl Iterator<Item = &Arc<dyn DriverFactory>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn named(&self, provider: &str) -> Option<&Arc<dyn DriverFactory>> {
        self.all().find(|factory| provider.eq_ignore_ascii_case(factory.provider()))
    }
}

/// Where a class leads to: everything that its machines have in common.
#[derive(Clone)]
pub(crate) struct Lead {
    pub(crate) driver: Arc<dyn Driver>,
    /// Whatever the driver is asked for goes through here.
    pub(crate) calls: DriverCalls,
    pub(crate) described: Result<Described, Failure>,
    /// What the Secret holds for machines whose description holds none.
    pub(crate) user_data: Result<Option<UserData>, Failure>,
    pub(crate) spec: Arc<Value>,
}

/// A class's namespace and name, and what is written about where its machine is: place and project. A driver may depend
/// on no more of [`Written`] than these.
type WayMark = (String, String, Option<String>, Option<String>);

/// A lead, and what it was read from. It is good as long as these are the objects that are known, and for a while: who
/// makes drivers gives up those that nobody asks for.
struct Way {
    class: Arc<MachineClass>,
    secrets: Vec<Arc<Secret>>,
    lead: Lead,
    read_at: Instant,
}

/// A class's servers as its cloud knows them.
pub(crate) struct Servers {
    pub(crate) driver: Arc<dyn Driver>,
    /// Whatever the driver is asked for goes through here.
    pub(crate) calls: DriverCalls,
    pub(crate) domain: String,
    pub(crate) class: String,
}

/// For how long a class and its Secrets are not read again while they stay the same.
const READ_AGAIN: Duration = Duration::from_mins(1);

impl Clouds {
    pub(crate) fn new(drivers: Factories, secrets: Cache<Secret>, calls: DriverCalls, clock: Clock) -> Self {
        let drivers = Arc::new(drivers);
        Self { drivers, secrets, calls, clock, ways: Arc::default() }
    }

    /// Both Secrets of a class.
    fn secrets_of(&self, class: &MachineClass) -> Result<Vec<Arc<Secret>>, Failure> {
        let namespace = class.namespace().unwrap_or_default();
        let references = [&class.spec.secret_ref, &class.spec.credentials_secret_ref].into_iter().flatten();
        let secret = |SecretReference { name, namespace: own }: &SecretReference| {
            let name = name.clone().unwrap_or_default();
            let key = Key::new("Secret", own.clone().unwrap_or_else(|| namespace.clone()), name.clone());
            self.secrets.get(&key).ok_or_else(|| {
                let message = format!("there is no Secret {}/{name}: create it", key.namespace);
                Failure::new(Code::FailedPrecondition, message)
            })
        };
        references.map(secret).collect()
    }

    /// Where a class leads to for a machine about which this is written.
    pub(crate) fn lead(&self, class: &Arc<MachineClass>, written: Written<'_>) -> Result<Lead, Failure> {
        let secrets = self.secrets_of(class)?;
        let project = written.id.and_then(ProviderId::project);
        let mark = (
            class.namespace().unwrap_or_default(),
            class.name_any(),
            written.place.map(str::to_owned),
            project.map(str::to_owned),
        );
        let now = self.clock.instant();
        let is_recent = |way: &Way| now.saturating_duration_since(way.read_at) < READ_AGAIN;
        let is_same = |way: &&Way| {
            Arc::ptr_eq(&way.class, class)
                && way.secrets.len() == secrets.len()
                && way.secrets.iter().zip(&secrets).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = ways.get(&mark).filter(is_same).filter(|way| is_recent(way)) {
            return Ok(way.lead.clone());
        }
        let lead = self.read(class, &secrets, written)?;
        ways.retain(|_, way| is_recent(way));
        let (class, lead_out) = (Arc::clone(class), lead.clone());
        ways.insert(mark, Way { class, secrets, lead, read_at: now });
        Ok(lead_out)
    }

    fn read(
        &self,
        class: &MachineClass,
        secrets: &[Arc<Secret>],
        written: Written<'_>,
    ) -> Result<Lead, Failure> {
        let credentials = merged(secrets);
        let (factory, calls) = self.factory(class);
        let driver = factory.driver(&credentials, &class.spec.provider_spec, written)?;
        let described = driver.describe(&class.spec.provider_spec);
        let user_data = if credentials.has("userData") {
            credentials.text("userData").map(|text| Some(UserData::new(text.expose_secret())))
        } else {
            Ok(credentials.contains("userData").then(|| UserData::new("")))
        };
        Ok(Lead { driver, calls, described, user_data, spec: Arc::new(class.spec.provider_spec.clone()) })
    }

    /// What makes the class's drivers, and counts what they are asked for.
    fn factory(&self, class: &MachineClass) -> (&Arc<dyn DriverFactory>, DriverCalls) {
        let factory = self.drivers.named(&class.spec.provider).unwrap_or(&self.drivers.first);
        (factory, self.calls.of(factory.provider()))
    }

    /// Why nothing can be ordered of a class that is for another cloud.
    pub(crate) fn serves(&self, provider: &str) -> Result<(), Failure> {
        if provider.is_empty() || self.drivers.named(provider).is_some() {
            return Ok(());
        }
        let known: Vec<String> =
            self.drivers.all().map(|factory| format!("{:?}", factory.provider())).collect();
        let known = match known.as_slice() {
            [one] => format!("not {one}, the one there is here"),
            all => format!("none of those there are here: {}", all.join(", ")),
        };
        let message = format!("the MachineClass's provider: {provider:?} is {known}");
        Err(Failure::new(Code::InvalidArgument, message))
    }

    /// Whether the class is for one of these clouds.
    pub(crate) fn serve(&self, class: &MachineClass) -> bool {
        self.serves(&class.spec.provider).is_ok()
    }

    /// Where the class's servers are, as it says now.
    pub(crate) fn servers_of(&self, class: &MachineClass) -> Result<Servers, Failure> {
        let credentials = merged(&self.secrets_of(class)?);
        let (factory, calls) = self.factory(class);
        let driver = factory.driver(&credentials, &class.spec.provider_spec, Written::default())?;
        let domain = driver.describe(&class.spec.provider_spec)?.domain;
        Ok(Servers { driver, calls, domain, class: class.name_any() })
    }

    /// The class's servers.
    pub(crate) async fn list(
        &self,
        servers: &Servers,
        begun_after: Option<Timestamp>,
    ) -> Result<Snapshot, Failure> {
        servers.calls.timed(Method::List, servers.driver.list(&servers.scope(), begun_after)).await
    }
}

/// The data of all Secrets; a later one's keys win.
fn merged(secrets: &[Arc<Secret>]) -> Credentials {
    let data = secrets.iter().flat_map(|secret| secret.data.iter().flatten());
    Credentials::new(data.map(|(key, value)| (key.clone(), value.0.clone())))
}

impl Servers {
    pub(crate) fn scope(&self) -> Scope {
        Scope::Class { domain: self.domain.clone(), class: self.class.clone() }
    }

    /// What the server of this machine is recognised by.
    pub(crate) fn identity(&self, machine: &str) -> Identity {
        Identity { domain: self.domain.clone(), machine: machine.to_owned(), class: self.class.clone() }
    }

    /// Enough of an order to let a server go.
    pub(crate) fn order(&self, machine: &str, class: &MachineClass) -> Order {
        Order {
            identity: self.identity(machine),
            attempt: hostler_driver::Attempt(String::new()),
            spec: Arc::new(class.spec.provider_spec.clone()),
            user_data: None,
        }
    }
}

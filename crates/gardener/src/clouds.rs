//! The way from a class to its cloud.

use crate::{
    api::MachineClass,
    metrics::{DriverCalls, Method},
};
use hostler_controller::{Cache, Key};
use hostler_driver::{
    Code, Credentials, Driver, DriverFactory, Failure, Identity, Order, Scope, Snapshot, Written,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret, SecretReference};
use kube::ResourceExt;
use std::sync::Arc;

/// All clouds, by the classes and Secrets that lead to them.
#[derive(Clone)]
pub(crate) struct Clouds {
    pub(crate) drivers: Arc<dyn DriverFactory>,
    pub(crate) secrets: Cache<Secret>,
    /// Whatever a driver is asked for goes through here.
    pub(crate) calls: DriverCalls,
}

/// A class's servers as its cloud knows them.
pub(crate) struct Servers {
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) domain: String,
    pub(crate) class: String,
}

impl Clouds {
    /// The data of both Secrets; the second one's keys win.
    pub(crate) fn credentials(&self, class: &MachineClass) -> Result<Credentials, Failure> {
        let namespace = class.namespace().unwrap_or_default();
        let mut data = Vec::new();
        for reference in [&class.spec.secret_ref, &class.spec.credentials_secret_ref].into_iter().flatten() {
            let SecretReference { name, namespace: own } = reference;
            let name = name.clone().unwrap_or_default();
            let key = Key::new("Secret", own.clone().unwrap_or_else(|| namespace.clone()), name.clone());
            let secret = self.secrets.get(&key).ok_or_else(|| {
                let message = format!("there is no Secret {}/{name}: create it", key.namespace);
                Failure::new(Code::FailedPrecondition, message)
            })?;
            data.extend(secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())));
        }
        Ok(Credentials::new(data))
    }

    /// Whether the class is for this cloud.
    pub(crate) fn serve(&self, class: &MachineClass) -> bool {
        let provider = &class.spec.provider;
        provider.is_empty() || provider.eq_ignore_ascii_case(self.drivers.provider())
    }

    /// Where the class's servers are, as it says now.
    pub(crate) fn servers_of(&self, class: &MachineClass) -> Result<Servers, Failure> {
        let credentials = self.credentials(class)?;
        let driver = self.drivers.driver(&credentials, &class.spec.provider_spec, Written::default())?;
        let domain = driver.describe(&class.spec.provider_spec)?.domain;
        Ok(Servers { driver, domain, class: class.name_any() })
    }

    /// The class's servers.
    pub(crate) async fn list(
        &self,
        servers: &Servers,
        begun_after: Option<Timestamp>,
    ) -> Result<Snapshot, Failure> {
        self.calls.timed(Method::List, servers.driver.list(&servers.scope(), begun_after)).await
    }
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
            spec: class.spec.provider_spec.clone(),
            user_data: None,
        }
    }
}

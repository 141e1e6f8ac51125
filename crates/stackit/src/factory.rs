use crate::{
    Api, Authorisation, Client, Environment, Grant, Limit, Place, ProviderSpec, Settings, StackitDriver,
    Surroundings, poller::Poller,
};
use hostler_base::{Chance, Clock, Transport};
use hostler_driver::{Credentials, Driver, DriverFactory, Failure, Written};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// After how long without use a driver is given up, with its tokens and its poller. Machines are looked at
/// more often than this, so only those of a replaced key or a class that is gone are.
const UNUSED_AFTER: Duration = Duration::from_secs(30 * 60);

/// Makes drivers and gives out the same one again for the same place, right and defaults. Nothing that
/// failed is remembered: a corrected Secret works at once, a rotated key from the next call on.
pub struct StackitFactory {
    surroundings: Surroundings,
    environment: Environment,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    drivers: Vec<KnownDriver>,
    /// By project: all keys of a project share its limit.
    limits: BTreeMap<String, Arc<Limit>>,
}

struct KnownDriver {
    settings: Settings,
    authorisation: Authorisation,
    client: Client,
    poller: Arc<Poller>,
    driver: Arc<StackitDriver>,
    used_at: Instant,
}

impl StackitFactory {
    /// For a simulated cloud at this address, which may do without keys.
    pub fn new(transport: Transport, endpoint: &str, clock: Clock) -> Self {
        // Different from process to process, but given by the clock, so that a run can be repeated.
        let seed = clock.now().as_nanosecond().unsigned_abs();
        let chance = Chance::from_seed(u64::try_from(seed & u128::from(u64::MAX)).unwrap_or_default());
        let surroundings = Surroundings { transport, clock, chance };
        Self::with_environment(surroundings, Environment::simulated(endpoint))
    }

    pub fn with_environment(surroundings: Surroundings, environment: Environment) -> Self {
        Self { surroundings, environment, known: Mutex::default() }
    }

    fn authorisation(&self, known: &Known, grant: &Grant) -> Result<Authorisation, Failure> {
        match known.drivers.iter().find(|driver| driver.settings.grant.same_as(grant)) {
            Some(driver) => Ok(driver.authorisation.clone()),
            None => grant.authorisation(&self.environment, &self.surroundings),
        }
    }

    fn client(&self, known: &mut Known, place: &Place, authorisation: Authorisation) -> Client {
        let Surroundings { clock, chance, .. } = &self.surroundings;
        let limit = known
            .limits
            .entry(place.project.clone())
            .or_insert_with_key(|project| Arc::new(Limit::new(clock.clone(), chance.split(project))));
        let endpoint = self.environment.endpoint_for(&place.region);
        let api = Api { endpoint, version: self.environment.version };
        Client::new(self.surroundings.clone(), api, place.clone(), authorisation, Arc::clone(limit))
    }
}

impl DriverFactory for StackitFactory {
    fn provider(&self) -> &'static str {
        "stackit"
    }

    fn driver(
        &self,
        credentials: &Credentials,
        spec: &Value,
        written: Written<'_>,
    ) -> Result<Arc<dyn Driver>, Failure> {
        let spec = match ProviderSpec::parse(spec) {
            // It is known where the server is, so it can be looked after, whatever became of the class.
            Err(_) if written.place.is_some() => ProviderSpec::default(),
            spec => spec?,
        };
        let settings = Settings::read(credentials, &spec, &self.environment, written);
        let settings = settings.map_err(|failure| match written {
            // Nothing was ordered yet: whoever corrects the one learns of the other at once.
            Written { place: None, id: None } => {
                let problems = [failure.message].into_iter().chain(spec.problems()).collect::<Vec<_>>();
                Failure { message: problems.join("; "), ..failure }
            }
            _ => failure,
        })?;
        let Surroundings { clock, .. } = &self.surroundings;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used_at = clock.instant();
        let same_right = |other: &KnownDriver| {
            other.settings.place == settings.place && other.settings.grant.same_as(&settings.grant)
        };
        let same =
            |other: &&mut KnownDriver| other.settings.defaults == settings.defaults && same_right(other);
        if let Some(driver) = known.drivers.iter_mut().find(same) {
            driver.used_at = used_at;
            return Ok(Arc::clone(&driver.driver) as Arc<dyn Driver>);
        }
        known.drivers.retain(|other| used_at.saturating_duration_since(other.used_at) < UNUSED_AFTER);
        let related = known.drivers.iter().find(|other| same_right(other));
        let (authorisation, client, poller) = match related {
            Some(other) => (other.authorisation.clone(), other.client.clone(), Arc::clone(&other.poller)),
            None => {
                let authorisation = self.authorisation(&known, &settings.grant)?;
                let client = self.client(&mut known, &settings.place, authorisation.clone());
                let machine_label = self.environment.labels.machine.clone();
                let poller = Arc::new(Poller::new(client.clone(), machine_label, clock.clone()));
                (authorisation, client, poller)
            }
        };
        let driver = Arc::new(StackitDriver::new(
            client.clone(),
            settings.defaults.clone(),
            self.environment.labels.clone(),
            settings.warnings(),
            Arc::clone(&poller),
            clock.clone(),
        ));
        let given = Arc::clone(&driver) as Arc<dyn Driver>;
        known.drivers.push(KnownDriver { settings, authorisation, client, poller, driver, used_at });
        Ok(given)
    }
}

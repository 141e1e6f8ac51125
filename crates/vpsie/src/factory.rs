use crate::{
    Catalogue, Client, Hints, ProviderSpec, Settings, VpsieDriver, driver::place_of, poller::Poller,
};
use hostler_base::{Chance, Clock, Transport};
use hostler_driver::{Code, Credentials, Driver, DriverFactory, Failure, Written, client::Surroundings};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// After how long without use an account is given up, with its tokens and its poller. Machines are looked at more often
/// than this, so only those of a replaced key are.
const UNUSED_AFTER: Duration = Duration::from_secs(30 * 60);

/// Makes drivers and gives out the same one again for the same account and hints. Nothing that failed is remembered: a
/// corrected Secret works at once, a rotated key from the next call on.
pub struct VpsieFactory {
    surroundings: Surroundings,
    known: Mutex<Vec<Known>>,
}

/// All that is shared by whoever works with one account.
#[derive(Clone)]
pub struct Account {
    pub client: Client,
    pub catalogue: Arc<Catalogue>,
    /// What the Secret says about where machines belong.
    pub hints: Hints,
    poller: Arc<Poller>,
}

struct Known {
    settings: Settings,
    account: Account,
    driver: Arc<VpsieDriver>,
    used_at: Instant,
}

impl VpsieFactory {
    pub fn new(surroundings: Surroundings) -> Self {
        Self { surroundings, known: Mutex::default() }
    }

    /// For a simulated VPSie behind this transport.
    pub fn simulated(transport: Transport, clock: Clock) -> Self {
        // Different from process to process, but given by the clock, so that a run can be repeated.
        let seed = clock.now().as_nanosecond().unsigned_abs();
        let chance = Chance::from_seed(u64::try_from(seed & u128::from(u64::MAX)).unwrap_or_default());
        Self::new(Surroundings { transport, clock, chance })
    }

    /// The account that a Secret leads to.
    pub fn account(&self, credentials: &Credentials) -> Result<Account, Failure> {
        Ok(self.known(Settings::read(credentials)?).0)
    }

    fn known(&self, settings: Settings) -> (Account, Arc<VpsieDriver>) {
        let Surroundings { clock, .. } = &self.surroundings;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used_at = clock.instant();
        let same = |other: &&mut Known| {
            other.settings.hints == settings.hints && other.settings.same_account(&settings)
        };
        if let Some(one) = known.iter_mut().find(same) {
            one.used_at = used_at;
            return (one.account.clone(), Arc::clone(&one.driver));
        }
        known.retain(|other| used_at.saturating_duration_since(other.used_at) < UNUSED_AFTER);
        let related = known.iter().find(|other| other.settings.same_account(&settings));
        let hints = settings.hints.clone();
        let account = match related {
            Some(other) => Account { hints: hints.clone(), ..other.account.clone() },
            None => {
                let client = Client::new(self.surroundings.clone(), settings.url.clone(), &settings.grant);
                let catalogue = Arc::new(Catalogue::new(client.clone(), clock.clone()));
                let poller = Arc::new(Poller::new(client.clone(), clock.clone()));
                Account { client, catalogue, hints: hints.clone(), poller }
            }
        };
        let Account { client, catalogue, poller, .. } = account.clone();
        let driver = Arc::new(VpsieDriver::new(client, catalogue, poller, hints, clock.clone()));
        let given = (account.clone(), Arc::clone(&driver));
        known.push(Known { settings, account, driver, used_at });
        given
    }
}

impl DriverFactory for VpsieFactory {
    fn provider(&self) -> &'static str {
        "vpsie"
    }

    fn driver(
        &self,
        credentials: &Credentials,
        spec: &Value,
        written: Written<'_>,
    ) -> Result<Arc<dyn Driver>, Failure> {
        let settings = Settings::read(credentials).map_err(|failure| match written {
            // Nothing was ordered yet: whoever corrects the one learns of the other at once.
            Written { place: None, id: None } => {
                let problems = match ProviderSpec::parse(spec) {
                    Ok(spec) => spec.problems(),
                    Err(other) => vec![other.message],
                };
                let problems: Vec<String> = [failure.message].into_iter().chain(problems).collect();
                Failure { message: problems.join("; "), ..failure }
            }
            _ => failure,
        })?;
        let here = place_of(settings.url.host());
        if let Some(there) = written.place.filter(|place| *place != here) {
            // Credentials are sent to no place but the one that stands beside them.
            let message = format!(
                "the VPS was ordered at {there:?}, and the Secret's key \"url\" leads to {here:?}: correct the key"
            );
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let driver: Arc<dyn Driver> = self.known(settings).1;
        Ok(driver)
    }
}

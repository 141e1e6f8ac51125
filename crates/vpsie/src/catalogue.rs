//! What there is in VPSie to order from, by identifiers and by the names that people know.

use crate::{
    Client,
    failure::text::{DATACENTER_NOT_FOUND, INSTANCE_TYPE_NOT_AVAILABLE},
    wire::Plan,
};
use hostler_base::Clock;
use hostler_driver::{
    Code, Failure, Offering, Price,
    client::{closest, is_uuid},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long a list is believed.
const VALID: Duration = Duration::from_mins(10);
/// How many names are told.
const NAMES: usize = 3;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Datacenter,
    /// A size, for a datacenter and an image: both by identifier.
    Plan {
        datacenter: String,
        image: String,
    },
    Image,
    Project,
    SshKey,
    Script,
    Vpc,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub identifier: String,
    pub name: Option<String>,
    pub what: What,
}

/// What else is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Plain,
    Plan(Box<Plan>),
    /// An image of the user's own.
    OwnImage,
    Project {
        number: i64,
        is_default: bool,
    },
}

/// All of one kind.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub all: Vec<Named>,
    /// Whether there may be others that VPSie does not show.
    pub more: bool,
}

type Slot = Arc<tokio::sync::Mutex<Option<(Instant, Arc<Choice>)>>>;

/// The lists of one account, each asked for when it is wanted and kept for a while.
pub struct Catalogue {
    client: Client,
    clock: Clock,
    slots: std::sync::Mutex<BTreeMap<Kind, Slot>>,
}

impl Catalogue {
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock, slots: std::sync::Mutex::default() }
    }

    /// All of one kind. Those who ask at the same time share the answer.
    pub async fn all(&self, kind: &Kind) -> Result<Arc<Choice>, Failure> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(kind.clone()).or_default())
        };
        let mut slot = slot.lock().await;
        let now = self.clock.instant();
        if let Some((at, choice)) = &*slot
            && now.saturating_duration_since(*at) < VALID
        {
            return Ok(Arc::clone(choice));
        }
        let choice = Arc::new(self.ask(kind).await?);
        *slot = Some((now, Arc::clone(&choice)));
        Ok(choice)
    }

    /// VPSie did not take what was chosen: the lists may have changed.
    pub fn forget(&self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The one that is wanted: by its identifier, else by a name that no other one has. Nothing if it may be one that
    /// VPSie does not show. `field` is where it was written.
    pub async fn find(&self, kind: &Kind, field: &str, wanted: &str) -> Result<Option<Named>, Failure> {
        pick(&*self.all(kind).await?, kind, field, wanted)
    }

    /// The sizes for a datacenter and an image, with their prices.
    pub async fn offerings(&self, datacenter: &str, image: &str) -> Result<Vec<Offering>, Failure> {
        let kind = Kind::Plan { datacenter: datacenter.to_owned(), image: image.to_owned() };
        let choice = self.all(&kind).await?;
        let plans = choice.all.iter().filter_map(|one| match &one.what {
            What::Plan(plan) => Some(offering(plan, datacenter)),
            _ => None,
        });
        Ok(plans.collect())
    }

    async fn ask(&self, kind: &Kind) -> Result<Choice, Failure> {
        let client = &self.client;
        let mut more = false;
        let named = |identifier: Option<String>, name: Option<String>, what| {
            Some(Named { identifier: identifier?, name, what })
        };
        let all: Vec<Option<Named>> = match kind {
            Kind::Datacenter => {
                let all = client.list_datacenters().await?.into_iter();
                all.map(|one| named(one.identifier, one.name, What::Plain)).collect()
            }
            Kind::Plan { datacenter, image } => {
                let all = client.list_plans(datacenter, image).await?.into_iter();
                all.map(|plan| {
                    named(plan.identifier.clone(), plan.nickname.clone(), What::Plan(Box::new(plan)))
                })
                .collect()
            }
            Kind::Image => {
                let own = client.list_custom_images().await?;
                let stock = client.list_stock_images().await?;
                more = stock.is_none();
                let image = |what: What| {
                    move |image: crate::wire::Image| {
                        let name = image.name().map(str::to_owned);
                        named(image.identifier, name, what.clone())
                    }
                };
                let stock = stock.into_iter().flatten().map(image(What::Plain));
                own.into_iter().map(image(What::OwnImage)).chain(stock).collect()
            }
            Kind::Project => {
                let project = |one: crate::wire::Project| {
                    let (number, is_default) = (one.id?, one.is_default == Some(true));
                    let identifier = one.identifier.or_else(|| Some(number.to_string()));
                    named(identifier, one.name, What::Project { number, is_default })
                };
                client.list_projects().await?.into_iter().map(project).collect()
            }
            Kind::SshKey => {
                let all = client.list_ssh_keys().await?.into_iter();
                all.map(|one| named(one.identifier, one.name, What::Plain)).collect()
            }
            Kind::Script => {
                let all = client.list_scripts().await?.into_iter();
                all.map(|one| named(one.identifier, one.name, What::Plain)).collect()
            }
            Kind::Vpc => {
                let all = client.list_vpcs().await?.into_iter();
                all.map(|one| named(one.id.map(|id| id.to_string()), one.name, What::Plain)).collect()
            }
        };
        Ok(Choice { all: all.into_iter().flatten().collect(), more })
    }
}

/// Picks by identifier, then by unique name; tells what there is if there is none.
fn pick(choice: &Choice, kind: &Kind, field: &str, wanted: &str) -> Result<Option<Named>, Failure> {
    let by_identifier = choice.all.iter().find(|one| one.identifier.eq_ignore_ascii_case(wanted));
    if let Some(found) = by_identifier {
        return Ok(Some(found.clone()));
    }
    let called = |same: fn(&str, &str) -> bool| {
        let has = move |one: &&Named| one.name.as_deref().is_some_and(|name| same(name, wanted));
        choice.all.iter().filter(has).collect::<Vec<_>>()
    };
    let exactly = called(|name, wanted| name == wanted);
    let named = if exactly.is_empty() { called(str::eq_ignore_ascii_case) } else { exactly };
    match named.as_slice() {
        [one] => return Ok(Some((*one).clone())),
        [] if choice.more && is_uuid(wanted) => return Ok(None),
        _ => {}
    }
    let told = |one: &Named| match &one.name {
        Some(name) => format!("{name} ({})", one.identifier),
        None => one.identifier.clone(),
    };
    let problem = if named.is_empty() {
        let names = choice.all.iter().flat_map(|one| {
            let all =
                [one.name.as_ref(), Some(&one.identifier).filter(|_| one.name.is_none() || is_uuid(wanted))];
            all.into_iter().flatten().map(move |name| (name.clone(), told(one))).collect::<Vec<_>>()
        });
        let mut names = closest(wanted, names, 2 * NAMES);
        let mut told_already = Vec::new();
        names.retain(|name| {
            let new = !told_already.contains(name);
            told_already.push(name.clone());
            new
        });
        names.truncate(NAMES);
        let what = if choice.more { "is not among those that VPSie shows" } else { "does not exist" };
        if names.is_empty() {
            format!("{wanted:?} {what}, and nothing else of that kind does")
        } else {
            format!("{wanted:?} {what}; the closest that do: {}", names.join(", "))
        }
    } else {
        let all: Vec<String> = named.into_iter().map(|one| one.identifier.clone()).collect();
        format!("several are called {wanted:?}: give the identifier of one, {}", all.join(", "))
    };
    let problem = format!("{field}: {problem}");
    let message = match kind {
        Kind::Datacenter => format!("{DATACENTER_NOT_FOUND}: {problem}"),
        Kind::Plan { .. } => format!("{INSTANCE_TYPE_NOT_AVAILABLE}: {problem}"),
        _ => problem,
    };
    Err(Failure::new(Code::InvalidArgument, message))
}

fn offering(plan: &Plan, datacenter: &str) -> Offering {
    let amount =
        |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
    let name = plan.nickname.clone().or_else(|| plan.identifier.clone());
    Offering {
        name: name.unwrap_or_default(),
        millicores: amount(plan.cpu).saturating_mul(1_000),
        memory_bytes: amount(plan.ram).saturating_mul(MIB),
        disk_bytes: amount(plan.ssd).saturating_mul(GIB),
        zones: vec![datacenter.to_owned()],
        price: plan
            .hourly_micros()
            .map(|micros_per_hour| Price { micros_per_hour, currency: "USD".to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(more: bool) -> Choice {
        let one = |identifier: &str, name: Option<&str>| Named {
            identifier: identifier.to_owned(),
            name: name.map(str::to_owned),
            what: What::Plain,
        };
        let all = vec![
            one("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", Some("dc-us-east-1")),
            one("2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", Some("dc-eu-1")),
            one("3b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", Some("twice")),
            one("4b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", Some("twice")),
            one("dc-eu-1", Some("named like an identifier")),
            one("7", None),
        ];
        Choice { all, more }
    }

    fn found(more: bool, kind: &Kind, wanted: &str) -> Result<Option<String>, String> {
        let found = pick(&choice(more), kind, "spec.datacenterID", wanted);
        found.map(|one| one.map(|one| one.identifier)).map_err(|failure| failure.message)
    }

    #[test]
    fn an_identifier_goes_before_a_name() {
        let table = [
            ("1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
            ("1B9D6BCD-BBFD-4B2D-9B5D-AB8DFBBD4BED", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
            ("dc-us-east-1", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
            ("DC-US-EAST-1", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"),
            ("dc-eu-1", "dc-eu-1"),
            ("7", "7"),
        ];
        for (wanted, expected) in table {
            assert_eq!(found(false, &Kind::Datacenter, wanted), Ok(Some(expected.to_owned())), "{wanted}");
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_what_there_is() {
        let table = [
            (
                Kind::Datacenter,
                "dc-us-east-2",
                "Datacenter not found: spec.datacenterID: \"dc-us-east-2\" does not exist; the closest that do: dc-us-east-1 (1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed), ",
            ),
            (
                Kind::SshKey,
                "twice",
                "spec.datacenterID: several are called \"twice\": give the identifier of one, 3b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed, 4b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
            ),
            (
                Kind::Plan { datacenter: "d".into(), image: "i".into() },
                "9b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
                "Instance type not available: spec.datacenterID: \"9b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed\" does not exist; the closest that do: dc-us-east-1 (1b9d",
            ),
        ];
        for (kind, wanted, expected) in table {
            let message = found(false, &kind, wanted).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
        let none = pick(&Choice::default(), &Kind::Script, "f", "x").unwrap_err();
        assert_eq!(none.message, "f: \"x\" does not exist, and nothing else of that kind does");
    }

    #[test]
    fn what_vpsie_may_not_show_is_taken_by_its_identifier_only() {
        assert_eq!(found(true, &Kind::Image, "9b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"), Ok(None));
        let message = found(true, &Kind::Image, "ubuntu").unwrap_err();
        assert!(message.contains("is not among those that VPSie shows"), "{message}");
    }

    #[test]
    fn a_plan_is_an_offering() {
        let plan = Plan {
            identifier: Some("p".into()),
            nickname: Some("small-2cpu-4gb".into()),
            cpu: Some(2),
            ram: Some(4_096),
            ssd: Some(80),
            monthly_micros: Some(14_600_000),
            ..Plan::default()
        };
        let offering = offering(&plan, "dc");
        assert_eq!(
            (offering.millicores, offering.memory_bytes, offering.disk_bytes),
            (2_000, 4 << 30, 80 << 30)
        );
        assert_eq!(offering.price, Some(Price { micros_per_hour: 20_000, currency: "USD".into() }));
        assert_eq!((offering.name.as_str(), offering.zones), ("small-2cpu-4gb", vec!["dc".to_owned()]));
    }
}

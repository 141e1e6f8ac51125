//! What a refused order names that does not exist, and what does. Only asked after a refusal, so it never holds
//! up an order, and remembered, so that a class that is refused again and again is looked up once.

use crate::{Client, Defaults, ProviderSpec};
use hostler_base::Clock;
use hostler_driver::{Code, Failure, client::closest};
use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long an answer is believed.
const VALID: Duration = Duration::from_mins(10);
/// How long the cloud is asked at most; advice that comes later is none.
const PATIENCE: Duration = Duration::from_secs(8);
/// How many answers are remembered at most.
const MEMORY: usize = 256;
/// How many names are told.
const NAMES: usize = 3;

/// What can be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    MachineType,
    Image,
    BootImage,
    Keypair,
    Zone,
    AffinityGroup,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::MachineType => "machineType",
            Self::Image => "imageId",
            Self::BootImage => "bootVolume.source.id",
            Self::Keypair => "keypairName",
            Self::Zone => "availabilityZone",
            Self::AffinityGroup => "affinityGroup",
        }
    }
}

/// When it was asked, and what is wrong with it.
type Known = (Instant, Option<String>);

pub(super) struct Advisor {
    clock: Clock,
    /// By field and what it says.
    known: Mutex<BTreeMap<(Field, String), Known>>,
}

impl Advisor {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, known: Mutex::default() }
    }

    /// What the spec names that does not exist, one text each.
    pub(super) async fn about(
        &self,
        client: &Client,
        spec: &ProviderSpec,
        defaults: &Defaults,
    ) -> Vec<String> {
        let looked =
            named(spec, defaults).into_iter().map(|(field, wanted)| self.look(client, field, wanted));
        let looked = futures::future::join_all(looked);
        let advice = tokio::time::timeout(PATIENCE, looked).await.unwrap_or_default();
        advice.into_iter().flatten().collect()
    }

    async fn look(&self, client: &Client, field: Field, wanted: String) -> Option<String> {
        let now = self.clock.instant();
        let key = (field, wanted);
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, advice)) =
                known.get(&key).filter(|(at, _)| now.saturating_duration_since(*at) < VALID)
            {
                return advice.clone();
            }
        }
        let advice = match ask(client, field, &key.1).await {
            Ok(advice) => advice,
            Err(failure) => {
                tracing::debug!(%failure, field = field.name(), "a look-up for advice failed");
                return None;
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MEMORY {
            known.clear();
        }
        known.insert(key, (now, advice.clone()));
        advice
    }
}

fn named(spec: &ProviderSpec, defaults: &Defaults) -> Vec<(Field, String)> {
    let source = spec.boot_volume.as_ref().and_then(|volume| volume.source.as_ref());
    let boot_image =
        source.filter(|source| source.kind == "image").map(|source| source.id.to_ascii_lowercase());
    let all = [
        (Field::MachineType, spec.machine_type.clone()),
        (Field::Image, spec.image_id.to_ascii_lowercase()),
        (Field::BootImage, boot_image.unwrap_or_default()),
        (Field::Keypair, spec.keypair_name.clone()),
        (Field::Zone, spec.zone(defaults).unwrap_or_default()),
        (Field::AffinityGroup, spec.affinity_group.to_ascii_lowercase()),
    ];
    all.into_iter().filter(|(_, wanted)| !wanted.is_empty()).collect()
}

/// The advice, if what is wanted does not exist. Only the API's own word counts for that.
async fn ask(client: &Client, field: Field, wanted: &str) -> Result<Option<String>, Failure> {
    let is_there = match field {
        Field::MachineType => exists(client.get_machine_type(wanted).await)?,
        Field::Image | Field::BootImage => exists(client.get_image(wanted).await)?,
        Field::Keypair => exists(client.get_keypair(wanted).await)?,
        Field::AffinityGroup => exists(client.get_affinity_group(wanted).await)?,
        Field::Zone => client.list_availability_zones().await?.iter().any(|zone| zone == wanted),
    };
    if is_there {
        return Ok(None);
    }
    // What it is compared with and how it is told.
    let twice = |name: String| (name.clone(), name);
    let with_name = |id: String, name: String| (id.clone(), format!("{id} ({name})"));
    let there: Vec<(String, String)> = match field {
        Field::MachineType => {
            client.list_machine_types().await?.into_iter().map(|found| twice(found.name)).collect()
        }
        Field::Image | Field::BootImage => {
            client.list_images(None).await?.into_iter().map(|found| with_name(found.id, found.name)).collect()
        }
        Field::Keypair => {
            client.list_keypairs(None).await?.into_iter().map(|found| twice(found.name)).collect()
        }
        Field::AffinityGroup => {
            let groups = client.list_affinity_groups().await?.into_iter();
            groups.map(|found| with_name(found.id, found.name)).collect()
        }
        Field::Zone => client.list_availability_zones().await?.into_iter().map(twice).collect(),
    };
    Ok(Some(advice(field, wanted, there)))
}

fn exists<T>(answer: Result<T, Failure>) -> Result<bool, Failure> {
    match answer {
        Ok(_) => Ok(true),
        Err(failure) if failure.code == Code::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn advice(field: Field, wanted: &str, there: Vec<(String, String)>) -> String {
    let names = closest(wanted, there, NAMES);
    let field = field.name();
    if names.is_empty() {
        format!("providerSpec.{field}: {wanted:?} does not exist, and nothing else of that kind does")
    } else {
        format!("providerSpec.{field}: {wanted:?} does not exist; the closest that do: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_names_are_told_and_not_too_many() {
        let there =
            ["m2i.8", "c2i.16", "c2i.8", "c2i.2", "c2i.4"].map(|name| (name.to_owned(), name.to_owned()));
        assert_eq!(
            advice(Field::MachineType, "c2i.3", there.to_vec()),
            "providerSpec.machineType: \"c2i.3\" does not exist; the closest that do: c2i.2, c2i.4, c2i.8"
        );
        let none = advice(Field::Keypair, "k", Vec::new());
        assert!(none.starts_with("providerSpec.keypairName: \"k\" does not exist"), "{none}");
    }
}

//! What there is to choose from. The default has what the examples of the autoscaler's reference name.

use crate::cloud::uuid;
use hostler_base::{Chance, stable_hash};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What exists. An identifier that is not given follows from the name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Catalogue {
    pub datacenters: Vec<Datacenter>,
    pub categories: Vec<Named>,
    pub plans: Vec<Plan>,
    /// VPSie's own images.
    pub images: Vec<Named>,
    pub custom_images: Vec<CustomImage>,
    pub projects: Vec<Project>,
    pub ssh_keys: Vec<Named>,
    /// The sizes of nodes of managed clusters.
    pub kube_sizes: Vec<KubeSize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Named {
    pub name: String,
    #[serde(default)]
    pub identifier: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Datacenter {
    pub name: String,
    #[serde(default)]
    pub identifier: String,
    /// Where it is.
    #[serde(default)]
    pub state: String,
    #[serde(default)]
    pub country: String,
    #[serde(default)]
    pub is_inactive: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Plan {
    /// The nickname.
    pub name: String,
    #[serde(default)]
    pub identifier: String,
    /// The name of its category.
    pub category: String,
    pub cpu: u64,
    /// In MB.
    pub ram: u64,
    /// In GB.
    pub ssd: u64,
    /// In GB a month.
    #[serde(default)]
    pub traffic: u64,
    /// In dollars a month.
    pub price: f64,
    /// The names of the datacenters that have it; all if there are none.
    #[serde(default)]
    pub datacenters: Vec<String>,
    /// The names of the images that it is there for; all if there are none.
    #[serde(default)]
    pub images: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CustomImage {
    pub name: String,
    #[serde(default)]
    pub identifier: String,
    /// The name of the datacenter that has it.
    pub datacenter: String,
    /// In GB.
    pub size: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Project {
    pub id: u64,
    pub name: String,
    #[serde(default)]
    pub identifier: String,
    #[serde(default)]
    pub is_default: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubeSize {
    pub id: u64,
    pub name: String,
    pub cpu: u64,
    /// In MB.
    pub ram: u64,
    /// In GB.
    pub disk: u64,
    /// In dollars a month.
    pub price: f64,
}

/// The identifier of what has this name in a catalogue that gives none.
pub fn identifier_of(name: &str) -> String {
    uuid(&Chance::from_seed(stable_hash(name)))
}

impl Default for Catalogue {
    fn default() -> Self {
        let named = |name: &str| Named { name: name.to_owned(), identifier: String::new() };
        let datacenter = |name: &str, state: &str, country: &str| Datacenter {
            name: name.to_owned(),
            identifier: String::new(),
            state: state.to_owned(),
            country: country.to_owned(),
            is_inactive: false,
        };
        let plan = |name: &str, category: &str, (cpu, ram, ssd, traffic), price| Plan {
            name: name.to_owned(),
            identifier: String::new(),
            category: category.to_owned(),
            cpu,
            ram,
            ssd,
            traffic,
            price,
            datacenters: Vec::new(),
            images: Vec::new(),
        };
        let project = |id, name: &str, is_default| Project {
            id,
            name: name.to_owned(),
            identifier: String::new(),
            is_default,
        };
        let size = |id, name: &str, (cpu, ram, disk), price| {
            let name = name.to_owned();
            KubeSize { id, name, cpu, ram, disk, price }
        };
        Self {
            datacenters: vec![
                datacenter("dc-us-east-1", "New Jersey", "US"),
                datacenter("dc-eu-central-1", "Frankfurt", "DE"),
            ],
            categories: ["A", "C", "G", "M"].map(named).to_vec(),
            plans: vec![
                plan("shared-1cpu-2gb", "A", (1, 2048, 25, 1000), 6.0),
                plan("shared-2cpu-4gb", "A", (2, 4096, 50, 2000), 12.0),
                plan("small-2cpu-4gb", "C", (2, 4096, 50, 2000), 20.0),
                plan("medium-4cpu-8gb", "C", (4, 8192, 100, 2000), 38.0),
                plan("large-8cpu-16gb", "C", (8, 16_384, 200, 4000), 72.5),
                plan("general-4cpu-16gb", "G", (4, 16_384, 160, 3000), 54.0),
                plan("memory-4cpu-32gb", "M", (4, 32_768, 200, 3000), 84.0),
            ],
            images: ["ubuntu-22.04-lts", "debian-12"].map(named).to_vec(),
            custom_images: vec![CustomImage {
                name: "node-image".to_owned(),
                identifier: String::new(),
                datacenter: "dc-us-east-1".to_owned(),
                size: 4,
            }],
            projects: vec![project(501, "Default", true), project(502, "Laboratory", false)],
            ssh_keys: ["ssh-key-123", "ssh-key-456"].map(named).to_vec(),
            kube_sizes: vec![
                size(11, "kube-2cpu-4gb", (2, 4096, 50), 22.0),
                size(12, "kube-4cpu-8gb", (4, 8192, 100), 41.0),
                size(13, "kube-8cpu-16gb", (8, 16_384, 200), 78.0),
            ],
        }
    }
}

impl Catalogue {
    /// What is wrong with it.
    pub fn problem(&self) -> Option<String> {
        let known = |name: &String| self.datacenters.iter().any(|datacenter| datacenter.name == *name);
        let image = |name: &String| {
            let mut own = self.images.iter().map(|image| &image.name);
            own.any(|image| image == name) || self.custom_images.iter().any(|image| image.name == *name)
        };
        for plan in &self.plans {
            if !self.categories.iter().any(|category| category.name == plan.category) {
                return Some(format!("plan {}: there is no category {:?}", plan.name, plan.category));
            }
            if let Some(name) = plan.datacenters.iter().find(|name| !known(name)) {
                return Some(format!("plan {}: there is no datacenter {name:?}", plan.name));
            }
            if let Some(name) = plan.images.iter().find(|name| !image(name)) {
                return Some(format!("plan {}: there is no image {name:?}", plan.name));
            }
            if !plan.price.is_finite() || plan.price < 0.0 {
                return Some(format!("plan {}: {} is no price", plan.name, plan.price));
            }
        }
        let homeless = self.custom_images.iter().find(|image| !known(&image.datacenter));
        homeless.map(|image| format!("image {}: there is no datacenter {:?}", image.name, image.datacenter))
    }

    /// The same with an identifier for everything: what is given, what follows from the name, or the name.
    pub(super) fn identified(&self, plain: bool) -> Self {
        let mut whole = self.clone();
        let identify = |name: &str, identifier: &mut String| {
            if plain {
                name.clone_into(identifier);
            } else if identifier.is_empty() {
                *identifier = identifier_of(name);
            }
        };
        for named in [&mut whole.categories, &mut whole.images, &mut whole.ssh_keys].into_iter().flatten() {
            identify(&named.name, &mut named.identifier);
        }
        whole.datacenters.iter_mut().for_each(|one| identify(&one.name, &mut one.identifier));
        whole.plans.iter_mut().for_each(|one| identify(&one.name, &mut one.identifier));
        whole.custom_images.iter_mut().for_each(|one| identify(&one.name, &mut one.identifier));
        whole.projects.iter_mut().for_each(|one| identify(&one.name, &mut one.identifier));
        whole
    }
}

impl Plan {
    /// Whether there is such a plan for an image in a datacenter, by their names.
    pub(super) fn is_for(&self, datacenter: &str, image: &str) -> bool {
        let among = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
        among(&self.datacenters, datacenter) && among(&self.images, image)
    }
}

/// A price as the API writes it: whole numbers without a point.
pub(super) fn price(dollars: f64) -> Value {
    let text = format!("{dollars}");
    text.parse::<u64>().map_or_else(|_| json!(dollars), |whole| json!(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_gets_an_identifier() {
        let catalogue = Catalogue { images: Vec::new(), ..Catalogue::default() };
        assert_eq!(catalogue.problem(), None);
        let own = catalogue.identified(false);
        assert_eq!(own.plans[2].identifier, identifier_of("small-2cpu-4gb"));
        assert_eq!(own.identified(false), own, "what is given stays");
        assert_eq!(own.identified(true).plans[2].identifier, "small-2cpu-4gb");
    }

    #[test]
    fn a_catalogue_must_be_sound() {
        let broken = [
            json!({"plans": [{"name": "p", "category": "Z", "cpu": 1, "ram": 1, "ssd": 1, "price": 1}]}),
            json!({"plans": [{"name": "p", "category": "A", "cpu": 1, "ram": 1, "ssd": 1, "price": -1}]}),
            json!({"plans": [{"name": "p", "category": "A", "cpu": 1, "ram": 1, "ssd": 1, "price": 1,
                "datacenters": ["nowhere"]}]}),
            json!({"plans": [{"name": "p", "category": "A", "cpu": 1, "ram": 1, "ssd": 1, "price": 1,
                "images": ["none"]}]}),
            json!({"customImages": [{"name": "i", "datacenter": "nowhere", "size": 1}]}),
        ];
        for text in broken {
            let catalogue: Catalogue = serde_json::from_value(text.clone()).unwrap();
            assert!(catalogue.problem().is_some(), "{text}");
        }
    }

    #[test]
    fn whole_prices_have_no_point() {
        assert_eq!((price(20.0).to_string(), price(72.5).to_string()), ("20".to_owned(), "72.5".to_owned()));
    }
}

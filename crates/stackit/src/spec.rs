use crate::{
    client::Place,
    labels,
    wire::{Agent, BootVolume, CreateServer, Networking},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_driver::{Code, Credentials, Failure, Order};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The `providerSpec` of a MachineClass. `null` stands for a field that was left out.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderSpec {
    #[serde(deserialize_with = "or_default")]
    pub region: String,
    #[serde(deserialize_with = "or_default")]
    pub machine_type: String,
    pub image_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    pub networking: Option<Networking>,
    #[serde(deserialize_with = "or_default")]
    pub allowed_addresses: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub security_groups: Vec<String>,
    pub user_data: Option<String>,
    pub boot_volume: Option<BootVolume>,
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<String>,
    pub keypair_name: Option<String>,
    pub availability_zone: Option<String>,
    pub affinity_group: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub service_account_mails: Vec<String>,
    pub agent: Option<Agent>,
    pub metadata: Option<Map<String, Value>>,
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn invalid(problems: &[String]) -> Failure {
    Failure::new(Code::InvalidArgument, problems.join("; "))
}

impl ProviderSpec {
    pub fn parse(spec: &Value) -> Result<Self, Failure> {
        if !spec.is_object() {
            return Err(Failure::new(Code::Internal, "providerSpec: must be an object"));
        }
        serde_json::from_value(spec.clone())
            .map_err(|error| Failure::new(Code::Internal, format!("providerSpec: {error}")))
    }

    /// Everything that is wrong with it, each naming its field.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.machine_type.is_empty() {
            problems.push("providerSpec.machineType: is required, for example c2i.2".to_owned());
        }
        if self.image_id.is_none() && self.boot_volume.as_ref().is_none_or(|volume| volume.source.is_none()) {
            problems.push("providerSpec.imageId: imageId or bootVolume.source is required".to_owned());
        }
        match &self.networking {
            None => {
                problems.push("providerSpec.networking: is required: give networkId or nicIds".to_owned());
            }
            Some(networking) => match (networking.network_id.is_some(), !networking.nic_ids.is_empty()) {
                (true, true) => problems.push(
                    "providerSpec.networking: networkId and nicIds are mutually exclusive: give one"
                        .to_owned(),
                ),
                (false, false) => problems
                    .push("providerSpec.networking: must specify either networkId or nicIds".to_owned()),
                _ => {}
            },
        }
        if !self.allowed_addresses.is_empty() {
            problems.push("providerSpec.allowedAddresses: is not supported yet: leave it out".to_owned());
        }
        problems
    }

    /// The create call of an order.
    pub fn create_call(&self, order: &Order) -> Result<CreateServer, Failure> {
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(invalid(&problems));
        }
        let mut all_labels = self.labels.clone();
        all_labels.insert(labels::MACHINE.to_owned(), order.identity.machine.clone());
        all_labels.insert(labels::MACHINE_CLASS.to_owned(), order.identity.class.clone());
        all_labels.insert(labels::ATTEMPT.to_owned(), order.attempt.0.clone());
        let own = self.user_data.as_deref().filter(|text| !text.is_empty());
        let given = order.user_data.as_ref().map(hostler_driver::UserData::expose);
        let user_data = own.or(given).filter(|text| !text.is_empty());
        Ok(CreateServer {
            name: order.identity.machine.clone(),
            machine_type: self.machine_type.clone(),
            networking: self.networking.clone().unwrap_or_default(),
            image_id: self.image_id.clone(),
            labels: all_labels,
            user_data: user_data.map(|text| STANDARD.encode(text)),
            boot_volume: self.boot_volume.clone().map(|volume| BootVolume {
                delete_on_termination: Some(volume.delete_on_termination.unwrap_or(true)),
                size: volume.size.filter(|size| *size > 0),
                ..volume
            }),
            volumes: self.volumes.clone(),
            security_groups: self.security_groups.clone(),
            keypair_name: self.keypair_name.clone().filter(|name| !name.is_empty()),
            availability_zone: self.availability_zone.clone().filter(|zone| !zone.is_empty()),
            affinity_group: self.affinity_group.clone().filter(|group| !group.is_empty()),
            service_account_mails: self.service_account_mails.clone(),
            agent: self.agent.clone(),
            metadata: self.metadata.clone(),
        })
    }
}

/// What the Secret and the spec say about where, and with which right.
pub struct Settings {
    pub place: Place,
    pub token: Option<SecretString>,
}

impl Settings {
    /// Reads the keys of either generation: `project-id` or `projectId`, `apiToken`, `region`.
    pub fn read(credentials: &Credentials, spec: &ProviderSpec) -> Result<Self, Failure> {
        let either = |keys: [&'static str; 2]| keys.into_iter().find(|key| credentials.has(key));
        let mut problems = Vec::new();
        let project = match either(["project-id", "projectId"]) {
            Some(key) => credentials.text(key)?.expose_secret().to_owned(),
            None => {
                problems.push(
                    "the Secret's key \"project-id\" is missing: add the STACKIT project's id".to_owned(),
                );
                String::new()
            }
        };
        let region = if !spec.region.is_empty() {
            spec.region.clone()
        } else if credentials.has("region") {
            // A zone such as eu01-1 names its region too.
            let text = credentials.text("region")?;
            text.expose_secret().split('-').next().unwrap_or_default().to_owned()
        } else {
            problems.push("providerSpec.region: is required, for example eu01".to_owned());
            String::new()
        };
        if !problems.is_empty() {
            return Err(invalid(&problems));
        }
        let token = credentials.has("apiToken").then(|| credentials.text("apiToken")).transpose()?;
        Ok(Self { place: Place { project, region }, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::{Attempt, Identity, UserData};
    use serde_json::json;

    fn order(spec: Value) -> Order {
        Order {
            identity: Identity { domain: "shoot".into(), machine: "m-1".into(), class: "c".into() },
            attempt: Attempt("a1".into()),
            spec,
            user_data: Some(UserData::new("#cloud-config")),
        }
    }

    #[test]
    fn a_create_call_carries_the_identity_whatever_the_user_wrote() {
        let order = order(json!({"machineType": "c2i.2", "imageId": "i", "networking": {"networkId": "n"},
            "labels": {"kubernetes.io/machine": "forged", "team": "a"}, "bootVolume": {"size": 0},
            "keypairName": null, "availabilityZone": ""}));
        let call = ProviderSpec::parse(&order.spec).unwrap().create_call(&order).unwrap();
        assert_eq!(
            serde_json::to_value(&call).unwrap(),
            json!({"name": "m-1", "machineType": "c2i.2", "imageId": "i", "networking": {"networkId": "n"},
                   "labels": {"kubernetes.io/machine": "m-1", "kubernetes.io/machineclass": "c", "team": "a",
                              "hostler.dev/create-attempt": "a1"},
                   "userData": "I2Nsb3VkLWNvbmZpZw==", "bootVolume": {"deleteOnTermination": true}})
        );
    }

    #[test]
    fn all_problems_are_named_at_once() {
        let order = order(json!({"networking": {"networkId": "n", "nicIds": ["x"]}}));
        let failure = ProviderSpec::parse(&order.spec).unwrap().create_call(&order).err().unwrap();
        assert_eq!(failure.code, Code::InvalidArgument);
        for field in ["machineType", "imageId", "networking"] {
            assert!(
                failure.message.contains(&format!("providerSpec.{field}")),
                "{field}: {}",
                failure.message
            );
        }
    }

    #[test]
    fn settings_come_from_both_generations_of_keys() {
        let spec = |region: &str| ProviderSpec { region: region.into(), ..ProviderSpec::default() };
        let read = |keys: &[(&str, &str)], region: &str| {
            let credentials = Credentials::new(keys.iter().map(|(key, value)| (*key, *value)));
            Settings::read(&credentials, &spec(region))
                .map(|settings| (settings.place.project, settings.place.region))
        };
        let place = |project: &str, region: &str| (project.to_owned(), region.to_owned());
        assert_eq!(read(&[("project-id", "p")], "eu01").unwrap(), place("p", "eu01"));
        assert_eq!(read(&[("projectId", "p"), ("region", "eu01-1")], "").unwrap(), place("p", "eu01"));
        let failure = read(&[], "").unwrap_err();
        assert!(failure.message.contains("project-id") && failure.message.contains("providerSpec.region"));
    }

    #[test]
    fn a_spec_that_is_no_object_is_told_so() {
        for spec in [Value::Null, json!([]), json!({"labels": 3})] {
            assert_eq!(ProviderSpec::parse(&spec).unwrap_err().code, Code::Internal, "{spec}");
        }
    }
}

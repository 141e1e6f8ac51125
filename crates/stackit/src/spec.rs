use crate::{
    ApiVersion, Defaults, labels,
    wire::{Agent, BootVolume, CreateServer, Networking},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_driver::{Code, Failure, Order};
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
    pub networking: Option<NetworkingSpec>,
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

/// What the spec says about networking, be it too little or too much.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkingSpec {
    pub network_id: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub nic_ids: Vec<String>,
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
        if !self.allowed_addresses.is_empty() {
            problems.push("providerSpec.allowedAddresses: is not supported yet: leave it out".to_owned());
        }
        problems
    }

    /// Where the NICs come from: the spec, else the Secret, else for version 1 the cloud.
    fn networking(&self, defaults: &Defaults, version: ApiVersion) -> Result<Option<Networking>, String> {
        let spec = self.networking.as_ref();
        let own = spec.and_then(|spec| spec.network_id.as_ref()).filter(|id| !id.is_empty());
        let nic_ids = spec.map(|spec| spec.nic_ids.clone()).unwrap_or_default();
        match own.or_else(|| defaults.network.as_ref().filter(|_| nic_ids.is_empty())).cloned() {
            Some(_) if !nic_ids.is_empty() => {
                Err("providerSpec.networking: networkId and nicIds are mutually exclusive: give one".to_owned())
            }
            Some(network_id) => Ok(Some(Networking::Network { network_id })),
            None if !nic_ids.is_empty() => Ok(Some(Networking::Nics { nic_ids })),
            None if version == ApiVersion::V1 => Ok(None),
            None => Err(
                "providerSpec.networking: must specify either networkId or nicIds, or the Secret a \"networkId\""
                    .to_owned(),
            ),
        }
    }

    /// The create call of an order. What the spec leaves open the defaults may fill.
    pub fn create_call(
        &self,
        order: &Order,
        defaults: &Defaults,
        version: ApiVersion,
    ) -> Result<CreateServer, Failure> {
        let mut problems = self.problems();
        let networking = self.networking(defaults, version).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if !problems.is_empty() {
            return Err(invalid(&problems));
        }
        let zone = self.availability_zone.as_ref().filter(|zone| !zone.is_empty());
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
            networking,
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
            availability_zone: zone.or(defaults.zone.as_ref()).cloned(),
            affinity_group: self.affinity_group.clone().filter(|group| !group.is_empty()),
            service_account_mails: self.service_account_mails.clone(),
            agent: self.agent.clone(),
            metadata: self.metadata.clone(),
        })
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
        let call = ProviderSpec::parse(&order.spec)
            .unwrap()
            .create_call(&order, &Defaults::default(), ApiVersion::V2)
            .unwrap();
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
        let failure = ProviderSpec::parse(&order.spec)
            .unwrap()
            .create_call(&order, &Defaults::default(), ApiVersion::V2)
            .err()
            .unwrap();
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
    fn the_secret_fills_what_the_spec_leaves_open() {
        let own = json!({"networkId": "own"});
        let nics = json!({"nicIds": ["x"]});
        let both = json!({"networkId": "own", "nicIds": ["x"]});
        let table = [
            // networking in the spec, network in the Secret, then what version 1 and version 2 get
            (Value::Null, None, Some(Value::Null), None),
            (json!({}), None, Some(Value::Null), None),
            (json!({"networkId": "", "nicIds": null}), None, Some(Value::Null), None),
            (Value::Null, Some("n"), Some(json!({"networkId": "n"})), Some(json!({"networkId": "n"}))),
            (own.clone(), Some("n"), Some(own.clone()), Some(own.clone())),
            (own.clone(), None, Some(own.clone()), Some(own)),
            (nics.clone(), Some("n"), Some(nics.clone()), Some(nics)),
            (both, None, None, None),
        ];
        for (networking, network, first, second) in table {
            let order = order(json!({"machineType": "c2i.2", "imageId": "i", "networking": networking}));
            let defaults = Defaults { network: network.map(Into::into), ..Defaults::default() };
            let call = |version| {
                let call = ProviderSpec::parse(&order.spec).unwrap().create_call(&order, &defaults, version);
                call.ok().map(|call| serde_json::to_value(call).unwrap()["networking"].clone())
            };
            assert_eq!(
                (call(ApiVersion::V1), call(ApiVersion::V2)),
                (first, second),
                "{networking} {network:?}"
            );
        }
        let order = order(json!({"machineType": "c2i.2", "imageId": "i"}));
        let spec = ProviderSpec::parse(&order.spec).unwrap();
        let failure = spec.create_call(&order, &Defaults::default(), ApiVersion::V2).err().unwrap();
        assert!(failure.message.contains("providerSpec.networking") && failure.message.contains("Secret"));
    }

    #[test]
    fn the_zone_is_the_specs_before_the_secrets() {
        let defaults = Defaults { zone: Some("eu01-1".into()), network: Some("n".into()) };
        for (zone, expected) in [(json!("eu01-2"), "eu01-2"), (json!(""), "eu01-1"), (Value::Null, "eu01-1")]
        {
            let order = order(json!({"machineType": "c2i.2", "imageId": "i", "availabilityZone": zone}));
            let spec = ProviderSpec::parse(&order.spec).unwrap();
            let call = spec.create_call(&order, &defaults, ApiVersion::V2).ok().unwrap();
            assert_eq!(call.availability_zone.as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_spec_that_is_no_object_is_told_so() {
        for spec in [Value::Null, json!([]), json!({"labels": 3})] {
            assert_eq!(ProviderSpec::parse(&spec).unwrap_err().code, Code::Internal, "{spec}");
        }
    }
}

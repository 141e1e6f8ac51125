mod check;
mod read;

pub(crate) use check::{is_label_key, is_label_value};

use crate::{
    ApiVersion, Defaults,
    labels::{self, LabelNames},
    wire::{Agent, BootVolume, CreateServer, Networking, VolumeSource},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hostler_driver::{Code, Failure, Order, UserData, client::is_uuid};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The `providerSpec` of a MachineClass. An empty text stands for a field that was left out.
#[derive(Clone, Debug, Default)]
pub struct ProviderSpec {
    pub region: String,
    pub machine_type: String,
    pub image_id: String,
    pub labels: BTreeMap<String, String>,
    pub networking: Option<NetworkingSpec>,
    pub allowed_addresses: Vec<String>,
    pub security_groups: Vec<String>,
    pub user_data: Option<UserData>,
    pub boot_volume: Option<BootVolume>,
    pub volumes: Vec<String>,
    pub keypair_name: String,
    pub availability_zone: String,
    pub affinity_group: String,
    pub service_account_mails: Vec<String>,
    pub agent: Option<Agent>,
    pub metadata: Option<Map<String, Value>>,
}

/// What the spec says about networking, be it too little or too much.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkingSpec {
    pub network_id: String,
    pub nic_ids: Vec<String>,
}

/// What is not in the spec but decides what becomes of it.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) defaults: &'a Defaults,
    pub(crate) version: ApiVersion,
    pub(crate) names: &'a LabelNames,
}

impl ProviderSpec {
    /// Reads a spec as the Go provider does. One that cannot be read is [`Code::Internal`]; what it says is
    /// not looked at yet.
    pub fn parse(spec: &Value) -> Result<Self, Failure> {
        read::read(spec)
    }

    /// The cluster that servers of this spec belong to; none is the one without a name.
    pub(crate) fn cluster(&self, names: &LabelNames) -> String {
        let labels: Vec<(&str, &str)> =
            self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        names.cluster(&labels).unwrap_or_default().to_owned()
    }

    /// Where the NICs come from: the spec, else the Secret, else for version 1 the cloud.
    pub(crate) fn networking(&self, setting: Setting<'_>) -> Option<Networking> {
        let spec = self.networking.clone().unwrap_or_default();
        let lower = |id: &String| id.to_ascii_lowercase();
        if !spec.network_id.is_empty() {
            Some(Networking::Network { network_id: lower(&spec.network_id) })
        } else if !spec.nic_ids.is_empty() {
            Some(Networking::Nics { nic_ids: spec.nic_ids.iter().map(lower).collect() })
        } else {
            setting.defaults.network.as_ref().map(|id| Networking::Network { network_id: lower(id) })
        }
    }

    /// Everything that is wrong with an order of this spec, all at once.
    pub(crate) fn check(&self, order: &Order, setting: Setting<'_>) -> Result<(), Failure> {
        let mut problems = names_that_fit_no_label(order);
        problems.extend(self.problems());
        match self.networking(setting) {
            None if setting.version == ApiVersion::V2 => problems.push(
                "providerSpec.networking: networking is required: must specify either networkId or nicIds there, or a \"networkId\" in the Secret"
                    .to_owned(),
            ),
            _ => {}
        }
        let own_network = self.networking.as_ref().is_some_and(|own| *own != NetworkingSpec::default());
        if let Some(network) = setting.defaults.network.as_ref().filter(|_| !own_network)
            && !is_uuid(network)
        {
            problems.push(format!("the Secret's key \"networkId\": {network:?} must be a UUID"));
        }
        if order.user_data.is_none() {
            problems.push(
                "providerSpec.userData: there is no user data: put it there or into the Secret's key \"userData\""
                    .to_owned(),
            );
        }
        told(problems)
    }

    /// What of the spec can be made only once, told if there are several machines of it.
    pub(crate) fn check_count(&self, machines: usize) -> Result<(), Failure> {
        let boots_from_volume =
            self.boot_volume.as_ref().and_then(|volume| volume.source.as_ref()).is_some_and(is_volume);
        let single = [
            ("networking.nicIds", self.networking.as_ref().is_some_and(|own| !own.nic_ids.is_empty())),
            ("volumes", !self.volumes.is_empty()),
            ("bootVolume.source", boots_from_volume),
        ];
        let problem = |(field, _): (&str, bool)| {
            format!(
                "providerSpec.{field}: what exists once can be attached to one server, and {machines} Machines use this class: make a class for each"
            )
        };
        let problems = single.into_iter().filter(|(_, given)| *given && machines > 1).map(problem);
        told(problems.collect())
    }

    /// Whether the boot volume that is made with a server goes with it. Without a word about the boot volume
    /// nobody else would look after it.
    pub(crate) fn boot_volume_goes(&self) -> bool {
        self.boot_volume.as_ref().is_none_or(|volume| volume.delete_on_termination.unwrap_or(true))
    }

    /// The create call of an order that was checked. What the spec leaves open the defaults may fill.
    pub(crate) fn create_call(&self, order: &Order, setting: Setting<'_>) -> CreateServer {
        let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let id = |text: &String| given(text).map(|text| text.to_ascii_lowercase());
        let mut all_labels = self.labels.clone();
        all_labels.insert(setting.names.machine.clone(), order.identity.machine.clone());
        all_labels.insert(setting.names.class.clone(), order.identity.class.clone());
        all_labels.insert(labels::ATTEMPT.to_owned(), order.attempt.0.clone());
        if !self.boot_volume_goes() {
            all_labels.insert(labels::BOOT_VOLUME.to_owned(), labels::BOOT_VOLUME_STAYS.to_owned());
        }
        let user_data = order.user_data.as_ref().map(UserData::expose).filter(|text| !text.is_empty());
        CreateServer {
            name: order.identity.machine.clone(),
            machine_type: self.machine_type.clone(),
            networking: self.networking(setting),
            image_id: id(&self.image_id),
            labels: all_labels,
            user_data: user_data.map(|text| STANDARD.encode(text)),
            boot_volume: self.boot_volume.clone().map(|volume| BootVolume {
                delete_on_termination: Some(self.boot_volume_goes()),
                size: volume.size.filter(|size| *size > 0),
                source: volume
                    .source
                    .map(|source| VolumeSource { id: source.id.to_ascii_lowercase(), ..source }),
                ..volume
            }),
            volumes: self.volumes.iter().map(|id| id.to_ascii_lowercase()).collect(),
            security_groups: self.security_groups.clone(),
            keypair_name: given(&self.keypair_name),
            availability_zone: self.zone(setting.defaults),
            affinity_group: id(&self.affinity_group),
            service_account_mails: self.service_account_mails.clone(),
            agent: self.agent.clone(),
            metadata: self.metadata.clone(),
        }
    }

    pub(crate) fn zone(&self, defaults: &Defaults) -> Option<String> {
        let own = Some(&self.availability_zone).filter(|zone| !zone.is_empty());
        own.or(defaults.zone.as_ref()).cloned()
    }
}

fn is_volume(source: &VolumeSource) -> bool {
    source.kind == "volume"
}

fn told(problems: Vec<String>) -> Result<(), Failure> {
    if problems.is_empty() { Ok(()) } else { Err(Failure::new(Code::InvalidArgument, problems.join("; "))) }
}

/// A server is found by its labels, so what is to be in them must fit.
fn names_that_fit_no_label(order: &Order) -> Vec<String> {
    let identity = &order.identity;
    [("metadata.name", &identity.machine), ("spec.class.name", &identity.class)]
        .into_iter()
        .filter(|(_, name)| name.is_empty() || !is_label_value(name))
        .map(|(field, name)| {
            format!(
                "{field}: {name:?} does not fit into a label of a server: choose a name of at most 63 characters"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_driver::{Attempt, Identity, UserData};
    use serde_json::json;
    use std::sync::Arc;

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    const OTHER: &str = "2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

    fn order(machine: &str, class: &str) -> Order {
        Order {
            identity: Identity { domain: "shoot".into(), machine: machine.into(), class: class.into() },
            attempt: Attempt("a1".into()),
            spec: Arc::new(Value::Null),
            user_data: Some(UserData::new("#cloud-config")),
        }
    }

    fn spec(more: &Value) -> ProviderSpec {
        let mut spec = json!({"machineType": "c2i.2", "imageId": ID});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        ProviderSpec::parse(&spec).unwrap()
    }

    fn with<T>(defaults: &Defaults, version: ApiVersion, use_it: impl FnOnce(Setting<'_>) -> T) -> T {
        use_it(Setting { defaults, version, names: &LabelNames::default() })
    }

    fn call(more: &Value) -> Value {
        let call = with(&Defaults::default(), ApiVersion::V2, |setting| {
            let (spec, order) = (spec(more), order("m-1", "c"));
            spec.check(&order, setting).unwrap();
            spec.create_call(&order, setting)
        });
        serde_json::to_value(call).unwrap()
    }

    #[test]
    fn a_create_call_carries_the_identity_whatever_the_user_wrote() {
        let call = call(&json!({"networking": {"networkId": ID.to_uppercase()}, "region": "eu01",
            "labels": {"kubernetes.io/machine": "forged", "team": "a"}, "bootVolume": {"size": 0},
            "keypairName": null, "availabilityZone": "", "userData": "was read by whoever ordered"}));
        assert_eq!(
            call,
            json!({"name": "m-1", "machineType": "c2i.2", "imageId": ID, "networking": {"networkId": ID},
                   "labels": {"kubernetes.io/machine": "m-1", "kubernetes.io/machineclass": "c", "team": "a",
                              "hostler.dev/create-attempt": "a1"},
                   "userData": "I2Nsb3VkLWNvbmZpZw==", "bootVolume": {"deleteOnTermination": true}})
        );
    }

    #[test]
    fn everything_that_is_given_is_sent() {
        let call = call(&json!({"networking": {"nicIds": [ID, OTHER]}, "securityGroups": ["default"],
            "bootVolume": {"size": 50, "performanceClass": "fast", "deleteOnTermination": false,
                "source": {"type": "image", "id": OTHER.to_uppercase()}},
            "imageId": null, "volumes": [OTHER.to_uppercase()], "keypairName": "key", "availabilityZone": "eu01-1",
            "affinityGroup": OTHER.to_uppercase(), "serviceAccountMails": ["a@b.cd"], "agent": {"provisioned": true},
            "metadata": {"text": "x", "number": 9_007_199_254_740_993_i64}}));
        assert_eq!(
            call,
            json!({"name": "m-1", "machineType": "c2i.2", "networking": {"nicIds": [ID, OTHER]},
                   "labels": {"kubernetes.io/machine": "m-1", "kubernetes.io/machineclass": "c",
                              "hostler.dev/create-attempt": "a1", "hostler.dev/boot-volume": "stays"},
                   "securityGroups": ["default"], "volumes": [OTHER], "keypairName": "key",
                   "bootVolume": {"size": 50, "performanceClass": "fast", "deleteOnTermination": false,
                                  "source": {"type": "image", "id": OTHER}},
                   "availabilityZone": "eu01-1", "affinityGroup": OTHER, "serviceAccountMails": ["a@b.cd"],
                   "agent": {"provisioned": true}, "userData": "I2Nsb3VkLWNvbmZpZw==",
                   "metadata": {"text": "x", "number": 9_007_199_254_740_993_i64}})
        );
    }

    #[test]
    fn the_full_sample_names_every_field_and_is_taken() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/machine-class-full.yaml");
        let text = std::fs::read_to_string(file).unwrap();
        let class: Value = serde_saphyr::from_str(&text).unwrap();
        let spec = ProviderSpec::parse(&class["providerSpec"]).unwrap();
        with(&Defaults::default(), ApiVersion::V2, |setting| {
            let order = order("m", class["metadata"]["name"].as_str().unwrap());
            spec.check(&order, setting).unwrap();
        });
        assert_eq!(spec.check_count(2), Ok(()), "it is for any number of machines");
        // One that is added is missed here.
        let ProviderSpec {
            region,
            machine_type,
            image_id,
            labels,
            networking,
            allowed_addresses,
            security_groups,
            user_data,
            boot_volume,
            volumes,
            keypair_name,
            availability_zone,
            affinity_group,
            service_account_mails,
            agent,
            metadata,
        } = spec;
        let BootVolume { id: _, delete_on_termination, performance_class, size, source } =
            boot_volume.unwrap();
        let NetworkingSpec { network_id, nic_ids } = networking.unwrap();
        let given = [
            ("region", !region.is_empty()),
            ("machineType", !machine_type.is_empty()),
            ("labels", !labels.is_empty()),
            ("networkId", !network_id.is_empty()),
            ("allowedAddresses", !allowed_addresses.is_empty()),
            ("securityGroups", !security_groups.is_empty()),
            ("userData", user_data.is_some()),
            ("deleteOnTermination", delete_on_termination.is_some()),
            ("performanceClass", performance_class.is_some()),
            ("size", size.is_some()),
            ("source", source.is_some()),
            ("keypairName", !keypair_name.is_empty()),
            ("availabilityZone", !availability_zone.is_empty()),
            ("affinityGroup", !affinity_group.is_empty()),
            ("serviceAccountMails", !service_account_mails.is_empty()),
            ("provisioned", agent.is_some_and(|agent| agent.provisioned.is_some())),
            ("metadata", metadata.is_some_and(|metadata| !metadata.is_empty())),
        ];
        for (field, is_given) in given {
            assert!(is_given, "{field} is not in the sample");
        }
        // What excludes something else, or is for one machine only, is there as a comment.
        for (field, is_given) in [
            ("imageId", !image_id.is_empty()),
            ("nicIds", !nic_ids.is_empty()),
            ("volumes", !volumes.is_empty()),
        ] {
            assert!(
                !is_given && text.contains(&format!("# {field}: ")),
                "{field} is not told of in the sample"
            );
        }
        for field in ["secretRef", "credentialsSecretRef"] {
            assert!(class[field]["name"].is_string(), "{field}");
        }
        let node = &class["nodeTemplate"];
        for field in ["instanceType", "region", "zone", "architecture"] {
            assert!(node[field].is_string(), "nodeTemplate.{field}");
        }
        for resource in ["cpu", "gpu", "memory"] {
            assert!(node["capacity"][resource].is_string(), "nodeTemplate.capacity.{resource}");
        }
        assert!(node["virtualCapacity"].is_object());
    }

    #[test]
    fn the_secret_fills_what_the_spec_leaves_open() {
        let own = json!({"networkId": ID});
        let nics = json!({"nicIds": [ID]});
        let both = json!({"networkId": ID, "nicIds": [ID]});
        let default = json!({"networkId": OTHER});
        let table = [
            // networking in the spec, network in the Secret, then what version 1 and version 2 get
            (Value::Null, None, Some(Value::Null), None),
            (json!({}), None, Some(Value::Null), None),
            (json!({"networkId": "", "nicIds": null}), None, Some(Value::Null), None),
            (Value::Null, Some(OTHER), Some(default.clone()), Some(default.clone())),
            (json!({}), Some(OTHER), Some(default.clone()), Some(default)),
            (Value::Null, Some("net"), None, None),
            (own.clone(), Some("net"), Some(own.clone()), Some(own.clone())),
            (own.clone(), None, Some(own.clone()), Some(own)),
            (nics.clone(), Some(OTHER), Some(nics.clone()), Some(nics)),
            (both, None, None, None),
        ];
        for (networking, network, first, second) in table {
            let defaults = Defaults { network: network.map(Into::into), ..Defaults::default() };
            let call = |version| {
                with(&defaults, version, |setting| {
                    let (spec, order) = (spec(&json!({"networking": networking})), order("m", "c"));
                    spec.check(&order, setting).ok()?;
                    let call = spec.create_call(&order, setting);
                    Some(serde_json::to_value(call).unwrap()["networking"].clone())
                })
            };
            let found = (call(ApiVersion::V1), call(ApiVersion::V2));
            assert_eq!(found, (first, second), "{networking} {network:?}");
        }
    }

    #[test]
    fn all_that_is_missing_is_told_with_every_place_where_it_could_be() {
        let order = Order { user_data: None, ..order("m", "c") };
        let failure = with(&Defaults::default(), ApiVersion::V2, |setting| {
            spec(&json!({"machineType": ""})).check(&order, setting).unwrap_err()
        });
        assert_eq!(failure.code, Code::InvalidArgument);
        for part in [
            "providerSpec.machineType",
            "providerSpec.networking",
            "\"networkId\" in the Secret",
            "providerSpec.userData",
            "the Secret's key \"userData\"",
        ] {
            assert!(failure.message.contains(part), "{part}: {failure}");
        }
        let empty = Order { user_data: Some(UserData::new("")), ..order };
        with(&Defaults::default(), ApiVersion::V1, |setting| {
            let spec = spec(&json!({}));
            spec.check(&empty, setting).unwrap();
            assert_eq!(spec.create_call(&empty, setting).user_data, None);
        });
    }

    #[test]
    fn names_must_fit_into_labels() {
        let long = "a".repeat(64);
        let table = [
            ("m", "c", None),
            ("m.x-y", "c", None),
            (long.as_str(), "c", Some("metadata.name")),
            ("m", long.as_str(), Some("spec.class.name")),
            ("m", "", Some("spec.class.name")),
        ];
        for (machine, class, field) in table {
            let checked = with(&Defaults::default(), ApiVersion::V1, |setting| {
                spec(&json!({})).check(&order(machine, class), setting)
            });
            match field {
                None => assert_eq!(checked, Ok(())),
                Some(field) => assert!(checked.unwrap_err().message.starts_with(field)),
            }
        }
    }

    #[test]
    fn what_exists_once_is_for_one_machine() {
        let source = json!({"bootVolume": {"source": {"type": "volume", "id": ID}}});
        let table = [
            (json!({"networking": {"networkId": ID}}), None),
            (json!({"bootVolume": {"source": {"type": "image", "id": ID}}}), None),
            (json!({"networking": {"nicIds": [ID]}}), Some("networking.nicIds")),
            (json!({"volumes": [ID]}), Some("volumes")),
            (source, Some("bootVolume.source")),
        ];
        for (more, field) in table {
            assert_eq!(spec(&more).check_count(1), Ok(()), "{more}");
            let many = spec(&more).check_count(2);
            match field {
                None => assert_eq!(many, Ok(()), "{more}"),
                Some(field) => assert!(many.unwrap_err().message.contains(field), "{more}"),
            }
        }
    }

    #[test]
    fn the_zone_is_the_specs_before_the_secrets() {
        let defaults = Defaults { zone: Some("eu01-1".into()), network: None };
        for (zone, expected) in [(json!("eu01-2"), "eu01-2"), (json!(""), "eu01-1"), (Value::Null, "eu01-1")]
        {
            let spec = spec(&json!({"availabilityZone": zone}));
            assert_eq!(spec.zone(&defaults).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_boot_volume_goes_unless_somebody_wants_it_to_stay() {
        let table = [
            (Value::Null, true),
            (json!({}), true),
            (json!({"deleteOnTermination": null}), true),
            (json!({"deleteOnTermination": true}), true),
            (json!({"deleteOnTermination": false}), false),
        ];
        for (volume, expected) in table {
            assert_eq!(spec(&json!({"bootVolume": volume})).boot_volume_goes(), expected, "{volume}");
        }
    }
}

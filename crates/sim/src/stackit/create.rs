//! The create call for a server: read strictly, checked against what exists, and then carried out.

use super::{
    answer::{Outcome, Refusal, answer},
    check::{Checked, Fields, is_generic_name, is_keypair_name, is_mail, is_server_name, is_uuid, wrong},
    cloud::Desk,
    dispatch::Call,
    life::Status,
    operation::Version,
    server::{Agent, Server, known_mail_count},
    settings::EmptyNetworking,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use serde_json::Value;
use std::collections::BTreeMap;

/// How large a boot volume is if nobody says so, in GB.
const BOOT_SIZE: i64 = 50;

/// A create call that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NewServer {
    name: String,
    machine_type: String,
    labels: BTreeMap<String, String>,
    user_data: Option<String>,
    networking: Networking,
    metadata: BTreeMap<String, Value>,
    zone: Option<String>,
    image: Option<String>,
    keypair: Option<String>,
    affinity_group: Option<String>,
    mails: Vec<String>,
    agent: Option<Agent>,
    config_drive: bool,
    boot: BootVolume,
    volumes: Vec<String>,
    groups: Vec<String>,
}

impl NewServer {
    /// A server of which only this is known. Its boot volume goes with it.
    pub(super) fn named(name: &str, machine_type: &str, labels: BTreeMap<String, String>) -> Self {
        let boot = BootVolume { goes_with_server: true, ..BootVolume::default() };
        Self { name: name.to_owned(), machine_type: machine_type.to_owned(), labels, boot, ..Self::default() }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Networking {
    #[default]
    Default,
    None,
    Network(String),
    Nics(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct BootVolume {
    goes_with_server: bool,
    size: Option<i64>,
    performance_class: Option<String>,
    /// Its type and id.
    source: Option<(String, String)>,
}

const READ_ONLY: &[&str] = &[
    "id",
    "status",
    "powerStatus",
    "nics",
    "createdAt",
    "launchedAt",
    "updatedAt",
    "errorMessage",
    "maintenanceWindow",
];

const KNOWN: &[&str] = &[
    "name",
    "machineType",
    "networking",
    "imageId",
    "bootVolume",
    "volumes",
    "securityGroups",
    "keypairName",
    "availabilityZone",
    "affinityGroup",
    "serviceAccountMails",
    "labels",
    "metadata",
    "userData",
    "agent",
    "configDrive",
];

/// Reads a create call as strictly as the specification describes it.
pub(super) fn read(body: Option<&Value>, version: Version, empty: EmptyNetworking) -> Checked<NewServer> {
    let fields = Fields::of(body)?;
    fields.only(&[KNOWN, READ_ONLY].concat())?;
    let is_zone = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic());
    let new = NewServer {
        name: fields.required("name", is_server_name)?,
        machine_type: fields.required("machineType", is_generic_name)?,
        labels: fields.labels()?,
        user_data: fields.text("userData", |text| STANDARD.decode(text).is_ok())?,
        networking: networking(&fields, version, empty)?,
        metadata: fields.metadata_changes()?.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        zone: fields.text("availabilityZone", is_zone)?,
        image: fields.text("imageId", is_uuid)?,
        keypair: fields.text("keypairName", is_keypair_name)?,
        affinity_group: fields.text("affinityGroup", is_uuid)?,
        mails: fields.texts("serviceAccountMails", is_mail)?.unwrap_or_default(),
        agent: agent(&fields)?,
        config_drive: fields.truth("configDrive")?.unwrap_or_default(),
        boot: boot_volume(&fields)?,
        volumes: fields.texts("volumes", is_uuid)?.unwrap_or_default(),
        groups: fields.texts("securityGroups", is_generic_name)?.unwrap_or_default(),
    };
    known_mail_count(&new.mails)?;
    Ok(new)
}

fn networking(fields: &Fields<'_>, version: Version, empty: EmptyNetworking) -> Checked<Networking> {
    let unsaid = match empty {
        EmptyNetworking::WithoutNic => Networking::None,
        EmptyNetworking::Refused | EmptyNetworking::DefaultNetwork => Networking::Default,
    };
    let Some(part) = fields.part("networking")? else {
        return match version {
            Version::V1 => Ok(unsaid),
            Version::V2 => Err(wrong("networking", "is required")),
        };
    };
    part.only(&["networkId", "nicIds"])?;
    match (part.text("networkId", is_uuid)?, part.texts("nicIds", is_uuid)?) {
        (Some(_), Some(_)) => Err(wrong("networking", "matches neither variant")),
        (Some(network), None) => Ok(Networking::Network(network)),
        (None, Some(nics)) => Ok(Networking::Nics(nics)),
        (None, None) if empty == EmptyNetworking::Refused => {
            Err(wrong("networking", "matches more than one variant"))
        }
        (None, None) => Ok(unsaid),
    }
}

fn agent(fields: &Fields<'_>) -> Checked<Option<Agent>> {
    let Some(part) = fields.part("agent")? else { return Ok(None) };
    part.only(&["provisioned"])?;
    Ok(Some(Agent { provisioned: part.truth("provisioned")? }))
}

fn boot_volume(fields: &Fields<'_>) -> Checked<BootVolume> {
    let Some(part) = fields.part("bootVolume")? else { return Ok(BootVolume::default()) };
    part.only(&["deleteOnTermination", "performanceClass", "size", "source", "id"])?;
    let source = match part.part("source")? {
        None => None,
        Some(source) => {
            let kind = |text: &str| matches!(text, "image" | "volume");
            Some((source.required("type", kind)?, source.required("id", is_uuid)?))
        }
    };
    Ok(BootVolume {
        goes_with_server: part.truth("deleteOnTermination")?.unwrap_or_default(),
        size: part.number("size", 1, 16_000)?,
        performance_class: part.text("performanceClass", is_generic_name)?,
        source,
    })
}

impl Desk<'_> {
    pub(super) fn create_server(&mut self, call: &Call) -> Outcome {
        let new = read(call.body.as_ref(), call.target.version, self.settings.empty_networking)?;
        let about = self.settings.answers_about.get(&new.name);
        let id = self.make_server(new)?;
        let id = about.cloned().unwrap_or(id);
        let body = self.show_server(&id, self.server(&id)?, false);
        answer(StatusCode::CREATED, body)
    }

    /// Puts a server there without asking whether it may be there.
    pub(super) fn put_server(&mut self, new: NewServer) -> String {
        let zone = self.zones().pop().unwrap_or_default();
        self.place_server(new, &zone, BOOT_SIZE, Vec::new(), &[])
    }

    /// Checks everything before it changes anything.
    pub(super) fn make_server(&mut self, new: NewServer) -> Checked<String> {
        let machine_type = self.machine_type(&new.machine_type)?;
        let boots_from = new.boot.source.as_ref().filter(|(kind, _)| kind == "image").map(|(_, id)| id);
        let image = new.image.as_ref().or(boots_from);
        if let Some(image) = image {
            self.image_name(image)?;
        }
        let zone = self.zone(new.zone.as_deref())?;
        if let Some(group) = &new.affinity_group {
            self.affinity_group(group)?;
        }
        let given: Vec<&String> = match &new.boot.source {
            Some((kind, id)) if kind == "volume" => new.volumes.iter().chain([id]).collect(),
            _ => new.volumes.iter().collect(),
        };
        for (at, volume) in given.iter().enumerate() {
            if given[..at].contains(volume) {
                return Err(Refusal::bad(format!("volumes: {volume} is there twice")));
            }
            self.volume_to_attach(volume, &zone)?;
        }
        let nics = self.nics_to_attach(&new.networking)?;
        let mut groups = Vec::new();
        for group in &new.groups {
            groups.push(self.group_by_name_or_id(group)?);
        }
        let status = StatusCode::from_u16(self.settings.quota_status).unwrap_or(StatusCode::FORBIDDEN);
        self.within_quota("vcpu", machine_type.vcpus, status)?;
        self.within_quota("ram", machine_type.ram, status)?;
        let boots_from_volume = new.boot.source.as_ref().is_some_and(|(kind, _)| kind == "volume");
        let size = new.boot.size.unwrap_or_else(|| machine_type.disk.max(BOOT_SIZE));
        if !boots_from_volume {
            self.within_quota("volumes", 1, status)?;
            self.within_quota("gigabytes", size, status)?;
        }
        if matches!(new.networking, Networking::Network(_) | Networking::Default) {
            self.within_quota("nics", 1, status)?;
        }
        Ok(self.place_server(new, &zone, size, nics, &groups))
    }

    fn place_server(
        &mut self,
        new: NewServer,
        zone: &str,
        boot_size: i64,
        given_nics: Vec<String>,
        groups: &[String],
    ) -> String {
        let id = self.new_id();
        let failure = self.settings.error_of(&new.name).or_else(|| self.no_host(&new.machine_type, zone));
        let mut attachments: BTreeMap<String, bool> =
            new.volumes.iter().map(|volume| (volume.clone(), false)).collect();
        let boot_volume = match &new.boot.source {
            Some((kind, volume)) if kind == "volume" => volume.clone(),
            source => {
                let source = source.clone().or_else(|| Some(("image".to_owned(), new.image.clone()?)));
                self.make_boot_volume(zone, boot_size, new.boot.performance_class.clone(), source)
            }
        };
        attachments.insert(boot_volume.clone(), new.boot.goes_with_server);
        for volume in attachments.keys() {
            if let Some(volume) = self.estate.volumes.get_mut(volume) {
                volume.server = Some(id.clone());
            }
        }
        let nics = match new.networking {
            Networking::None => Vec::new(),
            Networking::Default => {
                let network = self.default_network();
                vec![self.make_nic_for_server(&network)]
            }
            Networking::Network(network) => vec![self.make_nic_for_server(&network)],
            Networking::Nics(_) => given_nics,
        };
        for nic in &nics {
            if let Some(nic) = self.estate.nics.get_mut(nic) {
                nic.server = Some(id.clone());
                for group in groups {
                    nic.add_group(group);
                }
            }
        }
        let server = Server {
            name: new.name,
            machine_type: new.machine_type,
            labels: new.labels,
            metadata: new.metadata,
            zone: zone.to_owned(),
            image: new.image,
            keypair: new.keypair,
            affinity_group: new.affinity_group,
            mails: new.mails,
            user_data: new.user_data,
            agent: new.agent,
            config_drive: new.config_drive,
            boot_volume: Some(boot_volume),
            attachments,
            nics,
            status: Status::Creating,
            before: Status::Creating,
            until: None,
            failure,
            error: None,
            created_at: self.now,
            launched_at: None,
            updated_at: self.now,
            in_lists_at: self.in_lists_at(),
        };
        self.estate.servers.insert(id.clone(), server);
        let wait = self.drawn(self.settings.boot_time);
        self.enter(&id, Status::Creating, Some(wait));
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    fn good() -> Value {
        json!({"name": "m-1", "machineType": "c2i.2", "networking": {"networkId": ID}})
    }

    #[test]
    fn create_calls_are_read_strictly() {
        assert!(read(Some(&good()), Version::V2, EmptyNetworking::Refused).is_ok());
        let broken = [
            ("name", json!("-x")),
            ("name", json!("a".repeat(64))),
            ("name", json!(7)),
            ("machineType", Value::Null),
            ("machineType", json!("c2i$")),
            ("networking", Value::Null),
            ("networking", json!({"networkId": ID, "nicIds": [ID]})),
            ("networkId", json!(ID)),
            ("userData", json!("%")),
            ("labels", json!({"a": 1})),
            ("imageId", json!("no-uuid")),
            ("volumes", json!(["no-uuid"])),
            ("keypairName", json!("a b")),
            ("affinityGroup", json!("A")),
            ("serviceAccountMails", json!(["a@b.c", "d@b.c"])),
            ("serviceAccountMails", json!(["nobody"])),
            ("metadata", json!({"": 1})),
            ("agent", json!(true)),
            ("availabilityZone", json!("")),
            ("configDrive", json!("yes")),
        ];
        for (field, value) in broken {
            let mut body = good();
            body[field] = value;
            let refused = read(Some(&body), Version::V2, EmptyNetworking::Refused).unwrap_err();
            assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}");
            assert!(refused.message.contains(field), "{body}: {}", refused.message);
        }
        for part in [
            json!({"size": 0}),
            json!({"size": "50"}),
            json!({"source": {"type": "image"}}),
            json!({"source": {"type": "snapshot", "id": ID}}),
            json!({"deleteOnTermination": "true"}),
            json!({"sice": 1}),
        ] {
            let mut body = good();
            body["bootVolume"] = part;
            assert!(read(Some(&body), Version::V2, EmptyNetworking::Refused).is_err(), "{body}");
        }
    }

    #[test]
    fn empty_networking_is_a_switch_and_missing_networking_a_matter_of_the_version() {
        use EmptyNetworking::{DefaultNetwork, Refused, WithoutNic};
        let cases = [
            (Some(json!({})), Version::V2, Refused, None),
            (Some(json!({})), Version::V2, WithoutNic, Some(Networking::None)),
            (Some(json!({})), Version::V2, DefaultNetwork, Some(Networking::Default)),
            (Some(json!({})), Version::V1, Refused, None),
            (None, Version::V2, DefaultNetwork, None),
            (None, Version::V1, Refused, Some(Networking::Default)),
            (None, Version::V1, WithoutNic, Some(Networking::None)),
        ];
        for (networking, version, empty, expected) in cases {
            let mut body = good();
            body["networking"] = networking.clone().unwrap_or_default();
            let read = read(Some(&body), version, empty).ok().map(|new| new.networking);
            assert_eq!(read, expected, "{networking:?} {version:?} {empty:?}");
        }
    }
}

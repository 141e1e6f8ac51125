//! Servers: what is remembered of one, how it is shown, and the calls about it that are no create call.

use super::{
    answer::{Outcome, Refusal, accepted, done, found, items},
    check::{
        Checked, Fields, change_labels, is_generic_name, is_server_name, is_uuid, path_id, stamp, wrong,
    },
    cloud::Desk,
    dispatch::Call,
    life::{Order, Status},
};
use crate::cloud::after;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The message of a server for which no host has room.
const NO_HOST: &str = "No valid host was found. There are not enough hosts available.";

/// How many lines of a console are shown if nobody says how many.
const LOG_LINES: usize = 2000;

/// Whether STACKIT's agent is to be on the server; without a word the image decides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Agent {
    pub(super) provisioned: Option<bool>,
}

#[derive(Clone)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) machine_type: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) metadata: BTreeMap<String, Value>,
    pub(super) zone: String,
    pub(super) image: Option<String>,
    pub(super) keypair: Option<String>,
    pub(super) affinity_group: Option<String>,
    pub(super) mails: Vec<String>,
    pub(super) user_data: Option<String>,
    pub(super) agent: Option<Agent>,
    pub(super) config_drive: bool,
    pub(super) boot_volume: Option<String>,
    /// Volumes, the boot volume too, and whether they go with the server.
    pub(super) attachments: BTreeMap<String, bool>,
    pub(super) nics: Vec<String>,
    pub(super) status: Status,
    pub(super) before: Status,
    /// When the status changes by itself.
    pub(super) until: Option<Timestamp>,
    /// Why it will fail instead of becoming active.
    pub(super) failure: Option<String>,
    pub(super) error: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) launched_at: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
    pub(super) in_lists_at: Timestamp,
}

impl Desk<'_> {
    pub(super) fn show_server(&self, id: &str, server: &Server, details: bool) -> Value {
        let mut body = json!({
            "id": id, "name": server.name, "machineType": server.machine_type,
            "status": server.status.name(), "powerStatus": server.status.power(),
            "availabilityZone": server.zone, "labels": server.labels, "metadata": server.metadata,
            "configDrive": server.config_drive,
            "createdAt": stamp(server.created_at), "updatedAt": stamp(server.updated_at),
        });
        let data = |volume: &&String| server.boot_volume.as_ref() != Some(*volume);
        body["volumes"] = server.attachments.keys().filter(data).map(String::as_str).collect();
        if let Some(volume) = &server.boot_volume {
            let goes = server.attachments.get(volume).copied().unwrap_or_default();
            body["bootVolume"] = json!({"id": volume, "deleteOnTermination": goes});
            if self.settings.silent_boot_volumes {
                body["bootVolume"] = json!({"id": volume});
            }
        }
        if let Some(agent) = &server.agent {
            let wanted = agent.provisioned;
            body["agent"] = wanted.map_or_else(|| json!({}), |value| json!({"provisioned": value}));
        }
        let texts = [
            ("imageId", &server.image),
            ("keypairName", &server.keypair),
            ("affinityGroup", &server.affinity_group),
            ("errorMessage", &server.error),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                body[field] = json!(text);
            }
        }
        if let Some(launched) = server.launched_at.filter(|_| self.settings.tells_launch) {
            body["launchedAt"] = stamp(launched);
        }
        if details {
            body["nics"] = server.nics.iter().filter_map(|nic| self.show_server_nic(nic)).collect();
            body["serviceAccountMails"] = json!(server.mails);
            if let Some(data) = &server.user_data {
                body["userData"] = json!(data);
            }
        }
        body
    }

    pub(super) fn server(&self, id: &str) -> Checked<&Server> {
        self.estate.servers.get(path_id("serverId", id)?).ok_or_else(|| Refusal::missing("server", id))
    }

    pub(super) fn server_mut(&mut self, id: &str) -> Checked<&mut Server> {
        self.estate.servers.get_mut(path_id("serverId", id)?).ok_or_else(|| Refusal::missing("server", id))
    }

    pub(super) fn list_servers(&self, call: &Call) -> Outcome {
        let (selector, details) = (call.selector(self.settings)?, call.flag("details")?);
        let here = self.estate.servers.iter().filter(|(_, server)| server.in_lists_at <= self.now);
        let fitting = here.filter(|(_, server)| selector.fits(&server.labels));
        let mut listed: Vec<Value> = fitting
            .map(|(id, server)| {
                let mut body = self.show_server(id, server, details);
                if self.settings.without_id.contains(&server.name) {
                    body["id"] = json!("");
                }
                body
            })
            .collect();
        let ghosts = self.estate.ghosts.iter().filter(|(_, _, server)| selector.fits(&server.labels));
        listed.extend(ghosts.map(|(_, id, server)| self.show_ghost(id, server, false)));
        items(listed)
    }

    fn show_ghost(&self, id: &str, server: &Server, details: bool) -> Value {
        let mut body = self.show_server(id, server, details);
        if self.settings.ghosts_are_deleted {
            body["status"] = json!("DELETED");
        }
        body
    }

    pub(super) fn get_server(&self, id: &str, call: &Call) -> Outcome {
        let details = call.flag("details")?;
        let id = self.settings.mistaken.get(id).map_or(id, String::as_str);
        let mut ghosts = self.estate.ghosts.iter().filter(|_| self.settings.ghosts_answer);
        if let Some((_, id, server)) = ghosts.find(|(_, ghost, _)| ghost == id) {
            return found(self.show_ghost(id, server, details));
        }
        found(self.show_server(id, self.server(id)?, details))
    }

    pub(super) fn update_server(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        fields.only(&["name", "labels", "metadata"])?;
        let name = fields.text("name", is_server_name)?;
        let (labels, metadata) = (fields.label_changes()?, fields.metadata_changes()?);
        let now = self.now;
        let server = self.server_mut(id)?;
        if let Some(name) = name {
            server.name = name;
        }
        change_labels(&mut server.labels, labels);
        for (key, value) in metadata {
            if value.is_null() {
                server.metadata.remove(&key);
            } else {
                server.metadata.insert(key, value);
            }
        }
        server.updated_at = now;
        found(self.show_server(id, self.server(id)?, false))
    }

    /// Orders a deletion. One that is on its way already is fine.
    pub(super) fn delete_server(&mut self, id: &str) -> Outcome {
        let server = self.server(id)?;
        if server.status != Status::Deleting {
            let wait = (!self.settings.sticks(&server.name)).then(|| self.drawn(self.settings.delete_time));
            self.enter(id, Status::Deleting, wait);
        }
        done()
    }

    pub(super) fn order(&mut self, id: &str, order: Order) -> Outcome {
        let server = self.server(id)?;
        let next = server.status.ordered(order).ok_or_else(|| {
            let status = server.status.name();
            Refusal::conflict(format!("the server {id} is {status}: it cannot be told to {order:?} now"))
        })?;
        let (was, machine_type, zone) = (server.status, server.machine_type.clone(), server.zone.clone());
        if was == Status::Deallocated {
            let failure = self.no_host(&machine_type, &zone);
            self.server_mut(id)?.failure = failure;
        }
        self.enter(id, next, Some(self.settings.change_time));
        accepted()
    }

    pub(super) fn reboot_server(&mut self, id: &str, call: &Call) -> Outcome {
        match call.query.get("action").map(String::as_str) {
            None | Some("soft" | "hard") => self.order(id, Order::Reboot),
            Some(other) => Err(Refusal::bad(format!("action: {other:?} is neither soft nor hard"))),
        }
    }

    pub(super) fn resize_server(&mut self, id: &str, call: &Call) -> Outcome {
        let wanted = Fields::of(call.body.as_ref())?.required("machineType", is_generic_name)?;
        let wanted = self.machine_type(&wanted)?.name;
        self.order(id, Order::Resize)?;
        self.server_mut(id)?.machine_type = wanted;
        accepted()
    }

    pub(super) fn rescue_server(&mut self, id: &str, call: &Call) -> Outcome {
        let image = Fields::of(call.body.as_ref())?.required("image", is_uuid)?;
        self.image_name(&image)?;
        self.order(id, Order::Rescue)
    }

    pub(super) fn console(&self, id: &str) -> Outcome {
        self.server(id)?;
        found(json!({"url": format!("https://console.invalid/{id}")}))
    }

    pub(super) fn log(&self, id: &str, call: &Call) -> Outcome {
        let server = self.server(id)?;
        let length = match call.query.get("length") {
            None => LOG_LINES,
            Some(text) => {
                text.parse().map_err(|_| Refusal::bad(format!("length: {text:?} is not a number from 0")))?
            }
        };
        let output = match self.settings.consoles.get(&server.name) {
            Some(output) => output.clone(),
            None => booted(server),
        };
        let lines: Vec<&str> = output.lines().collect();
        let from = if length == 0 { 0 } else { lines.len().saturating_sub(length) };
        found(json!({"output": lines.get(from..).unwrap_or_default().join("\n")}))
    }

    pub(super) fn list_mails(&self, id: &str) -> Outcome {
        items(self.server(id)?.mails.iter().map(|mail| json!(mail)).collect())
    }

    /// A server that fails although it ran.
    pub(super) fn break_server(&mut self, id: &str, message: &str) -> Outcome {
        self.server_mut(id)?.error = Some(message.to_owned());
        self.enter(id, Status::Error, None);
        accepted()
    }

    /// Why a server that comes now would find no host.
    pub(super) fn no_host(&self, machine_type: &str, zone: &str) -> Option<String> {
        let full = self.settings.capacity.iter().any(|(what, room)| {
            let counts =
                |server: &&Server| what == "*" || *what == server.machine_type || *what == server.zone;
            let concerns = what == "*" || what == machine_type || what == zone;
            let hosted = self.estate.servers.values().filter(|server| server.status.has_host());
            concerns && hosted.filter(counts).filter(|server| server.failure.is_none()).count() >= *room
        });
        full.then(|| NO_HOST.to_owned())
    }

    /// When a server that is made now arrives in lists.
    pub(super) fn in_lists_at(&self) -> Timestamp {
        after(self.now, self.settings.list_lag)
    }
}

pub(super) fn known_mail_count(mails: &[String]) -> Checked<()> {
    if mails.len() > 1 { Err(wrong("serviceAccountMails", "has more than one entry")) } else { Ok(()) }
}

/// What a console shows of a boot that went well.
fn booted(server: &Server) -> String {
    let name = &server.name;
    let mut lines = vec![
        "[    0.000000] Linux version 6.12.0 (simulated)".to_owned(),
        format!("[    1.000000] systemd[1]: Hostname set to <{name}>."),
    ];
    if server.launched_at.is_some() {
        lines.push(format!("cloud-init[400]: Cloud-init finished on {name}"));
        lines.push(format!("{name} login:"));
    }
    lines.join("\n")
}

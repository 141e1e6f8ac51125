//! Volumes, and their attachments to servers.

use super::{
    answer::{Outcome, Refusal, accepted, answer, done, found, items},
    check::{Checked, Fields, any, change_labels, is_description, is_generic_name, is_uuid, path_id, stamp},
    cloud::{Desk, Due},
    dispatch::Call,
};
use crate::cloud::after;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// The largest volume, in GB.
const LARGEST: i64 = 16_000;

/// The performance class of volumes for which none is named.
const DEFAULT_CLASS: &str = "storage_premium_perf1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Creating,
    Available,
    Resizing,
    Deleting,
}

pub(super) struct Volume {
    pub(super) server: Option<String>,
    pub(super) state: State,
    pub(super) until: Option<Timestamp>,
    pub(super) updated_at: Timestamp,
    pub(super) size: i64,
    name: Option<String>,
    description: Option<String>,
    zone: String,
    performance_class: String,
    labels: BTreeMap<String, String>,
    source: Option<(String, String)>,
    bootable: bool,
    created_at: Timestamp,
}

impl Volume {
    pub(super) fn status(&self) -> &'static str {
        match (self.state, &self.server) {
            (State::Deleting, _) => "DELETING",
            (State::Resizing, _) => "RESIZING",
            (State::Creating, _) => "CREATING",
            (State::Available, Some(_)) => "ATTACHED",
            (State::Available, None) => "AVAILABLE",
        }
    }
}

fn show(id: &str, volume: &Volume) -> Value {
    let mut body = json!({
        "id": id, "availabilityZone": volume.zone, "status": volume.status(), "size": volume.size,
        "performanceClass": volume.performance_class, "labels": volume.labels, "bootable": volume.bootable,
        "encrypted": false, "createdAt": stamp(volume.created_at), "updatedAt": stamp(volume.updated_at),
    });
    let texts = [("serverId", &volume.server), ("name", &volume.name), ("description", &volume.description)];
    for (field, text) in texts {
        if let Some(text) = text {
            body[field] = json!(text);
        }
    }
    if let Some((kind, id)) = &volume.source {
        body["source"] = json!({"type": kind, "id": id});
    }
    body
}

impl Desk<'_> {
    fn blank_volume(&self, zone: &str, size: i64) -> Volume {
        Volume {
            server: None,
            state: State::Available,
            until: None,
            updated_at: self.now,
            size,
            name: None,
            description: None,
            zone: zone.to_owned(),
            performance_class: DEFAULT_CLASS.to_owned(),
            labels: BTreeMap::new(),
            source: None,
            bootable: false,
            created_at: self.now,
        }
    }

    pub(super) fn make_boot_volume(
        &mut self,
        zone: &str,
        size: i64,
        performance_class: Option<String>,
        source: Option<(String, String)>,
    ) -> String {
        let id = self.new_id();
        let mut volume = self.blank_volume(zone, size);
        volume.bootable = true;
        volume.source = source;
        volume.performance_class = performance_class.unwrap_or(volume.performance_class);
        self.estate.volumes.insert(id.clone(), volume);
        id
    }

    fn volume(&self, id: &str) -> Checked<&Volume> {
        self.estate.volumes.get(path_id("volumeId", id)?).ok_or_else(|| Refusal::missing("volume", id))
    }

    fn volume_mut(&mut self, id: &str) -> Checked<&mut Volume> {
        self.estate.volumes.get_mut(path_id("volumeId", id)?).ok_or_else(|| Refusal::missing("volume", id))
    }

    /// A volume that a create or attach call names, and that is free. Without a catalogue it exists once it
    /// is named.
    pub(super) fn volume_to_attach(&mut self, id: &str, zone: &str) -> Checked<&mut Volume> {
        path_id("volumeId", id)?;
        if !self.estate.volumes.contains_key(id) && self.settings.catalogue.is_none() {
            let volume = self.blank_volume(zone, 1);
            self.estate.volumes.insert(id.to_owned(), volume);
        }
        let volume = self.volume_mut(id)?;
        if volume.status() == "AVAILABLE" {
            Ok(volume)
        } else {
            Err(Refusal::bad(format!("the volume {id} is {}, not AVAILABLE", volume.status())))
        }
    }

    fn enter_volume(&mut self, id: &str, state: State, wait: Duration) -> Checked<()> {
        let until = after(self.now, wait);
        let volume = self.volume_mut(id)?;
        volume.state = state;
        volume.until = Some(until);
        self.agenda.add(until, self.place, Due::Volume(id.to_owned()));
        Ok(())
    }

    pub(super) fn list_volumes(&self, call: &Call) -> Outcome {
        let selector = call.selector(self.settings)?;
        let fitting = self.estate.volumes.iter().filter(|(_, volume)| selector.fits(&volume.labels));
        items(fitting.map(|(id, volume)| show(id, volume)).collect())
    }

    pub(super) fn get_volume(&self, id: &str) -> Outcome {
        found(show(id, self.volume(id)?))
    }

    pub(super) fn create_volume(&mut self, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let zone = fields.required("availabilityZone", any)?;
        let zone = self.zone(Some(&zone))?;
        let source = match fields.part("source")? {
            None => None,
            Some(source) => {
                let kind = |text: &str| matches!(text, "image" | "volume" | "snapshot" | "backup");
                Some((source.required("type", kind)?, source.required("id", is_uuid)?))
            }
        };
        let size = match (fields.number("size", 1, LARGEST)?, &source) {
            (Some(size), _) => size,
            (None, Some(_)) => 1,
            (None, None) => return Err(super::check::wrong("size", "is required without a source")),
        };
        let mut volume = self.blank_volume(&zone, size);
        volume.name = fields.text("name", is_generic_name)?;
        volume.description = fields.text("description", is_description)?;
        volume.labels = fields.labels()?;
        volume.bootable = fields.truth("bootable")?.unwrap_or_default();
        let class = fields.text("performanceClass", is_generic_name)?;
        volume.performance_class = class.unwrap_or(volume.performance_class);
        volume.source = source;
        self.within_quota("volumes", 1, StatusCode::PAYLOAD_TOO_LARGE)?;
        self.within_quota("gigabytes", size, StatusCode::PAYLOAD_TOO_LARGE)?;
        let id = self.new_id();
        self.estate.volumes.insert(id.clone(), volume);
        self.enter_volume(&id, State::Creating, self.settings.volume_time)?;
        let body = show(&id, self.volume(&id)?);
        answer(StatusCode::CREATED, body)
    }

    pub(super) fn update_volume(&mut self, id: &str, call: &Call) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let name = fields.text("name", is_generic_name)?;
        let description = fields.text("description", is_description)?;
        let (labels, bootable) = (fields.label_changes()?, fields.truth("bootable")?);
        let now = self.now;
        let volume = self.volume_mut(id)?;
        volume.name = name.or_else(|| volume.name.take());
        volume.description = description.or_else(|| volume.description.take());
        volume.bootable = bootable.unwrap_or(volume.bootable);
        change_labels(&mut volume.labels, labels);
        volume.updated_at = now;
        self.get_volume(id)
    }

    pub(super) fn delete_volume(&mut self, id: &str) -> Outcome {
        let volume = self.volume(id)?;
        if let Some(server) = &volume.server {
            return Err(Refusal::conflict(format!("the volume {id} is attached to the server {server}")));
        }
        if volume.state != State::Deleting {
            self.enter_volume(id, State::Deleting, self.settings.volume_time)?;
        }
        done()
    }

    pub(super) fn resize_volume(&mut self, id: &str, call: &Call) -> Outcome {
        let size = Fields::of(call.body.as_ref())?.number("size", 1, LARGEST)?;
        let size = size.ok_or_else(|| super::check::wrong("size", "is required"))?;
        let volume = self.volume(id)?;
        let grows_by = size - volume.size;
        if volume.state != State::Available {
            return Err(Refusal::conflict(format!("the volume {id} is {}", volume.status())));
        }
        if grows_by < 0 {
            return Err(Refusal::bad(format!("size: the volume {id} cannot become smaller")));
        }
        self.within_quota("gigabytes", grows_by, StatusCode::FORBIDDEN)?;
        self.volume_mut(id)?.size = size;
        self.enter_volume(id, State::Resizing, self.settings.volume_time)?;
        accepted()
    }

    fn attachment(&self, server: &str, volume: &str) -> Checked<Value> {
        let attachments = &self.server(server)?.attachments;
        let goes = attachments
            .get(path_id("volumeId", volume)?)
            .ok_or_else(|| Refusal::missing("volume attachment", volume))?;
        Ok(json!({"serverId": server, "volumeId": volume, "deleteOnTermination": goes}))
    }

    pub(super) fn list_attachments(&self, server: &str) -> Outcome {
        let volumes = self.server(server)?.attachments.keys();
        items(volumes.map(|volume| self.attachment(server, volume)).collect::<Checked<_>>()?)
    }

    pub(super) fn get_attachment(&self, server: &str, volume: &str) -> Outcome {
        found(self.attachment(server, volume)?)
    }

    pub(super) fn attach(&mut self, server: &str, id: &str, call: &Call) -> Outcome {
        let goes = match &call.body {
            None => None,
            body => Fields::of(body.as_ref())?.truth("deleteOnTermination")?,
        };
        self.changeable_server(server)?;
        let zone = self.server(server)?.zone.clone();
        let volume = self.volume_to_attach(id, &zone).map_err(|refusal| match refusal.status {
            StatusCode::BAD_REQUEST if is_uuid(id) => Refusal::conflict(refusal.message),
            _ => refusal,
        })?;
        volume.server = Some(server.to_owned());
        self.server_mut(server)?.attachments.insert(id.to_owned(), goes.unwrap_or_default());
        answer(StatusCode::ACCEPTED, self.attachment(server, id)?)
    }

    pub(super) fn update_attachment(&mut self, server: &str, volume: &str, call: &Call) -> Outcome {
        let goes = Fields::of(call.body.as_ref())?.truth("deleteOnTermination")?;
        self.attachment(server, volume)?;
        let status = self.server(server)?.status.name();
        if self.settings.fixed_attachments.contains(status) {
            return Err(Refusal::conflict(format!(
                "the server {server} is {status}: its volumes stay as they are"
            )));
        }
        if let Some(goes) = goes {
            self.server_mut(server)?.attachments.insert(volume.to_owned(), goes);
        }
        self.get_attachment(server, volume)
    }

    pub(super) fn detach(&mut self, server: &str, volume: &str) -> Outcome {
        self.attachment(server, volume)?;
        if self.server(server)?.boot_volume.as_deref() == Some(volume) {
            return Err(Refusal::conflict(format!("the server {server} boots from the volume {volume}")));
        }
        self.server_mut(server)?.attachments.remove(volume);
        if let Some(volume) = self.estate.volumes.get_mut(volume) {
            volume.server = None;
        }
        done()
    }
}

//! What an observer outside the API sees.

use super::{Stackit, life::Status};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerView {
    pub project: String,
    pub region: String,
    pub id: String,
    pub name: String,
    pub status: &'static str,
    pub labels: BTreeMap<String, String>,
    pub machine_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeView {
    pub project: String,
    pub region: String,
    pub id: String,
    pub status: &'static str,
    /// The server that it is attached to.
    pub server: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NicView {
    pub project: String,
    pub region: String,
    pub id: String,
    pub network: String,
    /// The server that it is attached to.
    pub server: Option<String>,
    pub allowed_addresses: Vec<String>,
}

impl Stackit {
    /// All servers that are there now, whoever made them, by id.
    pub fn servers(&self) -> Vec<ServerView> {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let all = cloud.estates().iter().flat_map(|((project, region), estate)| {
            estate.servers.iter().map(move |(id, server)| ServerView {
                project: project.clone(),
                region: region.clone(),
                id: id.clone(),
                name: server.name.clone(),
                status: Status::name(server.status),
                labels: server.labels.clone(),
                machine_type: server.machine_type.clone(),
            })
        });
        all.collect()
    }

    /// All volumes that are there now, whoever made them.
    pub fn volumes(&self) -> Vec<VolumeView> {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let all = cloud.estates().iter().flat_map(|((project, region), estate)| {
            estate.volumes.iter().map(move |(id, volume)| VolumeView {
                project: project.clone(),
                region: region.clone(),
                id: id.clone(),
                status: volume.status(),
                server: volume.server.clone(),
            })
        });
        all.collect()
    }

    /// All NICs that are there now, whoever made them.
    pub fn nics(&self) -> Vec<NicView> {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let all = cloud.estates().iter().flat_map(|((project, region), estate)| {
            estate.nics.iter().map(move |(id, nic)| NicView {
                project: project.clone(),
                region: region.clone(),
                id: id.clone(),
                network: nic.network.clone(),
                server: nic.server.clone(),
                allowed_addresses: nic.allowed.clone(),
            })
        });
        all.collect()
    }
}

//! API groups that another server answers for: as with an APIService, discovery names them, this server decides who may
//! ask, and the other one answers.

use crate::error::ApiError;
use hostler_base::{Transport, transport};
use http::{Request, Response, header, request};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// A group version behind another server, which has its paths, discovery included.
#[derive(Clone)]
pub struct Extension {
    pub group: String,
    pub version: String,
    pub resources: Vec<ExtensionResource>,
    pub server: Transport,
}

/// What discovery says about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionResource {
    pub name: String,
    pub singular: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

/// By group.
#[derive(Default)]
pub(crate) struct Extensions(RwLock<BTreeMap<String, Arc<Extension>>>);

impl Extensions {
    pub(crate) fn add(&self, extension: Extension) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(extension.group.clone(), Arc::new(extension));
    }

    pub(crate) fn all(&self) -> Vec<Arc<Extension>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn of(&self, group: &str) -> Option<Arc<Extension>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(group).cloned()
    }
}

impl Extension {
    /// As the aggregated form of discovery has a version.
    pub(crate) fn discovery(&self) -> Value {
        let resources: Vec<Value> = self
            .resources
            .iter()
            .map(|resource| {
                json!({
                    "resource": resource.name, "singularResource": resource.singular, "verbs": resource.verbs,
                    "responseKind": {"group": self.group, "version": self.version, "kind": resource.kind},
                    "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                })
            })
            .collect();
        json!({"version": self.version, "resources": resources, "freshness": "Current"})
    }
}

/// Lets the other server answer. Who asks it does not learn.
pub(crate) async fn forward(
    extension: &Extension,
    mut parts: request::Parts,
    body: transport::Body,
) -> Result<Response<transport::Body>, ApiError> {
    parts.headers.remove(header::AUTHORIZATION);
    let request = Request::from_parts(parts, body);
    transport::send(&extension.server, request).await.map_err(|error| {
        tracing::debug!(group = extension.group, %error, "an extension server did not answer");
        ApiError::unavailable("service unavailable")
    })
}

//! Writes of the server itself, on the same path as everyone else's.

use super::{
    Exchange, create,
    delete::{self, DeleteOptions},
    update,
};
use crate::{
    contract::{GroupResource, User},
    error::ApiError,
    negotiate::Form,
    query::Query,
    registry::Resource,
    request::Target,
    server::{ApiServer, Core},
    table::Include,
};
use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use std::{cell::RefCell, sync::Arc};

/// One object the server writes.
pub(crate) struct Internal {
    core: Arc<Core>,
    user: User,
    target: Target,
    resource: Option<Arc<Resource>>,
}

impl Internal {
    pub(crate) fn new(core: &Arc<Core>, id: &GroupResource, namespace: &str, name: &str) -> Self {
        let resource = core.registry.by_id(id);
        let version = resource.as_ref().map(|resource| resource.storage_version.clone()).unwrap_or_default();
        let target = Target {
            group: id.group.to_string(),
            version,
            namespace: namespace.to_owned(),
            resource: id.resource.to_string(),
            name: name.to_owned(),
            ..Target::default()
        };
        Self { core: Arc::clone(core), user: ApiServer::admin(), target, resource }
    }

    fn with<T>(&self, run: impl FnOnce(&Exchange<'_>) -> Result<T, ApiError>) -> Option<T> {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-apiserver"));
        let exchange = Exchange {
            core: &self.core,
            user: &self.user,
            target: &self.target,
            resource: self.resource.as_ref()?,
            query: &Query::default(),
            form: Form::Object,
            include: Include::None,
            headers: &headers,
            warnings: RefCell::default(),
        };
        match run(&exchange) {
            Ok(done) => Some(done),
            Err(error) => {
                tracing::warn!(%error, name = self.target.name, "a write of the server itself was refused");
                None
            }
        }
    }

    pub(crate) fn create(&self, object: Value) {
        self.with(|exchange| create::create_object(exchange, object, false));
    }

    pub(crate) fn overwrite(&self, edit: impl Fn(&mut Value)) {
        self.with(|exchange| {
            update::overwrite(exchange, false, |object| {
                edit(object);
                Ok(())
            })
        });
    }

    pub(crate) fn delete(&self) {
        let (namespace, name) = (&self.target.namespace, &self.target.name);
        self.with(|exchange| delete::delete_object(exchange, namespace, name, &DeleteOptions::default()));
    }
}

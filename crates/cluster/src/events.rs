//! Events for people: what happened to an object and why. The same event again only counts up.

use crate::part::Context;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// How many different events are remembered for counting.
const REMEMBERED: usize = 4096;

type Identity = (String, String, String, String);

#[derive(Debug, Default)]
pub(crate) struct Events(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// Name and count of each event, and when it was last used.
    known: BTreeMap<Identity, (String, i32, u64)>,
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Normal,
    Warning,
}

impl Context {
    /// Writes an event about an object. An event that cannot be written holds nothing up.
    pub(crate) async fn event<K>(&self, component: &str, about: &K, level: Level, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        if !self.options.events {
            return;
        }
        let mut reference = about.object_ref(&());
        reference.resource_version = None;
        let namespace = reference.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let uid = reference.uid.clone().unwrap_or_default();
        let named = reference.name.clone().unwrap_or_default();
        let kind = reference.kind.clone().unwrap_or_default();
        let identity = (uid, component.to_owned(), reason.to_owned(), message.to_owned());
        let now = self.time();
        let written = match self.events.again(&identity) {
            Some((name, count)) => {
                let patch = json!({"count": count, "lastTimestamp": now});
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
            }
            None => {
                let event = self.fresh(component, reference, level, reason, message, now, &namespace);
                api.create(&PostParams::default(), &event).await
            }
        };
        match written {
            Ok(event) => self.events.remember(identity, &event),
            Err(error) => {
                self.events.forget(&identity);
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, reason, kind, namespace, name = named, "an event was not written");
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    fn fresh(
        &self,
        component: &str,
        about: ObjectReference,
        level: Level,
        reason: &str,
        message: &str,
        now: Time,
        namespace: &str,
    ) -> Event {
        let name = format!("{}.{:016x}", about.name.as_deref().unwrap_or_default(), self.chance.u64());
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: about,
            type_: Some(if level == Level::Normal { "Normal" } else { "Warning" }.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            count: Some(1),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            source: Some(EventSource { component: Some(component.to_owned()), host: None }),
            reporting_component: Some(component.to_owned()),
            reporting_instance: Some(String::new()),
            ..Event::default()
        }
    }
}

impl Events {
    fn with<T>(&self, then: impl FnOnce(&mut Remembered) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn again(&self, identity: &Identity) -> Option<(String, i32)> {
        self.with(|remembered| {
            remembered.known.get(identity).map(|(name, count, _)| (name.clone(), count.saturating_add(1)))
        })
    }

    fn remember(&self, identity: Identity, event: &Event) {
        self.with(|remembered| {
            remembered.used += 1;
            let entry =
                (event.metadata.name.clone().unwrap_or_default(), event.count.unwrap_or(1), remembered.used);
            remembered.known.insert(identity, entry);
            if remembered.known.len() > REMEMBERED {
                let oldest =
                    remembered.known.iter().min_by_key(|(_, (_, _, used))| *used).map(|(key, _)| key.clone());
                if let Some(oldest) = oldest {
                    remembered.known.remove(&oldest);
                }
            }
        });
    }

    fn forget(&self, identity: &Identity) {
        self.with(|remembered| remembered.known.remove(identity));
    }
}

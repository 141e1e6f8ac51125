//! Keeps a cache up to date.

use crate::cache::Cache;
use futures::StreamExt;
use hostler_base::{Backoff, Chance, Clock};
use kube::api::{ListParams, ObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

const BACKOFF: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));

/// Lists and watches for ever; kube's own back-off draws unseeded jitter, so this one is ours.
pub(crate) async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    cache: Arc<Cache<K>>,
    clock: Clock,
    chance: Chance,
) -> &'static str
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = pin!(watcher::watcher(api.clone(), config));
    let mut attempts = 0;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if !matches!(event, Event::Init) {
                    attempts = 0;
                }
                let listed = matches!(event, Event::InitDone);
                cache.take(event);
                if listed {
                    confirm(&api, &cache).await;
                }
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "a watch failed and is started again"
                );
                clock.sleep(BACKOFF.delay(attempts, &chance)).await;
                attempts = attempts.saturating_add(1);
            }
        }
    }
    "a watch"
}

/// Asks for what we wrote while the list was made and the list does not have: did it come later, or is it gone?
async fn confirm<K>(api: &Api<K>, cache: &Cache<K>)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    for ((namespace, name), version) in cache.unconfirmed() {
        let only = ListParams::default().fields(&format!("metadata.name={name}"));
        match api.list_metadata(&only).await {
            Ok(found) => {
                let same = |meta: &ObjectMeta| meta.namespace.clone().unwrap_or_default() == namespace;
                if !found.items.iter().any(|one| same(&one.metadata)) {
                    cache.refute(&(namespace, name), version);
                }
            }
            // The next event of this kind settles it.
            Err(error) => {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "could not ask for what was written"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;
    use std::sync::Mutex;
    use tokio::sync::Notify;

    /// Answers the first list only when told to, every list with nothing, and a watch never.
    fn server(listed: Arc<Notify>, go_on: Arc<Notify>, calls: Arc<Mutex<Vec<String>>>) -> kube::Client {
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (listed, go_on, calls) = (listed.clone(), go_on.clone(), calls.clone());
            async move {
                let query = request.uri().query().unwrap_or_default().to_owned();
                calls.lock().unwrap().push(query.clone());
                if query.contains("watch=") {
                    std::future::pending::<()>().await;
                }
                if !query.contains("fieldSelector") {
                    listed.notify_one();
                    go_on.notified().await;
                }
                let list = json!({"metadata": {"resourceVersion": "9"}, "items": []}).to_string();
                Ok::<_, std::io::Error>(Response::new(kube::client::Body::from(list.into_bytes())))
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_written_and_deleted_while_the_list_was_made_is_asked_for() {
        let (listed, go_on, calls) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::default());
        let client = server(listed.clone(), go_on.clone(), Arc::clone(&calls));
        let cache: Arc<Cache<ConfigMap>> = Arc::default();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let api = Api::all(client);
        let following =
            follow(api, watcher::Config::default(), cache.clone(), clock.clone(), Chance::from_seed(1));
        let _running = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(following));
        listed.notified().await;
        let metadata = json!({"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "5"});
        cache.write(serde_json::from_value(json!({"metadata": metadata})).unwrap());
        go_on.notify_one();
        clock.sleep(Duration::from_secs(1)).await;
        assert!(cache.all().is_empty(), "{:?}", calls.lock().unwrap());
    }
}

//! Keeps a cache up to date.

use crate::cache::Cache;
use futures::StreamExt;
use hostler_base::{Backoff, Chance, Clock};
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
    let mut events = pin!(watcher::watcher(api, config));
    let mut attempts = 0;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                if !matches!(event, Event::Init) {
                    attempts = 0;
                }
                cache.take(event);
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

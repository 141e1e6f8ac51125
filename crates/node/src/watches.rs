//! What is watched in the target cluster, once for all drains.

use crate::{
    grouped::Grouped,
    objects::{Attachment, BoundPod, Budget, Claim, Volume},
};
use hostler_base::{Chance, Clock};
use hostler_controller::{Cache, Change, Key, Metrics, Vitals, Watch, WatchOptions};
use kube::{Client, ResourceExt};
use std::sync::Arc;

/// The lookups that drains need.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) pods_by_node: Grouped<BoundPod>,
    pub(crate) budgets_by_namespace: Grouped<Budget>,
    pub(crate) attachments_by_node: Grouped<Attachment>,
    pub(crate) attachments_by_volume: Grouped<Attachment>,
    claims: Cache<Claim>,
    volumes: Cache<Volume>,
}

impl View {
    /// The volumes of a pod that are bound and there.
    pub(crate) fn volumes_of(&self, pod: &BoundPod) -> Vec<Arc<Volume>> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims = pod.claims.iter().filter_map(|name| {
            self.claims.get(&Key::new("PersistentVolumeClaim", namespace.clone(), name.clone()))
        });
        claims.filter_map(|claim| self.volume(claim.volume.as_deref()?)).collect()
    }

    pub(crate) fn volume(&self, name: &str) -> Option<Arc<Volume>> {
        self.volumes.get(&Key::new("PersistentVolume", "", name))
    }
}

/// What changed, for whoever may wait for it.
pub(crate) enum News<'a> {
    Node(&'a str),
    Budget { namespace: &'a str, name: &'a str },
    Volume(&'a str),
}

/// The watches of all kinds that drains look at. Nothing is seen before they run.
pub struct Watches {
    pods: Watch<BoundPod>,
    budgets: Watch<Budget>,
    claims: Watch<Claim>,
    volumes: Watch<Volume>,
    attachments: Watch<Attachment>,
}

impl Watches {
    pub(crate) fn new(
        client: &Client,
        clock: &Clock,
        chance: &Chance,
        metrics: &Metrics,
        tell: Arc<dyn Fn(News<'_>) + Send + Sync>,
    ) -> (Self, View) {
        let options = WatchOptions::default;
        let bound = WatchOptions { fields: Some("spec.nodeName!=".to_owned()), ..options() };
        let (clock, metrics) = (|| clock.clone(), || metrics.clone());
        let pods = Watch::<BoundPod>::all(client.clone(), bound, clock(), chance, metrics());
        let budgets = Watch::<Budget>::all(client.clone(), options(), clock(), chance, metrics());
        let claims = Watch::<Claim>::all(client.clone(), options(), clock(), chance, metrics());
        let volumes = Watch::<Volume>::all(client.clone(), options(), clock(), chance, metrics());
        let attachments = Watch::<Attachment>::all(client.clone(), options(), clock(), chance, metrics());
        let view = View {
            pods_by_node: Grouped::default(),
            budgets_by_namespace: Grouped::default(),
            attachments_by_node: Grouped::default(),
            attachments_by_volume: Grouped::default(),
            claims: claims.cache(),
            volumes: volumes.cache(),
        };
        let (groups, hear) = (view.pods_by_node.clone(), tell.clone());
        let pods = pods.on_change(move |change| {
            groups.note(change, |pod| Some(&pod.node));
            if let Some(pod) = object(change) {
                hear(News::Node(&pod.node));
            }
        });
        let (groups, hear) = (view.budgets_by_namespace.clone(), tell.clone());
        let budgets = budgets.on_change(move |change| {
            groups.note(change, |budget| kube::Resource::meta(budget).namespace.as_deref());
            let key = change.key();
            hear(News::Budget { namespace: &key.namespace, name: &key.name });
        });
        let (by_node, by_volume) = (view.attachments_by_node.clone(), view.attachments_by_volume.clone());
        let attachments = attachments.on_change(move |change| {
            by_node.note(change, |attachment| Some(&attachment.node));
            by_volume.note(change, |attachment| attachment.volume.as_deref());
            if let Some(attachment) = object(change) {
                tell(News::Node(&attachment.node));
                tell(News::Volume(attachment.volume.as_deref().unwrap_or_default()));
            }
        });
        (Self { pods, budgets, claims, volumes, attachments }, view)
    }

    /// For the process's health.
    pub fn vitals(&self) -> [Vitals; 5] {
        [
            self.pods.vitals(),
            self.budgets.vitals(),
            self.claims.vitals(),
            self.volumes.vitals(),
            self.attachments.vitals(),
        ]
    }

    /// Waits until everything was seen once. Nothing may be drained before.
    pub fn synced(&self) -> impl Future<Output = ()> + Send + 'static {
        let (pods, budgets, claims, volumes, attachments) = (
            self.pods.cache(),
            self.budgets.cache(),
            self.claims.cache(),
            self.volumes.cache(),
            self.attachments.cache(),
        );
        async move {
            pods.synced().await;
            budgets.synced().await;
            claims.synced().await;
            volumes.synced().await;
            attachments.synced().await;
        }
    }

    /// Follows everything for ever; dropping the future ends it.
    pub async fn run(self) {
        tokio::join!(
            biased;
            self.pods.run(),
            self.budgets.run(),
            self.claims.run(),
            self.volumes.run(),
            self.attachments.run(),
        );
    }
}

fn object<K>(change: &Change<K>) -> Option<&K> {
    match change {
        Change::Applied { new: object, .. } | Change::Deleted { last: object } => Some(object),
        Change::Malformed { .. } => None,
    }
}

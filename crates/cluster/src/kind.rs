//! The kinds the parts work on, and their shared caches.

use crate::cache::{Cache, Watched};
use crate::garbage::graph::{Changes, Feed, Served};
use crate::watch;
use hostler_base::{Chance, Clock};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass, VolumeAttachment};
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A built-in kind, whatever its scope.
pub(crate) trait Kind:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + Debug + Send + Sync + 'static
{
    const NAMESPACED: bool;

    /// The objects of one namespace, or all if the kind has none.
    fn api(client: &Client, namespace: &str) -> Api<Self>;

    fn served() -> Served {
        let verbs = ["delete", "get", "list", "patch", "watch"].map(str::to_owned).into();
        Served { api: ApiResource::erase::<Self>(&()), namespaced: Self::NAMESPACED, verbs }
    }
}

macro_rules! kinds {
    (namespaced: $($namespaced:ty),+; cluster: $($cluster:ty),+;) => {
        $(impl Kind for $namespaced {
            const NAMESPACED: bool = true;
            fn api(client: &Client, namespace: &str) -> Api<Self> {
                Api::namespaced(client.clone(), namespace)
            }
        })+
        $(impl Kind for $cluster {
            const NAMESPACED: bool = false;
            fn api(client: &Client, _: &str) -> Api<Self> {
                Api::all(client.clone())
            }
        })+
    };
}

kinds! {
    namespaced: ConfigMap, ControllerRevision, DaemonSet, Deployment, Job, Lease, PersistentVolumeClaim, Pod,
        PodDisruptionBudget, ReplicaSet, Secret, ServiceAccount, StatefulSet;
    cluster: CSIDriver, CSINode, Namespace, Node, PersistentVolume, StorageClass, VolumeAttachment;
}

macro_rules! select {
    () => {
        None::<&str>
    };
    ($select:literal) => {
        Some($select)
    };
}

macro_rules! caches {
    ($($field:ident: $kind:ty $(where $select:literal)?),+ $(,)?) => {
        /// One cache per kind. Only those that somebody wants are watched.
        #[derive(Debug, Default)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Arc<Cache<$kind>>,)+
        }

        impl Caches {
            /// Lets the garbage collector's graph follow every kind that is watched as a whole, and says which they are.
            pub(crate) fn feed(&self, changes: &Changes) -> Vec<Served> {
                let mut fed = Vec::new();
                $(if select!($($select)?).is_none() {
                    let served = <$kind>::served();
                    self.$field.feed(Feed::new(Arc::new(served.clone()), changes.clone()));
                    fed.push(served);
                })+
                fed
            }

            /// The caches of kinds that are watched as a whole.
            pub(crate) fn whole(&self) -> Vec<&dyn Watched> {
                let mut whole: Vec<&dyn Watched> = Vec::new();
                $(if select!($($select)?).is_none() {
                    whole.push(&*self.$field);
                })+
                whole
            }

            /// Starts the watches of all wanted caches.
            pub(crate) fn start(&self, tasks: &mut JoinSet<&'static str>, client: &Client, clock: &Clock, chance: &Chance) {
                $(if self.$field.wanted() {
                    let config = watcher::Config::default();
                    let config = match select!($($select)?) {
                        Some(fields) => config.fields(fields),
                        None => config,
                    };
                    let api = Api::<$kind>::all(client.clone());
                    let chance = chance.split(stringify!($field));
                    tasks.spawn(watch::follow(api, config, self.$field.clone(), clock.clone(), chance));
                })+
            }
        }
    };
}

caches! {
    pods: Pod,
    nodes: Node,
    namespaces: Namespace,
    replica_sets: ReplicaSet,
    deployments: Deployment,
    stateful_sets: StatefulSet,
    daemon_sets: DaemonSet,
    jobs: Job,
    revisions: ControllerRevision,
    budgets: PodDisruptionBudget,
    claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
    storage_classes: StorageClass,
    attachments: VolumeAttachment,
    csi_nodes: CSINode,
    csi_drivers: CSIDriver,
    leases: Lease,
    accounts: ServiceAccount,
    root_certificates: ConfigMap where "metadata.name=kube-root-ca.crt",
    tokens: Secret where "type=bootstrap.kubernetes.io/token",
}

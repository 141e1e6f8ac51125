//! Keeps classes while Machines use them, and Secrets while classes do.
//!
//! Without that, deleting everything at once would take the credentials away that are needed to delete the
//! servers.

mod decide;

use crate::{
    api::{Machine, MachineClass, names},
    clouds::Clouds,
};
use async_trait::async_trait;
use decide::{Seen, Step, decide};
use hostler_base::Clock;
use hostler_controller::{
    Cache, Change, EventKind, Key, Lane, Outcome, Queue, Reconciler, Recorder, Run, Trouble,
};
use k8s_openapi::api::core::v1::{Secret, SecretReference};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::{collections::BTreeSet, fmt::Debug, time::Duration};

/// The name of the queue; its lanes have the names of Gardener's queues for the same.
pub(crate) const QUEUE: &str = "keep";
const CLASSES: Lane = Lane { name: "machineclass", workers: 10 };
const SECRETS: Lane = Lane { name: "secret", workers: 10 };
const CLASS: &str = "MachineClass";
const SECRET: &str = "Secret";
/// How soon a class whose servers are not all gone is looked at again.
const SERVERS_AGAIN: Duration = Duration::from_secs(30);
/// The same for one that nobody wants to be gone.
const UNHURRIED: Duration = Duration::from_mins(10);

/// The controller of the finalizers of MachineClasses and Secrets.
pub(crate) struct Keeper {
    pub(crate) client: Client,
    pub(crate) clouds: Clouds,
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) machines: Cache<Machine>,
    pub(crate) classes: Cache<MachineClass>,
    pub(crate) secrets: Cache<Secret>,
}

#[async_trait]
impl Reconciler for Keeper {
    fn lane(&self, key: &Key) -> Lane {
        if key.kind == CLASS { CLASSES } else { SECRETS }
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let key = &run.key;
        if key.kind == CLASS {
            let Some(class) = self.classes.get(key) else { return Ok(Outcome::Done) };
            let used = self.machines.any(|machine| uses_class(machine, key));
            let unused_for_sure = async || {
                let machines = self.fresh::<Machine>(&key.namespace).await?;
                if machines.iter().any(|machine| uses_class(machine, key)) {
                    return Ok(Sure::Used);
                }
                let names = machines.iter().map(ResourceExt::name_any).collect();
                self.no_servers_left(&class, &names).await
            };
            self.keep(&*class, names::FINALIZER, used, unused_for_sure).await
        } else {
            let Some(secret) = self.secrets.get(key) else { return Ok(Outcome::Done) };
            let used = self.classes.any(|class| uses_secret(class, key));
            let unused_for_sure = async || {
                let classes = self.fresh::<MachineClass>(&key.namespace).await?;
                Ok(if classes.iter().any(|class| uses_secret(class, key)) {
                    Sure::Used
                } else {
                    Sure::Unused
                })
            };
            self.keep(&*secret, names::SECRET_FINALIZER, used, unused_for_sure).await
        }
    }
}

/// Whether something is not used any more, looked up anew.
enum Sure {
    Unused,
    Used,
    /// Nobody uses it, but something made with it is left.
    NotYet,
}

impl Keeper {
    /// Whether the cloud has no server of the class any more, but for those whose Machines have moved to another one:
    /// without the class nobody could look for them.
    async fn no_servers_left(
        &self,
        class: &MachineClass,
        machines: &BTreeSet<String>,
    ) -> Result<Sure, Trouble> {
        if !self.clouds.serve(class) {
            return Ok(Sure::Unused);
        }
        let servers = match self.clouds.servers_of(class) {
            Ok(servers) => servers,
            // Nothing can be ordered with it any more, but what was made with it earlier may be there.
            Err(failure) => {
                let message = format!(
                    "the class is kept until its servers can be listed: {failure}; if it never had any, take the finalizer {} off",
                    names::FINALIZER
                );
                self.tell(class, "ServersUnknown", message);
                return Ok(Sure::NotYet);
            }
        };
        let scope = servers.scope();
        let listed = match self.clouds.list(&servers, Some(self.clock.now())).await {
            Ok(listed) => listed,
            Err(failure) => {
                let message = format!("the class is kept until its servers can be listed: {failure}");
                self.tell(class, "ServersUnknown", message);
                return Err(Trouble::new(failure));
            }
        };
        let owned = |name: &Option<String>| name.as_ref().is_some_and(|name| machines.contains(name));
        let left: Vec<String> = listed
            .machines()
            .iter()
            .filter(|server| scope.holds(&server.marks))
            .filter(|server| !owned(&server.marks.machine))
            .map(|server| server.provider_id.to_string())
            .collect();
        if left.is_empty() {
            return Ok(Sure::Unused);
        }
        self.tell(
            class,
            "ServersLeft",
            format!("the class is kept until its servers are gone: {}", left.join(", ")),
        );
        Ok(Sure::NotYet)
    }

    fn tell(&self, class: &MachineClass, reason: &str, message: String) {
        self.recorder.record(&class.object_ref(&()), EventKind::Normal, reason, message);
    }

    async fn keep<K>(
        &self,
        object: &K,
        finalizer: &str,
        used: bool,
        unused_for_sure: impl AsyncFnOnce() -> Result<Sure, Trouble>,
    ) -> Result<Outcome, Trouble>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let mut finalizers = object.finalizers().to_vec();
        let seen = Seen {
            used,
            deleting: object.meta().deletion_timestamp.is_some(),
            kept: finalizers.iter().any(|name| name == finalizer),
        };
        match decide(seen) {
            Step::Done => return Ok(Outcome::Done),
            Step::Add => finalizers.push(finalizer.to_owned()),
            // A cache shows that something is there, never that nothing is.
            Step::Remove => match unused_for_sure().await? {
                Sure::Used => return Ok(Outcome::Done),
                Sure::NotYet if seen.deleting => return Ok(Outcome::After(SERVERS_AGAIN)),
                Sure::NotYet => return Ok(Outcome::After(UNHURRIED)),
                Sure::Unused => finalizers.retain(|name| name != finalizer),
            },
        }
        let api: Api<K> = Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default());
        let patch = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(),
            "finalizers": finalizers}});
        match api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Outcome::Done),
            other => Ok(other.map(|_| Outcome::Done)?),
        }
    }

    /// What is there now. Fails if one of them cannot be understood: it might be one that uses the object.
    async fn fresh<K>(&self, namespace: &str) -> Result<Vec<K>, Trouble>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Wakes the class of a Machine that came, went or moved.
    pub(crate) fn of_machine(&self) -> impl Fn(&Change<Machine>) -> Vec<Key> + Send + Sync + use<> {
        let classes = self.classes.clone();
        move |change| {
            let class = |machine: &Machine| {
                Key::new(CLASS, machine.namespace().unwrap_or_default(), machine.spec.class.name.clone())
            };
            match change {
                Change::Applied { old: Some(old), new } if old.spec.class == new.spec.class => Vec::new(),
                Change::Applied { old, new } => {
                    old.iter().chain([new]).map(|machine| class(machine)).collect()
                }
                Change::Deleted { last } => vec![class(last)],
                Change::Malformed { .. } => classes.list().iter().map(|class| Key::of(&**class)).collect(),
            }
        }
    }

    /// Wakes the Secrets of a class that changed.
    pub(crate) fn of_class(&self) -> impl Fn(&Change<MachineClass>) -> Vec<Key> + Send + Sync + use<> {
        let secrets = self.secrets.clone();
        move |change| match change {
            Change::Applied { old, new } => {
                old.iter().chain([new]).flat_map(|class| secrets_of(class)).collect()
            }
            Change::Deleted { last } => secrets_of(last),
            Change::Malformed { .. } => secrets.list().iter().map(|secret| Key::of(&**secret)).collect(),
        }
    }

    /// Why a new Machine has to wait, in words: what it uses could still vanish under it. What is not there at all
    /// is another matter.
    pub(crate) fn not_yet_kept(
        machine: &Machine,
        classes: &Cache<MachineClass>,
        secrets: &Cache<Secret>,
    ) -> Option<String> {
        let key = Key::new(CLASS, machine.namespace().unwrap_or_default(), machine.spec.class.name.clone());
        let class = classes.get(&key).filter(|_| uses_class(machine, &key))?;
        let of_class = lacks(&*class, CLASS, names::FINALIZER);
        of_class.or_else(|| {
            let mut secrets = secrets_of(&class).into_iter().filter_map(|key| secrets.get(&key));
            secrets.find_map(|secret| lacks(&*secret, SECRET, names::SECRET_FINALIZER))
        })
    }
}

/// What to say about an object that has not our finalizer.
fn lacks<K: Resource>(object: &K, kind: &str, finalizer: &str) -> Option<String> {
    if object.finalizers().iter().any(|name| name == finalizer) {
        return None;
    }
    let name = object.name_any();
    Some(if object.meta().deletion_timestamp.is_some() {
        format!("the {kind} {name:?} is being deleted: create it anew once it is gone, or name another one")
    } else {
        format!("waiting until the {kind} {name:?} has its finalizer {finalizer}")
    })
}

/// The queue this controller works from.
pub(crate) fn queue(
    clock: &hostler_base::Clock,
    chance: &hostler_base::Chance,
    metrics: &hostler_controller::Metrics,
) -> Queue {
    Queue::new(hostler_controller::QueueOptions::new(QUEUE), clock.clone(), chance, metrics.clone())
}

fn uses_class(machine: &Machine, class: &Key) -> bool {
    let wanted = &machine.spec.class;
    wanted.kind == CLASS
        && wanted.name == class.name
        && machine.namespace().unwrap_or_default() == class.namespace
}

fn uses_secret(class: &MachineClass, secret: &Key) -> bool {
    secrets_of(class).contains(secret)
}

fn secrets_of(class: &MachineClass) -> Vec<Key> {
    let own = class.namespace().unwrap_or_default();
    let key = |SecretReference { name, namespace }: &SecretReference| {
        let namespace = namespace.clone().unwrap_or_else(|| own.clone());
        Key::new(SECRET, namespace, name.clone().unwrap_or_default())
    };
    let references = [&class.spec.secret_ref, &class.spec.credentials_secret_ref];
    references.into_iter().flatten().map(key).collect()
}

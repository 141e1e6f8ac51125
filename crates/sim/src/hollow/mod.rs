//! Hollow nodes: simulated machines that behave towards the API server as a kubelet does.
//!
//! A booted machine registers its Node, renews its Lease, becomes Ready, runs the pods that are bound to it
//! and honours their grace periods. One that is shut down just stops: its Node stays until somebody deletes
//! it. All machines share one watch of pods.

mod machine;
mod node;
mod pod;

use futures::TryStreamExt;
use hostler_base::Clock;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use std::{
    collections::BTreeMap,
    future::pending,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, mpsc},
    task::{AbortHandle, JoinSet},
};

pub use pod::{COMPLETE_AFTER, FAIL_AFTER, READY_AFTER, STOP_AFTER};

/// How long to wait after a failed call.
const RETRY: Duration = Duration::from_secs(1);
/// How long the watch of pods may tell nothing.
const SILENCE: Duration = Duration::from_mins(10);

/// A machine that can become a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// The node's name.
    pub name: String,
    pub provider_id: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// What the kubelet registers with, beside the taint of a node that is not ready yet.
    pub taints: Vec<NodeTaint>,
    /// For example `cpu`, `memory`, `pods`.
    pub capacity: BTreeMap<String, String>,
    /// What of it pods may use, where that is less.
    pub allocatable: BTreeMap<String, String>,
    /// Drawn from the machine's number if there is none.
    pub internal_ip: Option<String>,
    /// From power on until the kubelet registers.
    pub boot_time: Duration,
    /// From the registration until the node is Ready.
    pub ready_time: Duration,
    /// A machine that runs but whose node never appears.
    pub never_joins: bool,
    /// The node registers only once this token, `id.secret`, is valid in kube-system. Without one it needs none.
    pub bootstrap_token: Option<String>,
}

impl MachineSpec {
    /// A machine with 4 cores and 16 GiB that joins after 20 s and is Ready 2 s later.
    pub fn new(name: &str) -> Self {
        let capacity = [("cpu", "4"), ("memory", "16Gi"), ("pods", "110"), ("ephemeral-storage", "100Gi")];
        Self {
            name: name.to_owned(),
            provider_id: None,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            allocatable: BTreeMap::new(),
            capacity: capacity.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            internal_ip: None,
            boot_time: Duration::from_secs(20),
            ready_time: Duration::from_secs(2),
            never_joins: false,
            bootstrap_token: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTaint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

enum Command {
    Boot(Box<MachineSpec>),
    Shutdown(String),
    Silence(String, bool),
}

/// The handle on all hollow nodes.
#[derive(Clone)]
pub struct HollowNodes(mpsc::UnboundedSender<Command>);

impl HollowNodes {
    /// The handle, and the future that runs the machines.
    pub fn new(client: Client, clock: Clock) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (sender, commands) = mpsc::unbounded_channel();
        let running = Running {
            client,
            clock,
            pods: Pods::default(),
            machines: BTreeMap::new(),
            booted: 0,
            tasks: JoinSet::new(),
        };
        (Self(sender), running.run(commands))
    }

    /// Powers a machine on. One that is already running under this name is replaced, as by a reboot.
    pub fn boot(&self, machine: MachineSpec) {
        self.send(Command::Boot(Box::new(machine)));
    }

    /// The machine is gone at once, or has crashed: nobody tells the API server.
    pub fn shutdown(&self, name: &str) {
        self.send(Command::Shutdown(name.to_owned()));
    }

    /// The machine runs on, but nothing of it reaches the API server any more.
    pub fn silence(&self, name: &str) {
        self.send(Command::Silence(name.to_owned(), true));
    }

    /// Ends a silence.
    pub fn hear(&self, name: &str) {
        self.send(Command::Silence(name.to_owned(), false));
    }

    fn send(&self, command: Command) {
        // When the machines' world has ended there is nobody to tell.
        let _ = self.0.send(command);
    }
}

/// The pods of all nodes as the shared watch sees them.
#[derive(Clone, Default)]
pub(crate) struct Pods(Arc<Mutex<BTreeMap<String, OfNode>>>);

#[derive(Default)]
struct OfNode {
    pods: BTreeMap<(String, String), Arc<Pod>>,
    changed: Arc<Notify>,
}

impl Pods {
    pub(crate) fn of(&self, node: &str) -> Vec<Arc<Pod>> {
        self.lock().get(node).map(|of_node| of_node.pods.values().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn changed(&self, node: &str) -> Arc<Notify> {
        self.lock().entry(node.to_owned()).or_default().changed.clone()
    }

    fn put(&self, pod: Pod) {
        let Some(node) = node_of(&pod) else { return };
        let mut nodes = self.lock();
        let of_node = nodes.entry(node).or_default();
        of_node.pods.insert(key_of(&pod), Arc::new(pod));
        of_node.changed.notify_one();
    }

    fn remove(&self, pod: &Pod) {
        if let Some(of_node) = node_of(pod).and_then(|node| {
            self.lock().get_mut(&node).map(|of_node| {
                of_node.pods.remove(&key_of(pod));
                of_node.changed.clone()
            })
        }) {
            of_node.notify_one();
        }
    }

    /// A new list is the whole truth: whatever is not in it is gone.
    fn replace(&self, pods: Vec<Pod>) {
        let mut nodes = self.lock();
        nodes.values_mut().for_each(|of_node| of_node.pods.clear());
        for pod in pods {
            if let Some(node) = node_of(&pod) {
                nodes.entry(node).or_default().pods.insert(key_of(&pod), Arc::new(pod));
            }
        }
        nodes.values().for_each(|of_node| of_node.changed.notify_one());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone().filter(|node| !node.is_empty())
}

fn key_of(pod: &Pod) -> (String, String) {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

struct Running {
    client: Client,
    clock: Clock,
    pods: Pods,
    machines: BTreeMap<String, (AbortHandle, mpsc::UnboundedSender<bool>)>,
    booted: usize,
    tasks: JoinSet<()>,
}

impl Running {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        self.tasks.spawn(watch_pods(self.client.clone(), self.pods.clone()));
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(Command::Boot(machine)) => self.boot(*machine),
                    Some(Command::Shutdown(name)) => {
                        if let Some((task, _)) = self.machines.remove(&name) {
                            task.abort();
                        }
                    }
                    Some(Command::Silence(name, silent)) => {
                        if let Some((_, silences)) = self.machines.get(&name) {
                            let _ = silences.send(silent);
                        }
                    }
                    // Nobody can boot or shut down anything any more; the machines run on.
                    None => pending().await,
                },
                Some(ended) = self.tasks.join_next() => if let Err(error) = ended && error.is_panic() {
                    // A node that is silently gone would be taken for a fault of whoever looks after it.
                    std::panic::resume_unwind(error.into_panic());
                },
            }
        }
    }

    fn boot(&mut self, spec: MachineSpec) {
        let name = spec.name.clone();
        let (silences, silence_changes) = mpsc::unbounded_channel();
        let machine = machine::Machine::new(
            self.client.clone(),
            self.clock.clone(),
            self.pods.clone(),
            spec,
            self.booted,
        );
        self.booted += 1;
        let task = self.tasks.spawn(machine.run(silence_changes));
        if let Some((before, _)) = self.machines.insert(name, (task, silences)) {
            before.abort();
        }
    }
}

/// Follows all pods for ever. A watch that has told nothing for long may be on a connection that died without a
/// word: it is begun anew.
async fn watch_pods(client: Client, pods: Pods) {
    loop {
        let bound = watcher::Config::default().fields("spec.nodeName!=");
        let mut events = pin!(watcher(Api::<Pod>::all(client.clone()), bound));
        let mut listed = Vec::new();
        while let Ok(event) = tokio::time::timeout(SILENCE, events.try_next()).await {
            match event {
                Ok(Some(Event::Init)) => listed.clear(),
                Ok(Some(Event::InitApply(pod))) => listed.push(pod),
                Ok(Some(Event::InitDone)) => pods.replace(std::mem::take(&mut listed)),
                Ok(Some(Event::Apply(pod))) => pods.put(pod),
                Ok(Some(Event::Delete(pod))) => pods.remove(&pod),
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "the hollow nodes' watch of pods failed");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_watch_on_a_dead_connection_is_begun_anew() {
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let lists = counted.clone();
            async move {
                if request.uri().query().unwrap_or_default().contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                lists.fetch_add(1, Ordering::SeqCst);
                let list = json!({"metadata": {"resourceVersion": "1"}, "items": []}).to_string();
                Ok::<_, std::io::Error>(Response::new(kube::client::Body::from(list.into_bytes())))
            }
        });
        let watching = watch_pods(Client::new(service, "default"), Pods::default());
        assert!(tokio::time::timeout(SILENCE * 3, watching).await.is_err(), "it goes on for ever");
        assert_eq!(lists.load(Ordering::SeqCst), 3);
    }
}

//! A world with workloads, and a controller that drains the nodes whose annotations ask for it.

use async_trait::async_trait;
use hostler_cluster::Options;
use hostler_controller::{
    Cache, Key, Lane, Metrics, Outcome, Queue, QueueOptions, Reconciler, Run, StackOptions, Trouble, Watch,
    WatchOptions,
};
use hostler_node::Node;
use hostler_node::{Drainer, Failing, Limits, Order, Parts, Step};
use hostler_sim::{
    Context, HollowNodes, MachineSpec, Plan, World,
    csi::{Csi, CsiSettings, STACKIT_BLOCK_STORAGE},
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectList, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

pub const NAMESPACE: &str = "default";
/// Since when the node is to be drained.
const WANTED: &str = "drain.test/wanted";
const FORCE: &str = "drain.test/force";
/// How long it may take, in seconds.
const TIMEOUT: &str = "drain.test/timeout";
/// How long volumes may stay attached, and how long to wait until they are attached elsewhere, in seconds.
pub const DETACH: &str = "drain.test/detach";
pub const REATTACH: &str = "drain.test/reattach";
/// After that its attachments are deleted.
const CLEAR: &str = "drain.test/clear";
/// What came of it.
const DONE: &str = "drain.test/done";
/// What it waits for.
const WAITS: &str = "drain.test/waits";

const LONG: Duration = Duration::from_mins(20);

pub struct Stage {
    pub world: World,
    pub nodes: HollowNodes,
    pub csi: Csi,
    pub admin: Client,
}

impl Stage {
    /// A world with these nodes, all of them ready, and with the controller running.
    pub async fn new(plan: Plan, csi: CsiSettings, names: &[&str]) -> Self {
        let mut stage = Self::without_controller(plan, csi, names).await;
        stage.start_controller();
        stage
    }

    /// A world in which nothing happens by itself but what the controller does.
    pub fn bare(plan: Plan) -> Self {
        let mut stage = Self::of(World::in_virtual_time(plan), CsiSettings::default());
        stage.start_controller();
        stage
    }

    fn of(mut world: World, csi: CsiSettings) -> Self {
        let csi = world.start_csi(csi);
        let nodes = world.start_hollow_nodes();
        let admin = world.client();
        Self { world, nodes, csi, admin }
    }

    pub async fn without_controller(plan: Plan, csi: CsiSettings, names: &[&str]) -> Self {
        let mut world = World::in_virtual_time(plan);
        world.start_cluster(Options { attacher: false, events: false, ..Options::all() });
        let mut stage = Self::of(world, csi);
        for name in names {
            stage.nodes.boot(MachineSpec { boot_time: Duration::from_secs(1), ..MachineSpec::new(name) });
        }
        let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
            "provisioner": STACKIT_BLOCK_STORAGE, "volumeBindingMode": "WaitForFirstConsumer"});
        stage.create(class).await;
        stage
            .until("nodes are ready", async |stage| {
                let nodes = stage.list::<Node>().await;
                nodes.iter().filter(|node| hostler_node::is_ready(node)).count() == names.len()
                    && nodes.iter().all(|node| node.spec.as_ref().is_none_or(|spec| spec.taints.is_none()))
            })
            .await;
        stage
    }

    pub fn start_controller(&mut self) -> hostler_sim::Process {
        self.world.start("drainer", |context| Box::pin(controller(context)))
    }

    pub async fn create(&self, object: Value) {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let namespaced = !matches!(kind, "StorageClass" | "Node" | "PriorityClass");
        let api: Api<DynamicObject> = if namespaced {
            Api::namespaced_with(self.admin.clone(), NAMESPACE, &resource)
        } else {
            Api::all_with(self.admin.clone(), &resource)
        };
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    }

    pub async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let list: ObjectList<K> =
            Api::<K>::all(self.admin.clone()).list(&ListParams::default()).await.unwrap();
        list.items
    }

    /// The names of the pods on a node.
    pub async fn pods_on(&self, node: &str) -> Vec<String> {
        let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
        let pods = Api::<Pod>::all(self.admin.clone()).list(&here).await.unwrap();
        pods.items.iter().map(ResourceExt::name_any).collect()
    }

    pub async fn until(&mut self, what: &str, condition: impl AsyncFn(&Self) -> bool) {
        let reached = self.try_until(what, LONG, condition).await;
        assert_eq!(reached, Ok(()), "{}", self.tail());
    }

    pub async fn try_until(
        &mut self,
        what: &str,
        limit: Duration,
        condition: impl AsyncFn(&Self) -> bool,
    ) -> Result<(), String> {
        let deadline = self.world.clock().now() + jiff::SignedDuration::try_from(limit).unwrap();
        while !condition(self).await {
            if self.world.clock().now() >= deadline {
                return Err(format!("not reached within {limit:?}: {what}"));
            }
            if let Some(violation) = self.world.wire().unwrap().violations().first() {
                return Err(format!("before {what}: {}", violation.message));
            }
            self.world.run_for(Duration::from_millis(500)).await;
        }
        Ok(())
    }

    fn tail(&self) -> String {
        let trace = self.world.wire().unwrap().trace();
        let lines: Vec<&str> = trace.lines().filter(|line| line.contains("drainer")).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    pub async fn annotate(&self, node: &str, pairs: &[(&str, &str)]) {
        let annotations: serde_json::Map<String, Value> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let nodes = Api::<Node>::all(self.admin.clone());
        nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn order(&self, node: &str) {
        self.order_within(node, 7200).await;
    }

    pub async fn order_within(&self, node: &str, seconds: u64) {
        let now = self.world.clock().now().to_string();
        self.annotate(node, &[(WANTED, &now), (TIMEOUT, &seconds.to_string())]).await;
    }

    pub async fn order_and_clear(&self, node: &str) {
        self.annotate(node, &[(CLEAR, "yes")]).await;
        self.order(node).await;
    }

    pub async fn force(&self, node: &str) {
        self.annotate(node, &[(FORCE, "yes")]).await;
    }

    pub async fn done(&self, node: &str) -> Option<String> {
        self.annotation(node, DONE).await
    }

    pub async fn waits(&self, node: &str) -> String {
        self.annotation(node, WAITS).await.unwrap_or_default()
    }

    async fn annotation(&self, node: &str, key: &str) -> Option<String> {
        let node = Api::<Node>::all(self.admin.clone()).get(node).await.unwrap();
        node.annotations().get(key).cloned()
    }

    pub async fn until_done(&mut self, node: &str) -> String {
        self.until(&format!("{node} is drained"), async |stage| stage.done(node).await.is_some()).await;
        self.done(node).await.unwrap()
    }

    /// How often the controller did this.
    pub fn calls(&self, verb: &str, end: &str) -> usize {
        let recorded = self.world.wire().unwrap().recording().0;
        recorded.iter().filter(|(_, call)| call.verb == verb && call.template.ends_with(end)).count()
    }
}

pub fn deployment(name: &str, replicas: u32, annotations: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": template(name, annotations)}})
}

pub fn template(name: &str, annotations: Value) -> Value {
    json!({"metadata": {"labels": {"app": name}, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i"}]}})
}

pub fn stateful_set(name: &str, replicas: u32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}}, "template": template(name, json!({})),
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "disk",
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

pub fn budget(name: &str, min_available: u32) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}})
}

pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

pub fn is_of(pod: &Pod, app: &str) -> bool {
    pod.labels().get("app").is_some_and(|label| label == app)
}

/// Drains nodes as their annotations ask, and writes down what came of it.
struct Controller {
    client: Client,
    nodes: Cache<Node>,
    drainer: Drainer,
}

pub async fn controller(context: Context) {
    let (clock, chance, metrics) = (context.clock.clone(), context.chance.clone(), Metrics::new());
    let options = StackOptions::alone("kubernetes", metrics.clone(), clock.clone());
    let client = hostler_controller::kube_client(context.transport("kubernetes"), &options, NAMESPACE);
    let queue = Queue::new(QueueOptions::new("drains"), clock.clone(), &chance, metrics.clone());
    let nodes =
        Watch::<Node>::all(client.clone(), WatchOptions::default(), clock.clone(), &chance, metrics.clone());
    let (drainer, watches) = Drainer::new(Parts {
        client: client.clone(),
        evictions: client.clone(),
        nodes: nodes.cache(),
        queue: queue.clone(),
        clock,
        chance,
        metrics,
    });
    let cache = nodes.cache();
    let nodes = nodes.wakes(&queue);
    let synced = watches.synced();
    let controller = Arc::new(Controller { client, nodes: cache.clone(), drainer });
    let work = async {
        cache.synced().await;
        synced.await;
        queue.run(controller, context.shutdown.clone()).await
    };
    tokio::select! {
        biased;
        _ = work => {}
        () = nodes.run() => {}
        () = watches.run() => {}
    }
}

impl Controller {
    fn order(node: &Node) -> Option<Order> {
        let read = |key: &str| node.annotations().get(key);
        let since: Timestamp = read(WANTED)?.parse().ok()?;
        let seconds = |key: &str| Some(Duration::from_secs(read(key)?.parse().ok()?));
        let defaults = Limits::default();
        let limits = Limits {
            timeout: seconds(TIMEOUT)?,
            detach: seconds(DETACH).unwrap_or(defaults.detach),
            reattach: seconds(REATTACH).unwrap_or(defaults.reattach),
            ..defaults
        };
        Some(Order {
            key: Key::of(node),
            node: node.name_any(),
            is_meant: Arc::new(|_| true),
            since,
            limits,
            force: read(FORCE).is_some(),
            mark: Some(("ScaleDown", "it is drained")),
            volumes: None,
            leave_ended: false,
        })
    }

    async fn write(&self, node: &str, key: &str, text: &str) -> Result<(), Trouble> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: text}}}));
        let nodes = Api::<Node>::all(self.client.clone());
        self.nodes.learn(Arc::new(nodes.patch(node, &PatchParams::default(), &patch).await?));
        Ok(())
    }
}

#[async_trait]
impl Reconciler for Controller {
    fn lane(&self, _: &Key) -> Lane {
        Lane::new("drain", 5)
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        for _ in 0..24 {
            let Some(node) = self.nodes.get(&run.key) else { break };
            let Some(order) = Self::order(&node) else { break };
            if let Some(done) = node.annotations().get(DONE) {
                if node.annotations().contains_key(CLEAR) && !done.contains("cleared") {
                    match self.drainer.look_at_attachments(&order) {
                        Step::Act(act) => self.drainer.act(&order, &act).await,
                        Step::Wait(waiting) => return Ok(Outcome::After(waiting.again)),
                        Step::Done(cleared) => {
                            self.write(&order.node, DONE, &format!("{done} cleared {cleared:?}")).await?;
                        }
                    }
                    continue;
                }
                break;
            }
            match self.drainer.look(&order) {
                Step::Act(act) => self.drainer.act(&order, &act).await,
                Step::Wait(waiting) => {
                    let failing = match waiting.failing {
                        Some(Failing::Drain(text) | Failing::Condition(text)) => format!(" FAILING {text}"),
                        None => String::new(),
                    };
                    let text = format!("{}: {}{failing}", waiting.reason, waiting.message);
                    if node.annotations().get(WAITS) != Some(&text) {
                        self.write(&order.node, WAITS, &text).await?;
                    }
                    return Ok(Outcome::After(waiting.again));
                }
                Step::Done(drained) => {
                    let how =
                        drained.forced.map_or_else(|| "drained".to_owned(), |why| format!("forced: {why}"));
                    let left = if drained.volumes_left { ", volumes left" } else { "" };
                    let failed = drained.failed.map(|text| format!(", failed: {text}")).unwrap_or_default();
                    self.write(&order.node, DONE, &format!("{how}{left}{failed}")).await?;
                }
            }
        }
        self.drainer.forget(&run.key);
        Ok(Outcome::Done)
    }
}

//! Gardener's own controller has begun a deletion, and Hostler goes on with it; and back: whatever Hostler writes leads
//! the other one to the same step.

use crate::flow::{CLUSTER, LONG, NAMESPACE, PROJECT, REGION, SOON, Stage, machine, open_to_all};
use hostler_gardener::{
    api::{Machine, Phase},
    life::{Cursor, text},
};
use hostler_sim::{
    Plan,
    stackit::{Fault, Settings},
};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

const FINALIZER: &str = "machine.sapcloud.io/machine-controller-manager";
const NODE_FINALIZER: &str = "node.machine.sapcloud.io/machine-controller";

/// How far the other controller came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    /// Server and node are there.
    Nothing,
    /// The server is gone.
    Server,
    /// The node, too.
    Node,
}

/// Every text that Gardener's controller writes during a deletion, with what it has done by then.
fn texts() -> Vec<(Reached, String)> {
    use Reached::{Node, Nothing, Server};
    let start = text::GET_VM_STATUS;
    let table = [
        (Nothing, "Deleting machine from cloud provider".to_owned()),
        (Nothing, "a text that nobody knows".to_owned()),
        (Nothing, String::new()),
        (Nothing, start.to_owned()),
        (Nothing, format!("Error occurred with decoding machine error status while getting VM status, aborting with retry. {start}")),
        (Nothing, format!("Error occurred with decoding machine error status while getting VM status, aborting without retry. machine code: x {start}")),
        (Nothing, "Initiate node drain".to_owned()),
        (Server, "VM was not found at provider. Moving forward to node drain. Initiate node drain".to_owned()),
        (Nothing, "VM instance was not initialized. Moving forward to node drain. Initiate node drain".to_owned()),
        (Nothing, "Drain failed due to - x. Will retry in next sync. Initiate node drain".to_owned()),
        (Nothing, "Drain failed due to failure in update of node conditions - x. Will retry in next sync. Initiate node drain".to_owned()),
        (Nothing, "Drain successful. Initiate VM deletion".to_owned()),
        (Nothing, "Force Drain successful. Delete Volume Attachments".to_owned()),
        (Nothing, "Drain failed due to - x. However, since it's a force deletion shall continue deletion of VM. Delete Volume Attachments".to_owned()),
        (Nothing, "Skipping drain as nodeName is not a valid one for machine. Initiate VM deletion".to_owned()),
        (Nothing, "Skipping deleteNodeVolAttachments due to - x. Moving to VM Deletion. Initiate VM deletion".to_owned()),
        (Nothing, "Node Volumes for node: m-2 are already detached. Moving to VM Deletion. Initiate VM deletion".to_owned()),
        (Nothing, "No Live VolumeAttachments for node: m-2. Moving to VM Deletion. Initiate VM deletion".to_owned()),
        (Nothing, "VM deletion failed due to - x. However, will re-try in the next resync. Initiate VM deletion".to_owned()),
        (Nothing, "VM deletion failed due to - x. Aborting operation. Initiate VM deletion".to_owned()),
        (Nothing, "Error occurred while decoding machine error: x. Initiate VM deletion".to_owned()),
        (Nothing, "Running without target cluster, skipping node drain and volume attachment deletion. Initiate VM deletion".to_owned()),
        (Server, "VM deletion was successful. Initiate node object deletion".to_owned()),
        (Server, "VM not found. Continuing deletion flow. Initiate node object deletion".to_owned()),
        (Node, "Deletion of Node Object \"m-2\" is successful. Initiate machine object finalizer removal".to_owned()),
        (Node, "No node object found for \"m-2\", continuing deletion flow. Initiate machine object finalizer removal".to_owned()),
        (Node, "Label \"node\" not present on machine \"m-2\", continuing deletion flow. Initiate machine object finalizer removal".to_owned()),
    ];
    table.to_vec()
}

fn machines(stage: &Stage) -> Api<Machine> {
    Api::namespaced(stage.admin.clone(), NAMESPACE)
}

async fn set_status(stage: &Stage, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    machines(stage).patch_status("m-2", &PatchParams::default(), &patch).await.unwrap();
}

/// A machine as Gardener's controller leaves it behind in the middle of its deletion.
async fn half_deleted(stage: &mut Stage, reached: Reached, description: &str) {
    stage.create_class_and_secret().await;
    let labels = [
        ("kubernetes.io/machine", "m-2"),
        ("kubernetes.io/machineclass", "small"),
        ("kubernetes.io/cluster", CLUSTER),
    ];
    let server = stage.cloud.add_foreign(PROJECT, REGION, "m-2", &labels);
    let nodes = Api::<Node>::all(stage.admin.clone());
    let joined = async || nodes.get_opt("m-2").await.is_ok_and(|node| node.is_some());
    stage.world.run_until("the node has joined", SOON, joined).await.unwrap();
    stage.patch(nodes.clone(), "m-2", json!({"metadata": {"finalizers": [NODE_FINALIZER]}})).await;
    let mut machine = machine("m-2");
    machine["metadata"]["finalizers"] = json!([FINALIZER]);
    machine["metadata"]["labels"] = json!({"node": "m-2"});
    machine["spec"]["providerID"] = json!(format!("stackit://{PROJECT}/{server}"));
    stage.create(machines(stage), machine).await;
    machines(stage).delete("m-2", &DeleteParams::default()).await.unwrap();
    set_status(
        stage,
        json!({"currentStatus": {"phase": "Terminating"},
            "lastOperation": {"type": "Delete", "state": "Processing", "description": description}}),
    )
    .await;
    if reached >= Reached::Server {
        use hostler_base::transport;
        let path = format!("/v2/projects/{PROJECT}/regions/{REGION}/servers/{server}");
        let request = http::Request::delete(path).body(transport::empty()).unwrap();
        transport::exchange(&stage.cloud.transport(), request, 1 << 20).await.unwrap();
    }
    if reached >= Reached::Node {
        stage.patch(nodes.clone(), "m-2", json!({"metadata": {"finalizers": null}})).await;
        nodes.delete("m-2", &DeleteParams::default()).await.unwrap();
    }
    stage.world.run_for(Duration::from_secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_finished_wherever_the_other_controller_stopped() {
    for (number, (reached, description)) in texts().into_iter().enumerate() {
        let mut stage = Stage::unobserved(Plan::seeded(220 + number as u64), open_to_all()).await;
        half_deleted(&mut stage, reached, &description).await;
        stage.start_controller();
        stage.run_until_gone("m-2", SOON).await.unwrap_or_else(|error| panic!("{description:?}: {error}"));
        assert_eq!(stage.leftovers().await, [""; 0], "{description:?}");
    }
}

/// The step that Gardener's controller takes at a text: the first one whose words are in it, in this order.
fn gardeners_step(description: &str) -> Cursor {
    let steps = [
        (text::GET_VM_STATUS, Cursor::GetVmStatus),
        (text::DRAIN, Cursor::Drain),
        (text::DELETE_ATTACHMENTS, Cursor::DeleteAttachments),
        (text::DELETE_VM, Cursor::DeleteVm),
        (text::DELETE_NODE, Cursor::DeleteNode),
        (text::REMOVE_FINALIZER, Cursor::RemoveFinalizer),
    ];
    let found = steps.iter().find(|(text, _)| description.contains(text));
    found.map_or(Cursor::Start, |(_, cursor)| *cursor)
}

/// What was written on Machines that are being deleted.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<BTreeSet<String>>>);

impl Written {
    /// Looks after every call.
    fn watch(stage: &Stage) -> Self {
        let written = Self::default();
        let (of, machines) = (written.clone(), machines(stage));
        stage.world.observe(Arc::new(move || {
            let (of, machines) = (of.clone(), machines.clone());
            Box::pin(async move {
                let all = machines
                    .list(&kube::api::ListParams::default())
                    .await
                    .map_err(|error| error.to_string())?;
                let going = all.items.into_iter().filter_map(|machine| machine.status);
                let going = going.filter(|status| status.current_status.phase == Phase::Terminating);
                let mut texts = of.0.lock().unwrap();
                texts.extend(going.map(|status| status.last_operation.description));
                Ok(())
            })
        }));
        written
    }

    fn texts(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A machine that runs with a pod on it which takes long to stop.
async fn running(seed: u64) -> (Stage, Written) {
    let mut stage = Stage::new(Plan::seeded(seed), Settings::default()).await;
    let written = Written::watch(&stage);
    stage.start_controller();
    stage.create_class_and_secret().await;
    stage.create(stage.machines(), machine("m-2")).await;
    stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
    (stage, written)
}

#[tokio::test(start_paused = true)]
async fn whatever_is_written_leads_the_other_controller_to_the_same_step() {
    let mut all = BTreeSet::new();
    // A calm deletion, and one that is forced in the middle of its drain.
    for forced in [false, true] {
        let (mut stage, written) = running(250).await;
        if forced {
            let pod = json!({"metadata": {"name": "slow", "annotations": {hostler_sim::hollow::STOP_AFTER: "3600"}},
                "spec": {"nodeName": "m-2", "terminationGracePeriodSeconds": 7200,
                    "containers": [{"name": "c", "image": "i"}]}});
            stage.create(Api::<Pod>::namespaced(stage.admin.clone(), NAMESPACE), pod).await;
            stage.world.run_for(Duration::from_secs(10)).await;
        }
        stage.delete_machine("m-2").await;
        if forced {
            stage.world.run_for(Duration::from_mins(1)).await;
            stage
                .patch(stage.machines(), "m-2", json!({"metadata": {"labels": {"force-deletion": "True"}}}))
                .await;
        }
        stage.run_until_gone("m-2", LONG).await.unwrap();
        all.extend(written.texts());
    }
    // The cloud refuses, fails, and says what sounds like a step.
    for (status, message) in
        [(403, "no"), (500, "Initiate machine object finalizer removal"), (400, "Initiate node drain")]
    {
        for operation in ["DeleteServer", "ListServers"] {
            let (mut stage, written) = running(251).await;
            let fault = Fault { message: Some(message.to_owned()), ..Fault::on(operation).status(status) };
            stage.cloud.add_fault(fault).unwrap();
            stage.delete_machine("m-2").await;
            stage.world.run_for(LONG).await;
            let said = machines(&stage).get("m-2").await.unwrap().status.unwrap().last_operation.description;
            assert!(said.contains(&status.to_string()), "{operation} {status}: {said}");
            stage.cloud.clear_faults();
            stage.run_until_gone("m-2", LONG).await.unwrap();
            all.extend(written.texts());
        }
    }
    let steps: BTreeSet<Cursor> = all.iter().map(|text| Cursor::read(text)).collect();
    // What nobody asks anything for in between is not written: the look for a name that is known, and the end.
    let expected = [Cursor::Drain, Cursor::DeleteAttachments, Cursor::DeleteVm, Cursor::DeleteNode];
    assert_eq!(steps, BTreeSet::from(expected), "{all:?}");
    for text in &all {
        let (own, gardeners) = (Cursor::read(text), gardeners_step(text));
        // Gardener's controller may be led back by the words of a cloud, never forward.
        assert!(gardeners <= own, "{text:?}: {own:?} here, {gardeners:?} there");
        let quotes = text.contains("code = [");
        assert!(gardeners == own || quotes, "{text:?}: {own:?} here, {gardeners:?} there");
    }
}

//! `machine-controller` is stopped by a signal in the middle of an order and goes on when another one leads: there is
//! one server.

use crate::{
    ending::{Cloud, NAMESPACE, create, create_class_and_secret, machine, start_with},
    playground::{Playground, Process, wait_for},
    process::{client, wait_until_async},
};
use hostler_gardener::api::{Machine, Phase};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ATTEMPT: &str = "machine.hostler.dev/create-attempt";
/// Short, so that the other one leads before an order is too old to be sent.
const LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
];

/// A cluster, a cloud, one that leads and one that waits for it to end.
struct Scene {
    playground: Playground,
    cloud: Cloud,
    client: Client,
    first: Process,
    second: Process,
}

impl Scene {
    async fn new() -> Self {
        let playground = Playground::start();
        let cloud = Cloud::start(&playground.directory);
        let client = client(&playground.kubeconfig, |_| {}).await;
        create_class_and_secret(&client).await;
        let first = start_with(&playground, &cloud, "first", &LEASE);
        wait_until_async(async || holder(&client).await.is_some()).await;
        let second = start_with(&playground, &cloud, "second", &LEASE);
        Self { playground, cloud, client, first, second }
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The first one stands still until the other one has the lease.
    async fn take_over(&self) {
        let before = holder(&self.client).await;
        wait_until_async(async || {
            let now = holder(&self.client).await;
            now != before && now.is_some_and(|now| !now.is_empty())
        })
        .await;
    }

    /// The first one goes on, ends, and nothing came of it: the machine has the one server that it had before.
    async fn ends_with_one_server(mut self, name: &str) {
        let one = BTreeMap::from([(name.to_owned(), 1)]);
        wait_for("there is a server", || (self.cloud.servers() == one).then_some(()));
        self.first.signal("CONT");
        assert_eq!(self.first.wait().code(), Some(1), "{}", self.first.stderr());
        assert!(
            self.first.stderr().contains("the lease machine-controller was lost"),
            "{}",
            self.first.stderr()
        );
        let machines = self.machines();
        let phase =
            async || machines.get(name).await.unwrap().status.map(|status| status.current_status.phase);
        wait_until_async(async || phase().await == Some(Phase::Pending)).await;
        assert_eq!(self.cloud.servers(), one, "{}\n{}", self.first.stderr(), self.second.stderr());
        let calls = self.cloud.call("GET", "/_sim/calls", &Value::Null);
        assert_eq!(calls["CreateServer"], 1, "{}\n{}", self.first.stderr(), self.second.stderr());
        assert_eq!(self.second.has_ended(), None, "{}", self.second.stderr());
        drop(self.playground);
    }
}

async fn holder(client: &Client) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    leases.get_opt("machine-controller").await.unwrap()?.spec?.holder_identity
}

#[tokio::test]
async fn one_that_is_stopped_before_its_order_does_not_send_it_when_another_one_leads() {
    let scene = Scene::new().await;
    // Between its mark and its order the controller looks once more; meanwhile it is stopped.
    scene.cloud.fault("ListServers delay=3");
    let machines = scene.machines();
    create(machines.clone(), machine("m-1")).await;
    let mark = async || machines.get("m-1").await.unwrap().metadata.annotations?.remove(ATTEMPT);
    wait_until_async(async || mark().await.is_some()).await;
    scene.first.signal("STOP");
    assert_eq!(scene.cloud.servers(), BTreeMap::new(), "it was stopped too late");
    scene.cloud.call("DELETE", "/_sim/faults", &Value::Null);
    // As if it had stood still for minutes: the other one need not wait until it can rule the order out.
    let (attempt, _) =
        mark().await.unwrap().split_once('@').map(|(mark, at)| (mark.to_owned(), at.to_owned())).unwrap();
    let old = json!({"metadata": {"annotations": {ATTEMPT: format!("{attempt}@2026-01-01T00:00:00Z")}}});
    machines.patch("m-1", &PatchParams::default(), &Patch::Merge(old)).await.unwrap();
    scene.take_over().await;
    scene.ends_with_one_server("m-1").await;
}

#[tokio::test]
async fn one_that_is_stopped_while_its_order_is_under_way_is_not_followed_by_a_second_order() {
    let scene = Scene::new().await;
    scene.cloud.fault("CreateServer delay=3");
    create(scene.machines(), machine("m-1")).await;
    wait_for("the order is under way", || (scene.cloud.met("CreateServer") == 1).then_some(()));
    scene.first.signal("STOP");
    scene.take_over().await;
    scene.ends_with_one_server("m-1").await;
}

//! Two clusters share a project, the names of their machines and those of their classes. Neither touches what is the
//! other's.

use crate::flow::{
    LONG, NAMESPACE, PROJECT, REGION, SOON, Seat, Stage, class, controller_on, machine, secret,
};
use hostler_gardener::{
    Options,
    api::{Machine, Phase},
};
use hostler_sim::{
    Plan,
    stackit::{ServerView, Settings},
};
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

/// One of two clusters.
struct Cluster {
    stage: Stage,
    /// The value of its cluster label, if it has one.
    label: Option<&'static str>,
    class: &'static str,
}

/// So many that what is planted is less than half: who does not know the nodes takes more for Machines that were lost.
const NAMES: [&str; 5] = ["m-1", "m-2", "m-3", "m-4", "m-5"];

impl Cluster {
    /// A class of the cluster; its controller looks for orphans every minute.
    async fn begin(&mut self) {
        let mut own = class();
        own["metadata"]["name"] = json!(self.class);
        own["providerSpec"]["labels"] = match self.label {
            Some(label) => json!({"kubernetes.io/cluster": label}),
            None => json!({}),
        };
        self.stage.create(self.stage.secrets(), secret()).await;
        self.stage.create(self.stage.classes(), own).await;
        let mut options = Options::default();
        options.orphans.grace = Duration::from_secs(30);
        options.orphans.period = Duration::from_mins(1);
        // The two would fight for the names of nodes.
        self.stage.world.start("machine-controller", move |context| {
            let seat = Seat { has_target: false, ..Seat::default() };
            Box::pin(controller_on(seat, context, options.clone()))
        });
        for name in NAMES {
            let mut wish: Value = machine(name);
            wish["spec"]["class"]["name"] = json!(self.class);
            self.stage.create(self.stage.machines(), wish).await;
        }
    }

    async fn is_well(&mut self) {
        for name in NAMES {
            self.stage.run_until_phase(name, Phase::Available, SOON).await.unwrap();
        }
    }

    fn labels<'a>(&'a self, machine: &'a str) -> Vec<(&'a str, &'a str)> {
        let mut labels = vec![("kubernetes.io/machine", machine), ("kubernetes.io/machineclass", self.class)];
        labels.extend(self.label.map(|label| ("kubernetes.io/cluster", label)));
        labels
    }

    /// A server with its marks that none of its Machines has ordered.
    fn plant(&self, machine: &str) -> String {
        self.stage.cloud.add_foreign(PROJECT, REGION, &format!("planted-{machine}"), &self.labels(machine))
    }

    fn is_its_own(&self, server: &ServerView) -> bool {
        let machine = server.labels.get("kubernetes.io/machine").map_or("", String::as_str);
        let labels = self.labels(machine);
        server.labels.get("kubernetes.io/cluster").map(String::as_str) == self.label
            && labels.iter().all(|(key, value)| server.labels.get(*key).is_some_and(|there| there == value))
    }

    /// The machines whose servers are there, one name for each server.
    fn servers(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .stage
            .cloud
            .servers()
            .into_iter()
            .filter(|server| server.status != "DELETING" && self.is_its_own(server))
            .map(|server| server.labels["kubernetes.io/machine"].clone())
            .collect();
        names.sort();
        names
    }

    fn ids(&self) -> BTreeSet<String> {
        let servers = self.stage.cloud.servers().into_iter();
        servers.filter(|server| self.is_its_own(server)).map(|server| server.id).collect()
    }
}

/// Everything that leads to a deletion happens in `one`; `other` does not notice.
async fn one_is_busy(one: &mut Cluster, other: &Cluster, case: &str) {
    let theirs = other.ids();
    // A deletion, and one of a machine whose server is not written down.
    one.stage.delete_machine("m-1").await;
    one.stage.run_until_gone("m-1", LONG).await.unwrap();
    one.stage.patch(one.stage.machines(), "m-2", json!({"spec": {"providerID": null}})).await;
    one.stage.delete_machine("m-2").await;
    one.stage.run_until_gone("m-2", LONG).await.unwrap();
    assert_eq!(one.servers(), NAMES[2..], "{case}");
    assert_eq!(other.ids(), theirs, "{case}: a deletion");
    // An orphan and a duplicate.
    one.plant("m-1");
    one.plant("m-3");
    one.stage.world.run_for(LONG).await;
    assert_eq!(one.servers(), NAMES[2..], "{case}: what is too many goes");
    assert_eq!(other.ids(), theirs, "{case}: orphan collection");
    // Machines of these names come again: they find nothing that is theirs.
    let mut again = machine("m-1");
    again["spec"]["class"]["name"] = json!(one.class);
    one.stage.create(one.stage.machines(), again).await;
    one.stage.run_until_phase("m-1", Phase::Available, SOON).await.unwrap();
    assert_eq!(one.servers(), ["m-1", "m-3", "m-4", "m-5"], "{case}");
    assert_eq!(other.ids(), theirs, "{case}: a creation");
}

async fn live_beside_each_other(
    first: (Option<&'static str>, &'static str),
    second: (Option<&'static str>, &'static str),
    ignores_selector: bool,
) {
    let case = format!("{first:?} and {second:?}");
    let settings = Settings { joins_without_token: false, ignores_selector, ..Settings::default() };
    let stage = Stage::unobserved(Plan::seeded(210), settings).await;
    let beside = stage.beside(Plan::seeded(211)).await;
    let mut one = Cluster { stage, label: first.0, class: first.1 };
    let mut other = Cluster { stage: beside, label: second.0, class: second.1 };
    one.begin().await;
    other.begin().await;
    one.is_well().await;
    other.is_well().await;
    assert_eq!(
        (one.servers(), other.servers()),
        (NAMES.map(str::to_owned).to_vec(), NAMES.map(str::to_owned).to_vec()),
        "{case}"
    );
    one_is_busy(&mut one, &other, &case).await;
    one_is_busy(&mut other, &one, &case).await;
    // Everything of both goes, each by its own.
    for cluster in [&mut one, &mut other] {
        let machines = Api::<Machine>::namespaced(cluster.stage.admin.clone(), NAMESPACE);
        for name in ["m-1", "m-3", "m-4", "m-5"] {
            machines.delete(name, &DeleteParams::default()).await.unwrap();
            cluster.stage.run_until_gone(name, LONG).await.unwrap();
        }
        assert_eq!(cluster.servers(), [""; 0], "{case}");
    }
    assert!(one.stage.cloud.servers().iter().any(|server| server.id == one.stage.foreign), "{case}");
}

#[tokio::test(start_paused = true)]
async fn each_cluster_has_a_label() {
    for ignores_selector in [false, true] {
        live_beside_each_other((Some("shoot-one"), "small"), (Some("shoot-two"), "small"), ignores_selector)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn only_one_cluster_has_a_label() {
    for ignores_selector in [false, true] {
        live_beside_each_other((Some("shoot-one"), "small"), (None, "small"), ignores_selector).await;
        live_beside_each_other((None, "small"), (Some("shoot-two"), "small"), ignores_selector).await;
    }
}

/// Where no label tells clusters apart, the class does.
#[tokio::test(start_paused = true)]
async fn no_cluster_has_a_label_but_their_classes_differ() {
    for ignores_selector in [false, true] {
        live_beside_each_other((None, "small"), (None, "large"), ignores_selector).await;
    }
}

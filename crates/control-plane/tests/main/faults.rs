//! The real binary is killed at calls to the real API server and to the cloud, before and after their effect.

use crate::stage::{Stage, create};
use futures::{StreamExt, stream};
use hostler_gardener::api::Machine;
use hostler_sim::{Boundary, Class, Fault, Plan, Wire};
use kube::{Api, api::DeleteParams};
use serde_json::json;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many lives are lived beside each other.
const AT_ONCE: usize = 4;
/// A short lease, so that a killed leader is not waited for long.
pub const LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=300ms",
];

/// What happened in a life.
struct Life {
    /// Calls with an effect.
    effects: usize,
    kills: usize,
}

/// At which call with an effect the controller is broken.
#[derive(Clone, Copy)]
enum At {
    Number(usize),
    /// The first one to the cloud with this verb, on what this is the end of the path to.
    Cloud(&'static str, &'static str),
}

impl At {
    fn is(self, number: usize, boundary: &Boundary) -> bool {
        match self {
            Self::Number(at) => at == number,
            Self::Cloud(verb, end) => {
                boundary.verb == verb && boundary.template.ends_with(end) && boundary.nth == 1
            }
        }
    }
}

/// What must not be done twice, and what must not be forgotten.
const ORDER: At = At::Cloud("POST", "/servers");
const DELETION: At = At::Cloud("DELETE", "/servers/{server}");

/// One machine from wish to gone; the controller is broken at one call.
async fn one_life(name: &str, broken: Option<(At, Fault)>) -> Life {
    let effects = Arc::new(AtomicUsize::new(0));
    let counted = effects.clone();
    let plan = Plan::seeded(1).fault_when(move |boundary, class| {
        if class != Class::Effect {
            return None;
        }
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        broken.clone().filter(|(at, _)| at.is(number, boundary)).map(|(_, fault)| fault)
    });
    let mut stage = Stage::around_the_real_one(name, plan).await;
    let controller = stage.start_controller(&LEASE);
    stage.create_class_and_secret().await;
    // Nodes are named as machines are, and share one cluster with those of other tests.
    let machine = format!("{}-m", stage.namespace);
    let machines: Api<Machine> = stage.machines();
    create(
        machines.clone(),
        json!({"metadata": {"name": machine}, "spec": {"class": {"kind": "MachineClass", "name": "small"}}}),
    )
    .await;
    stage.run_until("the machine runs", async |_| Stage::running(&machines).await == 1).await;
    machines.delete(&machine, &DeleteParams::default()).await.unwrap();
    stage.nothing_is_left().await;
    assert_eq!(stage.violations(), [""; 0], "{}", stage.story());
    let kills = stage.world.wire().map(Wire::faults).unwrap_or_default();
    stage.run_until("a killed controller is there again", async |_| controller.started() > kills).await;
    stage.world.stop().await;
    Life { effects: effects.load(Ordering::Relaxed), kills }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_at_any_call_loses_leaks_and_doubles_nothing() {
    let effects = one_life("calm", None).await.effects;
    assert!(effects >= 10, "a machine's life has more effects than {effects}");
    // Every second effect before and the others after: the sweep in the world goes through all of them.
    let crashes = (1..=effects).map(|number| {
        (At::Number(number), if number % 2 == 0 { Fault::CrashBefore } else { Fault::CrashAfter })
    });
    let lives = stream::iter(crashes.enumerate()).map(|(index, (at, fault))| async move {
        one_life(&format!("killed-{index}"), Some((at, fault))).await
    });
    let lived: Vec<Life> = lives.buffer_unordered(AT_ONCE).collect().await;
    let kills: usize = lived.iter().map(|life| life.kills).sum();
    println!("killed at {kills} boundaries, nothing lost, leaked or doubled");
    // How many events and statuses are written depends on the time that things take, so the last may be missed.
    assert!(kills + 4 >= effects, "{kills} kills at {effects} effects");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_killed_around_an_order_or_a_deletion_of_a_server_goes_on_with_it() {
    let crashes = [
        ("before-order", ORDER, Fault::CrashBefore),
        ("after-order", ORDER, Fault::CrashAfter),
        ("before-deletion", DELETION, Fault::CrashBefore),
        ("after-deletion", DELETION, Fault::CrashAfter),
    ];
    let lives =
        crashes.map(|(name, at, fault)| async move { (name, one_life(name, Some((at, fault))).await.kills) });
    for (name, kills) in futures::future::join_all(lives).await {
        assert_eq!(kills, 1, "{name}");
    }
}

//! A controller that stood still in the middle of an order, or of any other thing it does to a server, while another one
//! took over: there is one server, and nothing it does afterwards takes effect.

use crate::{
    flow::{CLUSTER, LONG, NAMESPACE, Seat, Stage, controller_on, machine, ours},
    orphans::plant,
};
use hostler_controller::{Election, LeaseOptions, Metrics, StackOptions, kube_client};
use hostler_gardener::{Options, api::Phase};
use hostler_sim::{Boundary, Class, Context, Fault, Plan, stackit::Settings};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const LEASE: &str = "machine-controller";

/// The controller as a process has it: it waits for its lease, and nothing it changes gets through without it.
async fn led(context: Context) {
    let (clock, metrics) = (context.clock.clone(), Metrics::new());
    let instance = format!("{}-{}", context.actor, context.incarnation);
    let unfenced = StackOptions {
        timeout: Duration::from_secs(5),
        ..StackOptions::alone("kubernetes", metrics.clone(), clock.clone())
    };
    let client = kube_client(context.transport("kubernetes"), &unfenced, NAMESPACE);
    let lease = LeaseOptions::new(NAMESPACE, LEASE, &instance);
    let election = Election::new(client, lease, clock, &context.chance, metrics);
    let seat = Seat { fence: Some(election.fence()), ..Seat::default() };
    let stop = context.shutdown.clone();
    let mut options = Options::default();
    options.orphans.grace = Duration::from_mins(1);
    options.orphans.period = Duration::from_mins(5);
    election.lead(&stop, || Box::pin(controller_on(seat, context, options))).await;
}

/// The calls around an order, and those that change something later.
#[derive(Clone, Copy, Debug)]
enum At {
    /// A list of servers, by its number: some come before the attempt is marked, one comes between mark and order, and
    /// others afterwards.
    Look(usize),
    Mark,
    Order,
    /// The server's id is written down.
    Adoption,
    /// The server's NIC may send from more addresses.
    Nic,
    /// The server's boot volume goes with it.
    Attachment,
    TokenMade,
    TokenGone,
    /// A server that nobody owns is deleted.
    Orphan,
    /// The machine's server is.
    Deletion,
}

impl At {
    const ALL: [Self; 13] = [
        Self::Look(1),
        Self::Look(2),
        Self::Look(3),
        Self::Look(4),
        Self::Mark,
        Self::Order,
        Self::Adoption,
        Self::Nic,
        Self::Attachment,
        Self::TokenMade,
        Self::TokenGone,
        Self::Orphan,
        Self::Deletion,
    ];

    fn is(self, boundary: &Boundary) -> bool {
        let Boundary { verb, template, nth, object, .. } = boundary;
        let machine = verb == "PUT" && template.ends_with("/machines/{name}");
        let token = object.starts_with("kube-system/bootstrap-token-");
        let deletion = verb == "DELETE" && template.ends_with("/servers/{server}");
        match self {
            Self::Look(number) => verb == "GET" && template.ends_with("/servers") && *nth == number,
            Self::Mark => machine && *nth == 1,
            Self::Order => verb == "POST" && template.ends_with("/servers") && *nth == 1,
            Self::Adoption => machine && *nth == 2,
            Self::Nic => verb == "PATCH" && template.ends_with("/nics/{nic}"),
            Self::Attachment => verb == "PATCH" && template.ends_with("/volume-attachments/{volume}"),
            Self::TokenMade => verb == "POST" && token,
            Self::TokenGone => verb == "DELETE" && token,
            Self::Orphan => deletion && !object.contains("m-1"),
            Self::Deletion => deletion && object.contains("m-1"),
        }
    }
}

/// What the first incarnation did after the second one had begun to.
fn done_without_lease(trace: &str) -> Vec<&str> {
    let effects = ["POST", "PUT", "PATCH", "DELETE"];
    let did = |line: &str, incarnation: u32| {
        let who = format!("{LEASE}/{incarnation}");
        let mut words = line.split_whitespace().skip_while(|word| *word != who).skip(1);
        words.next().is_some_and(|verb| effects.contains(&verb)) && line.contains("-> ")
    };
    let taken = trace.lines().position(|line| did(line, 2));
    let taken = taken.unwrap_or_else(|| panic!("nobody took over\n{trace}"));
    trace.lines().skip(taken).filter(|line| did(line, 1)).collect()
}

async fn stalled(at: At, time: Duration) {
    let case = format!("{at:?} for {time:?}");
    let done = Arc::new(AtomicBool::new(false));
    let plan = Plan::seeded(170).fault_when(move |boundary, class| {
        let here = class != Class::Watch && at.is(boundary) && !done.swap(at.is(boundary), Ordering::Relaxed);
        here.then_some(Fault::Stall(time))
    });
    // With a server that nobody owns every look would find something wrong.
    let mut stage = match at {
        At::Orphan => Stage::unobserved(plan, Settings::default()).await,
        _ => Stage::new(plan, Settings::default()).await,
    };
    let process = stage.world.start(LEASE, |context| Box::pin(led(context)));
    stage.create_class_and_secret().await;
    if matches!(at, At::Nic | At::Attachment) {
        let more = json!({"providerSpec": {"allowedAddresses": ["10.0.0.0/8"], "bootVolume": null}});
        stage.patch(stage.classes(), "small", more).await;
    }
    stage.create(stage.machines(), machine("m-1")).await;
    stage
        .run_until_phase("m-1", Phase::Running, LONG)
        .await
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    // Whatever the first one still wants to do would show up now.
    stage.world.run_for(time + Duration::from_mins(3)).await;
    if matches!(at, At::Orphan) {
        // It does not become a node.
        stage.cloud.set(|settings| settings.joins_without_token = false);
        let lost = plant(&stage, "lost-1", "small", CLUSTER);
        let cloud = stage.cloud.clone();
        let gone = async || !cloud.servers().iter().any(|server| server.id == lost);
        stage.world.run_until("the orphan is gone", LONG, gone).await.unwrap();
        stage.world.run_for(time + Duration::from_mins(3)).await;
    }
    let trace = stage.world.wire().unwrap().trace();
    assert_eq!(ours(&stage.cloud.servers()).count(), 1, "{case}\n{trace}");
    assert_eq!(stage.cloud.calls()["CreateServer"], 1, "{case}\n{trace}");
    stage.delete_machine("m-1").await;
    stage.run_until_gone("m-1", LONG).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    stage.world.run_for(time + Duration::from_mins(3)).await;
    let mut left = stage.leftovers().await;
    // What was planted has a volume that nobody told to go with it.
    left.retain(|left| !matches!(at, At::Orphan) || !left.starts_with("volume"));
    assert_eq!(left, [""; 0], "{case}");
    let trace = stage.world.wire().unwrap().trace();
    assert!(process.started() >= 2, "{case}: nobody stood still\n{trace}");
    assert_eq!(done_without_lease(&trace), [""; 0], "{case}\n{trace}");
    let violations = stage.world.wire().unwrap().violations();
    assert_eq!(violations, [], "{case}");
}

#[tokio::test(start_paused = true)]
async fn who_stood_still_in_an_order_until_another_one_led_orders_nothing_more() {
    // Longer than the lease; so long that the other one has ruled the first one's order out; and much longer.
    let times =
        [Duration::from_secs(20), Duration::from_secs(95), Duration::from_secs(130), Duration::from_mins(10)];
    for at in At::ALL {
        for time in times {
            stalled(at, time).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_that_start_at_once_order_once() {
    let mut stage = Stage::new(Plan::seeded(180), Settings::default()).await;
    let process = stage.world.start(LEASE, |context| Box::pin(led(context)));
    process.start_another();
    process.start_another();
    stage.create_class_and_secret().await;
    for name in ["m-1", "m-2", "m-3"] {
        stage.create(stage.machines(), machine(name)).await;
    }
    for name in ["m-1", "m-2", "m-3"] {
        stage.run_until_phase(name, Phase::Running, LONG).await.unwrap();
    }
    stage.world.run_for(LONG).await;
    assert_eq!(stage.cloud.calls()["CreateServer"], 3);
    assert_eq!(process.live().len(), 3);
}

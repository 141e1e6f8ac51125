//! How fast a world starts and how many runs of a flow fit into a second: `cargo xtask bench`.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

#[path = "../tests/main/tiny/mod.rs"]
mod tiny;

use hostler_sim::{MachineSpec, Plan, Sweep, World, sweep::paused};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Api, api::ListParams};
use std::time::{Duration, Instant};
use tiny::{cloud::Switches, controller::Variant, flow};

const WORLDS: usize = 50;
const NODES: usize = 3;
const LIMIT: Duration = Duration::from_mins(5);
const VARIANTS: [Variant; 7] = [
    Variant::Correct,
    Variant::DoesNotFindFirst,
    Variant::TrustsTheFilter,
    Variant::StatusBeforeEffect,
    Variant::IntentOnlyInMemory,
    Variant::DeletesWithoutIdentity,
    Variant::Ignores409,
];

fn main() {
    println!("one thread, virtual time\n");
    start();
    sweep();
}

fn start() {
    let (mut answers, mut nodes_ready) = (Vec::new(), Vec::new());
    for seed in 0..WORLDS {
        let (first_answer, ready) = paused(start_one(seed.try_into().unwrap())).unwrap();
        answers.push(first_answer);
        nodes_ready.push(ready);
    }
    println!(
        "world:   first {:.2} ms, later {:.2} ms (median of {WORLDS}) until API server, cluster and hollow nodes are \
              started and a request is answered, goal about 10 ms",
        milliseconds(answers[0]),
        milliseconds(median(answers))
    );
    println!(
        "         {:.2} ms (median of {WORLDS}) until {NODES} booted machines are Ready nodes",
        milliseconds(median(nodes_ready))
    );
}

/// The time to the first answer, and the time until the nodes are there.
async fn start_one(seed: u64) -> (Duration, Duration) {
    let start = Instant::now();
    let mut world = World::in_virtual_time(Plan::seeded(seed));
    world.start_cluster(hostler_cluster::Options::all());
    let nodes = world.start_hollow_nodes();
    for number in 0..NODES {
        nodes.boot(MachineSpec::new(&format!("n-{number}")));
    }
    Api::<Namespace>::all(world.client()).get("default").await.unwrap();
    let first_answer = start.elapsed();
    let nodes: Api<Node> = Api::all(world.client());
    let all_ready = async || {
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items;
        nodes.len() == NODES && nodes.iter().all(is_ready)
    };
    world.run_until("the nodes are ready", LIMIT, all_ready).await.unwrap();
    (first_answer, start.elapsed())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// All boundaries and faults of the small controller of the tests, the right one and the wrong ones.
fn sweep() {
    let (mut runs, mut elapsed) = (0, Duration::ZERO);
    for variant in VARIANTS {
        let sweep = Sweep::new("tiny", 1);
        let report = sweep.run(async |plan| flow::run(plan, variant, Switches::default()).await).unwrap();
        runs += u32::try_from(report.runs).unwrap();
        elapsed += report.elapsed;
    }
    println!(
        "sweep:   {runs} runs of the small flow of the tests, {:.0} per second, each in a world of its own",
        f64::from(runs) / elapsed.as_secs_f64()
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

//! Karpenter's scheduler and ours on the same pods and the same offerings, in the same run: processor time, nodes, price.
#![allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // Numbers for people.

use anyhow::{Context, bail, ensure};
use hostler_control_plane::{Store, catalogue::KARPENTER};
use hostler_planner::model::{Cluster, Group, Offering, Price};
use hostler_planner::scale_up;
use hostler_snapshot::{Dump, resources};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

const RUNS: usize = 3;
/// Karpenter takes some twenty seconds for the larger of these.
const SIZES: [usize; 2] = [1_000, 5_000];

#[derive(Deserialize)]
struct Answer {
    offerings: Vec<Sold>,
    runs: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Sold {
    name: String,
    zone: String,
    price: f64,
    capacity: BTreeMap<String, Quantity>,
    allocatable: BTreeMap<String, Quantity>,
}

#[derive(Clone, Copy, Deserialize)]
struct Outcome {
    seconds: f64,
    nodes: usize,
    price: f64,
    unplaced: usize,
}

/// The pods of Karpenter's benchmark, dumped as JSON: both get the same.
fn pods(store: &Store, count: usize) -> anyhow::Result<Value> {
    let output = Command::new(store.path(&KARPENTER))
        .args(["-generate", &count.to_string()])
        .output()
        .context("Karpenter cannot be started")?;
    ensure!(output.status.success(), "no pods were made: Karpenter ended with {}", output.status);
    let pods: Value = serde_json::from_slice(&output.stdout)?;
    let made = pods["items"].as_array().map_or(0, Vec::len);
    ensure!(made == count, "{made} pods were made instead of {count}");
    Ok(pods)
}

fn karpenter(store: &Store, pods: &Value) -> anyhow::Result<Answer> {
    let mut child = Command::new(store.path(&KARPENTER))
        .args(["-runs", &RUNS.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("Karpenter cannot be started")?;
    let mut input = child.stdin.take().context("Karpenter does not listen")?;
    input.write_all(pods.to_string().as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "Karpenter ended with {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn billionths(price: f64) -> Price {
    (price * 1e9).round() as Price
}

fn cluster(pods: Value, sold: &[Sold]) -> anyhow::Result<Cluster> {
    let mut dump = Dump::default();
    dump.add(pods)?;
    let mut cluster = dump.load(1_800_000_000)?.cluster;
    let amounts = |list| resources(list).map_err(|fault| anyhow::anyhow!("{fault}"));
    let offerings = sold.iter().map(|sold| {
        Ok(Offering {
            name: sold.name.clone(),
            zone: Some(sold.zone.clone()),
            capacity: amounts(&sold.capacity)?,
            allocatable: Some(amounts(&sold.allocatable)?),
            price: billionths(sold.price),
            ..Offering::default()
        })
    });
    let offerings = offerings.collect::<anyhow::Result<_>>()?;
    cluster.groups = vec![Group { name: "default".to_owned(), offerings, mixing: true, ..Group::default() }];
    Ok(cluster)
}

/// Seconds this thread has run.
fn processor_time() -> anyhow::Result<f64> {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").context("processor time cannot be read")?;
    let nanoseconds: u64 = text.split_whitespace().next().context("processor time is not told")?.parse()?;
    Ok(nanoseconds as f64 / 1e9)
}

fn ours(cluster: &Cluster) -> anyhow::Result<Vec<Outcome>> {
    let run = |_| {
        let before = processor_time()?;
        let plan = scale_up(cluster);
        let seconds = processor_time()? - before;
        let price = plan.price as f64 / 1e9;
        Ok(Outcome { seconds, nodes: plan.machines.len(), price, unplaced: plan.unplaced().len() })
    };
    (0..RUNS).map(run).collect()
}

/// The run whose time is in the middle.
fn median(mut runs: Vec<Outcome>) -> anyhow::Result<Outcome> {
    runs.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    runs.get(runs.len() / 2).copied().context("it did not run")
}

fn line(who: &str, outcome: Outcome) {
    println!(
        "  {who:<10} {:>9.3} s of processor time, {} nodes, {:.2} per hour, {} unplaced",
        outcome.seconds, outcome.nodes, outcome.price, outcome.unplaced
    );
}

/// The numbers behind `--pods`, or the usual ones.
fn sizes(words: &[String]) -> anyhow::Result<Vec<usize>> {
    let Some(at) = words.iter().position(|word| word == "--pods") else { return Ok(SIZES.to_vec()) };
    let Some(list) = words.get(at + 1) else { bail!("--pods: how many? For example 1000,20000") };
    list.split(',')
        .map(|word| word.parse().with_context(|| format!("--pods: {word:?} is no number")))
        .collect()
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let store = Store::of_user()?;
    store.build(&[&KARPENTER], &mut |line| println!("{line}"))?;
    for count in sizes(&words)? {
        let pods = pods(&store, count)?;
        println!("{count} diverse pods, 400 types in three zones, median of {RUNS}");
        let answer = karpenter(&store, &pods)?;
        let cluster = cluster(pods, &answer.offerings)?;
        let (their, our) = (median(answer.runs)?, median(ours(&cluster)?)?);
        line("Karpenter", their);
        line("Hostler", our);
        println!(
            "  Karpenter takes {:.0} times the processor time and {:.2} times the price\n",
            their.seconds / our.seconds.max(1e-9),
            their.price / our.price.max(1e-9)
        );
    }
    Ok(())
}

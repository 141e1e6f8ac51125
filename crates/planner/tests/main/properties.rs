//! Random clusters against the checker and, where they are small, against every way there is.

use crate::{checker, exhaustive, generate, replay};
use hostler_planner::model::Cluster;
use hostler_planner::{ScaleUp, Subject, scale_up};
use std::collections::BTreeSet;

/// `HOSTLER_CASES` for a longer run, `HOSTLER_SEED` for one case.
pub fn seeds(default: u64) -> std::ops::Range<u64> {
    seeds_of(default, 1)
}

/// The same where one case is as long as many others.
pub fn seeds_of(default: u64, others: u64) -> std::ops::Range<u64> {
    if let Some(seed) = std::env::var("HOSTLER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    let cases = std::env::var("HOSTLER_CASES").ok().and_then(|cases| cases.parse().ok());
    0..cases.map_or(default, |cases: u64| (cases / others).max(default))
}

/// Every pod that could want a node is told of once, with a reason for each group or one for all of them, and programs can
/// read it.
fn explained(cluster: &Cluster, plan: &ScaleUp) -> Result<(), String> {
    let mut told: BTreeSet<usize> = BTreeSet::new();
    let groups: Vec<&str> = cluster.groups.iter().map(|group| group.name.as_str()).collect();
    for verdict in &plan.pods {
        if let Some(pod) = verdict.pods.iter().find(|pod| !told.insert(**pod)) {
            return Err(format!("pod {pod} is told of twice"));
        }
        let subjects: Vec<&Subject> = verdict.reasons.iter().map(|reason| &reason.subject).collect();
        let alone = matches!(subjects.as_slice(), [Subject::Pod { .. }]);
        let names: Vec<&str> = subjects
            .iter()
            .filter_map(|subject| match subject {
                Subject::Group { name } | Subject::Offering { group: name, .. } => Some(name.as_str()),
                Subject::Pod { .. } | Subject::Node { .. } => None,
            })
            .collect();
        if !alone && names != groups {
            return Err(format!("reasons are about {subjects:?}"));
        }
    }
    let wanted = (0..cluster.pods.len()).filter(|at| checker::waits(cluster, &cluster.pods[*at]));
    if let Some(pod) = wanted.into_iter().find(|pod| !told.contains(pod)) {
        return Err(format!("nothing is said of pod {pod}"));
    }
    let text = serde_json::to_string(plan).map_err(|error| error.to_string())?;
    match serde_json::from_str::<ScaleUp>(&text) {
        Ok(again) if again == *plan => Ok(()),
        other => Err(format!("{other:?} was read")),
    }
}

#[test]
fn every_plan_obeys_every_rule() {
    let mut bound = 0;
    for seed in seeds(4_000) {
        let mut cluster = generate::cluster(seed, &generate::MEDIUM);
        if seed % 4 == 0 {
            cluster.settings.preferences = hostler_planner::model::Preferences::Respect;
        }
        let plan = scale_up(&cluster);
        bound += plan.bindings.len();
        replay::up(&cluster, &plan).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        explained(&cluster, &plan).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(plan, scale_up(&cluster), "seed {seed}: the same input gives the same plan");
    }
    if std::env::var("HOSTLER_SEED").is_err() {
        assert!(bound > 0);
    }
}

#[test]
fn small_cases_are_as_good_as_the_best() {
    let cases = seeds(5_200);
    let (mut compared, mut priced) = (0u32, Vec::new());
    for seed in cases {
        let cluster = generate::cluster(seed, &generate::SMALL);
        let plan = scale_up(&cluster);
        replay::up(&cluster, &plan).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let Some(best) = exhaustive::best(&cluster, 4_000) else { continue };
        compared += 1;
        let mut unserved: std::collections::BTreeMap<i32, usize> = std::collections::BTreeMap::new();
        for pod in plan.unplaced() {
            *unserved.entry(cluster.pods[pod].spec.priority.unwrap_or(0)).or_default() += 1;
        }
        let unserved: Vec<(i32, usize)> = unserved.into_iter().rev().collect();
        let order = exhaustive::compare(&unserved, &best.unserved);
        assert!(order.is_le(), "seed {seed}: {unserved:?} have no place, {:?} is possible", best.unserved);
        if order.is_eq() && best.price > 0 {
            let percent = (plan.price - best.price) * 10_000 / best.price;
            priced.push((percent, seed));
        }
    }
    priced.sort_unstable();
    let Some((worst, seed)) = priced.last() else { return };
    let mean = priced.iter().map(|(over, _)| over).sum::<i64>() / i64::try_from(priced.len()).unwrap();
    let p99 = priced[priced.len() * 99 / 100].0;
    println!(
        "small cases: {compared} compared with every way there is, {} with a price: mean {mean}, p99 {p99}, worst {worst} ten-thousandths above the best (seed {seed})",
        priced.len()
    );
    assert!(mean <= 500 && p99 <= 2_500);
    if std::env::var("HOSTLER_SEED").is_err() {
        assert!(compared >= 5_000, "only {compared} cases were small enough");
    }
}

//! The usage trigger.

use hostler_planner::model::*;
use hostler_planner::{Explanation, usage};

/// Two ready nodes of 1,000m that are busy since long, and two offerings.
fn busy(cpu: i64) -> Cluster {
    let size = |units: i64| Resources::new(units * 1000, units * 1000).with_pods(10);
    let offering = |name: &str, units: i64, price: Price| Offering {
        name: name.to_owned(),
        capacity: size(units),
        allocatable: Some(size(units)),
        price,
        ..Offering::default()
    };
    let group = Group {
        name: "g".to_owned(),
        offerings: vec![offering("small", 1, 10), offering("large", 2, 15)],
        max: 10,
        mixing: true,
        hot_since: Some(9_000),
        ..Group::default()
    };
    let node = |name: &str| Node {
        name: name.to_owned(),
        allocatable: size(1),
        ready: true,
        group: Some("g".to_owned()),
        offering: Some("small".to_owned()),
        usage: Some(Usage { cpu, memory: 100 }),
        ..Node::default()
    };
    Cluster { now: 10_000, nodes: vec![node("a"), node("b")], groups: vec![group], ..Cluster::default() }
}

#[test]
fn a_busy_group_grows_by_the_cheapest_that_helps() {
    type Change = fn(&mut Cluster);
    // Usage, what else is so, what is bought, since when it is too much, and the reason.
    type Row<'t> = (i64, Change, &'t [usize], Option<Time>, &'t str);
    let table: &[Row<'_>] = &[
        (
            900,
            |_| (),
            &[0],
            Some(9_000),
            "group g: usage is 90 % CPU and 10 % memory, thresholds are 80 % and 80 %",
        ),
        // Twice the small one costs more than one large.
        (
            1_300,
            |_| (),
            &[1],
            Some(9_000),
            "group g: usage is 130 % CPU and 10 % memory, thresholds are 80 % and 80 %",
        ),
        (700, |_| (), &[], None, "group g: usage is 70 % CPU and 10 % memory, below the thresholds"),
        // Either of both is enough.
        (
            100,
            |c| c.nodes.iter_mut().for_each(|node| node.usage = Some(Usage { cpu: 100, memory: 800 })),
            &[0],
            Some(9_000),
            "group g: usage is 10 % CPU and 80 % memory, thresholds are 80 % and 80 %",
        ),
        // The mean over both; one that is not ready is none of them.
        (
            900,
            |c| c.nodes[1].usage = Some(Usage { cpu: 690, memory: 100 }),
            &[],
            None,
            "group g: usage is 79 % CPU and 10 % memory, below the thresholds",
        ),
        (
            900,
            |c| {
                c.nodes[1].usage = Some(Usage { cpu: 0, memory: 0 });
                c.nodes[1].ready = false;
            },
            &[0],
            Some(9_000),
            "group g: usage is 90 % CPU and 10 % memory, thresholds are 80 % and 80 %",
        ),
        (
            900,
            |c| c.nodes[1].usage = None,
            &[],
            None,
            "group g: usage is not measured, so its thresholds rest",
        ),
        (
            900,
            |c| c.groups[0].hot_since = Some(9_970),
            &[],
            Some(9_970),
            "group g: usage is above a threshold since 9970, must be for 60 s",
        ),
        (
            900,
            |c| c.groups[0].last_scale_up = Some(9_990),
            &[],
            Some(9_000),
            "group g: grew a moment ago, rests until 10050",
        ),
        (900, |c| c.groups[0].max = 2, &[], Some(9_000), "group g: has its 2 nodes"),
        (
            900,
            |c| {
                c.machines.push(Machine {
                    group: "g".to_owned(),
                    offering: "small".to_owned(),
                    ..Machine::default()
                });
            },
            &[],
            Some(9_000),
            "group g: usage is 90 % CPU and 10 % memory, thresholds are 80 % and 80 %",
        ),
        // From now on, where it is so for the first time.
        (
            900,
            |c| c.groups[0].hot_since = None,
            &[],
            Some(10_000),
            "group g: usage is above a threshold since 10000, must be for 60 s",
        ),
        (
            900,
            |c| c.groups[0].hot_since = Some(9_940),
            &[0],
            Some(9_940),
            "group g: usage is 90 % CPU and 10 % memory, thresholds are 80 % and 80 %",
        ),
        (
            900,
            |c| c.groups[0].hot_since = Some(9_941),
            &[],
            Some(9_941),
            "group g: usage is above a threshold since 9941, must be for 60 s",
        ),
    ];
    for (cpu, change, bought, since, words) in table {
        let mut cluster = busy(*cpu);
        change(&mut cluster);
        let verdict = &usage(&cluster)[0];
        let offerings: Vec<usize> = verdict.machines.iter().map(|machine| machine.offering).collect();
        assert_eq!(Explanation::group("g", verdict.reason.clone()).to_string(), *words);
        assert_eq!((offerings.as_slice(), verdict.hot_since), (*bought, *since), "{words}");
    }
}

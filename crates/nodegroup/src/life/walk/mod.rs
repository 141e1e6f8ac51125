//! Every state a VPSieNode's life can get into is visited: what is written × what is in the cloud × what its lists show ×
//! what becomes of the node × a crash or a fault at each edge. In each state it is safe; from each the goal is reached.

mod nature;
mod steps;
mod view;
mod world;

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};
use world::{Features, World};

struct Walk {
    states: usize,
    edges: usize,
}

/// A world in 128 bits: two worlds with the same are the same one.
fn key(world: &World) -> (u64, u64) {
    let text = format!("{world:?}");
    let digest = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &text).hash(&mut hasher);
        hasher.finish()
    };
    (digest(1), digest(2))
}

/// Visits everything that can be reached, then asks from where the goal can.
fn walk(start: World, most_faults: u8) -> Walk {
    let mut seen: HashMap<(u64, u64), usize> = HashMap::new();
    let mut came_from: Vec<(usize, String)> = vec![(0, "start".into())];
    let mut good_edges: Vec<Vec<usize>> = vec![Vec::new()];
    let mut goals = Vec::new();
    let mut todo = VecDeque::new();
    let mut edges = 0;
    seen.insert(key(&start), 0);
    todo.push_back((0, start));
    while let Some((at, world)) = todo.pop_front() {
        if let Some(what) = world.violation() {
            panic!("{what}\n{}\n{world:#?}", story(&came_from, at));
        }
        if world.is_goal() {
            goals.push(at);
        }
        let mut next: Vec<(String, bool, World)> = world
            .by_itself(most_faults)
            .into_iter()
            .map(|(what, good, world)| (what.to_owned(), good, world))
            .collect();
        next.extend(world.by_controller(most_faults));
        for (what, good, world) in next {
            edges += 1;
            let new = seen.len();
            let to = *seen.entry(key(&world)).or_insert(new);
            if to == new {
                came_from.push((at, what));
                good_edges.push(Vec::new());
                todo.push_back((to, world));
            }
            if good {
                good_edges[to].push(at);
            }
        }
    }
    let mut reached = vec![false; seen.len()];
    let mut todo: VecDeque<usize> = goals.into();
    for goal in &todo {
        reached[*goal] = true;
    }
    while let Some(at) = todo.pop_front() {
        for from in &good_edges[at] {
            if !std::mem::replace(&mut reached[*from], true) {
                todo.push_back(*from);
            }
        }
    }
    if let Some(lost) = reached.iter().position(|reached| !reached) {
        panic!("no way to the goal\n{}", story(&came_from, lost));
    }
    Walk { states: seen.len(), edges }
}

fn story(came_from: &[(usize, String)], mut at: usize) -> String {
    let mut lines = Vec::new();
    while at != 0 {
        lines.push(came_from[at].1.clone());
        at = came_from[at].0;
    }
    lines.reverse();
    lines.join("\n")
}

fn check(what: &str, features: Features, faults: u8, least: usize) {
    let walk = walk(World::new(features), faults);
    println!("{what}, {faults} faults: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > least, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_vpsie_node_is_safe_in_every_state_and_reaches_its_goal_from_each() {
    check("plain", Features::default(), 2, 1_000);
}

#[test]
fn one_that_joins_with_a_token_leaves_none_behind() {
    check("with a token", Features { tokens: true, ..Features::default() }, 1, 1_000);
}

#[test]
fn a_removal_is_taken_back_whenever_it_hurts() {
    check("removed by the autoscaler", Features { removals: true, ..Features::default() }, 1, 1_000);
}

#[test]
fn people_do_what_they_like() {
    check("people", Features { people: true, ..Features::default() }, 1, 1_000);
}

#[test]
fn nothing_is_made_or_let_go_while_the_answers_are_in_doubt() {
    check("frozen at times", Features { freezes: true, ..Features::default() }, 1, 1_000);
}

#[test]
fn credentials_come_and_go() {
    check("no credentials at times", Features { means_come_and_go: true, ..Features::default() }, 1, 1_000);
}

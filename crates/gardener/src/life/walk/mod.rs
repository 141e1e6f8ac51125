//! Every state a machine's life can get into is visited: what is written × what is in the cloud × what its
//! lists show × a crash or a fault at each edge. In each state it is safe; from each the goal is reached.

mod world;

use std::collections::{HashMap, VecDeque};
use world::World;

struct Walk {
    states: usize,
    edges: usize,
}

/// Visits everything that can be reached, then asks from where the goal can.
fn walk(start: World, most_faults: u8) -> Walk {
    let machines = start.machines();
    let mut seen: HashMap<World, usize> = HashMap::new();
    let mut came_from: Vec<(usize, String)> = Vec::new();
    let mut good_edges: Vec<Vec<usize>> = Vec::new();
    let mut goals = Vec::new();
    let mut todo = VecDeque::new();
    let mut edges = 0;
    seen.insert(start.clone(), 0);
    came_from.push((0, "start".into()));
    good_edges.push(Vec::new());
    todo.push_back((0, start));
    while let Some((at, world)) = todo.pop_front() {
        if let Some(what) = world.violation() {
            panic!("{what}\n{}\n{world:#?}", story(&came_from, at));
        }
        if world.is_goal() {
            goals.push(at);
        }
        let mut next: Vec<(String, bool, World)> =
            world.by_themselves().into_iter().map(|(what, world)| (what, true, world)).collect();
        for actor in 0..machines {
            next.extend(world.by_controller(actor, most_faults));
        }
        for (what, good, world) in next {
            edges += 1;
            let new = seen.len();
            let to = *seen.entry(world.clone()).or_insert(new);
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

#[test]
fn one_machine_is_safe_in_every_state_and_reaches_its_goal_from_each() {
    let walk = walk(World::new(1, 1), 3);
    println!("one machine, three faults: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
}

#[test]
fn two_machines_of_one_name_in_one_project_do_not_touch_each_other() {
    let walk = walk(World::new(2, 0), 1);
    println!("two machines, one fault: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 5_000, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_with_somebody_elses_id_leaves_that_server_alone() {
    let walk = walk(World::new(1, 1).with_somebody_elses_id(), 1);
    assert!(walk.states > 100, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_whose_class_comes_and_goes_leaves_no_server_behind() {
    let walk = walk(World::new(1, 1).with_a_class_that_comes_and_goes(), 1);
    println!("one machine, no class at times: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_that_another_program_has_ordered_a_server_for_has_one() {
    let worlds = [
        ("plain", World::new(1, 1), 2),
        ("with everything", World::new(1, 1).rich(), 1),
        ("no class at times", World::new(1, 1).with_a_class_that_comes_and_goes(), 1),
        ("no target cluster", World::new(1, 1).without_target(), 1),
    ];
    for (what, world, faults) in worlds {
        let walk = walk(world.begun_by_others(), faults);
        println!("begun by others, {what}: {} states, {} edges", walk.states, walk.edges);
        assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
    }
}

#[test]
fn one_machine_with_everything_to_it_is_safe_in_every_state() {
    let walk = walk(World::new(1, 1).rich(), 1);
    println!("one machine, with everything, one fault: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 1_000, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_without_a_target_cluster_is_as_safe() {
    let walk = walk(World::new(1, 1).rich().without_target(), 1);
    println!("one machine, no target cluster: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_whose_node_is_updated_in_place_is_safe_in_every_state() {
    let walk = walk(World::new(1, 1).with_updates(), 2);
    println!("one machine, updates in place, two faults: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 500, "the walk became trivial: {} states", walk.states);
}

#[test]
fn a_machine_that_is_kept_is_safe_in_every_state_and_let_go_without_a_trace() {
    let walk = walk(World::new(1, 1).with_keeping(), 1);
    println!("one machine, kept at times, one fault: {} states, {} edges", walk.states, walk.edges);
    assert!(walk.states > 1_000, "the walk became trivial: {} states", walk.states);
}

use super::*;
use serde_json::{Value, json};

fn set(name: &str, replicas: i32, owner: Option<&str>) -> MachineSet {
    let owners = owner
        .map(|uid| json!([{"apiVersion": "v", "kind": "k", "name": uid, "uid": uid, "controller": true}]));
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name, "ownerReferences": owners},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"set": name}}, "spec": {}}},
    }))
    .unwrap()
}

fn deployment(name: &str, replicas: i32, strategy: Value) -> MachineDeployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"replicas": replicas, "strategy": strategy, "template": {}},
    }))
    .unwrap()
}

fn machines(set: &str, count: usize) -> Vec<Arc<Machine>> {
    let one = |number: usize| {
        serde_json::from_value(json!({
            "metadata": {"name": format!("{set}-{number}"), "labels": {"set": set},
                "ownerReferences": [{"apiVersion": "v", "kind": "k", "name": set, "uid": set, "controller": true}]},
            "spec": {},
        }))
        .unwrap()
    };
    (0..count).map(|number| Arc::new(one(number))).collect()
}

/// Does everything there is to do; says what was done.
fn run(
    sets: &mut [MachineSet],
    deployments: &mut [MachineDeployment],
    machines: &[Arc<Machine>],
) -> Vec<String> {
    let mut done = Vec::new();
    let mut thawed = BTreeSet::new();
    loop {
        let step = decide(&Observed {
            now: Timestamp::UNIX_EPOCH,
            sets: &sets.iter().cloned().map(Arc::new).collect::<Vec<_>>(),
            deployments: &deployments.iter().cloned().map(Arc::new).collect::<Vec<_>>(),
            machines,
            limits: Limits { up: 2, down: 1 },
            thawed: &thawed,
        });
        assert!(done.len() < 50, "it does not end: {done:?}");
        match step {
            None => return done,
            Some(Step::Set { before, after, part, thaws, .. }) => {
                done.push(format!("{} {part:?}", before.name_any()));
                if thaws {
                    thawed.insert(before.name_any());
                }
                *sets.iter_mut().find(|set| set.name_any() == before.name_any()).unwrap() = *after;
            }
            Some(Step::Deployment { before, after, part }) => {
                done.push(format!("{} {part:?}", before.name_any()));
                *deployments.iter_mut().find(|one| one.name_any() == before.name_any()).unwrap() = *after;
            }
        }
    }
}

fn is_frozen(set: &MachineSet) -> bool {
    assert_eq!(has_label(set), condition(set).is_some());
    has_label(set)
}

#[test]
fn a_set_is_frozen_and_thaws() {
    let mut sets = [set("a", 2, None)];
    for (count, frozen) in [(5, false), (6, true), (6, true), (5, false), (7, true), (0, false)] {
        run(&mut sets, &mut [], &machines("a", count));
        assert_eq!(is_frozen(&sets[0]), frozen, "{count} machines");
    }
    assert_eq!(run(&mut sets, &mut [], &machines("a", 9)), ["a Status", "a Object"], "the condition first");
}

#[test]
fn between_the_limits_everything_stays_as_it_is() {
    let mut sets = [set("a", 2, None)];
    let limits = |down| Limits { up: 2, down };
    sets[0].labels_mut().insert(names::FREEZE_LABEL.to_owned(), "True".to_owned());
    let seen = |count: usize, down| {
        decide(&Observed {
            now: Timestamp::UNIX_EPOCH,
            sets: &[Arc::new(sets[0].clone())],
            deployments: &[],
            machines: &machines("a", count),
            limits: limits(down),
            thawed: &BTreeSet::new(),
        })
    };
    assert_eq!(seen(5, 2), None);
    assert!(seen(4, 2).is_some());
}

#[test]
fn a_deployment_follows_its_sets() {
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}});
    let mut deployments = [deployment("d", 3, rolling)];
    let mut sets = [set("a", 3, Some("d")), set("b", 0, Some("d"))];
    assert_eq!(run(&mut sets, &mut deployments, &machines("a", 6)), [""; 0], "3 + 2 + 2 are too many");
    let done = run(&mut sets, &mut deployments, &machines("a", 7));
    assert_eq!(done, ["a Status", "a Object", "d Status", "d Object"]);
    let conditions = deployments[0].status.clone().unwrap().conditions;
    assert_eq!(conditions[0].reason, "OverShootingReplicaCount");
    assert!(has_label(&deployments[0]) && !is_frozen(&sets[1]));
    run(&mut sets, &mut deployments, &machines("a", 3));
    assert!(!has_label(&deployments[0]) && deployments[0].status.clone().unwrap().conditions.is_empty());
}

#[test]
fn a_deployment_without_surge_keeps_nobody_from_being_looked_at() {
    let mut deployments = [deployment("d", 1, json!({"type": "Recreate"}))];
    let mut sets = [set("a", 1, Some("d")), set("b", 1, None)];
    let machines = [machines("a", 3), machines("b", 4)].concat();
    run(&mut sets, &mut deployments, &machines);
    assert!(is_frozen(&sets[0]) && is_frozen(&sets[1]));
}

#[test]
fn somebody_may_ask_for_a_thaw() {
    let mut deployments = [deployment("d", 1, json!({"type": "Recreate"}))];
    let mut sets = [set("a", 1, Some("d"))];
    let many = machines("a", 5);
    run(&mut sets, &mut deployments, &many);
    assert!(is_frozen(&sets[0]) && has_label(&deployments[0]));
    deployments[0].annotations_mut().insert(names::UNFREEZE_ANNOTATION.to_owned(), String::new());
    run(&mut sets, &mut deployments, &many);
    assert!(!is_frozen(&sets[0]) && !has_label(&deployments[0]));
    assert!(deployments[0].annotations().is_empty() && sets[0].annotations().is_empty());
    run(&mut sets, &mut deployments, &many);
    assert!(is_frozen(&sets[0]), "there still are too many");
}

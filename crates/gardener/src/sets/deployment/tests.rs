//! What a deployment decides, from its first machine to its last.

#[path = "desk.rs"]
mod desk;

use super::*;
use desk::{Desk, in_place, rolling, sets};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

#[test]
fn a_deployment_comes_up() {
    let desk = Desk::running(3, &rolling(1, 0));
    assert_eq!(desk.summary(), sets(&[("one", 3)]));
    let status = desk.deployment.status.clone().unwrap();
    assert_eq!((status.replicas, status.updated_replicas, status.available_replicas), (3, 3, 3));
    assert_eq!((status.unavailable_replicas, status.observed_generation), (0, Some(1)));
    assert_eq!(desk.progressing(), "NewMachineSetAvailable");
    assert!(
        status.conditions.iter().any(|condition| condition.kind == "Available" && condition.status == "True")
    );
    assert_eq!(desk.deployment.annotations()[names::REVISION_ANNOTATION], "1");
    assert_eq!(desk.deployment.finalizers(), [names::FINALIZER]);
}

#[test]
fn updates_roll_within_their_bounds() {
    for (replicas, surge, unavailable) in [(3, 1, 0), (3, 0, 1), (4, 2, 1), (1, 1, 0), (5, 5, 0), (6, 2, 3)] {
        let mut desk = Desk::running(replicas, &rolling(surge, unavailable));
        desk.class("two");
        desk.run();
        let name = format!("{replicas} replicas, {surge} more, {unavailable} fewer");
        assert_eq!(desk.summary(), sets(&[("one", 0), ("two", replicas)]), "{name}");
        assert!(desk.most <= usize::try_from(replicas + surge).unwrap(), "{name}: {} at once", desk.most);
        assert!(
            desk.fewest >= usize::try_from(replicas - unavailable).unwrap(),
            "{name}: only {}",
            desk.fewest
        );
        assert_eq!(desk.progressing(), "NewMachineSetAvailable", "{name}");
        assert_eq!(desk.deployment.annotations()[names::REVISION_ANNOTATION], "2", "{name}");
        assert!(
            desk.nodes.values().all(|node| node.annotations().is_empty()),
            "{name}: the autoscaler is held up"
        );
    }
}

#[test]
fn while_an_update_rolls_pods_and_the_autoscaler_keep_off_its_nodes() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.class("two");
    desk.decide_all();
    for node in desk.nodes.values() {
        assert_eq!(node.annotations().len(), 2);
        assert_eq!(node.spec.clone().unwrap().taints.unwrap()[0].key, names::PREFER_NO_SCHEDULE);
    }
    // Back again, before a machine went: the nodes of the set that is new again get pods again.
    desk.class("one");
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 2), ("two", 0)]));
    let taints = |node: &Node| node.spec.clone().unwrap_or_default().taints.unwrap_or_default().len();
    assert!(
        desk.nodes.values().all(|node| taints(node) == 0 && node.annotations().is_empty()),
        "{:?}",
        desk.nodes
    );
    assert!(!desk.sets[0].annotations().contains_key(names::PREFER_NO_SCHEDULE));
    assert_eq!(desk.sets[0].annotations()[names::REVISION_ANNOTATION], "3");
    assert_eq!(desk.sets[0].annotations()[names::REVISION_HISTORY_ANNOTATION], "1");
}

#[test]
fn recreation_takes_everything_down_first() {
    let mut desk = Desk::running(3, &json!({"type": "Recreate"}));
    desk.class("two");
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 0), ("two", 3)]));
    assert_eq!((desk.most, desk.fewest), (3, 0));
    // The new set was there before the old one was empty.
    desk.class("one");
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 3), ("two", 0)]));
    assert_eq!(desk.most, 3);
}

#[test]
fn what_needs_no_new_machines_makes_none() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.change(|deployment| {
        deployment.spec.template.spec.configuration.drain_timeout = Some("1m0s".to_owned());
    });
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 2)]));
    assert_eq!(desk.sets[0].spec.template.spec.configuration.drain_timeout.as_deref(), Some("1m0s"));
}

#[test]
fn scaling_goes_on_while_an_update_is_paused() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.change(|deployment| deployment.spec.paused = true);
    desk.class("two");
    desk.change(|deployment| deployment.spec.replicas = 4);
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 4)]));
    assert_eq!(desk.progressing(), "DeploymentPaused");
    desk.change(|deployment| deployment.spec.paused = false);
    desk.decide_all();
    assert_eq!(desk.progressing(), "NewMachineSetCreated");
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 0), ("two", 4)]));
}

#[test]
fn a_deployment_can_be_scaled_in_the_middle_of_an_update() {
    for (strategy, from, to) in [
        (rolling(1, 0), 4, 6),
        (rolling(1, 0), 4, 2),
        (rolling(1, 0), 4, 0),
        (json!({"type": "Recreate"}), 4, 6),
        (json!({"type": "Recreate"}), 4, 2),
    ] {
        let mut desk = Desk::running(from, &strategy);
        desk.class("two");
        for _ in 0..3 {
            desk.decide_all();
            desk.others();
        }
        desk.change(|deployment| deployment.spec.replicas = to);
        desk.run();
        assert_eq!(desk.summary(), sets(&[("one", 0), ("two", to)]), "{strategy}: {from} to {to}");
    }
}

#[test]
fn an_update_can_be_turned_back() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.change(|deployment| {
        drop(deployment.annotations_mut().insert("cause".to_owned(), "second".to_owned()));
    });
    desk.class("two");
    desk.run();
    desk.told.clear();
    desk.change(|deployment| deployment.spec.rollback_to = Some(crate::api::RollbackConfig::default()));
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 2), ("two", 0)]));
    assert_eq!(desk.told[0], "DeploymentRollback: Rolled back deployment \"d\" to revision 1");
    assert_eq!(desk.deployment.spec.rollback_to, None);
    assert_eq!(desk.deployment.annotations()[names::REVISION_ANNOTATION], "3");
    for (revision, reason) in
        [(9, "DeploymentRollbackRevisionNotFound"), (3, "DeploymentRollbackTemplateUnchanged")]
    {
        desk.told.clear();
        desk.change(|deployment| deployment.spec.rollback_to = Some(crate::api::RollbackConfig { revision }));
        desk.run();
        assert!(desk.told[0].starts_with(reason), "{:?}", desk.told);
        assert_eq!(desk.deployment.spec.rollback_to, None);
    }
}

#[test]
fn an_update_that_is_stuck_says_so() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.change(|deployment| deployment.spec.progress_deadline_seconds = Some(60));
    desk.class("two");
    let (_, again) = desk.decide_all();
    assert_eq!(again, Some(Duration::from_secs(61)));
    assert_eq!(desk.progressing(), "NewMachineSetCreated");
    desk.now += jiff::SignedDuration::from_secs(61);
    let (_, again) = desk.decide_all();
    assert_eq!((desk.progressing().as_str(), again), ("ProgressDeadlineExceeded", None));
    desk.run();
    assert_eq!(desk.progressing(), "NewMachineSetAvailable");
}

#[test]
fn old_sets_are_forgotten_beyond_the_limit() {
    for (limit, left) in
        [(None, vec!["one", "two", "three"]), (Some(1), vec!["two", "three"]), (Some(0), vec!["three"])]
    {
        let mut desk = Desk::running(1, &rolling(1, 0));
        desk.change(|deployment| deployment.spec.revision_history_limit = limit);
        for class in ["two", "three"] {
            desk.class(class);
            desk.run();
        }
        let classes: Vec<_> = desk.summary().into_iter().map(|(class, _)| class).collect();
        assert_eq!(classes, left, "{limit:?}");
    }
}

#[test]
fn a_deployment_that_goes_takes_everything_with_it() {
    let mut desk = Desk::running(2, &rolling(1, 0));
    desk.deployment.metadata.deletion_timestamp = Some(Time(desk.now));
    desk.run();
    assert_eq!((desk.sets.len(), desk.machines.len()), (0, 0));
    assert!(desk.deployment.finalizers().is_empty());
}

#[test]
fn a_set_made_by_hand_is_adopted_with_its_machines() {
    let mut desk = Desk::new(2, &rolling(1, 0));
    let template = desk.deployment.spec.template.clone();
    let mut set = MachineSet::new(
        "by-hand",
        crate::api::MachineSetSpec {
            replicas: 2,
            selector: desk.deployment.spec.selector.clone(),
            template,
            ..Default::default()
        },
    );
    set.metadata.uid = Some("hand".to_owned());
    set.metadata.generation = Some(1);
    set.labels_mut().insert("pool".to_owned(), "a".to_owned());
    desk.sets.push(set);
    while desk.others() {}
    desk.run();
    assert_eq!(desk.summary(), sets(&[("one", 2)]));
    let set = &desk.sets[0];
    let hash = &set.labels()[names::HASH_LABEL];
    assert_eq!(&set.spec.selector.clone().unwrap().match_labels.unwrap()[names::HASH_LABEL], hash);
    assert!(desk.machines.iter().all(|machine| &machine.labels()[names::HASH_LABEL] == hash));
    assert_eq!(desk.machines.len(), 2, "none was made anew");
}

#[test]
fn machines_that_the_autoscaler_names_are_marked() {
    let mut desk = Desk::running(3, &rolling(1, 0));
    let names: Vec<_> = desk.machines.iter().map(ResourceExt::name_any).collect();
    desk.machines[1].status.get_or_insert_default().current_status.phase = Phase::Failed;
    let text = format!(
        "{}~2026-01-01T00:00:05Z,{},{}~2026-01-01T00:00:06Z,gone~2026-01-01T00:00:07Z,a~b~c,{}~soon",
        names[0], names[1], names[1], names[2]
    );
    desk.deployment.annotations_mut().insert(names::TRIGGER_DELETION_ANNOTATION.to_owned(), text);
    desk.decide_all();
    let left = &desk.deployment.annotations()[names::TRIGGER_DELETION_ANNOTATION];
    assert_eq!(*left, format!("{}~2026-01-01T00:00:05Z", names[0]));
    let notes = desk.machines[0].annotations();
    assert_eq!(
        (notes[names::PRIORITY_ANNOTATION].as_str(), notes[names::MARKED_ANNOTATION].as_str()),
        ("1", "2026-01-01T00:00:05Z")
    );
    assert!(desk.machines[2].annotations().is_empty());

    // An older autoscaler gives no time.
    desk.deployment.annotations_mut().insert(names::TRIGGER_DELETION_ANNOTATION.to_owned(), names[2].clone());
    desk.deployment
        .annotations_mut()
        .insert(names::SCALER_TIME_ANNOTATION.to_owned(), "2026-01-01T00:00:09Z".to_owned());
    desk.decide_all();
    assert_eq!(desk.machines[2].annotations()[names::MARKED_ANNOTATION], "2026-01-01T00:00:09Z");
}

/// Whoever updates nodes and the machine controller: one machine that was selected is updated.
fn update_one(desk: &mut Desk) -> bool {
    let selected = |node: &&mut Node| {
        nodes::has_label(node, names::SELECTED_LABEL) && !nodes::has_label(node, names::UPDATE_RESULT_LABEL)
    };
    let Some(node) = desk.nodes.values_mut().find(selected) else { return false };
    assert!(nodes::has_label(node, names::CANDIDATE_LABEL));
    node.labels_mut().insert(names::UPDATE_RESULT_LABEL.to_owned(), "successful".to_owned());
    let condition = json!({"type": "InPlaceUpdate", "status": "True", "reason": "UpdateSuccessful"});
    node.status.get_or_insert_default().conditions =
        Some(vec![serde_json::from_value(condition.clone()).unwrap()]);
    let name = node.name_any();
    let machine = desk.machines.iter_mut().find(|machine| machine.name_any() == name).unwrap();
    machine.status.get_or_insert_default().conditions = vec![serde_json::from_value(condition).unwrap()];
    true
}

fn selected(desk: &Desk) -> usize {
    desk.nodes.values().filter(|node| nodes::has_label(node, names::SELECTED_LABEL)).count()
}

#[test]
fn machines_are_updated_in_place_a_few_at_a_time() {
    for (replicas, surge, unavailable) in [(3, 0, 1), (5, 0, 2), (3, 1, 0), (3, 1, 1)] {
        let name = format!("{replicas} replicas, {surge} more, {unavailable} fewer");
        let mut desk = Desk::running(replicas, &in_place(surge, unavailable, "Auto"));
        let before: Vec<_> = desk.machines.iter().map(ResourceExt::name_any).collect();
        desk.class("two");
        for _ in 0..200 {
            let (decided, _) = desk.decide_all();
            assert!(
                selected(&desk) <= usize::try_from(unavailable + surge).unwrap(),
                "{name}: too many at once"
            );
            if !desk.others() && !update_one(&mut desk) && !decided {
                break;
            }
        }
        assert_eq!(desk.summary(), sets(&[("one", 0), ("two", replicas)]), "{name}");
        let kept = desk.machines.iter().filter(|machine| before.contains(&machine.name_any())).count();
        assert_eq!(kept, usize::try_from(replicas - surge).unwrap(), "{name}: made anew");
        assert!(desk.most <= usize::try_from(replicas + surge).unwrap(), "{name}: {} at once", desk.most);
        for node in desk.nodes.values() {
            let labels: Vec<_> = node.labels().keys().collect();
            assert!(labels.is_empty() && node.annotations().is_empty(), "{name}: {labels:?}");
        }
        assert!(
            desk.machines.iter().all(|machine| !machine.labels().contains_key(names::UPDATE_RESULT_LABEL))
        );
        let hash = &desk.sets[1].labels()[names::HASH_LABEL];
        assert!(desk.machines.iter().all(|machine| &machine.labels()[names::HASH_LABEL] == hash), "{name}");
    }
}

#[test]
fn somebody_else_may_pick_the_machines() {
    let mut desk = Desk::running(3, &in_place(1, 1, "Manual"));
    desk.class("two");
    desk.run();
    assert_eq!((desk.summary(), selected(&desk)), (sets(&[("one", 3), ("two", 0)]), 0));
    assert!(desk.nodes.values().all(|node| nodes::has_label(node, names::CANDIDATE_LABEL)));
    for left in [2, 1, 0] {
        let node =
            desk.nodes.values_mut().find(|node| nodes::has_label(node, names::CANDIDATE_LABEL)).unwrap();
        node.labels_mut().insert(names::SELECTED_LABEL.to_owned(), "true".to_owned());
        desk.run();
        assert!(update_one(&mut desk));
        desk.run();
        assert_eq!(desk.summary(), sets(&[("one", left), ("two", 3 - left)]));
    }
    assert_eq!(desk.most, 3, "none was made anew");
}

#[test]
fn a_machine_that_boots_does_not_hold_up_an_update_in_place() {
    let mut desk = Desk::running(3, &in_place(1, 1, "Auto"));
    desk.class("two");
    desk.decide_all();
    // The surge machine is there, and has no node.
    assert!(desk.others() && desk.machines.iter().any(|machine| phase(machine) == Phase::Pending));
    desk.decide_all();
    assert!(update_one(&mut desk), "nothing was selected");
    desk.decide_all();
    assert_eq!(desk.summary(), sets(&[("one", 2), ("two", 2)]));
}

#[test]
fn scaling_does_not_stall_an_update_in_place() {
    for to in [5, 2] {
        let mut desk = Desk::running(3, &in_place(0, 1, "Auto"));
        desk.class("two");
        desk.decide_all();
        assert!(update_one(&mut desk));
        desk.decide_all();
        assert_eq!(desk.summary(), sets(&[("one", 2), ("two", 1)]));
        desk.change(|deployment| deployment.spec.replicas = to);
        for _ in 0..100 {
            desk.decide_all();
            if !desk.others() && !update_one(&mut desk) {
                break;
            }
        }
        desk.run();
        assert_eq!(desk.summary(), sets(&[("one", 0), ("two", to)]), "to {to}");
    }
}

#[test]
fn a_deployment_that_selects_everything_does_nothing() {
    let mut desk = Desk::new(2, &rolling(1, 0));
    desk.deployment.spec.selector = Some(LabelSelector::default());
    desk.run();
    assert_eq!((desk.sets.len(), desk.told.len()), (0, 1));
    assert!(desk.told[0].starts_with("SelectingAll: "), "{:?}", desk.told);
}

#[test]
fn a_wrong_deployment_says_what_is_wrong() {
    let memory = Memory { fresh: true, news: News::None };
    for (change, expected) in [
        (json!({"replicas": -1}), "spec.replicas: must not be negative"),
        (
            json!({"selector": {"matchLabels": {"pool": "b"}}}),
            "spec.template.metadata.labels: must match spec.selector",
        ),
        (
            json!({"strategy": {"type": "Sometimes"}}),
            "spec.strategy.type: must be RollingUpdate, Recreate or InPlaceUpdate",
        ),
    ] {
        let mut desk = Desk::new(2, &rolling(1, 0));
        let mut spec = serde_json::to_value(&desk.deployment.spec).unwrap();
        for (key, value) in change.as_object().unwrap() {
            spec[key] = value.clone();
        }
        desk.deployment.spec = serde_json::from_value(spec).unwrap();
        assert_eq!(desk.next(&memory), Step::Invalid(expected.to_owned()));
    }
}

#[test]
fn a_set_that_cannot_be_made_is_told_of() {
    let mut desk = Desk::new(2, &rolling(1, 0));
    desk.deployment.finalizers_mut().push(names::FINALIZER.to_owned());
    let memory = Memory { fresh: true, news: News::FailedToCreate("no".to_owned()) };
    let Step::WriteStatus { after, .. } = desk.next(&memory) else { panic!() };
    let condition = status::condition(&after, "Progressing").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "MachineSetCreateError"));
    desk.deployment.status = Some(*after);
    assert_eq!(desk.next(&memory), Step::Fail("no".to_owned()));
}

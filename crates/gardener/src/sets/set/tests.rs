use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T01:00:00Z";

fn set(replicas: i32) -> MachineSet {
    serde_json::from_value(json!({
        "metadata": {"name": "s", "namespace": "n", "uid": "us", "resourceVersion": "1", "generation": 1,
                     "finalizers": [names::FINALIZER]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"pool": "a"}},
                 "template": {"metadata": {"labels": {"pool": "a"}},
                              "spec": {"class": {"kind": "MachineClass", "name": "c"}}}},
    }))
    .unwrap()
}

fn machine(name: &str, phase: &str) -> Machine {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"pool": "a"},
                     "creationTimestamp": "2026-01-01T00:00:00Z",
                     "ownerReferences": [{"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet",
                                          "name": "s", "uid": "us", "controller": true}]},
        "spec": {"class": {"kind": "MachineClass", "name": "c"}},
        "status": {"currentStatus": {"phase": phase}, "lastOperation": {}},
    }))
    .unwrap()
}

fn with(mut machine: Machine, patch: &Value) -> Machine {
    let mut json = serde_json::to_value(&machine).unwrap();
    merge(&mut json, patch);
    machine = serde_json::from_value(json).unwrap();
    machine
}

fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn fresh() -> Memory {
    Memory { fresh: true, ..Memory::default() }
}

fn step(set: &MachineSet, machines: &[Machine], memory: &Memory) -> Step {
    step_with_nodes(set, machines, memory, &BTreeMap::new())
}

fn step_with_nodes(
    set: &MachineSet,
    machines: &[Machine],
    memory: &Memory,
    nodes: &BTreeMap<String, NodeSays>,
) -> Step {
    let machines: Vec<_> = machines.iter().cloned().map(Arc::new).collect();
    decide(&Observed { now: NOW.parse().unwrap(), set, machines: &machines, nodes, memory })
}

/// The step in a word or two.
fn said(step: &Step) -> String {
    let named = |machines: &[Arc<Machine>]| {
        machines.iter().map(|machine| machine.name_any()).collect::<Vec<_>>().join(" ")
    };
    match step {
        Step::Delete(victims) => format!("delete {}", named(victims)),
        Step::Write(writes) => {
            let names: Vec<_> = writes.iter().map(|(before, _)| before.name_any()).collect();
            format!("write {}", names.join(" "))
        }
        Step::Create(names) => format!("create {}", names.join(" ")),
        Step::Reserve(count) => format!("reserve {count}"),
        Step::WriteStatus(_) => "status".to_owned(),
        Step::Invalid(problem) => format!("invalid {problem}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn replicas_are_made_and_deleted() {
    let running = |name: &str| machine(name, "Running");
    let terminating = with(running("gone"), &json!({"metadata": {"deletionTimestamp": NOW}}));
    let table = [
        ("as many as wanted", set(1), vec![running("a")], "status"),
        ("first one", set(3), vec![], "reserve 1"),
        ("those that go do not count", set(2), vec![running("a"), terminating.clone()], "reserve 1"),
        ("too many: the one that is not up", set(1), vec![running("a"), machine("b", "Pending")], "delete b"),
        ("one failed: it goes first", set(2), vec![running("a"), machine("b", "Failed")], "delete b"),
        ("none wanted", set(0), vec![running("a"), running("b")], "delete a b"),
        (
            "failed, and too few: others first",
            set(3),
            vec![running("a"), machine("b", "Failed")],
            "reserve 1",
        ),
    ];
    for (name, set, machines, expected) in table {
        assert_eq!(said(&step(&set, &machines, &fresh())), expected, "{name}");
    }
}

#[test]
fn nothing_is_made_or_deleted_on_the_word_of_a_cache_alone() {
    for (set, machines) in [
        (set(2), vec![]),
        (set(0), vec![machine("a", "Running")]),
        (set(1), vec![machine("a", "Failed")]),
        (set(1), vec![with(machine("a", "Running"), &json!({"metadata": {"ownerReferences": null}}))]),
    ] {
        assert_eq!(step(&set, &machines, &Memory::default()), Step::Refresh, "{machines:?}");
    }
}

#[test]
fn names_are_written_down_before_machines_with_these_names_are_made() {
    let mut reserved = set(4);
    reserved.annotations_mut().insert(names::CREATING_ANNOTATION.to_owned(), "s-a,s-b".to_owned());
    let made = |names: &[&str]| names.iter().map(|name| machine(name, "")).collect::<Vec<_>>();
    let memory = |made: usize, used_up: &[&str]| Memory {
        made,
        used_up: used_up.iter().map(|name| (*name).to_owned()).collect(),
        ..fresh()
    };
    for (name, machines, memory, expected) in [
        ("both are open", made(&[]), memory(0, &[]), "create s-a s-b"),
        ("one is open", made(&["s-b"]), memory(0, &["s-b"]), "create s-a"),
        ("only as many as are missing", made(&["x", "y", "z"]), memory(0, &[]), "create s-a"),
        ("one was there and is gone", made(&["s-a"]), memory(0, &["s-a", "s-b"]), "reserve 1"),
        ("both are made", made(&["s-a", "s-b"]), memory(1, &["s-a", "s-b"]), "reserve 2"),
    ] {
        assert_eq!(said(&step(&reserved, &machines, &memory)), expected, "{name}");
    }
}

#[test]
fn more_are_tried_each_time_it_goes_well() {
    for (made, expected) in [(0, 1), (1, 2), (3, 4), (7, 8), (63, 64), (127, 100)] {
        let memory = Memory { made, ..fresh() };
        assert_eq!(step(&set(1000), &[], &memory), Step::Reserve(expected), "after {made}");
    }
}

#[test]
fn a_frozen_set_makes_nothing_and_goes_on_deleting() {
    for label in [(names::FREEZE_LABEL, "True"), (names::SCALE_UP_DISABLED_LABEL, "")] {
        let mut few = set(2);
        few.labels_mut().insert(label.0.to_owned(), label.1.to_owned());
        assert_eq!(said(&step(&few, &[], &fresh())), "status", "{label:?}");
        few.spec.replicas = 0;
        assert_eq!(said(&step(&few, &[machine("a", "Running")], &fresh())), "delete a");
    }
    let mut thawed = set(1);
    thawed.labels_mut().insert(names::FREEZE_LABEL.to_owned(), "False".to_owned());
    assert_eq!(said(&step(&thawed, &[], &fresh())), "reserve 1");
}

#[test]
fn a_set_that_goes_takes_its_machines_with_it() {
    let going = |finalizers: Value| {
        let mut json = serde_json::to_value(set(1)).unwrap();
        merge(&mut json, &json!({"metadata": {"deletionTimestamp": NOW, "finalizers": finalizers}}));
        serde_json::from_value::<MachineSet>(json).unwrap()
    };
    let set = going(json!([names::FINALIZER]));
    let leaving = with(machine("a", "Running"), &json!({"metadata": {"deletionTimestamp": NOW}}));
    let unlabelled = with(machine("b", "Running"), &json!({"metadata": {"labels": {"pool": "other"}}}));
    assert_eq!(step(&set, &[], &Memory::default()), Step::Refresh);
    assert_eq!(said(&step(&set, &[leaving.clone(), unlabelled], &fresh())), "delete b");
    assert_eq!(said(&step(&set, &[leaving], &fresh())), "status");
    assert_eq!(step(&set, &[], &fresh()), Step::RemoveFinalizer);
    assert_eq!(step(&going(json!(["somebody/else"])), &[], &fresh()), Step::Done { again: None });
}

#[test]
fn machines_are_adopted_and_released() {
    let orphan = with(machine("a", "Running"), &json!({"metadata": {"ownerReferences": null}}));
    let Step::Write(writes) = step(&set(1), &[orphan], &fresh()) else { panic!("not adopted") };
    assert_eq!(writes[0].1.owner_references()[0].uid, "us");
    let strayed = with(machine("a", "Running"), &json!({"metadata": {"labels": {"pool": "b"}}}));
    let Step::Write(writes) = step(&set(1), &[strayed], &fresh()) else { panic!("not released") };
    assert!(writes[0].1.owner_references().is_empty());
}

#[test]
fn what_may_change_on_a_machine_is_kept_in_step() {
    let mut changed = set(1);
    changed.spec.template.spec.configuration.drain_timeout = Some("1m0s".to_owned());
    changed.spec.template.spec.class.kind = "Other".to_owned();
    changed.spec.template.spec.class.name = "larger".to_owned();
    let Step::Write(writes) = step(&changed, &[machine("a", "Running")], &fresh()) else { panic!() };
    let spec = &writes[0].1.spec;
    assert_eq!(spec.configuration.drain_timeout.as_deref(), Some("1m0s"));
    assert_eq!(
        (spec.class.kind.as_str(), spec.class.name.as_str()),
        ("Other", "c"),
        "a class needs a new machine"
    );

    let Step::Write(writes) = step(&changed, &[machine("a", "Failed")], &fresh()) else { panic!() };
    assert_eq!(writes[0].1.spec.configuration.drain_timeout, None, "only the kind of a failed one");
}

#[test]
fn machines_that_the_autoscaler_chose_go_whatever_the_number() {
    let chosen = |priority: &str, time: &str| {
        let notes = json!({names::PRIORITY_ANNOTATION: priority, names::MARKED_ANNOTATION: time});
        with(machine("a", "Running"), &json!({"metadata": {"annotations": notes}}))
    };
    let mut scaled = set(1);
    scaled
        .annotations_mut()
        .insert(names::SCALER_TIME_ANNOTATION.to_owned(), "2026-01-01T00:30:00Z".to_owned());
    for (priority, time, expected) in [
        ("1", "2026-01-01T00:30:00Z", "delete a"),
        ("1", "2026-01-01T00:30:01Z", "status"),
        ("3", "2026-01-01T00:30:00Z", "status"),
        ("1", "then", "status"),
    ] {
        assert_eq!(said(&step(&scaled, &[chosen(priority, time)], &fresh())), expected, "{priority} {time}");
    }
}

#[test]
fn failed_machines_stay_while_somebody_wants_to_look_at_them() {
    let failed = |machine_says: &str, last_of_node: &str, expires: Option<&str>| {
        let notes =
            json!({names::PRESERVE_ANNOTATION: machine_says, names::NODE_PRESERVE_ANNOTATION: last_of_node});
        let current = json!({"phase": "Failed", "preserveExpiryTime": expires});
        let patch = json!({"metadata": {"annotations": notes}, "status": {"currentStatus": current}});
        with(machine("a", "Failed"), &patch)
    };
    let value = |text: &str| NodeSays::Value(text.to_owned());
    let later = Some("2026-01-01T02:00:00Z");
    for (name, machine, node, goes) in [
        ("nobody cares", failed("", "", None), NodeSays::NoNode, true),
        ("now", failed("now", "", None), NodeSays::NoNode, false),
        ("when failed", failed("when-failed", "", None), value(""), false),
        ("no", failed("false", "", None), value(""), true),
        ("nonsense", failed("perhaps", "", None), value(""), true),
        ("the node wins", failed("now", "", None), value("false"), true),
        ("the node wins", failed("", "", None), value("now"), false),
        ("the node's word was taken back", failed("now", "now", None), value(""), true),
        ("no node any more", failed("now", "", None), NodeSays::Missing, true),
        ("preserved", failed("", "", later), NodeSays::Missing, false),
        ("was preserved", failed("now", "", Some(NOW)), value("now"), true),
    ] {
        let nodes = BTreeMap::from([("a".to_owned(), node)]);
        let step = said(&step_with_nodes(&set(1), &[machine], &fresh(), &nodes));
        assert_eq!(step, if goes { "delete a" } else { "status" }, "{name}");
    }
}

#[test]
fn as_many_failed_machines_are_kept_as_the_set_wants() {
    let failed = |name: &str, hour: u32, value: &str| {
        let meta = json!({"creationTimestamp": format!("2025-12-31T{hour:02}:00:00Z"),
            "annotations": {names::PRESERVE_ANNOTATION: value}});
        with(machine(name, "Failed"), &json!({"metadata": meta}))
    };
    let three = [failed("a", 1, ""), failed("b", 2, ""), failed("c", 3, "false")];
    let mut keeping = set(3);
    keeping.spec.auto_preserve_failed_machine_max = 1;
    assert_eq!(said(&step(&keeping, &three, &fresh())), "write b", "the youngest that may be kept");
    let kept = [failed("a", 1, "auto-preserved"), failed("b", 2, "auto-preserved")];
    assert_eq!(said(&step(&keeping, &kept, &fresh())), "write a", "the oldest of too many");
    keeping.spec.auto_preserve_failed_machine_max = 2;
    assert_eq!(said(&step(&keeping, &kept, &fresh())), "reserve 1");

    // Its time is over and its annotation gone: it is not kept once more.
    let mut told = set(1);
    told.spec.auto_preserve_failed_machine_max = 1;
    told.status = Some(serde_json::from_value(json!({"autoPreserveFailedMachineCount": 1})).unwrap());
    assert_eq!(said(&step(&told, &[failed("a", 1, "")], &fresh())), "delete a");
}

#[test]
fn a_machine_on_its_way_here_is_not_taken_for_one_too_many() {
    let moved = json!({"metadata": {"labels": {names::UPDATE_RESULT_LABEL: "successful"}}});
    let machines = [machine("a", "Running"), with(machine("b", "Running"), &moved)];
    assert_eq!(said(&step(&set(1), &machines, &fresh())), "status");
}

#[test]
fn a_wrong_set_says_what_is_wrong() {
    let mut table = Vec::new();
    table.push((set(-1), "invalid spec.replicas: must not be negative"));
    let mut other = set(1);
    other.spec.template.spec.class.name.clear();
    table.push((other, "invalid spec.template.spec.class: kind and name are required"));
    let mut other = set(1);
    other.spec.template.metadata = None;
    table.push((other, "invalid spec.template.metadata.labels: must match spec.selector"));
    let mut other = set(1);
    other.spec.selector = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector::default());
    table.push((other, "invalid spec.selector: is empty and would select everything"));
    for (set, expected) in table {
        assert_eq!(said(&step(&set, &[], &fresh())), expected);
    }
}

#[test]
fn the_status_counts_and_a_failure_is_told_until_it_is_over() {
    let failed = json!({"status": {"lastOperation": {"state": "Failed", "description": "no room"}}});
    let machines =
        [machine("a", "Running"), machine("b", "Available"), with(machine("c", "CrashLoopBackOff"), &failed)];
    let Step::WriteStatus(status) = step(&set(3), &machines, &fresh()) else { panic!() };
    assert_eq!((status.replicas, status.available_replicas, status.ready_replicas), (3, 2, 1));
    assert_eq!((status.fully_labeled_replicas, status.observed_generation), (3, Some(1)));
    assert_eq!(status.failed_machines.len(), 1);
    assert_eq!(
        (status.failed_machines[0].name.as_str(), status.failed_machines[0].owner_ref.as_str()),
        ("c", "s")
    );

    let mut told = set(3);
    told.status = Some(*status.clone());
    assert_eq!(step(&told, &machines, &fresh()), Step::Done { again: None });

    let failure = Failure { reason: "FailedCreate", message: "Error creating: no".to_owned() };
    let failing = Memory { failure: Some(failure), ..fresh() };
    let Step::WriteStatus(status) = step(&told, &machines, &failing) else { panic!() };
    assert_eq!(
        (status.conditions[0].kind.as_str(), status.conditions[0].reason.as_str()),
        ("ReplicaFailure", "FailedCreate")
    );
    told.status = Some(*status);
    assert_eq!(step(&told, &machines, &failing), Step::Fail("Error creating: no".to_owned()));
    let Step::WriteStatus(status) = step(&told, &machines, &fresh()) else { panic!() };
    assert!(status.conditions.is_empty());
}

#[test]
fn a_preserved_machine_is_looked_at_when_its_time_is_over() {
    let kept = with(
        machine("a", "Failed"),
        &json!({"status": {"currentStatus": {"preserveExpiryTime": "2026-01-01T01:10:00Z"}}}),
    );
    let Step::WriteStatus(status) = step(&set(1), std::slice::from_ref(&kept), &fresh()) else { panic!() };
    assert_eq!((status.preserved_failed_replicas, status.failed_machines.len()), (1, 0));
    let mut told = set(1);
    told.status = Some(*status);
    assert_eq!(step(&told, &[kept], &fresh()), Step::Done { again: Some(Duration::from_secs(601)) });
}

#[test]
fn a_set_tells_how_many_of_its_failed_machines_are_kept_and_how_many_by_itself() {
    let kept = |name: &str, value: &str, until: Option<&str>| {
        let meta = json!({"annotations": {names::PRESERVE_ANNOTATION: value}});
        let status = json!({"currentStatus": {"preserveExpiryTime": until}});
        with(machine(name, "Failed"), &json!({"metadata": meta, "status": status}))
    };
    let until = Some("2026-01-01T01:10:00Z");
    let machines = [
        kept("a", "auto-preserved", until),
        kept("b", "auto-preserved", None),
        kept("c", "now", until),
        machine("d", "Running"),
    ];
    let mut keeping = set(4);
    keeping.spec.auto_preserve_failed_machine_max = 2;
    let Step::WriteStatus(status) = step(&keeping, &machines, &fresh()) else { panic!() };
    assert_eq!((status.replicas, status.ready_replicas), (4, 1), "those that are kept are replicas, too");
    assert_eq!((status.preserved_failed_replicas, status.auto_preserve_failed_machine_count), (2, 2));
}

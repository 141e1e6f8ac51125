use super::*;
use crate::life::test_support::observed;
use hostler_driver::{Code, Failure};

const HOURS: i64 = 3600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn said(holds: bool, reason: &str, message: &str) -> PreservedCondition {
    PreservedCondition { holds, reason: reason.to_owned(), message: message.to_owned() }
}

fn wanted(value: &str, until: Option<i64>) -> Preserve {
    Preserve {
        machine: value.to_owned(),
        until: until.map(at),
        timeout: SignedDuration::from_hours(96),
        ..Preserve::default()
    }
}

fn seen(phase: Phase, preserve: Preserve) -> Observed {
    Observed { now: at(HOURS), phase, preserve, ..observed() }
}

/// What happened, in short.
fn short(step: Option<&Step>) -> String {
    match step {
        None => "-".to_owned(),
        Some(Step::KeepUntil(Some(_))) => "keep".to_owned(),
        Some(Step::KeepUntil(None)) => "end".to_owned(),
        Some(Step::NotePreserve(value)) => format!("note {value:?}"),
        Some(Step::SetPreserved(said)) => format!("say {}", said.reason),
        Some(other) => format!("{other:?}"),
    }
}

#[test]
fn the_wish_decides_with_the_phase_and_the_time() {
    let (ahead, over) = (Some(2 * HOURS), Some(HOURS));
    for (value, phase, until, expected) in [
        ("", Phase::Running, None, "-"),
        ("", Phase::Failed, None, "-"),
        ("", Phase::Failed, ahead, "end"),
        ("false", Phase::Failed, None, "-"),
        ("false", Phase::Running, ahead, "end"),
        ("now", Phase::Running, None, "keep"),
        ("now", Phase::Failed, None, "keep"),
        ("now", Phase::Pending, None, "keep"),
        ("now", Phase::Running, ahead, "-"),
        ("now", Phase::Failed, over, "note \"\""),
        ("when-failed", Phase::Running, None, "-"),
        ("when-failed", Phase::Unknown, None, "-"),
        ("when-failed", Phase::Failed, None, "keep"),
        ("when-failed", Phase::Failed, ahead, "-"),
        ("when-failed", Phase::Failed, over, "note \"\""),
        // It has recovered; when it fails once more it is kept once more.
        ("when-failed", Phase::Running, ahead, "end"),
        ("auto-preserved", Phase::Failed, None, "keep"),
        ("auto-preserved", Phase::Failed, over, "note \"\""),
        ("auto-preserved", Phase::Running, ahead, "note \"\""),
        ("auto-preserved", Phase::Running, None, "note \"\""),
        // A slip of the pen.
        ("Now", Phase::Failed, None, "-"),
        ("Now", Phase::Failed, ahead, "-"),
        ("Now", Phase::Failed, over, "end"),
    ] {
        let step = preserve(&seen(phase, wanted(value, until)));
        assert_eq!(short(step.as_ref()), expected, "{value:?} {phase:?} {until:?}");
    }
    let step = preserve(&seen(Phase::Failed, wanted("now", None)));
    assert_eq!(step, Some(Step::KeepUntil(Some(at(97 * HOURS)))));
}

#[test]
fn the_nodes_word_goes_before_the_machines() {
    let with = |node: Option<&str>, noted: &str, machine: &str| Preserve {
        noted: noted.to_owned(),
        node: node.map(|value| PreservedNode { value: value.to_owned(), ..PreservedNode::default() }),
        ..wanted(machine, None)
    };
    for (node, noted, machine, value, note) in [
        (None, "", "now", "now", None),
        (Some(""), "", "now", "now", None),
        (Some("false"), "", "now", "false", Some("false")),
        (Some("false"), "false", "", "false", None),
        // Somebody has annotated the machine although the node has spoken.
        (Some("false"), "false", "now", "false", Some("false")),
        // The word was taken back, and with it the machine's of then.
        (Some(""), "now", "when-failed", "", Some("")),
        (None, "now", "", "", Some("")),
    ] {
        let preserve = with(node, noted, machine);
        assert_eq!(preserve.value(), value, "{preserve:?}");
        let step = super::preserve(&seen(Phase::Running, preserve.clone()));
        let noted = match step {
            Some(Step::NotePreserve(value)) => Some(value),
            _ => None,
        };
        assert_eq!(noted.as_deref(), note, "{preserve:?}");
    }
    assert_eq!(
        with(Some("Now"), "", "").nonsense().unwrap().split(" is not").next(),
        Some("the Node's annotation node.machine.sapcloud.io/preserve: \"Now\"")
    );
    assert!(with(None, "", "yes").nonsense().unwrap().starts_with("the Machine's annotation"));
    assert_eq!(with(Some("when-failed"), "", "yes").nonsense(), None);
}

/// Carries the steps out on what is written until there is none, and gives their names.
fn run(
    seen: &mut Observed,
    drain: impl Fn(&PreservedNode) -> Option<node::Step<node::Drained>>,
) -> Vec<String> {
    let mut story = Vec::new();
    for _ in 0..20 {
        let drains = seen.preserve.drains(seen.phase, seen.now);
        seen.drain = seen.preserve.node.as_ref().filter(|_| drains).and_then(&drain);
        let Some(step) = preserve(seen) else { return story };
        story.push(match &step {
            Step::ChangeNode(patch) => patch.to_string().replace("cluster-autoscaler.kubernetes.io/", ""),
            Step::SetPreserved(said) => format!("{} {} {}", said.holds, said.reason, said.message),
            Step::OnNode(_) => "drain".to_owned(),
            Step::Wait { reason, .. } => format!("wait {reason}"),
            step => short(Some(step)),
        });
        let preserve = &mut seen.preserve;
        match step {
            Step::KeepUntil(until) => preserve.until = until,
            Step::NotePreserve(value) => (preserve.machine, preserve.noted) = (String::new(), value),
            Step::SetPreserved(said) => preserve.node.as_mut().unwrap().condition = Some(said),
            Step::OnNode(_) => preserve.node.as_mut().unwrap().cordoned = true,
            Step::ChangeNode(patch) => {
                let node = preserve.node.as_mut().unwrap();
                let note = |name: &str| patch["metadata"]["annotations"].get(name).cloned();
                if let Some(value) = note(names::SCALE_DOWN_DISABLED_ANNOTATION) {
                    (node.left_alone, node.left_alone_by_us) = (value == "true", value == "true");
                }
                if let Some(value) = note(names::CORDONED_ANNOTATION) {
                    node.cordoned_by_us = value.as_str().map(|value| value == "true");
                }
                if note(names::PRESERVE_ANNOTATION).is_some() {
                    node.value.clear();
                }
                node.cordoned &= patch.get("spec").is_none();
            }
            Step::Wait { .. } => return story,
            other => panic!("{other:?}"),
        }
    }
    panic!("there is no end to it: {story:?}");
}

fn cordons_and_ends(failed: Option<&str>) -> impl Fn(&PreservedNode) -> Option<node::Step<node::Drained>> {
    let failed = failed.map(str::to_owned);
    move |node| {
        Some(if node.cordoned {
            node::Step::Done(node::Drained {
                forced: None,
                failed: failed.clone(),
                volumes_left: false,
                took: Duration::ZERO,
            })
        } else {
            node::Step::Act(node::Act::Cordon)
        })
    }
}

fn with_node(value: &str, node: PreservedNode) -> Preserve {
    Preserve { node: Some(node), ..wanted(value, None) }
}

const DISABLE: &str =
    r#"{"metadata":{"annotations":{"scale-down-disabled":"true","scale-down-disabled-by-mcm":"true"}}}"#;
const UNCORDON: &str = r#"{"metadata":{"annotations":{"machine.hostler.dev/cordoned-to-preserve":null}},"spec":{"unschedulable":null}}"#;
const ENABLE: &str =
    r#"{"metadata":{"annotations":{"scale-down-disabled":null,"scale-down-disabled-by-mcm":null}}}"#;

#[test]
fn a_machine_that_runs_is_kept_and_not_drained() {
    let mut seen = seen(Phase::Running, with_node("now", PreservedNode::default()));
    let until = "Machine preserved until 1970-01-05 01:00:00 +0000 UTC.";
    let kept = ["keep".to_owned(), DISABLE.to_owned(), format!("true Preserved by user. {until}")];
    assert_eq!(run(&mut seen, cordons_and_ends(None)), kept);
    // Somebody lets the autoscaler have it: that is not undone again and again.
    seen.preserve.node.as_mut().unwrap().left_alone = false;
    seen.preserve.node.as_mut().unwrap().left_alone_by_us = false;
    assert_eq!(run(&mut seen, cordons_and_ends(None)), [""; 0]);

    // It fails, and recovers.
    seen.phase = Phase::Failed;
    let drained = [
        r#"{"metadata":{"annotations":{"machine.hostler.dev/cordoned-to-preserve":"true"}}}"#.to_owned(),
        "drain".to_owned(),
        format!("true Preserved by user. Preserved node drained successfully. {until}"),
    ];
    assert_eq!(run(&mut seen, cordons_and_ends(None)), drained);
    seen.phase = Phase::Running;
    let back = [format!("true Preserved by user. {until}"), UNCORDON.to_owned()];
    assert_eq!(run(&mut seen, cordons_and_ends(None)), back);

    seen.now = at(97 * HOURS);
    let ended = ["false Preservation stopped. ", "note \"\"", "end"];
    assert_eq!(run(&mut seen, cordons_and_ends(None)), ended);
    assert_eq!(seen.preserve.value(), "");
}

#[test]
fn a_failed_machine_is_drained_once_and_let_go_when_its_time_is_over() {
    let node = PreservedNode { value: "when-failed".to_owned(), ..PreservedNode::default() };
    let mut seen = seen(Phase::Failed, with_node("", node));
    let story = run(&mut seen, cordons_and_ends(None));
    assert_eq!(story[..2], ["note \"when-failed\"", "keep"]);
    assert_eq!(story[3], "drain");
    assert_eq!(story.len(), 5, "{story:?}");
    assert!(seen.preserve.node.as_ref().unwrap().cordoned);
    seen.now = at(97 * HOURS);
    let story = run(&mut seen, cordons_and_ends(None));
    assert_eq!(story[1..], ["note \"\"", "false Preservation stopped. ", UNCORDON, "end"]);
    let node = seen.preserve.node.clone().unwrap();
    assert_eq!((node.cordoned, node.cordoned_by_us, node.left_alone), (false, None, false));
    assert_eq!((node.value.as_str(), seen.preserve.noted.as_str()), ("", ""));
    assert_eq!(run(&mut seen, cordons_and_ends(None)), [""; 0]);
}

#[test]
fn what_others_did_to_the_node_stays() {
    let node = PreservedNode { cordoned: true, left_alone: true, ..PreservedNode::default() };
    let mut seen = seen(Phase::Failed, with_node("when-failed", node));
    let story = run(&mut seen, cordons_and_ends(None));
    assert_eq!(
        story[1],
        r#"{"metadata":{"annotations":{"machine.hostler.dev/cordoned-to-preserve":"false"}}}"#
    );
    seen.phase = Phase::Running;
    run(&mut seen, cordons_and_ends(None));
    let node = seen.preserve.node.clone().unwrap();
    assert_eq!((node.cordoned, node.cordoned_by_us, node.left_alone), (true, None, true));
    assert_eq!(seen.preserve.until, None);
    assert_eq!(seen.preserve.machine, "when-failed", "it is kept when it fails again");
}

#[test]
fn what_gardeners_controller_has_drained_is_drained_and_comes_back() {
    let until = "Machine preserved until 1970-01-01 02:00:00 +0000 UTC.";
    let drained = said(true, BY_USER, &format!("{DRAINED} {until}"));
    let node = PreservedNode {
        condition: Some(drained.clone()),
        cordoned: true,
        left_alone: true,
        left_alone_by_us: true,
        ..PreservedNode::default()
    };
    let of = |phase, value: &str| {
        seen(phase, Preserve { until: Some(at(2 * HOURS)), ..with_node(value, node.clone()) })
    };
    let mut kept = of(Phase::Failed, "now");
    assert_eq!(run(&mut kept, |_| panic!("it is drained already")), [""; 0]);
    let mut back = of(Phase::Running, "now");
    let story = run(&mut back, cordons_and_ends(None));
    assert_eq!(
        story,
        [r#"{"spec":{"unschedulable":null}}"#.to_owned(), format!("true Preserved by user. {until}")]
    );
    let mut ended = of(Phase::Failed, "false");
    let story = run(&mut ended, cordons_and_ends(None));
    let both = ENABLE.strip_suffix('}').unwrap().to_owned() + r#","spec":{"unschedulable":null}}"#;
    assert_eq!(story, [both.as_str(), "false Preservation stopped. ", "end"]);
}

#[test]
fn a_node_that_cannot_be_drained_says_so_and_is_tried_again() {
    let mut failing = seen(Phase::Failed, with_node("auto-preserved", PreservedNode::default()));
    let story = run(&mut failing, cordons_and_ends(Some("no")));
    let until = "Machine preserved until 1970-01-05 01:00:00 +0000 UTC.";
    assert_eq!(
        story[2..],
        [
            "drain".to_owned(),
            format!("false Preserved by MCM. Preserved node could not be drained. {until}"),
            "wait DrainFailing".to_owned()
        ]
    );
    let story = run(&mut failing, cordons_and_ends(None));
    assert_eq!(story, [format!("true Preserved by MCM. Preserved node drained successfully. {until}")]);
}

#[test]
fn whoever_waits_does_not_wait_beyond_the_end() {
    let minute = Duration::from_mins(1);
    let kept = |seconds: i64| seen(Phase::Running, wanted("now", Some(HOURS + seconds)));
    let wait = |again| Step::Wait { reason: "x", message: String::new(), again };
    let failure = || Failure::new(Code::Unavailable, "later");
    for (rest, expected) in [
        (Step::Done, Step::Rest(Duration::from_secs(30))),
        (Step::Rest(minute), Step::Rest(Duration::from_secs(30))),
        (wait(minute), wait(Duration::from_secs(30))),
        (wait(Duration::from_secs(5)), wait(Duration::from_secs(5))),
        (
            Step::TryAgain { failure: failure(), again: minute },
            Step::TryAgain { failure: failure(), again: Duration::from_secs(30) },
        ),
        (Step::DeleteNode, Step::DeleteNode),
    ] {
        assert_eq!(beside(&kept(30), rest.clone()), expected, "{rest:?}");
    }
    assert_eq!(beside(&kept(0), Step::Done), Step::NotePreserve(String::new()));
    assert_eq!(beside(&kept(0), Step::List), Step::List, "other things come first");
    let nobody = seen(Phase::Running, Preserve::default());
    assert_eq!(beside(&nobody, Step::Done), Step::Done);
}

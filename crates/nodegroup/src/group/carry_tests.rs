use super::*;
use crate::api::VPSieNodePhase as Phase;
use hostler_planner::{
    NewMachine,
    model::{Group as PlannedGroup, Node, Offering},
};

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

/// A group with types `small` and `large`, and nodes that are well.
struct Scene {
    limits: Effective,
    preferred: &'static str,
    mixing: bool,
    choices: Vec<Choice>,
    back_off: BackOff,
    members: Vec<Member>,
    wanted: Wanted,
    blocked: Option<&'static str>,
    frozen: bool,
}

fn scene(min: u32, max: u32, nodes: usize) -> Scene {
    let choice =
        |offering: &str, price| Choice { offering: offering.into(), price: Some(price), available: true };
    let member = |number: usize| {
        let name = format!("n{number}");
        Member { node_name: format!("node-{number}"), ..Member::ready(&name) }
    };
    Scene {
        limits: Effective { min, max, ..Effective::default() },
        preferred: "",
        mixing: true,
        choices: vec![choice("large", 20), choice("small", 10)],
        back_off: BackOff::default(),
        members: (0..nodes).map(member).collect(),
        wanted: Wanted::default(),
        blocked: None,
        frozen: false,
    }
}

impl Scene {
    fn actions(&self) -> Actions {
        carry_out(&Group {
            now: at(100),
            limits: &self.limits,
            datacenter: "dc",
            preferred: self.preferred,
            mixing: self.mixing,
            choices: &self.choices,
            back_off: &self.back_off,
            members: &self.members,
            wanted: &self.wanted,
            blocked: self.blocked,
            frozen: self.frozen,
        })
    }

    /// Offerings made, VPSieNodes removed, the size desired.
    fn brief(&self) -> (Vec<String>, Vec<String>, u32) {
        let actions = self.actions();
        let made = actions.create.into_iter().map(|new| new.offering).collect();
        (made, actions.remove.into_iter().map(|(name, _)| name).collect(), actions.desired)
    }

    fn wants(mut self, create: &[&str], remove: &[&str]) -> Self {
        self.wanted = Wanted {
            create: create.iter().map(ToString::to_string).collect(),
            remove: remove.iter().map(ToString::to_string).collect(),
        };
        self
    }
}

type Brief = (&'static [&'static str], &'static [&'static str], u32);

fn check(what: &str, scene: &Scene, (made, removed, desired): Brief) {
    let strings = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(scene.brief(), (strings(made), strings(removed), desired), "{what}");
}

#[test]
fn what_the_planner_wants_is_done_within_the_limits() {
    check("nothing", &scene(0, 5, 2), (&[], &[], 2));
    check("two more", &scene(0, 5, 2).wants(&["small", "large"], &[]), (&["small", "large"], &[], 4));
    let full = scene(0, 3, 2).wants(&["small", "large"], &[]);
    check("one too many", &full, (&["small"], &[], 3));
    assert_eq!(full.actions().beyond, 1);
    check("one can go", &scene(0, 5, 3).wants(&[], &["node-1"]), (&[], &["n1"], 2));
    check("all can go", &scene(0, 5, 2).wants(&[], &["node-1", "node-0"]), (&[], &["n1", "n0"], 0));
    check("the minimum stays", &scene(2, 5, 3).wants(&[], &["node-1", "node-0"]), (&[], &["n1"], 2));
    check("somebody else's node", &scene(0, 5, 1).wants(&[], &["node-7"]), (&[], &[], 1));
    check("named twice", &scene(0, 5, 2).wants(&[], &["node-1", "node-1"]), (&[], &["n1"], 1));
}

#[test]
fn vpss_that_exist_in_whatever_state_never_exceed_the_maximum() {
    let one_more = |change: fn(&mut Member)| {
        let mut scene = scene(0, 3, 3).wants(&["small"], &[]);
        change(&mut scene.members[0]);
        scene
    };
    check("going", &one_more(|member| member.deleting = true), (&[], &[], 2));
    check("being removed", &one_more(|member| member.removal = Some(Why::ScaleDown)), (&[], &[], 2));
    check("failed with a VPS", &one_more(|member| member.phase = Some(Phase::Failed)), (&[], &[], 2));
    let without = one_more(|member| {
        member.phase = Some(Phase::Failed);
        member.existence = Existence::None;
    });
    check("failed without one", &without, (&["small"], &[], 3));
    let perhaps = one_more(|member| {
        member.phase = Some(Phase::Failed);
        member.existence = Existence::Maybe;
    });
    check("failed, with one perhaps", &perhaps, (&[], &[], 2));
}

#[test]
fn the_minimum_is_filled_without_pods() {
    check("from nothing, the cheapest", &scene(2, 5, 0), (&["small", "small"], &[], 2));
    check("the preferred", &Scene { preferred: "large", ..scene(1, 5, 0) }, (&["large"], &[], 1));
    let wanted = scene(3, 5, 1).wants(&["large"], &[]);
    check("what is wanted counts", &wanted, (&["large", "small"], &[], 3));
    let mut coming = scene(2, 5, 1);
    coming.members.push(Member::coming("c"));
    check("what comes counts", &coming, (&[], &[], 2));
    let mut going = scene(2, 5, 2);
    going.members[0].deleting = true;
    check("what goes does not", &going, (&["small"], &[], 2));
    let mut gone = scene(2, 5, 2);
    gone.members[0].phase = Some(Phase::Failed);
    check("what failed does not", &gone, (&["small"], &[], 2));
    let mut full = scene(2, 2, 2);
    full.members[0].deleting = true;
    check("there is no room before it is gone", &full, (&[], &[], 2));
    let mut keeps = Scene { mixing: false, preferred: "small", ..scene(3, 5, 2) };
    keeps.members.iter_mut().for_each(|member| member.offering = "large".into());
    check("without mixing it keeps to its type", &keeps, (&["large"], &[], 3));
    let minimum = scene(1, 5, 0).actions().create;
    assert_eq!(minimum, [New { offering: "small".into(), for_minimum: true }]);
}

#[test]
fn what_is_not_to_be_had_gives_way_to_the_next() {
    let held = |offerings: &[&str]| {
        let mut back_off = BackOff::default();
        for offering in offerings {
            back_off.note(offering, "dc", "Insufficient VPSie quota", at(99));
        }
        back_off
    };
    let next = Scene { back_off: held(&["small"]), ..scene(1, 5, 0) };
    check("the next", &next, (&["large"], &[], 1));
    let wanted = Scene { back_off: held(&["small"]), ..scene(0, 5, 0) }.wants(&["small", "large"], &[]);
    check("nor if the planner wants it", &wanted, (&["large"], &[], 1));
    let none = Scene { back_off: held(&["small", "large"]), ..scene(1, 5, 0) };
    check("none", &none, (&[], &[], 1));
    let told = "large: Insufficient VPSie quota; it is tried again at 1970-01-01T01:44:00Z";
    assert_eq!(none.actions().obstacle.as_deref(), Some(told));
    let mut keeps = Scene { mixing: false, back_off: held(&["small"]), ..scene(2, 5, 1) };
    check("not without mixing", &keeps, (&[], &[], 2));
    assert!(keeps.actions().obstacle.unwrap().starts_with("small: Insufficient VPSie quota"));
    keeps.members.clear();
    check("but in an empty group", &keeps, (&["large", "large"], &[], 2));
    let mut missing = Scene { mixing: false, ..scene(2, 5, 1) };
    missing.choices.retain(|choice| choice.offering == "large");
    let told = "Instance type not available: small, and instances of other types are not to be mixed with it";
    assert_eq!(missing.actions().obstacle.as_deref(), Some(told));
    let mut nothing = scene(1, 5, 0);
    nothing.choices.iter_mut().for_each(|choice| choice.available = false);
    assert_eq!(
        nothing.actions().obstacle.as_deref(),
        Some("Instance type not available: none of offeringIDs")
    );
    let mut unpriced = scene(1, 5, 0);
    unpriced.choices[1].price = None;
    check("a price that is not known comes last", &unpriced, (&["large"], &[], 1));
}

#[test]
fn a_lowered_maximum_takes_what_hurts_least() {
    let mut scene = scene(0, 2, 4);
    let change = |scene: &mut Scene, number: usize, change: &dyn Fn(&mut Member)| {
        change(&mut scene.members[number]);
    };
    for (number, pods) in [(0, 5), (1, 1), (2, 3), (3, 0)] {
        change(&mut scene, number, &|member| member.pods = pods);
    }
    check("few pods first", &scene, (&[], &["n3", "n1"], 2));
    change(&mut scene, 3, &|member| member.protected = true);
    check("not the protected", &scene, (&[], &["n1", "n2"], 2));
    change(&mut scene, 1, &|member| member.hosts_us = true);
    check("our own last", &scene, (&[], &["n2", "n0"], 2));
    change(&mut scene, 2, &|member| member.removal_failed = Some(at(90)));
    check("not what was tried a moment ago", &scene, (&[], &["n0", "n1"], 2));
    change(&mut scene, 2, &|member| member.removal_failed = Some(at(70)));
    check("but half an hour later", &scene, (&[], &["n2", "n0"], 2));
    change(&mut scene, 0, &|member| member.node_ready = false);
    check("what is not ready before what is", &scene, (&[], &["n0", "n2"], 2));
    scene.members.push(Member::coming("c1"));
    scene.members.push(Member { existence: Existence::None, ..Member::coming("c2") });
    check("what has not come yet before everything", &scene, (&[], &["c2", "c1", "n0", "n2"], 2));
    scene.wanted.create = vec!["small".into()];
    assert_eq!(scene.actions().beyond, 1, "and nothing is made");
    let all = scene.actions().remove;
    assert!(all.iter().all(|(_, why)| *why == Why::Surplus), "{all:?}");
}

#[test]
fn policies_and_people_stop_it() {
    let busy = |change: fn(&mut Scene)| {
        let mut scene = scene(3, 4, 2).wants(&["small"], &["node-0"]);
        scene.members[1].unready_since = Some(at(0));
        change(&mut scene);
        scene
    };
    check("at work", &busy(|_| {}), (&["small", "small"], &["n1"], 3));
    check("paused", &busy(|scene| scene.limits.paused = true), (&[], &[], 2));
    check("frozen", &busy(|scene| scene.frozen = true), (&[], &[], 3));
    let blocked = busy(|scene| scene.blocked = Some("Datacenter not found: dc"));
    check("blocked", &blocked, (&[], &["n1"], 3));
    assert_eq!(blocked.actions().obstacle.as_deref(), Some("Datacenter not found: dc"));
    let mut paused = scene(0, 1, 3);
    paused.limits.paused = true;
    check("a paused group is as large as it is", &paused, (&[], &[], 3));
}

#[test]
fn the_unhealthy_are_replaced_and_that_is_no_scaling() {
    let mut sick = scene(2, 5, 2);
    sick.members[0].unready_since = Some(at(0));
    sick.members[0].node_ready = false;
    let actions = sick.actions();
    assert_eq!(actions.remove, [("n0".to_owned(), Why::Unhealthy)]);
    assert_eq!(actions.create, [New { offering: "small".into(), for_minimum: true }]);
    let mut above = scene(0, 5, 2);
    above.members[0].unready_since = Some(at(0));
    let actions = above.actions();
    assert_eq!((actions.desired, actions.scales()), (1, false), "{actions:?}");
    let mut many = scene(0, 5, 4);
    many.members.iter_mut().for_each(|member| member.unready_since = Some(at(0)));
    let actions = many.actions();
    assert!(actions.remove.is_empty() && actions.unhealthy.is_some(), "{actions:?}");
    let mut both = scene(0, 5, 2).wants(&[], &["node-0"]);
    both.members[0].unready_since = Some(at(0));
    assert_eq!(both.actions().remove, [("n0".to_owned(), Why::Unhealthy)], "it goes once");
}

#[test]
fn a_plan_is_read_by_groups() {
    let offering = |name: &str| Offering { name: name.into(), ..Offering::default() };
    let group = |name: &str, offerings: &[&str]| PlannedGroup {
        name: name.into(),
        offerings: offerings.iter().map(|name| offering(name)).collect(),
        ..PlannedGroup::default()
    };
    let node = |name: &str, group: Option<&str>| Node {
        name: name.into(),
        group: group.map(str::to_owned),
        ..Node::default()
    };
    let cluster = Cluster {
        groups: vec![group("kube-system/a", &["small", "large"]), group("other/a", &["tiny"])],
        nodes: vec![node("n0", Some("kube-system/a")), node("n1", None), node("n2", Some("other/a"))],
        ..Cluster::default()
    };
    let machine = |group, offering| NewMachine { group, offering };
    let up = ScaleUp {
        machines: vec![machine(0, 1), machine(1, 0), machine(0, 0), machine(7, 0)],
        ..ScaleUp::default()
    };
    let down = ScaleDown { removed: vec![2, 1, 0], ..ScaleDown::default() };
    let text = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = BTreeMap::from([
        ("kube-system/a".to_owned(), Wanted { create: text(&["large", "small"]), remove: text(&["n0"]) }),
        ("other/a".to_owned(), Wanted { create: text(&["tiny"]), remove: text(&["n2"]) }),
    ]);
    assert_eq!(wanted(&cluster, &up, &down), expected);
}

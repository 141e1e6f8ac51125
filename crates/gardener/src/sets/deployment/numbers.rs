//! How many replicas each MachineSet of a MachineDeployment shall have next: pure arithmetic.

use crate::api::{MachineDeploymentSpec, Strategy};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// One MachineSet, as far as numbers go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// What it shall have.
    pub(super) replicas: i32,
    /// What it has or may have soon, machines that are going included.
    pub(super) occupied: i32,
    /// Machines that work and that it will keep.
    pub(super) available: i32,
    /// What its status says.
    pub(super) status_available: i32,
    /// What the deployment asked for when this set was last scaled.
    pub(super) desired_before: Option<i32>,
    /// What the deployment allowed at most when this set was last scaled.
    pub(super) most_before: Option<i32>,
}

/// Which set: the new one, or one of the old ones by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    New,
    Old(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Rolling,
    Recreate,
    InPlace { manual: bool },
}

/// What a deployment allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) replicas: i32,
    pub(super) surge: i32,
    pub(super) unavailable: i32,
    pub(super) way: Way,
}

impl Bounds {
    /// What is wrong with the strategy is said in words.
    pub(super) fn of(spec: &MachineDeploymentSpec) -> Result<Self, String> {
        let Strategy { kind, rolling_update, in_place_update } = &spec.strategy;
        let missing = |field: &str| format!("spec.strategy.{field}: is required");
        let (way, surge, unavailable, field) = match kind.as_str() {
            "Recreate" => {
                let way = Way::Recreate;
                return Ok(Self { replicas: spec.replicas, surge: 0, unavailable: 0, way });
            }
            "RollingUpdate" => {
                let update = rolling_update.as_ref().ok_or_else(|| missing("rollingUpdate"))?;
                (Way::Rolling, &update.max_surge, &update.max_unavailable, "rollingUpdate")
            }
            "InPlaceUpdate" => {
                let update = in_place_update.as_ref().ok_or_else(|| missing("inPlaceUpdate"))?;
                let manual = match update.orchestration_type.as_str() {
                    "Auto" => false,
                    "Manual" => true,
                    _ => {
                        return Err("spec.strategy.inPlaceUpdate.orchestrationType: must be Auto or Manual"
                            .to_owned());
                    }
                };
                (Way::InPlace { manual }, &update.max_surge, &update.max_unavailable, "inPlaceUpdate")
            }
            _ => {
                return Err("spec.strategy.type: must be RollingUpdate, Recreate or InPlaceUpdate".to_owned());
            }
        };
        let number = |value: &Option<IntOrString>, name: &str, up: bool| {
            let value = value.as_ref().ok_or_else(|| missing(&format!("{field}.{name}")))?;
            scaled(value, spec.replicas, up).ok_or_else(|| {
                format!("spec.strategy.{field}.{name}: must be a number or a percentage, and not negative")
            })
        };
        let surge = number(surge, "maxSurge", true)?;
        let mut unavailable = number(unavailable, "maxUnavailable", false)?;
        let surge = if way == (Way::InPlace { manual: true }) { 0 } else { surge };
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Ok(Self { replicas: spec.replicas, surge, unavailable: unavailable.min(spec.replicas), way })
    }

    fn most(self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// What is noted on a set as the most that is allowed.
    pub(super) fn noted_most(self) -> i32 {
        if self.way == Way::Rolling { self.most() } else { self.replicas }
    }

    pub(super) fn least(self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }
}

/// A number, or a percentage of `of`.
pub(in crate::sets) fn scaled(value: &IntOrString, of: i32, up: bool) -> Option<i32> {
    let hundredths = match value {
        IntOrString::Int(number) => return (*number >= 0).then_some(*number),
        IntOrString::String(text) => i64::from(text.strip_suffix('%')?.parse::<u32>().ok()?) * i64::from(of),
    };
    let whole = if up { (hundredths + 99).div_euclid(100) } else { hundredths.div_euclid(100) };
    i32::try_from(whole).ok()
}

fn total(sets: &[Set], of: impl Fn(&Set) -> i32) -> i32 {
    sets.iter().map(of).sum()
}

/// How many replicas a set that is made now begins with.
pub(super) fn at_first(bounds: Bounds, old: &[Set]) -> i32 {
    match bounds.way {
        Way::Recreate => bounds.replicas,
        Way::InPlace { manual: true } => 0,
        Way::Rolling | Way::InPlace { manual: false } => room(bounds, &Set::default(), old),
    }
}

/// How many replicas more the new set may have. Machines that are still going take room too.
fn room(bounds: Bounds, new: &Set, old: &[Set]) -> i32 {
    let taken = total(old, |set| set.occupied) + new.occupied;
    (bounds.most() - taken).min(bounds.replicas - new.replicas).max(0)
}

/// The next change of a rolling update. `old` is ordered by age, the oldest first.
pub(super) fn roll(bounds: Bounds, new: &Set, old: &[Set]) -> Option<(Which, i32)> {
    if new.replicas > bounds.replicas {
        return Some((Which::New, bounds.replicas));
    }
    let room = room(bounds, new, old);
    if room > 0 {
        return Some((Which::New, new.replicas + room));
    }
    let all = total(old, |set| set.replicas) + new.replicas;
    let removable = all - bounds.least() - (new.replicas - new.available).max(0);
    // Machines that do not work cost nothing: they go first.
    let working = total(old, |set| set.available) + new.available;
    let spare = (working - bounds.least()).min(removable);
    let cut = |budget: i32, of: &dyn Fn(&Set) -> i32| {
        old.iter().enumerate().find_map(|(place, set)| {
            let less = of(set).min(budget).min(set.replicas);
            (less > 0).then_some((Which::Old(place), set.replicas - less))
        })
    };
    cut(removable, &|set| set.replicas - set.available).or_else(|| cut(spare, &|set| set.replicas))
}

/// The next change when everything is made anew: the old ones go before the new ones come.
pub(super) fn recreate(bounds: Bounds, new: Option<&Set>, old: &[Set]) -> Option<(Which, i32)> {
    if let Some(place) = old.iter().position(|set| set.replicas > 0) {
        return Some((Which::Old(place), 0));
    }
    let empty = old.iter().all(|set| set.occupied == 0);
    new.filter(|new| empty && new.replicas != bounds.replicas).map(|_| (Which::New, bounds.replicas))
}

/// Whether the deployment asks for another number than when its sets were scaled last. Sets without replicas say
/// nothing: the update gives the new one what it needs, when there is room for it.
pub(super) fn was_scaled(bounds: Bounds, new: Option<&Set>, old: &[Set]) -> bool {
    let Some(new) = new else { return false };
    let mut active = old.iter().chain([new]).filter(|set| set.replicas > 0);
    active.any(|set| set.desired_before.is_some_and(|before| before != bounds.replicas))
}

/// The next change that shares a new number of replicas among the sets, or that notes it on one of them.
pub(super) fn share(
    bounds: Bounds,
    status_replicas: i32,
    new: Option<&Set>,
    old: &[Set],
    paused: bool,
) -> Option<(Which, i32)> {
    let noted = |set: &Set| {
        set.desired_before == Some(bounds.replicas) && set.most_before == Some(bounds.noted_most())
    };
    let targets = targets(bounds, status_replicas, new, old, paused);
    let outdated = |(which, set, target): &(Which, Set, i32)| {
        (set.replicas != *target || !noted(set)).then_some((*which, *target))
    };
    targets.iter().find_map(outdated)
}

fn targets(
    bounds: Bounds,
    status_replicas: i32,
    new: Option<&Set>,
    old: &[Set],
    paused: bool,
) -> Vec<(Which, Set, i32)> {
    let all: Vec<(Which, Set)> = (old.iter().enumerate().map(|(place, set)| (Which::Old(place), *set)))
        .chain(new.map(|new| (Which::New, *new)))
        .collect();
    let active: Vec<_> = all.iter().filter(|(_, set)| set.replicas > 0).copied().collect();
    let unchanged = || active.iter().map(|(which, set)| (*which, *set, set.replicas)).collect();
    match active.as_slice() {
        [] => return all.last().map(|(which, set)| (*which, *set, bounds.replicas)).into_iter().collect(),
        // The update makes the new ones; nobody needs more of the old.
        [(Which::Old(_), set)]
            if bounds.way != Way::Rolling && !paused && new.is_some() && bounds.replicas > set.replicas =>
        {
            return unchanged();
        }
        [(which, set)] => return vec![(*which, *set, bounds.replicas)],
        _ => {}
    }
    let saturated = new.is_some_and(|new| {
        new.replicas == bounds.replicas
            && new.desired_before == Some(bounds.replicas)
            && new.status_available == bounds.replicas
    });
    if saturated {
        let zero =
            |(which, set): &(Which, Set)| (*which, *set, if *which == Which::New { set.replicas } else { 0 });
        return active.iter().map(zero).collect();
    }
    if bounds.way != Way::Rolling {
        return unchanged();
    }
    let allowed = if bounds.replicas > 0 { bounds.most() } else { 0 };
    let change = allowed - active.iter().map(|(_, set)| set.replicas).sum::<i32>();
    if change >= 0 {
        let grown = |(which, set): &(Which, Set)| {
            (*which, *set, set.replicas + if *which == Which::New { change } else { 0 })
        };
        return active.iter().map(grown).collect();
    }
    in_proportion(bounds, status_replicas, active, change)
}

fn in_proportion(
    bounds: Bounds,
    status_replicas: i32,
    mut active: Vec<(Which, Set)>,
    change: i32,
) -> Vec<(Which, Set, i32)> {
    // Larger sets first; among equals the order of age stays.
    active.sort_by_key(|(_, set)| std::cmp::Reverse(set.replicas));
    let mut given = 0;
    let mut shares: Vec<_> = active
        .into_iter()
        .map(|(which, set)| {
            let share = fraction(bounds, status_replicas, &set).max(change - given).min(0);
            given += share;
            (which, set, set.replicas + share)
        })
        .collect();
    if let Some((_, _, largest)) = shares.first_mut() {
        *largest = (*largest + change - given).max(0);
    }
    shares
}

fn fraction(bounds: Bounds, status_replicas: i32, set: &Set) -> i32 {
    if bounds.replicas == 0 {
        return -set.replicas;
    }
    let before = set.most_before.filter(|most| *most > 0).unwrap_or(status_replicas).max(1);
    let exact = f64::from(set.replicas) * f64::from(bounds.most()) / f64::from(before);
    #[expect(clippy::cast_possible_truncation, reason = "a share of a replica count is one itself")]
    let rounded = exact.round() as i32;
    rounded - set.replicas
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn set(replicas: i32, available: i32) -> Set {
        Set {
            replicas,
            occupied: replicas,
            available,
            status_available: available,
            desired_before: Some(10),
            most_before: Some(13),
        }
    }

    fn bounds(replicas: i32, surge: i32, unavailable: i32) -> Bounds {
        Bounds { replicas, surge, unavailable, way: Way::Rolling }
    }

    fn spec(replicas: i32, strategy: Value) -> MachineDeploymentSpec {
        serde_json::from_value(json!({"replicas": replicas, "strategy": strategy, "template": {}})).unwrap()
    }

    #[test]
    fn bounds_round_in_the_safe_direction() {
        let rolling = |surge: Value, unavailable: Value| json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let in_place = |kind: &str| {
            json!({"type": "InPlaceUpdate", "inPlaceUpdate":
                {"maxSurge": 2, "maxUnavailable": 1, "orchestrationType": kind}})
        };
        for (replicas, strategy, expected) in [
            (10, rolling(json!("25%"), json!("25%")), Ok((3, 2))),
            (1, rolling(json!("25%"), json!("25%")), Ok((1, 0))),
            (3, rolling(json!(0), json!("10%")), Ok((0, 1))),
            (3, rolling(json!(0), json!(5)), Ok((0, 3))),
            (3, json!({"type": "Recreate"}), Ok((0, 0))),
            (3, in_place("Auto"), Ok((2, 1))),
            (3, in_place("Manual"), Ok((0, 1))),
            (
                3,
                in_place("Both"),
                Err("spec.strategy.inPlaceUpdate.orchestrationType: must be Auto or Manual"),
            ),
            (
                3,
                rolling(json!("one"), json!(1)),
                Err(
                    "spec.strategy.rollingUpdate.maxSurge: must be a number or a percentage, and not negative",
                ),
            ),
            (
                3,
                rolling(json!(1), json!(-1)),
                Err(
                    "spec.strategy.rollingUpdate.maxUnavailable: must be a number or a percentage, and not negative",
                ),
            ),
            (3, json!({"type": "RollingUpdate"}), Err("spec.strategy.rollingUpdate: is required")),
            (3, json!({}), Err("spec.strategy.type: must be RollingUpdate, Recreate or InPlaceUpdate")),
        ] {
            let bounds = Bounds::of(&spec(replicas, strategy.clone()));
            let numbers = bounds.as_ref().map(|bounds| (bounds.surge, bounds.unavailable));
            assert_eq!(numbers.map_err(String::as_str), expected, "{replicas} {strategy}");
        }
    }

    #[test]
    fn a_rolling_update_step_by_step() {
        let limits = bounds(10, 3, 2);
        let going = Set { occupied: 10, ..set(8, 8) };
        for (name, new, old, expected) in [
            ("the new set starts with the surge", set(0, 0), vec![set(10, 10)], Some((Which::New, 3))),
            ("the old shrinks to the minimum", set(3, 0), vec![set(10, 10)], Some((Which::Old(0), 8))),
            ("machines that are going take room", set(3, 0), vec![going], None),
            ("the new grows into the room", set(3, 0), vec![set(8, 8)], Some((Which::New, 5))),
            ("nothing while the new does not work", set(5, 0), vec![set(8, 8)], None),
            ("working ones replace old ones", set(5, 3), vec![set(8, 8)], Some((Which::Old(0), 5))),
            ("broken old ones go first", set(3, 0), vec![set(4, 1), set(6, 6)], Some((Which::Old(0), 2))),
            ("the oldest first", set(5, 5), vec![set(4, 4), set(4, 4)], Some((Which::Old(0), 0))),
            ("too many new ones", set(12, 12), vec![], Some((Which::New, 10))),
            ("done", set(10, 10), vec![set(0, 0)], None),
        ] {
            assert_eq!(roll(limits, &new, &old), expected, "{name}");
        }
    }

    /// Machines come and go late: what is asked for and what is there differ all the time.
    #[test]
    fn a_rolling_update_ends_and_keeps_its_bounds() {
        for (replicas, surge, unavailable) in
            [(1, 1, 0), (1, 0, 1), (10, 3, 2), (10, 0, 1), (7, 1, 0), (5, 5, 5)]
        {
            let limits = bounds(replicas, surge, unavailable);
            let (mut new, mut old) = (set(0, 0), set(replicas, replicas));
            let (mut there_new, mut there_old) = (0, replicas);
            for round in 0..400 {
                new.occupied = new.replicas.max(there_new);
                old.occupied = old.replicas.max(there_old);
                old.available = there_old.min(old.replicas);
                match roll(limits, &new, &[old]) {
                    Some((Which::New, next)) => new.replicas = next,
                    Some((Which::Old(_), next)) => old.replicas = next,
                    None => {}
                }
                assert!(new.replicas + there_old <= limits.most(), "{limits:?}: too many");
                assert!(new.available + old.replicas.min(there_old) >= limits.least(), "{limits:?}: too few");
                match round % 3 {
                    0 => there_new = (there_new + 1).min(new.replicas),
                    1 => there_old = (there_old - 1).max(old.replicas),
                    _ => new.available = there_new,
                }
            }
            assert_eq!((new.replicas, old.replicas), (replicas, 0), "{limits:?}");
        }
    }

    #[test]
    fn recreating_empties_before_it_fills() {
        let limits = Bounds { way: Way::Recreate, ..bounds(3, 0, 0) };
        let going = Set { occupied: 2, ..set(0, 0) };
        assert_eq!(recreate(limits, None, &[set(3, 3)]), Some((Which::Old(0), 0)));
        assert_eq!(recreate(limits, Some(&set(0, 0)), &[going]), None);
        assert_eq!(recreate(limits, Some(&set(0, 0)), &[set(0, 0)]), Some((Which::New, 3)));
        assert_eq!(recreate(limits, Some(&set(3, 0)), &[set(0, 0)]), None);
    }

    #[test]
    fn a_new_number_is_a_change_of_scale() {
        let limits = bounds(10, 3, 2);
        for (name, new, old, expected) in [
            ("there is no new set yet", None, vec![set(5, 5)], false),
            ("as before", Some(set(10, 10)), vec![], false),
            ("another number", Some(Set { desired_before: Some(5), ..set(5, 5) }), vec![], true),
            (
                "noted on a set without replicas",
                Some(set(10, 10)),
                vec![Set { desired_before: Some(5), ..set(0, 0) }],
                false,
            ),
            ("from nothing", Some(Set { desired_before: Some(0), ..set(0, 0) }), vec![], false),
            ("nobody knows", Some(Set { desired_before: None, ..set(5, 5) }), vec![], false),
        ] {
            assert_eq!(was_scaled(limits, new.as_ref(), &old), expected, "{name}");
        }
    }

    /// Does all changes one after the other.
    fn shared(bounds: Bounds, new: Option<Set>, old: &[Set]) -> (Option<i32>, Vec<i32>) {
        let (mut new, mut old) = (new, old.to_vec());
        for _ in 0..20 {
            let Some((which, next)) = share(bounds, 13, new.as_ref(), &old, false) else {
                return (new.map(|set| set.replicas), old.iter().map(|set| set.replicas).collect());
            };
            let set = match which {
                Which::New => new.as_mut().unwrap(),
                Which::Old(place) => &mut old[place],
            };
            set.replicas = next;
            set.desired_before = Some(bounds.replicas);
            set.most_before = Some(bounds.noted_most());
        }
        panic!("it does not end: {bounds:?} {new:?} {old:?}");
    }

    #[test]
    fn a_change_of_scale_is_shared() {
        let recreate = Bounds { way: Way::Recreate, ..bounds(5, 0, 0) };
        let in_place = Bounds { way: Way::InPlace { manual: false }, ..bounds(5, 1, 1) };
        for (name, limits, new, old, expected) in [
            ("only one set", bounds(5, 3, 2), Some(set(10, 10)), vec![set(0, 0)], (Some(5), vec![0])),
            ("only an old one", bounds(5, 3, 2), None, vec![set(0, 0), set(10, 10)], (None, vec![0, 5])),
            (
                "none has replicas: the new one",
                bounds(5, 3, 2),
                Some(set(0, 0)),
                vec![set(0, 0)],
                (Some(5), vec![0]),
            ),
            (
                "none has replicas: the youngest",
                bounds(5, 3, 2),
                None,
                vec![set(0, 0), set(0, 0)],
                (None, vec![0, 5]),
            ),
            (
                "growing goes to the new one",
                bounds(20, 6, 4),
                Some(set(5, 0)),
                vec![set(8, 8)],
                (Some(18), vec![8]),
            ),
            ("shrinking is shared", bounds(5, 2, 1), Some(set(5, 0)), vec![set(8, 8)], (Some(3), vec![4])),
            (
                "three of a size",
                bounds(10, 0, 1),
                Some(Set { most_before: Some(15), ..set(5, 0) }),
                vec![Set { most_before: Some(15), ..set(5, 5) }; 2],
                (Some(4), vec![3, 3]),
            ),
            ("to nothing", bounds(0, 3, 2), Some(set(5, 0)), vec![set(8, 8)], (Some(0), vec![0])),
            (
                "the new one is complete",
                bounds(10, 3, 2),
                Some(set(10, 10)),
                vec![set(2, 2)],
                (Some(10), vec![0]),
            ),
            (
                "an update by replacement goes on",
                recreate,
                Some(set(0, 0)),
                vec![set(3, 3)],
                (Some(0), vec![3]),
            ),
            ("an update in place goes on", in_place, Some(set(2, 2)), vec![set(1, 1)], (Some(2), vec![1])),
            ("an update in place shrinks", in_place, Some(set(0, 0)), vec![set(8, 8)], (Some(0), vec![5])),
        ] {
            assert_eq!(shared(limits, new, &old), expected, "{name}");
        }
    }

    #[test]
    fn a_new_set_starts_with_what_there_is_room_for() {
        let way = |way: Way| Bounds { way, ..bounds(10, 3, 2) };
        let going = Set { occupied: 12, ..set(10, 10) };
        for (bounds, old, expected) in [
            (way(Way::Rolling), vec![], 10),
            (way(Way::Rolling), vec![set(10, 10)], 3),
            (way(Way::Rolling), vec![going], 1),
            (way(Way::Rolling), vec![set(13, 13)], 0),
            (way(Way::Recreate), vec![set(0, 0)], 10),
            (way(Way::InPlace { manual: false }), vec![set(10, 10)], 3),
            (way(Way::InPlace { manual: true }), vec![set(10, 10)], 0),
        ] {
            assert_eq!(at_first(bounds, &old), expected, "{bounds:?} {old:?}");
        }
    }
}

//! How many replicas each set of a deployment shall have next: pure arithmetic, as the real controller does it.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// One ReplicaSet, as far as numbers go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// Its place in the list this was made of.
    pub(crate) at: usize,
    pub(crate) replicas: i32,
    pub(crate) available: i32,
    /// What the deployment asked for when this set was last scaled.
    pub(crate) desired_before: Option<i32>,
    /// What the deployment allowed at most when this set was last scaled.
    pub(crate) most_before: Option<i32>,
}

/// What a deployment allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) replicas: i32,
    pub(crate) surge: i32,
    pub(crate) unavailable: i32,
    pub(crate) rolling: bool,
}

impl Bounds {
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default();
        let replicas = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.unwrap_or_default();
        let rolling = strategy.type_.as_deref() != Some("Recreate");
        if !rolling {
            return Self { replicas, surge: 0, unavailable: 0, rolling };
        }
        let update = strategy.rolling_update.unwrap_or_default();
        let surge = scaled(update.max_surge.as_ref(), replicas, true);
        let mut unavailable = scaled(update.max_unavailable.as_ref(), replicas, false);
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { replicas, surge, unavailable: unavailable.min(replicas), rolling }
    }

    pub(crate) fn most(self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }
}

/// A number or a percentage of `of`; 25 % is the default.
pub(crate) fn scaled(value: Option<&IntOrString>, of: i32, up: bool) -> i32 {
    let percent = match value {
        Some(IntOrString::Int(number)) => return *number,
        Some(IntOrString::String(text)) => text.trim_end_matches('%').parse::<i64>().unwrap_or(0),
        None => 25,
    };
    let hundredths = percent.saturating_mul(i64::from(of));
    let whole = if up { hundredths.saturating_add(99).div_euclid(100) } else { hundredths.div_euclid(100) };
    i32::try_from(whole).unwrap_or(if whole < 0 { i32::MIN } else { i32::MAX })
}

fn total(sets: &[Set]) -> i32 {
    sets.iter().map(|set| set.replicas).fold(0, i32::saturating_add)
}

/// How many replicas the new set gets, given all sets including it.
pub(crate) fn for_new_set(bounds: Bounds, all: i32, new: i32) -> i32 {
    if !bounds.rolling {
        return bounds.replicas;
    }
    let room = bounds.most().saturating_sub(all);
    if room <= 0 {
        return new;
    }
    new.saturating_add(room.min(bounds.replicas.saturating_sub(new)))
}

/// One step of a rolling update: changes as (place, replicas). `old` is ordered by age, oldest first.
pub(crate) fn roll(bounds: Bounds, new: &Set, old: &[Set]) -> Vec<(usize, i32)> {
    let all = total(old).saturating_add(new.replicas);
    if new.replicas > bounds.replicas {
        return vec![(new.at, bounds.replicas)];
    }
    if new.replicas < bounds.replicas {
        let next = for_new_set(bounds, all, new.replicas);
        if next != new.replicas {
            return vec![(new.at, next)];
        }
    }
    shrink_old(bounds, new, old)
}

fn shrink_old(bounds: Bounds, new: &Set, old: &[Set]) -> Vec<(usize, i32)> {
    let all = total(old).saturating_add(new.replicas);
    let least = bounds.replicas.saturating_sub(bounds.unavailable);
    let unready = new.replicas.saturating_sub(new.available);
    let removable = all.saturating_sub(least).saturating_sub(unready);
    if total(old) == 0 || removable <= 0 {
        return Vec::new();
    }
    let mut sets = old.to_vec();
    // Replicas that do not work cost nothing: they go first.
    let mut cleaned = 0;
    for set in &mut sets {
        let broken = set.replicas.saturating_sub(set.available).max(0).min(removable - cleaned);
        set.replicas -= broken;
        cleaned += broken;
    }
    let available = sets.iter().map(|set| set.available).fold(new.available, i32::saturating_add);
    let mut rest = available.saturating_sub(least).max(0);
    for set in &mut sets {
        let fewer = set.replicas.min(rest);
        set.replicas -= fewer;
        rest -= fewer;
    }
    sets.iter()
        .zip(old)
        .filter(|(next, now)| next.replicas != now.replicas)
        .map(|(next, _)| (next.at, next.replicas))
        .collect()
}

/// Old sets down to nothing, then the new one up: changes for a deployment that is recreated.
pub(crate) fn recreate(
    bounds: Bounds,
    new: Option<&Set>,
    old: &[Set],
    old_pods_left: bool,
) -> Vec<(usize, i32)> {
    let shrunk: Vec<(usize, i32)> =
        old.iter().filter(|set| set.replicas > 0).map(|set| (set.at, 0)).collect();
    if !shrunk.is_empty() || old_pods_left {
        return shrunk;
    }
    new.filter(|set| set.replicas != bounds.replicas)
        .map(|set| (set.at, bounds.replicas))
        .into_iter()
        .collect()
}

/// Whether a deployment was scaled since its sets were.
pub(crate) fn was_scaled(bounds: Bounds, all: &[Set]) -> bool {
    all.iter()
        .filter(|set| set.replicas > 0)
        .any(|set| set.desired_before.is_some_and(|desired| desired != bounds.replicas))
}

/// Shares a change of scale among the sets in proportion to their size. `old` is ordered by age, oldest first.
pub(crate) fn share(
    bounds: Bounds,
    status_replicas: i32,
    new: Option<&Set>,
    old: &[Set],
) -> Vec<(usize, i32)> {
    let active: Vec<&Set> = old.iter().chain(new).filter(|set| set.replicas > 0).collect();
    let only = match active.as_slice() {
        [] => new.or_else(|| old.last()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(only) = only {
        let changed = only.replicas != bounds.replicas || only.desired_before != Some(bounds.replicas);
        return if changed { vec![(only.at, bounds.replicas)] } else { Vec::new() };
    }
    let saturated = new.is_some_and(|set| {
        set.replicas == bounds.replicas
            && set.desired_before == Some(bounds.replicas)
            && set.available == bounds.replicas
    });
    if saturated {
        return old.iter().filter(|set| set.replicas > 0).map(|set| (set.at, 0)).collect();
    }
    if !bounds.rolling {
        return Vec::new();
    }
    let allowed = if bounds.replicas > 0 { bounds.most() } else { 0 };
    let present = active.iter().map(|set| set.replicas).fold(0, i32::saturating_add);
    let change = allowed.saturating_sub(present);
    // Larger sets first; among equals the newest grows first and the oldest shrinks first.
    let mut sets: Vec<(usize, &Set)> = active.into_iter().enumerate().collect();
    if change > 0 {
        sets.sort_by_key(|(age, set)| (-set.replicas, -i64::try_from(*age).unwrap_or(0)));
    } else {
        sets.sort_by_key(|(age, set)| (-set.replicas, i64::try_from(*age).unwrap_or(0)));
    }
    let mut given = 0;
    let mut sizes: Vec<(usize, i32)> = Vec::new();
    for (_, set) in sets {
        let part = if change == given { 0 } else { portion(bounds, status_replicas, set, change, given) };
        given = part.saturating_add(given);
        sizes.push((set.at, set.replicas.saturating_add(part)));
    }
    if let Some(first) = sizes.first_mut() {
        first.1 = first.1.saturating_add(change.saturating_sub(given)).max(0);
    }
    sizes
}

fn portion(bounds: Bounds, status_replicas: i32, set: &Set, change: i32, given: i32) -> i32 {
    let left = change.saturating_sub(given);
    let fraction = if bounds.replicas == 0 {
        -set.replicas
    } else {
        let before = set.most_before.filter(|most| *most > 0).unwrap_or(status_replicas).max(1);
        let share = f64::from(set.replicas) * f64::from(bounds.most()) / f64::from(before);
        #[expect(clippy::cast_possible_truncation, reason = "a share of a replica count is one itself")]
        let share = share.round() as i32;
        share.saturating_sub(set.replicas)
    };
    if change > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(at: usize, replicas: i32, available: i32) -> Set {
        Set { at, replicas, available, desired_before: Some(10), most_before: Some(13) }
    }

    fn bounds(replicas: i32, surge: i32, unavailable: i32) -> Bounds {
        Bounds { replicas, surge, unavailable, rolling: true }
    }

    #[test]
    fn bounds_round_in_the_safe_direction() {
        for (replicas, strategy, expected) in [
            (10, serde_json::json!(null), (3, 2)),
            (1, serde_json::json!(null), (1, 0)),
            (4, serde_json::json!({"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}}), (2, 1)),
            (3, serde_json::json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}}), (0, 1)),
            (3, serde_json::json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}), (0, 3)),
            (3, serde_json::json!({"type": "Recreate"}), (0, 0)),
            (
                i32::MAX,
                serde_json::json!({"rollingUpdate": {"maxSurge": "9223372036854775807%", "maxUnavailable": "100%"}}),
                (i32::MAX, i32::MAX),
            ),
        ] {
            let deployment: Deployment = serde_json::from_value(serde_json::json!({
                "spec": {"replicas": replicas, "strategy": strategy, "selector": {}, "template": {}}
            }))
            .unwrap();
            let bounds = Bounds::of(&deployment);
            assert_eq!((bounds.surge, bounds.unavailable), expected, "{replicas} {strategy}");
        }
    }

    #[test]
    fn a_rolling_update_step_by_step() {
        let limits = bounds(10, 3, 2);
        for (name, new, old, expected) in [
            ("the new set starts with the surge", set(0, 0, 0), vec![set(1, 10, 10)], vec![(0, 3)]),
            ("the old shrinks to the minimum", set(0, 3, 0), vec![set(1, 10, 10)], vec![(1, 8)]),
            ("the new grows into the room", set(0, 3, 0), vec![set(1, 8, 8)], vec![(0, 5)]),
            ("nothing while the new is not available", set(0, 5, 0), vec![set(1, 8, 8)], vec![]),
            ("available ones replace old ones", set(0, 5, 3), vec![set(1, 8, 8)], vec![(1, 5)]),
            ("broken old ones go first", set(0, 3, 0), vec![set(1, 4, 1), set(2, 6, 6)], vec![(1, 2)]),
            ("the oldest first", set(0, 5, 5), vec![set(1, 4, 4), set(2, 4, 4)], vec![(1, 0), (2, 3)]),
            ("too many new ones", set(0, 12, 12), vec![], vec![(0, 10)]),
            ("done", set(0, 10, 10), vec![set(1, 0, 0)], vec![]),
        ] {
            assert_eq!(roll(limits, &new, &old), expected, "{name}");
        }
    }

    #[test]
    fn a_rolling_update_ends_and_keeps_its_bounds() {
        for (replicas, surge, unavailable) in
            [(1, 1, 0), (1, 0, 1), (10, 3, 2), (10, 0, 1), (7, 1, 0), (5, 5, 5)]
        {
            let limits = bounds(replicas, surge, unavailable);
            let mut new = set(0, 0, 0);
            let mut old = vec![set(1, replicas, replicas)];
            for _ in 0..200 {
                for (at, next) in roll(limits, &new, &old) {
                    if at == 0 { new.replicas = next } else { old[0].replicas = next }
                }
                old[0].available = old[0].available.min(old[0].replicas);
                let all = new.replicas + old[0].replicas;
                assert!(all <= limits.most(), "{limits:?}: {all} in all");
                let working = new.available + old[0].available;
                assert!(working >= replicas - unavailable, "{limits:?}: {working} working");
                new.available = (new.available + 1).min(new.replicas);
            }
            assert_eq!((new.replicas, old[0].replicas), (replicas, 0), "{limits:?}");
        }
    }

    #[test]
    fn recreating_empties_before_it_fills() {
        let limits = Bounds { rolling: false, ..bounds(3, 0, 0) };
        assert_eq!(recreate(limits, None, &[set(1, 3, 3)], true), [(1, 0)]);
        assert_eq!(recreate(limits, Some(&set(0, 0, 0)), &[set(1, 0, 0)], true), []);
        assert_eq!(recreate(limits, Some(&set(0, 0, 0)), &[set(1, 0, 0)], false), [(0, 3)]);
    }

    #[test]
    fn a_change_of_scale_is_shared_in_proportion() {
        for (name, limits, new, old, expected) in [
            ("only one set", bounds(5, 3, 2), Some(set(0, 10, 10)), vec![set(1, 0, 0)], vec![(0, 5)]),
            (
                "no active set: the newest",
                bounds(5, 3, 2),
                Some(set(0, 0, 0)),
                vec![set(1, 0, 0)],
                vec![(0, 5)],
            ),
            // 13 of 13 grow to 26 of 26 in the middle of an update.
            ("growing", bounds(20, 6, 4), Some(set(0, 5, 0)), vec![set(1, 8, 8)], vec![(1, 16), (0, 10)]),
            ("shrinking", bounds(5, 2, 1), Some(set(0, 5, 0)), vec![set(1, 8, 8)], vec![(1, 4), (0, 3)]),
            ("to nothing", bounds(0, 0, 0), Some(set(0, 5, 0)), vec![set(1, 8, 8)], vec![(1, 0), (0, 0)]),
        ] {
            assert_eq!(share(limits, 13, new.as_ref(), &old), expected, "{name}");
        }
    }

    #[test]
    fn numbers_beyond_any_cluster_stop_at_the_largest() {
        let most = i32::MAX;
        let (new, old) = (set(0, most, 0), vec![set(1, most, most), set(2, most, most)]);
        let limits = bounds(most, most, 0);
        assert_eq!(for_new_set(limits, most, 0), 0, "no room");
        assert_eq!(roll(limits, &set(0, 0, 0), &old), [], "nothing can be added or removed");
        assert_eq!(roll(bounds(1, 0, 0), &new, &old), [(0, 1)]);
        let shared = share(bounds(1, 0, 0), most, Some(&new), &old);
        assert!(shared.iter().all(|(_, replicas)| (0..=most).contains(replicas)), "{shared:?}");
        let grown = share(limits, 1, Some(&set(0, 1, 0)), &[set(1, 1, 1)]);
        assert!(grown.iter().all(|(_, replicas)| (0..=most).contains(replicas)), "{grown:?}");
    }

    #[test]
    fn a_saturated_new_set_makes_the_old_ones_superfluous() {
        let new = Set { desired_before: Some(5), ..set(0, 5, 5) };
        let old = [set(1, 2, 2)];
        assert_eq!(share(bounds(5, 2, 1), 7, Some(&new), &old), [(1, 0)]);
    }
}

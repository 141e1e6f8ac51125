use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tokio::time::Instant;

/// A kind of work with a limit of its own on how much of it runs at once, so that one kind never holds up
/// another. A lane without workers has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    pub name: &'static str,
    pub workers: usize,
}

impl Lane {
    pub const fn new(name: &'static str, workers: usize) -> Self {
        Self { name, workers }
    }
}

/// Who is to run when. Plain data: it knows no clock and no tasks, the same calls give the same answers.
///
/// Keys are started in the order of (due, key). A key runs once at a time; woken meanwhile it runs again
/// afterwards. A key that failed waits for its back-off, and being woken shortens that wait only to
/// [`Ending::Failed::at_least`]: an object whose failing controller writes to it would otherwise wake itself
/// without end.
#[derive(Debug)]
pub struct Schedule<K> {
    entries: BTreeMap<K, Entry>,
    /// Per lane, who waits in it.
    waiting: BTreeMap<&'static str, Waiting<K>>,
    running: BTreeMap<&'static str, usize>,
    workers: BTreeMap<&'static str, usize>,
}

/// Who waits in a lane, those who are due apart: a thousand of them are counted whenever one of them ends.
#[derive(Debug)]
struct Waiting<K> {
    due: BTreeSet<(Instant, K)>,
    later: BTreeSet<(Instant, K)>,
    /// Who is due up to then is among the first.
    until: Option<Instant>,
}

impl<K> Default for Waiting<K> {
    fn default() -> Self {
        Self { due: BTreeSet::new(), later: BTreeSet::new(), until: None }
    }
}

impl<K: Ord> Waiting<K> {
    fn insert(&mut self, place: (Instant, K)) {
        let set = if Some(place.0) <= self.until { &mut self.due } else { &mut self.later };
        set.insert(place);
    }

    fn remove(&mut self, place: &(Instant, K)) {
        if !self.due.remove(place) {
            self.later.remove(place);
        }
    }

    fn first(&self) -> Option<&(Instant, K)> {
        self.due.first().or_else(|| self.later.first())
    }

    fn len(&self) -> usize {
        self.due.len() + self.later.len()
    }

    /// How many are due.
    fn due(&mut self, now: Instant) -> usize {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            self.due.extend(self.later.pop_first());
        }
        self.until = self.until.max(Some(now));
        self.due.len()
    }
}

#[derive(Debug)]
struct Entry {
    state: State,
    /// Failures in a row.
    attempts: u32,
    /// After a failure: not before this, whoever wakes the key.
    floor: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Waiting { due: Instant, lane: &'static str },
    Running { lane: &'static str, woken: Option<Instant> },
}

/// A key whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Start<K> {
    pub key: K,
    pub lane: &'static str,
    /// How often in a row it has failed before this run.
    pub attempts: u32,
    /// When it was due; the difference to now is how long it waited for a worker.
    pub due: Instant,
}

/// How a run ended, as far as the schedule is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well; look again after the time, if one is given.
    Well { again: Option<Duration> },
    /// Badly: again after `delay`, or if woken earlier, not before `at_least`.
    Failed { delay: Duration, at_least: Duration },
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            workers: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Schedule<K> {
    /// Makes a key due at `due` or earlier, in `lane`.
    pub fn wake(&mut self, key: K, lane: Lane, due: Instant) {
        self.workers.insert(lane.name, lane.workers.max(1));
        match self.entries.get_mut(&key) {
            None => self.put(key, lane.name, due, 0, None),
            Some(Entry { state: State::Running { woken, .. }, .. }) => {
                *woken = Some(woken.map_or(due, |earlier| earlier.min(due)));
            }
            Some(Entry { state: State::Waiting { due: planned, lane: old }, attempts, floor }) => {
                let woken = floor.map_or(due, |floor| due.max(floor));
                let (due, attempts, floor) = (woken.min(*planned), *attempts, *floor);
                let place = (*planned, key);
                if let Some(waiting) = self.waiting.get_mut(old) {
                    waiting.remove(&place);
                }
                self.put(place.1, lane.name, due, attempts, floor);
            }
        }
    }

    fn put(&mut self, key: K, lane: &'static str, due: Instant, attempts: u32, floor: Option<Instant>) {
        // One copy is enough of what may be long.
        let key = self.entries.get_key_value(&key).map_or(key, |(known, _)| known.clone());
        self.waiting.entry(lane).or_default().insert((due, key.clone()));
        self.entries.insert(key, Entry { state: State::Waiting { due, lane }, attempts, floor });
    }

    /// Takes the next key that is due and whose lane has a worker free. Whoever takes it must
    /// [`Schedule::finish`] it.
    pub fn take(&mut self, now: Instant) -> Option<Start<K>> {
        let (lane, due, key) = self.next().filter(|(_, due, _)| *due <= now)?;
        let key = key.clone();
        if let Some(waiting) = self.waiting.get_mut(lane) {
            waiting.remove(&(due, key.clone()));
        }
        *self.running.entry(lane).or_default() += 1;
        let entry = self.entries.get_mut(&key)?;
        entry.state = State::Running { lane, woken: None };
        Some(Start { key, lane, attempts: entry.attempts, due })
    }

    /// When the next key can start: none while nobody waits in a lane with a free worker.
    pub fn next_due(&self) -> Option<Instant> {
        self.next().map(|(_, due, _)| due)
    }

    fn next(&self) -> Option<(&'static str, Instant, &K)> {
        let free = |lane: &&'static str| {
            self.running.get(lane).copied().unwrap_or_default() < self.workers.get(lane).copied().unwrap_or(1)
        };
        let heads = self.waiting.iter().filter(|(lane, _)| free(lane)).filter_map(|(lane, waiting)| {
            let (due, key) = waiting.first()?;
            Some((*lane, *due, key))
        });
        heads.min_by(|(_, due, key), (_, other_due, other_key)| (due, key).cmp(&(other_due, other_key)))
    }

    /// Ends the run of a key. `lane` is the one its next run, if there is one, belongs to.
    pub fn finish(&mut self, key: K, lane: Lane, ending: Ending, now: Instant) {
        let Some(Entry { state: State::Running { lane: ran_in, woken }, attempts, .. }) =
            self.entries.get(&key)
        else {
            return;
        };
        let (ran_in, woken, attempts) = (*ran_in, *woken, *attempts);
        if let Some(running) = self.running.get_mut(ran_in) {
            *running = running.saturating_sub(1);
        }
        self.workers.insert(lane.name, lane.workers.max(1));
        match ending {
            Ending::Well { again } => {
                let again = again.map(|delay| later(now, delay));
                match [again, woken].into_iter().flatten().min() {
                    Some(due) => self.put(key, lane.name, due, 0, None),
                    None => {
                        self.entries.remove(&key);
                    }
                }
            }
            Ending::Failed { delay, at_least } => {
                let floor = later(now, at_least.min(delay));
                let due = later(now, delay);
                let due = woken.map_or(due, |woken| woken.max(floor).min(due));
                self.put(key, lane.name, due, attempts.saturating_add(1), Some(floor));
            }
        }
    }

    /// How many keys wait, per lane that ever had one.
    pub fn depths(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.waiting.iter().map(|(lane, waiting)| (*lane, waiting.len()))
    }

    /// How many of them are due, and wait for nothing but a worker.
    pub fn ready(&mut self, now: Instant) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.waiting.iter_mut().map(move |(lane, waiting)| (*lane, waiting.due(now)))
    }
}

/// A time so far away that it cannot be told is as good as thirty years.
fn later(now: Instant, delay: Duration) -> Instant {
    now.checked_add(delay).unwrap_or_else(|| now + Duration::from_hours(24 * 365 * 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORK: Lane = Lane::new("work", 1);
    const DRAIN: Lane = Lane::new("drain", 2);
    const SECOND: Duration = Duration::from_secs(1);

    fn taken(schedule: &mut Schedule<&'static str>, now: Instant) -> Option<&'static str> {
        schedule.take(now).map(|start| start.key)
    }

    #[test]
    fn keys_start_in_the_order_of_due_and_key() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        let lane = Lane::new("wide", 9);
        for (key, due) in [("c", 0), ("b", 1), ("a", 1), ("d", 5)] {
            schedule.wake(key, lane, now + SECOND * due);
        }
        let later = now + SECOND * 2;
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut schedule, later)).collect();
        assert_eq!(order, ["c", "a", "b"]);
        assert_eq!(schedule.next_due(), Some(now + SECOND * 5));
    }

    #[test]
    fn a_full_lane_does_not_hold_up_another() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        for key in ["a", "b", "c"] {
            schedule.wake(key, WORK, now);
        }
        for key in ["d", "e", "f"] {
            schedule.wake(key, DRAIN, now + SECOND);
        }
        let later = now + SECOND;
        let order: Vec<_> = std::iter::from_fn(|| taken(&mut schedule, later)).collect();
        assert_eq!(order, ["a", "d", "e"]);
        assert_eq!(schedule.next_due(), None);
        schedule.finish("a", WORK, Ending::Well { again: None }, later);
        assert_eq!(taken(&mut schedule, later), Some("b"));
        schedule.wake("g", DRAIN, later + SECOND);
        assert_eq!(schedule.depths().collect::<Vec<_>>(), [("drain", 2), ("work", 1)]);
        assert_eq!(schedule.ready(later).collect::<Vec<_>>(), [("drain", 1), ("work", 1)]);
    }

    #[test]
    fn woken_while_running_means_run_again() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.wake("a", DRAIN, now);
        assert_eq!(taken(&mut schedule, now), Some("a"));
        schedule.wake("a", DRAIN, now);
        assert_eq!(taken(&mut schedule, now), None, "never twice at once");
        schedule.finish("a", DRAIN, Ending::Well { again: Some(SECOND * 60) }, now);
        assert_eq!(taken(&mut schedule, now), Some("a"));
        schedule.finish("a", DRAIN, Ending::Well { again: None }, now);
        assert_eq!(schedule.next_due(), None);
        assert!(schedule.entries.is_empty(), "nothing is kept of a key that is done");
    }

    #[test]
    fn a_wake_brings_a_planned_run_forward_and_never_back() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.wake("a", WORK, now + SECOND * 10);
        schedule.wake("a", WORK, now + SECOND * 20);
        assert_eq!(schedule.next_due(), Some(now + SECOND * 10));
        schedule.wake("a", DRAIN, now + SECOND);
        assert_eq!(schedule.next_due(), Some(now + SECOND));
        assert_eq!(schedule.take(now + SECOND).map(|start| start.lane), Some("drain"));
        assert_eq!(taken(&mut schedule, now + SECOND * 60), None, "moved, not copied");
    }

    #[test]
    fn failures_are_counted_until_it_goes_well() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.wake("a", WORK, now);
        let failed = Ending::Failed { delay: SECOND * 8, at_least: SECOND };
        for attempts in 0..3 {
            let at = now + SECOND * 8 * attempts;
            assert_eq!(schedule.take(at).map(|start| start.attempts), Some(attempts));
            schedule.finish("a", WORK, failed, at);
            assert_eq!(schedule.next_due(), Some(at + SECOND * 8));
        }
        let at = now + SECOND * 24;
        schedule.take(at).unwrap();
        schedule.finish("a", WORK, Ending::Well { again: Some(SECOND) }, at);
        assert_eq!(schedule.take(at + SECOND).map(|start| start.attempts), Some(0));
    }

    #[test]
    fn being_woken_shortens_a_back_off_but_not_to_nothing() {
        let now = Instant::now();
        let failed = Ending::Failed { delay: SECOND * 8, at_least: SECOND };
        let mut schedule = Schedule::default();
        schedule.wake("a", WORK, now);
        schedule.take(now).unwrap();
        schedule.wake("a", WORK, now);
        schedule.finish("a", WORK, failed, now);
        assert_eq!(schedule.next_due(), Some(now + SECOND), "woken while it ran");
        schedule.take(now + SECOND).unwrap();
        schedule.finish("a", WORK, failed, now + SECOND);
        assert_eq!(schedule.next_due(), Some(now + SECOND * 9));
        schedule.wake("a", WORK, now + SECOND);
        assert_eq!(schedule.next_due(), Some(now + SECOND * 2), "woken while it waited");
        schedule.wake("a", WORK, now + SECOND * 5);
        assert_eq!(schedule.next_due(), Some(now + SECOND * 2));
    }

    #[test]
    fn finishing_what_does_not_run_changes_nothing() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.finish("a", WORK, Ending::Well { again: Some(SECOND) }, now);
        schedule.wake("b", WORK, now);
        schedule.finish("b", WORK, Ending::Well { again: None }, now);
        assert_eq!(taken(&mut schedule, now), Some("b"));
        schedule.finish("b", WORK, Ending::Well { again: None }, now);
        assert!(schedule.entries.is_empty());
    }

    #[derive(Clone, Debug)]
    enum Step {
        Wake { key: u8, lane: bool, after: u64 },
        Take,
        Finish { key: u8, well: bool, after: u64 },
        Pass { seconds: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4_u8, any::<bool>(), 0..4_u64).prop_map(|(key, lane, after)| Step::Wake { key, lane, after }),
            Just(Step::Take),
            (0..4_u8, any::<bool>(), 0..4_u64).prop_map(|(key, well, after)| Step::Finish {
                key,
                well,
                after
            }),
            (1..4_u64).prop_map(|seconds| Step::Pass { seconds }),
        ]
    }

    proptest! {
        /// Whatever happens: one run per key, no lane beyond its workers, starts in order, and nobody who
        /// was woken is forgotten.
        #[test]
        fn the_schedule_keeps_its_promises(steps in proptest::collection::vec(step(), 0..60)) {
            let mut now = Instant::now();
            let mut schedule = Schedule::default();
            let mut running: BTreeMap<u8, &'static str> = BTreeMap::new();
            let mut wanted: BTreeSet<u8> = BTreeSet::new();
            let lane_of = |drain: bool| if drain { DRAIN } else { WORK };
            for step in steps {
                match step {
                    Step::Wake { key, lane, after } => {
                        schedule.wake(key, lane_of(lane), now + SECOND * u32::try_from(after).unwrap());
                        wanted.insert(key);
                    }
                    Step::Take => {
                        let first = schedule.next_due();
                        if let Some(start) = schedule.take(now) {
                            prop_assert_eq!(Some(start.due), first);
                            prop_assert!(start.due <= now);
                            prop_assert!(running.insert(start.key, start.lane).is_none());
                            wanted.remove(&start.key);
                        }
                    }
                    Step::Finish { key, well, after } => {
                        let delay = Duration::from_secs(after);
                        let ending = if well {
                            Ending::Well { again: (after > 0).then_some(delay) }
                        } else {
                            Ending::Failed { delay, at_least: SECOND }
                        };
                        if running.remove(&key).is_some() && (!well || after > 0) {
                            wanted.insert(key);
                        }
                        schedule.finish(key, lane_of(key % 2 == 0), ending, now);
                    }
                    Step::Pass { seconds } => now += Duration::from_secs(seconds),
                }
                for lane in [WORK, DRAIN] {
                    prop_assert!(running.values().filter(|name| **name == lane.name).count() <= lane.workers);
                }
            }
            for key in std::mem::take(&mut running).into_keys() {
                schedule.finish(key, DRAIN, Ending::Well { again: None }, now);
            }
            let mut left = BTreeSet::new();
            while let Some(due) = schedule.next_due() {
                now = now.max(due);
                let start = schedule.take(now).unwrap();
                left.insert(start.key);
                schedule.finish(start.key, DRAIN, Ending::Well { again: None }, now);
            }
            prop_assert!(wanted.is_subset(&left), "wanted {:?}, ran {:?}", wanted, left);
        }
    }
}

use crate::support::{Lines, SECOND, World, pass};
use async_trait::async_trait;
use hostler_base::Backoff;
use hostler_controller::{Drained, Key, Lane, Outcome, Queue, QueueOptions, Reconciler, Run, Trouble};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Does what a table says for each name, and writes down when it did it.
#[derive(Default)]
struct Scripted {
    plans: BTreeMap<&'static str, Plan>,
    log: Mutex<Vec<String>>,
    start: Mutex<Option<tokio::time::Instant>>,
    dropped: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Default)]
struct Plan {
    takes: Duration,
    end: End,
}

#[derive(Clone, Copy, Default)]
enum End {
    #[default]
    Done,
    After(Duration),
    Wait,
    Fail,
    FailFor(Duration),
    Panic,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Scripted {
    fn new(plans: impl IntoIterator<Item = (&'static str, Plan)>) -> Arc<Self> {
        let start = Mutex::new(Some(tokio::time::Instant::now()));
        Arc::new(Self { plans: plans.into_iter().collect(), start, ..Self::default() })
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn write(&self, what: &str) {
        let start = self.start.lock().unwrap().unwrap();
        self.log.lock().unwrap().push(format!("{:.1} {what}", start.elapsed().as_secs_f64()));
    }
}

#[async_trait]
impl Reconciler for Scripted {
    fn lane(&self, key: &Key) -> Lane {
        if key.name.starts_with("drain") { Lane::new("drain", 1) } else { Lane::new("work", 2) }
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let name = run.key.name.clone();
        let plan = self.plans.get(name.as_str()).copied().unwrap_or_default();
        self.write(&format!("{name}#{}", run.attempts));
        tracing::info!("at work");
        if !plan.takes.is_zero() {
            let _dropped = CountDrop(self.dropped.clone());
            pass(plan.takes).await;
            self.write(&format!("{name} ends"));
        }
        match plan.end {
            End::Done => Ok(Outcome::Done),
            End::After(delay) => Ok(Outcome::After(delay)),
            End::Wait => Ok(Outcome::Wait { reason: "WaitingForSomething", check: Some(SECOND * 7) }),
            End::Fail => Err(Trouble::new("as planned")),
            End::FailFor(delay) => Err(Trouble::after("as planned", delay)),
            End::Panic => panic!("as planned"),
        }
    }
}

fn options() -> QueueOptions {
    QueueOptions {
        backoff: Backoff { jitter: 0.0, ..Backoff::new(SECOND, SECOND * 60) },
        woken_after_failure: SECOND * 2,
        stuck_after: SECOND * 30,
        drain_limit: SECOND * 10,
        ..QueueOptions::new("test")
    }
}

fn key(name: &str) -> Key {
    Key::new("Thing", "default", name)
}

struct Running {
    queue: Queue,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Drained>,
    metrics: hostler_controller::Metrics,
}

fn start(reconciler: &Arc<Scripted>) -> Running {
    let world = World::new(1);
    let queue = Queue::new(options(), world.clock.clone(), &world.chance, world.metrics.clone());
    let stop = CancellationToken::new();
    let task = {
        let (queue, stop, reconciler) = (queue.clone(), stop.clone(), reconciler.clone());
        tokio::spawn(async move { queue.run(reconciler, stop).await })
    };
    Running { queue, stop, task, metrics: world.metrics }
}

#[tokio::test(start_paused = true)]
async fn keys_run_in_order_and_lanes_do_not_wait_for_each_other() {
    let slow = Plan { takes: SECOND * 10, end: End::Done };
    let reconciler = Scripted::new([("a", slow), ("b", slow), ("drain-1", slow), ("drain-2", slow)]);
    let running = start(&reconciler);
    for name in ["drain-2", "c", "b", "a", "drain-1"] {
        running.queue.wake(key(name));
    }
    pass(SECOND * 25).await;
    assert_eq!(
        reconciler.log(),
        [
            "0.0 a#0",
            "0.0 b#0",
            "0.0 drain-1#0",
            "10.0 a ends",
            "10.0 b ends",
            "10.0 drain-1 ends",
            "10.0 c#0",
            "10.0 drain-2#0",
            "20.0 drain-2 ends"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_are_counted_and_panics_are_failures() {
    let reconciler = Scripted::new([
        ("fails", Plan { end: End::Fail, ..Plan::default() }),
        ("panics", Plan { end: End::Panic, ..Plan::default() }),
        ("table", Plan { end: End::FailFor(SECOND * 5), ..Plan::default() }),
    ]);
    let running = start(&reconciler);
    for name in ["fails", "panics", "table", "well"] {
        running.queue.wake(key(name));
    }
    pass(SECOND * 8).await;
    let log = reconciler.log();
    let of = |name: &str| log.iter().filter(|line| line.contains(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("fails"), ["0.0 fails#0", "1.0 fails#1", "3.0 fails#2", "7.0 fails#3"]);
    assert_eq!(of("panics"), ["0.0 panics#0", "1.0 panics#1", "3.0 panics#2", "7.0 panics#3"]);
    assert_eq!(of("table"), ["0.0 table#0", "5.0 table#1"]);
    assert_eq!(of("well"), ["0.0 well#0"]);
    let text = running.metrics.text();
    let counted = "hostler_reconciles_total{queue=\"test\",kind=\"Thing\",outcome=\"failed\"} 10";
    assert!(text.contains(counted), "{text}");
}

#[tokio::test(start_paused = true)]
async fn outcomes_say_when_to_look_again() {
    let reconciler = Scripted::new([
        ("after", Plan { end: End::After(SECOND * 3), ..Plan::default() }),
        ("wait", Plan { end: End::Wait, ..Plan::default() }),
    ]);
    let running = start(&reconciler);
    for name in ["after", "done", "wait"] {
        running.queue.wake(key(name));
    }
    running.queue.wake_after(key("later"), SECOND * 4);
    pass(SECOND * 8).await;
    assert_eq!(
        reconciler.log(),
        [
            "0.0 after#0",
            "0.0 done#0",
            "0.0 wait#0",
            "3.0 after#0",
            "4.0 later#0",
            "6.0 after#0",
            "7.0 wait#0"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn woken_while_it_runs_it_runs_again_and_never_twice_at_once() {
    let reconciler = Scripted::new([("a", Plan { takes: SECOND * 3, end: End::Done })]);
    let running = start(&reconciler);
    running.queue.wake(key("a"));
    pass(SECOND).await;
    for _ in 0..3 {
        running.queue.wake(key("a"));
        pass(Duration::from_millis(100)).await;
    }
    pass(SECOND * 20).await;
    assert_eq!(reconciler.log(), ["0.0 a#0", "3.0 a ends", "3.0 a#0", "6.0 a ends"]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_cannot_wake_itself_into_a_frenzy() {
    let reconciler = Scripted::new([("a", Plan { end: End::FailFor(SECOND * 600), ..Plan::default() })]);
    let running = start(&reconciler);
    for _ in 0..100 {
        running.queue.wake(key("a"));
        pass(Duration::from_millis(100)).await;
    }
    assert_eq!(reconciler.log(), ["0.0 a#0", "1.0 a#1", "3.0 a#2", "5.0 a#3", "7.0 a#4", "9.0 a#5"]);
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_runs_end_but_not_for_ever() {
    let reconciler = Scripted::new([
        ("quick", Plan { takes: SECOND * 4, end: End::Done }),
        ("slow", Plan { takes: SECOND * 60, end: End::Done }),
    ]);
    let Running { queue, stop, task, .. } = start(&reconciler);
    queue.wake(key("quick"));
    queue.wake(key("slow"));
    pass(SECOND).await;
    stop.cancel();
    queue.wake(key("too-late"));
    let drained = task.await.unwrap();
    assert_eq!(drained.abandoned, [key("slow")]);
    assert_eq!(reconciler.log(), ["0.0 quick#0", "0.0 slow#0", "4.0 quick ends"]);
    tokio::task::yield_now().await;
    assert_eq!(reconciler.dropped.load(Ordering::SeqCst), 2, "the abandoned run was dropped");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_runner_drops_its_runs() {
    let reconciler = Scripted::new([("slow", Plan { takes: SECOND * 60, end: End::Done })]);
    let Running { queue, task, .. } = start(&reconciler);
    queue.wake(key("slow"));
    pass(SECOND).await;
    task.abort();
    pass(SECOND * 120).await;
    assert_eq!(reconciler.log(), ["0.0 slow#0"]);
    assert_eq!(reconciler.dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_run_is_seen() {
    let reconciler = Scripted::new([("slow", Plan { takes: SECOND * 60, end: End::Done })]);
    let running = start(&reconciler);
    running.queue.wake(key("slow"));
    pass(SECOND * 30).await;
    assert_eq!(running.queue.stuck(), []);
    pass(SECOND).await;
    assert_eq!(running.queue.stuck(), [(key("slow"), SECOND * 31)]);
    pass(SECOND * 60).await;
    assert_eq!(running.queue.stuck(), []);
}

#[tokio::test(start_paused = true)]
async fn every_line_of_a_run_names_its_object() {
    let (lines, _guard) = Lines::capture(true);
    let reconciler = Scripted::new([("a", Plan { takes: SECOND, end: End::Fail })]);
    let running = start(&reconciler);
    running.queue.wake(key("a"));
    running.queue.wake(key("b"));
    pass(SECOND * 3).await;
    let text = lines.text();
    let messages: Vec<(String, String)> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&line["span"]["kind"], &line["span"]["namespace"]),
                (&"Thing".into(), &"default".into())
            );
            let part = |part: &serde_json::Value| part.as_str().unwrap().to_owned();
            (part(&line["span"]["object"]), part(&line["fields"]["message"]))
        })
        .collect();
    let expected = [("a", "at work"), ("b", "at work"), ("a", "could not reconcile"), ("a", "at work")];
    assert_eq!(messages, expected.map(|(name, message)| (name.to_owned(), message.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn lines_for_people_name_their_object_too() {
    let (lines, _guard) = Lines::capture(false);
    let reconciler = Scripted::new([("a", Plan { takes: SECOND, end: End::Fail })]);
    let running = start(&reconciler);
    running.queue.wake(key("a"));
    pass(SECOND * 3).await;
    let text = lines.text();
    assert_eq!(text.lines().count(), 3, "{text}");
    for line in text.lines() {
        assert!(line.contains("reconcile{kind=Thing namespace=default object=a attempt="), "{line}");
    }
}

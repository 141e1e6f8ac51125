//! Every call about the lease broken in every way: somebody leads again soon, and never do two write.

use crate::support::SECOND;
use hostler_controller::{Election, Fence, LeaseOptions, Led, Metrics, StackOptions, kube_client};
use hostler_sim::{Class, Context, Finished, Plan, Sweep, World, incarnation::KUBERNETES, sweep::paused};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

const BOOK: &str = "book";
const LEASE: &str = "leader";
/// What the leader writes into the book: who it is, and how often it has written.
const BY: &str = "by";
const LINES: &str = "lines";

/// Writes a line into the book every three seconds while it leads; a careless one does so all the time.
async fn write_while_leading(context: Context, careless: bool) {
    let (clock, metrics) = (context.clock.clone(), Metrics::new());
    let identity = format!("incarnation-{}", context.incarnation);
    let stack = |timeout: Duration, fence: Fence| {
        let options =
            StackOptions { timeout, fence, ..StackOptions::alone("test", metrics.clone(), clock.clone()) };
        kube_client(context.transport(KUBERNETES), &options, "default")
    };
    let options = LeaseOptions::new("default", LEASE, &identity);
    let plain = stack(SECOND * 5, Fence::open(clock.clone()));
    let election = Election::new(plain, options, clock.clone(), &context.chance, metrics.clone());
    let fence = if careless { Fence::open(clock.clone()) } else { election.fence() };
    let book: Api<ConfigMap> = Api::default_namespaced(stack(SECOND * 2, fence));
    let work = || async {
        for line in 1.. {
            let data = json!({"data": {BY: identity, LINES: format!("{identity} {line}")}});
            // Whoever is kept from writing tries again: what matters is that it does not write.
            let _ = book.patch(BOOK, &PatchParams::default(), &Patch::Merge(data)).await;
            clock.sleep(SECOND * 3).await;
        }
    };
    if careless {
        tokio::join!(work(), election.lead(&context.shutdown, std::future::pending::<()>));
    } else {
        assert_ne!(election.lead(&context.shutdown, work).await, Led::Finished(()));
    }
}

#[derive(Default)]
struct Seen {
    line: String,
    lines: usize,
}

async fn flow(plan: Plan, careless: bool) -> Finished {
    let mut world = World::in_virtual_time(plan);
    let books: Api<ConfigMap> = Api::default_namespaced(world.client());
    let leases: Api<Lease> = Api::default_namespaced(world.client());
    let metadata = ObjectMeta { name: Some(BOOK.into()), ..ObjectMeta::default() };
    let book = ConfigMap { metadata, ..ConfigMap::default() };
    books.create(&PostParams::default(), &book).await.unwrap();
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let noted = seen.clone();
    world.observe(Arc::new(move || {
        let (books, leases, seen) = (books.clone(), leases.clone(), noted.clone());
        Box::pin(async move { look(&books, &leases, &seen).await })
    }));
    world.start("candidate", move |context| Box::pin(write_while_leading(context, careless)));
    let mut goal = Ok(());
    for minute in 1..=3 {
        let before = seen.lock().unwrap().lines;
        world.run_for(Duration::from_mins(1)).await;
        if minute > 1 && seen.lock().unwrap().lines < before + 5 {
            goal = Err(format!("nobody wrote enough in minute {minute}"));
        }
    }
    world.finish(goal)
}

/// A new line must be of the one who holds the lease.
async fn look(books: &Api<ConfigMap>, leases: &Api<Lease>, seen: &Mutex<Seen>) -> Result<(), String> {
    let book = books.get(BOOK).await.map_err(|error| error.to_string())?;
    let text = |key: &str| book.data.as_ref().and_then(|data| data.get(key)).cloned().unwrap_or_default();
    let (by, line) = (text(BY), text(LINES));
    if seen.lock().unwrap().line == line {
        return Ok(());
    }
    let lease = leases.get_opt(LEASE).await.map_err(|error| error.to_string())?;
    let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
    let mut seen = seen.lock().unwrap();
    *seen = Seen { line, lines: seen.lines + 1 };
    let leader = if holder.is_empty() { "nobody" } else { &holder };
    if holder == by { Ok(()) } else { Err(format!("{by} wrote while {leader} led")) }
}

#[test]
fn whatever_happens_to_a_renewal_one_leads_and_only_one_writes() {
    let sweep = Sweep::new("leading", 1).only(|class, _, _| class == Class::Lease);
    let report = sweep.run(async |plan| flow(plan, false).await).unwrap();
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.runs > 50, "{report}");
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boundaries/leading.txt");
    if let Err(difference) = report.recording.check(&committed) {
        panic!("{difference}");
    }
}

#[test]
fn one_that_writes_without_leading_is_caught() {
    let finished = paused(flow(Plan::seeded(1), true)).unwrap();
    let violation = finished.violations.first().expect("a violation");
    assert_eq!(violation.message, "incarnation-1 wrote while nobody led");
}

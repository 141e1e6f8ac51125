//! What a Kubernetes API server must do, as named cases that run on any server.
//!
//! A [`Case`] gets a [`Ctx`]: a namespace of its own, a way to send any request, and watches with a time limit.
//! It knows nothing about the server behind it; what kube-apiserver 1.36 answers is what is right.
//! [`run`] runs one case, [`run_all`] many. Cases whose area is in [`ALONE`] make the server forget or restart
//! and must not run beside others.
#![forbid(unsafe_code)]

mod cases;
mod ctx;
mod protobuf;
mod reply;
mod watch;

pub use ctx::{Ctx, Request};
pub use reply::{Look, Reply};
pub use watch::Watch;

use futures::{StreamExt, future::BoxFuture};
use std::{fmt, sync::Arc, sync::LazyLock, time::Duration};

/// A running API server. It has the users of [`TestUser`], and RBAC is in force.
pub trait Server: Send + Sync {
    /// As an administrator (group `system:masters`). Must not repeat requests on its own.
    fn client(&self) -> kube::Client;

    /// As a user without rights of its own. `None` when this server cannot do it.
    fn client_as(&self, user: TestUser) -> Option<kube::Client>;

    /// Forgets history: afterwards older resource versions answer `410 Gone`.
    fn compact(&self) -> BoxFuture<'_, ()>;

    /// Stops and starts the server; stored objects stay, connections do not.
    fn restart(&self) -> BoxFuture<'_, ()>;
}

/// Users that a server under test must know. They have no rights but those of every authenticated user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestUser {
    /// Gets rights in single namespaces only.
    Alice,
    /// Gets cluster-wide rights by cases; no case may rely on Bob being refused something.
    Bob,
    /// Never gets any right.
    Carol,
    /// No credentials at all: `system:anonymous`.
    Anonymous,
}

impl TestUser {
    pub fn name(self) -> &'static str {
        match self {
            TestUser::Alice => "alice",
            TestUser::Bob => "bob",
            TestUser::Carol => "carol",
            TestUser::Anonymous => "system:anonymous",
        }
    }

    /// The group that the user has beside `system:authenticated`.
    pub fn group(self) -> Option<&'static str> {
        match self {
            TestUser::Alice => Some("team-a"),
            TestUser::Bob => Some("team-b"),
            TestUser::Carol => Some("team-c"),
            TestUser::Anonymous => None,
        }
    }
}

/// Why a case did not pass.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self(format!("the request failed: {error}"))
    }
}

pub type Outcome = Result<(), Failure>;

/// One behaviour.
pub struct Case {
    pub area: &'static str,
    pub name: &'static str,
    pub run: fn(Ctx) -> BoxFuture<'static, Outcome>,
}

impl Case {
    /// `area/name`
    pub fn id(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }
}

/// Areas whose cases must run one by one with nothing beside them.
pub const ALONE: &[&str] = &["history"];

/// All cases, always in the same order.
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(cases::all);
    &CASES
}

/// The areas in the order of [`cases`].
pub fn areas() -> Vec<&'static str> {
    let mut areas: Vec<&'static str> = cases().iter().map(|case| case.area).collect();
    areas.dedup();
    areas
}

/// Runs one case in a namespace made for it and cleans up behind it.
pub async fn run(server: &Arc<dyn Server>, case: &Case) -> Outcome {
    let ctx = Ctx::new(server.clone(), case.name).await?;
    let result = tokio::time::timeout(Duration::from_mins(2), (case.run)(ctx.clone()))
        .await
        .unwrap_or_else(|_| Err(Failure("did not end within two minutes".to_owned())));
    ctx.clean_up().await;
    result
}

/// Runs cases, `at_once` beside each other except those that must be [`ALONE`], and returns the outcomes in the
/// order of the cases.
pub async fn run_all<'a>(
    server: &Arc<dyn Server>,
    cases: impl Iterator<Item = &'a Case>,
    at_once: usize,
) -> Vec<(&'a Case, Outcome)> {
    let (alone, beside): (Vec<_>, Vec<_>) = cases.partition(|case| ALONE.contains(&case.area));
    let mut results: Vec<_> = futures::stream::iter(beside)
        .map(|case| async move { (case, run(server, case).await) })
        .buffered(at_once)
        .collect()
        .await;
    for case in alone {
        results.push((case, run(server, case).await));
    }
    results
}

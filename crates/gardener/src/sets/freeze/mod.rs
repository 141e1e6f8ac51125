//! Stops MachineSets that have far more machines than they should: whatever the reason, no more are made until there
//! are fewer or somebody says so.

mod decide;

use super::store::{Part, Store, reference};
use async_trait::async_trait;
use decide::{Observed, Step, decide};
use hostler_base::Clock;
use hostler_controller::{EventKind, Key, Lane, Outcome, Reconciler, Recorder, Run, Trouble};
use kube::ResourceExt;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

pub(super) const KIND: &str = "Overshoot";
const OVERSHOOT: Lane = Lane { name: "overshoot", workers: 1 };
/// More steps than this in one run mean that somebody writes against us.
const STEPS_PER_RUN: usize = 1000;

pub(super) struct FreezeController {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    pub(super) limits: Limits,
    pub(super) period: Duration,
}

/// How many machines too many are borne.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// So many more than allowed, and a set is frozen.
    pub(super) up: i32,
    /// So many fewer than that, and it thaws.
    pub(super) down: i32,
}

#[async_trait]
impl Reconciler for FreezeController {
    fn lane(&self, _: &Key) -> Lane {
        OVERSHOOT
    }

    async fn reconcile(&self, _: Run) -> Result<Outcome, Trouble> {
        let mut thawed = BTreeSet::new();
        for _ in 0..STEPS_PER_RUN {
            let step = decide(&Observed {
                now: self.clock.now(),
                sets: &self.store.sets.list(),
                deployments: &self.store.deployments.list(),
                machines: &self.store.machines.list(),
                limits: self.limits,
                thawed: &thawed,
            });
            match step {
                None => break,
                Some(Step::Set { before, after, part, tell, thaws }) => {
                    self.store.write(&*before, &*after, part).await?;
                    if thaws {
                        thawed.insert(before.name_any());
                    }
                    if let Some((reason, message)) = tell.filter(|_| part == Part::Object) {
                        self.recorder.record(&reference(&*before), EventKind::Normal, reason, message);
                    }
                }
                Some(Step::Deployment { before, after, part }) => {
                    self.store.write(&*before, &*after, part).await?;
                }
            }
        }
        Ok(Outcome::After(self.period))
    }
}

//! The controller of MachineDeployments.

mod decide;
mod in_place;
mod nodes;
mod numbers;
mod status;
mod template;
mod trigger;

use super::{
    claim::controller_of,
    store::{Part, Store, Stored, Written, reference},
};
use crate::api::{Machine, MachineDeployment, MachineSet};
use async_trait::async_trait;
use decide::{Memory, Observed, Step, Tell, decide};
use futures::future::join_all;
use hostler_base::Clock;
use hostler_controller::{EventKind, Key, Lane, Outcome, Reconciler, Recorder, Run, Trouble};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use std::{sync::Arc, time::Duration};

pub(super) use numbers::scaled;
use status::News;
pub(super) use status::set as set_condition;

pub(super) const KIND: &str = "MachineDeployment";
/// A run that has taken so many steps gives others a turn.
const STEPS_PER_RUN: usize = 50;
const DEPLOYMENTS: Lane = Lane { name: "machine-deployments", workers: 10 };
/// How long the watch is given to tell what the server said already.
const CATCH_UP: Duration = Duration::from_secs(1);

pub(super) struct DeploymentController {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    pub(super) recorder: Recorder,
    /// The autoscaler shall leave nodes alone while an update goes on.
    pub(super) disable_scale_down: bool,
}

#[async_trait]
impl Reconciler for DeploymentController {
    fn lane(&self, _: &Key) -> Lane {
        DEPLOYMENTS
    }

    async fn reconcile(&self, run: Run) -> Result<Outcome, Trouble> {
        let mut memory = Memory { fresh: false, news: News::None };
        for _ in 0..STEPS_PER_RUN {
            let Some(deployment) = self.store.deployments.get(&run.key) else { return Ok(Outcome::Done) };
            let step = self.decide(&deployment, &memory);
            tracing::debug!(?step, "decided");
            if let Some(outcome) = self.act(&deployment, step, &mut memory).await? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::After(Duration::ZERO))
    }
}

impl DeploymentController {
    fn decide(&self, deployment: &MachineDeployment, memory: &Memory) -> Step {
        decide(&Observed {
            now: self.clock.now(),
            deployment,
            sets: &self.store.sets.list(),
            machines: &self.store.machines.list(),
            nodes: &|machine| self.store.node(machine),
            has_target: self.store.target.is_some(),
            disable_scale_down: self.disable_scale_down,
            memory,
        })
    }

    /// Carries the step out. Says how the run ends, if it does.
    async fn act(
        &self,
        deployment: &MachineDeployment,
        step: Step,
        memory: &mut Memory,
    ) -> Result<Option<Outcome>, Trouble> {
        match step {
            Step::Invalid(problem) => {
                let tell = Tell { warning: true, reason: "InvalidSpec", message: problem };
                self.tell(deployment, Some(tell));
                return Ok(Some(Outcome::Wait { reason: "InvalidSpec", check: None }));
            }
            Step::Refresh => {
                let live = self.store.look::<MachineDeployment>(&deployment.name_any()).await?;
                if live.is_none_or(|live| live.metadata.uid != deployment.metadata.uid) {
                    return Ok(Some(Outcome::Done));
                }
                self.store.refresh::<MachineSet>(None).await?;
                self.store.refresh::<Machine>(None).await?;
                memory.fresh = true;
            }
            Step::Deployment { after, tell } => {
                return self.written(deployment, deployment, &*after, Part::Object, tell).await;
            }
            Step::WriteStatus { after: status, tell } => {
                let mut after = deployment.clone();
                after.status = Some(*status);
                return self.written(deployment, deployment, &after, Part::Status, tell).await;
            }
            Step::Set { before, after, tell } => {
                return self.written(deployment, &*before, &*after, Part::Object, tell).await;
            }
            Step::Machine { before, after } => {
                return self.written::<Machine>(deployment, &before, &after, Part::Object, None).await;
            }
            Step::Node { before, after } => {
                return self.written::<Node>(deployment, &before, &after, Part::Object, None).await;
            }
            Step::CreateSet(set) => self.create(deployment, *set, memory).await?,
            Step::DeleteSets(sets) => return self.delete(sets).await,
            Step::Fail(message) => return Err(Trouble::new(message)),
            Step::Done { again } => return Ok(Some(again.map_or(Outcome::Done, Outcome::After))),
        }
        Ok(None)
    }

    /// Writes something. What is gone by now the watch tells soon.
    async fn written<K: Stored>(
        &self,
        deployment: &MachineDeployment,
        before: &K,
        after: &K,
        part: Part,
        tell: Option<Tell>,
    ) -> Result<Option<Outcome>, Trouble> {
        match self.store.write(before, after, part).await? {
            Written::Done => {
                self.tell(deployment, tell);
                Ok(None)
            }
            Written::Outdated => Ok(None),
            Written::Gone => Ok(Some(Outcome::After(CATCH_UP))),
        }
    }

    async fn create(
        &self,
        deployment: &MachineDeployment,
        set: MachineSet,
        memory: &mut Memory,
    ) -> Result<(), Trouble> {
        let api: Api<MachineSet> = Api::namespaced(self.store.control.clone(), &self.store.namespace);
        let name = set.name_any();
        match api.create(&PostParams::default(), &set).await {
            Ok(created) => {
                if created.spec.replicas > 0 {
                    let message = format!("Scaled up machine set {name} to {}", created.spec.replicas);
                    self.tell(
                        deployment,
                        Some(Tell { warning: false, reason: "ScalingMachineSet", message }),
                    );
                }
                self.store.sets.learn(Arc::new(created));
                memory.news = News::Created(name);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let there = self.store.look::<MachineSet>(&name).await?;
                let ours = there.is_none_or(|there| {
                    controller_of(&*there).map(|owner| &owner.uid) == deployment.metadata.uid.as_ref()
                        && template::is_same(&there.spec.template, &set.spec.template)
                });
                if ours { Ok(()) } else { self.count_collision(deployment).await }
            }
            Err(error) => {
                let message = format!("Failed to create new machine set {name:?}: {error}");
                let tell = Tell { warning: true, reason: "MachineSetCreateError", message: message.clone() };
                self.tell(deployment, Some(tell));
                memory.news = News::FailedToCreate(message);
                Ok(())
            }
        }
    }

    /// The name is somebody else's: the next one will be another.
    async fn count_collision(&self, deployment: &MachineDeployment) -> Result<(), Trouble> {
        let mut after = deployment.clone();
        let status = after.status.get_or_insert_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
        self.store.write(deployment, &after, Part::Status).await.map(drop)
    }

    async fn delete(&self, sets: Vec<Arc<MachineSet>>) -> Result<Option<Outcome>, Trouble> {
        let api: Api<MachineSet> = Api::namespaced(self.store.control.clone(), &self.store.namespace);
        let calls = sets.iter().map(|set| {
            let preconditions = Preconditions { uid: set.uid(), ..Preconditions::default() };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let (api, name) = (api.clone(), set.name_any());
            async move { api.delete(&name, &params).await }
        });
        let mut gone = false;
        for answer in join_all(calls).await {
            match answer {
                Ok(answer) => match answer.left() {
                    Some(deleting) => self.store.sets.learn(Arc::new(deleting)),
                    None => gone = true,
                },
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => gone = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(gone.then_some(Outcome::After(CATCH_UP)))
    }

    fn tell(&self, deployment: &MachineDeployment, tell: Option<Tell>) {
        let Some(Tell { warning, reason, message }) = tell else { return };
        let kind = if warning { EventKind::Warning } else { EventKind::Normal };
        self.recorder.record(&reference(deployment), kind, reason, message);
    }
}

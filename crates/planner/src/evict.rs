//! Which pods may be evicted.

use crate::intern::{Map, Set};
use crate::model::{
    Budget, Claim, Cluster, Operator, OwnerKind, Phase, Pod, Requirement, Selector, Time, VolumeSource,
};
use crate::reason::Reason;
use std::collections::BTreeMap;

const SAFE: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const SYSTEM_NAMESPACE: &str = "kube-system";
/// So old must a pod of the system be that nobody wrote a budget for.
const SYSTEM_POD_AGE: Time = 3600;

/// What decides whether a pod may be evicted, and how much of what budgets allow is spent.
pub(crate) struct Evictions<'a> {
    input: &'a Cluster,
    budgets: Budgets,
    /// By namespace, kind and name of the controller: its pods that have not ended. Empty where nobody asks.
    replicas: Map<(&'a str, OwnerKind, &'a str), u32>,
    /// Namespace and name of claims whose volume does not move.
    local: Set<(&'a str, &'a str)>,
}

impl<'a> Evictions<'a> {
    pub fn new(input: &'a Cluster) -> Self {
        let mut replicas = Map::default();
        if input.settings.min_replicas > 0 {
            let alive = |pod: &&Pod| pod.phase != Phase::Finished && pod.deleting.is_none();
            for (pod, owner) in
                input.pods.iter().filter(alive).filter_map(|pod| pod.owner.as_ref().map(|o| (pod, o)))
            {
                *replicas.entry((pod.namespace.as_str(), owner.kind, owner.name.as_str())).or_insert(0) += 1;
            }
        }
        Self { input, budgets: Budgets::new(input), replicas, local: local_claims(input) }
    }

    /// Why a pod must not be evicted, whatever budgets have left.
    pub fn objection(&self, pod: &Pod) -> Option<Reason> {
        let name = || pod.name.clone();
        let protected =
            |annotation: &str| Reason::PodProtected { pod: name(), annotation: annotation.to_owned() };
        if let Some(value) = pod.annotations.get(DO_NOT_DISRUPT)
            && (value == "true" || still(pod, value, self.input.now))
        {
            return Some(protected(DO_NOT_DISRUPT));
        }
        if let Some(reason) = self.too_few(pod) {
            return Some(reason);
        }
        match pod.annotations.get(SAFE).map(String::as_str) {
            Some("true") => return None,
            Some("false") => return Some(protected(SAFE)),
            Some("on-completion") => return Some(Reason::WaitsForCompletion { pod: name() }),
            _ => {}
        }
        if pod.owner.as_ref().is_none_or(|owner| owner.kind == OwnerKind::Other) {
            return Some(Reason::PodWithoutOwner { pod: name() });
        }
        let until = pod.created + SYSTEM_POD_AGE;
        if pod.namespace == SYSTEM_NAMESPACE && until > self.input.now && !self.budgets.cover(self.input, pod)
        {
            return Some(Reason::SystemPodIsYoung { pod: name(), until });
        }
        self.local_storage(pod)
    }

    /// Its controller has fewer pods than it takes to spare one. The number of a Job's pods says nothing.
    fn too_few(&self, pod: &Pod) -> Option<Reason> {
        let needed = self.input.settings.min_replicas;
        let owner = pod.owner.as_ref()?;
        let counted = matches!(
            owner.kind,
            OwnerKind::ReplicaSet | OwnerKind::ReplicationController | OwnerKind::StatefulSet
        );
        if needed == 0 || !counted {
            return None;
        }
        let replicas = *self.replicas.get(&(pod.namespace.as_str(), owner.kind, owner.name.as_str()))?;
        (replicas < needed).then(|| Reason::TooFewReplicas { pod: pod.name.clone(), replicas, needed })
    }

    fn local_storage(&self, pod: &Pod) -> Option<Reason> {
        let waived: Vec<&str> = pod
            .annotations
            .get(SAFE_VOLUMES)
            .map(|list| list.split(',').map(str::trim).collect())
            .unwrap_or_default();
        let local = pod.spec.volumes.iter().find(|volume| {
            let stays = match &volume.source {
                VolumeSource::HostPath | VolumeSource::EmptyDir { in_memory: false } => true,
                VolumeSource::Claim(claim) => self.local.contains(&(pod.namespace.as_str(), claim.as_str())),
                VolumeSource::Other | VolumeSource::EmptyDir { in_memory: true } => false,
            };
            stays && !waived.contains(&volume.name.as_str())
        });
        local.map(|volume| Reason::LocalStorage { pod: pod.name.clone(), volume: volume.name.clone() })
    }

    /// Why budgets do not let these pods be evicted together.
    pub fn over_budget(&self, pods: &[usize]) -> Option<Reason> {
        self.budgets.objection(self.input, pods)
    }

    pub fn spend(&mut self, pods: &[usize]) {
        self.budgets.take(self.input, pods);
    }
}

fn local_claims(input: &Cluster) -> Set<(&str, &str)> {
    let local = input.volumes.iter().filter(|volume| volume.local);
    let local: Set<&str> = local.map(|volume| volume.name.as_str()).collect();
    let has = |claim: &&Claim| claim.volume.as_ref().is_some_and(|volume| local.contains(volume.as_str()));
    input.claims.iter().filter(has).map(|claim| (claim.namespace.as_str(), claim.name.as_str())).collect()
}

/// A time such as `1h30m`, counted from the pod's start, is not over.
fn still(pod: &Pod, value: &str, now: Time) -> bool {
    let mut seconds: i64 = 0;
    let mut number: i64 = 0;
    for letter in value.chars() {
        let unit = match letter {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            digit => match digit.to_digit(10) {
                Some(digit) => {
                    number = number.saturating_mul(10).saturating_add(i64::from(digit));
                    continue;
                }
                None => return false,
            },
        };
        seconds = seconds.saturating_add(number.saturating_mul(unit));
        number = 0;
    }
    seconds > 0 && now < pod.started.unwrap_or(pod.created).saturating_add(seconds)
}

/// What budgets still allow.
struct Budgets {
    allowed: Vec<i32>,
    by_namespace: BTreeMap<String, Vec<usize>>,
}

impl Budgets {
    fn new(input: &Cluster) -> Self {
        let mut by_namespace: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, budget) in input.budgets.iter().enumerate() {
            by_namespace.entry(budget.namespace.clone()).or_default().push(at);
        }
        Self { allowed: input.budgets.iter().map(|budget| budget.allowed).collect(), by_namespace }
    }

    fn of<'c>(&self, input: &'c Cluster, pod: &Pod) -> Vec<(usize, &'c Budget)> {
        let Some(candidates) = self.by_namespace.get(&pod.namespace) else { return Vec::new() };
        let selected =
            |budget: &&(usize, &Budget)| budget.1.selector.as_ref().is_some_and(|own| meant(own, pod));
        let all: Vec<(usize, &Budget)> = candidates.iter().map(|at| (*at, &input.budgets[*at])).collect();
        all.iter().filter(selected).copied().collect()
    }

    fn cover(&self, input: &Cluster, pod: &Pod) -> bool {
        !self.of(input, pod).is_empty()
    }

    /// Why these pods cannot be evicted together.
    fn objection(&self, input: &Cluster, pods: &[usize]) -> Option<Reason> {
        let mut needed: BTreeMap<usize, i32> = BTreeMap::new();
        for pod in pods {
            let pod = &input.pods[*pod];
            let budgets = self.of(input, pod);
            if budgets.len() > 1 {
                let budgets = budgets.iter().map(|(_, budget)| budget.name.clone()).collect();
                return Some(Reason::SeveralBudgets { pod: pod.name.clone(), budgets });
            }
            if let Some((at, budget)) = budgets.first() {
                let needed = needed.entry(*at).or_insert(0);
                *needed += 1;
                if *needed > self.allowed[*at] {
                    return Some(Reason::Budget {
                        pod: pod.name.clone(),
                        budget: budget.name.clone(),
                        allowed: self.allowed[*at],
                        needed: *needed,
                    });
                }
            }
        }
        None
    }

    fn take(&mut self, input: &Cluster, pods: &[usize]) {
        for pod in pods {
            for (at, _) in self.of(input, &input.pods[*pod]) {
                self.allowed[at] -= 1;
            }
        }
    }
}

fn meant(selector: &Selector, pod: &Pod) -> bool {
    let labels = &pod.spec.labels;
    let holds = |need: &Requirement| {
        let value = labels.get(&need.key);
        match need.operator {
            Operator::In => value.is_some_and(|value| need.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !need.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt | Operator::Lt => false,
        }
    };
    selector.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
        && selector.expressions.iter().all(holds)
}

//! Does the node have enough left of what the pod asks for?

use super::Refusal;
use super::snapshot::NodeView;
use crate::quantity::{thousandths, units};
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Amounts by resource name: processor time in thousandths, everything else in whole units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(pub(crate) BTreeMap<String, i64>);

impl Amounts {
    pub(crate) fn of(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        let amount = |(name, quantity): (&String, &Quantity)| {
            (name.clone(), if name == "cpu" { thousandths(quantity) } else { units(quantity) })
        };
        Self(list.into_iter().flatten().map(amount).collect())
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.0.entry(name.clone()).or_default();
            *rest = rest.saturating_sub(*amount);
        }
    }

    fn at_least(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_default();
            *most = (*most).max(*amount);
        }
    }
}

/// What processor time and memory count for a container that asks for none, when nodes are compared.
const ASSUMED_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// What a pod takes from its node: all containers and sidecars at once, or the largest step of its start,
/// whichever is more, and the overhead of its runtime. Requests of the pod as a whole take the place of the sum.
pub(crate) fn requests(pod: &Pod) -> Amounts {
    total(pod, |container| Amounts::of(container.resources.as_ref().and_then(|all| all.requests.as_ref())))
}

/// Like [`requests`], but a container that asks for nothing counts a little.
pub(crate) fn assumed_requests(pod: &Pod) -> Amounts {
    total(pod, |container| {
        let mut asked = Amounts::of(container.resources.as_ref().and_then(|all| all.requests.as_ref()));
        asked.0.entry("cpu".to_owned()).or_insert(ASSUMED_CPU);
        asked.0.entry("memory".to_owned()).or_insert(ASSUMED_MEMORY);
        asked
    })
}

fn total(pod: &Pod, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::default() };
    let mut sum = Amounts::default();
    for container in &spec.containers {
        sum.add(&of(container));
    }
    let mut sidecars = Amounts::default();
    let mut start = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut step = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            sum.add(&step);
            sidecars.add(&step);
            start.at_least(&sidecars);
        } else {
            step.add(&sidecars);
            start.at_least(&step);
        }
    }
    sum.at_least(&start);
    let whole = Amounts::of(spec.resources.as_ref().and_then(|all| all.requests.as_ref()));
    for (name, amount) in whole.0 {
        sum.0.insert(name, amount);
    }
    sum.add(&Amounts::of(spec.overhead.as_ref()));
    sum
}

pub(crate) fn allocatable(node: &Node) -> Amounts {
    Amounts::of(node.status.as_ref().and_then(|status| status.allocatable.as_ref()))
}

/// Named before all others.
const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Every resource that does not suffice, in the order in which the real scheduler names them.
pub(crate) fn refusals(asked: &Amounts, node: &NodeView) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let allowed = node.allocatable.get("pods");
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) >= allowed {
        refusals.push(Refusal::passing("Too many pods"));
    }
    let short = |name: &str| {
        let amount = asked.get(name);
        let all = node.allocatable.get(name);
        (amount > 0 && amount > all.saturating_sub(node.requested.get(name)))
            .then(|| Refusal { reason: format!("Insufficient {name}"), lasting: amount > all })
    };
    refusals.extend(FIRST.iter().filter_map(|name| short(name)));
    refusals.extend(
        asked
            .0
            .keys()
            .filter(|name| !FIRST.contains(&name.as_str()) && *name != "pods")
            .filter_map(|name| short(name)),
    );
    refusals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::snapshot::tests::{node, pod};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    fn sidecar(cpu: &str, memory: &str) -> Value {
        let mut container = container(cpu, memory);
        container["restartPolicy"] = json!("Always");
        container
    }

    #[test]
    fn a_pod_asks_for_its_containers_or_its_largest_start_step() {
        for (name, spec, cpu, memory) in [
            ("none", json!({"containers": [{"name": "c"}]}), 0, 0),
            ("sum", json!({"containers": [container("1", "10"), container("500m", "5")]}), 1500, 15),
            (
                "a large init container",
                json!({"containers": [container("1", "10")], "initContainers": [container("3", "1"), container("2", "1")]}),
                3000,
                10,
            ),
            (
                "sidecars run beside the containers",
                json!({"containers": [container("1", "10")], "initContainers": [sidecar("1", "1")]}),
                2000,
                11,
            ),
            (
                "an init container runs beside the sidecars before it only",
                json!({"containers": [container("1", "10")], "initContainers": [sidecar("1", "1"), container("3", "1"), sidecar("1", "1")]}),
                4000,
                12,
            ),
            (
                "overhead",
                json!({"containers": [container("1", "10")], "overhead": {"cpu": "250m", "memory": "1"}}),
                1250,
                11,
            ),
            (
                "requests of the whole pod",
                json!({"containers": [container("1", "10")], "resources": {"requests": {"cpu": "4"}}}),
                4000,
                10,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
            let asked = requests(&pod);
            assert_eq!((asked.get("cpu"), asked.get("memory")), (cpu, memory), "{name}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let node = |running: usize| {
            let mut view = node(json!({
                "metadata": {"name": "n"},
                "status": {"allocatable": {"cpu": "2", "memory": "100", "pods": "2", "example.com/gpu": "1"}}
            }));
            for index in 0..running {
                view.add(Arc::new(pod(json!({
                    "metadata": {"name": format!("p{index}")}, "spec": {"containers": [container("500m", "10")]}
                }))));
            }
            view
        };
        for (running, asked, expected) in [
            (0, json!({"cpu": "2", "memory": "100"}), vec![]),
            (1, json!({"cpu": "1500m"}), vec![]),
            (
                1,
                json!({"cpu": "1501m", "memory": "91"}),
                vec![("Insufficient cpu", false), ("Insufficient memory", false)],
            ),
            (0, json!({"cpu": "3"}), vec![("Insufficient cpu", true)]),
            (2, json!({}), vec![("Too many pods", false)]),
            (0, json!({"example.com/gpu": "1"}), vec![]),
            (0, json!({"example.com/gpu": "2"}), vec![("Insufficient example.com/gpu", true)]),
            (0, json!({"example.com/none": "1"}), vec![("Insufficient example.com/none", true)]),
        ] {
            let pod = pod(json!({"spec": {"containers": [{"name": "c", "resources": {"requests": asked}}]}}));
            let refused = refusals(&requests(&pod), &node(running));
            let refused: Vec<_> = refused.iter().map(|one| (one.reason.as_str(), one.lasting)).collect();
            assert_eq!(refused, expected, "{asked}");
        }
    }
}

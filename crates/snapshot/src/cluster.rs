//! Namespaces, budgets and priorities.

use crate::error::{At, Error};
use crate::select;
use hostler_planner::model::{Budget, Namespace};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use std::collections::BTreeMap;

pub fn namespace(from: &core::Namespace) -> Namespace {
    Namespace {
        name: from.metadata.name.clone().unwrap_or_default(),
        labels: from.metadata.labels.clone().unwrap_or_default(),
    }
}

pub fn budget(from: &PodDisruptionBudget) -> Result<Budget, Error> {
    let spec = from.spec.clone().unwrap_or_default();
    let status = from.status.clone().unwrap_or_default();
    let selector = spec.selector.as_ref().map(select::selector).transpose();
    // The API server evicts nobody as long as the budget as it is now was not looked at.
    let seen = status.observed_generation.unwrap_or(0) >= from.metadata.generation.unwrap_or(0);
    Ok(Budget {
        namespace: from.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        name: from.metadata.name.clone().unwrap_or_default(),
        selector: selector.at("selector").at("spec").of("PodDisruptionBudget", &from.metadata)?,
        allowed: if seen { status.disruptions_allowed.unwrap_or_default() } else { 0 },
    })
}

/// PriorityClasses by name. Pods carry a number; templates name a class.
#[derive(Clone, Debug)]
pub struct Priorities {
    values: BTreeMap<String, i32>,
    /// Those that are the default, of which the lowest counts, as for the API server.
    defaults: BTreeMap<String, i32>,
}

impl Default for Priorities {
    /// Kubernetes' own, which every cluster has.
    fn default() -> Self {
        let own = [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
        Self { values: own.map(|(name, value)| (name.to_owned(), value)).into(), defaults: BTreeMap::new() }
    }
}

impl Priorities {
    pub fn insert(&mut self, class: &PriorityClass) {
        let name = class.metadata.name.clone().unwrap_or_default();
        self.remove(&name);
        if class.global_default == Some(true) {
            self.defaults.insert(name.clone(), class.value.unwrap_or_default());
        }
        self.values.insert(name, class.value.unwrap_or_default());
    }

    pub fn remove(&mut self, name: &str) {
        self.values.remove(name);
        self.defaults.remove(name);
    }

    /// The priority of who names this class, or none.
    pub fn of(&self, class: Option<&str>) -> Option<i32> {
        match class.filter(|name| !name.is_empty()) {
            Some(name) => self.values.get(name).copied(),
            None => self.defaults.values().min().copied(),
        }
    }
}

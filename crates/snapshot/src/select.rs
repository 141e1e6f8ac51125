//! Selectors, terms and tolerations.

use crate::error::{At, Fault, each};
use hostler_planner::model::{
    Affinity, Effect, NodeAffinity, NodeTerm, Operator, PodAffinity, PodTerm, Requirement, Selector, Spread,
    SpreadPolicy, Taint, Toleration, TolerationOperator, Weighted,
};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

fn unknown(value: &str) -> Fault {
    Fault::new(format!("{value:?} is not known"))
}

fn operator(name: &str) -> Result<Operator, Fault> {
    match name {
        "In" => Ok(Operator::In),
        "NotIn" => Ok(Operator::NotIn),
        "Exists" => Ok(Operator::Exists),
        "DoesNotExist" => Ok(Operator::DoesNotExist),
        "Gt" => Ok(Operator::Gt),
        "Lt" => Ok(Operator::Lt),
        other => Err(unknown(other)),
    }
    .at("operator")
}

pub(crate) fn selector(selector: &meta::LabelSelector) -> Result<Selector, Fault> {
    let expressions = each(selector.match_expressions.iter().flatten(), |requirement| {
        match operator(&requirement.operator)? {
            Operator::Gt | Operator::Lt => Err(unknown(&requirement.operator)).at("operator"),
            operator => Ok(Requirement {
                key: requirement.key.clone(),
                operator,
                values: requirement.values.clone().unwrap_or_default(),
            }),
        }
    })
    .at("matchExpressions")?;
    Ok(Selector { labels: selector.match_labels.clone().unwrap_or_default(), expressions })
}

fn optional_selector(from: Option<&meta::LabelSelector>, field: &str) -> Result<Option<Selector>, Fault> {
    from.map(selector).transpose().at(field)
}

fn node_requirement(requirement: &core::NodeSelectorRequirement) -> Result<Requirement, Fault> {
    Ok(Requirement {
        key: requirement.key.clone(),
        operator: operator(&requirement.operator)?,
        values: requirement.values.clone().unwrap_or_default(),
    })
}

fn node_term(term: &core::NodeSelectorTerm) -> Result<NodeTerm, Fault> {
    let fields = each(term.match_fields.iter().flatten(), |requirement| match requirement.key.as_str() {
        "metadata.name" => node_requirement(requirement),
        other => Err(unknown(other)).at("key"),
    });
    Ok(NodeTerm {
        labels: each(term.match_expressions.iter().flatten(), node_requirement).at("matchExpressions")?,
        fields: fields.at("matchFields")?,
    })
}

pub(crate) fn node_terms(selector: &core::NodeSelector) -> Result<Vec<NodeTerm>, Fault> {
    each(&selector.node_selector_terms, node_term).at("nodeSelectorTerms")
}

fn pod_term(term: &core::PodAffinityTerm) -> Result<PodTerm, Fault> {
    Ok(PodTerm {
        topology_key: term.topology_key.clone(),
        selector: optional_selector(term.label_selector.as_ref(), "labelSelector")?,
        namespaces: term.namespaces.clone().unwrap_or_default(),
        namespace_selector: optional_selector(term.namespace_selector.as_ref(), "namespaceSelector")?,
        match_label_keys: term.match_label_keys.clone().unwrap_or_default(),
        mismatch_label_keys: term.mismatch_label_keys.clone().unwrap_or_default(),
    })
}

fn weighted_pod_term(weighted: &core::WeightedPodAffinityTerm) -> Result<Weighted<PodTerm>, Fault> {
    Ok(Weighted {
        weight: weighted.weight,
        term: pod_term(&weighted.pod_affinity_term).at("podAffinityTerm")?,
    })
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(affinity: &core::NodeAffinity) -> Result<NodeAffinity, Fault> {
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
    let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    let weighted = |term: &core::PreferredSchedulingTerm| {
        Ok(Weighted { weight: term.weight, term: node_term(&term.preference).at("preference")? })
    };
    Ok(NodeAffinity {
        required: required.map(node_terms).transpose().at(REQUIRED)?,
        preferred: each(preferred, weighted).at(PREFERRED)?,
    })
}

pub(crate) fn affinity(affinity: &core::Affinity) -> Result<Affinity, Fault> {
    let node = affinity.node_affinity.as_ref().map(node_affinity).transpose().at("nodeAffinity")?;
    let mut pods = PodAffinity::default();
    if let Some(own) = &affinity.pod_affinity {
        let required = own.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = own.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        pods.required = each(required, pod_term).at(REQUIRED).at("podAffinity")?;
        pods.preferred = each(preferred, weighted_pod_term).at(PREFERRED).at("podAffinity")?;
    }
    let mut anti = PodAffinity::default();
    if let Some(own) = &affinity.pod_anti_affinity {
        let required = own.required_during_scheduling_ignored_during_execution.iter().flatten();
        let preferred = own.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        anti.required = each(required, pod_term).at(REQUIRED).at("podAntiAffinity")?;
        anti.preferred = each(preferred, weighted_pod_term).at(PREFERRED).at("podAntiAffinity")?;
    }
    Ok(Affinity { node: node.unwrap_or_default(), pods, anti })
}

fn policy(value: Option<&str>, otherwise: SpreadPolicy) -> Result<SpreadPolicy, Fault> {
    match value {
        None => Ok(otherwise),
        Some("Honor") => Ok(SpreadPolicy::Honor),
        Some("Ignore") => Ok(SpreadPolicy::Ignore),
        Some(other) => Err(unknown(other)),
    }
}

pub(crate) fn spread(constraint: &core::TopologySpreadConstraint) -> Result<Spread, Fault> {
    let hard = match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" => true,
        "ScheduleAnyway" => false,
        other => return Err(unknown(other)).at("whenUnsatisfiable"),
    };
    Ok(Spread {
        topology_key: constraint.topology_key.clone(),
        max_skew: constraint.max_skew,
        hard,
        selector: optional_selector(constraint.label_selector.as_ref(), "labelSelector")?,
        min_domains: constraint.min_domains,
        node_affinity: policy(constraint.node_affinity_policy.as_deref(), SpreadPolicy::Honor)
            .at("nodeAffinityPolicy")?,
        node_taints: policy(constraint.node_taints_policy.as_deref(), SpreadPolicy::Ignore)
            .at("nodeTaintsPolicy")?,
        match_label_keys: constraint.match_label_keys.clone().unwrap_or_default(),
    })
}

fn effect(name: &str) -> Result<Effect, Fault> {
    match name {
        "NoSchedule" => Ok(Effect::NoSchedule),
        "PreferNoSchedule" => Ok(Effect::PreferNoSchedule),
        "NoExecute" => Ok(Effect::NoExecute),
        other => Err(unknown(other)),
    }
    .at("effect")
}

pub fn taint(taint: &core::Taint) -> Result<Taint, Fault> {
    Ok(Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: effect(&taint.effect)?,
    })
}

pub(crate) fn toleration(toleration: &core::Toleration) -> Result<Toleration, Fault> {
    let operator = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        other => return Err(unknown(other)).at("operator"),
    };
    let wanted = toleration.effect.as_deref().filter(|effect| !effect.is_empty());
    Ok(Toleration {
        key: toleration.key.clone().unwrap_or_default(),
        operator,
        value: toleration.value.clone().unwrap_or_default(),
        effect: wanted.map(effect).transpose()?,
    })
}

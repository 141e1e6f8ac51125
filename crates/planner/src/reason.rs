//! Why: values first, words in one place.

use crate::model::{Effect, Price, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason")]
pub enum Reason {
    // A pod that is none of our business.
    NotSeenByScheduler,
    SchedulingGated,
    BeingDeleted,
    OtherScheduler { scheduler: String },
    Expendable { priority: i32, cutoff: i32 },
    Nominated { node: String },
    DaemonPod,
    MirrorPod,

    // A pod that no node can help.
    ResourceClaims { claims: Vec<String> },
    ClaimMissing { claim: String },
    ClaimUnbound { claim: String },
    ClaimWithoutClass { claim: String },
    ClaimNotProvisioned { claim: String },
    ClaimInUse { claim: String },
    VolumeMissing { claim: String, volume: String },

    // A group that does not grow.
    GroupPaused,
    ScaleUpDisabled,
    ScaleUpPause { until: Time },
    GroupFull { max: u32 },
    GroupLimit { resource: String, limit: i64 },
    ClusterLimit { resource: String, limit: i64 },
    NoOfferings,
    NoneAvailable,
    NotMixed { keeps_to: String },

    // A node that does not suit a pod.
    TaintNotTolerated { key: String, value: String, effect: Effect },
    SelectorMismatch { key: String, wanted: String, has: Option<String> },
    NodeAffinityMismatch { keys: Vec<String> },
    VolumeElsewhere { claim: String },
    NoVolumeLeft { claim: String },
    TooSmall { resource: String, needs: i64, has: i64 },
    PortTaken { port: u16 },
    AttachLimit { driver: String, limit: i64 },
    AntiAffinity { key: String, domain: String },
    Unwanted { key: String, domain: String },
    AffinityUnmet { key: String },
    TopologyKeyMissing { key: String },
    SpreadExceeded { key: String, domain: String, skew: i32, max_skew: i32 },

    // Where a pod goes.
    FitsOnNode { node: String },
    FitsOnMachine { machine: String },
    NewMachine { offering: String, price: Price },
    Dearer { offering: String },

    NextBest { machines: Vec<String>, price: Price },

    // A group's size.
    BelowMinimum { min: u32 },
    UsageAbove { cpu_percent: i64, memory_percent: i64, cpu_threshold: i64, memory_threshold: i64 },
    UsageHeating { since: Time, window: i64 },
    UsageBelow { cpu_percent: i64, memory_percent: i64 },
    NoMeasurements,
    NoReadyNodes,

    // A node that stays, or goes.
    NotInGroup,
    ScaleDownDisabled,
    NodeProtected { annotation: String },
    NotReady,
    Booting,
    Cordoned,
    Leaving,
    RequestsAbove { resource: String, percent: i64, threshold: i64 },
    NodeUsageAbove { resource: String, percent: i64, threshold: i64 },
    ScaleDownPause { until: Time },
    UnneededSince { since: Time, until: Time },
    AtMinimum { ready: u32, min: u32 },
    TriggerWouldFire { cpu_percent: i64, memory_percent: i64 },
    PendingPodsNeedIt { pod: String },
    BoughtAgain { pod: String },
    PodProtected { pod: String, annotation: String },
    WaitsForCompletion { pod: String },
    PodWithoutOwner { pod: String },
    TooFewReplicas { pod: String, replicas: u32, needed: u32 },
    SystemPodIsYoung { pod: String, until: Time },
    LocalStorage { pod: String, volume: String },
    Budget { pod: String, budget: String, allowed: i32, needed: i32 },
    SeveralBudgets { pod: String, budgets: Vec<String> },
    PodFitsNowhere { pod: String, because: Box<Explanation> },
    TakesPodsOf { node: String },
    Empty,
    PodsFitElsewhere { pods: u32 },

    // A consolidation.
    ConsolidationDisabled,
    ConsolidatedLately { until: Time },
    ConsolidationRegretted { until: Time },
    PriceUnknown,
    NotLookedAt,
    SavesTooLittle { saving: Price, needed: Price },
    NothingCheaper,
    Replaced { by: Vec<String>, saving: Price },
}

/// Whose reason it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "subject")]
pub enum Subject {
    Pod { name: String },
    Group { name: String },
    Offering { group: String, name: String },
    Node { name: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    #[serde(flatten)]
    pub subject: Subject,
    #[serde(flatten)]
    pub reason: Reason,
}

impl Explanation {
    pub fn group(name: &str, reason: Reason) -> Self {
        Self { subject: Subject::Group { name: name.to_owned() }, reason }
    }

    pub fn offering(group: &str, name: &str, reason: Reason) -> Self {
        Self { subject: Subject::Offering { group: group.to_owned(), name: name.to_owned() }, reason }
    }

    pub fn node(name: &str, reason: Reason) -> Self {
        Self { subject: Subject::Node { name: name.to_owned() }, reason }
    }

    pub fn pod(name: &str, reason: Reason) -> Self {
        Self { subject: Subject::Pod { name: name.to_owned() }, reason }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        match &self.subject {
            Subject::Pod { name } => write!(f, "pod {name}: {reason}"),
            Subject::Group { name } => write!(f, "group {name}: {reason}"),
            Subject::Offering { name, .. } => write!(f, "offering {name}: {reason}"),
            Subject::Node { name } if reason.keeps_node() => write!(f, "node {name} kept: {reason}"),
            Subject::Node { name } => write!(f, "node {name}: {reason}"),
        }
    }
}

impl Reason {
    /// It says why a node is not given back.
    fn keeps_node(&self) -> bool {
        use Reason as R;
        matches!(
            self,
            R::NotInGroup
                | R::ScaleDownDisabled
                | R::GroupPaused
                | R::NodeProtected { .. }
                | R::NotReady
                | R::Booting
                | R::Cordoned
                | R::Leaving
                | R::RequestsAbove { .. }
                | R::NodeUsageAbove { .. }
                | R::ScaleDownPause { .. }
                | R::UnneededSince { .. }
                | R::AtMinimum { .. }
                | R::NoMeasurements
                | R::TriggerWouldFire { .. }
                | R::PendingPodsNeedIt { .. }
                | R::BoughtAgain { .. }
                | R::PodProtected { .. }
                | R::WaitsForCompletion { .. }
                | R::PodWithoutOwner { .. }
                | R::TooFewReplicas { .. }
                | R::SystemPodIsYoung { .. }
                | R::LocalStorage { .. }
                | R::Budget { .. }
                | R::SeveralBudgets { .. }
                | R::PodFitsNowhere { .. }
                | R::TakesPodsOf { .. }
                | R::ConsolidationDisabled
                | R::ConsolidatedLately { .. }
                | R::ConsolidationRegretted { .. }
                | R::PriceUnknown
                | R::NotLookedAt
                | R::SavesTooLittle { .. }
                | R::NothingCheaper
        )
    }
}

/// An amount as people write it.
pub(crate) fn amount(resource: &str, value: i64) -> String {
    let decimal = |value: i64, unit: i64| {
        let tenths = (value * 10 + unit / 2) / unit;
        if tenths % 10 == 0 {
            (tenths / 10).to_string()
        } else {
            format!("{}.{}", tenths / 10, (tenths % 10).abs())
        }
    };
    match resource {
        "cpu" if value.abs() < 100 && value != 0 => format!("{value}m CPU"),
        "cpu" => format!("{} CPU", decimal(value, 1000)),
        "memory" | "ephemeral-storage" => {
            let name = if resource == "memory" { "memory" } else { "ephemeral storage" };
            let (unit, suffix) = match value.abs() {
                v if v >= 1 << 30 => (1 << 30, "GiB"),
                v if v >= 1 << 20 => (1 << 20, "MiB"),
                _ => return format!("{value} B {name}"),
            };
            format!("{} {suffix} {name}", decimal(value, unit))
        }
        other => format!("{value} {other}"),
    }
}

fn bare_amount(resource: &str, value: i64) -> String {
    let text = amount(resource, value);
    match resource {
        "cpu" => text.trim_end_matches(" CPU").to_owned(),
        "memory" => text.trim_end_matches(" memory").to_owned(),
        _ => value.to_string(),
    }
}

/// Per hour, to five places.
pub(crate) fn money(price: Price) -> String {
    let rounded = (price.abs() + 5_000) / 10_000;
    format!("{}{}.{:05}", if price < 0 { "-" } else { "" }, rounded / 100_000, rounded % 100_000)
}

fn taint(key: &str, value: &str) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}={value}") }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Reason as R;
        match self {
            R::NotSeenByScheduler => write!(f, "the scheduler has not looked at it yet"),
            R::SchedulingGated => write!(f, "has scheduling gates"),
            R::BeingDeleted => write!(f, "is being deleted"),
            R::OtherScheduler { scheduler } => write!(f, "belongs to scheduler {scheduler}"),
            R::Expendable { priority, cutoff } => write!(f, "priority {priority} is below {cutoff}"),
            R::Nominated { node } => write!(f, "will go to node {node}, where others make room"),
            R::DaemonPod => write!(f, "belongs to a daemon set"),
            R::MirrorPod => write!(f, "is a static pod"),
            R::ResourceClaims { claims } => {
                write!(f, "resource claims ({}) are not planned for", claims.join(", "))
            }
            R::ClaimMissing { claim } => write!(f, "claim {claim} does not exist"),
            R::ClaimUnbound { claim } => {
                write!(f, "claim {claim} is not bound, and its class does not wait for a pod")
            }
            R::ClaimWithoutClass { claim } => {
                write!(f, "claim {claim} is not bound and has no storage class")
            }
            R::ClaimNotProvisioned { claim } => {
                write!(f, "claim {claim} is not bound, and nobody provisions its class")
            }
            R::ClaimInUse { claim } => write!(f, "claim {claim} is for one pod only and in use"),
            R::VolumeMissing { claim, volume } => {
                write!(f, "volume {volume} of claim {claim} does not exist")
            }
            R::GroupPaused => write!(f, "is paused"),
            R::ScaleUpDisabled => write!(f, "scale-up is off"),
            R::ScaleUpPause { until } => write!(f, "grew a moment ago, rests until {until}"),
            R::GroupFull { max } => write!(f, "has its {max} nodes"),
            R::GroupLimit { resource, limit } => write!(f, "limit of {} reached", amount(resource, *limit)),
            R::ClusterLimit { resource, limit } => {
                write!(f, "limit of {} for all groups reached", amount(resource, *limit))
            }
            R::NoOfferings => write!(f, "has no offerings"),
            R::NoneAvailable => write!(f, "no offering is available"),
            R::NotMixed { keeps_to } => write!(f, "the group keeps to {keeps_to}"),
            R::TaintNotTolerated { key, value, effect } => {
                write!(f, "taint {} not tolerated", taint(key, value))?;
                if *effect == Effect::PreferNoSchedule { write!(f, " (preference)") } else { Ok(()) }
            }
            R::SelectorMismatch { key, wanted, has: Some(has) } => {
                write!(f, "label {key} is {has}, not {wanted}")
            }
            R::SelectorMismatch { key, wanted, has: None } => write!(f, "label {key}={wanted} is missing"),
            R::NodeAffinityMismatch { keys } => write!(f, "node affinity on {} not met", keys.join(", ")),
            R::VolumeElsewhere { claim } => write!(f, "the volume of claim {claim} is elsewhere"),
            R::NoVolumeLeft { claim } => {
                write!(f, "there is no volume for claim {claim} to be had from here")
            }
            R::TooSmall { resource, needs, has } => {
                write!(f, "needs {}, has {}", amount(resource, *needs), bare_amount(resource, *has))
            }
            R::PortTaken { port } => write!(f, "host port {port} is taken"),
            R::AttachLimit { driver, limit } => {
                write!(f, "no more than {limit} volumes of {driver} can be attached")
            }
            R::AntiAffinity { key, domain } => write!(f, "a pod it must avoid is in {key} {domain}"),
            R::Unwanted { key, domain } => write!(f, "a pod in {key} {domain} does not want it near"),
            R::AffinityUnmet { key } => write!(f, "no pod it must be with is in its {key}"),
            R::TopologyKeyMissing { key } => write!(f, "label {key} is missing"),
            R::SpreadExceeded { key, domain, skew, max_skew } => {
                write!(f, "spread over {key}: {domain} would be {skew} ahead, allowed is {max_skew}")
            }
            R::FitsOnNode { node } => write!(f, "fits on node {node}"),
            R::FitsOnMachine { machine } => write!(f, "fits on machine {machine}, which is coming"),
            R::NewMachine { offering, price } => {
                write!(f, "goes to a new {offering} ({} per hour)", money(*price))
            }
            R::Dearer { offering } => write!(f, "would fit on {offering}, another plan costs less"),
            R::NextBest { machines, price } if machines.is_empty() => {
                write!(f, "the next best plan buys nothing ({} per hour)", money(*price))
            }
            R::NextBest { machines, price } => {
                write!(f, "the next best plan is {} ({} per hour)", machines.join(", "), money(*price))
            }
            R::BelowMinimum { min } => write!(f, "has fewer than its {min} nodes"),
            R::UsageAbove { cpu_percent, memory_percent, cpu_threshold, memory_threshold } => write!(
                f,
                "usage is {cpu_percent} % CPU and {memory_percent} % memory, thresholds are {cpu_threshold} % and {memory_threshold} %"
            ),
            R::UsageHeating { since, window } => {
                write!(f, "usage is above a threshold since {since}, must be for {window} s")
            }
            R::UsageBelow { cpu_percent, memory_percent } => {
                write!(f, "usage is {cpu_percent} % CPU and {memory_percent} % memory, below the thresholds")
            }
            R::NoMeasurements => write!(f, "usage is not measured, so its thresholds rest"),
            R::NoReadyNodes => write!(f, "has no ready node"),
            R::NotInGroup => write!(f, "belongs to no group"),
            R::ScaleDownDisabled => write!(f, "scale-down is off for its group"),
            R::NodeProtected { annotation } => write!(f, "annotation {annotation}"),
            R::NotReady => write!(f, "is not ready"),
            R::Booting => write!(f, "is still starting"),
            R::Cordoned => write!(f, "is cordoned"),
            R::Leaving => write!(f, "is on its way out"),
            R::RequestsAbove { resource, percent, threshold } => {
                write!(f, "{percent} % of its {resource} is requested, threshold is {threshold} %")
            }
            R::NodeUsageAbove { resource, percent, threshold } => {
                write!(f, "{percent} % of its {resource} is used, threshold is {threshold} %")
            }
            R::ScaleDownPause { until } => {
                write!(f, "its group was scaled a moment ago, rests until {until}")
            }
            R::UnneededSince { since, until } => write!(f, "not needed since {since}, goes at {until}"),
            R::AtMinimum { ready, min } => write!(f, "its group has {ready} ready nodes and must keep {min}"),
            R::TriggerWouldFire { cpu_percent, memory_percent } => write!(
                f,
                "without it usage of its group would be {cpu_percent} % CPU and {memory_percent} % memory, and it would grow again"
            ),
            R::PendingPodsNeedIt { pod } => write!(f, "pod {pod} waits for room"),
            R::BoughtAgain { pod } => write!(f, "without it another would be bought for pod {pod}"),
            R::PodProtected { pod, annotation } => write!(f, "pod {pod} has annotation {annotation}"),
            R::WaitsForCompletion { pod } => write!(f, "pod {pod} is to run to its end"),
            R::PodWithoutOwner { pod } => write!(f, "pod {pod} has no controller that would make it anew"),
            R::TooFewReplicas { pod, replicas, needed } => {
                write!(f, "the controller of pod {pod} has {replicas} pods, {needed} are needed to spare one")
            }
            R::SystemPodIsYoung { pod, until } => {
                write!(f, "pod {pod} of the system has no budget and is left alone until {until}")
            }
            R::LocalStorage { pod, volume } => {
                write!(f, "pod {pod} keeps data on the node in volume {volume}")
            }
            R::Budget { pod, budget, allowed, needed } => {
                write!(f, "pod {pod} would break budget {budget} ({allowed} of {needed} allowed)")
            }
            R::SeveralBudgets { pod, budgets } => {
                write!(f, "pod {pod} has several budgets ({}) and cannot be evicted", budgets.join(", "))
            }
            R::PodFitsNowhere { pod, because } => write!(f, "pod {pod} fits nowhere else ({because})"),
            R::TakesPodsOf { node } => write!(f, "takes pods of {node}"),
            R::Empty => write!(f, "goes, it is empty"),
            R::PodsFitElsewhere { pods } => write!(f, "goes, its {pods} pods fit elsewhere"),
            R::ConsolidationDisabled => write!(f, "consolidation is off for its group"),
            R::ConsolidatedLately { until } => write!(f, "had its share of moves, rests until {until}"),
            R::ConsolidationRegretted { until } => {
                write!(f, "machines had to be bought after the last consolidation, no other before {until}")
            }
            R::PriceUnknown => write!(f, "its price is not known"),
            R::NotLookedAt => write!(f, "there was no time to look at it"),
            R::SavesTooLittle { saving, needed } => {
                write!(f, "could save {} per hour, {} is asked for", money(*saving), money(*needed))
            }
            R::NothingCheaper => write!(f, "nothing cheaper holds its pods"),
            R::Replaced { by, saving } => {
                write!(f, "goes, replaced by {}, saves {} per hour", by.join(", "), money(*saving))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_promised() {
        let taint = Reason::TaintNotTolerated {
            key: "dedicated".to_owned(),
            value: "gpu".to_owned(),
            effect: Effect::NoSchedule,
        };
        let small = Reason::TooSmall { resource: "cpu".to_owned(), needs: 6000, has: 3800 };
        let budget =
            Reason::Budget { pod: "db-0".to_owned(), budget: "db-pdb".to_owned(), allowed: 0, needed: 1 };
        let table = [
            (Explanation::group("gpu", taint), "group gpu: taint dedicated=gpu not tolerated"),
            (Explanation::offering("g", "small", small), "offering small: needs 6 CPU, has 3.8"),
            (
                Explanation::node("n7", budget),
                "node n7 kept: pod db-0 would break budget db-pdb (0 of 1 allowed)",
            ),
        ];
        for (explanation, words) in table {
            assert_eq!(explanation.to_string(), words);
            let text = serde_json::to_string(&explanation).unwrap();
            assert_eq!(serde_json::from_str::<Explanation>(&text).unwrap(), explanation);
        }
    }
}

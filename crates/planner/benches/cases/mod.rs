mod autoscaler;
mod consolidation;
mod karpenter;

use crate::Report;

type Case = fn() -> Vec<Report>;

pub const ALL: &[(&str, Case)] = &[
    // First, on a heap that nobody used: its bar is on memory too.
    ("autoscaler-binpacking", autoscaler::binpacking),
    ("karpenter-diverse", karpenter::diverse),
    ("karpenter-preferences", karpenter::preferences),
    ("autoscaler-up", autoscaler::up),
    ("autoscaler-down", autoscaler::down),
    ("scan", karpenter::scan),
    ("consolidation", consolidation::scan),
    ("large", autoscaler::large),
];

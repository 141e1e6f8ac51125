mod autoscaler;
mod karpenter;

use crate::Report;

type Case = fn() -> Vec<Report>;

pub const ALL: &[(&str, Case)] = &[
    ("karpenter-diverse", karpenter::diverse),
    ("karpenter-preferences", karpenter::preferences),
    ("autoscaler-binpacking", autoscaler::binpacking),
    ("autoscaler-up", autoscaler::up),
];

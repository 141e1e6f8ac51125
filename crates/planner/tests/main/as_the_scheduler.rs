//! What kube-scheduler does and nobody would guess. Each was found by asking its own filters.

use hostler_planner::model::*;
use hostler_planner::{Reason, objections};
use std::collections::BTreeMap;
use std::sync::Arc;

fn node(name: &str, labels: &[(&str, &str)]) -> Node {
    Node {
        name: name.to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        allocatable: Resources::new(4000, 4000).with_pods(10),
        ready: true,
        ..Node::default()
    }
}

fn pod(name: &str, node: Option<&str>, spec: PodSpec) -> Pod {
    Pod {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        node: node.map(str::to_owned),
        phase: if node.is_some() { Phase::Running } else { Phase::Pending },
        spec: Arc::new(spec),
        ..Pod::default()
    }
}

/// Of the first pod, by node.
fn objection(pods: Vec<Pod>, nodes: Vec<Node>) -> Vec<Option<Reason>> {
    objections(&Cluster { now: 1_000_000, pods, nodes, ..Cluster::default() }, 0)
}

#[test]
fn a_spread_without_requirements_counts_nobody_but_the_pod_itself() {
    let spread = |selector: Option<Selector>| PodSpec {
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        spread: vec![Spread { topology_key: keys::ZONE.to_owned(), selector, ..Spread::default() }],
        ..PodSpec::default()
    };
    let nodes = || vec![node("n1", &[(keys::ZONE, "a")]), node("n2", &[(keys::ZONE, "b")])];
    let ask = |selector: Option<Selector>| {
        let own = spread(selector);
        let pods = [("w", None), ("r1", Some("n1")), ("r2", Some("n1"))]
            .map(|(name, node)| pod(name, node, own.clone()));
        let verdicts = objection(pods.into(), nodes());
        verdicts.iter().map(Option::is_none).collect::<Vec<bool>>()
    };
    assert_eq!(ask(Some(Selector::label("app", "web"))), [false, true]);
    assert_eq!(ask(Some(Selector::default())), [true, true]);
    assert_eq!(ask(None), [true, true]);
    // Alone it counts as one, which is more than none is allowed to be.
    let mut own = spread(Some(Selector::default()));
    own.spread[0].max_skew = 0;
    assert!(objection(vec![pod("w", None, own)], nodes()).iter().all(Option::is_some));
}

#[test]
fn a_term_with_a_value_that_no_label_can_have_matches_nothing() {
    let table = [
        (Operator::Gt, &["2"][..], true),
        (Operator::Gt, &["-2"], false),
        (Operator::NotIn, &["a"], true),
        (Operator::NotIn, &["-a"], false),
        (Operator::NotIn, &[], false),
        (Operator::In, &["3", "-a"], false),
        (Operator::In, &["3", ""], true),
        (Operator::Exists, &["3"], false),
    ];
    for (operator, values, fits) in table {
        let term = NodeTerm { labels: vec![Requirement::new("rank", operator, values)], fields: Vec::new() };
        let mut spec = PodSpec::default();
        spec.affinity.node.required = Some(vec![term]);
        let verdicts = objection(vec![pod("w", None, spec)], vec![node("n1", &[("rank", "3")])]);
        assert_eq!(verdicts[0].is_none(), fits, "{operator:?} {values:?}");
    }
}

#[test]
fn who_runs_takes_what_it_will_attach_though_its_claim_is_not_bound() {
    let claim = |name: &str, class: &str, volume: Option<&str>| Claim {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        class: Some(class.to_owned()),
        volume: volume.map(str::to_owned),
        ..Claim::default()
    };
    let class = |name: &str, waits: bool| StorageClass {
        name: name.to_owned(),
        provisioner: "csi".to_owned(),
        wait_for_first_consumer: waits,
        ..StorageClass::default()
    };
    let with = |claim: &str| PodSpec {
        volumes: vec![Volume { name: "v".to_owned(), source: VolumeSource::Claim(claim.to_owned()) }],
        ..PodSpec::default()
    };
    for there in [claim("there", "at-once", None), claim("there", "at-once", Some("lost"))] {
        let mut nodes = vec![node("n1", &[]), node("n2", &[])];
        for node in &mut nodes {
            node.attach_limits.insert("csi".to_owned(), 1);
        }
        let cluster = Cluster {
            now: 1_000_000,
            pods: vec![pod("w", None, with("mine")), pod("r", Some("n1"), with("there"))],
            nodes,
            claims: vec![claim("mine", "waits", None), there],
            storage_classes: vec![class("waits", true), class("at-once", false)],
            ..Cluster::default()
        };
        let limit = Reason::AttachLimit { driver: "csi".to_owned(), limit: 1 };
        assert_eq!(objections(&cluster, 0), [Some(limit), None]);
    }
}

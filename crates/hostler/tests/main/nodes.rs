//! Nodes are cordoned, drained, tainted and deleted.

use crate::{
    kubectl::{Kubectl, columns, with_each_kubectl},
    playground::wait_for,
};

fn pods_on(kubectl: &Kubectl, node: &str) -> usize {
    let here = format!("--field-selector=spec.nodeName={node}");
    kubectl.run(&["get", "pods", "-l", "app=web", &here, "-o", "name"]).lines().count()
}

#[test]
fn nodes_are_shown() {
    with_each_kubectl(|kubectl| {
        kubectl.wait_for_nodes();
        let table = kubectl.run(&["get", "nodes", "-o", "wide"]);
        let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
        assert_eq!(lines[0][..6], ["NAME", "STATUS", "ROLES", "AGE", "VERSION", "INTERNAL-IP"]);
        let names: Vec<&str> = lines[1..].iter().map(|line| line[0]).collect();
        assert_eq!(names, ["node-1", "node-2", "node-3"]);
        assert!(lines[1..].iter().all(|line| line[1] == "Ready"), "{table}");
        let described = kubectl.run(&["describe", "node", "node-1"]);
        for part in ["KubeletReady", "Allocatable:", "Non-terminated Pods:", "Taints:             <none>"] {
            assert!(described.contains(part), "{part} is missing in {described}");
        }
    });
}

#[test]
fn a_drained_node_gives_its_pods_to_others() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        kubectl.run(&["create", "deployment", "web", "--image=x", "--replicas=6"]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert_eq!(kubectl.run(&["cordon", "node-1"]), "node/node-1 cordoned\n");
        let line = kubectl.run(&["get", "node", "node-1", "--no-headers"]);
        assert_eq!(columns(&line)[1], "Ready,SchedulingDisabled");
        let before = pods_on(kubectl, "node-1");
        assert!(before > 0);
        let said = kubectl.run(&["drain", "node-1", "--ignore-daemonsets", limit]);
        assert!(said.ends_with("node/node-1 drained\n"), "{said}");
        assert_eq!(said.lines().filter(|line| line.ends_with(" evicted")).count(), before, "{said}");
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert_eq!(pods_on(kubectl, "node-1"), 0);
        assert_eq!(kubectl.run(&["uncordon", "node-1"]), "node/node-1 uncordoned\n");
        let line = kubectl.run(&["get", "node", "node-1", "--no-headers"]);
        assert_eq!(columns(&line)[1], "Ready");
    });
}

#[test]
fn a_drain_respects_a_budget() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        kubectl.run(&["create", "deployment", "web", "--image=x", "--replicas=3"]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        kubectl.run(&["create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=3"]);
        let mut drain = kubectl.start(&["drain", "node-1", limit]);
        let refusal = "Cannot evict pod as it would violate the pod's disruption budget.";
        wait_for("the eviction is refused", || {
            let ended = drain.has_ended();
            assert!(ended.is_none(), "{ended:?}: {}{}", drain.stdout(), drain.stderr());
            drain.stderr().contains(refusal).then_some(())
        });
        assert_eq!(pods_on(kubectl, "node-1"), 1);

        kubectl.run(&["patch", "pdb", "web", "--type=merge", "-p", r#"{"spec":{"minAvailable":2}}"#]);
        assert!(drain.wait().success(), "{}", drain.stderr());
        assert_eq!(pods_on(kubectl, "node-1"), 0);
    });
}

#[test]
fn taints_keep_pods_away_or_drive_them_out() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        kubectl.run(&["taint", "node", "node-1", "only=gpu:NoSchedule"]);
        kubectl.run(&["create", "deployment", "web", "--image=x", "--replicas=6"]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert_eq!(pods_on(kubectl, "node-1"), 0);
        kubectl.run(&["taint", "node", "node-2", "broken=yes:NoExecute"]);
        wait_for("the pods leave node-2", || (pods_on(kubectl, "node-2") == 0).then_some(()));
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert_eq!(pods_on(kubectl, "node-3"), 6);
        assert_eq!(kubectl.run(&["taint", "node", "node-1", "only-"]), "node/node-1 untainted\n");
        assert_eq!(kubectl.run(&["get", "node", "node-1", "-o", "jsonpath={.spec.taints}"]), "");
    });
}

#[test]
fn the_pods_of_a_deleted_node_move() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        kubectl.run(&["create", "deployment", "web", "--image=x", "--replicas=6"]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert!(pods_on(kubectl, "node-3") > 0);
        kubectl.run(&["delete", "node", "node-3"]);
        assert_eq!(kubectl.run(&["get", "nodes", "-o", "name"]), "node/node-1\nnode/node-2\n");
        wait_for("the pods move", || (pods_on(kubectl, "node-3") == 0).then_some(()));
        kubectl.run(&["wait", "deployment/web", "--for=jsonpath={.status.availableReplicas}=6", limit]);
    });
}

//! Deployments run, grow, roll and go; Machines become nodes.

use crate::{
    kubectl::{columns, samples, with_each_kubectl},
    playground::wait_for,
};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn a_deployment_runs_grows_rolls_and_goes() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        let said = kubectl.run(&["create", "deployment", "web", "--image=x", "--replicas=20"]);
        assert_eq!(said, "deployment.apps/web created\n");
        let said = kubectl.run(&["rollout", "status", "deployment/web", limit]);
        assert!(said.ends_with("deployment \"web\" successfully rolled out\n"), "{said}");
        let pods = kubectl.run(&["get", "pods", "-o", "wide", "--no-headers", "-l", "app=web"]);
        let pods: Vec<Vec<&str>> = pods.lines().map(columns).collect();
        assert_eq!(pods.len(), 20);
        assert!(pods.iter().all(|pod| pod[1..3] == ["1/1", "Running"]), "{pods:?}");
        let nodes: BTreeSet<&str> = pods.iter().map(|pod| pod[6]).collect();
        assert_eq!(nodes.len(), 3, "{nodes:?}");
        let addresses: BTreeSet<&str> = pods.iter().map(|pod| pod[5]).collect();
        assert_eq!(addresses.len(), 20, "{addresses:?}");

        let line = kubectl.run(&["get", "deployment", "web", "--no-headers"]);
        assert_eq!(columns(&line)[..4], ["web", "20/20", "20", "20"]);
        assert_eq!(kubectl.run(&["scale", "deployment/web", "--replicas=3"]), "deployment.apps/web scaled\n");
        kubectl.run(&["wait", "deployment/web", "--for=jsonpath={.status.replicas}=3", limit]);
        wait_for("three pods are left", || {
            (kubectl.run(&["get", "pods", "-l", "app=web", "-o", "name"]).lines().count() == 3).then_some(())
        });

        kubectl.run(&["set", "image", "deployment/web", "x=y"]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        let images = kubectl.run(&[
            "get",
            "pods",
            "-l",
            "app=web",
            "-o",
            "jsonpath={.items[*].spec.containers[0].image}",
        ]);
        assert!(images.split(' ').filter(|image| *image == "y").count() == 3, "{images}");
        let sets = kubectl.run(&["get", "replicasets", "-l", "app=web", "-o", "name"]);
        assert_eq!(sets.lines().count(), 2, "{sets}");
        let described = kubectl.run(&["describe", "deployment", "web"]);
        assert!(described.contains("ScalingReplicaSet") && described.contains("3 desired"), "{described}");
        kubectl.run(&["rollout", "undo", "deployment/web"]);
        kubectl.run(&[
            "wait",
            "deployment/web",
            "--for=jsonpath={.spec.template.spec.containers[0].image}=x",
            limit,
        ]);
        kubectl.run(&["rollout", "status", "deployment/web", limit]);

        kubectl.run(&["delete", "deployment", "web"]);
        kubectl.wait_until_none(&["pods,replicasets", "-l", "app=web"]);
    });
}

#[test]
fn the_samples_become_a_node_and_go_in_one_go() {
    with_each_kubectl(|kubectl| {
        let (samples, limit) = (samples(), &crate::kubectl::limit());
        let samples = samples.to_str().unwrap();
        let said = kubectl.run(&["apply", "-f", samples]);
        for object in [
            "secret/stackit",
            "machineclass.machine.sapcloud.io/full",
            "machineclass.machine.sapcloud.io/small",
            "machine.machine.sapcloud.io/machine-1",
            "machineset.machine.sapcloud.io/set",
            "machinedeployment.machine.sapcloud.io/pool",
        ] {
            assert!(said.contains(&format!("{object} created\n")), "{said}");
        }
        let running = "--for=jsonpath={.status.currentStatus.phase}=Running";
        kubectl.run(&["wait", "machine/machine-1", running, limit]);
        let table = kubectl.run(&["get", "machines"]);
        let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
        assert_eq!(lines[0][..2], ["NAME", "STATUS"]);
        let running = lines.iter().filter(|line| line[..2] == ["machine-1", "Running"]);
        assert_eq!(running.count(), 1, "{table}");
        let node = kubectl.run(&["get", "mc", "machine-1", "-o", "jsonpath={.metadata.labels.node}"]);
        assert_eq!(node, "machine-1");
        kubectl.run(&["wait", "node/machine-1", "--for=condition=Ready", limit]);
        let id = kubectl.run(&["get", "node", "machine-1", "-o", "jsonpath={.spec.providerID}"]);
        assert!(id.starts_with("stackit://"), "{id}");
        let described = kubectl.run(&["describe", "machine", "machine-1"]);
        assert!(described.contains("Provider ID:  stackit://"), "{described}");

        kubectl.run(&["wait", "machineset/set", "--for=jsonpath={.status.readyReplicas}=2", limit]);
        let available = |count: u32| format!("--for=jsonpath={{.status.availableReplicas}}={count}");
        kubectl.run(&["wait", "machinedeployment/pool", &available(3), limit]);
        kubectl.run(&["scale", "machinedeployment", "pool", "--replicas=4"]);
        kubectl.run(&["wait", "mcd/pool", &available(4), limit]);
        let table = kubectl.run(&["get", "machinedeployments"]);
        let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
        assert_eq!(lines[0][..5], ["NAME", "READY", "DESIRED", "UP-TO-DATE", "AVAILABLE"]);
        assert_eq!(lines[1][..5], ["pool", "4", "4", "4", "4"]);
        kubectl.run(&["scale", "mcd/pool", "--replicas=2"]);
        kubectl.run(&["wait", "mcd/pool", "--for=jsonpath={.status.replicas}=2", limit]);

        // Another annotation in the template: the machines are exchanged.
        let rolled = r#"{"spec":{"template":{"metadata":{"annotations":{"rolled":"yes"}}}}}"#;
        kubectl.run(&["patch", "mcd/pool", "--type=merge", "-p", rolled]);
        wait_for("all machines are of the new template", || {
            let all = "jsonpath={range .items[*]}{.metadata.annotations.rolled},{end}";
            let marks = kubectl.run(&["get", "machines", "-l", "pool=pool", "-o", all]);
            (marks == "yes,yes,").then_some(())
        });
        kubectl.run(&["wait", "mcd/pool", "--for=jsonpath={.status.updatedReplicas}=2", limit]);
        kubectl.run(&["wait", "mcd/pool", &available(2), limit]);
        let there = kubectl.playground.cloud();
        assert_eq!(there["servers"].as_array().map(Vec::len), Some(5), "{there}");

        // All at once: what a Machine needs in order to go stays until it is gone.
        let said = kubectl.run(&["delete", "-f", samples, limit]);
        assert_eq!(said.lines().filter(|line| line.contains(" deleted")).count(), 6, "{said}");
        kubectl.wait_until_none(&["machines,machinesets,machinedeployments,machineclasses,secrets"]);
        assert!(kubectl.refused(&["get", "node", "machine-1"]).contains("NotFound"));
        assert_eq!(kubectl.run(&["get", "nodes", "-o", "name"]).lines().count(), 3);
        let secrets = kubectl.run(&["get", "secrets", "-n", "kube-system", "-o", "name"]);
        assert!(!secrets.contains("bootstrap-token-"), "{secrets}");
        let nothing = json!({"servers": [], "volumes": [], "nics": []});
        assert_eq!(kubectl.playground.cloud(), nothing);
    });
}

#[test]
fn pods_that_fit_nowhere_get_a_new_machine() {
    with_each_kubectl(|kubectl| {
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        for node in ["node-1", "node-2", "node-3"] {
            kubectl.run(&["cordon", node]);
        }
        kubectl.run(&["create", "deployment", "web", "--image=x"]);
        let reason = "{.items[0].status.conditions[?(@.type==\"PodScheduled\")].message}";
        let message = wait_for("the pod cannot be scheduled", || {
            let message = kubectl.run(&["get", "pods", "-l", "app=web", "-o", &format!("jsonpath={reason}")]);
            (!message.is_empty()).then_some(message)
        });
        assert!(message.starts_with("0/3 nodes are available: 3 node(s) were unschedulable"), "{message}");
        for sample in ["secret.yaml", "machine-class.yaml", "machine.yaml"] {
            kubectl.run(&["apply", "-f", samples().join(sample).to_str().unwrap()]);
        }
        kubectl.run(&["rollout", "status", "deployment/web", limit]);
        let node = kubectl.run(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}"]);
        assert_eq!(node, "machine-1");
    });
}

#[test]
fn a_running_pod_has_no_runtime_to_reach_and_says_so() {
    with_each_kubectl(|kubectl| {
        if kubectl.is_beside() {
            // A real API server looks for the kubelet itself.
            return;
        }
        let limit = &crate::kubectl::limit();
        kubectl.wait_for_nodes();
        kubectl.run(&["run", "web", "--image=x", "--restart=Never"]);
        kubectl.run(&["wait", "--for=condition=Ready", "pod/web", limit]);
        let why = |what: &str| {
            format!(
                "{what} of pod \"web\" is not possible: the nodes of this cluster are simulated and have no container runtime"
            )
        };
        for (what, arguments) in [
            ("log", &["logs", "web"][..]),
            ("exec", &["exec", "web", "--", "ls"]),
            ("portforward", &["port-forward", "pod/web", ":80"]),
        ] {
            let said = kubectl.refused(arguments);
            assert!(said.contains(&why(what)), "{said}");
        }
    });
}

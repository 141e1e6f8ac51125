//! `hostler plan` on what kubectl printed.

use crate::{
    kubectl::with_each_kubectl,
    playground::{Directory, hostler, wait_for},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

/// What the help says to ask kubectl for.
const WANTED: &str = "nodes,pods,daemonsets,pdb,pv,pvc,storageclasses,csinodes,priorityclasses,namespaces";

/// When the nodes of the dump have been there for more than an hour.
const LATER: &str = "2026-11-18T22:00:00Z";

fn file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/plan").join(name);
    path.to_str().unwrap().to_owned()
}

fn plan(arguments: &[&str], input: &str) -> Output {
    let mut child = hostler(&["plan"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Who refuses early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn planned(arguments: &[&str], input: &str) -> (String, String) {
    let output = plan(arguments, input);
    assert!(output.status.success(), "{output:?}");
    (text(&output.stdout), text(&output.stderr))
}

fn refused(arguments: &[&str], input: &str) -> String {
    let output = plan(arguments, input);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().strip_prefix("hostler: ").unwrap().to_owned()
}

/// The blocks of a page that are of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let start = format!("```{language}\n");
    let starts = page.split(&start).skip(1);
    starts.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_example_of_the_page_is_what_comes_out() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md");
    let page = fs::read_to_string(page).unwrap();
    let dump = file("dump.yaml");
    for (at, (groups, now)) in [("groups.yaml", None), ("cheaper.yaml", Some(LATER))].into_iter().enumerate()
    {
        let groups = file(groups);
        let mut arguments = vec![dump.as_str(), "--groups", &groups];
        arguments.extend(now.into_iter().flat_map(|now| ["--now", now]));
        let (out, _) = planned(&arguments, "");
        let told = blocks(&page, "text");
        assert_eq!(told.get(at), Some(&out), "the output in docs/plan.md is another one:\n{out}");
        let groups = fs::read_to_string(groups).unwrap();
        assert_eq!(blocks(&page, "yaml").get(at), Some(&groups), "the groups in docs/plan.md are others");
    }
    let command = format!("kubectl get {WANTED} -A -o yaml");
    assert!(page.contains(&command));
    let (help, _) = planned(&["--help"], "");
    assert!(help.contains(&command), "{help}");
}

#[test]
fn programs_get_names_and_reasons() {
    let groups = file("groups.yaml");
    let arguments = ["-", "--groups", &groups, "--output", "json"];
    let (out, warnings) = planned(&arguments, &fs::read_to_string(file("dump.yaml")).unwrap());
    let plan: Value = serde_json::from_str(&out).unwrap();
    let large = json!({ "group": "workers", "offering": "large", "zone": null, "price": 93_835_616 });
    assert_eq!(plan["scale_up"]["machines"], json!([large, large]));
    assert_eq!(plan["scale_up"]["price"], 2 * 93_835_616);
    assert_eq!(plan["scale_up"]["bindings"][0]["to"], json!({ "machine": 0 }));
    assert!(plan["scale_up"]["bindings"][0]["pod"].as_str().unwrap().starts_with("default/search-"));
    let training = plan["scale_up"]["pods"].as_array().unwrap().last().unwrap();
    assert_eq!(training["placed"], 0);
    let reason = json!({ "subject": "Group", "name": "gpu", "reason": "TaintNotTolerated", "key": "dedicated",
                         "value": "gpu", "effect": "NoSchedule", "text": "group gpu: taint dedicated=gpu not tolerated" });
    assert!(training["reasons"].as_array().unwrap().contains(&reason), "{training}");
    assert_eq!(plan["scale_down"]["removed"], json!(["node-3"]));
    assert_eq!(plan["scale_down"]["moves"].as_array().unwrap().len(), 3);
    let nodes = plan["scale_down"]["nodes"].as_array().unwrap();
    let fates: Vec<&str> = nodes.iter().map(|node| node["fate"].as_str().unwrap()).collect();
    assert_eq!(fates, ["stays", "stays", "goes"]);
    assert_eq!(plan["warnings"].as_array().unwrap().len(), warnings.lines().count());
}

#[test]
fn the_next_best_plan_is_told() {
    let directory = Directory::new();
    let groups = fs::read_to_string(file("groups.yaml")).unwrap();
    let (out, _) = planned(&[&file("dump.yaml"), "--groups", &file("groups.yaml"), "--output", "json"], "");
    let plan: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(plan["scale_up"]["runner_up"], Value::Null, "nothing else is large enough");
    let groups = groups
        .replace("groups:", "- name: huge\n  cpu: 16\n  memory: 64Gi\n  monthly: 200.00\ngroups:")
        .replace("[small, large]", "[small, large, huge]");
    let groups = written(&directory, "groups", &groups);
    let (out, _) = planned(&[&file("dump.yaml"), "--groups", &groups, "--output", "json"], "");
    let plan: Value = serde_json::from_str(&out).unwrap();
    let told = json!({ "reason": "NextBest", "machines": ["1 huge of workers"], "price": 273_972_603,
                       "text": "the next best plan is 1 huge of workers (0.27397 per hour)" });
    assert_eq!(plan["scale_up"]["runner_up"], told);
    let (out, _) = planned(&[&file("dump.yaml"), "--groups", &groups], "");
    assert!(out.contains("\n  the next best plan is 1 huge of workers (0.27397 per hour)\n"), "{out}");
}

/// The plan for programs, with other groups than those of the file.
fn cheaper(change: impl Fn(String) -> String) -> Value {
    let directory = Directory::new();
    let groups = change(fs::read_to_string(file("cheaper.yaml")).unwrap());
    let groups = written(&directory, "groups", &groups);
    let (out, _) =
        planned(&[&file("dump.yaml"), "--groups", &groups, "--now", LATER, "--output", "json"], "");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn nodes_are_replaced_by_cheaper_ones() {
    let plan = cheaper(|groups| groups);
    let found = &plan["consolidation"];
    let slim = json!({ "group": "workers", "offering": "slim", "zone": null, "price": 32_876_712 });
    assert_eq!(found["machines"], json!([slim]));
    assert_eq!(found["saved"], 49_315_068 - 32_876_712);
    // Two nodes of three stay after the scale-down, and two machines come for pods that wait.
    assert_eq!(found["price_before"], 2 * 49_315_068 + 2 * 93_835_616);
    assert_eq!(found["price_after"], 49_315_068 + 32_876_712 + 2 * 93_835_616);
    let steps = found["steps"].as_array().unwrap();
    let [step] = steps.as_slice() else { panic!("{steps:?}") };
    assert_eq!(step["removed"], json!(["node-2"]));
    assert_eq!(step["machines"], json!([0]));
    assert_eq!((&step["price_before"], &step["price_after"]), (&json!(49_315_068), &json!(32_876_712)));
    assert_eq!(step["saved"], found["saved"]);
    assert_eq!(step["moves"], json!([{ "pod": "default/batch-65d9cb75b9-47j4r", "to": { "machine": 0 } }]));
    let nodes = found["nodes"].as_array().unwrap();
    let fates: Vec<[&str; 3]> = nodes
        .iter()
        .map(|node| [&node["node"], &node["fate"], &node["why"]["reason"]].map(|v| v.as_str().unwrap()))
        .collect();
    assert_eq!(fates, [["node-1", "stays", "PendingPodsNeedIt"], ["node-2", "goes", "Replaced"]]);
}

#[test]
fn what_must_be_saved_is_a_matter_of_the_group() {
    let change = |from: &'static str, to: &'static str| {
        let found = cheaper(|groups| {
            assert!(groups.contains(from));
            groups.replace(from, to)
        });
        let why = &found["consolidation"]["nodes"][1]["why"];
        why["reason"].as_str().unwrap().to_owned()
    };
    let percent = "minimumSavingPercent: 15";
    let each = "monthlySavingPerPod: 1.00";
    let policy = "    enabled: true\n";
    for (from, to, reason) in [
        (percent, "minimumSavingPercent: 33", "Replaced"),
        (percent, "minimumSavingPercent: 34", "SavesTooLittle"),
        (each, "monthlySavingPerPod: 12.00", "Replaced"),
        (each, "monthlySavingPerPod: 12.01", "SavesTooLittle"),
        (each, "hourlySavingPerPod: 0.01643", "Replaced"),
        (each, "hourlySavingPerPod: 0.01645", "SavesTooLittle"),
        (policy, "    enabled: false\n", "ConsolidationDisabled"),
        (policy, "", "ConsolidationDisabled"),
        (
            "  consolidationPolicy:",
            "  scaleDownPolicy: { enabled: false }\n  consolidationPolicy:",
            "ScaleDownDisabled",
        ),
        ("    minimumSavingPercent: 15\n", "", "Replaced"),
        ("monthly: 24.00", "monthly: 30.59", "Replaced"),
        ("monthly: 24.00", "monthly: 30.61", "SavesTooLittle"),
    ] {
        assert_eq!(change(from, to), reason, "{to}");
    }
    let usual = cheaper(|groups| {
        let groups = groups.replace("    minimumSavingPercent: 15\n", "");
        groups.replace("monthly: 24.00", "monthly: 30.61")
    });
    assert_eq!(usual["consolidation"]["nodes"][1]["why"]["reason"], "SavesTooLittle");
}

#[test]
fn kinds_that_are_missing_are_told() {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "creationTimestamp": "2026-11-01T00:00:00Z" } },
        { "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" } },
    ] });
    let (out, warnings) = planned(&["-"], &list.to_string());
    assert!(out.starts_with("2026-11-01T00:00:00Z: 1 node, 0 pods, 0 groups\n"), "{out}");
    for resource in WANTED.split(',').filter(|resource| *resource != "nodes") {
        let told = format!("hostler: there are no {resource} in the files: ");
        assert!(warnings.lines().any(|line| line.starts_with(&told)), "{resource}: {warnings}");
    }
    assert!(!warnings.contains("no nodes "), "{warnings}");
    assert!(warnings.contains("Service is not looked at (1 of them)"), "{warnings}");
    assert!(warnings.contains("there are no groups"), "{warnings}");
}

#[test]
fn time_is_that_of_the_files_unless_told() {
    let groups = file("groups.yaml");
    let dump = file("dump.yaml");
    let (out, _) = planned(&[&dump, "--groups", &groups, "--now", "2027-01-01T00:00:00Z"], "");
    assert!(out.starts_with("2027-01-01T00:00:00Z: "), "{out}");
    let (out, _) = planned(&[&dump, "--groups", &groups, "--first-look"], "");
    let row = out.lines().find(|line| line.trim_start().starts_with("node-3")).unwrap();
    assert!(row.contains("could go"), "{row}");
    assert!(out.contains("Scale-down: nothing to give back"), "{out}");
    let nothing = r#"{ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } }"#;
    assert!(refused(&["-"], nothing).contains("--now"));
}

fn written(directory: &Directory, name: &str, text: &str) -> String {
    let path: PathBuf = directory.file(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_is_wrong_is_named() {
    let directory = Directory::new();
    let dump = file("dump.yaml");
    let object = |text: &str| written(&directory, "object", text);
    let table = [
        ("kind: [", "is neither YAML nor JSON"),
        ("{ \"a\": ", "is neither YAML nor JSON"),
        ("items: []", "a document without a name: has no kind"),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {memory: lots}}}",
            "Node n: status.allocatable.memory: \"lots\" is no quantity",
        ),
    ];
    for (text, expected) in table {
        let said = refused(&[&object(text), "--now", "2026-11-18T00:00:00Z"], "");
        assert!(said.contains(expected), "{text}: {said}");
    }
    let offering = "name: small, cpu: 2, memory: 4Gi";
    let group = "name: g, maxNodes: 3, offeringIDs: [small]";
    let table = [
        (
            format!("{{offerings: [{{{offering}}}]}}"),
            "offering small: has neither a monthly nor an hourly price",
        ),
        (
            format!("{{offerings: [{{{offering}, monthly: 1, hourly: 1}}]}}"),
            "offering small: has a monthly and an hourly price",
        ),
        (
            "{offerings: [{name: x, cpu: two, memory: 1, monthly: 1}]}".to_owned(),
            "offering x: cpu: \"two\" is no quantity",
        ),
        (
            "{offerings: [{name: x, cpu: 1, memory: 1, monthly: -1}]}".to_owned(),
            "offering x: price: \"-1\" is negative",
        ),
        ("{offerings: [{name: x, cpu: 1, memory: 1, colour: red}]}".to_owned(), "unknown field `colour`"),
        (format!("{{groups: [{{{group}}}]}}"), "group g: offering small is not known, there are: none"),
        (
            format!("{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}, minNodes: 4}}]}}"),
            "group g: minNodes 4 exceeds maxNodes 3",
        ),
        (
            format!(
                "{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}, preferredInstanceType: big}}]}}"
            ),
            "group g: preferredInstanceType big is none of its offeringIDs",
        ),
        (
            format!("{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}}}, {{{group}}}]}}"),
            "group g is there twice",
        ),
        (
            format!("{{offerings: [{{{offering}, monthly: 1}}, {{{offering}, monthly: 1}}]}}"),
            "offering small is there twice",
        ),
        (
            format!(
                "{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}, taints: [{{key: a, effect: No}}]}}]}}"
            ),
            "group g: taints: effect: \"No\" is not known",
        ),
        (
            format!(
                "{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}, consolidationPolicy: {{minimumSavingPercent: 101}}}}]}}"
            ),
            "group g: consolidationPolicy: minimumSavingPercent 101 is not between 0 and 100",
        ),
        (
            format!(
                "{{offerings: [{{{offering}, monthly: 1}}], groups: [{{{group}, consolidationPolicy: {{monthlySavingPerPod: 1, hourlySavingPerPod: 1}}}}]}}"
            ),
            "group g: consolidationPolicy: has a monthly and an hourly price",
        ),
        ("{kind: NodeGroup, metadata: {name: g}}".to_owned(), "NodeGroup g: spec is missing"),
        ("{kind: Pod, metadata: {name: g}}".to_owned(), "a Pod is no group"),
    ];
    for (text, expected) in table {
        let groups = written(&directory, "groups", &text);
        let said = refused(&[&dump, "--groups", &groups], "");
        assert!(said.contains(expected), "{text}: {said}");
    }
    assert!(refused(&["/nowhere/dump.yaml"], "").contains("/nowhere/dump.yaml cannot be read"));
}

#[test]
fn node_groups_are_groups() {
    let directory = Directory::new();
    let manifest = |annotations: Value, status: Value| {
        json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
            "metadata": { "name": "workers", "namespace": "kube-system", "annotations": annotations },
            "spec": { "minNodes": 3, "maxNodes": 9, "datacenterID": "dc", "offeringIDs": ["small", "large"],
                      "osImageID": "os", "allowMixedInstances": true, "tags": ["x"],
                      "scaleDownPolicy": { "enabled": true, "cpuThreshold": 90, "memoryThreshold": 90 } },
            "status": status,
        })
    };
    let offerings = "{offerings: [{name: small, cpu: 4, memory: 16Gi, monthly: 36.00}, {name: large, cpu: 8, memory: 32Gi, monthly: 68.5}]}";
    let offerings = written(&directory, "offerings", offerings);
    // The nodes say by a label that they are of the group.
    let dump = fs::read_to_string(file("dump.yaml")).unwrap();
    let dump = dump.replace("pool: workers", "autoscaler.vpsie.com/nodegroup: workers");
    let row = |annotations: Value, status: Value| {
        let group = written(&directory, "group", &manifest(annotations, status).to_string());
        let (out, _) = planned(&["-", &group, "--groups", &offerings], &dump);
        let row = out.lines().find(|line| line.trim_start().starts_with("node-3")).unwrap().to_owned();
        (out, row)
    };
    let (out, node) = row(json!({}), json!({}));
    assert!(out.contains("2      large     workers"), "{out}");
    assert!(node.contains("its group has 3 ready nodes and must keep 3"), "{node}");
    let (_, node) = row(json!({ "autoscaler.vpsie.com/min-nodes-override": "1" }), json!({}));
    assert!(node.contains(" goes "), "{node}");
    let (out, node) = row(json!({ "autoscaler.vpsie.com/pause": "true" }), json!({}));
    assert!(out.contains("Scale-up: nothing to buy") && node.contains("is paused"), "{out}");
    let scaled = json!({ "lastScaleTime": "2026-11-18T20:40:00Z" });
    let (_, node) = row(json!({ "autoscaler.vpsie.com/min-nodes-override": "1" }), scaled);
    assert!(node.contains("its group was scaled a moment ago"), "{node}");
    let (out, _) = row(json!({ "autoscaler.vpsie.com/max-nodes-override": "3" }), json!({}));
    assert!(out.contains("Scale-up: nothing to buy") && out.contains("has its 3 nodes"), "{out}");
}

/// Some NodeGroups say how long to wait after a scale-down, and when the last one was.
#[test]
fn a_cooldown_of_a_node_group_is_waited_for() {
    let directory = Directory::new();
    let offerings = "{offerings: [{name: small, cpu: 4, memory: 16Gi, monthly: 36.00}]}";
    let offerings = written(&directory, "offerings", offerings);
    let dump = fs::read_to_string(file("dump.yaml")).unwrap();
    let dump = dump.replace("pool: workers", "autoscaler.vpsie.com/nodegroup: workers");
    let row = |cooldown: Value, status: Value| {
        let manifest = json!({
            "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "NodeGroup",
            "metadata": { "name": "workers" },
            "spec": { "maxNodes": 9, "offeringIDs": ["small"],
                      "scaleDownPolicy": { "cooldownSeconds": cooldown, "stabilizationWindowSeconds": 60 } },
            "status": status,
        });
        let group = written(&directory, "group", &manifest.to_string());
        let (out, _) =
            planned(&["-", &group, "--groups", &offerings, "--now", "2026-11-18T21:00:00Z"], &dump);
        out.lines().find(|line| line.trim_start().starts_with("node-3")).unwrap().to_owned()
    };
    let down =
        json!({ "lastScaleTime": "2026-11-18T20:55:00Z", "lastScaleDownTime": "2026-11-18T20:55:00Z" });
    for (cooldown, status, stays) in [
        (Value::Null, down.clone(), false),
        (json!(300), down.clone(), false),
        (json!(301), down, true),
        (json!(301), json!({ "lastScaleTime": "2026-11-18T20:55:00Z" }), true),
        // It was a scale-up.
        (
            json!(301),
            json!({ "lastScaleTime": "2026-11-18T20:55:00Z", "lastScaleDownTime": "2026-11-18T20:00:00Z" }),
            false,
        ),
    ] {
        let row = row(cooldown.clone(), status);
        assert_eq!(row.contains("its group was scaled a moment ago"), stays, "{cooldown}: {row}");
        assert_eq!(row.contains(" goes "), !stays, "{cooldown}: {row}");
    }
}

#[test]
fn kubectl_prints_what_is_read() {
    with_each_kubectl(|kubectl| {
        kubectl.wait_for_nodes();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "large", "namespace": "default" },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "7" } } }] },
        });
        let manifest = kubectl.manifest("pod.json", &pod.to_string());
        kubectl.run(&["apply", "-f", &manifest]);
        wait_for("the scheduler refuses it", || {
            let reason = "jsonpath={.status.conditions[?(@.type==\"PodScheduled\")].reason}";
            let said = kubectl.run(&["get", "pod", "large", "-o", reason]);
            (said == "Unschedulable").then_some(())
        });
        for format in ["yaml", "json"] {
            let dump = kubectl.run(&["get", WANTED, "-A", "-o", format]);
            let (out, warnings) = planned(&["-", "--groups", &file("groups.yaml")], &dump);
            assert!(out.contains(": 3 nodes, "), "{out}");
            assert!(out.contains("1      large     workers"), "{out}");
            assert!(out.contains("  default/large: placed\n"), "{out}");
            assert!(!warnings.contains("is not looked at"), "{warnings}");
        }
    });
}

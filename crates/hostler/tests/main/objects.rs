//! Objects come, are looked at, changed and go.

use crate::{
    kubectl::{columns, with_each_kubectl},
    playground::wait_for,
};
use std::path::Path;

#[test]
fn what_can_be_had_is_told() {
    with_each_kubectl(|kubectl| {
        // A real server tells of new definitions a little after it takes them.
        let resources = wait_for("machines are told of", || {
            Some(kubectl.run(&["api-resources"])).filter(|told| told.contains("machine.sapcloud.io/v1alpha1"))
        });
        let line = |name: &str| {
            let line = resources.lines().find(|line| columns(line).first() == Some(&name));
            columns(line.unwrap_or_else(|| panic!("{name} is not there"))).join(" ")
        };
        assert_eq!(line("deployments"), "deployments deploy apps/v1 true Deployment");
        assert_eq!(line("nodes"), "nodes no v1 false Node");
        assert_eq!(line("machines"), "machines mc machine.sapcloud.io/v1alpha1 true Machine");

        let explained = kubectl.run(&["explain", "deployment.spec.replicas"]);
        assert!(explained.contains("replicas <integer>"), "{explained}");
        wait_for("machines are explained", || {
            let said = kubectl.try_to(&["explain", "machine.spec.class"]);
            (said.success && said.stdout.contains("GROUP:      machine.sapcloud.io")).then_some(())
        });

        assert_eq!(kubectl.run(&["auth", "can-i", "delete", "nodes"]).trim(), "yes");
        let other = ["auth", "can-i", "delete", "nodes", "--as=somebody"];
        assert_eq!(kubectl.try_to(&other).stdout.trim(), "no");
        assert!(kubectl.run(&["version"]).contains("Server Version: v1.36"));
        assert!(kubectl.refused(&["get", "nothings"]).contains("the server doesn't have a resource type"));
        let said = kubectl.refused(&["--token=foreign", "get", "nodes"]);
        assert!(said.contains("You must be logged in to the server"), "{said}");
    });
}

#[test]
fn objects_are_created_read_and_deleted() {
    with_each_kubectl(|kubectl| {
        assert_eq!(kubectl.run(&["create", "namespace", "shop"]), "namespace/shop created\n");
        let here = |arguments: &[&'static str]| [arguments, &["-n", "shop"]].concat();
        kubectl.run(&here(&[
            "create",
            "configmap",
            "prices",
            "--from-literal=apple=3",
            "--from-literal=pear=4",
        ]));
        kubectl.run(&here(&["create", "secret", "generic", "key", "--from-literal=word=sesame"]));
        let refused = kubectl.refused(&here(&["create", "configmap", "prices"]));
        assert!(refused.contains("configmaps \"prices\" already exists"), "{refused}");

        let table = kubectl.run(&here(&["get", "configmap", "prices"]));
        let lines: Vec<Vec<&str>> = table.lines().map(columns).collect();
        assert_eq!(lines[0], ["NAME", "DATA", "AGE"]);
        assert_eq!(lines[1][..2], ["prices", "2"]);
        assert_eq!(kubectl.run(&here(&["get", "cm", "prices", "-o", "jsonpath={.data.apple}"])), "3");
        let yaml = kubectl.run(&here(&["get", "cm", "prices", "-o", "yaml"]));
        assert!(yaml.contains("\n  apple: \"3\"\n") && yaml.contains("kind: ConfigMap"), "{yaml}");
        let described = kubectl.run(&here(&["describe", "secret", "key"]));
        assert!(described.contains("word:  6 bytes") && !described.contains("sesame"), "{described}");
        let described = kubectl.run(&here(&["describe", "configmap", "prices"]));
        assert!(described.contains("apple:\n----\n3\n"), "{described}");

        kubectl.run(&here(&["delete", "configmap", "prices"]));
        let gone = kubectl.refused(&here(&["get", "configmap", "prices"]));
        assert!(gone.contains("Error from server (NotFound): configmaps \"prices\" not found"), "{gone}");
        kubectl.run(&["delete", "namespace", "shop", &crate::kubectl::limit()]);
        assert!(kubectl.refused(&["get", "namespace", "shop"]).contains("NotFound"));
        let gone = kubectl.refused(&here(&["get", "secret", "key"]));
        assert!(gone.contains("not found"), "{gone}");
    });
}

#[test]
fn objects_are_labelled_annotated_and_patched() {
    with_each_kubectl(|kubectl| {
        kubectl.run(&["create", "deployment", "web", "--image=one"]);
        let deployment = ["deployment", "web"];
        let on = |verb: &'static str, more: &[&'static str]| [&[verb], &deployment[..], more].concat();
        let read = |path: &str| kubectl.run(&["get", "deployment", "web", "-o", &format!("jsonpath={path}")]);

        kubectl.run(&on("label", &["tier=front"]));
        let refused = kubectl.refused(&on("label", &["tier=back"]));
        assert!(refused.contains("already has a value (front), and --overwrite is false"), "{refused}");
        kubectl.run(&on("label", &["tier=back", "--overwrite"]));
        assert_eq!(
            kubectl.run(&["get", "deployments", "-l", "tier=back", "-o", "name"]),
            "deployment.apps/web\n"
        );
        assert_eq!(kubectl.run(&["get", "deployments", "-l", "tier!=back", "-o", "name"]), "");
        kubectl.run(&on("label", &["tier-"]));
        assert_eq!(read("{.metadata.labels}"), "{\"app\":\"web\"}");
        kubectl.run(&on("annotate", &["example.com/note=hello there"]));
        assert_eq!(read("{.metadata.annotations.example\\.com/note}"), "hello there");

        // A strategic patch merges lists by name; a merge patch replaces them; a JSON patch says where.
        let containers = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"two"}]}}}}"#;
        kubectl.run(&on("patch", &["-p", containers]));
        assert_eq!(read("{.spec.template.spec.containers[*].name}"), "side one");
        kubectl.run(&on("patch", &["--type=merge", "-p", containers]));
        assert_eq!(read("{.spec.template.spec.containers[*].name}"), "side");
        let replicas = r#"[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":0}]"#;
        kubectl.run(&on("patch", &["--type=json", "-p", replicas]));
        assert_eq!(read("{.spec.replicas}"), "0");
        let refused = kubectl.refused(&on("patch", &["--type=json", "-p", replicas]));
        assert!(refused.contains("The request is invalid"), "{refused}");
        let refused = kubectl.refused(&on("patch", &["-p", r#"{"spec":{"replicas":-1}}"#]));
        assert!(refused.contains("spec.replicas: Invalid value: -1"), "{refused}");
    });
}

#[test]
fn manifests_are_applied() {
    with_each_kubectl(|kubectl| {
        let text =
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  a: one\n  b: two\n";
        let file = kubectl.manifest("settings.yaml", text);
        assert_eq!(
            kubectl.run(&["apply", "-f", &file, "--dry-run=server"]),
            "configmap/settings created (server dry run)\n"
        );
        assert_eq!(kubectl.run(&["apply", "-f", &file]), "configmap/settings created\n");
        assert_eq!(kubectl.run(&["apply", "-f", &file]), "configmap/settings unchanged\n");
        kubectl.manifest("settings.yaml", &text.replace("  b: two\n", "  c: three\n"));
        assert_eq!(kubectl.run(&["apply", "-f", &file]), "configmap/settings configured\n");
        let data = kubectl.json(&["get", "configmap", "settings"])["data"].clone();
        assert_eq!(data, serde_json::json!({"a": "one", "c": "three"}));

        let wrong = kubectl.manifest("wrong.yaml", &text.replace("\ndata:", "\ndada:"));
        let refused = kubectl.refused(&["apply", "-f", &wrong]);
        assert!(refused.contains("unknown field \"dada\""), "{refused}");
        assert_eq!(
            kubectl.run(&["delete", "-f", &file]).trim_end().split(" from ").next(),
            Some("configmap \"settings\" deleted")
        );
    });
}

#[test]
fn changes_are_watched() {
    with_each_kubectl(|kubectl| {
        let watch = kubectl.start(&["get", "configmaps", "-w", "-l", "watched=yes", "-o", "name"]);
        kubectl.run(&["create", "configmap", "first"]);
        kubectl.run(&["label", "configmap", "first", "watched=yes"]);
        // Whether by its first list or by an event: from here on it watches.
        wait_for("the first one is seen", || watch.stdout().contains("first").then_some(()));
        kubectl.run(&["create", "configmap", "unseen"]);
        kubectl.run(&["annotate", "configmap", "first", "more=yes"]);
        let lines = wait_for("both changes are seen", || {
            let seen = watch.stdout();
            (seen.lines().count() >= 2).then_some(seen)
        });
        assert_eq!(lines, "configmap/first\nconfigmap/first\n");
    });
}

#[test]
fn the_definitions_that_are_printed_can_be_applied() {
    with_each_kubectl(|kubectl| {
        let printed = crate::playground::hostler(&["crds"]).output().unwrap().stdout;
        let file = kubectl.manifest("crds.yaml", &String::from_utf8(printed).unwrap());
        // Some of them are not there before.
        let said = kubectl.run(&["apply", "-f", &file]);
        assert_eq!(said.lines().count(), 6, "{said}");
        let said = kubectl.run(&["replace", "-f", &file]);
        assert_eq!(said.lines().filter(|line| line.ends_with(" replaced")).count(), 6, "{said}");
    });
}

#[test]
fn the_manifests_of_deploy_are_applied_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    with_each_kubectl(|kubectl| {
        for (directory, count) in [("gardener", 8), ("gardener-machine-sets", 4)] {
            let directory = root.join(directory);
            let apply = ["apply", "-f", directory.to_str().unwrap()];
            for word in [" created", " unchanged"] {
                let said = kubectl.run(&apply);
                assert_eq!(said.lines().filter(|line| line.ends_with(word)).count(), count, "{said}");
            }
        }
        kubectl.run(&["rollout", "status", "deployment/machine-controller", &crate::kubectl::limit()]);
    });
}

//! The container image as it ships: the static binary, unpacked and started in a root where nothing else is.

use crate::stage::{Directory, named};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn unpack(archive: &Path, into: &Path) {
    fs::create_dir(into).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Starts a program with another root; none if nobody lets us.
fn run_in(root: &Path, program: &[&str]) -> Option<Output> {
    // The first one needs no rights where namespaces of users are allowed, the second one an administrator's.
    for (changer, flags) in [("unshare", &["--map-root-user", "--root"][..]), ("chroot", &[])] {
        let Ok(output) = Command::new(changer).args(flags).arg(root).args(program).env_clear().output()
        else {
            continue;
        };
        let refused = format!("{changer}: ");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        // A program that cannot be started is told by the same command.
        if !told.starts_with(&refused) || told.contains("No such file") {
            return Some(output);
        }
    }
    None
}

#[test]
fn the_image_that_ships_needs_nothing_but_what_is_in_it() {
    let directory = Directory::new();
    let (layout, root) = (directory.path().join("layout"), directory.path().join("root"));
    unpack(&named("HOSTLER_IMAGE"), &layout);
    let blob = |descriptor: &Value| {
        let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        layout.join("blobs/sha256").join(hash)
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
    let config = &json(&blob(&manifest["config"]))["config"];
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1);
    unpack(&blob(&manifest["layers"][0]), &root);
    let entrypoint: Vec<&str> =
        config["Entrypoint"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let run = |arguments: &[&str]| {
        let program: Vec<&str> = entrypoint.iter().chain(arguments).copied().collect();
        let output = run_in(&root, &program)?;
        let said = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8(said).unwrap()))
    };
    let Some((fine, version)) = run(&["--version"]) else {
        println!("SKIPPED: nobody lets us give a program another root, so the image was not started");
        return;
    };
    assert!(fine && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let (fine, help) = run(&["--help"]).unwrap();
    assert!(fine && help.contains("--target-kubeconfig"), "{help}");
    let (fine, refusal) = run(&["--machine-creation-timeout=soon"]).unwrap();
    assert!(!fine && refusal.contains("--machine-creation-timeout"), "{refusal}");
    let (fine, refusal) = run(&["--target-kubeconfig=/nowhere", "--namespace=shoot"]).unwrap();
    assert!(!fine && refusal.contains("--target-kubeconfig: /nowhere is no kubeconfig"), "{refusal}");
    // What is for development is not in it.
    let (fine, refusal) = run(&["dev"]).unwrap();
    assert!(!fine && !refusal.contains("panicked"), "{refusal}");
}

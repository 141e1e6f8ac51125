//! The container image with this binary in it: unpacked by others, and run as an engine runs it.

use crate::playground::Directory;
use serde_json::Value;
use std::{fs, path::Path, process::Command};

fn unpack(archive: &Path, into: &Path) {
    fs::create_dir(into).unwrap();
    let unpacked = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into).output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

#[test]
fn the_entrypoint_of_the_image_takes_the_arguments_alone() {
    let directory = Directory::new();
    let (archive, layout, root) =
        (directory.file("image.tar"), directory.file("layout"), directory.file("root"));
    let binary = fs::read(env!("CARGO_BIN_EXE_hostler")).unwrap();
    hostler_image::archive(&binary, "localhost/hostler:test", fs::File::create(&archive).unwrap()).unwrap();
    unpack(&archive, &layout);
    let blob = |descriptor: &Value| {
        let hash = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        layout.join("blobs/sha256").join(hash)
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))["manifests"][0]));
    let config = &json(&blob(&manifest["config"]))["config"];
    unpack(&blob(&manifest["layers"][0]), &root);
    assert!(root.join("etc/ssl/certs/ca-certificates.crt").is_file());

    let entrypoint: Vec<&str> =
        config["Entrypoint"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let run = |arguments: &[&str]| {
        let program = root.join(entrypoint[0].trim_start_matches('/'));
        let output = Command::new(program)
            .args(&entrypoint[1..])
            .args(arguments)
            .current_dir(&root)
            .env_clear()
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (fine, help) = run(&["--help"]);
    assert!(fine && help.contains("--target-kubeconfig"), "{help}");
    let (fine, version) = run(&["--version"]);
    assert!(fine && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let (fine, refusal) = run(&["--target-kubeconfig=/nowhere", "--namespace=shoot"]);
    assert!(
        !fine && refusal.contains("--target-kubeconfig: /nowhere is no kubeconfig"),
        "a Deployment gives arguments only: {refusal}"
    );
}

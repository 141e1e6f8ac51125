//! The Dockerfile says the same as what is written without an engine.

use hostler_image::{ENTRYPOINT, ENVIRONMENT, PORT, USER};
use std::{fs, path::Path};

fn file(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(name)).unwrap()
}

/// What the last instruction of this name says.
fn instruction<'a>(dockerfile: &'a str, name: &str) -> &'a str {
    let mut all = dockerfile.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    all.next_back().unwrap_or_default()
}

#[test]
fn the_dockerfile_makes_the_same_image() {
    let dockerfile = file("Dockerfile");
    assert_eq!(instruction(&dockerfile, "FROM"), "scratch");
    let entrypoint: Vec<String> = serde_json::from_str(instruction(&dockerfile, "ENTRYPOINT")).unwrap();
    assert_eq!(entrypoint, ENTRYPOINT);
    assert_eq!(instruction(&dockerfile, "USER"), USER);
    assert_eq!([instruction(&dockerfile, "ENV")], ENVIRONMENT);
    assert_eq!(instruction(&dockerfile, "EXPOSE"), PORT);
    assert_eq!(instruction(&dockerfile, "WORKDIR"), "/");
    assert_eq!(instruction(&dockerfile, "CMD"), "");
    assert_eq!(instruction(&dockerfile, "RUN"), "cargo xtask image --root /image");
}

#[test]
fn the_dockerfile_builds_with_the_compiler_of_the_repository() {
    let toolchain = file("rust-toolchain.toml");
    let version = toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    let from = format!("docker.io/library/rust:{}-bookworm AS build", version.unwrap());
    assert!(file("Dockerfile").lines().any(|line| line.strip_prefix("FROM ") == Some(&from)), "{from}");
}

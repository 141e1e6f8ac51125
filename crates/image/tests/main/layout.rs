use hostler_image::{archive, check_alone, write_root};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};
use tar::EntryType;

/// A directory that is removed with all that is in it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hostler-image-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The beginning of some executable of Linux: what it does does not matter here.
fn executable() -> Vec<u8> {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_hostler-image")).unwrap();
    bytes.truncate(100_001);
    bytes
}

/// One entry of an archive.
struct Found {
    kind: EntryType,
    mode: u32,
    link: Option<String>,
    bytes: Vec<u8>,
}

fn read(archive: &[u8]) -> BTreeMap<String, Found> {
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let header = entry.header();
        let owner = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
        assert_eq!(owner, (0, 0, 0), "{path}");
        let (kind, mode) = (header.entry_type(), header.mode().unwrap());
        let link = entry.link_name().unwrap().map(|name| name.to_str().unwrap().to_owned());
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        assert!(found.insert(path.clone(), Found { kind, mode, link, bytes }).is_none(), "{path} twice");
    }
    found
}

fn hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// What a descriptor names, after its size and digest have been checked.
fn blob<'a>(files: &'a BTreeMap<String, Found>, descriptor: &Value) -> &'a [u8] {
    let digest = descriptor["digest"].as_str().unwrap();
    let name = digest.strip_prefix("sha256:").unwrap();
    let bytes = &files[&format!("blobs/sha256/{name}")].bytes;
    assert_eq!((hash(bytes).as_str(), json!(bytes.len())), (name, descriptor["size"].clone()));
    bytes
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn every_blob_is_what_its_digest_and_size_say_and_none_is_left_over() {
    let executable = executable();
    let mut written = Vec::new();
    let told = archive(&executable, "example.com/hostler:1", &mut written).unwrap();
    let files = read(&written);
    assert_eq!(parsed(&files["oci-layout"].bytes), json!({"imageLayoutVersion": "1.0.0"}));
    let index = parsed(&files["index.json"].bytes);
    assert_eq!(index["schemaVersion"], 2);
    let described = &index["manifests"][0];
    assert_eq!(described["digest"], told);
    assert_eq!(described["platform"]["os"], "linux");
    assert_eq!(described["annotations"]["io.containerd.image.name"], "example.com/hostler:1");
    let manifest = parsed(blob(&files, described));
    assert_eq!(manifest["mediaType"], described["mediaType"]);
    let config = parsed(blob(&files, &manifest["config"]));
    assert_eq!(config["architecture"], described["platform"]["architecture"]);
    let layer = blob(&files, &manifest["layers"][0]);
    // The layer is not compressed, so it has one digest and not two.
    assert_eq!(config["rootfs"]["diff_ids"], json!([manifest["layers"][0]["digest"]]));
    let blobs = files.values().filter(|file| file.kind == EntryType::Regular).count() - 2;
    assert_eq!((blobs, manifest["layers"].as_array().unwrap().len()), (3, 1));

    let root = read(layer);
    let named: Vec<(&str, EntryType, u32)> =
        root.iter().map(|(path, found)| (path.as_str(), found.kind, found.mode)).collect();
    let expected = [
        ("etc/", EntryType::Directory, 0o755),
        ("etc/ssl/", EntryType::Directory, 0o755),
        ("etc/ssl/certs/", EntryType::Directory, 0o755),
        ("etc/ssl/certs/ca-certificates.crt", EntryType::Regular, 0o644),
        ("hostler", EntryType::Regular, 0o755),
        ("machine-controller", EntryType::Symlink, 0o777),
    ];
    assert_eq!(named, expected);
    assert_eq!(root["machine-controller"].link.as_deref(), Some("hostler"));
    assert!(root["hostler"].bytes == executable);
}

#[test]
fn a_container_is_nobody_and_gets_only_arguments() {
    let mut written = Vec::new();
    archive(&executable(), "x", &mut written).unwrap();
    let files = read(&written);
    let manifest = parsed(blob(&files, &parsed(&files["index.json"].bytes)["manifests"][0]));
    let config = &parsed(blob(&files, &manifest["config"]))["config"];
    assert_eq!(config["Entrypoint"], json!(["/hostler", "machine-controller"]));
    assert_eq!(config["Cmd"], Value::Null, "arguments of ours would be lost when somebody gives some");
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["WorkingDir"], "/");
}

#[test]
fn equal_input_gives_equal_bytes_and_other_input_others() {
    let mut executable = executable();
    let image = |executable: &[u8], name: &str| {
        let mut written = Vec::new();
        archive(executable, name, &mut written).unwrap();
        written
    };
    let first = image(&executable, "a");
    assert!(first == image(&executable, "a"));
    assert!(first != image(&executable, "b"));
    *executable.last_mut().unwrap() ^= 1;
    assert!(first != image(&executable, "a"));
}

#[test]
fn the_root_for_an_engine_has_the_same_files_as_the_layer() {
    let (executable, directory) = (executable(), Directory::new());
    let mut written = Vec::new();
    archive(&executable, "x", &mut written).unwrap();
    let files = read(&written);
    let manifest = parsed(blob(&files, &parsed(&files["index.json"].bytes)["manifests"][0]));
    let layer = read(blob(&files, &manifest["layers"][0]));
    let root = directory.0.join("root");
    write_root(&executable, &root).unwrap();
    for (path, found) in &layer {
        let file = root.join(path.trim_end_matches('/'));
        let about = fs::symlink_metadata(&file).unwrap();
        match found.kind {
            EntryType::Symlink => {
                assert_eq!(fs::read_link(&file).unwrap().to_str(), found.link.as_deref());
            }
            kind => {
                assert_eq!(
                    (about.is_dir(), about.mode() & 0o7777),
                    (kind == EntryType::Directory, found.mode)
                );
                assert!(about.is_dir() || fs::read(&file).unwrap() == found.bytes, "{path}");
            }
        }
    }
    let again = write_root(&executable, &root).unwrap_err().to_string();
    assert!(again.contains("is not empty"), "{again}");
}

#[test]
fn the_certificates_are_the_public_ones() {
    let directory = Directory::new();
    write_root(&executable(), &directory.0).unwrap();
    let text = fs::read_to_string(directory.0.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    let count = text.matches("-----BEGIN CERTIFICATE-----\n").count();
    assert!(count > 100, "{count} certificates");
    assert_eq!(count, text.matches("-----END CERTIFICATE-----\n").count());
    assert!(text.lines().all(|line| line.len() <= 64 && line.is_ascii()));
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hostler-image")).args(arguments).output().unwrap()
}

#[test]
fn what_cannot_be_an_image_is_refused_and_why_is_said() {
    let directory = Directory::new();
    let output = directory.0.join("image.tar");
    let script = directory.0.join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    // The test's own program has libraries, unless everything here is built without.
    assert!(cfg!(target_feature = "crt-static") || check_alone(&executable()).is_err());
    for (binary, why) in [
        ("/no/such/file", "--binary: /no/such/file cannot be read"),
        (script.to_str().unwrap(), "it is no executable of Linux"),
        (env!("CARGO_BIN_EXE_hostler-image"), "it needs shared libraries, and the image has none"),
    ] {
        let refused = run(&["--binary", binary, "--output", output.to_str().unwrap()]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.starts_with("hostler-image: --binary: ") && said.contains(why), "{said}");
        assert!(!output.exists());
    }
}

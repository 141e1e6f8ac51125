//! An OCI image layout in one tar file.

use crate::{
    ENTRYPOINT, ENVIRONMENT, PORT, USER, VERSION,
    executable::architecture,
    root::{Entry, What, entries},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use tar::{Builder, EntryType, Header};

/// Nothing in an image tells when it was made: it is the same whenever that is.
const LONG_AGO: &str = "1970-01-01T00:00:00Z";
const BLOBS: &str = "blobs/sha256";

/// Something that is named by its digest.
struct Blob {
    bytes: Vec<u8>,
    hash: String,
}

impl Blob {
    fn new(bytes: Vec<u8>) -> Self {
        let hash = format!("{:x}", Sha256::digest(&bytes));
        Self { bytes, hash }
    }

    fn digest(&self) -> String {
        format!("sha256:{}", self.hash)
    }

    fn descriptor(&self, kind: &str) -> Value {
        json!({"mediaType": kind, "digest": self.digest(), "size": self.bytes.len()})
    }
}

/// Writes an image with this executable, under this name, and tells the digest of its manifest.
pub fn archive(executable: &[u8], name: &str, out: impl Write) -> anyhow::Result<String> {
    let architecture = architecture(executable)?.name();
    let layer = Blob::new(layer(executable)?);
    let config = Blob::new(serde_json::to_vec(&config(architecture, &layer))?);
    let manifest = Blob::new(serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        // Not compressed: whoever pushes it compresses it, and the bytes here depend on no compressor.
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar")],
    }))?);
    let mut described = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    described["platform"] = json!({"architecture": architecture, "os": "linux"});
    described["annotations"] =
        json!({"org.opencontainers.image.ref.name": VERSION, "io.containerd.image.name": name});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });

    let mut tar = Builder::new(out);
    add(&mut tar, "oci-layout", EntryType::Regular, 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    add(&mut tar, "index.json", EntryType::Regular, 0o644, &serde_json::to_vec(&index)?)?;
    add(&mut tar, "blobs/", EntryType::Directory, 0o755, &[])?;
    add(&mut tar, "blobs/sha256/", EntryType::Directory, 0o755, &[])?;
    for blob in [&manifest, &config, &layer] {
        add(&mut tar, &format!("{BLOBS}/{}", blob.hash), EntryType::Regular, 0o644, &blob.bytes)?;
    }
    tar.into_inner()?.flush()?;
    Ok(manifest.digest())
}

fn config(architecture: &str, layer: &Blob) -> Value {
    json!({
        "created": LONG_AGO,
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": ENTRYPOINT,
            "Env": ENVIRONMENT,
            "WorkingDir": "/",
            "ExposedPorts": {format!("{PORT}/tcp"): {}},
            "Labels": {
                "org.opencontainers.image.title": "hostler",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.digest()]},
        "history": [{"created": LONG_AGO, "created_by": "cargo xtask image"}],
    })
}

fn layer(executable: &[u8]) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for Entry { path, what } in entries(executable) {
        let mode = what.mode();
        match what {
            What::Directory => add(&mut tar, &format!("{path}/"), EntryType::Directory, mode, &[])?,
            What::Executable(bytes) => add(&mut tar, path, EntryType::Regular, mode, bytes)?,
            What::File(bytes) => add(&mut tar, path, EntryType::Regular, mode, &bytes)?,
            What::Link(target) => {
                let mut header = header(EntryType::Symlink, mode);
                tar.append_link(&mut header, path, target)?;
            }
        }
    }
    tar.into_inner()
}

fn add(
    tar: &mut Builder<impl Write>,
    path: &str,
    kind: EntryType,
    mode: u32,
    bytes: &[u8],
) -> io::Result<()> {
    let mut header = header(kind, mode);
    header.set_size(bytes.len() as u64);
    tar.append_data(&mut header, path, bytes)
}

/// Owned by root and without a time, so that it does not matter who makes it and when.
fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

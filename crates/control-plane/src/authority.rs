//! Certificates for one control plane.

use anyhow::Context;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::{fs::OpenOptions, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

/// A certificate authority that is trusted by everything that belongs to one control plane.
pub struct Authority {
    pem: String,
    key_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(Vec::<String>::new())?;
        parameters.distinguished_name.push(DnType::CommonName, "hostler control plane");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self { pem, key_pem: key.serialize_pem(), issuer: Issuer::new(parameters, key) })
    }

    /// What clients have to trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// A certificate for a server on loopback.
    pub fn server(&self, title: &str) -> anyhow::Result<Identity> {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut parameters = CertificateParams::new(names)?;
        parameters.distinguished_name.push(DnType::CommonName, title);
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.issuer)?.pem();
        Ok(Identity { certificate, key: key.serialize_pem() })
    }
}

/// A pair of keys for signing service accounts' tokens: (private, public).
pub(crate) fn signing_keys() -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes a file that only its owner can read.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("{} cannot be written", path.display()))
}

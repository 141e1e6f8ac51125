use jiff::{Span, Timestamp, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use std::{net::IpAddr, sync::Arc};

/// The names a server answers to besides its addresses.
pub(super) const NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// A certificate authority made for one server, and the server's certificate.
pub struct Certificates {
    /// What clients have to trust.
    pub ca_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivatePkcs8KeyDer<'static>,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("the server's certificate could not be made")]
    Make(#[from] rcgen::Error),
    #[error("the server's certificate cannot be used")]
    Use(#[from] rustls::Error),
}

impl Certificates {
    /// Makes new ones that are good for a year from `now`, for this machine's loopback names and addresses
    /// and for the given addresses.
    pub fn generate(addresses: &[IpAddr], now: Timestamp) -> Result<Self, CertificateError> {
        let authority_key = KeyPair::generate()?;
        let mut authority = parameters(&[], "hostler certificate authority", now)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let ca_pem = authority.self_signed(&authority_key)?.pem();

        let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        let more = addresses.iter().filter(|address| !address.is_loopback() && !address.is_unspecified());
        names.extend(more.map(ToString::to_string));
        let mut own = parameters(&names, "hostler API server", now)?;
        own.use_authority_key_identifier_extension = true;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = own.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?;
        let chain = vec![certificate.der().clone()];
        Ok(Self { ca_pem, chain, key: PrivatePkcs8KeyDer::from(key.serialize_der()) })
    }

    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), PrivateKeyDer::Pkcs8(self.key.clone_key()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn parameters(names: &[String], title: &str, now: Timestamp) -> Result<CertificateParams, CertificateError> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, title);
    let today = now.to_zoned(TimeZone::UTC).date();
    // A day earlier, for clients whose clock is a little behind.
    let (first, last) =
        (today.saturating_sub(Span::new().days(1)), today.saturating_add(Span::new().days(366)));
    let positive = |number: i8| u8::try_from(number).unwrap_or(1);
    parameters.not_before =
        rcgen::date_time_ymd(i32::from(first.year()), positive(first.month()), positive(first.day()));
    parameters.not_after =
        rcgen::date_time_ymd(i32::from(last.year()), positive(last.month()), positive(last.day()));
    Ok(parameters)
}

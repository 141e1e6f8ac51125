//! Which serving certificates kubelets get.
//!
//! A kubelet asks for one with its node's rights, and whoever holds those of one node must not get a certificate for
//! anything else: only for the node's own name, and for names and addresses that the cloud gave to its VPS. What the Node
//! object says of its addresses counts for nothing, because the kubelet writes that itself.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use std::{collections::BTreeSet, net::IpAddr};
use x509_parser::{
    certification_request::X509CertificationRequest,
    cri_attributes::{ParsedCriAttribute, X509CriAttribute},
    extensions::{GeneralName, ParsedExtension},
    pem::Pem,
    prelude::FromDer,
};

pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
const SIGNATURE: &str = "digital signature";
const ENCIPHERMENT: &str = "key encipherment";
const SERVER: &str = "server auth";

/// A node of ours whose VPS runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kubelet {
    pub node_name: String,
    /// What the cloud says: its hostname, and its addresses.
    pub hostname: String,
    pub addresses: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approve,
    /// It is none of our business, or it is decided.
    Pass,
    /// It is left for a person to look at.
    Refuse(String),
}

/// What becomes of a request. `kubelet` finds a node of ours by its name.
pub fn judge<'k>(
    request: &CertificateSigningRequest,
    kubelet: impl FnOnce(&str) -> Option<&'k Kubelet>,
) -> Verdict {
    let spec = &request.spec;
    let decided = request.status.as_ref().is_some_and(|status| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        status.certificate.is_some() || !conditions.is_empty()
    });
    if decided || spec.signer_name != SERVING_SIGNER {
        return Verdict::Pass;
    }
    let user = spec.username.as_deref().unwrap_or_default();
    let Some(name) = user.strip_prefix(NODE) else { return Verdict::Pass };
    let Some(kubelet) = kubelet(name).filter(|kubelet| kubelet.node_name == name) else {
        return Verdict::Pass;
    };
    match objection(request, kubelet) {
        None => Verdict::Approve,
        Some(why) => Verdict::Refuse(why),
    }
}

fn objection(request: &CertificateSigningRequest, kubelet: &Kubelet) -> Option<String> {
    let spec = &request.spec;
    let groups = spec.groups.as_deref().unwrap_or_default();
    if !groups.iter().any(|group| group == NODES) {
        return Some(format!("its requester is not in group {NODES}"));
    }
    usages(spec.usages.as_deref().unwrap_or_default()).or_else(|| contents(&spec.request.0, kubelet))
}

fn usages(usages: &[String]) -> Option<String> {
    let asked: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    let fine = [&[SIGNATURE, SERVER][..], &[SIGNATURE, ENCIPHERMENT, SERVER][..]];
    let fine = fine.into_iter().any(|exactly| asked == exactly.iter().copied().collect());
    (!fine).then(|| format!("it asks for other usages than a server's: {}", usages.join(", ")))
}

fn contents(pem: &[u8], kubelet: &Kubelet) -> Option<String> {
    let unreadable = || Some("it cannot be read".to_owned());
    let mut blocks = Pem::iter_from_buffer(pem);
    let Some(Ok(block)) = blocks.next() else { return unreadable() };
    if blocks.next().is_some() || block.label != "CERTIFICATE REQUEST" {
        return unreadable();
    }
    let Ok((rest, request)) = X509CertificationRequest::from_der(&block.contents) else {
        return unreadable();
    };
    if !rest.is_empty() {
        return unreadable();
    }
    subject(&request, kubelet).or_else(|| names(&request, kubelet))
}

fn subject(request: &X509CertificationRequest<'_>, kubelet: &Kubelet) -> Option<String> {
    let subject = &request.certification_request_info.subject;
    let commons: Vec<&str> = subject.iter_common_name().filter_map(|name| name.as_str().ok()).collect();
    let organizations: Vec<&str> =
        subject.iter_organization().filter_map(|name| name.as_str().ok()).collect();
    let own = format!("{NODE}{}", kubelet.node_name);
    let exactly =
        commons == [own.as_str()] && organizations == [NODES] && subject.iter_attributes().count() == 2;
    (!exactly).then(|| format!("its subject is {subject}, and not that of node {}", kubelet.node_name))
}

fn names(request: &X509CertificationRequest<'_>, kubelet: &Kubelet) -> Option<String> {
    let mut named = 0;
    let attributes: Vec<&ParsedCriAttribute<'_>> = request
        .certification_request_info
        .iter_attributes()
        .map(X509CriAttribute::parsed_attribute)
        .collect();
    let extensions = match attributes.as_slice() {
        [ParsedCriAttribute::ExtensionRequest(extensions)] => &extensions.extensions,
        [] => return Some("it names no host and no address".to_owned()),
        _ => return Some("it has other attributes than one for its extensions".to_owned()),
    };
    for extension in extensions {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    if let Some(why) = foreign(name, kubelet) {
                        return Some(why);
                    }
                    named += 1;
                }
            }
            _ => return Some(format!("it asks for extension {}", extension.oid)),
        }
    }
    (named == 0).then(|| "it names no host and no address".to_owned())
}

/// Why a certificate for this name is not the node's to have.
fn foreign(name: &GeneralName<'_>, kubelet: &Kubelet) -> Option<String> {
    match name {
        GeneralName::DNSName(host) => {
            let own = [&kubelet.node_name, &kubelet.hostname];
            let fine = own.into_iter().any(|own| !own.is_empty() && own.eq_ignore_ascii_case(host));
            (!fine).then(|| format!("the name {host} is not node {}'s", kubelet.node_name))
        }
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            let Ok(address) = address else { return Some("an address in it cannot be read".to_owned()) };
            let own = kubelet.addresses.iter().filter_map(|own| own.parse::<IpAddr>().ok());
            let fine = own.into_iter().any(|own| own == address);
            (!fine).then(|| format!("the address {address} is not node {}'s", kubelet.node_name))
        }
        _ => Some("it asks for more than hosts and addresses".to_owned()),
    }
}

#[cfg(test)]
#[path = "csr_tests.rs"]
mod tests;

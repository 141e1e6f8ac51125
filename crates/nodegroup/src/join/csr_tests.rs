//! Each way to cheat.

use super::*;
use k8s_openapi::{
    ByteString,
    api::certificates::v1::{
        CertificateSigningRequestCondition, CertificateSigningRequestSpec, CertificateSigningRequestStatus,
    },
};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType,
};

fn kubelet() -> Kubelet {
    Kubelet {
        node_name: "workers-1".into(),
        hostname: "workers-1.vpsie.local".into(),
        addresses: ["192.0.2.10", "2001:db8::1"].map(str::to_owned).into(),
    }
}

/// What is asked for, and by whom.
struct Ask {
    subject: Vec<(DnType, &'static str)>,
    names: Vec<SanType>,
    extension: Option<CustomExtension>,
    purposes: Vec<ExtendedKeyUsagePurpose>,
    usages: Vec<&'static str>,
    user: &'static str,
    groups: Vec<&'static str>,
    signer: &'static str,
    pem: Option<fn(String) -> String>,
}

/// As a kubelet asks.
fn honest() -> Ask {
    Ask {
        subject: vec![
            (DnType::OrganizationName, "system:nodes"),
            (DnType::CommonName, "system:node:workers-1"),
        ],
        names: vec![dns("workers-1"), address("192.0.2.10")],
        extension: None,
        purposes: Vec::new(),
        usages: vec!["digital signature", "server auth"],
        user: "system:node:workers-1",
        groups: vec!["system:nodes", "system:authenticated"],
        signer: SERVING_SIGNER,
        pem: None,
    }
}

fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

fn address(text: &str) -> SanType {
    SanType::IpAddress(text.parse().unwrap())
}

fn request(ask: Ask) -> CertificateSigningRequest {
    let mut subject = DistinguishedName::new();
    for (kind, value) in ask.subject {
        subject.push(kind, value);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.subject_alt_names = ask.names;
    params.custom_extensions = ask.extension.into_iter().collect();
    params.extended_key_usages = ask.purposes;
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let pem = match ask.pem {
        Some(change) => change(pem),
        None => pem,
    };
    let texts = |list: Vec<&str>| Some(list.into_iter().map(str::to_owned).collect());
    CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: ask.signer.into(),
            usages: texts(ask.usages),
            username: Some(ask.user.into()),
            groups: texts(ask.groups),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    }
}

fn verdict(request: &CertificateSigningRequest) -> Verdict {
    let own = kubelet();
    judge(request, |name| (name == own.node_name).then_some(&own))
}

#[test]
fn a_node_gets_a_certificate_for_its_own_name_and_addresses() {
    let asks = [
        honest(),
        Ask { usages: vec!["server auth", "key encipherment", "digital signature"], ..honest() },
        Ask {
            names: vec![dns("Workers-1"), dns("workers-1.vpsie.local"), address("2001:db8::1")],
            ..honest()
        },
        Ask { names: vec![address("192.0.2.10")], ..honest() },
    ];
    for ask in asks {
        assert_eq!(verdict(&request(ask)), Verdict::Approve);
    }
}

#[test]
fn whoever_cheats_gets_none() {
    let more = |name: SanType| Ask { names: vec![dns("workers-1"), address("192.0.2.10"), name], ..honest() };
    let subject = |subject: &[(DnType, &'static str)]| Ask { subject: subject.to_vec(), ..honest() };
    let own = (DnType::CommonName, "system:node:workers-1");
    let nodes = (DnType::OrganizationName, "system:nodes");
    let twice = |pem: String| format!("{pem}{pem}");
    let basic_constraints = CustomExtension::from_oid_content(&[2, 5, 29, 19], vec![0x30, 3, 1, 1, 0xff]);
    let table = [
        ("another's name", more(dns("workers-2")), "the name workers-2 is not"),
        (
            "the API server's name",
            more(dns("kubernetes.default.svc")),
            "the name kubernetes.default.svc is not",
        ),
        ("a wildcard", more(dns("*.vpsie.local")), "the name *.vpsie.local is not"),
        ("a name that begins alike", more(dns("workers-1.evil.example")), "is not node workers-1's"),
        ("another's address", more(address("192.0.2.11")), "the address 192.0.2.11 is not"),
        ("its own machine's loopback", more(address("127.0.0.1")), "the address 127.0.0.1 is not"),
        ("an address in IPv6's clothes", more(address("::ffff:192.0.2.11")), "is not node workers-1's"),
        ("an address as a name", more(dns("192.0.2.11")), "the name 192.0.2.11 is not"),
        ("a URI", more(SanType::URI("spiffe://x".try_into().unwrap())), "more than hosts and addresses"),
        (
            "a mail address",
            more(SanType::Rfc822Name("a@b".try_into().unwrap())),
            "more than hosts and addresses",
        ),
        ("no name at all", Ask { names: vec![], ..honest() }, "names no host and no address"),
        (
            "another node's subject",
            subject(&[nodes.clone(), (DnType::CommonName, "system:node:workers-2")]),
            "its subject is",
        ),
        (
            "the administrators' group",
            subject(&[(DnType::OrganizationName, "system:masters"), own.clone()]),
            "its subject is",
        ),
        ("no group", subject(std::slice::from_ref(&own)), "its subject is"),
        ("no name", subject(std::slice::from_ref(&nodes)), "its subject is"),
        (
            "something besides",
            subject(&[nodes.clone(), (DnType::OrganizationalUnitName, "x"), own.clone()]),
            "its subject is",
        ),
        (
            "a client's usage",
            Ask { usages: vec!["digital signature", "client auth"], ..honest() },
            "other usages",
        ),
        (
            "a client's usage besides",
            Ask { usages: vec!["digital signature", "server auth", "client auth"], ..honest() },
            "other usages",
        ),
        ("no server's usage", Ask { usages: vec!["digital signature"], ..honest() }, "other usages"),
        ("no usage", Ask { usages: vec![], ..honest() }, "other usages"),
        (
            "to sign others",
            Ask { usages: vec!["digital signature", "server auth", "cert sign"], ..honest() },
            "other usages",
        ),
        (
            "an authority",
            Ask { extension: Some(basic_constraints), ..honest() },
            "asks for extension 2.5.29.19",
        ),
        (
            "a client's purpose inside",
            Ask { purposes: vec![ExtendedKeyUsagePurpose::ClientAuth], ..honest() },
            "asks for extension 2.5.29.37",
        ),
        (
            "not in the nodes' group",
            Ask { groups: vec!["system:authenticated"], ..honest() },
            "not in group system:nodes",
        ),
        ("two requests in one", Ask { pem: Some(twice), ..honest() }, "cannot be read"),
        ("no request", Ask { pem: Some(|_| "hello".into()), ..honest() }, "cannot be read"),
        (
            "a certificate",
            Ask { pem: Some(|pem| pem.replace("CERTIFICATE REQUEST", "CERTIFICATE")), ..honest() },
            "cannot be read",
        ),
    ];
    for (what, ask, why) in table {
        match verdict(&request(ask)) {
            Verdict::Refuse(told) => assert!(told.contains(why), "{what}: {told}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn others_requests_are_left_alone() {
    let table = [
        ("another signer", Ask { signer: "kubernetes.io/kube-apiserver-client-kubelet", ..honest() }),
        ("no node", Ask { user: "system:bootstrap:abcdef", ..honest() }),
        ("a person", Ask { user: "admin", ..honest() }),
        ("a node that is not ours", Ask { user: "system:node:workers-9", ..honest() }),
        ("nobody", Ask { user: "", ..honest() }),
    ];
    for (what, ask) in table {
        assert_eq!(verdict(&request(ask)), Verdict::Pass, "{what}");
    }
    let mut decided = request(honest());
    let denied = CertificateSigningRequestCondition {
        type_: "Denied".into(),
        status: "True".into(),
        ..CertificateSigningRequestCondition::default()
    };
    decided.status = Some(CertificateSigningRequestStatus {
        conditions: Some(vec![denied]),
        ..CertificateSigningRequestStatus::default()
    });
    assert_eq!(verdict(&decided), Verdict::Pass, "somebody has denied it");
}

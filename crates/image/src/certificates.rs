use base64::{Engine, engine::general_purpose::STANDARD};
use std::fmt::Write;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The public authorities that Mozilla trusts, as PEM. Not those of the machine that builds: they may be its own,
/// and would make images differ from machine to machine.
pub fn authorities() -> String {
    let mut text = String::new();
    for certificate in TLS_SERVER_ROOT_CERTS {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let encoded = STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, after) = rest.split_at(rest.len().min(64));
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            rest = after;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

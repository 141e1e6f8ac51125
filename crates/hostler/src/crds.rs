use anyhow::Context;
use std::io::{self, Write};

/// Writes all definitions as one YAML stream.
pub fn print() -> anyhow::Result<()> {
    let mut text = String::new();
    for crd in hostler_gardener::api::crds().into_iter().chain(hostler_nodegroup::api::crds()) {
        // By way of a JSON value, which leaves out what is not set.
        let crd = serde_json::to_value(crd).context("a definition cannot be written as JSON")?;
        let crd = serde_saphyr::to_string(&crd).context("a definition cannot be written as YAML")?;
        text.push_str("---\n");
        text.push_str(crd.trim_end());
        text.push('\n');
    }
    match io::stdout().write_all(text.as_bytes()) {
        // Whoever read has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("the definitions cannot be written to standard output"),
    }
}

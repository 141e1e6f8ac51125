//! From servers to nodes: a machine that runs lets its node join, one that goes takes it along.

use super::{Stackit, lookup::cores, server::Server};
use crate::{
    cloud::drive::{Running, Wanted, drive},
    hollow::{HollowNodes, MachineSpec},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use std::time::Duration;

/// Servers with this label become nodes.
const MACHINE_LABEL: &str = "kubernetes.io/machine";
/// A label with a key that ends so says of which cluster.
const CLUSTER_SUFFIX: &str = "/cluster";

/// What stands in user data for a token that is still to come.
const PLACEHOLDERS: [&str; 2] = ["<<BOOTSTRAP_TOKEN>>", "%3C%3CBOOTSTRAP_TOKEN%3E%3E"];

impl Stackit {
    /// Lets the nodes of running servers join and switches off those whose server goes. Runs for ever.
    pub async fn drive(self, nodes: HollowNodes) {
        drive(nodes, &self.0.clock, &self.0.changed, |running| self.wanted(running)).await;
    }

    /// What is to run now, and how long it stays so. Of what runs already only the id counts.
    fn wanted(&self, running: &Running) -> (Wanted, Option<Duration>) {
        let now = self.0.clock.now();
        let mut cloud = self.lock();
        cloud.settle(now);
        let settings = &cloud.settings;
        let mut wanted = Wanted::new();
        for ((_, region), estate) in cloud.estates() {
            for (id, server) in &estate.servers {
                let elsewhere = |(key, value): (&String, &String)| {
                    key.ends_with(CLUSTER_SUFFIX) && settings.other_clusters.contains(value)
                };
                let joins = server.labels.contains_key(MACHINE_LABEL) && !server.labels.iter().any(elsewhere);
                if server.status.name() != "ACTIVE" || !joins {
                    continue;
                }
                let mut machine = MachineSpec::new(&server.name);
                if !running.contains_key(id) {
                    describe(&mut machine, id, region, server);
                    machine.internal_ip =
                        server.nics.first().and_then(|nic| estate.nics.get(nic)).map(|nic| nic.ipv4.clone());
                    machine.boot_time = settings.join_time;
                    machine.never_joins |= machine.bootstrap_token.is_none() && !settings.joins_without_token;
                }
                wanted.insert(id.clone(), machine);
            }
        }
        (wanted, cloud.next_change(now))
    }
}

fn describe(machine: &mut MachineSpec, id: &str, region: &str, server: &Server) {
    let cores = cores(&server.machine_type);
    machine.provider_id = Some(format!("stackit://{id}"));
    machine.capacity.insert("cpu".to_owned(), cores.to_string());
    machine.capacity.insert("memory".to_owned(), format!("{}Gi", cores * 4));
    machine.labels.insert("node.kubernetes.io/instance-type".to_owned(), server.machine_type.clone());
    machine.labels.insert("topology.kubernetes.io/region".to_owned(), region.to_owned());
    machine.labels.insert("topology.kubernetes.io/zone".to_owned(), server.zone.clone());
    let decoded = server.user_data.as_ref().and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    machine.bootstrap_token = bootstrap_token(&text);
    // What nobody has filled in lets nobody in.
    machine.never_joins = PLACEHOLDERS.iter().any(|placeholder| text.contains(placeholder));
}

/// The first word of the form `abcdef.0123456789abcdef`.
fn bootstrap_token(text: &str) -> Option<String> {
    let plain = |part: &str, length: usize| {
        part.len() == length && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let word = words
        .find(|word| word.split_once('.').is_some_and(|(id, secret)| plain(id, 6) && plain(secret, 16)))?;
    Some(word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_found_wherever_it_stands() {
        for (text, expected) in [
            ("token: abcdef.0123456789abcdef\n", Some("abcdef.0123456789abcdef")),
            ("kubeadm --token=abcdef.0123456789abcdef --x", Some("abcdef.0123456789abcdef")),
            ("\"abcdef.0123456789abcdef\"", Some("abcdef.0123456789abcdef")),
            ("v1.2.3 <<BOOTSTRAP_TOKEN>>", None),
            ("abcdefg.0123456789abcdef", None),
            ("abcdef.0123456789abcdef0", None),
            ("ABCDEF.0123456789abcdef", None),
        ] {
            assert_eq!(bootstrap_token(text).as_deref(), expected, "{text}");
        }
    }
}

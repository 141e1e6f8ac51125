//! What is still to be done to a server that runs: a pure function of what was asked for and what is there.

use crate::{
    cidr,
    wire::{Networking, Server, ServerNic},
};

/// What an order asks for that the create call cannot say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    /// Ranges that the server's NICs may send from.
    pub(super) addresses: Vec<String>,
    /// Where its NICs come from. Without a word the cloud has chosen, and all of them are meant.
    pub(super) networking: Option<Networking>,
    /// Nothing was said about the boot volume, so it has to go with the server.
    pub(super) boot_volume_goes: bool,
}

/// One call that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// The NIC may send from these, too.
    Allow { network: String, nic: String, present: Vec<String>, missing: Vec<String> },
    /// The boot volume goes with the server.
    BootVolume { volume: String },
}

impl Wish {
    pub(super) fn is_nothing(&self) -> bool {
        self.addresses.is_empty() && !self.boot_volume_goes
    }

    fn concerns(&self, nic: &ServerNic) -> bool {
        match &self.networking {
            None => true,
            Some(Networking::Network { network_id }) => nic.network_id.eq_ignore_ascii_case(network_id),
            Some(Networking::Nics { nic_ids }) => {
                nic_ids.iter().any(|id| id.eq_ignore_ascii_case(&nic.nic_id))
            }
        }
    }

    /// Whether the server must have a NIC and has none.
    pub(super) fn misses_nic(&self, server: &Server) -> bool {
        self.networking.is_some() && server.nics.as_ref().is_none_or(Vec::is_empty)
    }

    /// Everything that is to be done, in the order in which it is done. What others have put on a NIC stays.
    pub(super) fn todo(&self, server: &Server) -> Vec<Todo> {
        let nics = server.nics.iter().flatten().filter(|nic| self.concerns(nic));
        let mut todo: Vec<Todo> = nics
            .filter_map(|nic| {
                let present = nic.allowed_addresses.clone().unwrap_or_default();
                let missing = cidr::missing(&self.addresses, &present);
                let (network, nic) = (nic.network_id.clone(), nic.nic_id.clone());
                (!missing.is_empty()).then_some(Todo::Allow { network, nic, present, missing })
            })
            .collect();
        todo.extend(self.boot_volume(server).map(|volume| Todo::BootVolume { volume }));
        todo
    }

    /// The boot volume, if it should go with the server and would not.
    pub(super) fn boot_volume(&self, server: &Server) -> Option<String> {
        let volume = server.boot_volume.as_ref().filter(|_| self.boot_volume_goes)?;
        volume.id.clone().filter(|id| !id.is_empty() && volume.delete_on_termination != Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn server(boot: Value, nics: Value) -> Server {
        serde_json::from_value(json!({"id": "s", "name": "m", "bootVolume": boot, "nics": nics})).unwrap()
    }

    fn nic(id: &str, network: &str, allowed: Value) -> Value {
        json!({"nicId": id, "networkId": network, "allowedAddresses": allowed})
    }

    fn network(id: &str) -> Networking {
        Networking::Network { network_id: id.into() }
    }

    fn wish(networking: impl Into<Option<Networking>>, addresses: &[&str]) -> Wish {
        let addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        Wish { addresses, networking: networking.into(), boot_volume_goes: false }
    }

    #[test]
    fn only_nics_of_ours_are_changed_and_only_where_something_is_missing() {
        let nics = json!([
            nic("n1", "net", json!(["1.2.3.4", "10.0.0.7/8"])),
            nic("n2", "NET", Value::Null),
            nic("n3", "other", json!([])),
        ]);
        let server = server(Value::Null, nics);
        let ids = |wish: &Wish| -> Vec<String> {
            let todo = wish.todo(&server).into_iter();
            todo.map(|todo| match todo {
                Todo::Allow { nic, present, missing, .. } => format!("{nic} {present:?} {missing:?}"),
                Todo::BootVolume { volume } => volume,
            })
            .collect()
        };
        let given = Some(Networking::Nics { nic_ids: vec!["N3".into()] });
        assert_eq!(ids(&wish(network("net"), &[])), [""; 0]);
        assert_eq!(ids(&wish(network("net"), &["10.0.0.0/8"])), [r#"n2 [] ["10.0.0.0/8"]"#]);
        assert_eq!(
            ids(&wish(network("net"), &["10.0.0.0/8", "fd00::/8"])),
            [r#"n1 ["1.2.3.4", "10.0.0.7/8"] ["fd00::/8"]"#, r#"n2 [] ["10.0.0.0/8", "fd00::/8"]"#]
        );
        assert_eq!(ids(&wish(given, &["10.0.0.0/8"])), [r#"n3 [] ["10.0.0.0/8"]"#]);
        assert_eq!(ids(&wish(None, &["10.0.0.0/8"])).len(), 2);
        assert_eq!(ids(&wish(network("nowhere"), &["10.0.0.0/8"])), [""; 0]);
    }

    #[test]
    fn a_boot_volume_is_set_only_if_nobody_said_anything_about_it() {
        let table = [
            (json!({"id": "v", "deleteOnTermination": false}), true, Some("v")),
            (json!({"id": "v"}), true, Some("v")),
            (json!({"id": "v", "deleteOnTermination": true}), true, None),
            (json!({"id": "v", "deleteOnTermination": false}), false, None),
            (json!({"deleteOnTermination": false}), true, None),
            (json!({"id": ""}), true, None),
            (Value::Null, true, None),
        ];
        for (boot, boot_volume_goes, expected) in table {
            let wish = Wish { boot_volume_goes, ..Wish::default() };
            let found = wish.todo(&server(boot.clone(), json!([])));
            let expected: Vec<Todo> =
                expected.map(|volume| Todo::BootVolume { volume: volume.into() }).into_iter().collect();
            assert_eq!(found, expected, "{boot} {boot_volume_goes}");
        }
    }

    #[test]
    fn a_server_in_a_network_has_a_nic() {
        let one = json!([nic("n", "net", Value::Null)]);
        for (networking, nics, expected) in [
            (Some(network("net")), Value::Null, true),
            (Some(network("net")), json!([]), true),
            (Some(network("net")), one.clone(), false),
            (None, json!([]), false),
        ] {
            assert_eq!(wish(networking, &[]).misses_nic(&server(Value::Null, nics)), expected);
        }
    }
}

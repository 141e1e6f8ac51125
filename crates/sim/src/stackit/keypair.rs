//! SSH key pairs, which belong to nobody's project.

use super::{
    answer::{Outcome, Refusal, answer, done, found, items},
    check::{Checked, Fields, change_labels, is_keypair_name, stamp},
    cloud::Cloud,
    dispatch::Call,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct Keypair {
    public_key: String,
    labels: BTreeMap<String, String>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// The key of keypairs that exist because somebody named them.
const ANY_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn is_public_key(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let kind = words.next().is_some_and(|kind| {
        let curves = ["ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"];
        kind == "ssh-rsa" || kind == "ssh-ed25519" || curves.contains(&kind)
    });
    kind && words.next().is_some_and(|key| STANDARD.decode(key).is_ok())
}

/// Sixteen bytes that follow from the key: nobody here compares them with a real MD5.
fn fingerprint(key: &str) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    let mut bytes = [0_u8; 16];
    for (at, byte) in key.bytes().chain(0..32).enumerate() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        bytes[at % 16] = state.to_be_bytes()[0];
    }
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn show(name: &str, keypair: &Keypair) -> Value {
    json!({
        "name": name, "publicKey": keypair.public_key, "fingerprint": fingerprint(&keypair.public_key),
        "labels": keypair.labels, "createdAt": stamp(keypair.created_at),
        "updatedAt": stamp(keypair.updated_at),
    })
}

impl Cloud {
    /// A keypair that somebody names. Without a catalogue it exists once it is named.
    pub(super) fn keypair(&mut self, name: &str, now: Timestamp) -> Checked<&mut Keypair> {
        if !is_keypair_name(name) || name.is_empty() {
            return Err(Refusal::bad(format!("keypairName: {name:?} does not match the pattern")));
        }
        let catalogue = self.settings.catalogue.as_ref();
        if !self.keypairs.contains_key(name) {
            if !catalogue.is_none_or(|catalogue| catalogue.keypairs.contains(name)) {
                return Err(Refusal::missing("keypair", name));
            }
            self.put_keypair(name, ANY_KEY.to_owned(), BTreeMap::new(), now);
        }
        self.keypairs.get_mut(name).ok_or_else(|| Refusal::missing("keypair", name))
    }

    fn put_keypair(
        &mut self,
        name: &str,
        public_key: String,
        labels: BTreeMap<String, String>,
        now: Timestamp,
    ) {
        let keypair = Keypair { public_key, labels, created_at: now, updated_at: now };
        self.keypairs.insert(name.to_owned(), keypair);
    }

    pub(super) fn list_keypairs(&mut self, call: &Call, now: Timestamp) -> Outcome {
        let selector = call.selector(&self.settings)?;
        let known = self.settings.catalogue.as_ref().map(|catalogue| catalogue.keypairs.clone());
        for name in known.unwrap_or_default() {
            self.keypair(&name, now)?;
        }
        let fitting = self.keypairs.iter().filter(|(_, keypair)| selector.fits(&keypair.labels));
        items(fitting.map(|(name, keypair)| show(name, keypair)).collect())
    }

    pub(super) fn get_keypair(&mut self, name: &str, now: Timestamp) -> Outcome {
        let keypair = self.keypair(name, now)?;
        found(show(name, keypair))
    }

    pub(super) fn create_keypair(&mut self, call: &Call, now: Timestamp) -> Outcome {
        let fields = Fields::of(call.body.as_ref())?;
        let public_key = fields.required("publicKey", is_public_key)?;
        let (name, labels) = (fields.text("name", is_keypair_name)?, fields.labels()?);
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| crate::cloud::uuid(&self.chance));
        if self.keypairs.contains_key(&name) {
            return Err(Refusal::conflict(format!("the keypair {name} is already there")));
        }
        self.put_keypair(&name, public_key, labels, now);
        let keypair = self.keypair(&name, now)?;
        answer(StatusCode::CREATED, show(&name, keypair))
    }

    pub(super) fn update_keypair(&mut self, name: &str, call: &Call, now: Timestamp) -> Outcome {
        let labels = Fields::of(call.body.as_ref())?.label_changes()?;
        let keypair = self.keypair(name, now)?;
        change_labels(&mut keypair.labels, labels);
        keypair.updated_at = now;
        self.get_keypair(name, now)
    }

    pub(super) fn delete_keypair(&mut self, name: &str, now: Timestamp) -> Outcome {
        self.keypair(name, now)?;
        self.keypairs.remove(name);
        done()
    }
}

//! How the simulated cloud behaves: times, switches for what nobody outside STACKIT knows, and limits.

use crate::cloud::settings::{self, fits, seconds};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How the cloud behaves. As JSON, durations are seconds and names are in camel case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// From the create call until the server is `ACTIVE`.
    #[serde(with = "seconds")]
    pub boot_time: Duration,
    /// From the delete call until the server is gone.
    #[serde(with = "seconds")]
    pub delete_time: Duration,
    /// How long every other change of a server takes: stop, start, reboot, resize, rescue.
    #[serde(with = "seconds")]
    pub change_time: Duration,
    /// How long a volume is `CREATING` or `DELETING`.
    #[serde(with = "seconds")]
    pub volume_time: Duration,
    /// Up to this much is added to boot and delete times, drawn by chance.
    #[serde(with = "seconds")]
    pub jitter: Duration,
    /// How long a new server is missing from lists.
    #[serde(with = "seconds")]
    pub list_lag: Duration,
    /// How long a server that is gone is still in lists.
    #[serde(with = "seconds")]
    pub gone_lag: Duration,
    /// `label_selector` has no effect.
    pub ignores_selector: bool,
    /// What a `label_selector` may look like.
    pub selector_grammar: SelectorGrammar,
    /// What a create call with `networking: {}` leads to.
    pub empty_networking: EmptyNetworking,
    /// If not empty, these bearer tokens are let in, and calls without a token are not.
    pub tokens: BTreeSet<String>,
    /// Calls need a token, also when `tokens` is empty: one of the token endpoint's.
    pub require_token: bool,
    /// How long a token of the token endpoint is valid.
    #[serde(with = "seconds")]
    pub token_life: Duration,
    /// The tokens of a revoked key are worth nothing at once, not only when they expire.
    pub revoked_at_once: bool,
    /// Servers of these names end in `ERROR`.
    pub fails: BTreeSet<String>,
    /// Servers of these names end in `ERROR` with this message. A `*` at the end stands for any rest.
    pub errors: BTreeMap<String, String>,
    /// Servers of these names never leave `DELETING`. A `*` at the end stands for any rest.
    pub stuck_deleting: BTreeSet<String>,
    /// How many servers find a host, by machine type, by zone, or `*` for all of them; one more ends in
    /// `ERROR` for want of a host.
    pub capacity: BTreeMap<String, usize>,
    /// Limits of a project in a region by the API's names for them, `vcpu` for example.
    pub quotas: BTreeMap<String, i64>,
    /// The status of a create call that goes beyond a quota.
    pub quota_status: u16,
    /// Only what is in here exists. Without one, every well-formed id does.
    pub catalogue: Option<Catalogue>,
    /// The region of the API's first version, whose paths name none.
    pub region_of_v1: String,
    /// From `ACTIVE` until the node registers.
    #[serde(with = "seconds")]
    pub join_time: Duration,
    /// A server whose user data carries no bootstrap token becomes a node all the same.
    pub joins_without_token: bool,
    /// Servers whose label `*/cluster` names one of these are nodes of other clusters than this one.
    pub other_clusters: BTreeSet<String>,
    /// What the console of a server of this name shows, instead of a boot that went well.
    pub consoles: BTreeMap<String, String>,
    /// Servers of these names have no id in lists.
    pub without_id: BTreeSet<String>,
    /// Servers tell when they were launched.
    pub tells_launch: bool,
    /// Who asks for the server with one of these ids is told of another one.
    pub mistaken: BTreeMap<String, String>,
    /// The attachments of servers in one of these statuses cannot be changed, `CREATING` for example.
    pub fixed_attachments: BTreeSet<String>,
    /// Servers do not tell whether their boot volumes go with them; their attachments do.
    pub silent_boot_volumes: bool,
    /// Servers that are gone but still in lists are `DELETED` there, and not as they were at the end.
    pub ghosts_are_deleted: bool,
    /// Who asks for a server that is gone but still in lists is shown it, too.
    pub ghosts_answer: bool,
    /// Who orders a server of one of these names is told of the one with this id.
    pub answers_about: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            boot_time: Duration::from_secs(2),
            delete_time: Duration::from_secs(1),
            change_time: Duration::from_secs(2),
            volume_time: Duration::from_secs(1),
            jitter: Duration::ZERO,
            list_lag: Duration::ZERO,
            gone_lag: Duration::ZERO,
            ignores_selector: false,
            selector_grammar: SelectorGrammar::Equality,
            empty_networking: EmptyNetworking::Refused,
            tokens: BTreeSet::new(),
            require_token: false,
            token_life: Duration::from_secs(3600),
            revoked_at_once: true,
            fails: BTreeSet::new(),
            errors: BTreeMap::new(),
            stuck_deleting: BTreeSet::new(),
            capacity: BTreeMap::new(),
            quotas: BTreeMap::new(),
            quota_status: 403,
            catalogue: None,
            region_of_v1: "eu01".to_owned(),
            join_time: Duration::from_secs(1),
            joins_without_token: false,
            other_clusters: BTreeSet::new(),
            consoles: BTreeMap::new(),
            without_id: BTreeSet::new(),
            tells_launch: true,
            mistaken: BTreeMap::new(),
            fixed_attachments: BTreeSet::new(),
            silent_boot_volumes: false,
            ghosts_are_deleted: false,
            ghosts_answer: false,
            answers_about: BTreeMap::new(),
        }
    }
}

/// What a `label_selector` may look like; the API's documentation does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SelectorGrammar {
    /// `key=value` with commas between them, nothing else.
    Equality,
    /// As Kubernetes has it: also `!=`, `==`, `in`, `notin`, `key` and `!key`.
    Kubernetes,
}

/// What `networking: {}` leads to; strictly it matches both variants of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EmptyNetworking {
    /// The call is refused.
    Refused,
    /// The server has no NIC.
    WithoutNic,
    /// The server has a NIC in the project's default network.
    DefaultNetwork,
}

/// What exists, if not everything does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Catalogue {
    pub machine_types: Vec<MachineType>,
    /// Names by id.
    pub images: BTreeMap<String, String>,
    /// Names by id.
    pub networks: BTreeMap<String, String>,
    pub keypairs: BTreeSet<String>,
    pub availability_zones: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MachineType {
    pub name: String,
    pub vcpus: i64,
    /// In MB.
    pub ram: i64,
    /// In GB.
    #[serde(default)]
    pub disk: i64,
}

impl Settings {
    /// Changes settings as JSON names them; what is not named stays. On an error nothing is changed.
    pub fn merge(&mut self, changes: &Value) -> Result<(), String> {
        *self = settings::merged(self, changes)?;
        Ok(())
    }

    /// One setting as a command line has it, `listLag=10` for example. The value is JSON, or else a text.
    pub fn assign(&mut self, text: &str) -> Result<(), String> {
        self.merge(&settings::assignment(text)?)
    }

    /// The message with which a server of this name fails, if it does.
    pub(super) fn error_of(&self, name: &str) -> Option<String> {
        let listed = self.errors.iter().find(|(pattern, _)| fits(pattern, name));
        let plain =
            || self.fails.contains(name).then(|| "the hypervisor could not start the server".to_owned());
        listed.map(|(_, message)| message.clone()).or_else(plain)
    }

    pub(super) fn sticks(&self, name: &str) -> bool {
        self.stuck_deleting.iter().any(|pattern| fits(pattern, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_json_and_are_assigned_one_by_one() {
        let mut settings = Settings::default();
        settings.assign("listLag=2.5").unwrap();
        settings.assign("emptyNetworking=withoutNic").unwrap();
        settings.assign(r#"errors={"m-*":"No valid host was found"}"#).unwrap();
        assert_eq!(settings.list_lag, Duration::from_millis(2500));
        assert_eq!(settings.empty_networking, EmptyNetworking::WithoutNic);
        assert_eq!(settings.error_of("m-7").as_deref(), Some("No valid host was found"));
        assert_eq!(settings.error_of("n-7"), None);
        let before = settings.clone();
        for wrong in ["listLag", "listLag=soon", "listLag=-1", "lisTlag=1", "selectorGrammar=sql"] {
            let error = settings.assign(wrong).unwrap_err();
            assert!(!error.is_empty() && settings == before, "{wrong}");
        }
    }
}

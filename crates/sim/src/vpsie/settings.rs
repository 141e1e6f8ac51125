//! How the simulated VPSie behaves: times, switches for what nobody outside VPSie knows, and limits.

use super::catalogue::Catalogue;
use crate::cloud::settings::{self, fits, seconds};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How the cloud behaves. As JSON, durations are seconds and names are in camel case. A pattern is a name whose last
/// character may be a `*`, which stands for any rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// From the answer to a create call until the VPS is in the pending queue.
    #[serde(with = "seconds")]
    pub queue_lag: Duration,
    /// How long it is there.
    #[serde(with = "seconds")]
    pub queue_time: Duration,
    /// From the end of that until it is in the list.
    #[serde(with = "seconds")]
    pub list_gap: Duration,
    /// From then until it runs.
    #[serde(with = "seconds")]
    pub boot_time: Duration,
    /// From the delete call until it is off and shown with `is_deleted`.
    #[serde(with = "seconds")]
    pub delete_time: Duration,
    /// How long it is shown so.
    #[serde(with = "seconds")]
    pub deleted_time: Duration,
    /// How long one that is gone is still in lists.
    #[serde(with = "seconds")]
    pub gone_lag: Duration,
    /// How long stop, start and restart take.
    #[serde(with = "seconds")]
    pub change_time: Duration,
    /// Up to this much is added to each of these times, drawn by chance.
    #[serde(with = "seconds")]
    pub jitter: Duration,
    /// From running until the node registers.
    #[serde(with = "seconds")]
    pub join_time: Duration,

    /// If not empty, these API keys are let in, and calls without a credential are not.
    pub tokens: BTreeSet<String>,
    /// The same for client ids, with their secrets.
    pub clients: BTreeMap<String, String>,
    /// Calls need a credential, also when `tokens` and `clients` are empty.
    pub require_token: bool,
    /// In which header an API key may come.
    pub key_header: KeyHeader,
    /// How long a token lives that was got for a client's id and secret.
    #[serde(with = "seconds")]
    pub token_life: Duration,
    /// What the answer with such a token looks like.
    pub token_answer: TokenAnswer,
    /// The tokens of a revoked client are worth nothing at once, not only when they expire.
    pub revoked_at_once: bool,
    /// So many calls a minute per credential are answered, the others with 429; 0 for no limit.
    pub requests_per_minute: usize,
    /// An answer with 429 says when to come again.
    pub tells_retry_after: bool,

    /// Errors come with HTTP 200, and only the body says that they are errors.
    pub errors_with_200: bool,
    /// So it is for what is not found.
    pub missing_with_200: bool,
    /// Under which key lists say how much there is.
    pub total: Total,
    /// What a create call is answered with.
    pub create_answer: CreateAnswer,
    /// The pending queue shows notes.
    pub queue_has_notes: bool,
    /// A VPS can be asked for by its number, too.
    pub numeric_ids: bool,
    /// There is a list of VPSie's own images.
    pub lists_images: bool,
    /// Lists show hostnames with capitals.
    pub capital_hostnames: bool,
    /// A create call that does not say so gives a public address.
    pub public_by_default: bool,
    /// Only what is stopped can be deleted.
    pub delete_needs_stop: bool,
    /// What a delete call must have as its password.
    pub delete_password: Option<String>,

    /// How many VPSs there may be.
    pub max_vms: Option<usize>,
    /// How many workers a managed cluster may have.
    pub max_workers: Option<usize>,
    /// What is said to a create call beyond `maxVms`, and with which status.
    pub quota_message: String,
    pub quota_status: u16,
    /// Plans of which none is left, by pattern, for one datacenter as `plan@datacenter`.
    pub sold_out: BTreeSet<String>,
    /// What comes of wanting one.
    pub sold_out_answer: SoldOut,

    /// A create call for one of these hostnames (patterns) is answered, and nothing comes of it.
    pub never_appears: BTreeSet<String>,
    /// They never leave the queue.
    pub stuck_in_queue: BTreeSet<String>,
    /// They are in the list and never run.
    pub never_boots: BTreeSet<String>,
    /// They run, and no node comes of it.
    pub never_joins: BTreeSet<String>,
    /// Their deletion is answered, and they stay.
    pub stuck_deleting: BTreeSet<String>,

    /// What there is.
    pub catalogue: Catalogue,
    /// Everything in the catalogue has its name for an identifier, as the examples of the reference have it.
    pub plain_identifiers: bool,

    /// A VPS whose user data has no bootstrap token becomes a node all the same.
    pub joins_without_token: bool,
    /// What the machine itself takes of the memory of its plan, as a share.
    pub kernel_share: f64,
    /// What the kubelet keeps from pods, in thousandths of a core and in MiB.
    pub reserved_cpu: u64,
    pub reserved_memory: u64,
    /// How much memory, in MiB, a guest sees of a plan of category A; nothing for all of it.
    pub ballooned_memory: Option<u64>,

    /// What adding a worker to a managed cluster is answered with.
    pub worker_answer: WorkerAnswer,
    /// What a managed cluster's nodes look like.
    pub node_shape: NodeShape,
    /// Nodes of managed clusters have a provider id and labels that say of what they are part.
    pub worker_hints: bool,
    /// Managed clusters whose nodes are not nodes of this one, by name.
    pub other_clusters: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queue_lag: Duration::from_secs(1),
            queue_time: Duration::from_secs(2),
            list_gap: Duration::from_secs(1),
            boot_time: Duration::from_secs(2),
            delete_time: Duration::from_secs(1),
            deleted_time: Duration::from_secs(2),
            gone_lag: Duration::ZERO,
            change_time: Duration::from_secs(2),
            jitter: Duration::ZERO,
            join_time: Duration::from_secs(1),
            tokens: BTreeSet::new(),
            clients: BTreeMap::new(),
            require_token: false,
            key_header: KeyHeader::VpsieAuth,
            token_life: Duration::from_secs(3600),
            token_answer: TokenAnswer::AccessToken,
            revoked_at_once: true,
            requests_per_minute: 100,
            tells_retry_after: false,
            errors_with_200: false,
            missing_with_200: true,
            total: Total::Plain,
            create_answer: CreateAnswer::Truth,
            queue_has_notes: true,
            numeric_ids: false,
            lists_images: true,
            capital_hostnames: false,
            public_by_default: false,
            delete_needs_stop: false,
            delete_password: None,
            max_vms: None,
            max_workers: None,
            quota_message: "VM quota exceeded".to_owned(),
            quota_status: 400,
            sold_out: BTreeSet::new(),
            sold_out_answer: SoldOut::Refused,
            never_appears: BTreeSet::new(),
            stuck_in_queue: BTreeSet::new(),
            never_boots: BTreeSet::new(),
            never_joins: BTreeSet::new(),
            stuck_deleting: BTreeSet::new(),
            catalogue: Catalogue::default(),
            plain_identifiers: false,
            joins_without_token: false,
            kernel_share: 0.03,
            reserved_cpu: 100,
            reserved_memory: 356,
            ballooned_memory: None,
            worker_answer: WorkerAnswer::Truth,
            node_shape: NodeShape::Roles,
            worker_hints: false,
            other_clusters: BTreeSet::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KeyHeader {
    /// `Vpsie-Auth`.
    VpsieAuth,
    /// `Authorization`, after `Bearer`.
    Bearer,
    Both,
}

/// Two clients have seen two answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TokenAnswer {
    /// `{accessToken: {token, expires}, refreshToken: …}`.
    AccessToken,
    /// `{error, token: {access: {token, expires}, refresh: …}}`.
    Token,
    /// The first one without `expires`.
    WithoutExpiry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Total {
    Plain,
    /// As `"total "`, with a space.
    WithSpace,
    Missing,
}

impl Total {
    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Self::Plain => Some("total"),
            Self::WithSpace => Some("total "),
            Self::Missing => None,
        }
    }
}

/// No client reads the answer, so nobody knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CreateAnswer {
    /// `data: true`.
    Truth,
    /// No data.
    Done,
    /// 204.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SoldOut {
    /// The create call is refused.
    Refused,
    /// So it is, and the plan is not among a datacenter's plans.
    Unlisted,
    /// The create call is taken; after its time in the queue nothing is left of the VPS.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkerAnswer {
    /// `data: true`.
    Truth,
    /// With the worker's id and hostname.
    Object,
}

/// Two clients have seen two shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeShape {
    /// In `masters` and `slaves`, with identifiers.
    Roles,
    /// In `nodes`, with numbers.
    Numbers,
    /// In `nodes`, with both.
    Union,
}

impl Settings {
    /// Changes settings as JSON names them; what is not named stays. On an error nothing is changed.
    pub fn merge(&mut self, changes: &Value) -> Result<(), String> {
        let changed = settings::merged(self, changes)?;
        if let Some(problem) = changed.problem() {
            return Err(problem);
        }
        *self = changed;
        Ok(())
    }

    /// One setting as a command line has it, `listGap=10` for example. The value is JSON, or else a text.
    pub fn assign(&mut self, text: &str) -> Result<(), String> {
        self.merge(&settings::assignment(text)?)
    }

    fn problem(&self) -> Option<String> {
        if !(0.0..1.0).contains(&self.kernel_share) {
            return Some("kernelShare: it must be at least 0 and less than 1".to_owned());
        }
        if !(400..=599).contains(&self.quota_status) {
            return Some("quotaStatus: it must lie between 400 and 599".to_owned());
        }
        self.catalogue.problem()
    }

    /// Whether nothing is left of a plan in a datacenter.
    pub(super) fn is_sold_out(&self, plan: [&str; 2], datacenter: [&str; 2]) -> bool {
        self.sold_out.iter().any(|pattern| {
            let (of, at) = pattern.split_once('@').unwrap_or((pattern, "*"));
            plan.iter().any(|name| fits(of, name)) && datacenter.iter().any(|name| fits(at, name))
        })
    }
}

pub(super) fn one_fits(patterns: &BTreeSet<String>, name: &str) -> bool {
    patterns.iter().any(|pattern| fits(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_json_and_are_assigned_one_by_one() {
        let mut settings = Settings::default();
        for text in ["listGap=2.5", "tokenAnswer=token", r#"soldOut=["small*@dc-1"]"#, "maxVms=3"] {
            settings.assign(text).unwrap();
        }
        assert_eq!(settings.list_gap, Duration::from_millis(2500));
        assert_eq!((settings.token_answer, settings.max_vms), (TokenAnswer::Token, Some(3)));
        let before = settings.clone();
        for wrong in ["listGap", "listGap=soon", "listGap=-1", "gap=1", "kernelShare=1", "quotaStatus=200"] {
            let error = settings.assign(wrong).unwrap_err();
            assert!(!error.is_empty() && settings == before, "{wrong}");
        }
    }

    #[test]
    fn plans_are_sold_out_everywhere_or_in_one_datacenter() {
        let sold_out = ["small*@dc-1".to_owned(), "large".to_owned()].into();
        let settings = Settings { sold_out, ..Settings::default() };
        let cases = [
            ("small-1", "dc-1", true),
            ("small-1", "dc-2", false),
            ("large", "dc-2", true),
            ("largest", "dc-1", false),
        ];
        for (plan, datacenter, expected) in cases {
            assert_eq!(settings.is_sold_out([plan, "x"], ["y", datacenter]), expected, "{plan} {datacenter}");
        }
    }
}

//! The file that says what can be bought, and NodeGroup manifests.

use anyhow::anyhow;
use hostler_planner::model::{
    Consolidation, Group, Node, Offering, Price, Resources, ScaleDownPolicy, ScaleUpPolicy,
};
use hostler_snapshot::{Fault, exact, taint};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Hours of a month, as clouds count them.
const HOURS: i64 = 730;

/// Everything that was read, in its order.
#[derive(Default)]
pub struct Catalogue {
    offerings: Vec<OfferingText>,
    groups: Vec<GroupText>,
    limits: BTreeMap<String, Amount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    offerings: Vec<OfferingText>,
    #[serde(default)]
    groups: Vec<GroupText>,
    #[serde(default)]
    limits: BTreeMap<String, Amount>,
}

/// A quantity: people write it as text or as a number.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Amount {
    Whole(i64),
    Broken(f64),
    Text(String),
}

impl Amount {
    fn exact(&self, digits: u32) -> Result<i64, Fault> {
        match self {
            Self::Whole(number) => exact(&number.to_string(), digits),
            // The shortest text that is this number is what was written.
            Self::Broken(number) => exact(&number.to_string(), digits),
            Self::Text(text) => exact(text, digits),
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfferingText {
    name: String,
    cpu: Amount,
    memory: Amount,
    ephemeral_storage: Option<Amount>,
    pods: Option<Amount>,
    #[serde(default)]
    extended: BTreeMap<String, Amount>,
    monthly: Option<Amount>,
    hourly: Option<Amount>,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    attach_limits: BTreeMap<String, i64>,
    #[serde(default = "yes")]
    available: bool,
    /// What a node is known to have, where the margin is not good enough.
    allocatable: Option<BTreeMap<String, Amount>>,
}

fn yes() -> bool {
    true
}

/// A group, with the names of a NodeGroup's specification and a few more.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GroupText {
    name: String,
    #[serde(default)]
    min_nodes: u32,
    max_nodes: u32,
    #[serde(rename = "offeringIDs")]
    offering_ids: Vec<String>,
    preferred_instance_type: Option<String>,
    #[serde(default)]
    allow_mixed_instances: bool,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    startup_taints: Vec<Taint>,
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    #[serde(default)]
    zones: Vec<String>,
    #[serde(default)]
    limits: BTreeMap<String, Amount>,
    #[serde(default)]
    scale_up_policy: UpText,
    #[serde(default)]
    scale_down_policy: DownText,
    #[serde(default)]
    consolidation_policy: ConsolidationText,
    #[serde(default)]
    paused: bool,
    #[serde(skip)]
    last_scaled: Option<i64>,
    #[serde(skip)]
    last_scaled_down: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct UpText {
    enabled: Option<bool>,
    stabilization_window_seconds: Option<i64>,
    cpu_threshold: Option<i64>,
    memory_threshold: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DownText {
    enabled: Option<bool>,
    stabilization_window_seconds: Option<i64>,
    cpu_threshold: Option<i64>,
    memory_threshold: Option<i64>,
    unneeded_time: Option<i64>,
    cooldown_seconds: Option<i64>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsolidationText {
    enabled: Option<bool>,
    minimum_saving_percent: Option<i64>,
    monthly_saving_per_pod: Option<Amount>,
    hourly_saving_per_pod: Option<Amount>,
}

impl From<&UpText> for ScaleUpPolicy {
    fn from(text: &UpText) -> Self {
        let usual = Self::default();
        Self {
            enabled: text.enabled.unwrap_or(usual.enabled),
            window: text.stabilization_window_seconds.unwrap_or(usual.window),
            cpu_threshold: text.cpu_threshold.unwrap_or(usual.cpu_threshold),
            memory_threshold: text.memory_threshold.unwrap_or(usual.memory_threshold),
        }
    }
}

impl From<&DownText> for ScaleDownPolicy {
    fn from(text: &DownText) -> Self {
        let usual = Self::default();
        Self {
            enabled: text.enabled.unwrap_or(usual.enabled),
            window: text.stabilization_window_seconds.unwrap_or(usual.window),
            cpu_threshold: text.cpu_threshold.unwrap_or(usual.cpu_threshold),
            memory_threshold: text.memory_threshold.unwrap_or(usual.memory_threshold),
            unneeded_time: text.unneeded_time.unwrap_or(usual.unneeded_time),
            cooldown: text.cooldown_seconds.unwrap_or(usual.cooldown),
        }
    }
}

/// What is taken from a NodeGroup; the rest of it is about servers, not about a plan.
const OF_A_MANIFEST: [&str; 10] = [
    "minNodes",
    "maxNodes",
    "offeringIDs",
    "preferredInstanceType",
    "allowMixedInstances",
    "labels",
    "taints",
    "scaleUpPolicy",
    "scaleDownPolicy",
    "consolidationPolicy",
];
const PAUSE: &str = "autoscaler.vpsie.com/pause";
const MINIMUM: &str = "autoscaler.vpsie.com/min-nodes-override";
const MAXIMUM: &str = "autoscaler.vpsie.com/max-nodes-override";

type Told<T> = Result<T, String>;

impl Catalogue {
    /// Takes a file of groups, a NodeGroup or a list of them.
    pub fn add(&mut self, document: Value) -> Told<()> {
        let Some(kind) = document.get("kind").and_then(Value::as_str) else {
            let file: File = serde_json::from_value(document).map_err(|error| error.to_string())?;
            self.offerings.extend(file.offerings);
            self.groups.extend(file.groups);
            self.limits.extend(file.limits);
            return Ok(());
        };
        match kind {
            "NodeGroup" => {
                let group = manifest(&document)?;
                self.groups.push(group);
            }
            "List" | "NodeGroupList" => {
                for item in document.get("items").and_then(Value::as_array).into_iter().flatten() {
                    self.add(item.clone())?;
                }
            }
            other => return Err(format!("a {other} is no group")),
        }
        Ok(())
    }

    pub fn limits(&self) -> anyhow::Result<BTreeMap<String, i64>> {
        amounts(&self.limits).map_err(|fault| anyhow!("limits: {fault}"))
    }

    pub fn groups(&self) -> Told<Vec<Group>> {
        let mut offerings: BTreeMap<&str, Vec<Offering>> = BTreeMap::new();
        for text in &self.offerings {
            let made = offering(text).map_err(|fault| format!("offering {}: {fault}", text.name))?;
            if offerings.insert(&text.name, made).is_some() {
                return Err(format!("offering {} is there twice", text.name));
            }
        }
        let mut groups: Vec<Group> = Vec::new();
        for text in &self.groups {
            let made = group(text, &offerings).map_err(|fault| format!("group {}: {fault}", text.name))?;
            if groups.iter().any(|other| other.name == made.name) {
                return Err(format!("group {} is there twice", made.name));
            }
            groups.push(made);
        }
        Ok(groups)
    }

    /// Says of a node to which group it belongs and what it is.
    pub fn settle(&self, node: &mut Node) {
        let has = |group: &&GroupText| {
            !group.node_selector.is_empty()
                && group.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        };
        if let Some(group) = self.groups.iter().find(has) {
            node.group = Some(group.name.clone());
        }
        let group = self.groups.iter().find(|group| Some(&group.name) == node.group.as_ref());
        // A group that buys one type has no others.
        if let (None, Some(group)) = (&node.offering, group)
            && let [only] = group.offering_ids.as_slice()
        {
            node.offering = Some(only.clone());
        }
    }
}

fn manifest(document: &Value) -> Told<GroupText> {
    let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let fault = |error: &dyn std::fmt::Display| format!("NodeGroup {name}: {error}");
    let mut fields: Map<String, Value> = document
        .get("spec")
        .and_then(Value::as_object)
        .ok_or_else(|| fault(&"spec is missing"))?
        .iter()
        .filter(|(field, value)| OF_A_MANIFEST.contains(&field.as_str()) && !value.is_null())
        .map(|(field, value)| (field.clone(), value.clone()))
        .collect();
    fields.insert("name".to_owned(), name.into());
    let mut group: GroupText = serde_json::from_value(fields.into()).map_err(|error| fault(&error))?;
    let annotations = document.pointer("/metadata/annotations");
    let annotation = |key: &str| annotations.and_then(|all| all.get(key)).and_then(Value::as_str);
    group.paused = annotation(PAUSE) == Some("true");
    for (key, number) in [(MINIMUM, &mut group.min_nodes), (MAXIMUM, &mut group.max_nodes)] {
        if let Some(text) = annotation(key) {
            *number = text.parse().map_err(|_| fault(&format!("{key}: {text:?} is no number")))?;
        }
    }
    let status = |field: &str| -> Told<Option<i64>> {
        let text = document.get("status").and_then(|status| status.get(field)).and_then(Value::as_str);
        let time: Option<Timestamp> =
            text.map(str::parse).transpose().map_err(|error| fault(&format!("status.{field}: {error}")))?;
        Ok(time.map(Timestamp::as_second))
    };
    group.last_scaled = status("lastScaleTime")?;
    // Not every NodeGroup tells the two apart.
    group.last_scaled_down = status("lastScaleDownTime")?.or(group.last_scaled);
    Ok(group)
}

/// Of everything but CPU whole units.
fn digits(name: &str) -> u32 {
    if name == "cpu" { 3 } else { 0 }
}

fn amounts(list: &BTreeMap<String, Amount>) -> Result<BTreeMap<String, i64>, String> {
    list.iter()
        .map(|(name, amount)| {
            let amount = amount.exact(digits(name)).map_err(|fault| format!("{name}: {fault}"))?;
            Ok((name.clone(), amount))
        })
        .collect()
}

fn resources(list: &BTreeMap<String, Amount>) -> Result<Resources, String> {
    let mut extended = amounts(list)?;
    let mut take = |name: &str| extended.remove(name).unwrap_or_default();
    let (cpu, memory, ephemeral_storage, pods) =
        (take("cpu"), take("memory"), take("ephemeral-storage"), take("pods"));
    Ok(Resources { cpu, memory, ephemeral_storage, pods, extended })
}

/// Per hour, in billionths; none if neither is given.
fn hourly(monthly: Option<&Amount>, hourly: Option<&Amount>) -> Result<Option<Price>, String> {
    let exactly = |amount: &Amount| amount.exact(9).map_err(|fault| format!("price: {fault}"));
    match (monthly, hourly) {
        (Some(monthly), None) => Ok(Some((exactly(monthly)? + HOURS / 2) / HOURS)),
        (None, Some(hourly)) => exactly(hourly).map(Some),
        (Some(_), Some(_)) => Err("has a monthly and an hourly price".to_owned()),
        (None, None) => Ok(None),
    }
}

fn price(text: &OfferingText) -> Result<Price, String> {
    hourly(text.monthly.as_ref(), text.hourly.as_ref())?
        .ok_or_else(|| "has neither a monthly nor an hourly price".to_owned())
}

fn consolidation(text: &ConsolidationText) -> Result<Consolidation, String> {
    let usual = Consolidation::default();
    let saving = hourly(text.monthly_saving_per_pod.as_ref(), text.hourly_saving_per_pod.as_ref())?;
    let percent = text.minimum_saving_percent.unwrap_or(usual.minimum_saving);
    if !(0..=100).contains(&percent) {
        return Err(format!("minimumSavingPercent {percent} is not between 0 and 100"));
    }
    Ok(Consolidation {
        enabled: text.enabled.unwrap_or(usual.enabled),
        minimum_saving: percent,
        saving_per_pod: saving.unwrap_or(usual.saving_per_pod),
        ..usual
    })
}

/// One for each zone.
fn offering(text: &OfferingText) -> Result<Vec<Offering>, String> {
    let mut size = text.extended.clone();
    size.insert("cpu".to_owned(), text.cpu.clone());
    size.insert("memory".to_owned(), text.memory.clone());
    size.extend(text.ephemeral_storage.clone().map(|amount| ("ephemeral-storage".to_owned(), amount)));
    size.extend(text.pods.clone().map(|amount| ("pods".to_owned(), amount)));
    let one = Offering {
        name: text.name.clone(),
        zone: None,
        capacity: resources(&size)?,
        allocatable: text
            .allocatable
            .as_ref()
            .map(resources)
            .transpose()
            .map_err(|fault| format!("allocatable: {fault}"))?,
        price: price(text)?,
        available: text.available,
        labels: text.labels.clone(),
        attach_limits: text.attach_limits.clone(),
    };
    if text.zones.is_empty() {
        return Ok(vec![one]);
    }
    Ok(text.zones.iter().map(|zone| Offering { zone: Some(zone.clone()), ..one.clone() }).collect())
}

fn taints(list: &[Taint]) -> Result<Vec<hostler_planner::model::Taint>, String> {
    list.iter().map(taint).collect::<Result<_, _>>().map_err(|fault| format!("taints: {fault}"))
}

fn group(text: &GroupText, known: &BTreeMap<&str, Vec<Offering>>) -> Result<Group, String> {
    let mut offerings = Vec::new();
    for name in &text.offering_ids {
        let all = known.get(name.as_str()).ok_or_else(|| {
            let names: Vec<&str> = known.keys().copied().collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            format!("offering {name} is not known, there are: {names}")
        })?;
        let here = |offering: &&Offering| {
            text.zones.is_empty() || offering.zone.as_ref().is_none_or(|zone| text.zones.contains(zone))
        };
        offerings.extend(all.iter().filter(here).cloned());
    }
    if text.min_nodes > text.max_nodes {
        return Err(format!("minNodes {} exceeds maxNodes {}", text.min_nodes, text.max_nodes));
    }
    if let Some(preferred) = text.preferred_instance_type.as_ref().filter(|name| !name.is_empty())
        && !text.offering_ids.contains(preferred)
    {
        return Err(format!("preferredInstanceType {preferred} is none of its offeringIDs"));
    }
    Ok(Group {
        name: text.name.clone(),
        min: text.min_nodes,
        max: text.max_nodes,
        labels: text.labels.clone(),
        taints: taints(&text.taints)?,
        startup_taints: taints(&text.startup_taints)?,
        offerings,
        preferred: text.preferred_instance_type.clone().filter(|name| !name.is_empty()),
        mixing: text.allow_mixed_instances,
        limits: amounts(&text.limits).map_err(|fault| format!("limits: {fault}"))?,
        scale_up: (&text.scale_up_policy).into(),
        scale_down: (&text.scale_down_policy).into(),
        consolidation: consolidation(&text.consolidation_policy)
            .map_err(|fault| format!("consolidationPolicy: {fault}"))?,
        paused: text.paused,
        last_scale_up: text.last_scaled,
        last_scale_down: text.last_scaled_down,
        ..Group::default()
    })
}

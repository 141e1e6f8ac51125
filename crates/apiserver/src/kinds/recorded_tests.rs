//! What a real server (1.36.3) answered to these objects, and that the same comes of them here. `uid`s,
//! versions, times and allocated addresses are masked; what stands behind a line break in a message (a
//! difference in Go's notation) is left out.

use super::{kind, metadata};
use crate::{
    admission::{self, Operation},
    contract::{Attributes, Context, GroupResource, Lookup, User},
    error::ApiError,
    types,
};
use hostler_base::{Chance, Clock};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};

const RECORDED: &str = include_str!("recorded.json");

/// The objects that are there from the start, by resource and name.
struct Shelf(BTreeMap<(String, String), Arc<Value>>);

impl Shelf {
    fn of_a_new_cluster() -> Self {
        let mut shelf = BTreeMap::new();
        let mut put = |resource: &str, object: Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            shelf.insert((resource.to_owned(), name), Arc::new(object));
        };
        put("namespaces", json!({"metadata": {"name": "default"}, "status": {"phase": "Active"}}));
        put(
            "services",
            json!({"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.1"}}),
        );
        for (name, value) in super::plain::SYSTEM_PRIORITIES {
            let class = json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"});
            put("priorityclasses", class);
        }
        Self(shelf)
    }
}

impl Lookup for Shelf {
    fn get(&self, resource: &GroupResource, _namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.get(&(resource.resource.to_string(), name.to_owned())).cloned()
    }

    fn list(&self, resource: &GroupResource, _namespace: &str) -> Vec<Arc<Value>> {
        let of_resource = |(key, object): (&(String, String), &Arc<Value>)| {
            (*key.0 == *resource.resource).then(|| Arc::clone(object))
        };
        self.0.iter().filter_map(of_resource).collect()
    }
}

struct Case<'a> {
    value: &'a Value,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    kind: &'a str,
    namespaced: bool,
}

impl Case<'_> {
    fn attributes(&self) -> Attributes {
        Attributes {
            group: self.group.to_owned(),
            resource: self.resource.to_owned(),
            namespace: if self.namespaced { "default".to_owned() } else { String::new() },
            ..Attributes::default()
        }
    }

    fn decode(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        let api_version = format!("{group}{}", self.version);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(self.kind);
        if self.namespaced {
            object["metadata"]["namespace"] = json!("default");
        }
        let ty = types::kind(&api_version, self.kind).expect("a built-in kind");
        types::decode(ty, object).expect("a well-formed object").object
    }

    fn complete(&self, object: &mut Value) {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let ty = types::kind(api_version, self.kind).expect("a built-in kind");
        types::fill_zero_values(ty, object);
    }

    fn invalid(&self, object: &Value, errors: &[crate::field::FieldError]) -> Result<(), ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(self.group, self.kind, name, errors)) }
    }

    fn create(&self, object: &Value, context: &Context<'_>) -> Result<Value, ApiError> {
        let hooks = kind(self.group, self.resource);
        let mut object = self.decode(object);
        hooks.default(&mut object);
        admission::admit(&self.attributes(), Operation::Create, Some(&mut object), None, context)?;
        object["metadata"]["uid"] = json!("UID");
        hooks.prepare_create(&mut object, context)?;
        if hooks.has_generation() {
            object["metadata"]["generation"] = json!(1);
        }
        self.complete(&mut object);
        let rule = metadata::name_rule(self.group, self.resource);
        let mut errors = metadata::validate_create(&object, self.namespaced, rule);
        errors.extend(hooks.validate(&object));
        self.invalid(&object, &errors)?;
        admission::validate(&self.attributes(), Operation::Create, &object, None, context)?;
        Ok(object)
    }

    fn update(&self, context: &Context<'_>) -> Result<Value, ApiError> {
        let hooks = kind(self.group, self.resource);
        let old = self.create(&self.value["old"], context).expect("the old object is sound");
        let mut new = match self.value["op"].as_str() {
            Some("merge") => {
                let mut new = old.clone();
                json_patch::merge(&mut new, &self.value["object"]);
                self.decode(&new)
            }
            _ => self.decode(&self.value["object"]),
        };
        for field in ["uid", "generation"] {
            if let Some(value) = old["metadata"].get(field) {
                new["metadata"][field] = value.clone();
            }
        }
        hooks.default(&mut new);
        let errors = match self.value["op"].as_str() {
            Some("status") => {
                hooks.prepare_status_update(&mut new, &old, context);
                self.complete(&mut new);
                hooks.validate_status_update(&new, &old)
            }
            Some("approval") => {
                hooks.prepare_subresource_update("approval", &mut new, &old, context);
                self.complete(&mut new);
                hooks.validate_subresource_update("approval", &new, &old)
            }
            _ => {
                let attributes = self.attributes();
                admission::admit(&attributes, Operation::Update, Some(&mut new), Some(&old), context)?;
                hooks.prepare_update(&mut new, &old, context).unwrap();
                self.complete(&mut new);
                let mut errors = metadata::validate_update(&new, &old);
                errors.extend(hooks.validate(&new));
                errors.extend(hooks.validate_update(&new, &old));
                if hooks.has_generation() && hooks.moves_generation(&new, &old) {
                    new["metadata"]["generation"] = json!(2);
                }
                errors
            }
        };
        self.invalid(&new, &errors)?;
        admission::validate(&self.attributes(), Operation::Update, &new, Some(&old), context)?;
        Ok(new)
    }
}

/// What is expected is masked too, so that both sides look the same.
fn masked(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("uid");
    }
    if object["kind"] == "Service" {
        if object["spec"]["clusterIP"].as_str().is_some_and(|address| address != "None") {
            object["spec"]["clusterIP"] = json!("IP");
            object["spec"]["clusterIPs"] = json!(["IP"]);
        }
        for port in object["spec"]["ports"].as_array_mut().into_iter().flatten() {
            if port.get("nodePort").is_some() {
                port["nodePort"] = json!("PORT");
            }
        }
    }
    mask_times(&mut object);
    object
}

fn mask_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                let made_here = ["lastTransitionTime", "lastUpdateTime", "lastPhaseTransitionTime"];
                if made_here.contains(&key.as_str()) && value.is_string() {
                    *value = json!("TIME");
                } else {
                    mask_times(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_times),
        _ => {}
    }
}

fn refusal(error: &ApiError) -> Value {
    let first_line = |text: &str| text.split('\n').next().unwrap_or_default().to_owned();
    let details = error.details.as_deref();
    let mut causes: Vec<Value> = Vec::new();
    for cause in details.map(|details| details.causes.as_slice()).unwrap_or_default() {
        let message: String = first_line(&cause.message).chars().take(600).collect();
        let cause = json!([cause.reason, cause.field, message]);
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    // Go finds the mistakes in a map in any order.
    causes.sort_by_key(Value::to_string);
    let message = if causes.len() > 1 { String::new() } else { first_line(&error.message) };
    json!({ "code": error.code.as_u16(), "reason": error.reason, "message": message, "causes": causes })
}

#[test]
fn objects_are_answered_as_by_a_real_server() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).expect("the recorded answers are JSON");
    let clock = Clock::system();
    let chance = Chance::from_seed(1);
    let user = User {
        name: "admin".to_owned(),
        uid: "admin-uid".to_owned(),
        groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
    };
    let lookup = Shelf::of_a_new_cluster();
    let context = Context { clock: &clock, chance: &chance, user: &user, lookup: &lookup };
    let mut differences = Vec::new();
    for value in &recorded {
        let text = |index: usize| value["resource"][index].as_str().unwrap_or_default();
        let case = Case {
            value,
            group: text(0),
            version: text(1),
            resource: text(2),
            kind: text(3),
            namespaced: value["resource"][4] == true,
        };
        let answer = if value["op"] == "create" {
            case.create(&value["object"], &context)
        } else {
            case.update(&context)
        };
        let found = match answer {
            Ok(object) => masked(object),
            Err(error) => refusal(&error),
        };
        let expected = if value["expect"].get("code").is_some() {
            value["expect"].clone()
        } else {
            masked(value["expect"].clone())
        };
        if found != expected {
            differences.push(format!("{}\n  expected {expected}\n  found    {found}", value["name"]));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {}\n{}",
        differences.len(),
        recorded.len(),
        differences.join("\n")
    );
}

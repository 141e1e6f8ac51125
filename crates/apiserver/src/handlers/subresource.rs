//! Subresources, and the resources that only answer.

use super::{
    Exchange,
    body::{self, Source},
    delete::{self, DeleteOptions},
    json_answer,
    patch::{self, Patch},
    read,
    rules::{self, FieldValidation},
    update::{self, Means, Part},
    view,
};
use crate::{
    access,
    admission::Operation,
    contract::{GroupResource, Lookup},
    error::ApiError,
    field::FieldError,
    kinds, object, service_account,
};
use bytes::Bytes;
use hostler_base::transport::{self, Body};
use http::{Response, StatusCode};
use serde_json::{Value, json};

pub(super) fn answer(exchange: &Exchange<'_>, verb: &str, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let name = exchange.target.subresource.as_str();
    let mut all = exchange.resource.subresources_of(&exchange.target.version);
    let known = all.find(|sub| sub.name == name).ok_or_else(ApiError::no_such_path)?;
    if !known.verbs.contains(&verb) {
        return Err(super::not_allowed());
    }
    match (name, verb) {
        ("attach" | "exec" | "portforward" | "log", _) => no_runtime(exchange),
        ("scale", "get") => scale_answer(exchange, &view_tree(exchange)?),
        ("scale", _) => scale(exchange, verb, bytes),
        ("binding", _) => {
            let dry_run = exchange.query.dry_run("CreateOptions")?;
            let mut binding = read_as(exchange, ("v1", "Binding"), "CreateOptions", bytes)?;
            if object::name(&binding) != exchange.target.name {
                return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
            }
            exchange.admit_named(Operation::Create, &exchange.target.name, Some(&mut binding), None)?;
            bind(exchange, &binding, dry_run)
        }
        ("eviction", _) => evict(exchange, bytes),
        ("token", _) => token(exchange, bytes),
        (_, "get") => read::get(exchange),
        (_, "update") => update::update(exchange, part(name), bytes),
        (_, "patch") => patch::patch(exchange, part(name), bytes),
        _ => Err(super::not_allowed()),
    }
}

/// Reads a body that is to be of this kind, with the words of a real server where it is not.
fn read_as(
    exchange: &Exchange<'_>,
    kind: (&str, &str),
    options: &str,
    bytes: &Bytes,
) -> Result<Value, ApiError> {
    let validation = FieldValidation::read(exchange, options)?;
    let (value, source) = body::decode_strictly(exchange.headers, kind.1, bytes)?;
    rules::decode_as(exchange, kind, value, &source, validation)
}

fn part(name: &str) -> Part {
    if name == "status" { Part::Status } else { Part::Other }
}

fn view_tree(exchange: &Exchange<'_>) -> Result<Value, ApiError> {
    Ok(view::tree(exchange.resource, &exchange.target.version, &*read::find(exchange)?))
}

/// Nodes are simulated: there is nothing to connect to.
fn no_runtime(exchange: &Exchange<'_>) -> Result<Response<Body>, ApiError> {
    let object = view_tree(exchange)?;
    let (what, pod) = (exchange.target.subresource.as_str(), &exchange.target.name);
    if object["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        if what != "log" {
            return Err(ApiError::bad_request(format!("pod {pod} does not have a host assigned")));
        }
        let mut nothing = Response::new(transport::empty());
        *nothing.status_mut() = StatusCode::NO_CONTENT;
        return Ok(nothing);
    }
    Err(ApiError::bad_request(format!(
        "{what} of pod {pod:?} is not possible: the nodes of this cluster are simulated and have no container runtime"
    )))
}

fn scale_of(exchange: &Exchange<'_>, object: &Value) -> Result<Value, ApiError> {
    let resource = exchange.resource;
    if let Some(custom) = &resource.custom {
        let version = custom.kind.version(&exchange.target.version);
        return version.and_then(|version| version.scale()).ok_or_else(ApiError::no_such_path)?.get(object);
    }
    kinds::scale_of(resource.group(), resource.name(), object).ok_or_else(ApiError::no_such_path)
}

const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

fn scale_answer(exchange: &Exchange<'_>, object: &Value) -> Result<Response<Body>, ApiError> {
    Ok(json_answer(StatusCode::OK, &scale_of(exchange, object)?))
}

fn set_scale(exchange: &Exchange<'_>, object: &mut Value, scale: &Value) -> Result<(), ApiError> {
    let resource = exchange.resource;
    update::same_name(exchange, scale)?;
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", replicas, why);
        return Err(ApiError::invalid("autoscaling", "Scale", &exchange.target.name, &[error]));
    }
    if let Some(custom) = &resource.custom {
        let version = custom.kind.version(&exchange.target.version);
        version.and_then(|version| version.scale()).ok_or_else(ApiError::no_such_path)?.set(object, scale)?;
    } else {
        kinds::set_scale(resource.group(), resource.name(), object, scale)?;
    }
    object::set(object, "resourceVersion", scale["metadata"]["resourceVersion"].clone());
    Ok(())
}

fn scale(exchange: &Exchange<'_>, verb: &str, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let stored = if verb == "update" {
        let dry_run = exchange.query.dry_run("UpdateOptions")?;
        let wanted = read_as(exchange, SCALE, "UpdateOptions", bytes)?;
        update::change(exchange, Part::Main, dry_run, Means::Patch, |old| {
            let mut new = old.clone();
            set_scale(exchange, &mut new, &wanted)?;
            Ok(new)
        })?
    } else {
        let dry_run = exchange.query.dry_run("PatchOptions")?;
        let validation = FieldValidation::read(exchange, "PatchOptions")?;
        let patch = Patch::read(exchange.resource, exchange.headers, bytes)?;
        update::change(exchange, Part::Main, dry_run, Means::Patch, |old| {
            let patched = patch.apply(exchange, &scale_of(exchange, old)?)?;
            let mut wanted = patch.blamed(SCALE.1, patched, |patched| {
                rules::decode_as(exchange, SCALE, patched, &Source::default(), validation)
            })?;
            if !patch.names_version() {
                object::set(&mut wanted, "resourceVersion", Value::Null);
            }
            let mut new = old.clone();
            set_scale(exchange, &mut new, &wanted)?;
            Ok(new)
        })?
    };
    scale_answer(exchange, &view::tree(exchange.resource, &exchange.target.version, &stored))
}

/// Gives a pod its node.
fn bind(exchange: &Exchange<'_>, binding: &Value, dry_run: bool) -> Result<Response<Body>, ApiError> {
    let now = exchange.core.clock.now();
    let uid = object::text(binding, "uid").to_owned();
    update::overwrite(exchange, dry_run, |pod| {
        let found = object::text(pod, "uid");
        if !uid.is_empty() && uid != found {
            let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
            return Err(ApiError::conflict("", "pods/binding", &exchange.target.name, &why));
        }
        kinds::bind(pod, binding, now)
    })?;
    Ok(created())
}

/// Deletes a pod as far as its disruption budget allows.
fn evict(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let dry_run = exchange.query.dry_run("CreateOptions")?;
    let validation = FieldValidation::read(exchange, "CreateOptions")?;
    let (mut eviction, source) = body::decode_strictly(exchange.headers, "Eviction", bytes)?;
    if eviction["apiVersion"] == "policy/v1beta1" {
        // The older version, which clients may still send, is the same.
        eviction["apiVersion"] = json!("policy/v1");
    }
    let eviction = rules::decode_as(exchange, ("policy/v1", "Eviction"), eviction, &source, validation)?;
    let name = &exchange.target.name;
    if object::name(&eviction) != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let budgets_id = GroupResource::new("policy", "poddisruptionbudgets");
    // The budget's state is used up under its version; when someone else was faster it is looked at again.
    for _ in 0..5 {
        let pod = view_tree(exchange)?;
        let budgets = exchange.core.list(&budgets_id, &exchange.target.namespace);
        let allowed = kinds::evict(&pod, &eviction, &budgets, exchange.core.clock.now())?;
        let options = DeleteOptions::from_body(&allowed.delete_options)?;
        if dry_run || options.is_dry_run() {
            return Ok(created());
        }
        if let Some(budget) = &allowed.budget
            && !exchange.write_budget(budget)?
        {
            continue;
        }
        if object::text(&allowed.pod, "deletionTimestamp").is_empty() {
            let status = allowed.pod["status"].clone();
            let seen = object::text(&pod, "resourceVersion").to_owned();
            update::overwrite(exchange, false, |pod| {
                if allowed.only_if_unchanged.is_some() && object::text(pod, "resourceVersion") != seen {
                    return Err(kinds::still_processed(
                        allowed.only_if_unchanged.as_deref().unwrap_or_default(),
                    ));
                }
                pod["status"] = status.clone();
                Ok(())
            })?;
        }
        delete::delete_object(exchange, &exchange.target.namespace, name, &options)?;
        return Ok(created());
    }
    Err(ApiError::too_many_requests("couldn't update PodDisruptionBudget due to conflicts", 10))
}

fn created() -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    json_answer(StatusCode::CREATED, &status)
}

/// Gives out a token for a service account.
fn token(exchange: &Exchange<'_>, bytes: &Bytes) -> Result<Response<Body>, ApiError> {
    let mut request =
        read_as(exchange, ("authentication.k8s.io/v1", "TokenRequest"), "CreateOptions", bytes)?;
    let account = view_tree(exchange)?;
    service_account::issue(exchange.core, &account, &mut request)?;
    Ok(json_answer(StatusCode::CREATED, &request))
}

/// Resources that are created only to be answered.
pub(super) fn answer_only(
    exchange: &Exchange<'_>,
    mut object: Value,
    dry_run: bool,
) -> Result<Response<Body>, ApiError> {
    if exchange.resource.name() == "bindings" {
        exchange.admit(Operation::Create, Some(&mut object), None)?;
        let pods = exchange.core.registry.find("", "v1", "pods").ok_or_else(ApiError::no_such_path)?;
        let mut target = exchange.target.clone();
        "pods".clone_into(&mut target.resource);
        object::name(&object).clone_into(&mut target.name);
        let inner = Exchange { target: &target, resource: &pods, ..exchange.again() };
        return bind(&inner, &object, dry_run);
    }
    if exchange.resource.namespaced {
        object::set(&mut object, "namespace", json!(exchange.target.namespace));
    }
    if exchange.resource.name() == "tokenreviews" {
        let asked = object["spec"]["audiences"].as_array().into_iter().flatten();
        let asked: Vec<&str> = asked.filter_map(Value::as_str).collect();
        let token = object["spec"]["token"].as_str().unwrap_or_default();
        object["status"] = match exchange.core.user_for(token, &asked) {
            Ok((user, audiences)) => json!({
                "authenticated": true, "audiences": audiences,
                "user": {"username": user.name, "uid": user.uid, "groups": user.groups},
            }),
            Err(why) => json!({"user": {}, "error": why}),
        };
        return Ok(json_answer(StatusCode::CREATED, &object));
    }
    access::review(exchange.resource.name(), &mut object, exchange.user, &**exchange.core)?;
    Ok(json_answer(StatusCode::CREATED, &object))
}

impl Exchange<'_> {
    /// Writes a budget that an eviction used up; false when it changed meanwhile.
    fn write_budget(&self, budget: &Value) -> Result<bool, ApiError> {
        let resource = self
            .core
            .registry
            .find("policy", "v1", "poddisruptionbudgets")
            .ok_or_else(ApiError::no_such_path)?;
        let mut target = self.target.clone();
        target.group = "policy".to_owned();
        target.resource = resource.name().to_owned();
        target.subresource = "status".to_owned();
        object::name(budget).clone_into(&mut target.name);
        let exchange = Exchange { target: &target, resource: &resource, ..self.again() };
        match update::change(&exchange, Part::Status, false, Means::Patch, |_| Ok(budget.clone())) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

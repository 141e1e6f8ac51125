//! The request path: from an HTTP request to an answer.

mod body;
pub(crate) mod create;
mod delete;
mod impersonate;
mod internal;
mod list_body;
mod patch;
mod read;
mod rules;
mod subresource;
mod update;
mod view;
mod warnings;
mod watch;

use crate::{
    access,
    admission::{self, Operation},
    contract::{Attributes, Context, User},
    crd::CustomVersion,
    crds, discovery,
    error::ApiError,
    extension,
    negotiate::{self, Form},
    object,
    query::Query,
    registry::Resource,
    request::{self, Place, Target},
    selector,
    server::{ApiServer, Core},
    store::Stored,
    table::{self, Include},
};
pub(crate) use internal::Internal;
pub(crate) use rules::refresh;

use bytes::Bytes;
use hostler_base::transport::{self, Body};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use std::{cell::RefCell, sync::Arc};
use update::Part;

/// One request for a resource, on its way through the handlers.
pub(crate) struct Exchange<'a> {
    pub(crate) core: &'a Arc<Core>,
    pub(crate) user: &'a User,
    pub(crate) target: &'a Target,
    pub(crate) resource: &'a Arc<Resource>,
    pub(crate) query: &'a Query,
    pub(crate) form: Form,
    pub(crate) include: Include,
    pub(crate) headers: &'a HeaderMap,
    /// What the answer warns of.
    pub(crate) warnings: RefCell<Vec<String>>,
}

impl Exchange<'_> {
    pub(crate) fn context(&self) -> Context<'_> {
        Context { clock: &self.core.clock, chance: &self.core.chance, user: self.user, lookup: &**self.core }
    }

    /// Another exchange with the same circumstances.
    fn again(&self) -> Self {
        Self { warnings: RefCell::default(), ..*self }
    }

    /// After a write: definitions bring resources along, and wait for the last of their objects.
    fn wrote(&self) {
        let resource = self.resource;
        if rules::is_definition(resource) {
            crds::sync(self.core);
        } else if resource.custom.is_some() {
            // The definition may have changed since this request began.
            match self.core.registry.by_id(&resource.id) {
                None => self.core.store.retire(&resource.shelf),
                Some(now) if now.custom.as_ref().is_some_and(|custom| custom.terminating) => {
                    if self.core.store.is_empty(&resource.shelf) {
                        crds::sync(self.core);
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn attributes(&self, verb: &str, name: &str) -> Attributes {
        let mut attributes = self.target.attributes(verb, "");
        name.clone_into(&mut attributes.name);
        attributes
    }

    /// Lets admission change or refuse the object.
    fn admit(
        &self,
        operation: Operation,
        new: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let name = new.as_deref().or(old).map(object::name).unwrap_or_default().to_owned();
        self.admit_named(operation, &name, new, old)
    }

    fn admit_named(
        &self,
        operation: Operation,
        name: &str,
        new: Option<&mut Value>,
        old: Option<&Value>,
    ) -> Result<(), ApiError> {
        let verb = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        };
        admission::admit(&self.attributes(verb, name), operation, new, old, &self.context())
    }

    fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(self.resource.group(), self.resource.name(), name)
    }

    /// The answer for one object, in the form that was asked for.
    fn object(&self, code: StatusCode, stored: &Stored) -> Response<Body> {
        json_bytes(code, view::one(self, stored))
    }
}

pub(crate) fn json_bytes(code: StatusCode, bytes: Bytes) -> Response<Body> {
    json_body(code, transport::full(bytes))
}

fn json_body(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn json_answer(code: StatusCode, value: &Value) -> Response<Body> {
    json_bytes(code, Bytes::from(value.to_string()))
}

/// What a health check looks at: this server has no parts that could fail on their own.
const CHECKS: [&str; 2] = ["ping", "log"];

fn plain(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(transport::full(text));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn refusal(error: &ApiError) -> Response<Body> {
    let mut response = json_answer(error.code, &error.status());
    let seconds = error.details.as_ref().and_then(|details| details.retry_after_seconds);
    if let Some(seconds) = seconds.filter(|seconds| *seconds > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Open to everyone, as on a real server: whether it lives and what it is.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz" | "/version" | "/version/")
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// Marks an answer that goes on for as long as its reader likes.
#[derive(Clone, Copy)]
pub(crate) struct LongRunning;

/// What answers a request for a resource that was understood and allowed, and whose body was read.
pub(crate) type Answer =
    dyn Fn(&Exchange<'_>, &Attributes, &Bytes) -> Result<Response<Body>, ApiError> + Send + Sync;

/// Finds out who asks by the bearer token, then answers.
pub(crate) async fn with_token(core: Arc<Core>, request: Request<Body>, answer: &Answer) -> Response<Body> {
    let user = match bearer(request.headers()) {
        Some(token) => match core.user_of(&token) {
            Some(user) => user,
            None => return refusal(&ApiError::unauthorized()),
        },
        None => Arc::new(ApiServer::anonymous()),
    };
    handle(core, user, request, answer).await
}

/// Answers one request of a known user.
pub(crate) async fn handle(
    core: Arc<Core>,
    user: Arc<User>,
    request: Request<Body>,
    answer: &Answer,
) -> Response<Body> {
    let user = match impersonate::act_as(&core, &user, request.headers()) {
        Ok(Some(other)) => Arc::new(other),
        Ok(None) => user,
        Err(error) => return refusal(&error),
    };
    let head_only = request.method() == Method::HEAD;
    let mut response = match route(core, user, request, answer).await {
        Ok(response) => response,
        Err(error) => refusal(&error),
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if head_only {
        *response.body_mut() = transport::empty();
    }
    response
}

async fn route(
    core: Arc<Core>,
    user: Arc<User>,
    request: Request<Body>,
    answer: &Answer,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let place = request::place(path).ok_or_else(ApiError::no_such_path)?;
    let group = match &place {
        Place::Group(group) | Place::Version { group, .. } => group.as_str(),
        Place::Resource(target) => target.group.as_str(),
        Place::CoreVersions | Place::Groups | Place::Other => "",
    };
    let extension = core.extensions.of(group);
    let Place::Resource(target) = place else {
        if !is_open(path) {
            let verb = parts.method.as_str().to_lowercase();
            let attributes = Attributes { verb, path: path.to_owned(), ..Attributes::default() };
            permit(&core, &user, &attributes)?;
        }
        if let Some(extension) = extension {
            return extension::forward(&extension, parts, body).await;
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Err(not_allowed());
        }
        return elsewhere(&core, path, &query, &place, &parts.headers);
    };
    let watch = query.flag("watch").unwrap_or(false) && target.name.is_empty();
    let verb = request::verb(&parts.method, &target, watch).ok_or_else(not_allowed)?;
    let mut attributes = target.attributes(verb, path);
    if attributes.name.is_empty() {
        // A list of the one object of this name needs no right to list others.
        attributes.name = selector::selected_name(query.text("fieldSelector")).unwrap_or_default();
    }
    permit(&core, &user, &attributes)?;
    if let Some(extension) = extension {
        return extension::forward(&extension, parts, body).await;
    }
    let find = || {
        let found = core.registry.find(&target.group, &target.version, &target.resource);
        found.ok_or_else(ApiError::no_such_path)
    };
    let mut resource = find()?;
    let form = negotiate::form(&parts.headers, false)?;
    let include =
        if form == Form::Table { table::include(query.text("includeObject"))? } else { Include::None };
    check_scope(&target, &resource, verb)?;
    check_name(&target, verb)?;
    let bytes = if matches!(verb, "create" | "update" | "patch" | "delete" | "deletecollection") {
        let bytes = body::read(body).await?;
        if resource.custom.is_some() {
            // A definition can come and go while a body is on its way.
            resource = find()?;
        }
        bytes
    } else {
        Bytes::new()
    };
    let exchange = Exchange {
        core: &core,
        user: &user,
        target: &target,
        resource: &resource,
        query: &query,
        form,
        include,
        headers: &parts.headers,
        warnings: RefCell::new(deprecation(&resource, &target)),
    };
    let mut response = answer(&exchange, &attributes, &bytes).unwrap_or_else(|error| refusal(&error));
    if negotiate::wants_yaml(&parts.headers) && verb != "watch" {
        response = view::as_yaml(response);
    }
    for warning in warnings::limited(exchange.warnings.take()) {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    Ok(response)
}

/// What to tell a client of a version that its definition calls deprecated.
fn deprecation(resource: &Resource, target: &Target) -> Vec<String> {
    let version = resource.custom.as_ref().and_then(|custom| custom.kind.version(&target.version));
    version.and_then(CustomVersion::deprecation_warning).map(str::to_owned).into_iter().collect()
}

fn not_allowed() -> ApiError {
    ApiError::method_not_allowed("the server does not allow this method on the requested resource")
}

fn permit(core: &Core, user: &User, attributes: &Attributes) -> Result<(), ApiError> {
    let decision = access::authorize(user, attributes, core);
    if decision.allowed { Ok(()) } else { Err(access::forbidden(user, attributes, &decision)) }
}

/// Some verbs need a name in the path, others cannot have one.
fn check_name(target: &Target, verb: &str) -> Result<(), ApiError> {
    let named = !target.name.is_empty();
    let fits = match verb {
        "create" => !named || !target.subresource.is_empty(),
        "update" | "patch" => named,
        _ => true,
    };
    if fits { Ok(()) } else { Err(not_allowed()) }
}

/// A namespaced resource cannot be written without a namespace, a cluster-scoped one not with it.
fn check_scope(target: &Target, resource: &Resource, verb: &str) -> Result<(), ApiError> {
    if !resource.namespaced && !target.namespace.is_empty() {
        return Err(ApiError::no_such_path());
    }
    if resource.namespaced && target.namespace.is_empty() {
        if !target.name.is_empty() {
            return Err(ApiError::no_such_path());
        }
        if !matches!(verb, "list" | "watch") {
            return Err(not_allowed());
        }
    }
    Ok(())
}

/// The answer of a Kubernetes API server.
pub(crate) fn answer(
    exchange: &Exchange<'_>,
    attributes: &Attributes,
    body: &Bytes,
) -> Result<Response<Body>, ApiError> {
    let verb = attributes.verb.as_str();
    if !exchange.target.subresource.is_empty() {
        return subresource::answer(exchange, verb, body);
    }
    if !exchange.resource.verbs().contains(&verb) {
        return Err(not_allowed());
    }
    match verb {
        "get" => read::get(exchange),
        "list" => read::list(exchange),
        "watch" => watch::watch(exchange),
        "create" => create::create(exchange, body),
        "update" => update::update(exchange, Part::Main, body),
        "patch" => patch::patch(exchange, Part::Main, body),
        "delete" => delete::delete(exchange, body),
        "deletecollection" => delete::delete_collection(exchange, body),
        _ => Err(not_allowed()),
    }
}

fn elsewhere(
    core: &Core,
    path: &str,
    query: &Query,
    place: &Place,
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let trimmed = path.trim_end_matches('/');
    let (first, check) = match trimmed.trim_start_matches('/').split_once('/') {
        Some((first, check)) => (first, Some(check)),
        None => (trimmed.trim_start_matches('/'), None),
    };
    match (first, check) {
        ("healthz" | "livez" | "readyz", None) if query.get("verbose").is_some() => {
            let lines = CHECKS.map(|check| format!("[+]{check} ok\n")).concat();
            Ok(plain(StatusCode::OK, format!("{lines}{first} check passed\n")))
        }
        ("healthz" | "livez" | "readyz", None) => Ok(plain(StatusCode::OK, "ok")),
        ("healthz" | "livez" | "readyz", Some(check)) if CHECKS.contains(&check) => {
            Ok(plain(StatusCode::OK, "ok"))
        }
        ("version", None) => Ok(json_answer(StatusCode::OK, &version())),
        _ => discovery::answer(core, path, place, headers),
    }
}

fn version() -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1", "minor": "36", "gitVersion": "v1.36.3+hostler", "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    })
}

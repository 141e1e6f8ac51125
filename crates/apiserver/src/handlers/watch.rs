//! Watch: a stream that holds a position in the log and nothing else.

use super::{Exchange, LongRunning, read, view};
use crate::{
    error::ApiError,
    field::{Fault, FieldError},
    negotiate::Form,
    registry::Resource,
    selector::{FieldTerm, Selector},
    server::Core,
    store::{Change, ChangeKind, Stored, TooOld, line},
    table,
};
use bytes::Bytes;
use futures::stream;
use hostler_base::{
    BoxError,
    transport::{self, Body},
};
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

const BATCH: usize = 64;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark is sent this long before a watch's time is up.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Without a wish a watch lives between half an hour and an hour.
const SHORTEST_LIFE: u64 = 1800;

struct Watch {
    core: Arc<Core>,
    resource: Arc<Resource>,
    /// Rings after each change of the resource.
    bell: Arc<Notify>,
    version: String,
    namespace: String,
    selector: Selector,
    form: Form,
    include: table::Include,
    columns_sent: bool,
    bookmarks: bool,
    position: u64,
    running: bool,
    /// What is to be sent before the log is read: initial objects and their end mark.
    ready: VecDeque<Bytes>,
    initial: VecDeque<Arc<Stored>>,
    end_mark: bool,
    next_bookmark: Instant,
    end: Instant,
    life: CancellationToken,
    done: bool,
}

pub(super) fn watch(exchange: &Exchange<'_>) -> Result<Response<Body>, ApiError> {
    let watch = begin(exchange)?;
    let stream = stream::unfold(watch, |mut watch| async move {
        let bytes = watch.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), watch))
    });
    let mut response = Response::new(transport::boxed(StreamBody::new(stream)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(LongRunning);
    Ok(response)
}

fn check_options(exchange: &Exchange<'_>) -> Result<(), ApiError> {
    let query = exchange.query;
    let matching = query.text("resourceVersionMatch");
    let initial = query.flag("sendInitialEvents").is_some();
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if initial && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(field, why));
    }
    if !matching.is_empty() {
        if !initial {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if matching != "NotOlderThan" {
            let supported = "supported values: \"NotOlderThan\"";
            errors.push(FieldError::new(Fault::NotSupported, field, json!(matching), supported));
        }
        if !query.text("continue").is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

fn begin(exchange: &Exchange<'_>) -> Result<Watch, ApiError> {
    check_options(exchange)?;
    let (query, core) = (exchange.query, exchange.core);
    let mut selector = read::selector(exchange)?;
    if !exchange.target.name.is_empty() {
        let (field, value) = ("metadata.name".to_owned(), exchange.target.name.clone());
        selector.fields.push(FieldTerm { field, value, equal: true });
    }
    let version = query.text("resourceVersion");
    let wanted = if version.is_empty() { 0 } else { revision(version)? };
    let wants_initial = query.flag("sendInitialEvents");
    let initial = wants_initial.unwrap_or(wanted == 0);
    let end = Instant::now() + life_time(exchange)?;
    let mut watch = Watch {
        core: Arc::clone(core),
        resource: Arc::clone(exchange.resource),
        bell: core.store.bell(&exchange.resource.shelf),
        version: exchange.target.version.clone(),
        namespace: exchange.target.namespace.clone(),
        selector,
        form: exchange.form,
        include: exchange.include,
        columns_sent: false,
        bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
        position: wanted,
        running: false,
        ready: VecDeque::new(),
        initial: VecDeque::new(),
        end_mark: false,
        next_bookmark: next_bookmark(Instant::now(), end),
        end,
        life: core.life(),
        done: false,
    };
    if initial {
        if wants_initial.is_some()
            && let Err(error) = read::not_too_new(exchange, wanted)
        {
            watch.fail(&error);
            return Ok(watch);
        }
        let listed = core.store.list(&exchange.resource.shelf, &watch.namespace, None);
        let listed = listed.map_err(|_| ApiError::internal("the present cannot be listed"))?;
        watch.initial = listed.items.into_iter().filter(|item| watch.selector.matches(item)).collect();
        watch.position = listed.revision;
        watch.end_mark = wants_initial.is_some() && watch.bookmarks;
        watch.running = true;
    } else if wanted == 0 {
        watch.position = core.store.revision();
        watch.running = true;
    }
    Ok(watch)
}

pub(super) fn revision(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let why = format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        );
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", why)
    })
}

fn life_time(exchange: &Exchange<'_>) -> Result<Duration, ApiError> {
    let wish = exchange.query.number("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = match wish {
        Some(seconds) if seconds > 0 => seconds,
        _ => SHORTEST_LIFE + exchange.core.chance.u64() % SHORTEST_LIFE,
    };
    Ok(Duration::from_secs(seconds.min(10 * 365 * 86_400)))
}

/// Every minute, and once more shortly before the end.
fn next_bookmark(now: Instant, end: Instant) -> Instant {
    let regular = now + BOOKMARK_EVERY;
    match end.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => last.min(regular),
        _ => regular,
    }
}

/// Waits until a custom resource's definition is gone; built-in ones stay.
async fn gone_for(resource: &Resource) {
    match &resource.custom {
        Some(custom) => custom.gone.cancelled().await,
        None => std::future::pending().await,
    }
}

impl Watch {
    /// The next line, as soon as there is one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.done || self.life.is_cancelled() {
                return None;
            }
            if let Some(stored) = self.initial.pop_front() {
                return Some(self.encode(ChangeKind::Added, &stored));
            }
            if std::mem::take(&mut self.end_mark) {
                return Some(self.bookmark(true));
            }
            let gone = self.resource.custom.as_ref().is_some_and(|custom| custom.gone.is_cancelled());
            let bell = Arc::clone(&self.bell);
            let mut rung = std::pin::pin!(bell.notified());
            rung.as_mut().enable();
            let is_more = self.read();
            if self.ready.is_empty() && !self.done && !is_more {
                let now = Instant::now();
                if gone || now >= self.end {
                    return None;
                }
                if self.bookmarks && now >= self.next_bookmark {
                    self.next_bookmark = next_bookmark(now, self.end);
                    // Of a version that is not there yet nothing can be said.
                    if self.core.store.revision() >= self.position {
                        return Some(self.bookmark(false));
                    }
                }
                let wake = if self.bookmarks { self.end.min(self.next_bookmark) } else { self.end };
                tokio::select! {
                    biased;
                    () = self.life.cancelled() => return None,
                    () = gone_for(&self.resource) => {}
                    () = rung => {}
                    () = tokio::time::sleep_until(wake) => {}
                }
            }
        }
    }

    /// Takes what is new in the log; whether there is more than was taken in one go.
    fn read(&mut self) -> bool {
        match self.core.store.changes(&self.resource.shelf, self.position, BATCH, self.running) {
            Ok(batch) => {
                self.running = true;
                self.position = batch.position;
                for change in batch.changes {
                    if let Some(line) = self.seen(&change) {
                        self.ready.push_back(line);
                    }
                }
                batch.is_cut
            }
            Err(TooOld { oldest }) => {
                let message = format!("too old resource version: {} ({oldest})", self.position);
                self.fail(&ApiError::expired(message));
                false
            }
        }
    }

    /// The refusal is the last thing that is sent.
    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(line("ERROR", error.status().to_string().as_bytes()));
        self.done = true;
    }

    /// How this watch sees a change: leaving or entering the selection is a deletion or an addition.
    fn seen(&mut self, change: &Change) -> Option<Bytes> {
        if !self.namespace.is_empty() && *change.now.key.namespace != *self.namespace {
            return None;
        }
        let before = change.before.as_ref().is_some_and(|before| self.selector.matches(before));
        let after = change.kind != ChangeKind::Deleted && self.selector.matches(&change.now);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => ChangeKind::Added,
            (true, true) => ChangeKind::Modified,
            (true, false) => ChangeKind::Deleted,
        };
        if kind == change.kind
            && self.form == Form::Object
            && view::as_stored(&self.resource, &self.version, &change.now)
        {
            return Some(change.line());
        }
        if kind == ChangeKind::Deleted
            && change.kind != ChangeKind::Deleted
            && let Some(before) = &change.before
        {
            // The last state inside the selection, with the version of the change that led out of it.
            let mut object = before.parse();
            crate::object::set(&mut object, "resourceVersion", json!(change.revision.to_string()));
            let bytes = crate::object::encode(&object, None);
            let (labels, fields) = (before.labels.clone(), before.fields.clone());
            let last = Stored::new(Arc::clone(&before.key), change.revision, bytes, labels, fields);
            return Some(self.encode(kind, &last));
        }
        Some(self.encode(kind, &change.now))
    }

    fn encode(&mut self, kind: ChangeKind, stored: &Stored) -> Bytes {
        match self.form {
            Form::Object | Form::Discovery => {
                line(kind.name(), &view::bytes(&self.resource, &self.version, stored))
            }
            Form::Partial => {
                let partial = table::partial(view::tree(&self.resource, &self.version, stored));
                line(kind.name(), partial.to_string().as_bytes())
            }
            Form::Table => {
                let object = view::tree(&self.resource, &self.version, stored);
                let table = self.table(Some(object), stored.revision);
                line(kind.name(), table.to_string().as_bytes())
            }
        }
    }

    fn table(&mut self, objects: Option<Value>, revision: u64) -> Value {
        let with_columns = !std::mem::replace(&mut self.columns_sent, true);
        let metadata = json!({"resourceVersion": revision.to_string()});
        let now = self.core.clock.now();
        table::table(&self.resource, &self.version, objects, self.include, metadata, with_columns, now)
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.position.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let api_version = crate::request::api_version(self.resource.group(), &self.version);
        let object = match self.form {
            Form::Table => {
                let row = json!({"cells": [], "object": table::partial(json!({"metadata": metadata}))});
                let mut table = self.table(None, self.position);
                table["rows"] = json!([row]);
                table
            }
            Form::Partial => table::partial(json!({"metadata": metadata})),
            _ => json!({"kind": self.resource.kind, "apiVersion": api_version, "metadata": metadata}),
        };
        line("BOOKMARK", object.to_string().as_bytes())
    }
}

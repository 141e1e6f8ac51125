//! Kubernetes events about objects: written in the background, the same one counted instead of repeated, and
//! never in the way of the work they tell about. A message never holds a secret.

use crate::metrics::Metrics;
use hostler_base::{Chance, Clock, stable_hash};
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use std::{borrow::Cow, collections::BTreeMap, time::Duration};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The most bytes a message may have.
const MESSAGE_LIMIT: usize = 1024;
/// The most bytes of an object's name that go into an event's.
const NAME_LIMIT: usize = 200;
/// Notes that may wait to be written.
const BACKLOG: usize = 256;
/// How long writing may go on after the stop signal.
pub const LAST_EVENTS: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

impl EventKind {
    fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Takes events. Clones go to the same writer.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::Sender<Note>,
    clock: Clock,
    metrics: Metrics,
}

struct Note {
    about: ObjectReference,
    kind: EventKind,
    reason: String,
    message: String,
    at: Timestamp,
}

/// How events are written.
#[derive(Clone, Debug)]
pub struct EventOptions {
    /// Who writes them.
    pub component: String,
    /// Which instance of it, the host's name for example.
    pub instance: String,
    /// The same event within this time is counted.
    pub window: Duration,
    /// So many different events are remembered for that.
    pub remembered: usize,
    /// What of a message makes two events the same: all of it, unless something in it is another one each time.
    pub essence: fn(&str) -> Cow<'_, str>,
}

impl EventOptions {
    pub fn new(component: impl Into<String>, instance: impl Into<String>) -> Self {
        let window = Duration::from_mins(10);
        let (component, instance) = (component.into(), instance.into());
        Self { component, instance, window, remembered: 1024, essence: whole }
    }
}

/// Writes what [`Recorder`]s take.
pub struct EventWriter {
    client: Client,
    options: EventOptions,
    notes: mpsc::Receiver<Note>,
    chance: Chance,
    metrics: Metrics,
    /// By [`sameness`]: thousands are remembered, and what they say is long.
    known: BTreeMap<u64, Known>,
    last_error: Option<String>,
}

#[derive(Clone, Debug)]
struct Known {
    name: Box<str>,
    count: i32,
    last: Timestamp,
}

impl Recorder {
    pub fn new(
        client: Client,
        options: EventOptions,
        clock: Clock,
        chance: &Chance,
        metrics: Metrics,
    ) -> (Self, EventWriter) {
        let (sender, notes) = mpsc::channel(BACKLOG);
        let chance = chance.split("events");
        let known = BTreeMap::new();
        let writer =
            EventWriter { client, options, notes, chance, metrics: metrics.clone(), known, last_error: None };
        (Self { notes: sender, clock, metrics }, writer)
    }

    /// Says something about an object. It never waits and never fails; when too much is said at once, the
    /// rest is only counted.
    pub fn record(
        &self,
        about: &ObjectReference,
        kind: EventKind,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        let note = Note {
            about: about.clone(),
            kind,
            reason: reason.into(),
            message: shortened(message.into(), MESSAGE_LIMIT),
            at: self.clock.now(),
        };
        if self.notes.try_send(note).is_err() {
            self.metrics.event("dropped");
        }
    }
}

impl EventWriter {
    /// Writes until `stop` is cancelled, and then what is still waiting.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let note = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                note = self.notes.recv() => note,
            };
            let Some(note) = note else { return };
            self.write(note).await;
        }
        self.notes.close();
        let rest = async {
            while let Some(note) = self.notes.recv().await {
                self.write(note).await;
            }
        };
        if tokio::time::timeout(LAST_EVENTS, rest).await.is_err() {
            tracing::warn!("some events were not written in time");
        }
    }

    async fn write(&mut self, note: Note) {
        let same = sameness(&note, self.options.essence);
        let known =
            self.known.get(&same).filter(|known| within(known.last, note.at, self.options.window)).cloned();
        let counted = match known {
            Some(known) => self.count(known, &note).await,
            None => Ok(None),
        };
        let written = match counted {
            Ok(Some(known)) => Ok((known, "counted")),
            Ok(None) => self.create(&note).await.map(|known| (known, "created")),
            Err(error) => Err(error),
        };
        match written {
            Ok((known, result)) => {
                self.metrics.event(result);
                self.last_error = None;
                self.remember(same, known);
            }
            Err(error) => self.failed(&error, &note),
        }
    }

    /// Counts an event once more; nothing if it does not exist any more.
    async fn count(&self, known: Known, note: &Note) -> Result<Option<Known>, kube::Error> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), note.namespace());
        let count = known.count.saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": Time(note.at)});
        match api.patch(&known.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(Some(Known { count, last: note.at, ..known })),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn create(&self, note: &Note) -> Result<Known, kube::Error> {
        let object = shortened(note.about.name.clone().unwrap_or_default(), NAME_LIMIT);
        let name = format!("{object}.{:016x}", self.chance.u64());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(note.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: note.about.clone(),
            type_: Some(note.kind.name().to_owned()),
            reason: Some(note.reason.clone()),
            message: Some(note.message.clone()),
            count: Some(1),
            first_timestamp: Some(Time(note.at)),
            last_timestamp: Some(Time(note.at)),
            source: Some(EventSource {
                component: Some(self.options.component.clone()),
                host: Some(self.options.instance.clone()),
            }),
            reporting_component: Some(self.options.component.clone()),
            reporting_instance: Some(self.options.instance.clone()),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), note.namespace());
        api.create(&PostParams::default(), &event).await?;
        Ok(Known { name: name.into(), count: 1, last: note.at })
    }

    fn remember(&mut self, same: u64, known: Known) {
        self.known.insert(same, known);
        if self.known.len() > self.options.remembered {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.last).map(|(same, _)| *same);
            if let Some(oldest) = oldest {
                self.known.remove(&oldest);
            }
        }
    }

    fn failed(&mut self, error: &kube::Error, note: &Note) {
        let forbidden = matches!(error, kube::Error::Api(status) if status.is_forbidden());
        self.metrics.event(if forbidden { "forbidden" } else { "failed" });
        // A right that is missing is missing for every event: one line says it.
        let text = if forbidden { "forbidden".to_owned() } else { error.to_string() };
        if self.last_error.as_ref() != Some(&text) {
            let ObjectReference { kind, namespace, name, .. } = &note.about;
            tracing::warn!(kind, namespace, object = name, reason = note.reason, %error, "could not write an event");
        }
        self.last_error = Some(text);
    }
}

impl Note {
    /// Events about objects without a namespace live in `default`.
    fn namespace(&self) -> &str {
        self.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
    }
}

/// A number that two events have in common if they are the same, and otherwise by no likely chance.
fn sameness(note: &Note, essence: fn(&str) -> Cow<'_, str>) -> u64 {
    let ObjectReference { kind, namespace, name, uid, .. } = &note.about;
    let message = essence(&note.message);
    stable_hash(&format!("{:?}", (kind, namespace, name, uid, note.kind, &note.reason, message)))
}

fn whole(message: &str) -> Cow<'_, str> {
    Cow::Borrowed(message)
}

fn within(last: Timestamp, now: Timestamp, window: Duration) -> bool {
    Duration::try_from(now.duration_since(last)).is_ok_and(|passed| passed < window)
}

fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let mut end = limit.saturating_sub(3);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shortened("short".into(), 10), "short");
        assert_eq!(shortened("0123456789".into(), 10), "0123456789");
        assert_eq!(shortened("0123456789x".into(), 10), "0123456...");
        let cut = shortened("ü".repeat(600), MESSAGE_LIMIT);
        assert!(cut.len() <= MESSAGE_LIMIT && cut.ends_with("ü..."));
    }

    #[test]
    fn the_window_ends() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let window = Duration::from_secs(600);
        assert!(within(at(0), at(599), window));
        assert!(!within(at(0), at(600), window));
        assert!(!within(at(10), at(0), window), "a clock that went back starts a new event");
    }
}

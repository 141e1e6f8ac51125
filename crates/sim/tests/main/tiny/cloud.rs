//! A cloud with one kind of thing, and the bad habits of real ones as switches.

use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    routing::{get, post},
};
use hostler_base::{Chance, Clock};
use hostler_sim::Paths;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

pub(crate) const NAME: &str = "tiny-cloud";
pub(crate) const FOREIGN_OWNER: &str = "somebody-else";

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches {
    /// A list shows creations and deletions only after this time.
    pub(crate) list_lag: SignedDuration,
    /// A list shows everything, whatever was asked for.
    pub(crate) ignores_filter: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Thing {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) owner: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) thing: Thing,
    pub(crate) created: Timestamp,
    pub(crate) deleted: Option<Timestamp>,
}

#[derive(Clone)]
pub(crate) struct TinyCloud {
    clock: Clock,
    chance: Chance,
    switches: Switches,
    pub(crate) things: Arc<Mutex<BTreeMap<String, Kept>>>,
}

impl TinyCloud {
    /// A cloud that has a thing of somebody else's for each of these names.
    pub(crate) fn new(clock: Clock, chance: Chance, switches: Switches, foreign: &[&str]) -> Self {
        let cloud = Self { clock, chance, switches, things: Arc::default() };
        for name in foreign {
            cloud.keep(Thing {
                id: String::new(),
                name: (*name).to_owned(),
                owner: FOREIGN_OWNER.to_owned(),
            });
        }
        cloud
    }

    pub(crate) fn paths() -> Paths {
        Paths::templates(["/v1/things", "/v1/things/{thing}"])
    }

    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/v1/things", post(create).get(list))
            .route("/v1/things/{thing}", get(read).delete(delete))
            .with_state(self.clone())
    }

    /// What is really there.
    pub(crate) fn live(&self) -> Vec<Thing> {
        let things = self.things.lock().unwrap();
        things.values().filter(|kept| kept.deleted.is_none()).map(|kept| kept.thing.clone()).collect()
    }

    fn keep(&self, mut thing: Thing) -> Thing {
        thing.id = format!("{:016x}", self.chance.u64());
        let kept = Kept { thing: thing.clone(), created: self.clock.now(), deleted: None };
        self.things.lock().unwrap().insert(thing.id.clone(), kept);
        thing
    }
}

async fn create(State(cloud): State<TinyCloud>, Json(thing): Json<Thing>) -> (StatusCode, Json<Thing>) {
    (StatusCode::CREATED, Json(cloud.keep(thing)))
}

async fn list(
    State(cloud): State<TinyCloud>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Json<serde_json::Value> {
    let seen = cloud.clock.now() - cloud.switches.list_lag;
    let foreign = |kept: &Kept| kept.thing.owner == FOREIGN_OWNER;
    let visible = |kept: &Kept| {
        (kept.created <= seen || foreign(kept)) && kept.deleted.is_none_or(|deleted| deleted > seen)
    };
    let wanted = |kept: &Kept| {
        cloud.switches.ignores_filter || query.get("owner").is_none_or(|owner| *owner == kept.thing.owner)
    };
    let things = cloud.things.lock().unwrap();
    let items: Vec<&Thing> =
        things.values().filter(|kept| visible(kept) && wanted(kept)).map(|kept| &kept.thing).collect();
    Json(serde_json::json!({ "items": items }))
}

async fn read(State(cloud): State<TinyCloud>, Path(id): Path<String>) -> Result<Json<Thing>, StatusCode> {
    let things = cloud.things.lock().unwrap();
    let live = things.get(&id).filter(|kept| kept.deleted.is_none());
    live.map(|kept| Json(kept.thing.clone())).ok_or(StatusCode::NOT_FOUND)
}

async fn delete(State(cloud): State<TinyCloud>, Path(id): Path<String>) -> StatusCode {
    let mut things = cloud.things.lock().unwrap();
    match things.get_mut(&id).filter(|kept| kept.deleted.is_none()) {
        Some(kept) => {
            kept.deleted = Some(cloud.clock.now());
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}

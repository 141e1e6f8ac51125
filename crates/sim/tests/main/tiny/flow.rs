//! The flow that is swept: somebody creates a ConfigMap, gets a thing, deletes the ConfigMap, and the
//! thing goes.

use super::{
    cloud::{FOREIGN_OWNER, NAME, Switches, TinyCloud},
    controller::{self, ACTOR, THING, Variant},
};
use hostler_apiserver::ApiServer;
use hostler_sim::{Finished, Plan, World};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) const CONFIG: &str = "a";
const LIMIT: Duration = Duration::from_mins(10);

pub(crate) async fn run(plan: Plan, variant: Variant, switches: Switches) -> Finished {
    let mut world = World::in_virtual_time(plan);
    let cloud = TinyCloud::new(world.clock().clone(), world.chance(NAME), switches, &[CONFIG, "other"]);
    world.add_cloud(NAME, TinyCloud::paths(), cloud.router());
    let configs: Api<ConfigMap> = Api::default_namespaced(world.client());
    let observed = Arc::new(Observed {
        api: world.api().cloned().unwrap(),
        configs: configs.clone(),
        cloud: cloud.clone(),
        last: Mutex::default(),
    });
    world.observe(Arc::new(move || {
        let observed = observed.clone();
        Box::pin(async move { observed.invariants().await })
    }));
    world.start(ACTOR, move |context| Box::pin(controller::run(context, variant)));
    let goal = story(&mut world, &configs, &cloud).await;
    world.finish(goal)
}

async fn story(world: &mut World, configs: &Api<ConfigMap>, cloud: &TinyCloud) -> Result<(), String> {
    let user: Api<ConfigMap> = Api::default_namespaced(world.client_of("user"));
    world.run_for(Duration::from_millis(500)).await;
    let metadata = ObjectMeta { name: Some(CONFIG.to_owned()), ..ObjectMeta::default() };
    let config = ConfigMap { metadata, ..ConfigMap::default() };
    let config = user.create(&PostParams::default(), &config).await.map_err(|error| error.to_string())?;
    let owner = config.uid().unwrap_or_default();
    let provided = async || {
        // The cloud is asked first, because that costs nothing.
        if !cloud.live().iter().any(|thing| thing.owner == owner) {
            return false;
        }
        let written = configs.get_opt(CONFIG).await.ok().flatten();
        let id = written.and_then(|config| config.annotations().get(THING).cloned());
        cloud.live().iter().any(|thing| thing.owner == owner && Some(&thing.id) == id.as_ref())
    };
    world.run_until("the ConfigMap names its thing", LIMIT, provided).await?;
    // Whatever is late may arrive now.
    world.run_for(Duration::from_secs(40)).await;
    if !provided().await {
        return Err("the thing did not stay".to_owned());
    }
    user.delete(CONFIG, &DeleteParams::default()).await.map_err(|error| error.to_string())?;
    let removed = async || {
        cloud.live().iter().all(|thing| thing.owner == FOREIGN_OWNER)
            && matches!(configs.get_opt(CONFIG).await, Ok(None))
    };
    world.run_until("the ConfigMap and its thing are gone", LIMIT, removed).await?;
    world.run_for(Duration::from_secs(40)).await;
    if removed().await { Ok(()) } else { Err("something came back".to_owned()) }
}

struct Observed {
    api: ApiServer,
    configs: Api<ConfigMap>,
    cloud: TinyCloud,
    /// What was there at which revision of the API server.
    last: Mutex<(u64, Configs)>,
}

type Configs = Arc<BTreeMap<String, ConfigMap>>;

impl Observed {
    /// What must hold after every call, whoever made it.
    async fn invariants(&self) -> Result<(), String> {
        check(&*self.configs().await?, &self.cloud)
    }

    /// The ConfigMaps by uid; listed again only when something was written.
    async fn configs(&self) -> Result<Configs, String> {
        let revision = self.api.revision();
        let (seen, configs) = self.last.lock().unwrap().clone();
        if seen == revision {
            return Ok(configs);
        }
        let listed = self.configs.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let by_uid = |config: ConfigMap| (config.uid().unwrap_or_default(), config);
        let configs: Configs = Arc::new(listed.items.into_iter().map(by_uid).collect());
        *self.last.lock().unwrap() = (revision, configs.clone());
        Ok(configs)
    }
}

fn check(configs: &BTreeMap<String, ConfigMap>, cloud: &TinyCloud) -> Result<(), String> {
    let things = cloud.things.lock().unwrap();
    let mut owned: BTreeMap<&str, usize> = BTreeMap::new();
    for kept in things.values() {
        let owner = kept.thing.owner.as_str();
        let config = configs.get(owner);
        match (owner == FOREIGN_OWNER, kept.deleted.is_some()) {
            (true, true) => return Err(format!("foreign touched: {:?} was deleted", kept.thing.name)),
            (true, false) => {}
            (false, true) => {
                if config.is_some_and(|config| config.metadata.deletion_timestamp.is_none()) {
                    return Err(format!("lost: {:?} is still wanted", kept.thing.name));
                }
            }
            (false, false) => {
                if config.is_none() {
                    return Err(format!("leaked: nobody wants {:?} any more", kept.thing.name));
                }
                let count = owned.entry(owner).or_default();
                *count += 1;
                if *count > 1 {
                    return Err(format!("doubled: there are two of {:?}", kept.thing.name));
                }
            }
        }
    }
    for (uid, config) in configs {
        let named = config.annotations().get(THING).and_then(|id| things.get(id));
        if named.is_some_and(|kept| kept.thing.owner != *uid) {
            return Err(format!("foreign taken: {:?} names a thing that is not its own", config.name_any()));
        }
    }
    Ok(())
}

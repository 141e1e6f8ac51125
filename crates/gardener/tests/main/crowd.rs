//! A project with many in it: machines of two classes, a second cluster whose machines have the same names and classes,
//! a server that somebody made by hand, and a NIC and volumes that are not ours to delete. After every call somebody
//! who is no controller looks at all of it.

use crate::{
    flow::{NAMESPACE, OTHER_CLUSTER, PROJECT, REGION, Stage, class, is_ours, machine, ours},
    orphans::plant,
};
use hostler_base::transport;
use hostler_gardener::api::{Machine, Phase};
use hostler_sim::{
    Class, Fault, Plan,
    stackit::{NicView, ServerView, Settings, Stackit, VolumeView},
};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

/// What the class `large` names, so that it outlives every server.
pub const GIVEN_NIC: &str = "aaaaaaaa-0000-4000-8000-000000000001";
pub const DATA_VOLUME: &str = "aaaaaaaa-0000-4000-8000-000000000002";
/// What a CSI driver attaches to a server.
pub const CSI_VOLUME: &str = "aaaaaaaa-0000-4000-8000-000000000003";

/// Our machines and their classes. The second cluster has the same.
pub const MACHINES: [(&str, &str); 3] = [("m-1", "small"), ("m-2", "small"), ("m-3", "large")];

/// What is in the cloud, by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estate {
    pub servers: BTreeMap<String, ServerView>,
    pub volumes: BTreeMap<String, VolumeView>,
    pub nics: BTreeMap<String, NicView>,
}

impl Estate {
    pub fn of(cloud: &Stackit) -> Self {
        Self {
            servers: cloud.servers().into_iter().map(|one| (one.id.clone(), one)).collect(),
            volumes: cloud.volumes().into_iter().map(|one| (one.id.clone(), one)).collect(),
            nics: cloud.nics().into_iter().map(|one| (one.id.clone(), one)).collect(),
        }
    }

    /// Only these servers, with what is attached to them.
    pub fn only(mut self, keep: impl Fn(&ServerView) -> bool) -> Self {
        self.servers.retain(|_, server| keep(server));
        let kept: BTreeSet<&String> = self.servers.keys().collect();
        let on_kept = |server: &Option<String>| server.as_ref().is_some_and(|server| kept.contains(server));
        self.volumes.retain(|_, volume| on_kept(&volume.server));
        self.nics.retain(|_, nic| on_kept(&nic.server));
        self
    }
}

/// What must hold in the cloud whatever the controllers do.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Others', to be left as it is to the letter.
    pub strangers: Estate,
    /// NICs and volumes that stay when their server goes. They may come later, but once seen they stay.
    pub given: BTreeSet<String>,
    /// Servers without a Machine are part of the play: they may be there, and may go.
    pub orphans: bool,
}

/// A Machine, as far as it matters for its server.
pub struct Wish {
    pub name: String,
    pub going: bool,
}

impl Rules {
    /// What is wrong now, compared with what was seen before.
    pub fn broken(&self, before: &Estate, now: &Estate, wishes: &[Wish]) -> Option<String> {
        self.touched(now)
            .or_else(|| self.servers_wrong(now, wishes))
            .or_else(|| self.leaked(now))
            .or_else(|| self.given_gone(before, now))
    }

    fn touched(&self, now: &Estate) -> Option<String> {
        // One that was on its way may have come.
        let same = |was: &ServerView, is: &ServerView| {
            was == is || was.status == "CREATING" && *is == ServerView { status: "ACTIVE", ..was.clone() }
        };
        let kept = |(id, was): &(&String, &ServerView)| now.servers.get(*id).is_some_and(|is| same(was, is));
        let server = self.strangers.servers.iter().find(|server| !kept(server));
        if let Some((id, was)) = server {
            return Some(format!("foreign touched: {was:?} is {:?}", now.servers.get(id)));
        }
        let volume = self.strangers.volumes.iter().find(|(id, was)| now.volumes.get(*id) != Some(was));
        if let Some((id, was)) = volume {
            return Some(format!("foreign touched: {was:?} is {:?}", now.volumes.get(id)));
        }
        let nic = self.strangers.nics.iter().find(|(id, was)| now.nics.get(*id) != Some(was));
        nic.map(|(id, was)| format!("foreign touched: {was:?} is {:?}", now.nics.get(id)))
    }

    fn servers_wrong(&self, now: &Estate, wishes: &[Wish]) -> Option<String> {
        if self.orphans {
            return None;
        }
        let mut seen = BTreeSet::new();
        // One that has just come to the second cluster is not yet known as a stranger.
        let theirs = |server: &ServerView| {
            let label = server.labels.get("kubernetes.io/cluster");
            self.strangers.servers.contains_key(&server.id)
                || label.is_some_and(|label| label == OTHER_CLUSTER)
        };
        for server in now.servers.values().filter(|server| !theirs(server)) {
            let name = &server.name;
            let wish = wishes.iter().find(|wish| wish.name == *name);
            if server.status == "DELETING" {
                if wish.is_some_and(|wish| !wish.going) {
                    return Some(format!("lost: the server of {name} is going, and nobody wants it to"));
                }
                continue;
            }
            if wish.is_none() {
                return Some(format!("leaked: {name} has a server and no Machine"));
            }
            if !seen.insert(name.clone()) {
                return Some(format!("doubled: there are two servers for {name}"));
            }
        }
        None
    }

    /// A volume or a NIC that has no server and was not given to any.
    fn leaked(&self, now: &Estate) -> Option<String> {
        let alone =
            |server: &Option<String>| server.as_ref().is_none_or(|server| !now.servers.contains_key(server));
        let volume = now.volumes.values().find(|volume| {
            let ours = !self.given.contains(&volume.id) && !self.strangers.volumes.contains_key(&volume.id);
            ours && volume.status != "DELETING" && alone(&volume.server)
        });
        if let Some(volume) = volume {
            return Some(format!("leaked: the volume {} has no server", volume.id));
        }
        let nic = now.nics.values().find(|nic| {
            let ours = !self.given.contains(&nic.id) && !self.strangers.nics.contains_key(&nic.id);
            ours && alone(&nic.server)
        });
        nic.map(|nic| format!("leaked: the NIC {} has no server", nic.id))
    }

    fn given_gone(&self, before: &Estate, now: &Estate) -> Option<String> {
        let is_there = |estate: &Estate, id: &String| {
            let volume = estate.volumes.get(id).is_some_and(|volume| volume.status != "DELETING");
            volume || estate.nics.contains_key(id)
        };
        let gone = self.given.iter().find(|id| is_there(before, id) && !is_there(now, id));
        gone.map(|id| format!("lost: {id} was given and is gone"))
    }

    /// What is there beyond what has to be.
    pub fn left(&self, now: &Estate) -> Vec<String> {
        let others = &self.strangers;
        let servers = now.servers.iter().filter(|(id, _)| !others.servers.contains_key(*id));
        let volumes = now.volumes.keys().filter(|id| !others.volumes.contains_key(*id));
        let nics = now.nics.keys().filter(|id| !others.nics.contains_key(*id));
        let given = |id: &&String| self.given.contains(*id);
        let mut left: Vec<String> = servers.map(|(_, server)| format!("server {}", server.name)).collect();
        left.extend(volumes.filter(|id| !given(id)).map(|id| format!("volume {id}")));
        left.extend(nics.filter(|id| !given(id)).map(|id| format!("NIC {id}")));
        left
    }
}

/// What is odd about the world for the whole of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    Fair,
    /// New servers are missing in lists for a while, and those that are gone stay in them.
    LaggingLists,
    /// The cloud does not heed `label_selector`.
    IgnoredSelector,
    /// Everything that a watch tells comes late.
    StaleCaches,
}

impl Weather {
    pub const FOUL: [Self; 3] = [Self::LaggingLists, Self::IgnoredSelector, Self::StaleCaches];

    pub fn settings(self) -> Settings {
        let lag = if self == Self::LaggingLists { Duration::from_secs(25) } else { Duration::ZERO };
        Settings {
            list_lag: lag,
            gone_lag: lag,
            ignores_selector: self == Self::IgnoredSelector,
            // Nobody joins who was not let in.
            joins_without_token: false,
            ..Settings::default()
        }
    }

    pub fn plan(self, plan: Plan) -> Plan {
        if self != Self::StaleCaches {
            return plan;
        }
        plan.fault_when(|_, class| (class == Class::Watch).then_some(Fault::Late(Duration::from_secs(4))))
    }
}

pub struct Crowd {
    pub stage: Stage,
    pub rules: Arc<Mutex<Rules>>,
}

impl Crowd {
    /// Everybody but us is there, and somebody looks on.
    pub async fn new(plan: Plan, weather: Weather) -> Self {
        Self::with(weather.plan(plan), weather.settings()).await
    }

    pub async fn with(plan: Plan, settings: Settings) -> Self {
        let stage = Stage::unobserved(plan, settings).await;
        // One of the second cluster is there already.
        for (name, class) in &MACHINES[1..] {
            plant(&stage, name, class, OTHER_CLUSTER);
        }
        stage.cloud.add_foreign(PROJECT, REGION, "by-hand", &[]);
        let given = [GIVEN_NIC, DATA_VOLUME, CSI_VOLUME].map(str::to_owned).into();
        let rules = Arc::new(Mutex::new(Rules { given, ..Rules::default() }));
        let crowd = Self { stage, rules };
        crowd.take_for_strangers().await;
        crowd.observe();
        crowd
    }

    /// From now on every server is somebody else's that does not say that it is ours.
    pub async fn take_for_strangers(&self) {
        self.stage.world.run_for(Duration::from_secs(5)).await;
        let strangers = Estate::of(&self.stage.cloud).only(|server| !is_ours(server));
        self.rules.lock().unwrap().strangers = strangers;
    }

    fn observe(&self) {
        let machines: Api<Machine> = Api::namespaced(self.stage.admin.clone(), NAMESPACE);
        watch_rules(&self.stage, self.rules.clone(), machines);
    }

    /// The Secret and both classes.
    pub async fn create_classes(&self) {
        self.stage.create_class_and_secret().await;
        self.stage.create(self.stage.classes(), large()).await;
    }

    pub async fn create_machines(&self) {
        for (name, class) in MACHINES {
            let mut wanted = machine(name);
            wanted["spec"]["class"]["name"] = json!(class);
            self.stage.create(self.stage.machines(), wanted).await;
        }
    }

    pub async fn run_until_all_run(&mut self) -> Result<(), String> {
        for (name, _) in MACHINES {
            self.stage.run_until_phase(name, Phase::Running, Duration::from_mins(30)).await?;
        }
        Ok(())
    }

    /// Attaches a volume to a machine's server as a CSI driver does.
    pub async fn attach_csi_volume(&self, name: &str) -> Result<(), String> {
        let servers = self.stage.cloud.servers();
        let server = ours(&servers).find(|server| server.name == name).ok_or("no server")?;
        let place = format!("/v2/projects/{PROJECT}/regions/{REGION}");
        let path = format!("{place}/servers/{}/volume-attachments/{CSI_VOLUME}", server.id);
        let request = Request::put(path).body(transport::full("")).map_err(|error| error.to_string())?;
        let cloud = self.stage.world.transport_of("csi-driver", "stackit");
        let answer =
            transport::exchange(&cloud, request, 1 << 20).await.map_err(|error| error.to_string())?;
        if answer.status().is_success() { Ok(()) } else { Err(format!("attaching: {}", answer.status())) }
    }

    /// What of ours is left in the cloud and in the cluster.
    pub async fn left(&self) -> Result<(), String> {
        let mut left = self.rules.lock().unwrap().left(&Estate::of(&self.stage.cloud));
        let nodes = Api::<Node>::all(self.stage.admin.clone()).list(&ListParams::default()).await;
        let nodes = nodes.map_err(|error| error.to_string())?;
        left.extend(nodes.items.iter().map(|node| format!("node {}", node.name_any())));
        left.extend(self.stage.tokens().await.into_iter().map(|(name, _)| name));
        if left.is_empty() { Ok(()) } else { Err(format!("left behind: {}", left.join(", "))) }
    }

    /// Every Machine has its server, and nothing of ours is there beside them.
    pub async fn exactly_the_wanted(&self) -> Result<(), String> {
        let machines: Api<Machine> = Api::namespaced(self.stage.admin.clone(), NAMESPACE);
        let machines = machines.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let names: Vec<String> = machines.items.iter().map(ResourceExt::name_any).collect();
        let now = Estate::of(&self.stage.cloud);
        let left = self.rules.lock().unwrap().left(&now);
        // With each server come a boot volume and a NIC.
        let ours = now.servers.values().filter(|server| is_ours(server));
        let mut servers: Vec<&String> = ours.map(|server| &server.name).collect();
        servers.sort();
        let of = |kind: &str| left.iter().filter(|one| one.starts_with(kind)).count();
        let counts = ["server", "volume", "NIC"].map(of);
        if servers.iter().copied().eq(&names) && counts == [names.len(); 3] {
            Ok(())
        } else {
            Err(format!("Machines {names:?}, and there are: {}", left.join(", ")))
        }
    }
}

/// Looks after every call whether the rules are kept.
pub fn watch_rules(stage: &Stage, rules: Arc<Mutex<Rules>>, machines: Api<Machine>) {
    let (cloud, before) = (stage.cloud.clone(), Arc::new(Mutex::new(Estate::default())));
    stage.world.observe(Arc::new(move || {
        let (cloud, rules, before, machines) =
            (cloud.clone(), rules.clone(), before.clone(), machines.clone());
        Box::pin(async move {
            let now = Estate::of(&cloud);
            let before = std::mem::replace(&mut *before.lock().unwrap(), now.clone());
            // Whoever looks so often does not read everything.
            let listed = machines.list_metadata(&ListParams::default()).await;
            let listed = listed.map_err(|error| error.to_string())?;
            let wishes: Vec<Wish> = listed
                .items
                .iter()
                .map(|machine| Wish {
                    name: machine.name_any(),
                    going: machine.metadata.deletion_timestamp.is_some(),
                })
                .collect();
            let broken = rules.lock().unwrap().broken(&before, &now, &wishes);
            broken.map_or(Ok(()), Err)
        })
    }));
}

/// A class for one machine: its NIC and its data volume exist once.
fn large() -> Value {
    let mut large = class();
    large["metadata"]["name"] = json!("large");
    let spec = &mut large["providerSpec"];
    spec["bootVolume"] = Value::Null;
    spec["networking"] = json!({"nicIds": [GIVEN_NIC]});
    spec["volumes"] = json!([DATA_VOLUME]);
    spec["allowedAddresses"] = json!(["10.0.0.0/8"]);
    large
}

#[test]
fn the_observer_sees_what_is_wrong() {
    let server = |id: &str, name: &str, status: &'static str| ServerView {
        project: PROJECT.to_owned(),
        region: REGION.to_owned(),
        id: id.to_owned(),
        name: name.to_owned(),
        status,
        labels: BTreeMap::new(),
        machine_type: "c2i.2".to_owned(),
    };
    let volume = |id: &str, server: Option<&str>| VolumeView {
        project: PROJECT.to_owned(),
        region: REGION.to_owned(),
        id: id.to_owned(),
        status: if server.is_some() { "ATTACHED" } else { "AVAILABLE" },
        server: server.map(str::to_owned),
    };
    let nic = |id: &str, server: Option<&str>| NicView {
        project: PROJECT.to_owned(),
        region: REGION.to_owned(),
        id: id.to_owned(),
        network: PROJECT.to_owned(),
        server: server.map(str::to_owned),
        allowed_addresses: Vec::new(),
    };
    let estate = |servers: Vec<ServerView>, volumes: Vec<VolumeView>, nics: Vec<NicView>| Estate {
        servers: servers.into_iter().map(|one| (one.id.clone(), one)).collect(),
        volumes: volumes.into_iter().map(|one| (one.id.clone(), one)).collect(),
        nics: nics.into_iter().map(|one| (one.id.clone(), one)).collect(),
    };
    let theirs = || (server("s9", "a", "ACTIVE"), volume("v9", Some("s9")), nic("n9", Some("s9")));
    let with = |servers: &[ServerView], volumes: &[VolumeView], nics: &[NicView]| {
        let (s9, v9, n9) = theirs();
        estate([&[s9], servers].concat(), [&[v9], volumes].concat(), [&[n9], nics].concat())
    };
    let ours = || {
        with(
            &[server("s1", "a", "ACTIVE")],
            &[volume("v1", Some("s1")), volume(DATA_VOLUME, Some("s1"))],
            &[nic("n1", Some("s1")), nic(GIVEN_NIC, Some("s1"))],
        )
    };
    let rules = Rules {
        strangers: with(&[], &[], &[]),
        given: [GIVEN_NIC, DATA_VOLUME].map(str::to_owned).into(),
        orphans: false,
    };
    let staying = || vec![Wish { name: "a".to_owned(), going: false }];
    let going = || vec![Wish { name: "a".to_owned(), going: true }];
    let changed = |change: fn(&mut Estate)| {
        let mut estate = ours();
        change(&mut estate);
        estate
    };
    for (now, wishes, expected) in [
        (ours(), staying(), None),
        (changed(|now| drop(now.servers.remove("s9"))), staying(), Some("foreign touched")),
        (
            changed(|now| now.servers.get_mut("s9").unwrap().status = "DELETING"),
            staying(),
            Some("foreign touched"),
        ),
        (changed(|now| drop(now.volumes.remove("v9"))), staying(), Some("foreign touched")),
        (
            changed(|now| now.nics.get_mut("n9").unwrap().allowed_addresses.push("::/0".to_owned())),
            staying(),
            Some("foreign touched"),
        ),
        (ours(), vec![], Some("leaked: a has a server")),
        (
            with(&[server("s1", "a", "ACTIVE"), server("s2", "a", "CREATING")], &[], &[]),
            staying(),
            Some("doubled"),
        ),
        (with(&[server("s1", "a", "DELETING")], &[], &[]), staying(), Some("lost: the server of a")),
        (with(&[server("s1", "a", "DELETING")], &[], &[]), going(), Some("lost: aaaaaaaa")),
        (
            changed(|now| now.volumes.get_mut("v1").unwrap().server = None),
            staying(),
            Some("leaked: the volume v1"),
        ),
        (
            changed(|now| now.nics.get_mut("n1").unwrap().server = Some("s0".to_owned())),
            staying(),
            Some("leaked: the NIC n1"),
        ),
        (changed(|now| now.volumes.get_mut(DATA_VOLUME).unwrap().server = None), staying(), None),
        (changed(|now| drop(now.volumes.remove(DATA_VOLUME))), staying(), Some("lost: aaaaaaaa")),
        (changed(|now| drop(now.nics.remove(GIVEN_NIC))), staying(), Some("lost: aaaaaaaa")),
    ] {
        let before = if wishes.is_empty() { Estate::default() } else { ours() };
        let found = rules.broken(&before, &now, &wishes);
        let fits = match (&found, expected) {
            (None, None) => true,
            (Some(found), Some(expected)) => found.starts_with(expected),
            _ => false,
        };
        assert!(fits, "{found:?} and not {expected:?} in {now:#?}");
    }
    assert_eq!(rules.left(&ours()), ["server a", "volume v1", "NIC n1"]);
    let orphans = Rules { orphans: true, ..rules };
    assert_eq!(orphans.broken(&ours(), &ours(), &[]), None);
    let left = changed(|now| drop(now.servers.remove("s1")));
    assert!(orphans.broken(&ours(), &left, &[]).is_some_and(|found| found.starts_with("leaked: the volume")));
}

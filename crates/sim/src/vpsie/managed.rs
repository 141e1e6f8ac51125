//! Managed clusters: their node groups and workers. A worker is no VPS of the account, and what it is called is not the
//! caller's to say.

use super::{
    answer::{Answer, Checked, Outcome, Refusal, data, list},
    call::Call,
    catalogue::{Datacenter, KubeSize, price},
    cloud::{Cloud, Due, HOURS_A_MONTH},
    settings::{NodeShape, WorkerAnswer, one_fits},
    vm::{USER, hours, stamp},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) datacenter: Datacenter,
    version: String,
    project: u64,
    /// Four characters that are in the names of its nodes.
    mark: String,
    masters: Vec<Master>,
    /// By number.
    groups: BTreeMap<u64, Group>,
    /// By identifier.
    pub(super) workers: BTreeMap<String, Worker>,
    created: Timestamp,
}

struct Master {
    number: u64,
    identifier: String,
    hostname: String,
}

struct Group {
    identifier: String,
    name: String,
    size: KubeSize,
    created: Timestamp,
}

pub(super) struct Worker {
    pub(super) number: u64,
    pub(super) hostname: String,
    pub(super) size: KubeSize,
    pub(super) ip: String,
    group: u64,
    pub(super) stage: Stage,
    until: Option<Timestamp>,
    created: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Ordered, and in no answer yet.
    Ordered,
    Building,
    Running,
    Leaving,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Building => "provisioning",
            Self::Running => "running",
            Self::Leaving => "deleting",
        }
    }
}

impl Worker {
    pub(super) fn cost(&self, now: Timestamp) -> f64 {
        self.size.price * hours(self.created, now) / HOURS_A_MONTH
    }
}

impl Cloud {
    fn cluster(&self, identifier: &str) -> Checked<&Cluster> {
        self.clusters.get(identifier).ok_or_else(|| Refusal::missing("Cluster"))
    }

    fn cluster_mut(&mut self, identifier: &str) -> Checked<&mut Cluster> {
        self.clusters.get_mut(identifier).ok_or_else(|| Refusal::missing("Cluster"))
    }

    /// Four characters by chance.
    fn mark(&self) -> String {
        self.chance.text(b"0123456789abcdef", 4)
    }

    pub(super) fn create_cluster(&mut self, call: &Call) -> Outcome {
        let datacenter = self.datacenter(call.required("dcIdentifier")?)?;
        let plan = call.required("resourceIdentifier")?;
        let plan = self.catalogue.plans.iter().find(|known| known.identifier == plan);
        let plan = plan.ok_or_else(|| Refusal::missing("Resource"))?;
        let sizes = &self.catalogue.kube_sizes;
        let size = sizes.iter().find(|size| size.cpu == plan.cpu && size.ram == plan.ram).cloned();
        let size = size.ok_or_else(|| Refusal::bad("The selected plan is not available for Kubernetes"))?;
        let project = call.text("projectIdentifier").unwrap_or_default();
        let project = self.catalogue.projects.iter().find(|known| known.identifier == project);
        let project = project.ok_or_else(|| Refusal::missing("Project"))?.id;
        let (name, version) =
            (call.required("clusterName")?.to_owned(), call.required("kuberVer")?.to_owned());
        let version = version.trim_start_matches('v').to_owned();
        let (masters, workers) = (call.number("nodesCountMaster"), call.number("nodesCountSlave"));
        let mark = self.mark();
        let place = datacenter.name.to_lowercase();
        let masters = (0..masters.unwrap_or(1)).map(|_| Master {
            number: self.new_number(),
            identifier: self.new_id(),
            hostname: format!("{place}-kubernetes-{mark}-master-{}", self.mark()),
        });
        let masters = masters.collect();
        let (group, identifier, created) = (self.new_number(), self.new_id(), self.now);
        let default = Group { identifier: self.new_id(), name: format!("{name}-default"), size, created };
        let groups = BTreeMap::from([(group, default)]);
        let cluster = Cluster {
            name,
            datacenter,
            version,
            project,
            mark,
            masters,
            groups,
            workers: BTreeMap::new(),
            created,
        };
        self.clusters.insert(identifier.clone(), cluster);
        for _ in 0..workers.unwrap_or(0) {
            self.add_worker(&identifier, Some(group))?;
        }
        Ok(Answer::Done)
    }

    pub(super) fn list_clusters(&self) -> Outcome {
        list(self.clusters.iter().map(|(identifier, cluster)| {
            let workers = cluster.visible().count();
            let size = cluster.groups.values().next().map(|group| &group.size);
            json!({
                "cluster_name": cluster.name, "identifier": identifier, "user_id": USER,
                "count": workers + cluster.masters.len(), "kube_version": cluster.version,
                "nickname": size.map(|size| size.name.as_str()), "cpu": size.map(|size| size.cpu),
                "ram": size.map(|size| size.ram), "traffic": 0, "color": "#2a9d8f",
                "price": size.map(|size| price(size.price)), "lock": 0, "created_by": "simulated",
                "upgrade_version": null, "lb_id": null, "managerCount": cluster.masters.len(),
                "slaveCount": workers, "created_on": stamp(cluster.created), "updated_on": stamp(cluster.created),
            })
        }))
    }

    pub(super) fn get_cluster(&self, identifier: &str) -> Outcome {
        let cluster = self.cluster(identifier)?;
        let shape = self.settings.node_shape;
        let workers: Vec<Value> =
            cluster.visible().map(|(id, worker)| self.show_worker(cluster, id, worker)).collect();
        let masters: Vec<Value> =
            cluster.masters.iter().map(|master| self.show_master(cluster, master)).collect();
        let mut body = json!({
            "cluster_name": cluster.name, "identifier": identifier, "kube_version": cluster.version,
            "managerCount": masters.len(), "slaveCount": workers.len(), "created_on": stamp(cluster.created),
        });
        match shape {
            NodeShape::Roles => (body["masters"], body["slaves"]) = (json!(masters), json!(workers)),
            NodeShape::Numbers | NodeShape::Union => {
                body["nodes"] = masters.into_iter().chain(workers).collect();
            }
        }
        data(body)
    }

    fn show_worker(&self, cluster: &Cluster, identifier: &str, worker: &Worker) -> Value {
        let by_id = json!({
            "identifier": identifier, "hostname": worker.hostname, "ip": worker.ip, "status": worker.stage.name(),
            "role": "slave", "cpu": worker.size.cpu, "ram": worker.size.ram, "disk": worker.size.disk,
        });
        let by_number = json!({
            "id": worker.number, "user_id": USER, "hostname": worker.hostname, "default_ip": worker.ip,
            "private_ip": null, "node_type": 2, "node_id": 3,
            "datacenter_id": self.number_of_datacenter(&cluster.datacenter.name),
            "created_on": stamp(worker.created),
        });
        self.shaped(by_id, by_number)
    }

    fn show_master(&self, cluster: &Cluster, master: &Master) -> Value {
        let by_id = json!({"identifier": master.identifier, "hostname": master.hostname, "ip": null,
            "status": "running", "role": "master", "cpu": 2, "ram": 4096, "disk": 50});
        let by_number = json!({"id": master.number, "user_id": USER, "hostname": master.hostname,
            "default_ip": null, "private_ip": null, "node_type": 1, "node_id": 3,
            "datacenter_id": self.number_of_datacenter(&cluster.datacenter.name),
            "created_on": stamp(cluster.created)});
        self.shaped(by_id, by_number)
    }

    fn shaped(&self, by_id: Value, by_number: Value) -> Value {
        match (self.settings.node_shape, by_id, by_number) {
            (NodeShape::Roles, by_id, _) => by_id,
            (NodeShape::Numbers, _, by_number) => by_number,
            (NodeShape::Union, Value::Object(mut both), Value::Object(numbers)) => {
                both.extend(numbers);
                Value::Object(both)
            }
            (NodeShape::Union, by_id, _) => by_id,
        }
    }

    pub(super) fn list_groups(&self, identifier: &str) -> Outcome {
        let cluster = self.cluster(identifier)?;
        list(cluster.groups.iter().map(|(number, group)| {
            json!({
                "id": number, "group_name": group.name, "identifier": group.identifier,
                "boxsize_id": group.size.id, "dcIdentifier": cluster.datacenter.identifier,
                "datacenter_id": self.number_of_datacenter(&cluster.datacenter.name),
                "ram": group.size.ram, "cpu": group.size.cpu, "ssd": group.size.disk, "traffic": 0,
                "nodes_count": cluster.visible().filter(|(_, worker)| worker.group == *number).count(),
                "cluster_id": 1, "project_id": cluster.project, "is_active": 1, "is_deleted": 0,
                "created_on": stamp(group.created), "last_updated": stamp(group.created), "dropped_on": null,
                "notes": null,
            })
        }))
    }

    /// One group of a size is all that a cluster may have.
    pub(super) fn add_group(&mut self, call: &Call) -> Outcome {
        let (cluster, name) = (call.required("clusterIdentifier")?, call.required("groupName")?.to_owned());
        let size = call.number("KubeSizeID").ok_or_else(|| Refusal::bad("KubeSizeID is required"))?;
        let size = self.catalogue.kube_sizes.iter().find(|known| known.id == size).cloned();
        let size = size.ok_or_else(|| Refusal::missing("Kubernetes size"))?;
        let same = self.cluster(cluster)?.groups.values().find(|group| group.size.id == size.id);
        if let Some(group) = same {
            let name = &group.name;
            return Err(Refusal::bad(format!(
                "Node group {name} already has the same selected size, please choose another size"
            )));
        }
        let (number, identifier, created) = (self.new_number(), self.new_id(), self.now);
        self.cluster_mut(cluster)?.groups.insert(number, Group { identifier, name, size, created });
        data(json!({"groupId": number}))
    }

    pub(super) fn delete_group(&mut self, identifier: &str) -> Outcome {
        let place = self.clusters.iter().find_map(|(id, cluster)| {
            let group = cluster.groups.iter().find(|(_, group)| group.identifier == identifier)?;
            Some((id.clone(), *group.0))
        });
        let (cluster, group) = place.ok_or_else(|| Refusal::missing("Node group"))?;
        let workers = self.cluster(&cluster)?.workers.iter();
        let of_group = workers.filter(|(_, worker)| worker.group == group);
        let workers: Vec<String> = of_group.map(|(id, _)| id.clone()).collect();
        self.cluster_mut(&cluster)?.groups.remove(&group);
        for worker in workers {
            self.remove_worker(&cluster, &worker);
        }
        Ok(Answer::Done)
    }

    pub(super) fn list_kube_sizes(&self, call: &Call) -> Outcome {
        self.datacenter(call.required("dcIdentifier")?)?;
        list(self.catalogue.kube_sizes.iter().map(|size| {
            json!({"id": size.id, "name": size.name, "cpu": size.cpu, "ram": size.ram, "disk": size.disk,
                "price": price(size.price), "hourly_price": size.price / HOURS_A_MONTH})
        }))
    }

    pub(super) fn add_worker_to_group(&mut self, cluster: &str, group: &str) -> Outcome {
        let group = group.parse().map_err(|_| Refusal::missing("Node group"))?;
        self.add_worker(cluster, Some(group))
    }

    /// A new worker in this group, or else in the oldest.
    pub(super) fn add_worker(&mut self, cluster: &str, group: Option<u64>) -> Outcome {
        let known = self.cluster(cluster)?;
        let oldest = known.groups.keys().next().copied();
        let group = group.or(oldest).ok_or_else(|| Refusal::missing("Node group"))?;
        let size = known.groups.get(&group).ok_or_else(|| Refusal::missing("Node group"))?.size.clone();
        let count = known.workers.values().filter(|worker| worker.stage != Stage::Leaving).count();
        if self.settings.max_workers.is_some_and(|most| count >= most) {
            return Err(Refusal::bad("worker nodes count exceeds the allowed limit"));
        }
        let place = known.datacenter.name.to_lowercase();
        let hostname = format!("{place}-kubernetes-{}-slave-{}", known.mark, self.mark());
        let (number, identifier) = (self.new_number(), self.new_id());
        let worker = Worker {
            number,
            hostname: hostname.clone(),
            size,
            ip: format!("198.18.{}.{}", 250 + number / 250 % 5, number % 250 + 1),
            group,
            stage: Stage::Ordered,
            until: None,
            created: self.now,
        };
        self.cluster_mut(cluster)?.workers.insert(identifier.clone(), worker);
        self.enter_worker(cluster, &identifier, Stage::Ordered);
        match self.settings.worker_answer {
            WorkerAnswer::Truth => data(json!(true)),
            WorkerAnswer::Object => data(json!({"id": number, "identifier": identifier,
                "status": Stage::Building.name(), "hostname": hostname})),
        }
    }

    pub(super) fn delete_worker(&mut self, cluster: &str, call: &Call) -> Outcome {
        let worker = call.required("identifier")?;
        let visible = self.cluster(cluster)?.visible().any(|(id, _)| id == worker);
        if !visible {
            return Err(Refusal::missing("Node"));
        }
        self.remove_worker(cluster, worker);
        Ok(Answer::Bare(json!({"error": false, "code": 200, "message": "The node is being removed"})))
    }

    /// The youngest goes, of the group if one is named: the caller has no choice.
    pub(super) fn reduce_workers(&mut self, cluster: &str, call: &Call) -> Outcome {
        let group = call.number("groupId");
        let workers = self.cluster(cluster)?.workers.iter();
        let stay = workers.filter(|(_, worker)| {
            worker.stage != Stage::Leaving && group.is_none_or(|group| worker.group == group)
        });
        let youngest = stay.max_by_key(|(_, worker)| worker.number);
        let youngest = youngest.map(|(id, _)| id.clone()).ok_or_else(|| Refusal::missing("Node"))?;
        self.remove_worker(cluster, &youngest);
        Ok(Answer::Done)
    }

    fn remove_worker(&mut self, cluster: &str, worker: &str) {
        let stage =
            self.clusters.get(cluster).and_then(|known| known.workers.get(worker)).map(|one| one.stage);
        if stage.is_some_and(|stage| stage != Stage::Leaving) {
            self.enter_worker(cluster, worker, Stage::Leaving);
        }
    }

    fn enter_worker(&mut self, cluster: &str, identifier: &str, stage: Stage) {
        let settings = &self.settings;
        let lasts = match stage {
            Stage::Ordered => Some((settings.queue_lag, &settings.never_appears)),
            Stage::Building => Some((settings.queue_time + settings.boot_time, &settings.never_boots)),
            Stage::Leaving => Some((settings.delete_time, &settings.stuck_deleting)),
            Stage::Running => None,
        };
        let known = self.clusters.get(cluster).and_then(|known| known.workers.get(identifier));
        let Some(hostname) = known.map(|worker| &worker.hostname) else { return };
        let wait = lasts.filter(|(_, held)| !one_fits(held, hostname)).map(|(wait, _)| wait);
        let until = wait.map(|wait| {
            let due = Due::Worker(cluster.to_owned(), identifier.to_owned());
            self.schedule(wait, due)
        });
        let worker = self.clusters.get_mut(cluster).and_then(|known| known.workers.get_mut(identifier));
        if let Some(worker) = worker {
            (worker.stage, worker.until) = (stage, until);
        }
    }

    pub(super) fn advance_worker(&mut self, cluster: &str, identifier: &str) {
        let now = self.now;
        let worker = self.clusters.get(cluster).and_then(|known| known.workers.get(identifier));
        let Some(worker) = worker.filter(|worker| worker.until == Some(now)) else { return };
        match worker.stage {
            Stage::Ordered => self.enter_worker(cluster, identifier, Stage::Building),
            Stage::Building => self.enter_worker(cluster, identifier, Stage::Running),
            Stage::Running => {}
            Stage::Leaving => {
                self.spent += worker.cost(now);
                if let Some(known) = self.clusters.get_mut(cluster) {
                    known.workers.remove(identifier);
                }
            }
        }
    }
}

impl Cluster {
    /// The workers that answers show, by identifier.
    fn visible(&self) -> impl Iterator<Item = (&String, &Worker)> {
        self.workers.iter().filter(|(_, worker)| worker.stage != Stage::Ordered)
    }
}

use crate::{
    Client, Place, ProviderSpec, Settings, labels,
    poller::{Listing, Poller},
    wire::Server,
};
use async_trait::async_trait;
use hostler_base::{Clock, Transport};
use hostler_driver::{
    Address, AddressKind, Attempt, Change, Changes, Code, Credentials, Deletion, Driver, DriverFactory,
    Evidence, Failure, Finding, Found, How, Identity, Machine, Marks, Order, ProviderId, Recognition, Scope,
    Settled, Snapshot, State,
};
use jiff::Timestamp;
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long a new server may be missing from lists. The API promises nothing; this is ours to assume.
const LIST_LAG: Duration = Duration::from_secs(30);

/// STACKIT as a [`Driver`], for one project, region and token.
pub struct StackitDriver {
    client: Client,
    clock: Clock,
    poller: Arc<Poller>,
}

impl StackitDriver {
    pub fn new(client: Client, clock: Clock) -> Self {
        let poller = Arc::new(Poller::new(client.clone(), clock.clone()));
        Self { client, clock, poller }
    }

    fn own_id<'a>(&self, id: &'a ProviderId) -> Result<&'a str, Failure> {
        let here = &self.client.place().project;
        match id.project() {
            Some(project) if project != here => Err(Failure::new(
                Code::InvalidArgument,
                format!("{id} is in project {project}, the Secret is for {here}"),
            )),
            _ => Ok(id.server()),
        }
    }

    /// Everything in a list that can be read as a machine. A server whose id is no id cannot be.
    fn machines(&self, servers: &[Server]) -> Vec<Machine> {
        servers.iter().filter_map(|server| machine(&self.client.place().project, server)).collect()
    }
}

fn machine(project: &str, server: &Server) -> Option<Machine> {
    Some(Machine {
        provider_id: ProviderId::stackit(project, &server.id).ok()?,
        name: server.name.clone(),
        marks: marks(server),
        state: state(server),
        raw_state: server.status.clone(),
        addresses: addresses(server),
        created_at: server.created_at,
    })
}

fn marks(server: &Server) -> Marks {
    let label = |key: &str| server.labels.as_ref()?.get(key)?.as_str().map(str::to_owned);
    let cluster = server.labels.iter().flatten().find(|(key, _)| key.ends_with(labels::CLUSTER_SUFFIX));
    Marks {
        // A server without a cluster label belongs to the domain without a name.
        domain: Some(cluster.and_then(|(_, value)| value.as_str()).unwrap_or_default().to_owned()),
        machine: label(labels::MACHINE),
        class: label(labels::MACHINE_CLASS),
        attempt: label(labels::ATTEMPT).map(Attempt),
    }
}

fn state(server: &Server) -> State {
    match server.status.as_str() {
        "ACTIVE" | "RUNNING" | "BACKING-UP" | "SNAPSHOTTING" | "MIGRATING" | "UPDATING" | "REBOOT"
        | "REBOOTING" | "RESIZING" => State::Running,
        "CREATING" | "BUILDING" | "STARTING" | "REBUILD" | "REBUILDING" | "RESTORING" | "UNRESCUING" => {
            State::Pending
        }
        "INACTIVE" | "STOPPED" | "SHUTOFF" | "STOPPING" | "PAUSED" | "DEALLOCATED" | "DEALLOCATING"
        | "RESCUE" | "RESCUING" => State::Stopped,
        "ERROR" => State::Failed {
            message: server.error_message.clone().unwrap_or_else(|| "the cloud gives no reason".to_owned()),
        },
        "DELETING" => State::Deleting,
        "DELETED" => State::Deleted,
        _ => State::Unrecognised,
    }
}

fn addresses(server: &Server) -> Vec<Address> {
    let nics = server.nics.iter().flatten();
    nics.flat_map(|nic| [&nic.ipv4, &nic.ipv6])
        .flatten()
        .filter(|address| !address.is_empty())
        .map(|address| Address { kind: AddressKind::InternalIp, address: address.clone() })
        .collect()
}

#[async_trait]
impl Driver for StackitDriver {
    async fn find(&self, identity: &Identity, id: Option<&ProviderId>) -> Result<Finding, Failure> {
        let began_at = self.clock.now();
        let (how, found) = match id {
            Some(id) => match self.client.get_server(self.own_id(id)?).await {
                Ok(server) => (How::Asked, Found::from_machines(self.machines(&[server]))),
                Err(failure) if failure.code == Code::NotFound => (How::Asked, Found::Absent),
                Err(failure) => return Err(failure),
            },
            None => {
                let selector = format!("{}={}", labels::MACHINE, identity.machine);
                let mut machines = self.machines(&self.client.list_servers(Some(&selector)).await?);
                machines.retain(|machine| identity.recognise(&machine.marks) == Recognition::Ours);
                (How::Listed, Found::from_machines(machines))
            }
        };
        Ok(Finding { found, evidence: Evidence { how, began_at, answered_at: self.clock.now() } })
    }

    async fn create(&self, order: &Order) -> Result<Machine, Failure> {
        let call = ProviderSpec::parse(&order.spec)?.create_call(order)?;
        let server = self.client.create_server(&call).await?;
        machine(&self.client.place().project, &server).ok_or_else(|| {
            Failure::new(Code::Unknown, format!("STACKIT made a server with the unusable id {:?}", server.id))
        })
    }

    async fn settle(&self, _: &Order, machine: &Machine) -> Result<Settled, Failure> {
        Ok(Settled::Done(Box::new(machine.clone())))
    }

    async fn delete(&self, identity: &Identity, id: &ProviderId) -> Result<Deletion, Failure> {
        let finding = self.find(identity, Some(id)).await?;
        let Some(machine) = finding.found.machines().first() else {
            return Ok(Deletion::Absent(finding.evidence));
        };
        if identity.recognise(&machine.marks) != Recognition::Ours {
            return Err(Failure::new(
                Code::FailedPrecondition,
                format!(
                    "the server {id} is not labelled as machine {:?}; it is left alone",
                    identity.machine
                ),
            ));
        }
        match machine.state {
            State::Deleting | State::Deleted => Ok(Deletion::Ordered),
            _ => match self.client.delete_server(id.server()).await {
                Err(failure) if failure.code != Code::NotFound => Err(failure),
                _ => Ok(Deletion::Ordered),
            },
        }
    }

    async fn list(&self, scope: &Scope, begun_after: Option<Timestamp>) -> Result<Snapshot, Failure> {
        let Listing { began_at, answered_at, servers } =
            self.poller.listing(begun_after.unwrap_or(Timestamp::MIN)).await?;
        let mut machines = self.machines(&servers);
        machines.retain(|machine| scope.holds(&machine.marks));
        Ok(Snapshot::new(began_at, answered_at, machines))
    }

    fn changes(&self) -> Changes {
        let project = self.client.place().project.clone();
        self.poller.changes(move |server| {
            let marks = marks(server);
            let identity = match (marks.domain, marks.machine, marks.class) {
                (Some(domain), Some(machine), Some(class)) => Some(Identity { domain, machine, class }),
                _ => None,
            };
            Some(Change::Machine { id: ProviderId::stackit(&project, &server.id).ok()?, identity })
        })
    }

    fn list_lag(&self) -> Duration {
        LIST_LAG
    }
}

/// Makes one driver per project, region and token, and gives out the same one again.
pub struct StackitFactory {
    transport: Transport,
    endpoint: String,
    clock: Clock,
    drivers: Mutex<Vec<(Place, Credentials, Arc<StackitDriver>)>>,
}

impl StackitFactory {
    pub fn new(transport: Transport, endpoint: &str, clock: Clock) -> Self {
        Self { transport, endpoint: endpoint.to_owned(), clock, drivers: Mutex::new(Vec::new()) }
    }
}

impl DriverFactory for StackitFactory {
    fn driver(&self, credentials: &Credentials, spec: &Value) -> Result<Arc<dyn Driver>, Failure> {
        let settings = Settings::read(credentials, &ProviderSpec::parse(spec)?)?;
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            drivers.iter().find(|(place, known, _)| *place == settings.place && known.same_as(credentials));
        if let Some((_, _, driver)) = known {
            return Ok(Arc::clone(driver) as Arc<dyn Driver>);
        }
        // A rotated Secret replaces the driver of its place.
        drivers.retain(|(place, ..)| *place != settings.place);
        let client =
            Client::new(self.transport.clone(), &self.endpoint, settings.place.clone(), settings.token);
        let driver = Arc::new(StackitDriver::new(client, self.clock.clone()));
        drivers.push((settings.place, credentials.clone(), Arc::clone(&driver)));
        Ok(driver)
    }
}

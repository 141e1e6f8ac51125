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
                format!(
                    "the server {id} is in project {project}, the Secret is for {here}: put its project-id back"
                ),
            )),
            _ => Ok(id.server()),
        }
    }

    /// One that cannot be read spoils all: what is left out would count as absent.
    fn machines(&self, servers: &[Server]) -> Result<Vec<Machine>, Failure> {
        servers.iter().map(|server| machine(&self.client.place().project, server)).collect()
    }

    /// The server with this id; nothing if the API says that there is none.
    async fn ask(&self, id: &ProviderId) -> Result<Vec<Machine>, Failure> {
        let wanted = self.own_id(id)?;
        match self.client.get_server(wanted).await {
            Ok(server) if server.id == wanted => self.machines(&[server]),
            Ok(server) => Err(Failure::new(
                Code::Unavailable,
                format!("STACKIT was asked for the server {wanted} and answered with {:?}", server.id),
            )),
            Err(failure) if failure.code == Code::NotFound => Ok(Vec::new()),
            Err(failure) => Err(failure),
        }
    }
}

fn machine(project: &str, server: &Server) -> Result<Machine, Failure> {
    let provider_id = ProviderId::stackit(project, &server.id).map_err(|error| {
        Failure::new(Code::Unavailable, format!("STACKIT told of a server with an unusable id: {error}"))
    })?;
    Ok(Machine {
        provider_id,
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
        self.poller.stir();
        let began_at = self.clock.now();
        let (how, machines) = match id {
            Some(id) => (How::Asked, self.ask(id).await?),
            None => {
                let selector = format!("{}={}", labels::MACHINE, identity.machine);
                let mut machines = self.machines(&self.client.list_servers(Some(&selector)).await?)?;
                machines.retain(|machine| identity.recognise(&machine.marks) == Recognition::Ours);
                (How::Listed, machines)
            }
        };
        let evidence = Evidence { how, began_at, answered_at: self.clock.now() };
        Ok(Finding { found: Found::from_machines(machines), evidence })
    }

    async fn create(&self, order: &Order) -> Result<Machine, Failure> {
        self.poller.stir();
        let call = ProviderSpec::parse(&order.spec)?.create_call(order)?;
        let server = self.client.create_server(&call).await?;
        machine(&self.client.place().project, &server)
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
        let mut machines = self.machines(&servers)?;
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

    fn place(&self) -> String {
        let Place { project, region } = self.client.place();
        format!("project {project} region {region}")
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

use crate::{
    Client, Defaults, Place, ProviderSpec, labels,
    poller::{Listing, Poller},
    status::{self, Progress},
    wire::Server,
};
use async_trait::async_trait;
use hostler_base::Clock;
use hostler_driver::{
    Address, AddressKind, Attempt, Change, Changes, Code, Deletion, Driver, Evidence, Failure, Finding,
    Found, How, Identity, Machine, Marks, Order, ProviderId, Recognition, Scope, Settled, Snapshot, State,
};
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};

/// How long a new server may be missing from lists. The API promises nothing; this is ours to assume.
const LIST_LAG: Duration = Duration::from_secs(30);

/// STACKIT as a [`Driver`], for one project, region and right.
pub struct StackitDriver {
    client: Client,
    defaults: Defaults,
    clock: Clock,
    poller: Arc<Poller>,
}

impl StackitDriver {
    pub(crate) fn new(client: Client, defaults: Defaults, poller: Arc<Poller>, clock: Clock) -> Self {
        Self { client, defaults, clock, poller }
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
        state: status::state(&server.status, server.power_status.as_deref(), server.error_message.as_deref()),
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
        let spec = ProviderSpec::parse(&order.spec)?;
        let call = spec.create_call(order, &self.defaults, self.client.version())?;
        let server = self.client.create_server(&call).await?;
        machine(&self.client.place().project, &server)
    }

    async fn settle(&self, _: &Order, machine: &Machine) -> Result<Settled, Failure> {
        match status::progress(&machine.state) {
            Progress::Done => Ok(Settled::Done(Box::new(machine.clone()))),
            Progress::Waiting => Ok(Settled::Waiting(format!("the server is {}", machine.raw_state))),
            Progress::Failed(code) => {
                let reason = match &machine.state {
                    State::Failed { message } => message,
                    _ => &machine.raw_state,
                };
                Err(Failure::new(code, format!("the server {} failed: {reason}", machine.provider_id)))
            }
            Progress::Absent => {
                Err(Failure::new(Code::NotFound, format!("the server {} is gone", machine.provider_id)))
            }
        }
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
        if !status::needs_delete_call(&machine.state) {
            return Ok(Deletion::Ordered);
        }
        match self.client.delete_server(id.server()).await {
            Err(failure) if failure.code != Code::NotFound => Err(failure),
            _ => Ok(Deletion::Ordered),
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

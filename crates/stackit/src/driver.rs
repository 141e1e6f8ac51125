mod advice;
mod boot_volume;
mod console;
mod settle;

use crate::{
    Client, ConsoleLines, Defaults, LabelNames, Place, ProviderSpec,
    listing::Listing,
    poller::Poller,
    spec::Setting,
    status::{self, Progress},
    wire::{NicChange, Server, ServerNic},
};
use advice::Advisor;
use async_trait::async_trait;
use hostler_base::Clock;
use hostler_driver::{
    Address, AddressKind, Change, Changes, Code, Deletion, Described, Driver, Evidence, Failure, Finding,
    Form, Found, How, Identity, Machine, Marks, Order, ProviderId, Recognition, Scope, Settled, Snapshot,
    State, VolumeSource,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use settle::{Todo, Wish};
use std::{sync::Arc, time::Duration};

/// How long a new server may be missing from lists. The API promises nothing; this is ours to assume.
const LIST_LAG: Duration = Duration::from_secs(30);
/// Whose volumes are STACKIT's, as CSI drivers and as the one that Kubernetes had built in.
const VOLUME_DRIVERS: [&str; 2] = ["block-storage.csi.stackit.cloud", "cinder.csi.openstack.org"];
const BUILT_IN_VOLUMES: &str = "cinder";
/// How old a list may be that shows a server which is to be deleted: ids are not used again.
const LATELY: SignedDuration = SignedDuration::from_secs(10);
/// How often a NIC that somebody else changes at the same time is read again.
const CONFLICTS: usize = 3;
/// How much of a console is read.
const CONSOLE: ConsoleLines = ConsoleLines::Last(60);

/// STACKIT as a [`Driver`], for one project, region and right.
pub struct StackitDriver {
    client: Client,
    defaults: Defaults,
    names: LabelNames,
    /// What is used although it looks wrong.
    warnings: Vec<String>,
    clock: Clock,
    poller: Arc<Poller>,
    advisor: Advisor,
}

impl StackitDriver {
    pub(crate) fn new(
        client: Client,
        defaults: Defaults,
        names: LabelNames,
        warnings: Vec<String>,
        poller: Arc<Poller>,
        clock: Clock,
    ) -> Self {
        let advisor = Advisor::new(clock.clone());
        Self { client, defaults, names, warnings, clock, poller, advisor }
    }

    fn setting(&self) -> Setting<'_> {
        Setting { defaults: &self.defaults, version: self.client.version(), names: &self.names }
    }

    fn own_id<'a>(&self, id: &'a ProviderId) -> Result<&'a str, Failure> {
        let here = &self.client.place().project;
        if id.form() != Form::Stackit {
            let message = format!("{id} is not the id of a STACKIT server: stackit://<project>/<server>");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        match id.project() {
            Some(project) if project == here => Ok(id.server()),
            other => Err(Failure::new(
                Code::InvalidArgument,
                format!(
                    "the server {id} is in project {}, not in {here} where it was looked for: correct the id",
                    other.unwrap_or_default()
                ),
            )),
        }
    }

    /// One that cannot be read spoils all: what is left out would count as absent.
    fn machines<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a Server>,
        cluster: Option<&str>,
    ) -> Result<Vec<Machine>, Failure> {
        servers.into_iter().map(|server| self.machine(server, cluster)).collect()
    }

    fn machine(&self, server: &Server, cluster: Option<&str>) -> Result<Machine, Failure> {
        let provider_id = ProviderId::stackit(&self.client.place().project, &server.id).map_err(|error| {
            Failure::new(Code::Unavailable, format!("STACKIT told of a server with an unusable id: {error}"))
        })?;
        let (power, message) = (server.power_status.as_deref(), server.error_message.as_deref());
        Ok(Machine {
            provider_id,
            name: server.name.clone(),
            marks: self.names.marks(server, cluster),
            state: status::state(&server.status, power, message),
            raw_state: server.status.clone(),
            addresses: addresses(server),
            created_at: server.created_at,
            launched_at: server.launched_at,
        })
    }

    /// The server with this id; nothing if the API says that there is none.
    async fn server(&self, id: &ProviderId) -> Result<Option<Server>, Failure> {
        let wanted = self.own_id(id)?;
        match self.client.get_server(wanted).await {
            Ok(server) if server.id == wanted => Ok(Some(server)),
            Ok(server) => Err(Failure::new(
                Code::Unavailable,
                format!("STACKIT was asked for the server {wanted} and answered with {:?}", server.id),
            )),
            Err(failure) if failure.code == Code::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn is_ours(&self, identity: &Identity, server: &Server) -> Result<(), Failure> {
        own(identity, &self.names.marks(server, Some(&identity.domain)), &server.id)
    }

    /// The servers of a list that are this machine's.
    fn listed(&self, listing: &Listing, identity: &Identity) -> Result<Finding, Failure> {
        let cluster = Some(identity.domain.as_str());
        let labelled = listing.of_machine(&identity.machine);
        let mut machines: Vec<Machine> =
            labelled.map(|server| self.machine(server, cluster)).collect::<Result<_, _>>()?;
        machines.retain(|machine| identity.recognise(&machine.marks) == Recognition::Ours);
        Ok(Finding { found: Found::from_machines(machines), evidence: listing.evidence() })
    }

    /// The server as a list of just now shows it, if it does.
    fn seen_lately(&self, id: &str) -> Option<Server> {
        let now = self.clock.now();
        let listing = self.poller.latest().filter(|listing| {
            let age = now.duration_since(listing.began_at);
            !age.is_negative() && age <= LATELY
        })?;
        listing.server(id).map(|server| Server::clone(server))
    }

    /// The server with its NICs from a list that all who settle share; nothing if more than NICs has to be known.
    async fn with_nics(&self, machine: &Machine, wish: &Wish) -> Option<Server> {
        if wish.boot_volume_goes {
            return None;
        }
        let id = machine.provider_id.server();
        let nics = self.poller.nics().await.inspect_err(|failure| {
            tracing::debug!(%failure, "the NICs could not be listed; the server itself is asked");
        });
        let nics = nics.ok()?.get(id)?.iter().map(ServerNic::from).collect();
        Some(Server { id: id.to_owned(), nics: Some(nics), ..Server::default() })
    }

    fn wish(&self, spec: &ProviderSpec) -> Wish {
        Wish {
            addresses: spec.allowed_addresses.clone(),
            networking: spec.networking(self.setting()),
            boot_volume_goes: spec.boot_volume.is_none(),
        }
    }

    async fn carry_out(&self, server: &str, todo: &Todo, wish: &Wish) -> Result<String, Failure> {
        match todo {
            Todo::Allow { network, nic, present, missing } => {
                self.allow(network, nic, present, missing, wish).await?;
                Ok(format!("the NIC {nic} may send from {} now", missing.join(", ")))
            }
            Todo::BootVolume { volume } => {
                self.let_go(server, volume).await?;
                Ok(format!("the boot volume {volume} goes with its server now"))
            }
        }
    }

    /// Adds ranges to a NIC. The API takes whole lists, so a NIC that changed meanwhile is read again.
    async fn allow(
        &self,
        network: &str,
        nic: &str,
        present: &[String],
        missing: &[String],
        wish: &Wish,
    ) -> Result<(), Failure> {
        let mut all = [present, missing].concat();
        let mut conflicts = 0;
        loop {
            let change = NicChange { allowed_addresses: Some(all), ..NicChange::default() };
            match self.client.update_nic(network, nic, &change).await {
                Ok(changed) => {
                    let lost = changed
                        .allowed_addresses
                        .map(|present| crate::cidr::missing(&wish.addresses, &present))
                        .unwrap_or_default();
                    if lost.is_empty() {
                        return Ok(());
                    }
                    let message = format!("the NIC {nic} was told to allow {} and does not", lost.join(", "));
                    return Err(Failure::new(Code::Aborted, message));
                }
                Err(failure) if failure.code == Code::Aborted && conflicts < CONFLICTS => {
                    conflicts += 1;
                    let fresh = self.client.get_nic(network, nic).await?;
                    let present = fresh.allowed_addresses.unwrap_or_default();
                    let missing = crate::cidr::missing(&wish.addresses, &present);
                    if missing.is_empty() {
                        return Ok(());
                    }
                    all = [present, missing].concat();
                }
                Err(failure) => return Err(failure),
            }
        }
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

/// A server that is another one's is left alone.
fn own(identity: &Identity, marks: &Marks, server: &str) -> Result<(), Failure> {
    if identity.recognise(marks) == Recognition::Ours {
        return Ok(());
    }
    let message =
        format!("the server {server} is not labelled as machine {:?}; it is left alone", identity.machine);
    Err(Failure::new(Code::InvalidArgument, message))
}

/// An answer to an order that tells of another server is no answer: what became of the order is not known.
fn ordered(order: &Order, server: &Server, machine: &Machine) -> Result<(), Failure> {
    let marks = &machine.marks;
    let marked = order.identity.recognise(marks) == Recognition::Ours
        && marks.attempt.as_ref() == Some(&order.attempt);
    // One that tells of no labels at all is not told of as another one.
    if marked || (server.labels.is_none() && server.name == order.identity.machine) {
        return Ok(());
    }
    let message = format!(
        "STACKIT answered the order of the machine {:?} with the server {}, which is labelled as another one",
        order.identity.machine, server.id
    );
    Err(Failure::new(Code::Unavailable, message))
}

fn gone(id: &ProviderId) -> Failure {
    Failure::new(Code::NotFound, format!("the server {id} is gone"))
}

#[async_trait]
impl Driver for StackitDriver {
    fn describe(&self, spec: &Value) -> Result<Described, Failure> {
        let spec = ProviderSpec::parse(spec)?;
        let upkeep = !spec.allowed_addresses.is_empty();
        Ok(Described { domain: spec.cluster(&self.names), user_data: spec.user_data, upkeep })
    }

    fn check(&self, order: &Order, machines: usize) -> Result<Vec<String>, Failure> {
        let spec = ProviderSpec::parse(&order.spec)?;
        match (spec.check(order, self.setting()), spec.check_count(machines)) {
            (Ok(()), Ok(())) => Ok(self.warnings.clone()),
            (Err(one), Err(other)) => {
                Err(Failure::new(one.code, format!("{}; {}", one.message, other.message)))
            }
            (Err(failure), Ok(())) | (Ok(()), Err(failure)) => Err(failure),
        }
    }

    async fn find(&self, identity: &Identity, id: Option<&ProviderId>) -> Result<Finding, Failure> {
        self.poller.stir();
        let began_at = self.clock.now();
        let cluster = Some(identity.domain.as_str());
        let (how, machines) = match id {
            Some(id) => {
                let server = self.server(id).await?.or_else(|| self.poller.remains.of(id.server()));
                (How::Asked, self.machines(&server, cluster)?)
            }
            None => return self.listed(&self.poller.next_listing().await?, identity),
        };
        let evidence = Evidence { how, began_at, answered_at: self.clock.now() };
        Ok(Finding { found: Found::from_machines(machines), evidence })
    }

    async fn look(&self, identity: &Identity, id: &ProviderId) -> Result<Finding, Failure> {
        self.poller.stir();
        let wanted = self.own_id(id)?;
        let listing = self.poller.next_listing().await?;
        // A list that does not show it may be behind, and one that shows it as gone is only the second word on that.
        let Some(server) = listing.any(wanted) else { return self.find(identity, Some(id)).await };
        let machine = self.machine(server, Some(&identity.domain))?;
        if !machine.state.is_present() {
            return self.find(identity, Some(id)).await;
        }
        let evidence = listing.evidence();
        Ok(Finding { found: Found::from_machines(vec![machine]), evidence })
    }

    async fn create(&self, order: &Order) -> Result<Machine, Failure> {
        self.poller.stir();
        let spec = ProviderSpec::parse(&order.spec)?;
        spec.check(order, self.setting())?;
        let call = spec.create_call(order, self.setting());
        match self.client.create_server(&call).await {
            Ok(server) => {
                let machine = self.machine(&server, Some(&order.identity.domain))?;
                ordered(order, &server, &machine)?;
                Ok(machine)
            }
            Err(failure) if matches!(failure.code, Code::InvalidArgument | Code::FailedPrecondition) => {
                let mut told = vec![failure.message.clone()];
                told.extend(self.advisor.about(&self.client, &spec, &self.defaults).await);
                Err(Failure { message: told.join("; "), ..failure })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn settle(&self, order: &Order, machine: &Machine) -> Result<Settled, Failure> {
        let id = &machine.provider_id;
        match status::progress(&machine.state) {
            Progress::Done => {}
            Progress::Waiting => return Ok(Settled::Waiting(format!("the server is {}", machine.raw_state))),
            Progress::Failed(code) => {
                let reason = match &machine.state {
                    State::Failed { message, .. } => message,
                    _ => &machine.raw_state,
                };
                return Err(Failure::new(code, format!("the server {id} failed: {reason}")));
            }
            Progress::Absent => return Err(gone(id)),
        }
        let wish = self.wish(&ProviderSpec::parse(&order.spec)?);
        if wish.is_nothing() && !machine.addresses.is_empty() {
            return Ok(Settled::Done(Box::new(machine.clone())));
        }
        own(&order.identity, &machine.marks, id.server())?;
        let mut settled = machine.clone();
        let mut server = match self.with_nics(machine, &wish).await {
            Some(server) => server,
            None => {
                let Some(server) = self.server(id).await? else { return Err(gone(id)) };
                self.is_ours(&order.identity, &server)?;
                settled = self.machine(&server, Some(&order.identity.domain))?;
                server
            }
        };
        settled.addresses = addresses(&server);
        if wish.misses_nic(&server) {
            return Err(Failure::new(Code::Unavailable, format!("the server {id} has no NIC")));
        }
        if wish.boot_volume(&server).is_some() {
            self.complete(&mut server).await?;
        }
        let todo = wish.todo(&server);
        if let Some(first) = todo.first() {
            let did = self.carry_out(&server.id, first, &wish).await?;
            if todo.len() > 1 {
                return Ok(Settled::Did(did));
            }
        }
        Ok(Settled::Done(Box::new(settled)))
    }

    async fn delete(&self, order: &Order, id: &ProviderId) -> Result<Deletion, Failure> {
        self.poller.stir();
        let began_at = self.clock.now();
        let seen = match self.seen_lately(self.own_id(id)?) {
            Some(server) => Some(server),
            None => self.server(id).await?,
        };
        let Some(mut server) = seen else {
            if let Some(left) = self.poller.remains.of(id.server()) {
                self.clear_away(order, &left).await?;
                return Ok(Deletion::Ordered);
            }
            let evidence = Evidence { how: How::Asked, began_at, answered_at: self.clock.now() };
            return Ok(Deletion::Absent(evidence));
        };
        self.is_ours(&order.identity, &server)?;
        let state = self.machine(&server, None)?.state;
        if !status::needs_delete_call(&state) {
            return Ok(Deletion::Ordered);
        }
        match self.take_boot_volume_along(order, &mut server).await {
            // Nothing can be attached differently to a server that is not there yet or never was.
            Err(failure)
                if matches!(state, State::Pending | State::Failed { .. })
                    && matches!(failure.code, Code::Aborted | Code::InvalidArgument | Code::NotFound) =>
            {
                self.note_boot_volume(&server, &failure).await?;
            }
            other => other?,
        }
        match self.client.delete_server(id.server()).await {
            Err(failure) if failure.code != Code::NotFound => Err(failure),
            _ => Ok(Deletion::Ordered),
        }
    }

    async fn list(&self, scope: &Scope, begun_after: Option<Timestamp>) -> Result<Snapshot, Failure> {
        let listing = self.poller.listing(begun_after.unwrap_or(Timestamp::MIN)).await?;
        let cluster = match scope {
            Scope::Domain(domain) | Scope::Class { domain, .. } => Some(domain.as_str()),
            Scope::AnyDomain { .. } => None,
        };
        let mut machines = self.machines(listing.all(), cluster)?;
        machines.retain(|machine| scope.holds(&machine.marks));
        Ok(Snapshot::new(listing.began_at, listing.answered_at, machines))
    }

    fn changes(&self) -> Changes {
        let (project, names) = (self.client.place().project.clone(), self.names.clone());
        self.poller.changes(move |server| {
            let marks = names.marks(server, None);
            let domain = marks.domain.unwrap_or_default();
            let identity = marks.machine.zip(marks.class);
            let identity = identity.map(|(machine, class)| Identity { domain, machine, class });
            Some(Change::Machine { id: ProviderId::stackit(&project, &server.id).ok()?, identity })
        })
    }

    fn list_lag(&self) -> Duration {
        LIST_LAG
    }

    fn place(&self) -> String {
        let place: &Place = self.client.place();
        place.to_string()
    }

    async fn volumes(&self, volumes: &[VolumeSource]) -> Result<Vec<String>, Failure> {
        let own = |volume: &VolumeSource| match volume {
            VolumeSource::Csi { driver, handle } if VOLUME_DRIVERS.contains(&driver.as_str()) => {
                Some(handle.clone())
            }
            VolumeSource::InTree { kind, id } if kind == BUILT_IN_VOLUMES => Some(id.clone()),
            _ => None,
        };
        Ok(volumes.iter().filter_map(own).filter(|id| !id.is_empty()).collect())
    }

    async fn console(&self, id: &ProviderId) -> Result<String, Failure> {
        let log = self.client.server_log(self.own_id(id)?, CONSOLE).await?;
        Ok(console::tail(&log))
    }
}

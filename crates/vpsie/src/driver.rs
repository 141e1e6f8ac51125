mod choice;
mod settle;

use crate::{
    Catalogue, Client, Hints, ProviderSpec, marks,
    poller::{Listing, Poller},
    queue::{is_called, may_be_for},
    status,
    wire::{CreateVm, Vm, VmDetail},
};
use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::STANDARD};
use choice::{Chosen, advise, choose};
use hostler_base::Clock;
use hostler_driver::{
    Address, AddressKind, Change, Changes, Code, Deletion, Described, Driver, Evidence, Failure, Finding,
    Form, Found, How, Identity, Machine, Marks, Order, ProviderId, Recognition, Scope, Settled, Snapshot,
    State, UserData,
};
use jiff::Timestamp;
use serde_json::Value;
use settle::{Done, Todo};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long an order may be in neither queue nor list. VPSie promises nothing; this is ours to assume.
const LIST_LAG: Duration = Duration::from_secs(120);
/// How long to wait for an address in a network before it is asked for once more.
const VPC_AGAIN: Duration = Duration::from_secs(300);
/// So many machines are remembered at most, for what VPSie does not show of them.
const MEMORY: usize = 10_000;
/// What VPSie is told when something is deleted.
const REASON: &str = "hostler: not needed any more";

/// VPSie as a [`Driver`], for one account.
pub struct VpsieDriver {
    client: Client,
    catalogue: Arc<Catalogue>,
    poller: Arc<Poller>,
    hints: Hints,
    clock: Clock,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// How machines are called that are not called by their own name. The queue may show nothing else of them.
    hostnames: BTreeMap<Identity, String>,
    /// What was done to each VPS.
    done: BTreeMap<String, Doings>,
}

#[derive(Clone, Default)]
struct Doings {
    keys: Vec<String>,
    tags: Vec<String>,
    vpc_at: Option<Instant>,
}

impl VpsieDriver {
    pub(crate) fn new(
        client: Client,
        catalogue: Arc<Catalogue>,
        poller: Arc<Poller>,
        hints: Hints,
        clock: Clock,
    ) -> Self {
        Self { client, catalogue, poller, hints, clock, memory: Mutex::default() }
    }

    fn remember<T>(&self, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hostname(&self, identity: &Identity) -> String {
        let known = self.remember(|memory| memory.hostnames.get(identity).cloned());
        known.unwrap_or_else(|| identity.machine.clone())
    }

    fn learn(&self, order: &Order, spec: &ProviderSpec) {
        let hostname = spec.hostname_of(order);
        if hostname == order.identity.machine {
            return;
        }
        self.remember(|memory| {
            if memory.hostnames.len() >= MEMORY {
                memory.hostnames.clear();
            }
            memory.hostnames.insert(order.identity.clone(), hostname);
        });
    }

    fn note(&self, identifier: &str, change: impl FnOnce(&mut Doings)) {
        self.remember(|memory| {
            if memory.done.len() >= MEMORY {
                memory.done.clear();
            }
            change(memory.done.entry(identifier.to_owned()).or_default());
        });
    }

    /// `marks` are what it says about itself.
    fn machine(&self, vm: &Vm, marks: Marks) -> Result<Machine, Failure> {
        let identifier = vm.identifier.as_deref().unwrap_or_default();
        let provider_id = ProviderId::vpsie(identifier).map_err(|error| {
            Failure::new(Code::Unavailable, format!("VPSie told of a VPS with an unusable id: {error}"))
        })?;
        let (mut state, mut raw_state) = (status::state(vm), status::word(vm));
        if state.is_present() && self.poller.is_deleting(identifier) {
            (state, raw_state) = (State::Deleting, "deleting");
        }
        Ok(Machine {
            provider_id,
            name: vm.hostname.clone().unwrap_or_default(),
            marks,
            state,
            raw_state: raw_state.to_owned(),
            addresses: addresses(vm),
            created_at: vm.created_on,
            launched_at: None,
        })
    }

    /// The VPS with this id; nothing if the API says that there is none, or none any more.
    async fn vm(&self, id: &ProviderId) -> Result<Option<VmDetail>, Failure> {
        match self.client.get_vm(own_id(id)?).await {
            Ok(detail) => Ok(Some(detail).filter(|detail| !status::is_gone(&detail.vm))),
            Err(failure) if failure.code == Code::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The machines of a list that are this one's, and whether an order in hand may be.
    async fn listed(&self, listing: &Listing, identity: &Identity) -> Result<Finding, Failure> {
        let hostname = self.hostname(identity);
        let mut machines = Vec::new();
        for vm in listing.vms().filter(|vm| !status::is_gone(vm)) {
            let marks = match vm.notes.as_deref().and_then(marks::read) {
                Some(marks) => marks,
                None if is_called(vm.hostname.as_deref(), &hostname) => self.unmarked(identity, vm).await?,
                None => continue,
            };
            if identity.recognise(&marks) == Recognition::Ours {
                machines.push(self.machine(vm, marks)?);
            }
        }
        let mut evidence = listing.evidence();
        if listing.in_hand().iter().any(|order| may_be_for(order, identity, &hostname)) {
            evidence.how = How::Queued;
        }
        Ok(Finding { found: Found::from_machines(machines), evidence })
    }

    /// What one says about itself whose notes say nothing although it has the name of ours: its own page shows tags,
    /// too. As long as nobody knows whose it is, it counts neither as ours nor as absent.
    async fn unmarked(&self, identity: &Identity, vm: &Vm) -> Result<Marks, Failure> {
        let identifier = vm.identifier.as_deref().unwrap_or_default();
        let detail = match self.client.get_vm(identifier).await {
            Ok(detail) => detail,
            Err(failure) if failure.code == Code::NotFound => return Ok(Marks::default()),
            Err(failure) => return Err(failure),
        };
        let marks = marks::of(identity, detail.vm.notes.as_deref(), &detail.tags);
        if marks != Marks::default() || detail.tags.iter().any(|tag| tag.starts_with(marks::TAG_PREFIX)) {
            return Ok(marks);
        }
        Err(Failure::new(
            Code::FailedPrecondition,
            format!(
                "the VPS {identifier} has the name {:?}, and neither its notes nor its tags say whose it is: rename or delete it, or add the tag {:?} if it is this machine's",
                vm.hostname.as_deref().unwrap_or_default(),
                marks::tag(identity)
            ),
        ))
    }

    fn create_call(order: &Order, spec: &ProviderSpec, chosen: &Chosen) -> CreateVm {
        let Order { identity, attempt, user_data, .. } = order;
        let user_data = user_data.as_ref().map(UserData::expose).filter(|text| !text.is_empty());
        CreateVm {
            resource_identifier: chosen.plan.clone(),
            os_identifier: chosen.image.clone(),
            dc_identifier: chosen.datacenter.clone(),
            hostname: spec.hostname_of(order),
            project_id: chosen.project.clone(),
            notes: marks::notes(identity, attempt, &spec.notes),
            backup_enabled: false,
            weekly_backup_enabled: false,
            monthly_backup_enabled: false,
            public_ipv4: spec.public_ipv4,
            public_ipv6: spec.public_ipv6,
            private_ip: spec.private_ip,
            ssh_key_identifier: chosen.ssh_keys.first().cloned(),
            script_identifier: chosen.script.clone(),
            user_data: user_data.map(|text| STANDARD.encode(text).into()),
            tags: spec.tags.iter().cloned().chain([marks::tag(identity)]).collect(),
            process_id: marks::process(identity, attempt),
            ssd: spec.disk_gb,
        }
    }

    async fn carry_out(&self, identifier: &str, todo: Todo, chosen: &Chosen) -> Result<String, Failure> {
        match todo {
            Todo::Key { key } => {
                self.client.add_vm_ssh_key(identifier, &key).await?;
                self.note(identifier, |done| done.keys.push(key.clone()));
                Ok(format!("the SSH key {key} lets in now"))
            }
            Todo::Tags { tags } => {
                self.client.add_vm_tags(identifier, &tags).await?;
                let told = tags.join(", ");
                self.note(identifier, |done| done.tags.extend(tags));
                Ok(format!("it has the tags {told} now"))
            }
            Todo::Vpc { vpc } => {
                self.client.attach_vm_to_vpc(identifier, vpc, &chosen.datacenter).await?;
                let now = self.clock.instant();
                self.note(identifier, |done| done.vpc_at = Some(now));
                Ok(format!("it joins the network {vpc}"))
            }
        }
    }

    fn doings(&self, identifier: &str) -> Doings {
        self.remember(|memory| memory.done.get(identifier).cloned()).unwrap_or_default()
    }
}

fn own_id(id: &ProviderId) -> Result<&str, Failure> {
    if id.form() == Form::Vpsie {
        return Ok(id.server());
    }
    Err(Failure::new(
        Code::InvalidArgument,
        format!("{id} is not the id of a VPS of VPSie: vpsie://<identifier>"),
    ))
}

fn addresses(vm: &Vm) -> Vec<Address> {
    let known = [
        (AddressKind::InternalIp, &vm.private_ip),
        (AddressKind::ExternalIp, &vm.public_ip),
        (AddressKind::ExternalIp, &vm.default_ip),
        (AddressKind::ExternalIp, &vm.default_ipv6),
    ];
    let mut addresses: Vec<Address> = Vec::new();
    for (kind, address) in known {
        let Some(address) = address else { continue };
        if !addresses.iter().any(|known| known.address == *address) {
            addresses.push(Address { kind, address: address.clone() });
        }
    }
    addresses
}

fn gone(id: &ProviderId) -> Failure {
    Failure::new(Code::NotFound, format!("the VPS {id} is gone"))
}

/// A VPS that is another one's is left alone.
fn own(identity: &Identity, marks: &Marks, id: &ProviderId) -> Result<(), Failure> {
    if identity.recognise(marks) == Recognition::Ours {
        return Ok(());
    }
    let message = format!(
        "neither notes nor tags of the VPS {id} say that it is the machine {:?}: it is left alone",
        identity.machine
    );
    Err(Failure::new(Code::InvalidArgument, message))
}

#[async_trait]
impl Driver for VpsieDriver {
    fn describe(&self, spec: &Value) -> Result<Described, Failure> {
        let spec = ProviderSpec::parse(spec)?;
        let (user_data, upkeep) = (spec.user_data(), !spec.vpc.is_empty());
        Ok(Described { domain: spec.cluster, user_data, upkeep })
    }

    fn check(&self, order: &Order, machines: usize) -> Result<Vec<String>, Failure> {
        let spec = ProviderSpec::parse(&order.spec)?;
        spec.check(order, &self.hints, machines)?;
        Ok(spec.warnings(order))
    }

    async fn find(&self, identity: &Identity, id: Option<&ProviderId>) -> Result<Finding, Failure> {
        self.poller.stir();
        let Some(id) = id else { return self.listed(&self.poller.next_listing().await?, identity).await };
        let began_at = self.clock.now();
        let machines: Vec<Machine> = match self.vm(id).await? {
            None => Vec::new(),
            Some(VmDetail { vm, tags }) => {
                vec![self.machine(&vm, marks::of(identity, vm.notes.as_deref(), &tags))?]
            }
        };
        let evidence = Evidence { how: How::Asked, began_at, answered_at: self.clock.now() };
        Ok(Finding { found: Found::from_machines(machines), evidence })
    }

    async fn look(&self, identity: &Identity, id: &ProviderId) -> Result<Finding, Failure> {
        self.poller.stir();
        let wanted = own_id(id)?;
        let listing = self.poller.next_listing().await?;
        // A list that does not show it may be behind, and only its own page shows tags.
        let marked = listing.vm(wanted).filter(|vm| !status::is_gone(vm)).and_then(|vm| {
            let marks = vm.notes.as_deref().and_then(marks::read)?;
            Some((vm, marks))
        });
        let Some((vm, marks)) = marked else { return self.find(identity, Some(id)).await };
        let machine = self.machine(vm, marks)?;
        Ok(Finding { found: Found::from_machines(vec![machine]), evidence: listing.evidence() })
    }

    /// VPSie tells no id of what was ordered: that it was taken is all that is known then.
    async fn create(&self, order: &Order) -> Result<Machine, Failure> {
        self.poller.stir();
        let spec = ProviderSpec::parse(&order.spec)?;
        spec.check(order, &self.hints, 1)?;
        self.learn(order, &spec);
        let chosen = choose(&self.catalogue, &spec, &self.hints).await?;
        let call = Self::create_call(order, &spec, &chosen);
        match self.client.create_vm(&call, chosen.own_image).await {
            Ok(()) => Err(Failure::new(
                Code::Uninitialized,
                format!("VPSie has taken the order of {} and tells its id later", call.hostname),
            )),
            Err(failure) if matches!(failure.code, Code::InvalidArgument | Code::FailedPrecondition) => {
                let mut told = vec![failure.message.clone()];
                told.extend(advise(&self.catalogue, &spec, &self.hints).await);
                Err(Failure { message: told.join("; "), ..failure })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn settle(&self, order: &Order, machine: &Machine) -> Result<Settled, Failure> {
        let id = &machine.provider_id;
        match &machine.state {
            State::Running => {}
            State::Failed { code, message } => {
                return Err(Failure::new(*code, format!("the VPS {id} failed: {message}")));
            }
            State::Deleted => return Err(gone(id)),
            State::Pending | State::Stopped | State::Deleting | State::Unrecognised => {
                return Ok(Settled::Waiting(format!("the VPS is {}", machine.raw_state)));
            }
        }
        let spec = ProviderSpec::parse(&order.spec)?;
        let settled = |machine: Machine| {
            if machine.addresses.is_empty() {
                return Settled::Waiting("the VPS has no address yet".to_owned());
            }
            Settled::Done(Box::new(machine))
        };
        if !settle::is_more(&spec) {
            return Ok(settled(machine.clone()));
        }
        let chosen = choose(&self.catalogue, &spec, &self.hints).await?;
        let Some(detail) = self.vm(id).await? else { return Err(gone(id)) };
        let marks = marks::of(&order.identity, detail.vm.notes.as_deref(), &detail.tags);
        own(&order.identity, &marks, id)?;
        let Doings { keys, tags, vpc_at } = self.doings(id.server());
        let now = self.clock.instant();
        let vpc = vpc_at.is_some_and(|at| now.saturating_duration_since(at) < VPC_AGAIN);
        let done = Done { keys: &keys, tags: &tags, vpc };
        if let Some(todo) = settle::todo(&order.identity, &spec, &chosen, &detail, done) {
            return Ok(Settled::Did(self.carry_out(id.server(), todo, &chosen).await?));
        }
        if chosen.vpc.is_some() && detail.vm.private_ip.is_none() {
            return Ok(Settled::Waiting("the VPS has no address in its network yet".to_owned()));
        }
        Ok(settled(self.machine(&detail.vm, marks)?))
    }

    async fn delete(&self, order: &Order, id: &ProviderId) -> Result<Deletion, Failure> {
        self.poller.stir();
        let began_at = self.clock.now();
        let identifier = own_id(id)?;
        let Some(VmDetail { vm, tags }) = self.vm(id).await? else {
            let evidence = Evidence { how: How::Asked, began_at, answered_at: self.clock.now() };
            return Ok(Deletion::Absent(evidence));
        };
        own(&order.identity, &marks::of(&order.identity, vm.notes.as_deref(), &tags), id)?;
        if self.poller.is_deleting(identifier) {
            return Ok(Deletion::Ordered);
        }
        match self.client.delete_vm(identifier, REASON).await {
            Ok(()) => {}
            Err(failure) if failure.code == Code::NotFound => {}
            // It may have to be switched off first.
            Err(failure) if failure.code == Code::Aborted && vm.power == Some(true) => {
                self.client.stop_vm(identifier).await?;
                let message = format!("{}; it is switched off first", failure.message);
                return Err(Failure { message, ..failure });
            }
            Err(failure) => return Err(failure),
        }
        self.poller.ordered_deletion(identifier);
        Ok(Deletion::Ordered)
    }

    async fn list(&self, scope: &Scope, begun_after: Option<Timestamp>) -> Result<Snapshot, Failure> {
        let listing = self.poller.listing(begun_after.unwrap_or(Timestamp::MIN)).await?;
        let mut machines = Vec::new();
        for vm in listing.vms().filter(|vm| !status::is_gone(vm)) {
            let marks = vm.notes.as_deref().and_then(marks::read).unwrap_or_default();
            if scope.holds(&marks) {
                machines.push(self.machine(vm, marks)?);
            }
        }
        let Evidence { began_at, answered_at, .. } = listing.evidence();
        Ok(Snapshot::new(began_at, answered_at, machines))
    }

    fn changes(&self) -> Changes {
        self.poller.changes(|vm| {
            let marks = vm.notes.as_deref().and_then(marks::read).unwrap_or_default();
            let domain = marks.domain().to_owned();
            let identity = marks.machine.zip(marks.class);
            let identity = identity.map(|(machine, class)| Identity { domain, machine, class });
            Some(Change::Machine { id: ProviderId::vpsie(vm.identifier.as_deref()?).ok()?, identity })
        })
    }

    fn list_lag(&self) -> Duration {
        LIST_LAG
    }

    fn place(&self) -> String {
        place_of(self.client.base().host())
    }
}

/// The form in which it is written down where a VPS is.
pub(crate) fn place_of(host: &str) -> String {
    format!("VPSie at {host}")
}

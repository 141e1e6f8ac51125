use crate::{Attempt, Code, Identity, Marks, ProviderId, Recognition};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// A machine as its cloud shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub provider_id: ProviderId,
    /// The cloud's name of it, which need not be unique.
    pub name: String,
    pub marks: Marks,
    pub state: State,
    /// The cloud's own word for its state, for people.
    pub raw_state: String,
    /// In the order the cloud gives them.
    pub addresses: Vec<Address>,
    pub created_at: Option<Timestamp>,
    /// When it first ran, if it ever did.
    pub launched_at: Option<Timestamp>,
}

/// What a machine is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// On its way to running; nothing to do but wait.
    Pending,
    Running,
    /// There but switched off.
    Stopped,
    /// It will not run without help; the message is the cloud's reason, the code what that means.
    Failed {
        code: Code,
        message: String,
    },
    Deleting,
    /// The cloud itself still shows it, as gone.
    Deleted,
    /// A word we do not know; treated as present.
    Unrecognised,
}

impl State {
    /// Whether there is a machine that costs money or holds a volume.
    pub fn is_present(&self) -> bool {
        !matches!(self, Self::Deleted)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    pub kind: AddressKind,
    pub address: String,
}

/// The kinds of a Kubernetes node address; [`std::fmt::Display`] gives the wire name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressKind {
    Hostname,
    InternalIp,
    ExternalIp,
    InternalDns,
    ExternalDns,
}

impl std::fmt::Display for AddressKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hostname => "Hostname",
            Self::InternalIp => "InternalIP",
            Self::ExternalIp => "ExternalIP",
            Self::InternalDns => "InternalDNS",
            Self::ExternalDns => "ExternalDNS",
        })
    }
}

/// How an answer came about and when, which decides what it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub how: How,
    /// When the first request of the question was sent.
    pub began_at: Timestamp,
    /// When the last answer was there.
    pub answered_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// One machine was asked for by its id and the cloud's API itself answered. A "not found" of anything
    /// on the way, a gateway for example, is a failure and no answer.
    Asked,
    /// The machine was looked for in a complete list.
    Listed,
    /// The same, and the cloud has an order in hand that may be for it and is in no list yet. That it is missing in the
    /// list shows nothing then.
    Queued,
}

impl Evidence {
    /// Whether an absence so found shows that a create call sent at `attempt` made no machine: only a list
    /// can, and only one begun after the cloud's lists have caught up with the call. Asking for an id shows
    /// nothing about a machine whose id was never learnt.
    pub fn rules_out_attempt(&self, attempt: Timestamp, list_lag: Duration) -> bool {
        let settled = SignedDuration::try_from(list_lag).ok().and_then(|lag| attempt.checked_add(lag).ok());
        self.how == How::Listed && settled.is_some_and(|settled| self.began_at > settled)
    }
}

/// What was found, and what that is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub found: Found,
    pub evidence: Evidence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Absent,
    One(Box<Machine>),
    /// More than one carries the identity; ordered by provider id.
    Several(Vec<Machine>),
}

impl Found {
    pub fn from_machines(mut machines: Vec<Machine>) -> Self {
        machines.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
        match machines.len() {
            0 => Self::Absent,
            1 => machines.pop().map_or(Self::Absent, |machine| Self::One(Box::new(machine))),
            _ => Self::Several(machines),
        }
    }

    pub fn machines(&self) -> &[Machine] {
        match self {
            Self::Absent => &[],
            Self::One(machine) => std::slice::from_ref(machine),
            Self::Several(machines) => machines,
        }
    }
}

/// A complete list of the machines in a scope, ordered by provider id.
///
/// It may come from a cache: then [`Evidence::began_at`] is when that list was begun. It proves presence,
/// and absence only for what was done well before that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    evidence: Evidence,
    machines: Vec<Machine>,
}

impl Snapshot {
    pub fn new(began_at: Timestamp, answered_at: Timestamp, mut machines: Vec<Machine>) -> Self {
        machines.sort_by(|a, b| a.provider_id.cmp(&b.provider_id));
        Self { evidence: Evidence { how: How::Listed, began_at, answered_at }, machines }
    }

    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The machines that carry this identity.
    pub fn find(&self, identity: &Identity) -> Finding {
        let ours = |machine: &&Machine| identity.recognise(&machine.marks) == Recognition::Ours;
        let machines = self.machines.iter().filter(ours).cloned().collect();
        Finding { found: Found::from_machines(machines), evidence: self.evidence }
    }

    /// The machine of one create call.
    pub fn find_attempt(&self, identity: &Identity, attempt: &Attempt) -> Option<&Machine> {
        self.machines.iter().find(|machine| {
            identity.recognise(&machine.marks) == Recognition::Ours
                && machine.marks.attempt.as_ref() == Some(attempt)
        })
    }
}

/// Whether two findings together prove that a machine is gone: the cloud said so when asked for it by id,
/// and then it was missing in a list that was begun after that answer. One answer alone may come from a
/// replica that is behind. One that is shown as deleted is still shown.
pub fn gone_twice(asked: &Finding, listed: &Finding) -> bool {
    let absent = |finding: &Finding| finding.found == Found::Absent;
    asked.evidence.how == How::Asked
        && listed.evidence.how == How::Listed
        && absent(asked)
        && absent(listed)
        && listed.evidence.began_at >= asked.evidence.answered_at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn machine(server: &str, domain: &str, attempt: &str) -> Machine {
        Machine {
            provider_id: ProviderId::stackit("p", server).unwrap(),
            name: "m".into(),
            marks: Marks {
                domain: Some(domain.into()),
                machine: Some("m".into()),
                class: Some("c".into()),
                attempt: Some(Attempt(attempt.into())),
            },
            state: State::Running,
            raw_state: "ACTIVE".into(),
            addresses: vec![],
            created_at: None,
            launched_at: None,
        }
    }

    fn identity() -> Identity {
        Identity { domain: "a".into(), machine: "m".into(), class: "c".into() }
    }

    #[test]
    fn a_snapshot_finds_ours_only_and_in_order() {
        let snapshot = Snapshot::new(
            at(10),
            at(11),
            vec![machine("s2", "a", "2"), machine("s0", "b", "0"), machine("s1", "a", "1")],
        );
        let Finding { found: Found::Several(ours), evidence } = snapshot.find(&identity()) else { panic!() };
        assert_eq!(ours.iter().map(|m| m.provider_id.server()).collect::<Vec<_>>(), ["s1", "s2"]);
        assert_eq!((evidence.how, evidence.began_at), (How::Listed, at(10)));
        let of = |attempt: &str| snapshot.find_attempt(&identity(), &Attempt(attempt.into()));
        assert_eq!(of("2").map(|m| m.provider_id.server()), Some("s2"));
        assert_eq!(of("0"), None);
        assert_eq!(Snapshot::new(at(0), at(0), vec![]).find(&identity()).found, Found::Absent);
    }

    #[test]
    fn an_attempt_is_ruled_out_only_by_a_list_begun_after_it_and_the_lag() {
        let lag = Duration::from_secs(30);
        let evidence = |how, began| Evidence { how, began_at: at(began), answered_at: at(began + 1) };
        let table = [
            (How::Queued, 1_000, false),
            (How::Listed, 99, false),
            (How::Listed, 101, false),
            (How::Listed, 130, false),
            (How::Listed, 131, true),
            (How::Asked, 131, false),
        ];
        for (how, began, expected) in table {
            assert_eq!(evidence(how, began).rules_out_attempt(at(100), lag), expected, "{how:?} {began}");
        }
        assert!(!evidence(How::Listed, 1_000).rules_out_attempt(at(100), Duration::MAX));
    }

    #[test]
    fn gone_needs_two_different_answers_in_order() {
        let finding = |how, began, answered, found: &Found| Finding {
            found: found.clone(),
            evidence: Evidence { how, began_at: at(began), answered_at: at(answered) },
        };
        let absent = Found::Absent;
        let present = Found::from_machines(vec![machine("s", "a", "1")]);
        let mut shown_as_deleted = machine("s", "a", "1");
        shown_as_deleted.state = State::Deleted;
        let deleted = Found::from_machines(vec![shown_as_deleted]);
        let table = [
            (finding(How::Asked, 1, 2, &absent), finding(How::Listed, 2, 3, &absent), true),
            (finding(How::Asked, 1, 2, &deleted), finding(How::Listed, 2, 3, &absent), false),
            (finding(How::Asked, 1, 2, &absent), finding(How::Listed, 2, 3, &deleted), false),
            (finding(How::Asked, 1, 2, &deleted), finding(How::Listed, 2, 3, &deleted), false),
            (finding(How::Asked, 1, 2, &absent), finding(How::Listed, 1, 3, &absent), false),
            (finding(How::Asked, 1, 2, &absent), finding(How::Listed, 2, 3, &present), false),
            (finding(How::Asked, 1, 2, &present), finding(How::Listed, 2, 3, &absent), false),
            (finding(How::Asked, 1, 2, &absent), finding(How::Asked, 2, 3, &absent), false),
            (finding(How::Listed, 1, 2, &absent), finding(How::Listed, 2, 3, &absent), false),
            (finding(How::Asked, 1, 2, &absent), finding(How::Queued, 2, 3, &absent), false),
        ];
        for (asked, listed, expected) in table {
            assert_eq!(gone_twice(&asked, &listed), expected, "{asked:?} {listed:?}");
        }
    }
}

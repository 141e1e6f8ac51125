//! Bootstrap tokens: Secrets in the target cluster's kube-system, named and written as Gardener's own controllers
//! do, so that each side finds what the other one made.
//!
//! The id follows from the Machine's name, but it holds only three of its characters: among a thousand machines
//! some have the same one. So a token belongs to the Machine that its description names, and a Machine whose id
//! is taken goes on to another one that follows from its name, too.

use super::{Machine, MachineController, Memory, Next, Tried, creation_timeout};
use crate::life::{OwnToken, TokenSeen};
use hostler_base::stable_hash;
use hostler_controller::{Key, Trouble};
use hostler_driver::{Code, Failure, UserData};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use secrecy::{ExposeSecret, SecretString};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const ID_LENGTH: usize = 6;
const SECRET_LENGTH: usize = 16;
/// How many ids are tried. The first one is shared by many, the others practically by nobody.
const IDS: usize = 8;

const TOKEN: [&str; 2] = ["<<BOOTSTRAP_TOKEN>>", "%3C%3CBOOTSTRAP_TOKEN%3E%3E"];
const NAME: [&str; 2] = ["<<MACHINE_NAME>>", "%3C%3CMACHINE_NAME%3E%3E"];

/// What this run knows of the machine's token.
pub(super) enum Known {
    None { free: String },
    Own { id: String, uid: String, token: Option<SecretString>, expires_at: Option<Timestamp> },
}

impl Known {
    pub(super) fn view(&self, now: Timestamp) -> TokenSeen {
        match self {
            Self::None { free } => TokenSeen::None { free: free.clone() },
            Self::Own { id, uid, token, expires_at } => TokenSeen::Own(OwnToken {
                id: id.clone(),
                uid: uid.clone(),
                valid: token.is_some() && expires_at.is_none_or(|at| at > now),
            }),
        }
    }
}

/// The tokens of machines that this process has known from their first write on, so that nobody has to ask for
/// them: what it did not make is not there. It is not written down; after a restart the target cluster is asked.
#[derive(Default)]
pub(super) struct Ledger {
    made: Mutex<BTreeMap<Key, Entry>>,
    /// Machines that no longer need a token, and whose last question about it was forbidden.
    forbidden: Mutex<BTreeSet<Key>>,
}

struct Entry {
    machine: Option<String>,
    /// The id and uid of the one it has.
    token: Option<(String, String)>,
}

impl Ledger {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, Entry>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forbidden(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.forbidden.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether it was forbidden the last time as well: a right that is missing holds up no machine, but who is
    /// refused once may have been refused by mistake.
    fn is_forbidden_again(&self, machine: &Machine) -> bool {
        !self.forbidden().insert(Key::of(machine))
    }

    /// Nobody can have made a token for a machine that nobody has touched.
    pub(super) fn open(&self, key: Key, machine: &Machine) {
        let mut all = self.all();
        let entry = all.get(&key);
        // Whoever took the finalizer off did not take the token away.
        if entry.is_none_or(|entry| entry.machine != machine.uid()) {
            all.insert(key, Entry { machine: machine.uid(), token: None });
        }
    }

    pub(super) fn close(&self, machine: &Key) {
        self.all().remove(machine);
    }

    pub(super) fn forget(&self, machine: &Key) {
        self.close(machine);
        self.forbidden().remove(machine);
    }

    fn note(&self, machine: &Machine, token: Option<(String, String)>) {
        if let Some(entry) =
            self.all().get_mut(&Key::of(machine)).filter(|entry| entry.machine == machine.uid())
        {
            entry.token = token;
        }
    }

    /// What is known of the machine's token, if it is. A token that is not held here cannot be handed out.
    fn known(&self, machine: &Machine) -> Option<Known> {
        let all = self.all();
        let entry = all.get(&Key::of(machine)).filter(|entry| entry.machine == machine.uid())?;
        match &entry.token {
            None => Some(Known::None { free: ids(&machine.name_any()).next().unwrap_or_default() }),
            Some(_) if is_ordering(machine) => None,
            Some((id, uid)) => {
                Some(Known::Own { id: id.clone(), uid: uid.clone(), token: None, expires_at: None })
            }
        }
    }
}

fn secret_name(id: &str) -> String {
    format!("bootstrap-token-{id}")
}

fn description(machine: &str) -> String {
    format!("A bootstrap token for machine {machine:?} generated by MachineControllerManager.")
}

/// The ids that a machine's token may have, in the order in which they are tried.
fn ids(machine: &str) -> impl Iterator<Item = String> {
    let end = machine.as_bytes().get(machine.len().saturating_sub(5)..).unwrap_or_default();
    let digits = end.iter().take(ID_LENGTH / 2).flat_map(|byte| [byte >> 4, byte & 15]);
    let first: String = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect();
    let later = (1..).map(move |round: usize| {
        let mut rest = stable_hash(&format!("{machine}/{round}"));
        let mut letter = || {
            let letters = u64::try_from(ALPHABET.len()).unwrap_or(1);
            let place = usize::try_from(rest % letters).unwrap_or_default();
            rest /= letters;
            ALPHABET.get(place).map_or('0', |letter| char::from(*letter))
        };
        (0..ID_LENGTH).map(|_| letter()).collect()
    });
    // A name of one or two characters has no id of the first kind.
    Some(first).filter(|id| id.len() == ID_LENGTH).into_iter().chain(later).take(IDS)
}

/// The token of a Secret, if it is this machine's. Without a token in it nobody can join by it.
fn read(secret: &Secret, id: &str, machine: &str) -> Option<Known> {
    let field = |name: &str| {
        let value = secret.data.as_ref()?.get(name)?;
        str::from_utf8(&value.0).ok()
    };
    if field("description") != Some(&description(machine)) {
        return None;
    }
    let is_plain = |text: &&str| text.len() == SECRET_LENGTH && text.bytes().all(|b| ALPHABET.contains(&b));
    let expires_at = field("expiration").map(str::parse::<Timestamp>);
    let usable = secret.type_.as_deref() == Some(SECRET_TYPE)
        && field("token-id") == Some(id)
        && field("usage-bootstrap-authentication") == Some("true")
        && !matches!(expires_at, Some(Err(_)));
    let token = field("token-secret").filter(is_plain).filter(|_| usable);
    Some(Known::Own {
        id: id.to_owned(),
        uid: secret.uid().unwrap_or_default(),
        token: token.map(|token| SecretString::from(format!("{id}.{token}"))),
        expires_at: expires_at.and_then(Result::ok),
    })
}

/// The Secret as Gardener writes it.
fn manifest(id: &str, token: &str, machine: &str, expires_at: Timestamp, groups: &str) -> Secret {
    // Whole seconds, as Go writes them.
    let expiration = Timestamp::from_second(expires_at.as_second()).unwrap_or(expires_at).to_string();
    let fields = [
        ("description", description(machine).as_str()),
        ("token-id", id),
        ("token-secret", token),
        ("expiration", &expiration),
        ("usage-bootstrap-authentication", "true"),
        ("usage-bootstrap-signing", "true"),
        ("auth-extra-groups", groups),
    ]
    .map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(id)),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(BTreeMap::from(fields)),
        ..Secret::default()
    }
}

/// Whether user data has a place for a token.
pub(super) fn is_wanted_by(user_data: &UserData) -> bool {
    TOKEN.iter().any(|placeholder| user_data.expose().contains(placeholder))
}

/// User data with everything filled in. Without a token its place stays as it is.
fn filled(user_data: &UserData, machine: &str, token: Option<&str>) -> UserData {
    // Neither names nor tokens have a character that an address would have to escape.
    let fill = |text: String, [plain, escaped]: [&str; 2], value: &str| {
        let placeholder = if text.contains(plain) { plain } else { escaped };
        text.replace(placeholder, value)
    };
    let text = fill(user_data.expose().to_owned(), NAME, machine);
    UserData::new(match token {
        Some(token) => fill(text, TOKEN, token),
        None => text,
    })
}

/// What the machine gets.
pub(super) fn user_data(machine: &str, user_data: &UserData, memory: &Memory) -> UserData {
    let token = match &memory.token {
        Some(Known::Own { token, .. }) => token.as_ref(),
        _ => None,
    };
    filled(user_data, machine, token.map(ExposeSecret::expose_secret))
}

impl MachineController {
    fn tokens(&self) -> Option<Api<Secret>> {
        Some(Api::namespaced(self.target.clone()?, NAMESPACE))
    }

    /// Looks for the machine's token.
    pub(super) async fn find_token(
        &self,
        machine: Box<Machine>,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        if let Some(known) = self.tokens_made.known(&machine) {
            memory.token = Some(known);
            return Ok(Next::Again(machine));
        }
        let ordering = is_ordering(&machine);
        let nothing = || Known::None { free: String::new() };
        match self.look_for_token(&machine, ordering).await {
            Ok(Some(known)) => memory.token = Some(known),
            Ok(None) if ordering => {
                let message = "every id that a bootstrap token of this machine may have is taken by another machine's: remove old Secrets bootstrap-token-… from kube-system, or give the machine another name";
                memory.failure = Some((Tried::Look, Failure::new(Code::ResourceExhausted, message)));
            }
            Ok(None) => memory.token = Some(nothing()),
            Err(kube::Error::Api(status)) if status.code == 403 && ordering => {
                memory.failure = Some((Tried::Look, forbidden(&status.message)));
            }
            Err(kube::Error::Api(status))
                if status.code == 403 && self.tokens_made.is_forbidden_again(&machine) =>
            {
                // If there is one, it expires by itself.
                tracing::warn!(message = status.message, "whether a bootstrap token is left cannot be seen");
                memory.token = Some(nothing());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Again(machine))
    }

    async fn look_for_token(&self, machine: &Machine, ordering: bool) -> Result<Option<Known>, kube::Error> {
        let Some(tokens) = self.tokens() else { return Ok(None) };
        let name = machine.name_any();
        let mut free = None;
        for (round, id) in ids(&name).enumerate() {
            match tokens.get_opt(&secret_name(&id)).await? {
                Some(secret) => {
                    if let Some(own) = read(&secret, &id, &name) {
                        return Ok(Some(own));
                    }
                }
                None => {
                    let free = free.get_or_insert(id);
                    // Whose first id was another's when the token was made may have one further on although the
                    // first is free by now. A new one is just made; an old one must be found.
                    if ordering || round > 0 {
                        return Ok(Some(Known::None { free: free.clone() }));
                    }
                }
            }
        }
        Ok(free.map(|free| Known::None { free }))
    }

    pub(super) async fn make_token(
        &self,
        machine: Box<Machine>,
        id: &str,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let Some(tokens) = self.tokens() else { return Ok(Next::Again(machine)) };
        let name = machine.name_any();
        let token = self.entropy.text(ALPHABET, SECRET_LENGTH)?;
        let expires_at =
            self.clock.now().saturating_add(creation_timeout(&machine, self.options.creation_timeout))?;
        let secret = manifest(id, &token, &name, expires_at, &self.token_groups);
        memory.token = None;
        let made = tokens.create(&PostParams::default(), &secret).await;
        match &made {
            Ok(made) => {
                self.tokens_made.note(&machine, Some((id.to_owned(), made.uid().unwrap_or_default())));
            }
            // It may be there, or another one with its id is: only a look tells.
            Err(_) => self.tokens_made.close(&Key::of(&*machine)),
        }
        match made {
            Ok(made) => memory.token = read(&made, id, &name),
            // Somebody was faster; a new look tells whose it is.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(kube::Error::Api(status)) if status.code == 403 => {
                memory.failure = Some((Tried::Look, forbidden(&status.message)));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(Next::Again(machine))
    }

    pub(super) async fn drop_token(
        &self,
        machine: Box<Machine>,
        token: &OwnToken,
        memory: &mut Memory,
    ) -> Result<Next, Trouble> {
        let Some(tokens) = self.tokens() else { return Ok(Next::Again(machine)) };
        let same = Preconditions { uid: Some(token.uid.clone()), resource_version: None };
        match tokens.delete(&secret_name(&token.id), &DeleteParams::default().preconditions(same)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            // It expires by itself.
            Err(kube::Error::Api(status))
                if status.code == 403 && self.tokens_made.is_forbidden_again(&machine) =>
            {
                tracing::warn!(message = status.message, "a bootstrap token is left behind");
                memory.token = Some(Known::None { free: String::new() });
                return Ok(Next::Again(machine));
            }
            Err(error) => {
                // After a conflict it may be another one by now: only a look tells.
                self.tokens_made.close(&Key::of(&*machine));
                return Err(error.into());
            }
        }
        self.tokens_made.forbidden().remove(&Key::of(&*machine));
        self.tokens_made.note(&machine, None);
        // Only who leaves for good looks whether there is another one.
        let joined = machine.meta().deletion_timestamp.is_none() && !machine.spec.provider_id.is_empty();
        memory.token = joined.then(|| Known::None { free: String::new() });
        Ok(Next::Again(machine))
    }
}

/// Whether there is no server yet and shall be one.
fn is_ordering(machine: &Machine) -> bool {
    machine.meta().deletion_timestamp.is_none() && machine.spec.provider_id.is_empty()
}

fn forbidden(message: &str) -> Failure {
    let advice =
        "allow the controller to get, create and delete Secrets in kube-system of the target cluster";
    Failure::new(
        Code::PermissionDenied,
        format!("the user data asks for a bootstrap token: {advice} ({message})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_id_is_gardeners() {
        let first = |name: &str| ids(name).next().unwrap();
        // hex("x7k2p") is 78376b3270.
        assert_eq!(first("shoot--a--b-worker-z1-5d4f7-x7k2p"), "78376b");
        assert_eq!(first("abcde"), "616263");
        assert_eq!(first("abc"), "616263");
        // Too short for one: the next kind.
        assert_eq!(first("ab").len(), ID_LENGTH);
        for name in ["", "a", "machine-1"] {
            let all: BTreeSet<String> = ids(name).collect();
            assert_eq!(all.len(), IDS, "{all:?}");
            assert!(all.iter().all(|id| id.len() == ID_LENGTH && id.bytes().all(|b| ALPHABET.contains(&b))));
        }
    }

    #[test]
    fn the_later_ids_of_many_machines_differ() {
        let second: BTreeSet<String> =
            (0..1000).map(|n| ids(&format!("m-abc{n:03}")).nth(1).unwrap()).collect();
        assert_eq!(second.len(), 1000);
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_secret_is_written_as_gardener_writes_it_and_read_back() {
        let expires = at("2026-01-01T00:20:00.75Z");
        let secret = manifest("616263", "0123456789abcdef", "abcde", expires, "system:bootstrappers:x");
        let text = serde_json::to_string(&secret).unwrap();
        let wire: Secret = serde_json::from_str(&text).unwrap();
        let fields: Vec<(&str, &str)> = wire
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), str::from_utf8(&value.0).unwrap()))
            .collect();
        assert_eq!(
            fields,
            [
                ("auth-extra-groups", "system:bootstrappers:x"),
                (
                    "description",
                    "A bootstrap token for machine \"abcde\" generated by MachineControllerManager."
                ),
                ("expiration", "2026-01-01T00:20:00Z"),
                ("token-id", "616263"),
                ("token-secret", "0123456789abcdef"),
                ("usage-bootstrap-authentication", "true"),
                ("usage-bootstrap-signing", "true"),
            ]
        );
        assert_eq!(wire.metadata.name.as_deref(), Some("bootstrap-token-616263"));
        let valid = |known: Option<Known>, now: &str| {
            known.map(|known| match known.view(at(now)) {
                TokenSeen::Own(own) => own.valid,
                TokenSeen::None { .. } => panic!("a token was read"),
            })
        };
        assert_eq!(valid(read(&wire, "616263", "abcde"), "2026-01-01T00:19:59Z"), Some(true));
        assert_eq!(valid(read(&wire, "616263", "abcde"), "2026-01-01T00:20:00Z"), Some(false));
        assert_eq!(valid(read(&wire, "616263", "xabcde"), "2026-01-01T00:00:00Z"), None, "another machine's");
        for (key, value) in [
            ("token-secret", "short"),
            ("token-secret", "0123456789ABCDEF"),
            ("token-id", "616264"),
            ("expiration", "soon"),
            ("usage-bootstrap-authentication", "false"),
        ] {
            let mut odd = wire.clone();
            odd.data.as_mut().unwrap().insert(key.into(), ByteString(value.into()));
            assert_eq!(
                valid(read(&odd, "616263", "abcde"), "2026-01-01T00:00:00Z"),
                Some(false),
                "{key} {value}"
            );
        }
        let odd = Secret { type_: Some("Opaque".into()), ..wire };
        assert_eq!(valid(read(&odd, "616263", "abcde"), "2026-01-01T00:00:00Z"), Some(false));
    }

    #[test]
    fn placeholders_are_filled_in_either_form() {
        let token = "616263.0123456789abcdef";
        for (text, with, without) in [
            (
                "<<BOOTSTRAP_TOKEN>> <<BOOTSTRAP_TOKEN>>",
                format!("{token} {token}"),
                "<<BOOTSTRAP_TOKEN>> <<BOOTSTRAP_TOKEN>>",
            ),
            ("a <<MACHINE_NAME>>", "a m-1".to_owned(), "a m-1"),
            ("%3C%3CMACHINE_NAME%3E%3E", "m-1".to_owned(), "m-1"),
            ("x%3C%3CBOOTSTRAP_TOKEN%3E%3Ey", format!("x{token}y"), "x%3C%3CBOOTSTRAP_TOKEN%3E%3Ey"),
            // The escaped form counts only where there is no plain one.
            (
                "<<MACHINE_NAME>> %3C%3CMACHINE_NAME%3E%3E",
                "m-1 %3C%3CMACHINE_NAME%3E%3E".to_owned(),
                "m-1 %3C%3CMACHINE_NAME%3E%3E",
            ),
            ("#cloud-config", "#cloud-config".to_owned(), "#cloud-config"),
        ] {
            let data = UserData::new(text);
            assert_eq!(filled(&data, "m-1", Some(token)).expose(), with, "{text}");
            assert_eq!(filled(&data, "m-1", None).expose(), without, "{text}");
            assert_eq!(is_wanted_by(&data), text.contains("BOOTSTRAP"), "{text}");
        }
    }
}

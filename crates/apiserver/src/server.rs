//! The server itself: its parts, and the way in for requests.

use crate::{
    contract::{Attributes, GroupResource, Lookup, User},
    crds::Syncing,
    extension::{Extension, Extensions},
    handlers::{self, Answer, Exchange},
    registry::Registry,
    service_account,
    store::{Key, Store},
};
use bytes::Bytes;
use hostler_base::{Chance, Clock, Entropy, NoEntropy, Transport, transport};
use http::{Request, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError, RwLock},
};
use tokio_util::sync::CancellationToken;

/// What a server is made of.
pub struct Options {
    pub clock: Clock,
    pub chance: Chance,
    /// Makes the key that signs tokens of service accounts. What `chance` draws is in every uid, so it makes none.
    pub entropy: Entropy,
    /// Bearer tokens and who they stand for.
    pub users: Vec<(SecretString, User)>,
    /// How many changes are kept per resource: how far back a watch can begin.
    pub history: usize,
}

impl Options {
    pub fn new(clock: Clock, chance: Chance, entropy: Entropy) -> Self {
        Self { clock, chance, entropy, users: Vec::new(), history: 2048 }
    }
}

/// A Kubernetes API server in memory. Clones are handles on the same server.
#[derive(Clone)]
pub struct ApiServer {
    core: Arc<Core>,
}

pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) chance: Chance,
    /// By the hash of the token, so that neither a comparison's time nor a dump gives one away.
    tokens: RwLock<BTreeMap<[u8; 32], Arc<User>>>,
    /// Signs the tokens of service accounts; without it there are none.
    pub(crate) token_key: Result<[u8; 32], NoEntropy>,
    /// Ends the watches of the current life.
    life: Mutex<CancellationToken>,
    pub(crate) syncing: Syncing,
    pub(crate) extensions: Extensions,
}

fn token_key(entropy: &Entropy) -> Result<[u8; 32], NoEntropy> {
    let mut key = [0; 32];
    entropy.fill(&mut key)?;
    Ok(key)
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl Core {
    pub(crate) fn life(&self) -> CancellationToken {
        self.life.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn user_of(&self, token: &str) -> Option<Arc<User>> {
        self.user_for(token, &[]).ok().map(|(user, _)| user)
    }

    /// Who a token stands for before one of these audiences, and which of them it is for; this server itself is
    /// meant when none is named. Or what to say of a token that is for nobody of them.
    pub(crate) fn user_for(
        &self,
        token: &str,
        audiences: &[&str],
    ) -> Result<(Arc<User>, Vec<String>), String> {
        let audiences = if audiences.is_empty() { &[service_account::ISSUER] } else { audiences };
        let known = self.tokens.read().unwrap_or_else(PoisonError::into_inner).get(&digest(token)).cloned();
        match known {
            Some(user) if audiences.contains(&service_account::ISSUER) => {
                Ok((user, vec![service_account::ISSUER.to_owned()]))
            }
            Some(_) => Err(service_account::INVALID.to_owned()),
            None => service_account::user(self, token, audiences)
                .map(|(user, audiences)| (Arc::new(user), audiences)),
        }
    }
}

/// Kinds that are looked up with nearly every request stay parsed.
fn stays_parsed(resource: &GroupResource) -> bool {
    matches!(
        (&*resource.group, &*resource.resource),
        (
            "rbac.authorization.k8s.io"
                | "apiextensions.k8s.io"
                | "scheduling.k8s.io"
                | "policy"
                | "storage.k8s.io",
            _
        ) | ("", "namespaces" | "serviceaccounts")
    )
}

impl Lookup for Core {
    fn get(&self, resource: &GroupResource, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let stored = self.store.get(resource, &Key::new(namespace, name))?;
        Some(if stays_parsed(resource) { stored.parsed() } else { Arc::new(stored.parse()) })
    }

    fn list(&self, resource: &GroupResource, namespace: &str) -> Vec<Arc<Value>> {
        let listed = self.store.list(resource, namespace, None);
        let items = listed.map(|listed| listed.items).unwrap_or_default();
        let keep = stays_parsed(resource);
        items.iter().map(|stored| if keep { stored.parsed() } else { Arc::new(stored.parse()) }).collect()
    }
}

impl ApiServer {
    /// Starts with what a fresh cluster has: its namespaces, bootstrap roles and system priority classes.
    pub fn new(options: Options) -> Self {
        let core = Arc::new(Core {
            store: Store::new(options.history),
            registry: Registry::new(),
            clock: options.clock,
            token_key: token_key(&options.entropy),
            chance: options.chance,
            tokens: RwLock::default(),
            life: Mutex::default(),
            syncing: Syncing::default(),
            extensions: Extensions::default(),
        });
        let server = Self { core };
        for (token, user) in options.users {
            server.add_user(&token, user);
        }
        crate::seed::seed(&server.core);
        server
    }

    /// The administrator: may do everything.
    pub fn admin() -> User {
        User { name: "system:admin".to_owned(), uid: String::new(), groups: groups(&["system:masters"]) }
    }

    pub(crate) fn anonymous() -> User {
        User {
            name: "system:anonymous".to_owned(),
            uid: String::new(),
            groups: groups(&["system:unauthenticated"]),
        }
    }

    /// The way in for requests with a bearer token.
    pub fn router(&self) -> axum::Router {
        self.router_to(Arc::new(handlers::answer))
    }

    /// The same way in with something else behind it: `answer` is given what an allowed request for a resource asks
    /// for, and its body. A benchmark finds out with it what is left of a request's cost without the answer.
    pub fn router_with(
        &self,
        answer: impl Fn(&Attributes, &Bytes) -> Response<transport::Body> + Send + Sync + 'static,
    ) -> axum::Router {
        self.router_to(Arc::new(move |_: &Exchange<'_>, attributes: &Attributes, body: &Bytes| {
            Ok(answer(attributes, body))
        }))
    }

    fn router_to(&self, answer: Arc<Answer>) -> axum::Router {
        let core = Arc::clone(&self.core);
        axum::Router::new().fallback(move |request: Request<axum::body::Body>| {
            let (core, answer) = (Arc::clone(&core), Arc::clone(&answer));
            async move {
                let response = handlers::with_token(core, request.map(transport::boxed), &*answer).await;
                response.map(axum::body::Body::new)
            }
        })
    }

    /// Answers a request that came in over the network.
    pub(crate) async fn answer(&self, request: Request<transport::Body>) -> Response<transport::Body> {
        handlers::with_token(Arc::clone(&self.core), request, &handlers::answer).await
    }

    /// The way in for requests of one user inside this process: no token, no socket.
    pub fn transport(&self, user: User) -> Transport {
        let core = Arc::clone(&self.core);
        let user = Arc::new(user);
        let service = tower::service_fn(move |request: Request<transport::Body>| {
            let (core, user) = (Arc::clone(&core), Arc::clone(&user));
            async move {
                let response = handlers::handle(core, user, request, &handlers::answer).await;
                Ok::<Response<transport::Body>, Infallible>(response)
            }
        });
        transport::from_service(service)
    }

    /// Forgets all history: asking for an older version gives `410 Gone`.
    pub fn compact(&self) {
        self.core.store.compact();
    }

    /// What clients see when a server over the same data restarts: watches end, and new ones begin from
    /// now on only.
    pub fn restart(&self) {
        let mut life = self.core.life.lock().unwrap_or_else(PoisonError::into_inner);
        self.core.store.close_window();
        std::mem::take(&mut *life).cancel();
    }

    /// The number of the last change.
    pub fn revision(&self) -> u64 {
        self.core.store.revision()
    }

    /// From now on another server answers for a group, which this one's own groups are not.
    pub fn extend(&self, extension: Extension) {
        self.core.extensions.add(extension);
    }

    /// Lets whoever has this token in as `user`.
    pub fn add_user(&self, token: &SecretString, user: User) {
        let mut tokens = self.core.tokens.write().unwrap_or_else(PoisonError::into_inner);
        tokens.insert(digest(token.expose_secret()), Arc::new(user));
    }
}

pub(crate) fn groups(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

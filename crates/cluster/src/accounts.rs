//! What every namespace has: a `default` ServiceAccount and the certificate of the cluster's authority.

use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep, is_already_exists};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::{Resource, api::ObjectMeta};
use std::sync::Arc;

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";

#[derive(Debug, Default)]
pub(crate) struct Accounts;

impl Part for Accounts {
    const NAME: &'static str = "service accounts";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.namespaces, &*caches.accounts, &*caches.root_certificates]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let caches = &context.caches;
        for namespace in caches.namespaces.all() {
            if is_leaving(&namespace) {
                continue;
            }
            let name = namespace.metadata.name.clone().unwrap_or_default();
            if caches.accounts.get(&name, ACCOUNT).is_none() {
                let account = ServiceAccount { metadata: meta(&name, ACCOUNT), ..ServiceAccount::default() };
                note(
                    &mut sweep,
                    "creating a service account",
                    &account,
                    context.create(&caches.accounts, &account).await,
                );
            }
            let wanted = Some([("ca.crt".to_owned(), context.options.root_certificate.clone())].into());
            match caches.root_certificates.get(&name, CERTIFICATE) {
                None => {
                    let map = ConfigMap {
                        metadata: meta(&name, CERTIFICATE),
                        data: wanted,
                        ..ConfigMap::default()
                    };
                    let created = context.create(&caches.root_certificates, &map).await;
                    note(&mut sweep, "publishing the root certificate", &map, created);
                }
                Some(map) if map.data != wanted => {
                    let mut changed = (*map).clone();
                    changed.data = wanted;
                    let written = context.replace(&caches.root_certificates, &changed).await;
                    sweep.note_about("publishing the root certificate", &changed, written);
                }
                Some(_) => {}
            }
        }
        sweep
    }
}

/// Somebody else may have made it; the cache will show it.
fn note<K: Resource>(sweep: &mut Sweep, doing: &str, object: &K, result: Result<Arc<K>, kube::Error>) {
    match result {
        Err(error) if is_already_exists(&error) => {}
        other => {
            sweep.note_about(doing, object, other);
        }
    }
}

fn is_leaving(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
}

fn meta(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() }
}

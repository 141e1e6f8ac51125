//! Every conformance case holds on kube-apiserver: where it disagrees with us, it is right.

use crate::stage::{Directory, crypto, store, supervisor};
use futures::{FutureExt, future::BoxFuture};
use hostler_conformance::{Server, TestUser, cases, run_all};
use hostler_control_plane::{ControlPlane, Options};
use kube::{Client, Config, client::Body, config::AuthInfo};
use serde_json::{Value, json};
use std::{env, sync::Arc};
use tokio::sync::Mutex;

const AT_ONCE: usize = 8;

struct Real {
    admin: Config,
    users: Vec<(TestUser, Config)>,
    etcd: String,
    plane: Mutex<ControlPlane>,
}

impl Real {
    async fn start(directory: &Directory) -> Self {
        crypto();
        let known = [TestUser::Alice, TestUser::Bob, TestUser::Carol];
        let mut options = Options::new(store(), directory.path().to_owned());
        options.supervisor = Some(supervisor());
        // What a controller manager does by itself would disturb the cases.
        options.parts.clear();
        options.users =
            known.iter().map(|user| (user.name().to_owned(), user.group().map(str::to_owned))).collect();
        let plane = ControlPlane::start(options).await.unwrap();
        let mut users = Vec::new();
        for user in known {
            users.push((user, plane.config(user.name()).await.unwrap()));
        }
        let admin = plane.config(hostler_control_plane::ADMINISTRATOR).await.unwrap();
        let mut anonymous = admin.clone();
        anonymous.auth_info = AuthInfo::default();
        users.push((TestUser::Anonymous, anonymous));
        Self { admin, users, etcd: plane.etcd_url().to_owned(), plane: Mutex::new(plane) }
    }

    async fn etcd(&self, path: &str, body: Value) -> Value {
        let mut config = Config::new(self.etcd.parse().unwrap());
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        let request = http::Request::post(path).body(Body::from(body.to_string().into_bytes())).unwrap();
        let answer = client.send(request).await.unwrap();
        assert!(answer.status().is_success(), "etcd refuses {path}");
        let bytes = answer.into_body().collect_bytes().await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }
}

impl Server for Real {
    fn client(&self) -> Client {
        Client::try_from(self.admin.clone()).unwrap()
    }

    fn client_as(&self, user: TestUser) -> Option<Client> {
        let (_, config) = self.users.iter().find(|(known, _)| *known == user)?;
        Client::try_from(config.clone()).ok()
    }

    fn compact(&self) -> BoxFuture<'_, ()> {
        async {
            let read = self.etcd("/v3/kv/range", json!({"key": "AA==", "limit": 1})).await;
            let revision = read["header"]["revision"].clone();
            self.etcd("/v3/kv/compaction", json!({"revision": revision, "physical": true})).await;
            // The watch cache remembers what etcd has forgotten.
            self.restart().await;
        }
        .boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        async { self.plane.lock().await.restart_api().await.unwrap() }.boxed()
    }
}

/// `HOSTLER_CASES` picks those whose `area/name` contains it.
/// Whoever leaves the cases out wants to say how many.
#[test]
fn there_are_many_cases() {
    println!("CASES: {}", cases().len());
    assert!(cases().len() >= 150, "{}", cases().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes() {
    let directory = Directory::new();
    let server: Arc<dyn Server> = Arc::new(Real::start(&directory).await);
    let wanted = env::var("HOSTLER_CASES").unwrap_or_default();
    let selected = cases().iter().filter(|case| case.id().contains(&wanted));
    let results = run_all(&server, selected, AT_ONCE).await;
    let failed: Vec<String> = results
        .iter()
        .filter_map(|(case, result)| Some(format!("{}: {}", case.id(), result.as_ref().err()?)))
        .collect();
    println!("{} of {} cases pass", results.len() - failed.len(), results.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert!(!results.is_empty(), "no case is called {wanted:?}");
}

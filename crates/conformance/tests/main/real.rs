//! `HOSTLER_REAL_KUBECONFIG`: an administrator's kubeconfig. The server also has the users of
//! `hostler_conformance::TestUser` with the tokens `<name>-token`.
//! `HOSTLER_REAL_ETCD`: etcd's client URL (plain HTTP), for compaction.
//! `HOSTLER_REAL_RESTART`: a command that restarts the API server and returns when it is ready.
//! `HOSTLER_REAL_CASES`: run only cases whose `area/name` contains this.

use futures::{FutureExt, future::BoxFuture};
use hostler_conformance::{ALONE, Server, TestUser, cases, run_all};
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{env, sync::Arc};

struct Real {
    config: Config,
    etcd: Option<String>,
    restart: Option<String>,
}

impl Real {
    async fn from_env() -> Option<Self> {
        let file = env::var("HOSTLER_REAL_KUBECONFIG").ok()?;
        let kubeconfig = Kubeconfig::read_from(&file).expect("HOSTLER_REAL_KUBECONFIG names a kubeconfig");
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("the kubeconfig is complete");
        config.default_retry = false;
        Some(Self {
            config,
            etcd: env::var("HOSTLER_REAL_ETCD").ok(),
            restart: env::var("HOSTLER_REAL_RESTART").ok(),
        })
    }

    fn can_forget(&self) -> bool {
        self.etcd.is_some() && self.restart.is_some()
    }

    async fn etcd(&self, path: &str, body: Value) -> Value {
        let url = self.etcd.as_deref().expect("HOSTLER_REAL_ETCD is set");
        let mut config = Config::new(url.parse().expect("HOSTLER_REAL_ETCD is a URL"));
        config.default_retry = false;
        let client = Client::try_from(config).expect("a plain HTTP client");
        let request =
            http::Request::post(path).body(Body::from(body.to_string().into_bytes())).expect("a request");
        let bytes = client.send(request).await.expect("etcd answers").into_body().collect_bytes().await;
        serde_json::from_slice(&bytes.expect("a whole answer")).expect("etcd answers JSON")
    }
}

impl Server for Real {
    fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("a client")
    }

    fn client_as(&self, user: TestUser) -> Option<Client> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo::default();
        if user != TestUser::Anonymous {
            config.auth_info.token = Some(format!("{}-token", user.name()).into());
        }
        Client::try_from(config).ok()
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
        async {
            let command = self.restart.as_deref().expect("HOSTLER_REAL_RESTART is set");
            let status = tokio::process::Command::new("sh").args(["-c", command]).status().await;
            assert!(status.expect("a shell").success(), "{command} failed");
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_passes() {
    let Some(real) = Real::from_env().await else {
        println!("left out: HOSTLER_REAL_KUBECONFIG names no real control plane");
        return;
    };
    let wanted = env::var("HOSTLER_REAL_CASES").unwrap_or_default();
    let forgets = real.can_forget();
    let server: Arc<dyn Server> = Arc::new(real);
    let selected =
        cases().iter().filter(|case| case.id().contains(&wanted) && (forgets || !ALONE.contains(&case.area)));
    let results = run_all(&server, selected, 8).await;
    let failed: Vec<String> = results
        .iter()
        .filter_map(|(case, result)| Some(format!("{}: {}", case.id(), result.as_ref().err()?)))
        .collect();
    println!("{} of {} cases pass", results.len() - failed.len(), results.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

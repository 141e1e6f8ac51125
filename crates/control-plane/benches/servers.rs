//! The embedded API server beside kube-apiserver with etcd: the same client, the same calls over HTTPS on
//! loopback, one after the other in the same run. `cargo xtask bench servers`.

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream};
use hostler_apiserver::{
    ApiServer,
    serve::{self, Certificates},
};
use hostler_base::{Chance, Clock, Entropy};
use hostler_control_plane::{BuildError, ControlPlane, Options, Store, temporary_directory};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const PODS: usize = 2_000;
const AT_ONCE: usize = 16;
const WATCHERS: usize = 100;
const CHANGES: usize = 20;
const LISTS: usize = 5;
const PATH: &str = "/api/v1/namespaces/default/pods";

/// What one server needs.
struct Figures {
    creates_per_second: f64,
    list: Duration,
    fan_out: Duration,
}

fn main() -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the only provider");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        println!("{PODS} pods, {AT_ONCE} calls at once, {WATCHERS} watchers; HTTPS on loopback\n");
        let embedded = embedded().await?;
        let real = match real().await {
            Err(error) if matches!(error.downcast_ref(), Some(BuildError::NoGo)) => {
                println!("left out: {error}");
                return Ok(());
            }
            measured => measured?,
        };
        let row = |what: &str, ours: f64, theirs: f64, unit: &str, ratio: f64| {
            println!("{what:<28} {ours:>9.1} {unit:<4} beside {theirs:>9.1} {unit:<4} {ratio:>7.1} ×");
        };
        let (ours, theirs) = (embedded.creates_per_second, real.creates_per_second);
        row("creates", ours, theirs, "/s", ours / theirs);
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        let (ours, theirs) = (milliseconds(embedded.list), milliseconds(real.list));
        row("list of all", ours, theirs, "ms", theirs / ours);
        let (ours, theirs) = (milliseconds(embedded.fan_out), milliseconds(real.fan_out));
        row("one change to all watchers", ours, theirs, "ms", theirs / ours);
        Ok(())
    })
}

async fn embedded() -> anyhow::Result<Figures> {
    let clock = Clock::system();
    let certificates = Certificates::generate(&[], clock.now())?;
    let token = SecretString::from(uuid::Uuid::new_v4().to_string());
    let entropy = Entropy::guessable(Chance::from_entropy());
    let mut options = hostler_apiserver::Options::new(clock, Chance::from_entropy(), entropy);
    options.users.push((token.clone(), ApiServer::admin()));
    let api = ApiServer::new(options);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let text = serve::kubeconfig(listener.local_addr()?, &certificates.ca_pem, &token);
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::from_yaml(&text)?, &KubeConfigOptions::default()).await?;
    let stop = CancellationToken::new();
    let ended = stop.clone();
    let serving = tokio::spawn(async move { serve::serve(&api, listener, &certificates, ended).await });
    let figures = measure(config).await?;
    stop.cancel();
    serving.await??;
    Ok(figures)
}

async fn real() -> anyhow::Result<Figures> {
    let store = Store::of_user()?;
    let directory = temporary_directory()?;
    let mut options = Options::new(store.clone(), directory.clone());
    options.supervisor = Some(PathBuf::from(env!("CARGO_BIN_EXE_hostler-control-plane")));
    options.parts.clear();
    store.build(&options.binaries(), &mut |line| println!("{line}"))?;
    let plane = ControlPlane::start(options).await?;
    let figures = measure(plane.config(hostler_control_plane::ADMINISTRATOR).await?).await?;
    plane.stop().await;
    std::fs::remove_dir_all(directory)?;
    Ok(figures)
}

async fn measure(config: Config) -> anyhow::Result<Figures> {
    let client = Client::try_from(config)?;
    // The first calls fill caches of both.
    create(&client, 100, "warm").await?;
    let start = Instant::now();
    create(&client, PODS, "pod").await?;
    #[expect(clippy::cast_precision_loss, reason = "only shown")]
    let creates_per_second = PODS as f64 / start.elapsed().as_secs_f64();
    let mut list = Duration::MAX;
    for _ in 0..LISTS {
        let start = Instant::now();
        let body = client.request_text(http::Request::get(PATH).body(Vec::new())?).await?;
        anyhow::ensure!(body.len() > PODS * 1_000, "the list has everything in it");
        list = list.min(start.elapsed());
    }
    Ok(Figures { creates_per_second, list, fan_out: fan_out(&client).await? })
}

async fn create(client: &Client, count: usize, prefix: &str) -> anyhow::Result<()> {
    let calls = (0..count).map(|number| async move {
        let request = http::Request::post(PATH)
            .header("content-type", "application/json")
            .body(pod(&format!("{prefix}-{number}")).to_string().into_bytes())?;
        client.request_text(request).await?;
        anyhow::Ok(())
    });
    stream::iter(calls).buffer_unordered(AT_ONCE).try_collect().await
}

/// From the call until every watcher has the change: the best of several.
async fn fan_out(client: &Client) -> anyhow::Result<Duration> {
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let path = format!("{PATH}?watch=true&fieldSelector=metadata.name%3Dpod-0");
        let stream = client.request_stream(http::Request::get(path).body(Vec::new())?).await?;
        let mut lines = Box::pin(stream.lines());
        // The pod as it is comes first.
        anyhow::ensure!(lines.try_next().await?.is_some(), "a watch begins");
        watchers.push(lines);
    }
    let mut best = Duration::MAX;
    for change in 0..CHANGES {
        let patch = json!({"metadata": {"annotations": {"change": change.to_string()}}});
        let request = http::Request::patch(format!("{PATH}/pod-0"))
            .header("content-type", "application/merge-patch+json")
            .body(patch.to_string().into_bytes())?;
        let start = Instant::now();
        let seen = async {
            stream::iter(watchers.iter_mut())
                .map(|lines| async { anyhow::Ok(lines.try_next().await?.is_some()) })
                .buffer_unordered(WATCHERS)
                .try_all(|seen| async move { seen })
                .await
        };
        // A change that fails is seen by nobody.
        let change = async { anyhow::Ok(client.request_text(request).await?) };
        let (_, seen) = tokio::try_join!(change, seen)?;
        anyhow::ensure!(seen, "every watcher sees the change");
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// A pod of about 1.4 KB.
fn pod(name: &str) -> Value {
    let environment: Vec<Value> = (0..12)
        .map(|index| json!({"name": format!("SETTING_{index}"), "value": format!("value-of-setting-{index}-for-the-application")}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web", "tier": "frontend"}},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "web", "image": "example.com/web/frontend:1.2.3", "env": environment,
                "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            }],
            "nodeSelector": {"kubernetes.io/os": "linux"},
        },
    })
}

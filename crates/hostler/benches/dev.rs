//! How soon the playground can be used: from exec to the first answer of `/readyz` over HTTPS, with everything in it.
//! `cargo xtask bench dev`.

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const STARTS: usize = 9;
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(60);

struct Playground {
    process: Child,
    kubeconfig: PathBuf,
}

impl Drop for Playground {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.kubeconfig);
    }
}

fn main() -> anyhow::Result<()> {
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the only provider");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = Vec::new();
    for number in 0..STARTS {
        let file = format!("hostler-bench-{}-{number}.kubeconfig", std::process::id());
        times.push(runtime.block_on(start(std::env::temp_dir().join(file)))?);
    }
    times.sort();
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "exec of `hostler dev` to the answer of /readyz: {:.0} ms (median of {STARTS}, {:.0} to {:.0} ms)",
        millis(times[STARTS / 2]),
        millis(times[0]),
        millis(times[STARTS - 1])
    );
    Ok(())
}

async fn start(kubeconfig: PathBuf) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let process = Command::new(env!("CARGO_BIN_EXE_hostler"))
        .args(["dev", "--listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(&kubeconfig)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let playground = Playground { process, kubeconfig };
    loop {
        if is_ready(&playground.kubeconfig).await {
            return Ok(begin.elapsed());
        }
        anyhow::ensure!(begin.elapsed() < PATIENCE, "hostler dev is not ready within {PATIENCE:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether the server that this file names answers that it is ready; the file may not be there yet.
async fn is_ready(kubeconfig: &Path) -> bool {
    let Ok(read) = Kubeconfig::read_from(kubeconfig) else { return false };
    let Ok(mut config) = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await else {
        return false;
    };
    config.proxy_url = None;
    config.default_retry = false;
    let Ok(client) = Client::try_from(config) else { return false };
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok_and(|text| text == "ok")
}

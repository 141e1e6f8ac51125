//! How the binary starts, ends and refuses to start.

use crate::{
    kubectl::with_each_kubectl,
    playground::{Directory, Playground, Process, hostler, wait_for},
};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
};

pub async fn client(kubeconfig: &Path, change: impl FnOnce(&mut Kubeconfig)) -> Client {
    // Another test of this process may have been first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut read = Kubeconfig::read_from(kubeconfig).unwrap();
    change(&mut read);
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Runs a command that must refuse, and gives the one sentence it says.
pub fn refusal(directory: &Directory, command: Command) -> String {
    let mut process = Process::start(directory, "refused", command);
    assert_eq!(process.wait().code(), Some(1), "{}", process.stderr());
    let said = process.stderr();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].strip_prefix("hostler: ").unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn dev(listen: &str, kubeconfig: &Path) -> Command {
    let mut command = hostler(&["dev", "--listen", listen, "--kubeconfig"]);
    command.arg(kubeconfig);
    command
}

#[tokio::test]
async fn it_serves_says_what_to_try_and_ends_when_asked() {
    for signal in ["INT", "TERM"] {
        let mut playground = Playground::start();
        let mode = fs::metadata(&playground.kubeconfig).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let client = client(&playground.kubeconfig, |_| {}).await;
        let ready = client.request_text(http_get("/readyz")).await.unwrap();
        assert_eq!(ready, "ok");
        let nodes = Api::<Node>::all(client);
        wait_until_async(async || nodes.list(&ListParams::default()).await.unwrap().items.len() == 3).await;
        let export = format!("export KUBECONFIG={}", playground.kubeconfig.display());
        wait_for("it says what to try", || playground.process.stdout().contains(&export).then_some(()));

        playground.process.signal(signal);
        assert_eq!(playground.process.wait().code(), Some(0), "{}", playground.process.stderr());
        assert_eq!(playground.directory.names(), ["hostler.stderr", "hostler.stdout"]);
    }
}

fn http_get(path: &str) -> axum::http::Request<Vec<u8>> {
    axum::http::Request::get(path).body(Vec::new()).unwrap()
}

pub async fn wait_until_async(condition: impl AsyncFn() -> bool) {
    let start = std::time::Instant::now();
    while !condition().await {
        assert!(start.elapsed() < crate::playground::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_foreign_token_is_not_let_in() {
    let playground = Playground::start();
    let foreign = client(&playground.kubeconfig, |config| {
        let user = config.auth_infos[0].auth_info.as_mut().unwrap();
        user.token = Some("0".repeat(64).into());
    })
    .await;
    match Api::<Node>::all(foreign).list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_taken_port_is_told() {
    let directory = Directory::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let said = refusal(&directory, dev(&address, &directory.file("kubeconfig")));
    assert!(said.starts_with(&format!("{address} is taken: ")) && said.contains("--listen"), "{said}");
    assert_eq!(directory.names(), ["refused.stderr", "refused.stdout"]);

    let said = refusal(&directory, hostler(&["sim", "stackit", "--listen", &address]));
    assert!(said.starts_with(&format!("{address} is taken: ")), "{said}");
    let mut command = dev("127.0.0.1:0", &directory.file("kubeconfig"));
    command.args(["--stackit", &address]);
    let said = refusal(&directory, command);
    assert!(said.starts_with(&format!("{address} is taken: ")) && said.contains("--stackit"), "{said}");
}

#[test]
fn a_second_instance_is_told() {
    let playground = Playground::start();
    let before = fs::read(&playground.kubeconfig).unwrap();
    let said = refusal(&playground.directory, dev("127.0.0.1:0", &playground.kubeconfig));
    assert!(said.starts_with("another hostler dev is running") && said.contains("--kubeconfig"), "{said}");
    assert_eq!(fs::read(&playground.kubeconfig).unwrap(), before);
}

#[test]
fn a_file_that_cannot_be_written_is_told() {
    let directory = Directory::new();
    for file in [directory.file("no/such/directory/kubeconfig"), directory.path().to_owned()] {
        let said = refusal(&directory, dev("127.0.0.1:0", &file));
        let start = format!("{} cannot be written, give another file with --kubeconfig: ", file.display());
        assert!(said.starts_with(&start), "{said}");
    }
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let directory = Directory::new();
    let file = directory.file("kubeconfig");
    fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
    let said = refusal(&directory, dev("127.0.0.1:0", &file));
    assert!(said.contains("not written by hostler"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "apiVersion: v1\nkind: Config\n");
}

#[test]
fn what_a_killed_instance_left_is_replaced() {
    let mut killed = Playground::start();
    killed.process.signal("KILL");
    killed.process.wait();
    let left = fs::read_to_string(&killed.kubeconfig).unwrap();
    let Playground { directory, .. } = killed;
    let next = Playground::start_in(directory, &[]);
    assert_ne!(fs::read_to_string(&next.kubeconfig).unwrap(), left);
}

#[test]
fn a_kubeconfig_that_somebody_changed_is_kept() {
    let mut playground = Playground::start();
    let mut text = fs::read_to_string(&playground.kubeconfig).unwrap();
    text.push_str("# mine\n");
    fs::write(&playground.kubeconfig, &text).unwrap();
    playground.process.signal("INT");
    assert_eq!(playground.process.wait().code(), Some(0));
    assert_eq!(fs::read_to_string(&playground.kubeconfig).unwrap(), text);
}

#[tokio::test]
async fn every_line_about_an_object_names_it_whatever_the_level() {
    for format in ["json", "text"] {
        // The span that names the object is not of this part, and still has to be there.
        let playground =
            Playground::start_with(&["--log-format", format, "--log-level", "hostler_gardener=debug"]);
        let client = client(&playground.kubeconfig, |_| {}).await;
        let kind = ApiResource {
            group: "machine.sapcloud.io".into(),
            version: "v1alpha1".into(),
            api_version: "machine.sapcloud.io/v1alpha1".into(),
            kind: "Machine".into(),
            plural: "machines".into(),
        };
        let machines: Api<DynamicObject> = Api::namespaced_with(client, "default", &kind);
        let machine = json!({"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": "lonely"}, "spec": {"class": {"kind": "MachineClass", "name": "none"}}});
        machines.create(&PostParams::default(), &serde_json::from_value(machine).unwrap()).await.unwrap();
        let lines: Vec<String> = wait_for("the controller decides", || {
            let text = playground.process.stderr();
            let whole = &text[..=text.rfind('\n')?];
            whole.contains("decided").then(|| whole.lines().map(str::to_owned).collect())
        });
        // At this level only the controller of Machines speaks, and only while it works on one.
        for line in lines {
            if format == "json" {
                let line: Value = serde_json::from_str(&line).expect("a line of JSON");
                let span = &line["span"];
                let named = [&span["kind"], &span["namespace"], &span["object"]];
                assert_eq!(named, ["Machine", "default", "lonely"], "{line}");
            } else {
                assert!(
                    line.contains("reconcile{kind=Machine namespace=default object=lonely attempt="),
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn a_wrong_log_filter_is_told() {
    let directory = Directory::new();
    let said = refusal(&directory, hostler(&["--log-level", "a=b=c", "crds"]));
    assert!(said.starts_with("--log-level or RUST_LOG: \"a=b=c\" is no filter"), "{said}");
}

#[test]
fn the_definitions_are_printed() {
    let output = hostler(&["crds"]).output().unwrap();
    assert!(output.status.success());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let names: Vec<&Value> = documents.iter().map(|document| &document["metadata"]["name"]).collect();
    let machines = ["machines", "machineclasses", "machinesets", "machinedeployments"];
    let nodes = ["nodegroups", "vpsienodes"];
    let expected: Vec<String> = machines
        .map(|kind| format!("{kind}.machine.sapcloud.io"))
        .into_iter()
        .chain(nodes.map(|kind| format!("{kind}.autoscaler.vpsie.com")))
        .collect();
    assert_eq!(names, expected.iter().collect::<Vec<_>>());
    let expected = [hostler_gardener::api::crds(), hostler_nodegroup::api::crds()].concat();
    assert_eq!(Value::Array(documents), serde_json::to_value(expected).unwrap());
}

/// A simulated STACKIT, and where it is.
fn sim(directory: &Directory, more: &[&str]) -> (Process, String) {
    cloud(directory, "stackit", more)
}

/// A simulated cloud, and where it is.
fn cloud(directory: &Directory, name: &str, more: &[&str]) -> (Process, String) {
    let mut command = hostler(&["sim", name, "--listen", "127.0.0.1:0"]);
    command.args(more);
    let process = Process::start(directory, "sim", command);
    let address = wait_for("it says where it is", || {
        let said = process.stdout();
        let (called, address) = said.lines().next()?.split_once(" is at http://")?;
        assert_eq!(called.to_lowercase(), format!("a simulated {name}"));
        Some(address.to_owned())
    });
    (process, address)
}

/// The answer to one call, head and all; nothing if the connection just ends.
fn answer(address: &str, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let head =
        format!("{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}");
    write!(stream, "{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

const SERVERS: &str = "/v2/projects/11111111-2222-4333-8444-555555555555/regions/eu01/servers";

#[test]
fn a_simulated_stackit_is_served_alone() {
    let directory = Directory::new();
    let (mut process, address) = sim(&directory, &[]);
    let answer = answer(&address, &format!("GET {SERVERS}"), "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"items\":[]}"), "{answer}");
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn a_simulated_stackit_fails_as_its_flags_say_and_has_what_its_catalogue_says() {
    let directory = Directory::new();
    let catalogue = directory.file("catalogue.json");
    let id = "11111111-2222-4333-8444-555555555555";
    let known = json!({"machineTypes": [{"name": "c2i.2", "vcpus": 2, "ram": 4096}],
        "images": {id: "Linux"}, "networks": {id: "net"}});
    fs::write(&catalogue, known.to_string()).unwrap();
    let flags = [
        "--fault",
        "CreateServer answer=dropped after=true times=1",
        "--fault",
        "ListServers status=429 retryAfter=5 times=1",
        "--seed=7",
        "--set",
        r#"errors={"m":"it is broken"}"#,
        "--set",
        "bootTime=0",
        "--catalogue",
        catalogue.to_str().unwrap(),
    ];
    let order = |machine_type: &str| {
        json!({"name": "m", "machineType": machine_type, "networking": {"networkId": id},
            "bootVolume": {"size": 10, "source": {"type": "image", "id": id}}})
        .to_string()
    };
    // By the same seed the server has the same id in another process.
    let ids: Vec<String> = (0..2)
        .map(|_| {
            let (_process, address) = sim(&directory, &flags);
            let ask = |request: &str, body: &str| answer(&address, &format!("{request} {SERVERS}"), body);
            assert_eq!(ask("POST", &order("c2i.2")), "", "the answer is dropped");
            let busy = ask("GET", "");
            assert!(busy.starts_with("HTTP/1.1 429") && busy.contains("retry-after: 5"), "{busy}");
            let listed = ask("GET", "");
            let (_, body) = listed.split_once("\r\n\r\n").unwrap();
            let listed: Value = serde_json::from_str(body).unwrap();
            assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "and it took effect: {listed}");
            assert_eq!(listed["items"][0]["status"], "ERROR", "{listed}");
            let unknown = ask("POST", &order("c9.nothing"));
            assert!(unknown.contains("c9.nothing") && !unknown.starts_with("HTTP/1.1 2"), "{unknown}");
            listed["items"][0]["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_simulated_stackit_refuses_flags_that_it_does_not_understand() {
    let directory = Directory::new();
    let broken = directory.file("broken.json");
    fs::write(&broken, "[]").unwrap();
    for (flags, expected) in [
        (["--set", "listLagg=10"], "--set listLagg=10: "),
        (["--set", "listLag=long"], "--set listLag=long: "),
        (["--catalogue", "/nowhere"], "--catalogue: /nowhere cannot be read"),
        (["--catalogue", broken.to_str().unwrap()], "--catalogue: "),
    ] {
        let mut command = hostler(&["sim", "stackit", "--listen", "127.0.0.1:0"]);
        command.args(flags);
        let said = refusal(&directory, command);
        assert!(said.starts_with(expected), "{flags:?}: {said}");
    }
    let output = hostler(&["sim", "stackit", "--fault", "CreateSerfer status=500"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "for '--fault <FAULT>': operation: \"CreateSerfer\" is no operation of the API";
    assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
}

#[test]
fn a_simulated_vpsie_is_served_alone_and_fails_as_its_flags_say() {
    let directory = Directory::new();
    let catalogue = directory.file("catalogue.json");
    let plan = json!({"name": "p", "identifier": "plan", "category": "C", "cpu": 1, "ram": 1024, "ssd": 10,
        "price": 5});
    fs::write(&catalogue, json!({"plans": [plan], "customImages": []}).to_string()).unwrap();
    let flags = [
        "--fault",
        "CreateVM answer=dropped after=true times=1",
        "--fault",
        "ListVMs status=429 retryAfter=5 times=1",
        "--seed=7",
        "--set=queueLag=0",
        "--set=queueTime=0",
        "--set=listGap=0",
        "--set=plainIdentifiers=true",
        "--catalogue",
        catalogue.to_str().unwrap(),
    ];
    let order = |plan: &str| {
        json!({"hostname": "n-1", "resourceIdentifier": plan, "osIdentifier": "ubuntu-22.04-lts",
            "dcIdentifier": "dc-us-east-1", "projectId": "501"})
        .to_string()
    };
    // By the same seed the VPS has the same identifier in another process.
    let ids: Vec<String> = (0..2)
        .map(|_| {
            let (mut process, address) = cloud(&directory, "vpsie", &flags);
            let ask = |method: &str, body: &str| answer(&address, &format!("{method} /apps/v2/vm"), body);
            assert_eq!(ask("POST", &order("p")), "", "the answer is dropped");
            let busy = ask("GET", "");
            assert!(busy.starts_with("HTTP/1.1 429") && busy.contains("retry-after: 5"), "{busy}");
            let listed = ask("GET", "");
            let (_, body) = listed.split_once("\r\n\r\n").unwrap();
            let listed: Value = serde_json::from_str(body).unwrap();
            assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "and it took effect: {listed}");
            assert!(ask("POST", &order("small-2cpu-4gb")).contains("Resource not found"));
            process.signal("TERM");
            assert_eq!(process.wait().code(), Some(0));
            listed["data"][0]["identifier"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(ids[0], ids[1]);
}

#[test]
fn a_simulated_vpsie_refuses_flags_that_it_does_not_understand() {
    let directory = Directory::new();
    let broken = directory.file("broken.json");
    fs::write(&broken, r#"{"machineTypes": []}"#).unwrap();
    for (flags, expected) in [
        (["--set", "bootTimes=10"], "--set bootTimes=10: "),
        (["--set", "kernelShare=2"], "--set kernelShare=2: kernelShare: "),
        (["--catalogue", "/nowhere"], "--catalogue: /nowhere cannot be read"),
        (["--catalogue", broken.to_str().unwrap()], "--catalogue: "),
    ] {
        let mut command = hostler(&["sim", "vpsie", "--listen", "127.0.0.1:0"]);
        command.args(flags);
        let said = refusal(&directory, command);
        assert!(said.starts_with(expected), "{flags:?}: {said}");
    }
    // What one cloud calls its operation, another does not know.
    let output = hostler(&["sim", "vpsie", "--fault", "CreateServer status=500"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let why = "for '--fault <FAULT>': operation: \"CreateServer\" is no operation of the API";
    assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
}

#[test]
fn a_production_build_has_nothing_of_the_yard_in_it() {
    let tree = |more: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "-p", "hostler", "-e", "normal", "--prefix", "none"])
            .args(more)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let yard = |tree: &str| {
        let parts = ["hostler-apiserver", "hostler-cluster", "hostler-sim"];
        parts.into_iter().filter(|part| tree.lines().any(|line| line.starts_with(part))).count()
    };
    assert_eq!(yard(&tree(&[])), 3, "the check itself sees what is there");
    assert_eq!(yard(&tree(&["--no-default-features"])), 0);
}

/// Runs one of these tests again, on a machine without kubectl.
fn without_kubectl(directory: &Directory, ci: bool) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "nodes::the_pods_of_a_deleted_node_move", "--nocapture"]);
    command.env("PATH", directory.path()).env_remove("HOSTLER_KUBECTL").env_remove("CI");
    if ci {
        command.env("CI", "true");
    }
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("running 1 test"), "{said}");
    (output.status.success(), said)
}

#[test]
fn without_kubectl_its_tests_are_left_out_and_fail_where_ci_is_set() {
    let directory = Directory::new();
    let (passed, said) = without_kubectl(&directory, false);
    assert!(passed && said.contains("SKIPPED: kubectl not found"), "{said}");
    let (passed, said) = without_kubectl(&directory, true);
    assert!(!passed && said.contains("CI is set and kubectl not found: install it"), "{said}");
}

#[test]
fn the_version_is_told() {
    let output = hostler(&["--version"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        concat!("hostler ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

/// The commands in a text, without what is said about them.
fn kubectl_lines(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("kubectl "));
    lines.map(|line| line.split('#').next().unwrap_or_default().trim()).collect()
}

#[test]
fn what_it_says_to_try_works_and_the_readme_says_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    with_each_kubectl(|kubectl| {
        kubectl.wait_for_nodes();
        let said = kubectl.playground.process.stdout();
        let tried = kubectl_lines(&said);
        assert!(tried.len() >= 9, "{said}");
        for line in kubectl_lines(&readme) {
            assert!(tried.contains(&line), "the README tries {line:?}, the playground does not tell of it");
        }
        let samples = root.join("samples");
        for line in tried {
            // Whoever watches goes on for ever.
            let words = line.split_whitespace().filter(|word| *word != "-w");
            let words = words.map(|word| if word == "samples/" { samples.to_str().unwrap() } else { word });
            kubectl.run(&words.collect::<Vec<_>>());
        }
    });
}

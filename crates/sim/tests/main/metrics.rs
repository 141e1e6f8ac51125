//! `metrics.k8s.io` behind the embedded API server, and over HTTPS.

use hostler_apiserver::{User, serve::Certificates};
use hostler_base::{Chance, Clock, Entropy, transport};
use hostler_sim::{Metrics, Plan, Usage, World};
use http::Request;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, ListParams},
    discovery::Discovery,
};
use serde_json::Value;
use std::net::IpAddr;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn resource(plural: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: "metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "metrics.k8s.io/v1beta1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn loaded() -> (World, Metrics) {
    let world = World::in_virtual_time(Plan::seeded(1));
    let metrics = world.serve_metrics();
    metrics.set_node("n-1", Some(Usage { cpu: 1500, memory: 2048 }));
    metrics.set_node("n-2", Some(Usage::default()));
    let small = Usage { cpu: 100, memory: 64 };
    metrics.set_pod("default", "p-1", &[("c", small), ("side", Usage::default())]);
    metrics.set_pod("other", "p-2", &[("c", small)]);
    (world, metrics)
}

#[tokio::test(start_paused = true)]
async fn loads_are_read_through_the_api_server() {
    let (world, metrics) = loaded();
    let nodes: Api<DynamicObject> = Api::all_with(world.client(), &resource("nodes", "NodeMetrics"));
    let node = nodes.get("n-1").await.unwrap();
    assert_eq!(
        (&node.data["usage"]["cpu"], &node.data["usage"]["memory"]),
        (&"1500000000n".into(), &"2097152Ki".into())
    );
    assert_eq!(
        (&node.data["timestamp"], &node.data["window"]),
        (&"2026-01-01T00:00:00Z".into(), &"20s".into())
    );
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    metrics.set_node("n-2", None);
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(nodes.get_opt("n-2").await.unwrap().is_none());

    let pods: Api<DynamicObject> = Api::all_with(world.client(), &resource("pods", "PodMetrics"));
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let here: Api<DynamicObject> =
        Api::namespaced_with(world.client(), "default", &resource("pods", "PodMetrics"));
    assert_eq!(here.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let pod = here.get("p-1").await.unwrap();
    assert_eq!(pod.data["containers"][0]["name"], "c");
    assert_eq!(pod.data["containers"][0]["usage"]["memory"], "65536Ki");
    metrics.set_pod("default", "p-1", &[]);
    assert!(here.get_opt("p-1").await.unwrap().is_none());
    let selected = pods.list(&ListParams::default().labels("a=b")).await.unwrap_err();
    assert!(selected.to_string().contains("selectors"), "{selected}");
}

#[tokio::test(start_paused = true)]
async fn discovery_knows_the_group_in_both_forms() {
    let (world, _metrics) = loaded();
    for aggregated in [false, true] {
        let discovery = Discovery::new(world.client()).filter(&["metrics.k8s.io"]);
        let discovery =
            if aggregated { discovery.run_aggregated().await } else { discovery.run().await }.unwrap();
        let group = discovery.get("metrics.k8s.io").unwrap();
        let mut kinds: Vec<(String, String)> = group
            .recommended_resources()
            .into_iter()
            .map(|(resource, _)| (resource.plural, resource.kind))
            .collect();
        kinds.sort();
        let expected = [("nodes", "NodeMetrics"), ("pods", "PodMetrics")];
        assert_eq!(
            kinds,
            expected.map(|(plural, kind)| (plural.to_owned(), kind.to_owned())),
            "{aggregated}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_right_is_refused_before_the_loads_are_asked() {
    let (world, _metrics) = loaded();
    let user = User { name: "nobody".to_owned(), uid: String::new(), groups: Vec::new() };
    let request = Request::get("/apis/metrics.k8s.io/v1beta1/nodes").body(transport::empty()).unwrap();
    let refused = transport::exchange(&world.api().unwrap().transport(user), request, 1 << 20).await.unwrap();
    assert_eq!(refused.status(), 403);
}

#[tokio::test]
async fn an_aggregator_reads_them_over_https_without_a_token() {
    let clock = Clock::system();
    let metrics = Metrics::new(clock.clone());
    metrics.set_node("n-1", Some(Usage { cpu: 1, memory: 1 }));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let certificates = Certificates::generate(&[IpAddr::from([127, 0, 0, 1])], clock.now()).unwrap();
    let shutdown = CancellationToken::new();
    let (serving, until) = (metrics.clone(), shutdown.clone());
    let serving = tokio::spawn(async move {
        let entropy = Entropy::guessable(Chance::from_seed(1));
        serving.serve(listener, &certificates, entropy, until).await
    });
    // An APIService may say that the certificate is not looked at.
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    let client = Client::try_from(config).unwrap();
    let get = async |path: &str| client.request::<Value>(Request::get(path).body(Vec::new()).unwrap()).await;
    let group = get("/apis/metrics.k8s.io/v1beta1").await.unwrap();
    assert_eq!(group["resources"].as_array().map(Vec::len), Some(2), "by this it is found available");
    let nodes = get("/apis/metrics.k8s.io/v1beta1/nodes").await.unwrap();
    assert_eq!(nodes["items"][0]["metadata"]["name"], "n-1");
    assert!(get("/api/v1/secrets").await.is_err(), "nothing else is open");
    shutdown.cancel();
    serving.await.unwrap().unwrap();
    let [service, api_service] = Metrics::registration("localhost", address.port());
    assert_eq!(service["metadata"]["name"], api_service["spec"]["service"]["name"]);
    assert_eq!(service["spec"]["ports"][0]["port"], api_service["spec"]["service"]["port"]);
}

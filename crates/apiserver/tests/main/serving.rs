use crate::kit::options;
use hostler_apiserver::{
    ApiServer,
    serve::{Certificates, kubeconfig, serve},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

struct Served {
    address: SocketAddr,
    config: Kubeconfig,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start() -> Served {
    let mut options = options();
    let token: secrecy::SecretString = "right".to_owned().into();
    options.users.push((token.clone(), ApiServer::admin()));
    let now = options.clock.now();
    let server = ApiServer::new(options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The certificate has to be good now, whatever the server's clock shows.
    let certificates = Certificates::generate(&[], hostler_base::Clock::system().now().max(now)).unwrap();
    let config = Kubeconfig::from_yaml(&kubeconfig(address, &certificates.ca_pem, &token)).unwrap();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let task = tokio::spawn(async move { serve(&server, listener, &certificates, stop).await });
    Served { address, config, shutdown, task }
}

async fn client(config: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_client_with_the_kubeconfig_gets_in_and_others_do_not() {
    let served = start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client(served.config.clone()).await);
    let object = serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}})).unwrap();
    maps.create(&PostParams::default(), &object).await.unwrap();
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);

    let mut wrong = served.config.clone();
    wrong.auth_infos[0].auth_info.as_mut().unwrap().token = Some("wrong".to_owned().into());
    let error = Api::<Namespace>::all(client(wrong).await).get("default").await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));

    let page = http::Request::get("/api").header("origin", "https://example.com").body(Vec::new()).unwrap();
    let error = client(served.config).await.request_text(page).await.unwrap_err();
    assert!(error.to_string().contains("web pages"), "{error}");
}

#[tokio::test]
async fn plain_http_is_told_and_hung_up() {
    let served = start().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("400 Bad Request") && text.contains("HTTPS server"), "{text}");
}

#[tokio::test]
async fn a_shutdown_ends_watches_and_waits_for_nobody() {
    let served = start().await;
    let request = http::Request::get("/api/v1/pods?watch=1").body(Vec::new()).unwrap();
    let watch = client(served.config).await.request_stream(request).await;
    let _half_open = TcpStream::connect(served.address).await.unwrap();
    served.shutdown.cancel();
    served.task.await.unwrap().unwrap();
    drop(watch);
    assert!(TcpStream::connect(served.address).await.is_err());
}

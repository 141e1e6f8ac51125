//! Every answer has the shape that the documentation gives it, in both versions.

use super::{
    Api, IMAGE, NETWORK, PROJECT, id, server,
    shapes::{self, Shape, misshapen},
};
use hostler_sim::stackit::{Settings, Stackit};
use serde_json::{Value, json};

const SERVER: &[&Shape] = &[&shapes::SERVER];
const DETAILED: &[&Shape] = &[&shapes::SERVER, &shapes::DETAILS];

/// A project's place in one version of the API.
struct Version<'a> {
    api: &'a Api,
    place: String,
    global: &'static str,
    network: &'static Shape,
}

impl Version<'_> {
    #[track_caller]
    fn check(what: &str, body: &Value, shapes: &[&Shape]) {
        assert_eq!(misshapen(body, shapes), None, "{what}: {body}");
    }

    async fn object(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        status: u16,
        shapes: &[&Shape],
    ) -> Value {
        let answer = self.api.call(method, &self.whole(path), body).await;
        let content = answer.headers.get("content-type").cloned();
        let body = answer.with(status);
        assert_eq!(content.unwrap(), "application/json", "{method} {path}");
        Self::check(&format!("{method} {path}"), &body, shapes);
        body
    }

    async fn get(&self, path: &str, shapes: &[&Shape]) -> Value {
        self.object("GET", path, None, 200, shapes).await
    }

    async fn post(&self, path: &str, body: Value, status: u16, shapes: &[&Shape]) -> Value {
        self.object("POST", path, Some(body), status, shapes).await
    }

    /// A list, which must not be empty: nothing has every shape.
    async fn list(&self, path: &str, shapes: &[&Shape]) {
        let body = self.api.call("GET", &self.whole(path), None).await.with(200);
        let items = body["items"].as_array().unwrap();
        assert!(!items.is_empty() && body.as_object().unwrap().len() == 1, "{path}: {body}");
        for item in items {
            Self::check(path, item, shapes);
        }
    }

    async fn nothing(&self, method: &str, path: &str, body: Option<Value>, status: u16) {
        let answer = self.api.call(method, &self.whole(path), body).await;
        assert_eq!(answer.with(status), Value::Null, "{method} {path}");
    }

    async fn error(&self, method: &str, path: &str, body: Option<Value>, status: u16) {
        self.object(method, path, body, status, &[&shapes::ERROR]).await;
    }

    fn whole(&self, path: &str) -> String {
        match path.strip_prefix('/') {
            Some(path) => format!("{}/{path}", self.global),
            None => format!("{}/{path}", self.place),
        }
    }
}

async fn servers(version: &Version<'_>) -> (String, String) {
    let mut body = server("m-1");
    body["userData"] = json!("I2Nsb3VkLWNvbmZpZw==");
    body["metadata"] = json!({"a": 1});
    body["agent"] = json!({"provisioned": true});
    body["keypairName"] = json!("me");
    body["serviceAccountMails"] = json!(["a@sa.stackit.cloud"]);
    body["bootVolume"] = json!({"size": 10, "source": {"type": "image", "id": IMAGE}});
    let made = version.post("servers", body, 201, SERVER).await;
    version.api.wait(2).await;
    let path = format!("servers/{}", id(&made));
    version.get(&path, SERVER).await;
    version.get(&format!("{path}?details=true"), DETAILED).await;
    version.list("servers?details=false", SERVER).await;
    version.list("servers?details=true", DETAILED).await;
    let change = Some(json!({"labels": {"x": "y"}}));
    version.object("PATCH", &path, change, 200, SERVER).await;
    version.get(&format!("{path}/console"), &[&shapes::CONSOLE]).await;
    version.get(&format!("{path}/log?length=10"), &[&shapes::LOG]).await;
    version.list(&format!("{path}/nics"), &[&shapes::NIC]).await;
    version.list(&format!("{path}/volume-attachments"), &[&shapes::ATTACHMENT]).await;
    version.get(&format!("{path}/service-accounts"), &[&shapes::MAILS]).await;
    for (order, body) in [
        ("stop", None),
        ("start", None),
        ("reboot", None),
        ("resize", Some(json!({"machineType": "c2i.4"}))),
        ("rescue", Some(json!({"image": IMAGE}))),
        ("unrescue", None),
    ] {
        version.nothing("POST", &format!("{path}/{order}"), body, 202).await;
        version.get(&path, SERVER).await;
        version.error("POST", &format!("{path}/deallocate"), None, 409).await;
        version.api.wait(2).await;
    }
    (id(&made), id(&made["bootVolume"]))
}

async fn parts(version: &Version<'_>, server: &str, boot_volume: &str) {
    let network = version.post("networks", json!({"name": "n"}), 202, &[version.network]).await;
    let network_id = network["id"].as_str().or_else(|| network["networkId"].as_str()).unwrap();
    version.list("networks", &[version.network]).await;
    version.get(&format!("networks/{network_id}"), &[version.network]).await;
    let nics = format!("networks/{network_id}/nics");
    let nic = id(&version
        .post(&nics, json!({"name": "i", "allowedAddresses": ["10.0.0.0/8"]}), 201, &[&shapes::NIC])
        .await);
    version.list(&nics, &[&shapes::NIC]).await;
    version.list("nics", &[&shapes::NIC]).await;
    version.get(&format!("nics/{nic}"), &[&shapes::NIC]).await;
    let change = Some(json!({"description": "d"}));
    version.object("PATCH", &format!("{nics}/{nic}"), change, 200, &[&shapes::NIC]).await;
    version.nothing("PUT", &format!("servers/{server}/nics/{nic}"), None, 202).await;
    let address = id(&version.post("public-ips", json!({}), 201, &[&shapes::PUBLIC_IP]).await);
    version.nothing("PUT", &format!("servers/{server}/public-ips/{address}"), None, 202).await;
    version.list("public-ips", &[&shapes::PUBLIC_IP]).await;
    version.get(&format!("public-ips/{address}"), &[&shapes::PUBLIC_IP]).await;
    let change = Some(json!({"networkInterface": null}));
    version.object("PATCH", &format!("public-ips/{address}"), change, 200, &[&shapes::PUBLIC_IP]).await;
    let group = json!({"name": "g", "description": "d"});
    let group = id(&version.post("security-groups", group, 201, &[&shapes::SECURITY_GROUP]).await);
    let rules = format!("security-groups/{group}/rules");
    version.post(&rules, json!({"direction": "egress"}), 201, &[&shapes::RULE]).await;
    version.list(&rules, &[&shapes::RULE]).await;
    version.list("security-groups", &[&shapes::SECURITY_GROUP]).await;
    version.nothing("PUT", &format!("servers/{server}/security-groups/{group}"), None, 202).await;
    version.get(&format!("servers/{server}?details=true"), DETAILED).await;
    let volume = json!({"availabilityZone": "eu01-1", "size": 1, "source": {"type": "image", "id": IMAGE}});
    let volume = id(&version.post("volumes", volume, 201, &[&shapes::VOLUME]).await);
    version.api.wait(1).await;
    let attachment = format!("servers/{server}/volume-attachments/{volume}");
    version.object("PUT", &attachment, None, 202, &[&shapes::ATTACHMENT]).await;
    version.get(&attachment, &[&shapes::ATTACHMENT]).await;
    version.list("volumes", &[&shapes::VOLUME]).await;
    version.get(&format!("volumes/{boot_volume}"), &[&shapes::VOLUME]).await;
    version.nothing("DELETE", &attachment, None, 204).await;
    version.nothing("DELETE", &format!("volumes/{volume}"), None, 204).await;
    version.get(&format!("volumes/{volume}"), &[&shapes::VOLUME]).await;
}

/// What was made is changed and taken away again.
async fn changes(version: &Version<'_>, server: &str) {
    let network = version.post("networks", json!({"name": "other"}), 202, &[version.network]).await;
    let network = network["id"].as_str().or_else(|| network["networkId"].as_str()).unwrap().to_owned();
    let path = format!("networks/{network}");
    version.nothing("PATCH", &path, Some(json!({"name": "another"})), 202).await;
    version.get(&path, &[version.network]).await;
    let on_server = format!("servers/{server}/networks/{network}");
    version.nothing("POST", &on_server, None, 202).await;
    version.nothing("DELETE", &on_server, None, 204).await;
    let nics = format!("{path}/nics");
    let nic = id(&version.post(&nics, json!({"name": "j"}), 201, &[&shapes::NIC]).await);
    version.get(&format!("{nics}/{nic}"), &[&shapes::NIC]).await;
    version.nothing("PUT", &format!("servers/{server}/nics/{nic}"), None, 202).await;
    version.nothing("DELETE", &format!("servers/{server}/nics/{nic}"), None, 204).await;
    version.nothing("DELETE", &format!("{nics}/{nic}"), None, 204).await;
    version.nothing("DELETE", &path, None, 202).await;

    let address = id(&version.post("public-ips", json!({}), 201, &[&shapes::PUBLIC_IP]).await);
    let on_server = format!("servers/{server}/public-ips/{address}");
    version.nothing("PUT", &on_server, None, 202).await;
    version.nothing("DELETE", &on_server, None, 204).await;
    version.nothing("DELETE", &format!("public-ips/{address}"), None, 204).await;

    let group = json!({"name": "h"});
    let group = id(&version.post("security-groups", group, 201, &[&shapes::SECURITY_GROUP]).await);
    let path = format!("security-groups/{group}");
    version.get(&path, &[&shapes::SECURITY_GROUP]).await;
    let change = Some(json!({"description": "d"}));
    version.object("PATCH", &path, change, 200, &[&shapes::SECURITY_GROUP]).await;
    let rules = format!("{path}/rules");
    let rule = id(&version.post(&rules, json!({"direction": "ingress"}), 201, &[&shapes::RULE]).await);
    version.get(&format!("{rules}/{rule}"), &[&shapes::RULE]).await;
    version.nothing("DELETE", &format!("{rules}/{rule}"), None, 204).await;
    let on_server = format!("servers/{server}/{path}");
    version.nothing("PUT", &on_server, None, 202).await;
    version.nothing("DELETE", &on_server, None, 204).await;
    version.nothing("DELETE", &path, None, 204).await;

    let volume = json!({"availabilityZone": "eu01-1", "size": 1});
    let volume = id(&version.post("volumes", volume, 201, &[&shapes::VOLUME]).await);
    version.api.wait(1).await;
    let path = format!("volumes/{volume}");
    version.object("PATCH", &path, Some(json!({"name": "v"})), 200, &[&shapes::VOLUME]).await;
    version.nothing("POST", &format!("{path}/resize"), Some(json!({"size": 2})), 202).await;
    version.api.wait(1).await;
    let attachment = format!("servers/{server}/volume-attachments/{volume}");
    version.object("PUT", &attachment, None, 202, &[&shapes::ATTACHMENT]).await;
    let goes = Some(json!({"deleteOnTermination": true}));
    version.object("PATCH", &attachment, goes, 200, &[&shapes::ATTACHMENT]).await;

    let mail = "a@sa.stackit.cloud";
    let path = format!("servers/{server}/service-accounts/{mail}");
    version.object("DELETE", &path, None, 200, &[&shapes::MAILS]).await;
    version.object("PUT", &path, None, 201, &[&shapes::MAILS]).await;

    let keypair = json!({"name": "you", "publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"});
    version.post("/keypairs", keypair, 201, &[&shapes::KEYPAIR]).await;
    let change = Some(json!({"labels": {"a": "b"}}));
    version.object("PATCH", "/keypairs/you", change, 200, &[&shapes::KEYPAIR]).await;
    version.nothing("DELETE", "/keypairs/you", None, 204).await;

    version.nothing("POST", &format!("servers/{server}/deallocate"), None, 202).await;
    version.api.wait(2).await;
    version.get(&format!("servers/{server}"), SERVER).await;
}

async fn lookups(version: &Version<'_>) {
    let group = json!({"name": "g", "policy": "soft-affinity"});
    let group = id(&version.post("affinity-groups", group, 201, &[&shapes::AFFINITY_GROUP]).await);
    version.list("affinity-groups", &[&shapes::AFFINITY_GROUP]).await;
    version.get(&format!("affinity-groups/{group}"), &[&shapes::AFFINITY_GROUP]).await;
    version.nothing("DELETE", &format!("affinity-groups/{group}"), None, 204).await;
    version.list("machine-types", &[&shapes::MACHINE_TYPE]).await;
    version.get("machine-types/c2i.2", &[&shapes::MACHINE_TYPE]).await;
    version.list("images", &[&shapes::IMAGE]).await;
    version.get(&format!("images/{IMAGE}"), &[&shapes::IMAGE]).await;
    version.list("volume-performance-classes", &[&shapes::PERFORMANCE_CLASS]).await;
    version.get("volume-performance-classes/storage_premium_perf1", &[&shapes::PERFORMANCE_CLASS]).await;
    version.get("quotas", &[&shapes::QUOTAS]).await;
    version.list("/keypairs", &[&shapes::KEYPAIR]).await;
    let keypair = version.get("/keypairs/me", &[&shapes::KEYPAIR]).await;
    assert_eq!(keypair["fingerprint"].as_str().map(str::len), Some(47));
}

async fn refusals(version: &Version<'_>) {
    version.error("POST", "servers", Some(json!({"name": "m"})), 400).await;
    version.error("POST", "servers", None, 400).await;
    version.error("GET", "servers?label_selector=%3D", None, 400).await;
    for path in ["servers", "volumes", "nics", "public-ips", "security-groups", "affinity-groups"] {
        version.error("GET", &format!("{path}/{NETWORK}"), None, 404).await;
    }
    version.error("GET", "elsewhere", None, 404).await;
    version.api.cloud.set(|settings| settings.require_token = true);
    version.error("GET", "servers", None, 401).await;
    version.api.cloud.set(|settings| settings.require_token = false);
}

#[tokio::test(start_paused = true)]
async fn answers_have_the_documented_shape_in_both_versions() {
    for (place, global, zones, network) in [
        (
            format!("/v2/projects/{PROJECT}/regions/eu01"),
            "/v2",
            "/v2/regions/eu01/availability-zones",
            &shapes::NETWORK_V2,
        ),
        (format!("/v1/projects/{PROJECT}"), "/v1", "/v1/availability-zones", &shapes::NETWORK_V1),
    ] {
        let api = Api::new(Settings::default());
        let version = Version { api: &api, place, global, network };
        let (server, boot_volume) = servers(&version).await;
        parts(&version, &server, &boot_volume).await;
        lookups(&version).await;
        let zones = api.call("GET", zones, None).await.with(200);
        assert_eq!(misshapen(&zones, &[&shapes::ZONES]), None);
        changes(&version, &server).await;
        let answer = api.call("DELETE", &version.whole(&format!("servers/{server}")), None).await;
        let request = answer.headers["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(answer.with(204), Value::Null);
        version.get(&format!("requests/{request}"), &[&shapes::REQUEST]).await;
        refusals(&version).await;
        let called = api.cloud.calls();
        let operations = Stackit::operations().into_iter().map(|(name, _, _)| name);
        let untried: Vec<&str> = operations.filter(|name| !called.contains_key(name)).collect();
        assert_eq!(untried, [""; 0], "nobody has looked at their answers");
    }
}

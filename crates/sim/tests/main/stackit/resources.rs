//! What servers are made of: NICs, networks, volumes, addresses, groups.

use super::{Api, IMAGE, NETWORK, OTHER, id, server};
use hostler_sim::stackit::Settings;
use serde_json::{Value, json};

#[tokio::test(start_paused = true)]
async fn nics_made_for_a_server_go_with_it_and_given_ones_stay() {
    let api = Api::new(Settings::default());
    let nics = format!("networks/{NETWORK}/nics");
    let given = id(&api.post(&nics, json!({"name": "mine", "labels": {"a": "b"}})).await.with(201));
    let mut body = server("m-2");
    body["networking"] = json!({"nicIds": [given]});
    let (first, second) = (id(&api.create(server("m-1")).await), id(&api.create(body.clone()).await));
    body["name"] = json!("m-3");
    assert!(api.post("servers", body).await.refused(400).contains(&given), "it is taken");
    let of_server = api.get(&format!("servers/{second}/nics")).await.with(200);
    assert_eq!(of_server["items"][0]["id"], given.as_str());
    assert_eq!(of_server["items"][0]["device"], second.as_str());
    assert_eq!(api.cloud.nics().len(), 2);
    api.delete(&format!("{nics}/{given}")).await.refused(400);
    for id in [&first, &second] {
        api.delete(&format!("servers/{id}")).await.with(204);
    }
    api.wait(1).await;
    let left = api.cloud.nics();
    assert_eq!(left.iter().map(|nic| (&nic.id, &nic.server)).collect::<Vec<_>>(), [(&given, &None)]);
    assert_eq!(api.get("nics?label_selector=a%3Db").await.with(200)["items"].as_array().unwrap().len(), 1);
    api.delete(&format!("{nics}/{given}")).await.with(204);
    api.get(&format!("nics/{given}")).await.refused(404);
}

#[tokio::test(start_paused = true)]
async fn allowed_addresses_are_replaced_as_a_whole() {
    let api = Api::new(Settings::default());
    let server = id(&api.create(server("m-1")).await);
    let nics = api.get(&format!("servers/{server}/nics")).await.with(200);
    let nic = format!("networks/{NETWORK}/nics/{}", id(&nics["items"][0]));
    for addresses in [json!(["10.0.0.0/16", "fd00::/64"]), json!(["10.1.0.1"])] {
        let changed = api.patch(&nic, json!({"allowedAddresses": addresses})).await.with(200);
        assert_eq!(changed["allowedAddresses"], addresses);
    }
    let details = api.server(&server).await;
    assert_eq!(details["nics"][0]["allowedAddresses"], json!(["10.1.0.1"]));
    api.patch(&nic, json!({"allowedAddresses": ["10.0.0.0/40"]})).await.refused(400);
    api.patch(&nic, json!({"ipv4": "10.0.0.9"})).await.refused(400);
    assert_eq!(api.cloud.nics()[0].allowed_addresses, ["10.1.0.1"], "a refused change changes nothing");
}

#[tokio::test(start_paused = true)]
async fn networks_and_nics_come_and_go_on_a_server() {
    let api = Api::new(Settings::default());
    let server = id(&api.create(server("m-1")).await);
    api.order(&format!("servers/{server}/networks/{OTHER}")).await.with(202);
    let nics = api.server(&server).await["nics"].clone();
    assert_eq!(nics.as_array().unwrap().len(), 2);
    api.delete(&format!("servers/{server}/networks/{OTHER}")).await.with(204);
    assert_eq!(api.cloud.nics().len(), 1, "it is deleted, not only detached");
    let own = id(&api.get(&format!("servers/{server}/nics")).await.with(200)["items"][0]);
    api.delete(&format!("servers/{server}/nics/{own}")).await.with(204);
    assert_eq!(api.cloud.nics().len(), 1, "it is detached only");
    api.put(&format!("servers/{server}/nics/{own}")).await.with(202);
    assert_eq!(api.server(&server).await["nics"][0]["nicId"], own.as_str());
    let another = id(&api.create(super::server("m-2")).await);
    api.put(&format!("servers/{another}/nics/{own}")).await.refused(409);
    api.delete(&format!("servers/{server}/networks/{IMAGE}")).await.refused(404);
}

#[tokio::test(start_paused = true)]
async fn boot_volumes_go_with_the_server_only_if_they_are_told_to() {
    let api = Api::new(Settings::default());
    let volumes = || api.cloud.volumes().len();
    // Without a word about it, the volume stays.
    let plain = api.create(server("m-1")).await;
    assert_eq!(plain["bootVolume"]["deleteOnTermination"], false);
    let mut told = server("m-2");
    told["bootVolume"] =
        json!({"size": 20, "deleteOnTermination": true, "source": {"type": "image", "id": IMAGE}});
    let told = api.create(told).await;
    assert_eq!(told["bootVolume"]["deleteOnTermination"], true);
    // What was not told at first can be told later.
    let later = api.create(server("m-3")).await;
    let attachment = format!("servers/{}/volume-attachments/{}", id(&later), id(&later["bootVolume"]));
    let changed = api.patch(&attachment, json!({"deleteOnTermination": true})).await.with(200);
    assert_eq!(changed["deleteOnTermination"], true);
    assert_eq!(api.server(&id(&later)).await["bootVolume"]["deleteOnTermination"], true);
    api.delete(&attachment).await.refused(409);
    assert_eq!(volumes(), 3);
    for server in [&plain, &told, &later] {
        api.delete(&format!("servers/{}", id(server))).await.with(204);
    }
    api.wait(1).await;
    let left = api.cloud.volumes();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].id.as_str(), left[0].status), (id(&plain["bootVolume"]).as_str(), "AVAILABLE"));
}

#[tokio::test(start_paused = true)]
async fn volumes_are_made_attached_and_deleted() {
    let api = Api::new(Settings::default());
    let made = json!({"availabilityZone": "eu01-1", "size": 5, "name": "data", "labels": {"a": "b"}});
    let volume = id(&api.post("volumes", made).await.with(201));
    let shown = format!("volumes/{volume}");
    let status = async || api.get(&shown).await.with(200)["status"].as_str().unwrap().to_owned();
    assert_eq!(status().await, "CREATING");
    let server = id(&api.create(server("m-1")).await);
    let attachment = format!("servers/{server}/volume-attachments/{volume}");
    api.put(&attachment).await.refused(409);
    api.wait(1).await;
    assert_eq!(status().await, "AVAILABLE");
    assert_eq!(api.put(&attachment).await.with(202)["deleteOnTermination"], false);
    assert_eq!(status().await, "ATTACHED");
    assert_eq!(api.server(&server).await["volumes"], json!([volume]));
    api.delete(&shown).await.refused(409);
    let another = id(&api.create(super::server("m-2")).await);
    api.put(&format!("servers/{another}/volume-attachments/{volume}")).await.refused(409);
    api.delete(&attachment).await.with(204);
    api.get(&attachment).await.refused(404);
    api.post(&format!("{shown}/resize"), json!({"size": 4})).await.refused(400);
    api.post(&format!("{shown}/resize"), json!({"size": 9})).await.with(202);
    api.wait(1).await;
    assert_eq!(api.get(&shown).await.with(200)["size"], 9);
    assert_eq!(api.patch(&shown, json!({"name": "other"})).await.with(200)["name"], "other");
    api.delete(&shown).await.with(204);
    assert_eq!(status().await, "DELETING");
    api.wait(1).await;
    api.get(&shown).await.refused(404);
    for wrong in
        [json!({"size": 1}), json!({"availabilityZone": "z"}), json!({"availabilityZone": "z", "size": 0})]
    {
        api.post("volumes", wrong).await.refused(400);
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_given_at_create_stay() {
    let api = Api::new(Settings::default());
    let volume = json!({"availabilityZone": "eu01-1", "size": 5});
    let volume = id(&api.post("volumes", volume).await.with(201));
    api.wait(1).await;
    let mut body = server("m-1");
    body["volumes"] = json!([volume]);
    let server = id(&api.create(body.clone()).await);
    body["name"] = json!("m-2");
    api.post("servers", body).await.refused(400);
    api.delete(&format!("servers/{server}")).await.with(204);
    api.wait(1).await;
    assert_eq!(api.get(&format!("volumes/{volume}")).await.with(200)["status"], "AVAILABLE");
}

#[tokio::test(start_paused = true)]
async fn public_ips_and_security_groups_are_put_on_servers() {
    let api = Api::new(Settings::default());
    let server = id(&api.create(server("m-1")).await);
    let address = api.post("public-ips", json!({"labels": {"a": "b"}})).await.with(201);
    let path = format!("servers/{server}/public-ips/{}", id(&address));
    api.put(&path).await.with(202);
    assert_eq!(api.server(&server).await["nics"][0]["publicIp"], address["ip"]);
    let another = id(&api.create(super::server("m-2")).await);
    api.put(&format!("servers/{another}/public-ips/{}", id(&address))).await.refused(409);
    api.delete(&path).await.with(204);
    api.delete(&path).await.refused(404);
    let group = id(&api.post("security-groups", json!({"name": "nodes"})).await.with(201));
    let path = format!("servers/{server}/security-groups/{group}");
    api.put(&path).await.with(202);
    assert_eq!(api.server(&server).await["nics"][0]["securityGroups"], json!([group]));
    api.delete(&format!("security-groups/{group}")).await.refused(409);
    api.delete(&path).await.with(204);
    let rules = format!("security-groups/{group}/rules");
    let rule = id(&api.post(&rules, json!({"direction": "ingress"})).await.with(201));
    api.post(&rules, json!({"direction": "up"})).await.refused(400);
    api.delete(&format!("{rules}/{rule}")).await.with(204);
    api.delete(&format!("security-groups/{group}")).await.with(204);
    let mut named = super::server("m-3");
    named["securityGroups"] = json!(["by-name"]);
    let named = id(&api.create(named).await);
    let groups = api.get("security-groups").await.with(200);
    assert_eq!(groups["items"][0]["name"], "by-name");
    assert_eq!(api.server(&named).await["nics"][0]["securityGroups"], json!([id(&groups["items"][0])]));
}

#[tokio::test(start_paused = true)]
async fn labels_and_metadata_are_changed_one_by_one() {
    let api = Api::new(Settings::default());
    let mut body = server("m-1");
    body["metadata"] = json!({"a": "b", "n": 7});
    let path = format!("servers/{}", id(&api.create(body).await));
    let change = json!({"labels": {"kubernetes.io/machine": null, "new": "x"}, "metadata": {"a": null}});
    let changed = api.patch(&path, change).await.with(200);
    assert_eq!(changed["labels"], json!({"new": "x"}));
    assert_eq!(changed["metadata"], json!({"n": 7}));
    api.patch(&path, json!({"status": "ACTIVE"})).await.refused(400);
    api.patch(&path, json!({"labels": {"a": "b c"}})).await.refused(400);
}

#[tokio::test(start_paused = true)]
async fn a_server_has_one_service_account() {
    let api = Api::new(Settings::default());
    let path = format!("servers/{}/service-accounts", id(&api.create(server("m-1")).await));
    let (first, second) = (format!("{path}/a@sa.stackit.cloud"), format!("{path}/b@sa.stackit.cloud"));
    assert_eq!(api.put(&first).await.with(201)["items"], json!(["a@sa.stackit.cloud"]));
    api.put(&second).await.refused(409);
    api.put(&format!("{path}/nobody")).await.refused(400);
    assert_eq!(api.delete(&first).await.with(200)["items"], json!([]));
    api.delete(&first).await.refused(404);
}

#[tokio::test(start_paused = true)]
async fn networks_have_the_shape_of_their_version() {
    let api = Api::new(Settings::default());
    let v1 = format!("/v1/projects/{}/networks", super::PROJECT);
    let made = json!({"name": "n", "addressFamily": {"ipv4": {"prefix": "10.5.0.0/16"}}});
    let made = api.call("POST", &v1, Some(made)).await.with(202);
    let network = made["networkId"].as_str().unwrap().to_owned();
    assert_eq!((&made["state"], &made["prefixes"]), (&json!("CREATED"), &json!(["10.5.0.0/16"])));
    let shown = api.get(&format!("networks/{network}")).await.with(200);
    assert_eq!((&shown["status"], &shown["ipv4"]["prefixes"]), (&json!("CREATED"), &json!(["10.5.0.0/16"])));
    assert_eq!(shown["id"], network.as_str());
    api.patch(&format!("networks/{network}"), json!({"labels": {"a": "b"}})).await.with(202);
    assert_eq!(api.names("networks?label_selector=a%3Db").await, ["n"]);
    let nic = id(&api.post(&format!("networks/{network}/nics"), json!({})).await.with(201));
    api.delete(&format!("networks/{network}")).await.refused(409);
    api.delete(&format!("networks/{network}/nics/{nic}")).await.with(204);
    api.delete(&format!("networks/{network}")).await.with(202);
}

#[tokio::test(start_paused = true)]
async fn version_one_serves_the_same_servers_without_a_region() {
    let api = Api::new(Settings::default());
    let v1 = format!("/v1/projects/{}/servers", super::PROJECT);
    let mut body = server("m-1");
    body.as_object_mut().unwrap().remove("networking");
    api.post("servers", body.clone()).await.refused(400);
    let made = api.call("POST", &v1, Some(body)).await.with(201);
    assert_eq!(api.names("servers").await, ["m-1"]);
    let path = format!("{v1}/{}?details=true", id(&made));
    let shown = api.call("GET", &path, None).await.with(200);
    assert_eq!(shown["nics"].as_array().map(Vec::len), Some(1));
    assert_eq!(api.call("GET", "/v1/availability-zones", None).await.with(200)["items"][0], "eu01-1");
}

#[tokio::test(start_paused = true)]
async fn affinity_groups_know_their_members_and_keypairs_their_names() {
    let api = Api::new(Settings::default());
    let group = json!({"name": "apart", "policy": "hard-anti-affinity"});
    let group = id(&api.post("affinity-groups", group).await.with(201));
    api.post("affinity-groups", json!({"name": "x", "policy": "together"})).await.refused(400);
    let mut body = server("m-1");
    body["affinityGroup"] = json!(group);
    body["keypairName"] = json!("me@home");
    let server = id(&api.create(body).await);
    let members = api.get(&format!("affinity-groups/{group}")).await.with(200)["members"].clone();
    assert_eq!(members, json!([server]));
    let keypairs: Value = api.call("GET", "/v2/keypairs", None).await.with(200);
    assert_eq!(keypairs["items"][0]["name"], "me@home");
    let key = json!({"name": "k", "publicKey": "ssh-ed25519 AAAA someone"});
    api.call("POST", "/v2/keypairs", Some(key.clone())).await.with(201);
    api.call("POST", "/v2/keypairs", Some(key)).await.refused(409);
    api.call("POST", "/v2/keypairs", Some(json!({"publicKey": "mine"}))).await.refused(400);
    api.call("DELETE", "/v2/keypairs/k", None).await.with(204);
}

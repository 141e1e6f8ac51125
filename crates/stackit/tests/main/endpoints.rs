use crate::stage::{Answer, PROJECT, REGION, Stage};
use hostler_driver::Failure;
use hostler_stackit::{
    ApiVersion, Authorisation, Client, ConsoleLines, Reboot,
    wire::{
        Agent, AttachmentChange, BootVolume, CreateServer, Networking, NewAffinityGroup, NewKeypair, NewNic,
        NewPublicIp, NewSecurityGroup, NewVolume, NicChange, PublicIpChange, ServerChange, VolumeChange,
        VolumeSource,
    },
};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt::Debug};

/// Calls of one version, each checked against the line that the server saw.
struct Check {
    stage: Stage,
    client: Client,
    version: ApiVersion,
}

impl Check {
    /// `expected` is the operation, method and path; `S` stands for the project's path, `R` for the region's
    /// and `C` for the caller's.
    async fn sends<T: Debug>(
        &self,
        call: impl Future<Output = Result<T, Failure>>,
        expected: &str,
        body: Value,
    ) -> T {
        let result = call.await.unwrap_or_else(|failure| panic!("{expected}: {failure}"));
        let seen = self.stage.take();
        assert_eq!(seen.len(), 1, "{expected}");
        let (project, region, caller) = match self.version {
            ApiVersion::V1 => (format!("/v1/projects/{PROJECT}"), "/v1".to_owned(), "/v1"),
            ApiVersion::V2 => {
                (format!("/v2/projects/{PROJECT}/regions/{REGION}"), format!("/v2/regions/{REGION}"), "/v2")
            }
        };
        let expected = expected
            .replace(" S/", &format!(" {project}/"))
            .replace(" R/", &format!(" {region}/"))
            .replace(" C/", &format!(" {caller}/"));
        assert_eq!(format!("{} {}", seen[0].operation.unwrap(), seen[0].line()), expected);
        let sent = if seen[0].body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&seen[0].body).unwrap()
        };
        assert_eq!(sent, body, "{expected}");
        assert_eq!(seen[0].content_type.is_some(), !body.is_null(), "{expected}");
        result
    }

    fn will(&self, status: u16, body: Value) {
        self.stage.will([Answer::Json(status, body)]);
    }

    fn accepts(&self) {
        self.stage.will([Answer::Raw(202, vec![], "")]);
    }
}

fn both() -> [Check; 2] {
    [ApiVersion::V1, ApiVersion::V2].map(|version| {
        let stage = Stage::new();
        let client = stage.client(version, Authorisation::None);
        Check { stage, client, version }
    })
}

fn server() -> Value {
    json!({"id": "s", "name": "m", "machineType": "c2i.2", "status": "CREATING"})
}

#[tokio::test(start_paused = true)]
async fn servers_are_listed_made_changed_and_deleted() {
    for check in both() {
        let client = &check.client;
        check.will(200, json!({"items": [server()]}));
        let call = client.list_servers(Some("kubernetes.io/machine=m-1,a=b"));
        let selected =
            "ListServers GET S/servers?details=false&label_selector=kubernetes.io%2Fmachine%3Dm-1%2Ca%3Db";
        let servers = check.sends(call, selected, Value::Null).await;
        assert_eq!(servers[0].id, "s");
        check.sends(client.list_servers(None), "ListServers GET S/servers?details=false", Value::Null).await;
        check.will(200, server());
        let found =
            check.sends(client.get_server("s"), "GetServer GET S/servers/s?details=true", Value::Null).await;
        assert_eq!(found.machine_type.as_deref(), Some("c2i.2"));
        check.will(201, server());
        let create = full_create();
        check.sends(client.create_server(&create), "CreateServer POST S/servers", full_body()).await;
        check.will(200, server());
        let labels = BTreeMap::from([("a".to_owned(), None)]);
        let change = ServerChange { labels: Some(labels), ..ServerChange::default() };
        check
            .sends(
                client.update_server("s", &change),
                "UpdateServer PATCH S/servers/s",
                json!({"labels": {"a": null}}),
            )
            .await;
        check.stage.will([Answer::Raw(204, vec![], "")]);
        check.sends(client.delete_server("s"), "DeleteServer DELETE S/servers/s", Value::Null).await;
    }
}

fn full_create() -> CreateServer {
    CreateServer {
        name: "m".into(),
        machine_type: "c2i.2".into(),
        networking: Some(Networking::Nics { nic_ids: vec!["n1".into(), "n2".into()] }),
        image_id: Some("i".into()),
        labels: BTreeMap::from([("kubernetes.io/machine".into(), "m".into())]),
        user_data: Some("aGVsbG8=".into()),
        boot_volume: Some(BootVolume {
            id: None,
            delete_on_termination: Some(false),
            performance_class: Some("fast".into()),
            size: Some(50),
            source: Some(VolumeSource { kind: "image".into(), id: "i".into() }),
        }),
        volumes: vec!["v".into()],
        security_groups: vec!["g".into()],
        keypair_name: Some("k".into()),
        availability_zone: Some("eu01-1".into()),
        affinity_group: Some("a".into()),
        service_account_mails: vec!["x@sa.stackit.cloud".into()],
        agent: Some(Agent { provisioned: Some(true) }),
        metadata: json!({"n": 1}).as_object().cloned(),
    }
}

fn full_body() -> Value {
    json!({
        "name": "m", "machineType": "c2i.2", "networking": {"nicIds": ["n1", "n2"]}, "imageId": "i",
        "labels": {"kubernetes.io/machine": "m"}, "userData": "aGVsbG8=",
        "bootVolume": {"deleteOnTermination": false, "performanceClass": "fast", "size": 50,
                       "source": {"type": "image", "id": "i"}},
        "volumes": ["v"], "securityGroups": ["g"], "keypairName": "k", "availabilityZone": "eu01-1",
        "affinityGroup": "a", "serviceAccountMails": ["x@sa.stackit.cloud"], "agent": {"provisioned": true},
        "metadata": {"n": 1},
    })
}

#[tokio::test(start_paused = true)]
async fn servers_are_started_stopped_and_looked_after() {
    for check in both() {
        let client = &check.client;
        check.accepts();
        check.sends(client.start_server("s"), "StartServer POST S/servers/s/start", Value::Null).await;
        check.accepts();
        check.sends(client.stop_server("s"), "StopServer POST S/servers/s/stop", Value::Null).await;
        check.accepts();
        let call = client.deallocate_server("s");
        check.sends(call, "DeallocateServer POST S/servers/s/deallocate", Value::Null).await;
        for (how, word) in [(Reboot::Soft, "soft"), (Reboot::Hard, "hard")] {
            check.accepts();
            let line = format!("RebootServer POST S/servers/s/reboot?action={word}");
            check.sends(client.reboot_server("s", how), &line, Value::Null).await;
        }
        check.accepts();
        let call = client.resize_server("s", "c2i.4");
        check.sends(call, "ResizeServer POST S/servers/s/resize", json!({"machineType": "c2i.4"})).await;
        check.accepts();
        let call = client.rescue_server("s", "i");
        check.sends(call, "RescueServer POST S/servers/s/rescue", json!({"image": "i"})).await;
        check.accepts();
        check
            .sends(client.unrescue_server("s"), "UnrescueServer POST S/servers/s/unrescue", Value::Null)
            .await;
        check.will(200, json!({"url": "https://console.example/?token=x"}));
        let call = client.server_console("s");
        let url = check.sends(call, "GetServerConsole GET S/servers/s/console", Value::Null).await;
        assert_eq!(url.expose_secret(), "https://console.example/?token=x");
        let lines = [
            (ConsoleLines::Usual, ""),
            (ConsoleLines::Last(40), "?length=40"),
            (ConsoleLines::Last(0), "?length=1"),
            (ConsoleLines::All, "?length=0"),
        ];
        for (lines, query) in lines {
            check.will(200, json!({"output": "kernel panic"}));
            let line = format!("GetServerLog GET S/servers/s/log{query}");
            let log = check.sends(client.server_log("s", lines), &line, Value::Null).await;
            assert_eq!(log, "kernel panic");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn things_are_attached_to_servers_and_detached() {
    for check in both() {
        let client = &check.client;
        check.will(200, json!({"items": [{"id": "n", "ipv4": "10.0.0.1"}]}));
        let call = client.list_server_nics("s");
        let nics = check.sends(call, "ListServerNICs GET S/servers/s/nics", Value::Null).await;
        assert_eq!(nics[0].ipv4.as_deref(), Some("10.0.0.1"));
        check.sends(client.add_nic("s", "n"), "AddNicToServer PUT S/servers/s/nics/n", Value::Null).await;
        let call = client.remove_nic("s", "n");
        check.sends(call, "RemoveNicFromServer DELETE S/servers/s/nics/n", Value::Null).await;
        let call = client.add_network("s", "n");
        check.sends(call, "AddNetworkToServer POST S/servers/s/networks/n", Value::Null).await;
        let call = client.remove_network("s", "n");
        check.sends(call, "RemoveNetworkFromServer DELETE S/servers/s/networks/n", Value::Null).await;
        let call = client.add_public_ip("s", "p");
        check.sends(call, "AddPublicIpToServer PUT S/servers/s/public-ips/p", Value::Null).await;
        let call = client.remove_public_ip("s", "p");
        check.sends(call, "RemovePublicIpFromServer DELETE S/servers/s/public-ips/p", Value::Null).await;
        let call = client.add_security_group("s", "g");
        check.sends(call, "AddSecurityGroupToServer PUT S/servers/s/security-groups/g", Value::Null).await;
        let call = client.remove_security_group("s", "g");
        check
            .sends(call, "RemoveSecurityGroupFromServer DELETE S/servers/s/security-groups/g", Value::Null)
            .await;
        let mails = json!({"items": ["a@b"]});
        check.will(200, mails.clone());
        let call = client.list_server_service_accounts("s");
        check.sends(call, "ListServerServiceAccounts GET S/servers/s/service-accounts", Value::Null).await;
        check.will(201, mails.clone());
        let call = client.add_service_account("s", "a@b");
        let line = "AddServiceAccountToServer PUT S/servers/s/service-accounts/a%40b";
        assert_eq!(check.sends(call, line, Value::Null).await, ["a@b"]);
        check.will(200, mails);
        let call = client.remove_service_account("s", "a@b");
        let line = "RemoveServiceAccountFromServer DELETE S/servers/s/service-accounts/a%40b";
        check.sends(call, line, Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_are_attached_kept_and_changed() {
    for check in both() {
        let client = &check.client;
        let attachment = json!({"serverId": "s", "volumeId": "v", "deleteOnTermination": true});
        check.will(200, json!({"items": [attachment]}));
        let call = client.list_attached_volumes("s");
        let list =
            check.sends(call, "ListAttachedVolumes GET S/servers/s/volume-attachments", Value::Null).await;
        assert_eq!((list[0].volume_id.as_str(), list[0].delete_on_termination), ("v", Some(true)));
        check.will(200, attachment.clone());
        let call = client.get_attached_volume("s", "v");
        check.sends(call, "GetAttachedVolume GET S/servers/s/volume-attachments/v", Value::Null).await;
        check.will(202, attachment.clone());
        let call = client.attach_volume("s", "v", AttachmentChange::default());
        check.sends(call, "AddVolumeToServer PUT S/servers/s/volume-attachments/v", json!({})).await;
        check.will(200, attachment);
        let change = AttachmentChange { delete_on_termination: Some(true) };
        let call = client.update_attached_volume("s", "v", change);
        let line = "UpdateAttachedVolume PATCH S/servers/s/volume-attachments/v";
        check.sends(call, line, json!({"deleteOnTermination": true})).await;
        let call = client.detach_volume("s", "v");
        check
            .sends(call, "RemoveVolumeFromServer DELETE S/servers/s/volume-attachments/v", Value::Null)
            .await;

        let volume = json!({"id": "v", "availabilityZone": "eu01-1", "size": 10, "status": "AVAILABLE"});
        check.will(200, json!({"items": [volume]}));
        let call = client.list_volumes(Some("a=b"));
        check.sends(call, "ListVolumes GET S/volumes?label_selector=a%3Db", Value::Null).await;
        check.will(200, volume.clone());
        check.sends(client.get_volume("v"), "GetVolume GET S/volumes/v", Value::Null).await;
        check.will(201, volume.clone());
        let new = NewVolume { availability_zone: "eu01-1".into(), size: Some(10), ..NewVolume::default() };
        let body = json!({"availabilityZone": "eu01-1", "size": 10});
        check.sends(client.create_volume(&new), "CreateVolume POST S/volumes", body).await;
        check.will(200, volume);
        let change = VolumeChange { name: Some("x".into()), ..VolumeChange::default() };
        let call = client.update_volume("v", &change);
        check.sends(call, "UpdateVolume PATCH S/volumes/v", json!({"name": "x"})).await;
        check.accepts();
        let call = client.resize_volume("v", 20);
        check.sends(call, "ResizeVolume POST S/volumes/v/resize", json!({"size": 20})).await;
        check.sends(client.delete_volume("v"), "DeleteVolume DELETE S/volumes/v", Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nics_networks_and_addresses_have_their_calls() {
    for check in both() {
        let client = &check.client;
        let nic = json!({"id": "n", "networkId": "w", "allowedAddresses": ["10.0.0.0/8"], "type": "server"});
        check.sends(client.list_nics(None), "ListProjectNICs GET S/nics", Value::Null).await;
        let call = client.list_network_nics("w", Some("a=b"));
        check.sends(call, "ListNics GET S/networks/w/nics?label_selector=a%3Db", Value::Null).await;
        check.will(200, nic.clone());
        check.sends(client.find_nic("n"), "GetProjectNIC GET S/nics/n", Value::Null).await;
        check.will(200, nic.clone());
        let found =
            check.sends(client.get_nic("w", "n"), "GetNic GET S/networks/w/nics/n", Value::Null).await;
        assert_eq!((found.kind.as_deref(), found.network_id.as_str()), (Some("server"), "w"));
        check.will(201, nic.clone());
        let new = NewNic { allowed_addresses: Some(vec!["10.0.0.0/8".into()]), ..NewNic::default() };
        let body = json!({"allowedAddresses": ["10.0.0.0/8"]});
        check.sends(client.create_nic("w", &new), "CreateNic POST S/networks/w/nics", body.clone()).await;
        check.will(200, nic);
        let change = NicChange { allowed_addresses: Some(vec!["10.0.0.0/8".into()]), ..NicChange::default() };
        let call = client.update_nic("w", "n", &change);
        check.sends(call, "UpdateNic PATCH S/networks/w/nics/n", body).await;
        let call = client.delete_nic("w", "n");
        check.sends(call, "DeleteNic DELETE S/networks/w/nics/n", Value::Null).await;
        check.sends(client.list_networks(None), "ListNetworks GET S/networks", Value::Null).await;
        check.will(200, json!({"networkId": "w", "name": "net", "state": "CREATED"}));
        let network = check.sends(client.get_network("w"), "GetNetwork GET S/networks/w", Value::Null).await;
        assert_eq!((network.id.as_str(), network.status.as_str()), ("w", "CREATED"));

        let ip = json!({"id": "p", "ip": "192.0.2.1", "networkInterface": null});
        check.sends(client.list_public_ips(None), "ListPublicIPs GET S/public-ips", Value::Null).await;
        check.will(200, ip.clone());
        check.sends(client.get_public_ip("p"), "GetPublicIP GET S/public-ips/p", Value::Null).await;
        check.will(201, ip.clone());
        let new = NewPublicIp::default();
        let call = client.create_public_ip(&new);
        check.sends(call, "CreatePublicIP POST S/public-ips", json!({})).await;
        check.will(200, ip);
        let change = PublicIpChange { network_interface: Some(None), ..PublicIpChange::default() };
        let call = client.update_public_ip("p", &change);
        check.sends(call, "UpdatePublicIP PATCH S/public-ips/p", json!({"networkInterface": null})).await;
        check.sends(client.delete_public_ip("p"), "DeletePublicIP DELETE S/public-ips/p", Value::Null).await;

        let group = json!({"id": "g", "name": "nodes"});
        let call = client.list_security_groups(None);
        check.sends(call, "ListSecurityGroups GET S/security-groups", Value::Null).await;
        check.will(200, group.clone());
        let call = client.get_security_group("g");
        check.sends(call, "GetSecurityGroup GET S/security-groups/g", Value::Null).await;
        check.will(201, group);
        let new = NewSecurityGroup { name: "nodes".into(), ..NewSecurityGroup::default() };
        let call = client.create_security_group(&new);
        check.sends(call, "CreateSecurityGroup POST S/security-groups", json!({"name": "nodes"})).await;
        let call = client.delete_security_group("g");
        check.sends(call, "DeleteSecurityGroup DELETE S/security-groups/g", Value::Null).await;
        let rule = json!({"id": "r", "direction": "ingress", "portRange": {"min": 22, "max": 22},
            "protocol": {"name": "tcp", "number": 6}});
        check.will(200, json!({"items": [rule]}));
        let call = client.list_security_group_rules("g");
        let line = "ListSecurityGroupRules GET S/security-groups/g/rules";
        let rules = check.sends(call, line, Value::Null).await;
        assert_eq!(rules[0].port_range.unwrap().max, 22);
    }
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_can_be_read() {
    for check in both() {
        let client = &check.client;
        let kind = json!({"name": "c2i.2", "vcpus": 2, "ram": 4096, "disk": 0, "extraSpecs": {"cpu": "x"}});
        check.will(200, json!({"items": [kind]}));
        let call = client.list_machine_types();
        let types = check.sends(call, "ListMachineTypes GET S/machine-types", Value::Null).await;
        assert_eq!((types[0].vcpus, types[0].ram), (2, 4096));
        check.will(200, kind);
        let call = client.get_machine_type("c2i.2");
        check.sends(call, "GetMachineType GET S/machine-types/c2i.2", Value::Null).await;
        let image = json!({"id": "i", "name": "Flatcar", "diskFormat": "qcow2", "minDiskSize": 9,
            "agent": {"supported": true}, "config": {"architecture": "x86", "operatingSystem": "linux"}});
        check.sends(client.list_images(None), "ListImages GET S/images", Value::Null).await;
        check.will(200, image);
        let found = check.sends(client.get_image("i"), "GetImage GET S/images/i", Value::Null).await;
        assert_eq!(found.config.unwrap().architecture.as_deref(), Some("x86"));
        check.will(200, json!({"items": ["eu01-1", "eu01-m"]}));
        let call = client.list_availability_zones();
        let zones = check.sends(call, "ListAvailabilityZones GET R/availability-zones", Value::Null).await;
        assert_eq!(zones, ["eu01-1", "eu01-m"]);
        check.will(200, json!({"quotas": {"vcpu": {"limit": 10, "usage": 3}}}));
        let quotas = check.sends(client.quotas(), "ListQuotas GET S/quotas", Value::Null).await;
        assert_eq!((quotas["vcpu"].limit, quotas["vcpu"].usage), (10, 3));

        let pair = json!({"name": "k", "publicKey": "ssh-ed25519 AAAA"});
        check.sends(client.list_keypairs(None), "ListKeyPairs GET C/keypairs", Value::Null).await;
        check.will(200, pair.clone());
        check.sends(client.get_keypair("k"), "GetKeyPair GET C/keypairs/k", Value::Null).await;
        check.will(201, pair);
        let new = NewKeypair { public_key: "ssh-ed25519 AAAA".into(), ..NewKeypair::default() };
        let body = json!({"publicKey": "ssh-ed25519 AAAA"});
        check.sends(client.create_keypair(&new), "CreateKeyPair POST C/keypairs", body).await;
        check.sends(client.delete_keypair("k"), "DeleteKeyPair DELETE C/keypairs/k", Value::Null).await;

        let group = json!({"id": "a", "name": "spread", "policy": "soft-anti-affinity", "members": ["s"]});
        let call = client.list_affinity_groups();
        check.sends(call, "ListAffinityGroups GET S/affinity-groups", Value::Null).await;
        check.will(200, group.clone());
        let call = client.get_affinity_group("a");
        check.sends(call, "GetAffinityGroup GET S/affinity-groups/a", Value::Null).await;
        check.will(201, group);
        let new = NewAffinityGroup { name: "spread".into(), policy: "soft-anti-affinity".into() };
        let body = json!({"name": "spread", "policy": "soft-anti-affinity"});
        let call = client.create_affinity_group(&new);
        check.sends(call, "CreateAffinityGroup POST S/affinity-groups", body).await;
        let call = client.delete_affinity_group("a");
        check.sends(call, "DeleteAffinityGroup DELETE S/affinity-groups/a", Value::Null).await;
    }
}

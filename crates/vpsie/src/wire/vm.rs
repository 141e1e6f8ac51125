use super::{
    envelope::{self, Unreadable},
    lenient,
};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// A virtual machine, as lists and its own page show it. Passwords, which both hold, are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Vm {
    #[serde(deserialize_with = "lenient::whole")]
    pub id: Option<i64>,
    /// The UUID under which everything is asked for.
    #[serde(deserialize_with = "lenient::text")]
    pub identifier: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub notes: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub default_ip: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub default_ipv6: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub private_ip: Option<String>,
    #[serde(rename = "publicIp", deserialize_with = "lenient::text")]
    pub public_ip: Option<String>,
    #[serde(rename = "dcIdentifier", deserialize_with = "lenient::text")]
    pub datacenter: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub cpu: Option<i64>,
    /// In MB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ram: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub ssd: Option<i64>,
    /// In GB.
    #[serde(deserialize_with = "lenient::whole")]
    pub traffic: Option<i64>,
    #[serde(deserialize_with = "lenient::moment")]
    pub created_on: Option<Timestamp>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_active: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_deleted: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_suspended: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_locked: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub is_terminated: Option<bool>,
    #[serde(deserialize_with = "lenient::flag")]
    pub power: Option<bool>,
}

/// One with what only its own page tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmDetail {
    pub vm: Vm,
    pub tags: Vec<String>,
}

impl VmDetail {
    /// The page of one: in `vmData` beside its tags, or as it is. Unknown fields, passwords among them, are passed over
    /// in both readings.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(rename = "vmData")]
            vm_data: Option<Vm>,
            #[serde(rename = "vmTags", default, deserialize_with = "lenient::texts")]
            vm_tags: Vec<String>,
        }
        let Page { vm_data, vm_tags } = envelope::data(body)?;
        let vm = vm_data.map_or_else(|| envelope::data(body), Ok)?;
        Ok(Self { vm, tags: vm_tags })
    }
}

/// An order that VPSie has taken and that is in no list yet. The password that it echoes is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PendingVm {
    #[serde(deserialize_with = "lenient::text")]
    pub id: Option<String>,
    data: Option<PendingOrder>,
}

impl PendingVm {
    /// What was ordered.
    pub fn order(&self) -> PendingOrder {
        self.data.clone().unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PendingOrder {
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub notes: Option<String>,
    #[serde(deserialize_with = "lenient::texts")]
    pub tags: Vec<String>,
    #[serde(rename = "processId", deserialize_with = "lenient::text")]
    pub process: Option<String>,
    #[serde(rename = "dcIdentifier", deserialize_with = "lenient::text")]
    pub datacenter: Option<String>,
}

/// What the hypervisor says about a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VmStatus {
    #[serde(deserialize_with = "lenient::text")]
    pub status: Option<String>,
    #[serde(deserialize_with = "lenient::whole")]
    pub uptime: Option<i64>,
}

/// The body of a create call. Flags are the texts "0" and "1": numbers are passed over by the API.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateVm {
    pub resource_identifier: String,
    pub os_identifier: String,
    pub dc_identifier: String,
    pub hostname: String,
    /// The project's number, as a text.
    pub project_id: String,
    pub notes: String,
    #[serde(serialize_with = "flag_text")]
    pub backup_enabled: bool,
    #[serde(serialize_with = "flag_text")]
    pub weekly_backup_enabled: bool,
    #[serde(serialize_with = "flag_text")]
    pub monthly_backup_enabled: bool,
    #[serde(rename = "addPublicIpV4", serialize_with = "flag_text")]
    pub public_ipv4: bool,
    #[serde(rename = "addPublicIpV6", serialize_with = "flag_text")]
    pub public_ipv6: bool,
    #[serde(rename = "addPrivateIp", serialize_with = "flag_text")]
    pub private_ip: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_key_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_identifier: Option<String>,
    /// In base64.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "exposed")]
    pub user_data: Option<SecretString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Ours to choose; the queue shows it again.
    pub process_id: String,
    /// The size of the disk in GB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssd: Option<i64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn flag_text<S: Serializer>(flag: &bool, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(if *flag { "1" } else { "0" })
}

/// The request is where the secret belongs.
#[expect(clippy::ref_option, reason = "serde asks for a reference")]
fn exposed<S: Serializer>(secret: &Option<SecretString>, out: S) -> Result<S::Ok, S::Error> {
    secret.as_ref().map(ExposeSecret::expose_secret).serialize(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_read_in_both_shapes() {
        let vm = json!({"id": 7, "identifier": "u", "hostname": "m-1", "power": 1, "is_active": "1", "notes": null,
            "created_on": "2026-01-01T00:00:00.000Z", "initial_password": "hunter2"});
        let nested =
            json!({"error": false, "data": {"vmData": vm, "vmTags": [{"name": "a"}], "imageCategories": []}});
        let flat = json!({"error": false, "data": vm});
        for (page, tags) in [(nested, vec!["a".to_owned()]), (flat, Vec::new())] {
            let VmDetail { vm, tags: found } = VmDetail::read(page.to_string().as_bytes()).unwrap();
            assert_eq!(found, tags);
            assert_eq!(
                (vm.id, vm.identifier.as_deref(), vm.power, vm.is_active),
                (Some(7), Some("u"), Some(true), Some(true))
            );
            assert!(vm.notes.is_none() && vm.created_on.is_some() && vm.is_deleted.is_none());
            assert!(!format!("{vm:?}").contains("hunter2"));
        }
    }

    #[test]
    fn an_order_in_the_queue_is_read_without_its_password() {
        let entry = json!({"id": 5, "user_id": 1, "running": 0, "data": {"hostname": "m-1", "addPublicIpV4": true,
            "tags": null, "projectId": 3, "processId": "p", "vmPassword": "hunter2"}});
        let entry: PendingVm = serde_json::from_value(entry).unwrap();
        assert_eq!((entry.id.as_deref(), entry.order().process.as_deref()), (Some("5"), Some("p")));
        assert!(!format!("{entry:?}").contains("hunter2"));
    }

    #[test]
    fn an_order_has_the_names_of_the_api_and_flags_as_texts() {
        let order = CreateVm {
            resource_identifier: "plan".into(),
            os_identifier: "os".into(),
            dc_identifier: "dc".into(),
            hostname: "m-1".into(),
            project_id: "7".into(),
            notes: "n".into(),
            backup_enabled: false,
            weekly_backup_enabled: false,
            monthly_backup_enabled: false,
            public_ipv4: true,
            public_ipv6: false,
            private_ip: false,
            ssh_key_identifier: Some("key".into()),
            script_identifier: None,
            user_data: Some("dGV4dA==".to_owned().into()),
            tags: vec!["a".into()],
            process_id: "p".into(),
            ssd: None,
        };
        assert_eq!(
            serde_json::to_value(order).unwrap(),
            json!({"resourceIdentifier": "plan", "osIdentifier": "os", "dcIdentifier": "dc", "hostname": "m-1",
                "projectId": "7", "notes": "n", "backupEnabled": "0", "weeklyBackupEnabled": "0",
                "monthlyBackupEnabled": "0", "addPublicIpV4": "1", "addPublicIpV6": "0", "addPrivateIp": "0",
                "sshKeyIdentifier": "key", "userData": "dGV4dA==", "tags": ["a"], "processId": "p"})
        );
    }
}

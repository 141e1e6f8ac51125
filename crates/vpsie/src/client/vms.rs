use super::{Call, Client, odd, path};
use crate::wire::{CreateVm, PendingVm, Vm, VmDetail, VmStatus, envelope};
use hostler_driver::Failure;
use serde_json::json;

/// Virtual machines.
impl Client {
    /// Orders a virtual machine. VPSie tells no id: the order is in its queue after a while, and the machine in lists
    /// later. One of an image of the user's own is ordered in another place.
    pub async fn create_vm(&self, order: &CreateVm, own_image: bool) -> Result<(), Failure> {
        let path = path(if own_image { &["custom", "vm"] } else { &["vm"] })?;
        self.tell(Call::create("CreateVM", path).json(order)?).await
    }

    /// All of the account. One without an id spoils all: what is left out would count as absent.
    pub async fn list_vms(&self) -> Result<Vec<Vm>, Failure> {
        let call = Call::get("ListVMs", path(&["vm"])?);
        let operation = call.operation;
        let vms: Vec<Vm> = self.list(call).await?;
        if vms.iter().any(|vm| vm.identifier.is_none()) {
            return Err(odd(operation, &"a VPS in it has no identifier"));
        }
        Ok(vms)
    }

    /// The orders that are in no list yet.
    pub async fn list_pending_vms(&self) -> Result<Vec<PendingVm>, Failure> {
        self.list(Call::get("ListPendingVMs", path(&["vm", "pending"])?)).await
    }

    /// One by its UUID; [`hostler_driver::Code::NotFound`] only when the API itself says so. It goes before other
    /// questions: nothing is deleted that was not looked at.
    pub async fn get_vm(&self, identifier: &str) -> Result<VmDetail, Failure> {
        let call = Call::get("GetVM", path(&["vm", identifier])?).urgent();
        let operation = call.operation;
        let detail = self.ask(call, VmDetail::read).await?;
        match &detail.vm.identifier {
            Some(found) if found.eq_ignore_ascii_case(identifier) => Ok(detail),
            _ => Err(odd(operation, &format_args!("it is not about {identifier}"))),
        }
    }

    /// What the hypervisor says.
    pub async fn vm_status(&self, identifier: &str) -> Result<VmStatus, Failure> {
        self.ask(Call::get("GetVMStatus", path(&["vm", "status", identifier])?), envelope::data).await
    }

    /// Orders the deletion; it is gone when neither lists nor its own page show it.
    pub async fn delete_vm(&self, identifier: &str, reason: &str) -> Result<(), Failure> {
        let statistic = json!({"reason": reason, "note": ""});
        let body = json!({"vmIdentifier": identifier, "password": "", "deleteStatistic": statistic});
        self.tell(Call::delete("DeleteVM", path(&["vm"])?).json(&body)?).await
    }

    pub async fn start_vm(&self, identifier: &str) -> Result<(), Failure> {
        self.tell(
            Call::change("StartVM", path(&["vm", "start"])?).json(&json!({"vmIdentifier": identifier}))?,
        )
        .await
    }

    pub async fn stop_vm(&self, identifier: &str) -> Result<(), Failure> {
        self.tell(Call::change("StopVM", path(&["vm", "stop"])?).json(&json!({"vmIdentifier": identifier}))?)
            .await
    }

    /// Adds tags to those that it has.
    pub async fn add_vm_tags(&self, identifier: &str, tags: &[String]) -> Result<(), Failure> {
        let body = json!({"vmIdentifier": identifier, "tags": tags});
        self.tell(Call::change("AddVMTags", path(&["vm", "addtags"])?).json(&body)?).await
    }

    /// Lets one more key in.
    pub async fn add_vm_ssh_key(&self, identifier: &str, key: &str) -> Result<(), Failure> {
        let body = json!({"vmIdentifier": identifier, "sshKeyIdentifier": key});
        self.tell(Call::change("AddVMSSHKey", path(&["vm", "sshkey"])?).json(&body)?).await
    }

    pub async fn attach_vm_to_vpc(
        &self,
        identifier: &str,
        vpc: i64,
        datacenter: &str,
    ) -> Result<(), Failure> {
        let body = json!({"vmIdentifier": identifier, "vpcId": vpc, "dcIdentifier": datacenter});
        self.tell(Call::change("AttachVMToVPC", path(&["vm", "add", "vpc"])?).json(&body)?).await
    }
}

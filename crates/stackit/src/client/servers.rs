use super::{Client, call::Call};
use crate::listing::Servers;
use crate::wire::{
    AttachmentChange, ConsoleLog, ConsoleUrl, CreateServer, Nic, Server, ServerChange, VolumeAttachment,
};
use hostler_driver::Failure;
use secrecy::SecretString;
use serde_json::json;

/// How a server is restarted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reboot {
    /// The system is asked to restart.
    #[default]
    Soft,
    /// As if the power were cut.
    Hard,
}

/// How much of a console log is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConsoleLines {
    /// What the API gives unasked: the last 2,000.
    #[default]
    Usual,
    Last(u32),
    All,
}

/// Servers.
impl Client {
    /// The servers that the API selects by `selector`; whoever calls filters again. Without details: those
    /// would bring everybody's user data along.
    pub async fn list_servers(&self, selector: Option<&str>) -> Result<Vec<Server>, Failure> {
        let call = Call::get("ListServers", self.in_project(&["servers"])?).query("details", "false");
        self.list(call.selected_by(selector)).await
    }

    /// All servers of the project, in the same way. What did not change since `before` is not read again.
    pub(crate) async fn list_all_servers(&self, before: &Servers) -> Result<Servers, Failure> {
        let call = Call::get("ListServers", self.in_project(&["servers"])?).query("details", "false");
        self.read(call, |answer| Servers::read(answer, before)).await
    }

    /// One server; [`hostler_driver::Code::NotFound`] only when the API itself says so.
    pub async fn get_server(&self, id: &str) -> Result<Server, Failure> {
        self.ask(Call::get("GetServer", self.server(id, &[])?).query("details", "true")).await
    }

    pub async fn create_server(&self, server: &CreateServer) -> Result<Server, Failure> {
        self.ask(Call::create("CreateServer", self.in_project(&["servers"])?).body(server)?).await
    }

    pub async fn update_server(&self, id: &str, change: &ServerChange) -> Result<Server, Failure> {
        self.ask(Call::patch("UpdateServer", self.server(id, &[])?).body(change)?).await
    }

    /// Orders the deletion; the server is gone when the API does not know it any more.
    pub async fn delete_server(&self, id: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteServer", self.server(id, &[])?)).await
    }

    /// Also brings a deallocated server back.
    pub async fn start_server(&self, id: &str) -> Result<(), Failure> {
        self.tell(Call::post("StartServer", self.server(id, &["start"])?)).await
    }

    /// Stops a server; it keeps its place and its price.
    pub async fn stop_server(&self, id: &str) -> Result<(), Failure> {
        self.tell(Call::post("StopServer", self.server(id, &["stop"])?)).await
    }

    /// Stops a server and gives up its place; only its volumes still cost.
    pub async fn deallocate_server(&self, id: &str) -> Result<(), Failure> {
        self.tell(Call::post("DeallocateServer", self.server(id, &["deallocate"])?)).await
    }

    pub async fn reboot_server(&self, id: &str, how: Reboot) -> Result<(), Failure> {
        let action = match how {
            Reboot::Soft => "soft",
            Reboot::Hard => "hard",
        };
        self.tell(Call::post("RebootServer", self.server(id, &["reboot"])?).query("action", action)).await
    }

    pub async fn resize_server(&self, id: &str, machine_type: &str) -> Result<(), Failure> {
        let body = json!({"machineType": machine_type});
        self.tell(Call::post("ResizeServer", self.server(id, &["resize"])?).body(&body)?).await
    }

    /// Boots a server from another image, to look after it.
    pub async fn rescue_server(&self, id: &str, image: &str) -> Result<(), Failure> {
        let body = json!({"image": image});
        self.tell(Call::post("RescueServer", self.server(id, &["rescue"])?).body(&body)?).await
    }

    pub async fn unrescue_server(&self, id: &str) -> Result<(), Failure> {
        self.tell(Call::post("UnrescueServer", self.server(id, &["unrescue"])?)).await
    }

    /// The address of a server's console. Whoever has it has the console, so it is a secret.
    pub async fn server_console(&self, id: &str) -> Result<SecretString, Failure> {
        let call = Call::get("GetServerConsole", self.server(id, &["console"])?);
        self.ask::<ConsoleUrl>(call).await.map(|console| console.url.into())
    }

    /// What a server wrote to its console.
    pub async fn server_log(&self, id: &str, lines: ConsoleLines) -> Result<String, Failure> {
        let call = Call::get("GetServerLog", self.server(id, &["log"])?);
        let call = match lines {
            ConsoleLines::Usual => call,
            // Zero lines would mean all of them.
            ConsoleLines::Last(lines) => call.query("length", &lines.max(1).to_string()),
            ConsoleLines::All => call.query("length", "0"),
        };
        self.ask::<ConsoleLog>(call).await.map(|log| log.output)
    }

    fn server(&self, id: &str, rest: &[&str]) -> Result<String, Failure> {
        self.in_project(&[&["servers", id], rest].concat())
    }
}

/// What is attached to a server.
impl Client {
    pub async fn list_server_nics(&self, server: &str) -> Result<Vec<Nic>, Failure> {
        self.list(Call::get("ListServerNICs", self.server(server, &["nics"])?)).await
    }

    pub async fn add_nic(&self, server: &str, nic: &str) -> Result<(), Failure> {
        self.tell(Call::put("AddNicToServer", self.server(server, &["nics", nic])?)).await
    }

    /// Detaches a NIC; it stays.
    pub async fn remove_nic(&self, server: &str, nic: &str) -> Result<(), Failure> {
        self.tell(Call::delete("RemoveNicFromServer", self.server(server, &["nics", nic])?)).await
    }

    /// Makes a NIC in the network and attaches it.
    pub async fn add_network(&self, server: &str, network: &str) -> Result<(), Failure> {
        self.tell(Call::create("AddNetworkToServer", self.server(server, &["networks", network])?)).await
    }

    /// Detaches **and deletes** the server's NICs in the network.
    pub async fn remove_network(&self, server: &str, network: &str) -> Result<(), Failure> {
        let path = self.server(server, &["networks", network])?;
        self.tell(Call::delete("RemoveNetworkFromServer", path)).await
    }

    pub async fn add_public_ip(&self, server: &str, ip: &str) -> Result<(), Failure> {
        self.tell(Call::put("AddPublicIpToServer", self.server(server, &["public-ips", ip])?)).await
    }

    pub async fn remove_public_ip(&self, server: &str, ip: &str) -> Result<(), Failure> {
        self.tell(Call::delete("RemovePublicIpFromServer", self.server(server, &["public-ips", ip])?)).await
    }

    pub async fn add_security_group(&self, server: &str, group: &str) -> Result<(), Failure> {
        let path = self.server(server, &["security-groups", group])?;
        self.tell(Call::put("AddSecurityGroupToServer", path)).await
    }

    pub async fn remove_security_group(&self, server: &str, group: &str) -> Result<(), Failure> {
        let path = self.server(server, &["security-groups", group])?;
        self.tell(Call::delete("RemoveSecurityGroupFromServer", path)).await
    }

    /// The mails of the service accounts that a server may act as.
    pub async fn list_server_service_accounts(&self, server: &str) -> Result<Vec<String>, Failure> {
        let path = self.server(server, &["service-accounts"])?;
        self.list(Call::get("ListServerServiceAccounts", path)).await
    }

    /// Answers with the mails afterwards.
    pub async fn add_service_account(&self, server: &str, mail: &str) -> Result<Vec<String>, Failure> {
        let path = self.server(server, &["service-accounts", mail])?;
        self.list(Call::put("AddServiceAccountToServer", path)).await
    }

    /// Answers with the mails afterwards.
    pub async fn remove_service_account(&self, server: &str, mail: &str) -> Result<Vec<String>, Failure> {
        let path = self.server(server, &["service-accounts", mail])?;
        self.list(Call::delete("RemoveServiceAccountFromServer", path)).await
    }

    pub async fn list_attached_volumes(&self, server: &str) -> Result<Vec<VolumeAttachment>, Failure> {
        let path = self.server(server, &["volume-attachments"])?;
        self.list(Call::get("ListAttachedVolumes", path)).await
    }

    pub async fn get_attached_volume(&self, server: &str, volume: &str) -> Result<VolumeAttachment, Failure> {
        self.ask(Call::get("GetAttachedVolume", self.attachment(server, volume)?)).await
    }

    pub async fn attach_volume(
        &self,
        server: &str,
        volume: &str,
        how: AttachmentChange,
    ) -> Result<VolumeAttachment, Failure> {
        self.ask(Call::put("AddVolumeToServer", self.attachment(server, volume)?).body(&how)?).await
    }

    pub async fn update_attached_volume(
        &self,
        server: &str,
        volume: &str,
        change: AttachmentChange,
    ) -> Result<VolumeAttachment, Failure> {
        self.ask(Call::patch("UpdateAttachedVolume", self.attachment(server, volume)?).body(&change)?).await
    }

    /// Detaches a volume; it stays.
    pub async fn detach_volume(&self, server: &str, volume: &str) -> Result<(), Failure> {
        self.tell(Call::delete("RemoveVolumeFromServer", self.attachment(server, volume)?)).await
    }

    fn attachment(&self, server: &str, volume: &str) -> Result<String, Failure> {
        self.server(server, &["volume-attachments", volume])
    }
}

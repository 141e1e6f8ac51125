//! The requests endpoint: what became of a call that changed something.

use super::{
    answer::{Outcome, Refusal, found},
    cloud::Desk,
    life::Status,
    operation::{Operation, Target},
};
use http::Method;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// So many are remembered.
const REMEMBERED: usize = 1000;

#[derive(Default)]
pub(super) struct Requests(VecDeque<Request>);

struct Request {
    id: String,
    kind: &'static str,
    action: &'static str,
    resource: String,
}

/// What kind of thing an operation changes, and which of the ids in its path is that thing's.
fn changed(operation: Operation) -> Option<(&'static str, usize)> {
    let name = operation.name();
    let nic = matches!(operation, Operation::CreateNic | Operation::UpdateNic | Operation::DeleteNic);
    let network = matches!(
        operation,
        Operation::CreateNetwork | Operation::PartialUpdateNetwork | Operation::DeleteNetwork
    );
    let volume = matches!(
        operation,
        Operation::CreateVolume | Operation::UpdateVolume | Operation::DeleteVolume | Operation::ResizeVolume
    );
    if nic {
        Some(("NIC", 1))
    } else if network {
        Some(("NETWORK", 0))
    } else if volume {
        Some(("VOLUME", 0))
    } else if name.ends_with("Server") || name.ends_with("AttachedVolume") {
        Some(("SERVER", 0))
    } else {
        None
    }
}

impl Desk<'_> {
    /// Remembers a call that changed something. A thing that was created has its id in the answer.
    pub(super) fn remember(&mut self, id: &str, method: &Method, target: &Target, body: Option<&Value>) {
        let action = match *method {
            Method::GET => return,
            Method::DELETE if target.ids.len() == 1 || target.operation == Operation::DeleteNic => "DELETE",
            Method::POST if body.is_some() => "CREATE",
            _ => "UPDATE",
        };
        let Some((kind, at)) = changed(target.operation) else { return };
        let created = body.and_then(|body| body["id"].as_str().or_else(|| body["networkId"].as_str()));
        let in_path = target.ids.get(at).map(String::as_str);
        let named = if action == "CREATE" { created } else { in_path };
        let Some(resource) = named.map(str::to_owned) else { return };
        let requests = &mut self.estate.requests.0;
        requests.push_back(Request { id: id.to_owned(), kind, action, resource });
        if requests.len() > REMEMBERED {
            requests.pop_front();
        }
    }

    pub(super) fn get_request(&self, id: &str) -> Outcome {
        let request = self.estate.requests.0.iter().find(|request| request.id == id);
        let request = request.ok_or_else(|| Refusal::missing("request", id))?;
        let status = self.became(request);
        found(json!({
            "requestId": id, "requestType": request.kind, "requestAction": request.action, "status": status,
            "resources": [{"id": request.resource, "type": request.kind, "status": status}],
        }))
    }

    fn became(&self, request: &Request) -> &'static str {
        let server = self.estate.servers.get(&request.resource);
        let volume = self.estate.volumes.get(&request.resource);
        let network_or_nic = self.estate.networks.contains_key(&request.resource)
            || self.estate.nics.contains_key(&request.resource);
        let exists = server.is_some() || volume.is_some() || network_or_nic;
        let pending = server.is_some_and(|server| server.until.is_some())
            || volume.is_some_and(|volume| volume.until.is_some());
        let failed = server.is_some_and(|server| server.status == Status::Error);
        match request.action {
            "DELETE" if exists => "DELETING",
            "DELETE" => "DELETED",
            _ if failed => "FAILED",
            "CREATE" if pending => "CREATING",
            "CREATE" => "CREATED",
            _ if pending => "UPDATING",
            _ => "UPDATED",
        }
    }
}

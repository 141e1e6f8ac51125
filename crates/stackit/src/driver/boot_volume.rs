//! What becomes of a boot volume when its server goes.

use super::StackitDriver;
use crate::{
    ProviderSpec,
    labels::{self, ATTEMPT, BOOT_VOLUME},
    remains,
    wire::{AttachmentChange, Server, VolumeChange},
};
use hostler_driver::{Code, Failure, Order};

/// Whether the boot volume of this server goes with it; without a spec the class cannot be read any more.
///
/// Today's class may not be the one that the server was made with. A server of ours says itself if its volume is to
/// stay; one of another program does not, so without a class nobody knows, and what may be wanted is kept.
fn goes(server: &Server, spec: Option<&ProviderSpec>) -> bool {
    let label = |key: &str| server.labels.as_ref()?.text(key);
    if label(BOOT_VOLUME) == Some(labels::BOOT_VOLUME_STAYS) {
        return false;
    }
    spec.map_or_else(|| label(ATTEMPT).is_some(), ProviderSpec::boot_volume_goes)
}

/// The boot volume, if the server does not say that it goes with it.
fn outlives(server: &Server) -> Option<String> {
    let volume = server.boot_volume.as_ref().filter(|volume| volume.delete_on_termination != Some(true))?;
    volume.id.clone().filter(|id| !id.is_empty())
}

impl StackitDriver {
    /// A server does not always tell what becomes of its boot volume; the attachment does.
    pub(super) async fn complete(&self, server: &mut Server) -> Result<(), Failure> {
        let Some(volume) = server.boot_volume.as_mut() else { return Ok(()) };
        if let (Some(id), None) = (&volume.id, volume.delete_on_termination) {
            let attachment = self.client.get_attached_volume(&server.id, id).await?;
            volume.delete_on_termination = attachment.delete_on_termination;
        }
        Ok(())
    }

    pub(super) async fn let_go(&self, server: &str, volume: &str) -> Result<(), Failure> {
        let change = AttachmentChange { delete_on_termination: Some(true) };
        self.client.update_attached_volume(server, volume, change).await.map(drop)
    }

    /// Before a server goes, its boot volume is told to go with it if nobody else would look after it.
    pub(super) async fn take_boot_volume_along(
        &self,
        order: &Order,
        server: &mut Server,
    ) -> Result<(), Failure> {
        let spec = ProviderSpec::parse(&order.spec).ok();
        if !goes(server, spec.as_ref()) || outlives(server).is_none() {
            return Ok(());
        }
        self.complete(server).await?;
        let Some(volume) = outlives(server) else { return Ok(()) };
        self.let_go(&server.id, &volume).await
    }

    /// Writes on the boot volume of a server that is about to be deleted that it is to go, too.
    pub(super) async fn note_boot_volume(&self, server: &Server, refusal: &Failure) -> Result<(), Failure> {
        let Some(volume) = outlives(server) else { return Ok(()) };
        tracing::warn!(%refusal, server = server.id, volume, "the boot volume is deleted after its server");
        let labels = remains::labels(server, &self.names);
        let change = VolumeChange { labels: Some(remains::change(&labels)), ..VolumeChange::default() };
        match self.client.update_volume(&volume, &change).await {
            Ok(_) => {
                self.poller.remains.remember(&volume, &labels);
                Ok(())
            }
            // There is none that could be left.
            Err(failure) if failure.code == Code::NotFound => Ok(()),
            Err(failure) => {
                Err(about(&volume, &server.id, "can neither be told to go with it nor labelled", failure))
            }
        }
    }

    /// Deletes the volume that a server has left, if it still is to go.
    pub(super) async fn clear_away(&self, order: &Order, left: &Server) -> Result<(), Failure> {
        self.is_ours(&order.identity, left)?;
        let Some(volume) = outlives(left) else { return Ok(()) };
        let failed = |failure| about(&volume, &left.id, "is left and cannot be deleted", failure);
        let deleted = match self.client.get_volume(&volume).await {
            Ok(seen) if remains::server_of(&seen) == Some(&left.id) => {
                self.client.delete_volume(&volume).await
            }
            // Somebody took the label off and wants it.
            Ok(_) => Err(Failure::new(Code::NotFound, "it is not to go any more")),
            Err(failure) => Err(failure),
        };
        match deleted {
            Err(failure) if failure.code == Code::NotFound => {
                self.poller.remains.forget(&volume);
                Ok(())
            }
            other => other.map_err(failed),
        }
    }
}

fn about(volume: &str, server: &str, what: &str, failure: Failure) -> Failure {
    // A volume that is not there is no reason to take its server for gone.
    let code = if failure.code == Code::NotFound { Code::Aborted } else { failure.code };
    let message = format!("the boot volume {volume} of the server {server} {what}: {}", failure.message);
    Failure { code, message, ..failure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_boot_volume_stays_only_if_somebody_said_so() {
        let (ours, stays) = (json!({ATTEMPT: "a"}), json!({ATTEMPT: "a", BOOT_VOLUME: "stays"}));
        let of_go = json!({"kubernetes.io/machine": "m"});
        let (none, silent) = (Some(Value::Null), Some(json!({"size": 50})));
        let (no, yes) =
            (Some(json!({"deleteOnTermination": false})), Some(json!({"deleteOnTermination": true})));
        let table = [
            // the server's labels, the class's bootVolume if it can be read, whether the volume goes
            (&ours, &none, true),
            (&ours, &silent, true),
            (&ours, &yes, true),
            (&ours, &no, false),
            (&ours, &None, true),
            (&stays, &none, false),
            (&stays, &silent, false),
            (&stays, &yes, false),
            (&stays, &None, false),
            (&of_go, &none, true),
            (&of_go, &silent, true),
            (&of_go, &yes, true),
            (&of_go, &no, false),
            (&of_go, &None, false),
        ];
        for (labels, boot, expected) in table {
            let server = serde_json::from_value(json!({"id": "s", "name": "m", "labels": labels})).unwrap();
            let spec = boot.as_ref().map(|boot| ProviderSpec::parse(&json!({"bootVolume": boot})).unwrap());
            assert_eq!(goes(&server, spec.as_ref()), expected, "{labels} {boot:?}");
        }
    }
}

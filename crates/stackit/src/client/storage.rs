use super::{Client, call::Call};
use crate::wire::{NewVolume, Volume, VolumeChange};
use hostler_driver::Failure;
use serde_json::json;

/// Volumes.
impl Client {
    pub async fn list_volumes(&self, selector: Option<&str>) -> Result<Vec<Volume>, Failure> {
        self.list(Call::get("ListVolumes", self.in_project(&["volumes"])?).selected_by(selector)).await
    }

    pub async fn get_volume(&self, volume: &str) -> Result<Volume, Failure> {
        self.ask(Call::get("GetVolume", self.in_project(&["volumes", volume])?)).await
    }

    pub async fn create_volume(&self, volume: &NewVolume) -> Result<Volume, Failure> {
        self.ask(Call::create("CreateVolume", self.in_project(&["volumes"])?).body(volume)?).await
    }

    pub async fn update_volume(&self, volume: &str, change: &VolumeChange) -> Result<Volume, Failure> {
        self.ask(Call::patch("UpdateVolume", self.in_project(&["volumes", volume])?).body(change)?).await
    }

    /// Only larger, in GB.
    pub async fn resize_volume(&self, volume: &str, size: i64) -> Result<(), Failure> {
        let path = self.in_project(&["volumes", volume, "resize"])?;
        self.tell(Call::post("ResizeVolume", path).body(&json!({"size": size}))?).await
    }

    /// Never with its snapshots: whoever made those still wants them.
    pub async fn delete_volume(&self, volume: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteVolume", self.in_project(&["volumes", volume])?)).await
    }
}

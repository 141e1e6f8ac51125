use super::{Client, call::Call};
use crate::wire::{
    AffinityGroup, Image, Keypair, MachineType, NewAffinityGroup, NewKeypair, QuotaAnswer, Quotas,
};
use hostler_driver::Failure;

/// What there is to choose from.
impl Client {
    pub async fn list_machine_types(&self) -> Result<Vec<MachineType>, Failure> {
        self.list(Call::get("ListMachineTypes", self.in_project(&["machine-types"])?)).await
    }

    pub async fn get_machine_type(&self, name: &str) -> Result<MachineType, Failure> {
        self.ask(Call::get("GetMachineType", self.in_project(&["machine-types", name])?)).await
    }

    /// The project's own images and those that others let it use.
    pub async fn list_images(&self, selector: Option<&str>) -> Result<Vec<Image>, Failure> {
        self.list(Call::get("ListImages", self.in_project(&["images"])?).selected_by(selector)).await
    }

    pub async fn get_image(&self, image: &str) -> Result<Image, Failure> {
        self.ask(Call::get("GetImage", self.in_project(&["images", image])?)).await
    }

    pub async fn list_availability_zones(&self) -> Result<Vec<String>, Failure> {
        self.list(Call::get("ListAvailabilityZones", self.in_region(&["availability-zones"])?)).await
    }

    pub async fn quotas(&self) -> Result<Quotas, Failure> {
        let call = Call::get("ListQuotas", self.in_project(&["quotas"])?);
        self.ask::<QuotaAnswer>(call).await.map(|answer| answer.quotas)
    }
}

/// Keypairs: they belong to whoever asks, not to a project.
impl Client {
    pub async fn list_keypairs(&self, selector: Option<&str>) -> Result<Vec<Keypair>, Failure> {
        self.list(Call::get("ListKeyPairs", self.of_caller(&["keypairs"])?).selected_by(selector)).await
    }

    pub async fn get_keypair(&self, name: &str) -> Result<Keypair, Failure> {
        self.ask(Call::get("GetKeyPair", self.of_caller(&["keypairs", name])?)).await
    }

    pub async fn create_keypair(&self, keypair: &NewKeypair) -> Result<Keypair, Failure> {
        self.ask(Call::create("CreateKeyPair", self.of_caller(&["keypairs"])?).body(keypair)?).await
    }

    pub async fn delete_keypair(&self, name: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteKeyPair", self.of_caller(&["keypairs", name])?)).await
    }
}

/// Affinity groups.
impl Client {
    pub async fn list_affinity_groups(&self) -> Result<Vec<AffinityGroup>, Failure> {
        self.list(Call::get("ListAffinityGroups", self.in_project(&["affinity-groups"])?)).await
    }

    pub async fn get_affinity_group(&self, group: &str) -> Result<AffinityGroup, Failure> {
        self.ask(Call::get("GetAffinityGroup", self.in_project(&["affinity-groups", group])?)).await
    }

    pub async fn create_affinity_group(&self, group: &NewAffinityGroup) -> Result<AffinityGroup, Failure> {
        self.ask(Call::create("CreateAffinityGroup", self.in_project(&["affinity-groups"])?).body(group)?)
            .await
    }

    pub async fn delete_affinity_group(&self, group: &str) -> Result<(), Failure> {
        self.tell(Call::delete("DeleteAffinityGroup", self.in_project(&["affinity-groups", group])?)).await
    }
}

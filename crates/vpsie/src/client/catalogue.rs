use super::{Call, Client, path};
use crate::{
    base::Prefix,
    wire::{Datacenter, Image, Plan, PlanCategory, Project, Script, SshKey, Vpc},
};
use hostler_driver::{Code, Failure};

/// More datacenters than there are.
const DATACENTERS: &str = "500";
/// What a list of plans asks for besides what it is about; anything will do.
const FILLER: &str = "hostler";

/// What there is to choose from. Orders wait for it, and it is asked for seldom.
impl Client {
    pub async fn list_datacenters(&self) -> Result<Vec<Datacenter>, Failure> {
        let call = Call::get("ListDatacenters", path(&["datacenter"])?).urgent();
        let all: Vec<Datacenter> = self.list(call.query("offset", "0").query("limit", DATACENTERS)).await?;
        Ok(all.into_iter().filter(|datacenter| datacenter.is_deleted != Some(true)).collect())
    }

    pub async fn list_plan_categories(&self) -> Result<Vec<PlanCategory>, Failure> {
        self.list(
            Call::get("ListPlanCategories", path(&["plans", "category"])?).under(Prefix::Second).urgent(),
        )
        .await
    }

    /// The plans of one category, for a datacenter and an operating system.
    pub async fn list_plans_of(
        &self,
        datacenter: &str,
        image: &str,
        category: &PlanCategory,
    ) -> Result<Vec<Plan>, Failure> {
        let wanted = category.identifier.as_deref().unwrap_or_default();
        let call = Call::ask("ListPlans", path(&["resources"])?).urgent().fields(&[
            ("dcIdentifier", datacenter),
            ("osIdentifier", image),
            ("planCatIdentifier", wanted),
            ("name", FILLER),
            ("description", FILLER),
            ("isCustom", "0"),
        ]);
        let mut plans: Vec<Plan> = self.list(call).await?;
        for plan in &mut plans {
            plan.category = category.name.clone().unwrap_or_default();
        }
        Ok(plans)
    }

    /// The plans of all categories, one after another: there are few. One that is in several is told once.
    pub async fn list_plans(&self, datacenter: &str, image: &str) -> Result<Vec<Plan>, Failure> {
        let mut all: Vec<Plan> = Vec::new();
        for category in self.list_plan_categories().await? {
            let plans = self.list_plans_of(datacenter, image, &category).await?;
            let known = |plan: &Plan| all.iter().any(|other| other.identifier == plan.identifier);
            let new: Vec<Plan> =
                plans.into_iter().filter(|plan| plan.identifier.is_some() && !known(plan)).collect();
            all.extend(new);
        }
        Ok(all)
    }

    /// The images of the user's own.
    pub async fn list_custom_images(&self) -> Result<Vec<Image>, Failure> {
        self.list(Call::get("ListCustomImages", path(&["custom", "images"])?).urgent()).await
    }

    /// The images that VPSie has. No document tells of this list: nothing if it is not there, or is something else.
    pub async fn list_stock_images(&self) -> Result<Option<Vec<Image>>, Failure> {
        let images: Result<Vec<Image>, Failure> =
            self.list(Call::get("ListImages", path(&["images"])?).urgent()).await;
        match images {
            Ok(images) if images.iter().all(|image| image.identifier.is_some()) => Ok(Some(images)),
            Err(failure) if failure.code == Code::Unauthenticated => Err(failure),
            other => {
                tracing::debug!(failure = ?other.err(), "VPSie shows no list of its images");
                Ok(None)
            }
        }
    }

    pub async fn list_projects(&self) -> Result<Vec<Project>, Failure> {
        self.list(Call::get("ListProjects", path(&["projects"])?).urgent()).await
    }

    pub async fn list_ssh_keys(&self) -> Result<Vec<SshKey>, Failure> {
        self.list(Call::get("ListSSHKeys", path(&["sshkeys"])?).urgent()).await
    }

    pub async fn list_scripts(&self) -> Result<Vec<Script>, Failure> {
        self.list(Call::get("ListScripts", path(&["scripts"])?).urgent()).await
    }

    pub async fn list_vpcs(&self) -> Result<Vec<Vpc>, Failure> {
        self.list(Call::get("ListVPCs", path(&["vpc"])?).urgent()).await
    }
}

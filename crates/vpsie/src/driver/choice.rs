//! What the names of a spec mean.

use crate::{
    Catalogue, Hints, ProviderSpec,
    catalogue::{Kind, Named, What},
};
use hostler_driver::{Code, Failure, client::is_uuid};

/// What a spec chooses, by the identifiers of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) datacenter: String,
    pub(super) plan: String,
    pub(super) image: String,
    /// The image is of the user's own.
    pub(super) own_image: bool,
    /// The project's number.
    pub(super) project: String,
    pub(super) ssh_keys: Vec<String>,
    pub(super) script: Option<String>,
    pub(super) vpc: Option<i64>,
}

/// How much is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// What is an identifier already is taken as it is: VPSie itself says whether it exists.
    Names,
    /// Everything.
    All,
}

const DATACENTER: &str = "providerSpec.datacenterID";
const OFFERING: &str = "providerSpec.offeringID";
const IMAGE: &str = "providerSpec.osImageID";
const PROJECT: &str = "providerSpec.projectID";
const SCRIPT: &str = "providerSpec.scriptID";
const VPC: &str = "providerSpec.vpcID";

/// Looks the names of a spec up. What is wrong is told at once, each with its field.
pub(super) async fn choose(
    catalogue: &Catalogue,
    spec: &ProviderSpec,
    hints: &Hints,
) -> Result<Chosen, Failure> {
    Chooser { catalogue, care: Care::Names, problems: Vec::new() }.choose(spec, hints).await
}

/// What of a spec that VPSie has refused does not exist, in words. What cannot be found out is left out.
pub(super) async fn advise(catalogue: &Catalogue, spec: &ProviderSpec, hints: &Hints) -> Vec<String> {
    catalogue.forget();
    let chosen = Chooser { catalogue, care: Care::All, problems: Vec::new() }.choose(spec, hints).await;
    match chosen {
        Err(failure) if failure.code == Code::InvalidArgument => vec![failure.message],
        Err(failure) => {
            tracing::debug!(%failure, "a look-up for advice failed");
            Vec::new()
        }
        Ok(_) => Vec::new(),
    }
}

struct Chooser<'a> {
    catalogue: &'a Catalogue,
    care: Care,
    problems: Vec<String>,
}

impl Chooser<'_> {
    async fn choose(mut self, spec: &ProviderSpec, hints: &Hints) -> Result<Chosen, Failure> {
        let given = |own: &String, hint: &Option<String>| {
            Some(own.clone()).filter(|text| !text.is_empty()).or_else(|| hint.clone()).unwrap_or_default()
        };
        let (datacenter, project) =
            (given(&spec.datacenter, &hints.datacenter), given(&spec.project, &hints.project));
        let datacenter = self.identifier(&Kind::Datacenter, DATACENTER, &datacenter).await?;
        let (image, own_image) = self.image(&spec.image).await?;
        let plan = match (&datacenter, &image) {
            (Some(datacenter), Some(image)) => {
                let kind = Kind::Plan { datacenter: datacenter.clone(), image: image.clone() };
                self.identifier(&kind, OFFERING, &spec.offering).await?
            }
            // Plans are of a datacenter and an image.
            _ => None,
        };
        let project = self.project(&project).await?;
        let mut ssh_keys = Vec::new();
        for (at, key) in spec.ssh_keys.iter().enumerate() {
            let field = format!("providerSpec.sshKeyIDs[{at}]");
            ssh_keys.extend(self.identifier(&Kind::SshKey, &field, key).await?);
        }
        let script = match spec.script.as_str() {
            "" => None,
            script => self.script(script).await?,
        };
        let vpc = match spec.vpc.as_str() {
            "" => None,
            number if number.parse::<i64>().is_ok() && self.care == Care::Names => number.parse().ok(),
            name => self.identifier(&Kind::Vpc, VPC, name).await?.and_then(|number| number.parse().ok()),
        };
        match (datacenter, plan, image, project) {
            (Some(datacenter), Some(plan), Some(image), Some(project)) if self.problems.is_empty() => {
                Ok(Chosen { datacenter, plan, image, own_image, project, ssh_keys, script, vpc })
            }
            _ => Err(Failure::new(Code::InvalidArgument, self.problems.join("; "))),
        }
    }

    /// What is wrong is noted; what cannot be found out is a failure.
    async fn find(
        &mut self,
        kind: &Kind,
        field: &str,
        wanted: &str,
    ) -> Result<Option<Option<Named>>, Failure> {
        match self.catalogue.find(kind, field, wanted).await {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.code == Code::InvalidArgument => {
                self.problems.push(failure.message);
                Ok(None)
            }
            // Where even identifiers are looked up, what VPSie does not tell is no reason to stop.
            Err(failure) if self.care == Care::All => {
                tracing::debug!(%failure, field, "a look-up for advice failed");
                Ok(Some(None))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn identifier(
        &mut self,
        kind: &Kind,
        field: &str,
        wanted: &str,
    ) -> Result<Option<String>, Failure> {
        if self.care == Care::Names && is_uuid(wanted) {
            return Ok(Some(wanted.to_owned()));
        }
        let found = self.find(kind, field, wanted).await?;
        Ok(found.map(|found| found.map_or_else(|| wanted.to_owned(), |found| found.identifier)))
    }

    /// Its identifier, and whether it is the user's own. VPSie's own may be in no list.
    async fn image(&mut self, wanted: &str) -> Result<(Option<String>, bool), Failure> {
        let found = match self.find(&Kind::Image, IMAGE, wanted).await {
            Err(failure) if is_uuid(wanted) && failure.code != Code::Unauthenticated => {
                tracing::info!(%failure, "VPSie shows no images: this one is taken for one of its own");
                Some(None)
            }
            found => found?,
        };
        Ok(match found {
            None => (None, false),
            Some(None) => (Some(wanted.to_owned()), false),
            Some(Some(Named { identifier, what, .. })) => (Some(identifier), what == What::OwnImage),
        })
    }

    /// Its number. Without a word about it, it is the one that VPSie takes for the usual one.
    async fn project(&mut self, wanted: &str) -> Result<Option<String>, Failure> {
        if self.care == Care::Names && wanted.parse::<i64>().is_ok() {
            return Ok(Some(wanted.to_owned()));
        }
        if !wanted.is_empty() && wanted.parse::<i64>().is_err() {
            let found = self.find(&Kind::Project, PROJECT, wanted).await?;
            return Ok(match found {
                Some(Some(found)) => number(&found),
                Some(None) => Some(wanted.to_owned()),
                None => None,
            });
        }
        let projects = match self.catalogue.all(&Kind::Project).await {
            Ok(projects) => projects,
            Err(_) if self.care == Care::All => return Ok(Some(wanted.to_owned())),
            Err(failure) => return Err(failure),
        };
        let meant = |one: &&Named| match &one.what {
            What::Project { number, is_default } => {
                if wanted.is_empty() {
                    *is_default
                } else {
                    number.to_string() == wanted
                }
            }
            _ => false,
        };
        let found = projects.all.iter().find(meant).and_then(number);
        if found.is_none() {
            let names: Vec<&str> = projects.all.iter().filter_map(|one| one.name.as_deref()).collect();
            let names = names.join(", ");
            self.problems.push(if wanted.is_empty() {
                format!("{PROJECT}: VPSie names no default project: give one, or \"projectId\" in the Secret; there are: {names}")
            } else {
                format!("{PROJECT}: {wanted:?} does not exist; there are: {names}")
            });
        }
        Ok(found)
    }

    /// VPSie puts an ending behind the name that a script was given.
    async fn script(&mut self, wanted: &str) -> Result<Option<String>, Failure> {
        if !is_uuid(wanted) && self.catalogue.find(&Kind::Script, SCRIPT, wanted).await.is_err() {
            let ended = format!("{wanted}.sh");
            if let Ok(Some(found)) = self.catalogue.find(&Kind::Script, SCRIPT, &ended).await {
                return Ok(Some(found.identifier));
            }
        }
        self.identifier(&Kind::Script, SCRIPT, wanted).await
    }
}

fn number(project: &Named) -> Option<String> {
    match &project.what {
        What::Project { number, .. } => Some(number.to_string()),
        _ => None,
    }
}

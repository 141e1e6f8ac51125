use hostler_driver::{Code, Failure, client::escape};
use std::{fmt, str::FromStr};

/// A project in a region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub project: String,
    pub region: String,
}

/// The form in which a place is written down.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "project {} region {}", self.project, self.region)
    }
}

impl FromStr for Place {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parts = text.strip_prefix("project ").and_then(|rest| rest.split_once(" region "));
        let plain = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        match parts {
            Some((project, region)) if plain(project) && plain(region) => {
                Ok(Self { project: project.to_owned(), region: region.to_owned() })
            }
            _ => Err(Failure::new(
                Code::InvalidArgument,
                format!("{text:?} does not tell where a server is: project <id> region <name>"),
            )),
        }
    }
}

/// The generation of the IaaS API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiVersion {
    /// One host per region; nothing in the path names it.
    V1,
    /// One host for all; the region is part of the path.
    #[default]
    V2,
}

impl ApiVersion {
    /// Where STACKIT itself serves this version.
    pub fn default_endpoint(self, region: &str) -> String {
        match self {
            Self::V1 => format!("https://iaas.api.{region}.stackit.cloud"),
            Self::V2 => "https://iaas.api.stackit.cloud".to_owned(),
        }
    }
}

/// Something in a project.
pub(crate) fn in_project(version: ApiVersion, place: &Place, rest: &[&str]) -> Result<String, Failure> {
    let Place { project, region } = place;
    match version {
        ApiVersion::V1 => joined(&["v1", "projects", project], rest),
        ApiVersion::V2 => joined(&["v2", "projects", project, "regions", region], rest),
    }
}

/// Something in a region, whatever the project.
pub(crate) fn in_region(version: ApiVersion, region: &str, rest: &[&str]) -> Result<String, Failure> {
    match version {
        ApiVersion::V1 => joined(&["v1"], rest),
        ApiVersion::V2 => joined(&["v2", "regions", region], rest),
    }
}

/// Something that belongs to whoever asks.
pub(crate) fn of_caller(version: ApiVersion, rest: &[&str]) -> Result<String, Failure> {
    match version {
        ApiVersion::V1 => joined(&["v1"], rest),
        ApiVersion::V2 => joined(&["v2"], rest),
    }
}

/// An empty part would turn the call for one server into one for all of them, a dot into one for something
/// else: neither is sent.
fn joined(start: &[&str], rest: &[&str]) -> Result<String, Failure> {
    let mut path = String::new();
    for part in start.iter().chain(rest) {
        if matches!(*part, "" | "." | "..") {
            let shown = path.rsplit('/').next().unwrap_or_default();
            return Err(Failure::new(
                Code::InvalidArgument,
                format!(
                    "{part:?} cannot be an id or name in STACKIT's {shown}: correct it where it is written"
                ),
            ));
        }
        path.push('/');
        path.push_str(&escape(part));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place = Place { project: "p".into(), region: "eu01".into() };
        assert_eq!(place.to_string().parse(), Ok(place));
        for text in ["", "project p", "project p region ", "project  region r", "p r", "project a b region c"]
        {
            assert_eq!(text.parse::<Place>().unwrap_err().code, Code::InvalidArgument, "{text}");
        }
    }

    #[test]
    fn what_goes_into_a_path_cannot_leave_it() {
        let place = Place { project: "p/q".into(), region: "eu01".into() };
        let path = in_project(ApiVersion::V2, &place, &["servers", "a/b"]).unwrap();
        assert_eq!(path, "/v2/projects/p%2Fq/regions/eu01/servers/a%2Fb");
        for id in ["", ".", ".."] {
            let failure = in_project(ApiVersion::V2, &place, &["servers", id]).unwrap_err();
            assert_eq!(failure.code, Code::InvalidArgument);
            assert!(failure.message.contains("servers"), "{failure}");
        }
    }

    #[test]
    fn each_version_has_its_paths_and_its_host() {
        let place = Place { project: "p".into(), region: "eu01".into() };
        let paths = |version| {
            [
                in_project(version, &place, &["servers"]).unwrap(),
                in_region(version, &place.region, &["availability-zones"]).unwrap(),
                of_caller(version, &["keypairs", "k"]).unwrap(),
                version.default_endpoint("eu01"),
            ]
        };
        assert_eq!(
            paths(ApiVersion::V1),
            [
                "/v1/projects/p/servers",
                "/v1/availability-zones",
                "/v1/keypairs/k",
                "https://iaas.api.eu01.stackit.cloud"
            ]
        );
        assert_eq!(
            paths(ApiVersion::V2),
            [
                "/v2/projects/p/regions/eu01/servers",
                "/v2/regions/eu01/availability-zones",
                "/v2/keypairs/k",
                "https://iaas.api.stackit.cloud"
            ]
        );
    }
}

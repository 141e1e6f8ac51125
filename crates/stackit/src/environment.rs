//! What the environment of the process says about STACKIT: a pure function of the variables.

use crate::{LabelNames, client::ApiVersion, labels::DEFAULT_DOMAIN, spec::is_label_key};
use hostler_driver::{Code, Failure, client::is_loopback};
use http::Uri;
use std::collections::BTreeMap;

const IAAS_ENDPOINT: &str = "STACKIT_IAAS_ENDPOINT";
/// The name that older versions of the Go provider used.
const API_ENDPOINT: &str = "STACKIT_API_ENDPOINT";
const TOKEN_URL: &str = "STACKIT_TOKEN_BASEURL";
const NO_AUTH: &str = "STACKIT_NO_AUTH";
const PROJECT: &str = "STACKIT_PROJECT_ID";
/// As the Go provider names it.
const LABEL_DOMAIN: &str = "CUSTOM_LABEL_DOMAIN";
const API_VERSION: &str = "STACKIT_IAAS_API_VERSION";

/// Whether calls are authorised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authentication {
    /// A Secret without key and token is an error.
    #[default]
    Required,
    /// With what the Secret has, be it nothing: for simulated clouds.
    AsGiven,
    /// Never, whatever the Secret has.
    Off,
}

/// Where STACKIT is and how it is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Instead of STACKIT's own, without a slash at its end.
    pub endpoint: Option<String>,
    /// The complete URL that gives out tokens, instead of the key's and STACKIT's own.
    pub token_url: Option<String>,
    /// For Secrets that name no project.
    pub project: Option<String>,
    pub version: ApiVersion,
    pub authentication: Authentication,
    /// The labels by which servers are recognised.
    pub labels: LabelNames,
}

impl Environment {
    /// Reads the variables; an empty one is as good as none. All problems are told at once.
    pub fn read(variables: &BTreeMap<String, String>) -> Result<Self, Failure> {
        let value = |name: &'static str| {
            variables.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
        };
        let authentication = match variables.get(NO_AUTH).map(String::as_str) {
            Some("true") => Authentication::Off,
            _ => Authentication::Required,
        };
        let mut problems = Vec::new();
        let mut url = |names: &[&'static str]| {
            let (name, value) = names.iter().find_map(|name| Some((name, value(name)?)))?;
            let checked = checked_url(value, authentication);
            checked.map_err(|problem| problems.push(format!("{name}: {problem}"))).ok()
        };
        let (endpoint, token_url) = (url(&[IAAS_ENDPOINT, API_ENDPOINT]), url(&[TOKEN_URL]));
        let version = match value(API_VERSION) {
            None | Some("v2") => ApiVersion::V2,
            Some("v1") => ApiVersion::V1,
            Some(other) => {
                problems.push(format!("{API_VERSION}: {other:?} is not known: give v1 or v2"));
                ApiVersion::V2
            }
        };
        let domain = value(LABEL_DOMAIN).unwrap_or(DEFAULT_DOMAIN);
        let labels = LabelNames::new(domain);
        if !is_label_key(&labels.class) {
            problems.push(format!(
                "{LABEL_DOMAIN}: {domain:?} cannot be the start of a label's key: give a domain such as {DEFAULT_DOMAIN}"
            ));
        }
        if !problems.is_empty() {
            return Err(Failure::new(Code::InvalidArgument, problems.join("; ")));
        }
        let project = value(PROJECT).map(str::to_owned);
        Ok(Self { endpoint, token_url, project, version, authentication, labels })
    }

    /// A cloud that serves version 2 at this address and asks for a token only if it likes.
    pub fn simulated(endpoint: &str) -> Self {
        let endpoint = Some(endpoint.trim_end_matches('/').to_owned());
        Self { endpoint, authentication: Authentication::AsGiven, ..Self::default() }
    }

    /// Where the API is for a region.
    pub fn endpoint_for(&self, region: &str) -> String {
        self.endpoint.clone().unwrap_or_else(|| self.version.default_endpoint(region))
    }
}

/// The URL without slashes at its end, if a secret may be sent there.
pub(crate) fn checked_url(text: &str, authentication: Authentication) -> Result<String, String> {
    let example = "give a URL such as https://iaas.api.stackit.cloud";
    let uri: Uri = text.parse().map_err(|_| format!("{text:?} is not a URL: {example}"))?;
    let Some(authority) = uri.authority() else {
        return Err(format!("{text:?} is not a whole URL: {example}"));
    };
    if authority.as_str().contains('@') {
        return Err(format!("a URL with a user name in it is not used: {example}"));
    }
    if uri.query().is_some() {
        return Err(format!("{text:?} has a query: {example}"));
    }
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if authentication == Authentication::Off || is_loopback(authority.host()) => {}
        Some("http") => {
            return Err(format!(
                "{text:?} would send secrets unencrypted: use https, or set {NO_AUTH}=true for a cloud that needs none"
            ));
        }
        _ => return Err(format!("{text:?} is neither https nor http: {example}")),
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, Failure> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::read(&variables.collect())
    }

    fn endpoint(variables: &[(&str, &str)]) -> Result<String, Failure> {
        read(variables).map(|environment| environment.endpoint_for("eu01"))
    }

    #[test]
    fn nothing_set_means_stackit_itself() {
        assert_eq!(read(&[]).unwrap(), Environment::default());
        let empty =
            [IAAS_ENDPOINT, API_ENDPOINT, TOKEN_URL, NO_AUTH, PROJECT, API_VERSION].map(|name| (name, ""));
        assert_eq!(read(&empty).unwrap(), Environment::default());
        assert_eq!(endpoint(&[]).unwrap(), "https://iaas.api.stackit.cloud");
        assert_eq!(endpoint(&[(API_VERSION, "v1")]).unwrap(), "https://iaas.api.eu01.stackit.cloud");
        assert_eq!(endpoint(&[(API_VERSION, "v2")]).unwrap(), "https://iaas.api.stackit.cloud");
    }

    #[test]
    fn the_newer_name_comes_first_and_slashes_do_not_matter() {
        let old = (API_ENDPOINT, "https://old.example/");
        assert_eq!(endpoint(&[old]).unwrap(), "https://old.example");
        assert_eq!(
            endpoint(&[old, (IAAS_ENDPOINT, "https://new.example//")]).unwrap(),
            "https://new.example"
        );
        assert_eq!(endpoint(&[old, (IAAS_ENDPOINT, "")]).unwrap(), "https://old.example");
        assert_eq!(
            endpoint(&[(IAAS_ENDPOINT, " https://a.example/iaas/ ")]).unwrap(),
            "https://a.example/iaas"
        );
        let token = read(&[(TOKEN_URL, "https://t.example/token/")]).unwrap().token_url;
        assert_eq!(token.as_deref(), Some("https://t.example/token"));
        assert_eq!(read(&[(PROJECT, "p")]).unwrap().project.as_deref(), Some("p"));
    }

    #[test]
    fn only_exactly_true_turns_authentication_off() {
        let table = [
            ("true", Authentication::Off),
            ("True", Authentication::Required),
            ("TRUE", Authentication::Required),
            (" true", Authentication::Required),
            ("1", Authentication::Required),
            ("yes", Authentication::Required),
            ("false", Authentication::Required),
        ];
        for (value, expected) in table {
            assert_eq!(read(&[(NO_AUTH, value)]).unwrap().authentication, expected, "{value:?}");
        }
    }

    #[test]
    fn secrets_go_unencrypted_only_to_this_machine() {
        let table = [
            // URL, with authentication, without
            ("https://iaas.example", true, true),
            ("http://iaas.example", false, true),
            ("http://10.0.0.1:8080", false, true),
            ("http://localhost:8080", true, true),
            ("http://127.0.0.1:8080", true, true),
            ("http://127.9.9.9", true, true),
            ("http://[::1]:8080/x", true, true),
            ("http://localhost.example", false, true),
            ("http://127.0.0.1.example", false, true),
            ("http://localhost@iaas.example", false, false),
            ("https://user:word@iaas.example", false, false),
            ("ftp://iaas.example", false, false),
            ("iaas.example", false, false),
            ("/v2", false, false),
            ("https://", false, false),
            ("https://iaas.example?x=y", false, false),
            ("not a URL", false, false),
        ];
        for (url, with, without) in table {
            for name in [IAAS_ENDPOINT, API_ENDPOINT, TOKEN_URL] {
                assert_eq!(read(&[(name, url)]).is_ok(), with, "{name}={url}");
                assert_eq!(read(&[(name, url), (NO_AUTH, "true")]).is_ok(), without, "{name}={url}");
            }
        }
    }

    #[test]
    fn all_problems_are_told_at_once_by_the_name_of_the_variable() {
        let failure =
            read(&[(API_ENDPOINT, "http://a.example"), (TOKEN_URL, "x y"), (API_VERSION, "v3")]).unwrap_err();
        assert_eq!(failure.code, Code::InvalidArgument);
        for name in [API_ENDPOINT, TOKEN_URL, API_VERSION] {
            assert!(failure.message.contains(name), "{failure}");
        }
        assert!(!failure.message.contains(IAAS_ENDPOINT), "{failure}");
    }
}

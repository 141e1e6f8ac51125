//! What Secret, spec and environment together say about where, and with which right.

use crate::{
    Authentication, Authorisation, Environment, KeyFlow, Place, ProviderSpec, ServiceAccountKey,
    Surroundings, environment::checked_url,
};
use hostler_driver::{Code, Credentials, Failure, ProviderId, Written, client::is_uuid};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;

/// Both spellings of each key, the one that is written today first.
const PROJECT_KEYS: [&str; 2] = ["project-id", "projectId"];
const ACCOUNT_KEYS: [&str; 2] = ["serviceaccount.json", "serviceAccountKey"];
const MAIL: &str = "serviceAccountEmail";
const TOKEN: &str = "apiToken";
const REGION: &str = "region";
const NETWORK: &str = "networkId";

/// With which right the cloud is called.
#[derive(Clone)]
pub enum Grant {
    Nothing,
    Token(SecretString),
    /// A service account's key, as it stands under `name` in the Secret.
    Key {
        name: &'static str,
        text: SecretString,
        mail: Option<String>,
    },
}

impl Grant {
    /// Whether both are the same, so that what was made for one serves for the other.
    pub fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Token(one), Self::Token(two)) => one.expose_secret() == two.expose_secret(),
            (Self::Key { text: one, mail, .. }, Self::Key { text: two, mail: other, .. }) => {
                one.expose_secret() == two.expose_secret() && mail == other
            }
            _ => false,
        }
    }

    /// Makes what authorises calls.
    pub fn authorisation(
        &self,
        environment: &Environment,
        surroundings: &Surroundings,
    ) -> Result<Authorisation, Failure> {
        Ok(match self {
            Self::Nothing => Authorisation::None,
            Self::Token(token) => Authorisation::Token(token.clone()),
            Self::Key { name, text, mail } => {
                let key = ServiceAccountKey::parse(name, text, mail.as_deref())?;
                if let Some(url) = key.token_endpoint() {
                    checked_url(url, Authentication::Required).map_err(|problem| {
                        let message =
                            format!("the Secret's key {name:?}, credentials.tokenEndpoint: {problem}");
                        Failure::new(Code::Internal, message)
                    })?;
                }
                let url = environment.token_url.as_deref();
                Authorisation::Key(Arc::new(KeyFlow::new(surroundings.clone(), key, url)))
            }
        })
    }
}

/// What a spec may leave to the Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    pub zone: Option<String>,
    pub network: Option<String>,
}

#[derive(Clone)]
pub struct Settings {
    pub place: Place,
    pub defaults: Defaults,
    pub grant: Grant,
}

impl Settings {
    /// Reads the keys of either generation. What is written about a server goes before all else. All problems
    /// are told at once.
    pub fn read(
        credentials: &Credentials,
        spec: &ProviderSpec,
        environment: &Environment,
        written: Written<'_>,
    ) -> Result<Self, Failure> {
        let known: Option<Place> = written.place.map(str::parse).transpose()?;
        let known_project = known
            .as_ref()
            .map(|place| place.project.clone())
            .or_else(|| written.id.and_then(ProviderId::project).map(str::to_owned));
        let mut problems = Vec::new();
        let mut value = |key: &str| match credentials.has(key).then(|| credentials.text(key)) {
            Some(Ok(text)) => Some(text.expose_secret().trim().to_owned()).filter(|text| !text.is_empty()),
            Some(Err(failure)) => {
                problems.push(failure.message);
                None
            }
            None => None,
        };
        let project = PROJECT_KEYS.into_iter().find_map(&mut value).or_else(|| environment.project.clone());
        let project = known_project.or(project);
        let place_in_secret = value(REGION);
        let network = value(NETWORK);
        let (mail, token) = (value(MAIL), value(TOKEN));
        let key = ACCOUNT_KEYS.into_iter().find_map(|name| Some((name, value(name)?)));

        let (secret_region, zone) = region_and_zone(place_in_secret.as_deref());
        let own_region = Some(spec.region.as_str()).filter(|region| !region.is_empty());
        let region = own_region.or(secret_region).unwrap_or_default().to_owned();
        let region = known.map_or(region, |place| place.region);
        // A zone of another region than the spec's is none.
        let zone = zone.filter(|_| secret_region == Some(region.as_str())).map(str::to_owned);
        let grant = match (environment.authentication, key, token) {
            (Authentication::Off, ..) => Grant::Nothing,
            (_, Some((name, text)), _) => Grant::Key { name, text: text.into(), mail },
            (_, None, Some(token)) => Grant::Token(token.into()),
            (Authentication::AsGiven, None, None) => Grant::Nothing,
            (Authentication::Required, None, None) => {
                problems.push(
                    "the Secret's key \"serviceaccount.json\" is missing: add a STACKIT service account key, or an \"apiToken\""
                        .to_owned(),
                );
                Grant::Nothing
            }
        };
        if project.is_none() {
            problems
                .push("the Secret's key \"project-id\" is missing: add the STACKIT project's id".to_owned());
        }
        if region.is_empty() {
            problems.push(
                "providerSpec.region: Region cannot be empty: give one such as eu01, there or in the Secret's key \"region\""
                    .to_owned(),
            );
        }
        match project {
            Some(project) if problems.is_empty() => {
                Ok(Self { place: Place { project, region }, defaults: Defaults { zone, network }, grant })
            }
            _ => Err(Failure::new(Code::InvalidArgument, problems.join("; "))),
        }
    }

    /// What is used although it looks wrong.
    pub fn warnings(&self) -> Vec<String> {
        let project = &self.place.project;
        let is_uuid = is_uuid(project);
        let warning = || {
            format!(
                "the Secret's key \"project-id\" is {project:?}, which is no UUID as STACKIT's projects have"
            )
        };
        if is_uuid { Vec::new() } else { vec![warning()] }
    }
}

/// A zone such as `eu01-1` names its region too.
fn region_and_zone(text: Option<&str>) -> (Option<&str>, Option<&str>) {
    match text.and_then(|text| text.split_once('-')) {
        Some((region, _)) => (Some(region), text),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostler_base::{Chance, Clock, transport};

    type Keys<'a> = &'a [(&'a str, &'a str)];
    /// Project, region, zone and network.
    type Read<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);

    const PROJECT: &str = "11111111-2222-4333-8444-555555555555";

    fn settings(keys: Keys<'_>, region: &str, environment: &Environment) -> Result<Settings, Failure> {
        let credentials = Credentials::new(keys.iter().map(|(key, value)| (*key, *value)));
        let spec = ProviderSpec { region: region.into(), ..ProviderSpec::default() };
        Settings::read(&credentials, &spec, environment, Written::default())
    }

    fn off() -> Environment {
        Environment { authentication: Authentication::Off, ..Environment::default() }
    }

    #[test]
    fn every_key_is_read_in_both_spellings() {
        let table: [(Keys<'_>, &str, Read<'_>); 9] = [
            (&[("project-id", "p")], "eu01", ("p", "eu01", None, None)),
            (&[("projectId", "p")], "eu01", ("p", "eu01", None, None)),
            (&[("project-id", "new"), ("projectId", "old")], "eu01", ("new", "eu01", None, None)),
            (&[("project-id", ""), ("projectId", "old")], "eu01", ("old", "eu01", None, None)),
            (&[("project-id", "p\n"), ("region", " eu01\n")], "", ("p", "eu01", None, None)),
            (&[("projectId", "p"), ("region", "eu01-1")], "", ("p", "eu01", Some("eu01-1"), None)),
            (&[("projectId", "p"), ("region", "eu01-m")], "eu01", ("p", "eu01", Some("eu01-m"), None)),
            (&[("projectId", "p"), ("region", "eu01-1")], "eu02", ("p", "eu02", None, None)),
            (&[("projectId", "p"), ("networkId", "n")], "eu01", ("p", "eu01", None, Some("n"))),
        ];
        for (keys, region, (project, expected, zone, network)) in table {
            let found = settings(keys, region, &off()).unwrap();
            assert_eq!(found.place, Place { project: project.into(), region: expected.into() }, "{keys:?}");
            let defaults = Defaults { zone: zone.map(Into::into), network: network.map(Into::into) };
            assert_eq!(found.defaults, defaults, "{keys:?}");
        }
    }

    #[test]
    fn what_is_written_goes_before_what_is_said_now() {
        let now = Credentials::new([("projectId", "now"), ("region", "eu02-1")]);
        let spec = ProviderSpec { region: "eu02".into(), ..ProviderSpec::default() };
        let id = ProviderId::stackit("by-id", "s").unwrap();
        let table = [
            (None, None, "now", "eu02"),
            (None, Some(&id), "by-id", "eu02"),
            (Some("project then region eu01"), None, "then", "eu01"),
            (Some("project then region eu01"), Some(&id), "then", "eu01"),
        ];
        for (place, id, project, region) in table {
            let found = Settings::read(&now, &spec, &off(), Written { place, id }).unwrap();
            assert_eq!(found.place, Place { project: project.into(), region: region.into() });
        }
        let nothing = Credentials::default();
        let written = Written { place: Some("project then region eu01"), id: None };
        let found = Settings::read(&nothing, &ProviderSpec::default(), &off(), written).unwrap();
        assert_eq!((found.place.project.as_str(), found.defaults.zone), ("then", None));
        let odd = Written { place: Some("somewhere"), id: None };
        assert_eq!(Settings::read(&now, &spec, &off(), odd).err().unwrap().code, Code::InvalidArgument);
    }

    #[test]
    fn a_project_may_come_from_the_environment_but_the_secret_wins() {
        let environment = Environment { project: Some("env".into()), ..off() };
        assert_eq!(settings(&[], "eu01", &environment).unwrap().place.project, "env");
        let own = settings(&[("projectId", "own")], "eu01", &environment).unwrap();
        assert_eq!(own.place.project, "own");
    }

    fn shown(grant: &Grant) -> String {
        match grant {
            Grant::Nothing => "nothing".into(),
            Grant::Token(token) => format!("token {}", token.expose_secret()),
            Grant::Key { name, text, mail } => {
                format!("{name} {} {}", text.expose_secret(), mail.as_deref().unwrap_or("-"))
            }
        }
    }

    #[test]
    fn the_right_is_a_key_before_a_token() {
        let new = ("serviceaccount.json", "{1}");
        let old = ("serviceAccountKey", "{2}");
        let (token, mail) = ((TOKEN, "t\n"), (MAIL, "a@b"));
        let required = Environment::default();
        let given = Environment::simulated("");
        let table: [(&Environment, Keys<'_>, Option<&str>); 11] = [
            (&required, &[new, old, token], Some("serviceaccount.json {1} -")),
            (&required, &[old, mail], Some("serviceAccountKey {2} a@b")),
            (&required, &[token], Some("token t")),
            (&required, &[mail], None),
            (&required, &[("serviceaccount.json", "")], None),
            (&required, &[], None),
            (&given, &[new], Some("serviceaccount.json {1} -")),
            (&given, &[token], Some("token t")),
            (&given, &[], Some("nothing")),
            (&off(), &[new, old, token], Some("nothing")),
            (&off(), &[], Some("nothing")),
        ];
        for (environment, keys, expected) in table {
            let keys = [&[("project-id", "p")], keys].concat();
            let found = settings(&keys, "eu01", environment).ok().map(|settings| shown(&settings.grant));
            assert_eq!(found.as_deref(), expected, "{keys:?}");
        }
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let failure = settings(&[], "", &Environment::default()).err().unwrap();
        assert_eq!(failure.code, Code::InvalidArgument);
        for part in ["project-id", "serviceaccount.json", "providerSpec.region"] {
            assert!(failure.message.contains(part), "{failure}");
        }
    }

    #[test]
    fn a_project_that_is_no_uuid_is_used_with_a_warning() {
        let warnings =
            |project: &str| settings(&[("project-id", project)], "eu01", &off()).unwrap().warnings();
        assert_eq!(warnings(PROJECT), Vec::<String>::new());
        assert!(warnings("my-project")[0].contains("my-project"));
        assert_eq!(warnings(&PROJECT.replace('-', "")).len(), 1);
    }

    #[test]
    fn a_rotated_grant_is_another_one() {
        let key = |text: &str, mail: Option<&str>| Grant::Key {
            name: ACCOUNT_KEYS[0],
            text: text.to_owned().into(),
            mail: mail.map(Into::into),
        };
        let token = |text: &str| Grant::Token(text.to_owned().into());
        let all =
            [Grant::Nothing, token("a"), token("b"), key("a", None), key("b", None), key("a", Some("m"))];
        for (i, one) in all.iter().enumerate() {
            for (j, two) in all.iter().enumerate() {
                assert_eq!(one.same_as(two), i == j, "{i} {j}");
            }
        }
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_used_is_told_without_showing_it() {
        let nothing = transport::from_service(tower::service_fn(|_| async {
            Ok::<http::Response<hostler_base::Body>, std::convert::Infallible>(http::Response::new(
                transport::empty(),
            ))
        }));
        let surroundings =
            Surroundings { transport: nothing, clock: Clock::system(), chance: Chance::from_seed(1) };
        let credentials = r#"{"credentials":{"kid":"k","iss":"a@b","sub":"s","aud":"x""#;
        let table = [
            ("hunter2".to_owned(), Code::InvalidArgument, "not JSON"),
            ("-----BEGIN PRIVATE KEY-----\nhunter2".to_owned(), Code::InvalidArgument, "whole file"),
            ("[]".to_owned(), Code::Internal, "not a service account key"),
            ("\"hunter2\"".to_owned(), Code::Internal, "not a service account key"),
            (r#"{"hunter2":1}"#.to_owned(), Code::Internal, "credentials"),
            (r#"{"credentials":{"iss":"a@b"}}"#.to_owned(), Code::Internal, "kid, sub, aud"),
            (format!("{credentials}}}}}"), Code::Internal, "privateKey"),
            (format!("{credentials},\"privateKey\":\"hunter2\"}}}}"), Code::Internal, "PEM"),
        ];
        for (text, code, part) in table {
            let grant = Grant::Key { name: ACCOUNT_KEYS[0], text: text.clone().into(), mail: None };
            let failure = grant.authorisation(&Environment::default(), &surroundings).err().unwrap();
            assert_eq!(failure.code, code, "{text}: {failure}");
            assert!(failure.message.contains(part), "{text}: {failure}");
            assert!(failure.message.contains("serviceaccount.json"), "{failure}");
            assert!(!failure.message.contains("hunter2"), "{failure}");
        }
    }
}

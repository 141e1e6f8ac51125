//! What the Secret `vpsie-secret` says: with which right VPSie is called, where it is, and what is to be used where
//! nothing else is said.

use crate::base::BaseUrl;
use hostler_driver::{Code, Credentials, Failure};
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};

const TOKEN: &str = "token";
/// Both spellings of the client's id, and of the datacenter.
const CLIENT_ID: [&str; 2] = ["clientId", "clientID"];
const CLIENT_SECRET: &str = "clientSecret";
const URL: &str = "url";
const CLUSTER: &str = "resourceIdentifier";
const DATACENTER: [&str; 2] = ["datacenterId", "datacenter"];
const PROJECT: &str = "projectId";

/// With which right VPSie is called.
#[derive(Clone)]
pub enum Grant {
    /// A key that lasts.
    Token(SecretString),
    /// An id and a secret that are exchanged for tokens that end.
    Client { id: SecretString, secret: SecretString },
}

impl Grant {
    fn same_as(&self, other: &Self) -> bool {
        let same = |one: &SecretString, two: &SecretString| one.expose_secret() == two.expose_secret();
        match (self, other) {
            (Self::Token(one), Self::Token(two)) => same(one, two),
            (Self::Client { id, secret }, Self::Client { id: other_id, secret: other_secret }) => {
                same(id, other_id) && same(secret, other_secret)
            }
            _ => false,
        }
    }
}

/// What the Secret says about where machines belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The cluster that VPSie runs, by its UUID.
    pub cluster: Option<String>,
    pub datacenter: Option<String>,
    pub project: Option<String>,
}

#[derive(Clone)]
pub struct Settings {
    pub grant: Grant,
    pub url: BaseUrl,
    pub hints: Hints,
}

impl Settings {
    /// All problems are told at once, each with its key. A token goes before an id and its secret.
    pub fn read(credentials: &Credentials) -> Result<Self, Failure> {
        let mut problems = Vec::new();
        let mut value = |key: &str| match credentials.has(key).then(|| credentials.text(key)) {
            Some(Ok(text)) => Some(text.expose_secret().trim().to_owned()).filter(|text| !text.is_empty()),
            Some(Err(failure)) => {
                problems.push(failure.message);
                None
            }
            None => None,
        };
        let token = value(TOKEN);
        let (id, secret) = (CLIENT_ID.into_iter().find_map(&mut value), value(CLIENT_SECRET));
        let url = value(URL);
        let hints = Hints {
            cluster: value(CLUSTER),
            datacenter: DATACENTER.into_iter().find_map(&mut value),
            project: value(PROJECT),
        };
        let mut problem = |key: &str, what: &str| problems.push(format!("the Secret's key {key:?} {what}"));
        let grant = match (token, id, secret) {
            (Some(token), ..) => {
                if HeaderValue::try_from(&token).is_err() {
                    problem(TOKEN, "holds characters that no token has: put the token alone there");
                }
                Some(Grant::Token(token.into()))
            }
            (None, Some(id), Some(secret)) => Some(Grant::Client { id: id.into(), secret: secret.into() }),
            (None, Some(_), None) => {
                problem(CLIENT_SECRET, "is missing: add it, or a \"token\"");
                None
            }
            (None, None, Some(_)) => {
                problem(CLIENT_ID[0], "is missing: add it, or a \"token\"");
                None
            }
            (None, None, None) => {
                problem(TOKEN, "is missing: add it, or \"clientId\" and \"clientSecret\"");
                None
            }
        };
        let url = url.map_or_else(|| Ok(BaseUrl::default()), |url| url.parse());
        let url = url.map_err(|why| problem(URL, &format!("cannot be used: {why}"))).ok();
        match (grant, url) {
            (Some(grant), Some(url)) if problems.is_empty() => Ok(Self { grant, url, hints }),
            _ => Err(Failure::new(Code::InvalidArgument, problems.join("; "))),
        }
    }

    /// Whether both lead to the same account with the same right.
    pub fn same_account(&self, other: &Self) -> bool {
        self.url == other.url && self.grant.same_as(&other.grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Keys<'a> = &'a [(&'a str, &'a str)];

    fn read(keys: Keys<'_>) -> Result<Settings, Failure> {
        Settings::read(&Credentials::new(keys.iter().map(|(key, value)| (*key, *value))))
    }

    fn shown(grant: &Grant) -> String {
        match grant {
            Grant::Token(token) => token.expose_secret().to_owned(),
            Grant::Client { id, secret } => format!("{}/{}", id.expose_secret(), secret.expose_secret()),
        }
    }

    #[test]
    fn both_spellings_are_read_and_a_token_goes_first() {
        let table: [(Keys<'_>, Option<&str>); 10] = [
            (&[("token", "t\n")], Some("t")),
            (&[("clientId", "i"), ("clientSecret", "s")], Some("i/s")),
            (&[("clientID", "i"), ("clientSecret", "s")], Some("i/s")),
            (&[("clientId", "i"), ("clientID", "j"), ("clientSecret", "s")], Some("i/s")),
            (&[("token", "t"), ("clientId", "i"), ("clientSecret", "s")], Some("t")),
            (&[("token", ""), ("clientId", "i"), ("clientSecret", "s")], Some("i/s")),
            (&[("token", " \n"), ("clientId", "i"), ("clientSecret", "s")], Some("i/s")),
            (&[("clientId", "i")], None),
            (&[("clientSecret", "s")], None),
            (&[], None),
        ];
        for (keys, expected) in table {
            let found = read(keys).ok().map(|settings| shown(&settings.grant));
            assert_eq!(found.as_deref(), expected, "{keys:?}");
        }
    }

    #[test]
    fn hints_are_optional() {
        let bare = read(&[("token", "t")]).unwrap();
        assert_eq!((bare.hints, bare.url), (Hints::default(), BaseUrl::default()));
        for datacenter in ["datacenterId", "datacenter"] {
            let full = read(&[
                ("token", "t"),
                ("resourceIdentifier", "c"),
                (datacenter, "d"),
                ("projectId", " 7 "),
                ("url", "https://other.example/apps/v2\n"),
                ("nodeid", "passed over"),
            ])
            .unwrap();
            let text = |text: &str| Some(text.to_owned());
            assert_eq!(full.hints, Hints { cluster: text("c"), datacenter: text("d"), project: text("7") });
            assert_eq!(full.url.host(), "other.example");
        }
    }

    #[test]
    fn a_broken_key_is_named_and_not_shown() {
        let broken = Credentials::new([("token", vec![0xff, 0xfe]), ("url", b"hunter2".to_vec())]);
        let failure = Settings::read(&broken).err().unwrap();
        assert_eq!(failure.code, Code::InvalidArgument);
        assert!(failure.message.contains("\"token\"") && failure.message.contains("\"url\""), "{failure}");
        for (keys, key) in [
            (&[("clientId", "i")] as Keys<'_>, "clientSecret"),
            (&[("clientSecret", "hunter2")], "clientId"),
            (&[], "token"),
            (&[("token", "hunter2\nhunter2")], "token"),
            (&[("token", "t"), ("url", "http://user:hunter2@a.example")], "url"),
        ] {
            let message = read(keys).err().unwrap().message;
            assert!(message.starts_with(&format!("the Secret's key {key:?}")), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn another_token_or_place_is_another_account() {
        let all = [
            read(&[("token", "a")]),
            read(&[("token", "b")]),
            read(&[("token", "a"), ("url", "https://b.example")]),
            read(&[("clientId", "a"), ("clientSecret", "b")]),
            read(&[("clientId", "a"), ("clientSecret", "c")]),
        ]
        .map(Result::unwrap);
        for (i, one) in all.iter().enumerate() {
            for (j, two) in all.iter().enumerate() {
                assert_eq!(one.same_account(two), i == j, "{i} {j}");
            }
        }
        assert!(all[0].same_account(&read(&[("token", "a"), ("projectId", "7")]).unwrap()));
    }
}

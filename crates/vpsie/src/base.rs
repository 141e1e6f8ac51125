use hostler_driver::client::is_loopback;
use http::Uri;
use std::{fmt, str::FromStr};

/// Where VPSie is unless the Secret says otherwise.
pub const DEFAULT_URL: &str = "https://api.vpsie.com/apps/v2";
/// Under which path almost everything is, and the one of what is not.
const MAIN: &str = "/apps/v2";
const SECOND: &str = "/api/v2";

/// Which of the paths something is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Main,
    Second,
}

/// Where VPSie's API is. All that is called is on its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BaseUrl {
    /// Scheme, host and port.
    origin: String,
    host: String,
    /// Begins with a slash and does not end with one.
    main: String,
}

impl BaseUrl {
    pub(crate) fn under(&self, prefix: Prefix, path: &str) -> String {
        let Self { origin, main, .. } = self;
        match (prefix, main.strip_suffix(MAIN)) {
            (Prefix::Main, _) => format!("{origin}{main}{path}"),
            (Prefix::Second, before) => format!("{origin}{}{SECOND}{path}", before.unwrap_or_default()),
        }
    }

    /// Host and port.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl Default for BaseUrl {
    fn default() -> Self {
        let host = "api.vpsie.com".to_owned();
        Self { origin: format!("https://{host}"), host, main: MAIN.to_owned() }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.main)
    }
}

/// Refuses where no secret may be sent; says why.
impl FromStr for BaseUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = format!("give a URL such as {DEFAULT_URL}");
        // A URL with a password in it is not shown.
        let uri: Uri = text.trim().parse().map_err(|_| format!("it is not a URL: {example}"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("it is not a whole URL: {example}"));
        };
        if authority.as_str().contains('@') {
            return Err(format!("a URL with a user name in it is not used: {example}"));
        }
        if uri.query().is_some() {
            return Err(format!("it has a query: {example}"));
        }
        match scheme {
            "https" => {}
            "http" if is_loopback(authority.host()) => {}
            "http" => return Err("it would send secrets unencrypted: use https".to_owned()),
            _ => return Err(format!("it is neither https nor http: {example}")),
        }
        let main = match uri.path().trim_end_matches('/') {
            "" => MAIN,
            path => path,
        };
        let (host, main) = (authority.as_str().to_ascii_lowercase(), main.to_owned());
        Ok(Self { origin: format!("{scheme}://{host}"), host, main })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_paths_are_on_the_same_host() {
        let table = [
            (DEFAULT_URL, "https://api.vpsie.com/apps/v2/vm", "https://api.vpsie.com/api/v2/plans"),
            (
                "https://api.vpsie.com",
                "https://api.vpsie.com/apps/v2/vm",
                "https://api.vpsie.com/api/v2/plans",
            ),
            (
                "https://API.vpsie.com/v2/",
                "https://api.vpsie.com/v2/vm",
                "https://api.vpsie.com/api/v2/plans",
            ),
            (
                "http://127.0.0.1:8481/mirror/apps/v2/ ",
                "http://127.0.0.1:8481/mirror/apps/v2/vm",
                "http://127.0.0.1:8481/mirror/api/v2/plans",
            ),
        ];
        for (text, main, second) in table {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!(base.under(Prefix::Main, "/vm"), main);
            assert_eq!(base.under(Prefix::Second, "/plans"), second);
        }
        assert_eq!(DEFAULT_URL.parse(), Ok(BaseUrl::default()));
        assert_eq!(BaseUrl::default().to_string(), DEFAULT_URL);
    }

    #[test]
    fn secrets_go_unencrypted_only_to_this_machine() {
        let table = [
            ("https://vpsie.example", true),
            ("http://vpsie.example", false),
            ("http://10.0.0.1:8080", false),
            ("http://localhost:8481", true),
            ("http://127.0.0.1:8481/apps/v2", true),
            ("http://[::1]:8481", true),
            ("http://localhost.example", false),
            ("http://localhost@vpsie.example", false),
            ("https://user:hunter2@vpsie.example", false),
            ("ftp://vpsie.example", false),
            ("api.vpsie.com", false),
            ("/apps/v2", false),
            ("https://vpsie.example?x=y", false),
            ("not a URL", false),
            ("", false),
        ];
        for (text, fine) in table {
            let read = text.parse::<BaseUrl>();
            assert_eq!(read.is_ok(), fine, "{text}");
            assert!(read.err().is_none_or(|why| !why.contains("hunter2") && !why.is_empty()), "{text}");
        }
    }
}

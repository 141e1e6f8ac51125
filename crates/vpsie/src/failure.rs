use crate::wire::envelope::Told;
use hostler_driver::{
    Code, Failure, Reference,
    client::{Purpose, without_secret_words},
};
use http::{HeaderMap, StatusCode};

/// What users know these failures by.
pub mod text {
    pub const AUTHENTICATION_FAILED: &str = "VPSie API authentication failed";
    pub const DATACENTER_NOT_FOUND: &str = "Datacenter not found";
    pub const INSTANCE_TYPE_NOT_AVAILABLE: &str = "Instance type not available";
    pub const INSUFFICIENT_QUOTA: &str = "Insufficient VPSie quota";
}

/// Words by which VPSie says that the account's plan does not allow it: trying again does not help.
const EXHAUSTED: [&str; 6] = [
    "exceeds the allowed limit",
    "quota exceeded",
    "plan does not allow",
    "maximum number of",
    "limit reached",
    "subscription does not allow",
];
const UNAUTHENTICATED: [&str; 6] =
    ["unauthorized", "unauthorised", "unauthenticated", "invalid token", "token expired", "jwt expired"];
const PASSING: [&str; 4] = ["try again", "timeout", "timed out", "temporarily"];
const SOLD_OUT: [&str; 4] = ["not available", "unavailable", "out of stock", "sold out"];
const PLANS: [&str; 5] = ["resource", "plan", "offer", "boxsize", "instance type"];
const DATACENTERS: [&str; 4] = ["datacenter", "data center", "dcidentifier", "dc identifier"];

/// What an answer that is no success means; nothing if it is one. The one place where status and body become a code.
///
/// The message is the same whenever the same thing goes wrong: it is compared with what is written already.
pub fn failure_of(purpose: Purpose, status: StatusCode, body: &[u8]) -> Option<Failure> {
    let told = Told::read(body);
    if status.is_success() {
        match &told {
            Some(told) if !told.refused => return None,
            None if body.iter().all(u8::is_ascii_whitespace) => return None,
            None => {
                let message = format!("what answered {} is not VPSie's API", status.as_u16());
                return Some(Failure::new(Code::Unavailable, message));
            }
            Some(_) => {}
        }
    }
    let status = meant(status, told.as_ref());
    let words = told.as_ref().and_then(|told| told.message.as_deref()).unwrap_or_default().to_lowercase();
    let code = code_of(purpose, status, told.as_ref().is_some_and(|told| told.own), &words);
    let plain = match (status, shown(told.as_ref())) {
        (Some(status), None) => format!("VPSie answered {status}"),
        (Some(status), Some(text)) => format!("VPSie answered {status}: {text}"),
        (None, None) => "VPSie refused it and gives no reason".to_owned(),
        (None, Some(text)) => format!("VPSie refused it: {text}"),
    };
    let message = match known_as(code, &words) {
        Some(name) => format!("{name}: {plain}"),
        None => plain,
    };
    Some(Failure::new(code, message))
}

/// The status, or what the body says in its place where VPSie answers 200 and means another one.
pub(crate) fn meant_status(status: StatusCode, body: &[u8]) -> u16 {
    let told = Told::read(body);
    meant(status, told.as_ref()).unwrap_or_else(|| status.as_u16())
}

fn meant(status: StatusCode, told: Option<&Told>) -> Option<u16> {
    if !status.is_success() {
        return Some(status.as_u16());
    }
    let code = told.filter(|told| told.refused)?.code?;
    u16::try_from(code).ok().filter(|code| (400..=599).contains(code))
}

/// `own` says whether VPSie itself has spoken: what is on the way has a word for everything, too.
fn code_of(purpose: Purpose, status: Option<u16>, own: bool, words: &str) -> Code {
    let says = |fragments: &[&str]| fragments.iter().any(|fragment| words.contains(fragment));
    // What is there can be read and deleted however full the account is.
    let wants_room = matches!(purpose, Purpose::Create | Purpose::Change);
    match status {
        Some(401) => Code::Unauthenticated,
        Some(429) => Code::Unavailable,
        Some(408 | 504) => Code::DeadlineExceeded,
        _ if wants_room && says(&EXHAUSTED) => Code::ResourceExhausted,
        Some(500..=599) => Code::Unavailable,
        Some(402) => Code::ResourceExhausted,
        Some(404) if !own => Code::Unavailable,
        None | Some(400) if says(&UNAUTHENTICATED) => Code::Unauthenticated,
        _ if purpose == Purpose::Create && words.contains("same selected size") => Code::AlreadyExists,
        // What is missing is not what was asked for but what it is to be made of.
        Some(404) if purpose == Purpose::Create => Code::FailedPrecondition,
        _ if purpose == Purpose::Create && words.contains("not found") => Code::FailedPrecondition,
        Some(404) => Code::NotFound,
        _ if own && words.contains("not found") => Code::NotFound,
        _ if purpose == Purpose::Create && says(&PLANS) && says(&SOLD_OUT) => Code::ResourceExhausted,
        Some(400 | 405 | 406 | 411 | 413 | 414 | 415 | 422) => Code::InvalidArgument,
        Some(403) => Code::PermissionDenied,
        Some(409 | 412 | 423) => Code::Aborted,
        // Nobody has said that this API means a VPS by it.
        Some(410) => Code::Unavailable,
        // Nothing is followed to another place; the address is wrong.
        Some(300..=399) => Code::FailedPrecondition,
        None if says(&PASSING) => Code::Unavailable,
        None if purpose == Purpose::Create => Code::InvalidArgument,
        _ => Code::Unknown,
    }
}

/// The name under which users know the failure.
fn known_as(code: Code, words: &str) -> Option<&'static str> {
    let says = |fragments: &[&str]| fragments.iter().any(|fragment| words.contains(fragment));
    match code {
        Code::Unauthenticated => Some(text::AUTHENTICATION_FAILED),
        Code::ResourceExhausted if says(&PLANS) && says(&SOLD_OUT) => Some(text::INSTANCE_TYPE_NOT_AVAILABLE),
        Code::ResourceExhausted => Some(text::INSUFFICIENT_QUOTA),
        Code::FailedPrecondition | Code::InvalidArgument if says(&DATACENTERS) => {
            Some(text::DATACENTER_NOT_FOUND)
        }
        Code::FailedPrecondition if says(&PLANS) => Some(text::INSTANCE_TYPE_NOT_AVAILABLE),
        _ => None,
    }
}

/// VPSie's own words, in a length that fits into an event. It may say what it was sent: that is not shown, and nothing
/// else of the body is.
fn shown(told: Option<&Told>) -> Option<String> {
    let message = told?.message.as_deref()?;
    let plain: String = message.chars().filter(|c| !c.is_control()).collect();
    let text: String = without_secret_words(plain.trim()).chars().take(300).collect();
    Some(text).filter(|text| !text.is_empty())
}

/// The id that VPSie gave a call.
pub(crate) fn reference(headers: &HeaderMap) -> Reference {
    Reference::new(headers.get("x-request-id").and_then(|value| value.to_str().ok()), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Code::{
        Aborted, AlreadyExists, DeadlineExceeded, FailedPrecondition, InvalidArgument, NotFound, Ok as Fine,
        PermissionDenied, ResourceExhausted, Unauthenticated, Unavailable, Unknown,
    };

    const PAGE: &str = "<html>not found</html>";

    fn refusal(code: &str, message: &str) -> String {
        format!(r#"{{"error":true,"code":{code},"message":"{message}","stack":"hunter2"}}"#)
    }

    #[test]
    fn purpose_status_and_body_together_give_the_code() {
        let wrong = refusal("1", "something is wrong");
        let quota = refusal("403", "worker nodes count exceeds the allowed limit");
        let missing = refusal("1", "VM not found");
        let plan = refusal("1", "the plan is not available in this datacenter");
        let table: [(u16, &str, [Code; 4]); 47] = [
            // status, body, then the code for a read, a create, a change and a delete
            (200, r#"{"error":false,"data":[]}"#, [Fine; 4]),
            (200, r#"{"error":0,"data":true}"#, [Fine; 4]),
            (200, "[]", [Fine; 4]),
            (200, "", [Fine; 4]),
            (204, "", [Fine; 4]),
            (200, PAGE, [Unavailable; 4]),
            (200, r#"{"error":false,"da"#, [Unavailable; 4]),
            (200, &wrong, [Unknown, InvalidArgument, Unknown, Unknown]),
            (200, r#"{"error":1}"#, [Unknown, InvalidArgument, Unknown, Unknown]),
            (200, r#"{"error":"Unauthorized"}"#, [Unauthenticated; 4]),
            (200, &missing, [NotFound, FailedPrecondition, NotFound, NotFound]),
            (200, &quota, [PermissionDenied, ResourceExhausted, ResourceExhausted, PermissionDenied]),
            (200, &plan, [Unknown, ResourceExhausted, Unknown, Unknown]),
            (200, &refusal("401", "no"), [Unauthenticated; 4]),
            (200, &refusal("402", "no"), [ResourceExhausted; 4]),
            (200, &refusal("403", "no"), [PermissionDenied; 4]),
            (200, &refusal("404", "no"), [NotFound, FailedPrecondition, NotFound, NotFound]),
            (200, &refusal("409", "no"), [Aborted; 4]),
            (200, &refusal("422", "no"), [InvalidArgument; 4]),
            (200, &refusal("429", "no"), [Unavailable; 4]),
            (200, &refusal("500", "x not found"), [Unavailable; 4]),
            (200, &refusal("12", "please try again"), [Unavailable; 4]),
            (
                200,
                &refusal("1", "Group a already has the same selected size"),
                [Unknown, AlreadyExists, Unknown, Unknown],
            ),
            (301, "", [FailedPrecondition; 4]),
            (302, PAGE, [FailedPrecondition; 4]),
            (400, &wrong, [InvalidArgument; 4]),
            (400, &missing, [NotFound, FailedPrecondition, NotFound, NotFound]),
            (400, &quota, [InvalidArgument, ResourceExhausted, ResourceExhausted, InvalidArgument]),
            (400, &refusal("400", "jwt expired"), [Unauthenticated; 4]),
            (400, PAGE, [InvalidArgument; 4]),
            (401, &quota, [Unauthenticated; 4]),
            (401, PAGE, [Unauthenticated; 4]),
            (402, &wrong, [ResourceExhausted; 4]),
            (403, &wrong, [PermissionDenied; 4]),
            (404, &wrong, [NotFound, FailedPrecondition, NotFound, NotFound]),
            (404, r#"{"message":"no route, not found"}"#, [Unavailable; 4]),
            (404, PAGE, [Unavailable; 4]),
            (404, "", [Unavailable; 4]),
            (408, "", [DeadlineExceeded; 4]),
            (409, &wrong, [Aborted; 4]),
            (410, &wrong, [Unavailable; 4]),
            (418, PAGE, [Unknown; 4]),
            (429, &quota, [Unavailable; 4]),
            (500, &missing, [Unavailable; 4]),
            (500, &quota, [Unavailable, ResourceExhausted, ResourceExhausted, Unavailable]),
            (502, PAGE, [Unavailable; 4]),
            (504, PAGE, [DeadlineExceeded; 4]),
        ];
        for (status, body, codes) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let code =
                |purpose| failure_of(purpose, status, body.as_bytes()).map_or(Fine, |found| found.code);
            assert_eq!(Purpose::ALL.map(code), codes, "{status} {body}");
        }
    }

    #[test]
    fn nothing_but_vpsies_own_word_means_gone() {
        for status in 200..600 {
            for body in
                [PAGE, "", "not found", r#""not found""#, r#"{"message":"not found"}"#, r#"{"error":fa"#]
            {
                let status = StatusCode::from_u16(status).unwrap();
                let code =
                    failure_of(Purpose::Read, status, body.as_bytes()).map_or(Fine, |found| found.code);
                assert_ne!(code, NotFound, "{status} {body}");
            }
        }
    }

    #[test]
    fn users_know_failures_by_their_names() {
        let table = [
            (401, refusal("401", "no"), "VPSie API authentication failed: VPSie answered 401: no"),
            (402, refusal("402", "no money"), "Insufficient VPSie quota: VPSie answered 402: no money"),
            (
                200,
                refusal("1", "Quota exceeded"),
                "Insufficient VPSie quota: VPSie refused it: Quota exceeded",
            ),
            (
                200,
                refusal("404", "Datacenter not found"),
                "Datacenter not found: VPSie answered 404: Datacenter not found",
            ),
            (
                400,
                refusal("1", "invalid dcIdentifier"),
                "Datacenter not found: VPSie answered 400: invalid dcIdentifier",
            ),
            (
                200,
                refusal("1", "resource not found"),
                "Instance type not available: VPSie refused it: resource not found",
            ),
            (
                200,
                refusal("1", "plan is sold out"),
                "Instance type not available: VPSie refused it: plan is sold out",
            ),
            (503, PAGE.to_owned(), "VPSie answered 503"),
            (200, r#"{"error":1}"#.to_owned(), "VPSie refused it and gives no reason"),
        ];
        for (status, body, message) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = failure_of(Purpose::Create, status, body.as_bytes()).unwrap();
            assert_eq!(failure.message, message);
        }
    }

    #[test]
    fn what_vpsie_was_sent_is_not_shown_nor_is_anything_beside_its_words() {
        let echo = refusal("400", &format!("userData {}", "QUJD".repeat(100)));
        let long = refusal("400", &"no ".repeat(1_000));
        for body in [echo.as_str(), long.as_str(), "hunter2", r#"{"message": ["hunter2"]}"#] {
            for status in [200, 400, 401, 404, 500] {
                let status = StatusCode::from_u16(status).unwrap();
                let Some(failure) = failure_of(Purpose::Create, status, body.as_bytes()) else { continue };
                let told = failure.to_string();
                assert!(!told.contains("hunter2") && !told.contains("QUJD") && told.len() < 450, "{told}");
            }
        }
        let told = failure_of(Purpose::Create, StatusCode::BAD_REQUEST, echo.as_bytes()).unwrap().message;
        assert_eq!(told, "VPSie answered 400: userData [hidden]");
    }

    #[test]
    fn a_status_may_stand_in_the_body() {
        let of = |status, body: &str| meant_status(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert_eq!(of(200, &refusal("401", "no")), 401);
        assert_eq!(of(200, &refusal("1", "no")), 200);
        assert_eq!(of(200, r#"{"error":false,"code":401}"#), 200);
        assert_eq!(of(503, &refusal("401", "no")), 503);
    }
}

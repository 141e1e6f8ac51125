use crate::wire::ErrorBody;
use hostler_driver::{
    Code, Failure, Reference,
    client::{Purpose, without_secret_words},
};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// What an HTTP answer that is no success means. The one place where status and body become a code.
///
/// The message is the same whenever the same thing goes wrong: it is compared with what is written already.
pub fn failure_of(purpose: Purpose, status: StatusCode, body: &[u8]) -> Failure {
    let own: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let text = excerpt(body);
    // What is there can be read and deleted however full the cloud is.
    let wants_room = matches!(purpose, Purpose::Create | Purpose::Change);
    let code = match status.as_u16() {
        401 => Code::Unauthenticated,
        429 => Code::Unavailable,
        // What it says counts however far down: only what people are shown is cut short.
        _ if wants_room && is_about_capacity(&String::from_utf8_lossy(body)) => Code::ResourceExhausted,
        // Something on the way that does not know the API says 404 too: only the API's own word counts.
        404 | 410 if own.is_none() => Code::Unavailable,
        // What is missing is not what was asked for but what it is to be made of.
        404 | 410 if purpose == Purpose::Create => Code::FailedPrecondition,
        404 => Code::NotFound,
        // Nobody has said that this API means a server by it.
        410 => Code::Unavailable,
        400 | 405 | 406 | 414 | 415 | 422 => Code::InvalidArgument,
        403 => Code::PermissionDenied,
        408 | 504 => Code::DeadlineExceeded,
        409 | 412 | 423 => Code::Aborted,
        413 if wants_room => Code::ResourceExhausted,
        413 => Code::InvalidArgument,
        500..=599 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Failure::new(code, format!("STACKIT answered {}: {text}", status.as_u16()))
}

/// The ids that the cloud gave a call.
pub(crate) fn reference(headers: &HeaderMap) -> Reference {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    Reference::new(text("x-request-id"), text("x-trace-id"))
}

/// Whether the cloud says, in an answer or about a server that failed, that it has no room or that the
/// project's share of it is used up.
pub fn is_about_capacity(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("no valid host") || (text.contains("quota") && text.contains("exceed"))
}

/// The cloud's own words if it sent some, in a length that fits into an event. A cloud may say what it was sent: that
/// is not shown.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let told = serde_json::from_slice::<Value>(body).ok();
    let words = ["msg", "message", "error_description", "error"];
    let said = told.as_ref().and_then(|told| words.iter().find_map(|word| told.get(word)?.as_str()));
    let text = said.map_or_else(|| String::from_utf8_lossy(body), Into::into);
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    let text: String = without_secret_words(&plain).chars().take(400).collect();
    if text.is_empty() { "no body".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Code::{
        Aborted, DeadlineExceeded, FailedPrecondition, InvalidArgument, NotFound, PermissionDenied,
        ResourceExhausted, Unauthenticated, Unavailable, Unknown,
    };
    use serde_json::json;

    const OWN: &str = r#"{"code": 1, "msg": "something is wrong"}"#;
    const PAGE: &str = "<html>not found</html>";
    const NO_HOST: &str = r#"{"code": 500, "msg": "No valid host was found. There are not enough hosts"}"#;
    const QUOTA: &str = r#"{"code": 403, "msg": "Quota exceeded for vcpu"}"#;
    const OTHER_QUOTA: &str = r#"{"code": 413, "msg": "VolumeSizeExceedsAvailableQuota"}"#;
    const FOREIGN: &str = r#"{"error": "not found"}"#;

    #[test]
    fn purpose_status_and_body_together_give_the_code() {
        let table: [(u16, &str, [Code; 4]); 40] = [
            // status, body, then the code for a read, a create, a change and a delete
            (400, OWN, [InvalidArgument; 4]),
            (400, QUOTA, [InvalidArgument, ResourceExhausted, ResourceExhausted, InvalidArgument]),
            (400, "", [InvalidArgument; 4]),
            (401, OWN, [Unauthenticated; 4]),
            (401, PAGE, [Unauthenticated; 4]),
            (401, QUOTA, [Unauthenticated; 4]),
            (403, OWN, [PermissionDenied; 4]),
            (403, PAGE, [PermissionDenied; 4]),
            (403, QUOTA, [PermissionDenied, ResourceExhausted, ResourceExhausted, PermissionDenied]),
            (404, OWN, [NotFound, FailedPrecondition, NotFound, NotFound]),
            (404, PAGE, [Unavailable; 4]),
            (404, FOREIGN, [Unavailable; 4]),
            (404, r#"{"msg": "no code"}"#, [Unavailable; 4]),
            (404, "", [Unavailable; 4]),
            (410, OWN, [Unavailable, FailedPrecondition, Unavailable, Unavailable]),
            (410, PAGE, [Unavailable; 4]),
            (405, OWN, [InvalidArgument; 4]),
            (406, OWN, [InvalidArgument; 4]),
            (408, OWN, [DeadlineExceeded; 4]),
            (409, OWN, [Aborted; 4]),
            (409, QUOTA, [Aborted, ResourceExhausted, ResourceExhausted, Aborted]),
            (412, OWN, [Aborted; 4]),
            (413, OWN, [InvalidArgument, ResourceExhausted, ResourceExhausted, InvalidArgument]),
            (413, OTHER_QUOTA, [InvalidArgument, ResourceExhausted, ResourceExhausted, InvalidArgument]),
            (415, OWN, [InvalidArgument; 4]),
            (422, OWN, [InvalidArgument; 4]),
            (423, OWN, [Aborted; 4]),
            (429, OWN, [Unavailable; 4]),
            (429, QUOTA, [Unavailable; 4]),
            (429, "", [Unavailable; 4]),
            (500, OWN, [Unavailable; 4]),
            (500, NO_HOST, [Unavailable, ResourceExhausted, ResourceExhausted, Unavailable]),
            (500, "", [Unavailable; 4]),
            (501, OWN, [Unavailable; 4]),
            (502, PAGE, [Unavailable; 4]),
            (503, PAGE, [Unavailable; 4]),
            (504, PAGE, [DeadlineExceeded; 4]),
            (599, PAGE, [Unavailable; 4]),
            (302, PAGE, [Unknown; 4]),
            (418, PAGE, [Unknown; 4]),
        ];
        for (status, body, codes) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let found = Purpose::ALL.map(|purpose| failure_of(purpose, status, body.as_bytes()).code);
            assert_eq!(found, codes, "{status} {body}");
        }
    }

    /// Status codes in a text; a whole class of them stands for two of it.
    fn statuses(text: &str) -> Vec<u16> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        words
            .flat_map(|word| match word {
                "5xx" => vec![500, 503],
                number => number.parse().into_iter().collect(),
            })
            .collect()
    }

    #[test]
    fn the_page_for_operators_says_the_same() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gardener.md"));
        let page = page.unwrap();
        let (_, table) = page.split_once("| answer of the cloud | code |").unwrap();
        let mut compared = 0;
        for row in table.lines().skip(2).take_while(|line| line.starts_with('|')) {
            let (answer, codes) = row.trim_matches('|').split_once('|').unwrap();
            let body = if answer.contains("of anything else") { PAGE } else { OWN };
            let mut told = codes.split('`').skip(1).step_by(2);
            let usual = told.next().unwrap();
            // A row may be about orders only, or have another word for them.
            let (of_reads, of_orders) = match told.next() {
                Some(of_orders) => (Some(usual), of_orders),
                None if answer.contains("order") => (None, usual),
                None => (Some(usual), usual),
            };
            for status in statuses(answer) {
                let status = StatusCode::from_u16(status).unwrap();
                let code = |purpose| format!("{:?}", failure_of(purpose, status, body.as_bytes()).code);
                assert_eq!(code(Purpose::Create), of_orders, "{row}");
                assert_eq!(of_reads.unwrap_or(&code(Purpose::Read)), code(Purpose::Read), "{row}");
                compared += 1;
            }
        }
        assert!(compared >= 20, "{compared}");
    }

    #[test]
    fn words_about_room_count_however_far_down_they_stand() {
        let far = format!("{}No valid host was found", "x".repeat(1000));
        let wordy = json!({"code": 500, "msg": far}).to_string();
        let aside = json!({"code": 500, "msg": "no", "details": {"reason": "Quota exceeded"}}).to_string();
        for body in [wordy, aside, far] {
            let of = |purpose, status| failure_of(purpose, status, body.as_bytes());
            for status in [StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN, StatusCode::INTERNAL_SERVER_ERROR]
            {
                for purpose in [Purpose::Create, Purpose::Change] {
                    let failure = of(purpose, status);
                    assert_eq!(failure.code, ResourceExhausted, "{purpose:?} {failure}");
                    assert!(failure.message.len() < 500, "{failure}");
                }
                for purpose in [Purpose::Read, Purpose::Delete] {
                    assert_ne!(of(purpose, status).code, ResourceExhausted, "{purpose:?} {status}");
                }
            }
        }
    }

    #[test]
    fn nothing_but_the_apis_own_404_means_gone() {
        for status in 300..600 {
            for body in [OWN, PAGE, NO_HOST, QUOTA, FOREIGN, ""] {
                let failure =
                    failure_of(Purpose::Read, StatusCode::from_u16(status).unwrap(), body.as_bytes());
                let own = status == 404 && [OWN, NO_HOST, QUOTA].contains(&body);
                assert_eq!(failure.code == NotFound, own, "{status} {body}");
            }
        }
    }

    #[test]
    fn the_message_is_the_clouds_own_and_not_too_long() {
        let message = |body: &[u8]| failure_of(Purpose::Read, StatusCode::FORBIDDEN, body).message;
        assert_eq!(message(br#"{"code":7,"msg":"no"}"#), "STACKIT answered 403: no");
        assert_eq!(message(b""), "STACKIT answered 403: no body");
        assert_eq!(message(b"\x1b[31mred\n"), "STACKIT answered 403: [31mred");
        let echo = json!({"code": 400, "msg": format!("userData {}", "QUJD".repeat(100))}).to_string();
        assert_eq!(message(echo.as_bytes()), "STACKIT answered 403: userData [hidden]");
        assert!(message(&b"x ".repeat(50_000)).len() < 500);
    }
}

use crate::wire::ErrorBody;
use hostler_driver::{Code, Failure};
use http::StatusCode;

/// What an HTTP answer that is no success means. The one place where status and body become a code.
///
/// The message is the same whenever the same thing goes wrong: it is compared with what is written already.
pub fn failure_of(status: StatusCode, body: &[u8]) -> Failure {
    let own: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let text = excerpt(own.as_ref().map_or(body, |error| error.msg.as_bytes()));
    let lower = text.to_lowercase();
    let code = match status.as_u16() {
        _ if lower.contains("no valid host") || lower.contains("quota exceeded") => Code::ResourceExhausted,
        // Something on the way that does not know the API says 404 too: only the API's own word counts.
        404 if own.is_some() => Code::NotFound,
        404 => Code::Unavailable,
        400 | 405 | 406 | 415 | 422 => Code::InvalidArgument,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        408 | 504 => Code::DeadlineExceeded,
        409 => Code::Aborted,
        413 => Code::ResourceExhausted,
        429 | 500..=599 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Failure::new(code, format!("STACKIT answered {}: {text}", status.as_u16()))
}

/// What fits into an event.
fn excerpt(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(400).collect();
    if text.is_empty() { "no body".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_together_give_the_code() {
        let own = br#"{"code": 1, "msg": "server not found"}"#.as_slice();
        let page = b"<html>not found</html>".as_slice();
        let full = br#"{"code": 500, "msg": "No valid host was found"}"#.as_slice();
        let quota = br#"{"code": 400, "msg": "Quota exceeded for vcpu"}"#.as_slice();
        let cases = [
            (400, own, Code::InvalidArgument),
            (401, own, Code::Unauthenticated),
            (403, own, Code::PermissionDenied),
            (404, own, Code::NotFound),
            (404, page, Code::Unavailable),
            (404, b"".as_slice(), Code::Unavailable),
            (408, own, Code::DeadlineExceeded),
            (409, own, Code::Aborted),
            (413, own, Code::ResourceExhausted),
            (429, own, Code::Unavailable),
            (500, own, Code::Unavailable),
            (500, full, Code::ResourceExhausted),
            (400, quota, Code::ResourceExhausted),
            (503, page, Code::Unavailable),
            (504, page, Code::DeadlineExceeded),
            (302, page, Code::Unknown),
        ];
        for (status, body, code) in cases {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(failure_of(status, body).code, code, "{status} {}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn the_message_is_the_clouds_own_and_not_too_long() {
        let failure = failure_of(StatusCode::FORBIDDEN, br#"{"code":7,"msg":"no"}"#);
        assert_eq!(failure.message, "STACKIT answered 403: no");
        let long = failure_of(StatusCode::FORBIDDEN, &vec![b'x'; 100_000]);
        assert!(long.message.len() < 500);
    }
}

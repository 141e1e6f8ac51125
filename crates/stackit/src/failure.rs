use crate::wire::ErrorBody;
use hostler_driver::{Code, Failure};
use http::StatusCode;

/// What an HTTP answer that is no success means. The one place where status and body become a code.
pub fn failure_of(status: StatusCode, body: &[u8], request_id: Option<&str>) -> Failure {
    let own: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let text = own.as_ref().map_or_else(|| excerpt(body), |error| error.msg.clone());
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
    let request = request_id.map_or_else(String::new, |id| format!(" (request {id})"));
    Failure::new(code, format!("STACKIT answered {}: {text}{request}", status.as_u16()))
}

/// A foreign page is cut to what fits into an event.
fn excerpt(body: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(body).chars().filter(|c| !c.is_control()).take(200).collect();
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
            assert_eq!(
                failure_of(status, body, None).code,
                code,
                "{status} {}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn the_request_id_is_kept_for_the_support_case() {
        let failure = failure_of(StatusCode::FORBIDDEN, br#"{"code":7,"msg":"no"}"#, Some("req-1"));
        assert_eq!(failure.message, "STACKIT answered 403: no (request req-1)");
    }
}

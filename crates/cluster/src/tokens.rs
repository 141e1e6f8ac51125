//! Deletes bootstrap tokens that have expired.

use crate::cache::Watched;
use crate::kind::Caches;
use crate::part::{Context, Part, Sweep};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;

const NAMESPACE: &str = "kube-system";

#[derive(Debug, Default)]
pub(crate) struct Tokens;

impl Part for Tokens {
    const NAME: &'static str = "bootstrap tokens";

    fn wakes(caches: &Caches) -> Vec<&dyn Watched> {
        vec![&*caches.tokens]
    }

    async fn sweep(&mut self, context: &Context) -> Sweep {
        let mut sweep = Sweep::default();
        let now = context.now();
        for secret in context.caches.tokens.all() {
            if secret.metadata.namespace.as_deref() != Some(NAMESPACE) {
                continue;
            }
            match expiry(&secret) {
                Some(at) if at <= now => {
                    let deleted = context
                        .delete(&context.caches.tokens, secret.as_ref(), DeleteParams::default())
                        .await;
                    sweep.note_about("deleting an expired token", secret.as_ref(), deleted);
                }
                Some(at) => sweep.due_at(now, at),
                None => {}
            }
        }
        sweep
    }
}

/// When the token ends; a token without an end stays, one whose end cannot be read has ended.
fn expiry(secret: &Secret) -> Option<Timestamp> {
    let bytes = &secret.data.as_ref()?.get("expiration")?.0;
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    Some(text.trim().parse().unwrap_or(Timestamp::MIN)).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    #[test]
    fn tokens_end_when_they_say_so() {
        let secret = |text: Option<&str>| Secret {
            data: Some(
                text.map(|text| ("expiration".to_owned(), ByteString(text.as_bytes().to_vec())))
                    .into_iter()
                    .collect(),
            ),
            ..Secret::default()
        };
        let end: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        for (text, expected) in [
            (None, None),
            (Some(""), None),
            (Some("2026-01-01T01:00:00Z"), Some(end)),
            (Some("2026-01-01T02:00:00+01:00"), Some(end)),
            (Some("tomorrow"), Some(Timestamp::MIN)),
        ] {
            assert_eq!(expiry(&secret(text)), expected, "{text:?}");
        }
    }
}

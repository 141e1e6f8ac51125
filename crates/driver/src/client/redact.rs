//! What others say is shown to people, but not what looks like a secret in it.

pub const HIDDEN: &str = "[hidden]";
/// No name, label or id is so long without a sign in between; user data in base64 and keys are.
const LONG: usize = 64;

/// The text with something else in place of words that look like secrets.
pub fn without_secret_words(text: &str) -> String {
    let shown = |word| if looks_secret(word) { HIDDEN } else { word };
    text.split(' ').map(shown).collect::<Vec<_>>().join(" ")
}

/// A bootstrap token, a JSON web token, or something long in base64.
fn looks_secret(word: &str) -> bool {
    let part = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let pieces = word.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
    let token =
        |piece: &str| piece.split_once('.').is_some_and(|(id, secret)| part(id, 6) && part(secret, 16));
    let mut runs = word.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '/' | '='));
    word.contains("eyJ") || pieces.into_iter().any(token) || runs.any(|run| run.len() >= LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_ids_are_not() {
        let base64 = "I2Nsb3VkLWNvbmZpZwo".repeat(6);
        let table = [
            (format!("userData: {base64}== is not wanted"), "userData: [hidden] is not wanted"),
            (format!("{{\"userData\":\"{base64}\"}}"), "[hidden]"),
            ("token abcdef.0123456789abcdef".to_owned(), "token [hidden]"),
            ("Bearer eyJhbGciOiJSUzUxMiJ9.e30.x is over".to_owned(), "Bearer [hidden] is over"),
            (
                "no https://iaas.api.eu01.stackit.cloud/v2/projects/11111111-2222-4333-8444-555555555555/regions/eu01/servers".to_owned(),
                "no https://iaas.api.eu01.stackit.cloud/v2/projects/11111111-2222-4333-8444-555555555555/regions/eu01/servers",
            ),
            (format!("label {}", "a".repeat(63)), &format!("label {}", "a".repeat(63))),
        ];
        for (text, expected) in table {
            assert_eq!(without_secret_words(&text), expected, "{text}");
        }
    }
}

//! Access tokens that end: one who calls gets one for all, in time.

use crate::Failure;
use hostler_base::Clock;
use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// A token is renewed when a tenth of its life is left, but not earlier than this before its end.
const EARLIEST_RENEWAL: SignedDuration = SignedDuration::from_mins(5);
/// A token that ends so soon could end on the way.
pub const LAST_MOMENT: SignedDuration = SignedDuration::from_secs(5);
/// How long to go on with a token that still lasts when no new one could be had.
const RENEWAL_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// Keeps a token while it lasts.
pub struct Tokens {
    clock: Clock,
    held: Mutex<Held>,
    /// How often a token was asked for, successfully or not.
    flights: AtomicU64,
}

/// A token for one call.
#[derive(Clone)]
pub struct Token {
    pub token: SecretString,
    /// Which flight brought it.
    pub flight: u64,
}

#[derive(Default)]
struct Held {
    token: Option<Lasting>,
    /// Why the last flight brought nothing.
    failure: Option<Failure>,
}

struct Lasting {
    token: Token,
    ends_at: Timestamp,
    renew_at: Timestamp,
}

impl Tokens {
    pub fn new(clock: Clock) -> Self {
        Self { clock, held: Mutex::default(), flights: AtomicU64::new(0) }
    }

    /// A token that lasts; `fetch` gets one and says when it ends. Whoever comes while another one gets it waits for that
    /// one's token, or failure.
    pub async fn token<F>(&self, fetch: impl FnOnce() -> F) -> Result<Token, Failure>
    where
        F: Future<Output = Result<(SecretString, Timestamp), Failure>>,
    {
        let flights_before = self.flights.load(Ordering::SeqCst);
        let mut held = self.held.lock().await;
        let now = self.clock.now();
        let good = held.token.as_ref().filter(|lasting| now < lasting.renew_at);
        if let Some(lasting) = good {
            return Ok(lasting.token.clone());
        }
        if self.flights.load(Ordering::SeqCst) > flights_before
            && let Some(failure) = &held.failure
        {
            return Err(failure.clone());
        }
        let fetched = fetch().await;
        let flight = self.flights.fetch_add(1, Ordering::SeqCst) + 1;
        held.failure = fetched.as_ref().err().cloned();
        let now = self.clock.now();
        match fetched {
            Ok((token, ends_at)) => {
                let renew_at = renewal(now, ends_at);
                let lasting = Lasting { token: Token { token, flight }, ends_at, renew_at };
                Ok(held.token.insert(lasting).token.clone())
            }
            Err(failure) => match held.token.as_mut().filter(|lasting| now + LAST_MOMENT < lasting.ends_at) {
                Some(lasting) => {
                    tracing::warn!(%failure, "the old access token is used on");
                    lasting.renew_at = (now + RENEWAL_PAUSE).min(lasting.ends_at - LAST_MOMENT);
                    Ok(lasting.token.clone())
                }
                None => Err(failure),
            },
        }
    }

    /// Forgets the token of that flight; a newer one stays.
    pub async fn forget(&self, flight: u64) {
        let mut held = self.held.lock().await;
        if held.token.as_ref().is_some_and(|lasting| lasting.token.flight == flight) {
            held.token = None;
        }
    }
}

fn renewal(now: Timestamp, ends_at: Timestamp) -> Timestamp {
    let ahead = (ends_at.duration_since(now) / 10).min(EARLIEST_RENEWAL).max(LAST_MOMENT);
    ends_at - ahead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;
    use secrecy::ExposeSecret;
    use std::time::Duration;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn renewal_comes_before_the_end_and_not_all_the_time() {
        let table = [(3600, 3300), (36_000, 35_700), (600, 540), (60, 54), (20, 15), (6, 1), (3, -2)];
        for (end, renew) in table {
            assert_eq!(renewal(at(0), at(end)), at(renew), "{end}");
        }
    }

    /// Asks once; a fetch takes a second and brings a token for that many, or nothing.
    async fn ask(tokens: &Tokens, name: &str, lasts: Option<i64>) -> Result<String, Failure> {
        let token = tokens
            .token(async || {
                tokens.clock.sleep(Duration::from_secs(1)).await;
                let ends = lasts.map(|lasts| tokens.clock.now() + SignedDuration::from_secs(lasts));
                let none = || Failure::new(Code::Unavailable, format!("no {name}"));
                ends.map(|ends| (name.to_owned().into(), ends)).ok_or_else(none)
            })
            .await?;
        Ok(token.token.expose_secret().to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn one_flight_serves_all_and_a_token_is_kept_while_it_lasts() {
        let clock = Clock::starting_at(at(0));
        let tokens = Tokens::new(clock.clone());
        let (one, two) = tokio::join!(ask(&tokens, "a", Some(100)), ask(&tokens, "b", Some(100)));
        assert_eq!((one.unwrap().as_str(), two.unwrap().as_str()), ("a", "a"));
        clock.sleep(Duration::from_secs(89)).await;
        assert_eq!(ask(&tokens, "c", Some(100)).await.unwrap(), "a");
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(ask(&tokens, "d", Some(100)).await.unwrap(), "d", "a tenth before its end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_and_an_old_token_is_used_on() {
        let clock = Clock::starting_at(at(0));
        let tokens = Tokens::new(clock.clone());
        let (one, two) = tokio::join!(ask(&tokens, "a", None), ask(&tokens, "b", None));
        assert_eq!(one.unwrap_err().message, "no a");
        assert_eq!(two.unwrap_err().message, "no a");
        assert_eq!(ask(&tokens, "c", Some(1_000)).await.unwrap(), "c", "the next one tries again");
        clock.sleep(Duration::from_secs(950)).await;
        assert_eq!(ask(&tokens, "d", None).await.unwrap(), "c");
        clock.sleep(Duration::from_secs(60)).await;
        assert_eq!(ask(&tokens, "e", None).await.unwrap_err().message, "no e", "it has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_token_that_was_refused_is_forgotten() {
        let tokens = Tokens::new(Clock::starting_at(at(0)));
        ask(&tokens, "a", Some(1_000)).await.unwrap();
        tokens.forget(7).await;
        assert_eq!(ask(&tokens, "b", Some(1_000)).await.unwrap(), "a");
        tokens.forget(1).await;
        assert_eq!(ask(&tokens, "c", Some(1_000)).await.unwrap(), "c");
        tokens.forget(1).await;
        assert_eq!(ask(&tokens, "d", Some(1_000)).await.unwrap(), "c");
    }
}

use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// Where the time comes from. Everything that asks what time it is asks a `Clock` it was given.
///
/// Under tokio's paused time a virtual clock moves only when the runtime's time moves, so a test is
/// both instant and repeatable.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Virtual { epoch: Timestamp, start: Instant },
}

impl Clock {
    /// The machine's own clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `epoch` now and follows tokio's time from here on.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self(Source::Virtual { epoch, start: Instant::now() })
    }

    /// The time of day.
    #[expect(clippy::disallowed_methods, reason = "the one place that may ask the system")]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp::now(),
            Source::Virtual { epoch, start } => {
                let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
                epoch.saturating_add(elapsed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// A reading that never goes back, for measuring how long something took.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Waits; virtual under paused time.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_moves_with_paused_time_only() {
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(epoch);
        assert_eq!(clock.now(), epoch);
        clock.sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}

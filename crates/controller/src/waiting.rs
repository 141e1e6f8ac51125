use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Something is waited for: what, in words for people, and since when. Every front door writes it down, as a
/// condition or an event, so that nobody has to guess why nothing happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// A word in CamelCase that programs can compare.
    pub reason: String,
    pub message: String,
    /// Since when it has been this reason.
    pub since: Timestamp,
}

impl Wait {
    /// The wait to write down now. As long as the reason stays the same so does its beginning, whatever the
    /// message says meanwhile.
    pub fn now(
        previous: Option<&Self>,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        let (reason, message) = (reason.into(), message.into());
        let since = previous.filter(|wait| wait.reason == reason).map_or(now, |wait| wait.since);
        Self { reason, message, since }
    }

    /// Whether there is anything new to write: a reason or a message.
    pub fn differs(&self, previous: Option<&Self>) -> bool {
        previous.is_none_or(|wait| wait.reason != self.reason || wait.message != self.message)
    }

    /// The condition that says so: `kind` is what is not yet true.
    pub fn condition(&self, kind: &str, generation: Option<i64>) -> Condition {
        Condition {
            type_: kind.to_owned(),
            status: "False".to_owned(),
            reason: self.reason.clone(),
            message: self.message.clone(),
            last_transition_time: Time(self.since),
            observed_generation: generation,
        }
    }

    /// The wait that a condition tells of, if it does.
    pub fn from_condition(condition: &Condition) -> Option<Self> {
        (condition.status == "False").then(|| Self {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.last_transition_time.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_beginning_stays_while_the_reason_does() {
        let first = Wait::now(None, "WaitingForServer", "server is BUILD", at(10));
        assert!(first.differs(None));
        let second = Wait::now(Some(&first), "WaitingForServer", "server is still BUILD", at(20));
        assert_eq!((second.since, second.differs(Some(&first))), (at(10), true));
        assert!(!second.differs(Some(&Wait { since: at(1), ..second.clone() })));
        let third = Wait::now(Some(&second), "WaitingForNode", "no node yet", at(30));
        assert_eq!(third.since, at(30));
    }

    #[test]
    fn a_condition_carries_it_there_and_back() {
        let wait = Wait::now(None, "WaitingForServer", "server is BUILD", at(10));
        let condition = wait.condition("Ready", Some(3));
        assert_eq!((condition.type_.as_str(), condition.observed_generation), ("Ready", Some(3)));
        assert_eq!(Wait::from_condition(&condition), Some(wait));
        assert_eq!(Wait::from_condition(&Condition { status: "True".into(), ..condition }), None);
    }
}

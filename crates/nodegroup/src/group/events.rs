//! What people are told about a NodeGroup.

use super::{Actions, Counts};
use crate::{
    api::{NodeGroupCondition as Condition, NodeGroupConditionType as Kind},
    life::{Event, Why},
    names::{event, reason},
};

/// The events of one run: what it does, and what is so since this run and was not before.
pub fn events(before: &[Condition], after: &[Condition], counts: Counts, actions: &Actions) -> Vec<Event> {
    let mut events = Vec::new();
    let mut tell = |warning, reason, message: String| events.push(Event { warning, reason, message });
    let made = actions.create.len();
    if made > 0 {
        let filling = actions.create.iter().filter(|new| new.for_minimum).count();
        let why = match filling {
            0 => String::new(),
            filling if filling == made => " to reach the minimum".to_owned(),
            filling => format!(", {filling} of them to reach the minimum"),
        };
        tell(false, event::SCALING_UP, format!("adding {made} nodes to {}{why}", counts.wanted));
    }
    for why in Why::ALL {
        let names: Vec<&str> =
            actions.remove.iter().filter(|(_, own)| *own == why).map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            tell(false, event::SCALING_DOWN, format!("removing {}: {why}", names.join(", ")));
        }
    }
    let of = |conditions: &[Condition], kind: Kind| {
        let found = conditions.iter().find(|one| one.kind == kind && one.status == "True");
        found.map(|one| (one.reason.clone(), one.message.clone()))
    };
    let reached = of(after, Kind::AtMaxCapacity);
    if actions.beyond > 0 && reached != of(before, Kind::AtMaxCapacity) {
        tell(true, event::SCALE_LIMIT_REACHED, reached.map(|(_, message)| message).unwrap_or_default());
    }
    if let Some((why, message)) = of(after, Kind::Error)
        && of(before, Kind::Error) != Some((why.clone(), message.clone()))
    {
        let name = match why.as_str() {
            reason::INVALID_CONFIGURATION => Some(event::INVALID_CONFIGURATION),
            reason::PROVISIONING_FAILED => Some(event::PROVISIONING_FAILED),
            _ => None,
        };
        if let Some(name) = name {
            tell(true, name, message);
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::New;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn condition(kind: Kind, status: &str, reason: &str, message: &str) -> Condition {
        Condition {
            kind,
            status: status.into(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            reason: reason.into(),
            message: message.into(),
        }
    }

    fn told(before: &[Condition], after: &[Condition], actions: &Actions) -> Vec<String> {
        let counts = Counts { wanted: 2, ..Counts::default() };
        let events = events(before, after, counts, actions);
        events
            .into_iter()
            .map(|event| format!("{} {} {}", event.warning, event.reason, event.message))
            .collect()
    }

    #[test]
    fn what_is_done_is_told() {
        let new = |for_minimum| New { offering: "small".into(), for_minimum };
        let made = |create: Vec<New>| Actions { create, ..Actions::default() };
        assert_eq!(
            told(&[], &[], &made(vec![new(false), new(false)])),
            ["false ScalingUp adding 2 nodes to 2"]
        );
        assert_eq!(
            told(&[], &[], &made(vec![new(true)])),
            ["false ScalingUp adding 1 nodes to 2 to reach the minimum"]
        );
        assert_eq!(
            told(&[], &[], &made(vec![new(false), new(true)])),
            ["false ScalingUp adding 2 nodes to 2, 1 of them to reach the minimum"]
        );
        let remove =
            [("a", Why::Surplus), ("b", Why::ScaleDown), ("c", Why::ScaleDown), ("d", Why::Unhealthy)];
        let remove = remove.map(|(name, why)| (name.to_owned(), why)).to_vec();
        assert_eq!(
            told(&[], &[], &Actions { remove, ..Actions::default() }),
            [
                "false ScalingDown removing b, c: it is not needed",
                "false ScalingDown removing a: its group has more nodes than it may have",
                "false ScalingDown removing d: its node has not been Ready for long",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_told_once() {
        let beyond = Actions { beyond: 1, ..Actions::default() };
        let full = [condition(Kind::AtMaxCapacity, "True", "MaximumReached", "Maximum nodes reached: 5")];
        let invalid = [condition(Kind::Error, "True", "InvalidConfiguration", "Datacenter not found: x")];
        let failed = [condition(Kind::Error, "True", "ProvisioningFailed", "Insufficient VPSie quota")];
        let cloud = [condition(Kind::Error, "True", "VPSieAPIError", "down")];
        let none = Actions::default();
        let nothing: [&str; 0] = [];
        assert_eq!(told(&[], &full, &beyond), ["true ScaleLimitReached Maximum nodes reached: 5"]);
        assert_eq!(told(&full, &full, &beyond), nothing);
        assert_eq!(told(&[], &full, &none), nothing, "nobody wanted more");
        assert_eq!(told(&[], &invalid, &none), ["true InvalidConfiguration Datacenter not found: x"]);
        assert_eq!(told(&invalid, &invalid, &none), nothing);
        assert_eq!(told(&invalid, &failed, &none), ["true ProvisioningFailed Insufficient VPSie quota"]);
        assert_eq!(told(&[], &cloud, &none), nothing, "that one is a condition only");
        let other = [condition(Kind::Error, "True", "InvalidConfiguration", "Datacenter not found: y")];
        assert_eq!(told(&invalid, &other, &none).len(), 1, "another problem");
    }
}

//! A VPS's life as a table: what it is, what it becomes by itself, and what it can be told.

use super::Settings;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The create call was answered, and nobody sees anything of it.
    Accepted,
    /// In the pending queue, with no id of its own yet.
    Queued,
    /// Out of the queue and not in the list.
    Between,
    Booting,
    Running,
    Stopping,
    Stopped,
    Starting,
    Restarting,
    /// Its deletion was ordered; it still looks and works as before.
    Leaving,
    /// Off, and shown with `is_deleted`.
    Deleted,
    /// Gone, but still in lists.
    Ghost,
    Gone,
}

impl Stage {
    /// What comes after, when the time has come.
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Accepted => Some(Self::Queued),
            Self::Queued => Some(Self::Between),
            Self::Between => Some(Self::Booting),
            Self::Booting | Self::Starting | Self::Restarting => Some(Self::Running),
            Self::Stopping => Some(Self::Stopped),
            Self::Leaving => Some(Self::Deleted),
            Self::Deleted => Some(Self::Ghost),
            Self::Ghost => Some(Self::Gone),
            Self::Running | Self::Stopped | Self::Gone => None,
        }
    }

    /// How long it lasts; nothing if it does not end by itself.
    pub(super) fn lasts(self, settings: &Settings) -> Option<Duration> {
        self.next()?;
        Some(match self {
            Self::Accepted => settings.queue_lag,
            Self::Queued => settings.queue_time,
            Self::Between => settings.list_gap,
            Self::Booting => settings.boot_time,
            Self::Leaving => settings.delete_time,
            Self::Deleted => settings.deleted_time,
            Self::Ghost => settings.gone_lag,
            _ => settings.change_time,
        })
    }

    pub(super) fn in_queue(self) -> bool {
        self == Self::Queued
    }

    pub(super) fn in_list(self) -> bool {
        !matches!(self, Self::Accepted | Self::Queued | Self::Between | Self::Gone)
    }

    /// Whether who asks for it by its id is shown it.
    pub(super) fn answers(self) -> bool {
        self.in_list() && self != Self::Ghost
    }

    /// Whether it takes up room, costs money, and will be there if nobody deletes it.
    pub(super) fn counts(self) -> bool {
        !matches!(self, Self::Deleted | Self::Ghost | Self::Gone)
    }

    pub(super) fn is_deleted(self) -> bool {
        matches!(self, Self::Deleted | Self::Ghost | Self::Gone)
    }

    pub(super) fn is_built(self) -> bool {
        self.counts() && self.in_list() && self != Self::Booting
    }

    pub(super) fn has_power(self) -> bool {
        matches!(self, Self::Running | Self::Stopping | Self::Restarting)
    }

    /// What an order makes of it at once; nothing if it cannot be given now.
    pub(super) fn ordered(self, order: Order) -> Option<Self> {
        match (order, self) {
            (Order::Start, Self::Stopped) => Some(Self::Starting),
            (Order::Stop, Self::Running) => Some(Self::Stopping),
            (Order::Restart, Self::Running) => Some(Self::Restarting),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Restart,
}

#[cfg(test)]
mod tests {
    use super::*;
    use Stage as S;

    #[test]
    fn a_life_goes_through_queue_gap_and_list() {
        let cases = [
            // stage, in the queue, in the list, answers, deleted, built, power
            (S::Accepted, [false, false, false, false, false, false]),
            (S::Queued, [true, false, false, false, false, false]),
            (S::Between, [false, false, false, false, false, false]),
            (S::Booting, [false, true, true, false, false, false]),
            (S::Running, [false, true, true, false, true, true]),
            (S::Stopped, [false, true, true, false, true, false]),
            (S::Deleted, [false, true, true, true, false, false]),
            (S::Ghost, [false, true, false, true, false, false]),
            (S::Gone, [false, false, false, true, false, false]),
        ];
        for (stage, expected) in cases {
            let seen = [
                stage.in_queue(),
                stage.in_list(),
                stage.answers(),
                stage.is_deleted(),
                stage.is_built(),
                stage.has_power(),
            ];
            assert_eq!(seen, expected, "{stage:?}");
        }
        let mut way = vec![S::Accepted];
        while let Some(next) = way.last().and_then(|stage| stage.next()) {
            way.push(next);
        }
        assert_eq!(way, [S::Accepted, S::Queued, S::Between, S::Booting, S::Running]);
    }

    #[test]
    fn orders_are_given_only_where_they_make_sense() {
        let cases = [
            (S::Running, Order::Stop, Some(S::Stopping)),
            (S::Stopped, Order::Start, Some(S::Starting)),
            (S::Running, Order::Restart, Some(S::Restarting)),
            (S::Stopped, Order::Stop, None),
            (S::Running, Order::Start, None),
            (S::Booting, Order::Stop, None),
            (S::Deleted, Order::Start, None),
            (S::Leaving, Order::Stop, None),
        ];
        for (from, order, expected) in cases {
            assert_eq!(from.ordered(order), expected, "{from:?} {order:?}");
        }
    }
}

//! How long to wait after a failure, by what was tried and why it failed.

use crate::Code;
use std::time::Duration;

/// What was tried. The same question to a cloud is another operation on the way in than on the way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Looking for the machine before it is created.
    FindForCreate,
    Create,
    /// Finishing a machine that exists.
    Settle,
    /// Looking for the machine before it is deleted.
    FindForDelete,
    Delete,
    /// Listing everything, for orphans.
    List,
    /// Asking which volumes of a pod must be detached.
    Volumes,
}

impl Operation {
    pub const ALL: [Self; 7] = [
        Self::FindForCreate,
        Self::Create,
        Self::Settle,
        Self::FindForDelete,
        Self::Delete,
        Self::List,
        Self::Volumes,
    ];
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Retry {
    /// The answer is no obstacle: go on with the next step.
    Proceed,
    Short,
    Medium,
    Long,
    /// Quota or capacity: the waiting time is the operator's choice.
    ResourceExhausted,
}

/// Into so many parts a quarter of a waiting time is divided.
const SPREAD: u32 = 1024;

/// The waiting times behind [`Retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    pub short: Duration,
    pub medium: Duration,
    pub long: Duration,
    pub resource_exhausted: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            short: Duration::from_secs(5),
            medium: Duration::from_mins(3),
            long: Duration::from_mins(10),
            resource_exhausted: Duration::from_mins(10),
        }
    }
}

impl Periods {
    /// With the operator's waiting time for exhausted resources; zero means the default.
    pub fn with_resource_exhausted(self, period: Duration) -> Self {
        let resource_exhausted = if period.is_zero() { Self::default().resource_exhausted } else { period };
        Self { resource_exhausted, ..self }
    }

    /// Each up to a quarter shorter, by a number that differs from machine to machine: many that failed at once, for
    /// want of the same thing, do not come again at once. None waits longer than it should.
    #[must_use]
    pub fn spread(self, number: u64) -> Self {
        let parts = u32::try_from(number % u64::from(SPREAD)).unwrap_or_default();
        let sooner = |period: Duration| period.saturating_sub(period / 4 / SPREAD * parts);
        let Self { short, medium, long, resource_exhausted } = self;
        Self {
            short: sooner(short),
            medium: sooner(medium),
            long: sooner(long),
            resource_exhausted: sooner(resource_exhausted),
        }
    }

    /// The waiting time, none if there is nothing to wait for.
    pub fn of(&self, retry: Retry) -> Option<Duration> {
        match retry {
            Retry::Proceed => None,
            Retry::Short => Some(self.short),
            Retry::Medium => Some(self.medium),
            Retry::Long => Some(self.long),
            Retry::ResourceExhausted => Some(self.resource_exhausted),
        }
    }
}

/// The retry after `operation` failed with `code`.
pub fn retry(operation: Operation, code: Code) -> Retry {
    if code == Code::Ok {
        return Retry::Proceed;
    }
    let passing = matches!(code, Code::Unknown | Code::DeadlineExceeded | Code::Aborted | Code::Unavailable);
    match operation {
        Operation::FindForCreate => match code {
            // Not there: create it. There but unfinished: finish it.
            Code::NotFound | Code::Unimplemented | Code::Uninitialized => Retry::Proceed,
            _ => retry(Operation::Create, code),
        },
        Operation::Create => match code {
            Code::ResourceExhausted => Retry::ResourceExhausted,
            _ if passing => Retry::Short,
            _ => Retry::Medium,
        },
        Operation::Settle => match code {
            Code::Unimplemented => Retry::Proceed,
            _ => Retry::Short,
        },
        Operation::FindForDelete => match code {
            Code::NotFound | Code::Unimplemented | Code::Uninitialized => Retry::Proceed,
            _ if passing => Retry::Short,
            _ => Retry::Medium,
        },
        Operation::Delete => match code {
            Code::NotFound => Retry::Proceed,
            _ if passing => Retry::Short,
            _ => Retry::Long,
        },
        Operation::List => match code {
            Code::Unimplemented => Retry::Proceed,
            _ => Retry::Long,
        },
        // A volume nobody can name is not waited for.
        Operation::Volumes => Retry::Proceed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One letter per code in the order of [`Code::NAMED`], then an unnamed one: `.` proceed, `s` short,
    /// `m` medium, `l` long, `x` exhausted.
    const TABLE: [(Operation, &str); 7] = [
        //                          OK CA UN IA DE NF AE PD RE FP AB OR UI IN UV DL UA UZ ?
        (Operation::FindForCreate, ". m s m s . m m x m s m . m s m m . m"),
        (Operation::Create, "       . m s m s m m m x m s m m m s m m m m"),
        (Operation::Settle, "       . s s s s s s s s s s s . s s s s s s"),
        (Operation::FindForDelete, ". m s m s . m m m m s m . m s m m . m"),
        (Operation::Delete, "       . l s l s . l l l l s l l l s l l l l"),
        (Operation::List, "         . l l l l l l l l l l l . l l l l l l"),
        (Operation::Volumes, "      . . . . . . . . . . . . . . . . . . ."),
    ];

    #[test]
    fn every_operation_and_code_has_its_retry() {
        assert_eq!(TABLE.map(|(operation, _)| operation), Operation::ALL);
        for (operation, row) in TABLE {
            let codes = Code::NAMED.into_iter().chain([Code::from_number(99)]);
            let expected: Vec<Retry> = row.split_whitespace().map(letter).collect();
            let found: Vec<Retry> = codes.map(|code| retry(operation, code)).collect();
            assert_eq!(found, expected, "{operation:?}");
        }
    }

    fn letter(letter: &str) -> Retry {
        match letter {
            "." => Retry::Proceed,
            "s" => Retry::Short,
            "m" => Retry::Medium,
            "l" => Retry::Long,
            "x" => Retry::ResourceExhausted,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn many_machines_come_again_one_after_another_and_none_too_late() {
        let whole = Periods::default();
        let mut waits: Vec<Duration> = (0..1024).map(|number| whole.spread(number).long).collect();
        assert!(waits.iter().all(|wait| *wait <= whole.long && *wait > whole.long * 3 / 4), "{waits:?}");
        waits.dedup();
        assert_eq!(waits.len(), 1024);
        let of = |number| {
            let Periods { short, medium, resource_exhausted, .. } = whole.spread(number);
            [short, medium, resource_exhausted].map(|period| period.as_millis())
        };
        assert_eq!(of(0), [5_000, 180_000, 600_000]);
        assert_eq!(of(512), [4_375, 157_500, 525_000]);
        assert_eq!(whole.spread(u64::MAX), whole.spread(1023));
    }

    #[test]
    fn periods_are_gardeners_and_exhaustion_is_the_operators() {
        let periods = Periods::default();
        let seconds = |retry| periods.of(retry).map(|period| period.as_secs());
        assert_eq!(
            [Retry::Proceed, Retry::Short, Retry::Medium, Retry::Long, Retry::ResourceExhausted].map(seconds),
            [None, Some(5), Some(180), Some(600), Some(600)]
        );
        let chosen =
            |seconds| periods.with_resource_exhausted(Duration::from_secs(seconds)).resource_exhausted;
        assert_eq!((chosen(30).as_secs(), chosen(0).as_secs()), (30, 600));
    }
}

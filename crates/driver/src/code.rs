use std::fmt;

/// Why a cloud could not do something, in the words of Gardener's machine codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    Ok,
    Canceled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
    /// The machine exists, but something is still to be done to it before it can be used.
    Uninitialized,
    /// A number without a name; comes from [`Code::from_number`] only.
    Unnamed(UnnamedCode),
}

/// A code's number that has no name. Only made by [`Code::from_number`], so that every number has one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnnamedCode(u32);

impl Code {
    /// All codes with a name; the place in the list is the number on the wire.
    pub const NAMED: [Self; 18] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
        Self::Uninitialized,
    ];

    pub fn from_number(number: u32) -> Self {
        let named = usize::try_from(number).ok().and_then(|place| Self::NAMED.get(place).copied());
        named.unwrap_or(Self::Unnamed(UnnamedCode(number)))
    }

    pub fn number(self) -> u32 {
        match self {
            Self::Ok => 0,
            Self::Canceled => 1,
            Self::Unknown => 2,
            Self::InvalidArgument => 3,
            Self::DeadlineExceeded => 4,
            Self::NotFound => 5,
            Self::AlreadyExists => 6,
            Self::PermissionDenied => 7,
            Self::ResourceExhausted => 8,
            Self::FailedPrecondition => 9,
            Self::Aborted => 10,
            Self::OutOfRange => 11,
            Self::Unimplemented => 12,
            Self::Internal => 13,
            Self::Unavailable => 14,
            Self::DataLoss => 15,
            Self::Unauthenticated => 16,
            Self::Uninitialized => 17,
            Self::Unnamed(UnnamedCode(number)) => number,
        }
    }

    /// The code of that name; a name that is not known means [`Code::Unknown`].
    pub fn from_name(name: &str) -> Self {
        Self::NAMED.into_iter().find(|code| code.name() == Some(name)).unwrap_or(Self::Unknown)
    }

    /// The name on the wire, if the number has one. [`fmt::Display`] always has an answer.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Ok => "OK",
            Self::Canceled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
            Self::Uninitialized => "Uninitialized",
            Self::Unnamed(_) => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Code({})", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_those_on_the_wire() {
        let table = [
            (0, "OK"),
            (1, "Canceled"),
            (2, "Unknown"),
            (3, "InvalidArgument"),
            (4, "DeadlineExceeded"),
            (5, "NotFound"),
            (6, "AlreadyExists"),
            (7, "PermissionDenied"),
            (8, "ResourceExhausted"),
            (9, "FailedPrecondition"),
            (10, "Aborted"),
            (11, "OutOfRange"),
            (12, "Unimplemented"),
            (13, "Internal"),
            (14, "Unavailable"),
            (15, "DataLoss"),
            (16, "Unauthenticated"),
            (17, "Uninitialized"),
        ];
        assert_eq!(table.len(), Code::NAMED.len());
        for (number, name) in table {
            let code = Code::from_number(number);
            assert_eq!((code.number(), code.to_string().as_str()), (number, name));
            assert_eq!(Code::from_name(name), code);
        }
    }

    #[test]
    fn a_number_without_a_name_is_printed_and_a_name_without_a_number_is_unknown() {
        assert_eq!(Code::from_number(18).to_string(), "Code(18)");
        assert_eq!(Code::from_number(u32::MAX).number(), u32::MAX);
        for name in ["", "ok", "notfound", "Code(18)", "NotFound "] {
            assert_eq!(Code::from_name(name), Code::Unknown, "{name:?}");
        }
    }
}

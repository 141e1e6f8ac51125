use jiff::Timestamp;
use std::fmt;

/// Why the autoscaler wants a VPSieNode gone. Unlike a deletion it can be taken back until the node is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// Its node is not needed.
    ScaleDown,
    /// Its pods can be had for less elsewhere.
    Consolidation,
    /// The group has more nodes than it may have.
    Surplus,
    /// Its node has not been Ready for long.
    Unhealthy,
}

impl Why {
    pub const ALL: [Self; 4] = [Self::ScaleDown, Self::Consolidation, Self::Surplus, Self::Unhealthy];

    fn word(self) -> &'static str {
        match self {
            Self::ScaleDown => "scale-down",
            Self::Consolidation => "consolidation",
            Self::Surplus => "surplus",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ScaleDown => "it is not needed",
            Self::Consolidation => "its pods cost less elsewhere",
            Self::Surplus => "its group has more nodes than it may have",
            Self::Unhealthy => "its node has not been Ready for long",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    pub why: Why,
    pub since: Timestamp,
}

impl Removal {
    /// The annotation's value.
    pub fn render(&self) -> String {
        format!("{}@{}", self.why.word(), self.since)
    }

    /// A text that nobody can read removes nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let (word, since) = text.split_once('@')?;
        let why = Why::ALL.into_iter().find(|why| why.word() == word)?;
        Some(Self { why, since: since.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_read_as_it_was_written() {
        for why in Why::ALL {
            let removal = Removal { why, since: Timestamp::from_second(100).unwrap() };
            assert_eq!(Removal::parse(&removal.render()), Some(removal));
        }
        for text in ["", "scale-down", "scale-down@", "boredom@1970-01-01T00:01:40Z"] {
            assert_eq!(Removal::parse(text), None, "{text}");
        }
    }
}

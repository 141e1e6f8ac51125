/// How a machine is recognised in a cloud. It goes into labels or tags with the create call, so that a
/// machine can be found again whatever happens after that call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Whose machine it is: one value per cluster and namespace that shares a cloud project with others. Empty if
    /// nobody gave it one.
    pub domain: String,
    /// The name of the object the machine is for.
    pub machine: String,
    /// The class the machine was made from.
    pub class: String,
}

/// A mark drawn anew for each create call and written down before it. It tells the machine of this call
/// from one of an earlier call whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub String);

/// What a machine in the cloud says about itself. Each may be missing: the machine may be somebody else's,
/// or made by a program that knew fewer marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub domain: Option<String>,
    pub machine: Option<String>,
    pub class: Option<String>,
    pub attempt: Option<Attempt>,
}

impl Marks {
    /// Whose it is. What tells nothing of that belongs to the domain without a name.
    pub fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or_default()
    }
}

/// What an [`Identity`] makes of [`Marks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recognition {
    /// It carries our identity.
    Ours,
    /// Machine and class agree but no domain is marked, as on machines made by other programs: ours only if
    /// something else says so too, for example a provider id that is written down.
    WithoutDomain,
    Foreign,
}

impl Identity {
    /// Whether a machine with these marks is the one meant. The class need not agree once the domain does: a
    /// machine stays itself when its object is moved to another class. The domain without a name is no such
    /// domain, because many may share it who know nothing of each other: there the class has to agree.
    pub fn recognise(&self, marks: &Marks) -> Recognition {
        let same_machine = marks.machine.as_deref() == Some(&*self.machine);
        let same_class = marks.class.as_deref() == Some(&*self.class);
        let same_domain = marks.domain() == self.domain;
        match marks.domain {
            _ if same_domain && same_machine && (same_class || !self.domain.is_empty()) => Recognition::Ours,
            None if same_machine && same_class => Recognition::WithoutDomain,
            _ => Recognition::Foreign,
        }
    }
}

/// Which machines to list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All of one domain.
    Domain(String),
    /// Those of one class of one domain.
    Class { domain: String, class: String },
    /// Those of one class, whatever domain they are marked with: what programs without domains made.
    AnyDomain { class: String },
}

impl Scope {
    /// Whether a machine with these marks belongs to the scope. Drivers apply it to what a server filtered
    /// already: a filter that is ignored on the way must not widen the list.
    pub fn holds(&self, marks: &Marks) -> bool {
        match self {
            Self::Domain(domain) => marks.domain() == domain,
            Self::Class { domain, class } => marks.domain() == domain && marks.class.as_ref() == Some(class),
            Self::AnyDomain { class } => marks.class.as_ref() == Some(class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(domain: Option<&str>, machine: Option<&str>, class: Option<&str>) -> Marks {
        Marks {
            domain: domain.map(Into::into),
            machine: machine.map(Into::into),
            class: class.map(Into::into),
            attempt: None,
        }
    }

    #[test]
    fn recognition_is_strict() {
        let of = |domain: &str| Identity { domain: domain.into(), machine: "m1".into(), class: "c1".into() };
        let named = [
            (marks(Some("shoot-a"), Some("m1"), Some("c1")), Recognition::Ours),
            (marks(Some("shoot-a"), Some("m1"), Some("c2")), Recognition::Ours),
            (marks(Some("shoot-a"), Some("m1"), None), Recognition::Ours),
            (marks(Some("shoot-a"), Some("m2"), Some("c1")), Recognition::Foreign),
            (marks(Some("shoot-a"), None, Some("c1")), Recognition::Foreign),
            (marks(Some("shoot-b"), Some("m1"), Some("c1")), Recognition::Foreign),
            (marks(Some(""), Some("m1"), Some("c1")), Recognition::Foreign),
            (marks(None, Some("m1"), Some("c1")), Recognition::WithoutDomain),
            (marks(None, Some("m1"), Some("c2")), Recognition::Foreign),
            (marks(None, Some("m1"), None), Recognition::Foreign),
            (Marks::default(), Recognition::Foreign),
        ];
        let nameless = [
            (marks(Some(""), Some("m1"), Some("c1")), Recognition::Ours),
            (marks(Some(""), Some("m1"), Some("c2")), Recognition::Foreign),
            (marks(Some(""), Some("m1"), None), Recognition::Foreign),
            (marks(Some(""), Some("m2"), Some("c1")), Recognition::Foreign),
            (marks(Some("shoot-a"), Some("m1"), Some("c1")), Recognition::Foreign),
            (marks(None, Some("m1"), Some("c1")), Recognition::Ours),
            (marks(None, Some("m1"), Some("c2")), Recognition::Foreign),
        ];
        for (domain, table) in [("shoot-a", &named[..]), ("", &nameless[..])] {
            for (marks, expected) in table {
                assert_eq!(of(domain).recognise(marks), *expected, "{domain:?} {marks:?}");
            }
        }
    }

    #[test]
    fn a_scope_holds_only_what_is_marked_so() {
        let domain = Scope::Domain("a".into());
        let class = Scope::Class { domain: "a".into(), class: "c".into() };
        let any = Scope::AnyDomain { class: "c".into() };
        let table = [
            (marks(Some("a"), Some("m"), Some("c")), [true, true, true]),
            (marks(Some("a"), Some("m"), Some("d")), [true, false, false]),
            (marks(Some("b"), Some("m"), Some("c")), [false, false, true]),
            (marks(None, Some("m"), Some("c")), [false, false, true]),
            (Marks::default(), [false, false, false]),
        ];
        for (marks, expected) in table {
            assert_eq!([&domain, &class, &any].map(|scope| scope.holds(&marks)), expected, "{marks:?}");
        }
    }
}

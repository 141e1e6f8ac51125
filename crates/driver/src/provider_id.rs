use std::{fmt, str::FromStr};

/// A cloud that provider ids can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cloud {
    Stackit,
    MetalStack,
    Vpsie,
}

/// The written forms of a provider id. Machine and Node of one server may carry different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// `stackit://<project>/<server>`, on Machines.
    Stackit,
    /// `stackit://<server>`, what STACKIT's cloud-controller-manager puts on Nodes.
    StackitNode,
    /// `stackit:///<server>`, the same by its older releases.
    StackitOldNode,
    /// `metalstack://<machine>`.
    MetalStack,
    /// `metal://<partition>/<machine>`, what metal-stack's cloud-controller-manager puts on Nodes.
    Metal,
    /// `metal:///<partition>/<machine>`, the same by its older releases.
    MetalOld,
    /// `vpsie://<machine>`.
    Vpsie,
    /// `vpsie://<datacenter>/<cluster>/<node>`, nodes of a managed cluster.
    VpsieManaged,
}

impl Form {
    const ALL: [Self; 8] = [
        Self::Stackit,
        Self::StackitNode,
        Self::StackitOldNode,
        Self::MetalStack,
        Self::Metal,
        Self::MetalOld,
        Self::Vpsie,
        Self::VpsieManaged,
    ];

    fn prefix(self) -> &'static str {
        match self {
            Self::Stackit | Self::StackitNode => "stackit://",
            Self::StackitOldNode => "stackit:///",
            Self::MetalStack => "metalstack://",
            Self::Metal => "metal://",
            Self::MetalOld => "metal:///",
            Self::Vpsie | Self::VpsieManaged => "vpsie://",
        }
    }

    /// The names of the parts after the prefix; the last one names the server.
    fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Stackit => &["project", "server"],
            Self::StackitNode | Self::StackitOldNode => &["server"],
            Self::MetalStack | Self::Vpsie => &["machine"],
            Self::Metal | Self::MetalOld => &["partition", "machine"],
            Self::VpsieManaged => &["datacenter", "cluster", "node"],
        }
    }

    fn cloud(self) -> Cloud {
        match self {
            Self::Stackit | Self::StackitNode | Self::StackitOldNode => Cloud::Stackit,
            Self::MetalStack | Self::Metal | Self::MetalOld => Cloud::MetalStack,
            Self::Vpsie | Self::VpsieManaged => Cloud::Vpsie,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.parts().iter().map(|part| format!("<{part}>")).collect();
        write!(f, "{}{}", self.prefix(), parts.join("/"))
    }
}

/// Which server a Machine or a Node is. Parsing and printing give the same text back, in every form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId {
    form: Form,
    parts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderIdError {
    #[error(
        "provider id {text:?} must start with \"stackit://\", \"metalstack://\", \"metal://\" or \"vpsie://\""
    )]
    Prefix { text: String },
    #[error("provider id {text:?} must have format {formats}")]
    Format { text: String, formats: String },
    #[error("provider id {text:?}: the {part} cannot be empty, the format is {form}")]
    EmptyPart { text: String, part: &'static str, form: Form },
    #[error(
        "provider id {text:?}: the {part} must consist of letters, digits, '-', '_', '.', ':' and not be a path like '..'"
    )]
    Part { text: String, part: &'static str },
}

impl ProviderId {
    pub fn stackit(project: &str, server: &str) -> Result<Self, ProviderIdError> {
        Self::new(Form::Stackit, &[project, server])
    }

    pub fn metalstack(machine: &str) -> Result<Self, ProviderIdError> {
        Self::new(Form::MetalStack, &[machine])
    }

    pub fn metal(partition: &str, machine: &str) -> Result<Self, ProviderIdError> {
        Self::new(Form::Metal, &[partition, machine])
    }

    pub fn vpsie(machine: &str) -> Result<Self, ProviderIdError> {
        Self::new(Form::Vpsie, &[machine])
    }

    /// The id in `form` with these parts; the checks are those of parsing.
    pub fn new(form: Form, parts: &[&str]) -> Result<Self, ProviderIdError> {
        let text = || format!("{}{}", form.prefix(), parts.join("/"));
        if parts.len() != form.parts().len() {
            return Err(ProviderIdError::Format { text: text(), formats: form.to_string() });
        }
        for (value, part) in parts.iter().zip(form.parts()) {
            if value.is_empty() {
                return Err(ProviderIdError::EmptyPart { text: text(), part, form });
            }
            if !may_stand_in_a_path(value) {
                return Err(ProviderIdError::Part { text: text(), part });
            }
        }
        Ok(Self { form, parts: parts.iter().map(ToString::to_string).collect() })
    }

    pub fn form(&self) -> Form {
        self.form
    }

    pub fn cloud(&self) -> Cloud {
        self.form.cloud()
    }

    /// The cloud's id of the server.
    pub fn server(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// The project, where the form has one.
    pub fn project(&self) -> Option<&str> {
        self.part("project")
    }

    /// The partition, where the form has one.
    pub fn partition(&self) -> Option<&str> {
        self.part("partition")
    }

    fn part(&self, name: &str) -> Option<&str> {
        let place = self.form.parts().iter().position(|part| *part == name)?;
        self.parts.get(place).map(String::as_str)
    }

    /// Whether both name the same server, be it in different forms: for a Machine's id and a Node's. What
    /// only one of them says (the project, the partition) is not held against it. Ids differ in case from
    /// place to place, so case does not count.
    pub fn names_same_server(&self, other: &Self) -> bool {
        // A managed node's id is counted by its cluster, it is not the id of a virtual machine.
        if (self.form == Form::VpsieManaged || other.form == Form::VpsieManaged) && self.form != other.form {
            return false;
        }
        let agree = |part: &str| match (self.part(part), other.part(part)) {
            (Some(mine), Some(theirs)) => mine.eq_ignore_ascii_case(theirs),
            _ => true,
        };
        self.cloud() == other.cloud()
            && self.server().eq_ignore_ascii_case(other.server())
            && ["project", "partition", "datacenter", "cluster"].into_iter().all(agree)
    }
}

/// Ids go into URLs, so nothing that would lead elsewhere may be in one.
fn may_stand_in_a_path(part: &str) -> bool {
    part.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter))
        && part.chars().any(|letter| letter != '.')
}

impl FromStr for ProviderId {
    type Err = ProviderIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let matching = |form: &Form| text.strip_prefix(form.prefix()).map(|rest| (*form, rest));
        let candidates: Vec<(Form, &str)> = Form::ALL.iter().filter_map(matching).collect();
        // `stackit:///x` also begins with `stackit://`: the longest prefix is the one that was meant.
        let longest = candidates.iter().map(|(form, _)| form.prefix().len()).max();
        let Some(longest) = longest else { return Err(ProviderIdError::Prefix { text: text.to_owned() }) };
        let meant = || candidates.iter().filter(|(form, _)| form.prefix().len() == longest);
        for (form, rest) in meant() {
            let parts: Vec<&str> = rest.split('/').collect();
            if parts.len() == form.parts().len() {
                return Self::new(*form, &parts);
            }
        }
        let formats: Vec<String> = meant().map(|(form, _)| form.to_string()).collect();
        Err(ProviderIdError::Format { text: text.to_owned(), formats: formats.join(" or ") })
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.form.prefix(), self.parts.join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> ProviderId {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_form_is_read_and_printed_back() {
        let table = [
            ("stackit://p-1/s-1", Form::Stackit, "s-1", Some("p-1"), None),
            ("stackit://s-1", Form::StackitNode, "s-1", None, None),
            ("stackit:///s-1", Form::StackitOldNode, "s-1", None, None),
            ("metalstack://u-1", Form::MetalStack, "u-1", None, None),
            ("metal://fra/u-1", Form::Metal, "u-1", None, Some("fra")),
            ("metal:///fra/u-1", Form::MetalOld, "u-1", None, Some("fra")),
            ("vpsie://v-1", Form::Vpsie, "v-1", None, None),
            ("vpsie://dc/k8s/7", Form::VpsieManaged, "7", None, None),
        ];
        for (text, form, server, project, partition) in table {
            let id = parse(text);
            assert_eq!(
                (id.form(), id.server(), id.project(), id.partition()),
                (form, server, project, partition)
            );
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn errors_name_what_would_be_right() {
        let message = |text: &str| text.parse::<ProviderId>().unwrap_err().to_string();
        let table = [
            ("", "must start with \"stackit://\""),
            ("aws:///eu/i-1", "must start with"),
            ("stackit", "must start with"),
            ("STACKIT://p/s", "must start with"),
            ("stackit://p/s/x", "must have format stackit://<project>/<server> or stackit://<server>"),
            ("stackit:///p/s", "must have format stackit:///<server>"),
            ("stackit:////", "must have format"),
            ("stackit://", "the server cannot be empty, the format is stackit://<server>"),
            ("stackit:///", "the server cannot be empty, the format is stackit:///<server>"),
            ("stackit://p/", "the server cannot be empty, the format is stackit://<project>/<server>"),
            ("metal://u", "must have format metal://<partition>/<machine>"),
            ("metal://p/u/x", "must have format metal://<partition>/<machine>"),
            ("metalstack://p/u", "must have format metalstack://<machine>"),
            ("vpsie://a/b", "must have format vpsie://<machine> or vpsie://<datacenter>/<cluster>/<node>"),
            ("stackit://p/..", "the server must consist of letters"),
            ("stackit://p/s?x=1", "the server must consist of letters"),
            ("stackit://p%2f/s", "the project must consist of letters"),
            ("vpsie://a b", "the machine must consist of letters"),
        ];
        for (text, part) in table {
            assert!(message(text).contains(part), "{text:?}: {}", message(text));
        }
    }

    #[test]
    fn made_ids_are_checked_like_parsed_ones() {
        assert_eq!(ProviderId::stackit("p", "s").unwrap().to_string(), "stackit://p/s");
        assert_eq!(ProviderId::metalstack("u").unwrap().to_string(), "metalstack://u");
        assert_eq!(ProviderId::metal("p", "u").unwrap().to_string(), "metal://p/u");
        assert_eq!(ProviderId::vpsie("v").unwrap().to_string(), "vpsie://v");
        assert!(ProviderId::stackit("p/q", "s").is_err());
        assert!(ProviderId::stackit("", "s").is_err());
        assert!(ProviderId::new(Form::Metal, &["only-one"]).is_err());
    }

    #[test]
    fn a_machine_and_its_node_are_seen_as_one() {
        let table = [
            ("stackit://p/s", "stackit://s", true),
            ("stackit://p/s", "stackit:///s", true),
            ("stackit://p/S", "stackit://s", true),
            ("stackit://p/s", "stackit://p/s", true),
            ("stackit://p/s", "stackit://q/s", false),
            ("stackit://p/s", "stackit://p", false),
            ("metalstack://U-1", "metal://fra/u-1", true),
            ("metal:///fra/u", "metal://fra/u", true),
            ("metal://muc/u", "metal://fra/u", false),
            ("metalstack://u", "vpsie://u", false),
            ("vpsie://7", "vpsie://dc/k8s/7", false),
            ("vpsie://dc/k8s/7", "vpsie://dc/k8s/7", true),
            ("vpsie://dc/k8s/7", "vpsie://dc/other/7", false),
        ];
        for (one, other, expected) in table {
            assert_eq!(parse(one).names_same_server(&parse(other)), expected, "{one} {other}");
            assert_eq!(parse(other).names_same_server(&parse(one)), expected, "{other} {one}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_printed_back(
            text in "(stackit|metalstack|metal|vpsie)?:?/{0,4}[a-c.:ü%]{0,3}/{0,2}[a-c]{0,2}(/[a-c]{0,2})?|.*"
        ) {
            if let Ok(id) = text.parse::<ProviderId>() {
                prop_assert_eq!(id.to_string(), text);
                prop_assert!(id.names_same_server(&id));
                prop_assert!(!id.server().is_empty());
            }
        }
    }
}

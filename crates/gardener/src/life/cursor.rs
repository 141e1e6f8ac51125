//! Where a deletion stands, as both implementations write it into `lastOperation.description`.

/// The texts that name the next step of a deletion, and what was tried when a creation was not finished.
pub mod text {
    pub const INITIALIZE: &str = "Initialize VM Instance";
    pub const GET_VM_STATUS: &str = "Set machine status to termination. Now, getting VM Status";
    pub const DRAIN: &str = "Initiate node drain";
    pub const DELETE_ATTACHMENTS: &str = "Delete Volume Attachments";
    pub const DELETE_VM: &str = "Initiate VM deletion";
    pub const DELETE_NODE: &str = "Initiate node object deletion";
    pub const REMOVE_FINALIZER: &str = "Initiate machine object finalizer removal";
}

/// The next step of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cursor {
    /// Not begun, or a text nobody knows: begin.
    Start,
    GetVmStatus,
    Drain,
    DeleteAttachments,
    DeleteVm,
    DeleteNode,
    RemoveFinalizer,
}

impl Cursor {
    /// Reads the cursor. Every text ends with what comes next; what stands before may be the words of a cloud, which
    /// nobody shall be led by. Only in a text with another end the first one that occurs wins, in the order of the flow.
    pub fn read(description: &str) -> Self {
        let texts = [
            (text::GET_VM_STATUS, Self::GetVmStatus),
            (text::DRAIN, Self::Drain),
            (text::DELETE_ATTACHMENTS, Self::DeleteAttachments),
            (text::DELETE_VM, Self::DeleteVm),
            (text::DELETE_NODE, Self::DeleteNode),
            (text::REMOVE_FINALIZER, Self::RemoveFinalizer),
        ];
        let at_the_end = texts.iter().find(|(text, _)| description.trim_end().ends_with(text));
        let anywhere = || texts.iter().find(|(text, _)| description.contains(text));
        at_the_end.or_else(anywhere).map_or(Self::Start, |(_, cursor)| *cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_sides_are_understood() {
        let cases = [
            ("Deleting machine from cloud provider", Cursor::Start),
            ("", Cursor::Start),
            ("Set machine status to termination. Now, getting VM Status", Cursor::GetVmStatus),
            (
                "VM was not found at provider. Moving forward to node drain. Initiate node drain",
                Cursor::Drain,
            ),
            ("Force Drain successful. Delete Volume Attachments", Cursor::DeleteAttachments),
            ("Drain successful. Initiate VM deletion", Cursor::DeleteVm),
            (
                "VM deletion failed due to - x. However, will re-try in the next resync. Initiate VM deletion",
                Cursor::DeleteVm,
            ),
            ("VM not found. Continuing deletion flow. Initiate node object deletion", Cursor::DeleteNode),
            (
                "No node object found for \"n\", continuing deletion flow. Initiate machine object finalizer removal",
                Cursor::RemoveFinalizer,
            ),
        ];
        for (description, cursor) in cases {
            assert_eq!(Cursor::read(description), cursor, "{description}");
        }
    }

    #[test]
    fn the_words_of_a_cloud_lead_nobody_astray() {
        let texts = [
            (text::GET_VM_STATUS, Cursor::GetVmStatus),
            (text::DRAIN, Cursor::Drain),
            (text::DELETE_ATTACHMENTS, Cursor::DeleteAttachments),
            (text::DELETE_VM, Cursor::DeleteVm),
            (text::DELETE_NODE, Cursor::DeleteNode),
            (text::REMOVE_FINALIZER, Cursor::RemoveFinalizer),
        ];
        for (inside, other) in texts {
            for (end, cursor) in texts {
                for space in ["", " ", "\n"] {
                    let description =
                        format!("VM deletion failed due to - {inside}. Aborting operation. {end}{space}");
                    assert_eq!(Cursor::read(&description), cursor, "{description}");
                }
            }
            assert_eq!(Cursor::read(&format!("{inside} and so on")), other, "{inside}");
        }
    }
}

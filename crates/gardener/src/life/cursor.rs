//! Where a deletion stands, as both implementations write it into `lastOperation.description`.

/// The texts that name the next step of a deletion.
pub mod text {
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
    /// Reads the cursor. The first text that occurs wins, in the order of the flow.
    pub fn read(description: &str) -> Self {
        [
            (text::GET_VM_STATUS, Self::GetVmStatus),
            (text::DRAIN, Self::Drain),
            (text::DELETE_ATTACHMENTS, Self::DeleteAttachments),
            (text::DELETE_VM, Self::DeleteVm),
            (text::DELETE_NODE, Self::DeleteNode),
            (text::REMOVE_FINALIZER, Self::RemoveFinalizer),
        ]
        .into_iter()
        .find_map(|(text, cursor)| description.contains(text).then_some(cursor))
        .unwrap_or(Self::Start)
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
            // What a cloud says may lead back to a step that was taken, never past one that was not.
            (
                "VM deletion failed due to - Initiate machine object finalizer removal. Aborting operation. Initiate VM deletion",
                Cursor::DeleteVm,
            ),
            (
                "VM deletion failed due to - Initiate node drain. Aborting operation. Initiate VM deletion",
                Cursor::Drain,
            ),
        ];
        for (description, cursor) in cases {
            assert_eq!(Cursor::read(description), cursor, "{description}");
        }
    }
}

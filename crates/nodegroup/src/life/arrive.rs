//! From a wish to a node.

use super::{Observed, Step, adopt, cloud, live, order};
use hostler_driver::Operation;

pub(super) fn arrive(seen: &Observed) -> Step {
    match &seen.written.vps {
        Some(Ok(id)) => live::live(seen, id),
        Some(Err(why)) => {
            cloud::told_and_tried_again(seen, Operation::FindForCreate, &cloud::unreadable(why))
        }
        None if seen.written.instance_id != 0 || seen.written.claim.is_some() => adopt::adopt(seen),
        // Somebody took the note of it away.
        None if seen.written.status.provisioned_at.is_some() => adopt::adopt(seen),
        None => order::order(seen),
    }
}

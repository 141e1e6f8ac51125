//! A server's life as a table: what it is, what it becomes by itself, and what it can be told.

/// A server's status. The API has more; these are the ones that its calls lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Creating,
    Active,
    Error,
    Deleting,
    Stopping,
    Inactive,
    Starting,
    Rebooting,
    Resizing,
    Deallocating,
    Deallocated,
    Rescuing,
    Rescue,
    Unrescuing,
}

impl Status {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Active => "ACTIVE",
            Self::Error => "ERROR",
            Self::Deleting => "DELETING",
            Self::Stopping => "STOPPING",
            Self::Inactive => "INACTIVE",
            Self::Starting => "STARTING",
            Self::Rebooting => "REBOOTING",
            Self::Resizing => "RESIZING",
            Self::Deallocating => "DEALLOCATING",
            Self::Deallocated => "DEALLOCATED",
            Self::Rescuing => "RESCUING",
            Self::Rescue => "RESCUE",
            Self::Unrescuing => "UNRESCUING",
        }
    }

    pub(super) fn power(self) -> &'static str {
        match self {
            Self::Active | Self::Stopping | Self::Rebooting | Self::Rescue | Self::Rescuing => "RUNNING",
            Self::Error => "ERROR",
            _ => "STOPPED",
        }
    }

    /// Whether the server takes up room on a host.
    pub(super) fn has_host(self) -> bool {
        !matches!(self, Self::Deallocated | Self::Error)
    }

    /// What comes after, when the time has come. A resized server goes back to what it was.
    pub(super) fn next(self, before: Self) -> Option<Self> {
        match self {
            Self::Creating | Self::Starting | Self::Rebooting | Self::Unrescuing => Some(Self::Active),
            Self::Stopping => Some(Self::Inactive),
            Self::Deallocating => Some(Self::Deallocated),
            Self::Rescuing => Some(Self::Rescue),
            Self::Resizing => Some(before),
            Self::Active
            | Self::Error
            | Self::Deleting
            | Self::Inactive
            | Self::Deallocated
            | Self::Rescue => None,
        }
    }

    /// What an order makes of the server at once; nothing if it cannot be given now.
    pub(super) fn ordered(self, order: Order) -> Option<Self> {
        match (order, self) {
            (Order::Start, Self::Inactive | Self::Deallocated) => Some(Self::Starting),
            (Order::Stop, Self::Active) => Some(Self::Stopping),
            (Order::Reboot, Self::Active) => Some(Self::Rebooting),
            (Order::Deallocate, Self::Active | Self::Inactive) => Some(Self::Deallocating),
            (Order::Resize, Self::Active | Self::Inactive) => Some(Self::Resizing),
            (Order::Rescue, Self::Active | Self::Inactive) => Some(Self::Rescuing),
            (Order::Unrescue, Self::Rescue) => Some(Self::Unrescuing),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Reboot,
    Deallocate,
    Resize,
    Rescue,
    Unrescue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_ends_where_the_documentation_says() {
        use Status::{Active, Deallocated, Error, Inactive, Rescue};
        let cases = [
            (Active, Order::Stop, Some(("STOPPING", "INACTIVE"))),
            (Inactive, Order::Start, Some(("STARTING", "ACTIVE"))),
            (Deallocated, Order::Start, Some(("STARTING", "ACTIVE"))),
            (Active, Order::Reboot, Some(("REBOOTING", "ACTIVE"))),
            (Active, Order::Deallocate, Some(("DEALLOCATING", "DEALLOCATED"))),
            (Active, Order::Resize, Some(("RESIZING", "ACTIVE"))),
            (Inactive, Order::Resize, Some(("RESIZING", "INACTIVE"))),
            (Active, Order::Rescue, Some(("RESCUING", "RESCUE"))),
            (Rescue, Order::Unrescue, Some(("UNRESCUING", "ACTIVE"))),
            (Active, Order::Start, None),
            (Active, Order::Unrescue, None),
            (Inactive, Order::Stop, None),
            (Error, Order::Start, None),
            (Deallocated, Order::Resize, None),
        ];
        for (from, order, expected) in cases {
            let way = from
                .ordered(order)
                .map(|at_once| (at_once.name(), at_once.next(from).map(Status::name).unwrap_or_default()));
            assert_eq!(way, expected, "{from:?} {order:?}");
        }
    }
}

use crate::{
    Attempt, Credentials, Evidence, Failure, Finding, Identity, Machine, ProviderId, Scope, Snapshot,
    UserData,
};
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// A cloud, with the credentials of one project.
///
/// No method waits for a machine: each sends its request, reports what it was told and returns. What happens
/// later is seen in [`Driver::list`] and announced by [`Driver::changes`]. Every method ends within a limit
/// of its own, with [`crate::Code::DeadlineExceeded`] if need be.
#[async_trait]
pub trait Driver: Send + Sync {
    /// What a description says that whoever orders has to know, read without asking the cloud.
    fn describe(&self, spec: &Value) -> Result<Described, Failure>;

    /// Everything that is wrong with an order, found without asking the cloud, as one
    /// [`crate::Code::InvalidArgument`]. `machines` is how many machines, this one included, are made from the
    /// description: some can be made only once. Otherwise what is used although it looks wrong, in words.
    ///
    /// To be asked before an attempt is written down; [`Driver::create`] looks again at what concerns it alone.
    fn check(&self, order: &Order, machines: usize) -> Result<Vec<String>, Failure>;

    /// Looks for a machine, never in what was answered before. With an id the cloud is asked for exactly that one
    /// ([`crate::How::Asked`]); without, the machines that carry the identity are looked for in a complete list
    /// begun after this call ([`crate::How::Listed`]), which all who ask at the same time may share. If it is not in it,
    /// but an order in hand may be for it, that is said, too ([`crate::How::Queued`]).
    ///
    /// With an id the machine is returned even when it does not carry the identity: whoever asks looks at
    /// its marks. Absent is only what the cloud's API itself calls absent.
    async fn find(&self, identity: &Identity, id: Option<&ProviderId>) -> Result<Finding, Failure>;

    /// How the machine with this id is, for whoever waits for it: as a list shows it that was begun after this call
    /// and that others share, or, if no list does, as [`Driver::find`] finds it. What is absent was asked for.
    async fn look(&self, identity: &Identity, id: &ProviderId) -> Result<Finding, Failure> {
        self.find(identity, Some(id)).await
    }

    /// Orders a machine and returns as soon as the cloud has taken the order. It does not look for one
    /// first; that is the caller's step before this. After a failure it may or may not exist, unless the
    /// code says that the order was refused. A cloud that takes an order and tells no id answers with
    /// [`crate::Code::Uninitialized`]: that is no failure, the machine is found by its identity once it is shown.
    async fn create(&self, order: &Order) -> Result<Machine, Failure>;

    /// Does one of the things that are still to be done to a machine before it can be used, if there is one:
    /// at most one call that changes something. It can be asked at any time of a machine's life, and finds
    /// again what others have undone.
    async fn settle(&self, order: &Order, machine: &Machine) -> Result<Settled, Failure>;

    /// Orders the deletion of a machine that carries the identity by what the cloud showed just now; one that does
    /// not is left alone with [`crate::Code::InvalidArgument`]. What was made with the machine goes with it, what
    /// was given to it stays: the order says which is which, as far as it can still be read.
    async fn delete(&self, order: &Order, id: &ProviderId) -> Result<Deletion, Failure>;

    /// The machines in a scope. It may be answered from the shared poller's last list; the snapshot says when
    /// that one was begun. With `begun_after` only a list begun later will do.
    async fn list(&self, scope: &Scope, begun_after: Option<jiff::Timestamp>) -> Result<Snapshot, Failure>;

    /// Tells which machines changed. One poller per project feeds all drivers of it; it works while at least
    /// one of these streams is polled, so that it ends with whoever listens.
    fn changes(&self) -> Changes;

    /// How long a new machine may be missing from this cloud's lists.
    fn list_lag(&self) -> Duration;

    /// Where this driver's machines are. What is looked for in one place says nothing about another, so
    /// whoever orders a machine writes this down with it.
    fn place(&self) -> String;

    /// The cloud's ids of these volumes, for the wait until they are detached. A volume of another cloud is
    /// left out.
    async fn volumes(&self, _volumes: &[VolumeSource]) -> Result<Vec<String>, Failure> {
        Err(Failure::unimplemented("volume ids"))
    }

    /// The last lines that a machine wrote to its console, without what looks like a secret: for one whose node
    /// does not join.
    async fn console(&self, _id: &ProviderId) -> Result<String, Failure> {
        Err(Failure::unimplemented("consoles"))
    }

    /// What machines there are to choose from.
    async fn offerings(&self) -> Result<Vec<Offering>, Failure> {
        Err(Failure::unimplemented("offerings"))
    }
}

/// Makes drivers. A driver belongs to the credentials it was made for; when a Secret is rotated the factory
/// is asked again.
pub trait DriverFactory: Send + Sync {
    /// The cloud's name, in small letters.
    fn provider(&self) -> &'static str;

    /// A driver for these credentials and this provider-specific description of a machine, which may say
    /// where (a region for example). What is written about a machine that may exist goes before both. Equal
    /// input may give the same driver.
    fn driver(
        &self,
        credentials: &Credentials,
        spec: &Value,
        written: Written<'_>,
    ) -> Result<Arc<dyn Driver>, Failure>;
}

/// What is written about where a machine is, so that it is looked for there whatever became of the description
/// and the credentials that it was made with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written<'a> {
    /// What [`Driver::place`] said of the driver that ordered it.
    pub place: Option<&'a str>,
    pub id: Option<&'a ProviderId>,
}

/// What [`Driver::describe`] read.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// The [`Identity::domain`] of the machines that are made from it.
    pub domain: String,
    /// User data that the description holds itself; it goes before any other.
    pub user_data: Option<UserData>,
    /// [`Driver::settle`] does something that others can undo, so it should be asked again from time to time.
    pub upkeep: bool,
}

/// A machine that is wanted.
#[derive(Clone)]
pub struct Order {
    pub identity: Identity,
    /// Written down before the call, and marked on the machine.
    pub attempt: Attempt,
    /// The provider-specific description from the class, the same for all that are made from it.
    pub spec: Arc<Value>,
    /// What the machine gets: whoever orders has looked into the description for it, and filled in what is
    /// filled in.
    pub user_data: Option<UserData>,
}

/// Without the description: it may hold user data, too.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, attempt, .. } = self;
        f.debug_struct("Order").field("identity", identity).field("attempt", attempt).finish_non_exhaustive()
    }
}

/// What [`Driver::settle`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing is left to do; the machine may have more addresses now.
    Done(Box<Machine>),
    /// One thing was done, in words; ask again.
    Did(String),
    /// Something is missing that only time brings, in words.
    Waiting(String),
}

/// What [`Driver::delete`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The cloud took the order, now or earlier. It is gone when two findings say so.
    Ordered,
    /// There was nothing to delete: the first of the two findings.
    Absent(Evidence),
}

/// The stream of [`Driver::changes`].
pub type Changes = BoxStream<'static, Change>;

/// News from the poller. It says whom to look at, never what to believe: that is in the next snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This machine came, went or changed.
    Machine { id: ProviderId, identity: Option<Identity> },
    /// Some news was missed: look at everything.
    Everything,
}

/// The source of a PersistentVolume, as far as a cloud can recognise it as its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    Csi {
        driver: String,
        handle: String,
    },
    /// An in-tree source: its field's name and the volume's id in it.
    InTree {
        kind: String,
        id: String,
    },
}

/// A kind of machine that can be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offering {
    pub name: String,
    pub millicores: u64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
    pub zones: Vec<String>,
    pub price: Option<Price>,
}

/// A price in millionths of the currency's unit, so that sums are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    pub micros_per_hour: u64,
    pub currency: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    struct Bare;

    #[async_trait]
    impl Driver for Bare {
        fn describe(&self, _: &Value) -> Result<Described, Failure> {
            Ok(Described::default())
        }
        fn check(&self, _: &Order, _: usize) -> Result<Vec<String>, Failure> {
            Ok(Vec::new())
        }
        async fn find(&self, _: &Identity, _: Option<&ProviderId>) -> Result<Finding, Failure> {
            Err(Failure::unimplemented("find"))
        }
        async fn create(&self, _: &Order) -> Result<Machine, Failure> {
            Err(Failure::unimplemented("create"))
        }
        async fn settle(&self, _: &Order, machine: &Machine) -> Result<Settled, Failure> {
            Ok(Settled::Done(Box::new(machine.clone())))
        }
        async fn delete(&self, _: &Order, _: &ProviderId) -> Result<Deletion, Failure> {
            Ok(Deletion::Ordered)
        }
        async fn list(&self, _: &Scope, _: Option<jiff::Timestamp>) -> Result<Snapshot, Failure> {
            Err(Failure::unimplemented("list"))
        }
        fn changes(&self) -> Changes {
            Box::pin(futures::stream::empty())
        }
        fn list_lag(&self) -> Duration {
            Duration::ZERO
        }
        fn place(&self) -> String {
            "nowhere".into()
        }
    }

    #[tokio::test]
    async fn a_driver_is_object_safe_and_its_extras_are_optional() {
        let driver: Arc<dyn Driver> = Arc::new(Bare);
        let volumes = driver.volumes(&[]).await.unwrap_err();
        assert_eq!(volumes, Failure::new(Code::Unimplemented, "this cloud does not support volume ids"));
        assert_eq!(driver.offerings().await.unwrap_err().code, Code::Unimplemented);
        let id = ProviderId::stackit("p", "s").unwrap();
        assert_eq!(driver.console(&id).await.unwrap_err().code, Code::Unimplemented);
    }

    #[test]
    fn an_order_can_be_logged_without_its_user_data() {
        let order = Order {
            identity: Identity { domain: "d".into(), machine: "m".into(), class: "c".into() },
            attempt: Attempt("a".into()),
            spec: Arc::new(serde_json::json!({"userData": "hunter2"})),
            user_data: Some(UserData::new("hunter2")),
        };
        assert!(!format!("{order:?} {order:#?}").contains("hunter2"));
    }
}

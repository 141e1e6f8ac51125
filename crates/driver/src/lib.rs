//! What a cloud must be able to do, and the words for it.
//!
//! A front door speaks to a cloud through [`Driver`] only. What goes wrong is a [`Failure`] with a [`Code`];
//! [`retry`] says how long to wait after it. A machine is recognised by its [`Identity`], never by its name
//! alone, and what a cloud answers comes with [`Evidence`]: how it was asked and when, because an old list
//! can show that a machine is there but never that it is not.
#![forbid(unsafe_code)]

pub mod client;
mod code;
mod driver;
mod failure;
mod identity;
mod machine;
mod provider_id;
pub mod retry;
mod secret;

pub use code::{Code, UnnamedCode};
pub use driver::{
    Change, Changes, Deletion, Described, Driver, DriverFactory, Offering, Order, Price, Settled,
    VolumeSource, Written,
};
pub use failure::{Failure, Reference, without_references};
pub use identity::{Attempt, Identity, Marks, Recognition, Scope};
pub use machine::{
    Address, AddressKind, Evidence, Finding, Found, How, Machine, Snapshot, State, gone_twice,
};
pub use provider_id::{Cloud, Form, ProviderId, ProviderIdError};
pub use retry::{Operation, Periods, Retry};
pub use secret::{Credentials, UserData};

pub(crate) mod cloud;
pub(crate) mod controller;
pub(crate) mod flow;

//! The front door for VPSie's users: `autoscaler.vpsie.com/v1alpha1` NodeGroups become VPSieNodes, instances and nodes.
//!
//! What is here decides and does not act: [`group`] says which VPSieNodes a NodeGroup makes and takes away, [`life`] what
//! comes next for one of them, [`join`] how its VPS becomes a node, [`freeze`] when everything rests, and [`orphans`] which
//! VPSs nobody has any more.
#![forbid(unsafe_code)]

pub mod api;
pub mod freeze;
pub mod group;
pub mod join;
pub mod life;
pub mod metrics;
pub mod names;
pub mod orphans;
pub mod validate;

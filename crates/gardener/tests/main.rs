//! The Machine controller in a world: embedded API server, simulated STACKIT, hollow nodes, faults.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "main/boot_volumes.rs"]
mod boot_volumes;
#[path = "main/crowd.rs"]
mod crowd;
#[path = "main/crowd_sweep.rs"]
mod crowd_sweep;
#[path = "main/crowds.rs"]
mod crowds;
#[path = "main/cut_short.rs"]
mod cut_short;
#[path = "main/defects.rs"]
mod defects;
#[path = "main/doubles.rs"]
mod doubles;
#[path = "main/drain.rs"]
mod drain;
#[path = "main/drain_sweep.rs"]
mod drain_sweep;
#[path = "main/flags.rs"]
mod flags;
#[path = "main/flow.rs"]
mod flow;
#[path = "main/gone.rs"]
mod gone;
#[path = "main/hand_over.rs"]
mod hand_over;
#[path = "main/health.rs"]
mod health;
#[path = "main/in_place.rs"]
mod in_place;
#[path = "main/keep.rs"]
mod keep;
#[path = "main/keys.rs"]
mod keys;
#[path = "main/leadership.rs"]
mod leadership;
#[path = "main/letting_go.rs"]
mod letting_go;
#[path = "main/life.rs"]
mod life;
#[path = "main/limits.rs"]
mod limits;
#[path = "main/metrics.rs"]
mod metrics;
#[path = "main/neighbours.rs"]
mod neighbours;
#[path = "main/no_target.rs"]
mod no_target;
#[path = "main/node_owners.rs"]
mod node_owners;
#[path = "main/nodes.rs"]
mod nodes;
#[path = "main/orders.rs"]
mod orders;
#[path = "main/orphans.rs"]
mod orphans;
#[path = "main/outage.rs"]
mod outage;
#[path = "main/preserve.rs"]
mod preserve;
#[path = "main/refusals.rs"]
mod refusals;
#[path = "main/replace.rs"]
mod replace;
#[path = "main/rights.rs"]
mod rights;
#[path = "main/safety.rs"]
mod safety;
#[path = "main/samples.rs"]
mod samples;
#[path = "main/secrecy.rs"]
mod secrecy;
#[path = "main/sets.rs"]
mod sets;
#[path = "main/sets_events.rs"]
mod sets_events;
#[path = "main/sets_sweep.rs"]
mod sets_sweep;
#[path = "main/sweep.rs"]
mod sweep;
#[path = "main/table_of_defects.rs"]
mod table_of_defects;
#[path = "main/template.rs"]
mod template;
#[path = "main/thaw.rs"]
mod thaw;
#[path = "main/thousand.rs"]
mod thousand;
#[path = "main/thrift.rs"]
mod thrift;
#[path = "main/tokens.rs"]
mod tokens;
#[path = "main/two_clusters.rs"]
mod two_clusters;
#[path = "main/unknowns.rs"]
mod unknowns;
#[path = "main/update_sweep.rs"]
mod update_sweep;
#[path = "main/vpsie.rs"]
mod vpsie;

//! How fast a world starts: printed, not judged, since that depends on the machine.

use hostler_sim::{Plan, World, sweep::paused};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use std::time::Instant;

const WORLDS: u32 = 20;

#[test]
fn a_fresh_world_answers() {
    let start = Instant::now();
    for seed in 0..WORLDS {
        let answers = paused(async {
            let world = World::in_virtual_time(Plan::seeded(seed.into()));
            Api::<Namespace>::all(world.client()).get("default").await.is_ok()
        });
        assert!(answers.unwrap());
    }
    println!("a world starts and answers within {:?}", start.elapsed() / WORLDS);
}

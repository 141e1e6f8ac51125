//! An API server that is away for long is no reason to restart the controller.

use crate::flow::{Seat, Stage, controller_on, machine};
use hostler_base::transport;
use hostler_controller::Health;
use hostler_gardener::{Options, api::Phase};
use hostler_sim::{Fault, Plan, stackit::Settings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const SOON: Duration = Duration::from_mins(15);

async fn healthz(health: &Health) -> (u16, String) {
    let served = transport::from_service(health.router().into_service());
    let request = http::Request::get("/healthz").body(transport::empty()).unwrap();
    let answer = transport::exchange(&served, request, 1 << 20).await.unwrap();
    (answer.status().as_u16(), String::from_utf8(answer.into_body().to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_process_stays_healthy_while_an_api_server_is_away() {
    for fault in [Fault::Refused, Fault::Dead] {
        let away = Arc::new(AtomicBool::new(false));
        let (is_away, chosen) = (away.clone(), fault.clone());
        let plan = Plan::seeded(91).fault_when(move |boundary, _| {
            let kubernetes = boundary.template.starts_with("/api");
            (kubernetes && is_away.load(Ordering::Relaxed)).then(|| chosen.clone())
        });
        let mut stage = Stage::new(plan, Settings::default()).await;
        let seat = Seat::default();
        let health = seat.health.clone();
        stage.world.start("machine-controller", move |context| {
            Box::pin(controller_on(seat.clone(), context, Options::default()))
        });
        stage.create_class_and_secret().await;
        stage.create(stage.machines(), machine("m-2")).await;
        stage.run_until_phase("m-2", Phase::Running, SOON).await.unwrap();
        // One that is on its way, and one that is going.
        stage.create(stage.machines(), machine("m-3")).await;
        stage.delete_machine("m-2").await;
        away.store(true, Ordering::Relaxed);
        for _ in 0..12 {
            stage.world.run_for(Duration::from_mins(1)).await;
            assert_eq!(healthz(&health).await, (200, "ok\n".to_owned()), "{fault}");
        }
        away.store(false, Ordering::Relaxed);
        stage.run_until_gone("m-2", SOON).await.unwrap();
        stage.run_until_phase("m-3", Phase::Running, SOON).await.unwrap();
        assert_eq!(healthz(&health).await, (200, "ok\n".to_owned()), "{fault}");
    }
}

//! However many machines are looked at, the cloud is asked once for all of them.

use crate::servers::{Stage, order, order_of};
use futures::future::join_all;
use hostler_driver::{Code, Found, How, Machine, Order, Settled};
use hostler_sim::stackit::{Fault, Settings};
use hostler_stackit::Environment;
use serde_json::json;
use std::time::Duration;

const MANY: usize = 50;
/// Who asks while a list is under way waits for the next one, so it takes a few.
const FEW: u64 = 8;

fn orders() -> Vec<Order> {
    let allowed = json!({"allowedAddresses": ["10.0.0.0/8"]});
    (0..MANY).map(|number| order_of(&format!("m-{number}"), &allowed)).collect()
}

/// Their machines as they are after their servers have booted.
async fn all_booted(stage: &Stage, orders: &[Order]) -> Vec<Machine> {
    let mut machines = Vec::new();
    for order in orders {
        machines.push(stage.driver.create(order).await.unwrap());
    }
    stage.clock.sleep(Duration::from_secs(10)).await;
    machines
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_looked_for_in_one_list_and_settled_by_another() {
    let stage = Stage::new();
    let orders = orders();
    let found = join_all(orders.iter().map(|order| stage.driver.find(&order.identity, None))).await;
    assert!(found.into_iter().all(|finding| finding.unwrap().found == Found::Absent));
    assert!(stage.calls("ListServers") <= FEW, "{}", stage.calls("ListServers"));

    let made = all_booted(&stage, &orders).await;
    let looks = orders.iter().zip(&made);
    let looks = looks.map(|(order, machine)| stage.driver.look(&order.identity, &machine.provider_id));
    let running: Vec<Machine> = join_all(looks)
        .await
        .into_iter()
        .map(|finding| finding.unwrap().found.machines().first().unwrap().clone())
        .collect();
    assert!(stage.calls("ListServers") <= 2 * FEW, "{}", stage.calls("ListServers"));
    assert_eq!(stage.calls("GetServer"), 0);

    let settled = orders.iter().zip(&running).map(|(order, machine)| stage.driver.settle(order, machine));
    for (settled, machine) in join_all(settled).await.into_iter().zip(&running) {
        let Settled::Done(settled) = settled.unwrap() else { panic!("{}", machine.name) };
        assert_eq!((settled.addresses.len(), &settled.provider_id), (1, &machine.provider_id));
    }
    assert!(stage.calls("ListProjectNICs") <= FEW, "{}", stage.calls("ListProjectNICs"));
    assert_eq!(stage.calls("GetServer"), 0);
    assert_eq!(stage.calls("UpdateNic"), MANY as u64);
    assert!(stage.cloud.nics().iter().all(|nic| nic.allowed_addresses == ["10.0.0.0/8"]));

    let ends = orders.iter().zip(&made).map(|(order, made)| stage.driver.delete(order, &made.provider_id));
    assert!(join_all(ends).await.into_iter().all(|deletion| deletion.is_ok()));
    assert_eq!((stage.calls("DeleteServer"), stage.calls("GetServer")), (MANY as u64, 0));
}

#[tokio::test(start_paused = true)]
async fn what_a_list_does_not_show_is_asked_for() {
    let settings = Settings { list_lag: Duration::from_secs(60), ..Settings::default() };
    let stage = Stage::with(settings, Environment::simulated(""));
    let order = order("m-1");
    let made = all_booted(&stage, std::slice::from_ref(&order)).await.remove(0);
    let finding = stage.driver.look(&order.identity, &made.provider_id).await.unwrap();
    assert_eq!(finding.evidence.how, How::Asked);
    assert_eq!(finding.found.machines().len(), 1);
    stage.clock.sleep(Duration::from_secs(60)).await;
    let finding = stage.driver.look(&order.identity, &made.provider_id).await.unwrap();
    assert_eq!(finding.evidence.how, How::Listed);

    stage.driver.delete(&order, &made.provider_id).await.unwrap();
    stage.clock.sleep(Duration::from_secs(60)).await;
    let finding = stage.driver.look(&order.identity, &made.provider_id).await.unwrap();
    assert_eq!((finding.evidence.how, finding.found), (How::Asked, Found::Absent));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_shows_nothing_to_anybody() {
    let stage = Stage::new();
    let orders = orders();
    let made = all_booted(&stage, &orders).await;
    stage.fault(Fault::on("ListServers").status(403));
    let looks = orders.iter().zip(&made);
    let looks = looks.map(|(order, machine)| stage.driver.look(&order.identity, &machine.provider_id));
    assert!(join_all(looks).await.into_iter().all(|look| look.is_err()));
    let finds = orders.iter().map(|order| stage.driver.find(&order.identity, None));
    let failures = join_all(finds).await.into_iter().map(|find| find.unwrap_err().code);
    assert!(failures.into_iter().all(|code| code == Code::PermissionDenied));
    assert_eq!(stage.calls("GetServer"), 0);
    assert!(stage.calls("ListServers") <= 2 * FEW, "{}", stage.calls("ListServers"));
    stage.cloud.clear_faults();
    let finding = stage.driver.find(&orders[0].identity, None).await.unwrap();
    assert_eq!(finding.found.machines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_nics_cannot_be_listed_is_asked_itself() {
    let stage = Stage::new();
    let order = order_of("m-1", &json!({"allowedAddresses": ["10.0.0.0/8"]}));
    let machine = stage.booted(&order).await;
    stage.fault(Fault::on("ListProjectNICs").status(403));
    let before = stage.calls("GetServer");
    stage.settle(&order, &machine).await;
    assert_eq!(stage.calls("GetServer"), before + 1);
    assert_eq!(stage.cloud.nics()[0].allowed_addresses, ["10.0.0.0/8"]);
}

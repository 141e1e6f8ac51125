//! What becomes of boot volumes when their servers go, and that nothing else goes with them.

use crate::{
    servers::{NETWORK, Stage, order, order_of, stackit_id},
    stage::{PROJECT, REGION, surroundings},
};
use hostler_driver::{Code, Credentials, Deletion, DriverFactory, Found, ProviderId, Scope, State, Written};
use hostler_sim::stackit::{Fault, Settings};
use hostler_stackit::{
    Environment, StackitFactory,
    wire::{AttachmentChange, NewNic, NewVolume, VolumeChange},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

fn volume(zone: &str) -> NewVolume {
    NewVolume { availability_zone: zone.to_owned(), size: Some(1), ..NewVolume::default() }
}

/// What another process would have.
fn factory(stage: &Stage) -> StackitFactory {
    let surroundings = surroundings(stage.cloud.transport(), &stage.clock);
    StackitFactory::with_environment(surroundings, Environment::simulated(""))
}

/// A server as the Go provider makes it for the machine `m-1` of a class that says nothing about boot volumes.
fn of_go(stage: &Stage) -> ProviderId {
    let labels = [
        ("kubernetes.io/cluster", "shoot"),
        ("kubernetes.io/machine", "m-1"),
        ("kubernetes.io/machineclass", "c"),
    ];
    let server = stage.cloud.add_foreign(PROJECT, REGION, "m-1", &labels);
    assert!(stage.cloud.let_volumes_stay(&server));
    stackit_id(&server)
}

#[tokio::test(start_paused = true)]
async fn what_was_given_stays_and_what_was_made_goes() {
    for (boot, stays) in [
        (Value::Null, 2),
        (json!({"size": 50}), 2),
        (json!({"deleteOnTermination": true}), 2),
        (json!({"deleteOnTermination": false}), 3),
    ] {
        let stage = Stage::new();
        let given = stage.other.create_volume(&volume("eu01-1")).await.unwrap().id;
        let by_csi = stage.other.create_volume(&volume("eu01-1")).await.unwrap().id;
        let nic = stage.other.create_nic(NETWORK, &NewNic::default()).await.unwrap().id;
        stage.clock.sleep(Duration::from_secs(10)).await;
        let more = json!({"volumes": [given], "networking": {"nicIds": [nic]}, "bootVolume": boot,
            "availabilityZone": "eu01-1"});
        let order = order_of("m-1", &more);
        let machine = stage.booted(&order).await;
        let server = machine.provider_id.server();
        stage.other.attach_volume(server, &by_csi, AttachmentChange::default()).await.unwrap();
        stage.settle(&order, &machine).await;
        stage.gone(&order, &machine.provider_id).await;
        stage.clock.sleep(Duration::from_secs(10)).await;
        let left: Vec<String> = stage.cloud.volumes().into_iter().map(|volume| volume.id).collect();
        assert!(left.contains(&given) && left.contains(&by_csi), "{boot}");
        assert_eq!(left.len(), stays, "{boot}");
        assert_eq!(stage.cloud.nics().len(), 1, "{boot}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_go_provider_takes_its_boot_volume_along() {
    let stage = Stage::new();
    let id = of_go(&stage);
    stage.clock.sleep(Duration::from_secs(10)).await;
    let order = order_of("m-1", &json!({"bootVolume": null}));
    // A fault that passes is waited for, and the server stays meanwhile.
    stage.fault(Fault::on("UpdateAttachedVolume").status(409).times(1));
    let failure = stage.driver.delete(&order, &id).await.unwrap_err();
    assert_eq!((failure.code, stage.calls("DeleteServer")), (Code::Aborted, 0));
    stage.gone(&order, &id).await;
    stage.clock.sleep(Duration::from_secs(10)).await;
    assert!(stage.cloud.volumes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ran_is_deleted_and_its_volume_after_it() {
    let fixed = |status: &str| [status.to_owned()].into();
    let failing = Settings {
        fails: ["m-1".to_owned()].into(),
        fixed_attachments: fixed("ERROR"),
        ..Settings::default()
    };
    let booting = Settings {
        boot_time: Duration::from_hours(1),
        fixed_attachments: fixed("CREATING"),
        ..Settings::default()
    };
    for settings in [failing, booting] {
        let stage = Stage::with(settings, Environment::simulated(""));
        let given = stage.other.create_volume(&volume("eu01-1")).await.unwrap().id;
        stage.clock.sleep(Duration::from_secs(10)).await;
        let more = json!({"bootVolume": null, "volumes": [given], "availabilityZone": "eu01-1"});
        let order = order_of("m-1", &more);
        let machine = stage.booted(&order).await;
        let id = &machine.provider_id;
        assert_eq!(stage.driver.delete(&order, id).await, Ok(Deletion::Ordered));
        stage.clock.sleep(Duration::from_secs(11)).await;
        assert!(stage.cloud.servers().is_empty() && stage.cloud.volumes().len() == 2);

        // What is left of it is shown to whoever looks, in whatever way, also to another process.
        let factory = factory(&stage);
        let credentials = Credentials::new([("project-id", PROJECT)]);
        let fresh = factory.driver(&credentials, &order.spec, Written::default()).unwrap();
        for driver in [&stage.driver, &fresh] {
            let listed = driver.find(&order.identity, None).await.unwrap().found;
            let asked = driver.find(&order.identity, Some(id)).await.unwrap().found;
            let looked = driver.look(&order.identity, id).await.unwrap().found;
            let all = driver.list(&Scope::Domain("shoot".into()), None).await.unwrap();
            for found in [listed.machines(), asked.machines(), looked.machines(), all.machines()] {
                let [left] = found else { panic!("{found:?}") };
                assert_eq!(left.provider_id, *id);
                assert!(
                    matches!(&left.state, State::Failed { message, .. } if message.contains("boot volume"))
                );
            }
        }
        // Nobody but its own machine has it deleted.
        let other = order_of("m-2", &more);
        let failure = fresh.delete(&other, id).await.unwrap_err();
        assert_eq!((failure.code, stage.calls("DeleteVolume")), (Code::InvalidArgument, 0));
        assert_eq!(fresh.delete(&order, id).await, Ok(Deletion::Ordered));
        stage.clock.sleep(Duration::from_secs(11)).await;
        let left: Vec<String> = stage.cloud.volumes().into_iter().map(|volume| volume.id).collect();
        assert_eq!(left, [given]);
        for driver in [&stage.driver, &fresh] {
            // Whoever labelled it asks for it himself before he believes that it is gone.
            driver.delete(&order, id).await.unwrap();
            assert!(matches!(driver.delete(&order, id).await, Ok(Deletion::Absent(_))));
            assert_eq!(driver.find(&order.identity, None).await.unwrap().found, Found::Absent);
        }
        assert_eq!(stage.calls("DeleteVolume"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_label_somebody_took_off_is_theirs() {
    let settings = Settings {
        boot_time: Duration::from_hours(1),
        fixed_attachments: ["CREATING".to_owned()].into(),
        ..Settings::default()
    };
    let stage = Stage::with(settings, Environment::simulated(""));
    let order = order_of("m-1", &json!({"bootVolume": null}));
    let id = stage.driver.create(&order).await.unwrap().provider_id;
    assert_eq!(stage.driver.delete(&order, &id).await, Ok(Deletion::Ordered));
    stage.clock.sleep(Duration::from_secs(11)).await;
    let volume = stage.cloud.volumes().remove(0).id;
    let off = BTreeMap::from([("hostler.dev/boot-volume".to_owned(), None)]);
    let off = VolumeChange { labels: Some(off), ..VolumeChange::default() };
    stage.other.update_volume(&volume, &off).await.unwrap();
    stage.driver.delete(&order, &id).await.unwrap();
    assert!(matches!(stage.driver.delete(&order, &id).await, Ok(Deletion::Absent(_))));
    assert_eq!((stage.calls("DeleteVolume"), stage.cloud.volumes().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_can_neither_go_nor_be_labelled_keeps_its_server() {
    let settings = Settings { fixed_attachments: ["CREATING".to_owned()].into(), ..Settings::default() };
    let stage = Stage::with(settings, Environment::simulated(""));
    let order = order_of("m-1", &json!({"bootVolume": null}));
    let id = stage.driver.create(&order).await.unwrap().provider_id;
    stage.fault(Fault::on("UpdateVolume").status(409));
    let failure = stage.driver.delete(&order, &id).await.unwrap_err();
    assert_eq!((failure.code, stage.calls("DeleteServer")), (Code::Aborted, 0));
    assert!(failure.message.contains(&stage.cloud.volumes()[0].id), "{failure}");
    // When it runs, its volume can be told.
    stage.clock.sleep(Duration::from_secs(10)).await;
    stage.gone(&order, &id).await;
    assert!(stage.cloud.volumes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_volumes_looks_after_servers_all_the_same() {
    let stage = Stage::new();
    stage.fault(Fault::on("ListVolumes").status(403));
    let order = order("m-1");
    let machine = stage.booted(&order).await;
    let found = stage.driver.find(&order.identity, None).await.unwrap().found;
    assert!(matches!(found, Found::One(found) if found.provider_id == machine.provider_id));
    let asked = stage.calls("ListVolumes");
    for _ in 0..5 {
        stage.driver.find(&order.identity, None).await.unwrap();
    }
    assert_eq!(stage.calls("ListVolumes"), asked, "not again and again");
    stage.gone(&order, &machine.provider_id).await;
}

/// Another process has labelled a volume; this one cannot list volumes when it begins.
#[tokio::test(start_paused = true)]
async fn what_a_server_left_is_found_once_volumes_can_be_listed_again() {
    let table = [
        // the refusal, and after how many minutes it is asked again
        (400, 60),
        (401, 60),
        (403, 60),
        (404, 60),
        (409, 1),
        (413, 60),
        (429, 1),
        (500, 1),
        (502, 1),
        (504, 1),
    ];
    for (status, minutes) in table {
        let settings = Settings {
            boot_time: Duration::from_hours(1),
            fixed_attachments: ["CREATING".to_owned()].into(),
            ..Settings::default()
        };
        let stage = Stage::with(settings, Environment::simulated(""));
        let order = order_of("m-1", &json!({"bootVolume": null}));
        let id = stage.driver.create(&order).await.unwrap().provider_id;
        assert_eq!(stage.driver.delete(&order, &id).await, Ok(Deletion::Ordered));
        stage.clock.sleep(Duration::from_secs(11)).await;
        assert_eq!(stage.cloud.volumes().len(), 1);

        let factory = factory(&stage);
        let credentials = Credentials::new([("project-id", PROJECT)]);
        let fresh = factory.driver(&credentials, &order.spec, Written::default()).unwrap();
        stage.fault(Fault::on("ListVolumes").status(status));
        let found = fresh.find(&order.identity, None).await.unwrap().found;
        assert_eq!(found, Found::Absent, "{status}: servers are looked after all the same");
        let asked = stage.calls("ListVolumes");
        stage.cloud.clear_faults();
        stage.clock.sleep(Duration::from_secs(minutes * 60 - 30)).await;
        fresh.find(&order.identity, None).await.unwrap();
        assert_eq!(stage.calls("ListVolumes"), asked, "{status}: not again and again");
        stage.clock.sleep(Duration::from_secs(60)).await;
        let left = fresh.find(&order.identity, None).await.unwrap().found;
        assert_eq!(left.machines().len(), 1, "{status}: {left:?}");
        assert_eq!(fresh.delete(&order, &id).await, Ok(Deletion::Ordered), "{status}");
        stage.clock.sleep(Duration::from_secs(11)).await;
        assert!(stage.cloud.volumes().is_empty(), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_changed_orphans_no_volume() {
    let (without, with) = (json!({"bootVolume": null}), json!({"bootVolume": {"size": 50}}));
    let (stays, unreadable) = (json!({"bootVolume": {"deleteOnTermination": false}}), json!({"volumes": 7}));
    let table = [
        // what it was made with, by us or by the Go provider, what the class says at the end, whether the volume is left
        (&without, true, &with, 0),
        (&without, true, &unreadable, 0),
        (&without, true, &stays, 1),
        (&with, true, &unreadable, 0),
        (&stays, true, &with, 1),
        (&stays, true, &without, 1),
        (&stays, true, &unreadable, 1),
        (&without, false, &without, 0),
        (&without, false, &with, 0),
        (&without, false, &stays, 1),
        // Nobody knows whether it was to stay.
        (&without, false, &unreadable, 1),
    ];
    for (made_with, ours, class, left) in table {
        let stage = Stage::new();
        let case = format!("{made_with} {ours} {class}");
        let order = order_of("m-1", made_with);
        let id = if ours { stage.driver.create(&order).await.unwrap().provider_id } else { of_go(&stage) };
        stage.clock.sleep(Duration::from_secs(10)).await;
        stage.gone(&order_of("m-1", class), &id).await;
        stage.clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.cloud.volumes().len(), left, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_a_server_does_not_tell_its_attachment_is_asked() {
    for (boot, changes, left) in
        [(Value::Null, 1, 0), (json!({"size": 50}), 0, 0), (json!({"deleteOnTermination": false}), 0, 1)]
    {
        for settled in [true, false] {
            let settings = Settings { silent_boot_volumes: true, ..Settings::default() };
            let stage = Stage::with(settings, Environment::simulated(""));
            let order = order_of("m-1", &json!({"bootVolume": boot}));
            let machine = stage.booted(&order).await;
            if settled {
                stage.settle(&order, &machine).await;
                stage.settle(&order, &machine).await;
                assert_eq!(stage.calls("UpdateAttachedVolume"), changes, "{boot}: once is enough");
            }
            stage.gone(&order, &machine.provider_id).await;
            stage.clock.sleep(Duration::from_secs(10)).await;
            assert_eq!(stage.calls("UpdateAttachedVolume"), changes, "{boot} {settled}");
            assert_eq!(stage.calls("GetAttachedVolume") > 0, left == 0, "{boot} {settled}");
            assert_eq!(stage.cloud.volumes().len(), left, "{boot} {settled}");
        }
    }
}

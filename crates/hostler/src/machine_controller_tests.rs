use super::*;
use clap::{Command, FromArgMatches};
use hostler_base::{Body, transport};
use hostler_gardener::sets::SetOptions;
use http::{Request, Response};
use serde_json::{Value, json};
use std::convert::Infallible;

/// The flags of Gardener's provider binaries, with their defaults.
const FLAGS: [(&str, &str); 40] = [
    ("port", "10259"),
    ("address", "0.0.0.0"),
    ("namespace", "default"),
    ("control-kubeconfig", ""),
    ("target-kubeconfig", ""),
    ("concurrent-syncs", "50"),
    ("min-resync-period", "12h"),
    ("kube-api-qps", "20"),
    ("kube-api-burst", "30"),
    ("kube-api-content-type", "application/vnd.kubernetes.protobuf"),
    ("cloud-provider", ""),
    ("controller-start-interval", "0s"),
    ("profiling", "false"),
    ("contention-profiling", "false"),
    ("machine-creation-timeout", "20m"),
    ("machine-health-timeout", "10m"),
    ("machine-drain-timeout", "2h"),
    ("machine-inplace-update-timeout", "20m"),
    ("machine-preserve-timeout", "96h"),
    ("machine-max-evict-retries", "360"),
    ("machine-pv-detach-timeout", "2m"),
    ("machine-pv-reattach-timeout", "90s"),
    ("machine-safety-orphan-vms-period", "15m"),
    ("machine-safety-apiserver-statuscheck-period", "1m"),
    ("machine-safety-apiserver-statuscheck-timeout", "30s"),
    ("node-conditions", "KernelDeadlock,ReadonlyFilesystem,DiskPressure,NetworkUnavailable"),
    ("bootstrap-token-auth-extra-groups", ""),
    ("resource-exhausted-retry", "10m"),
    ("leader-elect", "true"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-retry-period", "2s"),
    ("leader-elect-resource-lock", "leases"),
    ("v", "0"),
    ("vmodule", ""),
    ("log-flush-frequency", "5s"),
    // Those of the manager that --with-machine-sets takes the place of.
    ("safety-up", "2"),
    ("safety-down", "1"),
    ("machine-safety-overshooting-period", "1m"),
    ("autoscaler-scaledown-annotation-during-rollout", "true"),
];

#[test]
fn the_end_fits_the_grace_period_and_leaves_time_for_the_lease() {
    let at_least_for_the_lease = Duration::from_secs(1);
    let before = hostler_controller::LAST_RUNS + hostler_controller::LAST_EVENTS;
    assert!(before + at_least_for_the_lease <= FAREWELL);
    assert!(FAREWELL < Duration::from_secs(5));
}

fn command() -> Command {
    Options::augment_args(Command::new("machine-controller"))
}

fn parsed(arguments: &[&str]) -> Options {
    let matches = command().try_get_matches_from([&["machine-controller"], arguments].concat()).unwrap();
    Options::from_arg_matches(&matches).unwrap()
}

#[test]
fn every_flag_of_gardeners_provider_binaries_is_there_with_its_default() {
    let command = command();
    for (flag, default) in FLAGS {
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(flag));
        let argument = argument.unwrap_or_else(|| panic!("--{flag} is missing"));
        let defaults: Vec<_> =
            argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        assert_eq!(defaults.concat(), default, "--{flag}");
    }
}

#[test]
fn without_flags_everything_is_as_the_library_has_it() {
    assert_eq!(parsed(&[]).chosen(), hostler_gardener::Options::default());
    assert_eq!(parsed(&[]).sets.chosen(), SetOptions::default());
}

#[test]
fn machine_sets_are_looked_after_only_where_that_is_wanted() {
    for (flags, expected) in [
        (&[][..], false),
        (&["--with-machine-sets"], true),
        (&["--with-machine-sets=true"], true),
        (&["--with-machine-sets=false"], false),
    ] {
        assert_eq!(parsed(flags).sets.with_machine_sets, expected, "{flags:?}");
    }
}

/// The objects of a file in `deploy/gardener`.
fn deployed(file: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/gardener").join(file);
    serde_saphyr::from_multiple(&fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn the_deployment_has_arguments_that_are_taken() {
    let deployment = &deployed("deployment.yaml")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect();
    let options = parsed(&arguments);
    options.check().unwrap();
    assert_eq!(json!(options.namespace), deployment["metadata"]["namespace"]);
    for port in [
        &container["ports"][0]["containerPort"],
        &container["livenessProbe"]["httpGet"]["port"],
        &container["readinessProbe"]["httpGet"]["port"],
    ] {
        assert_eq!(*port, json!(options.port));
    }
    let mounted: Vec<&str> = container["volumeMounts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["mountPath"].as_str())
        .collect();
    let kubeconfig = Path::new(&options.target_kubeconfig);
    assert_eq!(Some(mounted[0]), kubeconfig.parent().and_then(Path::to_str));
    assert!(mounted[1].starts_with("/etc/ssl/certs/"), "{mounted:?}");

    let accounts = deployed("control-cluster.yaml").into_iter().filter(|one| one["kind"] == "ServiceAccount");
    let accounts: Vec<Value> = accounts.map(|account| account["metadata"]["name"].clone()).collect();
    assert_eq!(accounts, [pod["serviceAccountName"].clone()]);
    let grace = Duration::from_secs(pod["terminationGracePeriodSeconds"].as_u64().unwrap());
    assert!(FAREWELL < grace);
    let image = container["image"].as_str().unwrap();
    assert_eq!(
        image,
        concat!("localhost/hostler:", env!("CARGO_PKG_VERSION")),
        "what `cargo xtask image` makes"
    );
}

#[test]
fn gardeners_arguments_are_taken_as_they_are() {
    let options = parsed(&[
        "--control-kubeconfig=inClusterConfig",
        "--kube-api-qps=100",
        "--kube-api-burst=200",
        "--machine-creation-timeout=45m",
        "--machine-drain-timeout=2h",
        "--machine-health-timeout=10m",
        "--machine-safety-apiserver-statuscheck-timeout=30s",
        "--machine-safety-apiserver-statuscheck-period=1m",
        "--machine-safety-orphan-vms-period=30m",
        "--namespace=shoot--foo--bar",
        "--port=10259",
        "--resource-exhausted-retry=30m",
        "--target-kubeconfig=/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig/kubeconfig",
        "--v=3",
    ]);
    options.check().unwrap();
    let chosen = options.chosen();
    assert_eq!(chosen.creation_timeout, Duration::from_mins(45));
    assert_eq!(chosen.orphans.period, Duration::from_mins(30));
    assert_eq!(chosen.resource_exhausted_retry, Duration::from_mins(30));
    assert_eq!(options.upstream.log_level(), None);
    assert_eq!(parsed(&["--v=4"]).upstream.log_level(), Some("debug"));
    assert_eq!(parsed(&["--v", "10"]).upstream.log_level(), Some("trace"));
    // Go's flags of one letter may have one dash.
    for one_dash in [&["-v=4"][..], &["-v", "4"], &["-v4"]] {
        assert_eq!(parsed(one_dash).upstream.log_level(), Some("debug"), "{one_dash:?}");
    }
}

#[test]
fn each_flag_is_heeded() {
    let defaults = hostler_gardener::Options::default();
    for flag in [
        "--machine-creation-timeout=7s",
        "--machine-health-timeout=7s",
        "--machine-drain-timeout=7s",
        "--machine-max-evict-retries=7",
        "--machine-pv-detach-timeout=7s",
        "--machine-pv-reattach-timeout=7s",
        "--machine-safety-orphan-vms-period=7s",
        "--machine-safety-orphan-vms-grace=7s",
        "--machine-safety-orphan-vms-limit=7",
        "--machine-safety-orphan-vms-dry-run",
        "--machine-safety-apiserver-statuscheck-period=70s",
        "--machine-safety-apiserver-statuscheck-timeout=7s",
        "--machine-inplace-update-timeout=7s",
        "--machine-preserve-timeout=7s",
        "--node-conditions=Tired",
        "--resource-exhausted-retry=7s",
        "--concurrent-syncs=7",
        "--min-resync-period=7s",
    ] {
        assert_ne!(parsed(&[flag]).chosen(), defaults, "{flag}");
    }
    for flag in [
        "--safety-up=7",
        "--safety-down=7",
        "--machine-safety-overshooting-period=7s",
        "--autoscaler-scaledown-annotation-during-rollout=false",
    ] {
        assert_ne!(parsed(&[flag]).sets.chosen(), SetOptions::default(), "{flag}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (flags, expected) in [
        (&["--contention-profiling"][..], "--contention-profiling needs --profiling"),
        (&["--leader-elect-resource-lock=endpoints"], "only leases are"),
        (&["--concurrent-syncs=0"], "--concurrent-syncs"),
        (
            &["--machine-safety-apiserver-statuscheck-period=1s"],
            "--machine-safety-apiserver-statuscheck-period",
        ),
    ] {
        let error = parsed(flags).check().unwrap_err().to_string();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[test]
fn bools_are_read_as_go_reads_them() {
    let is_bool = |argument: &&clap::Arg| {
        argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "BOOL"))
    };
    let all = command();
    let flags: Vec<&str> = all.get_arguments().filter(is_bool).filter_map(clap::Arg::get_long).collect();
    assert!(flags.len() >= 6 && flags.contains(&"with-machine-sets"), "{flags:?}");
    let switches = all.get_arguments().filter(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
    assert_eq!(switches.count(), 0, "a flag without a value takes none");
    let read = |argument: &str, flag: &str| {
        let matches = command().try_get_matches_from(["machine-controller", argument]).ok()?;
        matches.get_one::<bool>(&flag.replace('-', "_")).copied()
    };
    for flag in flags {
        for (value, expected) in [
            ("", Some(true)),
            ("=1", Some(true)),
            ("=t", Some(true)),
            ("=T", Some(true)),
            ("=true", Some(true)),
            ("=True", Some(true)),
            ("=TRUE", Some(true)),
            ("=0", Some(false)),
            ("=f", Some(false)),
            ("=F", Some(false)),
            ("=false", Some(false)),
            ("=False", Some(false)),
            ("=FALSE", Some(false)),
            ("=", None),
            ("=yes", None),
            ("=tRUE", None),
            ("=01", None),
        ] {
            assert_eq!(read(&format!("--{flag}{value}"), flag), expected, "--{flag}{value}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn lease_limits_and_groups_are_those_of_the_flags() {
    let options = parsed(&[
        "--namespace=shoot",
        "--leader-elect-lease-duration=30s",
        "--leader-elect-renew-deadline=20s",
        "--leader-elect-retry-period=4s",
        "--kube-api-qps=2",
        "--kube-api-burst=3",
        "--bootstrap-token-auth-extra-groups=system:bootstrappers:one,system:bootstrappers:two",
    ]);
    options.check().unwrap();
    let second = Duration::from_secs(1);
    let lease = lease(&options, "me");
    assert_eq!(
        (lease.duration, lease.renew_deadline, lease.retry_period),
        (30 * second, 20 * second, 4 * second)
    );
    let named = [lease.namespace.as_str(), lease.name.as_str(), lease.identity.as_str()];
    assert_eq!(named, ["shoot", "machine-controller", "me"]);
    assert_eq!(options.token_groups(), "system:bootstrappers:one,system:bootstrappers:two");

    let door = tower::service_fn(|_: Request<Body>| async {
        Ok::<_, Infallible>(Response::new(transport::empty()))
    });
    let clock = Clock::system();
    let stacked =
        stack_options("control", None, &options, Fence::open(clock.clone()), &Metrics::new(), &clock);
    let client = stack(transport::from_service(door), &stacked);
    let start = clock.instant();
    for _ in 0..5 {
        transport::send(&client, Request::new(transport::empty())).await.unwrap();
    }
    assert_eq!(start.elapsed(), second, "three at once, then one each half second");
}

#[test]
fn no_call_may_outlast_the_lease() {
    let clock = Clock::system();
    let closed = || Fence::closed(clock.clone());
    for (flags, kube, cloud) in [
        (&[][..], 5, 10),
        (
            &[
                "--leader-elect-lease-duration=3s",
                "--leader-elect-renew-deadline=2s",
                "--leader-elect-retry-period=500ms",
            ],
            1,
            2,
        ),
        (&["--leader-elect-lease-duration=200s", "--leader-elect-renew-deadline=100s"], 5, 50),
        (&["--leader-elect=false"], 5, 10),
    ] {
        let options = parsed(flags);
        options.check().unwrap();
        let stacked = stack_options("control", None, &options, closed(), &Metrics::new(), &clock);
        let cloud_stack = cloud_options("stackit", &options, closed(), &Metrics::new(), &clock);
        assert_eq!(stacked.timeout, Duration::from_secs(kube), "{flags:?}");
        assert_eq!(cloud_stack.timeout, Duration::from_secs(cloud), "{flags:?}");
        for stacked in [stacked, cloud_stack] {
            assert_eq!(stacked.fence.left(), Some(Duration::ZERO), "the fence of the lease is in it");
        }
    }
}

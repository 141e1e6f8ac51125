//! What a driver is asked for, by the names that Gardener's contract for drivers has for it.

use hostler_base::Clock;
use hostler_controller::durations;
use hostler_driver::Failure;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
};

/// A method of Gardener's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Create,
    Initialize,
    Delete,
    GetStatus,
    List,
    GetVolumeIds,
}

impl Method {
    /// As the drivers of other clouds label it.
    fn label(self) -> &'static str {
        match self {
            Self::Create => "create_machine",
            Self::Initialize => "initialize_machine",
            Self::Delete => "delete_machine",
            Self::GetStatus => "get_machine_status",
            Self::List => "list_machine",
            Self::GetVolumeIds => "get_volume_ids",
        }
    }
}

/// Counts and times what the drivers of one cloud are asked for. Clones share everything.
#[derive(Clone)]
pub(crate) struct DriverCalls {
    provider: &'static str,
    clock: Clock,
    duration: Family<OperationLabels, Histogram, fn() -> Histogram>,
    failed: Family<FailureLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    provider: &'static str,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    provider: &'static str,
    operation: &'static str,
    error_code: String,
}

impl DriverCalls {
    pub(crate) fn new(all: &hostler_controller::Metrics, provider: &'static str, clock: Clock) -> Self {
        let own = Self {
            provider,
            clock,
            duration: Family::new_with_constructor(durations),
            failed: Family::default(),
        };
        all.register_with(|registry| {
            let drivers = registry.sub_registry_with_prefix("mcm_cloud_api_driver");
            let help = "How long what a driver did took, if it went well";
            drivers.register("request_duration_seconds", help, own.duration.clone());
            drivers.register("requests_failed", "What a driver could not do", own.failed.clone());
        });
        own
    }

    /// The same for the drivers of another cloud.
    pub(crate) fn of(&self, provider: &'static str) -> Self {
        Self { provider, ..self.clone() }
    }

    pub(crate) async fn timed<T>(
        &self,
        method: Method,
        call: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let (provider, operation) = (self.provider, method.label());
        let start = self.clock.instant();
        let result = call.await;
        match &result {
            Ok(_) => {
                let took = self.clock.instant().saturating_duration_since(start);
                let labels = OperationLabels { provider, operation };
                self.duration.get_or_create(&labels).observe(took.as_secs_f64());
            }
            Err(failure) => {
                let labels = FailureLabels { provider, operation, error_code: failure.code.to_string() };
                self.failed.get_or_create(&labels).inc();
            }
        }
        result
    }
}

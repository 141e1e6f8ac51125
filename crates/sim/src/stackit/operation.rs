//! Which operation a method and a path mean, in both versions of the API.

use crate::cloud::path::{decoded, ids, named};
use http::Method;
use std::collections::BTreeSet;

/// What stands before an operation's own path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// `/v2/projects/{project}/regions/{region}`, without the region in version 1.
    Project,
    /// `/v2/regions/{region}`, without the region in version 1.
    Region,
    /// `/v2`.
    Global,
}

macro_rules! operations {
    ($($scope:ident $method:ident $path:literal => $name:ident,)*) => {
        /// The operations by the specification's ids.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Operation {
            $($name,)*
            /// The token endpoint, which is no part of the API's specification.
            Token,
        }

        impl Operation {
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Token => "Token",
                }
            }
        }

        const OPERATIONS: &[(Scope, Method, &str, Operation)] =
            &[$((Scope::$scope, Method::$method, $path, Operation::$name),)*];
    };
}

operations! {
    Project GET "servers" => ListServers,
    Project POST "servers" => CreateServer,
    Project GET "servers/{}" => GetServer,
    Project PATCH "servers/{}" => UpdateServer,
    Project DELETE "servers/{}" => DeleteServer,
    Project POST "servers/{}/start" => StartServer,
    Project POST "servers/{}/stop" => StopServer,
    Project POST "servers/{}/deallocate" => DeallocateServer,
    Project POST "servers/{}/reboot" => RebootServer,
    Project POST "servers/{}/resize" => ResizeServer,
    Project POST "servers/{}/rescue" => RescueServer,
    Project POST "servers/{}/unrescue" => UnrescueServer,
    Project GET "servers/{}/console" => GetServerConsole,
    Project GET "servers/{}/log" => GetServerLog,
    Project GET "servers/{}/nics" => ListServerNICs,
    Project PUT "servers/{}/nics/{}" => AddNicToServer,
    Project DELETE "servers/{}/nics/{}" => RemoveNicFromServer,
    Project POST "servers/{}/networks/{}" => AddNetworkToServer,
    Project DELETE "servers/{}/networks/{}" => RemoveNetworkFromServer,
    Project PUT "servers/{}/public-ips/{}" => AddPublicIpToServer,
    Project DELETE "servers/{}/public-ips/{}" => RemovePublicIpFromServer,
    Project PUT "servers/{}/security-groups/{}" => AddSecurityGroupToServer,
    Project DELETE "servers/{}/security-groups/{}" => RemoveSecurityGroupFromServer,
    Project GET "servers/{}/service-accounts" => ListServerServiceAccounts,
    Project PUT "servers/{}/service-accounts/{}" => AddServiceAccountToServer,
    Project DELETE "servers/{}/service-accounts/{}" => RemoveServiceAccountFromServer,
    Project GET "servers/{}/volume-attachments" => ListAttachedVolumes,
    Project PUT "servers/{}/volume-attachments/{}" => AddVolumeToServer,
    Project PATCH "servers/{}/volume-attachments/{}" => UpdateAttachedVolume,
    Project GET "servers/{}/volume-attachments/{}" => GetAttachedVolume,
    Project DELETE "servers/{}/volume-attachments/{}" => RemoveVolumeFromServer,
    Project GET "networks/{}/nics" => ListNics,
    Project POST "networks/{}/nics" => CreateNic,
    Project GET "networks/{}/nics/{}" => GetNic,
    Project PATCH "networks/{}/nics/{}" => UpdateNic,
    Project DELETE "networks/{}/nics/{}" => DeleteNic,
    Project GET "nics" => ListProjectNICs,
    Project GET "nics/{}" => GetProjectNIC,
    Project GET "networks" => ListNetworks,
    Project POST "networks" => CreateNetwork,
    Project GET "networks/{}" => GetNetwork,
    Project PATCH "networks/{}" => PartialUpdateNetwork,
    Project DELETE "networks/{}" => DeleteNetwork,
    Project GET "public-ips" => ListPublicIPs,
    Project POST "public-ips" => CreatePublicIP,
    Project GET "public-ips/{}" => GetPublicIP,
    Project PATCH "public-ips/{}" => UpdatePublicIP,
    Project DELETE "public-ips/{}" => DeletePublicIP,
    Project GET "security-groups" => ListSecurityGroups,
    Project POST "security-groups" => CreateSecurityGroup,
    Project GET "security-groups/{}" => GetSecurityGroup,
    Project PATCH "security-groups/{}" => UpdateSecurityGroup,
    Project DELETE "security-groups/{}" => DeleteSecurityGroup,
    Project GET "security-groups/{}/rules" => ListSecurityGroupRules,
    Project POST "security-groups/{}/rules" => CreateSecurityGroupRule,
    Project GET "security-groups/{}/rules/{}" => GetSecurityGroupRule,
    Project DELETE "security-groups/{}/rules/{}" => DeleteSecurityGroupRule,
    Project GET "volumes" => ListVolumes,
    Project POST "volumes" => CreateVolume,
    Project GET "volumes/{}" => GetVolume,
    Project PATCH "volumes/{}" => UpdateVolume,
    Project DELETE "volumes/{}" => DeleteVolume,
    Project POST "volumes/{}/resize" => ResizeVolume,
    Project GET "volume-performance-classes" => ListVolumePerformanceClasses,
    Project GET "volume-performance-classes/{}" => GetVolumePerformanceClass,
    Project GET "machine-types" => ListMachineTypes,
    Project GET "machine-types/{}" => GetMachineType,
    Project GET "images" => ListImages,
    Project GET "images/{}" => GetImage,
    Project GET "affinity-groups" => ListAffinityGroups,
    Project POST "affinity-groups" => CreateAffinityGroup,
    Project GET "affinity-groups/{}" => GetAffinityGroup,
    Project DELETE "affinity-groups/{}" => DeleteAffinityGroup,
    Project GET "quotas" => ListQuotas,
    Project GET "requests/{}" => GetProjectRequest,
    Global GET "keypairs" => ListKeyPairs,
    Global POST "keypairs" => CreateKeyPair,
    Global GET "keypairs/{}" => GetKeyPair,
    Global PATCH "keypairs/{}" => UpdateKeyPair,
    Global DELETE "keypairs/{}" => DeleteKeyPair,
    Region GET "availability-zones" => ListAvailabilityZones,
}

/// The names that a fault may be for.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(_, _, _, operation)| operation.name()).chain([Operation::Token.name()])
}

/// Every operation of the API by name, method and path in version 2, with names for what varies.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Method, String)> {
    OPERATIONS.iter().map(|(scope, method, path, operation)| {
        let before = match scope {
            Scope::Project => "/v2/projects/{project}/regions/{region}/",
            Scope::Region => "/v2/regions/{region}/",
            Scope::Global => "/v2/",
        };
        (operation.name(), method.clone(), format!("{before}{}", named(path)))
    })
}

/// Every path of both versions, with names for what varies.
pub(super) fn templates() -> BTreeSet<String> {
    let of = |(scope, _, path, _): &(Scope, Method, &str, Operation)| {
        let own = named(path);
        let (region, global) = match scope {
            Scope::Project => ("/v2/projects/{project}/regions/{region}/", "/v1/projects/{project}/"),
            Scope::Region => ("/v2/regions/{region}/", "/v1/"),
            Scope::Global => ("/v2/", "/v1/"),
        };
        [format!("{region}{own}"), format!("{global}{own}")]
    };
    OPERATIONS.iter().flat_map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// A call by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) operation: Operation,
    pub(super) version: Version,
    pub(super) project: String,
    /// Of version 2 only.
    pub(super) region: Option<String>,
    /// The other ids in the path, in order.
    pub(super) ids: Vec<String>,
}

/// Reads a path. Empty segments are skipped: an endpoint with a slash at its end is no mistake.
pub(super) fn target(method: &Method, path: &str) -> Option<Target> {
    let segments: Vec<String> =
        path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect::<Option<_>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (version, rest) = match segments.split_first()? {
        (&"v1", rest) => (Version::V1, rest),
        (&"v2", rest) => (Version::V2, rest),
        _ => return None,
    };
    let (scope, project, region, rest) = match (version, rest) {
        (Version::V1, ["projects", project, rest @ ..]) => (Scope::Project, *project, None, rest),
        (Version::V2, ["projects", project, "regions", region, rest @ ..]) => {
            (Scope::Project, *project, Some(*region), rest)
        }
        (Version::V1, ["availability-zones"]) => (Scope::Region, "", None, rest),
        (Version::V2, ["regions", region, rest @ ..]) => (Scope::Region, "", Some(*region), rest),
        (_, rest) => (Scope::Global, "", None, rest),
    };
    OPERATIONS.iter().find_map(|(at, with, template, operation)| {
        let ids = (*at == scope && with == method).then(|| ids(template, rest))??;
        let region = region.map(str::to_owned);
        Some(Target { operation: *operation, version, project: project.to_owned(), region, ids })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_both_versions_lead_to_the_same_operation() {
        let cases = [
            ("GET", "/v2/projects/p/regions/r/servers", "ListServers", "p", Some("r"), vec![]),
            ("GET", "//v2/projects/p/regions/r/servers/", "ListServers", "p", Some("r"), vec![]),
            ("GET", "/v1/projects/p/servers", "ListServers", "p", None, vec![]),
            ("POST", "/v1/projects/p/servers/s/start", "StartServer", "p", None, vec!["s"]),
            (
                "PATCH",
                "/v2/projects/p/regions/r/networks/n/nics/i",
                "UpdateNic",
                "p",
                Some("r"),
                vec!["n", "i"],
            ),
            ("GET", "/v2/regions/r/availability-zones", "ListAvailabilityZones", "", Some("r"), vec![]),
            ("GET", "/v1/availability-zones", "ListAvailabilityZones", "", None, vec![]),
            ("DELETE", "/v2/keypairs/a%40b", "DeleteKeyPair", "", None, vec!["a@b"]),
        ];
        for (method, path, operation, project, region, ids) in cases {
            let found = target(&method.parse().unwrap(), path).unwrap();
            assert_eq!(found.operation.name(), operation, "{path}");
            assert_eq!((found.project.as_str(), found.region.as_deref()), (project, region), "{path}");
            assert_eq!(found.ids, ids, "{path}");
        }
    }

    #[test]
    fn every_path_has_a_template_with_names() {
        let templates = templates();
        for template in [
            "/v2/projects/{project}/regions/{region}/servers",
            "/v2/projects/{project}/regions/{region}/servers/{server}",
            "/v2/projects/{project}/regions/{region}/networks/{network}/nics/{nic}",
            "/v1/projects/{project}/servers/{server}/volume-attachments/{volume-attachment}",
            "/v2/keypairs/{keypair}",
            "/v1/availability-zones",
        ] {
            assert!(templates.contains(template), "{template} is not in {templates:#?}");
        }
        assert!(templates.iter().all(|template| !template.contains("{}")), "{templates:#?}");
    }

    #[test]
    fn other_paths_lead_nowhere() {
        for (method, path) in [
            ("GET", "/"),
            ("GET", "/v3/projects/p/servers"),
            ("GET", "/v2/projects/p/servers"),
            ("GET", "/v1/projects/p/regions/r/servers"),
            ("PUT", "/v2/projects/p/regions/r/servers"),
            ("GET", "/v2/projects/p/regions/r/servers/s/more"),
            ("GET", "/v2/keypairs/%zz"),
        ] {
            assert_eq!(target(&method.parse().unwrap(), path), None, "{method} {path}");
        }
    }
}

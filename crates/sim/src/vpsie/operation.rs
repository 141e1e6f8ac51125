//! Which operation a method and a path mean.

use crate::cloud::path::{decoded, ids};
use http::Method;
use std::collections::BTreeSet;

/// What stands before an operation's own path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefix {
    Apps,
    Api,
    /// Clients are seen using either.
    Both,
}

impl Prefix {
    fn all(self) -> &'static [&'static str] {
        match self {
            Self::Apps => &["/apps/v2/"],
            Self::Api => &["/api/v2/"],
            Self::Both => &["/apps/v2/", "/api/v2/"],
        }
    }
}

macro_rules! operations {
    ($($prefix:ident $method:ident $path:literal => $name:ident,)*) => {
        /// The operations; VPSie publishes no names for them, these are ours.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Operation {
            $($name,)*
        }

        impl Operation {
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }

        const OPERATIONS: &[(Prefix, Method, &str, Operation)] =
            &[$((Prefix::$prefix, Method::$method, $path, Operation::$name),)*];
    };
}

// A path without something that varies comes before those that it fits as well.
operations! {
    Apps POST "auth/from/api" => ExchangeToken,
    Both GET "vm" => ListVMs,
    Both POST "vm" => CreateVM,
    Both DELETE "vm" => DeleteVM,
    Both GET "vm/pending" => ListPendingVMs,
    Both GET "vm/status/{vm}" => GetVMStatus,
    Both GET "vm/live/agent/status/{vm}" => GetAgentStatus,
    Both GET "vm/{vm}" => GetVM,
    Both POST "vm/start" => StartVM,
    Both POST "vm/stop" => StopVM,
    Both POST "vm/restart" => RestartVM,
    Both POST "vm/lock" => LockVM,
    Both POST "vm/unlock" => UnlockVM,
    Both POST "vm/changehostname" => ChangeHostname,
    Both POST "vm/addtags" => AddTags,
    Both POST "vm/sshkey" => AddSshKeyToVM,
    Both POST "vm/add/vpc" => AddVMToVpc,
    Both DELETE "vm/vpc" => RemoveVMFromVpc,
    Apps POST "custom/vm" => CreateCustomVM,
    Apps GET "vms/all/user" => ListAllVMs,
    Apps GET "storages/vms" => ListStorageVMs,
    Api GET "plans/category" => ListPlanCategories,
    Apps POST "resources" => ListPlans,
    Apps GET "datacenter" => ListDatacenters,
    Apps GET "images" => ListImages,
    Apps GET "custom/images" => ListCustomImages,
    Apps GET "projects" => ListProjects,
    Apps GET "projects/{project}" => GetProject,
    Apps GET "sshkeys" => ListSshKeys,
    Apps GET "sshkey/{key}" => GetSshKey,
    Apps POST "sshkey/add" => AddSshKey,
    Apps DELETE "sshkey" => DeleteSshKey,
    Apps GET "scripts" => ListScripts,
    Apps GET "script/{script}" => GetScript,
    Apps POST "script/add" => AddScript,
    Apps DELETE "script" => DeleteScript,
    Apps GET "vpc" => ListVpcs,
    Apps GET "vpc/{vpc}" => GetVpc,
    Apps POST "vpc/add" => AddVpc,
    Apps DELETE "vpc/{vpc}" => DeleteVpc,
    Apps GET "k8s/cluster/all" => ListClusters,
    Apps GET "k8s/cluster/byId/{cluster}" => GetCluster,
    Apps POST "k8s/create/cluster" => CreateCluster,
    Apps GET "k8s/node/groups/byClusterId/{cluster}" => ListNodeGroups,
    Apps POST "k8s/cluster/add/group" => AddNodeGroup,
    Apps DELETE "k8s/cluster/delete/group/{group}" => DeleteNodeGroup,
    Apps POST "k8s/offers" => ListKubeSizes,
    Apps POST "k8s/cluster/byId/{cluster}/add/slave/group/{group}" => AddWorkerToGroup,
    Apps POST "k8s/cluster/byId/{cluster}/add/slave" => AddWorker,
    Apps DELETE "k8s/cluster/byId/{cluster}/delete/slave" => DeleteWorker,
    Apps DELETE "k8s/cluster/byId/{cluster}/reduce" => ReduceWorkers,
}

/// The names that a fault may be for.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(_, _, _, operation)| operation.name())
}

/// Every operation by name, method and path, with names for what varies.
pub(super) fn all() -> impl Iterator<Item = (&'static str, Method, String)> {
    OPERATIONS.iter().flat_map(|(prefix, method, path, operation)| {
        prefix.all().iter().map(move |before| (operation.name(), method.clone(), format!("{before}{path}")))
    })
}

/// Every path, those that fit least first.
pub(super) fn templates() -> Vec<String> {
    let mut seen = BTreeSet::new();
    all().map(|(_, _, path)| path).filter(|path| seen.insert(path.clone())).collect()
}

/// A call by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) operation: Operation,
    /// The ids in the path, in order.
    pub(super) ids: Vec<String>,
}

/// Reads a path. Empty segments are skipped: an endpoint with a slash at its end is no mistake.
pub(super) fn target(method: &Method, path: &str) -> Option<Target> {
    let segments: Vec<String> =
        path.split('/').filter(|segment| !segment.is_empty()).map(decoded).collect::<Option<_>>()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (prefix, rest) = match segments.as_slice() {
        ["apps", "v2", rest @ ..] => (Prefix::Apps, rest),
        ["api", "v2", rest @ ..] => (Prefix::Api, rest),
        _ => return None,
    };
    OPERATIONS.iter().find_map(|(at, with, template, operation)| {
        let here = *at == prefix || *at == Prefix::Both;
        let ids = (here && with == method).then(|| ids(template, rest))??;
        Some(Target { operation: *operation, ids })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_operations() {
        let cases = [
            ("GET", "/apps/v2/vm", Some(("ListVMs", vec![]))),
            ("GET", "/api/v2/vm/", Some(("ListVMs", vec![]))),
            ("POST", "/api/v2/vm", Some(("CreateVM", vec![]))),
            ("GET", "/apps/v2/vm/pending", Some(("ListPendingVMs", vec![]))),
            ("GET", "/apps/v2/vm/7", Some(("GetVM", vec!["7"]))),
            ("GET", "/apps/v2/vm/status/7", Some(("GetVMStatus", vec!["7"]))),
            ("GET", "/api/v2/plans/category", Some(("ListPlanCategories", vec![]))),
            ("GET", "/apps/v2/plans/category", None),
            ("POST", "/api/v2/resources", None),
            (
                "POST",
                "/apps/v2/k8s/cluster/byId/c/add/slave/group/3",
                Some(("AddWorkerToGroup", vec!["c", "3"])),
            ),
            ("GET", "/v2/vm", None),
            ("PUT", "/apps/v2/vm", None),
            ("GET", "/apps/v2/vm/%zz", None),
        ];
        for (method, path, expected) in cases {
            let found = target(&method.parse().unwrap(), path);
            let found = found.map(|target| (target.operation.name(), target.ids));
            let expected =
                expected.map(|(name, ids)| (name, ids.into_iter().map(str::to_owned).collect::<Vec<_>>()));
            assert_eq!(found, expected, "{method} {path}");
        }
    }

    #[test]
    fn every_operation_is_reached_by_its_own_path() {
        for (name, method, path) in all() {
            let found = target(&method, &path).map(|target| target.operation.name());
            assert_eq!(found, Some(name), "{path}");
        }
    }
}

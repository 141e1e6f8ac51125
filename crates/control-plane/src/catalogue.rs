//! What can be built, and from what.

/// A Go module of ours that pins one family of binaries: their dependencies disagree, so there are several.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub name: &'static str,
    pub module: &'static str,
    pub sum: &'static str,
    /// Given to the linker, so that the binaries know their version.
    pub versions: &'static [(&'static str, &'static str)],
    /// Files of ours that are compiled, by name; most groups have none.
    pub sources: &'static [(&'static str, &'static str)],
    /// Directories that are copied from a module beside the binaries: (module, path in it, name here).
    pub assets: &'static [(&'static str, &'static str, &'static str)],
}

/// One binary.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binary {
    pub name: &'static str,
    pub group: &'static Group,
    pub package: &'static str,
}

macro_rules! group {
    ($name:literal, versions: $versions:expr, assets: $assets:expr) => {
        Group {
            name: $name,
            module: include_str!(concat!("../go/", $name, "/go.mod")),
            sum: include_str!(concat!("../go/", $name, "/go.sum")),
            sources: &[],
            versions: $versions,
            assets: $assets,
        }
    };
    ($name:literal, source: $source:literal) => {
        Group {
            sources: &[($source, include_str!(concat!("../go/", $name, "/", $source)))],
            ..group!($name, versions: &[], assets: &[])
        }
    };
}

const KUBERNETES_VERSION: &[(&str, &str)] = &[
    ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
    ("k8s.io/component-base/version.gitMajor", "1"),
    ("k8s.io/component-base/version.gitMinor", "36"),
];
const GARDENER: &str = "github.com/gardener/machine-controller-manager";
const CLUSTER_API: &str = "sigs.k8s.io/cluster-api";
const CLUSTER_API_VERSION: &[(&str, &str)] = &[
    ("sigs.k8s.io/cluster-api/version.gitVersion", "v1.13.6"),
    ("sigs.k8s.io/cluster-api/version.gitMajor", "1"),
    ("sigs.k8s.io/cluster-api/version.gitMinor", "13"),
];

static ETCD_GROUP: Group = group!("etcd", versions: &[], assets: &[]);
static KUBERNETES_GROUP: Group = group!("kubernetes", versions: KUBERNETES_VERSION, assets: &[]);
static GARDENER_GROUP: Group =
    group!("gardener", versions: &[], assets: &[(GARDENER, "kubernetes/crds", "crds")]);
static STACKIT_GROUP: Group = group!("stackit", versions: &[], assets: &[]);
static FILTERS_GROUP: Group = group!("filters", source: "main.go");
static KARPENTER_GROUP: Group = group!("karpenter", source: "main.go");
static CLUSTER_API_GROUP: Group = group!("cluster-api", versions: CLUSTER_API_VERSION, assets: &[
    (CLUSTER_API, "config/crd/bases", "core/crds"),
    (CLUSTER_API, "config/webhook", "core/webhooks"),
    (CLUSTER_API, "bootstrap/kubeadm/config/crd/bases", "bootstrap/crds"),
    (CLUSTER_API, "bootstrap/kubeadm/config/webhook", "bootstrap/webhooks"),
    (CLUSTER_API, "controlplane/kubeadm/config/crd/bases", "control-plane/crds"),
    (CLUSTER_API, "controlplane/kubeadm/config/webhook", "control-plane/webhooks"),
]);

pub static ETCD: Binary = Binary { name: "etcd", group: &ETCD_GROUP, package: "go.etcd.io/etcd/server/v3" };
pub static KUBE_APISERVER: Binary = Binary {
    name: "kube-apiserver",
    group: &KUBERNETES_GROUP,
    package: "k8s.io/kubernetes/cmd/kube-apiserver",
};
pub static KUBE_CONTROLLER_MANAGER: Binary = Binary {
    name: "kube-controller-manager",
    group: &KUBERNETES_GROUP,
    package: "k8s.io/kubernetes/cmd/kube-controller-manager",
};
pub static KUBE_SCHEDULER: Binary = Binary {
    name: "kube-scheduler",
    group: &KUBERNETES_GROUP,
    package: "k8s.io/kubernetes/cmd/kube-scheduler",
};
pub static KUBECTL: Binary =
    Binary { name: "kubectl", group: &KUBERNETES_GROUP, package: "k8s.io/kubernetes/cmd/kubectl" };
/// Gardener's own manager of MachineDeployments and MachineSets.
pub static MACHINE_CONTROLLER_MANAGER: Binary = Binary {
    name: "machine-controller-manager",
    group: &GARDENER_GROUP,
    package: "github.com/gardener/machine-controller-manager/cmd/machine-controller-manager",
};
/// The Go machine controller for STACKIT, for comparisons.
pub static STACKIT_MACHINE_CONTROLLER: Binary = Binary {
    name: "stackit-machine-controller",
    group: &STACKIT_GROUP,
    package: "github.com/stackitcloud/machine-controller-manager-provider-stackit/cmd/machine-controller",
};
pub static CLUSTER_API_CORE: Binary =
    Binary { name: "cluster-api", group: &CLUSTER_API_GROUP, package: "sigs.k8s.io/cluster-api" };
pub static KUBEADM_BOOTSTRAP: Binary = Binary {
    name: "kubeadm-bootstrap",
    group: &CLUSTER_API_GROUP,
    package: "sigs.k8s.io/cluster-api/bootstrap/kubeadm",
};
pub static KUBEADM_CONTROL_PLANE: Binary = Binary {
    name: "kubeadm-control-plane",
    group: &CLUSTER_API_GROUP,
    package: "sigs.k8s.io/cluster-api/controlplane/kubeadm",
};
pub static CLUSTERCTL: Binary = Binary {
    name: "clusterctl",
    group: &CLUSTER_API_GROUP,
    package: "sigs.k8s.io/cluster-api/cmd/clusterctl",
};

/// Asks the scheduler's own filters about cases that come on standard input.
pub static SCHEDULER_FILTERS: Binary =
    Binary { name: "scheduler-filters", group: &FILTERS_GROUP, package: "." };
/// Asks Karpenter's scheduler about pods that come on standard input, for comparisons.
pub static KARPENTER: Binary = Binary { name: "karpenter-scheduler", group: &KARPENTER_GROUP, package: "." };

/// Everything that tests need, in the order in which it is built; benchmarks build `KARPENTER` themselves.
pub static ALL: [&Binary; 12] = [
    &ETCD,
    &KUBE_APISERVER,
    &KUBE_CONTROLLER_MANAGER,
    &KUBE_SCHEDULER,
    &KUBECTL,
    &MACHINE_CONTROLLER_MANAGER,
    &CLUSTER_API_CORE,
    &KUBEADM_BOOTSTRAP,
    &KUBEADM_CONTROL_PLANE,
    &CLUSTERCTL,
    &STACKIT_MACHINE_CONTROLLER,
    &SCHEDULER_FILTERS,
];

/// The binary of this name.
pub fn named(name: &str) -> Option<&'static Binary> {
    ALL.into_iter().chain([&KARPENTER]).find(|binary| binary.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_is_a_tool_of_its_module() {
        for binary in ALL {
            let tool = |line: &str| line.trim().trim_start_matches("tool ") == binary.package;
            let own = binary.package == "." && !binary.group.sources.is_empty();
            assert!(
                own || binary.group.module.lines().any(tool),
                "{} is no tool of {}",
                binary.package,
                binary.group.name
            );
            assert_eq!(named(binary.name).map(|found| found.package), Some(binary.package));
        }
    }

    #[test]
    fn the_linked_versions_are_those_of_the_modules() {
        for (group, module) in [(&KUBERNETES_GROUP, "k8s.io/kubernetes"), (&CLUSTER_API_GROUP, CLUSTER_API)] {
            let wanted = format!("{module} {}", group.versions[0].1);
            assert!(group.module.contains(&wanted), "{wanted} is not in go.mod");
        }
        let scheduler = format!("k8s.io/kubernetes {}", KUBERNETES_VERSION[0].1);
        assert!(FILTERS_GROUP.module.contains(&scheduler), "the filters are those of another scheduler");
    }
}

//! Which resources there are: the built-in ones as a table, custom ones as their definitions come and go.

use crate::{
    contract::GroupResource,
    crd::{CustomKind, CustomVersion},
    request,
    types::{self, TypeRef},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};
use tokio_util::sync::CancellationToken;

/// One resource in all its served versions.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) id: GroupResource,
    /// Where its objects are kept; differs from `id` only where two groups show the same objects.
    pub(crate) shelf: GroupResource,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) singular: String,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// Served versions, the preferred one first.
    pub(crate) versions: Vec<String>,
    pub(crate) storage_version: String,
    pub(crate) subresources: Vec<Subresource>,
    /// Answers and is not stored: access reviews and `bindings`.
    pub(crate) create_only: bool,
    /// A PUT to a name that is not there creates it.
    pub(crate) create_on_update: bool,
    /// An update may leave out the resource version.
    pub(crate) unconditional_update: bool,
    /// A delete answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    /// A delete leaves it time to end.
    pub(crate) graceful: bool,
    pub(crate) custom: Option<Custom>,
    /// What is known about the fields of a built-in kind, which has one version.
    pub(crate) ty: Option<TypeRef>,
}

/// What is known about a custom resource besides its names.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub(crate) kind: Arc<CustomKind>,
    /// Ends watches when the definition goes.
    pub(crate) gone: CancellationToken,
    /// The definition is being deleted: nothing new may be created.
    pub(crate) terminating: bool,
    /// Which state of the definition this was made of: its uid and generation.
    pub(crate) mark: (String, i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subresource {
    pub(crate) name: String,
    /// Group, version and kind where they differ from the resource's own.
    pub(crate) response: Option<(&'static str, &'static str, &'static str)>,
    pub(crate) verbs: &'static [&'static str],
}

pub(crate) const ALL_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const WRITE: &[&str] = &["get", "patch", "update"];

impl Resource {
    pub(crate) fn group(&self) -> &str {
        &self.id.group
    }

    pub(crate) fn name(&self) -> &str {
        &self.id.resource
    }

    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        if self.create_only {
            &["create"]
        } else if self.group().is_empty() && self.name() == "namespaces" {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else {
            &ALL_VERBS
        }
    }

    /// The subresources a version has: custom ones may differ in that.
    pub(crate) fn subresources_of(&self, version: &str) -> impl Iterator<Item = &Subresource> {
        let custom = self.custom.as_ref().and_then(|custom| custom.kind.version(version));
        self.subresources.iter().filter(move |sub| {
            custom.is_none_or(|custom| match sub.name.as_str() {
                "status" => custom.has_status(),
                _ => custom.scale().is_some(),
            })
        })
    }
}

/// A row of the table: group, version, resource, kind, short names, categories, subresources, flags.
/// Flags: `c` cluster-scoped, `o` create only, `p` PUT creates, `v` needs a resource version on update,
/// `d` delete answers with the object, `g` delete leaves a grace period.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const AUTH: &str = "authorization.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("", "v1", "bindings", "Binding", "", "", "", "o"),
    ("", "v1", "configmaps", "ConfigMap", "cm", "", "", ""),
    ("", "v1", "endpoints", "Endpoints", "ep", "", "", "p"),
    ("", "v1", "events", "Event", "ev", "", "", "p"),
    ("", "v1", "namespaces", "Namespace", "ns", "", "finalize status", "cd"),
    ("", "v1", "nodes", "Node", "no", "", "status", "c"),
    ("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", "pvc", "", "status", "d"),
    ("", "v1", "persistentvolumes", "PersistentVolume", "pv", "", "status", "cd"),
    ("", "v1", "pods", "Pod", "po", "all", "attach binding eviction exec log portforward status", "dg"),
    ("", "v1", "secrets", "Secret", "", "", "", ""),
    ("", "v1", "serviceaccounts", "ServiceAccount", "sa", "", "token", "d"),
    ("", "v1", "services", "Service", "svc", "all", "status", "pd"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "crd crds", "api-extensions", "status", "c"),
    ("apps", "v1", "controllerrevisions", "ControllerRevision", "", "", "", ""),
    ("apps", "v1", "daemonsets", "DaemonSet", "ds", "all", "status", ""),
    ("apps", "v1", "deployments", "Deployment", "deploy", "all", "scale status", ""),
    ("apps", "v1", "replicasets", "ReplicaSet", "rs", "all", "scale status", ""),
    ("apps", "v1", "statefulsets", "StatefulSet", "sts", "all", "scale status", ""),
    ("events.k8s.io", "v1", "events", "Event", "ev", "", "", "p"),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", "", "", "", "co"),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", "", "", "", "co"),
    (AUTH, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", "", "", "", "o"),
    (AUTH, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", "", "", "co"),
    (AUTH, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", "", "", "co"),
    (AUTH, "v1", "subjectaccessreviews", "SubjectAccessReview", "", "", "", "co"),
    ("batch", "v1", "cronjobs", "CronJob", "cj", "all", "status", ""),
    ("batch", "v1", "jobs", "Job", "", "all", "status", ""),
    ("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "csr", "", "approval status", "c"),
    ("coordination.k8s.io", "v1", "leases", "Lease", "", "", "", "pv"),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", "", "", "", ""),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", "", "status", "v"),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", "", "", "", "cp"),
    (RBAC, "v1", "clusterroles", "ClusterRole", "", "", "", "cp"),
    (RBAC, "v1", "rolebindings", "RoleBinding", "", "", "", "p"),
    (RBAC, "v1", "roles", "Role", "", "", "", "p"),
    ("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", "pc", "", "", "c"),
    (STORAGE, "v1", "csidrivers", "CSIDriver", "", "", "", "cvd"),
    (STORAGE, "v1", "csinodes", "CSINode", "", "", "", "cvd"),
    (STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", "", "", "", "v"),
    (STORAGE, "v1", "storageclasses", "StorageClass", "sc", "", "", "cd"),
    (STORAGE, "v1", "volumeattachments", "VolumeAttachment", "", "", "status", "cvd"),
];

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn subresource(name: &str) -> Subresource {
    let (response, verbs): (_, &'static [&'static str]) = match name {
        "scale" => (Some(("autoscaling", "v1", "Scale")), WRITE),
        "binding" => (Some(("", "v1", "Binding")), &["create"]),
        "eviction" => (Some(("policy", "v1", "Eviction")), &["create"]),
        "token" => (Some(("authentication.k8s.io", "v1", "TokenRequest")), &["create"]),
        "attach" => (Some(("", "v1", "PodAttachOptions")), &["create", "get"]),
        "exec" => (Some(("", "v1", "PodExecOptions")), &["create", "get"]),
        "portforward" => (Some(("", "v1", "PodPortForwardOptions")), &["create", "get"]),
        "log" => (None, &["get"]),
        "finalize" => (None, &["update"]),
        _ => (None, WRITE),
    };
    Subresource { name: name.to_owned(), response, verbs }
}

fn built_in(row: &Row) -> Resource {
    let (group, version, resource, kind, short_names, categories, subresources, flags) = row;
    let id = GroupResource::new(group, resource);
    let shelf = if *group == "events.k8s.io" { GroupResource::new("", "events") } else { id.clone() };
    Resource {
        id,
        shelf,
        kind: (*kind).to_owned(),
        list_kind: format!("{kind}List"),
        singular: kind.to_lowercase(),
        namespaced: !flags.contains('c'),
        short_names: words(short_names),
        categories: words(categories),
        versions: vec![(*version).to_owned()],
        storage_version: (*version).to_owned(),
        subresources: subresources.split_whitespace().map(subresource).collect(),
        create_only: flags.contains('o'),
        create_on_update: flags.contains('p'),
        unconditional_update: !flags.contains('v'),
        returns_deleted: flags.contains('d'),
        graceful: flags.contains('g'),
        custom: None,
        ty: types::kind(&request::api_version(group, version), kind),
    }
}

/// The resource a definition stands for.
pub(crate) fn custom(custom: Custom) -> Resource {
    let kind = &custom.kind;
    let names = kind.names().clone();
    let id = GroupResource::new(kind.group(), &names.plural);
    let mut versions: Vec<String> = kind
        .versions()
        .iter()
        .filter(|version| version.served())
        .map(|version| version.name().to_owned())
        .collect();
    sort_versions(&mut versions);
    let mut subresources = Vec::new();
    if kind.versions().iter().any(CustomVersion::has_status) {
        subresources.push(subresource("status"));
    }
    if kind.versions().iter().any(|version| version.scale().is_some()) {
        subresources.push(subresource("scale"));
    }
    Resource {
        shelf: id.clone(),
        id,
        kind: names.kind,
        list_kind: names.list_kind,
        singular: names.singular,
        namespaced: kind.namespaced(),
        short_names: names.short_names,
        categories: names.categories,
        versions,
        storage_version: kind.storage_version().to_owned(),
        subresources,
        create_only: false,
        create_on_update: false,
        unconditional_update: false,
        returns_deleted: false,
        graceful: false,
        custom: Some(custom),
        ty: None,
    }
}

/// Puts the preferred version first.
pub(crate) fn sort_versions(versions: &mut [String]) {
    versions
        .sort_by(|left, right| version_rank(right).cmp(&version_rank(left)).then_with(|| left.cmp(right)));
}

/// Orders versions as Kubernetes does: stable before beta before alpha before others, the newest first.
fn version_rank(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest.get(..digits)?.parse().ok()?;
        let tail = rest.get(digits..)?;
        if tail.is_empty() {
            return Some((3, major, 0));
        }
        let (level, minor) = match tail.strip_prefix("beta") {
            Some(minor) => (2, minor),
            None => (1, tail.strip_prefix("alpha")?),
        };
        Some((level, major, minor.parse().ok()?))
    };
    parse().unwrap_or((0, 0, 0))
}

/// The resources as they are now.
pub(crate) struct Registry {
    /// In the order of their ids.
    built_in: Vec<Arc<Resource>>,
    custom: RwLock<BTreeMap<GroupResource, Arc<Resource>>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        let mut built_in: Vec<Arc<Resource>> = ROWS.iter().map(built_in).map(Arc::new).collect();
        built_in.sort_by(|left, right| left.id.cmp(&right.id));
        Self { built_in, custom: RwLock::default() }
    }

    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Resource>> {
        let found =
            self.built_in(group, resource).or_else(|| self.custom(&GroupResource::new(group, resource)));
        found.filter(|resource| resource.versions.iter().any(|served| served == version))
    }

    pub(crate) fn by_id(&self, id: &GroupResource) -> Option<Arc<Resource>> {
        self.built_in(&id.group, &id.resource).or_else(|| self.custom(id))
    }

    fn built_in(&self, group: &str, resource: &str) -> Option<Arc<Resource>> {
        let order = |one: &Arc<Resource>| (one.group(), one.name()).cmp(&(group, resource));
        self.built_in.binary_search_by(order).ok().map(|index| Arc::clone(&self.built_in[index]))
    }

    fn custom(&self, id: &GroupResource) -> Option<Arc<Resource>> {
        self.custom.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    pub(crate) fn by_kind(&self, group: &str, kind: &str) -> Option<Arc<Resource>> {
        self.all().into_iter().find(|resource| resource.group() == group && resource.kind == kind)
    }

    /// All resources, in the order of (group, resource).
    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        let mut all = self.built_in.clone();
        all.extend(self.customs());
        all.sort_by(|left, right| left.id.cmp(&right.id));
        all
    }

    pub(crate) fn put_custom(&self, resource: Arc<Resource>) {
        let mut custom = self.custom.write().unwrap_or_else(PoisonError::into_inner);
        custom.insert(resource.id.clone(), resource);
    }

    /// Takes a custom resource away and ends its watches.
    pub(crate) fn remove_custom(&self, id: &GroupResource) {
        let removed = self.custom.write().unwrap_or_else(PoisonError::into_inner).remove(id);
        if let Some(custom) = removed.as_ref().and_then(|resource| resource.custom.as_ref()) {
            custom.gone.cancel();
        }
    }

    pub(crate) fn customs(&self) -> Vec<Arc<Resource>> {
        self.custom.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_by_maturity_and_age() {
        let mut versions =
            ["foo10", "v1alpha1", "v2", "v1beta2", "v10", "v1", "v2beta1", "foo1"].map(str::to_owned);
        sort_versions(&mut versions);
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo1", "foo10"]);
    }

    #[test]
    fn built_in_resources_are_found_by_group_version_and_name() {
        let registry = Registry::new();
        let pods = registry.find("", "v1", "pods").unwrap();
        assert!(pods.namespaced && pods.returns_deleted && pods.kind == "Pod");
        assert!(!registry.find("", "v1", "nodes").unwrap().namespaced);
        assert!(registry.find("", "v2", "pods").is_none());
        assert!(registry.find("apps", "v1", "pods").is_none());
        let events = registry.find("events.k8s.io", "v1", "events").unwrap();
        assert_eq!(events.shelf, GroupResource::new("", "events"));
    }
}

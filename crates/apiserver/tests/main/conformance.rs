//! Every conformance case on this server: in process, under paused time.

use crate::kit::options;
use futures::{FutureExt, future::BoxFuture};
use hostler_apiserver::{ApiServer, User};
use hostler_conformance::{Server, TestUser, areas, cases, run_all};
use http::{HeaderValue, Request, header::AUTHORIZATION};
use std::{collections::BTreeSet, sync::Arc};
use tower::ServiceExt;

struct Embedded(ApiServer);

impl Embedded {
    fn start() -> Self {
        let mut options = options();
        let user = |name: &str, group: &str| User {
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            groups: vec![group.to_owned(), "system:authenticated".to_owned()],
        };
        options.users.push(("admin-token".to_owned().into(), user("admin", "system:masters")));
        for one in [TestUser::Alice, TestUser::Bob, TestUser::Carol] {
            let token = format!("{}-token", one.name());
            options.users.push((token.into(), user(one.name(), one.group().unwrap_or_default())));
        }
        Self(ApiServer::new(options))
    }

    fn with_token(&self, token: Option<String>) -> kube::Client {
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        let service = self.0.router().map_request(move |mut request: Request<kube::client::Body>| {
            if let Some(token) = &token {
                request.headers_mut().insert(AUTHORIZATION, token.clone());
            }
            request.map(axum::body::Body::new)
        });
        kube::Client::new(service, "default")
    }
}

impl Server for Embedded {
    fn client(&self) -> kube::Client {
        self.with_token(Some("admin-token".to_owned()))
    }

    fn client_as(&self, user: TestUser) -> Option<kube::Client> {
        let token = (user != TestUser::Anonymous).then(|| format!("{}-token", user.name()));
        Some(self.with_token(token))
    }

    fn compact(&self) -> BoxFuture<'_, ()> {
        async { self.0.compact() }.boxed()
    }

    fn restart(&self) -> BoxFuture<'_, ()> {
        async { self.0.restart() }.boxed()
    }
}

async fn passes(area: &str) {
    let server: Arc<dyn Server> = Arc::new(Embedded::start());
    let results = run_all(&server, cases().iter().filter(|case| case.area == area), 4).await;
    let count = results.len();
    let failed: Vec<String> = results
        .into_iter()
        .filter_map(|(case, outcome)| Some(format!("{}: {}", case.id(), outcome.err()?)))
        .collect();
    println!("{area}: {} of {count} cases pass", count - failed.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

macro_rules! areas {
    ($($test:ident: $area:literal),+ $(,)?) => {
        $(#[tokio::test(start_paused = true)]
        async fn $test() {
            passes($area).await;
        })+

        #[test]
        fn every_area_is_run() {
            assert_eq!(areas(), [$($area),+]);
        }
    };
}

areas!(
    create: "create",
    generate_name: "generate name",
    get: "get",
    list: "list",
    pages: "pages",
    resource_version: "resource version",
    update: "update",
    generation: "generation",
    status: "status",
    merge_patch: "merge patch",
    json_patch: "json patch",
    strategic_merge_patch: "strategic merge patch",
    patch: "patch",
    delete: "delete",
    pod_deletion: "pod deletion",
    delete_collection: "delete collection",
    label_selector: "label selector",
    field_selector: "field selector",
    watch: "watch",
    table: "table",
    metadata_only: "metadata only",
    dry_run: "dry run",
    discovery: "discovery",
    health: "health",
    openapi: "openapi",
    body: "body",
    protobuf: "protobuf",
    field_validation: "field validation",
    accept: "accept",
    custom_resource_definition: "custom resource definition",
    custom_versions: "custom versions",
    custom_resource: "custom resource",
    custom_rules: "custom rules",
    custom_subresources: "custom subresources",
    pod: "pod",
    pod_priority: "pod priority",
    binding: "binding",
    eviction: "eviction",
    pod_connections: "pod connections",
    namespace: "namespace",
    node: "node",
    secret: "secret",
    config_map: "config map",
    event: "event",
    service: "service",
    service_account: "service account",
    lease: "lease",
    certificate_signing_request: "certificate signing request",
    access: "access",
    rbac: "rbac",
    access_review: "access review",
    deployment: "deployment",
    replica_set: "replica set",
    stateful_set: "stateful set",
    daemon_set: "daemon set",
    job: "job",
    disruption_budget: "disruption budget",
    storage: "storage",
    metadata: "metadata",
    managed_fields: "managed fields",
    error: "error",
    odd_input: "odd input",
    changed_policy: "changed policy",
    changed_definition: "changed definition",
    service_ports: "service ports",
    token: "token",
    both_groups: "both groups",
    unclassified: "unclassified",
    history: "history",
);

#[test]
fn there_are_many_cases_and_each_has_its_own_name() {
    let ids: BTreeSet<String> = cases().iter().map(hostler_conformance::Case::id).collect();
    println!("{} cases", cases().len());
    assert!(cases().len() >= 150, "only {} cases", cases().len());
    assert_eq!(ids.len(), cases().len(), "two cases have the same name");
}

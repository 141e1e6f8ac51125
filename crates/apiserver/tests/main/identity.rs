//! Who a request comes from: impersonation and tokens of service accounts.

use crate::kit::{Raw, options, server};
use hostler_apiserver::ApiServer;
use hostler_base::{Chance, Entropy, NoEntropy, transport};
use serde_json::{Value, json};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn who(raw: &Raw, headers: &[(&str, &str)]) -> (u16, Value) {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let (code, answer) = raw.send("POST", REVIEWS, &all, body.to_string().into_bytes()).await;
    (code, answer["status"]["userInfo"].clone())
}

#[tokio::test(start_paused = true)]
async fn administrators_may_act_as_others_and_others_may_not() {
    let server = server();
    let admin = Raw::new(&server);
    let (_, user) = who(&admin, &[("impersonate-user", "bob"), ("impersonate-group", "team")]).await;
    assert_eq!(
        (&user["username"], &user["groups"]),
        (&json!("bob"), &json!(["team", "system:authenticated"]))
    );

    let (code, _) = admin.send("GET", "/api/v1/nodes", &[("impersonate-user", "bob")], Vec::new()).await;
    assert_eq!(code, 403);

    let mut bob = ApiServer::admin();
    bob.name = "bob".to_owned();
    bob.groups = vec!["system:authenticated".to_owned()];
    let bob = Raw(server.transport(bob));
    let (code, refusal) =
        bob.send("GET", "/api/v1/nodes", &[("impersonate-user", "system:admin")], Vec::new()).await;
    assert_eq!(code, 403);
    assert!(
        refusal["message"].as_str().unwrap().contains("cannot impersonate resource \"users\""),
        "{refusal}"
    );
}

#[tokio::test(start_paused = true)]
async fn extra_fields_are_claimed_by_who_may() {
    let server = server();
    let admin = Raw::new(&server);
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["impersonate"]}]);
    let role = json!({"metadata": {"name": "mask"}, "rules": rules});
    assert_eq!(admin.json("POST", &format!("{rbac}/clusterroles"), &role).await.0, 201);
    let binding = json!({"metadata": {"name": "mask"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "mask"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    assert_eq!(admin.json("POST", &format!("{rbac}/clusterrolebindings"), &binding).await.0, 201);
    let mut bob = ApiServer::admin();
    bob.name = "bob".to_owned();
    bob.groups = vec!["system:authenticated".to_owned()];
    let bob = Raw(server.transport(bob));
    let user = ("impersonate-user", "carol");
    for (extra, code) in [("impersonate-extra-scopes", 201), ("impersonate-extra-other", 403)] {
        assert_eq!(who(&bob, &[user, (extra, "view")]).await.0, code, "{extra}");
    }
    assert_eq!(who(&bob, &[("impersonate-extra-scopes", "view")]).await.0, 500);
}

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// An account `robot` and the value of the header that lets it in.
async fn robot(server: &ApiServer) -> String {
    let admin = Raw::new(server);
    admin.json("POST", ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (code, answer) = admin.json("POST", &format!("{ACCOUNTS}/robot/token"), &request).await;
    assert_eq!(code, 201, "{answer}");
    format!("Bearer {}", answer["status"]["token"].as_str().unwrap())
}

fn network(server: &ApiServer) -> Raw {
    Raw(transport::from_service(server.router()))
}

#[tokio::test(start_paused = true)]
async fn a_service_account_gets_in_by_its_token_until_it_is_gone() {
    let server = server();
    let token = robot(&server).await;
    let network = network(&server);
    let (_, user) = who(&network, &[("authorization", &token)]).await;
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    let forged = format!("{token}x");
    assert_eq!(who(&network, &[("authorization", &forged)]).await.0, 401);
    Raw::new(&server).delete(&format!("{ACCOUNTS}/robot")).await;
    assert_eq!(who(&network, &[("authorization", &token)]).await.0, 401);
}

/// Uids are drawn from the source of chance and everybody sees them: whoever works out its seed from them has the
/// accounts, but not the key that signs their tokens.
#[tokio::test(start_paused = true)]
async fn who_knows_all_that_was_drawn_by_chance_can_make_no_token() {
    let with = |entropy: u64| {
        let mut options = options();
        options.entropy = Entropy::guessable(Chance::from_seed(entropy));
        ApiServer::new(options)
    };
    let (one, same, other) = (with(7), with(7), with(8));
    let tokens = [robot(&one).await, robot(&same).await, robot(&other).await];
    assert_eq!(tokens[0], tokens[1], "a world can be repeated");
    assert_eq!(who(&network(&one), &[("authorization", &tokens[1])]).await.0, 201);
    assert_eq!(who(&network(&one), &[("authorization", &tokens[2])]).await.0, 401);
    assert_eq!(who(&network(&other), &[("authorization", &tokens[0])]).await.0, 401);
    let claims = |token: &str| token.split('.').nth(1).unwrap().to_owned();
    assert_eq!(claims(&tokens[0]), claims(&tokens[2]), "the accounts have the same uid");
}

#[tokio::test(start_paused = true)]
async fn without_entropy_there_are_no_tokens() {
    let mut options = options();
    options.entropy = Entropy::new(|_| Err(NoEntropy));
    let server = ApiServer::new(options);
    let admin = Raw::new(&server);
    admin.json("POST", ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let (code, answer) = admin.json("POST", &format!("{ACCOUNTS}/robot/token"), &request).await;
    assert_eq!((code, &answer["reason"]), (500, &json!("InternalError")), "{answer}");
    assert_eq!(who(&network(&server), &[("authorization", "Bearer a.b.c")]).await.0, 401);
}

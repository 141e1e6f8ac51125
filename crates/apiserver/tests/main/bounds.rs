//! What comes in is bounded: in depth, in size, in time. And definitions that go take their objects with them.

use crate::kit::{Raw, options, server};
use bytes::Bytes;
use futures::StreamExt;
use hostler_apiserver::ApiServer;
use hostler_base::{BoxError, transport};
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("end"), |inside, _| json!({ "a": inside }))
}

fn revision(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": data,
        "metadata": {"name": name, "finalizers": ["example.com/hold"]}})
}

/// What is stored can be read again, however it came in; what is too deep does not come in.
#[tokio::test(start_paused = true)]
async fn objects_are_nested_only_so_deep() {
    let raw = Raw::new(&server());
    let (code, answer) = raw.json("POST", REVISIONS, &revision("a", &nested(90))).await;
    assert_eq!(code, 201, "{answer}");
    for levels in [105, 120] {
        let (code, answer) = raw.json("POST", REVISIONS, &revision("b", &nested(levels))).await;
        assert_eq!(code, 400, "{levels}: {answer}");
    }
    let place = format!("/data{}", "/a".repeat(89));
    let patch = json!([{"op": "add", "path": place, "value": nested(90)}]);
    let headers = [("content-type", "application/json-patch+json")];
    let one = format!("{REVISIONS}/a");
    let (code, answer) = raw.send("PATCH", &one, &headers, patch.to_string().into_bytes()).await;
    assert_eq!(code, 422, "{answer}");
    let (code, answer) = raw.merge(&one, &json!({"data": nested(120)})).await;
    assert!(code == 400 || code == 422, "{answer}");
    assert_eq!(raw.delete(&one).await.1["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(raw.get(&one).await.1["metadata"]["finalizers"], json!(["example.com/hold"]));
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn thing(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}})
}

/// A body that comes only after something else was done.
#[tokio::test(start_paused = true)]
async fn a_definition_can_go_while_a_body_is_on_its_way() {
    let server = server();
    let raw = Raw::new(&server);
    assert_eq!(raw.json("POST", DEFINITIONS, &definition()).await.0, 201);
    let (send, parts) = futures::channel::mpsc::unbounded::<Bytes>();
    let body = StreamBody::new(parts.map(|part| Ok::<_, BoxError>(Frame::data(part))));
    let request = Request::post(THINGS).header("content-type", "application/json");
    let request = request.body(transport::boxed(body)).unwrap();
    let answer = tokio::spawn(server.transport(ApiServer::admin()).oneshot(request));
    tokio::task::yield_now().await;
    raw.delete(&format!("{DEFINITIONS}/things.example.com")).await;
    send.unbounded_send(thing("late").to_string().into()).unwrap();
    drop(send);
    assert_eq!(answer.await.unwrap().unwrap().status(), 404);
    raw.json("POST", DEFINITIONS, &definition()).await;
    assert_eq!(raw.get(THINGS).await.1["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_definition_takes_its_objects_and_their_past_with_it() {
    let raw = Raw::new(&server());
    raw.json("POST", DEFINITIONS, &definition()).await;
    raw.json("POST", THINGS, &thing("a")).await;
    let (_, before) = raw.get(THINGS).await;
    let version = before["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = raw.watch(&format!("{THINGS}?watch=1")).await;
    assert_eq!(watch.brief().await, Some(("ADDED".to_owned(), "a".to_owned())));
    raw.delete(&format!("{DEFINITIONS}/things.example.com")).await;
    assert_eq!(watch.brief().await, Some(("DELETED".to_owned(), "a".to_owned())));
    assert_eq!(watch.brief().await, None);
    assert_eq!(raw.get(THINGS).await.0, 404);
    raw.json("POST", DEFINITIONS, &definition()).await;
    let (_, after) = raw.get(THINGS).await;
    assert_eq!(after["items"], json!([]));
    let past = format!("{THINGS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(raw.get(&past).await.0, 410);
    let mut watch = raw.watch(&format!("{THINGS}?watch=1&resourceVersion={version}")).await;
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
}

/// Old states are forgotten by what they weigh, too.
#[tokio::test(start_paused = true)]
async fn history_is_bounded_in_bytes() {
    let mut options = options();
    options.history = 100_000;
    let raw = Raw::new(&ApiServer::new(options));
    raw.json("POST", MAPS, &json!({"metadata": {"name": "a"}})).await;
    let start = raw.get(MAPS).await.1["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let text = "x".repeat(900 * 1024);
    let from = |version: &str| format!("{MAPS}?watch=1&resourceVersion={version}");
    for number in 0..30 {
        let (code, answer) =
            raw.merge(&format!("{MAPS}/a"), &json!({"data": {"a": text, "b": number.to_string()}})).await;
        assert_eq!(code, 200, "{answer}");
    }
    assert_eq!(raw.watch(&from(&start)).await.brief().await.unwrap().0, "MODIFIED");
    for number in 30..90 {
        raw.merge(&format!("{MAPS}/a"), &json!({"data": {"b": number.to_string()}})).await;
    }
    assert_eq!(raw.watch(&from(&start)).await.next().await.unwrap()["object"]["code"], 410);
}

/// Work on a body grows with its size, not with the square of it. Whoever is quadratic here takes minutes.
#[tokio::test(start_paused = true)]
async fn large_bodies_are_worked_on_in_passing() {
    let raw = Raw::new(&server());
    let mut unknown = json!({"metadata": {"name": "a"}});
    for number in 0..150_000 {
        unknown[format!("u{number}")] = json!(1);
    }
    assert_eq!(raw.json("POST", MAPS, &unknown).await.0, 201);
    let finalizers: Vec<String> = (0..60_000).map(|number| format!("example.com/f{number}")).collect();
    let many = json!({"metadata": {"name": "b", "finalizers": finalizers}});
    assert_eq!(raw.json("POST", MAPS, &many).await.0, 201);
    let patch = json!({"data": {"x": "y"}, "metadata": {"finalizers": finalizers}}).to_string().into_bytes();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(raw.send("PATCH", &format!("{MAPS}/b"), &strategic, patch).await.0, 200);

    let mut list = definition();
    list["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "maps": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "integer"}}}}}});
    assert_eq!(raw.json("POST", DEFINITIONS, &list).await.0, 201);
    let mut wrong = thing("wrong");
    wrong["numbers"] = json!(vec!["x"; 150_000]);
    let (code, answer) = raw.json("POST", THINGS, &wrong).await;
    assert_eq!(code, 422);
    assert!(answer["message"].as_str().unwrap().len() < 100_000);
    let mut maps = thing("maps");
    maps["maps"] = (0..60_000).map(|number| json!({ "k": number })).collect();
    assert_eq!(raw.json("POST", THINGS, &maps).await.0, 201);
    assert_eq!(raw.merge(&format!("{THINGS}/maps"), &json!({"numbers": [1]})).await.0, 200);
}

/// Definitions are read into expressions and paths of any text; none of it can overflow a stack or take for ever.
#[tokio::test(start_paused = true)]
async fn definitions_of_odd_text_are_read_or_refused() {
    let raw = Raw::new(&server());
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut definition = definition();
        edit(&mut definition["spec"]["versions"][0]);
        definition
    };
    let filters = format!(".a{}{}", "[?(@.b".repeat(3000), ")]".repeat(3000));
    let braces = ["}".repeat(1_000_000), "{".repeat(1_000_000), format!("[{}", "[:".repeat(400_000))];
    let mut odd = vec![with(&|version| {
        version["additionalPrinterColumns"] = json!([{"name": "X", "type": "string", "jsonPath": filters}]);
    })];
    for pattern in &braces {
        odd.push(with(&|version| {
            version["schema"]["openAPIV3Schema"] = json!({"type": "object",
                "properties": {"a": {"type": "string", "pattern": pattern}}});
        }));
    }
    for definition in odd {
        let (code, answer) = raw.json("POST", DEFINITIONS, &definition).await;
        assert!(code == 201 || code == 422, "{answer}");
        raw.delete(&format!("{DEFINITIONS}/things.example.com")).await;
    }
}

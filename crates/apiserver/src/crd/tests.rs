//! Definitions over their life: defaults, status, updates; and what versions offer beside validation.

use super::*;
use serde_json::json;

fn crd() -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machines.m.example.com"},
        "spec": {
            "group": "m.example.com", "scope": "Namespaced",
            "names": {"plural": "machines", "kind": "Machine", "shortNames": ["mc"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {
                            "replicas": {"type": "integer"}, "class": {"type": "string"}, "on": {"type": "boolean"},
                            "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
                        }},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    }},
                    "selectableFields": [{"jsonPath": ".spec.class"}, {"jsonPath": ".spec.on"}],
                },
                {
                    "name": "v1alpha1", "served": true, "storage": false, "deprecated": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                },
            ],
        },
    });
    default_crd(&mut crd);
    crd
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00.5Z".parse().unwrap()
}

fn established(mut crd: Value, others: &[Arc<Value>]) -> Value {
    crd["status"] = status(&crd, others, now());
    crd
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_fill_names_and_conversion() {
    let crd = crd();
    assert_eq!(texts(&validate_crd(&crd, None)), Vec::<String>::new());
    assert_eq!(crd["spec"]["names"]["singular"], "machine");
    assert_eq!(crd["spec"]["names"]["listKind"], "MachineList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn an_accepted_definition_is_established_at_once_and_stays_so() {
    let crd = established(crd(), &[]);
    let time = "2026-01-01T00:00:00Z";
    let wanted = json!({
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found", "lastTransitionTime": time},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted", "lastTransitionTime": time},
        ],
        "acceptedNames": {"plural": "machines", "singular": "machine", "kind": "Machine", "listKind": "MachineList", "shortNames": ["mc"], "categories": ["all"]},
        "storedVersions": ["v1"],
    });
    assert_eq!(crd["status"], wanted);
    assert!(is_established(&crd));
    let later = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(status(&crd, &[Arc::new(crd.clone())], later), wanted, "nothing changed");
}

#[test]
fn names_of_others_are_not_taken() {
    let first = Arc::new(established(crd(), &[]));
    let second = |names: Value| {
        let mut second = crd();
        second["metadata"]["name"] = json!("others.m.example.com");
        second["spec"]["names"] = names;
        default_crd(&mut second);
        established(second, std::slice::from_ref(&first))
    };
    let cases = [
        (
            json!({"plural": "others", "kind": "Other", "shortNames": ["mc", "ot"]}),
            "ShortNamesConflict",
            "\"mc\" is already in use",
        ),
        (
            json!({"plural": "others", "kind": "Machine", "singular": "other", "listKind": "Others"}),
            "KindConflict",
            "\"Machine\" is already in use",
        ),
        (
            json!({"plural": "others", "kind": "Other", "listKind": "MachineList"}),
            "ListKindConflict",
            "\"MachineList\" is already in use",
        ),
        (
            json!({"plural": "others", "kind": "Other", "singular": "machine"}),
            "SingularConflict",
            "\"machine\" is already in use",
        ),
        (json!({"plural": "machines", "kind": "Other"}), "PluralConflict", "\"machines\" is already in use"),
    ];
    for (names, reason, message) in cases {
        let second = second(names);
        let accepted = &second["status"]["conditions"][0];
        assert_eq!(
            (&accepted["status"], &accepted["reason"], &accepted["message"]),
            (&json!("False"), &json!(reason), &json!(message))
        );
        let established = &second["status"]["conditions"][1];
        assert_eq!(
            (&established["status"], &established["reason"]),
            (&json!("False"), &json!("NotAccepted")),
            "{reason}"
        );
        assert!(!is_established(&second));
    }
    let elsewhere = {
        let mut other =
            second(json!({"plural": "others", "kind": "Machine", "singular": "other", "listKind": "Others"}));
        other["spec"]["group"] = json!("n.example.com");
        established(other, std::slice::from_ref(&first))
    };
    assert!(is_established(&elsewhere), "another group has names of its own");
}

#[test]
fn some_fields_of_a_definition_stay_as_they_are() {
    let old = established(crd(), &[]);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Engine");
    new["spec"]["group"] = json!("x.example.com");
    let wanted = [
        "spec.scope: Invalid value: \"Cluster\": field is immutable",
        "spec.names.kind: Invalid value: \"Engine\": field is immutable",
        "spec.group: Invalid value: \"x.example.com\": field is immutable",
    ];
    assert_eq!(texts(&validate_crd(&new, Some(&old))), wanted);
    let mut young = old.clone();
    young["status"]["conditions"] = json!([]);
    assert_eq!(texts(&validate_crd(&new, Some(&young))), wanted[2..], "not settled before it is established");
}

#[test]
fn a_version_that_was_stored_must_stay_listed() {
    let old = established(crd(), &[]);
    let mut new = old.clone();
    new["spec"]["versions"][0]["storage"] = json!(false);
    new["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(texts(&validate_crd(&new, Some(&old))), Vec::<String>::new());
    new["status"] = status(&new, &[], now());
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v1alpha1"]));
    let mut gone = new.clone();
    gone["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let wanted = "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions";
    assert_eq!(texts(&validate_crd(&gone, Some(&new))), [wanted]);
    gone["status"]["storedVersions"] = json!(["v1alpha1"]);
    assert_eq!(texts(&validate_crd(&gone, Some(&new))), Vec::<String>::new());
}

#[test]
fn a_kind_knows_its_names_and_versions() {
    let kind = CustomKind::compile(&crd()).unwrap();
    assert_eq!((kind.group(), kind.namespaced(), kind.storage_version()), ("m.example.com", true, "v1"));
    assert_eq!(
        (kind.names().kind.as_str(), kind.names().short_names.as_slice()),
        ("Machine", ["mc".to_owned()].as_slice())
    );
    let old = kind.version("v1alpha1").unwrap();
    assert_eq!(old.deprecation_warning(), Some("m.example.com/v1alpha1 Machine is deprecated"));
    assert!(old.served() && !old.storage && !old.has_status() && old.scale().is_none());
    assert!(kind.version("v2").is_none());
    let mut object = json!({"apiVersion": "m.example.com/v1", "kind": "Machine", "spec": {"a": 1}});
    kind.convert(&mut object, "v1alpha1");
    assert_eq!(object, json!({"apiVersion": "m.example.com/v1alpha1", "kind": "Machine", "spec": {"a": 1}}));
}

#[test]
fn scale_is_read_and_written_by_the_paths_of_the_definition() {
    let kind = CustomKind::compile(&crd()).unwrap();
    let scale = kind.version("v1").unwrap().scale().unwrap();
    let mut object = json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {"x": "y"}},
        "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"},
    });
    let wanted = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "a=b"},
    });
    assert_eq!(scale.get(&object).unwrap(), wanted);
    scale.set(&mut object, &json!({"spec": {"replicas": 5}})).unwrap();
    assert_eq!(object["spec"]["replicas"], 5);
    let mut empty = json!({"metadata": {"name": "a"}});
    assert_eq!(
        scale.get(&empty).unwrap_err().message,
        "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist"
    );
    scale.set(&mut empty, &json!({"spec": {}})).unwrap();
    assert_eq!(empty["spec"]["replicas"], 0);
    assert!(scale.set(&mut empty, &json!({"spec": {"replicas": "x"}})).is_err());
}

#[test]
fn selectable_fields_have_values_as_text() {
    let kind = CustomKind::compile(&crd()).unwrap();
    let version = kind.version("v1").unwrap();
    assert_eq!(version.selectable_fields(), ["spec.class", "spec.on"]);
    let object = json!({"spec": {"on": true}});
    assert_eq!(version.selectable_value(&object, "spec.class"), Some(String::new()));
    assert_eq!(version.selectable_value(&object, "spec.on"), Some("true".to_owned()));
    assert_eq!(version.selectable_value(&object, "spec.other"), None);
}

#[test]
fn unknown_fields_are_named() {
    let kind = CustomKind::compile(&crd()).unwrap();
    let mut object = json!({
        "apiVersion": "m.example.com/v1", "kind": "Machine", "metadata": {"name": "a", "odd": 1}, "odd": 1,
        "spec": {"class": "c", "x": 1, "template": {"metadata": {"name": "t", "odd": 2}, "any": 1}},
    });
    assert_eq!(kind.version("v1").unwrap().prune(&mut object), ["odd", "spec.x"]);
    assert_eq!(object["metadata"]["odd"], 1, "metadata is the server's");
    assert_eq!(object["spec"], json!({"class": "c", "template": {"metadata": {"name": "t"}, "any": 1}}));
}

#[test]
fn the_openapi_document_has_what_kubectl_looks_for() {
    let kind = CustomKind::compile(&crd()).unwrap();
    let mut document = kind.version("v1").unwrap().openapi_v3();
    let item = "/apis/m.example.com/v1/namespaces/{namespace}/machines/{name}";
    let gvk = json!({"group": "m.example.com", "version": "v1", "kind": "Machine"});
    let patch = &document["paths"][item]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    assert_eq!(patch["operationId"], "patchMExampleComV1NamespacedMachine");
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(names.contains(&"fieldValidation"), "kubectl asks the server to validate only then: {names:?}");
    let schema = &document["components"]["schemas"]["com.example.m.v1.Machine"];
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([gvk]));
    assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["type"], "integer");
    assert!(schema["properties"]["spec"]["properties"]["template"]["properties"]["metadata"].is_object());
    assert_eq!(unresolved(&document), Vec::<String>::new());
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    assert_eq!(paths.len(), 5, "{paths:?}");

    let mut other = crd();
    other["spec"]["names"] = json!({"plural": "engines", "kind": "Engine"});
    default_crd(&mut other);
    merge_openapi(&mut document, CustomKind::compile(&other).unwrap().version("v1").unwrap().openapi_v3());
    assert_eq!(document["paths"].as_object().unwrap().len(), 10);
    assert!(document["components"]["schemas"]["com.example.m.v1.Engine"].is_object());
}

/// References that lead nowhere.
fn unresolved(document: &Value) -> Vec<String> {
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    references(document, &mut found);
    let resolves = |reference: &String| document.pointer(reference.trim_start_matches('#')).is_some();
    found.into_iter().filter(|reference| !resolves(reference)).collect()
}

fn version_with(schema: &Value) -> CustomKind {
    let mut crd = crd();
    crd["spec"]["versions"] =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    assert_eq!(texts(&validate_crd(&crd, None)), Vec::<String>::new());
    CustomKind::compile(&crd).unwrap()
}

#[test]
fn no_rule_takes_for_ever() {
    let kind = version_with(&json!({
        "type": "object",
        "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"}],
    }));
    let version = kind.version("v1").unwrap();
    let long: Vec<i64> = (0..5000).collect();
    let errors = texts(&version.validate(&json!({"l": long}), None));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("actual cost limit exceeded"), "{errors:?}");
    assert!(version.validate(&json!({"l": [1, 2, 3]}), None).is_empty());
    let long: Vec<i64> = (0..100_000).collect();
    for rule in ["self.l.filter(x, x > 0).size() >= 0", "self.l.map(x, x + 1).size() >= 0"] {
        let kind = version_with(&json!({
            "type": "object",
            "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
            "x-kubernetes-validations": [{"rule": rule}],
        }));
        let version = kind.version("v1").unwrap();
        let errors = texts(&version.validate(&json!({"l": long}), None));
        assert!(errors.len() == 1 && errors[0].contains("actual cost limit exceeded"), "{errors:?}");
        assert!(version.validate(&json!({"l": long[..1000]}), None).is_empty());
    }
}

#[test]
fn all_rules_together_do_not_take_for_ever() {
    let list = json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b >= 0))"}]});
    let kind = version_with(&json!({
        "type": "object", "properties": {"lists": {"type": "array", "items": list}},
    }));
    let version = kind.version("v1").unwrap();
    let row: Vec<i64> = (0..1000).collect();
    let errors = texts(&version.validate(&json!({"lists": vec![row; 1000]}), None));
    assert!(errors.len() == 1 && errors[0].contains("running out of cost budget"), "{errors:?}");
}

#[test]
fn odd_rules_are_refused_or_fail_but_never_kill() {
    let deep = format!("{}true{}", "(".repeat(1000), ")".repeat(1000));
    let long = vec!["true"; 500].join(" && ");
    let nots = format!("{}true", "!".repeat(1000));
    let dots = format!("self{}", ".a".repeat(1000));
    let rules = [
        deep.as_str(),
        long.as_str(),
        nots.as_str(),
        dots.as_str(),
        "",
        " ",
        "\u{0}",
        "'",
        "self.",
        "self[",
        "{",
        "1 +",
        "a.b.c()",
        "self.all(x)",
        "duration('99999999999999999h') > duration('1s')",
        "timestamp('9999-12-31T23:59:59Z') + duration('9999999h') > timestamp('2020-01-01T00:00:00Z')",
        "9223372036854775807 + 1 > 0",
        "-9223372036854775808 / -1 > 0",
        "1 % 0 == 0",
        "[][0] == 1",
        "'abc'.substring(5, 2) == ''",
        "'x'.matches('(')",
        "size('x'.replace('', 'yyyyyyyy')) > 0",
        "'%d'.format(['x']) == ''",
        "quantity('1e99999').isGreaterThan(quantity('1'))",
        "semver('1').major() == 1",
        "math.greatest() == 1",
        "self == null",
        "dyn(self) > 1",
        "url('::').getHost() == ''",
        "cidr('1.2.3.4/99').prefixLength() == 1",
    ];
    for rule in rules {
        let mut crd = crd();
        crd["spec"]["versions"] = json!([{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-validations": [{"rule": rule}]}},
        }]);
        let shown: String = rule.chars().take(60).collect();
        if validate_crd(&crd, None).is_empty() {
            let kind = CustomKind::compile(&crd).unwrap_or_else(|errors| panic!("{shown}: {errors:?}"));
            let object =
                json!({"apiVersion": "m.example.com/v1", "kind": "Machine", "metadata": {"name": "a"}});
            let _ = kind.version("v1").unwrap().validate(&object, None);
        }
    }
}

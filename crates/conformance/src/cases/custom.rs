use super::fixtures::{crd, crd_group, install, thing};
use crate::{Ctx, Failure, Look, Outcome, reply::same};
use serde_json::{Value, json};

area!("custom resource":
    unknown_fields_are_pruned,
    unknown_fields_can_be_preserved,
    strict_names_the_unknown_field,
    defaults_are_filled_in,
    defaults_are_filled_into_nested_objects,
    null_is_replaced_by_the_default,
    nullable_keeps_null,
    required_field_is_named,
    wrong_type_is_named,
    bounds_are_checked,
    lengths_and_patterns_are_checked,
    enums_are_checked,
    formats_are_checked,
    int_or_string,
    sets_have_no_duplicates,
    maps_have_no_duplicate_keys,
    item_and_property_counts,
    embedded_resource,
    needs_kind_and_version,
    kind_must_match,
    version_must_match,
    generation_counts_everything_but_metadata,
    merge_patch_is_validated,
    selectable_fields,
    unsupported_field_selector_is_refused;
"custom rules":
    rule_with_message,
    rule_without_message_tells_the_rule,
    rule_with_expression_path_and_reason,
    transition_rule_guards_updates,
    transition_rule_is_not_asked_on_create,
    rule_on_metadata_name,
    optional_old_self,
    unchecked_rules_are_told,
);

pub(super) fn things(c: &Ctx) -> String {
    c.group(&format!("{}/v1", crd_group(&c.ns)), "things")
}

pub(super) async fn with_schema(c: &Ctx, properties: Value) -> Outcome {
    install(c, &crd(&c.ns, &json!({"type": "object", "properties": properties}))).await?;
    Ok(())
}

async fn make(c: &Ctx, spec: Value) -> Result<crate::Reply, Failure> {
    c.post(&things(c), &thing(&c.ns, "one", &spec)).await
}

/// Creates with this spec and expects exactly these causes.
async fn refused(c: &Ctx, spec: Value, causes: &[(&str, &str, &str)]) -> Outcome {
    let reply = make(c, spec).await?;
    reply.refused_about(422, "Invalid", &format!("Thing.{} \"one\" is invalid: ", crd_group(&c.ns)))?;
    reply.details("Thing", &crd_group(&c.ns), "one")?;
    reply.causes(causes)?;
    Ok(())
}

async fn unknown_fields_are_pruned(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}})).await?;
    let made = make(&c, json!({"a": {"b": "x", "c": "y"}, "d": 1})).await?.ok(201)?;
    made.is("/spec", json!({"a": {"b": "x"}}))?;
    let expected = [r#"299 - "unknown field \"spec.a.c\"""#, r#"299 - "unknown field \"spec.d\"""#];
    let mut warnings = made.warnings();
    warnings.sort();
    same("warnings", warnings, expected.map(str::to_owned).to_vec())
}

async fn unknown_fields_can_be_preserved(c: Ctx) -> Outcome {
    with_schema(
        &c,
        json!({"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"closed": {"type": "object", "properties": {}}}}}),
    )
    .await?;
    let made = make(&c, json!({"open": {"any": {"thing": [1, 2]}, "closed": {"gone": 1}}})).await?.ok(201)?;
    made.is("/spec", json!({"open": {"any": {"thing": [1, 2]}, "closed": {}}}))
}

async fn strict_names_the_unknown_field(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string"}})).await?;
    let path = format!("{}?fieldValidation=Strict", things(&c));
    let reply = c.post(&path, &thing(&c.ns, "one", &json!({"a": "b", "extra": 1}))).await?;
    reply.refused(
        400,
        "BadRequest",
        "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \"spec.extra\"",
    )?;
    Ok(())
}

async fn defaults_are_filled_in(c: Ctx) -> Outcome {
    with_schema(
        &c,
        json!({"mode": {"type": "string", "default": "fast"}, "count": {"type": "integer", "default": 3},
        "on": {"type": "boolean", "default": true}, "other": {"type": "string"}}),
    )
    .await?;
    let made = make(&c, json!({"count": 5})).await?.ok(201)?;
    made.is("/spec", json!({"mode": "fast", "count": 5, "on": true}))
}

async fn defaults_are_filled_into_nested_objects(c: Ctx) -> Outcome {
    with_schema(&c, json!({
        "outer": {"type": "object", "default": {}, "properties": {"inner": {"type": "string", "default": "x"}}},
        "bare": {"type": "object", "properties": {"inner": {"type": "string", "default": "x"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 7}}}}})).await?;
    let made = make(&c, json!({"list": [{"k": "a"}, {"k": "b", "v": 1}]})).await?.ok(201)?;
    made.is("/spec", json!({"outer": {"inner": "x"}, "list": [{"k": "a", "v": 7}, {"k": "b", "v": 1}]}))
}

async fn null_is_replaced_by_the_default(c: Ctx) -> Outcome {
    with_schema(&c, json!({"mode": {"type": "string", "default": "fast"}, "note": {"type": "string"}}))
        .await?;
    let made = make(&c, json!({"mode": null, "note": null})).await?.ok(201)?;
    made.is("/spec", json!({"mode": "fast"}))
}

async fn nullable_keeps_null(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string", "nullable": true}})).await?;
    let made = make(&c, json!({"a": null})).await?.ok(201)?;
    made.is("/spec", json!({"a": null}))
}

async fn required_field_is_named(c: Ctx) -> Outcome {
    let schema = json!({"type": "object", "required": ["must"], "properties": {"must": {"type": "string"}}});
    install(&c, &crd(&c.ns, &schema)).await?;
    let reply = make(&c, json!({})).await?;
    reply.refused_about(
        422,
        "Invalid",
        &format!("Thing.{} \"one\" is invalid: spec.must: Required value", crd_group(&c.ns)),
    )?;
    reply.causes(&[("FieldValueRequired", "spec.must", "Required value")])?;
    Ok(())
}

async fn wrong_type_is_named(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string"}, "n": {"type": "integer"}})).await?;
    refused(
        &c,
        json!({"a": 5}),
        &[(
            "FieldValueTypeInvalid",
            "spec.a",
            "Invalid value: \"integer\": spec.a in body must be of type string: \"integer\"",
        )],
    )
    .await?;
    refused(
        &c,
        json!({"n": "5"}),
        &[(
            "FieldValueTypeInvalid",
            "spec.n",
            "Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
        )],
    )
    .await
}

async fn bounds_are_checked(c: Ctx) -> Outcome {
    with_schema(&c, json!({"n": {"type": "integer", "minimum": 2, "maximum": 10, "multipleOf": 2}})).await?;
    make(&c, json!({"n": 10})).await?.ok(201)?;
    refused(
        &c,
        json!({"n": 0}),
        &[(
            "FieldValueInvalid",
            "spec.n",
            "Invalid value: 0: spec.n in body should be greater than or equal to 2",
        )],
    )
    .await?;
    refused(
        &c,
        json!({"n": 12}),
        &[(
            "FieldValueInvalid",
            "spec.n",
            "Invalid value: 12: spec.n in body should be less than or equal to 10",
        )],
    )
    .await?;
    refused(
        &c,
        json!({"n": 5}),
        &[("FieldValueInvalid", "spec.n", "Invalid value: 5: spec.n in body should be a multiple of 2")],
    )
    .await
}

async fn lengths_and_patterns_are_checked(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string", "minLength": 2, "maxLength": 5}, "p": {"type": "string", "pattern": "^[a-z]+$"}})).await?;
    refused(
        &c,
        json!({"a": "x"}),
        &[(
            "FieldValueInvalid",
            "spec.a",
            "Invalid value: \"x\": spec.a in body should be at least 2 chars long",
        )],
    )
    .await?;
    refused(
        &c,
        json!({"a": "xxxxxx"}),
        &[("FieldValueTooLong", "spec.a", "Too long: may not be more than 5 bytes")],
    )
    .await?;
    refused(
        &c,
        json!({"p": "ABC"}),
        &[("FieldValueInvalid", "spec.p", "Invalid value: \"ABC\": spec.p in body should match '^[a-z]+$'")],
    )
    .await
}

async fn enums_are_checked(c: Ctx) -> Outcome {
    with_schema(&c, json!({"mode": {"type": "string", "enum": ["slow", "fast"]}})).await?;
    make(&c, json!({"mode": "fast"})).await?.ok(201)?;
    refused(
        &c,
        json!({"mode": "warp"}),
        &[(
            "FieldValueNotSupported",
            "spec.mode",
            "Unsupported value: \"warp\": supported values: \"slow\", \"fast\"",
        )],
    )
    .await
}

async fn formats_are_checked(c: Ctx) -> Outcome {
    with_schema(&c, json!({"t": {"type": "string", "format": "date-time"}})).await?;
    make(&c, json!({"t": "2020-01-01T00:00:00Z"})).await?.ok(201)?;
    refused(
        &c,
        json!({"t": "yesterday"}),
        &[("FieldValueTypeInvalid", "spec.t", "spec.t in body must be of type date-time: \"yesterday\"")],
    )
    .await
}

async fn int_or_string(c: Ctx) -> Outcome {
    with_schema(&c, json!({"v": {"x-kubernetes-int-or-string": true}})).await?;
    make(&c, json!({"v": "50%"})).await?.ok(201)?.is("/spec/v", "50%")?;
    c.delete(&format!("{}/one", things(&c))).await?.ok(200)?;
    make(&c, json!({"v": 5})).await?.ok(201)?.is("/spec/v", 5)?;
    refused(
        &c,
        json!({"v": true}),
        &[("FieldValueTypeInvalid", "spec.v", "spec.v in body must be of type integer,string: \"boolean\"")],
    )
    .await
}

async fn sets_have_no_duplicates(c: Ctx) -> Outcome {
    with_schema(
        &c,
        json!({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}),
    )
    .await?;
    refused(
        &c,
        json!({"s": ["a", "b", "a"]}),
        &[("FieldValueDuplicate", "spec.s[2]", "Duplicate value: \"a\"")],
    )
    .await
}

async fn maps_have_no_duplicate_keys(c: Ctx) -> Outcome {
    with_schema(&c, json!({"m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}}})).await?;
    refused(
        &c,
        json!({"m": [{"k": "a", "v": "1"}, {"k": "a", "v": "2"}]}),
        &[("FieldValueDuplicate", "spec.m[1]", "Duplicate value: {\"k\":\"a\"}")],
    )
    .await
}

async fn item_and_property_counts(c: Ctx) -> Outcome {
    with_schema(
        &c,
        json!({"l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        "m": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "string"}}}),
    )
    .await?;
    refused(
        &c,
        json!({"l": [1, 2, 3]}),
        &[("FieldValueTooMany", "spec.l", "Too many: 3: must have at most 2 items")],
    )
    .await?;
    refused(
        &c,
        json!({"l": []}),
        &[("FieldValueInvalid", "spec.l", "spec.l in body should have at least 1 items")],
    )
    .await?;
    refused(
        &c,
        json!({"m": {"a": "1", "b": "2"}}),
        &[("FieldValueTooMany", "spec.m", "Too many: 2: must have at most 1 item")],
    )
    .await?;
    refused(
        &c,
        json!({"m": {"a": 1}}),
        &[("FieldValueTypeInvalid", "spec.m.a", "must be of type string: \"integer\"")],
    )
    .await
}

async fn embedded_resource(c: Ctx) -> Outcome {
    with_schema(&c, json!({"template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}})).await?;
    let good = json!({"template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "nothing": 1}, "data": {"a": "b"}}});
    let made = make(&c, good).await?.ok(201)?;
    made.is("/spec/template/data/a", "b")?;
    made.lacks("/spec/template/metadata/nothing")?;
    let reply = make(&c, json!({"template": {"metadata": {"name": "x"}}})).await?;
    reply.refused_about(422, "Invalid", "spec.template.apiVersion: Required value")?;
    Ok(())
}

async fn needs_kind_and_version(c: Ctx) -> Outcome {
    with_schema(&c, json!({})).await?;
    let reply = c.post(&things(&c), &json!({"metadata": {"name": "one"}})).await?;
    reply.refused_about(
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type Thing): Object 'Kind' is missing in",
    )?;
    Ok(())
}

async fn kind_must_match(c: Ctx) -> Outcome {
    with_schema(&c, json!({})).await?;
    let mut body = thing(&c.ns, "one", &json!({}));
    body["kind"] = json!("Other");
    let reply = c.post(&things(&c), &body).await?;
    reply.refused_about(422, "Invalid", "kind: Invalid value: \"Other\": must be Thing")?;
    Ok(())
}

async fn version_must_match(c: Ctx) -> Outcome {
    with_schema(&c, json!({})).await?;
    let mut body = thing(&c.ns, "one", &json!({}));
    let group = crd_group(&c.ns);
    body["apiVersion"] = json!(format!("{group}/v2"));
    let reply = c.post(&things(&c), &body).await?;
    reply.refused(
        400,
        "BadRequest",
        &format!(
            "the API version in the data ({group}/v2) does not match the expected API version ({group}/v1)"
        ),
    )?;
    Ok(())
}

async fn generation_counts_everything_but_metadata(c: Ctx) -> Outcome {
    with_schema(&c, json!({"a": {"type": "string"}})).await?;
    make(&c, json!({"a": "1"})).await?.ok(201)?.is("/metadata/generation", 1)?;
    let path = format!("{}/one", things(&c));
    c.merge_patch(&path, &json!({"metadata": {"labels": {"x": "y"}}}))
        .await?
        .ok(200)?
        .is("/metadata/generation", 1)?;
    c.merge_patch(&path, &json!({"spec": {"a": "2"}})).await?.ok(200)?.is("/metadata/generation", 2)
}

async fn merge_patch_is_validated(c: Ctx) -> Outcome {
    with_schema(&c, json!({"n": {"type": "integer", "maximum": 5, "default": 1}})).await?;
    make(&c, json!({"n": 3})).await?.ok(201)?;
    let path = format!("{}/one", things(&c));
    let reply = c.merge_patch(&path, &json!({"spec": {"n": 9}})).await?;
    reply.refused_about(
        422,
        "Invalid",
        "spec.n: Invalid value: 9: spec.n in body should be less than or equal to 5",
    )?;
    c.merge_patch(&path, &json!({"spec": {"n": null}})).await?.ok(200)?.is("/spec/n", 1)
}

async fn selectable_fields(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &json!({"type": "object", "properties": {"color": {"type": "string"}}}));
    definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    install(&c, &definition).await?;
    for (name, color) in [("one", "red"), ("two", "blue"), ("three", "red")] {
        c.create(&things(&c), &thing(&c.ns, name, &json!({"color": color}))).await?;
    }
    let select = |selector: &str| format!("{}?fieldSelector={selector}", things(&c));
    c.get(&select("spec.color%3Dred")).await?.ok(200)?.names_are(&["one", "three"])?;
    c.get(&select("spec.color!%3Dred")).await?.ok(200)?.names_are(&["two"])?;
    let mut watch = c.watch(&select("spec.color%3Dblue")).await?;
    watch.expect("ADDED", "two").await?;
    c.merge_patch(&format!("{}/one", things(&c)), &json!({"spec": {"color": "blue"}})).await?.ok(200)?;
    watch.expect("ADDED", "one").await?;
    Ok(())
}

async fn unsupported_field_selector_is_refused(c: Ctx) -> Outcome {
    with_schema(&c, json!({"color": {"type": "string"}})).await?;
    let reply = c.get(&format!("{}?fieldSelector=spec.color%3Dred", things(&c))).await?;
    reply.refused(400, "BadRequest", "field label not supported: spec.color")?;
    c.get(&format!("{}?fieldSelector=metadata.name%3Dred", things(&c))).await?.ok(200)?.names_are(&[])
}

async fn with_rule(c: &Ctx, rule: Value) -> Outcome {
    let schema = json!({"type": "object", "x-kubernetes-validations": [rule],
        "properties": {"lo": {"type": "integer"}, "hi": {"type": "integer"}, "name": {"type": "string", "maxLength": 20}}});
    install(c, &crd(&c.ns, &schema)).await?;
    Ok(())
}

async fn rule_with_message(c: Ctx) -> Outcome {
    with_rule(&c, json!({"rule": "self.lo <= self.hi", "message": "lo must not be above hi"})).await?;
    make(&c, json!({"lo": 1, "hi": 2})).await?.ok(201)?;
    refused(&c, json!({"lo": 3, "hi": 2}), &[("FieldValueInvalid", "spec", "lo must not be above hi")]).await
}

async fn rule_without_message_tells_the_rule(c: Ctx) -> Outcome {
    with_rule(&c, json!({"rule": "self.lo <= self.hi"})).await?;
    refused(
        &c,
        json!({"lo": 3, "hi": 2}),
        &[("FieldValueInvalid", "spec", "failed rule: self.lo <= self.hi")],
    )
    .await
}

async fn rule_with_expression_path_and_reason(c: Ctx) -> Outcome {
    with_rule(&c, json!({"rule": "self.lo <= self.hi", "messageExpression": "self.lo > 100 ? 'lo is huge' : 'lo is above hi'",
        "fieldPath": ".lo", "reason": "FieldValueForbidden"})).await?;
    let reply = make(&c, json!({"lo": 3, "hi": 2})).await?;
    reply.refused(
        422,
        "Invalid",
        &format!("Thing.{} \"one\" is invalid: spec.lo: Forbidden: lo is above hi", crd_group(&c.ns)),
    )?;
    refused(&c, json!({"lo": 300, "hi": 2}), &[("FieldValueForbidden", "spec.lo", "Forbidden: lo is huge")])
        .await
}

async fn immutable_name(c: &Ctx) -> Outcome {
    with_schema(c, json!({"name": {"type": "string", "maxLength": 20,
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "name is immutable"}]}, "n": {"type": "integer"}})).await
}

async fn transition_rule_guards_updates(c: Ctx) -> Outcome {
    immutable_name(&c).await?;
    make(&c, json!({"name": "x", "n": 1})).await?.ok(201)?;
    let path = format!("{}/one", things(&c));
    let reply = c.merge_patch(&path, &json!({"spec": {"name": "y"}})).await?;
    reply.refused(
        422,
        "Invalid",
        &format!(
            "Thing.{} \"one\" is invalid: spec.name: Invalid value: \"y\": name is immutable",
            crd_group(&c.ns)
        ),
    )?;
    c.merge_patch(&path, &json!({"spec": {"n": 2}})).await?.ok(200)?.is("/spec/n", 2)
}

async fn transition_rule_is_not_asked_on_create(c: Ctx) -> Outcome {
    immutable_name(&c).await?;
    make(&c, json!({"n": 1})).await?.ok(201)?;
    let path = format!("{}/one", things(&c));
    c.merge_patch(&path, &json!({"spec": {"name": "first"}})).await?.ok(200)?.is("/spec/name", "first")?;
    c.merge_patch(&path, &json!({"spec": {"name": null}})).await?.ok(200)?.lacks("/spec/name")
}

async fn rule_on_metadata_name(c: Ctx) -> Outcome {
    let mut definition = crd(&c.ns, &json!({"type": "object"}));
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
        json!([{"rule": "self.metadata.name.startsWith('ok-')", "message": "call it ok-"}]);
    install(&c, &definition).await?;
    c.create(&things(&c), &thing(&c.ns, "ok-one", &json!({}))).await?;
    let reply = make(&c, json!({})).await?;
    reply.refused_about(422, "Invalid", "call it ok-")?;
    Ok(())
}

async fn optional_old_self(c: Ctx) -> Outcome {
    with_rule(&c, json!({"rule": "!oldSelf.hasValue() || self.lo >= oldSelf.value().lo", "optionalOldSelf": true, "message": "lo only grows"})).await?;
    make(&c, json!({"lo": 3})).await?.ok(201)?;
    let path = format!("{}/one", things(&c));
    c.merge_patch(&path, &json!({"spec": {"lo": 4}})).await?.ok(200)?;
    let reply = c.merge_patch(&path, &json!({"spec": {"lo": 1}})).await?;
    reply.refused_about(422, "Invalid", "lo only grows")?;
    Ok(())
}

async fn unchecked_rules_are_told(c: Ctx) -> Outcome {
    with_rule(&c, json!({"rule": "self.lo <= self.hi", "message": "lo must not be above hi"})).await?;
    refused(
        &c,
        json!({"lo": "x", "hi": 1}),
        &[
            ("FieldValueTypeInvalid", "spec.lo", "must be of type integer: \"string\""),
            ("FieldValueInvalid", "<nil>", "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"),
        ],
    )
    .await
}

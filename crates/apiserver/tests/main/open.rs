//! Cases that do not pass on this server yet, and why. A case in this list that passes fails the tests.

pub(crate) const OPEN: &[(&str, &str)] = &[
    ("accept/unknown_type_is_not_acceptable", "406, the message should have \"406: Not Acceptable"),
    ("accept/yaml_answer", "content type: expected \"application/yaml\", found \"application/json\""),
    (
        "create/on_a_named_path_is_not_allowed",
        "201, expected 405 MethodNotAllowed: the server does not allow this method on the requested resource",
    ),
    (
        "delete/create_beside_a_terminating_one_conflicts",
        "409, the message should have \"object is being deleted: configmaps \"a\" already exists\"",
    ),
    ("discovery/kinds_of_the_issue_are_there", "404, expected 200"),
    ("discovery/root_lists_paths", "404, expected 200"),
    ("discovery/verbs_of_a_resource", "404, expected 200"),
    (
        "field validation/strict_refuses_unknown_and_duplicate",
        "201, expected 400 BadRequest: ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.nme",
    ),
    (
        "field validation/warn_is_the_default",
        "default: expected [\"299 - \\\"unknown field \\\\\\\"metadata.nme\\\\\\\"\\\"\", \"299 - \\\"unknown field \\\\\\\"dat\\\\\\\"\\\"\", \"299 - \\\"duplicate field \\\\\\\"data.",
    ),
    ("generation/is_not_raised_by_metadata", "404, expected 201"),
    ("get/invalid_resource_version", "400, expected 500 : resourceVersion: Invalid value: \"abc\""),
    ("health/single_check", "404, expected 200"),
    ("health/verbose_checks", "this should hold: checks are listed"),
    ("health/version", "200, /goVersion should be there"),
    ("json patch/test_of_absent_against_null_holds", "422, expected 200"),
    ("list/items_carry_no_kind", "200, /items/0/kind should not be there and is \"Secret\""),
    ("openapi/document_of_a_group", "404, expected 200"),
    ("openapi/document_of_the_core_group", "404, expected 200"),
    (
        "patch/on_a_collection_is_not_allowed",
        "404, expected 405 MethodNotAllowed: the server does not allow this method on the requested resource",
    ),
    (
        "pod deletion/finished_pod_is_gone_at_once",
        "200, /metadata/deletionGracePeriodSeconds should be 0 and is null",
    ),
    (
        "pod deletion/unbound_pod_is_gone_at_once",
        "200, /metadata/deletionGracePeriodSeconds should be 0 and is null",
    ),
    ("status/is_dropped_on_create", "404, expected 201"),
    ("status/is_not_changed_by_update", "404, expected 201"),
    ("status/patch_of_status_changes_only_status", "404, expected 201"),
    (
        "status/status_of_absent_is_not_found",
        "404, the message should have \"cronjobs.batch \"a\" not found\"",
    ),
    ("status/status_shares_the_resource_version", "404, expected 201"),
    ("status/update_of_status_changes_nothing_else", "404, expected 201"),
    ("table/unknown_include_object_is_refused", "200, expected 400 BadRequest: Everything"),
    (
        "update/deletion_timestamp_cannot_be_set",
        "200, expected 422 Invalid: ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \"2030-01-01T00:00:00Z\": field is immutable",
    ),
    (
        "watch/bookmarks_are_sent_before_the_end",
        "the watch /api/v1/namespaces/bookmarks-are-sent-before-the-end-x8bc2/secrets?resourceVersion=83&allowWatchBookmarks=true&timeoutSeconds=4&wa",
    ),
    (
        "watch/label_selector_lets_objects_in_and_out",
        "GET /api/v1/namespaces/label-selector-lets-objects-in-and-out-hgdkv/secrets?labelSelector=in%3Dyes&resourceVersion=50&watch=true answered 40",
    ),
    ("watch/one_object_by_the_old_path", "/object/metadata/name should be \"b\" and is \"a\""),
];

//! Cases that do not pass on this server yet, and why. A case in this list that passes fails the tests.

pub(crate) const OPEN: &[(&str, &str)] = &[
    ("access review/who_am_i", "an anonymous one may not: expected 403, found 401"),
    (
        "access/anonymous_is_refused_by_name",
        "401, expected 403 Forbidden: nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
    ),
    ("access/resource_names_limit", "403, expected 200"),
    (
        "certificate signing request/conditions_stay",
        "200, expected 422 Invalid: status.conditions: Forbidden: updates may not remove a condition of type \"Denied\"",
    ),
    (
        "config map/too_much_data_is_refused",
        "422, the message should have \"ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes\"",
    ),
    (
        "custom versions/storage_version_change_is_recorded",
        "200, /status/storedVersions should be [\"v1\",\"v1beta1\"] and is [\"v1\"]",
    ),
    ("error/answers_are_json_without_cache", "cache control: expected \"no-cache, private\", found \"\""),
    (
        "event/new_style_needs_its_fields",
        "422, the message should have \"reportingController: Required value\"",
    ),
    (
        "managed fields/manager_name_is_validated",
        "201, expected 422 Invalid: fieldManager: Too long: may not be more than 128 bytes",
    ),
    ("metadata/labels_are_validated", "422, the message should have \"must be no more than 63 bytes\""),
    ("metadata/own_namespace_is_set_on_cluster_kinds_not", "400, expected 201"),
    (
        "pod connections/exec_of_an_unbound_pod",
        "400, the message should have \"pod a does not have a host assigned\"",
    ),
    ("pod connections/log_of_an_unbound_pod", "400, expected 204"),
    ("pod/status_by_subresource", "200, /status/podIPs should be [{\"ip\":\"10.0.0.1\"}] and is null"),
    ("rbac/bootstrap_roles_exist", "404, expected 200"),
];

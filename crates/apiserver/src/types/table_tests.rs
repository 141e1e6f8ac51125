use super::*;

#[test]
fn every_line_of_the_table_is_understood() {
    let mut count = 0;
    for entry in entries() {
        for line in entry.lines.lines() {
            assert!(Field::parse(line).is_some(), "{}: {line}", entry.name);
            count += 1;
        }
        let _ = TypeRef(entry).fields();
    }
    assert!(count > 1900, "{count}");
    assert!(entries().is_sorted_by_key(|entry| entry.name));
}

#[test]
fn every_field_is_found_by_its_name() {
    for ty in all() {
        for field in ty.fields() {
            assert_eq!(ty.field(field.json).map(|found| found.json), Some(field.json), "{ty:?}");
            let longer = format!("{}x", field.json);
            let is_known = ty.fields().iter().any(|other| other.json == longer);
            assert_eq!(ty.field(&longer).is_some(), is_known, "{ty:?}.{longer}");
        }
        assert!(ty.field("").is_none() && ty.field("zzzzzzzzzz").is_none());
    }
}

#[test]
fn kinds_are_found_in_their_group_versions() {
    assert_eq!(kind("apps/v1", "Deployment").map(TypeRef::name), Some("apps/v1.Deployment"));
    assert_eq!(kind("v1", "Pod").map(TypeRef::name), Some("core/v1.Pod"));
    assert_eq!(kind("apps/v1", "DeleteOptions").map(TypeRef::name), Some("meta/v1.DeleteOptions"));
    assert_eq!(kind("apps/v1", "Pod"), None);
    assert_eq!(kind("v1", "PodSpec"), None);
    assert_eq!(kind("example.org/v1", "Deployment"), None);
}

#[test]
fn go_names_stand_where_go_has_them() {
    let go = |ty: &str, field: &str| find(ty).and_then(|ty| ty.field(field)).map(|field| field.ty.go());
    assert_eq!(go("core/v1.Container", "imagePullPolicy").as_deref(), Some("v1.PullPolicy"));
    assert_eq!(go("core/v1.ResourceRequirements", "limits").as_deref(), Some("v1.ResourceList"));
    assert_eq!(go("core/v1.PodSpec", "containers").as_deref(), Some("[]v1.Container"));
    assert_eq!(
        go("core/v1.PersistentVolumeClaimSpec", "accessModes").as_deref(),
        Some("[]v1.PersistentVolumeAccessMode")
    );
    assert_eq!(go("authentication/v1.UserInfo", "extra").as_deref(), Some("map[string]v1.ExtraValue"));
    let extra = find("authentication/v1.UserInfo").and_then(|ty| ty.field("extra"));
    let TypeShape::Map(value) = &extra.expect("is there").ty.shape else { panic!("a map") };
    assert!(value.is_wrapped);
}

#[test]
fn a_walk_finds_names_in_any_order() {
    for ty in all() {
        let mut walk = ty.walk();
        for field in ty.fields().iter().chain(ty.fields().iter().rev()) {
            assert_eq!(walk.field(field.json).map(|found| found.json), Some(field.json), "{ty:?}");
        }
        assert!(walk.field("zzzzzzzzzz").is_none() && walk.field("").is_none());
    }
}

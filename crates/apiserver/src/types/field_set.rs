//! Sets of fields in their wire form (`FieldsV1`): an object per node, `.` in it when the node itself is a
//! member and has members below. A node without anything below is a member.

use serde_json::{Map, Value};

pub(super) type FieldSet = Map<String, Value>;

const SELF: &str = ".";

/// Adds a node. `below` are its members; it is one itself if told so or if there are none.
pub(super) fn insert(set: &mut FieldSet, key: String, mut below: FieldSet, is_member: bool) {
    if is_member && !below.is_empty() {
        below.insert(SELF.to_owned(), Value::Object(FieldSet::new()));
    }
    set.insert(key, Value::Object(below));
}

fn is_member(node: &FieldSet) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Everything that is in either.
pub(super) fn add(set: &mut FieldSet, other: FieldSet) {
    for (key, theirs) in other {
        match (set.get_mut(&key), theirs) {
            (Some(Value::Object(ours)), Value::Object(theirs)) => {
                let either = is_member(ours) || is_member(&theirs);
                add(ours, theirs);
                if either && !ours.is_empty() {
                    ours.insert(SELF.to_owned(), Value::Object(FieldSet::new()));
                }
            }
            (_, theirs) => {
                set.insert(key, theirs);
            }
        }
    }
}

/// Takes out exactly the members of the other set, not what lies below them.
pub(super) fn subtract(set: &mut FieldSet, other: &FieldSet) {
    set.retain(|key, ours| {
        if key == SELF {
            return true;
        }
        let (Value::Object(ours), Some(Value::Object(theirs))) = (ours, other.get(key)) else { return true };
        let stays = is_member(ours) && !is_member(theirs);
        ours.remove(SELF);
        subtract(ours, theirs);
        let is_kept = stays || !ours.is_empty();
        if stays && !ours.is_empty() {
            ours.insert(SELF.to_owned(), Value::Object(FieldSet::new()));
        }
        is_kept
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        let Value::Object(set) = value else { panic!("an object") };
        set
    }

    #[test]
    fn members_are_added_and_taken_out_one_by_one() {
        let both = set(json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}, "f:d": {}}));
        let mut left = set(json!({"f:a": {"f:b": {}}, "f:d": {}}));
        add(&mut left, set(json!({"f:a": {".": {}, "f:c": {}}})));
        assert_eq!(left, both);
        let cases = [
            (json!({"f:a": {}}), json!({"f:a": {"f:b": {}, "f:c": {}}, "f:d": {}})),
            (json!({"f:a": {"f:b": {}, "f:c": {}}}), json!({"f:a": {}, "f:d": {}})),
            (json!({"f:a": {".": {}, "f:b": {}, "f:c": {}}}), json!({"f:d": {}})),
            (json!({"f:a": {"f:x": {}}, "f:d": {"f:y": {}}}), Value::Object(both.clone())),
            (json!({"f:a": {"f:b": {}}, "f:d": {}}), json!({"f:a": {".": {}, "f:c": {}}})),
        ];
        for (other, rest) in cases {
            let mut left = both.clone();
            subtract(&mut left, &set(other.clone()));
            assert_eq!(Value::Object(left), rest, "{other}");
        }
    }
}

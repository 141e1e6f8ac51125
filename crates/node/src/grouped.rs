use hostler_controller::{Change, Key};
use kube::Resource;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// The objects of a watch by something they have in common, for example their node. Each lookup costs as much as
/// it finds.
pub(crate) struct Grouped<K>(Arc<RwLock<Groups<K>>>);

type Groups<K> = BTreeMap<String, BTreeMap<Key, Arc<K>>>;

impl<K> Clone for Grouped<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Default for Grouped<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Resource<DynamicType = ()>> Grouped<K> {
    /// The members of a group, ordered by namespace and name.
    pub(crate) fn of(&self, group: &str) -> Vec<Arc<K>> {
        let groups = self.0.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(group).map(|members| members.values().cloned().collect()).unwrap_or_default()
    }

    /// Follows a watch; `group` names an object's group, or says that it has none.
    pub(crate) fn note(&self, change: &Change<K>, group: impl Fn(&K) -> Option<&str>) {
        let mut groups = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match change {
            Change::Applied { old, new } => {
                if let Some(old) = old {
                    remove(&mut groups, old, &group);
                }
                if let Some(name) = group(new) {
                    groups.entry(name.to_owned()).or_default().insert(Key::of(&**new), new.clone());
                }
            }
            Change::Deleted { last } => remove(&mut groups, last, &group),
            // It stays as it was last understood.
            Change::Malformed { .. } => {}
        }
    }
}

fn remove<K: Resource<DynamicType = ()>>(
    groups: &mut Groups<K>,
    object: &K,
    group: impl Fn(&K) -> Option<&str>,
) {
    let Some(name) = group(object) else { return };
    let Some(members) = groups.get_mut(name) else { return };
    members.remove(&Key::of(object));
    if members.is_empty() {
        groups.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::BoundPod;
    use kube::ResourceExt;
    use serde_json::json;

    fn pod(name: &str, node: &str) -> Arc<BoundPod> {
        let object = json!({"metadata": {"name": name, "namespace": "n"}, "spec": {"nodeName": node}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn objects_are_found_by_their_group_only() {
        let pods = Grouped::<BoundPod>::default();
        let note = |change| {
            pods.note(&change, |pod: &BoundPod| Some(pod.node.as_str()).filter(|node| !node.is_empty()));
        };
        let names = |node: &str| pods.of(node).iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
        note(Change::Applied { old: None, new: pod("b", "x") });
        note(Change::Applied { old: None, new: pod("a", "x") });
        note(Change::Applied { old: None, new: pod("c", "") });
        assert_eq!((names("x"), names("y")), (vec!["a".into(), "b".into()], vec![]));
        note(Change::Applied { old: Some(pod("b", "x")), new: pod("b", "y") });
        note(Change::Deleted { last: pod("a", "x") });
        assert_eq!((names("x"), names("y")), (vec![], vec!["b".into()]));
        assert_eq!(pods.0.read().unwrap().len(), 1, "empty groups are forgotten");
    }
}

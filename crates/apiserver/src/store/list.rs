use super::{Key, Shelf, Store, Stored, TooOld};
use crate::contract::GroupResource;
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// The objects of a resource at one revision, in order.
pub(crate) struct Listed {
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
}

impl Store {
    /// Lists a resource now, or `at` an earlier revision as long as the log reaches back to it. An empty
    /// namespace means all.
    pub(crate) fn list(
        &self,
        resource: &GroupResource,
        namespace: &str,
        at: Option<u64>,
    ) -> Result<Listed, TooOld> {
        let state = self.lock();
        let current = state.revision;
        let revision = at.map_or(current, |at| at.min(current));
        let Some(shelf) = state.shelves.get(resource) else {
            return if at.is_some_and(|at| at < state.forgotten) {
                Err(TooOld { oldest: state.forgotten })
            } else {
                Ok(Listed { items: Vec::new(), revision })
            };
        };
        if revision < shelf.forgotten {
            return Err(TooOld { oldest: shelf.forgotten });
        }
        let items = if shelf.log.back().is_none_or(|last| last.revision <= revision) {
            shelf.now(namespace)
        } else {
            shelf.then(namespace, revision)
        };
        Ok(Listed { items, revision })
    }

    pub(crate) fn is_empty(&self, resource: &GroupResource) -> bool {
        self.lock().shelves.get(resource).is_none_or(|shelf| shelf.objects.is_empty())
    }
}

impl Shelf {
    fn now(&self, namespace: &str) -> Vec<Arc<Stored>> {
        if namespace.is_empty() {
            return self.objects.values().cloned().collect();
        }
        let first = Key::new(namespace, "");
        self.objects
            .range::<Key, _>((Bound::Included(&first), Bound::Unbounded))
            .take_while(|(key, _)| &*key.namespace == namespace)
            .map(|(_, stored)| Arc::clone(stored))
            .collect()
    }

    /// The state at `revision`: the present with later changes undone, the newest first.
    fn then(&self, namespace: &str, revision: u64) -> Vec<Arc<Stored>> {
        let mut items: BTreeMap<Arc<Key>, Arc<Stored>> =
            self.now(namespace).into_iter().map(|stored| (Arc::clone(&stored.key), stored)).collect();
        for change in self.log.iter().rev().take_while(|change| change.revision > revision) {
            let key = &change.now.key;
            if !namespace.is_empty() && &*key.namespace != namespace {
                continue;
            }
            match &change.before {
                Some(before) => items.insert(Arc::clone(key), Arc::clone(before)),
                None => items.remove(key),
            };
        }
        items.into_values().collect()
    }
}

use kube::Resource;
use std::{borrow::Cow, fmt, ops::Deref, sync::Arc};

/// Which object is meant. Ordered by kind, namespace and name; that order is the order of work.
///
/// It is in many places at once, so copies of it share what it says: keep a copy rather than make another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<Names>);

/// What a [`Key`] says.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names {
    pub kind: Cow<'static, str>,
    /// Empty for objects without a namespace.
    pub namespace: String,
    pub name: String,
}

impl Deref for Key {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.0
    }
}

impl Key {
    pub fn new(kind: &'static str, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        let kind = Cow::Borrowed(kind);
        Self(Arc::new(Names { kind, namespace: namespace.into(), name: name.into() }))
    }

    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let meta = object.meta();
        Self::named(K::kind(&()), meta.namespace.as_deref(), meta.name.as_deref())
    }

    /// Of an object of which no more is known than its names.
    pub(crate) fn named(kind: Cow<'static, str>, namespace: Option<&str>, name: Option<&str>) -> Self {
        let own = |name: Option<&str>| name.unwrap_or_default().to_owned();
        Self(Arc::new(Names { kind, namespace: own(namespace), name: own(name) }))
    }

    /// The span every line about this object is written in. The name is in the field `object`: in JSON `name`
    /// is the span's own.
    pub fn span(&self, attempt: u32) -> tracing::Span {
        tracing::info_span!(
            "reconcile",
            kind = %self.kind,
            namespace = %self.namespace,
            object = %self.name,
            attempt,
        )
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::api::ObjectMeta;

    #[test]
    fn keys_name_objects() {
        let metadata =
            ObjectMeta { name: Some("a".into()), namespace: Some("n".into()), ..ObjectMeta::default() };
        assert_eq!(Key::of(&ConfigMap { metadata, ..ConfigMap::default() }).to_string(), "ConfigMap n/a");
        let metadata = ObjectMeta { name: Some("b".into()), ..ObjectMeta::default() };
        assert_eq!(Key::of(&Node { metadata, ..Node::default() }).to_string(), "Node b");
    }
}

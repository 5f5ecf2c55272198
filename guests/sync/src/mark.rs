//! The labels and annotations by which an object says whose it is. Entry points: [`Origin`], [`Origin::mark`] and [`request_of`].
//!
//! Labels find objects, annotations decide: a label holds a digest, the annotations the cluster, namespace and name themselves.

use crate::digest::digest;
use serde_json::{Map, Value, json};
use windlass_sdk::GroupVersionKind;
use windlass_sdk::prelude::*;

/// A label of copies: a digest of the object that it is a copy of.
pub(crate) const OBJECT: &str = "sync.windlass.dev/object";
/// A label of related objects that were brought here: a digest of the object that they are copies of.
pub(crate) const RELATED: &str = "sync.windlass.dev/related";
/// The prefix of labels and annotations of related objects that were brought here: one for each object that needs it, by its digest.
/// The annotation holds that object's name.
const USER: &str = "user.sync.windlass.dev";
/// A label of namespaces that were made here: a digest of the cluster and the namespace.
pub(crate) const NAMESPACE_OF: &str = "sync.windlass.dev/namespace-of";
/// An annotation: the cluster of the consumer, as the program has it.
pub(crate) const CLUSTER: &str = "sync.windlass.dev/cluster";
/// An annotation: the namespace of the consumer.
pub(crate) const NAMESPACE: &str = "sync.windlass.dev/namespace";
/// An annotation: the name of the consumer's object.
pub(crate) const NAME: &str = "sync.windlass.dev/name";
/// An annotation: the logical cluster of the consumer's workspace. Another workspace may get the path of one that is gone.
pub(crate) const WORKSPACE: &str = "sync.windlass.dev/workspace";
/// An annotation of copies: a digest of what was written last.
pub(crate) const APPLIED: &str = "sync.windlass.dev/applied";
/// Where kcp says in which workspace an object is.
const KCP_CLUSTER: &str = "kcp.io/cluster";

/// Letters of a digest in a label: 130 bits.
const LONG: usize = 26;

/// The object of a consumer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Origin {
    /// As the program has it.
    pub(crate) cluster: String,
    pub(crate) key: ObjectKey,
    /// The label [`OBJECT`] of its copy.
    pub(crate) digest: String,
}

impl Origin {
    pub(crate) fn of(request: &Request, kind: &GroupVersionKind) -> Self {
        let (cluster, key) = (&request.cluster, &request.key);
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let texts = [&kind.group, &kind.kind, cluster, namespace, &key.name];
        Self {
            cluster: cluster.clone(),
            key: key.clone(),
            digest: digest(texts, LONG),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.namespace.as_deref().unwrap_or_default()
    }

    /// The selector of its copies.
    pub(crate) fn copies(&self) -> String {
        format!("{OBJECT}={}", self.digest)
    }

    /// Puts the marks of its copy into metadata. `source` is the object.
    pub(crate) fn mark(&self, metadata: &mut Value, source: &Object) {
        set(metadata, "labels", OBJECT, &self.digest);
        set(metadata, "annotations", CLUSTER, &self.cluster);
        set(metadata, "annotations", NAMESPACE, self.namespace());
        set(metadata, "annotations", NAME, &self.key.name);
        let workspace = source.annotation(KCP_CLUSTER).unwrap_or_default();
        set(metadata, "annotations", WORKSPACE, workspace);
    }

    /// Whether an object is its copy. With `source`: also of that very workspace.
    pub(crate) fn owns(&self, copy: &Object, source: Option<&Object>) -> bool {
        let says = |name: &str| copy.annotation(name).unwrap_or_default();
        let workspace = source.map(|source| source.annotation(KCP_CLUSTER).unwrap_or_default());
        copy.label(OBJECT) == Some(&*self.digest)
            && says(CLUSTER) == self.cluster
            && says(NAMESPACE) == self.namespace()
            && says(NAME) == self.key.name
            && workspace.is_none_or(|workspace| says(WORKSPACE) == workspace)
    }

    /// The label, and annotation, by which a related object says that this one needs it.
    pub(crate) fn user(&self) -> String {
        format!("{USER}/{}", self.digest)
    }

    /// The label [`NAMESPACE_OF`] of the namespace that is made for the consumer's namespace.
    pub(crate) fn namespace_digest(&self) -> String {
        digest([&*self.cluster, self.namespace()], LONG)
    }
}

/// The label [`RELATED`] of the copy of an object of this kind, namespace and name.
pub(crate) fn related_digest(cluster: &str, kind: &str, key: &ObjectKey) -> String {
    let namespace = key.namespace.as_deref().unwrap_or_default();
    digest([cluster, kind, namespace, &key.name], LONG)
}

/// The request of the object whose copy this is.
pub(crate) fn request_of(copy: &Object) -> Option<Request> {
    copy.label(OBJECT)?;
    Some(Request {
        cluster: copy.annotation(CLUSTER)?.to_owned(),
        key: key_of(copy, copy.annotation(NAME)?),
    })
}

/// The requests of the objects that need a related one that was brought to the compute cluster.
pub(crate) fn users_there(related: &Object) -> Vec<Request> {
    let cluster = related.annotation(CLUSTER).unwrap_or_default().to_owned();
    let request = |name: &str| Request {
        cluster: cluster.clone(),
        key: key_of(related, name),
    };
    users(related)
        .map(request)
        .filter(|request| !request.cluster.is_empty())
        .collect()
}

/// The requests of the objects that need a related one that was brought to their own workspace, where others may write annotations.
pub(crate) fn users_here(cluster: &str, related: &Object) -> Vec<Request> {
    let request = |name: &str| Request {
        cluster: cluster.to_owned(),
        key: related.key().sibling(name),
    };
    users(related).map(request).collect()
}

fn key_of(object: &Object, name: &str) -> ObjectKey {
    let namespace = object.annotation(NAMESPACE).unwrap_or_default();
    ObjectKey {
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        name: name.to_owned(),
    }
}

/// The names of those who need a related object.
fn users(related: &Object) -> impl Iterator<Item = &str> {
    let annotations = related
        .at("/metadata/annotations")
        .and_then(Value::as_object);
    let is_user = |name: &str| {
        name.split_once('/')
            .is_some_and(|(prefix, _)| prefix == USER)
    };
    let mine = annotations.into_iter().flatten();
    mine.filter(move |(name, _)| is_user(name))
        .filter_map(|(_, value)| value.as_str())
        .filter(|_| related.label(RELATED).is_some())
}

/// Whether nobody needs a related object any more.
pub(crate) fn is_unused(related: &Object) -> bool {
    users(related).next().is_none()
}

/// Sets a label or an annotation.
pub(crate) fn set(metadata: &mut Value, part: &str, name: &str, value: &str) {
    if !metadata[part].is_object() {
        metadata[part] = Value::Object(Map::new());
    }
    metadata[part][name] = json!(value);
}

/// Takes a label or an annotation away.
pub(crate) fn unset(metadata: &mut Value, part: &str, name: &str) {
    if let Some(fields) = metadata[part].as_object_mut() {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(namespace: &str) -> Origin {
        let request = Request {
            cluster: "root:blue".into(),
            key: ObjectKey::namespaced(namespace, "a"),
        };
        Origin::of(&request, &GroupVersionKind::new("example.com/v1", "Bin"))
    }

    fn object(workspace: &str) -> Object {
        Object(json!({"metadata": {"annotations": {"kcp.io/cluster": workspace}}}))
    }

    #[test]
    fn a_copy_says_whose_it_is() {
        let (ours, source) = (origin("default"), object("1x2y3z"));
        let mut copy = Object(json!({"metadata": {}}));
        ours.mark(&mut copy.0["metadata"], &source);
        assert!(ours.owns(&copy, Some(&source)) && ours.owns(&copy, None));
        let request = request_of(&copy).unwrap();
        assert_eq!(request.to_string(), "cluster://root%3Ablue/default/a");
        // A workspace that was made anew under the path is another one.
        assert!(!ours.owns(&copy, Some(&object("4u5v6w"))));
        assert!(!origin("other").owns(&copy, Some(&source)));
        // A label alone, as a person may copy it, is not enough.
        unset(&mut copy.0["metadata"], "annotations", NAME);
        assert!(!ours.owns(&copy, None));
    }
}

//! The part of a server that a cluster is: all of it, one namespace, or one workspace of kcp. Entry point: [`Scope`].
//!
//! Clusters that are parts of one server share its connections, discovery and caches. A cluster that is a namespace shows its objects
//! in the namespace `default`, so that the same reconciler works in a namespace and in a whole server. A workspace has namespaces of
//! its own; its server is a wildcard endpoint, whose caches have the objects of all its workspaces.
//!
//! A name has two forms. *Shown*: as clients and controllers use it, in requests, rules, selectors and errors. *Stored*: as the
//! caches have it; see [`crate::workspace`] for workspaces. Rules are checked on shown names. URLs are built of the names that the server
//! has: of a namespace the stored ones, of a workspace the shown ones, below the workspace's own path.
//!
//! Invariant: no object, key or event of another part of the server passes a scope, in either direction.
//!
//! Not guaranteed: messages of the server and fields other than `metadata.namespace` and the references of events keep the stored name.

use crate::api::{ApiCode, ApiError, Json, PatchType};
use crate::cache::store::Change;
use crate::json::{Object, moved};
use crate::kind::{GroupVersionKind, Resource};
use crate::request::ObjectKey;
use crate::selector::FieldSelector;
use crate::workspace;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The namespace that the objects of a cluster are in if the cluster is itself a namespace of its server.
pub const SHOWN_NAMESPACE: &str = "default";

/// The part of a server that a cluster is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    /// The whole server.
    #[default]
    Whole,
    /// One namespace of the server.
    Namespace(NamespaceScope),
    /// The logical cluster of this name. The server is a wildcard endpoint of kcp: its URL ends in `/clusters/*`. Names of logical clusters
    /// are not used again.
    Workspace(Arc<str>),
}

/// A namespace that is a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceScope {
    /// The namespace's name on the server.
    pub name: Arc<str>,
    /// The namespace's UID. A namespace that is made anew under the same name is another cluster.
    pub uid: Arc<str>,
}

impl Scope {
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Self::Whole)
    }

    pub(crate) fn is_namespace(&self) -> bool {
        matches!(self, Self::Namespace(_))
    }

    /// The stored name of the only namespace of the cluster. `None`: the cluster has every namespace of its server or workspace.
    pub(crate) fn namespace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Namespace(namespace) => Some(&namespace.name),
            Self::Whole | Self::Workspace(_) => None,
        }
    }

    /// The name of its logical cluster, if it is one of many behind an endpoint.
    pub(crate) fn workspace(&self) -> Option<&Arc<str>> {
        match self {
            Self::Workspace(name) => Some(name),
            Self::Whole | Self::Namespace(_) => None,
        }
    }

    /// The part of its server's caches that it is; `None`: all.
    pub(crate) fn part(&self) -> Option<Arc<str>> {
        match self {
            Self::Whole => None,
            Self::Namespace(namespace) => Some(namespace.name.clone()),
            Self::Workspace(name) => Some(workspace::stored(name, None)),
        }
    }

    /// Checks that objects of a kind belong to the cluster.
    ///
    /// # Errors
    /// `denied` for a cluster-scoped kind in a cluster that is a namespace.
    pub(crate) fn check_kind(&self, resource: &Resource) -> Result<(), ApiError> {
        if !self.is_namespace() || resource.namespaced {
            return Ok(());
        }
        let kind = &resource.kind.kind;
        let message = format!(
            "{kind} is cluster-scoped, and this cluster is one namespace of its server: use a kind that has namespaces"
        );
        Err(ApiError::host(ApiCode::Denied, message))
    }

    // --- from shown to stored ---

    /// The stored form of an object's key.
    ///
    /// # Errors
    /// `invalid` when the cluster does not have the namespace.
    pub(crate) fn stored_key<'k>(
        &self,
        key: &'k ObjectKey,
    ) -> Result<Cow<'k, ObjectKey>, ApiError> {
        let namespace = match self {
            Self::Whole => return Ok(Cow::Borrowed(key)),
            Self::Namespace(namespace) => {
                check_shown(key.namespace.as_deref())?;
                namespace.name.clone()
            }
            Self::Workspace(name) => workspace::stored(name, key.namespace.as_deref()),
        };
        Ok(Cow::Owned(ObjectKey {
            namespace: Some(namespace),
            name: key.name.clone(),
        }))
    }

    /// An object's key as the server has it, for a URL.
    ///
    /// # Errors
    /// `invalid` when the cluster does not have the namespace.
    pub(crate) fn url_key<'k>(&self, key: &'k ObjectKey) -> Result<Cow<'k, ObjectKey>, ApiError> {
        match self {
            Self::Whole | Self::Workspace(_) => Ok(Cow::Borrowed(key)),
            Self::Namespace(_) => self.stored_key(key),
        }
    }

    /// The stored form of a collection's namespace; `None` is every namespace of the cluster.
    ///
    /// # Errors
    /// `invalid` when the cluster does not have the namespace.
    pub(crate) fn stored_namespace(
        &self,
        shown: Option<Arc<str>>,
    ) -> Result<Option<Arc<str>>, ApiError> {
        match self {
            Self::Whole => Ok(shown),
            Self::Namespace(namespace) => {
                check_shown(shown.as_deref().or(Some(SHOWN_NAMESPACE)))?;
                Ok(Some(namespace.name.clone()))
            }
            Self::Workspace(name) => Ok(Some(workspace::stored(name, shown.as_deref()))),
        }
    }

    /// A collection's namespace as the server has it, for a URL.
    ///
    /// # Errors
    /// `invalid` when the cluster does not have the namespace.
    pub(crate) fn url_namespace(
        &self,
        shown: Option<Arc<str>>,
    ) -> Result<Option<Arc<str>>, ApiError> {
        match self {
            Self::Whole | Self::Workspace(_) => Ok(shown),
            Self::Namespace(_) => self.stored_namespace(shown),
        }
    }

    /// The namespace of a collection as the server has it, of its stored form.
    pub(crate) fn url_of_stored<'n>(&self, stored: Option<&'n str>) -> Option<&'n str> {
        match self {
            Self::Whole | Self::Namespace(_) => stored,
            Self::Workspace(_) => workspace::split(stored?)?.1,
        }
    }

    /// The stored form of a selector of fields.
    pub(crate) fn stored_fields(&self, shown: FieldSelector) -> FieldSelector {
        let Some(stored) = self.namespace() else {
            return shown;
        };
        let mut requirements = shown.requirements().to_vec();
        for requirement in &mut requirements {
            if &*requirement.field != "metadata.namespace" {
                continue;
            }
            // The two names change places, so that the stored name as a shown one selects nothing.
            if &*requirement.value == SHOWN_NAMESPACE {
                requirement.value = (&**stored).into();
            } else if *requirement.value == **stored {
                requirement.value = SHOWN_NAMESPACE.into();
            }
        }
        FieldSelector::new(requirements)
    }

    /// The stored form of an object's text.
    ///
    /// # Errors
    /// `invalid` when the text is no JSON object.
    pub(crate) fn stored_text(
        &self,
        kind: &GroupVersionKind,
        text: Json,
    ) -> Result<Json, ApiError> {
        match self.namespace() {
            None => Ok(text),
            Some(stored) => moved(&text, members(&kind.kind), SHOWN_NAMESPACE, stored)
                .map_err(|error| unusable("object", &error)),
        }
    }

    /// The stored form of a patch.
    ///
    /// # Errors
    /// `invalid` when the patch is not JSON of its type.
    pub(crate) fn stored_patch(
        &self,
        kind: &GroupVersionKind,
        patch_type: PatchType,
        patch: Json,
    ) -> Result<Json, ApiError> {
        let Some(stored) = self.namespace() else {
            return Ok(patch);
        };
        if patch_type != PatchType::Json {
            return moved(&patch, members(&kind.kind), SHOWN_NAMESPACE, stored)
                .map_err(|error| unusable("patch", &error));
        }
        let mut operations: Vec<Value> =
            serde_json::from_slice(&patch).map_err(|error| unusable("patch", &error))?;
        let namespace = |member: &&str| format!("/{member}/namespace");
        let paths: Vec<String> = members(&kind.kind).iter().map(namespace).collect();
        let mut changed = false;
        for operation in &mut operations {
            let names_it = paths.iter().any(|path| operation["path"] == **path);
            if names_it && operation["value"] == SHOWN_NAMESPACE {
                operation["value"] = Value::from(&**stored);
                changed = true;
            }
        }
        if changed {
            return Ok(Value::from(operations).to_string().into());
        }
        // Verbatim: the numbers of a text that was read may be written in another form.
        Ok(patch)
    }

    // --- from stored to shown ---

    /// The shown form of a key; `None` if the object is not in the cluster.
    pub(crate) fn shown_key(&self, key: ObjectKey) -> Option<ObjectKey> {
        let namespace = match self {
            Self::Whole => return Some(key),
            Self::Namespace(namespace) => {
                let is_here = key.namespace.as_ref() == Some(&namespace.name);
                is_here.then(|| Some(SHOWN_NAMESPACE.into()))?
            }
            Self::Workspace(name) => {
                let (workspace, namespace) = workspace::split(key.namespace.as_deref()?)?;
                (workspace == &**name).then(|| namespace.map(Arc::from))?
            }
        };
        Some(ObjectKey {
            namespace,
            name: key.name,
        })
    }

    /// The shown form of the namespace of a collection.
    pub(crate) fn shown_namespace<'n>(&self, stored: Option<&'n str>) -> Option<&'n str> {
        match self {
            Self::Whole => stored,
            Self::Namespace(_) => Some(SHOWN_NAMESPACE),
            Self::Workspace(_) => self.url_of_stored(stored),
        }
    }

    /// The shown form of an object; `None` if the object is not in the cluster.
    pub(crate) fn shown(&self, object: Object) -> Option<Object> {
        let stored = match self {
            Self::Whole => return Some(object),
            Self::Namespace(namespace) => &namespace.name,
            Self::Workspace(name) => return object.out_of_workspace(name),
        };
        (object.namespace().as_deref() == Some(&**stored))
            .then(|| object.moved(members(&object.kind()), stored, SHOWN_NAMESPACE))
    }

    /// The shown form of a change; `None` if its object is not in the cluster.
    pub(crate) fn shown_change<'c>(&self, change: &'c Change) -> Option<Cow<'c, Change>> {
        if self.is_whole() {
            return Some(Cow::Borrowed(change));
        }
        let shown = |object: &Option<Object>| self.shown(object.clone()?);
        let (old, new) = (shown(&change.old), shown(&change.new));
        (old.is_some() || new.is_some()).then(|| {
            Cow::Owned(Change {
                old,
                new,
                initial: change.initial,
            })
        })
    }

    /// The shown form of the text of an object that a server answered with. A text that is no object stays as it is.
    pub(crate) fn shown_text(&self, kind: &GroupVersionKind, text: Json) -> Json {
        let Some(stored) = self.namespace() else {
            return text;
        };
        moved(&text, members(&kind.kind), stored, SHOWN_NAMESPACE).unwrap_or(text)
    }
}

/// The members of an object that name its namespace.
fn members(kind: &str) -> &'static [&'static str] {
    match kind {
        // The object of an event is in the event's namespace: `involvedObject` in the core group, `regarding` in events.k8s.io.
        "Event" => &["metadata", "involvedObject", "regarding", "related"],
        _ => &["metadata"],
    }
}

fn check_shown(namespace: Option<&str>) -> Result<(), ApiError> {
    if namespace == Some(SHOWN_NAMESPACE) {
        return Ok(());
    }
    let message = format!(
        "this cluster is one namespace of its server, and its objects are in the namespace {SHOWN_NAMESPACE:?}: {:?} is not there",
        namespace.unwrap_or_default()
    );
    Err(ApiError::host(ApiCode::Invalid, message))
}

fn unusable(what: &str, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::host(
        ApiCode::Invalid,
        format!("the {what} is not usable: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        Scope::Namespace(NamespaceScope {
            name: "team-a".into(),
            uid: "1".into(),
        })
    }

    fn config_map() -> GroupVersionKind {
        GroupVersionKind::new("", "v1", "ConfigMap")
    }

    fn json(value: Value) -> Json {
        value.to_string().into()
    }

    #[test]
    fn keys_of_the_namespace_default_are_stored_in_the_namespace_and_others_are_invalid() {
        let key = ObjectKey::namespaced("default", "a");
        let stored = scope().stored_key(&key).unwrap().into_owned();
        assert_eq!(stored, ObjectKey::namespaced("team-a", "a"));
        assert_eq!(scope().shown_key(stored), Some(key));
        for other in ["team-a", "team-b", "kube-system"] {
            let key = ObjectKey::namespaced(other, "a");
            let error = scope().stored_key(&key).unwrap_err();
            assert_eq!(error.code, ApiCode::Invalid, "{other}");
            assert!(scope().stored_namespace(Some(other.into())).is_err());
        }
        assert_eq!(
            scope().stored_namespace(None).unwrap().as_deref(),
            Some("team-a")
        );
        assert_eq!(
            scope().shown_key(ObjectKey::namespaced("default", "a")),
            None
        );
    }

    #[test]
    fn cluster_scoped_kinds_are_denied() {
        let resource = |namespaced| Resource {
            kind: config_map(),
            plural: "configmaps".into(),
            namespaced,
        };
        assert!(scope().check_kind(&resource(true)).is_ok());
        let denied = scope().check_kind(&resource(false)).unwrap_err();
        assert_eq!(denied.code, ApiCode::Denied);
        assert!(Scope::Whole.check_kind(&resource(false)).is_ok());
    }

    #[test]
    fn the_two_names_of_the_namespace_change_places_in_selectors() {
        let stored = |text: &str| scope().stored_fields(FieldSelector::parse(text).unwrap());
        assert_eq!(
            stored("metadata.namespace=default,metadata.name=default").to_string(),
            "metadata.name=default,metadata.namespace=team-a"
        );
        assert_eq!(
            stored("metadata.namespace!=team-a").to_string(),
            "metadata.namespace!=default"
        );
    }

    #[test]
    fn patches_of_every_type_name_the_stored_namespace() {
        let merge =
            json(json!({"metadata": {"namespace": "default"}, "data": {"namespace": "default"}}));
        for patch_type in [PatchType::Merge, PatchType::StrategicMerge] {
            let stored = scope().stored_patch(&config_map(), patch_type, merge.clone());
            let stored: Value = serde_json::from_slice(&stored.unwrap()).unwrap();
            assert_eq!(stored["metadata"]["namespace"], "team-a");
            assert_eq!(stored["data"]["namespace"], "default");
        }
        let operations = json(json!([
            {"op": "test", "path": "/metadata/namespace", "value": "default"},
            {"op": "add", "path": "/data/namespace", "value": "default"},
        ]));
        let stored = scope().stored_patch(&config_map(), PatchType::Json, operations);
        let stored: Value = serde_json::from_slice(&stored.unwrap()).unwrap();
        assert_eq!(stored[0]["value"], "team-a");
        assert_eq!(stored[1]["value"], "default");
        let broken = scope().stored_patch(&config_map(), PatchType::Json, json(json!({})));
        assert_eq!(broken.unwrap_err().code, ApiCode::Invalid);
    }

    #[test]
    fn references_of_events_move_with_them() {
        let event = json(json!({
            "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"namespace": "default", "name": "default"},
            "related": {"namespace": "team-b"},
        }));
        let kind = GroupVersionKind::new("", "v1", "Event");
        let stored = scope().stored_text(&kind, event.clone()).unwrap();
        let value: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(
            value["involvedObject"],
            json!({"namespace": "team-a", "name": "default"})
        );
        assert_eq!(value["related"]["namespace"], "team-b");
        assert_eq!(scope().shown_text(&kind, stored), event);
    }

    #[test]
    fn objects_of_other_namespaces_are_not_shown() {
        let object = |namespace: &str| {
            let metadata = json!({"name": "a", "namespace": namespace});
            Object::parse(json(json!({"kind": "ConfigMap", "metadata": metadata}))).unwrap()
        };
        let shown = scope().shown(object("team-a")).unwrap();
        assert_eq!(shown.namespace().as_deref(), Some("default"));
        assert!(scope().shown(object("team-b")).is_none());
        assert!(scope().shown(object("default")).is_none());
        let change = Change {
            old: Some(object("team-b")),
            new: None,
            initial: false,
        };
        assert!(scope().shown_change(&change).is_none());
    }
}

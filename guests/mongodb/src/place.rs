//! Where the copy of a consumer's object is on the compute cluster. Entry point: [`Place::of`].
//!
//! The copy has the name of its object, in a namespace `<namespace>-<logical cluster>`. kcp gives the name of a logical cluster once and
//! never again, and there is no dash in it: so no two objects of any workspaces share a copy, and people can read whose it is.

use windlass_sdk::prelude::*;

/// A label of everything here that belongs to a workspace: the name of its logical cluster.
pub(crate) const WORKSPACE: &str = "mongodb.windlass.dev/workspace";
/// A label of copies: the namespace in the workspace.
pub(crate) const NAMESPACE: &str = "mongodb.windlass.dev/namespace";
/// An annotation of namespaces, for people: the path of the workspace.
pub(crate) const PATH: &str = "mongodb.windlass.dev/path";
/// The longest name of a namespace.
const LONGEST: usize = 63;

/// An object and its copy.
pub(crate) struct Place {
    /// The name of the logical cluster.
    pub(crate) workspace: String,
    /// In the workspace.
    pub(crate) original: ObjectKey,
    /// On the compute cluster.
    pub(crate) copy: ObjectKey,
}

impl Place {
    pub(crate) fn of(workspace: &str, original: &ObjectKey) -> Self {
        let namespace = original.namespace.as_deref().unwrap_or_default();
        Self {
            workspace: workspace.to_owned(),
            original: original.clone(),
            copy: ObjectKey::namespaced(format!("{namespace}-{workspace}"), &*original.name),
        }
    }

    /// The namespace on the compute cluster.
    pub(crate) fn namespace(&self) -> &str {
        self.copy.namespace.as_deref().unwrap_or_default()
    }

    /// By how many characters the name of the consumer's namespace is too long.
    pub(crate) fn excess(&self) -> usize {
        self.namespace().len().saturating_sub(LONGEST)
    }

    /// What everything of the workspace on the compute cluster is labelled with.
    pub(crate) fn label(&self, metadata: Metadata) -> Metadata {
        let namespace = self.original.namespace.clone().unwrap_or_default();
        metadata
            .label(WORKSPACE, &*self.workspace)
            .label(NAMESPACE, namespace)
    }

    /// Whether an object of the compute cluster belongs to the workspace.
    pub(crate) fn owns(&self, metadata: &Metadata) -> bool {
        metadata.labels.get(WORKSPACE) == Some(&self.workspace)
    }
}

/// The request of the object whose copy has these labels.
pub(crate) fn asking(
    name: &str,
    workspace: Option<&str>,
    namespace: Option<&str>,
) -> Option<Request> {
    Some(Request {
        cluster: workspace?.to_owned(),
        key: ObjectKey::namespaced(namespace?, name),
    })
}

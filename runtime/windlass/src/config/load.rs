//! Configuration from files, folders and many documents in a file. Entry points: [`load`] and [`Configuration`].

mod files;
mod merge;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use files::Listing;
pub(crate) use merge::{Merged, merge};
pub(crate) use read::{Bad, load};

use crate::config::document::{Position, Problem};
use crate::config::kinds::{
    Identity, Kind, ManagerSpec, ProviderSpec, ReconcilerSpec, RuleSpec, TenantSpec,
};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// What a valid document asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Spec {
    /// The process.
    Manager(Box<ManagerSpec>),
    /// A source of clusters.
    Provider(ProviderSpec),
    /// An owner of reconcilers.
    Tenant(TenantSpec),
    /// A guest at work.
    Reconciler(Box<ReconcilerSpec>),
}

/// A valid document and where it was read.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// Kind and name.
    pub(crate) identity: Identity,
    /// What it asks for.
    pub(crate) spec: Spec,
    /// The file, as the user wrote its path.
    pub(crate) file: Arc<str>,
    /// Where the document begins in it.
    pub(crate) position: Position,
}

impl PartialEq for Document {
    /// Equal documents ask for the same; where they stand in their file does not count, the folder that relative paths
    /// start from does.
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.spec == other.spec
            && self.folder() == other.folder()
    }
}

impl Document {
    /// The folder that relative paths in the document start from.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(&*self.file).parent().unwrap_or(Path::new(""))
    }

    /// A path of the document as seen from the current folder.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        let path = self.folder().join(path);
        let path: PathBuf = path
            .components()
            .filter(|part| *part != Component::CurDir)
            .collect();
        if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path
        }
    }

    /// A problem with this document as a whole.
    pub(crate) fn problem(&self, message: impl std::fmt::Display) -> Problem {
        Problem::at(
            &self.file,
            self.position,
            format!("{}: {message}", self.identity),
        )
    }
}

/// Valid documents with distinct identities, sorted by them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Configuration {
    /// The documents, sorted by identity.
    documents: Vec<Document>,
}

impl Configuration {
    /// All documents.
    pub(crate) fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The document of this identity.
    pub(crate) fn get(&self, identity: &Identity) -> Option<&Document> {
        let index = self
            .documents
            .binary_search_by(|document| document.identity.cmp(identity))
            .ok()?;
        self.documents.get(index)
    }

    /// The manager's document, if there is one.
    pub(crate) fn manager(&self) -> Option<(&Document, &ManagerSpec)> {
        self.documents
            .iter()
            .find_map(|document| match &document.spec {
                Spec::Manager(spec) => Some((document, &**spec)),
                _ => None,
            })
    }

    /// What the manager's document asks for, or the defaults.
    pub(crate) fn manager_spec(&self) -> ManagerSpec {
        let spec = self.manager().map(|(_, spec)| spec.clone());
        spec.unwrap_or_default()
    }

    /// The providers.
    pub(crate) fn providers(&self) -> impl Iterator<Item = (&Document, &ProviderSpec)> {
        self.documents
            .iter()
            .filter_map(|document| match &document.spec {
                Spec::Provider(spec) => Some((document, spec)),
                _ => None,
            })
    }

    /// The tenants that have a document.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&Document, &TenantSpec)> {
        self.documents
            .iter()
            .filter_map(|document| match &document.spec {
                Spec::Tenant(spec) => Some((document, spec)),
                _ => None,
            })
    }

    /// The reconcilers.
    pub(crate) fn reconcilers(&self) -> impl Iterator<Item = (&Document, &ReconcilerSpec)> {
        self.documents
            .iter()
            .filter_map(|document| match &document.spec {
                Spec::Reconciler(spec) => Some((document, &**spec)),
                _ => None,
            })
    }

    /// The tenant's document, if it has one.
    pub(crate) fn tenant(&self, name: &str) -> Option<(&Document, &TenantSpec)> {
        self.tenants()
            .find(|(document, _)| document.identity.name == name)
    }

    /// Whether a document names the local cluster or works in it.
    pub(crate) fn asks_for_local(&self) -> bool {
        let opens = |rule: &RuleSpec| {
            rule.clusters
                .as_ref()
                .is_some_and(|clusters| clusters.local)
        };
        let named = self.manager().is_some_and(|(_, spec)| spec.local.is_some());
        named
            || self
                .reconcilers()
                .any(|(_, spec)| spec.clusters.local == Some(true) || spec.rules.iter().any(opens))
    }

    /// Whether a document of the kind exists.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.documents
            .iter()
            .any(|document| document.identity.kind == kind)
    }
}

/// What reading the configuration brought.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What is valid.
    pub(crate) configuration: Configuration,
    /// What is not.
    pub(crate) bad: Vec<Bad>,
    /// The files that were read, and the folders that were listed for them.
    pub(crate) listing: Listing,
}

//! The documents in files and folders. Entry points: [`start`], then [`load`] at each reload; [`merge`] after both; and [`Configuration`].

mod files;
mod merge;
mod read;
mod start;
#[cfg(test)]
mod tests;

pub(crate) use files::Listing;
pub(crate) use merge::{Merged, merge};
pub(crate) use read::{Bad, load, read_object};
pub(crate) use start::start;

use crate::config::kinds::{
    Identity, Kind, ManagerSpec, Origin, ProviderSpec, ReconcilerSpec, RuleSpec, TenantSpec,
};
use crate::config::pauses::Pauses;
use crate::config::record::ObjectRecord;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use windlass_files::{Node, Position, Problem};

/// The spec of a valid document, by kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Spec {
    /// Options of the process.
    Manager(Box<ManagerSpec>),
    /// A source of clusters.
    Provider(Box<ProviderSpec>),
    /// An owner of reconcilers.
    Tenant(Box<TenantSpec>),
    /// A guest and its options.
    Reconciler(Box<ReconcilerSpec>),
}

/// A valid document and its location.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// Kind and name.
    pub(crate) identity: Identity,
    /// The spec.
    pub(crate) spec: Spec,
    /// The file, as the user wrote its path.
    pub(crate) file: Arc<str>,
    /// The position of the document in the file.
    pub(crate) position: Position,
    /// Whether it is a document of a file or an object of the local cluster.
    pub(crate) origin: Origin,
    /// Whether its `config` has values of Secrets, which no message may show.
    pub(crate) has_secrets: bool,
    /// The `config` of a Reconciler, with its positions in the file.
    pub(crate) config: Option<Arc<Node>>,
    /// The pauses that its annotations ask for. They change nothing that is loaded, and so do not count in comparisons.
    pub(crate) pauses: Pauses,
    /// What the status of a Reconciler's object says; none: it is no such object.
    pub(crate) record: Option<Arc<ObjectRecord>>,
}

impl PartialEq for Document {
    /// Equal documents have the same effect. Positions in the file do not count, but the folder does: relative paths start there.
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
            && self.spec == other.spec
            && self.folder() == other.folder()
    }
}

impl Document {
    /// The folder from which relative paths of the document start.
    pub(crate) fn folder(&self) -> &Path {
        Path::new(&*self.file).parent().unwrap_or(Path::new(""))
    }

    /// A path of the document, relative to the current folder.
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

    /// A problem with the whole document.
    pub(crate) fn problem(&self, message: impl std::fmt::Display) -> Problem {
        let message = format!("{}: {message}", self.identity);
        match self.origin {
            Origin::File => Problem::at(&self.file, self.position, message),
            Origin::Cluster => Problem::of_file(&self.file, message),
        }
    }
}

/// Valid documents, sorted by identity. No two have the same identity.
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

    /// The Manager alone, if there is one.
    pub(crate) fn only_manager(&self) -> Self {
        let manager = self.manager().map(|(document, _)| document.clone());
        Self {
            documents: manager.into_iter().collect(),
        }
    }

    /// Adds a document, or replaces the one of its identity.
    pub(crate) fn insert(&mut self, document: Document) {
        let of = |other: &Document| other.identity.cmp(&document.identity);
        match self.documents.binary_search_by(of) {
            Ok(index) => self.documents[index] = document,
            Err(index) => self.documents.insert(index, document),
        }
    }

    /// Removes the document of this identity, if there is one.
    pub(crate) fn remove(&mut self, identity: &Identity) {
        self.documents
            .retain(|document| document.identity != *identity);
    }

    /// The tenants that claim a namespace of the local cluster with these labels.
    pub(crate) fn claimants(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<&Document> {
        let claiming = self.tenants().filter(|(_, spec)| {
            let claim = spec.namespaces.as_ref();
            claim.is_some_and(|claim| claim.has(namespace, labels))
        });
        claiming.map(|(document, _)| document).collect()
    }

    /// The document of this identity.
    pub(crate) fn get(&self, identity: &Identity) -> Option<&Document> {
        let index = self
            .documents
            .binary_search_by(|document| document.identity.cmp(identity))
            .ok()?;
        self.documents.get(index)
    }

    /// The Manager document, if there is one.
    pub(crate) fn manager(&self) -> Option<(&Document, &ManagerSpec)> {
        self.documents
            .iter()
            .find_map(|document| match &document.spec {
                Spec::Manager(spec) => Some((document, &**spec)),
                _ => None,
            })
    }

    /// The spec of the Manager document, or the defaults if there is no such document. A document that is refused never has this effect:
    /// [`start`] fails, and [`merge`] keeps its last good version.
    pub(crate) fn manager_spec(&self) -> ManagerSpec {
        let spec = self.manager().map(|(_, spec)| spec.clone());
        spec.unwrap_or_default()
    }

    /// The providers.
    pub(crate) fn providers(&self) -> impl Iterator<Item = (&Document, &ProviderSpec)> {
        self.documents
            .iter()
            .filter_map(|document| match &document.spec {
                Spec::Provider(spec) => Some((document, &**spec)),
                _ => None,
            })
    }

    /// The tenants that have a document.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&Document, &TenantSpec)> {
        self.documents
            .iter()
            .filter_map(|document| match &document.spec {
                Spec::Tenant(spec) => Some((document, &**spec)),
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

    /// The document of a provider, if there is one.
    pub(crate) fn provider(&self, name: &str) -> Option<(&Document, &ProviderSpec)> {
        self.providers()
            .find(|(document, _)| document.identity.name == name)
    }

    /// The document of a tenant, if there is one.
    pub(crate) fn tenant(&self, name: &str) -> Option<(&Document, &TenantSpec)> {
        self.tenants()
            .find(|(document, _)| document.identity.name == name)
    }

    /// Whether any provider has clusters. Without one, reconcilers engage the local cluster by default.
    pub(crate) fn has_provider(&self) -> bool {
        self.providers().any(|(_, spec)| !spec.is_none())
    }

    /// Whether every provider says that it has no clusters, so that the local cluster is the only one.
    pub(crate) fn is_local_only(&self) -> bool {
        self.has(Kind::Provider) && !self.has_provider()
    }

    /// Whether a document uses the local cluster.
    pub(crate) fn asks_for_local(&self) -> bool {
        let opens = |rule: &RuleSpec| {
            rule.clusters
                .as_ref()
                .is_some_and(|clusters| clusters.local)
        };
        let named = self.manager().is_some_and(|(_, spec)| spec.local.is_some());
        named
            || self.is_local_only()
            || self.reconcilers().any(|(_, spec)| {
                spec.clusters.local == Some(true)
                    || spec.rules.iter().any(opens)
                    || spec.guest.pull_secret.is_some()
            })
    }

    /// Whether a document of the kind exists.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.documents
            .iter()
            .any(|document| document.identity.kind == kind)
    }
}

/// The result of reading the configuration.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// The valid documents.
    pub(crate) configuration: Configuration,
    /// The documents and files that are not valid.
    pub(crate) bad: Vec<Bad>,
    /// The files that were read, and the folders that were listed.
    pub(crate) listing: Listing,
}

impl Outcome {
    /// Whether a file has a document of this identity, valid or not.
    pub(crate) fn defines(&self, identity: &Identity) -> bool {
        let is_bad = |bad: &Bad| bad.identity.as_ref() == Some(identity);
        self.configuration.get(identity).is_some() || self.bad.iter().any(is_bad)
    }
}

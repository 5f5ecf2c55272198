//! What happens when an object of a consumer goes, or leaves the selection. Entry points: [`Work::end`] and [`Work::forget`].

use crate::config::{Deletion, Published, Scope};
use crate::copy::Namespace;
use crate::mark::NAMESPACE_OF;
use crate::names;
use crate::related;
use crate::report::report;
use crate::template::Facts;
use crate::trouble::{ABANDON, Trouble};
use crate::work::Work;
use windlass_sdk::prelude::*;
use windlass_sdk::{DeleteOptions, fleet};

impl Work<'_> {
    /// Deletes the copy of an object, and lets the object go once the copy is gone.
    ///
    /// # Errors
    /// If it is tried again.
    pub(crate) fn end(&self, source: &Object) -> Result<Action> {
        if !self.is_held(source) {
            return Ok(Action::Done);
        }
        if self.published.deletion == Deletion::Orphan {
            return self.release(source);
        }
        if source.is_deleting() && source.annotation(ABANDON) == Some("true") {
            warn!("let go though its copy may be there", key = self.origin.key);
            return self.release(source);
        }
        let trouble = match self.remove() {
            Ok(true) => {
                let removed = related::remove(self, self.workspace).map(drop);
                removed.or_else(|trouble| match trouble {
                    // They go with their owner.
                    Trouble::Claim(_) => Ok(()),
                    trouble => Err(trouble),
                })
            }
            Ok(false) => Err(Trouble::Ending(None)),
            Err(trouble) => Err(trouble.while_ending()),
        };
        match trouble {
            Ok(()) => self.release(source),
            Err(trouble) => {
                report(self, source, None, Some(&trouble))?;
                trouble.next()
            }
        }
    }

    fn release(&self, source: &Object) -> Result<Action> {
        self.hold(source, false)?;
        info!("let go", key = self.origin.key);
        Ok(Action::Done)
    }

    /// Deletes the copy of an object that went without waiting for it.
    ///
    /// # Errors
    /// If it is tried again.
    pub(crate) fn forget(&self) -> Result<Action> {
        if self.published.deletion == Deletion::Orphan {
            return Ok(Action::Done);
        }
        match self.remove() {
            Ok(_) => Ok(Action::Done),
            Err(trouble) => trouble.next(),
        }
    }

    /// Deletes the copy, and once it is gone what only it needed. Returns whether it is gone.
    fn remove(&self) -> Result<bool, Trouble> {
        let compute = fleet::local().map_err(Trouble::compute)?;
        let of_kind = compute.of(self.published.target_kind());
        // Of a cluster that was away, a cache may tell what was.
        let marked = ListOptions::default().labels(self.origin.copies()).live();
        let copies = || -> Result<Vec<Object>, Trouble> {
            let all = of_kind.list(&marked).map_err(Trouble::compute)?;
            let ours = all.into_iter();
            Ok(ours.filter(|copy| self.origin.owns(copy, None)).collect())
        };
        let there = copies()?;
        for copy in there.iter().filter(|copy| !copy.is_deleting()) {
            compute.delete_object(copy).map_err(Trouble::compute)?;
        }
        if !there.is_empty() && !copies()?.is_empty() {
            return Ok(false);
        }
        let brought = related::remove(self, &compute)?;
        let mut namespaces = brought;
        namespaces.extend(there.iter().filter_map(|copy| copy.key().namespace));
        // A run that ended after the copy was gone left the namespace.
        namespaces.extend(names::place(self.published, &self.facts).namespace);
        namespaces.sort();
        namespaces.dedup();
        for namespace in namespaces {
            self.tidy(&compute, &namespace)?;
        }
        Ok(true)
    }

    /// Deletes a namespace that was made here, if no copy is in it and no object of its consumer asks for one.
    ///
    /// Every object of a consumer's namespace shares it, and each may be at work in another run: the copies alone do not tell, because the
    /// namespace is there before the first copy. A namespace that `projection.namespace` names stays: objects of other consumers, which
    /// nobody can list here, may share it.
    fn tidy(&self, compute: &Cluster, name: &str) -> Result<(), Trouble> {
        let key = ObjectKey::cluster_scoped(name);
        let there = compute
            .get_live::<Namespace>(&key)
            .map_err(Trouble::compute)?;
        let own = self.origin.namespace_digest();
        let is_own = |there: &Namespace| there.metadata.labels.get(NAMESPACE_OF) == Some(&own);
        let Some(there) = there.filter(is_own) else {
            return Ok(());
        };
        let inside = ListOptions::default().namespace(name).live().limit(1);
        for published in self.namespaced() {
            if published.projection.namespace.is_some()
                && self.is_place(published, &self.facts, name)
            {
                return Ok(());
            }
            let of_kind = compute.of(published.target_kind());
            let first = of_kind.iterate(inside.clone()).next();
            if first.transpose().map_err(Trouble::compute)?.is_some() {
                return Ok(());
            }
        }
        if self.is_awaited(name)? {
            return Ok(());
        }
        // A copy that begins in it meanwhile changes the namespace first.
        let options = DeleteOptions {
            uid: there.metadata.uid,
            resource_version: there.metadata.resource_version,
            ..DeleteOptions::default()
        };
        let kind = <Namespace as Typed>::KIND.into();
        match compute.delete_with(&kind, &key, &options) {
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop).map_err(Trouble::compute),
        }
    }

    /// Whether an object of the same consumer asks for a copy in a namespace, published kinds of any name included.
    fn is_awaited(&self, name: &str) -> Result<bool, Trouble> {
        // Of a workspace that was away, a cache may tell what was.
        let mut beside = ListOptions::default().live();
        if let Some(namespace) = &self.origin.key.namespace {
            beside = beside.namespace(namespace);
        }
        let scope = self.published.source.scope;
        for published in self.namespaced().filter(|one| one.source.scope == scope) {
            let of_kind = self.workspace.of(published.source_kind());
            for source in of_kind.iterate(beside.clone()) {
                let source = match source {
                    Ok(source) => source,
                    // A workspace need not have bound every kind.
                    Err(error) if error.code == ApiCode::UnknownKind => break,
                    Err(error) => return Err(Trouble::Again(error.into())),
                };
                let facts = Facts {
                    name: source.key().name,
                    ..self.facts.clone()
                };
                let stays = !source.is_deleting() && published.selects(&source);
                if stays && self.is_place(published, &facts, name) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The kinds whose copies have a namespace.
    fn namespaced(&self) -> impl Iterator<Item = &Published> {
        let all = self.config.resources.iter();
        all.filter(|one| one.target_scope() == Scope::Namespaced)
    }

    /// Whether a new copy goes into a namespace.
    fn is_place(&self, published: &Published, facts: &Facts, namespace: &str) -> bool {
        names::place(published, facts).namespace.as_deref() == Some(namespace)
    }
}

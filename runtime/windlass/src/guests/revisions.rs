//! Compiled components that are kept, and those that are being compiled. Entry point: [`Revisions`].

use super::LoadFailure;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_fleet::Digest;
use windlass_fleet::TenantName;
use windlass_sandbox::{Revision, Sandbox};

/// A component that is being compiled, shared by all loads that wait for it. Dropping the last clone cancels the compilation.
pub(super) type PendingRevision = Shared<BoxFuture<'static, Result<Revision, LoadFailure>>>;

/// The tenant whose compile permit is used, the file to read, and the digest that it should have.
type Source = (TenantName, PathBuf, Digest);

/// Compiled components. Reconcilers with the same component share one. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Revisions {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    kept: BTreeMap<Digest, Revision>,
    pending: BTreeMap<Source, WeakShared<BoxFuture<'static, Result<Revision, LoadFailure>>>>,
}

impl Revisions {
    /// The component with this digest: kept, already being compiled, or compiled from the file.
    pub(super) fn get(
        &self,
        sandbox: &Sandbox,
        tenant: &TenantName,
        file: Option<&Path>,
        digest: Digest,
    ) -> PendingRevision {
        let mut inner = self.inner.lock();
        if let Some(revision) = inner.kept.get(&digest) {
            return std::future::ready(Ok(revision.clone())).boxed().shared();
        }
        let Some(file) = file else {
            let problem = format!("revision {} is not kept any more", digest.short());
            let failure = LoadFailure::permanent(problem);
            return std::future::ready(Err(failure)).boxed().shared();
        };
        inner
            .pending
            .retain(|_, pending| pending.upgrade().is_some());
        let source = (tenant.clone(), file.to_owned(), digest);
        if let Some(pending) = inner.pending.get(&source).and_then(WeakShared::upgrade) {
            return pending;
        }
        let pending = self.clone().load(sandbox.clone(), source.clone());
        let pending = pending.boxed().shared();
        let weak = pending.downgrade();
        inner
            .pending
            .extend(weak.into_iter().map(|weak| (source.clone(), weak)));
        pending
    }

    async fn load(self, sandbox: Sandbox, source: Source) -> Result<Revision, LoadFailure> {
        let (tenant, file, digest) = source;
        let kept = || self.inner.lock().kept.get(&digest).cloned();
        let revision = sandbox
            .load_for(&tenant, file.as_path(), |_| kept())
            .await?;
        if revision.digest() != digest {
            let problem = format!("{} changed while it was loaded", file.display());
            return Err(LoadFailure::transient(problem));
        }
        self.inner.lock().kept.insert(digest, revision.clone());
        Ok(revision)
    }

    /// Drops compiled components that are not listed.
    pub(super) fn keep(&self, used: &BTreeSet<Digest>) {
        let mut inner = self.inner.lock();
        inner.kept.retain(|digest, _| used.contains(digest));
    }
}

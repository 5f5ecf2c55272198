//! Compiled components that are kept, and those that are on their way. Entry point: [`Revisions`].

use super::Trouble;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_fleet::TenantName;
use windlass_sandbox::Digest;
use windlass_sandbox::{Revision, Sandbox};

/// A component on its way. All who wait for it have the same answer; it is abandoned when nobody does any more.
pub(super) type Coming = Shared<BoxFuture<'static, Result<Revision, Trouble>>>;

/// Whose turn a component is compiled in, where it is read and what is meant.
type Wanted = (TenantName, PathBuf, Digest);

/// Compiled components, shared by reconcilers of the same one. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Revisions {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    kept: BTreeMap<Digest, Revision>,
    coming: BTreeMap<Wanted, WeakShared<BoxFuture<'static, Result<Revision, Trouble>>>>,
}

impl Revisions {
    /// A component of this digest: one that is kept or on its way, or what the file holds.
    pub(super) fn get(
        &self,
        sandbox: &Sandbox,
        tenant: &TenantName,
        file: Option<&Path>,
        digest: Digest,
    ) -> Coming {
        let mut inner = self.inner.lock();
        if let Some(revision) = inner.kept.get(&digest) {
            return std::future::ready(Ok(revision.clone())).boxed().shared();
        }
        let Some(file) = file else {
            let gone = format!("revision {} is not kept any more", digest.short());
            return std::future::ready(Err(gone.into())).boxed().shared();
        };
        inner.coming.retain(|_, coming| coming.upgrade().is_some());
        let wanted = (tenant.clone(), file.to_owned(), digest);
        if let Some(coming) = inner.coming.get(&wanted).and_then(WeakShared::upgrade) {
            return coming;
        }
        let coming = self.clone().load(sandbox.clone(), wanted.clone());
        let coming = coming.boxed().shared();
        let weak = coming.downgrade();
        inner
            .coming
            .extend(weak.into_iter().map(|weak| (wanted.clone(), weak)));
        coming
    }

    async fn load(self, sandbox: Sandbox, wanted: Wanted) -> Result<Revision, Trouble> {
        let (tenant, file, digest) = wanted;
        let kept = || self.inner.lock().kept.get(&digest).cloned();
        let revision = sandbox
            .load_for(&tenant, file.as_path(), |_| kept())
            .await?;
        if revision.digest() != digest {
            return Err(Trouble {
                problem: format!("{} has changed while it was loaded", file.display()),
                may_pass: true,
            });
        }
        self.inner.lock().kept.insert(digest, revision.clone());
        Ok(revision)
    }

    /// Forgets compiled components that none of these is.
    pub(super) fn keep(&self, used: &BTreeSet<Digest>) {
        let mut inner = self.inner.lock();
        inner.kept.retain(|digest, _| used.contains(digest));
    }
}

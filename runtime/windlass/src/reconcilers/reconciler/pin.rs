//! The revision of a rollback, in a process that has not loaded it. Entry point: [`Pin`].

use super::{Inputs, Reconciler};
use crate::config::record::{KnownRevision, Rollback};
use crate::guests::LoadFailure;
use crate::reconcilers::file::Pinned;
use crate::reconcilers::revoke::Revocation;
use std::path::PathBuf;
use windlass_registry::Lookup;

/// A revision that is read beside the guest's file.
#[derive(Clone)]
pub(in crate::reconcilers) struct Pin {
    pub(in crate::reconcilers) revision: KnownRevision,
    /// What came of the last look-up of its image.
    pub(in crate::reconcilers) lookup: Option<Lookup>,
}

impl Reconciler {
    /// The file of a rollback's revision; none: it is kept compiled.
    ///
    /// # Errors
    /// Why there is none; none: it has not been read, and is to be.
    pub(super) fn pinned(
        &mut self,
        to: &KnownRevision,
        read: Option<Pinned>,
    ) -> Result<Option<PathBuf>, Option<LoadFailure>> {
        if self.history.is_kept(to.digest, &self.desired.policy.guests) {
            self.pin = None;
            return Ok(None);
        }
        let read = read.filter(|read| read.revision == *to);
        self.pin = Some(Pin {
            revision: to.clone(),
            lookup: read.as_ref().and_then(|read| read.lookup.clone()),
        });
        match read {
            Some(read) => read.path.map(Some).map_err(Some),
            None => Err(None),
        }
    }

    /// Why nothing serves while a rollback is in effect.
    pub(super) fn not_pinned(&self, rollback: &Rollback, problem: &str) -> String {
        let name = &self.desired.document.identity.name;
        let to = rollback.to.digest.short();
        format!(
            "it is rolled back to {to}, which cannot serve: {problem}: windlass rollback {name} --undo serves the revision of its guest instead"
        )
    }

    /// Notes that nothing serves any more, and returns what did.
    pub(in crate::reconcilers) fn stop(&mut self) -> Option<Inputs> {
        self.history.stop();
        (self.revocation, self.has_less) = (Revocation::default(), false);
        self.applied.take()
    }
}

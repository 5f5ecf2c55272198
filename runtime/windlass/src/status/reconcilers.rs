//! The status of each reconciler, for the admin endpoints. Entry point: [`Statuses`].

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

/// The status of a reconciler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReconcilerStatus {
    /// Its tenant: of the revision that serves, else of its document.
    pub(crate) tenant: String,
    /// The path or the image of its guest.
    pub(crate) guest: String,
    /// The digest of the revision that serves, in hexadecimal; none when none does.
    pub(crate) revision: Option<String>,
    /// The image of that revision, with the digest of its manifest; none: it was a file.
    pub(crate) image: Option<String>,
    /// The digest of the revision that served before it; none when no other is known.
    pub(crate) previous: Option<String>,
    /// The image of that one.
    pub(crate) previous_image: Option<String>,
    /// Whether a rollback is in effect.
    pub(crate) rolled_back: bool,
    /// Why the document is not in effect; none when it is.
    pub(crate) problem: Option<String>,
    /// Whether the problem is neither the document's nor the guest's, so that it may pass: the registry is silent, for instance.
    pub(crate) may_pass: bool,
    /// When the change began that is being loaded; none: none is.
    pub(crate) loading: Option<Instant>,
    /// The last change since the start; none: nothing has changed. It is in effect if there is no problem.
    pub(crate) changed: Option<LastChange>,
}

/// A change of a document or of its guest: taken, refused, or reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastChange {
    /// When it was taken or refused, by the wall clock, for people.
    pub(crate) at: SystemTime,
    /// How long it took to read, compile, link and describe the guest.
    pub(crate) took: Duration,
}

/// The statuses by reconciler. Shared by the reconcilers, which set them, and the admin endpoints, which show them.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    by_name: Mutex<BTreeMap<String, ReconcilerStatus>>,
}

impl Statuses {
    /// Sets the status of a reconciler.
    pub(crate) fn set(&self, name: &str, status: ReconcilerStatus) {
        self.by_name.lock().insert(name.to_owned(), status);
    }

    /// Removes the status of a reconciler.
    pub(crate) fn remove(&self, name: &str) {
        self.by_name.lock().remove(name);
    }

    /// All statuses, by reconciler.
    pub(crate) fn all(&self) -> BTreeMap<String, ReconcilerStatus> {
        self.by_name.lock().clone()
    }
}

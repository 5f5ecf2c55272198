//! What became of each reconciler's document, for the admin endpoints. Entry point: [`Statuses`].

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What became of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReconcilerStatus {
    /// The tenant that it serves; where it does not, the one that the document names.
    pub(crate) tenant: String,
    /// Where the component is read.
    pub(crate) guest: PathBuf,
    /// The digest of the revision that serves, in hexadecimal; none when none does.
    pub(crate) revision: Option<String>,
    /// The digest of the revision that served before it; none when this process has loaded no other.
    pub(crate) previous: Option<String>,
    /// Whether it serves because somebody rolled back to it, and not because the guest's file holds it.
    pub(crate) rolled_back: bool,
    /// Why what the document asks for now is not in effect; none when it is.
    pub(crate) problem: Option<String>,
    /// Whether a change of it is being prepared.
    pub(crate) loading: bool,
    /// The last change of it; none when what was started is what is asked for. It is in effect when there is no problem.
    pub(crate) changed: Option<LastChange>,
}

/// A change of a document or of its guest: taken, refused, or taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastChange {
    /// When that was decided, by the wall clock, for people.
    pub(crate) at: SystemTime,
    /// How long it took to read, compile, link and describe what is new.
    pub(crate) took: Duration,
}

/// The reconcilers by name. Shared between who changes them and who shows them.
#[derive(Debug, Default)]
pub(crate) struct Statuses {
    by_name: Mutex<BTreeMap<String, ReconcilerStatus>>,
}

impl Statuses {
    /// Notes a reconciler.
    pub(crate) fn set(&self, name: &str, entry: ReconcilerStatus) {
        self.by_name.lock().insert(name.to_owned(), entry);
    }

    /// Forgets a reconciler.
    pub(crate) fn remove(&self, name: &str) {
        self.by_name.lock().remove(name);
    }

    /// All of them, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, ReconcilerStatus> {
        self.by_name.lock().clone()
    }
}

//! A fleet in memory, for a guest's unit tests: plain `cargo test`, no component. Entry point: [`TestFleet`].
//!
//! A [`TestCluster`] is a cluster of the in-memory API server of `windlass dev` and `windlass test`, which the first one of a process starts
//! (`windlass fleet`): it behaves as a real one does. It serves the built-in kinds and those whose CustomResourceDefinitions the project has;
//! [`TestCluster::put`] and [`TestFleet::define`] add kinds without a schema. Reads are never older than the last write.
//!
//! ```no_run
//! # use windlass_sdk::testing::TestFleet;
//! # use windlass_sdk::{ApiCode, ApiError, GroupVersionKind, ObjectKey, Object};
//! let fleet = TestFleet::new().config(&serde_json::json!({"greeting": "hello"}));
//! let alpha = fleet.cluster("alpha");
//! alpha.put(serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"},
//! }));
//! // alpha.reconcile::<MyGuest>(&key)?, then look at alpha.objects(), alpha.events(), fleet.logs().
//! ```

mod client;
mod cluster;
mod difference;
mod fleet;
mod host;
mod program;

pub use cluster::{ServerFailure, TestCluster};
pub use fleet::{LogLine, TestFleet};

pub(crate) use fleet::Current;

/// The kind of call that a test counts, or lets fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Reads of one object.
    Get,
    /// Reads of a page.
    List,
    /// Creations.
    Create,
    /// Replacements.
    Update,
    /// Patches.
    Patch,
    /// Server-side applies.
    Apply,
    /// Deletions of one object.
    Delete,
    /// Deletions of a selection.
    DeleteCollection,
}

impl Verb {
    fn is_write(self) -> bool {
        !matches!(self, Self::Get | Self::List)
    }
}

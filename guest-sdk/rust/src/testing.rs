//! A fleet in memory, for a guest's unit tests: plain `cargo test`, no component, no server. Entry point: [`TestFleet`].
//!
//! A [`TestCluster`] keeps objects and answers as an API server does, as far as controllers rely on it: versions and conflicts,
//! absence, generation, the status subresource, label selectors, paging, merge patches, server-side apply without managed
//! fields (a field that an apply no longer names goes, another writer's field is never a conflict), finalizers, and the
//! deletion of what an owner leaves behind. It checks no schema, and serves the cached read like the live one.
//!
//! ```
//! # use windlass_sdk::testing::TestFleet;
//! # use windlass_sdk::{ApiCode, ApiError, GroupVersionKind, ObjectKey, Object};
//! let fleet = TestFleet::new().config(&serde_json::json!({"greeting": "hello"}));
//! let alpha = fleet.cluster("alpha");
//! alpha.put(serde_json::json!({
//!     "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a"},
//! }));
//! // alpha.reconcile::<MyGuest>(&key)?, then look at alpha.objects(), alpha.events(), fleet.logs().
//! # assert_eq!(alpha.objects().len(), 1);
//! ```

mod apply;
mod client;
mod cluster;
mod fields;
mod fleet;
mod select;
mod store;

pub use cluster::TestCluster;
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

//! What a server has shown of itself, remembered for all of its watches. Entry point: [`ServerFeatures`].

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::Notify;

/// Most API groups of which it is remembered that they do not stream lists.
const MAX_GROUPS: usize = 1000;

/// What one server has shown of itself.
#[derive(Default)]
pub(crate) struct ServerFeatures {
    /// API groups whose lists it does not stream: an aggregated group is served by a program of its own. At most [`MAX_GROUPS`].
    unstreamed: Mutex<HashSet<Arc<str>>>,
    /// Notified when a store asks to be compared with the server soon.
    pub(crate) comparison_asked: Notify,
}

impl ServerFeatures {
    pub(super) fn streams(&self, group: &str) -> bool {
        !self.unstreamed.lock().contains(group)
    }

    pub(super) fn note_unstreamed(&self, group: &Arc<str>) {
        let mut unstreamed = self.unstreamed.lock();
        if unstreamed.len() < MAX_GROUPS {
            unstreamed.insert(group.clone());
        }
    }
}

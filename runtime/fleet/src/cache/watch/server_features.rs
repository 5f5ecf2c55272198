//! What a server supports, as its answers to all watches have shown. Entry point: [`ServerFeatures`].

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

/// Most API groups in a [`ServerFeatures`].
const MAX_GROUPS: usize = 1000;

/// What a server supports.
#[derive(Default)]
pub(crate) struct ServerFeatures {
    /// API groups without streamed lists. By group, because another program may serve an aggregated one. At most [`MAX_GROUPS`].
    without_streams: Mutex<HashSet<Arc<str>>>,
}

impl ServerFeatures {
    /// Whether lists of a group are worth streaming: true until the server has refused to.
    pub(super) fn streams_lists(&self, group: &str) -> bool {
        !self.without_streams.lock().contains(group)
    }

    pub(super) fn note_no_streams(&self, group: &Arc<str>) {
        let mut groups = self.without_streams.lock();
        if groups.len() < MAX_GROUPS {
            groups.insert(group.clone());
        }
    }
}

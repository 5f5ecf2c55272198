//! What a server supports, as its answers to all watches have shown. Entry point: [`ServerFeatures`].

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most API groups in a [`ServerFeatures`].
const MAX_GROUPS: usize = 1000;

/// What a server supports.
#[derive(Default)]
pub(crate) struct ServerFeatures {
    /// API groups without streamed lists. By group, because another program may serve an aggregated one. At most [`MAX_GROUPS`].
    without_streams: Mutex<HashSet<Arc<str>>>,
    /// Whether a streamed list of any group has had no end.
    endless_streams: AtomicBool,
}

impl ServerFeatures {
    /// Whether lists of a group are worth streaming: true until the server has refused to, or a stream had no end.
    pub(super) fn streams_lists(&self, group: &str) -> bool {
        !self.endless_streams.load(Ordering::Relaxed)
            && !self.without_streams.lock().contains(group)
    }

    /// Notes that a stream had no end. Returns whether that is new.
    pub(super) fn note_endless_streams(&self) -> bool {
        !self.endless_streams.swap(true, Ordering::Relaxed)
    }

    pub(super) fn note_no_streams(&self, group: &Arc<str>) {
        let mut groups = self.without_streams.lock();
        if groups.len() < MAX_GROUPS {
            groups.insert(group.clone());
        }
    }
}

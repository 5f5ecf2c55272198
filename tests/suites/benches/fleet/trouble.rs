//! What goes wrong with simulated clusters, and what is counted on the way. Entry point: [`Disturbance`].

use bytes::Bytes;
use parking_lot::{RwLock, RwLockWriteGuard};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use windlass_apiserver::{Call, FrameVerdict, Hook, RequestVerdict, Verb};

/// How disturbed clusters answer requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trouble {
    /// As usual.
    None,
    /// Not at all: connections stand, and nothing comes.
    Silent,
    /// As usual, but [`FAR`] away.
    Far,
    /// With this status.
    Status(u16),
}

/// How much later a cluster answers that is on another continent.
const FAR: Duration = Duration::from_millis(100);

/// Disturbs a range of clusters, and holds watches back behind a gate.
pub(crate) struct Disturbance {
    now: RwLock<(Range<usize>, Trouble)>,
    /// Held for reading by every request and frame on its way, for writing while none may pass.
    gate: RwLock<()>,
    requests: AtomicU64,
    /// By cluster.
    whole_lists: RwLock<Vec<u64>>,
}

impl Default for Disturbance {
    fn default() -> Self {
        Self {
            now: RwLock::new((0..0, Trouble::None)),
            gate: RwLock::default(),
            requests: AtomicU64::new(0),
            whole_lists: RwLock::default(),
        }
    }
}

impl Disturbance {
    pub(crate) fn begin(&self, clusters: Range<usize>, trouble: Trouble) {
        *self.now.write() = (clusters, trouble);
    }

    /// Until the guard is dropped no request is looked at and no watch sends anything.
    pub(crate) fn close_gate(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write()
    }

    /// Requests to clusters while they were disturbed.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How often each cluster's ConfigMaps were listed as a whole, in pages or as the begin of a watch.
    pub(crate) fn whole_lists(&self) -> Vec<u64> {
        self.whole_lists.read().clone()
    }

    fn note_list(&self, cluster: usize) {
        let mut lists = self.whole_lists.write();
        if lists.len() <= cluster {
            lists.resize(cluster + 1, 0);
        }
        lists[cluster] += 1;
    }
}

/// The number in a cluster's name.
fn number(cluster: &str) -> usize {
    cluster
        .trim_start_matches('c')
        .parse()
        .unwrap_or(usize::MAX)
}

impl Hook for Disturbance {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        drop(self.gate.read());
        let cluster = number(cluster);
        let whole = match call.verb {
            Verb::List => !call.query.contains("continue="),
            Verb::Watch => call.query.contains("sendInitialEvents=true"),
            _ => false,
        };
        if whole && call.resource == "configmaps" {
            self.note_list(cluster);
        }
        let (disturbed, trouble) = self.now.read().clone();
        if trouble == Trouble::None || !disturbed.contains(&cluster) {
            return RequestVerdict::Proceed;
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        match trouble {
            Trouble::None => RequestVerdict::Proceed,
            Trouble::Silent => RequestVerdict::Silence,
            Trouble::Far => RequestVerdict::Delay(FAR),
            Trouble::Status(code) => RequestVerdict::Answer {
                code,
                retry_after: None,
                body: Bytes::from(
                    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                        "reason": if code == 403 { "Forbidden" } else { "ServiceUnavailable" }, "message": "disturbed"})
                    .to_string(),
                ),
            },
        }
    }

    fn frame(&self, _: &str, _: &Call, _: &Bytes) -> FrameVerdict {
        drop(self.gate.read());
        FrameVerdict::Send
    }
}

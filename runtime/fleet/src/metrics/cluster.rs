//! Counts of one cluster: calls to its server, and events of its watches. Entry point: [`ClusterMetrics`].

use super::OTHER;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most pairs of method and status that are counted apart: a server may answer any status.
const MAX_ANSWERS: usize = 64;

/// The `code` of a call without an answer, as in client-go.
const NO_ANSWER: &str = "<error>";
/// The `code` of answers beyond [`MAX_ANSWERS`].
const OTHER_CODE: &str = "<other>";

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    Status(u16),
    NoAnswer,
    Other,
}

impl Code {
    pub(super) fn text(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::NoAnswer => NO_ANSWER.to_owned(),
            Self::Other => OTHER_CODE.to_owned(),
        }
    }
}

/// Counts of one engaged cluster, or of all clusters that have no series of their own.
#[derive(Debug)]
pub(crate) struct ClusterMetrics {
    /// Not reused. Clusters without series of their own share [`ClusterMetrics::OTHER_ID`].
    pub(super) id: u64,
    pub(super) cluster: Arc<str>,
    /// The current server's authority.
    host: Mutex<Arc<str>>,
    /// Set once, when the cluster leaves: no series of it may be added after that.
    left: AtomicBool,
    /// At most [`MAX_ANSWERS`], and one more per method.
    requests: Mutex<BTreeMap<(&'static str, Code), u64>>,
    pub(super) relists: AtomicU64,
    pub(super) repairs: AtomicU64,
    pub(super) histories_lost: AtomicU64,
    pub(super) watch_restarts: AtomicU64,
    pub(super) watch_failures: AtomicU64,
}

impl ClusterMetrics {
    pub(super) const OTHER_ID: u64 = 0;

    pub(super) fn new(id: u64, cluster: &str, host: &str) -> Self {
        Self {
            id,
            cluster: cluster.into(),
            host: Mutex::new(host.into()),
            left: AtomicBool::new(false),
            requests: Mutex::default(),
            relists: AtomicU64::new(0),
            repairs: AtomicU64::new(0),
            histories_lost: AtomicU64::new(0),
            watch_restarts: AtomicU64::new(0),
            watch_failures: AtomicU64::new(0),
        }
    }

    pub(super) fn other() -> Self {
        Self::new(Self::OTHER_ID, OTHER, OTHER)
    }

    pub(super) fn host(&self) -> Arc<str> {
        self.host.lock().clone()
    }

    /// Notes that another server serves the cluster. Clusters that are counted together have no host of their own.
    pub(crate) fn served_by(&self, host: &str) {
        if self.id != Self::OTHER_ID {
            *self.host.lock() = host.into();
        }
    }

    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::SeqCst)
    }

    /// Counts a call that begins. It counts as a call without an answer until [`Requested::answered`].
    pub(crate) fn request(self: &Arc<Self>, method: &http::Method) -> Requested {
        Requested {
            cluster: self.clone(),
            method: word(method),
            code: Code::NoAnswer,
        }
    }

    /// A cache was filled anew.
    pub(crate) fn relisted(&self) {
        self.relists.fetch_add(1, Ordering::Relaxed);
    }

    /// A cache was found to differ from its server, which had sent no event.
    pub(crate) fn repaired(&self) {
        self.repairs.fetch_add(1, Ordering::Relaxed);
    }

    /// The server's history was found to be lost.
    pub(crate) fn history_lost(&self) {
        self.histories_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// A watch was resumed.
    pub(crate) fn watch_restarted(&self) {
        self.watch_restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// A list or a watch failed.
    pub(crate) fn watch_failed(&self) {
        self.watch_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls by method and how they ended.
    pub(super) fn requests(&self) -> Vec<(&'static str, Code, u64)> {
        let requests = self.requests.lock();
        requests
            .iter()
            .map(|((method, code), count)| (*method, *code, *count))
            .collect()
    }

    fn count(&self, method: &'static str, code: Code) {
        let mut requests = self.requests.lock();
        let full = requests.len() >= MAX_ANSWERS && !requests.contains_key(&(method, code));
        let code = if full { Code::Other } else { code };
        *requests.entry((method, code)).or_default() += 1;
    }
}

/// A call under way. Counted when it is dropped.
#[derive(Debug)]
pub(crate) struct Requested {
    cluster: Arc<ClusterMetrics>,
    method: &'static str,
    code: Code,
}

impl Requested {
    /// Notes the answer's status.
    pub(crate) fn answered(&mut self, status: u16) {
        self.code = Code::Status(status);
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        self.cluster.count(self.method, self.code);
    }
}

fn word(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

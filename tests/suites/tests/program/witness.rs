//! What in-memory clusters saw of running programs: who wrote when, and who held the lease. Entry point: [`Witness`].

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value as Json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use windlass_apiserver::{AnswerVerdict, Call, Hook, RequestVerdict, Verb};

/// One thing that a cluster saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A write of a reconciler, before it is done. Who: its field manager.
    Write,
    /// The answer to such a write.
    Written,
    /// The lease was written. Who: its holder.
    Lease,
}

/// Who did what when.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) at: Instant,
    pub(crate) deed: Deed,
    pub(crate) who: String,
    pub(crate) cluster: String,
}

/// Watches every request, and slows reconcilers' writes down if that is asked for.
#[derive(Default)]
pub(crate) struct Witness {
    entries: Mutex<Vec<Entry>>,
    write_delay_ms: AtomicU64,
}

impl Witness {
    /// From now on each write of a reconciler takes so long at the server.
    pub(crate) fn slow_writes(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.write_delay_ms.store(delay, Ordering::SeqCst);
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// How often somebody did something.
    pub(crate) fn count(&self, deed: &Deed, who: &str) -> usize {
        let entries = self.entries.lock();
        entries
            .iter()
            .filter(|entry| entry.deed == *deed && entry.who == who)
            .count()
    }

    fn note(&self, cluster: &str, deed: Deed, who: String) {
        self.entries.lock().push(Entry {
            at: Instant::now(),
            deed,
            who,
            cluster: cluster.to_owned(),
        });
    }
}

/// The field manager of a reconciler's write.
pub(crate) fn writer(call: &Call) -> Option<String> {
    let writes = matches!(
        call.verb,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete
    );
    call.parameter("fieldManager")
        .filter(|manager| writes && manager.starts_with("windlass:"))
}

impl Hook for Witness {
    fn request(&self, cluster: &str, call: &Call) -> RequestVerdict {
        if let Some(writer) = writer(call) {
            self.note(cluster, Deed::Write, writer);
            match self.write_delay_ms.load(Ordering::SeqCst) {
                0 => {}
                delay => return RequestVerdict::Delay(Duration::from_millis(delay)),
            }
        }
        RequestVerdict::Proceed
    }

    fn answer(&self, cluster: &str, call: &Call, body: &Bytes) -> AnswerVerdict {
        if let Some(writer) = writer(call) {
            self.note(cluster, Deed::Written, writer);
        }
        if call.resource == "leases" && matches!(call.verb, Verb::Create | Verb::Update) {
            let lease: Json = serde_json::from_slice(body).unwrap_or_default();
            if lease["kind"] == "Lease" {
                let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
                self.note(cluster, Deed::Lease, holder.to_owned());
            }
        }
        AnswerVerdict::Send
    }
}

//! Events on their way through a controller's mapping code. Entry point: [`MappedEvents::run`].

use super::Enqueue;
use super::sink::SourceSink;
use crate::backoff::Backoff;
use crate::cluster::store::Change;
use crate::json::Object;
use crate::queue::Add;
use crate::request::ObjectKey;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Objects that may wait for the mapper per watch and cluster. Beyond that the store is offered again later; only deletions, which
/// no store can offer again, are always taken.
const MAX_WAITING: usize = 10_000;

/// Events that wait for a mapper, one per object: later ones merge into those that wait.
#[derive(Default)]
pub(crate) struct MappedEvents {
    waiting: Mutex<BTreeMap<ObjectKey, Event>>,
    arrived: Notify,
}

struct Event {
    /// The oldest state that has not been mapped yet.
    old: Option<Object>,
    new: Option<Object>,
    add: Add,
}

impl MappedEvents {
    /// Takes an event in, merged with one that waits for the same object. `false`: there is no room, offer the store again.
    pub(super) fn push(&self, change: &Change, add: Add) -> bool {
        let Some(object) = change.object() else {
            return true;
        };
        let mut waiting = self.waiting.lock();
        let full = waiting.len() >= MAX_WAITING;
        match waiting.entry(object.key()) {
            Entry::Occupied(mut event) => {
                let event = event.get_mut();
                event.new.clone_from(&change.new);
                event.add.priority = event.add.priority.max(add.priority);
            }
            Entry::Vacant(_) if full && change.new.is_some() => return false,
            Entry::Vacant(slot) => {
                slot.insert(Event {
                    old: change.old.clone(),
                    new: change.new.clone(),
                    add,
                });
            }
        }
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Maps events until dropped. A failure is retried with backoff; nothing is lost to it.
    pub(crate) async fn run(sink: Arc<SourceSink>) {
        let (Some(events), Enqueue::Mapped(mapper)) = (&sink.mapped, &sink.watch.enqueue) else {
            return;
        };
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(60));
        let mut rng = fastrand::Rng::new();
        loop {
            let next = events.waiting.lock().pop_first();
            let Some((_, event)) = next else {
                events.arrived.notified().await;
                continue;
            };
            let objects: Vec<_> = [&event.old, &event.new]
                .into_iter()
                .flatten()
                .map(|object| object.json().clone())
                .collect();
            loop {
                match mapper
                    .map(
                        sink.cluster.clone(),
                        sink.watch.kind.clone(),
                        objects.clone(),
                    )
                    .await
                {
                    Ok(requests) => {
                        backoff.reset();
                        for request in requests {
                            sink.enqueue(request, event.add);
                        }
                        break;
                    }
                    Err(reason) => {
                        let delay = backoff.next(&mut rng);
                        tracing::warn!(cluster = %sink.cluster.name(), kind = %sink.watch.kind, reason, delay_ms = delay.as_millis() as u64, "mapper failed");
                        tokio::time::sleep(delay).await;
                    }
                }
            }
        }
    }
}

//! Events on their way through a controller's mapping code. Entry point: [`MappedEvents::run`].

use super::sink::{ControllerQueue, SourceSink};
use super::{Enqueue, MapContext, MapError, Mapper};
use crate::backoff::Backoff;
use crate::cache::store::Change;
use crate::json::Object;
use crate::queue::Add;
use crate::request::{ObjectKey, Request};
use futures::FutureExt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Objects that may wait for the mapper per watch and cluster, deletions apart. Beyond that the store is scanned again later.
const MAX_WAITING: usize = 10_000;

/// Bytes of objects that may wait for the mapper per watch and cluster. One object always may.
const MAX_BYTES: usize = 16 << 20;

/// Bytes of whole objects among these. The rest is for the metadata of deleted objects, which no scan of a store repeats: room for about
/// ten thousand of the usual size.
const WHOLE_BYTES: usize = MAX_BYTES / 2;

/// Events that wait for a mapper, one per object: later ones merge into those that wait.
#[derive(Default)]
pub(crate) struct MappedEvents {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    /// Notified when there is room again.
    emptied: Notify,
}

#[derive(Default)]
struct Waiting {
    events: BTreeMap<ObjectKey, Event>,
    /// Of the objects in these.
    bytes: usize,
    /// The event that is being mapped.
    mapping: Option<(ObjectKey, Event)>,
    /// Why the mapper failed last, until it succeeds.
    failure: Option<MapFailure>,
    /// Whether no more will come.
    closed: bool,
}

/// A call of a mapper that failed.
#[derive(Debug, Clone)]
struct MapFailure {
    object: ObjectKey,
    reason: String,
}

#[derive(Clone)]
struct Event {
    /// The oldest state that has not been mapped yet.
    old: Option<Object>,
    new: Option<Object>,
    add: Add,
}

impl Event {
    fn bytes(&self) -> usize {
        let objects = [&self.old, &self.new].into_iter().flatten();
        objects.map(|object| object.json().len()).sum()
    }

    /// Merges a later event of the same object.
    fn merge(&mut self, later: Self) {
        self.new = later.new;
        // Created and deleted again before it was mapped: it may have been mapped earlier, so the deletion must be mapped.
        if self.old.is_none() && self.new.is_none() {
            self.old = later.old;
        }
        self.add.priority = self.add.priority.max(later.add.priority);
    }
}

/// The result of pushing an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pushed {
    Taken,
    /// There is no room: a scan of the store repeats it.
    Refused,
    /// There is no room, and no scan repeats it: a deletion.
    Lost,
}

impl Waiting {
    /// Takes in an event, merged with one of the same object.
    fn push(&mut self, key: ObjectKey, event: Event) -> Pushed {
        let there = self.remove(&key);
        let known = there.is_some();
        let mut event = match there {
            Some(mut there) => {
                there.merge(event);
                there
            }
            None => event,
        };
        let is_deletion = event.new.is_none();
        if is_deletion && self.bytes + event.bytes() > WHOLE_BYTES {
            // The mapper gets at least the name, the labels and the owners of the object.
            event.old = event.old.map(|old| old.metadata_only());
        }
        let most = if is_deletion { MAX_BYTES } else { WHOLE_BYTES };
        let fits = self.events.is_empty() || self.bytes + event.bytes() <= most;
        let counted = known || is_deletion || self.events.len() < MAX_WAITING;
        if fits && counted {
            self.insert(key, event);
            return Pushed::Taken;
        }
        if is_deletion {
            return Pushed::Lost;
        }
        Pushed::Refused
    }

    fn insert(&mut self, key: ObjectKey, event: Event) {
        self.bytes += event.bytes();
        self.events.insert(key, event);
    }

    fn remove(&mut self, key: &ObjectKey) -> Option<Event> {
        let event = self.events.remove(key)?;
        self.bytes -= event.bytes();
        Some(event)
    }

    /// Takes out the next event behind a key, around and around, so that no object keeps the others waiting.
    fn pop_after(&mut self, last: Option<&ObjectKey>) -> Option<(ObjectKey, Event)> {
        let behind = last.and_then(|last| {
            let mut behind = self.events.range((Bound::Excluded(last), Bound::Unbounded));
            behind.next().map(|(key, _)| key.clone())
        });
        let next = behind.or_else(|| self.events.keys().next().cloned());
        let next = next.and_then(|key| Some((key.clone(), self.remove(&key)?)));
        self.mapping.clone_from(&next);
        next
    }
}

impl MappedEvents {
    /// Takes an event in, merged with one that waits for the same object. `false`: there is no room, scan the store again.
    pub(super) fn push(&self, change: Change, add: Add, queue: &dyn ControllerQueue) -> bool {
        let Some(key) = change.object().map(Object::key) else {
            return true;
        };
        let event = Event {
            old: change.old,
            new: change.new,
            add,
        };
        let pushed = self.waiting.lock().push(key, event);
        self.arrived.notify_one();
        if pushed == Pushed::Lost {
            queue.count_lost_deletion();
        }
        pushed == Pushed::Taken
    }

    /// How many events wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().events.len()
    }

    /// Whether nothing waits and nothing is being mapped.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.events.is_empty() && waiting.mapping.is_none()
    }

    /// The object and the reason of the last call of the mapper, if it failed.
    pub(crate) fn failure(&self) -> Option<String> {
        let waiting = self.waiting.lock();
        let MapFailure { object, reason } = waiting.failure.as_ref()?;
        Some(format!("{object}: {reason}"))
    }

    /// Every event that has not been mapped, for the sink that continues.
    pub(super) fn unfinished(&self) -> Vec<Change> {
        let waiting = self.waiting.lock();
        let mapping = waiting.mapping.iter().map(|(_, event)| event);
        let unfinished = mapping.chain(waiting.events.values());
        unfinished
            .map(|event| Change {
                old: event.old.clone(),
                new: event.new.clone(),
                initial: false,
            })
            .collect()
    }

    /// Waits until there is enough room to scan the store again.
    pub(crate) async fn room(&self) {
        loop {
            let emptied = self.emptied.notified();
            tokio::pin!(emptied);
            // Listens before it checks, so that room that comes in between is not missed.
            emptied.as_mut().enable();
            if self.has_room() {
                return;
            }
            emptied.await;
        }
    }

    fn has_room(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.events.len() <= MAX_WAITING / 2 && waiting.bytes <= WHOLE_BYTES / 2
    }

    /// Ends [`Self::run`] once all events are mapped. No more may be pushed.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.waiting.lock().closed
    }

    /// Maps events until dropped, or closed and done. A failure is retried with backoff, after the others; nothing is lost to it.
    pub(crate) async fn run(sink: Arc<SourceSink>) {
        let (Some(events), Enqueue::Mapped(mapper)) = (&sink.mapped, &sink.watch.enqueue) else {
            return;
        };
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(60));
        let mut rng = fastrand::Rng::new();
        let mut last: Option<ObjectKey> = None;
        loop {
            if !events.is_closed() {
                sink.settled().await;
            }
            let next = events.waiting.lock().pop_after(last.as_ref());
            let Some((key, event)) = next else {
                if events.is_closed() {
                    return;
                }
                events.arrived.notified().await;
                continue;
            };
            if events.has_room() {
                events.emptied.notify_waiters();
            }
            last = Some(key.clone());
            match map(&**mapper, &sink, &event).await {
                Ok(requests) => {
                    backoff.reset();
                    events.waiting.lock().failure = None;
                    for request in requests {
                        sink.enqueue(request, event.add, event.new.is_some());
                    }
                }
                Err(error) => {
                    let delay = backoff.next(&mut rng);
                    tracing::warn!(cluster = %sink.cluster.name(), kind = %sink.watch.kind, reason = error.to_string(), delay_ms = delay.as_millis() as u64, "mapper failed");
                    events.put_back(key, event, error.to_string());
                    // Events that arrive meanwhile do not wait for the one that failed.
                    let _ = tokio::time::timeout(delay, events.arrived.notified()).await;
                }
            }
        }
    }

    /// An event that could not be mapped, for a reason, waits again, under what has arrived meanwhile.
    fn put_back(&self, key: ObjectKey, mut event: Event, reason: String) {
        let mut waiting = self.waiting.lock();
        let object = key.clone();
        waiting.failure = Some(MapFailure { object, reason });
        if let Some(later) = waiting.remove(&key) {
            event.merge(later);
        }
        waiting.insert(key, event);
    }
}

async fn map(
    mapper: &dyn Mapper,
    sink: &SourceSink,
    event: &Event,
) -> Result<Vec<Request>, MapError> {
    let objects = [&event.old, &event.new].into_iter().flatten();
    let objects = objects.map(|object| object.json().clone()).collect();
    let kind = sink.watch.kind.clone();
    let context = MapContext {
        cluster: sink.cluster.clone(),
        fleet: sink.fleet.clone(),
        caller: sink.queue.caller(),
    };
    let mapping = async { mapper.map(context, kind, objects).await };
    AssertUnwindSafe(mapping)
        .catch_unwind()
        .await
        .unwrap_or(Err(MapError::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Caller;
    use bytes::Bytes;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn object(name: &str, version: u32) -> Object {
        let json = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Object::parse(Bytes::from(json)).unwrap()
    }

    fn change(old: Option<Object>, new: Option<Object>) -> Change {
        Change {
            old,
            new,
            initial: false,
        }
    }

    fn add() -> Add {
        Add::now(crate::queue::Cause::Update)
    }

    #[derive(Default)]
    struct Controller {
        lost: AtomicUsize,
    }

    impl ControllerQueue for Controller {
        fn enqueue(&self, _: &Request, _: Add) -> bool {
            true
        }

        fn caller(&self) -> Caller {
            Caller::program()
        }

        fn count_lost_deletion(&self) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn push(events: &MappedEvents, change: Change) -> bool {
        events.push(change, add(), &Controller::default())
    }

    #[test]
    fn a_deletion_is_mapped_though_the_creation_was_not_mapped_yet() {
        let events = MappedEvents::default();
        push(&events, change(None, Some(object("a", 1))));
        push(&events, change(Some(object("a", 2)), None));
        let (_, event) = events.waiting.lock().pop_after(None).unwrap();
        assert!(event.new.is_none());
        assert_eq!(event.old.unwrap().resource_version(), "2");
    }

    #[test]
    fn an_object_that_fails_does_not_keep_the_others_waiting() {
        let events = MappedEvents::default();
        for name in ["a", "b"] {
            push(&events, change(None, Some(object(name, 1))));
        }
        let (first, event) = events.waiting.lock().pop_after(None).unwrap();
        events.put_back(first.clone(), event, "broken".to_owned());
        assert_eq!(events.failure().as_deref(), Some("a: broken"));
        let (second, _) = events.waiting.lock().pop_after(Some(&first)).unwrap();
        assert_eq!((&*first.name, &*second.name), ("a", "b"));
        assert!(!events.is_idle(), "one waits, one is being mapped");
        let (again, _) = events.waiting.lock().pop_after(Some(&second)).unwrap();
        assert_eq!(again, first);
        assert!(events.waiting.lock().pop_after(Some(&again)).is_none());
        assert!(events.is_idle());
    }

    #[test]
    fn unfinished_events_include_the_one_that_is_being_mapped() {
        let events = MappedEvents::default();
        for name in ["a", "b"] {
            push(&events, change(Some(object(name, 1)), None));
        }
        let (first, _) = events.waiting.lock().pop_after(None).unwrap();
        assert_eq!(&*first.name, "a", "its mapper is cut off");
        let unfinished = events.unfinished();
        let names: Vec<_> = unfinished
            .iter()
            .map(|change| change.old.as_ref().unwrap().key().name)
            .collect();
        assert_eq!(
            names.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(events.unfinished().len(), 2, "for each sink that continues");
    }

    #[test]
    fn when_full_only_deletions_are_taken() {
        let events = MappedEvents::default();
        for n in 0..MAX_WAITING {
            assert!(push(&events, change(None, Some(object(&n.to_string(), 1)))));
        }
        assert!(!push(&events, change(None, Some(object("new", 1)))));
        assert!(push(&events, change(Some(object("gone", 1)), None)));
        assert!(!events.has_room());
    }

    /// An object of a quarter of [`WHOLE_BYTES`], a quarter of which is its metadata.
    fn large(name: &str) -> Object {
        let (note, text) = (
            "x".repeat(WHOLE_BYTES / 16),
            "x".repeat(WHOLE_BYTES * 3 / 16),
        );
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","resourceVersion":"1","annotations":{{"note":"{note}"}}}},"data":{{"text":"{text}"}}}}"#
        );
        Object::parse(Bytes::from(json)).unwrap()
    }

    #[test]
    fn deletions_that_wait_without_end_are_bounded_in_bytes_and_counted() {
        let (events, controller) = (MappedEvents::default(), Controller::default());
        let mut taken = 0;
        while events.push(
            change(Some(large(&taken.to_string())), None),
            add(),
            &controller,
        ) {
            taken += 1;
            assert!(events.waiting.lock().bytes <= MAX_BYTES);
        }
        assert!(taken > 12, "{taken}: of most the metadata is kept");
        assert_eq!(controller.lost.load(Ordering::Relaxed), 1);
        let (_, first) = events.waiting.lock().pop_after(None).unwrap();
        assert!(first.bytes() > WHOLE_BYTES / 5, "the first is whole");
        while events.waiting.lock().pop_after(None).is_some() {}
        assert_eq!(events.waiting.lock().bytes, 0);
    }

    #[test]
    fn objects_that_wait_are_bounded_in_bytes_and_one_always_may() {
        let events = MappedEvents::default();
        let mut taken = 0;
        while push(&events, change(None, Some(large(&taken.to_string())))) {
            taken += 1;
        }
        assert_eq!(taken, 3);
        assert!(push(&events, change(Some(object("gone", 1)), None)));
        let text = "x".repeat(MAX_BYTES);
        let json = format!(r#"{{"metadata":{{"name":"a"}},"data":{{"text":"{text}"}}}}"#);
        let whole = Object::parse(Bytes::from(json)).unwrap();
        let alone = MappedEvents::default();
        assert!(push(&alone, change(None, Some(whole))));
    }
}

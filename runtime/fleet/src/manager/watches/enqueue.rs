//! Enqueues requests that no event causes: those that found no room in the queue, and those of a scan of every object.
//! Entry point: [`run`].

use super::watch::ActiveWatch;
use crate::cache::store::{Change, Query, Sink};
use crate::manager::registrations::Registration;
use crate::queue::Cause;
use crate::request::ObjectKey;
use crate::source::SourceSink;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Objects that are enqueued in one go, before other tasks run.
const PAGE: usize = 256;

/// Enqueues requests that are owed, as soon as there is room for them, and every object in every resync period. Never returns.
pub(super) async fn run(
    registration: &Registration,
    watch: &Weak<ActiveWatch>,
    sinks: Vec<Arc<SourceSink>>,
) {
    if sinks.is_empty() {
        return std::future::pending().await;
    }
    let each = sinks.into_iter();
    let each = each.map(|sink| run_one(registration, watch, sink));
    futures::future::join_all(each).await;
}

async fn run_one(registration: &Registration, watch: &Weak<ActiveWatch>, sink: Arc<SourceSink>) {
    let next = |period: Option<Duration>| Some(Instant::now() + jitter(period?));
    let mut period = registration.resync();
    let mut resync = next(period);
    loop {
        if !sink.owes() {
            // The watch may have nothing left to do.
            sink.wake_task();
            tokio::select! {
                // Also when the controller was replaced, maybe by one of another period.
                () = sink.debts().rescan.asked() => {
                    let now = registration.resync();
                    if now != period {
                        (period, resync) = (now, next(now));
                    }
                }
                () = until(resync) => {
                    resync = next(period);
                    sink.debts().rescan.ask(Cause::Resync);
                }
            }
            continue;
        }
        registration.room().await;
        if sink.enqueue_missed() {
            if let Some(mapped) = &sink.mapped {
                tokio::select! {
                    () = mapped.room() => {}
                    // The mapper waits until its refused requests have been taken.
                    () = sink.debts().rescan.asked() => continue,
                }
            }
            Box::pin(enqueue_page(watch, &sink)).await;
        }
        tokio::task::yield_now().await;
    }
}

/// Enqueues some of the objects that are owed, until one is refused.
async fn enqueue_page(watch: &Weak<ActiveWatch>, sink: &Arc<SourceSink>) {
    let user = watch.upgrade().and_then(|watch| watch.store_of(sink));
    let (Some(user), Some((cause, after))) = (user, sink.debts().rescan.next()) else {
        return;
    };
    let part = sink.part();
    let query = Query {
        part: part.as_deref(),
        ..Query::default()
    };
    let page = user.store().page(&query, after.as_ref(), PAGE).await;
    if sink.debts().rescan.next() != Some((cause, after)) {
        return; // something else was asked for meanwhile
    }
    for object in page.objects {
        let key: ObjectKey = object.key();
        let Some(object) = sink.cluster.scope().shown(object) else {
            continue;
        };
        let change = Change {
            // A resync is an update that changes nothing. For every other cause the object counts as new.
            old: (cause == Cause::Resync).then(|| object.clone()),
            new: Some(object),
            initial: true,
        };
        if !sink.handle(&change, Some(cause)) {
            return;
        }
        sink.debts().rescan.advance(key);
    }
    if !page.more {
        sink.debts().rescan.reach_end();
    }
}

/// A tenth more or less, so that watches do not all come at once.
fn jitter(period: Duration) -> Duration {
    period.mul_f64(0.9 + 0.2 * fastrand::f64())
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => Box::pin(tokio::time::sleep_until(at)).await,
        None => std::future::pending().await,
    }
}

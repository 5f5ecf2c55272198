//! What a watch offers its controller besides events: what found no room in the queue, and everything when somebody asks for it.
//! Entry point: [`Task::serve`].

use super::task::Task;
use crate::cache::store::{Change, Query};
use crate::cluster::StoreUse;
use crate::name::ClusterName;
use crate::queue::Cause;
use crate::request::ObjectKey;
use crate::source::SourceSink;
use crate::source::mapped::MappedEvents;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Objects that are offered in one go, before others have their turn.
const PAGE: usize = 256;

impl Task {
    /// Offers what is owed, as soon as there is room for it, and everything in every resync period. Never returns.
    pub(super) async fn serve(&self, sinks: Vec<Arc<SourceSink>>) {
        if sinks.is_empty() {
            return std::future::pending().await;
        }
        let each = sinks.into_iter().map(|sink| async move {
            let next = |period: Option<Duration>| Some(Instant::now() + jitter(period?));
            let mut period = self.resync_period();
            let mut resync = next(period);
            loop {
                if !sink.owes() {
                    tokio::select! {
                        // Also when the controller was replaced, maybe by one of another period.
                        () = sink.rescan.asked() => {
                            let now = self.resync_period();
                            if now != period {
                                (period, resync) = (now, next(now));
                            }
                        }
                        () = until(resync) => {
                            resync = next(period);
                            sink.rescan.ask(Cause::Resync);
                        }
                    }
                    continue;
                }
                self.room().await;
                if sink.offer_missed() {
                    if let Some(mapped) = &sink.mapped {
                        tokio::select! {
                            () = mapped.room() => {}
                            // The mapper waits until what it asked for and has been refused is offered.
                            () = sink.rescan.asked() => continue,
                        }
                    }
                    self.offer_page(&sink).await;
                }
                tokio::task::yield_now().await;
            }
        });
        futures::future::join_all(each).await;
    }

    fn resync_period(&self) -> Option<Duration> {
        self.registered.upgrade()?.controller().options.resync
    }

    /// Waits until the controller's share of the queue has room.
    async fn room(&self) {
        let Some(registered) = self.registered.upgrade() else {
            return std::future::pending().await;
        };
        registered.room().await;
    }

    /// Offers some of the objects that are owed, until one is refused.
    async fn offer_page(&self, sink: &Arc<SourceSink>) {
        let (Some(user), Some((cause, after))) = (self.user(sink), sink.rescan.next()) else {
            return;
        };
        let query = Query {
            namespace: sink.namespace.as_deref(),
            ..Query::default()
        };
        let page = user.store().page(&query, after.as_ref(), PAGE).await;
        if sink.rescan.next() != Some((cause, after)) {
            return; // something else was asked for meanwhile
        }
        for object in page.objects {
            let key: ObjectKey = object.key();
            let change = Change {
                // A resync is a change that changes nothing; whatever else asks for everything wants it as if it were new.
                old: (cause == Cause::Resync).then(|| object.clone()),
                new: Some(object),
                initial: true,
            };
            if !sink.tell(&change, Some(cause)) {
                return;
            }
            sink.rescan.advance(key);
        }
        if !page.more {
            sink.rescan.reach_end();
        }
    }

    /// The store that a sink follows now.
    fn user(&self, sink: &Arc<SourceSink>) -> Option<StoreUse> {
        let source = self.source.upgrade()?;
        let subscriptions = source.subscriptions.lock();
        let of = subscriptions
            .iter()
            .find(|of| Arc::ptr_eq(&of.sink, sink))?;
        Some(of.user.clone())
    }
}

impl super::Source {
    /// Whether nothing is owed, and no mapped event waits for its code.
    pub(in crate::manager) fn is_idle(&self) -> bool {
        self.subscriptions.lock().iter().all(|subscription| {
            let sink = &subscription.sink;
            !sink.owes() && sink.mapped.as_ref().is_none_or(MappedEvents::is_idle)
        })
    }

    /// Events that wait for their code, and requests of what is gone that wait for room.
    pub(in crate::manager) fn waiting(&self) -> (usize, usize) {
        let subscriptions = self.subscriptions.lock();
        let waiting = subscriptions.iter().map(|subscription| {
            let sink = &subscription.sink;
            let unmapped = sink.mapped.as_ref().map_or(0, MappedEvents::len);
            (unmapped, sink.missed.lock().len())
        });
        waiting.fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// A cluster has come: what a mapper asked for there while it was away is asked for again.
    pub(in crate::manager) fn welcome(&self, cluster: &ClusterName) {
        for subscription in self.subscriptions.lock().iter() {
            let sink = &subscription.sink;
            if sink.targets.lock().contains(cluster) {
                sink.rescan.ask(Cause::Cluster);
            }
        }
    }

    /// Offers every object of the watch once more.
    pub(in crate::manager) fn offer_again(&self) {
        for subscription in self.subscriptions.lock().iter() {
            subscription.sink.rescan.ask(Cause::Reload);
        }
    }
}

/// A tenth more or less, so that watches do not all come at once.
fn jitter(period: Duration) -> Duration {
    period.mul_f64(0.9 + 0.2 * fastrand::f64())
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

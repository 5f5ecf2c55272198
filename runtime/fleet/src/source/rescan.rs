//! A scan of a store that enqueues every object again, once around. Entry point: [`Rescan::ask`].
//!
//! Objects are enqueued in the order of their keys. A scan that is asked for while another is under way continues from there, so that
//! objects at the end of the order wait no longer than the others, however often a scan is asked for.

use crate::queue::Cause;
use crate::request::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The objects of a store that are to be enqueued again.
#[derive(Debug, Default)]
pub(crate) struct Rescan {
    owed: Mutex<Option<Owed>>,
    asked: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owed {
    cause: Cause,
    /// The last one enqueued; `None` at the start.
    at: Option<ObjectKey>,
    /// After the end has been reached: the last one that is owed. `None`: nothing is owed beyond the end.
    until: Option<ObjectKey>,
    /// Whether the end has been reached since the scan was asked for last.
    around: bool,
}

impl Rescan {
    /// Asks for a scan of every object.
    pub(crate) fn ask(&self, cause: Cause) {
        let mut owed = self.owed.lock();
        let at = owed.take().and_then(|owed| owed.at);
        *owed = Some(Owed {
            cause,
            until: at.clone(),
            at,
            around: false,
        });
        drop(owed);
        self.wake();
    }

    /// Wakes the task that waits in [`Self::asked`].
    pub(crate) fn wake(&self) {
        self.asked.notify_one();
    }

    /// Waits until a scan has been asked for since this was called last.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed.lock().is_some()
    }

    /// Why objects are owed, and the one after which they begin.
    pub(crate) fn next(&self) -> Option<(Cause, Option<ObjectKey>)> {
        let owed = self.owed.lock();
        owed.as_ref().map(|owed| (owed.cause, owed.at.clone()))
    }

    /// Notes that every object up to this one has been enqueued.
    pub(crate) fn advance(&self, to: ObjectKey) {
        let mut slot = self.owed.lock();
        let Some(owed) = &mut *slot else { return };
        if owed.around && owed.until.as_ref().is_none_or(|until| to >= *until) {
            *slot = None;
            return;
        }
        owed.at = Some(to);
    }

    /// Notes that no object follows: those that are still owed stand at the start.
    pub(crate) fn reach_end(&self) {
        let mut slot = self.owed.lock();
        let Some(owed) = &mut *slot else { return };
        if owed.around || owed.until.is_none() {
            *slot = None;
            return;
        }
        (owed.at, owed.around) = (None, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(at: u32) -> ObjectKey {
        ObjectKey::cluster_scoped(&format!("{at:02}"))
    }

    /// Offers the next of ten objects. `None`: nothing is owed.
    fn step(rescan: &Rescan) -> Option<u32> {
        loop {
            let (_, after) = rescan.next()?;
            let next = (0..10).find(|at| after.as_ref().is_none_or(|after| key(*at) > *after));
            match next {
                Some(next) => {
                    rescan.advance(key(next));
                    return Some(next);
                }
                None => rescan.reach_end(),
            }
        }
    }

    fn rest(rescan: &Rescan) -> Vec<u32> {
        std::iter::from_fn(|| step(rescan)).collect()
    }

    #[test]
    fn everything_is_offered_once() {
        let rescan = Rescan::default();
        assert!(!rescan.is_owed());
        rescan.ask(Cause::List);
        assert_eq!(rest(&rescan), (0..10).collect::<Vec<_>>());
        assert!(!rescan.is_owed());
    }

    #[test]
    fn what_is_asked_for_on_the_way_goes_on_from_there_and_once_around() {
        let rescan = Rescan::default();
        rescan.ask(Cause::List);
        assert_eq!((step(&rescan), step(&rescan)), (Some(0), Some(1)));
        rescan.ask(Cause::Resync);
        let around: Vec<u32> = (2..10).chain(0..2).collect();
        assert_eq!(rest(&rescan), around);
    }

    #[test]
    fn the_last_has_its_turn_however_often_everything_is_asked_for() {
        let rescan = Rescan::default();
        rescan.ask(Cause::List);
        let mut offered = Vec::new();
        for _ in 0..25 {
            offered.extend(step(&rescan));
            rescan.ask(Cause::List);
        }
        assert_eq!(offered.iter().filter(|at| **at == 9).count(), 2);
        assert_eq!(rest(&rescan).len(), 10);
    }
}

//! What each reconciler did in the last hour, minute by minute. Entry points: [`follow`] and [`History::view`].

use crate::status::view::{HistoryView, MinuteView};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::manager::{ControllerStatus, ManagerHandle};
use windlass_fleet::metrics::AttemptTotals;

/// Minutes that are kept.
const MINUTES: usize = 60;
const MINUTE: Duration = Duration::from_mins(1);

/// The owner and the name of a reconciler.
type Name = (String, String);

/// The last hour, of the reconcilers that there are.
#[derive(Debug, Default)]
pub(crate) struct History {
    reconcilers: Mutex<BTreeMap<Name, Hour>>,
}

#[derive(Debug, Default)]
struct Hour {
    /// What it had done when the last minute ended.
    done: AttemptTotals,
    /// The newest last; at most [`MINUTES`].
    minutes: VecDeque<AttemptTotals>,
}

/// What was done between two looks. A reconciler that has come again begins anew.
fn between(before: AttemptTotals, now: AttemptTotals) -> AttemptTotals {
    if now.ended < before.ended {
        return now;
    }
    AttemptTotals {
        ended: now.ended - before.ended,
        failed: now.failed.saturating_sub(before.failed),
        time: now.time.saturating_sub(before.time),
    }
}

/// Ends each minute, for ever.
pub(crate) async fn follow(manager: ManagerHandle, history: Arc<History>) {
    let start = tokio::time::Instant::now() + MINUTE;
    let mut minutes = tokio::time::interval_at(start, MINUTE);
    // After a pause the minutes that were missed say nothing.
    minutes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        minutes.tick().await;
        history.end_minute(totals(manager.controllers()));
    }
}

fn totals(controllers: Vec<ControllerStatus>) -> BTreeMap<Name, AttemptTotals> {
    let of = |controller: ControllerStatus| {
        let name = (controller.tenant, controller.name);
        (name, controller.totals)
    };
    controllers.into_iter().map(of).collect()
}

impl History {
    /// The last hour up to now.
    pub(crate) fn view(&self, controllers: Vec<ControllerStatus>) -> Vec<HistoryView> {
        self.of(totals(controllers))
    }

    fn of(&self, totals: BTreeMap<Name, AttemptTotals>) -> Vec<HistoryView> {
        let reconcilers = self.reconcilers.lock();
        let view = |(name, now): (Name, AttemptTotals)| {
            let hour = reconcilers.get(&name);
            let minutes = hour
                .into_iter()
                .flat_map(|hour| hour.minutes.iter().copied());
            let this = between(
                hour.map_or_else(AttemptTotals::default, |hour| hour.done),
                now,
            );
            HistoryView {
                tenant: name.0,
                reconciler: name.1,
                minutes: minutes.chain([this]).map(MinuteView::from).collect(),
            }
        };
        totals.into_iter().map(view).collect()
    }

    /// Ends a minute. What no longer exists is forgotten.
    fn end_minute(&self, totals: BTreeMap<Name, AttemptTotals>) {
        let mut reconcilers = self.reconcilers.lock();
        reconcilers.retain(|name, _| totals.contains_key(name));
        for (name, now) in totals {
            let hour = reconcilers.entry(name).or_default();
            if hour.minutes.len() == MINUTES {
                hour.minutes.pop_front();
            }
            hour.minutes.push_back(between(hour.done, now));
            hour.done = now;
        }
    }
}

impl From<AttemptTotals> for MinuteView {
    fn from(totals: AttemptTotals) -> Self {
        Self {
            attempts: totals.ended,
            failed: totals.failed,
            seconds: totals.time.as_secs_f64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(of: &[(&str, u64)]) -> BTreeMap<Name, AttemptTotals> {
        let total = |(name, attempts): &(&str, u64)| {
            let totals = AttemptTotals {
                ended: *attempts,
                failed: attempts / 2,
                time: Duration::from_secs(*attempts),
            };
            (("a".to_owned(), (*name).to_owned()), totals)
        };
        of.iter().map(total).collect()
    }

    fn attempts(history: &History, now: &[(&str, u64)]) -> Vec<Vec<u64>> {
        let views = history.of(totals(now)).into_iter();
        let minutes = views.map(|view| view.minutes.iter().map(|minute| minute.attempts).collect());
        minutes.collect()
    }

    #[test]
    fn a_minute_has_what_was_done_in_it_and_the_last_one_is_not_over() {
        let history = History::default();
        assert_eq!(attempts(&history, &[("x", 3)]), [[3]]);
        history.end_minute(totals(&[("x", 4)]));
        history.end_minute(totals(&[("x", 10), ("y", 1)]));
        let both = attempts(&history, &[("x", 12), ("y", 1)]);
        assert_eq!(both, [vec![4, 6, 2], vec![1, 0]]);
        let last = history.of(totals(&[("x", 12)]))[0].minutes[2].clone();
        assert_eq!((last.failed, last.seconds), (1, 2.0));
    }

    #[test]
    fn an_hour_is_kept_and_what_has_gone_is_forgotten() {
        let history = History::default();
        for minute in 1..=100 {
            history.end_minute(totals(&[("x", minute), ("y", minute)]));
        }
        let all = attempts(&history, &[("x", 100)]);
        assert_eq!(all[0].len(), MINUTES + 1);
        history.end_minute(totals(&[("y", 100)]));
        // Both come again, and their counts begin anew.
        assert_eq!(attempts(&history, &[("x", 5)]), [[5]]);
        assert_eq!(attempts(&history, &[("y", 5)])[0].last(), Some(&5));
    }
}

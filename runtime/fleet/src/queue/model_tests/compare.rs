//! What the queue says of itself, against what the model knows. Entry point: [`Model::compare`].

use super::{Doing, Key, Model, Why};
use crate::queue::{ClusterMode, Counts, KeyState};

impl Model {
    /// Every key is where it should be, and all are counted.
    pub(super) fn compare(&mut self) {
        let classes = &self.queue.classes;
        let mut open = classes.open_gates.iter();
        assert!(open.all(|gate| classes.gates[*gate].can_wake()));
        let mut counts = Counts::default();
        for (id, key) in self
            .keys
            .iter()
            .filter(|(id, _)| self.controllers[id.0].alive)
        {
            let status = self
                .queue
                .key(self.controllers[id.0].id, &id.1)
                .unwrap_or_else(|| panic!("{id:?} is lost: {key:?}"));
            let held = self
                .clusters
                .get(&id.1.cluster)
                .is_some_and(|state| *state != ClusterMode::Ready)
                || self.held.contains(&(id.0, id.1.cluster.clone()));
            let same = match (key.doing, status.state) {
                (Doing::Ready, KeyState::Ready(_)) => !held,
                (Doing::Ready, KeyState::Held(_)) => held,
                (Doing::Alarm { due, why }, state) => {
                    state
                        == match why {
                            Why::Delayed => KeyState::Delayed(due),
                            Why::Backoff => KeyState::Backoff(due),
                            Why::Throttled => KeyState::Throttled(due),
                            Why::Paused => KeyState::Paused(due),
                        }
                }
                (Doing::Running { started, again, .. }, KeyState::Running(since)) => {
                    started == since && again.is_some() == status.dirty
                }
                (Doing::Terminal, KeyState::Terminal(_)) => true,
                _ => false,
            };
            assert!(same, "{id:?}: {key:?} against {status:?}");
            assert_eq!(
                (status.priority, status.attempts),
                (key.priority, key.attempts),
                "{id:?}: {key:?}"
            );
        }
        for key in self.keys.values() {
            match key.doing {
                Doing::Ready => {
                    counts.ready += 1;
                    counts.ready_low += usize::from(key.priority < 0);
                }
                Doing::Alarm { why, .. } => match why {
                    Why::Delayed => counts.delayed += 1,
                    Why::Backoff => counts.backoff += 1,
                    Why::Throttled => counts.throttled += 1,
                    Why::Paused => counts.paused += 1,
                },
                Doing::Running { .. } => counts.running += 1,
                Doing::Terminal => counts.terminal += 1,
            }
        }
        assert_eq!(
            (self.queue.total_counts(), self.queue.len()),
            (counts, self.keys.len())
        );
        let due = |key: &Key| {
            if let Doing::Alarm { due, .. } = key.doing {
                Some(due)
            } else {
                None
            }
        };
        self.last_wake = self.queue.next_wake();
        assert_eq!(self.last_wake, self.keys.values().filter_map(due).min());
    }

    /// A dispatcher that polls the queue after each change, and at the times that the queue returned, misses nothing.
    pub(super) fn compare_news(&mut self) {
        let news = self.queue.has_news(self.now);
        self.promote();
        self.find_slow();
        let due = |key: &Key| match key.doing {
            Doing::Alarm { due, .. } => Some(due),
            _ => None,
        };
        let wake = self.keys.values().filter_map(due).min();
        if !news {
            let last = self.last_wake;
            let is_known = |wake| last.is_some_and(|last| last <= wake);
            assert!(wake.is_none_or(is_known), "{wake:?}, and not {last:?}");
        }
        self.last_wake = wake;
        assert_eq!(self.queue.next_wake(), wake);
    }
}

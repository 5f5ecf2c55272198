//! Keys that are brought forward because what made them fail may be repaired. Entry point: [`Model::wake`].

use super::{Doing, Id, Model, Why};
use crate::queue::{KeyState, wake};

impl Model {
    /// Keys whose failure may be repaired run within a second. Where in it, the queue decides: the model checks the bounds, and believes it.
    /// So do keys that pauses hold, of all clusters.
    pub(super) fn wake(&mut self, meant: Why) {
        let is_paused = meant == Why::Paused;
        let one = self.rng.bool() && !is_paused;
        let cluster = one.then(|| self.request().cluster);
        if is_paused {
            self.queue.wake_paused(self.now);
        } else {
            self.queue.wake(self.now, cluster.as_ref());
        }
        let ids: Vec<Id> = self.keys.keys().cloned().collect();
        for id in ids {
            let held = self.held_back(&id).unwrap_or(self.now);
            let is_meant = cluster
                .as_ref()
                .is_none_or(|cluster| id.1.cluster == *cluster);
            let key = &self.keys[&id];
            let Doing::Alarm { due, why } = key.doing else {
                continue;
            };
            let is_meant = is_meant && why == meant && (is_paused || !key.guests_fault);
            if !is_meant || !self.controllers[id.0].alive {
                continue;
            }
            let status = self.queue.key(self.controllers[id.0].id, &id.1);
            let doing = match status.map(|status| status.state) {
                Some(KeyState::Backoff(sooner) | KeyState::Paused(sooner)) => {
                    let latest = due.min(held.max(self.now + wake::SPREAD));
                    assert!(sooner <= latest, "{id:?} waits for more than {latest:?}");
                    assert!(sooner == due || sooner >= held, "{id:?} is hot");
                    self.woken += usize::from(sooner < due);
                    Doing::Alarm { due: sooner, why }
                }
                Some(KeyState::Ready(_) | KeyState::Held(_)) => Doing::Ready,
                other => panic!("{id:?} is {other:?}"),
            };
            self.keys.get_mut(&id).unwrap().doing = doing;
        }
    }
}

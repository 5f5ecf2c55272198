//! How keys come to wait, and stop waiting. Entry point: [`Queue::wait`].

use super::key::{Entry, Keys, State};
use super::options::{Add, Added, Cause};
use super::run::Again;
use super::timer::Alarm;
use super::{ControllerId, Queue};

/// Most alarms that one call turns into ready keys, so that a flood of them does not hold up whoever waits for the queue.
const PROMOTIONS: usize = 1024;

/// Most storms that wait to be told of; a further one waits until its key is put off again.
pub(super) const MOST_TOLD: usize = 64;

impl Queue {
    /// Adds a request to the key that it is equal to.
    pub(super) fn merge(&mut self, now: u64, key: u32, add: Add, asked: Option<u64>) -> Added {
        let Entry {
            state,
            lane,
            priority,
            at,
            ..
        } = *self.keys.entry(key);
        if state == State::Running {
            self.mark_dirty(key, add, asked);
            return Added::MarkedDirty;
        }
        let controller = self.classes.lanes[lane as usize].controller;
        let terminal = state == State::Terminal;
        if terminal && self.is_full(self.id(controller)) {
            return Added::Full;
        }
        let (due, waits) = self.admit(now, self.keys.entry(key).hash, add.cause, asked);
        let earlier = state != State::Ready && due.is_none_or(|due| due < at);
        if !terminal && !earlier && add.priority <= priority {
            return Added::Merged;
        }
        // In its own words: what it waits for now, if it is not the earlier time, and by what right.
        let (due, state) = match (state, due) {
            (State::Ready, _) => (None, state),
            (State::Terminal, due) => (due, waits),
            (_, Some(due)) if due >= at => (Some(at), state),
            (_, due) => (due, waits),
        };
        let since = self.keys.entry(key).at;
        self.leave(now, key);
        let entry = self.keys.entry_mut(key);
        entry.priority = if terminal {
            add.priority
        } else {
            priority.max(add.priority)
        };
        (entry.cause, entry.origin) = (add.cause, add.origin);
        let was_ready = entry.state == State::Ready;
        self.wait(now, key, due, state);
        if state == State::Throttled && (earlier || terminal) {
            self.put_off(key);
        }
        if was_ready {
            self.keys.entry_mut(key).at = since;
        }
        if terminal { Added::New } else { Added::Merged }
    }

    /// Until when a key waits that is asked for now, and by what right: one that has run too often is held back, unless an operator
    /// asks.
    pub(super) fn admit(
        &self,
        now: u64,
        hash: u32,
        cause: Cause,
        asked: Option<u64>,
    ) -> (Option<u64>, State) {
        let held = self
            .storms
            .held(hash, now)
            .filter(|held| cause != Cause::Operator && asked.is_none_or(|asked| asked < *held));
        match held {
            Some(held) => (Some(held), State::Throttled),
            None => (asked, State::Delayed),
        }
    }

    /// Counts a run that is put off because its key has run too often, and tells of it if that is the first of its storm.
    pub(super) fn put_off(&mut self, key: u32) {
        let Entry { lane, hash, .. } = *self.keys.entry(key);
        let controller = self.classes.lanes[lane as usize].controller;
        self.classes.controllers[controller as usize].totals.storms += 1;
        // One that there is no room for now is told of when it is put off again.
        if self.stormy.len() < MOST_TOLD
            && self.storms.tell(hash)
            && let Some(request) = self.request(key)
        {
            self.stormy.push((self.id(controller), request));
        }
    }

    /// Notes that a key that runs has been asked for.
    fn mark_dirty(&mut self, key: u32, add: Add, due: Option<u64>) {
        let Some(run) = self.runs.of(self.keys.entry(key)) else {
            return;
        };
        let due = due.unwrap_or(0);
        let asked = run.again.map_or((due, add.priority), |earlier| {
            (earlier.due.min(due), earlier.priority.max(add.priority))
        });
        run.again = Some(Again {
            due: asked.0,
            priority: asked.1,
            cause: add.cause,
            origin: add.origin,
        });
    }

    /// Lets a key, which is in no list, wait: for its alarm if it is not due yet, else for its turn.
    pub(super) fn wait(&mut self, now: u64, key: u32, due: Option<u64>, state: State) {
        let due = due.filter(|due| *due > now);
        let state = if due.is_some() { state } else { State::Ready };
        self.keys.enlist(key, state);
        self.count(key, 1);
        let entry = self.keys.entry_mut(key);
        entry.at = due.unwrap_or(now);
        let Entry { lane, priority, .. } = *entry;
        if let Some(due) = due {
            self.timers.set(Alarm { due, key });
        } else if self.classes.lanes[lane as usize].share.waiting == 0 {
            self.classes.ready(lane, priority, now);
        } else if let Some(best) = self.keys.lane(lane).best() {
            self.classes.best_changed(lane, best);
        }
    }

    /// Takes a key that waits, or is terminal, out of its list.
    pub(super) fn leave(&mut self, now: u64, key: u32) {
        self.count(key, -1);
        let had_alarm = self.keys.entry(key).has_alarm();
        self.keys.delist(key);
        if had_alarm {
            let keys = &self.keys;
            self.timers.call_off(|alarm| counts(keys, alarm));
            return;
        }
        let Entry { lane, state, .. } = *self.keys.entry(key);
        if state != State::Ready {
            return;
        }
        match self.keys.lane(lane).best() {
            Some(best) => self.classes.best_changed(lane, best),
            None => self.classes.emptied(lane, now),
        }
    }

    /// Turns keys that are due into ready ones.
    pub(super) fn promote(&mut self, now: u64) {
        for _ in 0..PROMOTIONS {
            let keys = &self.keys;
            let Some(alarm) = self
                .timers
                .first(|alarm| counts(keys, alarm))
                .filter(|alarm| alarm.due <= now)
            else {
                return;
            };
            self.timers.pop();
            self.count(alarm.key, -1);
            self.keys.delist(alarm.key);
            self.wait(now, alarm.key, None, State::Ready);
        }
    }

    /// Takes all keys of a lane out of the queue but those that run.
    pub(super) fn purge(&mut self, lane: u32, now: u64) {
        while let Some(key) = self.keys.lane(lane).any() {
            self.leave(now, key);
            self.drop_key(key);
        }
        self.note_room(self.classes.lanes[lane as usize].controller);
    }

    /// Takes a key out of the queue whose run has ended.
    pub(super) fn forget(&mut self, key: u32) {
        self.count(key, -1);
        self.drop_key(key);
    }

    pub(super) fn drop_key(&mut self, key: u32) {
        self.drop_failure(key);
        let lane = self.keys.entry(key).lane;
        self.keys.remove(key);
        self.classes.key_removed(lane);
    }

    /// Names a controller as drained when it has refused requests and has room again.
    pub(super) fn note_room(&mut self, controller: u32) {
        let of = &mut self.classes.controllers[controller as usize];
        if of.alive
            && of.refused
            && of.tally.counts().held() <= self.classes.limits.keys_per_controller / 10 * 9
        {
            of.refused = false;
            let generation = of.generation;
            self.drained.push(ControllerId {
                place: controller,
                generation,
            });
        }
    }

    /// Counts a key as being, or no longer being, in its state.
    pub(super) fn count(&mut self, key: u32, change: i32) {
        let Entry {
            state,
            lane,
            priority,
            ..
        } = *self.keys.entry(key);
        let controller = self.classes.lanes[lane as usize].controller as usize;
        self.tally.count(state, priority, change);
        let of = &mut self.classes.controllers[controller];
        of.tally.count(state, priority, change);
    }
}

/// Whether an alarm still counts: the key waits, and has not been made to wait for another time since.
pub(super) fn counts(keys: &Keys, alarm: &Alarm) -> bool {
    alarm.key < keys.places() && keys.entry(alarm.key).waits_until(alarm.due)
}

//! How keys begin to wait, and stop waiting. Entry point: [`Queue::wait`].

use super::class::{Controller, Counts};
use super::key::{Entry, Keys, State};
use super::options::{Add, Added, Cause};
use super::run::Rerun;
use super::slab::{ControllerIndex, FlowId, KeyId};
use super::timer::Alarm;
use super::{ControllerId, Queue};
use crate::name::ClusterName;
use std::time::Instant;

/// Most alarms that one call turns into ready keys, so that a flood of them does not delay the caller for long.
const PROMOTIONS: usize = 1024;

/// A controller that has refused requests is drained when it has at most so many tenths of its keys, so that its sources do not offer
/// theirs again for every key that leaves.
const DRAINED_TENTHS: usize = 9;

/// Most hot keys that wait to be reported; a further one waits until it is throttled again.
pub(super) const MAX_REPORTS: usize = 64;

impl Queue {
    /// Adds a request to the key that it is equal to. `asked` is the time that the request asks for.
    pub(super) fn merge(&mut self, now: u64, key: KeyId, add: Add, asked: Option<u64>) -> Added {
        let Entry {
            state,
            priority,
            at,
            hash,
            ..
        } = *self.keys.entry(key);
        if state == State::Running {
            self.mark_dirty(key, add, asked);
            return Added::MarkedDirty;
        }
        let terminal = state == State::Terminal;
        if terminal && self.is_full(self.controller_of(key).id) {
            return Added::Full;
        }
        let (due, waits) = self.throttle(now, hash, add.cause, asked);
        let earlier = state != State::Ready && due.is_none_or(|due| due < at);
        if !terminal && !earlier && add.priority <= priority {
            return Added::Merged;
        }
        // A key keeps the time and the state that it waits in, unless the new time is earlier.
        let (due, state) = match (state, due) {
            (State::Ready, _) => (None, state),
            (State::Terminal, due) => (due, waits),
            (_, Some(due)) if due >= at => (Some(at), state),
            (_, due) => (due, waits),
        };
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
            self.count_throttled(key);
        }
        if was_ready {
            // A key that gets another priority has been ready before.
            self.keys.entry_mut(key).at = at;
        }
        if terminal { Added::New } else { Added::Merged }
    }

    /// Until when a key waits that is enqueued now, and in which state. A hot key waits longer than was asked, unless an operator
    /// enqueues it.
    pub(super) fn throttle(
        &self,
        now: u64,
        hash: u32,
        cause: Cause,
        asked: Option<u64>,
    ) -> (Option<u64>, State) {
        let is_later = |free: &u64| asked.is_none_or(|asked| asked < *free);
        let free = self.run_counts.throttled_until(hash, now);
        match free.filter(|free| cause != Cause::Operator && is_later(free)) {
            Some(free) => (Some(free), State::Throttled),
            None => (asked, State::Delayed),
        }
    }

    /// Counts a run that is delayed because its key is hot, and reports the key if it has just become so.
    pub(super) fn count_throttled(&mut self, key: KeyId) {
        let controller = self.controller_of_mut(key);
        controller.totals.throttled += 1;
        let id = controller.id;
        if self.hot_keys.len() < MAX_REPORTS
            && self.run_counts.report(self.keys.entry(key).hash)
            && let Some(request) = self.request(key)
        {
            self.hot_keys.push((id, request));
        }
    }

    /// Notes that a running key has been enqueued.
    fn mark_dirty(&mut self, key: KeyId, add: Add, due: Option<u64>) {
        let Some(run) = self.runs.of_mut(key) else {
            return;
        };
        let due = due.unwrap_or(0);
        let (due, priority) = run.rerun.map_or((due, add.priority), |earlier| {
            (earlier.due.min(due), earlier.priority.max(add.priority))
        });
        run.rerun = Some(Rerun {
            due,
            priority,
            cause: add.cause,
            origin: add.origin,
        });
    }

    /// Has a key, which is in no list, wait for its alarm in this state; or makes it ready if it is due.
    pub(super) fn wait(&mut self, now: u64, key: KeyId, due: Option<u64>, state: State) {
        let due = due.filter(|due| *due > now);
        self.enlist(key, due.map_or(State::Ready, |_| state));
        let entry = self.keys.entry_mut(key);
        entry.at = due.unwrap_or(now);
        let Entry { flow, priority, .. } = *entry;
        if let Some(due) = due {
            self.timers.set(Alarm { due, key });
        } else if self.classes.flows[flow].class.ready_flows == 0 {
            self.classes.flow_ready(flow, priority, now);
        } else if let Some(best) = self.classes.flows[flow].lists.best() {
            self.classes.set_best(flow, best);
        }
    }

    /// Takes a key that waits, or is terminal, out of its list.
    pub(super) fn leave(&mut self, now: u64, key: KeyId) {
        let Entry { flow, state, .. } = *self.keys.entry(key);
        let had_alarm = self.keys.entry(key).has_alarm();
        self.delist(key);
        if had_alarm {
            let keys = &self.keys;
            self.timers.cancel_one(|alarm| is_live(keys, alarm));
        }
        if state != State::Ready {
            return;
        }
        match self.classes.flows[flow].lists.best() {
            Some(best) => self.classes.set_best(flow, best),
            None => self.classes.flow_emptied(flow, now),
        }
    }

    /// Makes keys ready that are due.
    pub(super) fn promote(&mut self, now: u64) {
        for _ in 0..PROMOTIONS {
            let keys = &self.keys;
            let first = self.timers.first(|alarm| is_live(keys, alarm));
            let Some(alarm) = first.filter(|alarm| alarm.due <= now) else {
                return;
            };
            self.timers.pop();
            self.delist(alarm.key);
            self.wait(now, alarm.key, None, State::Ready);
        }
    }

    /// Removes all keys of a flow but those that run.
    pub(super) fn purge(&mut self, flow: FlowId, now: u64) {
        while let Some(key) = self.classes.flows[flow].lists.any() {
            self.leave(now, key);
            self.drop_key(key);
        }
        self.announce_room(self.classes.flows[flow].controller);
    }

    /// Removes the waiting keys of a controller in one cluster. Runs go on, and however they end counts as done.
    pub fn remove_in_cluster(
        &mut self,
        now: Instant,
        controller: ControllerId,
        cluster: &ClusterName,
    ) {
        if self.controller(controller).is_none() {
            return;
        }
        let cluster = self.classes.cluster_id(cluster);
        let flow = cluster.and_then(|cluster| self.classes.find_flow(controller.index, cluster));
        let Some(flow) = flow else { return };
        let now = self.nanos(now);
        self.purge(flow, now);
        for token in self.runs.tokens(|run| run.flow == flow) {
            self.runs.abandon(token);
        }
    }

    /// Removes a key whose run has ended.
    pub(super) fn forget(&mut self, key: KeyId) {
        self.delist(key);
        self.drop_key(key);
    }

    fn drop_key(&mut self, key: KeyId) {
        self.drop_failure(key);
        self.paused.remove(&key);
        let flow = self.keys.entry(key).flow;
        self.keys.remove(key);
        self.classes.key_removed(flow);
    }

    /// Names a controller as drained if it has refused requests and has room again.
    pub(super) fn announce_room(&mut self, controller: ControllerIndex) {
        let few = self.classes.limits.keys_per_controller / 10 * DRAINED_TENTHS;
        let controller = &mut self.classes.controllers[controller];
        if controller.alive && controller.refused && controller.counts.limited() <= few {
            controller.refused = false;
            self.drained.push(controller.id);
        }
    }

    /// Appends a key, which is in no list, to the list for this state, and counts it.
    pub(super) fn enlist(&mut self, key: KeyId, state: State) {
        let Entry { flow, priority, .. } = *self.keys.entry(key);
        let lists = &mut self.classes.flows[flow].lists;
        self.keys.enlist(lists, key, state);
        self.change_counts(flow, |counts| counts.add(state, priority));
    }

    /// Takes a key out of its list, if it is in one, and out of the counts.
    pub(super) fn delist(&mut self, key: KeyId) {
        let Entry {
            flow,
            state,
            priority,
            ..
        } = *self.keys.entry(key);
        let lists = &mut self.classes.flows[flow].lists;
        self.keys.delist(lists, key);
        self.change_counts(flow, |counts| counts.remove(state, priority));
    }

    fn change_counts(&mut self, flow: FlowId, change: impl Fn(&mut Counts)) {
        change(&mut self.counts);
        let controller = self.classes.flows[flow].controller;
        change(&mut self.classes.controllers[controller].counts);
    }

    pub(super) fn controller_of(&self, key: KeyId) -> &Controller {
        let flow = self.keys.entry(key).flow;
        &self.classes.controllers[self.classes.flows[flow].controller]
    }

    pub(super) fn controller_of_mut(&mut self, key: KeyId) -> &mut Controller {
        let flow = self.keys.entry(key).flow;
        &mut self.classes.controllers[self.classes.flows[flow].controller]
    }
}

/// Whether an alarm is live: the key still waits, and for that time.
pub(super) fn is_live(keys: &Keys, alarm: &Alarm) -> bool {
    keys.waits_until(alarm.key, alarm.due)
}

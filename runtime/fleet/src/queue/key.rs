//! The keys of the queue: what is known of each, and the lists that they wait in. Entry point: [`Keys`].

use super::options::{Add, Cause, Origin};
use super::slab::{FlowId, KeyId, Slab};
use super::table::Table;
use crate::request::ObjectKey;

/// One of so many runs of a flow goes to the key that has been ready for longest, and one of so many runs of a controller to the flow
/// whose turn it is, whatever their priorities: without it, events that never end keep a key of low priority from ever running.
pub(super) const SHARE: u8 = 4;

/// Keys whose memory an empty queue keeps for keys to come.
const KEPT: usize = 4096;

/// What a key is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// In its flow's list for its priority.
    Ready,
    /// In its flow's list of keys with an alarm: a caller or the key's last run has asked for that time.
    Delayed,
    /// In the same list: its last run failed.
    Backoff,
    /// In the same list: it is hot.
    Throttled,
    /// In the same list: a pause holds it.
    Paused,
    /// In no list.
    Running,
    /// In its flow's list of terminal keys: waits for an event.
    Terminal,
}

/// One key.
#[derive(Debug)]
pub(super) struct Entry {
    /// `None` once the key has been removed.
    pub(super) key: Option<ObjectKey>,
    /// Ready and terminal: since when. With an alarm: until when; an alarm for another time does not count.
    pub(super) at: u64,
    /// The flow, and through it the controller and the cluster.
    pub(super) flow: FlowId,
    /// Before it in its list.
    prev: Option<KeyId>,
    /// After it in its list.
    next: Option<KeyId>,
    pub(super) priority: i32,
    pub(super) hash: u32,
    /// Failures since the last success; no more are counted than fit, which is long after the delay has stopped growing.
    pub(super) attempts: u8,
    pub(super) state: State,
    pub(super) cause: Cause,
    /// Stays while the key is retried or asks for itself.
    pub(super) origin: Origin,
}

impl Entry {
    /// Whether it waits for an alarm of this time.
    pub(super) fn waits_until(&self, due: u64) -> bool {
        self.has_alarm() && self.at == due
    }

    /// Whether it waits for an alarm.
    pub(super) fn has_alarm(&self) -> bool {
        matches!(
            self.state,
            State::Delayed | State::Backoff | State::Throttled | State::Paused
        )
    }
}

/// A list threaded through the entries: a key is in one at most.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    head: Option<KeyId>,
    tail: Option<KeyId>,
}

impl List {
    fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}

/// The ready keys of one priority.
#[derive(Debug, Default)]
struct Level {
    priority: i32,
    list: List,
}

/// The keys of one flow, by what they are doing.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The highest; empty only if no key is ready.
    best: Level,
    /// The others, the highest last; none is empty. There are few: one, as a rule.
    lower: Vec<Level>,
    /// For how many runs in a row a key was passed over that had been ready for longer. Less than [`SHARE`].
    passed_over: u8,
    alarmed: List,
    terminal: List,
}

impl Lists {
    /// The highest priority of a ready key.
    pub(super) fn best(&self) -> Option<i32> {
        (!self.best.list.is_empty()).then_some(self.best.priority)
    }

    /// A key, if there is any: a ready one, one with an alarm, or a terminal one.
    pub(super) fn any(&self) -> Option<KeyId> {
        let lists = [self.best.list, self.alarmed, self.terminal];
        lists.into_iter().find_map(|list| list.head)
    }

    /// The list of ready keys of a priority, made if there is none.
    fn level(&mut self, priority: i32) -> &mut List {
        if self.best.list.is_empty() {
            self.best.priority = priority;
        } else if priority > self.best.priority {
            let list = List::default();
            let next = std::mem::replace(&mut self.best, Level { priority, list });
            self.lower.push(next);
        } else if priority < self.best.priority {
            let at = self.lower.binary_search_by_key(&priority, |of| of.priority);
            let at = at.unwrap_or_else(|at| {
                let list = List::default();
                self.lower.insert(at, Level { priority, list });
                at
            });
            return &mut self.lower[at].list;
        }
        &mut self.best.list
    }

    /// The list of the keys in a state; for ready ones, of a priority.
    fn list(&mut self, state: State, priority: i32) -> Option<&mut List> {
        match state {
            State::Running => None,
            State::Delayed | State::Backoff | State::Throttled | State::Paused => {
                Some(&mut self.alarmed)
            }
            State::Terminal => Some(&mut self.terminal),
            State::Ready => Some(self.level(priority)),
        }
    }

    /// Forgets a priority that no ready key has any more.
    fn drop_level(&mut self, priority: i32) {
        if priority == self.best.priority {
            self.best = self.lower.pop().unwrap_or_default();
        } else {
            self.lower.retain(|level| level.priority != priority);
        }
    }
}

/// All keys, found by hash.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: Slab<KeyId, Entry>,
    table: Table,
}

impl Keys {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many keys there is memory for.
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn entry(&self, key: KeyId) -> &Entry {
        &self.entries[key]
    }

    pub(super) fn entry_mut(&mut self, key: KeyId) -> &mut Entry {
        &mut self.entries[key]
    }

    /// Whether a key waits for an alarm of this time. The key may have been removed since the alarm was set.
    pub(super) fn waits_until(&self, key: KeyId, due: u64) -> bool {
        let entry = self.entries.get(key);
        entry.is_some_and(|entry| entry.waits_until(due))
    }

    /// The key of a flow for an object.
    pub(super) fn find(&self, hash: u32, flow: FlowId, object: &ObjectKey) -> Option<KeyId> {
        self.table.find(hash, |key| {
            let entry = self.entry(key);
            entry.flow == flow && entry.key.as_ref() == Some(object)
        })
    }

    /// Adds a key that is in no list yet.
    pub(super) fn insert(
        &mut self,
        hash: u32,
        flow: FlowId,
        object: ObjectKey,
        add: &Add,
    ) -> KeyId {
        let key = self.entries.insert(Entry {
            key: Some(object),
            at: 0,
            flow,
            prev: None,
            next: None,
            priority: add.priority,
            hash,
            attempts: 0,
            state: State::Running,
            cause: add.cause,
            origin: add.origin,
        });
        self.table.insert(hash, key);
        key
    }

    /// Removes a key that is in no list any more.
    pub(super) fn remove(&mut self, key: KeyId) {
        let entry = self.entry_mut(key);
        // No alarm and no run may find the key any more.
        (entry.key, entry.state) = (None, State::Terminal);
        let hash = entry.hash;
        self.table.remove(hash, key);
        self.entries.remove(key);
        if self.table.len() == 0 && self.entries.capacity() > KEPT {
            // After a flood: give the memory back.
            *self = Self::default();
        }
    }

    /// The keys of a flow that wait for a time.
    pub(super) fn alarmed(&self, lists: &Lists) -> impl Iterator<Item = KeyId> {
        let next = |key: &KeyId| self.entry(*key).next;
        std::iter::successors(lists.alarmed.head, next)
    }

    /// The ready key of a flow that runs next. It counts as run: the caller takes it out of its list.
    ///
    /// It is the first of the highest priority, unless others that have been ready for longer have been passed over too often. Linear
    /// in priorities.
    pub(super) fn next_ready(&self, lists: &mut Lists) -> Option<KeyId> {
        let best = lists.best.list.head?;
        // In a list the first has been there for longest. Among equals the lowest priority counts: the others get the other runs.
        let lower = lists.lower.iter().filter_map(|level| level.list.head);
        let heads = lower.chain([best]);
        let oldest = heads.min_by_key(|key| self.entry(*key).at)?;
        if oldest == best || lists.passed_over + 1 >= SHARE {
            lists.passed_over = 0;
            return Some(oldest);
        }
        lists.passed_over += 1;
        Some(best)
    }

    /// Appends a key, which is in no list, to the list of its flow for this state.
    pub(super) fn enlist(&mut self, lists: &mut Lists, key: KeyId, state: State) {
        let entry = &mut self.entries[key];
        entry.state = state;
        let Some(list) = lists.list(state, entry.priority) else {
            return;
        };
        let tail = list.tail.replace(key);
        (entry.prev, entry.next) = (tail, None);
        match tail {
            Some(tail) => self.entries[tail].next = Some(key),
            None => list.head = Some(key),
        }
    }

    /// Takes a key out of the list that it is in.
    pub(super) fn delist(&mut self, lists: &mut Lists, key: KeyId) {
        let Entry {
            priority,
            prev,
            next,
            state,
            ..
        } = self.entries[key];
        if state == State::Running {
            return;
        }
        if let Some(prev) = prev {
            self.entries[prev].next = next;
        }
        if let Some(next) = next {
            self.entries[next].prev = prev;
        }
        if prev.is_some() && next.is_some() {
            return;
        }
        let Some(list) = lists.list(state, priority) else {
            return;
        };
        if prev.is_none() {
            list.head = next;
        }
        if next.is_none() {
            list.tail = prev;
        }
        if state == State::Ready && list.is_empty() {
            lists.drop_level(priority);
        }
    }
}

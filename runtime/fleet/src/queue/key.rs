//! The keys of the queue: what is known of each, and the lists that they wait in. Entry point: [`Keys`].

use super::options::{Add, Cause, Origin};
use super::table::Table;
use crate::request::ObjectKey;

/// Places that an empty queue keeps for keys to come.
const KEPT: usize = 4096;

/// No key.
pub(super) const NONE: u32 = u32::MAX;

/// What a key is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// In its lane's list for its priority.
    Ready,
    /// In its lane's list of keys with an alarm: asked for by whoever added it or by its last run.
    Delayed,
    /// In the same list: its last run failed.
    Backoff,
    /// In the same list: it was asked for, and has run too often lately.
    Throttled,
    /// In no list.
    Running,
    /// In its lane's list of terminal keys: waits for an event.
    Terminal,
}

/// One key.
#[derive(Debug)]
pub(super) struct Entry {
    /// `None` in a place that is free.
    pub(super) key: Option<ObjectKey>,
    /// Ready and terminal: since when. Delayed and backoff: until when. An alarm for another time does not count.
    pub(super) at: u64,
    /// The lane, and through it the controller and the cluster.
    pub(super) lane: u32,
    /// Running: the place of the run, where all that matters only meanwhile is kept.
    prev: u32,
    next: u32,
    pub(super) priority: i32,
    pub(super) hash: u32,
    /// Failures since the last success; no more are counted than fit, which is long after the delay has stopped growing.
    pub(super) attempts: u8,
    pub(super) state: State,
    pub(super) cause: Cause,
    /// Stays while the key is tried again or asks for itself.
    pub(super) origin: Origin,
}

impl Entry {
    /// Whether it waits for an alarm of this time.
    pub(super) fn waits_until(&self, due: u64) -> bool {
        self.has_alarm() && self.at == due
    }

    /// The place of its run, while it runs.
    pub(super) fn run(&self) -> Option<u32> {
        (self.state == State::Running).then_some(self.prev)
    }

    /// Whether it waits for an alarm.
    pub(super) fn has_alarm(&self) -> bool {
        matches!(
            self.state,
            State::Delayed | State::Backoff | State::Throttled
        )
    }
}

/// A list threaded through the entries: a key is in one at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl List {
    fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// The ready keys of one priority.
#[derive(Debug, Default)]
struct Level {
    priority: i32,
    list: List,
}

/// The keys of one lane, by what they are doing.
#[derive(Debug, Default)]
pub(super) struct LaneKeys {
    /// The highest; empty only if no key is ready.
    best: Level,
    /// The others, the highest last; none is empty. There are few: one, as a rule.
    lower: Vec<Level>,
    alarmed: List,
    terminal: List,
}

impl LaneKeys {
    /// The highest priority of a ready key.
    pub(super) fn best(&self) -> Option<i32> {
        (!self.best.list.is_empty()).then_some(self.best.priority)
    }

    /// The first key of a list that is not empty: a ready one, one with an alarm, or a terminal one.
    pub(super) fn any(&self) -> Option<u32> {
        let lists = [self.best.list, self.alarmed, self.terminal];
        lists
            .into_iter()
            .find(|list| !list.is_empty())
            .map(|list| list.head)
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

    /// The list that a key in this state, of this priority, is in, or is to be put in.
    fn list(&mut self, state: State, priority: i32) -> Option<&mut List> {
        match state {
            State::Running => None,
            State::Delayed | State::Backoff | State::Throttled => Some(&mut self.alarmed),
            State::Terminal => Some(&mut self.terminal),
            State::Ready => Some(self.level(priority)),
        }
    }

    /// Forgets a priority of which no key is ready any more.
    fn drop_level(&mut self, priority: i32) {
        if priority == self.best.priority {
            self.best = self.lower.pop().unwrap_or_default();
        } else {
            self.lower.retain(|level| level.priority != priority);
        }
    }
}

/// All keys, found by hash, and their lists per lane.
#[derive(Debug, Default)]
pub(super) struct Keys {
    entries: Vec<Entry>,
    /// Places in `entries` that are free.
    free: Vec<u32>,
    /// Places in `entries` by hash.
    table: Table,
    /// By lane.
    lanes: Vec<LaneKeys>,
}

impl Keys {
    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many places there are, free ones included.
    pub(super) fn places(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(super) fn entry(&self, key: u32) -> &Entry {
        &self.entries[key as usize]
    }

    pub(super) fn entry_mut(&mut self, key: u32) -> &mut Entry {
        &mut self.entries[key as usize]
    }

    /// The key of a lane for an object.
    pub(super) fn find(&self, hash: u32, lane: u32, key: &ObjectKey) -> Option<u32> {
        self.table.find(hash, |place| {
            let entry = self.entry(place);
            entry.lane == lane && entry.key.as_ref() == Some(key)
        })
    }

    /// Puts a key in that is in no list yet.
    pub(super) fn insert(&mut self, hash: u32, lane: u32, key: ObjectKey, add: &Add) -> u32 {
        let entry = Entry {
            key: Some(key),
            at: 0,
            lane,
            prev: NONE,
            next: NONE,
            priority: add.priority,
            hash,
            attempts: 0,
            state: State::Running,
            cause: add.cause,
            origin: add.origin,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.table.insert(hash, place);
        place
    }

    /// Takes a key out that is in no list any more.
    pub(super) fn remove(&mut self, key: u32) {
        let entry = self.entry_mut(key);
        // A free place waits for no alarm and has no run.
        (entry.key, entry.state) = (None, State::Terminal);
        let hash = entry.hash;
        self.table.remove(hash, key);
        self.free.push(key);
        if self.table.len() == 0 && self.entries.len() > KEPT {
            // After a flood: give the memory back.
            self.entries = Vec::new();
            self.free = Vec::new();
            self.table = Table::default();
        }
    }

    /// Notes that a key, which is in no list, runs.
    pub(super) fn begin(&mut self, key: u32, run: u32) {
        let entry = self.entry_mut(key);
        (entry.state, entry.prev) = (State::Running, run);
    }

    /// The ready, waiting and terminal keys of a lane.
    pub(super) fn lane(&mut self, lane: u32) -> &mut LaneKeys {
        let lane = lane as usize;
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, LaneKeys::default);
        }
        &mut self.lanes[lane]
    }

    /// Puts a key, which is in no list, behind the others of its lane that do the same.
    pub(super) fn enlist(&mut self, key: u32, state: State) {
        let Entry { lane, priority, .. } = self.entries[key as usize];
        self.entries[key as usize].state = state;
        let Some(list) = self.lanes[lane as usize].list(state, priority) else {
            return;
        };
        let tail = std::mem::replace(&mut list.tail, key);
        if tail == NONE {
            list.head = key;
        } else {
            self.entries[tail as usize].next = key;
        }
        let entry = &mut self.entries[key as usize];
        (entry.prev, entry.next) = (tail, NONE);
    }

    /// Takes a key out of the list that it is in.
    pub(super) fn delist(&mut self, key: u32) {
        let entry = &mut self.entries[key as usize];
        let Entry {
            lane,
            priority,
            prev,
            next,
            state,
            ..
        } = *entry;
        if state == State::Running {
            return;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE && next != NONE {
            return;
        }
        let keys = &mut self.lanes[lane as usize];
        let Some(list) = keys.list(state, priority) else {
            return;
        };
        if prev == NONE {
            list.head = next;
        }
        if next == NONE {
            list.tail = prev;
        }
        if state == State::Ready && list.is_empty() {
            keys.drop_level(priority);
        }
    }

    /// The first of a lane's ready keys of the highest priority.
    pub(super) fn first_ready(&self, lane: u32) -> Option<u32> {
        let list = self.lanes.get(lane as usize)?.best.list;
        (!list.is_empty()).then_some(list.head)
    }

    /// Takes the first of a lane's ready keys of the highest priority out of its list.
    pub(super) fn pop_ready(&mut self, lane: u32) -> Option<u32> {
        let key = self.first_ready(lane)?;
        self.delist(key);
        Some(key)
    }
}

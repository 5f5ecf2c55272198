//! What a candidate does about the lease, told the time and the answers. Entry point: [`Machine::next`].
//!
//! Only time that this process has observed decides: a lease is over when it was not seen to change for as long as its holder said
//! that it lasts, and ours is over when the last renewal *began* too long ago. What stands in the lease as time is for people.

use super::record::{Lease, Record};
use super::timing::Timing;
use fastrand::Rng;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where a candidate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Another may hold the lease.
    Follower,
    /// This process holds it by a renewal that began at `since`.
    Leader {
        /// The beginning.
        since: Instant,
    },
    /// It gives the lease back, and gives up doing so at `until`.
    Leaving {
        /// The end.
        until: Instant,
    },
    /// It does nothing any more: the lease is lost, or given back.
    Over,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// Nothing before this time.
    Wait(Instant),
    /// This call, which may take so long; its answer goes to [`Machine::answered`].
    Send(Ask, Duration),
    /// Nothing any more.
    End,
}

/// A call about the lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    /// Reads it.
    Read,
    /// Makes it.
    Create(Record),
    /// Changes it, if it still is as it was read.
    Update(Box<Lease>, Record),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// The lease as it was read or written.
    Lease(Lease),
    /// There is none.
    Absent,
    /// It is not as it was read any more, or there is one already.
    Conflict,
    /// Nobody knows: a write may have happened.
    Failed,
}

/// The lease as it was last seen.
#[derive(Debug)]
struct Sight {
    lease: Lease,
    /// When an answer first had this record.
    since: Instant,
}

/// One candidate for one lease.
#[derive(Debug)]
pub(super) struct Machine {
    me: Arc<str>,
    timing: Timing,
    rng: Rng,
    standing: Standing,
    sight: Option<Sight>,
    /// Whether an update of what is in sight may succeed: nothing tells that it has changed.
    fresh: bool,
    /// Whether the last answer was that there is no lease.
    absent: bool,
    /// Whether a write of ours may have happened unseen.
    unsure: bool,
    /// When to look or to renew again.
    at: Instant,
}

impl Machine {
    /// A candidate whose name nobody else has.
    pub(super) fn new(me: Arc<str>, timing: Timing, now: Instant, rng: Rng) -> Self {
        Self {
            me,
            timing,
            rng,
            standing: Standing::Follower,
            sight: None,
            fresh: false,
            absent: false,
            unsure: false,
            at: now,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        self.standing
    }

    /// The record as it was last seen.
    pub(super) fn record(&self) -> Option<&Record> {
        self.sight.as_ref().map(|sight| &sight.lease.record)
    }

    /// What to do now. To be asked again after each answer, and when a wait is over.
    pub(super) fn next(&mut self, now: Instant, wall: Timestamp) -> Next {
        match self.standing {
            Standing::Over => Next::End,
            Standing::Follower => self.follow(now, wall),
            Standing::Leader { since } => self.lead(now, since, wall),
            Standing::Leaving { until } => self.leave(now, until, wall),
        }
    }

    fn follow(&mut self, now: Instant, wall: Timestamp) -> Next {
        let free = self.free_at();
        if free.is_none_or(|free| free <= now) {
            if self.absent {
                self.absent = false;
                return Next::Send(Ask::Create(self.taken(wall)), self.timing.call());
            }
            if let Some(ask) = self.update(|machine| machine.taken(wall)) {
                return Next::Send(ask, self.timing.call());
            }
        }
        if self.at <= now {
            return Next::Send(Ask::Read, self.timing.call());
        }
        // A lease that ends before the next look is taken when it ends.
        let free = free.filter(|free| *free > now && (self.fresh || self.absent));
        Next::Wait(free.map_or(self.at, |free| free.min(self.at)))
    }

    fn lead(&mut self, now: Instant, since: Instant, wall: Timestamp) -> Next {
        let end = since + self.timing.renew_deadline;
        if now >= end {
            self.standing = Standing::Over;
            return Next::End;
        }
        if now < self.at {
            return Next::Wait(self.at.min(end));
        }
        let limit = self.timing.call().min(end - now);
        if self.absent {
            self.absent = false;
            return Next::Send(Ask::Create(self.taken(wall)), limit);
        }
        let renewal = self.update(|machine| machine.taken(wall));
        Next::Send(renewal.unwrap_or(Ask::Read), limit)
    }

    fn leave(&mut self, now: Instant, until: Instant, wall: Timestamp) -> Next {
        let held = self
            .record()
            .is_some_and(|record| *record.holder == *self.me);
        if now >= until || !(held || self.unsure) {
            self.standing = Standing::Over;
            return Next::End;
        }
        if now < self.at {
            return Next::Wait(self.at.min(until));
        }
        let limit = self.timing.call().min(until - now);
        let release = |machine: &Self| machine.record().cloned().unwrap_or_default().released(wall);
        let release = self.update(release).filter(|_| held);
        Next::Send(release.unwrap_or(Ask::Read), limit)
    }

    fn taken(&self, wall: Timestamp) -> Record {
        Record::taken(&self.me, &self.timing, self.record(), wall)
    }

    fn update(&self, record: impl FnOnce(&Self) -> Record) -> Option<Ask> {
        let sight = self.sight.as_ref().filter(|_| self.fresh)?;
        Some(Ask::Update(Box::new(sight.lease.clone()), record(self)))
    }

    /// When the lease in sight may be taken; `None`: none was ever seen.
    fn free_at(&self) -> Option<Instant> {
        let sight = self.sight.as_ref()?;
        let record = &sight.lease.record;
        // It is ours where the answer to our own write was lost.
        if record.holder.is_empty() || *record.holder == *self.me {
            return Some(sight.since);
        }
        // A lease that somebody deleted protects its last known holder all the same.
        Some(sight.since + record.duration(&self.timing))
    }

    /// Takes in the answer to a call that was sent at `start`.
    pub(super) fn answered(&mut self, start: Instant, now: Instant, ask: &Ask, answer: Answer) {
        let read = *ask == Ask::Read;
        self.absent = answer == Answer::Absent;
        self.fresh = matches!(answer, Answer::Lease(_));
        self.unsure = match &answer {
            Answer::Lease(_) | Answer::Absent => false,
            Answer::Conflict => self.unsure,
            Answer::Failed => self.unsure || !read,
        };
        match answer {
            Answer::Lease(lease) => {
                self.see(lease, now);
                if read {
                    self.judge(now);
                } else {
                    self.written(start, now);
                }
            }
            Answer::Absent => {
                // A candidate that never saw a holder has nobody to wait for.
                self.at = match self.standing {
                    Standing::Leader { .. } => now,
                    _ => now + self.timing.pause(&mut self.rng),
                };
                if matches!(self.standing, Standing::Leaving { .. }) {
                    self.standing = Standing::Over;
                }
            }
            Answer::Conflict | Answer::Failed => {
                let pause = self.timing.pause(&mut self.rng);
                self.at = match self.standing {
                    Standing::Follower => now + pause,
                    _ => now + pause / 2,
                };
            }
        }
    }

    fn see(&mut self, lease: Lease, now: Instant) {
        match &mut self.sight {
            Some(sight) if sight.lease.record == lease.record => sight.lease = lease,
            sight => *sight = Some(Sight { lease, since: now }),
        }
    }

    /// After a read.
    fn judge(&mut self, now: Instant) {
        let mine = self
            .record()
            .is_some_and(|record| *record.holder == *self.me);
        match self.standing {
            Standing::Follower => self.at = now + self.timing.pause(&mut self.rng),
            Standing::Leader { .. } if mine => self.at = now,
            Standing::Leader { .. } => self.standing = Standing::Over,
            Standing::Leaving { .. } if mine => self.at = now,
            Standing::Leaving { .. } | Standing::Over => self.standing = Standing::Over,
        }
    }

    /// After a write that has happened.
    fn written(&mut self, start: Instant, now: Instant) {
        let pause = self.timing.pause(&mut self.rng);
        self.at = (start + pause).max(now);
        match self.standing {
            // An answer that took longer than a leader may go without one makes nobody a leader.
            Standing::Follower if now >= start + self.timing.renew_deadline => {}
            Standing::Follower | Standing::Leader { .. } => {
                self.standing = Standing::Leader { since: start };
            }
            Standing::Leaving { .. } | Standing::Over => self.standing = Standing::Over,
        }
    }

    /// Begins to give the lease back: not to be called before all that it protects has ended.
    pub(super) fn leave_within(&mut self, now: Instant, limit: Duration) {
        if self.standing == Standing::Over {
            return;
        }
        self.standing = Standing::Leaving { until: now + limit };
        self.at = now;
    }
}

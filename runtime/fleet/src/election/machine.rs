//! The decisions of one candidate, without I/O. Entry point: [`Machine::next`].
//!
//! The caller asks [`Machine::next`], does what it says, and passes the outcome of each call to [`Machine::answered`].
//!
//! Invariants:
//! * A Lease of another holder is taken only after this candidate has observed no change for the Lease's duration, also if the Lease was
//!   deleted meanwhile.
//! * A leader counts from the *beginning* of its last renewal, and stops `renew_deadline` after it.
//! * Times written in the Lease decide nothing; they are for people.
//! * A candidate whose write may have happened unseen releases the Lease before it ends.

use super::record::{Lease, Record};
use super::timing::Timing;
use fastrand::Rng;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The role of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It does not hold the Lease, as far as it knows.
    Follower,
    /// It holds the Lease.
    Leader {
        /// When the last renewal began.
        since: Instant,
    },
    /// It releases the Lease.
    Leaving {
        /// When it stops trying.
        until: Instant,
    },
    /// It has released or lost the Lease, and does nothing more.
    Over,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Next {
    /// Wait until this time.
    Wait(Instant),
    /// Send this call with this timeout. Its outcome goes to [`Machine::answered`].
    Send(LeaseCall, Duration),
    /// Stop.
    End,
}

/// A call about the Lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LeaseCall {
    /// Reads the Lease.
    Read,
    /// Creates the Lease.
    Create(Record),
    /// Updates the Lease if it is unchanged since it was read.
    Update(Box<Lease>, Record),
}

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The Lease as it was read or written.
    Lease(Lease),
    /// There is no Lease.
    Absent,
    /// The Lease has changed since it was read, or exists already.
    Conflict,
    /// Unknown: a write may have happened.
    Failed,
}

/// The Lease as it was last read or written.
#[derive(Debug)]
struct Observed {
    lease: Lease,
    /// When this record was first observed.
    since: Instant,
}

/// One candidate for one Lease.
#[derive(Debug)]
pub(super) struct Machine {
    candidate: Arc<str>,
    timing: Timing,
    rng: Rng,
    role: Role,
    observed: Option<Observed>,
    /// Whether an update of `observed` may succeed: no later outcome says that it has changed.
    fresh: bool,
    /// Whether the last outcome was that there is no Lease.
    absent: bool,
    /// Whether a write of this candidate may have happened unseen.
    unsure: bool,
    /// When to read or renew next.
    at: Instant,
}

impl Machine {
    /// A candidate with a name that no other process has or had.
    pub(super) fn new(candidate: Arc<str>, timing: Timing, now: Instant, rng: Rng) -> Self {
        Self {
            candidate,
            timing,
            rng,
            role: Role::Follower,
            observed: None,
            fresh: false,
            absent: false,
            unsure: false,
            at: now,
        }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The record that was last observed.
    pub(super) fn record(&self) -> Option<&Record> {
        self.observed
            .as_ref()
            .map(|observed| &observed.lease.record)
    }

    /// What to do now. Call it after each outcome and after each wait.
    pub(super) fn next(&mut self, now: Instant, wall: Timestamp) -> Next {
        match self.role {
            Role::Over => Next::End,
            Role::Follower => self.follow(now, wall),
            Role::Leader { since } => self.lead(now, since, wall),
            Role::Leaving { until } => self.leave(now, until, wall),
        }
    }

    fn follow(&mut self, now: Instant, wall: Timestamp) -> Next {
        let free = self.free_at();
        if free.is_none_or(|free| free <= now) {
            if self.absent {
                self.absent = false;
                return Next::Send(LeaseCall::Create(self.taken(wall)), self.timing.call());
            }
            if let Some(call) = self.update(|machine| machine.taken(wall)) {
                return Next::Send(call, self.timing.call());
            }
        }
        if self.at <= now {
            return Next::Send(LeaseCall::Read, self.timing.call());
        }
        // A Lease that ends before the next read is taken when it ends.
        let free = free.filter(|free| *free > now && (self.fresh || self.absent));
        Next::Wait(free.map_or(self.at, |free| free.min(self.at)))
    }

    fn lead(&mut self, now: Instant, since: Instant, wall: Timestamp) -> Next {
        let end = since + self.timing.renew_deadline;
        if now >= end {
            self.role = Role::Over;
            return Next::End;
        }
        if now < self.at {
            return Next::Wait(self.at.min(end));
        }
        let limit = self.timing.call().min(end - now);
        if self.absent {
            self.absent = false;
            return Next::Send(LeaseCall::Create(self.taken(wall)), limit);
        }
        let renewal = self.update(|machine| machine.taken(wall));
        Next::Send(renewal.unwrap_or(LeaseCall::Read), limit)
    }

    fn leave(&mut self, now: Instant, until: Instant, wall: Timestamp) -> Next {
        let held = self
            .record()
            .is_some_and(|record| *record.holder == *self.candidate);
        if now >= until || !(held || self.unsure) {
            self.role = Role::Over;
            return Next::End;
        }
        if now < self.at {
            return Next::Wait(self.at.min(until));
        }
        let limit = self.timing.call().min(until - now);
        let release = |machine: &Self| machine.record().cloned().unwrap_or_default().released(wall);
        let release = self.update(release).filter(|_| held);
        Next::Send(release.unwrap_or(LeaseCall::Read), limit)
    }

    fn taken(&self, wall: Timestamp) -> Record {
        Record::taken(&self.candidate, &self.timing, self.record(), wall)
    }

    fn update(&self, record: impl FnOnce(&Self) -> Record) -> Option<LeaseCall> {
        let observed = self.observed.as_ref().filter(|_| self.fresh)?;
        Some(LeaseCall::Update(
            Box::new(observed.lease.clone()),
            record(self),
        ))
    }

    /// When the observed Lease may be taken; `None`: no Lease was ever observed.
    fn free_at(&self) -> Option<Instant> {
        let observed = self.observed.as_ref()?;
        let record = &observed.lease.record;
        // The holder is this candidate if the answer to its write was lost.
        if record.holder.is_empty() || *record.holder == *self.candidate {
            return Some(observed.since);
        }
        // A deleted Lease still protects its last known holder, which cannot know yet.
        Some(observed.since + record.duration(&self.timing))
    }

    /// Records the outcome of a call that was sent at `start`.
    pub(super) fn answered(
        &mut self,
        start: Instant,
        now: Instant,
        call: &LeaseCall,
        outcome: Outcome,
    ) {
        let read = *call == LeaseCall::Read;
        self.absent = outcome == Outcome::Absent;
        self.fresh = matches!(outcome, Outcome::Lease(_));
        self.unsure = match &outcome {
            Outcome::Lease(_) | Outcome::Absent => false,
            Outcome::Conflict => self.unsure,
            Outcome::Failed => self.unsure || !read,
        };
        match outcome {
            Outcome::Lease(lease) => {
                self.observe(lease, now);
                if read {
                    self.judge(now);
                } else {
                    self.written(start, now);
                }
            }
            Outcome::Absent => {
                // `next` creates the Lease at once if no holder was ever observed.
                self.at = match self.role {
                    Role::Leader { .. } => now,
                    _ => now + self.timing.pause(&mut self.rng),
                };
                if matches!(self.role, Role::Leaving { .. }) {
                    self.role = Role::Over;
                }
            }
            Outcome::Conflict | Outcome::Failed => {
                let pause = self.timing.pause(&mut self.rng);
                self.at = match self.role {
                    Role::Follower => now + pause,
                    _ => now + pause / 2,
                };
            }
        }
    }

    fn observe(&mut self, lease: Lease, now: Instant) {
        match &mut self.observed {
            Some(observed) if observed.lease.record == lease.record => observed.lease = lease,
            observed => *observed = Some(Observed { lease, since: now }),
        }
    }

    /// After a successful read.
    fn judge(&mut self, now: Instant) {
        let mine = self
            .record()
            .is_some_and(|record| *record.holder == *self.candidate);
        match self.role {
            Role::Follower => self.at = now + self.timing.pause(&mut self.rng),
            Role::Leader { .. } if mine => self.at = now,
            Role::Leader { .. } => self.role = Role::Over,
            Role::Leaving { .. } if mine => self.at = now,
            Role::Leaving { .. } | Role::Over => self.role = Role::Over,
        }
    }

    /// After a successful write.
    fn written(&mut self, start: Instant, now: Instant) {
        let pause = self.timing.pause(&mut self.rng);
        self.at = (start + pause).max(now);
        match self.role {
            // The renewal began too long ago for a leader.
            Role::Follower if now >= start + self.timing.renew_deadline => {}
            Role::Follower | Role::Leader { .. } => {
                self.role = Role::Leader { since: start };
            }
            Role::Leaving { .. } | Role::Over => self.role = Role::Over,
        }
    }

    /// Begins to release the Lease. All work that needs it must have ended.
    pub(super) fn leave_within(&mut self, now: Instant, limit: Duration) {
        if self.role == Role::Over {
            return;
        }
        self.role = Role::Leaving { until: now + limit };
        self.at = now;
    }
}

//! The decisions of one process about shards, without I/O. Entry point: [`Machine::next`].
//!
//! The caller asks [`Machine::next`], does what it says, and passes the outcome of each call to [`Machine::answered`]. One call is in flight at a
//! time. After each outcome, each wait and each input it puts [`Machine::holds`], [`Machine::leaves`] and [`Machine::joins`] into effect, in this
//! order, and asks again.
//!
//! Invariants:
//! * A renewal counts from its *beginning*. It counts only if its answer came before the renewal before it was over, so that every renewal that
//!   counts was at the server before any other process could list its absence.
//! * An incarnation whose last renewal began `renew_deadline` ago is over, and so is one that has tried to join for as long. It sends nothing
//!   more, and the outcome of its last call is ignored.
//! * The assignment changes only by a write that replaces the version that was read, and only if this incarnation's Lease says which assignment
//!   it follows.
//! * A member follows another assignment only when it runs no key.
//! * A failed call changes nothing by itself. While a renewal is recent, shards stay.

mod answers;
#[cfg(test)]
mod tests;

use super::Sharding;
use super::call::{Call, Request};
use super::ownership::{Moves, Ownership, Proposal, Stay};
use super::problem::Problem;
use super::record::{LeaseObject, MemberState};
use super::set::ShardSet;
use super::status::Status;
use super::view::{Identity, View};
use crate::election::record::Record;
use fastrand::Rng;
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to do next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Wait until this time, or until an input.
    Wait(Instant),
    /// Send this call with this timeout. Its outcome goes to [`Machine::answered`].
    Send(Call, Duration),
    /// Stop: this process is no member.
    End,
}

/// The part of an incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    /// No renewal counts yet.
    Joining {
        /// When it first tried to create its Lease. Other processes may have seen that Lease since then.
        since: Option<Instant>,
    },
    /// Its Lease is renewed.
    Living {
        /// When the last renewal began.
        since: Instant,
    },
    /// It does nothing more.
    Over,
}

/// This incarnation's Lease as it was last read or written.
#[derive(Debug)]
enum Own {
    /// There is none.
    None,
    /// An update may succeed.
    Fresh(Arc<LeaseObject>),
    /// It may have changed, or exist: a list shows it.
    Stale,
}

/// What a step sends.
#[derive(Debug, Clone, Copy)]
enum Step {
    Renew,
    List,
    Assign,
    /// Removes this incarnation's Lease.
    Leave,
    /// Removes the Lease of a dead incarnation.
    Clean,
}

/// A step, and the time for it; or when there may be one.
#[derive(Debug)]
enum Due {
    Now(Step, Duration),
    At(Instant),
}

/// One process, by one incarnation after the other.
#[derive(Debug)]
pub(crate) struct Machine {
    sharding: Sharding,
    rng: Rng,
    identity: Identity,
    life: Life,
    stay: Stay,
    /// When it stops waiting for others, once it leaves.
    until: Option<Instant>,
    own: Own,
    /// The state in the last renewal that counts. `None`: none counts yet.
    announced: Option<MemberState>,
    /// The assignment by which this process runs keys.
    follow: Option<Arc<str>>,
    view: View,
    /// Whether the assignment may be as it was read: no later outcome says that it has changed.
    fresh: bool,
    /// Whether an assignment exists that no list has shown: its creation was a conflict.
    hidden: bool,
    ownership: Ownership,
    proposal: Option<Proposal>,
    /// The Leases of dead members that this one removes.
    corpses: Vec<Arc<LeaseObject>>,
    /// When this incarnation's first list was answered.
    first_listed: Option<Instant>,
    /// How long after it the last list that succeeded began.
    settled: Duration,
    /// When the last list that succeeded began, or the incarnation did.
    listed: Instant,
    renew_at: Instant,
    list_at: Instant,
    /// No list before this, after one that failed.
    list_floor: Instant,
    /// No write of the assignment and no removal before this.
    assign_at: Instant,
    /// Until then it lists more often, for shards that it has asked for.
    haste_until: Instant,
    moves: Moves,
    problem: Option<Problem>,
}

impl Machine {
    /// A member that joins. The options must have been checked, and the generator must differ between processes.
    pub(crate) fn new(sharding: Sharding, now: Instant, mut rng: Rng) -> Self {
        let identity = Identity::new(incarnation(&mut rng), sharding.member.clone());
        Self {
            identity,
            rng,
            life: Life::Joining { since: None },
            stay: Stay::Stays,
            until: None,
            own: Own::None,
            announced: None,
            follow: None,
            view: View::new(sharding.shards),
            sharding,
            fresh: false,
            hidden: false,
            ownership: Ownership::default(),
            proposal: None,
            corpses: Vec::new(),
            first_listed: None,
            settled: Duration::ZERO,
            listed: now,
            renew_at: now,
            list_at: now,
            list_floor: now,
            assign_at: now,
            haste_until: now,
            moves: Moves::default(),
            problem: None,
        }
    }

    /// The incarnation that lives. Each needs a fence of its own; the fences of earlier ones are shut.
    pub(crate) fn incarnation(&self) -> &Arc<str> {
        &self.identity.me
    }

    /// When this incarnation's last renewal began, for its fence. `None`: it has none.
    pub(crate) fn renewed(&self) -> Option<Instant> {
        match self.life {
            Life::Living { since } => Some(since),
            Life::Joining { .. } | Life::Over => None,
        }
    }

    /// The shards whose keys may run, as long as the fence of [`Machine::incarnation`] is open.
    pub(crate) fn holds(&self) -> &ShardSet {
        self.ownership.holds()
    }

    /// The shards of which no run may start, and whose runs must end. Then [`Machine::drained`] is called.
    pub(crate) fn leaves(&self) -> &ShardSet {
        self.ownership.leaves()
    }

    /// The shards of other members whose caches should be filled. Then [`Machine::warmed`] is called.
    pub(crate) fn joins(&self) -> &ShardSet {
        self.ownership.joins()
    }

    /// The shards whose caches should be there: those that are held or joined, and those that a process which lost its Lease may hold again.
    pub(crate) fn keeps(&self) -> ShardSet {
        self.ownership.keeps()
    }

    /// The state of the fleet as this process knows it.
    pub(crate) fn status(&self) -> Status {
        Status::of(
            &self.view,
            &self.identity,
            &self.sharding,
            self.moves,
            self.problem.as_ref(),
        )
    }

    /// The shards whose caches are full now. Those that are not joined may be among them.
    pub(crate) fn warmed(&mut self, shards: &ShardSet) {
        if self.ownership.warmed(shards) {
            self.reconsider();
        }
    }

    /// No run and no write of these shards is in flight, under any incarnation, and none can start. The caller checks this after it has put the
    /// current [`Machine::leaves`] into effect.
    pub(crate) fn drained(&mut self, shards: &ShardSet, now: Instant) {
        if self.ownership.drained(shards) {
            self.follow(now);
            self.reconsider();
        }
    }

    /// Gives its shards to members that are ready, now and later, and stays a member that takes none.
    pub(crate) fn drain(&mut self, now: Instant) {
        if self.stay == Stay::Stays {
            self.stay = Stay::Drains;
            self.renew_at = now;
            self.reconsider();
        }
    }

    /// Leaves: gives its shards to members that are ready, until a time. Then it releases what has drained, and ends within a Lease's
    /// duration, whether all has drained or not.
    pub(crate) fn leave(&mut self, now: Instant, until: Instant) {
        if self.until.is_none() {
            self.until = Some(until);
            self.stay = Stay::Leaves;
            self.renew_at = now;
            self.reconsider();
        }
    }

    /// What to do now.
    pub(crate) fn next(&mut self, now: Instant, wall: Timestamp) -> Next {
        self.pass(now);
        if self.life == Life::Over {
            return Next::End;
        }
        match self.due(now) {
            Due::At(at) => Next::Wait(at),
            Due::Now(step, limit) => self.send(step, limit, now, wall),
        }
    }

    /// What time alone changes.
    fn pass(&mut self, now: Instant) {
        if self.lapsed(now) {
            self.lapse(now);
        }
        let Some(until) = self.until else { return };
        if now >= until && self.stay == Stay::Leaves {
            self.stay = Stay::Hurries;
            self.reconsider();
        }
        let gone = self.has_left() && matches!(self.own, Own::None);
        if gone || now >= until + self.sharding.timing.lease_duration {
            self.end();
        }
    }

    fn lapsed(&self, now: Instant) -> bool {
        self.end_of_life().is_some_and(|end| now >= end)
    }

    /// When this incarnation is over unless it renews. Other processes count from its first attempt, so one that joins does too.
    fn end_of_life(&self) -> Option<Instant> {
        let since = match self.life {
            Life::Joining { since } => since?,
            Life::Living { since } => since,
            Life::Over => return None,
        };
        Some(since + self.sharding.timing.renew_deadline)
    }

    /// This incarnation is over; another one joins.
    fn lapse(&mut self, now: Instant) {
        self.ownership.lapse();
        self.proposal = None;
        self.corpses.clear();
        if self.until.is_some() {
            return self.end();
        }
        self.identity.renew(incarnation(&mut self.rng));
        self.life = Life::Joining { since: None };
        self.own = Own::None;
        self.announced = None;
        self.fresh = false;
        self.first_listed = None;
        self.settled = Duration::ZERO;
        self.listed = now;
        (self.renew_at, self.list_at) = (now, now);
    }

    fn end(&mut self) {
        self.life = Life::Over;
        self.ownership.lapse();
    }

    /// Whether this incarnation, which leaves, holds nothing.
    fn has_left(&self) -> bool {
        let known = self.view.known.as_ref();
        let named = known.is_some_and(|known| known.assignment.names(&self.identity.me));
        let current = self.fresh || self.first_listed.is_none();
        self.until.is_some() && self.ownership.is_idle() && current && !named
    }

    /// The next step. A renewal goes first, and other calls leave it the time for one full call.
    fn due(&self, now: Instant) -> Due {
        let timing = &self.sharding.timing;
        let end = self.end_of_life().unwrap_or(now + timing.call());
        let limit = timing.call().min(end - now);
        let left = self.has_left();
        if left || self.renew_at <= now {
            return match (&self.own, left) {
                (Own::Stale, _) if self.list_floor > now => Due::At(self.list_floor.min(end)),
                (Own::Stale, _) => Due::Now(Step::List, limit),
                (_, true) => Due::Now(Step::Leave, limit),
                (_, false) => Due::Now(Step::Renew, limit),
            };
        }
        let least = now + timing.call() / 4;
        let latest = self
            .renewed()
            .map(|since| since + timing.renew_deadline - timing.call());
        let rest = latest.filter(|latest| *latest > least);
        let (step, at) = rest.map_or((None, end), |_| self.other(now));
        match (step, rest) {
            (Some(step), Some(latest)) => Due::Now(step, timing.call().min(latest - now)),
            _ => Due::At(self.wake(at.min(end))),
        }
    }

    /// A step besides renewals, and when to look again.
    fn other(&self, now: Instant) -> (Option<Step>, Instant) {
        let list = self.list_due();
        let writes = self.proposal.is_some() && self.fresh;
        let step = if writes && self.assign_at <= now {
            Some(Step::Assign)
        } else if list <= now {
            Some(Step::List)
        } else if !self.corpses.is_empty() && self.assign_at <= now {
            Some(Step::Clean)
        } else {
            None
        };
        let waits = writes || !self.corpses.is_empty();
        (
            step,
            if waits {
                list.min(self.assign_at)
            } else {
                list
            },
        )
    }

    /// A member that does not renew is judged when its Lease ends, and not a period later.
    fn list_due(&self) -> Instant {
        let death = self.view.members.next_death();
        let at = death.map_or(self.list_at, |death| death.min(self.list_at));
        at.max(self.list_floor)
    }

    fn wake(&self, at: Instant) -> Instant {
        let deadline = match (self.until, self.stay) {
            (None, _) => at,
            (Some(until), Stay::Hurries) => until + self.sharding.timing.lease_duration,
            (Some(until), _) => until,
        };
        at.min(self.renew_at).min(deadline)
    }

    fn send(&mut self, step: Step, limit: Duration, now: Instant, wall: Timestamp) -> Next {
        let request = match step {
            Step::List => Some(Request::List),
            Step::Renew => Some(self.renewal(now, wall)),
            Step::Assign => self.assign(now, wall),
            Step::Clean => self.clean(now),
            Step::Leave => match std::mem::replace(&mut self.own, Own::Stale) {
                Own::Fresh(lease) => Some(Request::Delete(lease)),
                Own::None | Own::Stale => None,
            },
        };
        let incarnation = self.identity.me.clone();
        // Every step that is due has a request.
        let call = request.map(|request| Call {
            incarnation,
            request,
        });
        call.map_or(Next::Wait(now), |call| Next::Send(call, limit))
    }

    fn renewal(&mut self, now: Instant, wall: Timestamp) -> Request {
        if let Life::Joining { since } = &mut self.life {
            since.get_or_insert(now);
        }
        let base = match std::mem::replace(&mut self.own, Own::Stale) {
            Own::Fresh(lease) => Some(lease),
            Own::None | Own::Stale => None,
        };
        let before = base.as_ref().map(|lease| &lease.record);
        Request::Renew {
            record: Record::taken(&self.identity.me, &self.sharding.timing, before, wall),
            state: self.state(now),
            base,
        }
    }

    fn assign(&mut self, now: Instant, wall: Timestamp) -> Option<Request> {
        let proposal = self.proposal.take()?;
        self.fresh = false;
        self.assign_at = now + self.gap();
        let base = self.view.known.as_ref().map(|known| known.lease.clone());
        if let Some(base) = &base {
            self.ownership.sent(proposal.released, &base.version);
        }
        if proposal.asks {
            self.haste_until = now + self.sharding.timing.retry_period * 4;
        }
        let before = base.as_ref().map(|lease| &lease.record);
        Some(Request::Assign {
            record: Record::taken(&self.identity.me, &self.sharding.timing, before, wall),
            base,
            assignment: proposal.assignment,
            moves: proposal.moves,
        })
    }

    fn clean(&mut self, now: Instant) -> Option<Request> {
        self.assign_at = now + self.gap();
        self.corpses.pop().map(Request::Delete)
    }

    /// Shortest time between two writes that are not renewals.
    fn gap(&self) -> Duration {
        self.sharding.timing.retry_period / 8
    }

    /// What this member says about itself.
    fn state(&self, now: Instant) -> MemberState {
        let unlisted = now.saturating_duration_since(self.listed);
        MemberState {
            name: self.sharding.member.clone(),
            weight: self.sharding.weight,
            draining: self.stay != Stay::Stays,
            blind: unlisted > self.sharding.timing.lease_duration,
            follows: self.follow.clone(),
        }
    }
}

/// A name that no other process has or had.
fn incarnation(rng: &mut Rng) -> Arc<str> {
    format!("{:016x}", rng.u64(..)).into()
}

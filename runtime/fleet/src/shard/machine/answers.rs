//! The outcomes of calls. Entry point: [`Machine::answered`].

use super::{Life, Machine, Own};
use crate::shard::assignment::{Assignment, MAX_TEXT};
use crate::shard::call::{Call, Outcome, Request};
use crate::shard::ownership::{Moves, Proposal, Situation, Stay};
use crate::shard::problem::Problem;
use crate::shard::record::{Assigned, LeaseObject, Listing, MemberState};
use crate::shard::set::ShardSet;
use std::sync::Arc;
use std::time::Instant;

/// So many Leases of dead members are removed after one list.
const CORPSES: usize = 2;

impl Machine {
    /// Records the outcome of a call that was sent at `begun` and ended at `now`.
    pub(crate) fn answered(&mut self, call: &Call, outcome: Outcome, begun: Instant, now: Instant) {
        if self.lapsed(now) {
            self.lapse(now);
        }
        if call.incarnation != self.identity.me || self.life == Life::Over {
            return;
        }
        match (&call.request, outcome) {
            (Request::Renew { state, .. }, Outcome::Written(lease)) => {
                self.has_renewed(lease, state, begun, now);
            }
            (Request::Renew { .. }, Outcome::Absent) if self.renewed().is_some() => self.lapse(now),
            (Request::Renew { .. }, _) => {
                self.renew_at = now + self.sharding.timing.pause(&mut self.rng) / 2;
            }
            (Request::List, Outcome::List(listing)) => self.has_listed(listing, begun, now),
            (Request::List, _) => {
                self.list_floor = now + self.sharding.timing.pause(&mut self.rng) / 2;
            }
            (Request::Assign { moves, .. }, Outcome::Written(lease)) => {
                self.has_assigned(lease, *moves, now);
            }
            (Request::Assign { base, .. }, outcome) => {
                self.hidden |= base.is_none() && matches!(outcome, Outcome::Conflict);
                // At random, so that members whose writes collide do not collide again.
                self.list_at = now + self.gap().mul_f64(self.rng.f64());
            }
            (Request::Delete(lease), outcome) => self.has_deleted(lease, &outcome),
        }
    }

    fn has_renewed(
        &mut self,
        lease: Arc<LeaseObject>,
        state: &MemberState,
        begun: Instant,
        now: Instant,
    ) {
        let timing = &self.sharding.timing;
        self.own = Own::Fresh(lease);
        self.renew_at = (begun + timing.pause(&mut self.rng)).max(now);
        self.life = Life::Living { since: begun };
        if *state != self.state(now) {
            self.renew_at = now;
        }
        self.announced = Some(state.clone());
        self.reconsider();
    }

    fn has_listed(&mut self, listing: Listing, begun: Instant, now: Instant) {
        match listing.lease(&self.identity.me) {
            Some(lease) => self.own = Own::Fresh(lease.clone()),
            // It was removed, or a server forgot it. Other processes may have found this incarnation dead.
            None if self.renewed().is_some() => return self.lapse(now),
            None => self.own = Own::None,
        }
        let timing = &self.sharding.timing;
        let first = *self.first_listed.get_or_insert(now);
        self.settled = begun.saturating_duration_since(first);
        self.listed = begun;
        let pause = timing.pause(&mut self.rng);
        let gives = self.stay == Stay::Drains && !self.ownership.is_idle();
        let hurries = now < self.haste_until || gives || self.until.is_some();
        self.list_at = (begun + if hurries { pause / 4 } else { pause }).max(now);
        self.list_floor = now;
        self.view.listed(listing, &self.sharding, begun, now);
        self.fresh = true;
        self.hidden &= self.view.known.is_none();
        self.problem = self.hidden.then_some(Problem::Unlabelled);
        if self.announced.as_ref().is_some_and(|state| state.blind) {
            self.renew_at = now;
        }
        self.reconsider();
        self.follow(now);
        self.find_corpses();
        if self.inherits() && self.follows() {
            self.ownership.forget();
        }
    }

    fn has_assigned(&mut self, lease: Arc<LeaseObject>, moves: Moves, now: Instant) {
        self.moves.add(moves);
        self.view.read(Assigned::read(lease));
        self.fresh = true;
        self.reconsider();
        self.follow(now);
    }

    fn has_deleted(&mut self, lease: &LeaseObject, outcome: &Outcome) {
        let own = lease.name == self.sharding.lease_of(&self.identity.me);
        if own && matches!(outcome, Outcome::Deleted | Outcome::Absent) {
            self.end();
        }
    }

    /// Follows the assignment that was read, once this process runs no key by another one.
    pub(super) fn follow(&mut self, now: Instant) {
        let known = self.view.known.as_ref();
        let fits = known.filter(|known| known.assignment.shards() == self.sharding.shards);
        let uid = fits.map(|known| &known.lease.uid);
        if self.follow.as_ref() != uid && self.ownership.is_idle() && self.first_listed.is_some() {
            self.follow = uid.cloned();
            self.renew_at = now;
        }
    }

    /// Whether this incarnation's Lease says that it follows the assignment.
    fn follows(&self) -> bool {
        let announced = self
            .announced
            .as_ref()
            .and_then(|state| state.follows.as_ref());
        announced.is_some() && announced == self.view.uid() && self.follow.as_ref() == announced
    }

    /// Applies what is known to the shards, and finds the change of the assignment that it needs.
    pub(super) fn reconsider(&mut self) {
        let (stays, follows) = (self.stay == Stay::Stays, self.follows());
        let me = (stays && follows).then_some(self.sharding.weight);
        self.view.place(&self.identity, me);
        let elsewhere = self.view.elsewhere(&self.identity).cloned();
        let situation = Situation {
            view: &self.view,
            identity: &self.identity,
            stay: self.stay,
            follows,
            may_take: !self.view.members.is_crowded(),
            may_claim: self.settled >= self.sharding.timing.retry_period && elsewhere.is_none(),
            may_inherit: self.inherits() && elsewhere.is_none(),
        };
        let taken = self.ownership.settle(&situation);
        self.proposal = self.ownership.propose(&situation);
        self.judge(taken, follows, elsewhere);
        if self.proposal.is_none() && self.lacks_assignment() {
            self.proposal = Some(Proposal {
                assignment: Assignment::new(self.sharding.shards),
                released: ShardSet::EMPTY,
                moves: Moves::default(),
                asks: false,
            });
        }
    }

    /// Whether members that lost the server together with this one have had time to come back: a call that waits and one retry. They claim
    /// their own shards, and nothing moves.
    fn inherits(&self) -> bool {
        self.settled >= self.sharding.timing.renew_deadline
    }

    fn lacks_assignment(&self) -> bool {
        let none = self.view.known.is_none() && self.view.damage.is_none();
        none && self.fresh && self.stay == Stay::Stays
    }

    /// Finds what people must repair.
    fn judge(&mut self, taken: ShardSet, follows: bool, elsewhere: Option<Arc<str>>) {
        let theirs = self
            .view
            .known
            .as_ref()
            .map(|known| known.assignment.shards());
        let ours = self.sharding.shards;
        let length = self
            .proposal
            .as_ref()
            .map_or(0, |proposal| proposal.assignment.text().len());
        let problem = if let Some(theirs) = theirs.filter(|theirs| *theirs != ours) {
            Some(Problem::Shards { ours, theirs })
        } else if let Some(damage) = &self.view.damage {
            Some(Problem::Damaged(damage.clone()))
        } else if length > MAX_TEXT {
            self.proposal = None;
            Some(Problem::TooLong(length))
        } else if self.view.members.is_crowded() {
            Some(Problem::Crowded)
        } else if follows && !taken.is_empty() {
            Some(Problem::Taken(taken))
        } else if let Some(member) = elsewhere {
            Some(Problem::Elsewhere(member))
        } else {
            self.view.foreign.clone().map(Problem::Foreign)
        };
        // The next list clears one that is gone.
        self.problem = problem.or_else(|| self.problem.take());
    }

    fn find_corpses(&mut self) {
        let (members, identity) = (&self.view.members, &self.identity);
        let known = self.view.known.as_ref();
        let named =
            |incarnation: &str| known.is_some_and(|known| known.assignment.names(incarnation));
        let (cleans, drains) = (
            self.view.cleans(&self.identity),
            self.ownership.is_draining(),
        );
        // What this process still runs is protected by the Lease of the incarnation that began it.
        let removable = |incarnation: &Arc<str>, corpse: bool| {
            if identity.was(incarnation) {
                !drains
            } else {
                corpse && cleans
            }
        };
        let found = members.iter().filter(|(incarnation, seen)| {
            **incarnation != identity.me
                && removable(incarnation, seen.corpse)
                && !named(incarnation)
        });
        let leases = found.filter_map(|(_, seen)| seen.lease.clone());
        self.corpses = if self.view.damage.is_none() {
            leases.take(CORPSES).collect()
        } else {
            Vec::new()
        };
    }
}

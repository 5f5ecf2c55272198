//! The shards of one process: which it holds, joins and leaves, and how it would change the assignment. Entry points: [`Ownership::settle`],
//! [`Ownership::propose`].
//!
//! A shard of this incarnation goes this way: held → leaving (no new runs; the engine ends those that go on) → drained → given to another member.
//!
//! Invariants:
//! * `holds`, `leaves` and `drained` have no shard in common. `holds` and `drained` are parts of what the assignment gives to this incarnation.
//! * A shard that has begun to leave is not held again before it has drained.
//! * A shard that was given away by a write with an unknown outcome is not held again while that write may still happen.
//! * A shard of which this process may still run keys, under whichever incarnation, is neither claimed nor asked for.

use super::assignment::Assignment;
use super::set::ShardSet;
use super::view::{Identity, Known, View};
use std::sync::Arc;

/// Whether this process stays a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// It stays.
    Stays,
    /// It stays without shards: it gives them to members that are ready, and keeps them while there is none.
    Drains,
    /// It leaves, and gives its shards to members that are ready.
    Leaves,
    /// It leaves, and waits for nobody.
    Hurries,
}

/// What decides about shards.
#[derive(Debug)]
pub(crate) struct Situation<'a> {
    pub(crate) view: &'a View,
    pub(crate) identity: &'a Identity,
    pub(crate) stay: Stay,
    /// Whether this incarnation's Lease says that it follows the assignment.
    pub(crate) follows: bool,
    /// Whether it may take shards at all.
    pub(crate) may_take: bool,
    /// Whether it may claim shards without a holder.
    pub(crate) may_claim: bool,
    /// Whether it may claim the shards of dead members.
    pub(crate) may_inherit: bool,
}

/// Shards that moved, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moves {
    /// Claimed: the shard had no holder.
    pub(crate) free: u64,
    /// Claimed: the holder was dead.
    pub(crate) dead: u64,
    /// Claimed again, from an earlier incarnation of this process.
    pub(crate) own: u64,
    /// Given to the member that should own it.
    pub(crate) given: u64,
    /// Given away because this process leaves.
    pub(crate) drained: u64,
    /// Left without a holder because this process leaves and no other member was ready.
    pub(crate) released: u64,
}

impl Moves {
    pub(crate) fn add(&mut self, more: Self) {
        self.free += more.free;
        self.dead += more.dead;
        self.own += more.own;
        self.given += more.given;
        self.drained += more.drained;
        self.released += more.released;
    }
}

/// A change of the assignment.
#[derive(Debug)]
pub(crate) struct Proposal {
    pub(crate) assignment: Assignment,
    /// The shards that this incarnation gives away.
    pub(crate) released: ShardSet,
    pub(crate) moves: Moves,
    /// Whether it asks for shards of others.
    pub(crate) asks: bool,
}

/// The shards of one process.
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    holds: ShardSet,
    /// The shards whose runs and writes must end, of this incarnation and of former ones.
    leaves: ShardSet,
    /// The shards of this incarnation that it no longer runs.
    drained: ShardSet,
    /// The shards of other members that this one should own.
    joins: ShardSet,
    /// The shards whose caches are full.
    warm: ShardSet,
    /// The shards that the assignment gives to this incarnation.
    named: ShardSet,
    /// The shards that a write of this incarnation gave away, and the version of the assignment that it would replace.
    released: Option<(Arc<str>, ShardSet)>,
    /// The shards that an incarnation that is over held or was ready for.
    kept: ShardSet,
}

impl Ownership {
    pub(crate) fn holds(&self) -> &ShardSet {
        &self.holds
    }

    pub(crate) fn leaves(&self) -> &ShardSet {
        &self.leaves
    }

    pub(crate) fn joins(&self) -> &ShardSet {
        &self.joins
    }

    /// The shards whose caches may still be useful.
    pub(crate) fn keeps(&self) -> ShardSet {
        self.holds | self.leaves | self.drained | self.joins | self.kept
    }

    /// Whether this incarnation holds no shard and this process runs none.
    pub(crate) fn is_idle(&self) -> bool {
        (self.holds | self.leaves | self.drained).is_empty()
    }

    /// Whether this process may still run keys of shards that it does not hold.
    pub(crate) fn is_draining(&self) -> bool {
        !self.leaves.is_empty()
    }

    /// The caches of these shards are full. Returns whether that matters.
    pub(crate) fn warmed(&mut self, shards: &ShardSet) -> bool {
        let before = std::mem::replace(&mut self.warm, *shards);
        self.joins & before != self.joins & self.warm
    }

    /// No run and no write of these shards is in flight. Returns whether that was news.
    pub(crate) fn drained(&mut self, shards: &ShardSet) -> bool {
        let ended = self.leaves & *shards;
        self.leaves -= ended;
        self.drained |= ended & self.named;
        !ended.is_empty()
    }

    /// The incarnation is over: it holds nothing.
    pub(crate) fn lapse(&mut self) {
        *self = Self {
            leaves: self.leaves | self.holds,
            kept: self.kept | self.holds | self.drained | (self.joins & self.warm),
            warm: self.warm,
            ..Self::default()
        };
    }

    /// The next incarnation has had its time to claim the shards of the former one.
    pub(crate) fn forget(&mut self) {
        self.kept = ShardSet::EMPTY;
    }

    /// Records that a write that gives these shards away is sent.
    pub(crate) fn sent(&mut self, released: ShardSet, version: &Arc<str>) {
        let before = self.pending(version);
        self.released = Some((version.clone(), before | released));
    }

    /// The shards that a write that may still happen gives away.
    fn pending(&self, version: &Arc<str>) -> ShardSet {
        let pending = self
            .released
            .as_ref()
            .filter(|(replaces, _)| replaces == version);
        pending.map_or(ShardSet::EMPTY, |(_, shards)| *shards)
    }

    /// Follows the assignment as it was read. Returns the shards that this incarnation held and lost.
    pub(crate) fn settle(&mut self, situation: &Situation<'_>) -> ShardSet {
        let known = situation.view.known.as_ref().filter(|_| situation.follows);
        let me = &situation.identity.me;
        self.named = known.map_or(ShardSet::EMPTY, |known| known.assignment.share(me).holds);
        let lost = self.holds - self.named;
        self.leaves |= lost;
        let pending = known.map_or(ShardSet::EMPTY, |known| self.pending(&known.lease.version));
        let go = known.map_or(ShardSet::EMPTY, |known| situation.go(known));
        // What has drained and need not go is held again.
        self.drained = self.drained & self.named & (pending | go);
        let mine = self.named - self.leaves - self.drained;
        self.holds = mine - go;
        self.leaves |= mine & go;
        self.joins = known.map_or(ShardSet::EMPTY, |known| situation.joins(known));
        lost
    }

    /// The assignment as this incarnation would have it. `None`: no change.
    pub(crate) fn propose(&self, situation: &Situation<'_>) -> Option<Proposal> {
        let view = situation.view;
        let (known, me) = (view.known.as_ref()?, &situation.identity.me);
        if !situation.follows || view.damage.is_some() {
            return None;
        }
        let base = situation.cleaned(&known.assignment);
        let mut proposal = Proposal {
            assignment: base.clone(),
            released: ShardSet::EMPTY,
            moves: Moves::default(),
            asks: false,
        };
        self.give(situation, known, &mut proposal);
        if situation.stay == Stay::Stays && situation.may_take {
            self.claim(situation, known, &mut proposal);
        }
        let next = (self.joins & self.warm) - self.leaves;
        proposal.asks = !(next - known.assignment.share(me).next).is_empty();
        proposal.assignment.set_next(me, next);
        proposal.assignment.tidy();
        let cleans = base != known.assignment && view.cleans(situation.identity);
        // An equal assignment has another version. So what this one replaces cannot be given away by an earlier write any more.
        let recalls = !(self.drained - proposal.released).is_empty();
        (cleans || recalls || proposal.assignment != base).then_some(proposal)
    }

    fn give(&self, situation: &Situation<'_>, known: &Known, proposal: &mut Proposal) {
        let leaves = situation.stay != Stay::Stays;
        for (target, ready) in situation.ready(known) {
            let shards = (self.drained & ready) - proposal.released;
            proposal.assignment.give(shards, target);
            proposal.released |= shards;
            let count = u64::from(shards.len());
            if leaves {
                proposal.moves.drained += count;
            } else {
                proposal.moves.given += count;
            }
        }
        if situation.waits_for_nobody() {
            let rest = self.drained - proposal.released;
            proposal.assignment.release(rest);
            proposal.released |= rest;
            proposal.moves.released += u64::from(rest.len());
        }
    }

    fn claim(&self, situation: &Situation<'_>, known: &Known, proposal: &mut Proposal) {
        let (view, identity) = (situation.view, situation.identity);
        let part = view.placement.part(&identity.name) - self.leaves;
        let (mut own, mut dead) = (ShardSet::EMPTY, ShardSet::EMPTY);
        for (holder, share) in known.assignment.shares() {
            if identity.was(holder) {
                own |= share.holds - self.leaves;
            } else if *holder != identity.me && view.members.is_dead(holder) {
                dead |= share.holds & part;
            }
        }
        let mut free =
            (ShardSet::first(known.assignment.shards()) - known.assignment.held()) & part;
        if !situation.may_claim {
            free = ShardSet::EMPTY;
        }
        if !situation.may_inherit {
            dead = ShardSet::EMPTY;
        }
        if situation.may_inherit {
            situation.bequeath(known, proposal);
        }
        proposal.assignment.give(own | dead | free, &identity.me);
        proposal.moves.own += u64::from(own.len());
        proposal.moves.dead += u64::from(dead.len());
        proposal.moves.free += u64::from(free.len());
    }
}

impl Situation<'_> {
    /// The members to which this one may give shards, each with the shards that it should own and is ready for.
    fn ready<'k>(&self, known: &'k Known) -> impl Iterator<Item = (&'k Arc<str>, ShardSet)> {
        known
            .assignment
            .shares()
            .filter_map(|(incarnation, share)| {
                let name = self.view.name(incarnation)?;
                // Two processes of one name would pass shards to and fro.
                let twin = *name == self.identity.name && self.stay == Stay::Stays;
                let able = self.view.is_other(self.identity, incarnation)
                    && !self.view.drains(incarnation);
                let ready = share.next & self.view.placement.part(name);
                (able && !twin && !ready.is_empty()).then_some((incarnation, ready))
            })
    }

    /// Gives the shards of a member that is dead for long to the members that should have them. A process that was stopped or has just started
    /// has yet to see that member die.
    fn bequeath(&self, known: &Known, proposal: &mut Proposal) {
        for (holder, share) in known.assignment.shares() {
            let seen = self.view.members.get(holder);
            if *holder == self.identity.me || !seen.is_some_and(|seen| seen.overdue) {
                continue;
            }
            for (heir, name) in self.view.heirs(self.identity) {
                let shards = share.holds & self.view.placement.part(name);
                proposal.assignment.give(shards, heir);
                proposal.moves.dead += u64::from(shards.len());
            }
        }
    }

    /// The shards that this member must not keep.
    fn go(&self, known: &Known) -> ShardSet {
        if self.waits_for_nobody() {
            return ShardSet::first(known.assignment.shards());
        }
        let ready = self.ready(known);
        ready.fold(ShardSet::EMPTY, |all, (_, ready)| all | ready)
    }

    /// Whether this member leaves without waiting for others.
    fn waits_for_nobody(&self) -> bool {
        match self.stay {
            Stay::Stays | Stay::Drains => false,
            Stay::Leaves => self.view.placement.is_empty(),
            Stay::Hurries => true,
        }
    }

    /// The shards of other members that this one should own.
    fn joins(&self, known: &Known) -> ShardSet {
        if self.stay != Stay::Stays || !self.may_take {
            return ShardSet::EMPTY;
        }
        let (view, identity) = (self.view, self.identity);
        let shares = known.assignment.shares();
        let others = shares.filter(|(holder, _)| {
            let twin = view.name(holder) == Some(&identity.name) && !view.drains(holder);
            view.is_other(identity, holder) && !twin
        });
        let held = others.fold(ShardSet::EMPTY, |all, (_, share)| all | share.holds);
        held & view.placement.part(&identity.name)
    }

    /// The assignment without what dead members were ready for.
    fn cleaned(&self, assignment: &Assignment) -> Assignment {
        let mut cleaned = assignment.clone();
        for (incarnation, _) in assignment.shares() {
            if *incarnation != self.identity.me && !self.view.is_other(self.identity, incarnation) {
                cleaned.set_next(incarnation, ShardSet::EMPTY);
            }
        }
        cleaned.tidy();
        cleaned
    }
}

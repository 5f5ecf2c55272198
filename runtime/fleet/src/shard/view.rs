//! The fleet as one incarnation knows it: members, their placement, and the assignment. Entry point: [`View::listed`].

use super::Sharding;
use super::assignment::{Assignment, Damage};
use super::members::{Members, Seen};
use super::placement::Placement;
use super::record::{Assigned, LeaseObject, Listing};
use super::set::ShardSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// So many of its own former incarnations a process remembers. It claims the shards of an older one as other processes do.
const MAX_FORMER: usize = 8;

/// This process as a member.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The incarnation that lives.
    pub(crate) me: Arc<str>,
    /// Those of this process that are over.
    former: Vec<Arc<str>>,
    /// The stable name.
    pub(crate) name: Arc<str>,
}

impl Identity {
    pub(crate) fn new(me: Arc<str>, name: Arc<str>) -> Self {
        let former = Vec::new();
        Self { me, former, name }
    }

    /// Another incarnation lives now.
    pub(crate) fn renew(&mut self, me: Arc<str>) {
        if self.former.len() == MAX_FORMER {
            self.former.remove(0);
        }
        self.former.push(std::mem::replace(&mut self.me, me));
    }

    /// Whether this incarnation was this process, and is over.
    pub(crate) fn was(&self, incarnation: &str) -> bool {
        self.former.iter().any(|former| **former == *incarnation)
    }
}

/// The assignment as it was last read or written.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) lease: Arc<LeaseObject>,
    pub(crate) assignment: Assignment,
}

/// What the last list shows.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) members: Members,
    pub(crate) placement: Placement,
    /// The last that could be read; `None`: there is none.
    pub(crate) known: Option<Known>,
    /// Why the assignment at the server cannot be read.
    pub(crate) damage: Option<Damage>,
    pub(crate) foreign: Option<String>,
}

impl View {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            members: Members::default(),
            placement: Placement::new(shards),
            known: None,
            damage: None,
            foreign: None,
        }
    }

    /// Records a list that began at `begun` and was answered at `now`.
    pub(crate) fn listed(
        &mut self,
        listing: Listing,
        sharding: &Sharding,
        begun: Instant,
        now: Instant,
    ) {
        let assigned = listing.assignment.as_ref();
        let text = assigned.and_then(|assigned| assigned.assignment.as_ref().ok());
        let named: Vec<_> = text
            .into_iter()
            .flat_map(Assignment::shares)
            .map(|(incarnation, _)| incarnation.clone())
            .collect();
        let timing = &sharding.timing;
        self.members.observe(&listing, &named, timing, begun, now);
        self.foreign = listing.foreign;
        match listing.assignment {
            Some(assigned) => self.read(assigned),
            None => (self.known, self.damage) = (None, None),
        }
    }

    /// Records the assignment as it was read or written.
    pub(crate) fn read(&mut self, assigned: Assigned) {
        let lease = assigned.lease;
        match assigned.assignment {
            Ok(assignment) => {
                self.known = Some(Known { lease, assignment });
                self.damage = None;
            }
            Err(damage) => {
                // Members keep their shards by the last text of the same object.
                self.known = self
                    .known
                    .take()
                    .filter(|known| known.lease.uid == lease.uid);
                self.damage = Some(damage);
            }
        }
    }

    /// The `uid` of the assignment.
    pub(crate) fn uid(&self) -> Option<&Arc<str>> {
        self.known.as_ref().map(|known| &known.lease.uid)
    }

    /// Places the shards on the members that may take some: those that live, list, do not drain, and follow this assignment.
    pub(crate) fn place(&mut self, identity: &Identity, me: Option<u8>) {
        let mut members: BTreeMap<Arc<str>, u8> = BTreeMap::new();
        for (incarnation, seen) in self.members.iter() {
            let takes = self.takes(identity, incarnation, seen);
            if let Some(state) = seen.state.as_ref().filter(|_| takes) {
                let weight = members.entry(state.name.clone()).or_default();
                *weight = state.weight.max(*weight);
            }
        }
        if let Some(weight) = me {
            members.insert(identity.name.clone(), weight);
        }
        self.placement.update(&members);
    }

    /// Whether another member may take shards.
    fn takes(&self, identity: &Identity, incarnation: &Arc<str>, seen: &Seen) -> bool {
        let follows = |uid: &Option<Arc<str>>| uid.is_some() && uid.as_ref() == self.uid();
        let state = seen.state.as_ref();
        let able =
            state.is_some_and(|state| !state.draining && !state.blind && follows(&state.follows));
        able && *incarnation != identity.me
            && seen.lease.is_some()
            && self.is_other(identity, incarnation)
    }

    /// Whether this incarnation is another process, and not known to be dead.
    pub(crate) fn is_other(&self, identity: &Identity, incarnation: &Arc<str>) -> bool {
        *incarnation != identity.me
            && !identity.was(incarnation)
            && !self.members.is_dead(incarnation)
    }

    /// Whether it is this member that removes what dead members have left. One does, so that not all do.
    pub(crate) fn cleans(&self, identity: &Identity) -> bool {
        self.placement.part(&identity.name).contains(0)
    }

    /// The other members that may take shards, with their stable names.
    pub(crate) fn heirs(
        &self,
        identity: &Identity,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        let members = self.members.iter();
        let able = members.filter(|(incarnation, seen)| self.takes(identity, incarnation, seen));
        able.filter_map(|(incarnation, seen)| Some((incarnation, &seen.state.as_ref()?.name)))
    }

    /// The stable name of a member.
    pub(crate) fn name(&self, incarnation: &str) -> Option<&Arc<str>> {
        let state = self.members.get(incarnation)?.state.as_ref();
        state.map(|state| &state.name)
    }

    /// Whether a member says that it leaves.
    pub(crate) fn drains(&self, incarnation: &str) -> bool {
        let seen = self.members.get(incarnation);
        let state = seen.and_then(|seen| seen.state.as_ref());
        state.is_some_and(|state| state.draining)
    }

    /// A member that lives and may run shards by another assignment than this.
    pub(crate) fn elsewhere(&self, identity: &Identity) -> Option<&Arc<str>> {
        let mut members = self.members.iter();
        let found = members.find(|(incarnation, seen)| {
            let follows = seen.state.as_ref().and_then(|state| state.follows.as_ref());
            follows.is_some_and(|uid| Some(uid) != self.uid())
                && self.is_other(identity, incarnation)
        });
        found.map(|(incarnation, _)| incarnation)
    }

    /// The shards that have no living holder, as far as this process knows.
    pub(crate) fn ownerless(&self, identity: &Identity, shards: u16) -> ShardSet {
        let all = ShardSet::first(shards);
        let Some(known) = &self.known else { return all };
        let shares = known.assignment.shares();
        let living = shares.filter(|(incarnation, _)| {
            **incarnation == identity.me || self.is_other(identity, incarnation)
        });
        living.fold(all, |all, (_, share)| all - share.holds)
    }
}

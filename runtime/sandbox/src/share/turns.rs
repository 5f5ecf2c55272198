//! Who computes next, without I/O. Entry point: [`Turns`].
//!
//! Start-time fair queueing: each tenant has a virtual time, which advances by what it used divided by its weight, and the tenant
//! with the least comes next. A tenant that returns from idleness begins at the virtual time of the last turn that was given, with
//! neither credit nor debt for the time when it wanted nothing. A capped tenant has a bucket of time besides, and comes only while
//! there is some in it.
//!
//! Who is woken has no turn yet: it comes for it, and whoever has asked meanwhile and comes before it has it instead.
//!
//! A turn that does not end can be overtaken: it is none of those that there may be at once from then on, and its tenant has no other
//! until it ends.

mod bucket;
mod tenant;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};
use tenant::{Stand, Tenant};
use windlass_fleet::TenantName;

/// Tenants that are remembered while they want nothing; beyond, those that nothing has to be remembered of are forgotten.
const REMEMBERED: usize = 64;

/// A place in a tenant's line; the least comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    /// Not one of those that come before others of their tenant.
    ordinary: bool,
    /// Grows from one who asks to the next.
    number: u64,
}

/// Who asks for a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) tenant: &'a TenantName,
    /// Its share beside other tenants'; at least 1.
    pub(super) weight: u32,
    /// Most thousandths of a processor that it may use, whoever else wants them.
    pub(super) cap: Option<u32>,
    /// Before others of its tenant.
    pub(super) first: bool,
}

/// What comes of asking.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The turn has begun.
    Begun(Ticket),
    Waits(Ticket),
}

/// What comes of a turn's end.
#[derive(Debug)]
#[must_use]
pub(super) struct Ended<W> {
    /// Who is to be woken.
    pub(super) next: Option<W>,
    /// Another went on in its stead.
    pub(super) was_overtaken: bool,
}

/// A turn that has begun and not ended.
#[derive(Debug)]
struct Begun<W> {
    ticket: Ticket,
    tenant: TenantName,
    /// That it has not ended at.
    ticks: u32,
    overtaken: bool,
    caller: W,
}

/// The turns of all tenants. `W` wakes who waits.
#[derive(Debug)]
pub(super) struct Turns<W> {
    /// Turns at once; at least 1.
    width: usize,
    /// What a turn is charged until it is known how long it was.
    quantum: Duration,
    /// Turns begun and not ended, those that are overtaken among them.
    begun: Vec<Begun<W>>,
    /// Of these, how many are not overtaken; at most `width`.
    given: usize,
    /// Virtual time at which the last turn began. Never goes back.
    floor: u128,
    /// The most that any tenant's virtual time was at the end of a turn.
    horizon: u128,
    last_ticket: u64,
    tenants: HashMap<TenantName, Tenant<W>>,
    /// Tenants at which they are looked over for some to forget.
    crowd: usize,
    /// The tenants that wait and may compute, by virtual time, then by who waits longest.
    ready: BTreeSet<(u128, u64, TenantName)>,
    /// Those that wait for their cap, by when it lets them.
    paused: BTreeSet<(Instant, TenantName)>,
}

impl<W: Clone> Turns<W> {
    pub(super) fn new(width: usize, quantum: Duration) -> Self {
        Self {
            width: width.max(1),
            quantum,
            begun: Vec::new(),
            given: 0,
            floor: 0,
            horizon: 0,
            last_ticket: 0,
            tenants: HashMap::new(),
            crowd: REMEMBERED,
            ready: BTreeSet::new(),
            paused: BTreeSet::new(),
        }
    }

    /// Asks for a turn. One that has begun ends with [`Self::end`]. Otherwise who asks waits, and `caller` is handed out once
    /// [`Self::take`] may give it.
    pub(super) fn ask(&mut self, claim: &Claim<'_>, caller: W, now: Instant) -> Asked {
        if self.may_begin_alone(claim, now) {
            let ticket = self.ticket(claim);
            self.began(claim.tenant, ticket, caller);
            return Asked::Begun(ticket);
        }
        let ticket = self.enlist(claim, caller, now);
        match self.begin(claim.tenant, ticket, now) {
            true => Asked::Begun(ticket),
            false => Asked::Waits(ticket),
        }
    }

    /// Whether a turn may begin without a place in any line, as mostly: nobody waits.
    fn may_begin_alone(&mut self, claim: &Claim<'_>, now: Instant) -> bool {
        self.has_free() && !self.is_wanted() && self.tenant(claim, now).may(now)
    }

    /// Whether somebody waits.
    fn is_wanted(&self) -> bool {
        !(self.ready.is_empty() && self.paused.is_empty())
    }

    /// Waits for a turn even if there is one, for others that have come as well and could not ask yet. Once they could, ask again
    /// with [`Self::take`]: of itself nobody is woken for a turn that was there before.
    pub(super) fn enlist(&mut self, claim: &Claim<'_>, caller: W, now: Instant) -> Ticket {
        let ticket = self.ticket(claim);
        let floor = self.floor;
        let tenant = self.tenant(claim, now);
        if tenant.wants_nothing() {
            tenant.virtual_time = tenant.virtual_time.max(floor);
        }
        tenant.line.insert(ticket, caller);
        self.stand(claim.tenant, now);
        ticket
    }

    fn ticket(&mut self, claim: &Claim<'_>) -> Ticket {
        self.last_ticket += 1;
        Ticket {
            ordinary: !claim.first,
            number: self.last_ticket,
        }
    }

    /// Whether a turn more may begin.
    pub(super) fn has_free(&self) -> bool {
        self.given < self.width
    }

    /// Asks again. True: the turn has begun. Otherwise `caller` is the one to hand out. And whoever else is to be woken: who waits may
    /// have been woken in its stead, and there may be more turns than one.
    #[must_use]
    pub(super) fn take(
        &mut self,
        name: &TenantName,
        ticket: Ticket,
        caller: W,
        now: Instant,
    ) -> (bool, Option<W>) {
        let tenant = self.tenants.get_mut(name);
        if let Some(place) = tenant.and_then(|tenant| tenant.line.get_mut(&ticket)) {
            *place = caller;
        }
        let begun = self.begin(name, ticket, now);
        (begun, self.next(now))
    }

    /// Ends a turn that used so much.
    pub(super) fn end(&mut self, ticket: Ticket, used: Duration, now: Instant) -> Ended<W> {
        let begun = self.begun.iter().position(|begun| begun.ticket == ticket);
        let begun = begun.map(|at| self.begun.swap_remove(at));
        let was_overtaken = begun.as_ref().is_some_and(|begun| begun.overtaken);
        if let Some(Begun { tenant: name, .. }) = begun {
            if let Some(tenant) = self.tenants.get_mut(&name) {
                tenant.stop(used, self.quantum, now);
                tenant.overtaken -= usize::from(was_overtaken);
                self.horizon = self.horizon.max(tenant.virtual_time);
            }
            self.given -= usize::from(!was_overtaken);
            self.stand(&name, now);
        }
        let next = self.next(now);
        if self.begun.is_empty() && next.is_none() {
            // Nobody computes: whoever comes next begins beside the others, whatever they used.
            self.floor = self.horizon;
        }
        Ended {
            next,
            was_overtaken,
        }
    }

    /// A tick: overtakes the turns in whose callers' stead somebody goes on; they are told how many ticks it has not ended at. Of
    /// one tenant at most half of those that there may be, so that somebody is left for others. Who comes next is [`Self::next`]'s to tell.
    pub(super) fn overtake(&mut self, now: Instant, is_replaced: impl Fn(&W, u32) -> bool) {
        for at in 0..self.begun.len() {
            let begun = &mut self.begun[at];
            begun.ticks = begun.ticks.saturating_add(1);
            let Some(tenant) = self.tenants.get_mut(&begun.tenant) else {
                continue;
            };
            let is_too_much = tenant.overtaken >= (self.width / 2).max(1);
            if begun.overtaken || is_too_much || !is_replaced(&begun.caller, begun.ticks) {
                continue;
            }
            begun.overtaken = true;
            tenant.overtaken += 1;
            self.given -= 1;
            let name = begun.tenant.clone();
            self.stand(&name, now);
        }
    }

    /// Charges a tenant for time that it used without a turn.
    pub(super) fn charge(&mut self, tenant: &TenantName, used: Duration, now: Instant) {
        if let Some(tenant) = self.tenants.get_mut(tenant) {
            tenant.pay(used, now);
        }
        self.stand(tenant, now);
    }

    /// Gives up a place in the line. Returns who is to be woken: it may have been woken for a turn that is the next one's now.
    #[must_use]
    pub(super) fn leave(&mut self, name: &TenantName, ticket: Ticket, now: Instant) -> Option<W> {
        if let Some(tenant) = self.tenants.get_mut(name) {
            tenant.line.remove(&ticket);
        }
        self.stand(name, now);
        self.next(now)
    }

    /// Who is to be woken for a turn that is free, as time has passed. It is nobody's before [`Self::take`].
    #[must_use]
    pub(super) fn next(&mut self, now: Instant) -> Option<W> {
        if !self.has_free() {
            return None;
        }
        self.look_at_paused(now);
        let (_, _, name) = self.ready.first()?;
        self.tenants.get(name)?.line.values().next().cloned()
    }

    /// Begins the turn of who waits, if one is free and it is the next.
    fn begin(&mut self, name: &TenantName, ticket: Ticket, now: Instant) -> bool {
        if !self.has_free() {
            return false;
        }
        self.look_at_paused(now);
        if self.ready.first().map(|(.., next)| next) != Some(name) {
            return false;
        }
        let Some(tenant) = self.tenants.get_mut(name) else {
            return false;
        };
        let first = tenant.line.first_entry();
        let Some(first) = first.filter(|first| *first.key() == ticket) else {
            return false;
        };
        let caller = first.remove();
        self.began(name, ticket, caller);
        self.stand(name, now);
        true
    }

    fn began(&mut self, name: &TenantName, ticket: Ticket, caller: W) {
        let (floor, quantum) = (self.floor, self.quantum);
        if let Some(tenant) = self.tenants.get_mut(name) {
            self.floor = floor.max(tenant.start(floor, quantum));
        }
        self.given += 1;
        self.begun.push(Begun {
            ticket,
            tenant: name.clone(),
            ticks: 0,
            overtaken: false,
            caller,
        });
    }

    /// Puts a tenant where it stands after a change of it, so that who comes next is found without looking at all.
    fn stand(&mut self, name: &TenantName, now: Instant) {
        let floor = self.floor;
        let Some(tenant) = self.tenants.get_mut(name) else {
            return;
        };
        let before = tenant.stand;
        let may = tenant.may(now);
        tenant.stand = match (tenant.line.keys().next(), &tenant.bucket) {
            (None, _) => Stand::Nowhere,
            (Some(_), _) if tenant.overtaken > 0 => Stand::Held,
            (Some(first), None) => Stand::Ready(tenant.virtual_time, first.number),
            // A cap's pause earns nothing beside the others: its virtual time counts from the floor on.
            (Some(first), Some(_)) if may => {
                Stand::Ready(tenant.virtual_time.max(floor), first.number)
            }
            (Some(_), Some(bucket)) => Stand::Paused(bucket.due()),
        };
        if tenant.stand == before {
            return;
        }
        let after = tenant.stand;
        match before {
            Stand::Nowhere | Stand::Held => {}
            Stand::Ready(time, first) => {
                self.ready.remove(&(time, first, name.clone()));
            }
            Stand::Paused(until) => {
                self.paused.remove(&(until, name.clone()));
            }
        }
        match after {
            Stand::Nowhere | Stand::Held => {}
            Stand::Ready(time, first) => {
                self.ready.insert((time, first, name.clone()));
            }
            Stand::Paused(until) => {
                self.paused.insert((until, name.clone()));
            }
        }
    }

    /// Lets those compute again whose caps do.
    fn look_at_paused(&mut self, now: Instant) {
        while let Some((until, name)) = self.paused.first() {
            if *until > now {
                return;
            }
            let name = name.clone();
            self.stand(&name, now);
        }
    }

    fn tenant(&mut self, claim: &Claim<'_>, now: Instant) -> &mut Tenant<W> {
        if !self.tenants.contains_key(claim.tenant) {
            self.forget(now);
            let tenant = Tenant::new(now, claim.cap);
            self.tenants.insert(claim.tenant.clone(), tenant);
        }
        #[expect(clippy::expect_used, reason = "put there just above")]
        let tenant = self.tenants.get_mut(claim.tenant).expect("it is there");
        tenant.weight = claim.weight.max(1);
        tenant.set_cap(claim.cap, now);
        tenant
    }

    /// Forgets tenants that want nothing and of which nothing has to be remembered. They are looked over again once there are twice
    /// as many as were left.
    fn forget(&mut self, now: Instant) {
        if self.tenants.len() < self.crowd {
            return;
        }
        let floor = self.floor;
        self.tenants.retain(|_, tenant| {
            let owes = tenant.virtual_time > floor;
            let short = tenant
                .bucket
                .as_mut()
                .is_some_and(|bucket| !bucket.is_full(now));
            !tenant.wants_nothing() || owes || short
        });
        self.crowd = (2 * self.tenants.len()).max(REMEMBERED);
    }
}

#[cfg(test)]
mod tests;

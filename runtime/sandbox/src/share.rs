//! The processors' time, shared among tenants: what each used, and who computes next. Entry points: [`Processors`] and [`Turn`].
//!
//! A guest computes in turns, each of which ends at the next tick of the engine at the latest. There are as many turns at once as
//! guests have threads, so that a tenant with many calls has no more of them in the runtime's queue than one with few: who comes
//! next is decided here, by what each tenant has used beside its weight.
//!
//! Few things that a guest has done cannot be interrupted, as what the engine itself copies. A turn that does not end for one of them is
//! overtaken: another thread goes on in its stead, and its tenant has no other turn until it ends. Whose turns take so long computes on the
//! sideline for a while, on threads that nobody else's calls wait for.

mod aside;
mod reserve;
mod sideline;
mod turns;
mod woken;

use crate::identity::Identity;
use crate::limit::nanoseconds;
use crate::tenant::Tenant;
pub(crate) use aside::Aside;
use parking_lot::Mutex;
pub(crate) use reserve::{Reserve, Seat};
pub(crate) use sideline::Sideline;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use turns::{Asked, Claim, Ticket, Turns};
use woken::Woken;

/// Longest time that a guest computes between two yields.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// The tick in a turn from which on it is looked at what it computes: it should have ended at the one before.
const LATE: u32 = 2;

/// Time of a processor that a turn takes from then on, after which it is overtaken. One whose thread only had no processor ends as soon as
/// it gets one.
const STUCK: Duration = Duration::from_micros(200);

/// How often one who might compute lets others ask first, for each turn: some may come while others ask.
const COURTESY: u8 = 3;

/// The threads that guests compute on.
pub(crate) struct Processors {
    turns: Mutex<Turns<Caller>>,
}

/// Who asks for a turn.
#[derive(Clone)]
struct Caller {
    waker: Waker,
    /// The thread that it would compute on.
    seat: Option<Arc<Seat>>,
}

impl Caller {
    /// On this thread.
    fn here(waker: &Waker) -> Self {
        Self {
            waker: waker.clone(),
            seat: Seat::here(),
        }
    }

    fn wake(self) {
        self.waker.wake();
    }

    /// Whether another thread goes on in its stead, which has not ended its turn at so many ticks.
    fn is_replaced(&self, ticks: u32) -> bool {
        let Some(seat) = self.seat.as_ref().filter(|_| ticks >= LATE) else {
            return false;
        };
        if ticks == LATE {
            seat.look();
            return false;
        }
        seat.computed() >= STUCK && seat.replace()
    }
}

impl Processors {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            turns: Mutex::new(Turns::new(count, TICK)),
        }
    }

    /// Lets time pass for tenants that have used up what they may for now, and has turns overtaken that do not end. Called every tick
    /// while calls run.
    pub(crate) fn tick(&self) {
        let now = Instant::now();
        // All guests wait for ticks: none waits for a thread that holds this and has no processor.
        let Some(mut turns) = self.turns.try_lock() else {
            return;
        };
        turns.overtake(now, Caller::is_replaced);
        let next = turns.next(now);
        drop(turns);
        next.into_iter().for_each(Caller::wake);
    }
}

/// What one call has computed. Clones are of the same.
///
/// Of a turn that took longer than a tick, a tick: other programs had the processor then, or it was in what cannot be interrupted, as the
/// host's copy of a long list is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Used {
    nanoseconds: Arc<AtomicU64>,
}

impl Used {
    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// Counts a turn.
    pub(crate) fn add(&self, turn: Duration) {
        let computed = nanoseconds(turn.min(TICK));
        self.nanoseconds.fetch_add(computed, Ordering::Relaxed);
    }
}

/// What one call computes, turn by turn. Dropped, it leaves its turn to others.
pub(crate) struct Turn {
    processors: Arc<Processors>,
    identity: Arc<Identity>,
    /// Before others of its tenant.
    first: bool,
    state: State,
    used: Used,
    /// Time that it was ready and others had it.
    waited: Duration,
}

enum State {
    Idle,
    Waiting {
        ticket: Ticket,
        since: Instant,
        /// How often it may still let others ask first.
        courtesy: u8,
    },
    Computing {
        ticket: Ticket,
        since: Instant,
    },
}

impl Turn {
    /// A call's, that adds to what it has used. `first`: it comes before others of its tenant.
    pub(crate) fn new(
        processors: Arc<Processors>,
        identity: Arc<Identity>,
        used: Used,
        first: bool,
    ) -> Self {
        Self {
            processors,
            identity,
            first,
            state: State::Idle,
            used,
            waited: Duration::ZERO,
        }
    }

    /// Polls a future while it is the call's turn, and has it wait when it is not.
    ///
    /// It is pinned where it is made: owned, it would be there twice.
    ///
    /// One that only paused asks for its next turn as this one ends, and not when the runtime looks at it again: others that have used
    /// more, and are looked at before, would compute meanwhile.
    pub(crate) fn of<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
    ) -> impl Future<Output = F::Output> {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        std::future::poll_fn(move |context| {
            std::task::ready!(self.begin(context));
            woken.begin(context.waker());
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            let paused = polled.is_pending() && woken.was();
            self.end(paused.then(|| context.waker()));
            polled
        })
    }

    /// What the call has computed.
    pub(crate) fn used(&self) -> Duration {
        self.used.get()
    }

    /// Time that it was ready and had to wait.
    pub(crate) fn waited(&self) -> Duration {
        match self.state {
            State::Waiting { since, .. } => self.waited + since.elapsed(),
            _ => self.waited,
        }
    }

    /// Whether it waits for its turn now.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Does for the call at once what takes little time, without a turn; its tenant pays for it as for one.
    pub(crate) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let now = Instant::now();
        let used = now - began;
        self.count(used);
        let mut turns = self.processors.turns.lock();
        turns.charge(self.identity.tenant.name(), used, now);
        done
    }

    /// Leaves the line: nothing of the call computes any more.
    pub(crate) fn leave(&mut self) {
        let State::Waiting { ticket, .. } = self.state else {
            return;
        };
        self.state = State::Idle;
        let mut turns = self.processors.turns.lock();
        let next = turns.leave(self.identity.tenant.name(), ticket, Instant::now());
        drop(turns);
        next.into_iter().for_each(Caller::wake);
    }

    fn begin(&mut self, context: &Context<'_>) -> Poll<()> {
        let mut now = Instant::now();
        if Aside::look(now) {
            now = Instant::now(); // the rest is nobody's
        }
        let since = match self.state {
            State::Waiting { since, .. } => since,
            State::Idle | State::Computing { .. } => now,
        };
        let Some(ticket) = self.given(context, now) else {
            return Poll::Pending;
        };
        if now > since {
            self.waited += now - since;
            self.identity.ledger().waited_for(now - since);
        }
        self.state = State::Computing { ticket, since: now };
        Poll::Ready(())
    }

    /// The turn, if it has come; otherwise the call waits, and is woken.
    ///
    /// The runtime looks at calls in the order in which they came. Were the first one that is looked at to compute at once, a tenant
    /// with many calls would be before one that came after them: so all that have come ask before any of them computes.
    fn given(&mut self, context: &Context<'_>, now: Instant) -> Option<Ticket> {
        let (tenant, waker) = (&self.identity.tenant, context.waker());
        let caller = Caller::here(waker);
        let wait = others_came();
        let mut turns = self.processors.turns.lock();
        if let State::Waiting {
            ticket,
            ref mut courtesy,
            ..
        } = self.state
        {
            if wait && *courtesy > 0 && turns.has_free() {
                *courtesy -= 1;
                waker.wake_by_ref();
                return None;
            }
            let (given, other) = turns.take(tenant.name(), ticket, caller, now);
            drop(turns);
            let is_other = other.map(Caller::wake).is_some();
            if given && is_other {
                give_away_what_is_next();
            }
            return given.then_some(ticket);
        }
        let claim = claim(tenant, self.first);
        let ticket = if wait {
            turns.enlist(&claim, caller, now)
        } else {
            match turns.ask(&claim, caller, now) {
                Asked::Begun(ticket) => return Some(ticket),
                Asked::Waits(ticket) => ticket,
            }
        };
        self.state = State::Waiting {
            ticket,
            since: now,
            courtesy: COURTESY,
        };
        if wait && turns.has_free() {
            waker.wake_by_ref();
        }
        None
    }

    /// Ends the turn. `again`: it asks for another, and this is woken for it.
    fn end(&mut self, again: Option<&Waker>) {
        let State::Computing { ticket, since } = self.state else {
            return;
        };
        let now = Instant::now();
        let used = now - since;
        self.state = State::Idle;
        self.count(used);
        let tenant = &self.identity.tenant;
        let mut turns = self.processors.turns.lock();
        if let Some(waker) = again {
            self.state = State::Waiting {
                ticket: turns.enlist(&claim(tenant, self.first), Caller::here(waker), now),
                since: now,
                courtesy: COURTESY,
            };
        }
        let ended = turns.end(ticket, used, now);
        drop(turns);
        ended.next.into_iter().for_each(Caller::wake);
        if ended.was_overtaken {
            self.was_overtaken(used);
        }
    }

    /// Another thread went on in this one's stead.
    fn was_overtaken(&self, used: Duration) {
        let Some(seat) = Seat::here() else {
            return;
        };
        let computed = seat.computed();
        seat.is_back();
        if self.first {
            return; // a guest that is loaded: the engine prepares for all of its calls
        }
        let identity = &self.identity;
        let sidelined = identity.was_overtaken(computed);
        tracing::debug!(tenant = %identity.tenant.name(), reconciler = %identity.name, took = ?used, sidelined, "a guest could not be interrupted for long");
    }

    fn count(&mut self, used: Duration) {
        self.used.add(used);
        self.identity.tenant.computed(used);
        self.identity.ledger().computed_for(used);
    }
}

/// What a call of a tenant asks for a turn with.
fn claim(tenant: &Tenant, first: bool) -> Claim<'_> {
    Claim {
        tenant: tenant.name(),
        weight: tenant.weight(),
        cap: tenant.processors(),
        first,
    }
}

/// Lets other threads of the runtime take who was woken last on this one: it comes next here, and no other thread may take it, until
/// another is woken. Were this one stuck meanwhile, that one would be too, and all who come after it in the line.
fn give_away_what_is_next() {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async {});
    }
}

/// Whether calls have come that the runtime has not looked at: it looks at those before any that it looked at already.
fn others_came() -> bool {
    tokio::runtime::Handle::try_current()
        .is_ok_and(|runtime| runtime.metrics().global_queue_depth() > 0)
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end(None); // a poll that panicked
        self.leave();
    }
}

#[cfg(test)]
mod tests;

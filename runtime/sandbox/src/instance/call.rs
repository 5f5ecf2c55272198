//! The host's state during one call of a guest: the data of a store. Entry point: [`Call`].

use crate::admission::memory::Reservation;
use crate::contract::handle::ClusterHandle;
use crate::door::Passage;
use crate::guest_clock::GuestClock;
use crate::instance::answers::AnswerBudget;
use crate::instance::memory::Meter;
use crate::journal::{Journal, Stdio};
use crate::scheduler::ProcessorTime;
use crate::tape::Tape;
use crate::tape::draws::{TapedMonotonic, TapedRandom, TapedWall};
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::clocks::monotonic_clock;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use windlass_fleet::api::{ApiCode, ApiError};
use windlass_fleet::cluster::Fleet;
use windlass_fleet::{Cluster, Context};

/// Why the guest is called, which decides which clusters it reaches.
pub(crate) enum Purpose {
    /// `describe`: reaches no cluster.
    Describe,
    /// `reconcile`: reaches the request's cluster, and others within the grant.
    Reconcile(Context),
    /// `map-objects`: reads from the cache of the cluster whose objects changed.
    Map(FleetView),
    /// `reconcile`, whose calls are answered from a recording: reaches no cluster.
    Play,
    /// No call: the instance is idle.
    Idle,
}

/// The fleet, from one of its clusters.
#[derive(Clone)]
pub(crate) struct FleetView {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) fleet: Fleet,
}

/// How long a call may take.
#[derive(Debug, Clone)]
pub(crate) struct Time {
    /// When the guest is interrupted, however little it computed.
    pub(crate) deadline: Instant,
    /// Processor time that it may use. Time that other programs had the processor does not count.
    computing: Duration,
    /// Processor time that it has used.
    pub(crate) processor: Arc<ProcessorTime>,
}

impl Time {
    /// Ends at a deadline.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::of_computing(Duration::MAX, deadline)
    }

    /// Ends after this much processor time, or at a deadline.
    pub(crate) fn of_computing(computing: Duration, deadline: Instant) -> Self {
        Self {
            deadline,
            computing,
            processor: Arc::default(),
        }
    }

    /// Whether the call may go on.
    pub(crate) fn is_left(&self) -> bool {
        self.processor.used() < self.computing && Instant::now() < self.deadline
    }
}

/// One call. Lives as long as its store, which may serve several calls, one after the other.
pub(crate) struct Call {
    pub(crate) guest: Arc<GuestContext>,
    pub(crate) purpose: Purpose,
    pub(crate) time: Time,
    pub(crate) table: ResourceTable,
    pub(crate) meter: Meter,
    pub(crate) journal: Journal,
    /// Of the last host call, whose answer the host may still hold.
    answer_budget: Option<Arc<AnswerBudget>>,
    /// Calls of cluster functions that are left.
    host_calls: u32,
    /// Handles given out by this call. Each is revoked when the call ends, and deleted only when the guest drops it. Otherwise the
    /// table would reuse its index, and a guest that kept it would reach another cluster.
    given: Vec<u32>,
    /// Revoked handles of earlier calls that the guest has not dropped.
    kept: Vec<u32>,
    /// Made when the guest first uses WASI. Most guests never do.
    wasi: Option<Wasi>,
    /// Records what the guest gets, or plays it. Most calls have none.
    tape: Option<Arc<Tape>>,
}

/// WASI for one guest, and its two streams.
struct Wasi {
    context: WasiCtx,
    streams: [Stdio; 2],
}

impl Call {
    /// The first call of an instance with this reservation of memory.
    pub(crate) fn new(
        guest: Arc<GuestContext>,
        reservation: Reservation,
        purpose: Purpose,
        time: Time,
    ) -> Self {
        let limits = &guest.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let journal = Journal::new(limits.log_bytes, guest.log.clone());
        Self {
            purpose,
            time,
            table,
            meter: Meter::new(guest.clone(), reservation),
            journal,
            answer_budget: None,
            host_calls: limits.host_calls,
            given: Vec::new(),
            kept: Vec::new(),
            wasi: None,
            tape: None,
            guest,
        }
    }

    /// The same call with a tape. It must be linked to the functions that use one.
    pub(crate) fn with_tape(self, tape: Option<Arc<Tape>>) -> Self {
        if let Some(tape) = &tape {
            tape.begin();
        }
        let journal = self.journal.with_tape(tape.clone());
        Self {
            journal,
            tape,
            ..self
        }
    }

    /// Its tape.
    pub(crate) fn tape(&self) -> Option<&Arc<Tape>> {
        self.tape.as_ref()
    }

    /// Begins another call in the same instance, with all limits of a call renewed.
    pub(crate) fn begin(&mut self, purpose: Purpose, time: Time) {
        let limits = &self.guest.limits;
        (self.purpose, self.time) = (purpose, time);
        self.host_calls = limits.host_calls;
        self.journal.begin(limits.log_bytes);
        self.meter.begin();
        self.table.set_max_capacity(self.most_handles());
    }

    /// Most handles in the table: those of one call, and those of earlier calls that the guest has kept.
    pub(crate) fn most_handles(&self) -> usize {
        self.guest.limits.handles + self.kept.len()
    }

    /// Handles of ended calls that the guest has kept.
    pub(crate) fn kept_handles(&self) -> usize {
        self.kept.len()
    }

    /// Gives the guest a cluster for the rest of the call.
    pub(crate) fn give(
        &mut self,
        handle: ClusterHandle,
    ) -> wasmtime::Result<Resource<ClusterHandle>> {
        let resource = self.table.push(handle)?;
        self.given.push(resource.rep());
        Ok(resource)
    }

    /// Ends the call: revokes its handles and flushes its log. Returns the last error that the guest logged.
    pub(crate) fn end(&mut self) -> Option<String> {
        self.revoke();
        self.answer_budget = None;
        self.purpose = Purpose::Idle;
        if let Some(wasi) = &self.wasi {
            wasi.streams.iter().for_each(Stdio::flush_rest);
        }
        let summary = self.journal.finish();
        for (over, limit) in [
            (summary.over_budget, Limit::LogBytes),
            (summary.over_rate, Limit::LogRate),
        ] {
            if over {
                self.guest.hit(limit);
            }
        }
        self.guest.usage().had(self.meter.memory());
        summary.last_error
    }

    /// Ends a call that was cancelled.
    pub(crate) fn end_if_under_way(&mut self) {
        if !matches!(self.purpose, Purpose::Idle) {
            drop(self.end());
        }
    }

    fn revoke(&mut self) {
        for rep in self.given.drain(..) {
            let handle = Resource::<ClusterHandle>::new_borrow(rep);
            if let Ok(handle) = self.table.get_mut(&handle) {
                handle.revoke();
                self.kept.push(rep);
            }
        }
    }

    /// Removes a handle that the guest dropped. Its index may be used again.
    pub(crate) fn forget(&mut self, rep: u32) {
        self.given.retain(|given| *given != rep);
        self.kept.retain(|kept| *kept != rep);
    }

    /// A budget for the answers of a host call that begins. The charge of earlier answers ends: the guest has taken them over.
    pub(crate) fn answer_budget(&mut self) -> Arc<AnswerBudget> {
        self.answer_budget = None;
        let budget = AnswerBudget::new(&self.guest);
        self.answer_budget.insert(budget).clone()
    }

    /// What the answer of the last host call is charged to, as long as it is kept.
    pub(crate) fn held_answer(&self) -> Arc<AnswerBudget> {
        let budget = self.answer_budget.clone();
        budget.unwrap_or_else(|| AnswerBudget::new(&self.guest))
    }

    /// The way of its calls through the door. `None`: nobody stands there, or it is no reconcile.
    pub(crate) fn passage(&self) -> Option<Passage> {
        let Purpose::Reconcile(context) = &self.purpose else {
            return None;
        };
        let door = &self.guest.history.door;
        door.passage(&self.guest.name, context)
    }

    /// Takes calls of cluster functions from the limit of this call.
    pub(crate) fn spend(&mut self, calls: usize) -> Result<(), ApiError> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        if let Some(left) = self.host_calls.checked_sub(calls) {
            self.host_calls = left;
            return Ok(());
        }
        self.guest.hit(Limit::HostCalls);
        let most = self.guest.limits.host_calls;
        let message = format!(
            "more than {most} calls in one run: do less per run, or raise limits.hostCalls"
        );
        Err(ApiError::host(ApiCode::LimitExceeded, message))
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let (journal, clock) = (&self.journal, &self.guest.history.clock);
        let tape = self.tape.as_ref();
        let wasi = self
            .wasi
            .get_or_insert_with(|| Wasi::new(journal, clock, tape));
        WasiCtxView {
            ctx: &mut wasi.context,
            table: &mut self.table,
        }
    }
}

impl Wasi {
    /// Without files, environment, arguments and sockets. Clocks and random numbers work. Output goes to the log.
    fn new(journal: &Journal, clock: &GuestClock, tape: Option<&Arc<Tape>>) -> Self {
        let streams = [
            Stdio::output(journal.clone()),
            Stdio::errors(journal.clone()),
        ];
        let mut builder = WasiCtx::builder();
        builder
            .wall_clock(clock.for_wasi())
            .allow_tcp(false)
            .allow_udp(false)
            .max_random_size(64 << 10)
            .stdout(streams[0].clone())
            .stderr(streams[1].clone());
        if let Some(tape) = tape {
            draw_from(tape, clock, &mut builder);
        }
        let context = builder.build();
        Self { context, streams }
    }
}

/// Has clocks and random numbers pass the tape.
fn draw_from(tape: &Arc<Tape>, clock: &GuestClock, builder: &mut WasiCtxBuilder) {
    let mut random = TapedRandom(tape.clone());
    builder
        .wall_clock(TapedWall {
            tape: tape.clone(),
            clock: clock.for_wasi(),
        })
        .monotonic_clock(TapedMonotonic {
            tape: tape.clone(),
            clock: monotonic_clock(),
        })
        .insecure_random_seed(random.seed())
        .insecure_random(TapedRandom(tape.clone()))
        .secure_random(random);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TICK;

    #[test]
    fn a_call_ends_when_it_has_computed_enough_or_at_its_deadline() {
        let later = Instant::now() + Duration::from_secs(60);
        let time = Time::of_computing(3 * TICK, later);
        time.processor.add(TICK / 2);
        time.processor.add(TICK / 2);
        time.processor.add(100 * TICK); // others had the processor
        assert!(time.is_left());
        time.processor.add(TICK);
        assert!(!time.is_left());
        let time = Time::until(later);
        (0..1000).for_each(|_| time.processor.add(TICK));
        assert!(time.is_left());
        assert!(!Time::until(Instant::now()).is_left());
    }
}

//! The recordings of a guest's runs that are kept: the last failures, a sample, and those that somebody asked for. Entry point:
//! [`Recordings`].
//!
//! * Nothing is kept before the values of Secrets have [stand-ins](crate::recording::stand_ins).
//! * What is kept is charged to the tenant. A recording that does not fit is dropped, and its run goes on.

use crate::options::Rate;
use crate::recording::{CONTRACT, FORMAT, Limits, Outcome, Recording, Request as RecordedRequest};
use crate::recording::{Step, stand_ins};
use crate::tape::{Full, SpareMemory, Tape};
use crate::tenant::Tenant;
use crate::tenant::context::GuestContext;
use crate::tenant::usage::Limit;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use windlass_fleet::cluster::Bucket;
use windlass_fleet::controller::ReconcileId;
use windlass_fleet::{Action, Context, Digest, Failure, Request};

/// Which runs are recorded without being asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// The last runs that failed, one of a key. Default: 5.
    pub failures: usize,
    /// The last runs of a sample of those that succeeded, one of a key. Default: 0.
    pub sample: usize,
    /// The least time between two runs of the sample. Default: 1 min.
    pub every: Duration,
    /// Most bytes of a recording. A longer one is dropped. Default: 1 MiB.
    pub bytes: usize,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            sample: 0,
            every: Duration::from_secs(60),
            bytes: 1 << 20,
        }
    }
}

/// Most recordings that somebody asked for, and most keys that wait for theirs.
const ASKED: usize = 8;

/// How long a key waits for a run. Who asked has given up by then.
const WAIT: Duration = Duration::from_secs(300);

/// Recordings that are written at once, of all guests: each takes a processor for milliseconds.
static WRITERS: Semaphore = Semaphore::const_new(2);

/// Failures beyond the number that is kept that are recorded in a second: each costs time to write.
const FAILURES_PER_SECOND: u32 = 1;

/// Why a run was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Somebody asked for it.
    Asked,
    /// It failed.
    Failure,
    /// As one of a sample.
    Sample,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked",
            Self::Failure => "failure",
            Self::Sample => "sample",
        })
    }
}

/// A recording that is kept.
#[derive(Debug, Clone)]
pub struct KeptRecording {
    /// The run's id.
    pub id: String,
    /// Why it was recorded.
    pub why: Why,
    /// When the run began: RFC 3339, UTC.
    pub time: String,
    /// What was reconciled.
    pub request: Request,
    /// How the run ended.
    pub outcome: Outcome,
    /// Calls of the run.
    pub calls: usize,
    /// The file. An error says why there is none: only for a run that somebody asked for.
    pub file: Result<Bytes, String>,
    /// For the file.
    _charge: Option<Arc<Charge>>,
}

/// Memory of a tenant, until this is dropped.
#[derive(Debug)]
struct Charge {
    tenant: Arc<Tenant>,
    bytes: usize,
}

impl Charge {
    fn new(tenant: &Arc<Tenant>, bytes: usize) -> Option<Arc<Self>> {
        let tenant = tenant.clone();
        SpareMemory::charge(&*tenant, bytes).then(|| Arc::new(Self { tenant, bytes }))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.tenant.release(self.bytes);
    }
}

/// The recordings of a guest, over all of its revisions.
#[derive(Debug, Default)]
pub(crate) struct Recordings {
    /// Which runs are recorded. `None`: those that somebody asks for.
    options: ArcSwapOption<RecordOptions>,
    state: Mutex<State>,
    /// Keys in [`State::wanted`], so that a run without recordings takes no lock.
    wanted: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Keys whose next run is to be recorded, and until when. At most [`ASKED`].
    wanted: VecDeque<(Request, Instant)>,
    asked: VecDeque<KeptRecording>,
    failures: VecDeque<KeptRecording>,
    sample: VecDeque<KeptRecording>,
    /// When the next run of the sample may begin.
    next_sample: Option<Instant>,
    /// Failures that may be written.
    budget: Option<Bucket>,
}

/// A run that is recorded.
pub(crate) struct Recorded {
    pub(crate) tape: Arc<Tape>,
    asked: bool,
    id: ReconcileId,
    request: Request,
    time: jiff::Timestamp,
    cancelled: tokio_util::sync::CancellationToken,
}

impl Recordings {
    /// Changes which runs are recorded. What is kept beyond new bounds is dropped.
    pub(crate) fn follow(&self, options: Option<RecordOptions>) {
        let mut state = self.state.lock();
        state.budget = None;
        state.bound(options.as_ref());
        self.options.store(options.map(Arc::new));
    }

    /// Has the next run of a key recorded. `false`: too many keys wait for that.
    pub(crate) fn want(&self, request: Request) -> bool {
        let mut state = self.state.lock();
        let waits = state.want(request, Instant::now());
        self.count(&state);
        waits
    }

    /// No longer waits for a run of a key.
    pub(crate) fn forget(&self, request: &Request) {
        let mut state = self.state.lock();
        state.take_wanted(request, Instant::now());
        self.count(&state);
    }

    fn count(&self, state: &State) {
        self.wanted.store(state.wanted.len(), Ordering::Relaxed);
    }

    /// Begins a run: with a tape, if it is to be recorded.
    pub(crate) fn begin(&self, guest: &GuestContext, context: &Context) -> Option<Recorded> {
        let options = self.options.load();
        if options.is_none() && self.wanted.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let options = options.as_deref();
        let mut state = self.state.lock();
        let asked = state.take_wanted(&context.request, Instant::now());
        self.count(&state);
        let due = |options: &RecordOptions| {
            options.failures > 0 || state.sample_is_due(options, Instant::now())
        };
        if !asked && !options.is_some_and(due) {
            return None;
        }
        drop(state);
        let most = options.map_or(RecordOptions::default().bytes, |options| options.bytes);
        Some(Recorded {
            tape: Tape::recording(guest.tenant.clone(), most),
            asked,
            id: context.id,
            request: context.request.clone(),
            time: guest.history.clock.now(),
            cancelled: context.cancelled().clone(),
        })
    }

    /// Ends a run, and keeps its recording if it shall. Writing it takes time: that is done on a thread for such work.
    pub(crate) fn end(
        self: &Arc<Self>,
        run: Recorded,
        guest: &Arc<GuestContext>,
        revision: Digest,
        secrets: Arc<[String]>,
        outcome: &Result<Action, Failure>,
    ) {
        if !run.tape.has_begun() || run.cancelled.is_cancelled() {
            // The key runs again.
            if run.asked {
                self.want(run.request);
            }
            return;
        }
        let options = self.options.load_full();
        let why = match (run.asked, &options) {
            (true, _) => Some(Why::Asked),
            (false, Some(options)) => {
                let mut state = self.state.lock();
                state.why(options, outcome.is_err(), Instant::now())
            }
            (false, None) => None,
        };
        let Some(why) = why else {
            return;
        };
        let outcome = Outcome::of(outcome);
        guest.tenant.may_drop(self);
        let (kept, guest) = (self.clone(), guest.clone());
        // As many wait as failures may be written, and each has its memory charged.
        tokio::spawn(async move {
            // The semaphore is never closed.
            let permit = WRITERS.acquire().await;
            let written = tokio::task::spawn_blocking(move || {
                if let Some(recording) = write(run, why, &guest, revision, &secrets, outcome) {
                    kept.keep(recording);
                }
            });
            // A panic is the thread's own, and there is nothing to keep then.
            drop(written.await);
            drop(permit);
        });
    }

    /// Drops one recording: of the sample first, then of the failures. `false`: there is none.
    pub(crate) fn drop_one(&self) -> bool {
        let dropped = {
            let state = &mut *self.state.lock();
            let lists = [&mut state.sample, &mut state.failures, &mut state.asked];
            lists.into_iter().find_map(VecDeque::pop_front)
        };
        dropped.is_some()
    }

    fn keep(&self, recording: KeptRecording) {
        let mut state = self.state.lock();
        let list = state.list(recording.why);
        // A key that fails again and again does not push out those of others.
        if recording.file.is_ok() {
            list.retain(|kept| kept.request != recording.request);
        }
        list.push_back(recording);
        // The options may have changed meanwhile.
        state.bound(self.options.load_full().as_deref());
    }

    /// What is kept, the newest last.
    pub(crate) fn list(&self) -> Vec<KeptRecording> {
        let state = self.state.lock();
        let all = state
            .asked
            .iter()
            .chain(&state.failures)
            .chain(&state.sample);
        let mut all: Vec<_> = all.cloned().collect();
        all.sort_by(|one, other| one.time.cmp(&other.time));
        all
    }
}

impl State {
    fn want(&mut self, request: Request, now: Instant) -> bool {
        self.wanted
            .retain(|(wanted, until)| *wanted != request && *until > now);
        let has_room = self.wanted.len() < ASKED;
        if has_room {
            self.wanted.push_back((request, now + WAIT));
        }
        has_room
    }

    fn take_wanted(&mut self, request: &Request, now: Instant) -> bool {
        self.wanted.retain(|(_, until)| *until > now);
        let at = self.wanted.iter().position(|(wanted, _)| wanted == request);
        at.and_then(|at| self.wanted.remove(at)).is_some()
    }

    fn sample_is_due(&self, options: &RecordOptions, now: Instant) -> bool {
        options.sample > 0 && self.next_sample.is_none_or(|next| next <= now)
    }

    /// Why a run that has ended is kept. `None`: it is not.
    fn why(&mut self, options: &RecordOptions, failed: bool, now: Instant) -> Option<Why> {
        if failed {
            return (options.failures > 0 && self.may_write(options, now)).then_some(Why::Failure);
        }
        if !self.sample_is_due(options, now) {
            return None;
        }
        self.next_sample = Some(now + options.every);
        Some(Why::Sample)
    }

    /// Whether a failure may be written now. As many as are kept may come at once.
    fn may_write(&mut self, options: &RecordOptions, now: Instant) -> bool {
        let budget = self.budget.get_or_insert_with(|| {
            let rate = Rate {
                per_second: FAILURES_PER_SECOND,
            };
            let burst = u32::try_from(options.failures).unwrap_or(u32::MAX);
            let limit = windlass_fleet::cluster::RateLimit {
                burst,
                ..rate.limit()
            };
            Bucket::new(limit, now)
        });
        budget.take(now, Duration::ZERO).is_some()
    }

    fn list(&mut self, why: Why) -> &mut VecDeque<KeptRecording> {
        match why {
            Why::Asked => &mut self.asked,
            Why::Failure => &mut self.failures,
            Why::Sample => &mut self.sample,
        }
    }

    /// Drops the oldest of too many.
    fn bound(&mut self, options: Option<&RecordOptions>) {
        for (list, most) in [
            (&mut self.asked, ASKED),
            (
                &mut self.failures,
                options.map_or(0, |options| options.failures),
            ),
            (
                &mut self.sample,
                options.map_or(0, |options| options.sample),
            ),
        ] {
            let over = list.len().saturating_sub(most);
            list.drain(..over);
        }
    }
}

/// Makes the file of a run. `None`: it is not kept.
fn write(
    run: Recorded,
    why: Why,
    guest: &Arc<GuestContext>,
    revision: Digest,
    secrets: &[String],
    outcome: Outcome,
) -> Option<KeptRecording> {
    let mut kept = KeptRecording::new(&run, why, &outcome, Err(String::new()));
    let written = run.tape.recorded().and_then(|(steps, draws)| {
        let calls = steps.iter();
        kept.calls = calls
            .filter(|step| matches!(step, Step::Call { .. }))
            .count();
        let mut recording = Recording {
            windlass_recording: FORMAT,
            contract: CONTRACT.to_owned(),
            id: kept.id.clone(),
            time: kept.time.clone(),
            tenant: guest.tenant.name().to_string(),
            reconciler: guest.name.to_string(),
            revision: revision.to_string(),
            request: RecordedRequest::from(&run.request),
            config: guest.config.to_string().into(),
            limits: Limits::from(&guest.limits),
            stand_ins: 0,
            draws,
            steps,
            outcome,
            must: None,
        };
        stand_ins::put_into(&mut recording, secrets).map_err(|_| Full::TooManyValues)?;
        let file = recording.to_file();
        if file.len() > run.tape.most() {
            return Err(Full::TooLarge);
        }
        // The file takes the place of what is charged until here.
        run.tape.end();
        let charge = Charge::new(&guest.tenant, file.len()).ok_or(Full::NoMemory)?;
        kept.outcome = recording.outcome;
        Ok((file, charge))
    });
    match written {
        Ok((file, charge)) => {
            kept.file = Ok(file.into());
            kept._charge = Some(charge);
        }
        Err(full) => {
            if full == Full::TooLarge {
                guest.hit(Limit::RecordBytes);
            }
            kept.file = Err(full.to_string());
        }
    }
    (kept.file.is_ok() || why == Why::Asked).then_some(kept)
}

impl KeptRecording {
    /// One whose outcome has no message: what a Secret may be part of is not shown before it has stand-ins.
    fn new(run: &Recorded, why: Why, outcome: &Outcome, file: Result<Bytes, String>) -> Self {
        let mut outcome = outcome.clone();
        if let Outcome::Failed { message, .. } = &mut outcome {
            message.clear();
        }
        Self {
            id: run.id.to_string(),
            why,
            time: format!("{:.3}", run.time),
            request: run.request.clone(),
            outcome,
            calls: 0,
            file,
            _charge: None,
        }
    }
}

impl From<&Request> for RecordedRequest {
    fn from(request: &Request) -> Self {
        Self {
            cluster: request.cluster.to_string(),
            namespace: request.key.namespace.as_deref().map(str::to_owned),
            name: request.key.name.to_string(),
        }
    }
}

impl From<&crate::options::Limits> for Limits {
    fn from(limits: &crate::options::Limits) -> Self {
        Self {
            memory: limits.memory,
            timeout_ms: u64::try_from(limits.timeout.as_millis()).unwrap_or(u64::MAX),
            table_elements: limits.table_elements,
            handles: limits.handles,
            host_call_bytes: limits.host_call_bytes,
        }
    }
}

#[cfg(test)]
mod tests;

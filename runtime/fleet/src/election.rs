//! Leader election: one of several processes leads, by a Lease. Entry point: `Election`; options: [`ElectionOptions`].
//!
//! `machine` decides, without I/O; the task here sends its calls. As in client-go, with two stricter invariants:
//!
//! * Only time that this process has observed decides, never a time that is written in the Lease. So clocks may differ.
//! * A leader's writes pass a fence that closes by itself before another process may lead.
//!
//! Cost: one call per `retry_period`, for a leader and for a follower.
//!
//! Not guaranteed: the fence cannot recall a request that has left the process. If the network delays it, it may land under a new leader.

mod machine;
#[cfg(test)]
mod model_tests;
pub(crate) mod record;
#[cfg(test)]
mod tests;
mod timing;

pub use timing::{Timing, TimingError};

use crate::api::{ApiCode, ApiError, Json};
use crate::clock::Clock;
use crate::cluster::lease::LeaseCalls;
use crate::cluster::{Cluster, Fleet};
use crate::http::fence::Fence;
use crate::name::ClusterName;
use fastrand::Rng;
use jiff::Timestamp;
use machine::{LeaseCall, Machine, Next, Outcome, Role};
use parking_lot::Mutex;
use record::Lease;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The Lease, this candidate and the timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionOptions {
    /// The namespace of the Lease, in the local cluster. It must exist.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The name of this candidate, which becomes the Lease's `holderIdentity`. Unique among all processes, earlier ones too. Default: random.
    pub candidate: String,
    /// How long the Lease lasts and how it is renewed.
    pub timing: Timing,
}

impl ElectionOptions {
    /// A Lease by namespace and name, with a random candidate and the default timing.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            candidate: format!("{:032x}", fastrand::u128(..)),
            timing: Timing::default(),
        }
    }
}

/// Why an election cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// A name is empty.
    #[error("the lease of an election needs a namespace, a name and a candidate: {0} is empty")]
    Empty(&'static str),
    /// The times do not fit together.
    #[error(transparent)]
    Timing(#[from] TimingError),
}

impl ElectionOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// [`ElectionError`].
    pub fn check(&self) -> Result<(), ElectionError> {
        let texts = [
            ("the namespace", &self.namespace),
            ("the name", &self.name),
            ("the candidate", &self.candidate),
        ];
        match texts.into_iter().find(|(_, text)| text.is_empty()) {
            Some((name, _)) => Err(ElectionError::Empty(name)),
            None => Ok(self.timing.check()?),
        }
    }
}

/// The state of an election, for status pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ElectionStatus {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// This candidate.
    pub candidate: String,
    /// Whether this process leads.
    pub leads: bool,
    /// The candidate that holds the Lease, as far as this process knows; empty: none.
    pub holder: String,
    /// How often the Lease has changed hands.
    pub transitions: i32,
    /// Renewals that had to read the Lease first.
    pub slow_renewals: u64,
    /// The error of the last call about the Lease; `None`: it succeeded.
    pub problem: Option<String>,
}

/// The part of a process in an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not lead.
    Follower,
    /// It leads.
    Leader,
    /// It released the Lease, or never held it.
    Ended,
    /// It led and could not renew the Lease: the process must end.
    Lost,
}

/// This process as a candidate: its fence, its status, and the task that renews the Lease.
pub(crate) struct Election {
    options: ElectionOptions,
    clock: Clock,
    fence: Arc<Fence>,
    phase: watch::Sender<Phase>,
    status: Mutex<ElectionStatus>,
    /// Cancelled to release the Lease.
    leave: CancellationToken,
}

impl Election {
    pub(crate) fn new(options: ElectionOptions) -> Arc<Self> {
        let clock = Clock::machine();
        let status = ElectionStatus {
            namespace: options.namespace.clone(),
            name: options.name.clone(),
            candidate: options.candidate.clone(),
            ..ElectionStatus::default()
        };
        Arc::new(Self {
            fence: Fence::new(clock.clone(), options.timing.reach()),
            clock,
            options,
            phase: watch::channel(Phase::Follower).0,
            status: Mutex::new(status),
            leave: CancellationToken::new(),
        })
    }

    /// Lets writes through while this process leads.
    pub(crate) fn fence(&self) -> &Arc<Fence> {
        &self.fence
    }

    /// The part of this process. The last value is `Ended` or `Lost`.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn status(&self) -> ElectionStatus {
        self.status.lock().clone()
    }

    /// Shuts the fence, waits for the writes in flight, and makes [`Election::run`] release the Lease and end. Call it when all work that needs
    /// the Lease has ended.
    pub(crate) async fn leave(&self) {
        self.fence.shut();
        self.fence.emptied().await;
        self.leave.cancel();
    }

    /// Runs the election until this process has left or lost it. Looks the local cluster up for each call.
    pub(crate) async fn run(self: Arc<Self>, fleet: Fleet) {
        let calls = LeaseCalls::new(&self.options.namespace, &self.options.name);
        let candidate: Arc<str> = self.options.candidate.as_str().into();
        let now = self.clock.now();
        let mut machine = Machine::new(candidate, self.options.timing, now, Rng::new());
        tracing::info!(
            namespace = self.options.namespace,
            lease = self.options.name,
            candidate = self.options.candidate,
            "waiting for the lease"
        );
        let mut leaving = false;
        loop {
            if self.leave.is_cancelled() && !std::mem::replace(&mut leaving, true) {
                machine.leave_within(self.clock.now(), self.options.timing.renew_deadline);
            }
            match machine.next(self.clock.now(), Timestamp::now()) {
                Next::Wait(until) => self.wait(until, leaving).await,
                Next::Send(call, limit) => {
                    self.send(&mut machine, &calls, &fleet, call, limit).await
                }
                Next::End => return self.end(leaving),
            }
        }
    }

    async fn wait(&self, until: Instant, leaving: bool) {
        let wait = tokio::time::sleep(until.saturating_duration_since(self.clock.now()));
        if leaving {
            wait.await;
        } else {
            let _ = self.leave.run_until_cancelled(wait).await;
        }
    }

    async fn send(
        &self,
        machine: &mut Machine,
        calls: &LeaseCalls,
        fleet: &Fleet,
        call: LeaseCall,
        limit: Duration,
    ) {
        if call == LeaseCall::Read && matches!(machine.role(), Role::Leader { .. }) {
            self.status.lock().slow_renewals += 1;
        }
        let start = self.clock.now();
        let outcome = match fleet.cluster(&ClusterName::local()) {
            Some(cluster) => self.call(&cluster, calls, &call, limit).await,
            None => Err(ApiError::host(
                ApiCode::ClusterGone,
                "the local cluster has left the fleet",
            )),
        };
        let problem = outcome.as_ref().err().and_then(problem);
        let outcome = outcome.unwrap_or_else(|error| outcome_of(&error));
        machine.answered(start, self.clock.now(), &call, outcome);
        if let Role::Leader { since } = machine.role() {
            self.fence.renewed(since);
        }
        self.report(machine, problem);
    }

    async fn call(
        &self,
        cluster: &Arc<Cluster>,
        calls: &LeaseCalls,
        call: &LeaseCall,
        limit: Duration,
    ) -> Result<Outcome, ApiError> {
        let json = match call {
            LeaseCall::Read => match calls.read(cluster, limit).await? {
                None => return Ok(Outcome::Absent),
                Some(json) => json,
            },
            LeaseCall::Create(record) => {
                let lease = record.object(&self.options.namespace, &self.options.name);
                calls.create(cluster, lease.into(), limit).await?
            }
            LeaseCall::Update(lease, record) => {
                let lease = lease.with(record);
                match calls.update(cluster, lease.into(), limit).await {
                    Err(error) if error.code == ApiCode::NotFound => return Ok(Outcome::Absent),
                    updated => updated?,
                }
            }
        };
        parse(&json)
    }

    /// Updates the status and logs changes.
    fn report(&self, machine: &Machine, problem: Option<String>) {
        let leads = matches!(machine.role(), Role::Leader { .. });
        let mut status = self.status.lock();
        if let Some(problem) = problem.as_ref().filter(|_| status.problem != problem) {
            tracing::warn!(
                lease = self.options.name,
                problem,
                "the lease is not available"
            );
        }
        status.problem = problem;
        if let Some(record) = machine.record() {
            if status.holder != record.holder {
                let holder = record.holder.as_str();
                tracing::info!(
                    lease = self.options.name,
                    holder,
                    "the lease has another holder"
                );
            }
            status.holder.clone_from(&record.holder);
            status.transitions = record.transitions;
        }
        status.leads = leads;
        drop(status);
        if leads {
            let entered = self
                .phase
                .send_if_modified(|phase| std::mem::replace(phase, Phase::Leader) != Phase::Leader);
            if entered {
                tracing::info!(lease = self.options.name, "leading");
            }
        }
    }

    fn end(&self, leaving: bool) {
        self.fence.shut();
        self.status.lock().leads = false;
        if leaving {
            tracing::info!(
                lease = self.options.name,
                "no longer a candidate for the lease"
            );
        } else {
            tracing::error!(lease = self.options.name, "leader election lost");
        }
        let phase = if leaving { Phase::Ended } else { Phase::Lost };
        self.phase.send_replace(phase);
    }
}

fn parse(json: &Json) -> Result<Outcome, ApiError> {
    let refused = |message| Err(ApiError::host(ApiCode::Other, message));
    match Lease::parse(json) {
        None => refused("the server's answer is not a Lease"),
        Some(lease) if lease.is_of_a_sharding() => refused(
            "the lease belongs to processes that share the clusters: give the election another name, or end them and delete the lease",
        ),
        Some(lease) => Ok(Outcome::Lease(lease)),
    }
}

fn outcome_of(error: &ApiError) -> Outcome {
    match error.code {
        ApiCode::Conflict | ApiCode::AlreadyExists => Outcome::Conflict,
        _ => Outcome::Failed,
    }
}

/// The message of an error, unless another candidate was faster, which is normal.
fn problem(error: &ApiError) -> Option<String> {
    (outcome_of(error) == Outcome::Failed).then(|| error.message.clone())
}

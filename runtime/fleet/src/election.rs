//! One of several processes leads, by a Lease. Entry point: `Election`; options: [`ElectionOptions`].
//!
//! As client-go's, and stricter: a lease is judged by observed time only, never by what a clock elsewhere has written into it; and
//! a leader's writes pass a fence that closes in time by itself, so that no write of an old leader lands under a new one. The
//! decisions are a machine without I/O; the task here sends its calls.

mod machine;
#[cfg(test)]
mod model_tests;
mod record;
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
use machine::{Answer, Ask, Machine, Next, Standing};
use parking_lot::Mutex;
use record::Lease;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The lease, and the candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionOptions {
    /// The namespace of the Lease, in the local cluster. It must exist.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who this process is. No other process, and no earlier one, may have the same. Default: random.
    pub identity: String,
    /// How long the lease lasts and how it is kept.
    pub timing: Timing,
}

impl ElectionOptions {
    /// A lease by namespace and name, a random identity and the default timing.
    #[must_use]
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: format!("{:032x}", fastrand::u128(..)),
            timing: Timing::default(),
        }
    }
}

/// Why an election cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    /// Nobody could tell whose the lease is.
    #[error("the lease of an election needs a namespace, a name and an identity: {0} is empty")]
    Empty(&'static str),
    /// The times do not go together.
    #[error(transparent)]
    Timing(#[from] TimingError),
}

impl ElectionOptions {
    /// Whether an election can be held with these.
    ///
    /// # Errors
    /// [`ElectionError`].
    pub fn check(&self) -> Result<(), ElectionError> {
        let texts = [
            ("the namespace", &self.namespace),
            ("the name", &self.name),
            ("the identity", &self.identity),
        ];
        match texts.into_iter().find(|(_, text)| text.is_empty()) {
            Some((what, _)) => Err(ElectionError::Empty(what)),
            None => Ok(self.timing.check()?),
        }
    }
}

/// An election as status pages show it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct ElectionStatus {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who this process is.
    pub identity: String,
    /// Whether this process leads.
    pub leads: bool,
    /// Who holds the lease as far as this process knows; empty: nobody.
    pub holder: String,
    /// How often the lease has changed hands.
    pub transitions: i32,
    /// Renewals that had to read the lease first.
    pub slow_renewals: u64,
    /// Why the last call about the lease failed; `None` when it did not.
    pub problem: Option<String>,
}

/// The role of a process in an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does not lead.
    Follower,
    /// It leads.
    Leader,
    /// It gave the lease back, or never had it.
    Ended,
    /// It led and could not keep the lease: it must end.
    Lost,
}

/// A candidate: its fence, its status and the task that keeps the lease.
pub(crate) struct Election {
    options: ElectionOptions,
    clock: Clock,
    fence: Arc<Fence>,
    phase: watch::Sender<Phase>,
    status: Mutex<ElectionStatus>,
    /// Cancelled to give the lease back.
    leave: CancellationToken,
}

impl Election {
    pub(crate) fn new(options: ElectionOptions) -> Arc<Self> {
        let clock = Clock::machine();
        let status = ElectionStatus {
            namespace: options.namespace.clone(),
            name: options.name.clone(),
            identity: options.identity.clone(),
            leads: false,
            holder: String::new(),
            transitions: 0,
            slow_renewals: 0,
            problem: None,
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

    /// The role of this process. The last one is `Ended` or `Lost`.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn status(&self) -> ElectionStatus {
        self.status.lock().clone()
    }

    /// Lets no write through any more, waits for those under way, and then has [`Election::run`] give the lease back, which ends
    /// it. To be called when all that works under the lease has ended.
    pub(crate) async fn leave(&self) {
        self.fence.shut();
        self.fence.emptied().await;
        self.leave.cancel();
    }

    /// Stands for election until it has left or has lost the lease. The local cluster is looked up for each call.
    pub(crate) async fn run(self: Arc<Self>, fleet: Fleet) {
        let calls = LeaseCalls::new(&self.options.namespace, &self.options.name);
        let me: Arc<str> = self.options.identity.as_str().into();
        let now = self.clock.now();
        let mut machine = Machine::new(me, self.options.timing, now, Rng::new());
        tracing::info!(
            namespace = self.options.namespace,
            lease = self.options.name,
            identity = self.options.identity,
            "waiting for the lease"
        );
        let mut leaving = false;
        loop {
            if self.leave.is_cancelled() && !std::mem::replace(&mut leaving, true) {
                machine.leave_within(self.clock.now(), self.options.timing.renew_deadline);
            }
            match machine.next(self.clock.now(), Timestamp::now()) {
                Next::Wait(until) => self.wait(until, leaving).await,
                Next::Send(ask, limit) => self.send(&mut machine, &calls, &fleet, ask, limit).await,
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
        ask: Ask,
        limit: Duration,
    ) {
        if ask == Ask::Read && matches!(machine.standing(), Standing::Leader { .. }) {
            self.status.lock().slow_renewals += 1;
        }
        let start = self.clock.now();
        let outcome = match fleet.cluster(&ClusterName::local()) {
            Some(cluster) => self.call(&cluster, calls, &ask, limit).await,
            None => Err(ApiError::host(
                ApiCode::ClusterGone,
                "the local cluster has left the fleet",
            )),
        };
        let problem = outcome.as_ref().err().and_then(problem);
        let answer = outcome.unwrap_or_else(|error| meaning(&error));
        machine.answered(start, self.clock.now(), &ask, answer);
        if let Standing::Leader { since } = machine.standing() {
            self.fence.renewed(since);
        }
        self.tell(machine, problem);
    }

    async fn call(
        &self,
        cluster: &Arc<Cluster>,
        calls: &LeaseCalls,
        ask: &Ask,
        limit: Duration,
    ) -> Result<Answer, ApiError> {
        let json = match ask {
            Ask::Read => match calls.read(cluster, limit).await? {
                None => return Ok(Answer::Absent),
                Some(json) => json,
            },
            Ask::Create(record) => {
                let lease = record.object(&self.options.namespace, &self.options.name);
                calls.create(cluster, lease.into(), limit).await?
            }
            Ask::Update(lease, record) => {
                let lease = lease.with(record);
                match calls.update(cluster, lease.into(), limit).await {
                    Err(error) if error.code == ApiCode::NotFound => return Ok(Answer::Absent),
                    updated => updated?,
                }
            }
        };
        parse(&json)
    }

    /// Tells what has changed.
    fn tell(&self, machine: &Machine, problem: Option<String>) {
        let leads = matches!(machine.standing(), Standing::Leader { .. });
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

fn parse(json: &Json) -> Result<Answer, ApiError> {
    let lease = Lease::parse(json).map(Answer::Lease);
    lease.ok_or_else(|| ApiError::host(ApiCode::Other, "the server's answer is not a Lease"))
}

/// What an error means for the lease.
fn meaning(error: &ApiError) -> Answer {
    match error.code {
        ApiCode::Conflict | ApiCode::AlreadyExists => Answer::Conflict,
        _ => Answer::Failed,
    }
}

/// What of an error people should know: that another was faster is the course of things.
fn problem(error: &ApiError) -> Option<String> {
    (meaning(error) == Answer::Failed).then(|| error.message.clone())
}

//! Runs the keys that are ready. Entry points: [`Dispatcher::run`] and [`Dispatcher::drain`].

use super::hot_keys::HotKeyFeed;
use super::leadership::Leadership;
use super::options::END_TIMEOUT;
use super::pauses::{self, Pauses};
use super::recent::{LastRun, RecentRuns};
use super::registrations::{Registration, Registrations};
use super::repeats::Repeats;
use super::shared_queue::SharedQueue;
use crate::cluster::call_scope::CallScope;
use crate::cluster::{Cluster, Fleet};
use crate::controller::{Attempt, Context, Ended, ReconcileId};
use crate::metrics::End;
use crate::outcome::{Action, Blame, Disposition};
use crate::paused::{PauseOf, RECHECK, Standing};
use crate::queue::{ControllerId, Outcome, Run};
use crate::request::Request;
use crate::shard::Stay;
use crate::trace;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use tracing::field::Empty;

/// When a key is looked at again that is another process's and is not held by its cluster.
const ELSEWHERE: Duration = Duration::from_secs(5);

/// Runs the keys that are ready, each in a task of its own.
pub(super) struct Dispatcher {
    pub(super) host: Handle,
    pub(super) fleet: Fleet,
    pub(super) queue: Arc<SharedQueue>,
    pub(super) registrations: Arc<Registrations>,
    pub(super) leadership: Arc<Leadership>,
    pub(super) recent: Arc<RecentRuns>,
    pub(super) hot_keys: Arc<HotKeyFeed>,
    pub(super) repeats: Repeats,
    pub(super) pauses: Arc<Pauses>,
    /// Cancelled when a drain begins: nothing is started any more.
    pub(super) draining: CancellationToken,
    /// Cancelled when a drain has run out of time: cancels every attempt.
    pub(super) cut_off: CancellationToken,
    /// Attempts that run.
    pub(super) attempts: TaskTracker,
}

impl Dispatcher {
    /// Runs until the drain begins.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let dispatch = self.queue.take();
            for controller in dispatch.drained {
                if let Some(registration) = self.registrations.by_id(controller) {
                    registration.note_room();
                }
            }
            for (controller, request) in dispatch.hot_keys {
                self.report_hot_key(controller, request);
            }
            for run in dispatch.runs {
                self.start(run);
            }
            let wait = async {
                match dispatch.next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.queue.changed() => {}
                () = wait => {}
                () = self.draining.cancelled() => return,
            }
        }
    }

    /// Waits for the attempts to end, and cancels them after a timeout.
    pub(super) async fn drain(&self, timeout: Duration) {
        self.attempts.close();
        tracing::info!(running = self.attempts.len(), "draining");
        let ended = tokio::time::timeout(timeout, self.attempts.wait()).await;
        if ended.is_err() {
            tracing::warn!(
                running = self.attempts.len(),
                "drain timeout: cancelling the reconciles that still run"
            );
            self.cut_off.cancel();
            let _ = tokio::time::timeout(END_TIMEOUT, self.attempts.wait()).await;
        }
    }

    /// Whether no attempt runs.
    pub(super) fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }

    fn report_hot_key(&self, controller: ControllerId, request: Request) {
        if let Some(registration) = self.registrations.by_id(controller) {
            self.hot_keys.report(&registration.controller(), request);
        }
    }

    fn start(self: &Arc<Self>, run: Run) {
        let registration = self.registrations.by_id(run.controller);
        let cluster = self.fleet.cluster(&run.request.cluster);
        let (Some(registration), Some(cluster)) = (registration, cluster) else {
            return self.queue.done(run.token, Outcome::Gone);
        };
        let Ok(stay) = self
            .leadership
            .enter(&registration.controller(), cluster.name())
        else {
            // It came from a cluster that is this process's, or its cluster has just passed to another one.
            let outcome = Outcome::Paused {
                after: ELSEWHERE,
                by_object: false,
            };
            return self.queue.done(run.token, outcome);
        };
        if let Some(outcome) = self.pause(&run, &registration, &cluster) {
            return self.queue.done(run.token, outcome);
        }
        let dispatcher = self.clone();
        self.attempts.spawn_on(
            async move { dispatcher.attempt(run, registration, cluster, stay).await },
            &self.host,
        );
    }

    /// The end of a run that a pause keeps from beginning.
    fn pause(
        &self,
        run: &Run,
        registration: &Registration,
        cluster: &Arc<Cluster>,
    ) -> Option<Outcome> {
        let controller = registration.controller();
        let now = || self.queue.wall_time();
        let (standing, paused) = self.pauses.of(&controller, cluster, &run.request, now);
        // Another process reports it where the key is that one's now.
        let fence = || self.leadership.fence(&controller, cluster.name()).ok();
        let Some(paused) = paused else {
            if run.was_paused
                && standing == Standing::Here
                && let Some(fence) = fence()
            {
                pauses::report_end(registration, cluster, &run.request, fence);
            }
            return None;
        };
        let by_object = paused.of == PauseOf::Object;
        if by_object
            && !run.was_paused
            && let Some(fence) = fence()
        {
            pauses::report_begin(registration, cluster, &run.request, &paused, fence);
        }
        Some(Outcome::Paused {
            after: paused.left.min(RECHECK),
            by_object,
        })
    }

    async fn attempt(
        self: Arc<Self>,
        run: Run,
        registration: Arc<Registration>,
        cluster: Arc<Cluster>,
        stay: Option<Stay>,
    ) {
        let controller = registration.controller();
        let id = ReconcileId::random();
        // At `error`: a filter that drops the span drops its fields from every line, warnings too.
        let span = tracing::error_span!(
            trace::RUN,
            tenant = %controller.tenant,
            reconciler = %controller.name,
            cluster = %run.request.cluster,
            namespace = run.request.key.namespace.as_deref().unwrap_or(""),
            name = &*run.request.key.name,
            %id,
            "otel.status_code" = Empty,
            "error.type" = Empty,
        );
        let started = Instant::now();
        let attempts = registration.metrics.attempts(cluster.metrics());
        registration.metrics.started(run.waited);
        let deadline = tokio::time::Instant::now() + controller.options.timeout;
        let token = cluster.token().child_token();
        let fence = match &stay {
            Some(stay) => Some(stay.fence().clone()),
            // Without shards every cluster is here.
            None => self
                .leadership
                .fence(&controller, cluster.name())
                .ok()
                .flatten(),
        };
        let scope = CallScope::of_run(registration.caller(), token.clone(), Some(deadline), fence);
        let context = Context {
            request: run.request.clone(),
            id,
            attempt: run.attempt,
            cluster,
            grant: controller.grant.clone(),
            fleet: self.fleet.clone(),
            scope,
        };
        let removed = registration.removed();
        let attempt = Attempt {
            context,
            reconciler: controller.reconciler.clone(),
            timeout: controller.options.timeout,
        };
        let work = async {
            tokio::pin! { let work = attempt.run(); }
            tokio::select! {
                ended = &mut work => ended,
                () = self.cut_off.cancelled() => { token.cancel(); work.await }
                () = removed.cancelled() => { token.cancel(); work.await }
                () = self.leadership.lost_for(&controller) => { token.cancel(); work.await }
                () = cancelled(stay.as_ref()) => { token.cancel(); work.await }
            }
        };
        let ended = work.instrument(span.clone()).await;
        let time = started.elapsed();
        let outcome = outcome(&ended);
        span.in_scope(|| self.log(&ended, &run, time));
        if let Ended::Failed(failure, _) = &ended {
            trace::failed(&span, failure.reason);
        }
        registration.metrics.finished(&attempts, how(&ended), time);
        self.record(&run, &ended, time);
        self.queue.done(run.token, outcome);
        // The shard may pass on once the queue knows that the run has ended.
        drop(stay);
    }

    fn log(&self, ended: &Ended, run: &Run, time: Duration) {
        let repeats = match ended {
            Ended::Failed(failure, _) => {
                let key = (run.controller, &run.request);
                self.repeats.fold(Instant::now(), key, run.attempt, failure)
            }
            _ => None,
        };
        log(ended, run.attempt, run.waited, time, repeats);
    }

    /// Records how a run ended, for questions about its key.
    fn record(&self, run: &Run, ended: &Ended, took: Duration) {
        let result = match ended {
            Ended::Action(Action::Done) => "success",
            Ended::Action(Action::RequeueAfter(_)) => "requeue_after",
            Ended::Failed(..) => "error",
            Ended::Gone => return,
        };
        let last = LastRun {
            ended: Instant::now(),
            result,
            took,
        };
        self.recent.record(run.controller, &run.request, last);
    }
}

/// Waits until the owner of a run's cluster must end it.
async fn cancelled(stay: Option<&Stay>) {
    match stay {
        Some(stay) => stay.cancelled().await,
        None => std::future::pending().await,
    }
}

/// The end of an attempt, for the queue.
fn outcome(ended: &Ended) -> Outcome {
    match ended {
        Ended::Action(Action::Done) => Outcome::Done,
        Ended::Action(Action::RequeueAfter(after)) => Outcome::RequeueAfter(*after),
        Ended::Gone => Outcome::Gone,
        Ended::Failed(failure, not_before) => Outcome::Failed {
            failure: failure.clone(),
            not_before: *not_before,
        },
    }
}

/// The end of an attempt, for metrics.
fn how(ended: &Ended) -> End<'_> {
    match ended {
        Ended::Action(Action::Done) => End::Success,
        Ended::Action(Action::RequeueAfter(_)) => End::RequeueAfter,
        Ended::Gone => End::Gone,
        Ended::Failed(failure, _) => End::Failed(failure),
    }
}

/// One line per finished attempt. `repeats`: equal failures whose lines were for debugging only, as this one is where it is `None`.
fn log(ended: &Ended, attempt: u32, waited: Duration, time: Duration, repeats: Option<u32>) {
    let duration_ms = time.as_secs_f64() * 1000.0;
    let waited_ms = waited.as_secs_f64() * 1000.0;
    match ended {
        Ended::Action(Action::Done) => tracing::debug!(
            result = "success",
            attempt,
            duration_ms,
            waited_ms,
            "reconcile finished"
        ),
        Ended::Action(Action::RequeueAfter(after)) => {
            let after_ms = after.as_secs_f64() * 1000.0;
            tracing::debug!(
                result = "requeue-after",
                attempt,
                duration_ms,
                waited_ms,
                after_ms,
                "reconcile finished"
            );
        }
        Ended::Gone => tracing::debug!(
            result = "gone",
            attempt,
            duration_ms,
            waited_ms,
            "reconcile finished"
        ),
        Ended::Failed(failure, _) => {
            let result = if failure.disposition == Disposition::Terminal {
                "terminal"
            } else {
                "error"
            };
            let (blame, reason, error) = (
                failure.blame.as_str(),
                failure.reason,
                failure.message.as_str(),
            );
            // Without a value the field is not there.
            let folded = repeats.filter(|folded| *folded > 0);
            macro_rules! line {
                ($level:ident) => {
                    tracing::$level!(
                        result,
                        blame,
                        reason,
                        error,
                        attempt,
                        repeats = folded,
                        duration_ms,
                        waited_ms,
                        "reconcile finished"
                    )
                };
            }
            match (repeats, failure.blame) {
                (None, _) => line!(debug),
                (Some(_), Blame::Host) => line!(error),
                (Some(_), _) => line!(warn),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Failure;
    use parking_lot::Mutex;
    use std::fmt::Debug;
    use tracing::field::Field;
    use tracing::{Event, Level, Subscriber};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    /// The level of a line and its field `repeats`.
    type Line = (Level, Option<String>);

    /// Every line.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<Line>>>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let mut repeats = None;
            event.record(&mut |field: &Field, value: &dyn Debug| {
                if field.name() == "repeats" {
                    repeats = Some(format!("{value:?}"));
                }
            });
            self.0.lock().push((*event.metadata().level(), repeats));
        }
    }

    #[test]
    fn a_failure_is_a_warning_with_the_number_of_those_that_were_folded_into_it() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(lines.clone());
        let fails = |failure: &Failure, repeats| {
            let ended = Ended::Failed(failure.clone(), None);
            log(&ended, 2, Duration::ZERO, Duration::ZERO, repeats);
        };
        tracing::subscriber::with_default(subscriber, || {
            let failure = Failure::retry("refused");
            fails(&failure, Some(0));
            fails(&failure, None);
            fails(&failure, Some(3));
            fails(&failure.blame(Blame::Host), Some(0));
        });
        let expected = [
            (Level::WARN, None),
            (Level::DEBUG, None),
            (Level::WARN, Some("3".to_owned())),
            (Level::ERROR, None),
        ];
        assert_eq!(*lines.0.lock(), expected);
    }
}

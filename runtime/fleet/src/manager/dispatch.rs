//! Hands keys that are ready to workers. Entry point: [`Core::dispatch`].

use super::controllers::Registered;
use super::core::Core;
use super::recent::LastRun;
use crate::cluster::Cluster;
use crate::cluster::scope::CallScope;
use crate::controller::{Attempt, Context, Ended, ReconcileId};
use crate::metrics::End;
use crate::outcome::{Action, Blame, Disposition};
use crate::queue::{Outcome, Run, Token};
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

impl Core {
    /// Runs until the drain begins.
    pub(super) async fn dispatch(self: Arc<Self>) {
        loop {
            let (runs, next) = self.take();
            for run in runs {
                self.start(run);
            }
            let wait = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = wait => {}
                () = self.draining.cancelled() => return,
            }
        }
    }

    /// Every key that may run now, and when the next may.
    fn take(&self) -> (Vec<Run>, Option<Instant>) {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        let runs = std::iter::from_fn(|| queue.get(now)).collect();
        let storms: Vec<_> = std::iter::from_fn(|| queue.hot_key()).collect();
        let drained: Vec<_> = std::iter::from_fn(|| queue.drained()).collect();
        let next = queue.next_wake();
        drop(queue);
        for controller in drained {
            if let Some(registered) = self.controllers.read().by_id.get(&controller) {
                registered.drained.notify_waiters();
            }
        }
        for (controller, request) in storms {
            self.tell_storm(controller, request);
        }
        (runs, next)
    }

    fn start(self: &Arc<Self>, run: Run) {
        let registered = self.controllers.read().by_id.get(&run.controller).cloned();
        let cluster = self.fleet.cluster(&run.request.cluster);
        let (Some(registered), Some(cluster)) = (registered, cluster) else {
            return self.end(run.token, Outcome::Gone);
        };
        let core = self.clone();
        self.attempts.spawn_on(
            async move { core.attempt(run, registered, cluster).await },
            &self.host,
        );
    }

    async fn attempt(
        self: Arc<Self>,
        run: Run,
        registered: Arc<Registered>,
        cluster: Arc<Cluster>,
    ) {
        let controller = registered.controller();
        let id = ReconcileId::random();
        let span = tracing::info_span!(
            "reconcile",
            tenant = %controller.tenant,
            reconciler = %controller.name,
            cluster = %run.request.cluster,
            namespace = run.request.key.namespace.as_deref().unwrap_or(""),
            name = &*run.request.key.name,
            %id,
        );
        let started = Instant::now();
        let attempts = registered.metrics.attempts(cluster.metrics());
        registered.metrics.started(run.waited);
        let deadline = tokio::time::Instant::now() + controller.options.timeout;
        let token = cluster.token().child_token();
        let fence = self.leadership.fence(&controller);
        let caller = registered.caller();
        let scope = CallScope::of_run(caller, token.clone(), Some(deadline), fence);
        let context = Context {
            request: run.request.clone(),
            id,
            attempt: run.attempt,
            cluster,
            grant: controller.grant.clone(),
            fleet: self.fleet.clone(),
            scope,
        };
        let removed = registered.removed();
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
            }
        };
        let ended = work.instrument(span.clone()).await;
        let time = started.elapsed();
        let outcome = outcome(&ended);
        span.in_scope(|| log(&ended, &run, time));
        registered.metrics.finished(&attempts, how(&ended), time);
        self.remember(&run, &ended, time);
        self.end(run.token, outcome);
        self.finished.notify_waiters();
    }

    /// Takes back a run. It ends on a thread of the reconcilers': the dispatcher's is woken only if it has something to do.
    fn end(&self, token: Token, outcome: Outcome) {
        let mut queue = self.queue.lock();
        let now = Instant::now();
        queue.done(now, token, outcome);
        let news = queue.has_news(now);
        drop(queue);
        if news {
            self.wake.notify_one();
        }
    }

    /// Keeps how a run ended, for who asks about its key.
    fn remember(&self, run: &Run, ended: &Ended, took: std::time::Duration) {
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
        self.recent.keep(run.controller, &run.request, last);
    }
}

/// What the queue is told.
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

/// What metrics are told.
fn how(ended: &Ended) -> End<'_> {
    match ended {
        Ended::Action(Action::Done) => End::Success,
        Ended::Action(Action::RequeueAfter(_)) => End::RequeueAfter,
        Ended::Gone => End::Gone,
        Ended::Failed(failure, _) => End::Failed(failure),
    }
}

/// One line per finished attempt.
fn log(ended: &Ended, run: &Run, time: std::time::Duration) {
    let duration_ms = time.as_secs_f64() * 1000.0;
    let (attempt, waited_ms) = (run.attempt, run.waited.as_secs_f64() * 1000.0);
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
            if failure.blame == Blame::Host {
                tracing::error!(
                    result,
                    blame,
                    reason,
                    error,
                    attempt,
                    duration_ms,
                    waited_ms,
                    "reconcile finished"
                );
            } else {
                tracing::warn!(
                    result,
                    blame,
                    reason,
                    error,
                    attempt,
                    duration_ms,
                    waited_ms,
                    "reconcile finished"
                );
            }
        }
    }
}

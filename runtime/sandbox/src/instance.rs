//! Instances of a component: made, called once, thrown away. Entry point: [`Code`].
//!
//! Every call has a store and an instance of its own, so that nothing of a guest outlives a call: no state that leaks from one
//! cluster to another, no memory that only grows, nothing broken by a trap.

use crate::bindings::exports::windlass::runtime::{mapper, reconciler};
use crate::bindings::windlass::runtime::types;
use crate::call::{Around, Call, Identity, Purpose, Time};
use crate::description::Description;
use crate::engine::{Sandbox, TICK};
use crate::failure::{self, OutOfTime};
use crate::handle::{ClusterHandle, Reach};
use crate::memory::Tenant;
use crate::options::{Limits, TenantLimits};
use crate::revision::{LoadError, Revision};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, UpdateDeadline};
use windlass_fleet::api::Json;
use windlass_fleet::{
    Action, Client, ClusterName, Context, ControllerName, Failure, Grant, GroupVersionKind,
    ObjectKey, Request, TenantName,
};

/// The wall time of `describe`, as a multiple of its own: for a machine that is busy with other things.
const DESCRIBE_PATIENCE: u32 = 40;

/// How long after its deadline a call that waits for the host is cut off. One that runs is interrupted at the deadline itself, which
/// is preferred, as it shows where the guest was.
const WAITING: Duration = Duration::from_millis(5);

/// A revision linked with the capabilities that one guest is given. Cheap to call.
pub(crate) struct Code {
    sandbox: Sandbox,
    pre: InstancePre<Call>,
    reconciler: reconciler::GuestIndices,
    mapper: Option<mapper::GuestIndices>,
}

/// What a call did to its bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Linear memory at the end, in bytes.
    pub(crate) memory: usize,
}

impl Code {
    /// Links a revision; with the interface `fleet` or without.
    pub(crate) fn bind(
        sandbox: &Sandbox,
        revision: &Revision,
        fleet: bool,
    ) -> Result<Self, LoadError> {
        if revision.uses_fleet() && !fleet {
            return Err(LoadError::FleetNotGranted);
        }
        let host = |error: wasmtime::Error| LoadError::Host {
            problem: format!("{error:#}"),
        };
        let pre = sandbox
            .linker(fleet)
            .instantiate_pre(revision.component())
            .map_err(host)?;
        let reconciler = reconciler::GuestIndices::new(&pre).map_err(host)?;
        let mapper = if revision.has_mapper() {
            Some(mapper::GuestIndices::new(&pre).map_err(host)?)
        } else {
            None
        };
        Ok(Self {
            sandbox: sandbox.clone(),
            pre,
            reconciler,
            mapper,
        })
    }

    /// Asks the guest what it wants, with every call to a cluster denied. The answer is checked by itself, not against a grant.
    pub(crate) async fn describe(&self, identity: Arc<Identity>) -> Result<Description, LoadError> {
        let timeout = self.sandbox.options().describe_timeout;
        let _slot = self.sandbox.slot().await;
        let run = self.run(
            identity,
            Purpose::Describe,
            Time {
                deadline: Instant::now() + DESCRIBE_PATIENCE * timeout,
                ticks: ticks(timeout),
            },
            async |store, instance| {
                self.reconciler
                    .load(&mut *store, instance)?
                    .call_describe(store)
                    .await
            },
        );
        let (outcome, _) = run.await;
        let described = outcome.map_err(|failure| LoadError::DescribeFailed {
            problem: describe_problem(failure, timeout),
        })?;
        let raw = described.map_err(|problem| LoadError::Refused {
            problem: problem.chars().take(1000).collect(),
        })?;
        Ok(Description::check(raw, self.mapper.is_some())?)
    }

    /// As [`Self::describe`], for a component that is no guest of anybody's yet.
    pub(crate) async fn describe_alone(&self, config: &str) -> Result<Description, LoadError> {
        let name = ControllerName::new("check").map_err(|error| LoadError::Host {
            problem: error.to_string(),
        })?;
        let identity = Identity {
            tenant: Tenant::new(TenantName::default(), &TenantLimits::default()),
            name,
            grant: Arc::new(Grant::none()),
            config: config.into(),
            limits: Limits::default(),
        };
        self.describe(Arc::new(identity)).await
    }

    /// Runs `reconcile` in an instance of its own.
    pub(crate) async fn reconcile(
        &self,
        identity: Arc<Identity>,
        context: Context,
    ) -> (Result<Action, Failure>, Usage) {
        let _slot = self.sandbox.slot().await;
        let deadline = deadline(identity.limits.timeout, context.deadline());
        let client = context.client(&identity.grant);
        let request = types::Request::from(&context.request);
        let run = self.run(
            identity,
            Purpose::Reconcile(context),
            Time::until(deadline),
            async |store, instance| {
                let cluster = store
                    .data_mut()
                    .give(ClusterHandle::new(client, Reach::Everything))?;
                self.reconciler
                    .load(&mut *store, instance)?
                    .call_reconcile(store, &request, cluster)
                    .await
            },
        );
        let (outcome, usage) = run.await;
        let outcome = outcome.and_then(|answer| answer.map(Action::from).map_err(Failure::from));
        (outcome, usage)
    }

    /// Runs `map-objects` in an instance of its own. `None`: the guest has no mapper.
    pub(crate) async fn map(
        &self,
        identity: Arc<Identity>,
        client: Client,
        around: Around,
        kind: &GroupVersionKind,
        objects: &[Json],
    ) -> Option<Result<Vec<Request>, String>> {
        let mapper = self.mapper.as_ref()?;
        let _slot = self.sandbox.slot().await;
        let deadline = deadline(identity.limits.timeout, None);
        let kind = types::GroupVersionKind::from(kind);
        let objects: Vec<String> = objects
            .iter()
            .map(|object| String::from_utf8_lossy(object).into_owned())
            .collect();
        let run = self.run(
            identity,
            Purpose::Map(around),
            Time::until(deadline),
            async |store, instance| {
                let cluster = store
                    .data_mut()
                    .give(ClusterHandle::new(client, Reach::CachedReads))?;
                mapper
                    .load(&mut *store, instance)?
                    .call_map_objects(store, cluster, &kind, &objects)
                    .await
            },
        );
        let (outcome, _) = run.await;
        Some(match outcome {
            Ok(Ok(requests)) => requests.into_iter().map(request).collect(),
            Ok(Err(problem)) => Err(problem),
            Err(failure) => Err(failure.message),
        })
    }

    /// One call, from a fresh store to its end. What the guest did wrong is a failure; the store is gone either way.
    async fn run<T>(
        &self,
        identity: Arc<Identity>,
        purpose: Purpose,
        time: Time,
        call: impl AsyncFnOnce(&mut Store<Call>, &Instance) -> wasmtime::Result<T>,
    ) -> (Result<T, Failure>, Usage) {
        let timeout = identity.limits.timeout;
        let mut store = self.store(Call::new(identity, purpose, time));
        let outcome = tokio::time::timeout_at(time.deadline + WAITING, async {
            let instance = self.pre.instantiate_async(&mut store).await?;
            call(&mut store, &instance).await
        });
        let outcome = outcome.await;
        store.data_mut().revoke();
        let usage = Usage {
            memory: store.data().meter.memory(),
        };
        let result = match outcome {
            Ok(Ok(value)) => {
                store.data().journal.finish();
                Ok(value)
            }
            Ok(Err(error)) => Err(failure::explain(&error, store.data())),
            Err(_) => {
                store.data().journal.finish();
                Err(failure::timed_out_waiting(timeout))
            }
        };
        (result, usage)
    }

    fn store(&self, call: Call) -> Store<Call> {
        let mut store = Store::new(self.sandbox.engine(), call);
        let (host_call_bytes, handles) = {
            let limits = &store.data().identity.limits;
            (limits.host_call_bytes, limits.handles)
        };
        store.limiter(|call| &mut call.meter);
        store.set_hostcall_fuel(host_call_bytes);
        store.set_max_component_handles(handles);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut context| {
            if context.data_mut().time.tick() {
                Ok(UpdateDeadline::Yield(1))
            } else {
                Err(OutOfTime.into())
            }
        });
        store
    }
}

/// A little before whoever called gives up, so that the guest is interrupted where it is and not just dropped.
fn deadline(timeout: Duration, outer: Option<Instant>) -> Instant {
    let own = Instant::now() + timeout;
    match outer {
        Some(outer) if outer <= own => outer - (timeout / 20).min(Duration::from_millis(20)),
        _ => own,
    }
}

/// A time as ticks, at least two: the first may come at once.
fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / TICK.as_nanos())
        .unwrap_or(u32::MAX)
        .max(2)
}

fn describe_problem(failure: Failure, timeout: Duration) -> String {
    match failure.reason {
        "timeout" => format!(
            "no answer within {timeout:?}: describe must only say what the guest wants{}",
            after(&failure.message, "it was busy")
        ),
        _ => failure.message,
    }
}

/// The rest of a message from a phrase on, in parentheses.
fn after(message: &str, phrase: &str) -> String {
    message
        .split_once(phrase)
        .map(|(_, rest)| format!(" ({phrase}{rest})"))
        .unwrap_or_default()
}

fn request(raw: types::Request) -> Result<Request, String> {
    let cluster = ClusterName::new(&raw.cluster)
        .map_err(|error| format!("the mapper answered a request of no cluster: {error}"))?;
    Ok(Request::new(cluster, ObjectKey::from(raw.key)))
}

#[cfg(test)]
mod tests;

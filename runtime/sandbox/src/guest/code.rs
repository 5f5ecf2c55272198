//! Calls of a guest, each in an instance. Entry point: [`Code`].
//!
//! By default every call has a store and an instance of its own. So nothing of a guest survives a call: no state that leaks from one
//! cluster to another, no memory that only grows, nothing that a trap left broken.
//!
//! A call reserves memory of its tenant, then a slot, and holds neither while it waits for memory. It runs on a worker of the scheduler.
//! At its deadline a call that computes is interrupted; a call that waits is cut off a little later.

mod exports;
pub(crate) mod snapshot;

use crate::admission::evictable::Evictable;
use crate::admission::memory::Reservation;
use crate::admission::slots::Slot;
use crate::clean::clean;
use crate::component::revision::{Body as RevisionBody, LoadError, Revision};
use crate::contract::handle::{ClusterHandle, Reach};
use crate::contract::windlass::runtime::types;
use crate::description::Description;
use crate::engine::Sandbox;
use crate::instance::call::{Call, FleetView, Purpose, Time};
use crate::instance::failure::{self, CallError, OutOfTime};
use crate::instance::pooled::{Body, IdlePool, PooledInstance};
use crate::options::{Isolation, Limits, TenantLimits};
use crate::recording::Recording;
use crate::scheduler::Unfinished;
use crate::tape::Tape;
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History};
use crate::tenant::usage::Limit;
use exports::Exports;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use wasmtime::component::{Instance, InstancePre};
use wasmtime::{Store, UpdateDeadline};
use windlass_fleet::api::Json;
use windlass_fleet::name::NameError;
use windlass_fleet::{
    Action, Client, ClusterName, Context, ControllerName, Failure, Grant, GroupVersionKind,
    ObjectKey, Request, TenantName,
};

/// The longest `describe` by the clock, in multiples of its processor time: other programs may have the processors.
const DESCRIBE_PATIENCE: u32 = 20;

/// Longest reason of a guest that refuses to start, in bytes.
pub(super) const REFUSAL: usize = 1000;

/// How long after its deadline a call that waits, for the host or in the run queue, is cut off. A call that computes is interrupted at
/// the deadline itself, which is better, because it shows the guest's stack.
const GRACE: Duration = Duration::from_millis(40);

/// The grace is at most one 25th of the timeout, so that a call with a short timeout overruns it by little.
const GRACE_OF_TIMEOUT: u32 = 25;

/// A call is interrupted before the fleet's deadline by the grace and a fourth of it, so that it ends before the fleet drops it.
const MARGIN_OF_GRACE: u32 = 4;

/// Longest wait for the memory and the slot of a guest that is being loaded.
const WAIT_TO_LOAD: Duration = Duration::from_secs(30);

/// Why a mapper has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MapError {
    /// It could not begin, or did not come back.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The guest returned an error.
    #[error("{0}")]
    Guest(String),
    /// A request with a bad cluster.
    #[error("the mapper answered a request of no cluster: {0}")]
    Cluster(NameError),
    /// A request with a bad key.
    #[error("the mapper answered a request of no object: {0}")]
    Object(windlass_fleet::ObjectNameError),
}

/// A revision, linked with the capabilities of one guest.
pub(crate) struct Code {
    sandbox: Sandbox,
    pre: InstancePre<Call>,
    /// For calls that have a tape. Made for the first one.
    taped: OnceLock<InstancePre<Call>>,
    exports: Exports,
    /// Initial memory of an instance, in bytes.
    least: usize,
    /// Idle instances for later calls of `reconcile`, if the operator allows reuse.
    idle_pool: Option<Arc<IdlePool>>,
}

impl Code {
    /// Links a revision, with or without the interface `fleet`.
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
        let RevisionBody::Component(component) = revision.body() else {
            return Err(LoadError::NoComponent);
        };
        let pre = sandbox
            .linker(fleet)
            .instantiate_pre(component)
            .map_err(host)?;
        Ok(Self {
            sandbox: sandbox.clone(),
            exports: Exports::of(&pre, revision.has_mapper()).map_err(host)?,
            pre,
            taped: OnceLock::new(),
            least: revision.least_memory(),
            idle_pool: None,
        })
    }

    /// The same code with this isolation. The tenant and the engine may evict its idle instances.
    pub(crate) fn isolated(self, isolation: Isolation, tenant: &Tenant) -> Self {
        let idle_pool = match isolation {
            Isolation::Fresh => None,
            Isolation::Reuse(bounds) => Some(Arc::new(IdlePool::new(bounds))),
        };
        if let Some(idle_pool) = &idle_pool {
            let idle_pool: Arc<dyn Evictable> = idle_pool.clone();
            tenant.evictable().add(Arc::downgrade(&idle_pool));
            self.sandbox.evictable().add(Arc::downgrade(&idle_pool));
        }
        Self { idle_pool, ..self }
    }

    /// The same code without its idle instances.
    pub(crate) fn without_idle(&self, isolation: Isolation, tenant: &Tenant) -> Self {
        let code = Self {
            sandbox: self.sandbox.clone(),
            pre: self.pre.clone(),
            taped: self.taped.clone(),
            exports: self.exports.clone(),
            least: self.least,
            idle_pool: None,
        };
        code.isolated(isolation, tenant)
    }

    /// Idle instances.
    pub(crate) fn idle(&self) -> usize {
        self.idle_pool
            .as_ref()
            .map_or(0, |idle_pool| idle_pool.len())
    }

    /// Calls `describe`, which reaches no cluster. The description is checked by itself, not against a grant.
    pub(crate) async fn describe(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
    ) -> Result<Description, LoadError> {
        let timeout = self.sandbox.options().describe_timeout;
        let admitted = self.admit(&guest, true, Instant::now() + WAIT_TO_LOAD);
        let (reservation, slot) = admitted.await.map_err(|full| {
            let problem = format!("it could not begin within {WAIT_TO_LOAD:?}: {full}");
            LoadError::Host { problem }
        })?;
        let deadline = Instant::now() + DESCRIBE_PATIENCE * timeout;
        let time = Time::of_computing(timeout, deadline);
        let store = self.store(Call::new(guest, reservation, Purpose::Describe, time));
        let pooled = PooledInstance::new(store, slot, self.sandbox.teardown());
        let code = self.clone();
        let outcome = self.on_a_worker(pooled, |pooled| async move {
            let run = code.run(pooled, async |store, instance| {
                code.exports.describe(store, instance).await
            });
            run.await.map(|(answer, _)| answer)
        });
        let described = outcome.await.map_err(|error| LoadError::DescribeFailed {
            problem: describe_problem(error, timeout),
        })?;
        let raw = described.map_err(|problem| LoadError::Refused {
            problem: clean(&problem, REFUSAL),
        })?;
        Ok(Description::check(raw, self.exports.has_mapper())?)
    }

    /// As [`Self::describe`], for a component that belongs to no tenant yet. Also returns the memory of its instance, in bytes.
    pub(crate) async fn describe_alone(
        self: &Arc<Self>,
        config: &str,
    ) -> Result<(Description, usize), LoadError> {
        let name = ControllerName::new("check").map_err(|error| LoadError::Host {
            problem: error.to_string(),
        })?;
        let guest = GuestContext::new(
            Tenant::new(TenantName::default(), &TenantLimits::default()),
            name,
            Arc::new(Grant::none()),
            config.into(),
            Limits::default(),
            History::default(),
        );
        let description = self.describe(guest.clone()).await?;
        Ok((description, guest.usage().memory_peak()))
    }

    /// Calls `reconcile`, in a new instance or an idle one. A call with a tape has a new one: an idle one remembers what no tape has.
    pub(crate) async fn reconcile(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
        context: Context,
        tape: Option<Arc<Tape>>,
    ) -> Result<Action, Failure> {
        let deadline = deadline(guest.limits.timeout, context.deadline());
        let client = context.client(&guest.given).with_policy(guest.clone());
        let request = types::Request::from(&context.request);
        let (cancelled, has_tape) = (context.cancelled().clone(), tape.is_some());
        let pooled = self
            .pooled_instance(&guest, Purpose::Reconcile(context), deadline, tape)
            .await
            .map_err(CallError::into_failure)?;
        let cluster = ClusterHandle::new(client, Reach::Everything);
        // After a cancelled call: its calls of the cluster were cut short, and a later call must not rely on what it remembers of them.
        let keep = move || !has_tape && !cancelled.is_cancelled();
        self.ask_to_reconcile(pooled, request, cluster, deadline, keep)
            .await
    }

    /// Calls `reconcile` with all of its inputs from a tape, for the request of a recording.
    pub(crate) async fn play(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
        recording: &Recording,
        cluster: ClusterName,
        tape: Arc<Tape>,
    ) -> Result<Action, Failure> {
        let deadline = deadline(guest.limits.timeout, None);
        let request = types::Request::from(&recording.request);
        let pooled = self
            .pooled_instance(&guest, Purpose::Play, deadline, Some(tape))
            .await
            .map_err(CallError::into_failure)?;
        let cluster = ClusterHandle::played(cluster);
        self.ask_to_reconcile(pooled, request, cluster, deadline, || false)
            .await
    }

    /// Calls `reconcile` in this instance. `keep`: whether it may serve another call then.
    async fn ask_to_reconcile(
        self: &Arc<Self>,
        pooled: PooledInstance,
        request: types::Request,
        cluster: ClusterHandle,
        deadline: Instant,
        keep: impl FnOnce() -> bool + Send + 'static,
    ) -> Result<Action, Failure> {
        let code = self.clone();
        let outcome = self.on_a_worker(pooled, |pooled| async move {
            let run = code.run(pooled, async |store, instance| {
                let cluster = store.data_mut().give(cluster)?;
                let given = (&request, cluster);
                code.exports.reconcile(store, instance, given).await
            });
            let (answer, pooled) = run.await?;
            if keep() {
                code.keep(pooled, deadline).await;
            } else {
                code.sandbox.discard(pooled, deadline).await;
            }
            Ok(answer)
        });
        let answer = outcome.await.map_err(CallError::into_failure)?;
        answer.map(Action::from).map_err(types::Failure::cleaned)
    }

    /// Runs a call on a worker of the scheduler, until its deadline. A call that waits is cut off soon after it.
    async fn on_a_worker<T, F>(
        &self,
        pooled: PooledInstance,
        call: impl FnOnce(PooledInstance) -> F,
    ) -> Result<T, CallError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, CallError>> + Send + 'static,
    {
        let (guest, time, loading) = {
            let call = pooled.store.data();
            let loading = matches!(call.purpose, Purpose::Describe);
            (call.guest.clone(), call.time.clone(), loading)
        };
        let timeout = guest.limits.timeout;
        let scheduler = self.sandbox.scheduler();
        let spawned = scheduler.spawn(&guest, loading, time.processor, call(pooled));
        let outcome = spawned.until(time.deadline + grace(timeout)).await;
        outcome.unwrap_or_else(|unfinished| {
            guest.hit(Limit::Timeout);
            Err(match unfinished {
                Unfinished::Ready => CallError::TimeoutReady(timeout),
                Unfinished::Waiting => CallError::TimeoutWaiting(timeout),
            })
        })
    }

    /// An instance for a call: an idle one, or a new one.
    async fn pooled_instance(
        &self,
        guest: &Arc<GuestContext>,
        purpose: Purpose,
        deadline: Instant,
        tape: Option<Arc<Tape>>,
    ) -> Result<PooledInstance, CallError> {
        let time = Time::until(deadline);
        let idle_pool = self.idle_pool.as_ref().filter(|_| tape.is_none());
        if let Some(mut pooled) = idle_pool.and_then(|idle_pool| idle_pool.take()) {
            let call = pooled.store.data_mut();
            call.begin(purpose, time);
            let handles = call.most_handles();
            pooled.store.set_max_component_handles(handles);
            return Ok(pooled);
        }
        let (reservation, slot) = self.admit(guest, false, deadline).await?;
        let call = Call::new(guest.clone(), reservation, purpose, time);
        let store = self.store(call.with_tape(tape));
        Ok(PooledInstance::new(store, slot, self.sandbox.teardown()))
    }

    /// Waits for the memory and the slot of a new instance, in this order: a call that waits for memory holds nothing that others need.
    async fn admit(
        &self,
        guest: &GuestContext,
        loading: bool,
        until: Instant,
    ) -> Result<(Reservation, Slot), CallError> {
        let tenant = &guest.tenant;
        let usual = guest.usage().memory_usual();
        let bytes = usual.min(guest.limits.memory).max(self.least);
        let reservation = match tenant.try_reserve(bytes, loading) {
            Some(reservation) => reservation,
            None => {
                guest.hit(Limit::TenantMemory);
                let reservation = tenant.reserve(bytes, loading);
                let reserved = tokio::time::timeout_at(until, reservation).await;
                reserved.map_err(|_| CallError::NoMemory)?
            }
        };
        let slot = self.sandbox.slot(tenant, loading);
        let slot = tokio::time::timeout_at(until, slot).await;
        Ok((reservation, slot.map_err(|_| CallError::NoSlot)?))
    }

    /// Keeps an instance idle, if it may serve another call and nothing else needs its slot or its memory.
    async fn keep(&self, pooled: PooledInstance, deadline: Instant) {
        let tenant = pooled.store.data().guest.tenant.clone();
        let kept = match &self.idle_pool {
            Some(idle_pool)
                if !self.sandbox.is_short_of_slots() && !tenant.is_short_of_memory() =>
            {
                idle_pool.keep(pooled)
            }
            _ => Err(pooled),
        };
        match kept {
            Ok(()) => {
                self.sandbox.sweep();
                self.sandbox.evict_if_short_of_slots();
                if tenant.is_short_of_memory() {
                    tenant.evictable().evict_one();
                }
            }
            Err(pooled) => self.sandbox.discard(pooled, deadline).await,
        }
    }

    /// Calls `map-objects` in a new instance. `None`: the guest has no mapper.
    pub(crate) async fn map(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
        client: Client,
        view: FleetView,
        kind: &GroupVersionKind,
        objects: &[Json],
    ) -> Option<Result<Vec<Request>, MapError>> {
        if !self.exports.has_mapper() {
            return None;
        }
        let deadline = deadline(guest.limits.timeout, None);
        let kind = types::GroupVersionKind::from(kind);
        let objects: Vec<String> = objects
            .iter()
            .map(|object| String::from_utf8_lossy(object).into_owned())
            .collect();
        let client = client.with_policy(guest.clone());
        // Never in a reused instance: events of all clusters would share its state.
        let (reservation, slot) = match self.admit(&guest, false, deadline).await {
            Ok(admitted) => admitted,
            Err(full) => return Some(Err(full.into())),
        };
        let call = Call::new(
            guest,
            reservation,
            Purpose::Map(view),
            Time::until(deadline),
        );
        let store = self.store(call);
        let pooled = PooledInstance::new(store, slot, self.sandbox.teardown());
        let code = self.clone();
        let answer = self.on_a_worker(pooled, |pooled| async move {
            let run = code.run(pooled, async |store, instance| {
                let cluster = store
                    .data_mut()
                    .give(ClusterHandle::new(client, Reach::CachedReads))?;
                let changed = (&kind, objects.as_slice());
                let map = code.exports.map_objects(store, instance, cluster, changed);
                map.await
            });
            let (answer, pooled) = run.await?;
            code.sandbox.discard(pooled, deadline).await;
            Ok(answer)
        });
        let answer = match answer.await {
            Ok(mapped) => requests(mapped),
            Err(error) => Err(error.into()),
        };
        Some(answer)
    }

    /// Runs one call to its end. If it fails, its instance is discarded.
    async fn run<T>(
        &self,
        mut pooled: PooledInstance,
        call: impl AsyncFnOnce(&mut Store<Call>, &Instance) -> wasmtime::Result<T>,
    ) -> Result<(T, PooledInstance), CallError> {
        let outcome = {
            let Body {
                store, instance, ..
            } = &mut *pooled;
            store.set_epoch_deadline(1);
            self.enter(store, instance, call).await
        };
        let call_data = pooled.store.data_mut();
        let last_error = call_data.end();
        let error = match outcome {
            Ok(value) => return Ok((value, pooled)),
            Err(error) => error,
        };
        let deadline = call_data.time.deadline;
        let error = failure::explain(&error, call_data, last_error);
        if let Some(limit) = error.limit() {
            call_data.guest.hit(limit);
        }
        tracing::debug!(computed = ?call_data.time.processor.used(), "the instance of a failed call is discarded");
        self.sandbox.discard(pooled, deadline).await;
        Err(error)
    }

    /// Makes the instance if there is none, and calls it.
    async fn enter<T>(
        &self,
        store: &mut Store<Call>,
        instance: &mut Option<Instance>,
        call: impl AsyncFnOnce(&mut Store<Call>, &Instance) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let instance = match *instance {
            Some(instance) => instance,
            None => {
                let pre = match store.data().tape() {
                    None => &self.pre,
                    Some(_) => self.taped()?,
                };
                *instance.insert(pre.instantiate_async(&mut *store).await?)
            }
        };
        call(store, &instance).await
    }

    /// The component, linked to functions that use a tape.
    fn taped(&self) -> wasmtime::Result<&InstancePre<Call>> {
        if let Some(taped) = self.taped.get() {
            return Ok(taped);
        }
        let linker = self.sandbox.taped_linker()?;
        let taped = linker.instantiate_pre(self.pre.component())?;
        Ok(self.taped.get_or_init(|| taped))
    }

    fn store(&self, call: Call) -> Store<Call> {
        let mut store = Store::new(self.sandbox.engine(), call);
        let (host_call_bytes, handles) = {
            let limits = &store.data().guest.limits;
            (limits.host_call_bytes, limits.handles)
        };
        store.limiter(|call| &mut call.meter);
        store.set_hostcall_fuel(host_call_bytes);
        store.set_max_component_handles(handles);
        store.epoch_deadline_callback(|context| {
            let time = &context.data().time;
            if !time.is_left() {
                return Err(OutOfTime.into());
            }
            // The epoch moves for all guests that run.
            Ok(if time.processor.is_slice_over() {
                UpdateDeadline::Yield(1)
            } else {
                UpdateDeadline::Continue(1)
            })
        });
        store
    }
}

/// When a call is interrupted: early enough that it has ended before the fleet's deadline, at which it would just be dropped.
fn deadline(timeout: Duration, outer: Option<Instant>) -> Instant {
    let own = Instant::now() + timeout;
    match outer {
        Some(outer) if outer <= own => {
            outer - grace(timeout) * (MARGIN_OF_GRACE + 1) / MARGIN_OF_GRACE
        }
        _ => own,
    }
}

/// How long after its deadline a call that waits is cut off.
fn grace(timeout: Duration) -> Duration {
    (timeout / GRACE_OF_TIMEOUT).min(GRACE)
}

fn describe_problem(error: CallError, timeout: Duration) -> String {
    let stack = match error {
        CallError::TimeoutBusy { stack, .. } => format!(" (it was busy{stack})"),
        CallError::TimeoutReady(_) | CallError::TimeoutWaiting(_) => String::new(),
        other => return other.into_failure().message,
    };
    format!("no answer within {timeout:?}: describe must only say what the guest wants{stack}")
}

/// The requests of a mapper's answer.
pub(super) fn requests(
    mapped: Result<Vec<types::Request>, String>,
) -> Result<Vec<Request>, MapError> {
    let requests = mapped.map_err(MapError::Guest)?;
    requests.into_iter().map(request).collect()
}

fn request(raw: types::Request) -> Result<Request, MapError> {
    let cluster = ClusterName::new(&raw.cluster).map_err(MapError::Cluster)?;
    let key = ObjectKey::from(raw.key);
    key.check().map_err(MapError::Object)?;
    Ok(Request::new(cluster, key))
}

#[cfg(test)]
mod tests;

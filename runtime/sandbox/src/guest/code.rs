//! Instances of a component: made, called, thrown away. Entry point: [`Code`].
//!
//! Unless its operator says otherwise, every call has a store and an instance of its own, so that nothing of a guest outlives a
//! call: no state that leaks from one cluster to another, no memory that only grows, nothing broken by a trap.

use crate::admission::evictable::Evictable;
use crate::admission::memory::Reservation;
use crate::admission::slots::Slot;
use crate::clean::clean;
use crate::component::revision::{LoadError, Revision};
use crate::contract::exports::windlass::runtime::{mapper, reconciler};
use crate::contract::handle::{ClusterHandle, Reach};
use crate::contract::windlass::runtime::types;
use crate::description::Description;
use crate::engine::Sandbox;
use crate::instance::call::{Around, Call, Purpose, Time};
use crate::instance::failure::{self, CallError, OutOfTime};
use crate::instance::pooled::{Body, IdlePool, PooledInstance};
use crate::options::{Isolation, Limits, TenantLimits};
use crate::scheduler::Unfinished;
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History};
use crate::tenant::usage::Limit;
use std::sync::Arc;
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

/// The wall time of `describe`, as a multiple of its own: for a machine that is busy with other things.
const DESCRIBE_PATIENCE: u32 = 40;

/// Longest reason of a guest that refuses to start, in bytes.
const REFUSAL: usize = 1000;

/// How long after its deadline a call that waits, for the host or in the run queue, is cut off. One that runs is interrupted at the
/// deadline itself, which is preferred, as it shows where the guest was. Less for calls that may take little: whoever called must not
/// give up before.
const WAITING: Duration = Duration::from_millis(40);

/// Longest wait for room for the instance of a guest that is loaded.
const ROOM_TO_LOAD: Duration = Duration::from_secs(30);

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
    Object(windlass_fleet::request::NameError),
}

/// A revision linked with the capabilities that one guest is given. Cheap to call.
pub(crate) struct Code {
    sandbox: Sandbox,
    pre: InstancePre<Call>,
    reconciler: reconciler::GuestIndices,
    mapper: Option<mapper::GuestIndices>,
    /// Memory that an instance has from its beginning, in bytes.
    least: usize,
    /// Instances that wait for another call of `reconcile`, where the operator allows it.
    idle_pool: Option<Arc<IdlePool>>,
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
            least: revision.least_memory(),
            idle_pool: None,
        })
    }

    /// The same code, whose instances are kept apart in this way. They are the tenant's and the engine's to give up.
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

    /// The same code, with nothing of what its instances hold for later calls.
    pub(crate) fn anew(&self, isolation: Isolation, tenant: &Tenant) -> Self {
        let code = Self {
            sandbox: self.sandbox.clone(),
            pre: self.pre.clone(),
            reconciler: self.reconciler.clone(),
            mapper: self.mapper.clone(),
            least: self.least,
            idle_pool: None,
        };
        code.isolated(isolation, tenant)
    }

    /// Instances that wait for another call.
    pub(crate) fn idle(&self) -> usize {
        self.idle_pool
            .as_ref()
            .map_or(0, |idle_pool| idle_pool.len())
    }

    /// Asks the guest what it wants, with every call to a cluster denied. The answer is checked by itself, not against a grant.
    pub(crate) async fn describe(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
    ) -> Result<Description, LoadError> {
        let timeout = self.sandbox.options().describe_timeout;
        let room = self.room(&guest, true, Instant::now() + ROOM_TO_LOAD);
        let (reservation, slot) = room.await.map_err(|full| {
            let problem = format!("it could not begin within {ROOM_TO_LOAD:?}: {full}");
            LoadError::Host { problem }
        })?;
        let deadline = Instant::now() + DESCRIBE_PATIENCE * timeout;
        let time = Time::of_computing(timeout, deadline);
        let store = self.store(Call::new(guest, reservation, Purpose::Describe, time));
        let pooled = PooledInstance::new(store, slot, self.sandbox.teardown());
        let code = self.clone();
        let outcome = self.on_a_worker(pooled, |pooled| async move {
            let run = code.run(pooled, async |store, instance| {
                code.reconciler
                    .load(&mut *store, instance)?
                    .call_describe(store)
                    .await
            });
            run.await.map(|(answer, _)| answer)
        });
        let described = outcome.await.map_err(|error| LoadError::DescribeFailed {
            problem: describe_problem(error, timeout),
        })?;
        let raw = described.map_err(|problem| LoadError::Refused {
            problem: clean(&problem, REFUSAL),
        })?;
        Ok(Description::check(raw, self.mapper.is_some())?)
    }

    /// As [`Self::describe`], for a component that is no guest of anybody's yet; and how much memory its instance had, in bytes.
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

    /// Runs `reconcile`, in an instance of its own or in one that waited for another call.
    pub(crate) async fn reconcile(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
        context: Context,
    ) -> Result<Action, Failure> {
        let deadline = deadline(guest.limits.timeout, context.deadline());
        let client = context.client(&guest.given).with_policy(guest.clone());
        let request = types::Request::from(&context.request);
        let cancelled = context.cancelled().clone();
        let pooled = self
            .pooled_instance(&guest, Purpose::Reconcile(context), deadline)
            .await?;
        let code = self.clone();
        let outcome = self.on_a_worker(pooled, |pooled| async move {
            let run = code.run(pooled, async |store, instance| {
                let cluster = store
                    .data_mut()
                    .give(ClusterHandle::new(client, Reach::Everything))?;
                code.reconciler
                    .load(&mut *store, instance)?
                    .call_reconcile(store, &request, cluster)
                    .await
            });
            let (answer, pooled) = run.await?;
            if cancelled.is_cancelled() {
                // It returned, but its calls were cut short: what it remembers of them is not to be built upon.
                code.sandbox.discard(pooled, deadline).await;
            } else {
                code.keep(pooled, deadline).await;
            }
            Ok(answer)
        });
        let answer = outcome.await?;
        answer.map(Action::from).map_err(Failure::from)
    }

    /// Runs a call on a worker of the scheduler, up to its deadline. A call that waits is cut off soon after the deadline.
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
        let outcome = spawned.until(time.deadline + waiting(timeout)).await;
        outcome.unwrap_or_else(|unfinished| {
            guest.hit(Limit::Timeout);
            Err(match unfinished {
                Unfinished::Ready => CallError::TimeoutReady(timeout),
                Unfinished::Waiting => CallError::TimeoutWaiting(timeout),
            })
        })
    }

    /// Where a call runs: in an instance that waited for it, or in a new one.
    async fn pooled_instance(
        &self,
        guest: &Arc<GuestContext>,
        purpose: Purpose,
        deadline: Instant,
    ) -> Result<PooledInstance, CallError> {
        let time = Time::until(deadline);
        if let Some(mut pooled) = self
            .idle_pool
            .as_ref()
            .and_then(|idle_pool| idle_pool.take())
        {
            let call = pooled.store.data_mut();
            call.begin(purpose, time);
            let handles = call.most_handles();
            pooled.store.set_max_component_handles(handles);
            return Ok(pooled);
        }
        let (reservation, slot) = self.room(guest, false, deadline).await?;
        let store = self.store(Call::new(guest.clone(), reservation, purpose, time));
        Ok(PooledInstance::new(store, slot, self.sandbox.teardown()))
    }

    /// Room for a new instance: memory of its tenant, then a place. Who waits for memory holds nothing that others need.
    async fn room(
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

    /// Keeps an instance for another call, if it may serve one and nobody else needs its place.
    async fn keep(&self, pooled: PooledInstance, deadline: Instant) {
        let tenant = pooled.store.data().guest.tenant.clone();
        let kept = match &self.idle_pool {
            Some(idle_pool) if self.sandbox.has_room() && !tenant.is_short_of_memory() => {
                idle_pool.keep(pooled)
            }
            _ => Err(pooled),
        };
        match kept {
            Ok(()) => {
                self.sandbox.sweep();
                self.sandbox.make_room();
                if tenant.is_short_of_memory() {
                    tenant.evictable().evict_one();
                }
            }
            Err(pooled) => self.sandbox.discard(pooled, deadline).await,
        }
    }

    /// Runs `map-objects` in an instance of its own. `None`: the guest has no mapper.
    pub(crate) async fn map(
        self: &Arc<Self>,
        guest: Arc<GuestContext>,
        client: Client,
        around: Around,
        kind: &GroupVersionKind,
        objects: &[Json],
    ) -> Option<Result<Vec<Request>, MapError>> {
        let mapper = self.mapper.clone()?;
        let deadline = deadline(guest.limits.timeout, None);
        let kind = types::GroupVersionKind::from(kind);
        let objects: Vec<String> = objects
            .iter()
            .map(|object| String::from_utf8_lossy(object).into_owned())
            .collect();
        let client = client.with_policy(guest.clone());
        // Events come from everywhere: what a guest remembers between them would be nobody's.
        let (reservation, slot) = match self.room(&guest, false, deadline).await {
            Ok(room) => room,
            Err(full) => return Some(Err(full.into())),
        };
        let call = Call::new(
            guest,
            reservation,
            Purpose::Map(around),
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
                mapper
                    .load(&mut *store, instance)?
                    .call_map_objects(store, cluster, &kind, &objects)
                    .await
            });
            let (answer, pooled) = run.await?;
            code.sandbox.discard(pooled, deadline).await;
            Ok(answer)
        });
        let answer = match answer.await {
            Ok(Ok(requests)) => requests.into_iter().map(request).collect(),
            Ok(Err(problem)) => Err(MapError::Guest(problem)),
            Err(error) => Err(error.into()),
        };
        Some(answer)
    }

    /// One call, to its end. What the guest did wrong is a failure, and its instance is gone then.
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

    /// Calls into the instance, which is made first if there is none.
    async fn enter<T>(
        &self,
        store: &mut Store<Call>,
        instance: &mut Option<Instance>,
        call: impl AsyncFnOnce(&mut Store<Call>, &Instance) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        let instance = match *instance {
            Some(instance) => instance,
            None => *instance.insert(self.pre.instantiate_async(&mut *store).await?),
        };
        call(store, &instance).await
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
            Ok(match time.processor.is_slice_over() {
                true => UpdateDeadline::Yield(1),
                false => UpdateDeadline::Continue(1),
            })
        });
        store
    }
}

/// A little before whoever called gives up, so that the guest is interrupted where it is and not just dropped.
fn deadline(timeout: Duration, outer: Option<Instant>) -> Instant {
    let own = Instant::now() + timeout;
    match outer {
        Some(outer) if outer <= own => outer - waiting(timeout) * 5 / 4,
        _ => own,
    }
}

/// How long after its deadline a call that waits is cut off.
fn waiting(timeout: Duration) -> Duration {
    (timeout / 25).min(WAITING)
}

fn describe_problem(error: CallError, timeout: Duration) -> String {
    let stack = match error {
        CallError::TimeoutBusy { stack, .. } => format!(" (it was busy{stack})"),
        CallError::TimeoutReady(_) | CallError::TimeoutWaiting(_) => String::new(),
        other => return Failure::from(other).message,
    };
    format!("no answer within {timeout:?}: describe must only say what the guest wants{stack}")
}

fn request(raw: types::Request) -> Result<Request, MapError> {
    let cluster = ClusterName::new(&raw.cluster).map_err(MapError::Cluster)?;
    let key = ObjectKey::from(raw.key);
    key.check().map_err(MapError::Object)?;
    Ok(Request::new(cluster, key))
}

#[cfg(test)]
mod tests;

//! What the host knows during one call of a guest; the data of its store. Entry point: [`Call`].

use crate::handle::ClusterHandle;
use crate::journal::{Journal, Stdio};
use crate::memory::{Meter, Tenant};
use crate::options::Limits;
use std::sync::Arc;
use tokio::time::Instant;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use windlass_fleet::cluster::Fleet;
use windlass_fleet::{Cluster, Context, ControllerName, Grant};

/// What a guest is to the host: the same for all of its calls until its configuration changes.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) name: ControllerName,
    pub(crate) grant: Arc<Grant>,
    /// JSON.
    pub(crate) config: Arc<str>,
    pub(crate) limits: Limits,
}

/// What the guest was called for, which decides what it may reach.
pub(crate) enum Purpose {
    /// `describe`: no cluster at all.
    Describe,
    /// `reconcile`: the request's cluster, and others within the grant.
    Reconcile(Context),
    /// `map-objects`: cached reads of the cluster whose objects changed.
    Map(Around),
}

/// The fleet as it is seen from one of its clusters.
#[derive(Clone)]
pub(crate) struct Around {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) fleet: Fleet,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    /// When the guest is interrupted, whatever it did.
    pub(crate) deadline: Instant,
    /// Ticks of the engine that the guest may see. A tick is about a millisecond, and one during which the thread did not get
    /// to run counts once, however long it was: a busy machine does not make a guest slow.
    pub(crate) ticks: u32,
}

impl Time {
    /// Until a deadline.
    pub(crate) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            ticks: u32::MAX,
        }
    }

    /// Counts a tick; `false` when the time is up.
    pub(crate) fn tick(&mut self) -> bool {
        self.ticks = self.ticks.saturating_sub(1);
        self.ticks > 0 && Instant::now() < self.deadline
    }
}

/// One call. Lives as long as its store.
pub(crate) struct Call {
    pub(crate) identity: Arc<Identity>,
    pub(crate) purpose: Purpose,
    pub(crate) time: Time,
    pub(crate) table: ResourceTable,
    pub(crate) meter: Meter,
    pub(crate) journal: Journal,
    /// Handles given out by this call. Each is revoked when the call ends, and deleted only when the guest drops it: the table
    /// would reuse its index, and a guest that kept it would reach into another cluster.
    given: Vec<u32>,
    /// Made when the guest first uses WASI; most never do.
    wasi: Option<WasiCtx>,
}

impl Call {
    pub(crate) fn new(identity: Arc<Identity>, purpose: Purpose, time: Time) -> Self {
        let limits = &identity.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let meter = Meter::new(
            identity.tenant.clone(),
            limits.memory,
            limits.table_elements,
        );
        let journal = Journal::new(limits.log_bytes);
        Self {
            identity,
            purpose,
            time,
            table,
            meter,
            journal,
            given: Vec::new(),
            wasi: None,
        }
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

    /// Ends the call: what the guest still holds no longer reaches anything.
    pub(crate) fn revoke(&mut self) {
        for rep in self.given.drain(..) {
            if let Ok(handle) = self
                .table
                .get_mut(&Resource::<ClusterHandle>::new_borrow(rep))
            {
                handle.revoke();
            }
        }
    }

    /// Forgets a handle that the guest dropped: its index may be given out again.
    pub(crate) fn forget(&mut self, rep: u32) {
        self.given.retain(|given| *given != rep);
    }
}

impl WasiView for Call {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let journal = &self.journal;
        let ctx = self.wasi.get_or_insert_with(|| empty_context(journal));
        WasiCtxView {
            ctx,
            table: &mut self.table,
        }
    }
}

/// No files, no environment, no arguments, no sockets; clocks and random work, output goes to the log.
fn empty_context(journal: &Journal) -> WasiCtx {
    WasiCtx::builder()
        .allow_tcp(false)
        .allow_udp(false)
        .max_random_size(64 << 10)
        .stdout(Stdio::output(journal.clone()))
        .stderr(Stdio::errors(journal.clone()))
        .build()
}

//! The code of a guest: a component, or a process of its own. Entry point: [`Body`].

use super::GuestOptions;
use super::code::{Code, MapError, REFUSAL, requests};
use crate::clean::clean;
use crate::component::revision::{Body as RevisionBody, LoadError, Revision};
use crate::description::Description;
use crate::engine::Sandbox;
use crate::instance::call::FleetView;
use crate::native::NativeGuest;
use crate::options::Isolation;
use crate::tape::Tape;
use crate::tenant::Tenant;
use crate::tenant::context::{GuestContext, History};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;
use windlass_fleet::api::Json;
use windlass_fleet::{Action, Client, Context, Failure, GroupVersionKind, Reconciler, Request};

/// The code of a guest.
pub(super) enum Body {
    Component(Arc<Code>),
    Native(NativeGuest),
}

impl Body {
    /// Links a component, with or without the interface `fleet`.
    pub(super) fn bind(
        sandbox: &Sandbox,
        revision: &Revision,
        fleet: bool,
        isolation: Isolation,
        tenant: &Tenant,
    ) -> Result<Self, LoadError> {
        match revision.body() {
            RevisionBody::Component(_) => {
                let code = Code::bind(sandbox, revision, fleet)?.isolated(isolation, tenant);
                Ok(Self::Component(Arc::new(code)))
            }
            RevisionBody::Native(native) => Ok(Self::Native(native.clone())),
        }
    }

    /// The same code without its idle instances. A process has none.
    pub(super) fn without_idle(&self, isolation: Isolation, tenant: &Tenant) -> Self {
        match self {
            Self::Component(code) => {
                Self::Component(Arc::new(code.without_idle(isolation, tenant)))
            }
            Self::Native(native) => Self::Native(native.clone()),
        }
    }

    /// Idle instances.
    pub(super) fn idle(&self) -> usize {
        match self {
            Self::Component(code) => code.idle(),
            Self::Native(_) => 0,
        }
    }

    /// Calls `describe`. The description is checked by itself, not against a grant.
    pub(super) async fn describe(
        &self,
        guest: Arc<GuestContext>,
    ) -> Result<Description, LoadError> {
        let native = match self {
            Self::Component(code) => return code.describe(guest).await,
            Self::Native(native) => native,
        };
        let described = native.describe(guest).await;
        let raw = described.map_err(|error| LoadError::DescribeFailed {
            problem: error.to_string(),
        })?;
        let raw = raw.map_err(|problem| LoadError::Refused {
            problem: clean(&problem, REFUSAL),
        })?;
        Ok(Description::check(raw, true)?)
    }

    /// Calls `reconcile`, with a tape if the run is recorded.
    pub(super) async fn reconcile(
        &self,
        guest: Arc<GuestContext>,
        context: Context,
        tape: Option<Arc<Tape>>,
    ) -> Result<Action, Failure> {
        match self {
            Self::Component(code) => code.reconcile(guest, context, tape).await,
            // Boxed: a process's run has three times the room of a component's, in which it would be moved.
            Self::Native(native) => native.reconcile(guest, context).boxed().await,
        }
    }

    /// Whether its runs can be recorded: a process has inputs of its own.
    pub(super) fn is_recordable(&self) -> bool {
        matches!(self, Self::Component(_))
    }

    /// Calls `map-objects`. `None`: the guest has no mapper.
    pub(super) async fn map(
        &self,
        guest: Arc<GuestContext>,
        client: Client,
        view: FleetView,
        kind: &GroupVersionKind,
        objects: &[Json],
    ) -> Option<Result<Vec<Request>, MapError>> {
        let native = match self {
            Self::Component(code) => return code.map(guest, client, view, kind, objects).await,
            Self::Native(native) => native,
        };
        let mapped = native.map(guest, client, view, kind, objects).await;
        let mapped = mapped.unwrap_or_else(|error| Err(error.to_string()));
        Some(requests(mapped))
    }
}

/// The reconciler of a guest that is a process, without watches: it runs keys that somebody enqueues.
#[must_use]
pub fn native_reconciler(native: NativeGuest, options: GuestOptions) -> Arc<dyn Reconciler> {
    let GuestOptions {
        tenant,
        name,
        grant,
        http,
        config,
        limits,
        isolation: _,
        record: _,
        secrets: _,
    } = options;
    let history = History::default();
    history.latest.store(Some(grant.clone()));
    let guest = GuestContext::with(tenant, name, grant, config.into(), limits, history);
    let guest = Arc::new(guest.calling(http));
    Arc::new(Unwatched { native, guest })
}

struct Unwatched {
    native: NativeGuest,
    guest: Arc<GuestContext>,
}

impl Reconciler for Unwatched {
    fn reconcile(&self, context: Context) -> BoxFuture<'_, Result<Action, Failure>> {
        self.native.reconcile(self.guest.clone(), context).boxed()
    }
}

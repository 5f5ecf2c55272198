//! Makes controllers from documents and components. Entry points: [`Guests::begin`], [`Guests::load`] and [`Guests::serve`], in this
//! order: a [`LoadRequest`] becomes a [`Load`], then [`Loaded`], then a controller. What serves keeps serving until the last step.

pub(crate) mod component;
pub(crate) mod engine;
mod needs;
mod policy;
mod revisions;

pub(crate) use needs::{Lack, ReconcilerNeeds, lacks};
pub(crate) use policy::{Bounds, TenantPolicy, selection};

use crate::config::kinds::{Effective, Interval, ReconcilerSpec, TenantSpec, Within};
use crate::config::schema::{self, Place};
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use anyhow::Result;
use revisions::{PendingRevision, Revisions};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::controller::{Controller, ControllerOptions};
use windlass_fleet::name::NameError;
use windlass_fleet::source::ClusterSelection;
use windlass_fleet::{ControllerName, Grant, TenantName};
use windlass_sandbox::{
    ControllerParts, Digest, Guest, GuestOptions, Limits, LoadError, NativeGuests, Options,
    Prepared, Revision, Rights, Sandbox, Tenant,
};

/// How long a run of a guest may take that is a process of its own: somebody may be debugging it.
const LONGEST_NATIVE_RUN: Duration = Duration::from_secs(86_400);

/// The options of a controller that its document sets, and not its guest.
pub(crate) struct Shape {
    /// Where its watches engage.
    pub(crate) selection: ClusterSelection,
    /// Calls at once; none: the manager's default.
    pub(crate) concurrency: Option<usize>,
    /// The most calls at once, also of the manager's default; none: no bound.
    pub(crate) most_concurrency: Option<usize>,
    /// Calls at once in one cluster.
    pub(crate) per_cluster: usize,
    /// How often all keys are reconciled without a change.
    pub(crate) resync: Option<Interval>,
}

impl Shape {
    /// What a document and the policy of its tenant say, with the limits that both give.
    fn of(
        spec: &ReconcilerSpec,
        policy: &TenantPolicy,
        effective: &Effective,
    ) -> Result<Self, LoadFailure> {
        Ok(Self {
            selection: selection(spec, policy)?,
            concurrency: effective.concurrency,
            most_concurrency: effective.most_concurrency,
            per_cluster: effective.per_cluster,
            resync: spec.resync.map(Within::get),
        })
    }

    /// The options of its controller, whose calls may take this time.
    fn options(&self, timeout: Duration) -> ControllerOptions {
        ControllerOptions {
            concurrency: self.concurrency,
            most_concurrency: self.most_concurrency,
            concurrency_per_cluster: self.per_cluster,
            timeout,
            resync: self.resync.map(|resync| resync.0),
            ..ControllerOptions::default()
        }
    }
}

/// A reconciler to load.
pub(crate) struct LoadRequest<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The spec of its document.
    pub(crate) spec: &'a ReconcilerSpec,
    /// Where its config stands.
    pub(crate) place: Place,
    /// The policy of its tenant.
    pub(crate) policy: &'a TenantPolicy,
    /// The component's file; none: the component is kept compiled.
    pub(crate) path: Option<&'a Path>,
    /// The component's digest.
    pub(crate) digest: Digest,
}

/// A load that has begun: everything that it needs, without the documents.
pub(crate) struct Load {
    revision: PendingRevision,
    options: GuestOptions,
    config: Option<Json>,
    place: Place,
    /// The guest that serves now, if its tenant stays the same: it can be replaced while it serves.
    serving: Option<Arc<Guest>>,
    shape: Shape,
}

/// A guest that is loaded and does not serve yet.
pub(crate) struct Loaded {
    controller: Controller,
    guest: Arc<Guest>,
    /// The next version of a guest that serves already; none: the guest is new.
    next: Option<Prepared>,
}

/// Why a guest cannot be loaded as its document asks.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{problem}")]
pub(crate) struct LoadFailure {
    /// What is wrong, and what to do.
    pub(crate) problem: String,
    /// Whether the cause is this host's state, which may pass: then the load is tried again.
    pub(crate) is_transient: bool,
}

impl LoadFailure {
    /// A failure that lasts until the document or the component changes.
    pub(crate) fn permanent(problem: impl ToString) -> Self {
        Self {
            problem: problem.to_string(),
            is_transient: false,
        }
    }

    /// A failure of this host, which may pass.
    pub(crate) fn transient(problem: String) -> Self {
        Self {
            problem,
            is_transient: true,
        }
    }
}

impl From<LoadError> for LoadFailure {
    fn from(error: LoadError) -> Self {
        // A file that was there a moment ago, when its digest was taken, may be there again.
        let is_gone = matches!(error, LoadError::Read { .. });
        Self {
            problem: chain(&error),
            is_transient: is_gone || error.is_of_the_host(),
        }
    }
}

/// The guests of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Guests {
    sandbox: Sandbox,
    /// The guests that serve, and their tenants.
    registry: Arc<GuestRegistry>,
    revisions: Revisions,
    /// Where what rules do not grant is noted, and allowed; none: it is denied.
    needs: Option<ReconcilerNeeds>,
}

impl Guests {
    /// Starts the sandbox, without any guest.
    ///
    /// # Errors
    /// When the engine cannot be made on this machine.
    pub(crate) fn new(
        options: &Options,
        registry: Arc<GuestRegistry>,
        needs: Option<ReconcilerNeeds>,
        natives: NativeGuests,
    ) -> Result<Self> {
        let sandbox = engine::start(options)?.with_natives(natives);
        Ok(Self {
            sandbox,
            registry,
            revisions: Revisions::default(),
            needs,
        })
    }

    /// A heartbeat that stops while guests' calls are ready and none makes progress.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let (sandbox, mut before) = (self.sandbox.clone(), None);
        Heartbeat::start("guests", move || {
            let backlog = sandbox.backlog();
            backlog.is_none() || std::mem::replace(&mut before, backlog) != backlog
        })
    }

    /// Sets the limits that a tenant's guests share.
    ///
    /// # Errors
    /// When the name is no tenant name.
    pub(crate) fn set_tenant(&self, name: &str, spec: &TenantSpec) -> Result<(), NameError> {
        let limits = spec.guests();
        match self.registry.tenant(name) {
            Some(tenant) => tenant.set_limits(&limits),
            None => {
                let tenant = TenantName::new(name)?;
                self.registry.put_tenant(Tenant::new(tenant, &limits));
            }
        }
        Ok(())
    }

    /// Checks a request and looks its component up. Nothing is compiled yet, but a compilation that another load waits for goes on.
    ///
    /// # Errors
    /// What is wrong with the document, and what to do.
    pub(crate) fn begin(&self, request: LoadRequest<'_>) -> Result<Load, LoadFailure> {
        let LoadRequest {
            name,
            spec,
            place,
            policy,
            path,
            digest,
        } = request;
        let grant = policy.grant(&spec.rules)?;
        let grant = Arc::new(match &self.needs {
            Some(needs) => grant.noting(needs.of(name)),
            None => grant,
        });
        let effective = spec.limits.under(&policy.limits);
        let shape = Shape::of(spec, policy, &effective)?;
        let options = self.options(name, spec, grant, effective.limits)?;
        let tenant = options.tenant.name();
        // A guest cannot change its tenant: it is loaded anew.
        let serving = self.registry.guest(name);
        let serving = serving.filter(|guest| guest.tenant() == *tenant);
        Ok(Load {
            revision: self.revisions.get(&self.sandbox, tenant, path, digest),
            options,
            config: spec.config.clone(),
            place,
            serving,
            shape,
        })
    }

    /// Compiles, links and describes a guest, or the next version of one that serves, and makes its controller. What serves keeps
    /// serving until [`Self::serve`].
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub(crate) async fn load(&self, load: Load) -> Result<Loaded, LoadFailure> {
        let Load {
            revision,
            mut options,
            config,
            place,
            serving,
            shape,
        } = load;
        let revision = revision.await?;
        if revision.is_native() {
            options.limits.timeout = LONGEST_NATIVE_RUN;
        }
        check_config(&revision, config.as_ref(), &place)?;
        let rights = Rights {
            grant: options.grant.clone(),
            limits: options.limits.clone(),
            isolation: options.isolation,
        };
        let name = options.name.clone();
        let (guest, next) = match serving {
            Some(guest) => {
                let next = guest.prepare(options, revision).await?;
                (guest, Some(next))
            }
            None => (Guest::new(&self.sandbox, options, revision).await?, None),
        };
        let parts = match &next {
            Some(next) => guest.parts_of(next),
            None => guest.controller_parts(),
        };
        Ok(Loaded {
            controller: assemble(guest.clone(), name, parts, rights, shape)?,
            guest,
            next,
        })
    }

    /// Lets a loaded guest serve from the next call on. Give the controller to the manager at once: its watches are of the same version.
    pub(crate) fn serve(&self, name: &str, loaded: Loaded) -> Controller {
        match loaded.next {
            Some(next) => loaded.guest.serve(next),
            None => self.registry.put(name, loaded.guest),
        }
        loaded.controller
    }

    /// The guest that serves a reconciler.
    pub(crate) fn of(&self, name: &str) -> Option<Arc<Guest>> {
        self.registry.guest(name)
    }

    /// The size of the largest component that may be loaded, in bytes.
    pub(crate) fn largest_component(&self) -> usize {
        self.sandbox.options().max_component
    }

    /// Drops the guest of a reconciler.
    pub(crate) fn remove(&self, name: &str) {
        self.registry.remove(name);
    }

    /// Drops tenants that have neither a document nor a reconciler, and gives tenants without a document the default limits.
    pub(crate) fn keep_tenants(&self, documents: &BTreeSet<&str>, used: &BTreeSet<&str>) {
        self.registry.keep_tenants(&(documents | used));
        for tenant in self.registry.tenants() {
            if !documents.contains(tenant.name().as_str()) {
                tenant.set_limits(&TenantSpec::default().guests());
            }
        }
    }

    /// Drops compiled components that are not listed.
    pub(crate) fn keep(&self, used: &BTreeSet<Digest>) {
        self.revisions.keep(used);
    }

    fn options(
        &self,
        name: &str,
        spec: &ReconcilerSpec,
        grant: Arc<Grant>,
        limits: Limits,
    ) -> Result<GuestOptions, LoadFailure> {
        if self.registry.tenant(spec.tenant()).is_none() {
            self.set_tenant(spec.tenant(), &TenantSpec::default())
                .map_err(LoadFailure::permanent)?;
        }
        let Some(tenant) = self.registry.tenant(spec.tenant()) else {
            let problem = format!("there is no tenant {:?}", spec.tenant());
            return Err(LoadFailure::permanent(problem));
        };
        Ok(GuestOptions {
            tenant,
            name: ControllerName::new(name).map_err(LoadFailure::permanent)?,
            grant,
            config: spec.config_text(),
            limits,
            isolation: spec.isolation.guests(),
        })
    }
}

/// Compares a config with the schema that its guest carries, if it carries one.
fn check_config(
    revision: &Revision,
    config: Option<&Json>,
    place: &Place,
) -> Result<(), LoadFailure> {
    let empty = Json::Object(serde_json::Map::new());
    let schema = revision.config_schema();
    let problems = schema.map(|schema| schema::problems(schema, config.unwrap_or(&empty), place));
    match problems.unwrap_or_default().as_slice() {
        [] => Ok(()),
        problems => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let lines = lines.join("; ");
            Err(LoadFailure::permanent(format!(
                "the config does not match the schema of its guest: {lines}"
            )))
        }
    }
}

/// The controller of a guest that serves.
///
/// # Errors
/// What is wrong with the guest's description.
pub(crate) fn controller_of(
    guest: Arc<Guest>,
    name: &str,
    shape: Shape,
) -> Result<Controller, LoadFailure> {
    let (parts, rights) = (guest.controller_parts(), guest.rights());
    let name = ControllerName::new(name).map_err(LoadFailure::permanent)?;
    assemble(guest, name, parts, rights, shape)
}

fn assemble(
    guest: Arc<Guest>,
    name: ControllerName,
    parts: ControllerParts,
    rights: Rights,
    shape: Shape,
) -> Result<Controller, LoadFailure> {
    let options = shape.options(rights.limits.timeout);
    let mut builder = Controller::builder(name)
        .tenant(guest.tenant())
        .grant(rights.grant)
        .engage(shape.selection)
        .options(options);
    if let Some(primary) = parts.primary {
        builder = builder.primary(primary);
    }
    for watch in parts.watches {
        builder = builder.watch(watch);
    }
    for index in parts.indexes {
        builder = builder.index(index);
    }
    builder.build(guest).map_err(LoadFailure::permanent)
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_resync_period_of_a_document_is_that_of_its_controller() {
        let resync = |spec: Json| {
            let spec: ReconcilerSpec = serde_json::from_value(spec).expect("a spec");
            let policy = TenantPolicy::default();
            let effective = spec.limits.under(&policy.limits);
            let shape = Shape::of(&spec, &policy, &effective).expect("a valid document");
            shape.options(Duration::from_secs(7)).resync
        };
        let guest = json!({"path": "x.wasm"});
        let period = resync(json!({"guest": guest, "resync": "10m"}));
        assert_eq!(period, Some(Duration::from_secs(600)));
        assert_eq!(resync(json!({"guest": guest})), None);
    }
}

//! Makes controllers from documents and components. Entry points: [`Desired::of`], [`Guests::prepare`] and [`Guests::serve`], in this
//! order: what is [`Desired`] becomes [`Prepared`], which serves. What serves keeps serving until the last step.

pub(crate) mod component;
mod desired;
pub(crate) mod engine;
mod needs;
mod policy;
mod revisions;

pub(crate) use desired::Desired;
pub(crate) use needs::{Lack, ReconcilerNeeds, lacks};
pub(crate) use policy::{ControllerPolicy, TenantPolicy};

use crate::config::kinds::{RecordSpec, TenantSpec};
use crate::config::schema::{self, Place};
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use anyhow::Result;
use revisions::{PendingRevision, Revisions};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use windlass_fleet::controller::Controller;
use windlass_fleet::name::NameError;
use windlass_fleet::portion::LivePortion;
use windlass_fleet::{ControllerName, Digest, Grant, TenantName};
use windlass_sandbox::{
    ControllerParts, Guest, GuestOptions, LoadError, NativeGuests, Options, Revision, Sandbox,
    Tenant,
};

/// A guest that is loaded, described and checked, and does not serve yet.
pub(crate) struct Prepared {
    controller: Controller,
    policy: ControllerPolicy,
    guest: Arc<Guest>,
    /// The next version of a guest that serves already; none: the guest is new.
    next: Option<windlass_sandbox::Prepared>,
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
    /// Whether there is a local cluster, which has the kinds of the host.
    has_local: bool,
    /// This process's portion of tenants' rates.
    portion: LivePortion,
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
        has_local: bool,
    ) -> Result<Self> {
        let sandbox = engine::start(options)?.with_natives(natives);
        Ok(Self {
            sandbox,
            registry,
            revisions: Revisions::default(),
            needs,
            has_local,
            portion: LivePortion::default(),
        })
    }

    /// The same in one of several processes, which has a portion of tenants' rates.
    pub(crate) fn sharing(self, portion: LivePortion) -> Self {
        Self { portion, ..self }
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
                let portion = self.portion.clone();
                let tenant = Tenant::sharing(tenant, &limits, portion);
                self.registry.put_tenant(tenant);
            }
        }
        Ok(())
    }

    /// Compiles, links and describes a guest, or the next version of one that serves, and makes its controller. `file` has the component;
    /// none: it is kept compiled. What serves keeps serving until [`Self::serve`]. From this call on, not from the first poll, a compilation
    /// of the same component goes on, even if another load that waits for it ends.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub(crate) fn prepare(
        &self,
        desired: Arc<Desired>,
        file: Option<&Path>,
        component: Digest,
    ) -> impl Future<Output = Result<Prepared, LoadFailure>> + Send + use<> {
        let tenant = self.tenant(desired.tenant());
        let revision = tenant.map(|tenant| {
            let sandbox = &self.sandbox;
            let revision = self.revisions.get(sandbox, tenant.name(), file, component);
            (tenant, revision)
        });
        let guests = self.clone();
        async move {
            let (tenant, revision) = revision?;
            guests.prepare_in(tenant, &desired, revision).await
        }
    }

    async fn prepare_in(
        &self,
        tenant: Arc<Tenant>,
        desired: &Desired,
        revision: PendingRevision,
    ) -> Result<Prepared, LoadFailure> {
        let name = ControllerName::new(desired.name()).map_err(LoadFailure::permanent)?;
        let mut policy = ControllerPolicy::of(&desired.spec, &desired.policy)?;
        if let Some(needs) = &self.needs {
            let grant = Grant::clone(&policy.rights.grant);
            policy.rights.grant = Arc::new(grant.noting(needs.of(desired.name())));
        }
        let revision = revision.await?;
        check_config(&revision, desired)?;
        if revision.is_native() {
            policy.lift_timeout();
        }
        // A guest cannot change its tenant: it is loaded anew.
        let serving = self.registry.guest(desired.name());
        let serving = serving.filter(|guest| guest.tenant() == *tenant.name());
        let options = GuestOptions {
            tenant,
            name: name.clone(),
            grant: policy.rights.grant.clone(),
            http: policy.rights.http.clone(),
            config: desired.spec.config_text(),
            limits: policy.rights.limits.clone(),
            isolation: policy.rights.isolation,
            record: desired.spec.record.as_ref().map(RecordSpec::guests),
            secrets: desired.spec.secrets.clone(),
        };
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
        let mut watches = parts.watches.iter();
        if !self.has_local && watches.any(|watch| watch.kind.is_of_host()) {
            return Err(LoadFailure::permanent(
                "it watches clusters, which are objects of the local cluster, and there is none: name it in spec.local of the Manager".to_owned(),
            ));
        }
        let grant = policy.rights.grant.clone();
        let controller = assemble(guest.clone(), name, parts, grant, &policy)?;
        Ok(Prepared {
            controller,
            policy,
            guest,
            next,
        })
    }

    /// Lets a prepared guest serve from the next call on, and returns its policy. Give the controller to the manager at once: its watches are of
    /// the same version.
    pub(crate) fn serve(&self, prepared: Prepared) -> (Controller, ControllerPolicy) {
        let Prepared {
            controller,
            policy,
            guest,
            next,
        } = prepared;
        if let Some(next) = next {
            guest.serve(next);
        }
        self.registry.put(controller.name().as_str(), guest);
        (controller, policy)
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

    /// The tenant of this name, with the default limits if it has no document.
    fn tenant(&self, name: &str) -> Result<Arc<Tenant>, LoadFailure> {
        if self.registry.tenant(name).is_none() {
            self.set_tenant(name, &TenantSpec::default())
                .map_err(LoadFailure::permanent)?;
        }
        let tenant = self.registry.tenant(name);
        tenant.ok_or_else(|| LoadFailure::permanent(format!("there is no tenant {name:?}")))
    }
}

/// Compares a config with the schema that its guest carries, if it carries one.
fn check_config(revision: &Revision, desired: &Desired) -> Result<(), LoadFailure> {
    let Some(schema) = revision.config_schema() else {
        return Ok(());
    };
    let empty = Json::Object(serde_json::Map::new());
    let config = desired.spec.config.as_ref().unwrap_or(&empty);
    let problems = schema::problems(schema, config, &Place::of(&desired.document));
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let lines = lines.join("; ");
    let problem = format!("the config does not match the schema of its guest: {lines}");
    Err(LoadFailure::permanent(problem))
}

/// The controller of a guest that serves, under a policy.
///
/// # Errors
/// What is wrong with the guest's description.
pub(crate) fn controller_of(
    guest: Arc<Guest>,
    name: &str,
    policy: &ControllerPolicy,
) -> Result<Controller, LoadFailure> {
    let name = ControllerName::new(name).map_err(LoadFailure::permanent)?;
    let (parts, grant) = (guest.controller_parts(), guest.rights().grant);
    assemble(guest, name, parts, grant, policy)
}

fn assemble(
    guest: Arc<Guest>,
    name: ControllerName,
    parts: ControllerParts,
    grant: Arc<Grant>,
    policy: &ControllerPolicy,
) -> Result<Controller, LoadFailure> {
    let mut builder = Controller::builder(name)
        .tenant(guest.tenant())
        .grant(grant)
        .engage(policy.clusters.clone())
        .options(policy.options.clone());
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

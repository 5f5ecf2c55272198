//! Documents and components into controllers. Entry point: [`Guests::prepare`].

pub(crate) mod component;
pub(crate) mod engine;
mod revisions;

use crate::config::kinds::{
    Ceiling, Effective, Impersonate, Interval, ReconcilerSpec, RuleSpec, TenantSpec,
};
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use anyhow::Result;
use revisions::{Coming, Revisions};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use windlass_fleet::controller::{Controller, ControllerOptions};
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::{ClusterFilter, ClusterSelection};
use windlass_fleet::{ControllerName, Grant, Rule, TenantName};
use windlass_sandbox::{
    ControllerParts, Digest, Guest, GuestOptions, Limits, LoadError, Options, Prepared, Rights,
    Sandbox, Tenant,
};

/// What a tenant's document says of its reconcilers' grants and limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Terms {
    /// The rules that bound theirs; none: there is no bound.
    pub(crate) ceiling: Option<Vec<RuleSpec>>,
    /// Whom calls are made in the name of.
    pub(crate) impersonate: Option<Impersonate>,
    /// What bounds their limits.
    pub(crate) limits: Ceiling,
}

impl Terms {
    /// Those of a tenant.
    pub(crate) fn of(spec: &TenantSpec) -> Self {
        Self {
            ceiling: spec.rules.clone(),
            impersonate: spec.impersonate.clone(),
            limits: spec.limits.per_reconciler.clone(),
        }
    }
}

/// What a reconciler may have, by its document and its tenant's.
pub(crate) struct Bounds {
    /// Of its guest.
    pub(crate) rights: Rights,
    /// Calls at once. None: what the manager has for the kind.
    pub(crate) concurrency: Option<usize>,
    /// Calls at once in one cluster.
    pub(crate) per_cluster: usize,
}

impl Bounds {
    /// Those that these documents say. Where that cannot be told, it may do nothing.
    pub(crate) fn of(spec: &ReconcilerSpec, terms: &Terms) -> Self {
        let Effective {
            limits,
            concurrency,
            per_cluster,
        } = spec.limits.under(&terms.limits);
        let grant = grant(&spec.rules, terms).unwrap_or_else(|problem| {
            tracing::error!(problem, "rules that cannot be read grant nothing");
            Grant::none()
        });
        Self {
            rights: Rights {
                grant: Arc::new(grant),
                limits,
                isolation: spec.isolation.guests(),
            },
            concurrency,
            per_cluster,
        }
    }
}

/// A controller, in what its guest does not tell.
pub(crate) struct Shape {
    /// Where its watches engage.
    pub(crate) selection: ClusterSelection,
    /// Calls at once. None: what the manager has for the kind.
    pub(crate) concurrency: Option<usize>,
    /// Calls at once in one cluster.
    pub(crate) per_cluster: usize,
    /// How often everything is looked at though nothing has changed.
    pub(crate) resync: Option<Interval>,
}

/// What a reconciler is made of.
pub(crate) struct Order<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// What its document asks for.
    pub(crate) spec: &'a ReconcilerSpec,
    /// What its tenant's document says of its grant and limits.
    pub(crate) terms: &'a Terms,
    /// Where the component is; none: one that is kept is meant.
    pub(crate) path: Option<&'a Path>,
    /// Of the component.
    pub(crate) digest: Digest,
}

/// A reconciler that is being made: what that takes, and nothing of the documents any more.
pub(crate) struct Making {
    revision: Coming,
    options: GuestOptions,
    /// The guest that serves now, if it can serve the new version.
    there: Option<Arc<Guest>>,
    shape: Shape,
}

/// A reconciler that is ready to serve, and does not yet.
pub(crate) struct Ready {
    controller: Controller,
    guest: Arc<Guest>,
    /// What the guest, which serves already, is to serve; none: it is new.
    next: Option<Prepared>,
}

/// Why a reconciler cannot be as its document asks.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    /// What is wrong, and what to do.
    pub(crate) problem: String,
    /// Whether the fault lies with this host, so that it may pass by itself.
    pub(crate) may_pass: bool,
}

impl From<String> for Trouble {
    fn from(problem: String) -> Self {
        Self {
            problem,
            may_pass: false,
        }
    }
}

impl From<LoadError> for Trouble {
    fn from(error: LoadError) -> Self {
        Self {
            problem: chain(&error),
            may_pass: error.is_of_the_host(),
        }
    }
}

/// The guests of this process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Guests {
    sandbox: Sandbox,
    /// Those that serve, and their tenants.
    registry: Arc<GuestRegistry>,
    revisions: Revisions,
}

impl Guests {
    /// None yet.
    ///
    /// # Errors
    /// When the engine cannot be made on this machine.
    pub(crate) fn new(options: &Options, registry: Arc<GuestRegistry>) -> Result<Self> {
        let sandbox = engine::start(options)?;
        Ok(Self {
            sandbox,
            registry,
            revisions: Revisions::default(),
        })
    }

    /// Beats while guests' calls that are ready are run.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let (sandbox, mut before) = (self.sandbox.clone(), None);
        Heartbeat::start("guests", move || {
            let backlog = sandbox.backlog();
            backlog.is_none() || std::mem::replace(&mut before, backlog) != backlog
        })
    }

    /// Sets what a tenant's guests may use together.
    ///
    /// # Errors
    /// When the name is none of a tenant.
    pub(crate) fn set_tenant(&self, name: &str, spec: &TenantSpec) -> Result<(), String> {
        let limits = spec.guests();
        match self.registry.tenant(name) {
            Some(tenant) => tenant.set_limits(&limits),
            None => {
                let tenant = TenantName::new(name).map_err(|error| error.to_string())?;
                self.registry.put_tenant(Tenant::new(tenant, &limits));
            }
        }
        Ok(())
    }

    /// What an order takes. Nothing is done yet, but a component that is on its way stays so.
    ///
    /// # Errors
    /// What is wrong with the document, and what to do.
    pub(crate) fn order(&self, order: Order<'_>) -> Result<Making, Trouble> {
        let Order {
            name,
            spec,
            terms,
            path,
            digest,
        } = order;
        let grant = Arc::new(grant(&spec.rules, terms)?);
        let Effective {
            limits,
            concurrency,
            per_cluster,
        } = spec.limits.under(&terms.limits);
        let options = self.options(name, spec, grant, limits)?;
        let tenant = options.tenant.name();
        // One that changes its tenant is made anew.
        let there = self.registry.guest(name);
        let there = there.filter(|guest| guest.tenant() == *tenant);
        Ok(Making {
            revision: self.revisions.get(&self.sandbox, tenant, path, digest),
            options,
            there,
            shape: Shape {
                selection: selection(spec)?,
                concurrency,
                per_cluster,
                resync: spec.resync,
            },
        })
    }

    /// Compiles, links and describes a guest, or the new version of one that runs, and makes its controller. What serves goes
    /// on until [`Self::serve`].
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub(crate) async fn prepare(&self, making: Making) -> Result<Ready, Trouble> {
        let Making {
            revision,
            options,
            there,
            shape,
        } = making;
        let revision = revision.await?;
        let rights = Rights {
            grant: options.grant.clone(),
            limits: options.limits.clone(),
            isolation: options.isolation,
        };
        let name = options.name.clone();
        let (guest, next) = match there {
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
        Ok(Ready {
            controller: assemble(guest.clone(), name, parts, rights, shape)?,
            guest,
            next,
        })
    }

    /// Has what is ready serve from the next call on. Its controller is to be put at once, as its watches are of the same version.
    pub(crate) fn serve(&self, name: &str, ready: Ready) -> Controller {
        match ready.next {
            Some(next) => ready.guest.serve(next),
            None => self.registry.put(name, ready.guest),
        }
        ready.controller
    }

    /// The guest that serves for a reconciler.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Guest>> {
        self.registry.guest(name)
    }

    /// The largest component that is loaded, in bytes.
    pub(crate) fn largest_component(&self) -> usize {
        self.sandbox.options().max_component
    }

    /// Forgets a reconciler.
    pub(crate) fn remove(&self, name: &str) {
        self.registry.remove(name);
    }

    /// Forgets tenants that have neither a document nor a reconciler, and has those without a document back at the defaults.
    pub(crate) fn keep_tenants(&self, documents: &BTreeSet<&str>, used: &BTreeSet<&str>) {
        self.registry.keep_tenants(&(documents | used));
        for tenant in self.registry.tenants() {
            if !documents.contains(tenant.name().as_str()) {
                tenant.set_limits(&TenantSpec::default().guests());
            }
        }
    }

    /// Forgets compiled components that none of these is.
    pub(crate) fn keep(&self, used: &BTreeSet<Digest>) {
        self.revisions.keep(used);
    }

    fn options(
        &self,
        name: &str,
        spec: &ReconcilerSpec,
        grant: Arc<Grant>,
        limits: Limits,
    ) -> Result<GuestOptions, String> {
        if self.registry.tenant(spec.tenant()).is_none() {
            self.set_tenant(spec.tenant(), &TenantSpec::default())?;
        }
        let Some(tenant) = self.registry.tenant(spec.tenant()) else {
            return Err(format!("tenant {:?} is not known", spec.tenant()));
        };
        Ok(GuestOptions {
            tenant,
            name: ControllerName::new(name).map_err(|error| error.to_string())?,
            grant,
            config: spec.config_text(),
            limits,
            isolation: spec.isolation.guests(),
        })
    }
}

/// The controller of a guest as it is now.
///
/// # Errors
/// What is wrong with what it describes.
pub(crate) fn controller_of(
    guest: Arc<Guest>,
    name: &str,
    shape: Shape,
) -> Result<Controller, String> {
    let (parts, rights) = (guest.controller_parts(), guest.rights());
    let name = ControllerName::new(name).map_err(|error| error.to_string())?;
    assemble(guest, name, parts, rights, shape)
}

fn assemble(
    guest: Arc<Guest>,
    name: ControllerName,
    parts: ControllerParts,
    rights: Rights,
    shape: Shape,
) -> Result<Controller, String> {
    let mut builder = Controller::builder(name)
        .tenant(guest.tenant())
        .grant(rights.grant)
        .engage(shape.selection)
        .options(ControllerOptions {
            concurrency: shape.concurrency,
            concurrency_per_cluster: shape.per_cluster,
            timeout: rights.limits.timeout,
            resync: shape.resync.map(|resync| resync.0),
            ..ControllerOptions::default()
        });
    if let Some(primary) = parts.primary {
        builder = builder.primary(primary);
    }
    for watch in parts.watches {
        builder = builder.watch(watch);
    }
    for index in parts.indexes {
        builder = builder.index(index);
    }
    builder.build(guest).map_err(|error| error.to_string())
}

/// The rules of a reconciler under the terms of its tenant.
fn grant(rules: &[RuleSpec], terms: &Terms) -> Result<Grant, String> {
    let convert = |rules: &[RuleSpec]| {
        let rules = rules.iter().map(RuleSpec::to_rule);
        rules
            .collect::<Result<Vec<Rule>, _>>()
            .map_err(|error| error.to_string())
    };
    let grant = Grant::new(convert(rules)?);
    let grant = match &terms.ceiling {
        Some(ceiling) => grant.under(convert(ceiling)?),
        None => grant,
    };
    let identity = terms.impersonate.as_ref().map(Impersonate::identity);
    let identity = identity.transpose().map_err(|error| error.to_string())?;
    Ok(grant.in_the_name_of(identity))
}

/// Where a reconciler's watches engage.
///
/// # Errors
/// When the selector cannot be read, which a checked document excludes.
pub(crate) fn selection(spec: &ReconcilerSpec) -> Result<ClusterSelection, String> {
    let clusters = &spec.clusters;
    Ok(ClusterSelection {
        local: clusters.local,
        provider: clusters.provider,
        only: ClusterFilter {
            names: clusters.names.as_ref().map_or_else(
                || vec![NamePattern::any()],
                |names| names.iter().map(NamePattern::new).collect(),
            ),
            selector: clusters
                .selector
                .as_deref()
                .map(LabelSelector::parse)
                .transpose()
                .map_err(|error| error.to_string())?,
        },
        within: None,
    })
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

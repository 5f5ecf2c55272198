//! Documents and components into controllers. Entry points: [`Guests::controller`] and [`inspect`].

use crate::engine;
use crate::kinds::{
    Ceiling, Effective, Impersonate, Interval, ReconcilerSpec, RuleSpec, TenantSpec,
};
use crate::output::Tone;
use crate::roster::Roster;
use anyhow::Result;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_fleet::controller::{Controller, ControllerOptions};
use windlass_fleet::name::NamePattern;
use windlass_fleet::selector::LabelSelector;
use windlass_fleet::source::ClusterSelection;
use windlass_fleet::{ControllerName, Grant, Rule, TenantName};
use windlass_sandbox::{
    CustomResource, Guest, GuestOptions, Inspection, Limits, LoadError, Options, Revision, Rights,
    Sandbox, Source, Tenant,
};

/// How long people wait without a word.
const MOMENT: Duration = Duration::from_secs(1);

/// The SHA-256 of a component, printed in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Its beginning, enough for people to tell revisions apart.
    pub(crate) fn short(self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

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
}

impl Bounds {
    /// Those that these documents say. Where that cannot be told, it may do nothing.
    pub(crate) fn of(spec: &ReconcilerSpec, terms: &Terms) -> Self {
        let Effective {
            limits,
            concurrency,
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
        }
    }
}

/// A controller, in what its guest does not tell.
pub(crate) struct Shape {
    /// Where its watches engage.
    pub(crate) selection: ClusterSelection,
    /// Calls at once. None: what the manager has for the kind.
    pub(crate) concurrency: Option<usize>,
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
    /// Where the component was read, for messages.
    pub(crate) path: &'a Path,
    /// The component; none: one that was kept is meant.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Of the component.
    pub(crate) digest: Digest,
}

/// Why a reconciler cannot be as its document asks.
#[derive(Debug)]
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

/// The guests of this process.
pub(crate) struct Guests {
    sandbox: Sandbox,
    /// Those that serve, and their tenants.
    roster: Arc<Roster>,
    /// Compiled components, shared by reconcilers of the same one.
    revisions: BTreeMap<Digest, Revision>,
}

impl Guests {
    /// None yet.
    ///
    /// # Errors
    /// When the engine cannot be made on this machine.
    pub(crate) fn new(options: &Options, roster: Arc<Roster>) -> Result<Self> {
        let sandbox = engine::start(options)?;
        Ok(Self {
            sandbox,
            roster,
            revisions: BTreeMap::new(),
        })
    }

    /// Sets what a tenant's guests may use together.
    ///
    /// # Errors
    /// When the name is none of a tenant.
    pub(crate) fn set_tenant(&mut self, name: &str, spec: &TenantSpec) -> Result<(), String> {
        let limits = spec.guests();
        match self.roster.tenant(name) {
            Some(tenant) => tenant.set_limits(&limits),
            None => {
                let tenant = TenantName::new(name).map_err(|error| error.to_string())?;
                self.roster.put_tenant(Tenant::new(tenant, &limits));
            }
        }
        Ok(())
    }

    /// Compiles, links and describes a guest, or the new version of one that runs, and makes its controller. The new version
    /// serves from then on.
    ///
    /// # Errors
    /// What is wrong, and what to do: nothing has changed then.
    pub(crate) async fn controller(&mut self, order: Order<'_>) -> Result<Controller, Trouble> {
        let Order {
            name,
            spec,
            terms,
            path,
            bytes,
            digest,
        } = order;
        let grant = Arc::new(grant(&spec.rules, terms)?);
        let revision = self.revision(path, bytes, digest).await?;
        let Effective {
            limits,
            concurrency,
        } = spec.limits.under(&terms.limits);
        let options = self.options(name, spec, grant, limits)?;
        let guest = self.guest(name, options, revision).await?;
        let shape = Shape {
            selection: selection(spec)?,
            concurrency,
            resync: spec.resync,
        };
        Ok(controller_of(guest, name, shape)?)
    }

    /// The guest that serves for a reconciler.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Guest>> {
        self.roster.guest(name)
    }

    /// The largest component that is loaded, in bytes.
    pub(crate) fn largest_component(&self) -> usize {
        self.sandbox.options().max_component
    }

    /// Forgets a reconciler.
    pub(crate) fn remove(&mut self, name: &str) {
        self.roster.remove(name);
    }

    /// Forgets tenants that have neither a document nor a reconciler, and has those without a document back at the defaults.
    pub(crate) fn keep_tenants(&mut self, documents: &BTreeSet<&str>, used: &BTreeSet<&str>) {
        self.roster.keep_tenants(&(documents | used));
        for tenant in self.roster.tenants() {
            if !documents.contains(tenant.name().as_str()) {
                tenant.set_limits(&TenantSpec::default().guests());
            }
        }
    }

    /// Forgets compiled components that none of these is.
    pub(crate) fn keep(&mut self, used: &BTreeSet<Digest>) {
        self.revisions.retain(|digest, _| used.contains(digest));
    }

    async fn revision(
        &mut self,
        path: &Path,
        bytes: Option<Vec<u8>>,
        digest: Digest,
    ) -> Result<Revision, Trouble> {
        if let Some(revision) = self.revisions.get(&digest) {
            return Ok(revision.clone());
        }
        let Some(bytes) = bytes else {
            return Err(format!("revision {} is not kept any more", digest.short()).into());
        };
        let source = Source::Bytes {
            name: path.display().to_string(),
            bytes,
        };
        let revision = self.sandbox.load(source).await?;
        self.revisions.insert(digest, revision.clone());
        Ok(revision)
    }

    fn options(
        &mut self,
        name: &str,
        spec: &ReconcilerSpec,
        grant: Arc<Grant>,
        limits: Limits,
    ) -> Result<GuestOptions, String> {
        if self.roster.tenant(spec.tenant()).is_none() {
            self.set_tenant(spec.tenant(), &TenantSpec::default())?;
        }
        let Some(tenant) = self.roster.tenant(spec.tenant()) else {
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

    /// Swaps the new version into the guest of this name, or makes the guest. One that changed its tenant is made anew.
    async fn guest(
        &mut self,
        name: &str,
        options: GuestOptions,
        revision: Revision,
    ) -> Result<Arc<Guest>, LoadError> {
        let there = self.roster.guest(name);
        if let Some(guest) = there.filter(|guest| guest.tenant() == *options.tenant.name()) {
            guest.reconfigure(options, revision).await?;
            return Ok(guest);
        }
        let guest = Guest::new(&self.sandbox, options, revision).await?;
        self.roster.put(name, guest.clone());
        Ok(guest)
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
    let mut builder = Controller::builder(name)
        .tenant(guest.tenant())
        .grant(rights.grant)
        .engage(shape.selection)
        .options(ControllerOptions {
            concurrency: shape.concurrency,
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

/// What a component needs and offers, asked with this `config` (JSON); with custom resources that are known to be served.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn inspect(
    sandbox: &Sandbox,
    path: &Path,
    config: &str,
    customs: &[CustomResource],
) -> Result<Inspection> {
    let component = load_into(sandbox, path).await?;
    Ok(component.inspect(sandbox, config, customs).await?)
}

/// A sandbox for a call at a time.
///
/// # Errors
/// When the engine cannot be made on this machine.
pub(crate) fn small_sandbox(options: Options) -> Result<Sandbox> {
    engine::start(&Options {
        instances: 1,
        ..options
    })
}

/// A component that fits the contract. Nothing of it has run.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn load_into(sandbox: &Sandbox, path: &Path) -> Result<Revision> {
    let bytes = tokio::fs::read(path)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow::anyhow!(
                "{}: no such file: name a component, or a folder that was built",
                path.display()
            ),
            _ => anyhow::anyhow!("{}: cannot be read: {error}", path.display()),
        })?;
    let source = Source::Bytes {
        name: path.display().to_string(),
        bytes,
    };
    Ok(told_if_slow(sandbox.load(source)).await?)
}

/// The load, which is told when it takes a moment: a component that brings its language's engine is compiled for seconds.
async fn told_if_slow<T>(load: impl Future<Output = T>) -> T {
    tokio::pin!(load);
    match tokio::time::timeout(MOMENT, &mut load).await {
        Ok(loaded) => loaded,
        Err(_) => {
            anstream::eprintln!("{}", Tone::Dim.paint("compiling the component"));
            load.await
        }
    }
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

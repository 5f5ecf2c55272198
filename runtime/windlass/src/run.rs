//! A configuration at work, from its first reading to the end of its drain. Entry point: [`run`].

mod changes;
pub(crate) mod idle;
mod notices;
mod own_events;
mod providers;
mod reload;
mod pressure;
pub(crate) mod signals;
mod storms;

use crate::admin::{self, Addresses, Sockets};
use crate::app::App;
use crate::app::rollback;
use crate::cli::IdleArgs;
use crate::config::clusters;
use crate::config::kinds::{Kind, ManagerSpec, TenantSpec};
use crate::config::load::{Configuration, Merged, load, merge};
use crate::dev::simulated::Simulated;
use crate::guests::Guests;
use crate::reconcilers::reloads::Reloads;
use crate::reconcilers::{Change, Reconcilers};
use crate::status::guest_metrics::GuestMetrics;
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use crate::status::process::{ProcessMetrics, raise_descriptor_limit, socket_budget};
use crate::status::reconcilers::Statuses;
use anyhow::{Context, Result, bail};
use idle::Report;
use prometheus_client::registry::Registry;
use providers::Providers;
use reload::Reload;
pub(crate) use reload::source_folders;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_fleet::TenantName;
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::manager::{Builder, Manager, ManagerOptions};
use windlass_fleet::metrics::Metrics;
use windlass_fleet::queue::TenantOptions;
use windlass_sandbox::Options;

/// How long a start waits for guests that take longer than others.
const MOMENT: Duration = Duration::from_secs(2);

/// What to run and how.
pub(crate) struct RunOptions {
    /// Files and folders of documents.
    pub(crate) files: Vec<PathBuf>,
    /// Clusters that stand in for those of the documents; a free admin port is taken when the usual one is not.
    pub(crate) simulated: Option<Arc<Simulated>>,
    /// Since when source folders are as they were built; none: they are not built when they change.
    pub(crate) built: Option<SystemTime>,
    /// Where the admin endpoints are served, if not where the documents say.
    pub(crate) admin: Option<SocketAddr>,
    /// Whether and when to end by itself.
    pub(crate) idle: IdleArgs,
    /// Where guests are compiled.
    pub(crate) engine: Options,
    /// Ends it.
    pub(crate) stop: CancellationToken,
}

/// Runs until stopped, or until idle if that is asked for, and drains. Returns how it went when it ended by itself.
///
/// # Errors
/// When nothing can start: every reason is in the message.
pub(crate) async fn run(options: RunOptions) -> Result<Option<Report>> {
    let stop = options.stop.child_token();
    raise_descriptor_limit();
    let startup = Startup::new(&options).await?;
    let spec = startup.merged.configuration.manager_spec();
    let wanted = addresses(options.admin, options.simulated.is_none(), &spec);
    let free_port = options.simulated.is_some() && options.admin.is_none();
    let sockets = admin::bind(wanted, free_port)?;
    startup.serve(options, (wanted, sockets), stop).await
}

/// All that a run is made of, checked and not yet started.
struct Startup {
    manager: Builder,
    registry: Registry,
    statuses: Arc<Statuses>,
    guest_registry: Arc<GuestRegistry>,
    reconcilers: Reconcilers,
    merged: Merged,
    heartbeats: Vec<Heartbeat>,
}

impl Startup {
    /// Reads the documents and makes everything that they ask for. What is bad is told and left out.
    async fn new(options: &RunOptions) -> Result<Self> {
        let merged = merge(&Configuration::default(), &load(&options.files));
        if !merged.configuration.has(Kind::Reconciler) {
            bail!("there is no Reconciler to run{}", reasons(&merged, &[]));
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::starting()));
        let mut manager = build_manager(options, &merged.configuration)?;
        let limits = merged.configuration.manager_spec().metric_limits();
        manager = manager.metrics(Metrics::with_limits(limits, &mut registry));
        let statuses = Arc::new(Statuses::default());
        let guest_registry = Arc::new(GuestRegistry::default());
        registry.register_collector(Box::new(GuestMetrics {
            guest_registry: guest_registry.clone(),
            statuses: statuses.clone(),
        }));
        let reloads = Reloads::default();
        reloads.register(&mut registry);
        let guests = Guests::new(&options.engine, guest_registry.clone())?;
        let scheduled = guests.heartbeat();
        let mut reconcilers = Reconcilers::new(guests, statuses.clone(), reloads);
        for change in begin(&mut reconcilers, &merged.configuration).await {
            if let Change::Put(controller) = change {
                manager = manager.controller(*controller);
            }
        }
        if reconcilers.running() == 0 && !options.waits_for_a_save() {
            let why = reasons(&merged, &reconcilers.problems());
            bail!("no reconciler can start{why}");
        }
        reconcilers.report();
        Ok(Self {
            manager,
            registry,
            statuses,
            guest_registry,
            reconcilers,
            merged,
            heartbeats: vec![Heartbeat::start("host", || true), scheduled],
        })
    }

    /// Runs until stopped or idle, drains, and returns how it went.
    async fn serve(
        self,
        options: RunOptions,
        (wanted, sockets): (Addresses, Sockets),
        stop: CancellationToken,
    ) -> Result<Option<Report>> {
        let bound = self.manager.build()?.bind();
        let mut problems = self.merged.problems;
        let mut providers = Providers::default();
        if options.simulated.is_none() {
            let configuration = &self.merged.configuration;
            problems.extend(providers.apply(&bound.handle(), configuration));
        }
        let (rollbacks, asked) = rollback::channel();
        let app = App::new(
            bound.handle(),
            self.statuses,
            self.guest_registry,
            self.merged.configuration,
            self.registry,
            self.heartbeats,
            rollbacks,
        );
        app.report_problems(&problems);
        // Served until the drain is over, so that it can be watched.
        let served = CancellationToken::new();
        let (moves, wanted) = watch::channel(wanted);
        let admin = admin::serve(sockets, app.clone(), wanted, served.clone());
        let admin = tokio::spawn(admin);
        let reload = Reload::start(
            &options,
            app.clone(),
            self.reconcilers,
            providers,
            (asked, moves),
        )
        .context("watch the configuration")?;
        let reload = tokio::spawn(stop.clone().run_until_cancelled_owned(reload.run()));
        let pressure = tokio::spawn(pressure::follow(app.clone()));
        let storms = tokio::spawn(storms::follow(app.manager.storms(), app.clone()));
        // In-memory clusters are served to the end of the drain.
        let simulated = options.simulated.clone();
        let watched = tokio::spawn(end_when_idle(options, app, stop.clone()));

        bound.run(stop.clone()).await?;
        stop.cancel();
        drop(simulated);
        reload.await.context("the reload ended early")?;
        let report = watched.await.context("the wait to be idle ended early")?;
        pressure.abort();
        storms.abort();
        served.cancel();
        admin.await.context("the admin endpoints ended early")?;
        Ok(report)
    }
}

/// Begins to load all guests, and waits until all are or, once one is, for a moment: what takes longer comes later.
async fn begin(reconcilers: &mut Reconcilers, configuration: &Configuration) -> Vec<Change> {
    let mut changes = reconcilers.follow(configuration);
    let moment = tokio::time::sleep(MOMENT);
    tokio::pin!(moment);
    while reconcilers.is_busy() {
        tokio::select! {
            more = reconcilers.next() => changes.extend(more),
            () = &mut moment, if reconcilers.running() > 0 => break,
        }
    }
    changes
}

/// Why nothing runs, below a headline.
fn reasons(merged: &Merged, reconcilers: &[String]) -> String {
    let documents = merged.problems.iter().map(ToString::to_string);
    documents
        .chain(reconcilers.iter().cloned())
        .map(|reason| format!("\n  {reason}"))
        .collect()
}

impl RunOptions {
    /// Whether a person watches the run and will correct errors of the start.
    fn waits_for_a_save(&self) -> bool {
        self.built.is_some() && !self.idle.exit_when_idle
    }
}

/// Ends the run once there is nothing left to do, and returns how that went.
async fn end_when_idle(
    options: RunOptions,
    app: Arc<App>,
    stop: CancellationToken,
) -> Option<Report> {
    if !options.idle.exit_when_idle {
        return None;
    }
    let wait = idle::wait(
        &app,
        options.simulated.as_deref(),
        options.idle.idle_timeout.0,
    );
    let report = stop.run_until_cancelled(wait).await?;
    stop.cancel();
    Some(report)
}

/// A manager with the clusters and tenants of the documents, or those that stand in for them.
fn build_manager(options: &RunOptions, configuration: &Configuration) -> Result<Builder> {
    let spec = configuration.manager_spec();
    let manager_options = ManagerOptions {
        concurrency: spec.concurrency(),
        drain_timeout: spec.drain_timeout(),
        caches: spec.caches.options(),
        transport: TransportOptions {
            max_sockets: socket_budget(),
            ..spec.transport.options()
        },
        ..ManagerOptions::default()
    };
    let mut builder = Manager::builder().options(manager_options);
    for (document, spec) in configuration.tenants() {
        builder = builder.tenant(
            TenantName::new(&document.identity.name)?,
            tenant_options(spec),
        );
    }
    if let Some(simulated) = &options.simulated {
        if let Some(local) = &simulated.local {
            builder = builder.local(local.clone());
        }
        if spec.leader_election.enabled {
            tracing::info!("leader election is left out: nobody else has this in-memory fleet");
        }
        return Ok(builder.provider(simulated.provider.clone()));
    }
    if let Some(local) =
        clusters::local(configuration).map_err(|problem| anyhow::anyhow!("{problem}"))?
    {
        builder = builder.local(local);
    }
    if let Some(election) = spec.leader_election.options(&machine()) {
        builder = builder.leader_election(election);
    }
    Ok(builder)
}

/// The name of this machine, or of this pod, for people.
fn machine() -> String {
    let told = std::env::var("HOSTNAME").ok();
    let told = told.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let told = told.map(|name| name.trim().to_owned());
    told.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}

/// A tenant's share in the engine's words.
fn tenant_options(spec: &TenantSpec) -> TenantOptions {
    TenantOptions {
        weight: spec.weight(),
        concurrency: spec.limits.concurrency,
    }
}

/// Where the admin endpoints are to be served: at the flag's address, the document's, or the usual one. The probes, besides, where the
/// document says, unless the fleet is in memory: nobody probes that.
fn addresses(flag: Option<SocketAddr>, has_fleet: bool, spec: &ManagerSpec) -> Addresses {
    Addresses {
        admin: flag.unwrap_or(spec.admin.address()),
        probes: spec.admin.probe_address().filter(|_| has_fleet),
    }
}

//! A configuration at work, from its first reading to the end of its drain. Entry point: [`run`].

mod changes;
pub(crate) mod idle;
mod notices;
mod own_events;
mod providers;
mod reload;
mod shed;
pub(crate) mod signals;
mod storms;

use crate::admin::{self, Addresses, Sockets};
use crate::app::Host;
use crate::app::rollback;
use crate::cli::IdleArgs;
use crate::config::clusters;
use crate::config::kinds::{Kind, ManagerSpec, TenantSpec};
use crate::config::load::{Configuration, Merged, load, merge};
use crate::dev::simulated::Simulated;
use crate::guests::Guests;
use crate::reconcilers::reloads::Reloads;
use crate::reconcilers::{Change, Reconcilers};
use crate::status::accounts::Accounts;
use crate::status::board::Board;
use crate::status::heartbeat::Heartbeat;
use crate::status::process::{ProcessMetrics, raise_descriptor_limit, socket_budget};
use crate::status::roster::Roster;
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
pub(crate) struct Session {
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
pub(crate) async fn run(session: Session) -> Result<Option<Report>> {
    let stop = session.stop.child_token();
    raise_descriptor_limit();
    let prepared = Prepared::new(&session).await?;
    let spec = prepared.merged.configuration.manager_spec();
    let wanted = addresses(session.admin, session.simulated.is_none(), &spec);
    let free_port = session.simulated.is_some() && session.admin.is_none();
    let sockets = admin::bind(wanted, free_port)?;
    prepared.serve(session, (wanted, sockets), stop).await
}

/// All that a run is made of, checked and not yet started.
struct Prepared {
    manager: Builder,
    registry: Registry,
    board: Arc<Board>,
    roster: Arc<Roster>,
    reconcilers: Reconcilers,
    merged: Merged,
    heartbeats: Vec<Heartbeat>,
}

impl Prepared {
    /// Reads the documents and makes everything that they ask for. What is bad is told and left out.
    async fn new(session: &Session) -> Result<Self> {
        let merged = merge(&Configuration::default(), &load(&session.files));
        if !merged.configuration.has(Kind::Reconciler) {
            bail!("there is no Reconciler to run{}", reasons(&merged, &[]));
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::starting()));
        let mut manager = build_manager(session, &merged.configuration)?;
        let limits = merged.configuration.manager_spec().metric_limits();
        manager = manager.metrics(Metrics::with_limits(limits, &mut registry));
        let board = Arc::new(Board::default());
        let roster = Arc::new(Roster::default());
        registry.register_collector(Box::new(Accounts {
            roster: roster.clone(),
            board: board.clone(),
        }));
        let reloads = Reloads::default();
        reloads.register(&mut registry);
        let guests = Guests::new(&session.engine, roster.clone())?;
        let scheduled = guests.heartbeat();
        let mut reconcilers = Reconcilers::new(guests, board.clone(), reloads);
        for change in begin(&mut reconcilers, &merged.configuration).await {
            if let Change::Put(controller) = change {
                manager = manager.controller(*controller);
            }
        }
        if reconcilers.running() == 0 && !session.waits_for_a_save() {
            let why = reasons(&merged, &reconcilers.problems());
            bail!("no reconciler can start{why}");
        }
        reconcilers.tell();
        Ok(Self {
            manager,
            registry,
            board,
            roster,
            reconcilers,
            merged,
            heartbeats: vec![Heartbeat::start("host", || true), scheduled],
        })
    }

    /// Runs until stopped or idle, drains, and returns how it went.
    async fn serve(
        self,
        session: Session,
        (wanted, sockets): (Addresses, Sockets),
        stop: CancellationToken,
    ) -> Result<Option<Report>> {
        let bound = self.manager.build()?.bind();
        let mut problems = self.merged.problems;
        let mut providers = Providers::default();
        if session.simulated.is_none() {
            let configuration = &self.merged.configuration;
            problems.extend(providers.apply(&bound.handle(), configuration));
        }
        let (rollbacks, asked) = rollback::channel();
        let host = Host::new(
            bound.handle(),
            self.board,
            self.roster,
            self.merged.configuration,
            self.registry,
            self.heartbeats,
            rollbacks,
        );
        host.tell_problems(&problems);
        // Served until the drain is over, so that it can be watched.
        let served = CancellationToken::new();
        let (moves, wanted) = watch::channel(wanted);
        let admin = admin::serve(sockets, host.clone(), wanted, served.clone());
        let admin = tokio::spawn(admin);
        let reload = Reload::start(
            &session,
            host.clone(),
            self.reconcilers,
            providers,
            (asked, moves),
        )
        .context("watch the configuration")?;
        let reload = tokio::spawn(stop.clone().run_until_cancelled_owned(reload.run()));
        let shed = tokio::spawn(shed::follow(host.clone()));
        let storms = tokio::spawn(storms::follow(host.manager.storms(), host.clone()));
        // In-memory clusters are served to the end of the drain.
        let simulated = session.simulated.clone();
        let watched = tokio::spawn(end_when_idle(session, host, stop.clone()));

        bound.run(stop.clone()).await?;
        stop.cancel();
        drop(simulated);
        reload.await.context("the reload ended early")?;
        let report = watched.await.context("the wait to be idle ended early")?;
        shed.abort();
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

impl Session {
    /// Whether somebody sits before it and will mend what does not start.
    fn waits_for_a_save(&self) -> bool {
        self.built.is_some() && !self.idle.exit_when_idle
    }
}

/// Ends the session once there is nothing left to do, and returns how that went.
async fn end_when_idle(
    session: Session,
    host: Arc<Host>,
    stop: CancellationToken,
) -> Option<Report> {
    if !session.idle.exit_when_idle {
        return None;
    }
    let wait = idle::wait(
        &host,
        session.simulated.as_deref(),
        session.idle.idle_timeout.0,
    );
    let report = stop.run_until_cancelled(wait).await?;
    stop.cancel();
    Some(report)
}

/// A manager with the clusters and tenants of the documents, or those that stand in for them.
fn build_manager(session: &Session, configuration: &Configuration) -> Result<Builder> {
    let spec = configuration.manager_spec();
    let options = ManagerOptions {
        concurrency: spec.concurrency(),
        drain_timeout: spec.drain_timeout(),
        caches: spec.caches.options(),
        transport: TransportOptions {
            max_sockets: socket_budget(),
            ..spec.transport.options()
        },
        ..ManagerOptions::default()
    };
    let mut builder = Manager::builder().options(options);
    for (document, spec) in configuration.tenants() {
        builder = builder.tenant(
            TenantName::new(&document.identity.name)?,
            tenant_options(spec),
        );
    }
    if let Some(simulated) = &session.simulated {
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

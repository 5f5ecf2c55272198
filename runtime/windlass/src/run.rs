//! Runs a configuration, from its first reading to the end of the drain. Entry point: [`run`].

pub(crate) mod builds;
mod changes;
mod hot_keys;
pub(crate) mod idle;
mod notices;
mod objects;
mod pauses;
mod providers;
mod removals;
mod reload;
mod pressure;
pub(crate) mod signals;

use crate::admin::{self, Addresses};
use crate::admin_address::Address;
use crate::app::rollback;
use crate::app::{App, machine};
use crate::cli::IdleArgs;
use crate::config::clusters::LocalCluster;
use crate::config::kinds::{AdminSpec, Authentication, ManagerSpec};
use crate::config::load::{Configuration, start};
use crate::config::{clusters, proxy, registries};
use crate::guests::{Guests, ReconcilerNeeds};
use crate::reconcilers::reloads::Reloads;
use crate::reconcilers::{Reconcilers, Records, Sources};
use crate::status::guest_metrics::GuestMetrics;
use crate::status::guest_registry::GuestRegistry;
use crate::status::heartbeat::Heartbeat;
use crate::status::history;
use crate::status::process::{ProcessMetrics, raise_descriptor_limit, socket_budget};
use crate::status::reconcilers::Statuses;
use anyhow::{Context, Result, bail};
use builds::SourceBuilder;
use idle::{Patience, Report};
use prometheus_client::registry::Registry;
use reload::Reload;
pub(crate) use reload::source_folders;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_fleet::cluster::TransportOptions;
use windlass_fleet::engage::{ClusterSpec, Reroute};
use windlass_fleet::manager::{BoundManager, Builder, Manager, ManagerOptions};
use windlass_fleet::metrics::Metrics;
use windlass_fleet::provider::Provider;
use windlass_fleet::provider::selected::Selection;
use windlass_registry::Registries;
use windlass_sandbox::{NativeGuests, Options};

/// Longest time that a process which ends takes to say so in its objects.
const GOODBYE: Duration = Duration::from_secs(2);

/// What to run, and how.
pub(crate) struct RunOptions {
    /// Files and folders of documents.
    pub(crate) files: Vec<PathBuf>,
    /// Whether objects of the local cluster count too.
    pub(crate) from_cluster: bool,
    /// In-memory clusters in place of those of the documents. If the default admin port is taken, another one is used.
    pub(crate) simulated: Option<Arc<StandIns>>,
    /// How source folders are built again when they change; none: they are not.
    pub(crate) rebuild: Option<Rebuild>,
    /// The address of the admin endpoints, in place of the one in the documents.
    pub(crate) admin: Option<SocketAddr>,
    /// The folder in whose `.windlass` other commands find that address; none: nowhere.
    pub(crate) found_in: Option<PathBuf>,
    /// Whether and when to end once idle.
    pub(crate) idle: IdleArgs,
    /// Ends a run that ends when idle once only keys are left that failed so often in a row. None: never.
    pub(crate) gives_up: Option<u32>,
    /// What is done each time that nothing is left to do, before the end: it returns when to look again, or the end. None: nothing.
    pub(crate) then: Option<Box<dyn FnMut() -> Option<Then> + Send>>,
    /// How fast a run that ends when idle looks whether it is, and how many keys run at once.
    pub(crate) pace: Pace,
    /// Notes what no rule grants, and allows it, in memory only. None: it is denied.
    pub(crate) needs: Option<ReconcilerNeeds>,
    /// Copies of the clusters in place of the clusters themselves; none: it is no rehearsal.
    pub(crate) rehearsal: Option<Arc<Rehearsal>>,
    /// Guests that run as processes of their own, for their authors.
    pub(crate) natives: NativeGuests,
    /// The options of the sandbox.
    pub(crate) engine: Options,
    /// Ends the run.
    pub(crate) stop: CancellationToken,
}

/// The pace of a run that ends when idle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// How often the manager is asked whether it is idle.
    pub(crate) idle_interval: Duration,
    /// How many times in a row it must be.
    pub(crate) idle_times: u32,
    /// Whether one key runs at a time, and lists are not streamed, so that one run is like the next: for tests under faults.
    pub(crate) is_serial: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            idle_interval: idle::INTERVAL,
            idle_times: idle::STEADY,
            is_serial: false,
        }
    }
}

/// What is to happen before a run looks again whether nothing is left to do.
pub(crate) struct Then {
    /// Time that passes.
    pub(crate) wait: Duration,
    /// How far the clocks of the queue and of guests move forward before that.
    pub(crate) clock: Duration,
    /// Whether every object of every reconciler runs again.
    pub(crate) resync: bool,
}

/// Which clusters are to be engaged, by their names.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// Those without which a run is not idle, each with its labels.
    pub(crate) there: BTreeMap<String, BTreeMap<String, String>>,
    /// Those with which it is not.
    pub(crate) gone: BTreeSet<String>,
    /// Of those that are there, the ones whose server fails: a run is idle when that is known.
    pub(crate) failed: BTreeSet<String>,
}

/// The number of changes in a cluster.
type Changes = dyn Fn(&str) -> Option<u64> + Send + Sync;

/// In-memory clusters. They are served at least until this is dropped.
pub(crate) struct StandIns {
    /// Replaces the Manager's local cluster.
    pub(crate) local: Option<ClusterSpec>,
    /// Replace the Providers.
    pub(crate) providers: Vec<Arc<dyn Provider>>,
    /// The clusters that a run has to have engaged to be idle.
    pub(crate) expected: Box<dyn Fn() -> Expected + Send + Sync>,
    /// The number of changes in a cluster since it was filled.
    pub(crate) changes: Box<Changes>,
}

/// How a run is rehearsed: over copies of its clusters, so that nothing is changed anywhere.
pub(crate) struct Rehearsal {
    /// Where each cluster is reached.
    pub(crate) reroute: Arc<dyn Reroute>,
    /// The local cluster; none: that of the documents.
    pub(crate) local: Option<ClusterSpec>,
    /// The clusters of Providers that take part.
    pub(crate) selection: Selection,
    /// Changes the documents before they are in effect.
    pub(crate) revise: Box<Revise>,
}

type Revise = dyn Fn(&mut Configuration) + Send + Sync;

/// How source folders are built again.
#[derive(Clone)]
pub(crate) struct Rebuild {
    /// When they were built.
    pub(crate) built: SystemTime,
    /// Builds them.
    pub(crate) builder: Arc<dyn SourceBuilder>,
}

/// Runs until stopped, or until idle if the options ask for that, and drains. Returns a report if it ended because it was idle.
///
/// # Errors
/// When nothing can start. The message has every reason.
pub(crate) async fn run(options: RunOptions) -> Result<Option<Report>> {
    let stop = options.stop.child_token();
    raise_descriptor_limit();
    let first = start(&options.files)?;
    let mut process = Process::new(&options, &first.configuration)?;
    // Guests may take minutes to load.
    let begun = process.reload.begin(first, options.goes_on_without());
    match stop.run_until_cancelled(begun).await {
        Some(begun) => begun?,
        None => return Ok(None),
    }
    process.serve(options, stop).await
}

/// A run as its Manager makes it. [`Reload`] puts all other documents into effect, at the start as later.
struct Process {
    manager: BoundManager,
    app: Arc<App>,
    reload: Reload,
}

impl Process {
    /// # Errors
    /// When the Manager or the options cannot be in effect. No cluster is engaged then.
    fn new(options: &RunOptions, configuration: &Configuration) -> Result<Self> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::starting()));
        let manager = build_manager(options, configuration)?;
        if options.needs.is_some() && options.simulated.is_none() {
            bail!("rules are not looked for on real clusters: nothing would be denied there");
        }
        if options.from_cluster && !manager.has_local() {
            bail!(
                "there is no local cluster to read: name it in spec.local of a Manager, or run in a pod"
            );
        }
        let has_local = manager.has_local();
        let limits = configuration.manager_spec().metric_limits();
        let metrics = Metrics::with_limits(limits, &mut registry);
        let manager = manager.metrics(metrics).build()?.bind();
        let handle = manager.handle();
        let statuses = Arc::new(Statuses::default());
        let guest_registry = Arc::new(GuestRegistry::default());
        registry.register_collector(Box::new(GuestMetrics {
            guest_registry: guest_registry.clone(),
            statuses: statuses.clone(),
        }));
        let reloads = Reloads::default();
        reloads.register(&mut registry);
        let guests = Guests::new(
            &options.engine,
            guest_registry.clone(),
            options.needs.clone(),
            options.natives.clone(),
            has_local,
        )?
        .sharing(handle.portion());
        let heartbeats = vec![Heartbeat::start("host", || true), guests.heartbeat()];
        let cache = options.engine.cache.as_ref();
        let cache = cache.map(|cache| cache.folder.as_path());
        let images = Registries::new(registries::options(configuration, cache)?);
        images.read_secrets_of(handle.clone());
        // In-memory clusters and copies end with the process, and so does what was decided about them.
        let keeps = options.simulated.is_none() && options.rehearsal.is_none();
        let kept = cache.filter(|_| keeps);
        let sources = Sources {
            registry: images,
            records: Records::new(kept, handle.clone()),
            trusts_files: options.simulated.is_some(),
        };
        let reconcilers = Reconcilers::new(guests, sources, statuses.clone(), reloads);
        let (rollbacks, calls) = rollback::channel();
        let app = App::new(
            handle,
            statuses,
            guest_registry,
            configuration.only_manager(),
            registry,
            heartbeats,
            rollbacks,
        );
        Ok(Self {
            manager,
            reload: Reload::new(options, app.clone(), reconcilers, calls)?,
            app,
        })
    }

    /// Runs until stopped or idle, drains, and returns how it went.
    async fn serve(self, options: RunOptions, stop: CancellationToken) -> Result<Option<Report>> {
        let (mut manager, app, mut reload) = (self.manager, self.app, self.reload);
        let addresses = reload.addresses();
        let free_port = options.simulated.is_some() && options.admin.is_none();
        let wanted = *addresses.borrow();
        let sockets = admin::bind(wanted, free_port)?;
        let found_in = options.found_in.as_deref();
        let found = found_in.and_then(|folder| Address::write(folder, sockets.admin()?));
        // Providers may read it.
        manager.engage_local()?;
        reload.apply();
        // The admin endpoints are served until the end of the drain, so that it can be observed.
        let served = CancellationToken::new();
        let admin = admin::serve(sockets, app.clone(), addresses, served.clone());
        let admin = tokio::spawn(admin);
        let outcomes = reload.outcomes();
        let status = outcomes.clone();
        let status =
            status.map(|outcomes| tokio::spawn(objects::status::write(app.clone(), outcomes)));
        let leaves = app.shared_lease().is_none() && options.rehearsal.is_none();
        let left = outcomes.filter(|_| leaves).zip(status.as_ref());
        let left = left.map(|(outcomes, writer)| (outcomes, writer.abort_handle()));
        let drain = CancellationToken::new();
        let leave = tokio::spawn(leave(app.clone(), left, stop.clone(), drain.clone()));
        let reload = tokio::spawn(stop.clone().run_until_cancelled_owned(reload.run()));
        let pressure = tokio::spawn(pressure::follow(app.clone()));
        let hot_keys = tokio::spawn(hot_keys::follow(app.manager.hot_keys(), app.clone()));
        let history = tokio::spawn(history::follow(app.manager.clone(), app.history.clone()));
        // In-memory clusters are served until the end of the drain.
        let simulated = options.simulated.clone();
        let idle = tokio::spawn(end_when_idle(options, app, stop.clone()));

        manager.run(drain).await?;
        stop.cancel();
        leave.await.context("the end began early")?;
        drop(simulated);
        reload.await.context("the reload ended early")?;
        let report = idle.await.context("the wait to be idle ended early")?;
        pressure.abort();
        hot_keys.abort();
        history.abort();
        status.inspect(tokio::task::JoinHandle::abort);
        served.cancel();
        admin.await.context("the admin endpoints ended early")?;
        drop(found);
        Ok(report)
    }
}

/// Begins the drain once the run shall stop. `left`: the objects that this process leaves to nobody, and the task that writes their status.
async fn leave(
    app: Arc<App>,
    left: Option<(Arc<objects::Outcomes>, AbortHandle)>,
    stop: CancellationToken,
    drain: CancellationToken,
) {
    stop.cancelled().await;
    // The drain cuts its calls off.
    if let Some((outcomes, writer)) = left {
        writer.abort();
        let written = objects::status::leave(&app, &outcomes);
        if tokio::time::timeout(GOODBYE, written).await.is_err() {
            tracing::warn!(
                "the cluster does not take the statuses: a process that waits for this one waits until it has been silent"
            );
        }
    }
    drain.cancel();
}

impl RunOptions {
    /// Whether a reconciler may come later: a developer is expected to edit a guest that does not start, or the local cluster has some.
    fn goes_on_without(&self) -> bool {
        self.from_cluster || self.rebuild.is_some() && !self.idle.exit_when_idle
    }
}

/// Ends the run once the manager is idle, and returns a report.
async fn end_when_idle(
    mut options: RunOptions,
    app: Arc<App>,
    stop: CancellationToken,
) -> Option<Report> {
    if !options.idle.exit_when_idle {
        return None;
    }
    loop {
        let patience = Patience {
            timeout: options.idle.idle_timeout.0,
            failures: options.gives_up,
            interval: options.pace.idle_interval,
            times: options.pace.idle_times,
        };
        let may_be_empty = options.rehearsal.is_some();
        let simulated = options.simulated.as_deref();
        let wait = idle::wait(&app, simulated, may_be_empty, patience);
        let report = stop.run_until_cancelled(wait).await?;
        let then = options.then.as_mut().filter(|_| report.busy.is_empty());
        let Some(Then {
            wait,
            clock,
            resync,
        }) = then.and_then(|then| then())
        else {
            stop.cancel();
            return Some(report);
        };
        if !clock.is_zero() {
            options.engine.clock.advance(clock);
            app.manager.advance(clock);
        }
        if resync {
            app.manager.resync_all();
        }
        stop.run_until_cancelled(sleep(wait)).await?;
    }
}

/// A manager with the local cluster of the Manager, or with in-memory clusters.
fn build_manager(options: &RunOptions, configuration: &Configuration) -> Result<Builder> {
    let spec = configuration.manager_spec();
    let mut manager_options = manager_options(&spec)?;
    if options.pace.is_serial {
        manager_options.concurrency.global = 1;
        manager_options.caches.streaming_lists = false;
    }
    let mut builder = Manager::builder().options(manager_options);
    if let Some(simulated) = &options.simulated {
        if let Some(local) = &simulated.local {
            builder = builder.local(local.clone());
        }
        if spec.leader_election.enabled {
            tracing::info!("leader election is off: no other process can use this in-memory fleet");
        }
        if spec.sharding.enabled {
            tracing::info!("sharding is off: no other process can use this in-memory fleet");
        }
        let providers = simulated.providers.iter().cloned();
        return Ok(providers.fold(builder, Builder::provider));
    }
    let named = options.rehearsal.as_ref();
    let local = match named.and_then(|rehearsal| rehearsal.local.clone()) {
        Some(local) => Some(local),
        None => clusters::local(configuration).map_err(|problem| anyhow::anyhow!("{problem}"))?,
    };
    if let Some(local) = local {
        builder = builder.local(local);
    }
    if let Some(rehearsal) = &options.rehearsal {
        // The leader goes on as it is.
        return Ok(builder.reroute(rehearsal.reroute.clone()));
    }
    if let Some(election) = spec.leader_election.options(&machine()) {
        builder = builder.leader_election(election);
    }
    if let Some(sharding) = spec.sharding.options(&machine()) {
        builder = builder.sharding(sharding);
    }
    Ok(builder)
}

/// The engine's options of a Manager's document, within the limits of this process and with the proxy of its environment.
///
/// # Errors
/// When the proxy of the environment cannot be used.
pub(crate) fn manager_options(spec: &ManagerSpec) -> Result<ManagerOptions> {
    Ok(ManagerOptions {
        concurrency: spec.concurrency(),
        drain_timeout: spec.drain_timeout(),
        caches: spec.caches.options(),
        duplicate_clusters: spec.duplicate_clusters,
        transport: TransportOptions {
            max_sockets: socket_budget(),
            proxy: proxy::from_environment()?,
            ..spec.transport.options()
        },
        ..ManagerOptions::default()
    })
}

/// The addresses of the admin endpoints: the flag's, the document's, or the default. If the fleet is in memory, nothing has an address of
/// its own, and the API takes the token of a file.
///
/// # Errors
/// When the documents ask for reviews of tokens, and there is no local cluster.
fn addresses(
    flag: Option<SocketAddr>,
    has_fleet: bool,
    admin: &AdminSpec,
    local: LocalCluster,
) -> Result<Addresses> {
    Ok(Addresses {
        admin: flag.unwrap_or(admin.address()),
        probes: admin.probe_address().filter(|_| has_fleet),
        metrics: admin.metrics_address().filter(|_| has_fleet),
        authentication: if has_fleet {
            authentication(admin, local)?
        } else {
            Authentication::TokenFile
        },
    })
}

fn authentication(admin: &AdminSpec, local: LocalCluster) -> Result<Authentication> {
    match (admin.authentication, local) {
        (Some(Authentication::TokenReview), LocalCluster::None) => bail!(
            "spec.admin.authentication: TokenReview needs a local cluster from the start on: name it in spec.local and start again, or use TokenFile"
        ),
        (Some(asked), _) => Ok(asked),
        (None, LocalCluster::OfPod) => Ok(Authentication::TokenReview),
        (None, _) => Ok(Authentication::TokenFile),
    }
}

//! Puts documents and guests into effect, at the start and whenever they or the sources of guests change. Entry points: [`Reload::begin`],
//! then [`Reload::apply`] and [`Reload::run`].
//!
//! The start is the first reload, of a process in which only its Manager is in effect: [`Reload::begin`] does what each reload does, but
//! for the clusters. They are engaged once a guest can serve.

use super::builds::{Builds, Built};
use super::changes::Changes;
use super::notices::Notices;
use super::objects::{Feed, Outcomes};
use super::pauses::PauseNotices;
use super::providers::Providers;
use super::removals::Removals;
use super::{Rehearsal, RunOptions, addresses};
use crate::admin::Addresses;
use crate::app::App;
use crate::app::rollback::RollbackCall;
use crate::config::clusters::LocalCluster;
use crate::config::kinds::{Kind, ManagerSpec, TenantSpec, Within};
use crate::config::load::{Configuration, Listing, Merged, Outcome, load, merge};
use crate::reconcilers::{Change, Reconcilers};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use windlass_files::{Problem, Target, Watch};
use windlass_fleet::TenantName;
use windlass_fleet::manager::TenantOptions;

/// How long a start waits for slow guests once one guest serves.
const MOMENT: Duration = Duration::from_secs(2);

/// Watches files and applies their changes.
pub(super) struct Reload {
    files: Vec<PathBuf>,
    /// The objects of the local cluster; none: they do not count.
    objects: Option<Feed>,
    /// When the source folders were built; none: they are not built.
    built: Option<SystemTime>,
    /// Builds source folders when they change; none: they are not built.
    builds: Option<Builds>,
    /// Whether Providers are in effect, and not in-memory clusters.
    has_fleet: bool,
    /// Whether the admin endpoints are where the Manager says.
    has_addresses: bool,
    /// Copies of the clusters in place of the clusters themselves.
    rehearsal: Option<Arc<Rehearsal>>,
    app: Arc<App>,
    reconcilers: Reconcilers,
    changes: Changes,
    providers: Providers,
    notices: Notices,
    pauses: PauseNotices,
    /// None: nothing that is removed here is removed anywhere else.
    removals: Option<Removals>,
    /// The Manager at the start of the process.
    started: ManagerSpec,
    watch: Watch,
    /// Rollbacks from the admin endpoints.
    rollbacks: mpsc::Receiver<RollbackCall>,
    /// The admin address of the command line, which wins over the documents.
    admin: Option<SocketAddr>,
    /// Tells the admin endpoints where to serve.
    addresses: watch::Sender<Addresses>,
}

impl Reload {
    /// With nothing in effect but the Manager.
    ///
    /// # Errors
    /// When the system has no more watchers, or the admin endpoints cannot be served as the Manager asks.
    pub(super) fn new(
        options: &RunOptions,
        app: Arc<App>,
        reconcilers: Reconcilers,
        rollbacks: mpsc::Receiver<RollbackCall>,
    ) -> Result<Self> {
        let rebuild = options.rebuild.as_ref();
        let builds = rebuild.map(|rebuild| Builds::start(rebuild.builder.clone()));
        let started = app.configuration.load().manager_spec();
        let (admin, has_fleet) = (options.admin, options.simulated.is_none());
        let has_addresses = has_fleet && options.rehearsal.is_none();
        let local = LocalCluster::of(&started);
        let addresses = addresses(admin, has_addresses, &started.admin, local)?;
        let is_real = options.rehearsal.is_none();
        let removals = is_real.then(|| Removals::start(app.clone()));
        Ok(Self {
            files: options.files.clone(),
            objects: options
                .from_cluster
                .then(|| Feed::start(app.clone(), options.rehearsal.is_some())),
            built: rebuild.map(|rebuild| rebuild.built),
            builds: builds.transpose().context("watch the sources of guests")?,
            started,
            has_fleet,
            has_addresses,
            rehearsal: options.rehearsal.clone(),
            changes: Changes::new(app.manager.clone()),
            app,
            reconcilers,
            providers: Providers::of(options.rehearsal.as_ref()),
            notices: Notices::default(),
            pauses: PauseNotices::default(),
            removals,
            watch: Watch::start().context("watch the configuration")?,
            rollbacks,
            admin,
            addresses: watch::Sender::new(addresses),
        })
    }

    /// What became of the objects of the local cluster, if they count.
    pub(super) fn outcomes(&self) -> Option<Arc<Outcomes>> {
        self.objects.as_ref().map(Feed::outcomes)
    }

    /// Where the admin endpoints are to be served.
    pub(super) fn addresses(&self) -> watch::Receiver<Addresses> {
        self.addresses.subscribe()
    }

    /// The start: puts the first documents into effect, and waits until all guests are loaded, or until [`MOMENT`] has passed and one serves,
    /// or one waits for a registry. No cluster is engaged, and bad documents are reported by the next [`Self::apply`]. `goes_on_without`: a
    /// reconciler may come later.
    ///
    /// # Errors
    /// When nothing can start. The message has every reason.
    pub(super) async fn begin(&mut self, first: Outcome, goes_on_without: bool) -> Result<()> {
        let (merged, listing) = self.merge(first);
        let has_some = merged.configuration.has(Kind::Reconciler) || self.objects.is_some();
        if !has_some && !goes_on_without {
            bail!("there is no Reconciler to run{}", reasons(&merged, &[]));
        }
        self.put(&merged, &listing);
        let moment = sleep(MOMENT);
        tokio::pin!(moment);
        while self.reconcilers.is_busy() {
            let changes = tokio::select! {
                changes = self.reconcilers.next() => changes,
                () = &mut moment, if self.reconcilers.running() > 0 || self.reconcilers.may_come_later() => break,
            };
            for change in changes {
                // Nothing is removed that was never there.
                if let Change::Put(controller) = change {
                    self.changes.put(controller);
                }
            }
        }
        let waits = goes_on_without || self.reconcilers.may_come_later();
        if self.reconcilers.running() == 0 && !waits {
            let why = reasons(&merged, &self.reconcilers.problems());
            bail!("no reconciler can start{why}");
        }
        Ok(())
    }

    /// Applies changes until it is dropped.
    pub(super) async fn run(mut self) {
        if let (Some(builds), Some(when)) = (&mut self.builds, self.built) {
            builds.ask_saved_since(when);
        }
        loop {
            self.changed().await;
            self.apply();
        }
    }

    /// Waits until a file has changed or a build has ended. Meanwhile applies each reconciler that is loaded, and rollbacks.
    async fn changed(&mut self) {
        loop {
            let built = async {
                match &mut self.builds {
                    Some(builds) => builds.next().await,
                    None => std::future::pending().await,
                }
            };
            let objects = async {
                match &mut self.objects {
                    Some(objects) => objects.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.watch.changed() => return,
                () = objects => return,
                built = built => {
                    log_build(&built);
                    return;
                }
                changes = self.reconcilers.next() => self.apply_changes(changes),
                () = self.changes.moved() => {}
                Some(call) = self.rollbacks.recv() => self.reconcilers.roll_back(call),
            }
        }
    }

    /// Reads everything again, starts to put it into effect, and reports what is not. Guests are loaded in the background.
    pub(super) fn apply(&mut self) {
        let (merged, listing) = self.merge(load(&self.files));
        let changes = self.put(&merged, &listing);
        let mut problems = merged.problems.clone();
        let mut kept: Vec<Problem> = merged.kept.values().cloned().collect();
        if self.has_fleet {
            let unread = self.objects.as_ref().is_some_and(|feed| !feed.has_read());
            problems.extend(self.providers.apply(&self.app.manager, &merged, unread));
            kept.extend(self.providers.kept());
        }
        kept.extend(self.objects.as_ref().and_then(Feed::kept));
        self.app.report_problems(&problems, &kept);
        self.notices.set_kept(merged.kept);
        if let Some(objects) = &self.objects {
            self.notices.set_refused_objects(objects.refused());
            self.notices.set_holdings(objects.holdings());
        }
        self.apply_changes(changes);
        // After their loads have begun.
        let awaited = match &self.objects {
            Some(objects) => objects.awaited(),
            None => Some(BTreeSet::new()),
        };
        self.app.awaited.store(awaited.map(Arc::new));
    }

    /// Documents that were read, with those that stay in effect and the objects of the local cluster.
    fn merge(&mut self, read: Outcome) -> (Merged, Listing) {
        let listing = read.listing.clone();
        let last = self.app.configuration.load_full();
        let mut merged = match &mut self.objects {
            Some(objects) => objects.join(&last, read),
            None => merge(&last, &read),
        };
        if let Some(rehearsal) = &self.rehearsal {
            (rehearsal.revise)(&mut merged.configuration);
        }
        (merged, listing)
    }

    /// Puts documents into effect, but for the Providers. Returns the changes that the manager has to make at once.
    fn put(&mut self, merged: &Merged, listing: &Listing) -> Vec<Change> {
        let now = Arc::new(merged.configuration.clone());
        let last = self.app.configuration.swap(now.clone());
        if let Some(removals) = &self.removals {
            removals.note(&self.app, &last, &now);
        }
        self.apply_manager(&last, &now);
        self.apply_tenants(&last, &now);
        let all_read = self.objects.as_ref().is_none_or(Feed::has_read);
        self.pauses.apply(&self.app, all_read);
        let changes = self.reconcilers.follow(&now);
        self.watch_all(&now, listing);
        changes
    }

    /// Applies changes to the manager, and reports them.
    fn apply_changes(&mut self, changes: Vec<Change>) {
        changes
            .into_iter()
            .for_each(|change| self.changes.apply(change));
        self.reconcilers.report();
        self.notices.update(&self.app);
    }

    fn apply_manager(&self, last: &Configuration, now: &Configuration) {
        let (last, now) = (last.manager_spec(), now.manager_spec());
        if last == now {
            return;
        }
        self.app.apply_concurrency(&now);
        self.app.manager.set_drain_timeout(now.drain_timeout());
        self.app.manager.set_metric_limits(now.metric_limits());
        self.app.manager.set_caches(now.caches.options());
        // The local cluster is that of the start.
        let local = LocalCluster::of(&self.started);
        match addresses(self.admin, self.has_addresses, &now.admin, local) {
            Ok(wanted) => drop(self.addresses.send_replace(wanted)),
            Err(error) => tracing::error!(%error, "the admin endpoints stay as they are"),
        }
        let needs_restart = Arc::new(self.started.fixed_at_start(&now));
        // Stored before it is logged: a reader of the log may ask for it at once.
        self.app.needs_restart.store(needs_restart.clone());
        if needs_restart.is_empty() {
            tracing::info!("the changed Manager is in effect");
        } else {
            let fields = needs_restart.join(", ");
            tracing::warn!(
                fields,
                "the Manager changed: restart for these fields to be in effect"
            );
        }
    }

    fn apply_tenants(&self, last: &Configuration, now: &Configuration) {
        for (document, spec) in now.tenants() {
            let before = last.tenant(&document.identity.name);
            if before.is_none_or(|(_, before)| before != spec)
                && let Ok(name) = TenantName::new(&document.identity.name)
            {
                self.app.manager.put_tenant(&name, tenant_options(spec));
                if before.is_some() {
                    tracing::info!(tenant = %name, "tenant changed");
                }
            }
        }
        for (document, _) in last
            .tenants()
            .filter(|(document, _)| now.tenant(&document.identity.name).is_none())
        {
            if let Ok(name) = TenantName::new(&document.identity.name) {
                self.app.manager.put_tenant(&name, TenantOptions::default());
            }
        }
    }

    /// Watches the files that the documents name.
    fn watch_all(&mut self, configuration: &Configuration, listing: &Listing) {
        let mut targets: BTreeSet<Target> = listing
            .files
            .iter()
            .map(|file| Target::File(PathBuf::from(&**file)))
            .collect();
        targets.extend(listing.folders.iter().cloned().map(Target::Folder));
        if self.has_fleet {
            let files = Providers::files(configuration);
            targets.extend(files.into_iter().map(Target::File));
        }
        targets.extend(
            Reconcilers::guest_files(configuration)
                .into_iter()
                .map(Target::File),
        );
        self.watch.set(targets);
        if let Some(builds) = &mut self.builds {
            builds.follow(source_folders(configuration));
        }
    }
}

/// A tenant's options for the queue.
fn tenant_options(spec: &TenantSpec) -> TenantOptions {
    TenantOptions {
        weight: spec.weight(),
        concurrency: spec.limits.concurrency.map(Within::get),
    }
}

/// The reasons why nothing runs, one a line.
fn reasons(merged: &Merged, reconcilers: &[String]) -> String {
    let documents = merged.problems.iter().map(ToString::to_string);
    documents
        .chain(reconcilers.iter().cloned())
        .map(|reason| format!("\n  {reason}"))
        .collect()
}

/// The source folders among the guests.
pub(crate) fn source_folders(configuration: &Configuration) -> BTreeSet<PathBuf> {
    let paths = configuration
        .reconcilers()
        .filter_map(|(document, spec)| Some(document.resolve(spec.guest.path()?)));
    paths.filter(|path| path.is_dir()).collect()
}

/// Logs a build. After a failure the last good guest keeps serving.
fn log_build(built: &Built) {
    let guest = built.folder.display();
    let seconds = built.took.as_secs_f64();
    match &built.result {
        Ok(_) => tracing::info!(%guest, seconds, "built"),
        Err(error) => {
            tracing::error!(%guest, %error, "build failed, the last good guest keeps serving")
        }
    }
}

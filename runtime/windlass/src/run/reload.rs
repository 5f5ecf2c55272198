//! Reloads documents, guests and their sources when they change. Entry point: [`Reload::start`].

use super::builds::{Builds, Built};
use super::changes::Changes;
use super::notices::Notices;
use super::objects::{Feed, Outcomes};
use super::providers::Providers;
use super::{RunOptions, addresses, tenant_options};
use crate::admin::Addresses;
use crate::app::App;
use crate::app::rollback::RollbackCall;
use crate::config::clusters::LocalCluster;
use crate::config::kinds::ManagerSpec;
use crate::config::load::{Configuration, Listing, load, merge};
use crate::reconcilers::{Change, Reconcilers};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use windlass_files::{Problem, Target, Watch};
use windlass_fleet::TenantName;
use windlass_fleet::manager::TenantOptions;

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
    app: Arc<App>,
    reconcilers: Reconcilers,
    changes: Changes,
    providers: Providers,
    notices: Notices,
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
    /// Starts the watcher.
    ///
    /// # Errors
    /// When the system has no more watchers.
    pub(super) fn start(
        options: &RunOptions,
        app: Arc<App>,
        reconcilers: Reconcilers,
        providers: Providers,
        (rollbacks, addresses): (mpsc::Receiver<RollbackCall>, watch::Sender<Addresses>),
    ) -> std::io::Result<Self> {
        let rebuild = options.rebuild.as_ref();
        Ok(Self {
            files: options.files.clone(),
            objects: options.from_cluster.then(|| Feed::start(app.clone())),
            built: rebuild.map(|rebuild| rebuild.built),
            builds: rebuild
                .map(|rebuild| Builds::start(rebuild.builder.clone()))
                .transpose()?,
            started: app.configuration.load().manager_spec(),
            has_fleet: options.simulated.is_none(),
            changes: Changes::new(app.manager.clone()),
            app,
            reconcilers,
            providers,
            notices: Notices::default(),
            watch: Watch::start()?,
            rollbacks,
            admin: options.admin,
            addresses,
        })
    }

    /// What became of the objects of the local cluster, if they count.
    pub(super) fn outcomes(&self) -> Option<Arc<Outcomes>> {
        self.objects.as_ref().map(Feed::outcomes)
    }

    /// Applies changes until it is dropped.
    pub(super) async fn run(mut self) {
        // A file may have changed since it was read. So everything is watched first and then read again.
        self.watch_all(&load(&self.files).listing);
        if let (Some(builds), Some(when)) = (&mut self.builds, self.built) {
            builds.ask_saved_since(when);
        }
        loop {
            self.apply();
            self.changed().await;
        }
    }

    /// Waits until a file has changed, a build has ended, or a failure is due for another attempt. Meanwhile applies each reconciler that
    /// is loaded, and rollbacks.
    async fn changed(&mut self) {
        loop {
            let due = self.reconcilers.due().map(Instant::from_std);
            let again = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
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
                () = again => return,
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

    /// Starts to apply the current documents and guests. Guests are loaded in the background.
    fn apply(&mut self) {
        let outcome = load(&self.files);
        let listing = outcome.listing.clone();
        let last = self.app.configuration.load_full();
        let merged = match &mut self.objects {
            Some(objects) => objects.join(&last, outcome),
            None => merge(&last, &outcome),
        };
        let mut problems = merged.problems.clone();
        let mut kept: Vec<Problem> = merged.kept.values().cloned().collect();
        self.apply_manager(&last, &merged.configuration);
        self.apply_tenants(&last, &merged.configuration);
        if self.has_fleet {
            let manager = &self.app.manager;
            let has_read = self.objects.as_ref().is_some_and(Feed::has_read);
            problems.extend(self.providers.apply(manager, &merged, has_read));
            kept.extend(self.providers.kept());
        }
        kept.extend(self.objects.as_ref().and_then(Feed::kept));
        self.app.report_problems(&problems, &kept);
        self.app
            .configuration
            .store(Arc::new(merged.configuration.clone()));
        // Rights are revoked first: a revocation does not wait for a load.
        for controller in self.reconcilers.revoke(&merged.configuration) {
            self.changes.put(Box::new(controller));
        }
        let changes = self.reconcilers.follow(&merged.configuration);
        let refused = self.objects.as_ref().map(Feed::refused);
        self.notices
            .set_refused_objects(refused.unwrap_or_default());
        self.notices.set_kept(merged.kept);
        if let Some(objects) = &self.objects {
            self.notices.set_holdings(objects.holdings());
        }
        self.apply_changes(changes);
        // After their loads have begun.
        let awaited = match &self.objects {
            Some(objects) => objects.awaited(),
            None => Some(BTreeSet::new()),
        };
        self.app.awaited.store(awaited.map(Arc::new));
        self.watch_all(&listing);
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
        match addresses(self.admin, self.has_fleet, &now.admin, local) {
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
            if last
                .tenant(&document.identity.name)
                .is_none_or(|(_, before)| before != spec)
                && let Ok(name) = TenantName::new(&document.identity.name)
            {
                self.app.manager.put_tenant(&name, tenant_options(spec));
                tracing::info!(tenant = %name, "tenant changed");
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
    fn watch_all(&mut self, listing: &Listing) {
        let configuration = self.app.configuration.load_full();
        let mut targets: BTreeSet<Target> = listing
            .files
            .iter()
            .map(|file| Target::File(PathBuf::from(&**file)))
            .collect();
        targets.extend(listing.folders.iter().cloned().map(Target::Folder));
        if self.has_fleet {
            let files = Providers::files(&configuration);
            targets.extend(files.into_iter().map(Target::File));
        }
        targets.extend(
            Reconcilers::guest_files(&configuration)
                .into_iter()
                .map(Target::File),
        );
        self.watch.set(targets);
        if let Some(builds) = &mut self.builds {
            builds.follow(source_folders(&configuration));
        }
    }
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

//! Clusters from kubeconfig files, as they come, change and go. Entry points: [`KubeconfigFiles::new`] and [`read_merged`].

mod names;
mod scan;
mod watch;
#[cfg(test)]
mod tests;

use super::engaged::Engaged;
use super::name_template::NameTemplate;
use super::problems::Problems;
use super::{Problem, Provider, ProviderError};
use crate::cluster::{ExecPolicy, Kubeconfig};
use crate::engage::{Engage, ServerChange};
use crate::name::NamePattern;
use futures::future::BoxFuture;
use names::Names;
use parking_lot::Mutex;
use scan::{Files, Scan};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use watch::Watch;

/// File names that count in folders where no others are asked for.
pub const DEFAULT_GLOBS: [&str; 5] = [
    "kubeconfig.yaml",
    "kubeconfig.yml",
    "*.kubeconfig",
    "*.kubeconfig.yaml",
    "*.kubeconfig.yml",
];

/// Largest kubeconfig, in bytes: some ten thousand contexts.
pub const LARGEST: u64 = 32 << 20;

/// Files are read after so long without a change: writers write in steps.
const QUIET: Duration = Duration::from_millis(250);

/// A writer that never stops delays a scan for at most so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// All files are scanned this often, for changes that the file system does not report.
const RESCAN: Duration = Duration::from_secs(60);

/// Which files to read.
#[derive(Debug, Clone, Default)]
pub struct KubeconfigFilesOptions {
    /// The folder that relative paths begin at.
    pub base: PathBuf,
    /// Files, and folders of files. A path that does not exist yet is read when it appears.
    pub paths: Vec<PathBuf>,
    /// Whether several paths are files of one kubeconfig, which are merged as kubectl merges those of `$KUBECONFIG`. Default: each file stands
    /// for itself.
    pub merged: bool,
    /// Names of files that count in folders; `*` matches any characters. Default, if empty: [`DEFAULT_GLOBS`].
    pub globs: Vec<String>,
    /// How clusters are named. Default: as their contexts.
    pub name: NameTemplate,
    /// The clusters' labels. Of equal ones the last counts.
    pub labels: Vec<LabelsByName>,
    /// Whether the kubeconfigs may run credential plugins. Default: they may, because the operator names the files.
    pub exec: ExecPolicy,
    /// What happens to a cluster whose context names another server.
    pub on_server_change: ServerChange,
}

/// Labels of clusters, by the names of their files and contexts.
#[derive(Debug, Clone)]
pub struct LabelsByName {
    /// Names of files, without folders.
    pub files: NamePattern,
    /// Names of contexts.
    pub contexts: NamePattern,
    /// The labels of those for which both patterns match.
    pub labels: BTreeMap<String, String>,
}

/// Reads files as one kubeconfig, as kubectl reads those of `$KUBECONFIG`. Files that are not there are left out; `None` if none is there.
/// Blocks on the file system.
///
/// # Errors
/// A file that cannot be used.
pub fn read_merged(paths: &[PathBuf]) -> Result<Option<Kubeconfig>, UnusableFile> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths {
        let next = scan::read(path).map_err(|reason| UnusableFile {
            path: path.clone(),
            reason,
        })?;
        if let Some(next) = next {
            merged.get_or_insert_default().merge(next);
        }
    }
    Ok(merged)
}

/// A kubeconfig file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct UnusableFile {
    path: PathBuf,
    reason: scan::Unusable,
}

/// Provides every context of every file as a cluster, under a name of a template.
///
/// * A file that is gone takes its clusters with it. One that cannot be read or is not a kubeconfig, as while it is being written,
///   keeps its last good clusters, and is reported; so does a single context that cannot be used.
/// * Of files that are merged, each keeps its last good contents. A file that is not there is left out.
/// * A cluster that has not changed goes on undisturbed. A change of a file that a kubeconfig refers to (CA, token, certificate, key) counts.
/// * Of equal names the one that is engaged already counts, else the first one in the order of the paths. The others are
///   reported.
pub struct KubeconfigFiles {
    options: KubeconfigFilesOptions,
    state: Mutex<State>,
    problems: Problems,
}

/// The state between scans and runs.
#[derive(Default)]
struct State {
    files: Files,
    names: Names,
    engaged: Engaged,
}

impl KubeconfigFiles {
    /// A provider of the clusters in these files.
    #[must_use]
    pub fn new(mut options: KubeconfigFilesOptions) -> Self {
        if options.globs.is_empty() {
            options.globs = DEFAULT_GLOBS.map(str::to_owned).into();
        }
        Self {
            options,
            state: Mutex::default(),
            problems: Problems::default(),
        }
    }

    /// Reads the files and brings the engaged clusters in line. Blocks on the file system. False if the manager is stopping.
    fn scan(&self, engage: &dyn Engage, watch: &mut Watch) -> bool {
        let mut state = self.state.lock();
        let last = std::mem::take(&mut state.files);
        let Scan {
            files,
            mut problems,
            watched,
            ..
        } = scan::scan(&self.options, last);
        // Changes after a file was read and before it was watched are found by the scan that a new watch asks for.
        problems.extend(watch.follow(watched));
        let State { names, engaged, .. } = &mut *state;
        let mut wanted = names.assign(&files, &self.options, &mut problems);
        for spec in wanted.values_mut() {
            spec.on_server_change = self.options.on_server_change;
        }
        let goes_on = engaged.bring_in_line(wanted, engage, &mut problems);
        state.files = files;
        engage.listed();
        self.problems.replace(self.name(), problems);
        goes_on
    }
}

impl Provider for KubeconfigFiles {
    fn name(&self) -> &str {
        "kubeconfig-files"
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            let mut watch = Watch::new();
            // Clusters that an earlier run had engaged may have left since.
            self.state.lock().engaged = Engaged::default();
            let changes = watch.changes();
            loop {
                let (this, to) = (self.clone(), engage.clone());
                let scanned =
                    tokio::task::spawn_blocking(move || (this.scan(&*to, &mut watch), watch)).await;
                let goes_on;
                (goes_on, watch) = scanned.map_err(|error| ProviderError {
                    provider: self.name().to_owned(),
                    reason: error.to_string(),
                })?;
                if !goes_on {
                    return Ok(());
                }
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = changes.quiet(QUIET, PATIENCE, RESCAN) => {}
                    () = engage.freed() => {}
                }
            }
        })
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }
}

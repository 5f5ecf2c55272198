//! Notifications of the file system about changes. Entry point: [`Watch`].

use crate::provider::Problem;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// The folders that are watched.
pub(super) struct Watch {
    /// `None` where the system gives no watcher.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    changes: Changes,
}

/// Notifies of changes.
#[derive(Clone)]
pub(super) struct Changes(Arc<Notify>);

impl Watch {
    pub(super) fn new() -> Self {
        let changes = Changes(Arc::new(Notify::new()));
        let changed = changes.0.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // The file system reports our own reading too, which must not make us read again. An error means that events were lost,
            // so that any file may have changed.
            if event.is_ok_and(|event| is_reading(&event.kind)) {
                return;
            }
            changed.notify_one();
        });
        Self {
            watcher: watcher.ok(),
            folders: BTreeSet::new(),
            changes,
        }
    }

    pub(super) fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// Watches these folders and no others. Changes in a new one before it is watched are not reported, so a scan is asked for.
    pub(super) fn follow(&mut self, folders: BTreeSet<PathBuf>) -> Vec<Problem> {
        let Some(watcher) = &mut self.watcher else {
            return folders
                .iter()
                .map(|folder| unwatched(folder, "the system gives no watcher"))
                .collect();
        };
        self.folders.retain(|folder| {
            let stays = folders.contains(folder);
            if !stays {
                // A folder that is gone is not watched any more in any case.
                let _ = watcher.unwatch(folder);
            }
            stays
        });
        let mut problems = Vec::new();
        for folder in folders {
            if self.folders.contains(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.folders.insert(folder);
                    self.changes.0.notify_one();
                }
                Err(error) => problems.push(unwatched(&folder, &error.to_string())),
            }
        }
        problems
    }
}

fn is_reading(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if *access != AccessKind::Close(AccessMode::Write))
}

fn unwatched(folder: &Path, reason: &str) -> Problem {
    let message =
        format!("changes are found once a minute only, as the folder cannot be watched: {reason}");
    Problem {
        subject: folder.display().to_string(),
        message,
    }
}

impl Changes {
    /// Waits for a change and then until there has been none for `quiet`, but no longer than `patience`; without a change until
    /// `rescan` has passed.
    pub(super) async fn quiet(&self, quiet: Duration, patience: Duration, rescan: Duration) {
        if timeout(rescan, self.0.notified()).await.is_err() {
            return;
        }
        let latest = Instant::now() + patience;
        while Instant::now() < latest
            && timeout_at(latest.min(Instant::now() + quiet), self.0.notified())
                .await
                .is_ok()
        {}
    }
}

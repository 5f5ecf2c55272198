//! Reports changes of files after they are complete. Entry point: [`Watch::start`].
//!
//! A change is reported after a moment without events. So a write in place and a rename over the old file are each
//! reported once, when they are complete. The content may still be the same: the reader compares it.

use crate::project::is_left_by_tools;
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout_at};

/// A change is complete after this time without events …
const QUIET: Duration = Duration::from_millis(100);
/// … or after this time, if events do not stop.
const LONGEST: Duration = Duration::from_secs(1);
/// The interval in which folders that could not be watched are retried.
const RETRY: Duration = Duration::from_secs(2);
/// The capacity for events; when it is exceeded, every target counts as changed.
const BACKLOG: usize = 1024;

/// A file or folder to watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A file, which need not exist.
    File(PathBuf),
    /// The files directly in a folder.
    Folder(PathBuf),
    /// Everything below a folder except `target` without Python modules, `node_modules`, `__pycache__`, logs and hidden files.
    Tree(PathBuf),
}

/// Watches a set of targets.
#[derive(Debug)]
pub struct Watch {
    watcher: RecommendedWatcher,
    events: mpsc::Receiver<PathBuf>,
    /// Set after an event was dropped: every target may have changed.
    overflowed: Arc<AtomicBool>,
    targets: BTreeSet<Target>,
    /// Changed targets that are not reported yet.
    noted: BTreeSet<Target>,
    /// The watched folders, each with or without its subfolders.
    watched: BTreeMap<PathBuf, RecursiveMode>,
    /// When wanted folders that are not in `watched` are retried.
    retry_at: Instant,
}

impl Watch {
    /// Starts without targets.
    ///
    /// # Errors
    /// When the system has no more file watchers.
    pub fn start() -> std::io::Result<Self> {
        let (sender, events) = mpsc::channel(BACKLOG);
        let overflowed = Arc::new(AtomicBool::new(false));
        let full = overflowed.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let Ok(event) = event else { return };
            if matters(event.kind) {
                for path in event.paths {
                    if sender.try_send(path).is_err() {
                        full.store(true, Ordering::Release);
                    }
                }
            }
        })
        .map_err(std::io::Error::other)?;
        let (targets, watched) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self {
            watcher,
            events,
            overflowed,
            targets,
            noted: BTreeSet::new(),
            watched,
            retry_at: Instant::now(),
        })
    }

    /// Watches exactly these from now on.
    pub fn set(&mut self, targets: BTreeSet<Target>) {
        self.targets = targets;
        self.update();
    }

    /// Makes the watcher watch the folders of the targets. Returns whether a folder was added.
    fn update(&mut self) -> bool {
        let mut wanted = BTreeMap::new();
        for (folder, mode) in self.targets.iter().flat_map(Target::folders) {
            let entry = wanted.entry(folder).or_insert(mode);
            if mode == RecursiveMode::Recursive {
                *entry = mode;
            }
        }
        let stale: Vec<PathBuf> = self
            .watched
            .iter()
            .filter(|(p, m)| wanted.get(*p) != Some(m))
            .map(|(p, _)| p.clone())
            .collect();
        for folder in stale {
            let _ = self.watcher.unwatch(&folder);
            self.watched.remove(&folder);
        }
        let mut added = false;
        for (folder, mode) in wanted {
            if !self.watched.contains_key(&folder) && self.watcher.watch(&folder, mode).is_ok() {
                self.watched.insert(folder, mode);
                added = true;
            }
        }
        self.retry_at = Instant::now() + RETRY;
        added
    }

    /// Waits until targets have changed and the change is complete. Dropping the future loses no change.
    pub async fn changed(&mut self) -> BTreeSet<Target> {
        loop {
            if self.nothing_noted() {
                let Some(first) = self.first_event().await else {
                    return self.targets.clone();
                };
                self.note(&first);
            }
            if self.nothing_noted() {
                continue;
            }
            let end = Instant::now() + LONGEST;
            while let Ok(Some(path)) =
                timeout_at(end.min(Instant::now() + QUIET), self.events.recv()).await
            {
                self.note(&path);
            }
            // There may be a new folder below a watched one.
            self.update();
            let noted = std::mem::take(&mut self.noted);
            return if self.overflowed.swap(false, Ordering::AcqRel) {
                self.targets.clone()
            } else {
                noted
            };
        }
    }

    /// The next event, or none if a folder was added late, so that its files may have changed unnoticed.
    async fn first_event(&mut self) -> Option<PathBuf> {
        loop {
            tokio::select! {
                Some(path) = self.events.recv() => return Some(path),
                () = sleep_until(self.retry_at) => {
                    self.watched.retain(|folder, _| folder.is_dir());
                    if self.update() {
                        return None;
                    }
                }
            }
        }
    }

    fn note(&mut self, path: &Path) {
        let targets = self.targets.iter();
        self.noted
            .extend(targets.filter(|target| target.covers(path)).cloned());
    }

    fn nothing_noted(&self) -> bool {
        self.noted.is_empty() && !self.overflowed.load(Ordering::Acquire)
    }
}

/// Whether a source file below a folder was written after `when`: a [`Target::Tree`] would have reported it.
pub fn written_since(folder: &Path, when: SystemTime) -> bool {
    let tree = Target::Tree(folder.to_owned());
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if !tree.covers(&absolute(&path)) {
                continue;
            }
            match std::fs::symlink_metadata(&path) {
                Ok(metadata) if metadata.is_dir() => folders.push(path),
                Ok(metadata) if metadata.modified().is_ok_and(|written| written > when) => {
                    return true;
                }
                _ => {}
            }
        }
    }
    false
}

impl Target {
    /// The folders to watch, and whether with their subfolders.
    fn folders(&self) -> Vec<(PathBuf, RecursiveMode)> {
        match self {
            Self::File(file) => vec![(parent(file), RecursiveMode::NonRecursive)],
            Self::Folder(folder) => vec![(folder.clone(), RecursiveMode::NonRecursive)],
            Self::Tree(folder) => {
                // Build output may be huge, so it is not watched at all.
                let below = std::fs::read_dir(folder)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path());
                let sources = below.filter(|path| path.is_dir() && self.covers(&absolute(path)));
                let mut folders: Vec<_> = sources
                    .map(|path| (path, RecursiveMode::Recursive))
                    .collect();
                folders.push((folder.clone(), RecursiveMode::NonRecursive));
                folders
            }
        }
    }

    /// Whether a change of `path`, an absolute path of an event, belongs to this target.
    fn covers(&self, path: &Path) -> bool {
        match self {
            Self::File(file) => {
                let name = path.file_name().unwrap_or_default();
                // A mounted ConfigMap changes by a link beside the file. The link's name begins with two dots.
                let linked = name.to_string_lossy().starts_with("..");
                path.parent() == Some(&absolute(&parent(file)))
                    && (Some(name) == file.file_name() || linked)
            }
            Self::Folder(folder) => path.parent() == Some(&absolute(folder)),
            Self::Tree(folder) => path.strip_prefix(absolute(folder)).is_ok_and(|rest| {
                let mut at = absolute(folder);
                rest.components().all(|part| {
                    at.push(part);
                    !is_left_by_tools(&at)
                })
            }),
        }
    }
}

/// The folder of a file; the current folder for a bare name.
fn parent(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// The absolute path, as events have it.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Reading a file changes nothing.
fn matters(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_secs(20);

    async fn next(watch: &mut Watch) -> BTreeSet<Target> {
        timeout(SOON, watch.changed())
            .await
            .expect("a change was not noticed")
    }

    #[tokio::test]
    async fn writes_in_place_and_renames_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.wasm");
        let target = BTreeSet::from([Target::File(file.clone())]);
        let mut watch = Watch::start().unwrap();
        watch.set(target.clone());
        fs::write(&file, "one").unwrap();
        assert_eq!(next(&mut watch).await, target);
        fs::write(folder.path().join("fresh"), "two").unwrap();
        fs::rename(folder.path().join("fresh"), &file).unwrap();
        assert_eq!(next(&mut watch).await, target);
    }

    #[tokio::test]
    async fn a_folder_that_comes_later_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("later/a.wasm");
        let mut watch = Watch::start().unwrap();
        watch.set([Target::File(file.clone())].into());
        fs::create_dir(folder.path().join("later")).unwrap();
        fs::write(&file, "x").unwrap();
        assert_eq!(next(&mut watch).await, [Target::File(file)].into());
    }

    #[test]
    fn a_write_before_the_watch_began_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        let long_ago = SystemTime::UNIX_EPOCH;
        write("target/debug/out");
        assert!(!written_since(folder.path(), long_ago));
        write("src/deep/lib.rs");
        assert!(written_since(folder.path(), long_ago));
        assert!(!written_since(
            folder.path(),
            SystemTime::now() + Duration::from_secs(60)
        ));
    }

    #[test]
    fn relative_paths_are_those_of_the_current_folder() {
        let here = std::env::current_dir().unwrap();
        assert!(Target::File("a.yaml".into()).covers(&here.join("./a.yaml")));
        assert!(Target::Folder(".".into()).covers(&here.join("a.yaml")));
        assert!(Target::Tree("../g".into()).covers(&here.join("../g/src/lib.rs")));
        assert!(!Target::Tree("../g".into()).covers(&here.join("../g/target/x")));
    }

    #[tokio::test]
    async fn a_change_below_a_relative_path_is_noticed() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let file = Path::new(".")
            .join(folder.path().file_name().unwrap())
            .join("a.yaml");
        let mut watch = Watch::start().unwrap();
        watch.set([Target::File(file.clone())].into());
        fs::write(&file, "x").unwrap();
        assert_eq!(next(&mut watch).await, [Target::File(file)].into());
    }

    #[test]
    fn build_output_and_hidden_files_are_no_source() {
        let tree = Target::Tree("/g".into());
        assert!(tree.covers(Path::new("/g/src/lib.rs")) && tree.covers(Path::new("/g/Cargo.toml")));
        for path in [
            "/g/target/x",
            "/g/.windlass/guest.wasm",
            "/g/src/.lib.rs.swp",
            "/g/dev.log",
            "/elsewhere",
        ] {
            assert!(!tree.covers(Path::new(path)), "{path}");
        }
        let file = Target::File("/c/windlass.yaml".into());
        assert!(file.covers(Path::new("/c/windlass.yaml")) && file.covers(Path::new("/c/..data")));
        assert!(
            !file.covers(Path::new("/c/other.yaml"))
                && !file.covers(Path::new("/c/d/windlass.yaml"))
        );
    }
}

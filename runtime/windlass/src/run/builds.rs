//! Builds guests again after their sources are saved. Entry points: [`Builds::start`] and [`Builds::next`].
//!
//! How a guest is built is for authors to know: a run is given a [`SourceBuilder`], and in production none.

use anyhow::Result;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use windlass_files::{Target, Watch, written_since};

/// Builds guests of their source.
pub(crate) trait SourceBuilder: Send + Sync {
    /// The folder whose files a guest is made of.
    fn package(&self, folder: &Path) -> PathBuf;

    /// Whether it builds the guest in a folder.
    fn builds(&self, _folder: &Path) -> bool {
        true
    }

    /// Builds the guest in a folder, and returns the path of its component. Dropping the future stops the build.
    fn build(&self, folder: PathBuf) -> BoxFuture<'static, Result<PathBuf>>;
}

/// Source folders, built one at a time after each save.
pub(crate) struct Builds {
    watch: Watch,
    /// The folders of each watched package. Any file of it may be a part of each.
    packages: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Folders to build, and whether that replaces a stopped build of the folder.
    asked: BTreeMap<PathBuf, bool>,
    builder: Arc<dyn SourceBuilder>,
    running: Option<Running>,
}

/// A build.
struct Running {
    folder: PathBuf,
    /// The build replaces a stopped one, and is not stopped itself: otherwise a tool that writes into the source would never finish.
    must_end: bool,
    began: Instant,
    build: BoxFuture<'static, Result<PathBuf>>,
}

/// A finished build.
pub(crate) struct Built {
    /// The source folder.
    pub(crate) folder: PathBuf,
    /// The duration.
    pub(crate) took: Duration,
    /// The component.
    pub(crate) result: Result<PathBuf>,
}

impl Builds {
    /// Starts without folders.
    ///
    /// # Errors
    /// When the system has no more file watchers.
    pub(crate) fn start(builder: Arc<dyn SourceBuilder>) -> std::io::Result<Self> {
        Ok(Self {
            watch: Watch::start()?,
            packages: BTreeMap::new(),
            asked: BTreeMap::new(),
            builder,
            running: None,
        })
    }

    /// Watches exactly these folders from now on, as far as their guests are built.
    pub(crate) fn follow(&mut self, mut folders: BTreeSet<PathBuf>) {
        folders.retain(|folder| self.builder.builds(folder));
        self.asked.retain(|folder, _| folders.contains(folder));
        self.running
            .take_if(|running| !folders.contains(&running.folder));
        self.packages.clear();
        for folder in folders {
            self.packages
                .entry(self.builder.package(&folder))
                .or_default()
                .push(folder);
        }
        let packages = self.packages.keys().cloned();
        self.watch.set(packages.map(Target::Tree).collect());
    }

    /// Builds a folder as if it had been saved. Stops a running build of the folder, because its sources are older, unless that build
    /// already replaced a stopped one.
    pub(crate) fn ask(&mut self, folder: PathBuf) {
        let stopped = self
            .running
            .take_if(|running| running.folder == folder && !running.must_end);
        *self.asked.entry(folder).or_default() |= stopped.is_some();
    }

    /// Builds those of the folders that were saved after `when`.
    pub(crate) fn ask_saved_since(&mut self, when: SystemTime) {
        let packages = self.packages.iter();
        let saved = packages.filter(|(package, _)| written_since(package, when));
        let folders: Vec<PathBuf> = saved.flat_map(|(_, folders)| folders.clone()).collect();
        folders.into_iter().for_each(|folder| self.ask(folder));
    }

    /// Waits for the end of a build. Dropping the future loses nothing: the next call continues the build.
    pub(crate) async fn next(&mut self) -> Built {
        loop {
            if self.running.is_none()
                && let Some((folder, must_end)) = self.asked.pop_first()
            {
                self.running = Some(Running::start(folder, must_end, &*self.builder));
            }
            let ended = async {
                match &mut self.running {
                    Some(running) => running.end().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                built = ended => {
                    self.running = None;
                    return built;
                }
                saved = self.watch.changed() => {
                    for target in saved {
                        if let Target::Tree(package) = target {
                            let folders = self.packages.get(&package).cloned();
                            folders.into_iter().flatten().for_each(|folder| self.ask(folder));
                        }
                    }
                }
            }
        }
    }
}

impl Running {
    fn start(folder: PathBuf, must_end: bool, builder: &dyn SourceBuilder) -> Self {
        Self {
            build: builder.build(folder.clone()),
            folder,
            must_end,
            began: Instant::now(),
        }
    }

    async fn end(&mut self) -> Built {
        let result = (&mut self.build).await;
        Built {
            folder: self.folder.clone(),
            took: self.began.elapsed(),
            result,
        }
    }
}

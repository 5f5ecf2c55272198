//! Builds guests again after their sources are saved. Entry points: [`Builds::start`] and [`Builds::next`].

use super::{BuildError, GuestBuilder, build, package};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use windlass_files::{Target, Watch};

/// Source folders, built one at a time after each save.
pub(crate) struct Builds {
    watch: Watch,
    /// The folders of each watched package. Any file of it may be a part of each.
    packages: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// Folders to build, and whether that replaces a stopped build of the folder.
    asked: BTreeMap<PathBuf, bool>,
    builder: GuestBuilder,
    running: Option<Running>,
}

/// A build.
struct Running {
    folder: PathBuf,
    /// The build replaces a stopped one, and is not stopped itself: otherwise a tool that writes into the source would never finish.
    must_end: bool,
    began: Instant,
    build: BoxFuture<'static, Result<PathBuf, BuildError>>,
}

/// A finished build.
pub(crate) struct Built {
    /// The source folder.
    pub(crate) folder: PathBuf,
    /// The duration.
    pub(crate) took: Duration,
    /// The component.
    pub(crate) result: Result<PathBuf, BuildError>,
}

impl Builds {
    /// Starts without folders.
    ///
    /// # Errors
    /// When the system has no more file watchers.
    pub(crate) fn start(builder: GuestBuilder) -> std::io::Result<Self> {
        Ok(Self {
            watch: Watch::start()?,
            packages: BTreeMap::new(),
            asked: BTreeMap::new(),
            builder,
            running: None,
        })
    }

    /// Watches exactly these folders from now on.
    pub(crate) fn follow(&mut self, folders: BTreeSet<PathBuf>) {
        self.asked.retain(|folder, _| folders.contains(folder));
        self.running
            .take_if(|running| !folders.contains(&running.folder));
        self.packages.clear();
        for folder in folders {
            self.packages
                .entry(package(&folder))
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

    /// Waits for the end of a build. Dropping the future loses nothing: the next call continues the build.
    pub(crate) async fn next(&mut self) -> Built {
        loop {
            if self.running.is_none()
                && let Some((folder, must_end)) = self.asked.pop_first()
            {
                self.running = Some(Running::start(folder, must_end, self.builder.clone()));
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
    fn start(folder: PathBuf, must_end: bool, builder: GuestBuilder) -> Self {
        let of = folder.clone();
        Self {
            folder,
            must_end,
            began: Instant::now(),
            build: async move { build(&of, &builder).await }.boxed(),
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

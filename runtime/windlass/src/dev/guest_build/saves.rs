//! Builds guests again as their sources are saved. Entry points: [`Builds::start`] and [`Builds::next`].

use super::{BuildError, build};
use crate::watch::{Target, Watch};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Source folders, built one at a time after each save.
pub(crate) struct Builds {
    watch: Watch,
    /// Folders to build, and whether a build of the folder was stopped for that.
    asked: BTreeMap<PathBuf, bool>,
    running: Option<Running>,
}

/// A build.
struct Running {
    folder: PathBuf,
    /// It stands for one that was stopped, and is not stopped itself: tools that write into the source would never come to an end.
    must_end: bool,
    began: Instant,
    build: BoxFuture<'static, Result<PathBuf, BuildError>>,
}

/// A build that has ended.
pub(crate) struct Built {
    /// What was built.
    pub(crate) folder: PathBuf,
    /// How long that took.
    pub(crate) took: Duration,
    /// The component.
    pub(crate) result: Result<PathBuf, BuildError>,
}

impl Builds {
    /// Begins to follow no folder.
    ///
    /// # Errors
    /// When the system has no more watchers to give.
    pub(crate) fn start() -> notify::Result<Self> {
        Ok(Self {
            watch: Watch::start()?,
            asked: BTreeMap::new(),
            running: None,
        })
    }

    /// Follows exactly these folders from now on.
    pub(crate) fn follow(&mut self, folders: BTreeSet<PathBuf>) {
        self.asked.retain(|folder, _| folders.contains(folder));
        self.running
            .take_if(|running| !folders.contains(&running.folder));
        self.watch
            .set(folders.into_iter().map(Target::Tree).collect());
    }

    /// Has a folder built as if it had been saved: a build of it that runs is stopped, for it is of sources that are older, unless one
    /// was stopped just before.
    pub(crate) fn ask(&mut self, folder: PathBuf) {
        let stopped = self
            .running
            .take_if(|running| running.folder == folder && !running.must_end);
        *self.asked.entry(folder).or_default() |= stopped.is_some();
    }

    /// Waits for the end of a build. Dropping the future loses nothing: a build goes on with the next call.
    pub(crate) async fn next(&mut self) -> Built {
        loop {
            if self.running.is_none()
                && let Some((folder, must_end)) = self.asked.pop_first()
            {
                self.running = Some(Running::start(folder, must_end));
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
                        if let Target::Tree(folder) = target {
                            self.ask(folder);
                        }
                    }
                }
            }
        }
    }
}

impl Running {
    fn start(folder: PathBuf, must_end: bool) -> Self {
        let of = folder.clone();
        Self {
            folder,
            must_end,
            began: Instant::now(),
            build: async move { build(&of).await }.boxed(),
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

//! Guests that run as processes of their authors, under a debugger, and are called as components are. Entry point: [`Natives::listen`].
//!
//! The process finds its socket by a file in the guest's folder. While it is connected, a text stands in the place of the guest's component:
//! another process has another text, so that it is loaded as a new revision is.

use super::socket::{AFTER_FAILURE, Lines, Socket};
use crate::config::kinds::ReconcilerSpec;
use crate::config::load::{Configuration, Document};
use crate::output::Tone;
use crate::run::builds::SourceBuilder;
use anyhow::{Context, Result, bail};
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_author::guest_build::{GuestBuilder, refuse_links, state_folder};
use windlass_files::built_path;
use windlass_sandbox::{NativeGuest, NativeGuests, Next, Run, Runs};

/// The file in the state folder of a guest that has the path of its socket.
const FILE: &str = "native";

/// How the text begins that stands in place of a component.
const INSTEAD: &str = "process";

/// The guests of a `dev` that run as processes.
pub(crate) struct Natives {
    all: Vec<Arc<Native>>,
    guests: NativeGuests,
}

/// One guest and its socket.
struct Native {
    /// The reconcilers that are called in its process: all of its folder.
    names: Vec<String>,
    folder: PathBuf,
    socket: Socket,
    /// Processes that have connected so far.
    connected: watch::Sender<u64>,
}

impl Natives {
    /// Makes a socket for the guest of each of these reconcilers.
    ///
    /// # Errors
    /// When there is no such reconciler, or its guest has no source.
    pub(crate) fn listen(names: &[String], configuration: &Configuration) -> Result<Self> {
        let folders = names.iter().map(|name| source(name, configuration));
        let folders = folders.collect::<Result<BTreeSet<_>>>()?;
        let mut natives = Self {
            all: Vec::new(),
            guests: NativeGuests::default(),
        };
        for folder in folders {
            let native = Native::listen(folder, configuration)?;
            natives.all.push(Arc::new(native));
        }
        Ok(natives)
    }

    /// The guests that are connected, now and later.
    pub(crate) fn guests(&self) -> NativeGuests {
        self.guests.clone()
    }

    /// The folders whose guests are not built.
    pub(crate) fn folders(&self) -> BTreeSet<PathBuf> {
        self.all
            .iter()
            .map(|native| native.folder.clone())
            .collect()
    }

    /// Serves the processes in the background, and waits for one of each guest. `stop` disconnects them: a process at a breakpoint must not
    /// hold up the end.
    pub(crate) async fn start(&self, stop: &CancellationToken) {
        for native in &self.all {
            let served = native.clone().serve(self.guests.clone());
            tokio::spawn(stop.clone().run_until_cancelled_owned(served));
        }
        for native in &self.all {
            let line = format!(
                "{} runs as a process of yours: start it in {}, for example under a debugger",
                native.names.join(" and "),
                native.folder.display()
            );
            anstream::eprintln!("{}", Tone::Bold.paint(line));
            // The sender lives as long as this.
            drop(
                native
                    .connected
                    .subscribe()
                    .wait_for(|count| *count > 0)
                    .await,
            );
        }
    }
}

impl Drop for Natives {
    fn drop(&mut self) {
        for native in &self.all {
            let component = built_path(&native.folder);
            // A component that was built before stays if no process took its place.
            if std::fs::read_to_string(&component).is_ok_and(|text| text.starts_with(INSTEAD)) {
                drop(std::fs::remove_file(component));
            }
            drop(std::fs::remove_file(socket_file(&native.folder)));
        }
    }
}

/// Writes a file at once, so that nobody reads half of it.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, file)
}

/// Where a process finds its socket.
fn socket_file(folder: &Path) -> PathBuf {
    folder.join(windlass_files::STATE).join(FILE)
}

/// The source folder of a guest, if it has one.
fn folder_of(document: &Document, spec: &ReconcilerSpec) -> Option<PathBuf> {
    let path = spec.guest.path().map(|path| document.resolve(path));
    path.filter(|path| path.is_dir())
}

/// The folder of the source of a reconciler's guest.
fn source(name: &str, configuration: &Configuration) -> Result<PathBuf> {
    let mut reconcilers = configuration.reconcilers();
    let found = reconcilers.find(|(document, _)| document.identity.name == name);
    let Some((document, spec)) = found else {
        bail!("there is no Reconciler {name:?} that could run as a process: check --native");
    };
    folder_of(document, spec).with_context(|| {
        format!("the guest of {name:?} has no source folder, so no process can be started of it")
    })
}

impl Native {
    fn listen(folder: PathBuf, configuration: &Configuration) -> Result<Self> {
        refuse_links(&folder.join(windlass_files::STATE))?;
        let socket = Socket::open()?;
        let path = socket.path().display().to_string();
        state_folder(&folder)
            .and_then(|_| write(&socket_file(&folder), &path))
            .with_context(|| folder.display().to_string())?;
        let of_folder = configuration
            .reconcilers()
            .filter(|(document, spec)| folder_of(document, spec).as_ref() == Some(&folder));
        Ok(Self {
            names: of_folder
                .map(|(document, _)| document.identity.name.clone())
                .collect(),
            folder,
            socket,
            connected: watch::Sender::new(0),
        })
    }

    /// Serves one process after the other. Never ends by itself.
    async fn serve(self: Arc<Self>, guests: NativeGuests) {
        loop {
            let lines = match self.socket.accept().await {
                Ok(lines) => lines,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(guest = %self.folder.display(), error, "no process can connect");
                    tokio::time::sleep(AFTER_FAILURE).await;
                    continue;
                }
            };
            let count = self.connected.borrow().wrapping_add(1);
            if let Err(error) = self.serve_one(lines, count, &guests).await {
                let error = format!("{error:#}");
                tracing::warn!(guest = %self.folder.display(), error, "the process is disconnected");
            }
        }
    }

    async fn serve_one(&self, lines: Lines, count: u64, guests: &NativeGuests) -> Result<()> {
        let (guest, runs) = NativeGuest::new();
        let instead = format!("{INSTEAD} {count} of windlass dev {}\n", std::process::id());
        guests.put(instead.as_bytes(), guest);
        let path = built_path(&self.folder);
        write(&path, &instead).with_context(|| path.display().to_string())?;
        self.connected.send_replace(count);
        tracing::info!(guest = %self.folder.display(), "a process is connected");
        let served = serve_runs(lines, runs).await;
        guests.remove(instead.as_bytes());
        tracing::info!(
            guest = %self.folder.display(),
            "the process has gone, its keys fail until another one connects"
        );
        served
    }
}

/// Passes runs to a process until it has gone.
async fn serve_runs(mut lines: Lines, mut runs: Runs) -> Result<()> {
    loop {
        let run = tokio::select! {
            run = runs.next() => run,
            line = lines.next() => match line? {
                Some(_) => bail!("it sent a line, and no run goes on"),
                None => return Ok(()),
            },
        };
        let Some(run) = run else {
            return Ok(());
        };
        if !pass(&mut lines, run).await? {
            return Ok(());
        }
    }
}

/// Passes one run. Returns whether the process is there still.
async fn pass(lines: &mut Lines, mut run: Run) -> Result<bool> {
    lines.send(run.task()).await?;
    while let Some(line) = lines.next().await? {
        match run.answer(&line).await? {
            Next::Answer(answer) => lines.send(answer).await?,
            Next::Ended => return Ok(true),
        }
    }
    Ok(false)
}

/// Builds all guests but those that run as processes.
pub(crate) struct BuilderOfOthers {
    pub(crate) builder: GuestBuilder,
    /// The folders of those.
    pub(crate) natives: BTreeSet<PathBuf>,
}

impl SourceBuilder for BuilderOfOthers {
    fn package(&self, folder: &Path) -> PathBuf {
        self.builder.package(folder)
    }

    fn builds(&self, folder: &Path) -> bool {
        !self.natives.contains(folder)
    }

    fn build(&self, folder: PathBuf) -> BoxFuture<'static, Result<PathBuf>> {
        SourceBuilder::build(&self.builder, folder)
    }
}

//! A subject in a process of its own. Entry points: [`Subject::start`] and [`run_if_asked`].

use super::work::Given;
use super::{echo, peer};
use crate::usage::Usage;
use anyhow::{Context as _, Result, bail};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const SUBJECT: &str = "--subject";
/// Longest wait for a subject to have looked at everything.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the others are measured beside.
pub(crate) const RIVAL: &str = "kube-rs";
/// What can be measured, the rival first.
pub(crate) const KINDS: [&str; 3] = [RIVAL, "native", "guest"];

/// A running subject; it ends with this value.
pub(crate) struct Subject {
    child: Child,
    started: Instant,
    said: Lines<BufReader<ChildStdout>>,
}

impl Subject {
    /// Starts this very program again as a subject.
    pub(crate) fn start(kind: &str, given: &Given) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([SUBJECT, kind])
            .arg(serde_json::to_string(given)?);
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        Ok(Self {
            child,
            started,
            said: BufReader::new(stdout).lines(),
        })
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Waits until it has looked at everything, and ends it.
    pub(crate) async fn settled(mut self) -> Result<()> {
        self.settled_after().await?;
        self.child.kill().await.context("end a subject")
    }

    /// The time from its start until it has looked at everything.
    pub(crate) async fn settled_after(&mut self) -> Result<Duration> {
        let line = tokio::time::timeout(PATIENCE, self.said.next_line()).await;
        line.context("the subject does not settle")??
            .context("the subject ended")?;
        Ok(self.started.elapsed())
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.child.id().context("the subject ended")?)
    }
}

/// Says that everything has been looked at.
pub(crate) struct Finished;

impl Finished {
    pub(crate) fn say(self) {
        println!("settled");
    }
}

/// Where this process was started as a subject: works until it is killed.
pub(crate) async fn run_if_asked() -> Result<bool> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [first, kind, given] = args.as_slice() else {
        return Ok(false);
    };
    if first != SUBJECT {
        return Ok(false);
    }
    let given: Given = serde_json::from_str(given)?;
    match kind.as_str() {
        "native" => echo::run(false, &given, Finished).await?,
        "guest" => echo::run(true, &given, Finished).await?,
        RIVAL => peer::run(&given, Finished).await?,
        other => bail!("no subject {other:?}"),
    }
    Ok(true)
}

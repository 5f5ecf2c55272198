//! Clusters of the program `kind`, as they come and go. Entry point: [`Kind::new`].
//!
//! * `command` asks the program: the list of clusters, and one cluster's kubeconfig.
//! * `known` holds what is known of each cluster, and when its kubeconfig is read next.
//!
//! Cost: the program runs once in 2 s for the list, and once in 10 s for each cluster. Not guaranteed: a cluster that is made anew between
//! two lists is noticed with its next kubeconfig only.

mod command;
mod known;
#[cfg(test)]
mod tests;

use super::engaged::Engaged;
use super::problems::Problems;
use super::{Problem, Provider, ProviderError};
use crate::backoff::Backoff;
use crate::cluster::ClusterConfig;
use crate::engage::Engage;
use crate::name::ClusterName;
use command::{Command, ConfigError, ListError};
use fastrand::Rng;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use known::{Known, Reading};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Kubeconfigs that are read at once, so that a slow one delays few others and the program does not fill the machine.
const READS: usize = 4;

/// Which clusters of `kind` to provide.
#[derive(Debug, Clone)]
pub struct KindOptions {
    /// The program: a path, or a name that is looked for on the PATH. Default: `kind`.
    pub program: PathBuf,
    /// Only clusters whose names begin with this are provided. They keep it. Default: empty, so all are.
    pub name_prefix: String,
}

impl Default for KindOptions {
    fn default() -> Self {
        Self {
            program: "kind".into(),
            name_prefix: String::new(),
        }
    }
}

/// How often the program runs, and for how long.
#[derive(Clone, Copy)]
struct Pace {
    /// Between two lists.
    list: Duration,
    /// Longest delay between two attempts that fail.
    most: Duration,
    /// Between two reads of a cluster's kubeconfig. Making a cluster takes longer, so that its new kubeconfig is not missed for long.
    read: Duration,
    /// Longest run of the program.
    deadline: Duration,
}

const PACE: Pace = Pace {
    list: Duration::from_secs(2),
    most: Duration::from_secs(30),
    read: Duration::from_secs(10),
    deadline: Duration::from_secs(30),
};

impl Pace {
    /// The delay after an attempt that succeeded, with jitter.
    fn after(delay: Duration, rng: &mut Rng) -> Duration {
        delay + delay.mul_f64(rng.f64() / 10.0)
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.list * 2, self.most)
    }
}

/// Provides the clusters that `kind get clusters` lists, under their names.
///
/// * Only a successful list takes a cluster away. Without the program or its container runtime the clusters stay, a [`Problem`] says
///   so, and new ones join once both are there.
/// * A cluster whose kubeconfig cannot be read, as while it is being made, is a [`Problem`] and hides no other.
/// * A cluster that was made anew under its name is another cluster: work on the one before ends at once.
/// * A kubeconfig of `kind` may run no credential plugin and refer to no file.
pub struct Kind {
    name: String,
    options: KindOptions,
    pace: Pace,
    problems: Problems,
}

impl Kind {
    /// A provider of the clusters of `kind`.
    #[must_use]
    pub fn new(name: impl Into<String>, options: KindOptions) -> Self {
        Self {
            name: name.into(),
            options,
            pace: PACE,
            problems: Problems::default(),
        }
    }
}

impl Provider for Kind {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(
        self: Arc<Self>,
        engage: Arc<dyn Engage>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), ProviderError>> {
        Box::pin(async move {
            let run = Run::new(&self, &*engage).work();
            // Dropping the work kills the programs that run.
            let _ = stop.run_until_cancelled(run).await;
            Ok(())
        })
    }

    fn problems(&self) -> Vec<Problem> {
        self.problems.all()
    }
}

/// One run of the provider.
struct Run<'a> {
    kind: &'a Kind,
    engage: &'a dyn Engage,
    command: Command,
    rng: Rng,
    known: Known,
    engaged: Engaged,
    /// Why the last list failed, if it did.
    list_problem: Option<String>,
    list_backoff: Backoff,
    /// Whether a list has succeeded that was not reported yet.
    listed: bool,
}

impl<'a> Run<'a> {
    fn new(kind: &'a Kind, engage: &'a dyn Engage) -> Self {
        Self {
            kind,
            engage,
            command: Command::new(kind.options.program.clone(), kind.pace.deadline),
            rng: Rng::new(),
            known: Known::new(kind.pace),
            engaged: Engaged::default(),
            list_problem: None,
            list_backoff: kind.pace.backoff(),
            listed: false,
        }
    }

    /// Works until the manager is stopping.
    async fn work(mut self) {
        let (engage, command) = (self.engage, self.command.clone());
        let list_after = |delay| {
            let command = &command;
            async move {
                sleep(delay).await;
                command.clusters().await
            }
        };
        let read = |reading: Reading| {
            let command = &command;
            async move {
                let config = command.config(&reading.name).await;
                (reading, config)
            }
        };
        let mut list = Box::pin(list_after(Duration::ZERO));
        let mut reads = FuturesUnordered::new();
        loop {
            while reads.len() < READS
                && let Some(reading) = self.known.begin(Instant::now())
            {
                reads.push(read(reading));
            }
            let next = self.known.next().filter(|_| reads.len() < READS);
            tokio::select! {
                listed = &mut list => {
                    let delay = self.take_list(listed);
                    list.set(list_after(delay));
                }
                Some((reading, config)) = reads.next() => self.take_config(&reading, config),
                () = engage.freed() => {}
                () = until(next) => continue,
            }
            if !self.bring_in_line() {
                return;
            }
        }
    }

    /// Stores a list, and returns the delay before the next one.
    fn take_list(&mut self, listed: Result<BTreeSet<ClusterName>, ListError>) -> Duration {
        match listed {
            Ok(mut names) => {
                let prefix = &self.kind.options.name_prefix;
                names.retain(|name| name.as_str().starts_with(prefix.as_str()));
                self.known.list(names, Instant::now());
                self.list_problem = None;
                self.listed = true;
                self.list_backoff.reset();
                Pace::after(self.kind.pace.list, &mut self.rng)
            }
            Err(error) => {
                self.list_problem = Some(error.to_string());
                self.list_backoff.next(&mut self.rng)
            }
        }
    }

    fn take_config(&mut self, reading: &Reading, config: Result<ClusterConfig, ConfigError>) {
        let now = Instant::now();
        let is_another = self.known.end(reading, config, now, &mut self.rng);
        if is_another {
            self.engaged.end(&reading.name, self.engage);
        }
    }

    /// Brings the engaged clusters and the problems in line with what is known. False if the manager is stopping.
    fn bring_in_line(&mut self) -> bool {
        let mut problems = Vec::new();
        problems.extend(self.list_problem.as_ref().map(|message| Problem {
            subject: self.kind.name.clone(),
            message: message.clone(),
        }));
        problems.extend(self.known.problems());
        let wanted = self.known.specs();
        let goes_on = self
            .engaged
            .bring_in_line(wanted, self.engage, &mut problems);
        self.kind.problems.replace(&self.kind.name, problems);
        if goes_on && self.listed && self.known.all_read() {
            self.listed = false;
            self.engage.listed();
        }
        goes_on
    }
}

/// Waits until a time; without one, without end.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

//! Asks the program `kind`. Entry points: [`Command::clusters`] and [`Command::config`].

use crate::cluster::{self, AllowServers, ClusterConfig, KubeconfigPolicy};
use crate::name::ClusterName;
use crate::program::{self, ProgramError};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::time::timeout;

/// Longest output that is read, in bytes: a kubeconfig has six thousand.
const MAX_OUTPUT: u64 = 1 << 20;

/// The program.
#[derive(Clone)]
pub(super) struct Command {
    program: PathBuf,
    deadline: Duration,
}

/// Why the program gave nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error(
        "the program {0:?} was not found: install kind, or name the program's path; its clusters join once it is there"
    )]
    NoProgram(PathBuf),
    #[error("the program {0:?} {1}")]
    Program(PathBuf, ProgramError),
    #[error("the program {0:?} did not end within {1:?}: run it by hand to see what it waits for")]
    TooSlow(PathBuf, Duration),
}

/// Why the clusters are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ListError {
    #[error(
        "`kind get clusters` fails ({0}): start its container runtime (docker, podman or nerdctl), or run it by hand to see why"
    )]
    Failed(ExitStatus),
    #[error(transparent)]
    Run(RunError),
    #[error("`kind get clusters` printed something else than names of clusters: is {0:?} kind?")]
    NotAList(PathBuf),
}

/// Why a cluster's kubeconfig is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    #[error(
        "`kind get kubeconfig` fails ({0}): the cluster is being made or does not run; it joins once it does"
    )]
    Failed(ExitStatus),
    #[error(transparent)]
    Run(RunError),
    #[error("`kind get kubeconfig` printed no text")]
    NotText,
    #[error("`kind get kubeconfig` printed what cannot be used: {0}")]
    Unusable(cluster::ConfigError),
}

impl Command {
    pub(super) fn new(program: PathBuf, deadline: Duration) -> Self {
        Self { program, deadline }
    }

    /// The names of all clusters, those that do not run included.
    ///
    /// # Errors
    /// [`ListError`].
    pub(super) async fn clusters(&self) -> Result<BTreeSet<ClusterName>, ListError> {
        let printed = self.run(&["get", "clusters"]).await;
        let printed = printed.map_err(|error| match error {
            RunError::Program(_, ProgramError::Failed(status)) => ListError::Failed(status),
            error => ListError::Run(error),
        })?;
        names(&printed).ok_or_else(|| ListError::NotAList(self.program.clone()))
    }

    /// How a cluster is reached.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub(super) async fn config(&self, name: &ClusterName) -> Result<ClusterConfig, ConfigError> {
        let args = ["get", "kubeconfig", "--name", name.as_str()];
        let printed = self.run(&args).await.map_err(|error| match error {
            RunError::Program(_, ProgramError::Failed(status)) => ConfigError::Failed(status),
            error => ConfigError::Run(error),
        })?;
        let text = String::from_utf8(printed).map_err(|_| ConfigError::NotText)?;
        // Clusters of kind serve on loopback.
        let policy = KubeconfigPolicy {
            allow_servers: AllowServers::any(),
            ..KubeconfigPolicy::object()
        };
        let config = ClusterConfig::from_kubeconfig_text(&text, None, None, &policy);
        config.map_err(ConfigError::Unusable)
    }

    async fn run(&self, args: &[&str]) -> Result<Vec<u8>, RunError> {
        let program = || self.program.clone();
        let mut command = tokio::process::Command::new(&self.program);
        command.args(args);
        let output = program::output(&mut command, MAX_OUTPUT);
        match timeout(self.deadline, output).await {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(ProgramError::NotRun(error))) if error.is_not_found() => {
                Err(RunError::NoProgram(program()))
            }
            Ok(Err(error)) => Err(RunError::Program(program(), error)),
            Err(_) => Err(RunError::TooSlow(program(), self.deadline)),
        }
    }
}

/// The names in a list, a line each; `None` if it is no list of names.
fn names(printed: &[u8]) -> Option<BTreeSet<ClusterName>> {
    let text = std::str::from_utf8(printed).ok()?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| ClusterName::new(line).ok().filter(|_| is_name(line)))
        .collect()
}

/// kind makes clusters of such names only.
fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_in_each_line() {
        let read = |text: &str| {
            let names = names(text.as_bytes())?;
            Some(names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(read("fleet-b\nfleet-a\n").unwrap(), ["fleet-a", "fleet-b"]);
        assert!(read("").unwrap().is_empty());
        assert_eq!(read("a\r\n\r\n").unwrap(), ["a"]);
        for garbage in [
            "usage: kind [command]\n",
            "a\nNo kind clusters found.",
            "{}",
        ] {
            assert_eq!(read(garbage), None, "{garbage}");
        }
        assert_eq!(names(b"a\n\xff\n"), None);
        assert_eq!(read(&"x".repeat(254)), None);
    }
}

//! Runs another program within bounds. Entry point: [`output`].
//!
//! Invariants:
//! * The program and those that it starts are killed when [`output`] ends, also if its future is dropped. A program that leaves the
//!   process group survives.
//! * What the program prints reaches no error: it may be a secret.
//!
//! Cost: one process. Not guaranteed: an end. The caller sets the deadline, and drops the future.

use crate::file::FileError;
use rustix::process::{Pid, Signal, kill_process_group};
use std::process::{ExitStatus, Stdio};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

/// Why a program gave no output. Reads as what the program did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    #[error("cannot be run: {0}")]
    NotRun(FileError),
    #[error("printed what cannot be read: {0}")]
    Unreadable(std::io::Error),
    #[error("printed more than {0} bytes")]
    TooMuchOutput(u64),
    #[error("failed ({0}): run it by hand to see why")]
    Failed(ExitStatus),
    #[error("cannot be waited for: {0}")]
    NoStatus(std::io::Error),
}

/// Runs a program to its end, and returns what it has printed: at most so many bytes. It reads nothing, and what it prints as errors is
/// dropped.
///
/// # Errors
/// [`ProgramError`], also when the program itself says that it failed.
pub(crate) async fn output(command: &mut Command, most: u64) -> Result<Vec<u8>, ProgramError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let child = command.spawn();
    let child = child.map_err(|error| ProgramError::NotRun(error.into()))?;
    let mut running = Running { child };
    let stdout = running.child.stdout.take();
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        let mut within = stdout.take(most.saturating_add(1));
        let read = within.read_to_end(&mut output).await;
        read.map_err(ProgramError::Unreadable)?;
    }
    if output.len() as u64 > most {
        return Err(ProgramError::TooMuchOutput(most));
    }
    match running.child.wait().await {
        Ok(status) if status.success() => Ok(output),
        Ok(status) => Err(ProgramError::Failed(status)),
        Err(error) => Err(ProgramError::NoStatus(error)),
    }
}

/// A running program. Dropping it kills its process group.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // `None` once the program was waited for: its process id may belong to another process by now.
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(group) = id.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    async fn script(text: &str) -> Result<Vec<u8>, ProgramError> {
        output(Command::new("sh").args(["-c", text]), 1 << 10).await
    }

    #[tokio::test]
    async fn a_program_gives_what_it_prints_and_no_errors_of_its_own() {
        let printed = script("echo out; echo err >&2").await;
        assert_eq!(printed.unwrap(), b"out\n");
        let failed = script("echo hush; echo hush >&2; exit 3").await;
        let failed = failed.unwrap_err();
        assert!(matches!(failed, ProgramError::Failed(_)), "{failed:?}");
        assert!(!format!("{failed} {failed:?}").contains("hush"));
    }

    #[tokio::test]
    async fn endless_output_ends_at_the_limit() {
        let error = script("yes").await.unwrap_err();
        assert!(
            matches!(error, ProgramError::TooMuchOutput(1024)),
            "{error:?}"
        );
    }

    #[tokio::test]
    async fn a_program_that_is_given_up_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let text = format!(
            "sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait",
            file.display()
        );
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut run = Box::pin(script(&text));
        while !file.exists() {
            assert!(Instant::now() < deadline, "the script has not begun");
            let more = timeout(Duration::from_millis(20), &mut run).await;
            assert!(more.is_err(), "the script has ended: {more:?}");
        }
        drop(run);
        let child = std::fs::read_to_string(file).unwrap();
        let stat = format!("/proc/{}/stat", child.trim());
        let gone = || {
            let status = std::fs::read_to_string(&stat).unwrap_or_default();
            status.is_empty() || status.contains(") Z ")
        };
        while !gone() {
            assert!(Instant::now() < deadline, "{child} still runs");
            tokio::task::yield_now().await;
        }
    }
}

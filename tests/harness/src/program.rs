//! The `windlass` binary as a user runs it. Entry point: [`Program::start`].

mod binary;
mod lines;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

pub use binary::{VARIABLE, binary};
use lines::Lines;
pub use lines::Output;

/// The folder where the programs of tests keep the tokens of their APIs.
#[must_use]
pub fn runtime_folder() -> PathBuf {
    crate::repository().join("target/run")
}

/// A running `windlass`. It is killed when this is dropped; after a panic its whole output is shown.
#[derive(Debug)]
pub struct Program {
    child: Child,
    command: String,
    lines: Lines,
    // Done when both outputs are closed.
    readers: Vec<JoinHandle<()>>,
}

impl Program {
    /// Starts `windlass` with the arguments, in `folder`, with [`runtime_folder`], without colours and without the variables
    /// for kubeconfigs, logs and proxies.
    ///
    /// # Errors
    /// When the binary does not build or start.
    pub fn start<A: AsRef<OsStr>>(
        folder: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        Self::start_with(folder, args, &[])
    }

    /// As [`Program::start`], with more variables.
    ///
    /// # Errors
    /// As [`Program::start`].
    pub fn start_with<A: AsRef<OsStr>>(
        folder: &Path,
        args: impl IntoIterator<Item = A>,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let mut command = Command::new(binary()?);
        command
            .args(args)
            .current_dir(folder)
            .env("NO_COLOR", "1")
            .env("XDG_RUNTIME_DIR", runtime_folder())
            .env_remove("KUBECONFIG")
            .env_remove("WINDLASS_LOG");
        for proxy in ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"] {
            command.env_remove(proxy);
            command.env_remove(proxy.to_lowercase());
        }
        command.envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Starts any command, so that a test can wait for its lines: `kubectl get --watch`, for instance.
    ///
    /// # Errors
    /// When it does not start.
    pub fn spawn(mut command: Command) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let shown = format!("{:?}", command.as_std());
        let mut child = command.spawn().with_context(|| format!("start {shown}"))?;
        let lines = Lines::new();
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(tokio::spawn(lines.clone().collect(Output::Stdout, stdout)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(tokio::spawn(lines.clone().collect(Output::Stderr, stderr)));
        }
        Ok(Self {
            child,
            command: shown,
            lines,
            readers,
        })
    }

    /// Runs `windlass` to its end and returns its exit status and output.
    ///
    /// # Errors
    /// When it does not start, or does not end within `deadline`.
    pub async fn run<A: AsRef<OsStr>>(
        folder: &Path,
        args: impl IntoIterator<Item = A>,
        deadline: Duration,
    ) -> Result<Finished> {
        Self::start(folder, args)?.wait(deadline).await
    }

    /// Waits for a line that contains `pattern`, and returns it. Lines that are already written count too.
    ///
    /// # Errors
    /// When the program ends without such a line, or `deadline` passes; the error shows the whole output.
    pub async fn line_with(&mut self, pattern: &str, deadline: Duration) -> Result<String> {
        self.line_with_from(0, pattern, deadline).await
    }

    /// As [`Program::line_with`], but only lines from number `first` on count; see [`Program::line_count`].
    ///
    /// # Errors
    /// As [`Program::line_with`].
    pub async fn line_with_from(
        &mut self,
        first: usize,
        pattern: &str,
        deadline: Duration,
    ) -> Result<String> {
        let end = Instant::now() + deadline;
        let mut changed = self.lines.changed.subscribe();
        let mut seen = first;
        loop {
            changed.mark_unchanged();
            // Read before the lines: once it is 0, no line follows.
            let open = self.lines.open.load(Ordering::Acquire);
            {
                let all = self.lines.all.lock();
                for (_, line) in all.iter().skip(seen) {
                    if line.contains(pattern) {
                        return Ok(line.clone());
                    }
                }
                seen = seen.max(all.len());
            }
            if open == 0 {
                bail!(
                    "{} ended without a line with {pattern:?}; it wrote\n{}",
                    self.command,
                    self.transcript()
                );
            }
            if timeout_at(end, changed.changed()).await.is_err() {
                bail!(
                    "no line with {pattern:?} within {deadline:?} from {}; it wrote\n{}",
                    self.command,
                    self.transcript()
                );
            }
        }
    }

    /// The number of lines so far: a mark for [`Program::line_with_from`].
    pub fn line_count(&self) -> usize {
        self.lines.all.lock().len()
    }

    /// Everything written so far to one output.
    pub fn written(&self, output: Output) -> String {
        let all = self.lines.all.lock();
        let lines = all.iter().filter(|(from, _)| *from == output);
        lines.map(|(_, line)| format!("{line}\n")).collect()
    }

    /// Sends a signal by name: `TERM`, `INT`, `KILL`, `STOP`, `CONT`.
    ///
    /// # Errors
    /// When the program has ended.
    pub fn signal(&self, name: &str) -> Result<()> {
        let pid = self
            .child
            .id()
            .with_context(|| format!("{} has ended", self.command))?;
        let status = std::process::Command::new("kill")
            .args(["-s", name, &pid.to_string()])
            .status()
            .context("run kill")?;
        if !status.success() {
            bail!("kill -s {name} {pid}: {status}");
        }
        Ok(())
    }

    /// The process id; `None` once its end was seen.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// When it does not end within `deadline`; the error shows the whole output.
    pub async fn wait(mut self, deadline: Duration) -> Result<Finished> {
        let Ok(status) = timeout(deadline, self.child.wait()).await else {
            bail!(
                "{} did not end within {deadline:?}; it wrote\n{}",
                self.command,
                self.transcript()
            );
        };
        for reader in std::mem::take(&mut self.readers) {
            // A grandchild may keep the output open: its later lines do not belong to the program.
            drop(timeout(Duration::from_secs(5), reader).await);
        }
        Ok(Finished {
            status: status.context("wait for windlass")?,
            stdout: self.written(Output::Stdout),
            stderr: self.written(Output::Stderr),
        })
    }

    fn transcript(&self) -> String {
        let all = self.lines.all.lock();
        all.iter()
            .map(|(_, line)| format!("  | {line}\n"))
            .collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} wrote\n{}", self.command, self.transcript());
        }
    }
}

/// The exit status and output of a program.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Finished {
    /// Its exit code; `None` after a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns itself if the exit code was `code`.
    ///
    /// # Errors
    /// When it ended otherwise; the error shows the whole output.
    pub fn expect_code(self, code: i32) -> Result<Self> {
        if self.code() != Some(code) {
            bail!(
                "windlass ended with {} instead of {code}\nstdout:\n{}\nstderr:\n{}",
                self.status,
                self.stdout,
                self.stderr
            );
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program::spawn(command).unwrap()
    }

    #[tokio::test]
    async fn finds_a_line_while_the_program_runs() {
        let mut program = shell("echo first; echo second >&2; exec sleep 1000");
        assert_eq!(program.line_with("eco", SOON).await.unwrap(), "second");
        assert_eq!(program.line_with("fir", SOON).await.unwrap(), "first");
        program.signal("TERM").unwrap();
        assert_eq!(program.wait(SOON).await.unwrap().code(), None);
    }

    #[tokio::test]
    async fn looks_only_behind_a_mark() {
        let mut program = shell("echo ready 1; read -r _ </dev/null; echo ready 2");
        let first = program.line_with("ready 1", SOON).await.unwrap();
        assert_eq!(first, "ready 1");
        assert_eq!(
            program.line_with_from(1, "ready", SOON).await.unwrap(),
            "ready 2"
        );
    }

    #[tokio::test]
    async fn does_not_wait_for_a_line_of_a_program_that_ended() {
        let mut program = shell("echo only");
        let error = program
            .line_with("other", Duration::from_secs(3600))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("| only"), "{error}");
    }

    #[tokio::test]
    async fn tells_the_outputs_and_the_code_apart() {
        let finished = shell("echo out; echo err >&2; exit 3")
            .wait(SOON)
            .await
            .unwrap();
        let finished = finished.expect_code(3).unwrap();
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(finished.expect_code(0).is_err());
    }
}

//! A server process that cannot outlive the test. Entry point: [`Process::spawn`].

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

/// Runs its arguments until they end or its stdin is closed. The system closes stdin even when the test process is killed.
const SUPERVISOR: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
{ cat <&3 >/dev/null; kill -9 "$child"; } 2>/dev/null &
watcher=$!
exec 3<&-
wait "$child"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"#;

/// The size of the part of a log that is shown, in bytes.
const TAIL: i64 = 6_000;

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    supervisor: Child,
    // Closing it kills the server.
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts the program; its output is appended to the file `log`.
    pub(super) fn spawn(program: &Path, args: &[String], log: &Path) -> Result<Self> {
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("open {}", log.display()))?;
        let errors = output
            .try_clone()
            .context("share the log between stdout and stderr")?;
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let lifeline = supervisor.stdin.take();
        Ok(Self {
            supervisor,
            lifeline,
            log: log.to_path_buf(),
        })
    }

    /// True if the server has ended by itself.
    pub(super) fn ended(&mut self) -> bool {
        matches!(self.supervisor.try_wait(), Ok(Some(_)) | Err(_))
    }

    /// The server's resident memory, in bytes. Only Linux tells it.
    pub(super) fn resident(&self) -> Result<usize> {
        let supervisor = self.supervisor.id();
        let file = format!("/proc/{supervisor}/task/{supervisor}/children");
        let children = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
        // The supervisor starts the server before its own watcher.
        let server = children.split_ascii_whitespace().next();
        crate::footprint::resident(server.context("the server has ended")?)
    }

    /// The end of its log.
    pub(super) fn log_tail(&self) -> String {
        tail(&self.log).unwrap_or_else(|error| format!("(no log: {error})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        drop(self.supervisor.wait());
    }
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = i64::try_from(file.metadata()?.len()).unwrap_or(i64::MAX);
    file.seek(SeekFrom::End(-length.min(TAIL)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str, log: &Path) -> Process {
        let args = ["-c".to_owned(), text.to_owned()];
        Process::spawn(Path::new("/bin/sh"), &args, log).unwrap()
    }

    fn alive(pid: &str) -> bool {
        Command::new("kill")
            .args(["-0", pid])
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    async fn first_line(log: &Path) -> String {
        crate::eventually(
            std::time::Duration::from_secs(10),
            "a line in the log",
            || async {
                let text = std::fs::read_to_string(log)?;
                Ok(crate::eventually::Seen::of(
                    text.trim().to_owned(),
                    |line| !line.is_empty(),
                ))
            },
        )
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn a_dropped_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let process = script("trap '' TERM INT; echo $$; exec sleep 1000", &log);
        let pid = first_line(&log).await;
        assert!(alive(&pid));
        drop(process);
        assert!(!alive(&pid));
    }

    #[tokio::test]
    async fn an_ended_process_says_so_and_shows_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut process = script("echo out; echo err >&2; exit 3", &log);
        crate::eventually(std::time::Duration::from_secs(10), "the end", || {
            let ended = process.ended();
            async move { Ok(crate::eventually::Seen::of(ended, |ended| *ended)) }
        })
        .await
        .unwrap();
        assert_eq!(process.log_tail(), "out\nerr\n");
    }
}

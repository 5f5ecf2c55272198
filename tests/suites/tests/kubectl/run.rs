//! A running server and the `kubectl` that talks to it: [`Kubectl`].

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use windlass_apiserver::{Cluster, Server, Verb};
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::testenv::Binaries;

const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Kubectl {
    program: PathBuf,
    folder: TempDir,
    server: Server,
}

impl Kubectl {
    /// Serves one cluster.
    pub(crate) async fn start() -> Result<Self> {
        let program = find()?;
        let server = Server::builder()
            .cluster("alpha")
            .bind("127.0.0.1:0")
            .await?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig())?;
        Ok(Self {
            program,
            folder,
            server,
        })
    }

    pub(crate) fn cluster(&self) -> Cluster {
        #[expect(clippy::expect_used, reason = "started with it")]
        self.server.cluster("alpha").expect("the cluster is served")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn output(&self, mut command: Command, input: &str) -> Result<Output> {
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).await?;
        }
        tokio::time::timeout(DEADLINE, child.wait_with_output())
            .await
            .context("kubectl did not end")?
            .map_err(Into::into)
    }

    /// Runs and returns what was printed.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.output(self.command(arguments), "").await?;
        let text = printed(&output);
        ensure!(output.status.success(), "kubectl {arguments:?}: {text}");
        Ok(text)
    }

    /// Runs, and `wanted` is printed.
    pub(crate) async fn says(&self, arguments: &[&str], wanted: &str) -> Result<()> {
        expect(arguments, &self.run(arguments).await?, wanted)
    }

    /// Runs with `input`, and `wanted` is printed. `diff` may end with 1: there is a difference.
    pub(crate) async fn feeds(&self, arguments: &[&str], input: &str, wanted: &str) -> Result<()> {
        let output = self.output(self.command(arguments), input).await?;
        let text = printed(&output);
        let fine =
            output.status.success() || (arguments[0] == "diff" && output.status.code() == Some(1));
        ensure!(fine, "kubectl {arguments:?}: {text}");
        expect(arguments, &text, wanted)
    }

    /// Fails, saying `wanted`.
    pub(crate) async fn fails(&self, arguments: &[&str], wanted: &str) -> Result<()> {
        self.refuses(arguments, "", wanted).await
    }

    /// Fails over `input`, saying `wanted`.
    pub(crate) async fn refuses(
        &self,
        arguments: &[&str],
        input: &str,
        wanted: &str,
    ) -> Result<()> {
        let output = self.output(self.command(arguments), input).await?;
        let text = printed(&output);
        ensure!(
            !output.status.success(),
            "kubectl {arguments:?} did not fail: {text}"
        );
        expect(arguments, &text, wanted)
    }

    /// Runs with an editor that does what the sed script says.
    pub(crate) async fn edits(&self, arguments: &[&str], script: &str, wanted: &str) -> Result<()> {
        let editor = self.folder.path().join("editor");
        std::fs::write(
            &editor,
            format!("#!/bin/sh\nexec sed -i '{script}' \"$1\"\n"),
        )?;
        let mut command = self.command(arguments);
        command.env("KUBE_EDITOR", format!("sh {}", editor.display()));
        let output = self.output(command, "").await?;
        expect(arguments, &printed(&output), wanted)
    }

    /// Waits until a watch of `resource` has begun.
    pub(crate) async fn until_watched(&self, resource: &str) -> Result<()> {
        let what = format!("a watch of {resource}");
        let look = || async {
            Ok(Seen::of(
                self.cluster().count(Verb::Watch, resource),
                |count| *count > 0,
            ))
        };
        eventually(DEADLINE, &what, look).await.map(drop)
    }
}

fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn expect(arguments: &[&str], text: &str, wanted: &str) -> Result<()> {
    if !text.contains(wanted) {
        bail!("kubectl {arguments:?} did not print {wanted:?}: {text}");
    }
    Ok(())
}

/// The program, on `PATH` or built with the real servers.
pub(crate) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&path)
        .map(|folder| folder.join("kubectl"))
        .find(|program| program.is_file());
    match known {
        Some(program) => Ok(program),
        None => Ok(Binaries::find()?.kubectl()),
    }
}

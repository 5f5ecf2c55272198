//! The commands of an example's README, run as they are written. Entry point: [`in_memory`].

use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::program::Program;
use windlass_harness::testenv::{self, Binaries};

/// Builds wait for each other.
const BUILD: Duration = Duration::from_secs(600);
/// For all commands of the README.
const COMMANDS: Duration = Duration::from_secs(180);
const SOON: Duration = Duration::from_secs(60);

/// Runs an example under `dev` until it is idle, and then the commands of its README's part `In memory`, of which there are at least
/// `least`. The commands need kubectl, which is there with the real servers.
pub(crate) async fn in_memory(example: &str, least: usize) -> Result<()> {
    let repository = windlass_harness::repository();
    let folder = format!("examples/{example}");
    let dev = ["dev", &folder, "--admin", "127.0.0.1:0"];
    let until_idle = dev.iter().chain(&["--exit-when-idle"]);
    let finished = Program::run(&repository, until_idle, BUILD).await?;
    finished.expect_code(0)?;
    if !testenv::enabled(&format!("the commands of the example {example}")) {
        return Ok(());
    }
    let mut program = Program::start(&repository, dev)?;
    program.line_with("admin endpoints", BUILD).await?;
    let kubectl = Binaries::find()?.kubectl();
    let tools = kubectl.parent().context("a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("set -euxo pipefail\n{}", commands(&folder, least)?);
    let mut bash = Command::new("bash");
    bash.args(["-c", &script])
        .current_dir(&repository)
        .env("PATH", format!("{}:{path}", tools.display()))
        .kill_on_drop(true);
    let output = tokio::time::timeout(COMMANDS, bash.output()).await??;
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// The commands of the part in their order, without those that start the program.
fn commands(folder: &str, least: usize) -> Result<String> {
    let readme = windlass_harness::repository()
        .join(folder)
        .join("README.md");
    let text = fs::read_to_string(readme)?;
    let (_, text) = text
        .split_once("\n## In memory\n")
        .context("the part of the README")?;
    let text = text.split("\n## ").next().unwrap_or_default();
    let commands = text.lines().filter_map(|line| line.strip_prefix("    "));
    let commands: Vec<&str> = commands
        .filter(|line| !line.starts_with("cargo "))
        .collect();
    ensure!(
        commands.len() >= least,
        "commands are indented: {commands:?}"
    );
    Ok(commands.join("\n"))
}

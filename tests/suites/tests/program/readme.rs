//! The commands of a page, run as they are written. Entry points: [`in_memory`] and [`with_kcp`] for the README of an example, [`commands`] and [`bash`].

use crate::examples::USER;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;
use windlass_harness::program::{Program, binary};
use windlass_harness::testenv::{Binaries, Kcp, Server};

/// Builds wait for each other.
const BUILD: Duration = Duration::from_secs(600);
/// For all commands of the README.
const COMMANDS: Duration = Duration::from_secs(400);
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
    let mut program = Program::start(&repository, dev)?;
    program.line_with("admin endpoints", BUILD).await?;
    let commands = commands(&format!("{folder}/README.md"), "In memory", least)?;
    // `dev` runs already.
    let commands = commands.iter().filter(|line| !line.starts_with("cargo "));
    let text: Vec<&str> = commands.map(String::as_str).collect();
    bash(&repository, &text.join("\n"), &[]).await?;
    program.signal("TERM")?;
    program.wait(SOON).await?.expect_code(0)?;
    Ok(())
}

/// Runs the commands of the part `On your own servers` of an example's README in a folder that has the example and the guests, with
/// these files in the variables that the part asks for.
async fn on_servers(example: &str, files: &[(&str, &Path)], least: usize) -> Result<()> {
    let repository = windlass_harness::repository();
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(repository.join("guests"), folder.path().join("guests"))?;
    let own = format!("examples/{example}");
    copy(&repository.join(&own), &folder.path().join(&own))?;
    let asked = commands(&format!("{own}/README.md"), "On your own servers", least)?;
    let given = asked.iter().filter(|line| line.ends_with("=<the file>"));
    ensure!(given.count() == files.len(), "files are given: {asked:?}");
    let commands = asked.iter().filter(|line| !line.ends_with("=<the file>"));
    let commands: Vec<&str> = commands.map(String::as_str).collect();
    // As `cargo run --` does it; `run` has a terminal of its own.
    let cargo = r#"
        cargo() {
          shift 2
          if [[ $1 == run ]]; then
            "$PROGRAM" "$@" --admin 127.0.0.1:0 &
            running=$!
          else
            "$PROGRAM" "$@"
          fi
        }
        trap 'kill $running' EXIT
    "#;
    let text = format!("{cargo}\n{}", commands.join("\n"));
    let program = binary()?;
    let all = files
        .iter()
        .copied()
        .chain([("PROGRAM", program.as_path())]);
    bash(folder.path(), &text, &all.collect::<Vec<_>>()).await
}

/// The same with kcp and one server, named `variable`, of which the program has the credentials of a user without rights.
pub(crate) async fn with_kcp(
    kcp: &Kcp,
    server: &Server,
    example: &str,
    variable: &str,
    least: usize,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let [root, admin, user] = ["root", "admin", "user"].map(|name| folder.path().join(name));
    fs::write(&root, kcp.kubeconfig("root"))?;
    server.write_kubeconfig(&admin)?;
    fs::write(&user, server.kubeconfig_of(USER))?;
    on_servers(
        example,
        &[("KCP", &root), (variable, &admin), ("WINDLASS", &user)],
        least,
    )
    .await
}

/// Copies what the repository has of a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        match entry.file_type()?.is_dir() {
            true if name != ".windlass" => copy(&entry.path(), &to.join(name))?,
            false if entry.path().extension() != Some("kubeconfig".as_ref()) => {
                fs::copy(entry.path(), to.join(name)).map(drop)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Runs commands with bash, to the first one that fails. kubectl is among them.
pub(crate) async fn bash(folder: &Path, commands: &str, variables: &[(&str, &Path)]) -> Result<()> {
    let kubectl = Binaries::find()?.kubectl();
    let tools = kubectl.parent().context("a folder")?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("set -euxo pipefail\n{commands}")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", tools.display()))
        .envs(variables.iter().copied())
        .kill_on_drop(true);
    let output = tokio::time::timeout(COMMANDS, bash.output()).await??;
    ensure!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The commands of a part of a page in their order, at least so many.
pub(crate) fn commands(page: &str, part: &str, least: usize) -> Result<Vec<String>> {
    let text = fs::read_to_string(windlass_harness::repository().join(page))?;
    let (_, text) = text
        .split_once(&format!("\n## {part}\n"))
        .context("the part of the page")?;
    let text = text.split("\n## ").next().unwrap_or_default();
    let commands = text.lines().filter_map(|line| line.strip_prefix("    "));
    let commands: Vec<String> = commands.map(str::to_owned).collect();
    ensure!(
        commands.len() >= least,
        "commands are indented: {commands:?}"
    );
    Ok(commands)
}

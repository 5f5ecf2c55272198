//! An author's path, in time: `new`, `types`, the start of `dev`, saves until the new words are in a cluster, `test`. Entry point: [`measure`].

use crate::figures::spread;
use crate::table::verdict;
use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::Api;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::process::Command;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Output, Program, binary};

/// Saves that are timed.
const SAVES: usize = 7;

/// Toolchains come from registries the first time.
const PATIENCE: Duration = Duration::from_secs(900);

/// The file that greets, and the most seconds that a save may take.
fn of(lang: &str) -> Result<(&'static str, f64)> {
    Ok(match lang {
        "rust" => ("src/lib.rs", 2.0),
        "typescript" => ("src/reconciler.ts", 2.0),
        "javascript" => ("src/reconciler.js", 2.0),
        "c" => ("guest.c", 2.0),
        "go" => ("main.go", 5.0),
        "python" => ("guest.py", 5.0),
        other => bail!("no language {other}"),
    })
}

/// A kind to write types of.
const SHELVES: &str = include_str!("../../tests/program/journey/shelves.yaml");

/// A row: what each step takes, and what of the saves was the build.
pub(crate) async fn measure(lang: &str) -> Result<Vec<String>> {
    let (source, bar) = of(lang)?;
    let outside = tempfile::tempdir()?;
    // Of an earlier measurement: what it has is not made again.
    drop(std::fs::remove_dir_all(kept().join("tools/components")));
    let new = timed(outside.path(), &["new", "demo", "--lang", lang]).await?;
    let folder = outside.path().join("demo");
    std::fs::write(folder.join("shelves.yaml"), SHELVES)?;
    let types = timed(&folder, &["types", "shelves.yaml"]).await?;
    let mut dev = command(
        &folder,
        &["dev", "--admin", "127.0.0.1:0", "--log-format", "json"],
    )?;
    dev.env("XDG_CACHE_HOME", outside.path().join("cache"));
    let began = Instant::now();
    let mut program = Program::spawn(dev)?;
    program.line_with("admin endpoints", PATIENCE).await?;
    let alpha = alpha(&folder).await?;
    greeted(&alpha, "hello").await?;
    let start = began.elapsed().as_secs_f64();

    let path = folder.join(source);
    let text = std::fs::read_to_string(&path)?;
    let mut saves = Vec::new();
    for save in 0..SAVES {
        let word = format!("hello number {save}");
        let edited = text.replace("hello, ", &format!("{word}, "));
        let began = Instant::now();
        std::fs::write(&path, edited)?;
        greeted(&alpha, &word).await?;
        saves.push(began.elapsed().as_secs_f64());
    }
    let builds = seconds(&program.written(Output::Stderr));
    program.signal("TERM")?;
    program.wait(PATIENCE).await?.expect_code(0)?;
    let (middle, least, most) = spread(&saves);
    std::fs::write(&path, text)?;
    let test = timed(&folder, &["test", "--timeout", "900s"]).await?;
    Ok(vec![
        lang.to_owned(),
        format!("{new:.2}"),
        format!("{types:.2}"),
        format!("{start:.1}"),
        format!("{middle:.2}"),
        format!("{least:.2}-{most:.2}"),
        format!("{:.2}", spread(&builds).0),
        format!("{test:.1}"),
        verdict(&format!("{bar} s"), middle <= bar),
    ])
}

/// The seconds that a command takes.
async fn timed(folder: &Path, args: &[&str]) -> Result<f64> {
    let command = command(folder, args)?;
    let began = Instant::now();
    let ended = Program::spawn(command)?.wait(PATIENCE);
    ended.await?.expect_code(0)?;
    Ok(began.elapsed().as_secs_f64())
}

/// The seconds of each build after a save, which the program logs.
fn seconds(log: &str) -> Vec<f64> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = lines.filter(|line| line["message"] == "built");
    built.filter_map(|line| line["seconds"].as_f64()).collect()
}

/// The program as a user's shell runs it, with what toolchains download kept below `target`, as the tests keep it.
fn command(folder: &Path, args: &[&str]) -> Result<Command> {
    let kept = kept();
    let mut command = Command::new(binary()?);
    command
        .args(args)
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .env_remove("WINDLASS_LOG")
        .env("CARGO_TARGET_DIR", kept.join("rust"))
        .env("WINDLASS_TOOLS", kept.join("tools"))
        .env("npm_config_cache", kept.join("npm"))
        .env("npm_config_prefer_offline", "true")
        .env("ZIG_GLOBAL_CACHE_DIR", kept.join("zig"));
    Ok(command)
}

/// Where toolchains keep what they download and build.
fn kept() -> PathBuf {
    windlass_harness::repository().join("target/toolchains")
}

async fn alpha(folder: &Path) -> Result<Api<ConfigMap>> {
    let kubeconfig = Kubeconfig::read_from(folder.join(".windlass/kubeconfig"))?;
    let options = KubeConfigOptions {
        context: Some("alpha".to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(Api::namespaced(Client::try_from(config)?, "default"))
}

/// Waits for the greeting of the seed's object.
async fn greeted(alpha: &Api<ConfigMap>, word: &str) -> Result<()> {
    let expected = format!("{word}, world, from alpha");
    let seen = eventually(PATIENCE, &expected, || async {
        let greeting = alpha.get_opt("crew-greeting").await?;
        let text = greeting.and_then(|map| map.data?.remove("greeting"));
        Ok(Seen::of(text, |text| text.as_ref() == Some(&expected)))
    });
    seen.await.context("the edited guest serves").map(drop)
}

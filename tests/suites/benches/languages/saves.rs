//! An author's path, in time: `new`, `types`, the start of `dev`, saves until the new words are in a cluster, also with the types of many kinds in the
//! project, `test`. Entry point: [`measure`].

use crate::figures::spread;
use crate::table::verdict;
use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::Api;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::process::Command;
use windlass_harness::eventually::{Seen, eventually};
use windlass_harness::program::{Output, Program, binary};
use windlass_harness::testenv::crds;

/// Saves that are timed.
const SAVES: usize = 7;

/// The most seconds of a save with the types of Cluster API's and cert-manager's kinds in the project.
const TYPED: f64 = 10.0;

/// In Rust, what is not used costs no build. A line before which the guest gets a use of the largest kind, and the use.
const USED: [&str; 2] = [
    "        // Reads come from",
    "        if request.key.name.is_empty() {\n            cluster.list::<types::cluster_class::ClusterClass>(&ListOptions::default())?;\n        }\n",
];

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
    let saves = timed_saves(&alpha, &path, &text, "number").await?;
    let before = program.written(Output::Stderr);
    let definitions = crds::files()?;
    let mut args = vec!["types"];
    args.extend(definitions.iter().filter_map(|file| file.to_str()));
    timed(&folder, &args).await?;
    let typed_text = text.replace(USED[0], &format!("{}{}", USED[1], USED[0]));
    ensure!(
        lang != "rust" || typed_text != text,
        "the template has no line {:?} any more: the types would be unused",
        USED[0]
    );
    // The first build compiles the types.
    save(&alpha, &path, &typed_text, "hello with types").await?;
    let typed = timed_saves(&alpha, &path, &typed_text, "typed").await?;
    let builds = seconds(&before);
    program.signal("TERM")?;
    program.wait(PATIENCE).await?.expect_code(0)?;
    let (middle, least, most) = spread(&saves);
    let (typed, ..) = spread(&typed);
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
        format!("{typed:.2}"),
        format!("{test:.1}"),
        verdict(
            &format!("{bar} s, {TYPED} s"),
            middle <= bar && typed <= TYPED,
        ),
    ])
}

/// The seconds of each save, until its word is in the cluster.
async fn timed_saves(
    alpha: &Api<ConfigMap>,
    path: &Path,
    text: &str,
    of: &str,
) -> Result<Vec<f64>> {
    let mut saves = Vec::new();
    for number in 0..SAVES {
        let began = Instant::now();
        save(alpha, path, text, &format!("hello {of} {number}")).await?;
        saves.push(began.elapsed().as_secs_f64());
    }
    Ok(saves)
}

/// Saves a guest that greets with a word, and waits for it.
async fn save(alpha: &Api<ConfigMap>, path: &Path, text: &str, word: &str) -> Result<()> {
    std::fs::write(path, text.replace("hello, ", &format!("{word}, ")))?;
    greeted(alpha, word).await
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

//! `windlass build`: a guest's source into a component. Entry point: [`execute`].

use crate::cli::{BuildArgs, Format};
use crate::dev::builder;
use crate::guests::component;
use crate::output::{Tone, size};
use crate::run::builds::{Builds, Built};
use crate::run::signals::stop_on_signals;
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_author::guest_build;
use windlass_sandbox::{Options, Sandbox};

/// Builds, checks that the result is a component of our world, and prints its path. With `--watch`, repeats this after every save
/// until a signal.
///
/// # Errors
/// When the guest does not build, is not a guest, or the build is interrupted. With `--watch`, only when the watch cannot start.
pub(crate) async fn execute(args: BuildArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let stop = stop_on_signals()?;
    let sandbox = component::small_sandbox(engine)?;
    if args.watch {
        let followed = stop.run_until_cancelled(follow(&args.folder, format, &sandbox));
        return followed.await.unwrap_or(Ok(super::DONE));
    }
    let once = async {
        let start = Instant::now();
        let path = guest_build::build(&args.folder, &builder()).await?;
        print_component(&path, start.elapsed(), format, &sandbox).await
    };
    let Some(built) = stop.run_until_cancelled(once).await else {
        bail!("{}: interrupted", args.folder.display());
    };
    built.map(|()| super::DONE)
}

/// Builds now and after every save. Prints the errors of a build, and continues.
async fn follow(folder: &Path, format: Format, sandbox: &Sandbox) -> Result<ExitCode> {
    let mut builds =
        Builds::start(Arc::new(builder().for_edits(None))).context("watch the source")?;
    guest_build::recognise(folder)?;
    builds.follow([folder.to_owned()].into());
    builds.ask(folder.to_owned());
    loop {
        let Built { took, result, .. } = builds.next().await;
        let printed = match result {
            Ok(path) => print_component(&path, took, format, sandbox).await,
            Err(error) => Err(error),
        };
        if let Err(error) = printed {
            anstream::eprintln!("{} {error:#}", Tone::Bad.paint("error:"));
        }
        if format != Format::Json {
            anstream::println!("{}", Tone::Dim.paint("waiting for a change"));
        }
    }
}

/// Prints the facts about a component, if it is one of our world.
async fn print_component(
    path: &Path,
    took: Duration,
    format: Format,
    sandbox: &Sandbox,
) -> Result<()> {
    let seconds = took.as_secs_f64();
    let component = component::load_into(sandbox, path).await?;
    match format {
        Format::Json => {
            let built = json!({
                "path": path, "bytes": component.size(), "digest": format!("sha256:{}", component.digest()), "seconds": seconds,
            });
            // One line for each build, so that a program can read them one by one.
            anstream::println!("{built}");
        }
        Format::Text | Format::Wide | Format::Markdown => {
            anstream::println!(
                "{} {} ({}, {seconds:.1} s)",
                Tone::Good.paint("built"),
                path.display(),
                size(component.size() as u64)
            );
            anstream::println!("next: windlass check {}", path.display());
        }
    }
    Ok(())
}

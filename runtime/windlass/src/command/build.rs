//! `windlass build`: a guest's source into a component. Entry point: [`execute`].

use crate::cli::{BuildArgs, Format};
use crate::guest_build;
use crate::guests;
use crate::output::{Tone, size};
use crate::watch::{Target, Watch};
use anyhow::{Context, Result};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use windlass_sandbox::{Options, Sandbox};

/// Builds, checks that the result is a component of our world, and tells where it is; with `--watch` again after every save, until a
/// signal.
///
/// # Errors
/// When it does not build or is no guest; when watching, only when that cannot begin.
pub(crate) async fn execute(args: BuildArgs, format: Format, engine: Options) -> Result<ExitCode> {
    let sandbox = guests::small_sandbox(engine)?;
    if args.watch {
        follow(&args.folder, format, &sandbox).await
    } else {
        build(&args.folder, format, &sandbox).await?;
        Ok(super::DONE)
    }
}

/// Builds now and after every save. What does not build is told, and mended by the next save.
async fn follow(folder: &Path, format: Format, sandbox: &Sandbox) -> Result<ExitCode> {
    // Before the first build: what is saved while it runs is not missed.
    let mut watch = Watch::start().context("watch the source")?;
    watch.set([Target::Tree(folder.to_owned())].into());
    guest_build::recognise(folder)?;
    loop {
        if let Err(error) = build(folder, format, sandbox).await {
            anstream::eprintln!("{} {error:#}", Tone::Bad.paint("error:"));
        }
        if format != Format::Json {
            anstream::println!("{}", Tone::Dim.paint("waiting for a change"));
        }
        watch.changed().await;
    }
}

/// One build, told to the end.
async fn build(folder: &Path, format: Format, sandbox: &Sandbox) -> Result<()> {
    let start = Instant::now();
    let path = guest_build::build(folder).await?;
    let seconds = start.elapsed().as_secs_f64();
    let component = guests::load_into(sandbox, &path).await?;
    match format {
        Format::Json => {
            let built = json!({
                "path": path, "bytes": component.size(), "digest": component.digest().to_string(), "seconds": seconds,
            });
            // One line for each build, to be read as it comes.
            anstream::println!("{built}");
        }
        Format::Text | Format::Wide => {
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

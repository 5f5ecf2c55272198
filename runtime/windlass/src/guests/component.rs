//! Components that are looked at and serve nobody: what `build`, `check` and `rbac` ask of them. Entry point: [`inspect`].

use crate::guests::engine;
use crate::output::Tone;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;
use windlass_sandbox::{CustomResource, Inspection, LoadError, Options, Revision, Sandbox};

/// How long people wait without a word.
const MOMENT: Duration = Duration::from_secs(1);

/// What a component needs and offers, asked with this `config` (JSON); with custom resources that are known to be served.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn inspect(
    sandbox: &Sandbox,
    path: &Path,
    config: &str,
    customs: &[CustomResource],
) -> Result<Inspection> {
    let component = load_into(sandbox, path).await?;
    Ok(component.inspect(sandbox, config, customs).await?)
}

/// A sandbox for a call at a time.
///
/// # Errors
/// When the engine cannot be made on this machine.
pub(crate) fn small_sandbox(options: Options) -> Result<Sandbox> {
    engine::start(&Options {
        instances: 1,
        ..options
    })
}

/// A component that fits the contract. Nothing of it has run.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn load_into(sandbox: &Sandbox, path: &Path) -> Result<Revision> {
    let loaded = told_if_slow(sandbox.load(path)).await;
    loaded.map_err(|error| match error {
        LoadError::Read { source, .. } if source.is_not_found() => anyhow::anyhow!(
            "{}: no such file: name a component, or a folder that was built",
            path.display()
        ),
        error => error.into(),
    })
}

/// The load, which is told when it takes a moment: a component that brings its language's engine is compiled for seconds.
async fn told_if_slow<T>(load: impl Future<Output = T>) -> T {
    tokio::pin!(load);
    match tokio::time::timeout(MOMENT, &mut load).await {
        Ok(loaded) => loaded,
        Err(_) => {
            anstream::eprintln!("{}", Tone::Dim.paint("compiling the component"));
            load.await
        }
    }
}

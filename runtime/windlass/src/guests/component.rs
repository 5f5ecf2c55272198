//! Inspects components without serving them, for `build`, `check` and `rbac`. Entry point: [`inspect`].

use crate::guests::engine;
use crate::output::Tone;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;
use windlass_sandbox::{CustomResource, Inspection, LoadError, Options, Revision, Sandbox};

/// A load that takes longer than this is announced.
const MOMENT: Duration = Duration::from_secs(1);

/// Asks a component to describe itself, with this `config` (JSON). `customs` are the custom resources that are known to be served.
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

/// A sandbox for one call at a time.
///
/// # Errors
/// When the engine cannot be made on this machine.
pub(crate) fn small_sandbox(options: Options) -> Result<Sandbox> {
    engine::start(&Options {
        instances: 1,
        ..options
    })
}

/// Loads a component and checks it against the contract. No code of it runs.
///
/// # Errors
/// Why it is no guest, and what to do.
pub(crate) async fn load_into(sandbox: &Sandbox, path: &Path) -> Result<Revision> {
    let compiling = || anstream::eprintln!("{}", Tone::Dim.paint("compiling the component"));
    let loaded = announced_if_slow(sandbox.load(path), compiling).await;
    loaded.map_err(|error| match error {
        LoadError::Read { source, .. } if source.is_not_found() => anyhow::anyhow!(
            "{}: no such file: name a component, or a folder that was built",
            path.display()
        ),
        error => error.into(),
    })
}

/// Waits for a load, and says so if it takes long: a component with a language's engine takes seconds to compile.
pub(crate) async fn announced_if_slow<T>(load: impl Future<Output = T>, say: impl FnOnce()) -> T {
    tokio::pin!(load);
    match tokio::time::timeout(MOMENT, &mut load).await {
        Ok(loaded) => loaded,
        Err(_) => {
            say();
            load.await
        }
    }
}

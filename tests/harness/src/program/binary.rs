//! The `windlass` binary that tests run. Entry point: [`binary`].

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

/// The variable that names an existing binary, so that the test builds none.
pub const VARIABLE: &str = "WINDLASS_BIN";

/// The binary named by [`VARIABLE`], or else the one of this workspace, built once per test process with the profile of the test.
///
/// # Errors
/// When it does not build.
pub fn binary() -> Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if let Some(path) = std::env::var_os(VARIABLE) {
            return Ok(PathBuf::from(path));
        }
        build().map_err(|error| format!("{error:#}"))
    });
    match built {
        Ok(path) => Ok(path.clone()),
        Err(error) => bail!("windlass does not build: {error}"),
    }
}

fn build() -> Result<PathBuf> {
    // A test's binary is in <target>/<profile>/deps.
    let test = std::env::current_exe().context("find the running test")?;
    let folder = test
        .ancestors()
        .nth(2)
        .context("find the profile's folder")?;
    let target = folder.parent().context("find the target folder")?;
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--quiet", "--locked", "--bins", "--target-dir"])
        .arg(target)
        .current_dir(crate::repository());
    if folder.file_name().is_some_and(|name| name == "release") {
        // A bench measures the program as it ships: without the features that tests ask of shared crates.
        cargo.args(["--release", "--package", "windlass"]);
    } else {
        // With fewer packages cargo would select other features, and build all dependencies again.
        cargo.arg("--workspace");
    }
    let output = cargo.output().context("start cargo")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{cargo:?}: {}\n{errors}", output.status);
    }
    Ok(folder.join("windlass"))
}

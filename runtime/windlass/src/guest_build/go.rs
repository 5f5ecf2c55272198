//! Builds guests in Go with the ordinary toolchain. Entry point: [`build`].

use super::BuildError;
use super::componentize::componentize;
use super::settings::Settings;
use super::tool::Tool;
use std::path::{Path, PathBuf};

/// `runtime.sbrk` is reached by a link name, which Go refuses otherwise; without debug information, with names.
const LINKER_FLAGS: &str = "-ldflags=-checklinkname=0 -w";

/// Builds the module in `folder` and returns the component in `work`.
pub(super) async fn build(folder: &Path, work: &Path) -> Result<PathBuf, BuildError> {
    let settings = Settings::own(folder)?;
    let core = work.join("guest.wasm");
    Tool::new("go", folder, "install Go 1.26 or later: https://go.dev/dl/")
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .args([
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            LINKER_FLAGS,
            "-o",
        ])
        .arg(&core)
        .arg(settings.entry.as_deref().unwrap_or("."))
        .run()
        .await?;
    componentize(folder, &core, settings.world).await
}

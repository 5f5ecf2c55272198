//! Builds guests in Python with componentize-py. Entry point: [`build`].

use super::settings::{Settings, read_toml};
use super::tool::{Tool, on_path};
use super::{BuildError, contract, fetched};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const COMPONENTIZER: &str = "componentize-py";
const VERSION: &str = "0.25.1";

/// The module that code begins in when pyproject.toml does not say.
const ENTRY: &str = "guest";

/// The parts of pyproject.toml that matter here.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    tool: Tools,
}

#[derive(Default, Deserialize)]
struct Tools {
    #[serde(default)]
    windlass: Settings,
}

/// Builds the project in `folder` and returns the component in `work`.
pub(super) async fn build(folder: &Path, work: &Path) -> Result<PathBuf, BuildError> {
    let manifest: Manifest = read_toml(&folder.join("pyproject.toml"))?;
    let settings = manifest.tool.windlass;
    let componentizer = componentizer(folder).await?;
    let component = work.join("guest.wasm");
    let mut tool = Tool::new(&componentizer, folder, remedy())
        .args(["--quiet", "--wit-path"])
        .arg(contract::folder(folder)?)
        .args(["--world", settings.world.name(), "componentize"])
        .args(["--python-path", "."]);
    for folder in ["src", "sdk"].map(|name| folder.join(name)) {
        if folder.is_dir() {
            tool = tool.arg("--python-path").arg(folder);
        }
    }
    tool.arg(settings.entry.as_deref().unwrap_or(ENTRY))
        .arg("--output")
        .arg(&component)
        .run()
        .await?;
    Ok(component)
}

/// The one on the PATH if it is of the right version, else one of our own.
async fn componentizer(folder: &Path) -> Result<PathBuf, BuildError> {
    if let Some(found) = on_path(COMPONENTIZER) {
        let told = Tool::new(&found, folder, remedy())
            .arg("--version")
            .ask()
            .await?;
        if told.is_some_and(|told| told.split_whitespace().any(|word| word == VERSION)) {
            return Ok(found);
        }
    }
    let programs = fetched::venv(folder, COMPONENTIZER, VERSION).await?;
    Ok(programs.join(COMPONENTIZER))
}

fn remedy() -> String {
    format!("pip install {COMPONENTIZER}=={VERSION}")
}

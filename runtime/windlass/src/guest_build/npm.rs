//! Builds guests in JavaScript and TypeScript with npm's packages: esbuild makes one module of them, componentize-qjs a component
//! that runs on QuickJS. Entry point: [`build`].

use super::inputs::Inputs;
use super::settings::{Settings, read_json};
use super::tool::Tool;
use super::{BuildError, contract, io_error};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What bundles: needed for TypeScript and for guests of several modules.
const BUNDLER: (&str, &str) = ("esbuild", "0.28.2");
/// What makes the component.
const COMPONENTIZER: (&str, &str) = ("componentize-qjs", "0.4.5");

/// Where code begins when package.json does not say.
const ENTRIES: [&str; 4] = ["src/guest.ts", "src/guest.js", "guest.ts", "guest.js"];

const NODE: &str = "install Node.js 20 or later: https://nodejs.org";

/// The parts of package.json that matter here.
#[derive(Deserialize)]
struct Manifest {
    main: Option<String>,
    #[serde(default)]
    windlass: Settings,
}

/// Builds the package in `folder` and returns the component in `work`.
pub(super) async fn build(folder: &Path, work: &Path) -> Result<PathBuf, BuildError> {
    let manifest: Manifest = read_json(&folder.join("package.json"))?;
    let entry = entry(folder, &manifest)?;
    let typed = [".ts", ".mts", ".tsx"]
        .iter()
        .any(|end| entry.ends_with(end));
    install(folder, work, typed).await?;
    let module = match (typed, find(folder, BUNDLER.0)) {
        (_, Some(bundler)) => bundle(folder, work, &bundler, &entry).await?,
        (true, None) => return Err(missing(folder, BUNDLER)),
        (false, None) => folder.join(&entry),
    };
    let Some(componentizer) = find(folder, COMPONENTIZER.0) else {
        return Err(missing(folder, COMPONENTIZER));
    };
    let (component, wit) = (work.join("guest.wasm"), contract::folder(folder)?);
    let world = manifest.windlass.world.name();
    // The tool makes other bytes of the same each time, which the host would compile anew.
    let inputs = Inputs::new(&[world, &componentizer.to_string_lossy()])
        .path(&folder.join("package.json"))?
        .path(&module)?
        .path(&wit)?;
    if inputs.made(&component) {
        return Ok(component);
    }
    Tool::new(&componentizer, folder, NODE)
        .arg("--wit")
        .arg(wit)
        .args(["--world", world, "--js"])
        .arg(module)
        .args(["--sync", "--minify", "-o"])
        .arg(&component)
        .run()
        .await?;
    inputs.note(&component)?;
    Ok(component)
}

fn entry(folder: &Path, manifest: &Manifest) -> Result<String, BuildError> {
    let named = manifest.windlass.entry.as_ref().or(manifest.main.as_ref());
    let usual = || {
        let mut usual = ENTRIES.iter().filter(|entry| folder.join(entry).is_file());
        usual.next().map(|entry| (*entry).to_owned())
    };
    named.cloned().or_else(usual).ok_or_else(|| BuildError::Settings {
        path: folder.join("package.json"),
        why: format!(
            "there is none of {}: say where the guest begins with \"windlass\": {{\"entry\": \"…\"}}",
            ENTRIES.join(", ")
        ),
    })
}

/// Has npm bring what package.json names, unless it is there: in this folder or, as node finds packages, above it.
async fn install(folder: &Path, work: &Path, typed: bool) -> Result<(), BuildError> {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let wanted = || [read("package.json"), read("package-lock.json")].concat();
    let stamp = work.join("installed");
    let complete =
        find(folder, COMPONENTIZER.0).is_some() && (!typed || find(folder, BUNDLER.0).is_some());
    let own = folder.join("node_modules").is_dir();
    if complete && (!own || std::fs::read(&stamp).is_ok_and(|installed| installed == wanted())) {
        return Ok(());
    }
    Tool::new("npm", folder, NODE)
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
        .run()
        .await?;
    std::fs::write(&stamp, wanted()).map_err(io_error(&stamp))
}

/// A program of an installed package.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = folder.ancestors();
    folders.find_map(|above| {
        Some(above.join("node_modules/.bin").join(name)).filter(|path| path.is_file())
    })
}

/// One module of the guest and all that it imports but the host.
async fn bundle(
    folder: &Path,
    work: &Path,
    bundler: &Path,
    entry: &str,
) -> Result<PathBuf, BuildError> {
    let module = work.join("guest.js");
    let mut outfile = std::ffi::OsString::from("--outfile=");
    outfile.push(&module);
    Tool::new(bundler, folder, NODE)
        .arg(entry)
        .args([
            "--bundle",
            "--format=esm",
            "--platform=neutral",
            "--main-fields=module,main",
            "--external:windlass:*",
            "--log-level=warning",
        ])
        .arg(outfile)
        .run()
        .await?;
    Ok(module)
}

fn missing(folder: &Path, (name, version): (&str, &str)) -> BuildError {
    BuildError::NoTool {
        tool: name.to_owned(),
        folder: folder.to_owned(),
        remedy: format!("npm install --save-dev {name}@{version}"),
    }
}

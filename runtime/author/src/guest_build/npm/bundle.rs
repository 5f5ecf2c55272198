//! One module of a guest and its imports, by esbuild. Entry point: [`Bundler::module`].

use super::NODE;
use crate::guest_build::settings::{World, read_json};
use crate::guest_build::source_lines::SourceLines;
use crate::guest_build::tool::Tool;
use crate::guest_build::{BuildError, io_error};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The interface of the host that only some worlds have.
const FLEET: &str = "windlass:runtime/fleet@";

/// What only a module has, and no function.
const OF_MODULES: &str = "import.meta";

/// The bundler, and what it bundles.
pub(super) struct Bundler<'a> {
    pub(super) program: &'a Path,
    pub(super) guest: &'a Path,
    /// The folder for files of builds.
    pub(super) work: &'a Path,
    /// The file where the guest begins.
    pub(super) entry: &'a str,
}

impl Bundler<'_> {
    /// Bundles the guest and its imports, except the host's, into one module.
    pub(super) async fn module(&self) -> Result<PathBuf, BuildError> {
        let module = self.work.join("guest.js");
        let tool = self.tool("esm", &module);
        tool.arg("--metafile=.windlass/build/guest.json")
            .run()
            .await?;
        let text = with_lines(&module)?;
        std::fs::write(&module, text).map_err(io_error(&module))?;
        Ok(module)
    }

    /// The same as the body of a function with the parameters `module`, `exports` and `require`. None: it cannot be one.
    pub(super) async fn function(&self, module: &Path) -> Result<Option<String>, BuildError> {
        let text = std::fs::read_to_string(module).map_err(io_error(module))?;
        let body = self.work.join("guest.cjs");
        if text.contains(OF_MODULES) || self.tool("cjs", &body).ask().await?.is_none() {
            return Ok(None);
        }
        with_lines(&body).map(Some)
    }

    fn tool(&self, format: &str, out: &Path) -> Tool {
        let mut outfile = OsString::from("--outfile=");
        outfile.push(out.strip_prefix(self.guest).unwrap_or(out));
        Tool::new(self.program, self.guest, NODE)
            .arg(self.entry)
            .args(["--bundle", "--platform=neutral"])
            .arg(format!("--format={format}"))
            .args([
                "--main-fields=module,main",
                "--external:windlass:*",
                "--external:wasi:*",
                "--log-level=warning",
                "--sourcemap=external",
                "--sources-content=false",
            ])
            .arg(outfile)
    }

    /// The guest's world: the chosen one if the guest matches it, or without a choice the one that it matches.
    pub(super) fn world(&self, module: &Path, chosen: Option<World>) -> Result<World, BuildError> {
        let made: Made = read_json(&self.work.join("guest.json"))?;
        let bundle = made.outputs.into_values().next().unwrap_or_default();
        bundle.world(chosen).map_err(|why| BuildError::Component {
            module: module.to_owned(),
            world: chosen.unwrap_or_default(),
            why: why.to_owned(),
        })
    }
}

/// The text of a bundle, with a statement that tells the SDK the lines of its sources.
fn with_lines(bundle: &Path) -> Result<String, BuildError> {
    let text = std::fs::read_to_string(bundle).map_err(io_error(bundle))?;
    let map = std::fs::read(bundle.with_added_extension("map")).unwrap_or_default();
    Ok(match SourceLines::read(&map) {
        Some(lines) => text + &lines.statement(),
        None => text,
    })
}

/// The output description of esbuild.
#[derive(Deserialize)]
struct Made {
    outputs: BTreeMap<String, Bundle>,
}

/// The bundled module: its exports and imports.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Bundle {
    exports: Vec<String>,
    imports: Vec<Import>,
}

#[derive(Deserialize)]
struct Import {
    path: String,
}

impl Bundle {
    fn world(&self, chosen: Option<World>) -> Result<World, &'static str> {
        let exports = |name: &str| self.exports.iter().any(|export| export == name);
        if !exports("reconciler") {
            return Err(
                "it exports no reconciler: export const reconciler = defineReconciler({…})",
            );
        }
        let fleet = self
            .imports
            .iter()
            .any(|import| import.path.starts_with(FLEET));
        let fits = match (fleet, exports("mapper")) {
            (false, false) => World::Reconcile,
            (true, false) => World::FleetReconcile,
            (false, true) => World::MappedReconcile,
            (true, true) => World::MappedFleetReconcile,
        };
        let Some(chosen) = chosen else {
            return Ok(fits);
        };
        if fleet && !chosen.has_fleet() {
            return Err(
                "it imports windlass-sdk/fleet: leave \"world\" out of package.json, and it is built for the world that it fits",
            );
        }
        match (exports("mapper"), chosen.has_mapper()) {
            (false, true) => Err("it exports no mapper: export const mapper = defineMapper(…)"),
            (true, false) => Err(
                "it exports a mapper: leave \"world\" out of package.json, and it is built for the world that it fits",
            ),
            _ => Ok(chosen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_built_for_the_world_that_it_fits() {
        let bundle = |exports: &[&str], import: &str| Bundle {
            exports: exports.iter().map(|name| (*name).to_owned()).collect(),
            imports: vec![Import {
                path: import.to_owned(),
            }],
        };
        let (plain, both) = (
            ["reconciler"].as_slice(),
            ["mapper", "reconciler"].as_slice(),
        );
        let (client, fleet) = (
            "windlass:runtime/client@0.1.0",
            "windlass:runtime/fleet@0.1.0",
        );
        for (exports, import, fits) in [
            (plain, client, World::Reconcile),
            (plain, fleet, World::FleetReconcile),
            (both, client, World::MappedReconcile),
            (both, fleet, World::MappedFleetReconcile),
        ] {
            let bundle = bundle(exports, import);
            assert_eq!(bundle.world(None), Ok(fits));
            assert_eq!(bundle.world(Some(fits)), Ok(fits));
        }
        let more = Some(World::FleetReconcile);
        assert_eq!(bundle(plain, client).world(more), Ok(World::FleetReconcile));
        for (exports, import, chosen, why) in [
            ([].as_slice(), client, None, "no reconciler"),
            (
                plain,
                fleet,
                Some(World::MappedReconcile),
                "windlass-sdk/fleet",
            ),
            (plain, client, Some(World::MappedReconcile), "no mapper"),
            (both, client, Some(World::Reconcile), "a mapper"),
        ] {
            let said = bundle(exports, import).world(chosen).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}

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
const HTTP: &str = "windlass:runtime/http@";

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
        let imports = |interface: &str| {
            self.imports
                .iter()
                .any(|import| import.path.starts_with(interface))
        };
        let fits = World {
            fleet: imports(FLEET),
            mapper: exports("mapper"),
            http: imports(HTTP),
        };
        let Some(chosen) = chosen else {
            return Ok(fits);
        };
        for (imports, has, why) in [
            (
                fits.fleet,
                chosen.fleet,
                "it imports windlass-sdk/fleet: leave \"world\" out of package.json, and it is built for the world that it fits",
            ),
            (
                fits.http,
                chosen.http,
                "it imports windlass-sdk/http: leave \"world\" out of package.json, and it is built for the world that it fits",
            ),
        ] {
            if imports && !has {
                return Err(why);
            }
        }
        match (exports("mapper"), chosen.mapper) {
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
        let (client, fleet, http) = (
            "windlass:runtime/client@0.1.0",
            "windlass:runtime/fleet@0.1.0",
            "windlass:runtime/http@0.1.0",
        );
        let world = |name: &str| World::try_from(name.to_owned()).unwrap();
        for (exports, import, fits) in [
            (plain, client, world("reconcile")),
            (plain, fleet, world("fleet-reconcile")),
            (both, client, world("mapped-reconcile")),
            (both, fleet, world("mapped-fleet-reconcile")),
            (plain, http, world("http-reconcile")),
        ] {
            let bundle = bundle(exports, import);
            assert_eq!(bundle.world(None), Ok(fits));
            assert_eq!(bundle.world(Some(fits)), Ok(fits));
        }
        let more = Some(world("fleet-reconcile"));
        assert_eq!(
            bundle(plain, client).world(more),
            Ok(world("fleet-reconcile"))
        );
        for (exports, import, chosen, why) in [
            ([].as_slice(), client, None, "no reconciler"),
            (
                plain,
                fleet,
                Some(world("mapped-reconcile")),
                "windlass-sdk/fleet",
            ),
            (plain, http, Some(world("reconcile")), "windlass-sdk/http"),
            (plain, client, Some(world("mapped-reconcile")), "no mapper"),
            (both, client, Some(world("reconcile")), "a mapper"),
        ] {
            let said = bundle(exports, import).world(chosen).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}

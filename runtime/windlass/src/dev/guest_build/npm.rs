//! Builds guests in JavaScript and TypeScript with packages of npm: esbuild makes one module, and componentize-qjs makes a component
//! that runs on QuickJS. Entry point: [`build`].

use super::components::Components;
use super::inputs::Inputs;
use super::settings::{self, World, check_entry, read_json};
use super::source::Source;
use super::source_lines::SourceLines;
use super::tool::Tool;
use super::{BuildError, WORK, contract, io_error};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The tool that bundles a guest, its packages and the SDK into one module.
const BUNDLER: (&str, &str) = ("esbuild", "0.28.2");
/// The tool that makes the component.
const COMPONENTIZER: (&str, &str) = ("componentize-qjs", "0.4.5");

/// How the tools are used: in another way they may make another component of the same source.
const RECIPE: &str = include_str!("npm.rs");

/// The entry files to try if package.json names none.
pub(super) const ENTRIES: [&str; 4] = ["src/guest.ts", "src/guest.js", "guest.ts", "guest.js"];

/// Other package managers by their lock files. The build does not change packages that they installed.
const OTHERS: [(&str, &str); 4] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
];

/// What says how types are checked: in TypeScript, or as comments in JavaScript.
const TYPES: [&str; 2] = ["tsconfig.json", "jsconfig.json"];

/// The lock file of npm.
const OWN: &str = "package-lock.json";

const NODE: &str = "install Node.js 20 or later: https://nodejs.org";

/// The interface of the host that only some worlds have.
const FLEET: &str = "windlass:runtime/fleet@";

/// The parts of package.json that matter here.
#[derive(Default, Deserialize)]
struct Manifest {
    main: Option<String>,
    #[serde(default)]
    windlass: Settings,
}

/// Its `windlass`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// `None`: the world that matches the guest's imports and exports.
    world: Option<World>,
    /// The file where its code begins, if it is not a usual one.
    entry: Option<String>,
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

/// Builds a guest and returns the component in `work`.
pub(super) async fn build(
    source: &Source,
    work: &Path,
    known: &Components,
) -> Result<PathBuf, BuildError> {
    let (guest, package) = (&source.guest, &source.package);
    let package_json = package.join("package.json");
    // What it says of the entry and the world is for the guest in its own folder.
    let manifest: Manifest = match source.is_part() {
        true => Manifest::default(),
        false => read_json(&package_json)?,
    };
    settings::Settings::of(
        guest,
        "JavaScript",
        &[],
        "package.json has it, as \"windlass\": {…}",
    )?;
    let entry = entry(guest, &manifest)?;
    check_entry(&entry, &package_json)?;
    install(package, &package.join(WORK)).await?;
    let (bundler, componentizer) = (tool(guest, BUNDLER)?, tool(guest, COMPONENTIZER)?);
    // Both at once: each takes as long as the other.
    let (component, ()) = tokio::try_join!(
        component(
            source,
            work,
            &entry,
            manifest.windlass.world,
            [&bundler, &componentizer],
            known
        ),
        check_types(source, work)
    )?;
    Ok(component)
}

/// Bundles the guest, and makes a component of the bundle unless it is that of the last build.
async fn component(
    source: &Source,
    work: &Path,
    entry: &str,
    world: Option<World>,
    [bundler, componentizer]: [&Path; 2],
    known: &Components,
) -> Result<PathBuf, BuildError> {
    let (guest, package) = (&source.guest, &source.package);
    let module = bundle(guest, work, bundler, entry).await?;
    let (component, wit) = (work.join("guest.wasm"), contract::folder(package)?);
    let world = fitting(&module, &work.join("guest.json"), world)?.name();
    let inputs = Inputs::new(&[RECIPE, world])
        .path(&package_of(componentizer, COMPONENTIZER.0))?
        .path(&package.join("package.json"))?
        .path(&module)?
        .path(&wit)?;
    if known.restore(&inputs, &component)? {
        return Ok(component);
    }
    // Not minified: readable stack traces are worth one percent of size.
    Tool::new(componentizer, guest, NODE)
        .arg("--wit")
        .arg(wit)
        .args(["--world", world, "--js"])
        .arg(module)
        .args(["--sync", "-o"])
        .arg(&component)
        .run()
        .await?;
    known.keep(&inputs, &component)?;
    Ok(component)
}

/// The folder of a tool's package, which says its version: it is beside the folder of programs.
fn package_of(program: &Path, name: &str) -> PathBuf {
    let package = program.ancestors().nth(2).map(|modules| modules.join(name));
    package
        .filter(|folder| folder.is_dir())
        .unwrap_or_else(|| program.to_owned())
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

/// Runs npm to install the packages of package.json, unless node finds them in this folder or above it. With another
/// manager, they must be installed already.
async fn install(folder: &Path, work: &Path) -> Result<(), BuildError> {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap_or_default();
    let wanted = || [read("package.json"), read(OWN)].concat();
    let stamp = work.join("installed");
    let complete = [BUNDLER, COMPONENTIZER]
        .iter()
        .all(|(name, _)| find(folder, name).is_some());
    let other = other_manager(folder);
    if let (Some(manager), false) = (other, complete) {
        return Err(BuildError::NoTool {
            tool: format!("{} or {}", BUNDLER.0, COMPONENTIZER.0),
            folder: folder.to_owned(),
            remedy: format!("{manager} install"),
        });
    }
    let own = folder.join("node_modules").is_dir() && other.is_none();
    if complete && (!own || std::fs::read(&stamp).is_ok_and(|installed| installed == wanted())) {
        return Ok(());
    }
    Tool::new("npm", folder, NODE)
        .args(["install", "--no-audit", "--no-fund", "--loglevel=error"])
        .run()
        .await?;
    std::fs::write(&stamp, wanted()).map_err(io_error(&stamp))
}

/// The other manager that installs this package, alone or as a part of a workspace around it. Where the folder is a link, also of a workspace
/// around what it leads to.
fn other_manager(folder: &Path) -> Option<&'static str> {
    let real = folder.canonicalize().ok().filter(|real| real != folder);
    other_manager_above(folder).or_else(|| other_manager_above(&real?))
}

fn other_manager_above(folder: &Path) -> Option<&'static str> {
    for above in folder.ancestors() {
        let has = |name: &str| above.join(name).exists();
        let other = OTHERS.iter().find(|(lock, _)| has(lock));
        if let Some((_, manager)) = other.filter(|_| above == folder || is_workspace(above)) {
            return Some(manager);
        }
        if has(OWN) || has(".git") {
            return None;
        }
    }
    None
}

/// Whether this folder is a workspace, which may contain packages.
fn is_workspace(folder: &Path) -> bool {
    let manifest = || read_json::<serde_json::Value>(&folder.join("package.json")).ok();
    folder.join("pnpm-workspace.yaml").is_file()
        || manifest().is_some_and(|manifest| manifest.get("workspaces").is_some())
}

/// A program of an installed package, above the path of the folder or, where that is a link, above what it leads to.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let mut folders = folder.ancestors().chain(real.ancestors());
    folders.find_map(|above| {
        Some(above.join("node_modules/.bin").join(name)).filter(|path| path.is_file())
    })
}

/// Checks the types of a guest or package that says how, if the compiler of TypeScript is installed. It keeps in `work` what it knows of files
/// that do not change. esbuild only leaves types out.
async fn check_types(source: &Source, work: &Path) -> Result<(), BuildError> {
    let folders = [&source.guest, &source.package];
    let mut configured = TYPES
        .iter()
        .flat_map(|name| folders.map(|folder| (folder, name)));
    let Some((folder, name)) = configured.find(|(folder, name)| folder.join(name).is_file()) else {
        return Ok(());
    };
    let Some(compiler) = find(folder, "tsc") else {
        return Ok(());
    };
    let known = work.join("types.json");
    Tool::new(&compiler, folder, NODE)
        .args(["--noEmit", "--incremental", "--project", name])
        .arg("--tsBuildInfoFile")
        .arg(known.strip_prefix(folder).unwrap_or(&known))
        .run()
        .await
}

/// Bundles the guest and its imports, except the host's, into one module.
async fn bundle(
    folder: &Path,
    work: &Path,
    bundler: &Path,
    entry: &str,
) -> Result<PathBuf, BuildError> {
    let module = work.join("guest.js");
    let mut outfile = std::ffi::OsString::from("--outfile=");
    outfile.push(module.strip_prefix(folder).unwrap_or(&module));
    Tool::new(bundler, folder, NODE)
        .arg(entry)
        .args([
            "--bundle",
            "--format=esm",
            "--platform=neutral",
            "--main-fields=module,main",
            "--external:windlass:*",
            "--log-level=warning",
            "--metafile=.windlass/build/guest.json",
            "--sourcemap=external",
            "--sources-content=false",
        ])
        .arg(outfile)
        .run()
        .await?;
    let map = std::fs::read(module.with_extension("js.map")).unwrap_or_default();
    if let Some(lines) = SourceLines::read(&map) {
        let bundled = std::fs::read_to_string(&module).map_err(io_error(&module))?;
        let told = bundled + &lines.statement();
        std::fs::write(&module, told).map_err(io_error(&module))?;
    }
    Ok(module)
}

/// The guest's world: the chosen one if the guest matches it, or without a choice the one that it matches.
fn fitting(module: &Path, made: &Path, chosen: Option<World>) -> Result<World, BuildError> {
    let made: Made = read_json(made)?;
    let bundle = made.outputs.into_values().next().unwrap_or_default();
    bundle.world(chosen).map_err(|why| BuildError::Component {
        module: module.to_owned(),
        world: chosen.unwrap_or_default(),
        why: why.to_owned(),
    })
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

fn tool(folder: &Path, (name, version): (&str, &str)) -> Result<PathBuf, BuildError> {
    find(folder, name).ok_or_else(|| BuildError::NoTool {
        tool: name.to_owned(),
        folder: folder.to_owned(),
        remedy: format!("npm install --save-dev {name}@{version}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn entry_of(folder: &Path, manifest: &str) -> Result<String, String> {
        let manifest = serde_json::from_str(manifest).unwrap();
        entry(folder, &manifest).map_err(|error| error.to_string())
    }

    #[test]
    fn a_guest_begins_where_package_json_says_or_where_guests_do() {
        let folder = tempfile::tempdir().unwrap();
        let said = entry_of(folder.path(), "{}").unwrap_err();
        assert!(
            said.contains("package.json") && said.contains("src/guest.ts"),
            "{said}"
        );
        put(folder.path(), "guest.js", "");
        assert_eq!(entry_of(folder.path(), "{}").unwrap(), "guest.js");
        let main = r#"{"main": "src/main.ts"}"#;
        assert_eq!(entry_of(folder.path(), main).unwrap(), "src/main.ts");
        let both = r#"{"main": "dist/main.js", "windlass": {"entry": "src/main.ts"}}"#;
        assert_eq!(entry_of(folder.path(), both).unwrap(), "src/main.ts");
    }

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

    #[tokio::test]
    async fn what_another_package_manager_installed_is_left_to_it() {
        let guest = tempfile::tempdir().unwrap();
        let folder = guest.path();
        put(folder, "package.json", "{}");
        put(folder, "pnpm-lock.yaml", "");
        let said = install(folder, folder).await.unwrap_err().to_string();
        assert!(said.contains("pnpm install"), "{said}");
        put(folder, "node_modules/.bin/esbuild", "");
        put(folder, "node_modules/.bin/componentize-qjs", "");
        install(folder, folder).await.unwrap();
        assert!(!folder.join("package-lock.json").exists());
        assert!(!folder.join("installed").exists());
    }

    #[test]
    fn a_package_of_another_managers_workspace_is_left_to_it() {
        for (lock, manager) in OTHERS {
            let workspace = tempfile::tempdir().unwrap();
            let guest = workspace.path().join("guests/one");
            put(&guest, "package.json", "{}");
            put(workspace.path(), lock, "");
            assert_eq!(other_manager(&guest), None, "{lock} beside no workspace");
            let (name, text) = match manager {
                "pnpm" => ("pnpm-workspace.yaml", "packages: [\"guests/*\"]"),
                _ => ("package.json", r#"{"workspaces": ["guests/*"]}"#),
            };
            put(workspace.path(), name, text);
            assert_eq!(other_manager(&guest), Some(manager), "{lock}");
            put(&guest, OWN, "{}");
            assert_eq!(other_manager(&guest), None, "npm's own is nearer");
        }
        let guest = tempfile::tempdir().unwrap();
        put(guest.path(), "bun.lockb", "");
        assert_eq!(other_manager(guest.path()), Some("bun"));
    }

    #[test]
    fn tools_are_found_where_node_finds_packages() {
        let workspace = tempfile::tempdir().unwrap();
        let guest = workspace.path().join("guests/one");
        std::fs::create_dir_all(&guest).unwrap();
        let said = tool(&guest, BUNDLER).unwrap_err().to_string();
        assert!(
            said.contains("npm install --save-dev esbuild@0.28.2"),
            "{said}"
        );
        put(workspace.path(), "node_modules/.bin/esbuild", "");
        let above = workspace.path().join("node_modules/.bin/esbuild");
        assert_eq!(tool(&guest, BUNDLER).unwrap(), above);
        put(&guest, "node_modules/.bin/esbuild", "");
        assert!(tool(&guest, BUNDLER).unwrap().starts_with(&guest));
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("linked");
        std::fs::create_dir(workspace.path().join("plain")).unwrap();
        std::os::unix::fs::symlink(workspace.path().join("plain"), &link).unwrap();
        assert_eq!(tool(&link, BUNDLER).unwrap(), above);
        put(workspace.path(), "pnpm-lock.yaml", "");
        put(workspace.path(), "pnpm-workspace.yaml", "");
        assert_eq!(other_manager(&link), Some("pnpm"));
    }
}

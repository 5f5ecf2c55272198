//! Builds guests in JavaScript and TypeScript with packages of npm: esbuild makes one module, and componentize-qjs makes a component
//! that runs on QuickJS. Entry point: [`build`].

mod base;
mod bundle;
mod wit;

use super::components::Components;
use super::inputs::Inputs;
use super::settings::{self, World, check_entry, read_json};
use super::source::Source;
use super::tool::Tool;
use super::{Bases, BuildError, WORK, io_error};
use base::Base;
use bundle::Bundler;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The tool that bundles a guest, its packages and the SDK into one module.
const BUNDLER: (&str, &str) = ("esbuild", "0.28.2");
/// The tool that makes the component.
const COMPONENTIZER: (&str, &str) = ("componentize-qjs", "0.4.5");

/// How the tools are used: in another way they may make another component of the same source.
const RECIPE: [&str; 2] = [include_str!("npm.rs"), include_str!("npm/bundle.rs")];

/// The entry files to try if package.json names none.
pub(super) const ENTRIES: [&str; 4] = ["src/guest.ts", "src/guest.js", "guest.ts", "guest.js"];

/// Other package managers by their lock files. The build does not change packages that they installed.
const OTHERS: [(&str, &str); 4] = [
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
];

/// The package of the compiler that checks types.
const TYPESCRIPT: &str = "typescript";

/// How types in comments are checked. Packages without types are not the author's to correct.
const COMMENTS: [&str; 4] = ["--project", "jsconfig.json", "--maxNodeModuleJsDepth", "0"];

/// The lock file of npm.
const OWN: &str = "package-lock.json";

const NODE: &str = "install Node.js 20 or later: https://nodejs.org";

/// The parts of package.json that matter here.
#[derive(Default, Deserialize)]
struct Manifest {
    main: Option<String>,
    #[serde(default)]
    windlass: Settings,
    /// The packages that it asks for, by name.
    #[serde(default)]
    dependencies: serde_json::Value,
    #[serde(default, rename = "devDependencies")]
    dev_dependencies: serde_json::Value,
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

/// Builds a guest and returns the component in `work`. With `bases` it makes it of a base, if it can.
pub(super) async fn build(
    source: &Source,
    work: &Path,
    known: &Components,
    bases: Option<&dyn Bases>,
) -> Result<PathBuf, BuildError> {
    let (guest, package) = (&source.guest, &source.package);
    let package_json = package.join("package.json");
    // What it says of the entry and the world is for the guest in its own folder.
    let manifest: Manifest = if source.is_part() {
        Manifest::default()
    } else {
        read_json(&package_json)?
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
    let bundler = Bundler {
        program: &bundler,
        guest,
        work,
        entry: &entry,
    };
    let make = async {
        let module = bundler.module().await?;
        let world = bundler.world(&module, manifest.windlass.world)?;
        let componentizer = Componentizer {
            program: &componentizer,
            source,
            wit: wit::folder(package, work, world)?,
            world,
        };
        if let Some(bases) = bases {
            let base = Base {
                bundler: &bundler,
                componentizer: &componentizer,
            };
            if let Some(made) = base.make(bases, &module).await? {
                return Ok(made);
            }
        }
        let component = work.join("guest.wasm");
        let inputs = componentizer.inputs(&RECIPE)?.path(&module)?;
        if !known.restore(&inputs, &component)? {
            componentizer.tool(&module, &component).run().await?;
            known.keep(&inputs, &component)?;
        }
        Ok(component)
    };
    // Both at once: each takes as long as the other.
    let (component, ()) = tokio::try_join!(make, check_types(source, work))?;
    Ok(component)
}

/// The tool that makes components, and what is the same for each of a guest.
struct Componentizer<'a> {
    program: &'a Path,
    source: &'a Source,
    wit: PathBuf,
    world: World,
}

impl Componentizer<'_> {
    /// What it makes a component of, beside a module.
    fn inputs(&self, recipe: &[&str]) -> Result<Inputs, BuildError> {
        let words = [recipe, &[self.world.name()]].concat();
        Inputs::new(&words)
            .path(&package_of(self.program, COMPONENTIZER.0))?
            .path(&self.source.package.join("package.json"))?
            .path(&self.wit)
    }

    /// Makes a component of a module. It is not minified: readable stack traces are worth one percent of size.
    fn tool(&self, module: &Path, component: &Path) -> Tool {
        Tool::new(self.program, &self.source.guest, NODE)
            .arg("--wit")
            .arg(&self.wit)
            .args(["--world", wit::WORLD, "--js"])
            .arg(module)
            .args(["--sync", "-o"])
            .arg(component)
    }
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
    let Some((folder, settings)) = type_settings(source)? else {
        return Ok(());
    };
    let Some(compiler) = find(folder, "tsc") else {
        return Ok(());
    };
    let known = work.join("types.json");
    Tool::new(&compiler, folder, NODE)
        .args(["--noEmit", "--incremental"])
        .args(settings)
        .arg("--tsBuildInfoFile")
        .arg(known.strip_prefix(folder).unwrap_or(&known))
        .run()
        .await
}

/// The folder of the settings by which types are checked, and the arguments that name them. A jsconfig.json is often for an editor alone: it
/// counts if it has `checkJs` and the package asks for the compiler.
fn type_settings(source: &Source) -> Result<Option<(&Path, &'static [&'static str])>, BuildError> {
    for folder in [&source.guest, &source.package] {
        if folder.join("tsconfig.json").is_file() {
            return Ok(Some((folder, &["--project", "tsconfig.json"])));
        }
        let comments = std::fs::read_to_string(folder.join("jsconfig.json"));
        if comments.is_ok_and(|text| text.contains("checkJs")) {
            let manifest: Manifest = read_json(&source.package.join("package.json"))?;
            let asked = [&manifest.dependencies, &manifest.dev_dependencies];
            let is_asked_for = asked.iter().any(|of| of.get(TYPESCRIPT).is_some());
            return Ok(is_asked_for.then_some((folder, &COMMENTS)));
        }
    }
    Ok(None)
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
